"""Whether operations are recorded: a switch for each thread."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["enable_grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]

F = TypeVar("F", bound=Callable[..., Any])


class _State(threading.local):
    enabled = True


state = _State()


def is_grad_enabled() -> bool:
    """Whether operations of this thread are recorded for backward."""
    return state.enabled


class set_grad_enabled:
    """Record (or do not record) inside a ``with`` block, or from the call on.

    >>> with set_grad_enabled(False):
    ...     is_grad_enabled()
    False
    """

    def __init__(self, enabled: bool) -> None:
        self._wanted = enabled
        self._before = [state.enabled]
        state.enabled = enabled

    def __enter__(self) -> set_grad_enabled:
        return self

    def __exit__(self, *_: object) -> None:
        state.enabled = self._before.pop()


class _Block:
    """A ``with`` block or decorator that sets the switch to ``wanted``."""

    wanted = True

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(state.enabled)
        state.enabled = self.wanted

    def __exit__(self, *_: object) -> None:
        state.enabled = self._before.pop()

    def __call__(self, fn: F) -> F:
        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with type(self)():
                return fn(*args, **kwargs)

        return wrapper  # type: ignore[return-value]


class no_grad(_Block):
    """A block, or decorated function, whose operations are not recorded."""

    wanted = False


class enable_grad(_Block):
    """A block, or decorated function, whose operations are recorded."""

    wanted = True
