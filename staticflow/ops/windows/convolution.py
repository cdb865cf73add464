"""Convolutions of any number of dims, their transposes, and the gradients of both.

``<y, convolution(x, w)>`` is linear in each of x, w and y. The three ops here are what it is linear
in each of them by, so that the derivatives of each, of any order, are the other two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Size, ceil_div, prod, same
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.basics.axes import flip_op, permute_op
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.reduce import narrow_as, widen
from staticflow.ops.basics.slicing import slice_op
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.declare import strict, sum_to
from staticflow.ops.windows.correlate import (
    correlate_kernel_op,
    correlate_op,
    count_positions,
    interleave_op,
    phases,
    span,
)
from staticflow.ops.windows.spatial import PerDim, space_out

__all__ = ["convolution_kernel_op", "convolution_op", "convolution_transpose_op"]

# -- parts of decompositions and references -----------------------------------------------------


def _per_channel(bias: Any, ndim: int) -> Any:
    """``bias`` (C,) as it broadcasts with (N, C, ...)."""
    return reshape(bias, (*bias.shape, *(1,) * (ndim - 2)))


def _pad(x: Any, padding: PerDim) -> Any:
    """``x`` with zeros around its dims of space."""
    shape = tuple(n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True))
    return space_out(x, shape, padding, (1,) * len(padding))


def _turn(w: Any, groups: int) -> Any:
    """A kernel (G * O, C, ...) as (G * C, O, ...), its windows read backwards."""
    own = w.shape[2:]
    w = flip_op(w, dims=tuple(range(2, 2 + len(own))))
    rest = tuple(range(3, 3 + len(own)))
    if groups == 1:
        return permute_op(w, dims=(1, 0, *(i - 1 for i in rest)))
    out, per = w.shape[0] // groups, w.shape[1]
    split = reshape(w, (groups, out, per, *own))
    return reshape(permute_op(split, dims=(0, 2, 1, *rest)), (groups * per, out, *own))


def _is_pointwise(kernel: Shape, stride: PerDim) -> bool:
    """Whether windows are single elements and all of them are used: then dims can be merged."""
    return all(same(k, 1) for k in kernel) and all(s == 1 for s in stride)


def _merge(x: Any) -> Any:
    """(N, C, ...) as (N, C, L)."""
    return reshape(x, (*x.shape[:2], prod(x.shape[2:])))


def _correlate(x: Any, w: Any, stride: PerDim, dilation: PerDim, groups: int) -> Any:
    """`correlate_op` on as few dims as it takes."""
    if len(stride) > 1 and _is_pointwise(w.shape[2:], stride):
        shape = (x.shape[0], w.shape[0], *x.shape[2:])
        flat = correlate_op(_merge(x), _merge(w), stride=(1,), dilation=(1,), groups=groups)
        return reshape(flat, shape)
    return correlate_op(x, w, stride=stride, dilation=dilation, groups=groups)


def _compute_wide(reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference whose 16-bit floats are summed in 32 bits and rounded once, bias included."""

    def wide(xp: Any, x: Any, y: Any, bias: Any = None, **attrs: Any) -> Any:
        dtype = x.dtype
        if dtype.itemsize == 2:
            x, y = x.astype(xp.float32), y.astype(xp.float32)
        out = reference(xp, x, y, **attrs)
        if bias is not None:
            out = out + bias.astype(out.dtype).reshape(-1, *(1,) * (out.ndim - 2))
        return xp.ascontiguousarray(out).astype(dtype, copy=False)

    return wide


def _pad_array(xp: Any, x: Any, padding: PerDim) -> Any:
    return xp.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding))) if any(padding) else x


# -- the rules that all share -------------------------------------------------------------------


def _check(x: TensorType, w: TensorType, rank: int, names: tuple[str, str]) -> None:
    """Whether two operands may meet at all."""
    for t, name in ((x, names[0]), (w, names[1])):
        if t.ndim != rank + 2:
            raise ShapeError(f"takes {name} of {rank + 2} dims, not {t}")
    if x.dtype is not w.dtype or x.dtype.kind == "b":
        raise DTypeError(
            f"{names[0]} {x} and {names[1]} {w} must be of one dtype of numbers; cast one of them"
        )


def _check_bias(facts: Facts, bias: tuple[TensorType, ...], channels: Size, x: TensorType) -> None:
    for b in bias:
        if b.ndim != 1 or b.dtype is not x.dtype:
            raise ShapeError(f"takes a bias ({channels},) of {x.dtype}, not {b}")
        facts.equal(b.shape[0], channels, f"the elements of the bias {b} and the channels")


def _per_group(facts: Facts, channels: Size, groups: int, what: str) -> Size:
    """The channels of each group, all alike."""
    each = channels // groups
    facts.equal(each * groups, channels, f"{what}, in {groups} groups of one size")
    return each


def _with_bias_vjp(partials: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
    """A vjp of an op that adds a bias, if it is given one, from the vjp of the rest."""

    def vjp(
        needs: Sequence[bool], ct: Any, out: Any, x: Any, w: Any, *bias: Any, **attrs: Any
    ) -> list[Any]:
        found = list(partials(needs[:2], ct, x, w, **attrs))
        if bias:
            own = (1, *bias[0].__sf_shape__, *(1,) * (ct.ndim - 2))
            found.append(reshape(sum_to(ct, own), bias[0].shape) if needs[2] else None)
        return found

    return vjp


# -- convolution --------------------------------------------------------------------------------


def _infer(
    facts: Facts, x: TensorType, w: TensorType, *bias: TensorType, stride: PerDim, padding: PerDim,
    dilation: PerDim, groups: int,
) -> TensorType:  # fmt: skip
    _check(x, w, len(stride), ("an input", "a weight"))
    _per_group(facts, w.shape[0], groups, f"the output channels of {w}")
    taken = f"those that the weight {w} takes in {groups} groups"
    facts.equal(x.shape[1], w.shape[1] * groups, f"the channels of {x} and {taken}")
    _check_bias(facts, bias, w.shape[0], x)
    counts = (
        count_positions(facts, n + 2 * p, k, s, d, f"{x}, padded by {list(padding)}")
        for n, k, s, p, d in zip(x.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)
    )
    return TensorType(x.dtype, (x.shape[0], w.shape[0], *counts))


def _reference(
    xp: Any, x: Any, w: Any, *, stride: PerDim, padding: PerDim, dilation: PerDim, groups: int
) -> Any:
    return correlate_op.reference(
        xp, _pad_array(xp, x, padding), w, stride=stride, dilation=dilation, groups=groups
    )


def _decompose(
    x: Any, w: Any, *bias: Any, stride: PerDim, padding: PerDim, dilation: PerDim, groups: int
) -> Any:
    a, b = widen(x), widen(w)
    out = _correlate(_pad(a, padding), b, stride, dilation, groups)
    for each in bias:
        out = out + _per_channel(widen(each), out.ndim)
    return narrow_as(out, x)


def _partials(needs: Sequence[bool], ct: Any, x: Any, w: Any, **attrs: Any) -> list[Any]:
    return [
        convolution_transpose_op(ct, w, size=x.shape[2:], **attrs) if needs[0] else None,
        convolution_kernel_op(x, ct, kernel=w.shape[2:], **attrs) if needs[1] else None,
    ]


convolution_op: Op = Op(
    name="convolution",
    doc="``out[n, o, p] = bias[o] + sum_{c, k} x[n, c, p * stride + k * dilation - padding] * "
    "w[o, c, k]``, zero where x ends; channels in ``groups``.",
    infer=_infer,
    reference=strict(_infer, _compute_wide(_reference)),
    vjp=_with_bias_vjp(_partials),
    decompose=_decompose,
    numpy="slower",
    batched=(0,),
    grad_name="ConvolutionBackward0",
)


# -- its transpose ------------------------------------------------------------------------------


def _transpose_infer(
    facts: Facts, y: TensorType, w: TensorType, *bias: TensorType, size: Shape, stride: PerDim,
    padding: PerDim, dilation: PerDim, groups: int,
) -> TensorType:  # fmt: skip
    _check(y, w, len(stride), ("an input", "a weight"))
    _per_group(facts, w.shape[0], groups, f"the input channels of {w}")
    facts.equal(y.shape[1], w.shape[0], f"the channels of {y} and of the weight {w}")
    channels = w.shape[1] * groups
    _check_bias(facts, bias, channels, y)
    for n, m, k, s, p, d in zip(
        size, y.shape[2:], w.shape[2:], stride, padding, dilation, strict=True
    ):
        what = f"a result of {list(size)}, padded by {list(padding)}"
        count = count_positions(facts, n + 2 * p, k, s, d, what)
        facts.equal(count, m, f"the windows in {what} and the elements of {y}")
    return TensorType(y.dtype, (y.shape[0], channels, *size))


def _transpose_reference(
    xp: Any, y: Any, w: Any, *, size: Any, stride: PerDim, padding: PerDim, dilation: PerDim,
    groups: int,
) -> Any:  # fmt: skip
    per, own = w.shape[0] // groups, w.shape[1]
    padded = tuple(n + 2 * p for n, p in zip(size, padding, strict=True))
    out = xp.zeros((y.shape[0], groups * own, *padded), y.dtype)
    for g in range(groups):
        part = out[:, g * own : (g + 1) * own]
        rows, kernel = y[:, g * per : (g + 1) * per], w[g * per : (g + 1) * per]
        for offset in xp.ndindex(*w.shape[2:]):
            position = tuple(
                slice(k * d, k * d + (n - 1) * s + 1, s)
                for k, d, n, s in zip(offset, dilation, y.shape[2:], stride, strict=True)
            )
            product = xp.tensordot(kernel[(..., *offset)], rows, axes=((0,), (1,)))
            part[(..., *position)] += xp.moveaxis(product, 0, 1)
    return out[(..., *(slice(p, p + n) for p, n in zip(padding, size, strict=True)))]


def _collect(
    y: Any, w: Any, size: Shape, stride: PerDim, padding: PerDim, dilation: PerDim, groups: int
) -> Any:
    """What a window adds to a position is what a window read backwards collects there, if the
    elements of ``y`` lie ``stride`` apart among zeros."""
    reach = tuple(span(k, d) - 1 for k, d in zip(w.shape[2:], dilation, strict=True))
    start = tuple(r - p for r, p in zip(reach, padding, strict=True))
    around = space_out(y, tuple(n + r for n, r in zip(size, reach, strict=True)), start, stride)
    one = (1,) * len(stride)
    return _correlate(around, _turn(w, groups), one, dilation, groups)


_MOST_PHASES = 9
"""Parts in which a transpose is computed: each is a kernel of its own."""


def _by_phases(y: Any, w: Any, size: Shape, stride: PerDim, padding: PerDim, groups: int) -> Any:
    """The transpose of a convolution without zeros to multiply by: indices that are equal modulo
    ``stride`` meet the same elements of a window, every ``stride``-th, and form a transpose of
    stride 1."""
    one = (1,) * len(stride)
    parts = []
    for phase in phases(stride):
        each = list(zip(phase, size, w.shape[2:], stride, padding, strict=True))
        first = tuple((i + p) % s for i, _, _, s, p in each)
        taps = tuple(
            max(0, -(-(k - f) // s)) for f, (_, _, k, s, _) in zip(first, each, strict=True)
        )
        count = tuple(ceil_div(n - i, s) for i, n, _, s, _ in each)
        if 0 in taps:
            shape = (y.shape[0], w.shape[1] * groups, *count)
            parts.append(full.beside(y, shape=shape, value=0.0, dtype=y.dtype))
            continue
        kernel = slice_op(w, start=(0, 0, *first), size=(*w.shape[:2], *taps), step=(1, 1, *stride))
        before = tuple((i + p) // s for i, _, _, s, p in each)
        parts.append(_collect(y, kernel, count, one, before, one, groups))
    return interleave_op(*parts, size=size, stride=stride)


def _transpose_decompose(
    y: Any, w: Any, *bias: Any, size: Shape, stride: PerDim, padding: PerDim, dilation: PerDim,
    groups: int,
) -> Any:  # fmt: skip
    a, b = widen(y), widen(w)
    apart = all(d == 1 for d in dilation) and all(isinstance(k, int) for k in w.shape[2:])
    if apart and 1 < prod(stride) <= _MOST_PHASES:
        out = _by_phases(a, b, size, stride, padding, groups)
    else:
        out = _collect(a, b, size, stride, padding, dilation, groups)
    for each in bias:
        out = out + _per_channel(widen(each), out.ndim)
    return narrow_as(out, y)


def _transpose_partials(
    needs: Sequence[bool], ct: Any, y: Any, w: Any, *, size: Shape, **attrs: Any
) -> list[Any]:
    return [
        convolution_op(ct, w, **attrs) if needs[0] else None,
        convolution_kernel_op(ct, y, kernel=w.shape[2:], **attrs) if needs[1] else None,
    ]


convolution_transpose_op: Op = Op(
    name="convolution_transpose",
    doc="The transpose of ``convolution`` with the same weight, onto an input of ``size``.",
    infer=_transpose_infer,
    reference=strict(_transpose_infer, _compute_wide(_transpose_reference)),
    vjp=_with_bias_vjp(_transpose_partials),
    decompose=_transpose_decompose,
    numpy="slower",
    batched=(0,),
    grad_name="ConvolutionBackward0",
)


# -- its gradient by the weight -----------------------------------------------------------------


def _kernel_infer(
    facts: Facts, x: TensorType, y: TensorType, *, kernel: Shape, stride: PerDim, padding: PerDim,
    dilation: PerDim, groups: int,
) -> TensorType:  # fmt: skip
    _check(x, y, len(stride), ("an input", "an output"))
    _per_group(facts, y.shape[1], groups, f"the channels of {y}")
    per = _per_group(facts, x.shape[1], groups, f"the channels of {x}")
    facts.equal(x.shape[0], y.shape[0], f"the rows of {x} and of {y}")
    for n, m, k, s, p, d in zip(
        x.shape[2:], y.shape[2:], kernel, stride, padding, dilation, strict=True
    ):
        count = count_positions(facts, n + 2 * p, k, s, d, f"{x}, padded by {list(padding)}")
        facts.equal(count, m, f"the windows and the elements of {y}")
    return TensorType(x.dtype, (y.shape[1], per, *kernel))


def _kernel_reference(
    xp: Any, x: Any, y: Any, *, kernel: Any, stride: PerDim, padding: PerDim, dilation: PerDim,
    groups: int,
) -> Any:  # fmt: skip
    return correlate_kernel_op.reference(
        xp, _pad_array(xp, x, padding), y, kernel=kernel, stride=stride, dilation=dilation,
        groups=groups,
    )  # fmt: skip


def _kernel_decompose(
    x: Any, y: Any, *, kernel: Shape, stride: PerDim, padding: PerDim, dilation: PerDim, groups: int
) -> Any:
    a, b = widen(x), widen(y)
    a = _pad(a, padding)
    if len(kernel) > 1 and _is_pointwise(kernel, stride):
        flat = correlate_kernel_op(
            _merge(a), _merge(b), kernel=(1,), stride=(1,), dilation=(1,), groups=groups
        )
        return narrow_as(reshape(flat, (*flat.shape[:2], *kernel)), x)
    out = correlate_kernel_op(a, b, kernel=kernel, stride=stride, dilation=dilation, groups=groups)
    return narrow_as(out, x)


def _kernel_vjp(
    needs: Sequence[bool], ct: Any, out: Any, x: Any, y: Any, *, kernel: Shape, **attrs: Any
) -> list[Any]:
    return [
        convolution_transpose_op(y, ct, size=x.shape[2:], **attrs) if needs[0] else None,
        convolution_op(x, ct, **attrs) if needs[1] else None,
    ]


convolution_kernel_op: Op = Op(
    name="convolution_kernel",
    doc="The gradient of ``convolution`` by its weight, which has windows of ``kernel``: "
    "``out[o, c, k] = sum_{n, p} y[n, o, p] * x[n, c, p * stride + k * dilation - padding]``.",
    infer=_kernel_infer,
    reference=strict(_kernel_infer, _compute_wide(_kernel_reference)),
    vjp=_kernel_vjp,
    decompose=_kernel_decompose,
    numpy="slower",
    batched=(0, 1),
    grad_name="ConvolutionBackwardBackward0",
)
