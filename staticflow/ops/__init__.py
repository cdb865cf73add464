"""Every operation, declared once: documentation, type rule, reference, derivative and lowering."""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from dataclasses import fields
from types import ModuleType
from typing import Any

from staticflow.graph.node import constant, item, param
from staticflow.graph.op import Op
from staticflow.graph.reals import Real
from staticflow.ops import (
    activation,
    advanced,
    arithmetic,
    average_pool,
    axes,
    bessel,
    bits,
    border,
    budget,
    class_losses,
    compare,
    cond_op,
    contract,
    convolution,
    correlate,
    creation,
    cumulative,
    custom,
    expand,
    extremes,
    factors,
    floats,
    gamma,
    indexing,
    joining,
    late,
    loop,
    losses,
    masked,
    maths,
    moments,
    normalization,
    order,
    pairs,
    patches,
    pooling,
    printing,
    products,
    random,
    ranks,
    real_sizes,
    recurrence,
    reduce,
    required,
    resample,
    scatter,
    search,
    slicing,
    softmax,
    solving,
    special,
    strided,
    triangle,
    trig,
    view,
)

__all__ = ["OPS"]

_ROOMS: tuple[ModuleType, ...] = (
    arithmetic, maths, trig, special, gamma, bessel, bits, floats, pairs, compare, activation,
    random, creation, reduce, extremes, recurrence, cumulative, moments, order, ranks, search,
    view, expand, axes, strided, slicing, joining, contract, products, indexing, advanced,
    masked, scatter, triangle, softmax, losses, class_losses, solving, factors, loop, late,
    cond_op, budget, custom, correlate, convolution, pooling, average_pool, border, patches,
    required, resample, normalization, printing,
)  # fmt: skip

OPS: dict[str, Op] = {
    op.name: op
    for room in _ROOMS
    for op in vars(room).values()
    if isinstance(op, Op) and op not in (param, constant, item)
}
"""Every op by name: what the parser of the text form and the tests go through."""

_ALL = OPS | {op.name: op for op in (param, constant, item)}


def op_named(name: str) -> Op:
    """The op of that name: what a copy of it is, and what a pickled one is read as."""
    return _ALL[name]


def _reduced(op: Op) -> tuple[Callable[..., Op], tuple[Any, ...]]:
    if _ALL.get(op.name) is op:
        return op_named, (op.name,)
    return Op, tuple(getattr(op, f.name) for f in fields(Op))  # which a user has made


copyreg.pickle(Op, _reduced)
Real.number, Real.ufunc = real_sizes.number_of_size, real_sizes.ufunc_of_sizes
