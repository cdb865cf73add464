"""Layers of pooling. They have no parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from staticflow.nn import functional as F
from staticflow.nn.module import Module
from staticflow.ops.windows.spatial import per_dim

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class _MaxPool(Module):
    _pool: ClassVar[Callable[..., Any]]

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Any) -> Any:
        """``input`` (N, C, ...) or (C, ...), one element for each window."""
        return type(self)._pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """How windows lie."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """`F.max_pool1d`: the largest element of each window."""

    _pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """`F.max_pool2d`: the largest element of each window.

    >>> import staticflow as sf
    >>> MaxPool2d(2)(sf.ones(1, 3, 6, 6)).shape
    (1, 3, 3, 3)
    """

    _pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """`F.max_pool3d`: the largest element of each window."""

    _pool = staticmethod(F.max_pool3d)


class AvgPool1d(Module):
    """`F.avg_pool1d`: the mean of each window."""

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = _alone(kernel_size)
        self.stride = self.kernel_size if stride is None else _alone(stride)
        self.padding = _alone(padding)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Any) -> Any:
        """``input`` (N, C, L) or (C, L), one element for each window."""
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        """How windows lie."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


def _alone(value: Any) -> Any:
    return (value,) if isinstance(value, int) else value


class _AvgPool(Module):
    _pool: ClassVar[Callable[..., Any]]

    def __init__(
        self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Any) -> Any:
        """``input`` (N, C, ...) or (C, ...), one element for each window."""
        return type(self)._pool(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """How windows lie."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """`F.avg_pool2d`: the mean of each window."""

    _pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """`F.avg_pool3d`: the mean of each window."""

    _pool = staticmethod(F.avg_pool3d)


class _AdaptiveAvgPool(Module):
    _pool: ClassVar[Callable[..., Any]]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Any) -> Any:
        """``input`` (N, C, ...) or (C, ...), with dims of space of ``output_size``."""
        return type(self)._pool(input, self.output_size)

    def extra_repr(self) -> str:
        """The size of the result."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """`F.adaptive_avg_pool1d`: the means of as many windows as are asked for."""

    _pool = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """`F.adaptive_avg_pool2d`: the means of as many windows as are asked for."""

    _pool = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """`F.adaptive_avg_pool3d`: the means of as many windows as are asked for."""

    _pool = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPool(Module):
    _pool: ClassVar[Callable[..., Any]]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Any) -> Any:
        """``input`` (N, C, ...) or (C, ...), with dims of space of ``output_size``."""
        return type(self)._pool(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """The size of the result."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """`F.adaptive_max_pool1d`: the maxima of as many windows as are asked for."""

    _pool = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """`F.adaptive_max_pool2d`: the maxima of as many windows as are asked for."""

    _pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """`F.adaptive_max_pool3d`: the maxima of as many windows as are asked for."""

    _pool = staticmethod(F.adaptive_max_pool3d)


class _LPPool(Module):
    _pool: ClassVar[Callable[..., Any]]

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride = norm_type, kernel_size, stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Any) -> Any:
        """``input`` (N, C, ...) or (C, ...), one element for each window."""
        return type(self)._pool(
            input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        """How windows lie."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """`F.lp_pool1d`: a norm of each window."""

    _pool = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """`F.lp_pool2d`: a norm of each window."""

    _pool = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """`F.lp_pool3d`: a norm of each window."""

    _pool = staticmethod(F.lp_pool3d)


class _MaxUnpool(Module):
    _rank: ClassVar[int]
    _unpool: ClassVar[Callable[..., Any]]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        name, rank = type(self).__name__, self._rank
        self.kernel_size = per_dim(kernel_size, rank, 1, f"{name}: kernel_size")
        step = self.kernel_size if stride is None else stride
        self.stride = per_dim(step, rank, 1, f"{name}: stride")
        self.padding = per_dim(padding, rank, 0, f"{name}: padding")

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """What a pooling gave as ``input`` at ``indices``, where it was; zeros elsewhere."""
        return type(self)._unpool(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        """How windows lie."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """`F.max_unpool1d`: the way back of `MaxPool1d`."""

    _rank, _unpool = 1, staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """`F.max_unpool2d`: the way back of `MaxPool2d`."""

    _rank, _unpool = 2, staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """`F.max_unpool3d`: the way back of `MaxPool3d`."""

    _rank, _unpool = 3, staticmethod(F.max_unpool3d)


class _FractionalMaxPool(Module):
    _pool: ClassVar[Callable[..., Any]]

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size, self.return_indices = kernel_size, return_indices
        self.output_size, self.output_ratio = output_size, output_ratio
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Any) -> Any:
        """``input`` (N, C, ...) or (C, ...), one element for each window."""
        return type(self)._pool(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            self._random_samples,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """How large windows are, and how many there are."""
        return (
            f"kernel_size={self.kernel_size}, output_size={self.output_size}, "
            f"output_ratio={self.output_ratio}"
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """`F.fractional_max_pool2d`: the largest element of each of windows that lie at random."""

    _pool = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """`F.fractional_max_pool3d`: the largest element of each of windows that lie at random."""

    _pool = staticmethod(F.fractional_max_pool3d)
