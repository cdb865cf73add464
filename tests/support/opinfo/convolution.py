"""Convolutions, their gradients, and the sums over windows that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from opinfo.core import FLOATS, Array, Failure, OpInfo, Sample, values
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType
from staticflow.nn import functional as F
from staticflow.ops import OPS

__all__ = ["ROWS"]

_BY_RANK = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSE_BY_RANK = {
    1: F.conv_transpose1d,
    2: F.conv_transpose2d,
    3: F.conv_transpose3d,
}

# input, weight and what else; what is given once for all dims is a number
_CASES: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((2, 2, 5), (3, 2, 2), {}),
    ((1, 1, 1), (1, 1, 1), {}),
    ((0, 2, 5), (3, 2, 2), {}),
    ((2, 4, 8), (2, 2, 3), {"stride": 2, "padding": 1, "groups": 2}),
    ((2, 2, 4, 5), (3, 2, 2, 3), {}),
    ((1, 1, 5, 4), (2, 1, 3, 2), {"stride": (2, 1), "padding": (1, 0)}),
    ((2, 2, 5, 5), (2, 1, 2, 2), {"groups": 2, "dilation": (1, 3), "padding": 2}),
    ((1, 3, 3, 4), (2, 3, 1, 1), {}),
    ((1, 2, 4, 3), (2, 2, 1, 1), {"stride": 2, "padding": 1}),
    ((1, 1, 2, 3, 4), (2, 1, 2, 2, 3), {"padding": 1, "stride": (1, 2, 2)}),
)


def _each(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else value


def _attrs(rank: int, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The attributes of the op that PyTorch's arguments stand for."""
    names = {"stride": 1, "padding": 0, "dilation": 1}
    found: dict[str, Any] = {n: _each(kwargs.get(n, d), rank) for n, d in names.items()}
    return {**found, "groups": kwargs.get("groups", 1)}


def _products(
    x_shape: tuple[int, ...], y_shape: tuple[int, ...], kernel: tuple[int, ...], *, stride: Any,
    padding: Any, dilation: Any, groups: int,
) -> Iterator[tuple[Any, Any, Any]]:  # fmt: skip
    """The indices (in y, x and w) of every product that a convolution adds up."""
    per_in, per_out = x_shape[1] // groups, y_shape[1] // groups
    for n, o, *at in np.ndindex(y_shape):
        for c, *offset in np.ndindex((per_in, *kernel)):
            place = tuple(
                p * s + k * d - q
                for p, s, k, d, q in zip(at, stride, offset, dilation, padding, strict=True)
            )
            if all(0 <= p < m for p, m in zip(place, x_shape[2:], strict=True)):
                channel = o // per_out * per_in + c
                yield (n, o, *at), (n, channel, *place), (o, c, *offset)


def _counts(size: Any, kernel: Any, attrs: dict[str, Any]) -> tuple[int, ...]:
    each = zip(size, kernel, attrs["stride"], attrs["padding"], attrs["dilation"], strict=True)
    return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in each)


def _bias(out: Array, bias: Array | None) -> Array:
    if bias is None:
        return out
    return out + bias.astype(np.float64).reshape(-1, *(1,) * (out.ndim - 2))


def _convolution(x: Array, w: Array, bias: Array | None = None, **kwargs: Any) -> Array:
    attrs = _attrs(w.ndim - 2, kwargs)
    out = np.zeros((x.shape[0], w.shape[0], *_counts(x.shape[2:], w.shape[2:], attrs)))
    for y, i, k in _products(x.shape, out.shape, w.shape[2:], **attrs):
        out[y] += float(x[i]) * float(w[k])
    return _bias(out, bias).astype(x.dtype)


def _transposed(
    y: Array, w: Array, bias: Array | None = None, output_padding: Any = 0, **kwargs: Any
) -> Array:
    rank = w.ndim - 2
    attrs = _attrs(rank, kwargs)
    more = _each(output_padding, rank)
    size = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + 1 + e
        for n, k, s, p, d, e in zip(
            y.shape[2:], w.shape[2:], attrs["stride"], attrs["padding"], attrs["dilation"], more,
            strict=True,
        )
    )  # fmt: skip
    out = np.zeros((y.shape[0], w.shape[1] * attrs["groups"], *size))
    for j, i, k in _products(out.shape, y.shape, w.shape[2:], **attrs):
        out[i] += float(y[j]) * float(w[k])
    return _bias(out, bias).astype(y.dtype)


def _kernel(
    x: Array, y: Array, *, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Array:
    out = np.zeros((y.shape[1], x.shape[1] // groups, *kernel))
    attrs = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    for j, i, k in _products(x.shape, y.shape, kernel, **attrs):
        out[k] += float(x[i]) * float(y[j])
    return out.astype(x.dtype)


def _cases(dtype: DType) -> tuple[Any, ...]:
    """16-bit floats are computed as others and rounded: fewer of them will do."""
    return _CASES if dtype.bits > 16 else _CASES[3:6]


def _operands(dtype: DType, x: tuple[int, ...], w: tuple[int, ...]) -> tuple[Array, Array]:
    return values(x, dtype, 0.5), values(w, dtype, 0.5, seed=1)


def _samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for number, (x, w, kwargs) in enumerate(_cases(dtype)):
        operands = _operands(dtype, x, w)
        bias = (values(w[:1], dtype, 0.5, seed=2),) if number % 2 == 0 else ()
        yield Sample((*operands, *bias), kwargs)
    if not smooth:
        x, w = _operands(dtype, (2, 2, 9, 20), (5, 2, 3, 4))
        yield Sample((x, w), {})
        yield Sample((x[:, :, ::-2, ::2], w.transpose(0, 1, 3, 2)), {})
        x[0, 0, 4, 4] = np.nan
        x[1, 1, 2, 10] = np.inf
        yield Sample((x, w), {"padding": 1})


def _transpose_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for number, (x, w, kwargs) in enumerate(_cases(dtype)):
        rank = len(w) - 2
        out = (x[0], w[0], *_counts(x[2:], w[2:], _attrs(rank, kwargs)))
        bias = values((w[1] * kwargs.get("groups", 1),), dtype, 0.5, seed=2)
        yield Sample((*_operands(dtype, out, w), *((bias,) if number % 2 == 0 else ())), kwargs)
    more = {"stride": 3, "output_padding": 2, "padding": 1}
    yield Sample(_operands(dtype, (1, 2, 3), (2, 1, 2)), more)
    yield Sample(_operands(dtype, (1, 1, 3, 4), (1, 1, 1, 2)), {"padding": 1})


def _kernel_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for x, w, kwargs in _cases(dtype):
        attrs = _attrs(len(w) - 2, kwargs)
        y = (x[0], w[0], *_counts(x[2:], w[2:], attrs))
        yield Sample(_operands(dtype, x, y), {"kernel": w[2:], **attrs})
    if not smooth:
        attrs = _attrs(2, {})
        operands = _operands(dtype, (2, 3, 6, 21), (2, 9, 5, 19))
        yield Sample(operands, {"kernel": (2, 3), **attrs})


def _without_padding(samples: Callable[..., Iterator[Sample]]) -> Callable[..., Iterator[Sample]]:
    """Those that do not pad, as the sums over windows take them."""

    def found(dtype: DType, smooth: bool) -> Iterator[Sample]:
        for s in samples(dtype, smooth):
            attrs = _attrs(s.args[0].ndim - 2, s.kwargs)
            if not any(attrs.pop("padding")):
                kernel = {"kernel": s.kwargs["kernel"]} if "kernel" in s.kwargs else {}
                yield Sample(s.args[:2], {**kernel, **attrs})

    return found


def _interleaved(*parts: Array, size: Any, stride: Any) -> Array:
    out = np.empty((*parts[0].shape[:2], *size), parts[0].dtype)
    for n, c, *at in np.ndindex(out.shape):
        number = 0
        for i, s in zip(at, stride, strict=True):
            number = number * s + i % s
        place = (i // s for i, s in zip(at, stride, strict=True))
        out[(n, c, *at)] = parts[number][(n, c, *place)]
    return out


def _parts(dtype: DType, size: tuple[int, ...], stride: tuple[int, ...], n: int = 2) -> Sample:
    found = []
    for number, phase in enumerate(np.ndindex(stride)):
        shape = (-(-(m - i) // s) for m, i, s in zip(size, phase, stride, strict=True))
        found.append(values((n, 3, *shape), dtype, seed=number))
    return Sample(tuple(found), {"size": size, "stride": stride})


def _by_rank(functions: dict[int, Callable[..., Any]]) -> Callable[..., Any]:
    return lambda x, w, *bias, **kwargs: functions[w.ndim - 2](x, w, *bias, **kwargs)


def _refused(x: Any, w: Any, error: type[Exception], says: str, **kwargs: Any) -> Failure:
    return Failure(Sample((np.zeros(*x), np.zeros(*w)), kwargs), error, says)


def _sized_kernel(dtype: DType, n: int, **more: Any) -> Sample:
    attrs = {"kernel": (2, 3), **_attrs(2, {})}
    return Sample(_operands(dtype, (n, 2, 4, 5), (n, 3, 3, 3)), {**attrs, **more})


_F4 = "f4"
_FAILURES = (
    _refused(((1, 3, 5), _F4), ((2, 2, 3), _F4), ShapeError, "3 and 2 differ"),
    _refused(((1, 2, 2), _F4), ((2, 2, 3), _F4), ShapeError, "2 is too small; it must be at least 3"),
    _refused(((1, 2, 5), _F4), ((3, 1, 3), _F4), ShapeError, "in 2 groups of one size: 2 and 3 differ", groups=2),
    _refused(((1, 2, 5), _F4), ((3, 2, 3), "f8"), DTypeError, "one dtype of numbers"),
    _refused(((1, 2, 5), "?"), ((3, 2, 3), "?"), DTypeError, "one dtype of numbers"),
    _refused(((2, 5, 5, 5), _F4), ((3, 5, 3), _F4), ShapeError, "takes an input of 3 dims"),
    _refused(((1, 2, 5), _F4), ((3, 2, 3), _F4), ShapeError, "stride is 0", stride=0),
    _refused(((1, 2, 5), _F4), ((3, 2, 3), _F4), ShapeError, "padding is -1", padding=-1),
    _refused(((1, 2, 5), _F4), ((3, 2, 3), _F4), ShapeError, "or 1 of them", dilation=(1, 2)),
    _refused(((1, 2, 5), _F4), ((3, 2, 3), _F4), ShapeError, "groups is 0", groups=0),
    _refused(((1, 2, 5), _F4), ((3, 2, 3), _F4), ShapeError, "a stride of 1", stride=2, padding="same"),
)  # fmt: skip

ROWS = (
    OpInfo(
        OPS["convolution"], _by_rank(_BY_RANK), _convolution, _samples, FLOATS, grad=True,
        zeros=False, failures=_FAILURES,
        sized=lambda dtype, n: Sample(_operands(dtype, (n, 2, 4, 5), (3, 2, 2, 3)), {"padding": 1}),
    ),
    OpInfo(
        OPS["convolution_transpose"], _by_rank(_TRANSPOSE_BY_RANK), _transposed,
        _transpose_samples, FLOATS, grad=True, zeros=False,
        failures=(
            _refused(((1, 3, 5), _F4), ((2, 2, 3), _F4), ShapeError, "3 and 2 differ"),
            _refused(
                ((1, 2, 5), _F4), ((2, 2, 3), _F4), ShapeError, "smaller than the stride",
                output_padding=1,
            ),
        ),
        sized=lambda dtype, n: Sample(_operands(dtype, (n, 3, 3, 4), (3, 2, 2, 3)), {"padding": 1}),
    ),
    OpInfo(
        OPS["convolution_kernel"], OPS["convolution_kernel"], _kernel, _kernel_samples, FLOATS,
        grad=True, zeros=False, sized=_sized_kernel,
        failures=(
            _refused(
                ((1, 3, 5), _F4), ((2, 2, 3), _F4), ShapeError, "the rows of",
                kernel=(3,), **_attrs(1, {}),
            ),
        ),
    ),
    OpInfo(
        OPS["correlate"], OPS["correlate"], _convolution, _without_padding(_samples),
        FLOATS[:2], grad=False, zeros=False,
        sized=lambda dtype, n: Sample(
            _operands(dtype, (n, 2, 4, 5), (3, 2, 2, 3)),
            {"stride": (1, 2), "dilation": (1, 1), "groups": 1},
        ),
    ),
    OpInfo(
        OPS["interleave"], OPS["interleave"], _interleaved,
        lambda dtype, smooth: [
            _parts(dtype, (5,), (2,)), _parts(dtype, (4, 3), (2, 3)), _parts(dtype, (1, 4), (2, 1)),
            _parts(dtype, (3,), (2,), 0),
        ],
        FLOATS[:2], grad=False, exact=True, sized=lambda dtype, n: _parts(dtype, (5, 4), (2, 2), n),
    ),
    OpInfo(
        OPS["correlate_kernel"], OPS["correlate_kernel"],
        lambda x, y, **attrs: _kernel(x, y, padding=(0,) * (x.ndim - 2), **attrs),
        _without_padding(_kernel_samples), FLOATS[:2], grad=False, zeros=False, ulps=16,
        sized=lambda dtype, n: Sample(
            _operands(dtype, (n, 2, 4, 5), (n, 3, 3, 3)),
            {"kernel": (2, 3), "stride": (1, 1), "dilation": (1, 1), "groups": 1},
        ),
    ),
)  # fmt: skip
