"""Functions, written in ops, that the eager mode runs as one operation.

In a graph such a function is the ops that it comes to. On tensors it is one program, and one
vertex of the tape whose backward is another, where each op would be a pass over the memory and a
vertex of its own; or a program that writes where it reads (`staticflow.eager.fused`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from staticflow.data_classes import dataclass
from staticflow.ops.declaring.eager_side import eager

__all__ = ["FUSED", "Fused", "fused", "in_place"]

F = TypeVar("F", bound=Callable[..., Any])
Form = Callable[..., Any]


@dataclass(slots=True)
class Fused:
    """A function as it was written, and the ``form`` in which it is called, made when it is first
    called."""

    written: Form
    form: Form | None = None


FUSED: list[Fused] = []
"""All of them."""


def fused(
    grad_name: str, only_large: bool = False, attends: bool = False, any_order: bool = False
) -> Callable[[F], F]:
    """``fn(*args)`` of tensors, symbols and hashable values, that gives a tensor or a tuple of
    them, which may be a named one, and of the tensors asks shapes and dtypes only.

    It is called by position, has no state, closes over no tensor, and takes its operands as they
    are inside `autocast`, too. Sizes other than 1 are
    unknown to it as a rule, and what it checks of them it checks before anything is computed. If it
    is fused ``only_large``, small tensors go through its ops, which other calls have compiled. One
    that ``attends`` never has the weights of its attention in memory, forward or backward. What
    one gives in ``any_order``, if it has no dims or is computed by element, does not depend on the
    order of the dims of its tensors: large ones are taken as they lie.
    """

    def mark(fn: F) -> F:
        marked = Fused(fn)

        @wraps(fn)
        def call(*args: Any) -> Any:
            form = marked.form
            if form is None:
                form = marked.form = eager.fused(fn, grad_name, only_large, attends, any_order)
            return form(*args)

        FUSED.append(marked)
        return cast("F", call)

    return mark


def in_place(fn: Form, count: int, by_element: bool) -> Callable[..., Callable[..., bool]]:
    """What puts ``fn(*tensors)``, new values of the first ``count`` of them, in their place, as one
    program, outside the tape. It is called with the last tensors, which many calls have alike,
    and gives a function of the others, which says False, with nothing done, where there is none.

    ``by_element``: what ``fn`` gives for an element depends on that of each tensor and on numbers,
    tensors of 0 dims, so that the dims do not matter.
    """
    return eager.in_place(fn, count, by_element)
