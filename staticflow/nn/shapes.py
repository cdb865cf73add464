"""Layers without parameters that give their input another shape or size, or compare two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from staticflow.nn import functional as F
from staticflow.nn.activation import _Shown
from staticflow.nn.module import Module

__all__ = [
    "ChannelShuffle", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d",
    "ConstantPad2d", "ConstantPad3d", "CosineSimilarity", "Fold", "PairwiseDistance",
    "PixelShuffle", "PixelUnshuffle", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d",
    "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "Unflatten", "Unfold", "Upsample",
    "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class Unflatten(_Shown):
    """``dim`` split into dims of ``unflattened_size``, of which one may be -1.

    >>> import staticflow as sf
    >>> Unflatten(1, (2, -1))(sf.ones(3, 8)).shape
    (3, 2, 4)
    """

    shown = ("dim", "unflattened_size")

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Any) -> Any:
        """``input`` with the dim split."""
        return input.unflatten(self.dim, self.unflattened_size)


class CosineSimilarity(Module):
    """`F.cosine_similarity` along ``dim``."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Any, x2: Any) -> Any:
        """The cosines of the angles between vectors of both."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """`F.pairwise_distance` by the ``p``-norm."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.p, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        """The distances (...) of vectors (..., d)."""
        return F.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)


# -- windows and pixels -------------------------------------------------------------------------


class Unfold(_Shown):
    """`F.unfold`: windows as columns."""

    shown: ClassVar[tuple[str, ...]] = ("kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.kernel_size, self.dilation = kernel_size, dilation
        self.padding, self.stride = padding, stride

    def forward(self, input: Any) -> Any:
        """Images (N, C, H, W) to columns."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(Unfold):
    """`F.fold`: columns added up to an image of ``output_size``."""

    shown = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any,
        dilation: Any = 1,
        padding: Any = 0,
        stride: Any = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Any) -> Any:
        """Columns to images (N, C, H, W)."""
        given = self.kernel_size, self.dilation, self.padding, self.stride
        return F.fold(input, self.output_size, *given)


class PixelShuffle(_Shown):
    """`F.pixel_shuffle` by ``upscale_factor``."""

    shown = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Any) -> Any:
        """(..., C * r * r, H, W) to (..., C, H * r, W * r)."""
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(_Shown):
    """`F.pixel_unshuffle` by ``downscale_factor``."""

    shown = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Any) -> Any:
        """(..., C, H * r, W * r) to (..., C * r * r, H, W)."""
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(_Shown):
    """`F.channel_shuffle` of ``groups``."""

    shown = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Any) -> Any:
        """(N, C, ...) with the channels in another order."""
        return F.channel_shuffle(input, self.groups)


class Upsample(Module):
    """`F.interpolate` to ``size``, or by ``scale_factor``."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size, self.mode = size, mode
        self.scale_factor = float(scale_factor) if isinstance(scale_factor, int) else scale_factor
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Any) -> Any:
        """(N, C, ...) with other sizes of space."""
        how = self.mode, self.align_corners, self.recompute_scale_factor
        return F.interpolate(input, self.size, self.scale_factor, *how)

    def extra_repr(self) -> str:
        """How."""
        what = "size" if self.scale_factor is None else "scale_factor"
        return f"{what}={getattr(self, what)!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """`Upsample` of images, in mode "nearest"."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor)


class UpsamplingBilinear2d(Upsample):
    """`Upsample` of images, in mode "bilinear" with ``align_corners``."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


# -- padding ------------------------------------------------------------------------------------


class _Pad(_Shown):
    """`F.pad` at both ends of the dims of space; ``padding`` is a number for all, or as there."""

    rank: ClassVar[int]
    mode: ClassVar[str] = "constant"
    shown = ("padding",)

    def __init__(self, padding: Any, value: float = 0.0) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.rank) if isinstance(padding, int) else tuple(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        """(N, C, ...) with more at the ends."""
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        """The numbers."""
        return super().extra_repr() if len(self.shown) > 1 else str(self.padding)


def _pads(name: str, mode: str, shown: tuple[str, ...] = ("padding",)) -> list[Any]:
    doc = "`F.pad` of {} dim{} of space, in mode " + f'"{mode}".'
    made = []
    for rank in (1, 2, 3):
        body = {"rank": rank, "mode": mode, "shown": shown, "__module__": __name__}
        body["__doc__"] = doc.format(("one", "two", "three")[rank - 1], "s" if rank > 1 else "")
        made.append(type(f"{name}Pad{rank}d", (_Pad,), body))
    return made


ConstantPad1d, ConstantPad2d, ConstantPad3d = _pads("Constant", "constant", ("padding", "value"))
ZeroPad1d, ZeroPad2d, ZeroPad3d = _pads("Zero", "constant")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _pads("Reflection", "reflect")
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _pads("Replication", "replicate")
CircularPad1d, CircularPad2d, CircularPad3d = _pads("Circular", "circular")
