"""Images taken apart into windows, put together again, and resized."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from staticflow.errors import ArgumentError, DTypeError, ShapeError
from staticflow.graph.dims import Dim, prod, same
from staticflow.graph.dtypes import float32, float64, int64, uint8
from staticflow.graph.locs import format_locs, here
from staticflow.graph.open_size import OpenSize
from staticflow.nn.functional.pad import pad
from staticflow.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from staticflow.ops.basics.arithmetic import cast, clamp, minimum, where
from staticflow.ops.basics.axes import movedim, mT, permute
from staticflow.ops.basics.creation import iota, size_value
from staticflow.ops.basics.joining import stack
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import reshape, reshape_copied, unsqueeze
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.late import size_of
from staticflow.ops.declaring.required import require_at_least
from staticflow.ops.declaring.sizes import as_size, is_symbolic
from staticflow.ops.elementwise.maths import abs, floor
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.windows.patches import patches_op, unpatches_op
from staticflow.ops.windows.resample import resample_op
from staticflow.ops.windows.spatial import add_batch, per_dim, remove_batch

__all__ = [
    "channel_shuffle", "fold", "interpolate", "pixel_shuffle", "pixel_unshuffle", "unfold",
    "upsample",
]  # fmt: skip

# -- windows ------------------------------------------------------------------------------------


@by_shape
def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """The windows of ``input`` (N, C, H, W) or (C, H, W) as columns: (N, C * kernel, windows), the
    windows and their elements in row-major order.

    >>> import staticflow as sf
    >>> unfold(sf.arange(9.0).reshape(1, 1, 3, 3), 2).tolist()[0][0]
    [0.0, 1.0, 3.0, 4.0]
    """
    x, alone = add_batch(input, 2, "unfold")
    kernel, steps, more, apart = _geometry("unfold", kernel_size, stride, padding, dilation)
    x = pad(x, (more[1], more[1], more[0], more[0]))
    columns = patches_op(x, kernel=kernel, stride=steps, dilation=apart)
    n, c, _, _, rows, positions = columns.shape
    return remove_batch(reshape(columns, (n, c * prod(kernel), rows * positions)), alone)


@by_shape
def fold(
    input: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """The image (N, C, *output_size) in which the columns (N, C * kernel, windows) of `unfold` are
    added up.

    >>> import staticflow as sf
    >>> fold(sf.ones(1, 4, 4), 3, 2).tolist()[0][0]
    [[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]
    """
    if input.ndim not in (2, 3):
        raise ShapeError(
            f"fold: takes columns (N, C * kernel, windows) or (C * kernel, windows), not shape "
            f"{list(input.shape)}, at {format_locs(here())}"
        )
    alone = input.ndim == 2
    x = reshape(input, (1, *input.shape)) if alone else input
    kernel, steps, more, apart = _geometry("fold", kernel_size, stride, padding, dilation)
    size = _sizes_of_space(output_size, 2, "fold: output_size")
    padded = tuple(n + 2 * p for n, p in zip(size, more, strict=True))
    span = tuple((k - 1) * d + 1 for k, d in zip(kernel, apart, strict=True))
    count = tuple((n - k) // s + 1 for n, k, s in zip(padded, span, steps, strict=True))
    if isinstance(x.shape[1], int) and (
        x.shape[1] % prod(kernel) or (isinstance(x.shape[2], int) and x.shape[2] != prod(count))
    ):
        raise ShapeError(
            f"fold: columns of shape {list(input.shape)} do not make up {list(size)}, which has "
            f"{count[0]} x {count[1]} windows of {kernel[0]} x {kernel[1]}, "
            f"at {format_locs(here())}"
        )
    x = reshape(x, (x.shape[0], x.shape[1] // prod(kernel), *kernel, *count))
    x = unpatches_op(x, size=padded, stride=steps, dilation=apart)
    for axis in range(2):
        x = narrow(x, 2 + axis, more[axis], size[axis])
    return remove_batch(x, alone)


def _geometry(name: str, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    given = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    return (per_dim(v, 2, int(k != "padding"), f"{name}: {k}") for k, v in given.items())


# -- channels and pixels ------------------------------------------------------------------------


@by_shape
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Channels spread over space: (..., C * r * r, H, W) to (..., C, H * r, W * r) for the factor r
    (Shi et al. 2016, arXiv:1609.05158)."""
    r = upscale_factor
    *batch, channels, height, width = input.shape
    if isinstance(channels, int) and channels % (r * r):
        raise ShapeError(
            f"pixel_shuffle: {channels} channels; their number must be a multiple of {r * r}, "
            f"at {format_locs(here())}"
        )
    x = reshape(input, (prod(tuple(batch)), channels // (r * r), r, r, height, width))
    x = permute(x, 0, 1, 4, 2, 5, 3)
    return reshape_copied(x, (*batch, channels // (r * r), height * r, width * r))


@by_shape
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """The inverse of `pixel_shuffle`: (..., C, H * r, W * r) to (..., C * r * r, H, W)."""
    r = downscale_factor
    *batch, channels, height, width = input.shape
    if any(isinstance(n, int) and n % r for n in (height, width)):
        raise ShapeError(
            f"pixel_unshuffle: planes of {height} x {width}; both must be multiples of {r}, "
            f"at {format_locs(here())}"
        )
    x = reshape(input, (prod(tuple(batch)), channels, height // r, r, width // r, r))
    x = permute(x, 0, 1, 3, 5, 2, 4)
    return reshape_copied(x, (*batch, channels * r * r, height // r, width // r))


@by_shape
def channel_shuffle(input: Any, groups: int) -> Any:
    """The channels (N, C, ...) of several groups dealt out in turn (Zhang et al. 2017,
    arXiv:1707.01083)."""
    n, channels, *space = input.shape
    x = reshape(input, (n, groups, channels // groups, prod(tuple(space))))
    return reshape_copied(permute(x, 0, 2, 1, 3), input.shape)


# -- sizes --------------------------------------------------------------------------------------

Taps = list[tuple[Any, Any]]
"""The positions that a new row is made of, int64, and their weights (None: 1)."""


def _over(index: Any, above: Any, below: Any) -> Any:
    """The quotient of two sizes, the second 1 at least."""
    if isinstance(above, int) and isinstance(below, int):
        return above / max(below, 1)
    first, second = (size_value.beside(index, size=n, dtype=index.dtype) for n in (above, below))
    return first / clamp(second, min=1.0)


def _ratio(index: Any, size: Any, new: Any, scale: float | None) -> Any:
    return 1 / scale if scale else _over(index, size, new)


def _positions(index: Any, size: Any, new: Any, scale: float | None, corners: bool) -> Any:
    """Where each new position lies among the old ones."""
    if corners:
        return index * _over(index, size - 1, new - 1)
    return (index + 0.5) * _ratio(index, size, new, scale) - 0.5


def _nearest(index: Any, size: Any, new: Any, scale: float | None, corners: bool) -> Taps:
    return [(minimum(floor(index * _ratio(index, size, new, scale)), size - 1), None)]


def _nearest_exact(index: Any, size: Any, new: Any, scale: float | None, corners: bool) -> Taps:
    return [(minimum(floor((index + 0.5) * _ratio(index, size, new, scale)), size - 1), None)]


def _linear(index: Any, size: Any, new: Any, scale: float | None, corners: bool) -> Taps:
    """The two nearest; each element itself where the size stays, whatever the ``scale``, as in
    PyTorch."""
    if isinstance(size, int) and size == new:
        scale = None
    at = _positions(index, size, new, scale, corners)
    if scale not in (None, 1) and not (isinstance(size, int) and isinstance(new, int)):
        at = where(_over(index, size, new) == 1, index, at)
    at = clamp(at, min=0.0)
    low = minimum(floor(at), size - 1)
    part = at - low
    return [(low, 1 - part), (minimum(low + 1, size - 1), part)]


def _cubic(index: Any, size: Any, new: Any, scale: float | None, corners: bool) -> Taps:
    """Keys' kernel with a = -3/4 (R. Keys 1981, "Cubic convolution interpolation")."""
    at = _positions(index, size, new, scale, corners)
    low = floor(at)
    t, a = at - low, -0.75

    def inner(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def outer(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    weights = (outer(t + 1), inner(t), inner(1 - t), outer(2 - t))
    return [(minimum(clamp(low + i - 1, min=0.0), size - 1), w) for i, w in enumerate(weights)]


def _triangle(x: Any) -> Any:
    return clamp(1 - abs(x), min=0.0)


def _keys(x: Any) -> Any:
    """Keys' kernel with a = -1/2."""
    x = clamp(abs(x), max=2.0)
    near = (1.5 * x - 2.5) * x * x + 1
    return where(x < 1, near, ((2.5 - 0.5 * x) * x - 4) * x + 2)


_FILTERS = {"bilinear": _triangle, "bicubic": _keys}
_MODES: dict[str, tuple[int | None, Callable[..., Taps]]] = {
    "nearest": (None, _nearest), "nearest-exact": (None, _nearest_exact), "linear": (1, _linear),
    "bilinear": (2, _linear), "trilinear": (3, _linear), "bicubic": (2, _cubic),
}  # fmt: skip
_AREA = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)


@by_shape
def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """``input`` (N, C, ...) with its one to three dims of space in another ``size``, or
    ``scale_factor`` times as large: a number or one for each dim.

    ``mode`` is "nearest", "nearest-exact", "linear", "bilinear", "trilinear" (of one, two, three
    dims), "bicubic" or "area". With ``align_corners`` the positions of the corners stay; unless
    ``recompute_scale_factor`` positions are computed by the factor that was given.

    With ``antialias``, for "bilinear" and "bicubic", an image is made smaller by a filter as wide
    as the step from one new position to the next, so that every element counts.

    ``input`` is floating or, but for "area", uint8, which is rounded to the nearest; "nearest" and
    "nearest-exact" take any dtype.

    >>> import staticflow as sf
    >>> interpolate(sf.tensor([[[1.0, 3.0]]]), size=4, mode="linear")
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    rank = input.ndim - 2
    old = input.shape[2:]
    wanted = None if size is None else _sizes_of_space(size, rank, "interpolate: size")
    _check(input, rank, wanted, scale_factor, mode, align_corners)
    if antialias and mode not in _FILTERS:
        raise ArgumentError(
            f"interpolate: antialias with the mode {mode!r}; it is for {' and '.join(_FILTERS)}, "
            f"at {format_locs(here())}"
        )
    scales: Sequence[Any] = [None] * rank
    if wanted is None:
        several = isinstance(scale_factor, list | tuple)
        factors = tuple(scale_factor) if several else (scale_factor,) * rank
        wanted = tuple(_times(input, n, f) for n, f in zip(old, factors, strict=True))
        scales = scales if recompute_scale_factor else factors
    for n in (*old, *wanted):
        sizes = f"interpolate: the sizes of space {list(old)} and {list(wanted)}, and one of them"
        input = require_at_least(input, n, 1, sizes)
    if mode == "area":
        return _AREA[rank - 1](input, wanted)
    return _interpolate(input, wanted, tuple(scales), mode, bool(align_corners), bool(antialias))


@fused("UpsampleBilinear2DBackward0")
def _interpolate(
    x: Any, wanted: Any, scales: Any, mode: str, align_corners: bool, antialias: bool
) -> Any:
    """``x`` in the sizes ``wanted``. The last dim comes first, as in PyTorch, so that the larger
    image is written once."""
    dtype = x.dtype
    wide = float64 if dtype is float64 else float32  # as in PyTorch
    if dtype is not wide and not mode.startswith("nearest"):
        x = cast(x, dtype=wide)
    for axis in reversed(range(len(wanted))):
        n, new = x.shape[2 + axis], wanted[axis]
        index = iota.beside(x, shape=(new,), dim=0, dtype=wide)
        if antialias:
            step = _ratio(index, n, new, scales[axis])
            if align_corners:  # 0 for one position, as in PyTorch
                step = 0.0 if same(new, 1) else _over(index, n - 1, new - 1)
            x = _filter(x, 2 + axis, index, step, _FILTERS[mode])
            continue
        taps = _MODES[mode][1](index, n, new, scales[axis], align_corners)
        x = _resize(x, 2 + axis, taps)
    if x.dtype is dtype:
        return x
    if dtype is uint8:  # to the nearest, and what a cubic overshoots at the ends
        x = clamp(floor(x + 0.5), 0.0, 255.0)
    return cast(x, dtype=dtype)


def _sizes_of_space(size: Any, rank: int, what: str) -> tuple[Any, ...]:
    """``size``, which errors call ``what``, for each dim of space: ints from 1 on, or sizes that
    only a call tells, as those of another image are."""
    given = tuple(size) if isinstance(size, list | tuple) else (size,) * rank
    late = [isinstance(n, Dim | OpenSize) or is_symbolic(n) for n in given]
    if len(given) != rank:
        raise ShapeError(
            f"{what} is {size!r}; it must be an int from 1 on, or {rank} of them, "
            f"at {format_locs(here())}"
        )
    if not any(late):
        return per_dim(size, rank, 1, what)
    each = zip(given, late, strict=True)
    return tuple(as_size(n) if open else per_dim(n, 1, 1, what)[0] for n, open in each)


def _times(x: Any, size: Any, factor: float) -> Any:
    """``size``, of ``x``, times ``factor``, rounded down as the product of two floats is."""
    if not 0 < factor < math.inf:
        raise ArgumentError(
            f"interpolate: scale_factor is {factor}; it must be a number above 0, "
            f"at {format_locs(here())}"
        )
    if isinstance(size, int):
        return int(size * factor)
    above, below = factor.as_integer_ratio()
    if below <= 1024:  # so that the product, of sizes that fit into memory, is exact
        return size * above // below
    return size_of(cast(size_value.beside(x, size=size, dtype=float64) * factor, dtype=int64))


def _check(x: Any, rank: int, size: Any, scale: Any, mode: str, align_corners: bool | None) -> None:
    wrong = (
        f"takes a tensor (N, C, ...) with one to three dims of space, not {list(x.shape)}"
        if not 1 <= rank <= 3
        else "give size or scale_factor, one of both"
        if (size is None) == (scale is None)
        else f"the mode is one of {', '.join(_MODES)}, area, not {mode!r}"
        if mode not in (*_MODES, "area")
        else f"{mode} is for {_MODES[mode][0]} dims of space, not {rank}"
        if mode != "area" and _MODES[mode][0] not in (None, rank)
        else f"align_corners says nothing for {mode}"
        if align_corners is not None and mode in ("nearest", "nearest-exact", "area")
        else None
    )
    if not (x.dtype.is_floating or x.dtype is uint8 or mode.startswith("nearest")):
        raise DTypeError(
            f"interpolate: {mode} of {x.dtype.name}; it takes floating dtypes and uint8, so cast "
            f"to one, as in x.float(), at {format_locs(here())}"
        )
    if wrong:
        raise ArgumentError(f"interpolate: {wrong}, at {format_locs(here())}")


def _filter(x: Any, dim: int, index: Any, step: Any, filter: Callable[[Any], Any]) -> Any:
    """``x`` with a place of ``dim`` for each ``index``, ``step`` old ones apart: the mean of
    what is near, weighed by ``filter``, which is as wide as a step, or an element if that is
    wider."""
    positions = iota.beside(x, shape=(x.shape[dim],), dim=0, dtype=x.dtype) + 0.5
    widest = max(step, 1.0) if isinstance(step, float) else clamp(step, min=1.0)
    weights = filter((positions - ((index + 0.5) * step).unsqueeze(1)) / widest)
    weights = weights / weights.sum(1, keepdim=True)
    return movedim(matmul(movedim(x, dim, -1), mT(weights)), -1, dim)


def _resize(x: Any, dim: int, taps: Taps) -> Any:
    """``x`` with another size along ``dim``."""
    index, weights = zip(*taps, strict=True)
    given = [stack([cast(positions, dtype=int64) for positions in index])]
    if weights[0] is not None:
        given.append(stack(weights))
    shape = x.shape
    flat = reshape(x, (1, prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])))
    out = resample_op(flat, *(unsqueeze(t, 0) for t in given), count=len(taps))
    return reshape(out, (*shape[:dim], given[0].shape[1], *shape[dim + 1 :]))


def upsample(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """`interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)
