"""Layers of convolution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.nn import functional as F
from staticflow.nn.functional.conv import checked_padding
from staticflow.nn.init import uniform_
from staticflow.nn.module import Module
from staticflow.nn.parameter import new_parameter
from staticflow.ops.windows.spatial import per_dim

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
]  # fmt: skip

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all layers of convolution hold: a weight (and a bias) uniform on +-1/sqrt(fan_in)."""

    rank: ClassVar[int]
    transposed: ClassVar[bool] = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any,
        output_padding: Any, dilation: Any, groups: int, bias: bool, padding_mode: str,
        device: Any, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        name, rank = type(self).__name__, self.rank
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ShapeError(
                f"{name}: in_channels {in_channels} and out_channels {out_channels} must be "
                f"multiples of groups {groups}, at {format_locs(here())}"
            )
        if padding_mode not in _PADDING_MODES or (self.transposed and padding_mode != "zeros"):
            known = _PADDING_MODES[:1] if self.transposed else _PADDING_MODES
            raise ShapeError(
                f"{name}: padding_mode is {padding_mode!r}; it must be one of "
                f"{', '.join(known)}, at {format_locs(here())}"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = per_dim(kernel_size, rank, 1, f"{name}: kernel_size")
        self.stride = per_dim(stride, rank, 1, f"{name}: stride")
        self.padding = checked_padding(padding, rank, name)
        if self.padding == "same" and any(s != 1 for s in self.stride):
            raise ShapeError(
                f'{name}: padding="same" keeps the size, and stride {self.stride} does not; give '
                f"numbers, or stride 1, at {format_locs(here())}"
            )
        self.output_padding = per_dim(output_padding, rank, 0, f"{name}: output_padding")
        self.dilation = per_dim(dilation, rank, 1, f"{name}: dilation")
        self.groups, self.padding_mode = groups, padding_mode
        rows, columns = self._rows_and_columns(in_channels)
        options = {"dtype": dtype, "device": device}
        self.weight = new_parameter(rows, columns // groups, *self.kernel_size, **options)
        self.bias = new_parameter(out_channels, **options) if bias else None
        self.reset_parameters()

    def _rows_and_columns(self, in_channels: Any) -> tuple[Any, Any]:
        """The numbers of rows and columns of the weight, of all groups together."""
        sizes = self.out_channels, in_channels
        return sizes[::-1] if self.transposed else sizes

    def reset_parameters(self) -> None:
        """Draw the weight and the bias anew."""
        fan_in = math.prod(self.weight.shape[1:])
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes, and whatever is not the default."""
        parts = [
            f"{self.in_channels}, {self.out_channels}",
            f"kernel_size={self.kernel_size}",
            f"stride={self.stride}",
        ]
        one, none = (1,) * self.rank, (0,) * self.rank
        shown: list[tuple[str, Any, Any]] = [
            ("padding", self.padding, none), ("dilation", self.dilation, one),
            ("output_padding", self.output_padding, none), ("groups", self.groups, 1),
            ("bias", self.bias is not None, True), ("padding_mode", self.padding_mode, "zeros"),
        ]  # fmt: skip
        parts += [f"{name}={value}" for name, value, default in shown if value != default]
        return ", ".join(parts)


class _Conv(_ConvNd):
    """A convolution."""

    _convolve: ClassVar[Callable[..., Any]]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, dilation: Any = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, 0, dilation, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Any) -> Any:
        """``input`` (N, in_channels, ...) or (in_channels, ...) to out_channels."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._ends(), self.padding_mode), 0
        return type(self)._convolve(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )

    def _ends(self) -> list[int]:
        """How many elements there are to be before and after each dim, the last dim first."""
        ends: list[int] = []
        for axis in reversed(range(self.rank)):
            total = self.dilation[axis] * (self.kernel_size[axis] - 1)
            if not isinstance(self.padding, str):
                ends += [self.padding[axis]] * 2
            elif self.padding == "same":
                ends += [total // 2, total - total // 2]
        return ends


class Conv1d(_Conv):
    """`F.conv1d` of (N, in_channels, L) with a ``weight`` (out_channels, in_channels / groups,
    kernel_size) and a ``bias`` (out_channels,).

    ``padding`` is a number, "same" or "valid"; ``padding_mode`` says what it consists of: "zeros",
    "reflect", "replicate" or "circular" (see `F.pad`). Weight and bias start uniform on
    +-1/sqrt(in_channels / groups * kernel_size), as in PyTorch.

    >>> import staticflow as sf
    >>> Conv1d(3, 5, 2)(sf.ones(4, 3, 10)).shape
    (4, 5, 9)
    """

    rank = 1
    _convolve = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """`F.conv2d` of (N, in_channels, H, W), with the options of `Conv1d`; what is given for each
    dim is an int or a pair.

    >>> Conv2d(1, 6, 5, padding="same")
    Conv2d(1, 6, kernel_size=(5, 5), stride=(1, 1), padding=same)
    """

    rank = 2
    _convolve = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """`F.conv3d` of (N, in_channels, D, H, W), with the options of `Conv1d`; what is given for each
    dim is an int or a triple."""

    rank = 3
    _convolve = staticmethod(F.conv3d)


class _ConvTranspose(_ConvNd):
    """The transpose of a convolution."""

    transposed = True
    _convolve: ClassVar[Callable[..., Any]]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1,
        padding: Any = 0, output_padding: Any = 0, groups: int = 1, bias: bool = True,
        dilation: Any = 1, padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation,
            groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Any, output_size: Sequence[int] | None = None) -> Any:
        """``input`` (N, in_channels, ...) or (in_channels, ...) to out_channels; with an
        ``output_size``, the last sizes or all of them, the ``output_padding`` is what it takes.

        Raises `ShapeError` for sizes that the stride cannot give."""
        missing = self.output_padding if output_size is None else self._missing(input, output_size)
        return type(self)._convolve(
            input, self.weight, self.bias, self.stride, self.padding, missing, self.groups,
            self.dilation,
        )  # fmt: skip

    def _missing(self, input: Any, output_size: Sequence[int]) -> tuple[Any, ...]:
        """How much larger than the least result one of that size is."""
        rank, wanted = len(self.stride), list(output_size)
        padding: Any = self.padding  # no words: these are of layers that are not transposed
        sizes = input.shape[-rank:]
        each = zip(sizes, self.stride, padding, self.dilation, self.kernel_size, strict=True)
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in each]
        found = tuple(a - b for a, b in zip(wanted[-rank:], least, strict=False))
        fits = len(wanted) in (rank, rank + 2) and all(
            0 <= a < s for a, s in zip(found, self.stride, strict=True)
        )
        if not fits:
            most = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
            raise ShapeError(
                f"{type(self).__name__}: output_size={wanted} is none that it gives of an input of "
                f"shape {list(input.shape)}; its {rank} last sizes must lie between {least} and "
                f"{most}, at {format_locs(here())}"
            )
        return found


class ConvTranspose1d(_ConvTranspose):
    """`F.conv_transpose1d` of (N, in_channels, L) with a ``weight`` (in_channels, out_channels /
    groups, kernel_size) and a ``bias`` (out_channels,), which start as those of `Conv1d`.

    >>> import staticflow as sf
    >>> ConvTranspose1d(3, 5, 2, stride=2)(sf.ones(4, 3, 10)).shape
    (4, 5, 20)
    """

    rank = 1
    _convolve = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """`F.conv_transpose2d` of (N, in_channels, H, W), with the options of `ConvTranspose1d`."""

    rank = 2
    _convolve = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """`F.conv_transpose3d` of (N, in_channels, D, H, W), with the options of `ConvTranspose1d`."""

    rank = 3
    _convolve = staticmethod(F.conv_transpose3d)
