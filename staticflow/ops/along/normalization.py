"""Normalisation: what has mean 0 and variance 1 over some dims, scaled and shifted.

The ops differ in the dims that statistics are taken over, and in those that have a weight:

- ``layer_norm``: statistics over the last dims, a weight for each element of them;
- ``batch_norm``: over all dims but the channels (dim 1), a weight for each channel;
- ``group_norm``: over groups of channels and space, a weight for each channel.

16-bit floats are normalised in 32 bits and rounded once; their weight and bias may be of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Size, prod
from staticflow.graph.dtypes import float32
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.basics.arithmetic import stop_gradient
from staticflow.ops.basics.reduce import mean_op, narrow_as, sum_op, widen
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.declare import strict
from staticflow.ops.elementwise.maths import rsqrt

__all__ = [
    "batch_norm_op", "batch_statistics", "group_norm_op", "instance_statistics", "layer_norm_op",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a tensor is normalised: seen as of ``shape``, with as few dims as can be, over ``dims``
    of that. The weight and the bias are of ``weight``, are seen as of ``broadcast``, and shared
    along ``shared``."""

    shape: Shape
    dims: tuple[int, ...]
    weight: Shape
    broadcast: Shape
    shared: tuple[int, ...]


LayoutOf = Callable[..., _Layout]
"""``layout(shape, **attrs)``, for a tensor of ``shape``."""


def _reference(layout_of: LayoutOf) -> Callable[..., Any]:
    def reference(xp: Any, x: Any, *affine: Any, eps: float, **attrs: Any) -> Any:
        layout = layout_of(x.shape, **attrs)
        kind = xp.float32 if x.dtype.itemsize == 2 else x.dtype
        seen = x.astype(kind).reshape(layout.shape)
        centred = seen - mean_op.reference(xp, seen, dims=layout.dims, keepdim=True)
        var = mean_op.reference(xp, centred * centred, dims=layout.dims, keepdim=True)
        out = centred / xp.sqrt(var + eps)
        for i, a in enumerate(affine):
            a = a.astype(kind).reshape(layout.broadcast)
            out = out + a if i else out * a
        return out.reshape(x.shape).astype(x.dtype, copy=False)

    return reference


def _moments(seen: Any, layout: _Layout) -> tuple[Any, Any, Any]:
    """The mean, what differs from it, and the mean of the squares of that."""
    mean = mean_op(seen, dims=layout.dims, keepdim=True)
    centred = seen - mean
    return mean, centred, mean_op(centred * centred, dims=layout.dims, keepdim=True)


def _standard(seen: Any, layout: _Layout, eps: float) -> tuple[Any, Any]:
    """Mean 0 and variance 1, and what the centred tensor was scaled by for that."""
    _, centred, variance = _moments(seen, layout)
    scale = rsqrt(variance + eps)
    return centred * scale, scale


def _decompose(layout_of: LayoutOf) -> Callable[..., Any]:
    def decompose(x: Any, *affine: Any, eps: float, **attrs: Any) -> Any:
        layout = layout_of(x.shape, **attrs)
        out, _ = _standard(reshape(widen(x), layout.shape), layout, eps)
        for i, a in enumerate(affine):
            a = reshape(widen(a), layout.broadcast)
            out = out + a if i else out * a
        return narrow_as(reshape(out, x.shape), x)

    return decompose


def _vjp(layout_of: LayoutOf) -> Callable[..., Sequence[Any]]:
    """The vjp of a normalisation: with z the standardised x and s its scale, ``dz = w ct`` and
    ``dx = s (dz - mean(dz) - z mean(dz z))``."""

    def vjp(
        needs: Sequence[bool], ct: Any, out: Any, x: Any, *affine: Any, eps: float, **attrs: Any
    ) -> list[Any]:
        layout = layout_of(x.shape, **attrs)
        z, scale = _standard(reshape(widen(x), layout.shape), layout, eps)
        seen = reshape(widen(ct), layout.shape)
        found: list[Any] = [None] * len(needs)
        if needs[0]:
            dz = seen * reshape(widen(affine[0]), layout.broadcast) if affine else seen
            mean, tilt = (mean_op(v, dims=layout.dims, keepdim=True) for v in (dz, dz * z))
            found[0] = narrow_as(reshape((dz - mean - z * tilt) * scale, x.shape), x)
        for i, a in enumerate(affine, start=1):
            if needs[i]:
                part = sum_op(seen * z if i == 1 else seen, dims=layout.shared, keepdim=True)
                found[i] = narrow_as(reshape(part, a.shape), a)
        return found

    return vjp


def _infer(layout_of: LayoutOf) -> Callable[..., TensorType]:
    def infer(
        facts: Facts, x: TensorType, *affine: TensorType, eps: float, **attrs: Any
    ) -> TensorType:
        if not x.dtype.is_floating:
            raise DTypeError(f"not defined for {x.dtype.name}; cast to a floating dtype")
        layout = layout_of(x.shape, **attrs)
        for a in affine:
            if a.dtype is not x.dtype and not (x.dtype.bits == 16 and a.dtype is float32):
                raise DTypeError(f"the input is {x.dtype} and the weight or bias {a.dtype}")
            if a.ndim != len(layout.weight):
                raise ShapeError(f"takes a weight and bias of {list(layout.weight)}, not {a}")
            for n, m in zip(a.shape, layout.weight, strict=True):
                facts.equal(
                    n, m, f"the sizes of the weight or bias {a} and the last ones of the input {x}"
                )
        return x

    return infer


def _norm_op(name: str, doc: str, layout_of: LayoutOf) -> Op:
    infer = _infer(layout_of)
    return Op(
        name=name,
        doc=doc,
        infer=infer,
        reference=strict(infer, _reference(layout_of)),
        vjp=_vjp(layout_of),
        decompose=_decompose(layout_of),
        numpy="small",
        grad_name=f"Native{name.title().replace('_', '')}Backward0",
    )


def _by_layer(shape: Shape, *, ndim: int) -> _Layout:
    if ndim > len(shape):
        raise ShapeError(f"takes an input of {ndim} dims at least, not of shape {list(shape)}")
    own = shape[len(shape) - ndim :]
    seen = (prod(shape[: len(shape) - ndim]), prod(own))
    return _Layout(seen, (1,), own, seen[1:], (0,))


def _channels(shape: Shape) -> Size:
    if len(shape) < 2:
        raise ShapeError(f"takes an input (N, C, ...), not of shape {list(shape)}")
    return shape[1]


def _by_batch(shape: Shape) -> _Layout:
    c = _channels(shape)
    if len(shape) == 2:
        return _Layout(shape, (0,), (c,), (c,), (0,))
    return _Layout((shape[0], c, prod(shape[2:])), (0, 2), (c,), (c, 1), (0, 2))


def _by_group(shape: Shape, *, groups: int) -> _Layout:
    c = _channels(shape)
    if isinstance(groups, int) and (groups < 1 or (isinstance(c, int) and c % groups)):
        raise ShapeError(f"{c} channels cannot be put into {groups} equal groups")
    each = c // groups
    seen = (shape[0], groups, each, prod(shape[2:]))
    return _Layout(seen, (2, 3), (c,), (groups, each, 1), (0, 3))


def _statistics(x: Any, layout: _Layout) -> tuple[Any, Any]:
    """The mean and the unbiased variance of what is normalised together, in 32 bits at least and
    without a gradient."""
    mean, _, variance = _moments(reshape(widen(x), layout.shape), layout)
    count = prod(layout.shape[d] for d in layout.dims)
    kept = tuple(n for d, n in enumerate(layout.shape) if d not in layout.dims)
    unbiased = variance * count / (count - 1)
    return stop_gradient(reshape(mean, kept)), stop_gradient(reshape(unbiased, kept))


def batch_statistics(x: Any) -> tuple[Any, Any]:
    """The mean and the unbiased variance (C,) of each channel of ``x`` (N, C, ...), in 32 bits at
    least and without a gradient."""
    return _statistics(x, _by_batch(x.shape))


def instance_statistics(x: Any) -> tuple[Any, Any]:
    """Mean and variance (N, C) of each channel of each n."""
    return _statistics(x, _by_group(x.shape, groups=x.shape[1]))


layer_norm_op = _norm_op(
    "layer_norm",
    "The input with mean 0 and variance 1 over its last ``ndim`` dims, times a weight, plus a "
    "bias.",
    _by_layer,
)
batch_norm_op = _norm_op(
    "batch_norm",
    "The input (N, C, ...) with mean 0 and variance 1 in each channel, times a weight, plus a "
    "bias.",
    _by_batch,
)
group_norm_op = _norm_op(
    "group_norm",
    "The input (N, C, ...) with mean 0 and variance 1 in each of ``groups`` of channels of each n, "
    "times a weight, plus a bias.",
    _by_group,
)
