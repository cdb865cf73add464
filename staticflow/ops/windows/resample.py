"""Sums of a few elements, each with a weight, along a dim: what resizing images and reading them at
given positions come to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Size, same
from staticflow.graph.dtypes import int64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.basics.reduce import sum as total_of
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.declaring.array_modules import combine_at
from staticflow.ops.declaring.declare import strict
from staticflow.ops.declaring.lowering import LoopNest

__all__ = ["resample_op", "unresample_op"]


def _fit(
    facts: Facts,
    x: TensorType,
    index: TensorType,
    weights: Sequence[TensorType],
    count: int,
    size: Size,
) -> None:
    if count < 1:
        raise ShapeError(f"takes a sum of one element at least, not of {count}")
    if x.ndim != 4 or index.ndim != 3 or index.dtype is not int64 or x.dtype.kind == "b":
        raise ShapeError(f"takes numbers of 4 dims and int64 of 3, not {x} and {index}")
    if not same(index.shape[2], 0):  # then there is no position
        facts.at_least(size, 1, "the size of the dim in which the positions are")
    if index.shape[0] != 1:
        facts.equal(x.shape[0], index.shape[0], f"the batches of {x} and of {index}")
    facts.equal(
        index.shape[1], count if weights else 1, f"the elements that {index} names and {count}"
    )
    for weight in weights:
        if weight.dtype is not x.dtype:
            raise DTypeError(f"the weights are {weight.dtype} and the elements {x.dtype}")
        for n, m in zip(index.shape, weight.shape, strict=True):
            facts.equal(n, m, f"the sizes of {index} and of its weights {weight}")


def _positions(nest: Any, b: Size, p: Size) -> list[tuple[Size, Any]]:
    """Where the elements of position ``p`` are, and their weights, None if there are none. What
    lies outside, which interpolation never asks for, is the nearest inside."""
    k, size = nest.k, nest.attrs.get("size", nest.in_shape(0)[2])
    last = k.index_value(size - 1)
    first = 0 if nest.in_shape(1)[0] == 1 else b
    return [
        (
            k.bind(k.maximum(k.minimum(nest.load(1, (first, i, p)), last), 0), "at"),
            nest.load(2, (first, i, p)) if nest.n_in > 2 else None,
        )
        for i in range(nest.attrs["count"])
    ]


def _behind(shape: Shape) -> Shape:
    """The last dim if there is more than one element in it."""
    return () if shape[3] == 1 else shape[3:]


def _weigh(k: Any, value: Any, weight: Any) -> Any:
    return value if weight is None else k.mul(value, weight)


def _weight_ct(y: Any, x: Any, index: Any, count: int) -> Any:
    """The cotangent of the weights between ``x`` (B, C, S, R) and ``y`` (B, C, P, R)."""
    batch, _, positions = index.shape
    found = resample_op(x, reshape(index, (batch, 1, count * positions)), count=1)
    found = reshape(found, (*x.shape[:2], count, positions, x.shape[3]))
    total = total_of(found * unsqueeze(y, 2), (1, 4))
    return total_of(total, 0, keepdim=True) if same(batch, 1) else total


# -- elements read ------------------------------------------------------------------------------


def _infer(
    facts: Facts, x: TensorType, index: TensorType, *weights: TensorType, count: int
) -> TensorType:
    _fit(facts, x, index, weights, count, x.shape[2])
    return TensorType(x.dtype, (*x.shape[:2], index.shape[2], x.shape[3]))


def _reference(xp: Any, x: Any, index: Any, *weights: Any, count: int) -> Any:
    total: Any = None
    for i in range(count):
        part = x[_key(xp, x, index, i)]  # (B, P, C, R)
        part = part * weights[0][:, i, :, None, None] if weights else part
        total = part if total is None else total + part
    return xp.ascontiguousarray(xp.moveaxis(total, 1, 2))


def _key(xp: Any, x: Any, index: Any, i: int) -> Any:
    at = xp.clip(index[:, i], 0, x.shape[2] - 1) if index.size else index[:, i]
    return xp.arange(x.shape[0])[:, None], slice(None), at


def _emit(nest: Any) -> None:
    k, shape = nest.k, nest.out_shape(0)
    with nest.loops(shape[:3], "parallel") as (b, c, p):
        positions = _positions(nest, b, p)
        with nest.loops(_behind(shape), "parallel") as behind:
            r, total = behind or (0,), None
            for at, weight in positions:
                part = _weigh(k, nest.load(0, (b, c, at, *r)), weight)
                total = part if total is None else k.add(total, part)
            nest.store(0, (b, c, p, *r), total)


def _vjp(
    needs: Sequence[bool], ct: Any, out: Any, x: Any, index: Any, *weights: Any, count: int
) -> list[Any]:
    size = x.shape[2]
    back = unresample_op(ct, index, *weights, count=count, size=size) if needs[0] else None
    return [back, None, *(_weight_ct(ct, x, index, count) if n else None for n in needs[2:])]


resample_op: Op = Op(
    name="resample",
    doc="``out[b, c, p, r] = sum_k weight[b, k, p] * x[b, c, index[b, k, p], r]``; the batch of "
    "``index`` may be 1. There are ``count`` k, and weights unless it is one. Positions "
    "outside are the nearest inside.",
    infer=_infer,
    reference=strict(_infer, _reference),
    vjp=_vjp,
    lowering=LoopNest(_emit),
    numpy="slower",
    grad_name="UpsampleBilinear2DBackward0",
)


# -- elements added -----------------------------------------------------------------------------


def _back_infer(
    facts: Facts, y: TensorType, index: TensorType, *weights: TensorType, count: int, size: Size
) -> TensorType:
    _fit(facts, y, index, weights, count, size)
    facts.equal(y.shape[2], index.shape[2], f"the elements of {y} and the positions {index}")
    return TensorType(y.dtype, (*y.shape[:2], size, y.shape[3]))


def _back_reference(xp: Any, y: Any, index: Any, *weights: Any, count: int, size: int) -> Any:
    out = xp.zeros((*y.shape[:2], size, y.shape[3]), y.dtype)
    for i in range(count):
        part = xp.moveaxis(y, 2, 1)  # (B, P, C, R)
        part = part * weights[0][:, i, :, None, None] if weights else part
        combine_at(xp, "add", out, _key(xp, out, index, i), part)
    return out


def _back_emit(nest: Any) -> None:
    k, shape = nest.k, nest.out_shape(0)
    zero = k.const(0, nest.out_type(0).dtype)
    with nest.loops(shape[:2], "parallel") as (b, c):
        with nest.loops(shape[2:], "parallel") as at:
            nest.store(0, (b, c, *at), zero)
        with nest.loops(nest.in_shape(1)[2:], "serial") as (p,):  # in order: positions may repeat
            for at, weight in _positions(nest, b, p):
                with nest.loops(_behind(shape), "parallel") as behind:
                    position = (b, c, at, *(behind or (0,)))
                    part = _weigh(k, nest.load(0, (b, c, p, *(behind or (0,)))), weight)
                    nest.store(0, position, k.add(nest.load_out(0, position), part))


def _back_vjp(
    needs: Sequence[bool],
    ct: Any,
    out: Any,
    y: Any,
    index: Any,
    *weights: Any,
    count: int,
    size: Size,
) -> list[Any]:
    read = resample_op(ct, index, *weights, count=count) if needs[0] else None
    return [read, None, *(_weight_ct(y, ct, index, count) if n else None for n in needs[2:])]


unresample_op: Op = Op(
    name="unresample",
    doc="The transpose of resample: zeros of ``size`` positions with each element added where it "
    "was read, times its weight.",
    infer=_back_infer,
    reference=strict(_back_infer, _back_reference),
    vjp=_back_vjp,
    lowering=LoopNest(_back_emit),
    numpy="slower",
    grad_name="UpsampleBilinear2DBackwardBackward0",
)
