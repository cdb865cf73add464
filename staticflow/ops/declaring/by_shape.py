"""Functions of tensors that look at their shapes and dtypes only.

Which ops such a function comes to, and with which attributes, follows from these, from the strides
and from its further arguments, so the eager mode may remember it (`staticflow.eager.fast.plans`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from staticflow.data_classes import dataclass
from staticflow.graph.out import into
from staticflow.ops.declaring.foreign import refuses_foreign

__all__ = ["BY_SHAPE", "REMEMBERING", "Marked", "by_shape", "remember_by"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Marked:
    """A function as it was written, and the ``form`` in which it is called."""

    written: Callable[..., Any]
    form: Callable[..., Any]


class _Remembering:
    """``form(fn)`` gives the function by which calls of ``fn`` are remembered; None as long as
    there is no native code. The modules of layers are imported when a program first asks for them,
    perhaps later: what they declare gets its form at once."""

    __slots__ = ("form",)

    def __init__(self) -> None:
        self.form: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None


REMEMBERING = _Remembering()


def remember_by(form: Callable[[Callable[..., Any]], Callable[..., Any]] | None) -> None:
    """Let a form remember the calls of functions that are declared from now on, if there is one."""
    REMEMBERING.form = form


BY_SHAPE: dict[Callable[..., Any], Marked] = {}
"""All of them, by what their names stand for."""


def by_shape(fn: F) -> F:
    """``fn``, which asks of tensors, and lists of them, among its arguments only shape, dtype and
    strides. Its further arguments are numbers, strings, dtypes, None and tuples of them."""
    worded = refuses_foreign(fn)
    marked = Marked(fn, worded)
    if REMEMBERING.form is not None:
        marked.form = REMEMBERING.form(worded)

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            return into(fn.__name__, worded, args, kwargs)
        return marked.form(*args, **kwargs)

    BY_SHAPE[call] = marked
    return cast("F", call)
