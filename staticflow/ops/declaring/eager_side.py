"""What the eager mode gives to the ops, which are written without it.

The class of tensors is made last, of all that is below it. What ops and the parts of the eager mode
need of it, or of each other, stands in one object, `eager`, that is installed once, as that class
is made; before that, each attribute is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from staticflow.data_classes import dataclass

__all__ = ["EagerSide", "eager", "install"]

Form = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class EagerSide:
    """The parts of the eager mode that are asked for from below.

    - ``tensor`` is the class of tensors, ``mode`` their mode.
    - ``prepare()`` compiles the fast path and gives the functions of ops.
    - ``wrap`` makes an array a tensor.
    - ``copy`` gives a clone of a tensor for a loop to begin with.
    - ``protect`` gives a view through which nothing can be changed.
    - ``own`` takes a list that alone holds its tensors and gives copies of those whose memory
      somebody else has, and the others as they are.
    - ``versions`` tells how often the memory of each of some tensors was changed in place.
    - ``expression`` gives the symbol of a tensor with a history.
    - ``fused(fn, grad_name, only_large, attends, any_order)`` and ``in_place(fn, count,
      by_element)`` are the forms of `staticflow.ops.declaring.fused`.
    - ``copy_saved(changes)`` copies what the tape has saved of tensors that are about to take other
      values, of pairs of both.
    - ``step_rows(table, step)`` puts ``step(rows, gradients)`` in the place of the rows of a
      parameter that have a gradient, where that is kept by rows, and tells whether it did.
    - ``prints`` is the count of prints, an int64 tensor of no dims.
    """

    tensor: Any
    mode: Any
    prepare: Callable[[], Mapping[Any, Any]]
    wrap: Callable[[Any], Any]
    copy: Callable[[Any], Any]
    protect: Callable[[Any], Any]
    own: Callable[[list[Any]], list[Any]]
    versions: Callable[[Sequence[Any]], list[int]]
    expression: Callable[[Any], Any]
    fused: Callable[[Form, str, bool, bool, bool], Form]
    in_place: Callable[[Form, int, bool], Callable[..., Callable[..., bool]]]
    copy_saved: Callable[[Sequence[tuple[Any, Any]]], None]
    step_rows: Callable[[Any, Callable[[Any, Any], Any]], bool]
    prints: Any


eager: EagerSide = object.__new__(EagerSide)
"""The eager mode, as soon as it is installed."""


def install(side: EagerSide) -> None:
    """Let `eager` have the parts of ``side``. Raises `RuntimeError` if it has some already."""
    if hasattr(eager, "tensor"):
        raise RuntimeError("the eager mode is installed already; a process has one")
    for part in fields(EagerSide):
        object.__setattr__(eager, part.name, getattr(side, part.name))
