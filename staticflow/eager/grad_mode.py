"""Whether operations are recorded: a switch for each thread."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from typing import Any, Self, TypeVar, cast, overload

from staticflow.errors import DTypeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.declaring.thread import thread

__all__ = ["decorate", "enable_grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]

F = TypeVar("F", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Whether operations of this thread are recorded for backward."""
    return thread.state.recording


class _Block:
    """A ``with`` block or decorator that sets the switch to ``wanted``. ``before`` is what it was,
    and what it was before the block was entered last.

    The end of a block calls nothing: an error that a signal raises comes between two calls, and
    would leave the switch as it is in the block.
    """

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._before: tuple[Any, ...] = ()

    def __enter__(self) -> Any:
        self._before = thread.state.recording, self._before
        thread.state.recording = self._wanted

    def __exit__(self, *_: object) -> None:
        thread.state.recording, self._before = self._before

    def __call__(self, fn: F) -> F:
        return decorate(fn, lambda: _Block(self._wanted))


def decorate(fn: F, block: Callable[[], Any]) -> F:
    """``fn``, a function or a generator, run in a ``with`` block that ``block()`` makes."""
    if not callable(fn):
        raise DTypeError(
            f"what is decorated must be a function, not {type(fn).__name__}; as a block it is "
            f"written with brackets, with no_grad(): ..., at {format_locs(here())}"
        )
    around = _generator if inspect.isgeneratorfunction(fn) else _function
    return cast("F", functools.wraps(fn)(around(fn, block)))


def _function(fn: Callable[..., Any], block: Callable[[], Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with block():
            return fn(*args, **kwargs)

    return wrapper


def _generator(fn: Callable[..., Any], block: Callable[[], Any]) -> Callable[..., Any]:
    """The switch is set while the generator runs, not while its caller does."""

    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        inner = fn(*args, **kwargs)
        sent = None
        while True:
            with block():
                try:
                    value = inner.send(sent)
                except StopIteration as end:
                    return end.value
            sent = yield value

    return wrapper


@overload
def no_grad(fn: None = None) -> _Block: ...


@overload
def no_grad(fn: F) -> F: ...


def no_grad(fn: F | None = None) -> _Block | F:
    """A ``with`` block or decorator whose operations are not recorded: ``with sf.no_grad():``,
    ``@sf.no_grad()`` or ``@sf.no_grad``."""
    return _Block(False) if fn is None else _Block(False)(fn)


@overload
def enable_grad(fn: None = None) -> _Block: ...


@overload
def enable_grad(fn: F) -> F: ...


def enable_grad(fn: F | None = None) -> _Block | F:
    """A ``with`` block or decorator whose operations are recorded, also inside `no_grad`."""
    return _Block(True) if fn is None else _Block(True)(fn)


class set_grad_enabled(_Block):
    """Record (or do not record) inside a ``with`` block or decorated function, or from the call on.

    >>> with set_grad_enabled(False):
    ...     is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__(as_bool("set_grad_enabled: 'mode'", mode))
        self._is_entered = False
        super().__enter__()

    def __enter__(self) -> Self:
        if self._is_entered:
            super().__enter__()  # a block again: the first began with the call
        self._is_entered = True
        return self

    def __call__(self, fn: F) -> F:
        """The function with the switch set while it runs."""
        thread.state.recording, self._before = self._before  # it was not meant from the call on
        self._is_entered = True
        return super().__call__(fn)
