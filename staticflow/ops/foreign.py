"""Lists, arrays and numbers where tensors are wanted: one error that says so.

Nothing is checked before a function runs. Where one fails since a value has not what tensors have,
the value is looked for among the arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache, wraps
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from staticflow.errors import DTypeError, StaticflowError
from staticflow.graph.locs import format_locs, here

__all__ = ["refuse_foreign", "refuses_foreign", "refuses_foreign_in", "refuses_foreign_of"]

F = TypeVar("F", bound=Callable[..., Any])

_FOREIGN = (list, tuple, np.ndarray, np.generic, bool, int, float, str, type(None))
_DATA = (list, tuple, np.ndarray)


def refuse_foreign(fn: Any, name: str, error: Exception, args: Any, kwargs: Any) -> None:
    """Raise a `DTypeError` if ``error`` came of an argument of ``fn``, known as ``name``, that is
    no tensor; else return."""
    if isinstance(error, StaticflowError):
        return
    for argument, value in _arguments(fn, args, kwargs):
        if isinstance(error, AttributeError):
            alike = isinstance(value, np.ndarray) and type(error.obj) is type(value)
            wrong = isinstance(value, _FOREIGN) and (value is error.obj or alike)
        else:  # of which nothing says whose it is
            wrong = isinstance(value, _DATA)
        if wrong:
            what = "wrap data with sf.tensor(...) or sf.from_numpy(...)"
            raise DTypeError(
                f"{name}: {argument!r} must be a tensor, not {type(value).__name__}; "
                f"{what if isinstance(value, _DATA) else 'give a tensor'}, "
                f"at {format_locs(here())}"
            ) from None
        if not isinstance(error, AttributeError):
            return


def _arguments(fn: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, Any]]:
    """The arguments of a call by name, and what is in those that are several."""
    try:
        given = inspect.signature(fn).bind(*args, **kwargs).arguments
    except TypeError:  # too few or too many
        return
    for name, value in given.items():
        yield from _within(name, value)


def _within(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield name, value
    if isinstance(value, list | tuple):
        for i, v in enumerate(value):
            yield from _within(f"{name}[{i}]", v)


@cache  # so that what has two names stays one function
def refuses_foreign(fn: F) -> F:
    """``fn`` with that error."""

    @wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except (AttributeError, TypeError) as error:
            refuse_foreign(fn, fn.__name__, error, args, kwargs)
            raise

    return called  # type: ignore[return-value]


_ROOMS = ("staticflow.ops.", "staticflow.nn.functional.", "staticflow.special")


def _is_plain(fn: Any) -> bool:
    """Whether ``fn`` is a function of ops without one of the wrappers that have that error."""
    is_function = type(fn) is FunctionType and fn.__module__.startswith(_ROOMS)
    return is_function and not hasattr(fn, "__wrapped__")


def refuses_foreign_in(names: dict[str, Any]) -> None:
    """Give the public functions of ops among the ``names`` of a package that error."""
    for name in names.get("__all__", list(names)):
        if _is_plain(names[name]):
            names[name] = refuses_foreign(names[name])


def refuses_foreign_of(methods: type) -> None:
    """Give the methods that take further tensors that error; products do without a frame more."""
    for name, fn in list(vars(methods).items()):
        if _is_plain(fn) and not name.startswith("_") and not fn.__module__.endswith("contract"):
            further = list(inspect.signature(fn).parameters.values())[1:]
            if any(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in further):
                setattr(methods, name, refuses_foreign(fn))
