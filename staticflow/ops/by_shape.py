"""Functions of tensors that look at their shapes and dtypes only.

Which ops such a function comes to, and with which attributes, follows from these and from its
further arguments, so the eager mode may remember it (`staticflow.eager.remembered`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, cast

__all__ = ["BY_SHAPE", "Marked", "by_shape", "by_shapes", "give_forms"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Marked:
    """A function as it was written, whether ``several`` of its arguments are tensors, and the
    ``form`` in which it is called."""

    plain: Callable[..., Any]
    several: bool
    form: Callable[..., Any]


BY_SHAPE: dict[Callable[..., Any], Marked] = {}
"""All of them, by what their names stand for."""

_makers: list[Callable[[Marked], Callable[..., Any]]] = []


def give_forms(make: Callable[[Marked], Callable[..., Any]]) -> None:
    """Let the form of each function of `BY_SHAPE`, also of those to come, be what ``make`` gives of
    it."""
    _makers.append(make)
    for marked in BY_SHAPE.values():
        marked.form = make(marked)


def by_shape(fn: F) -> F:
    """``fn(x, *args, **kwargs)``, of which only shape and dtype of ``x`` are asked, and whose
    further arguments are ints, bools, dtypes, None and tuples of them."""
    return _marked(fn, several=False)


def by_shapes(fn: F) -> F:
    """``fn(*args, **kwargs)``, of whose arguments several are tensors, or lists of them; only their
    shapes and dtypes are asked, and the others are such as in `by_shape`."""
    return _marked(fn, several=True)


def _marked(fn: F, several: bool) -> F:
    marked = Marked(fn, several, fn)

    @wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        return marked.form(*args, **kwargs)

    for make in _makers:
        marked.form = make(marked)
    BY_SHAPE[called] = marked
    return cast("F", called)
