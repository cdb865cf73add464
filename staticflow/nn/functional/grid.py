"""Images read at positions that a grid names, and grids that affine maps make."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from staticflow.errors import ArgumentError, DTypeError, ShapeError
from staticflow.graph.dims import Size, prod, same
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import cast, clamp, where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.creation import iota, ones_like
from staticflow.ops.basics.joining import stack
from staticflow.ops.basics.view import of_size, reshape
from staticflow.ops.declaring.declare import same_size
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.required import require_at_least
from staticflow.ops.declaring.sizes import as_sizes
from staticflow.ops.elementwise.compare import nan_to_num
from staticflow.ops.elementwise.maths import abs, floor, round
from staticflow.ops.elementwise.pairs import fmod
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.windows.resample import resample_op

__all__ = ["affine_grid", "grid_sample"]


def affine_grid(theta: Any, size: Sequence[Size], align_corners: bool | None = None) -> Any:
    """The positions (N, H, W, 2) that the affine maps ``theta`` (N, 2, 3) send the positions of
    images of ``size`` (N, C, H, W) to, as `grid_sample` reads them: (x, y) from -1 to 1; or (N, D,
    H, W, 3) for ``theta`` (N, 3, 4). With ``align_corners`` -1 and 1 are the middles of the
    outermost elements, else their outer edges.

    >>> import staticflow as sf
    >>> same = sf.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> affine_grid(same, (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    if not theta.dtype.is_floating:
        raise DTypeError(
            f"affine_grid: takes maps of floats, not of {theta.dtype.name}; cast them, as in "
            f"theta.float(), at {format_locs(here())}"
        )
    sizes = as_sizes(size)
    rank = len(sizes) - 2
    own = zip(theta.shape[1:], (rank, rank + 1), strict=False)
    if rank not in (2, 3) or theta.ndim != 3 or not all(same_size(n, m) for n, m in own):
        raise ShapeError(
            "affine_grid: takes maps (N, 2, 3) for a size (N, C, H, W), or (N, 3, 4) for "
            f"(N, C, D, H, W), not {list(theta.shape)} for {list(sizes)}, at {format_locs(here())}"
        )
    theta = of_size(of_size(theta, 1, rank), 2, rank + 1)
    space = sizes[2:]
    columns = [_positions(theta, space, d, bool(align_corners)) for d in reversed(range(rank))]
    base = stack([*columns, ones_like(columns[0])], -1)
    turned = matmul(reshape(base, (1, prod(space), rank + 1)), mT(theta))
    return reshape(turned, (sizes[0], *space, rank))


def _positions(like: Any, space: Sequence[Size], dim: int, align_corners: bool) -> Any:
    """The positions along ``dim`` of each element of ``space``, from -1 to 1."""
    n = space[dim]
    at = iota.beside(like, shape=tuple(space), dim=dim, dtype=like.dtype)
    if not align_corners:
        return (at * 2 + 1) / n - 1
    return at * 0.0 if same(n, 1) else at * 2 / (n - 1) - 1


def _reflect(x: Any, low: Any, span: Any) -> Any:
    """``x`` mirrored at ``low`` and ``low + span`` until it lies between."""
    far = abs(x - low)
    rest = fmod(far, span)
    return where(fmod(floor(far / span), 2) == 0, rest, span - rest) + low


def _inside(x: Any, size: Any, padding_mode: str, align_corners: bool) -> Any:
    """Places along a dim, led back into it as ``padding_mode`` says."""
    if padding_mode == "reflection":
        if align_corners:
            x = x * 0.0 if same(size, 1) else _reflect(x, 0.0, size - 1)
        else:
            x = _reflect(x, -0.5, size)
    return x if padding_mode == "zeros" else clamp(x, 0, size - 1)


def _cubic(t: Any) -> list[Any]:
    """The weights of the four elements around a position that lies ``t`` behind the second (Keys
    1981, with a = -0.75)."""
    a = -0.75

    def outer(d: Any) -> Any:
        return ((d - 5) * d + 8) * d * a - 4 * a

    def inner(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    return [outer(t + 1), inner(t), inner(1 - t), outer(2 - t)]


def _taps(x: Any, mode: str) -> list[tuple[Any, Any]]:
    """The elements that are read for a position along a dim, each with its weight."""
    if mode == "nearest":
        # 1, with a way back to the positions along which the derivative is 0
        return [(round(x), floor(nan_to_num(x) * 0.0) + 1.0)]
    first = floor(x)
    t = x - first
    if mode == "bilinear":
        return [(first, 1 - t), (first + 1, t)]
    return [(first + i - 1, w) for i, w in enumerate(_cubic(t))]


_PADDINGS = ("zeros", "border", "reflection")


@by_autocast
def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """``input`` (N, C, H, W) at the positions ``grid`` (N, I, J, 2), (x, y) from -1 to 1 as
    `affine_grid` makes them, to (N, C, I, J); or (N, C, D, H, W) at (N, I, J, K, 3).

    ``mode`` is "bilinear" (of three dims trilinear), "nearest" or, of two, "bicubic"; what lies
    outside is 0 ("zeros"), the nearest element ("border") or mirrored ("reflection").

    >>> import staticflow as sf
    >>> x = sf.tensor([[[[1.0, 3.0]]]])
    >>> grid_sample(x, sf.tensor([[[[0.0, 0.0]]]]), align_corners=False)
    tensor([[[[2.]]]])
    """
    rank = input.ndim - 2
    wrong = (
        f"takes (N, C, H, W) at (N, I, J, 2), or (N, C, D, H, W) at (N, I, J, K, 3), not "
        f"{list(input.shape)} at {list(grid.shape)}"
        if rank not in (2, 3) or grid.ndim != input.ndim or not same_size(grid.shape[-1], rank)
        else f"mode is bilinear, nearest or, of two dims, bicubic, not {mode!r}"
        if mode not in ("bilinear", "nearest") and (mode != "bicubic" or rank != 2)
        else f"padding_mode is one of {', '.join(_PADDINGS)}, not {padding_mode!r}"
        if padding_mode not in _PADDINGS
        else None
    )
    if wrong:
        raise ArgumentError(f"grid_sample: {wrong}, at {format_locs(here())}")
    grid = of_size(grid, grid.ndim - 1, rank)
    for n in input.shape[2:]:
        sizes = f"grid_sample: the sizes of space {list(input.shape[2:])}, and one of them"
        input = require_at_least(input, n, 1, sizes)
    return _sample(input, grid, mode, padding_mode, bool(align_corners))


@fused("GridSampler2DBackward0")
def _sample(input: Any, grid: Any, mode: str, padding_mode: str, align_corners: bool) -> Any:
    n, channels, *space = input.shape
    rank, positions = len(space), grid.shape[1:-1]
    taps = []
    for d, size in enumerate(space):
        g = reshape(grid[..., rank - 1 - d], (n, prod(positions)))
        x = (g + 1) / 2 * (size - 1) if align_corners else ((g + 1) * size - 1) / 2
        if mode != "bicubic":  # whose elements are led back one by one
            x = _inside(x, size, padding_mode, align_corners)
        taps.append(_taps(x, mode))
    corners = itertools.product(*taps)
    read = [_read(space, corner, padding_mode, align_corners) for corner in corners]
    index, weight = (stack(part, 1) for part in zip(*read, strict=True))
    flat = reshape(input, (n, channels, prod(tuple(space)), 1))
    return reshape(resample_op(flat, index, weight, count=len(read)), (n, channels, *positions))


def _read(space: Any, corner: Any, padding_mode: str, align_corners: bool) -> tuple[Any, Any]:
    """Where one of the elements for each position is, and its weight."""
    index: Any = 0
    weight: Any = 1.0
    for size, (at, own) in zip(space, corner, strict=True):
        at = _inside(at, size, padding_mode, align_corners)
        weight = weight * own
        if padding_mode == "zeros":
            weight = where((at >= 0) & (at <= size - 1), weight, 0.0)
        index = index * size + cast(clamp(at, 0, size - 1), dtype=int64)
    return index, weight
