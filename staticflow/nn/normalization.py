"""Layers of normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from staticflow.errors import ShapeError
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.nn import functional as F
from staticflow.nn.init import ones_, zeros_
from staticflow.nn.module import Module
from staticflow.nn.parameter import empty, new_parameter, tensor
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.view import squeeze, unsqueeze
from staticflow.ops.declaring.sizes import as_sizes
from staticflow.ops.symbols.effect import count, read

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LocalResponseNorm", "RMSNorm",
]  # fmt: skip


class _RunningNorm(Module):
    """A weight and a bias for each channel, and running statistics of the inputs so far."""

    ndims: ClassVar[tuple[int, ...]]

    def __init__(
        self, num_features: int, eps: float, momentum: float | None, affine: bool,
        track_running_stats: bool, device: Any, dtype: Any, bias: bool,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        options = {"dtype": dtype, "device": device}
        self.weight = new_parameter(num_features, **options) if affine else None
        self.bias = new_parameter(num_features, **options) if affine and bias else None
        tracked = track_running_stats
        self.register_buffer("running_mean", empty(num_features, **options) if tracked else None)
        self.register_buffer("running_var", empty(num_features, **options) if tracked else None)
        count = tensor(0, dtype=int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Begin with mean 0 and variance 1, of no input."""
        if self.track_running_stats:
            zeros_(self.running_mean)
            ones_(self.running_var)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Statistics as at first, weights 1, biases 0."""
        self.reset_running_stats()
        _reset_affine(self)

    def _check(self, x: Any) -> None:
        if x.ndim not in self.ndims:
            wanted = " or ".join(map(str, self.ndims))
            raise ShapeError(
                f"{type(self).__name__}: takes an input of {wanted} dims, not of shape "
                f"{list(x.shape)}, at {format_locs(here())}"
            )

    def _momentum(self, x: Any) -> Any:
        """The weight of this input in the running statistics: what is given, or else 1 / its
        number, so that the statistics are plain means."""
        if self.momentum is not None or not self._counts():
            return self.momentum or 0.0
        number = read(self.num_batches_tracked, x) + 1
        return 1.0 / cast(number, dtype=self.running_mean.dtype)

    def _counts(self) -> bool:
        return self.training and self.track_running_stats

    def extra_repr(self) -> str:
        """The number of channels, and how they are normalised."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_RunningNorm):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def forward(self, input: Any) -> Any:
        """``input`` (N, num_features, ...) with each channel normalised."""
        self._check(input)
        by_input = self.training or self.running_mean is None
        used = not self.training or self.track_running_stats
        out = F.batch_norm(
            input, self.running_mean if used else None, self.running_var if used else None,
            self.weight, self.bias, by_input, self._momentum(input), self.eps,
        )  # fmt: skip
        return count(out, self.num_batches_tracked) if self._counts() else out


class BatchNorm1d(_BatchNorm):
    """`F.batch_norm` of (N, C) or (N, C, L), with ``weight`` and ``bias`` (C,) that start as 1 and
    0 (without ``affine`` there are none, without ``bias`` only the weight).

    In training the statistics of the input are used, and the buffers ``running_mean`` and
    ``running_var`` move towards them by ``momentum`` (None: they are plain means over all inputs so
    far, of which ``num_batches_tracked`` is the number); in a compiled program at each call. In
    evaluation the running ones are used, or those of the input without ``track_running_stats``.

    >>> import staticflow as sf
    >>> BatchNorm1d(2)(sf.tensor([[1.0, 5.0], [3.0, 5.0]]))
    tensor([[-1.0000,  0.0000],
            [ 1.0000,  0.0000]], grad_fn=<NativeBatchNormBackward0>)
    """

    ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """`F.batch_norm` of (N, C, H, W), with the options of `BatchNorm1d`."""

    ndims = (4,)


class BatchNorm3d(_BatchNorm):
    """`F.batch_norm` of (N, C, D, H, W), with the options of `BatchNorm1d`."""

    ndims = (5,)


class _InstanceNorm(_RunningNorm):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = False, track_running_stats: bool = False, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def forward(self, input: Any) -> Any:
        """``input`` (N, C, ...) or (C, ...) with each channel of each n normalised."""
        self._check(input)
        if input.ndim == self.ndims[0]:
            return squeeze(self._normalize(unsqueeze(input, 0)), 0)
        return self._normalize(input)

    def _normalize(self, x: Any) -> Any:
        return F.instance_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, self.momentum or 0.0, self.eps,
        )  # fmt: skip


class InstanceNorm1d(_InstanceNorm):
    """`F.instance_norm` of (N, C, L) or (C, L), by default without weight, bias and running
    statistics."""

    ndims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """`F.instance_norm` of (N, C, H, W) or (C, H, W), with the options of `InstanceNorm1d`."""

    ndims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """`F.instance_norm` of (N, C, D, H, W) or (C, D, H, W), with the options of
    `InstanceNorm1d`."""

    ndims = (4, 5)


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return as_sizes(normalized_shape)


class LayerNorm(Module):
    """`F.layer_norm` over the last dims, ``normalized_shape``, with a ``weight`` and a ``bias`` of
    that shape which start as 1 and 0 (without ``elementwise_affine`` there are none).

    >>> import staticflow as sf
    >>> LayerNorm(2)(sf.tensor([1.0, 3.0]))
    tensor([-1.0000,  1.0000], grad_fn=<NativeLayerNormBackward0>)
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5,
        elementwise_affine: bool = True, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        options = {"dtype": dtype, "device": device}
        shape = self.normalized_shape
        self.weight = new_parameter(*shape, **options) if elementwise_affine else None
        self.bias = new_parameter(*shape, **options) if elementwise_affine and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights 1, biases 0."""
        _reset_affine(self)

    def forward(self, input: Any) -> Any:
        """``input`` (..., *normalized_shape), normalised."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The shape, and how it is normalised."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """`F.rms_norm` over the last dims, ``normalized_shape``, with a ``weight`` of that shape which
    starts as 1 (without ``elementwise_affine`` there is none)."""

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None,
        elementwise_affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.elementwise_affine = elementwise_affine
        options = {"dtype": dtype, "device": device}
        shape = self.normalized_shape
        self.weight = new_parameter(*shape, **options) if elementwise_affine else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights 1."""
        if self.weight is not None:
            ones_(self.weight)

    def forward(self, x: Any) -> Any:
        """``x`` (..., *normalized_shape), normalised."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The shape, and how it is normalised."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """`F.group_norm` of (N, num_channels, ...) in ``num_groups`` groups, with a ``weight`` and a
    ``bias`` (num_channels,) that start as 1 and 0 (without ``affine`` there are none)."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(
                f"GroupNorm: {num_channels} channels cannot be put into {num_groups} equal groups, "
                f"at {format_locs(here())}"
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        options = {"dtype": dtype, "device": device}
        self.weight = new_parameter(num_channels, **options) if affine else None
        self.bias = new_parameter(num_channels, **options) if affine and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights 1, biases 0."""
        _reset_affine(self)

    def forward(self, input: Any) -> Any:
        """``input`` (N, num_channels, ...) with each group normalised."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The groups, and how they are normalised."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


def _reset_affine(layer: Any) -> None:
    """Weights 1 and biases 0, where there are such."""
    if layer.weight is not None:
        ones_(layer.weight)
    if layer.bias is not None:
        zeros_(layer.bias)


class LocalResponseNorm(Module):
    """Elements divided by the size of their neighbours in other channels; see
    `local_response_norm`."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Any) -> Any:
        """The normalised ``input`` (N, C, ...)."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
