"""Convolutions, pooling and resampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.nn.functional.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from staticflow.nn.functional.fractional_pooling import fractional_max_pool2d, fractional_max_pool3d
from staticflow.nn.functional.grid import grid_sample
from staticflow.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool2d,
    max_pool3d,
)
from staticflow.nn.functional.shapes import fold, interpolate, unfold
from staticflow.torch.rows.row import Rows, for_each_dim

__all__ = ["WINDOWS", "convolve"]

_FORWARD = {1: conv1d, 2: conv2d, 3: conv3d}
_BACK = {1: conv_transpose1d, 2: conv_transpose2d, 3: conv_transpose3d}
_MODES, _PADS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


def convolve(
    x: Any, weight: Any, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Any:  # fmt: skip
    """The convolution of ATen, or that transposed, in one, two or three dims."""
    dims = weight.ndim - 2
    stride, padding, dilation = (for_each_dim(v, dims) for v in (stride, padding, dilation))
    if not transposed:
        return _FORWARD[dims](x, weight, bias, stride, padding, dilation, groups)
    more = for_each_dim(output_padding, dims)
    return _BACK[dims](x, weight, bias, stride, padding, more, groups, dilation)


def _max_pool(pool: Any, dims: int) -> Any:
    def row(
        x: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> tuple[Any, ...]:  # fmt: skip
        kernel, padding, dilation = (
            for_each_dim(v, dims) for v in (kernel_size, padding, dilation)
        )
        stride = for_each_dim(stride, dims) if stride else None
        return tuple(pool(x, kernel, stride, padding, dilation, ceil_mode, True))

    return row


def _avg_pool(pool: Any, dims: int) -> Any:
    def row(
        x: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> Any:  # fmt: skip
        kernel, padding = for_each_dim(kernel_size, dims), for_each_dim(padding, dims)
        stride = for_each_dim(stride, dims) if stride else None
        more = () if divisor_override is None else (divisor_override,)
        return pool(x, kernel, stride, padding, ceil_mode, count_include_pad, *more)

    return row


def _adaptive(pool: Any) -> Any:
    def row(x: Any, output_size: Any) -> Any:
        return pool(x, tuple(output_size))

    return row


def _adaptive_max(pool: Any) -> Any:
    def row(x: Any, output_size: Any) -> tuple[Any, ...]:
        return tuple(pool(x, tuple(output_size), True))

    return row


def _upsample(mode: str, takes_corners: bool) -> Any:
    """The overload ``vec``, which is given a size or factors."""

    def row(x: Any, output_size: Any, *rest: Any) -> Any:
        corners, factors = rest if takes_corners else (None, rest[0])
        size = None if output_size is None else tuple(output_size)
        scale = None if size is not None else tuple(factors)
        return interpolate(x, size, scale, mode, corners or None)

    return row


def _upsample_to(mode: str, takes_corners: bool) -> Any:
    """The overload ``default``: a size, and the factors that led to it."""

    def row(x: Any, output_size: Any, *rest: Any, **factors: Any) -> Any:
        corners = rest[0] if takes_corners else None
        return interpolate(x, tuple(output_size), None, mode, corners or None)

    return row


def _grid_sample(
    x: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    return grid_sample(x, grid, _MODES[interpolation_mode], _PADS[padding_mode], align_corners)


def _col2im(
    x: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Any:
    sizes = tuple(map(tuple, (output_size, kernel_size, dilation, padding, stride)))
    return fold(x, *sizes)


def _im2col(x: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    return unfold(x, *map(tuple, (kernel_size, dilation, padding, stride)))


def _fractional_max_pool(pool: Any) -> Any:
    def row(x: Any, kernel_size: Any, output_size: Any, samples: Any) -> tuple[Any, ...]:
        values, places = pool(x, tuple(kernel_size), tuple(output_size), None, True, samples)
        return values, places

    return row


WINDOWS: Rows = {
    "aten.convolution.default": convolve,
    "aten.max_pool2d_with_indices.default": _max_pool(max_pool2d, 2),
    "aten.max_pool3d_with_indices.default": _max_pool(max_pool3d, 3),
    "aten.fractional_max_pool2d.default": _fractional_max_pool(fractional_max_pool2d),
    "aten.fractional_max_pool3d.default": _fractional_max_pool(fractional_max_pool3d),
    "aten.avg_pool1d.default": _avg_pool(avg_pool1d, 1),
    "aten.avg_pool2d.default": _avg_pool(avg_pool2d, 2),
    "aten.avg_pool3d.default": _avg_pool(avg_pool3d, 3),
    "aten.adaptive_avg_pool1d.default": _adaptive(adaptive_avg_pool1d),
    "aten._adaptive_avg_pool2d.default": _adaptive(adaptive_avg_pool2d),
    "aten._adaptive_avg_pool3d.default": _adaptive(adaptive_avg_pool3d),
    "aten.adaptive_max_pool2d.default": _adaptive_max(adaptive_max_pool2d),
    "aten.adaptive_max_pool3d.default": _adaptive_max(adaptive_max_pool3d),
    "aten.grid_sampler_2d.default": _grid_sample,
    "aten.col2im.default": _col2im,
    "aten.im2col.default": _im2col,
    "aten.upsample_nearest1d.vec": _upsample("nearest", False),
    "aten.upsample_nearest2d.vec": _upsample("nearest", False),
    "aten.upsample_linear1d.vec": _upsample("linear", True),
    "aten.upsample_bilinear2d.vec": _upsample("bilinear", True),
    "aten.upsample_nearest1d.default": _upsample_to("nearest", False),
    "aten.upsample_nearest2d.default": _upsample_to("nearest", False),
    "aten.upsample_bilinear2d.default": _upsample_to("bilinear", True),
}
"""Rows of windows."""
