"""Frequencies of signals: discrete Fourier transforms, those of frames, and bands of mel.

Complex numbers are pairs, real and imaginary part, along a last dim of size 2. A transform is a
product with a matrix of cosines and sines: n * n products for n elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from staticflow.eager.ranges import arange
from staticflow.errors import ShapeError
from staticflow.graph.dims import closed_size
from staticflow.graph.dtypes import float32, float64
from staticflow.graph.locs import format_locs, here
from staticflow.onnx.reading.rows.elementwise import dtype_wanted
from staticflow.onnx.reading.rows.row import Row, row
from staticflow.onnx.reading.rows.shapes import axis_of
from staticflow.onnx.reading.values import Known, integers, one
from staticflow.ops.basics.arithmetic import mul, neg, remainder
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.casting import cast
from staticflow.ops.basics.joining import stack
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.elementwise.trig import cos, sin
from staticflow.ops.elementwise.variants import add, div, sub
from staticflow.ops.indexing.data_dependent import where
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.triangle import unfold
from staticflow.ops.symbols.symbol import Symbol
from staticflow.ops.windows.spatial import space_out

__all__ = ["SIGNALS"]

_MOST = 1 << 24
"""So many weights of bands are computed at most: 256 bands of a transform of 131,072."""


def _angles(rows: Any, columns: Any, n: Any, dtype: Any) -> tuple[Any, Any]:
    """The cosines and sines of ``2 pi i k / n``, (rows, columns), exact to the last digits: of
    whole turns only the rest counts."""
    turns = remainder(mul(unsqueeze(arange(rows), 1), arange(columns)), n)
    part = mul(arange(n, dtype=float64), 2 * math.pi)
    part = div(part, n)
    return cast(cos(part), dtype)[turns], cast(sin(part), dtype)[turns]


def _fit(x: Any, n: Any) -> Any:
    """The first ``n`` elements along the last dim, zeros behind them where there are fewer."""
    if x.shape[-1] is n or (type(n) is int and type(x.shape[-1]) is int and n == x.shape[-1]):
        return x
    flat = reshape(x, (-1, 1, x.shape[-1]))
    return reshape(space_out(flat, (closed_size(n),), (0,), (1,)), (*x.shape[:-1], n))


def _parts(x: Any) -> tuple[Any, Any]:
    """The real parts, and the imaginary ones or None where the last dim has size 1."""
    if x.ndim < 2 or x.shape[-1] not in (1, 2):
        raise ShapeError(
            f"the last dim of a signal is 1, of real numbers, or 2, of complex ones; its shape is "
            f"{list(x.shape)}, at {format_locs(here())}"
        )
    return x[..., 0], (x[..., 1] if x.shape[-1] == 2 else None)


def _forward(real: Any, imag: Any, n: Any, count: Any) -> tuple[Any, Any]:
    """The first ``count`` of ``n`` frequencies along the last dim."""
    c, s = _angles(n, count, n, real.dtype)
    if imag is None:
        return matmul(real, c), neg(matmul(real, s))
    return add(matmul(real, c), matmul(imag, s)), sub(matmul(imag, c), matmul(real, s))


def _backward(real: Any, imag: Any, n: Any) -> tuple[Any, Any]:
    c, s = _angles(n, n, n, real.dtype)
    if imag is None:
        found = matmul(real, c), matmul(real, s)
    else:
        found = sub(matmul(real, c), matmul(imag, s)), add(matmul(imag, c), matmul(real, s))
    return div(found[0], n), div(found[1], n)


def _backward_to_real(real: Any, imag: Any, n: Any, half: Any) -> Any:
    """The real signal of ``n`` elements whose first ``half`` frequencies are given: each of the
    others is the conjugate of one of these, so all but the first and the middle one count twice."""
    k = arange(half)
    weights = where((k == 0) | (k * 2 == n), 1.0, 2.0)
    c, s = (
        mul(unsqueeze(cast(weights, real.dtype), 1), m) for m in _angles(half, n, n, real.dtype)
    )
    found = matmul(real, c)
    return div(found if imag is None else sub(found, matmul(imag, s)), n)


def _dft(
    x: Any, *, dft_length: Any = None, axis: Any = None, inverse: int = 0, onesided: int = 0
) -> Any:
    if axis is not None and not isinstance(axis, int):
        axis = integers(one(axis), "the axis")[0]
    axis = axis_of(-2 if axis is None else axis, x.ndim)
    if axis == x.ndim - 1:
        raise ShapeError(
            f"axis {axis} of {list(x.shape)} holds the parts of complex numbers, and no signal, at "
            f"{format_locs(here())}"
        )
    given = x.dtype
    x = x if given is float64 else cast(x, float32)
    real, imag = _parts(x)
    real, imag = movedim(real, axis, -1), None if imag is None else movedim(imag, axis, -1)
    n = real.shape[-1] if dft_length is None else one(dft_length)
    if inverse and onesided:
        n = 2 * (real.shape[-1] - 1) if dft_length is None else n
        half = n // 2 + 1
        real, imag = _fit(real, half), None if imag is None else _fit(imag, half)
        signal = movedim(_backward_to_real(real, imag, n, half), -1, axis)
        return cast(unsqueeze(signal, -1), given)
    real, imag = _fit(real, n), None if imag is None else _fit(imag, n)
    count = n // 2 + 1 if onesided else n
    both = _backward(real, imag, n) if inverse else _forward(real, imag, n, count)
    return cast(stack([movedim(p, -1, axis) for p in both], -1), given)


def _stft(
    x: Any, *, frame_step: Any, window: Any = None, frame_length: Any = None, onesided: int = 1
) -> Any:
    if x.ndim != 3:
        raise ShapeError(
            f"a signal is (batch, length, 1 or 2), not {list(x.shape)}, at {format_locs(here())}"
        )
    step = integers(one(frame_step), "the step of frames")[0]
    length = (
        integers(one(frame_length), "the length of frames")[0] if frame_length is not None
        else x.shape[1] if window is None else window.shape[0]
    )  # fmt: skip
    given = x.dtype
    x = x if given is float64 else cast(x, float32)
    frames = [None if p is None else unfold(p, 1, length, step) for p in _parts(x)]
    if window is not None:
        weights = cast(window, x.dtype)
        frames = [None if f is None else mul(f, weights) for f in frames]
    count = length // 2 + 1 if onesided else length
    return cast(stack(_forward(frames[0], frames[1], length, count), -1), given)


def _number(value: Any, what: str) -> float:
    value = one(value)
    if isinstance(value, Symbol):
        integers(value, what)  # says why not
    return float(value)


def _mel_weights(
    *, num_mel_bins: Any, dft_length: Any, sample_rate: Any, lower_edge_hertz: Any,
    upper_edge_hertz: Any, output_datatype: int = 1,
) -> Any:  # fmt: skip
    bands = integers(one(num_mel_bins), "the number of bands")[0]
    length = integers(one(dft_length), "the length of the transform")[0]
    rate = integers(one(sample_rate), "the sample rate")[0]
    if bands < 1 or length < 1 or rate < 1:
        raise ShapeError(
            f"{bands} bands, a transform of {length} and {rate} samples a second must be 1 at "
            f"least, at {format_locs(here())}"
        )
    if bands * (length // 2 + 1) > _MOST:
        raise ShapeError(
            f"{bands} bands of a transform of {length} make a matrix of over {_MOST} elements, "
            f"at {format_locs(here())}"
        )
    low, high = (
        2595 * np.log10(1 + _number(edge, "an edge of the bands") / 700)
        for edge in (lower_edge_hertz, upper_edge_hertz)
    )
    mel = np.arange(bands + 2) * ((high - low) / (bands + 2)) + low
    hertz = 700 * (10 ** (mel / 2595) - 1)
    places = ((length + 1) * hertz // rate).astype(np.int64)
    left, middle, right = places[:-2], places[1:-1], places[2:]
    j = np.arange(length // 2 + 1)[:, None]
    rising = (j - left) / np.maximum(middle - left, 1)
    falling = (right - j) / np.maximum(right - middle, 1)
    found = np.where((left <= j) & (j < middle), rising, 0.0)
    found = np.where((middle < j) & (j < right), falling, found)
    found = np.where(j == middle, 1.0, found)
    return Known(found.astype(dtype_wanted(output_datatype).numpy))


SIGNALS: Mapping[str, Row] = {
    "DFT": row(_dft, static="dft_length axis"),
    "MelWeightMatrix": row(
        _mel_weights,
        static="num_mel_bins dft_length sample_rate lower_edge_hertz upper_edge_hertz",
    ),
    "STFT": row(_stft, static="frame_step frame_length"),
}
"""Rows by operator."""
