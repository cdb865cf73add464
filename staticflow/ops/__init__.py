"""Every operation, declared once: documentation, type rule, reference, derivative and lowering."""

from __future__ import annotations

from types import ModuleType

from staticflow.graph.node import constant, item, param
from staticflow.graph.op import Op
from staticflow.ops import (
    arithmetic,
    contract,
    creation,
    indexing,
    maths,
    reduce,
    scan,
    slicing,
    softmax,
    view,
)

__all__ = ["OPS"]

_ROOMS: tuple[ModuleType, ...] = (
    arithmetic, maths, creation, reduce, view, slicing, contract, indexing, softmax, scan,
)  # fmt: skip

OPS: dict[str, Op] = {
    op.name: op
    for room in _ROOMS
    for op in vars(room).values()
    if isinstance(op, Op) and op not in (param, constant, item)
}
"""Every op by name: what the parser of the text form and the tests go through."""
