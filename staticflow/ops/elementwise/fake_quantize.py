"""Numbers rounded to those that few bits can say, with a gradient as if they were not."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ArgumentError, DTypeError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import clamp, keep_history, where
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim
from staticflow.ops.declaring.required import require_shape
from staticflow.ops.elementwise.maths import round

__all__ = ["fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"]


@by_shape
def fake_quantize_per_tensor_affine(
    input: Any, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Any:
    """The ``input``, of a floating dtype, rounded to numbers that integers from ``quant_min`` to
    ``quant_max`` stand for: ``(clamp(round(input / scale) + zero_point) - zero_point) *
    scale``. ``scale`` and ``zero_point`` are numbers, or tensors of one element.

    The gradient is that of ``input`` where its integer is within the bounds, and 0 elsewhere;
    ``scale`` and ``zero_point`` have none. Raises `ArgumentError` for bounds that are none, and
    `DTypeError` for integers.

    >>> import staticflow as sf
    >>> sf.fake_quantize_per_tensor_affine(sf.tensor([0.04, 0.16, 9.0, -1.0]), 0.1, 0, 0, 15)
    tensor([0.0000, 0.2000, 1.5000, 0.0000])
    """
    name = "fake_quantize_per_tensor_affine"
    one, zero = (
        require_shape(v.detach(), (1,) * v.ndim, f"{name}: {what}").reshape(())
        if hasattr(v, "__sf_mode__")
        else v
        for v, what in ((scale, "scale"), (zero_point, "zero_point"))
    )
    return _round_to_steps(name, input, one, zero, quant_min, quant_max)


@by_shape
def fake_quantize_per_channel_affine(
    input: Any, scale: Any, zero_point: Any, axis: int, quant_min: int, quant_max: int
) -> Any:
    """`fake_quantize_per_tensor_affine` with a ``scale`` and a ``zero_point`` (C,) for each of the
    C slices of ``input`` along ``axis``.

    >>> import staticflow as sf
    >>> x, scale = sf.tensor([[0.26, 0.26]]), sf.tensor([0.1, 0.5])
    >>> sf.fake_quantize_per_channel_affine(x, scale, sf.tensor([0, 0]), 1, 0, 255)
    tensor([[0.3000, 0.5000]])
    """
    name = "fake_quantize_per_channel_affine"
    axis = normalize_dim(axis, input.ndim, name)
    behind = (1,) * (input.ndim - axis - 1)
    each, zeros = (
        require_shape(v.detach(), (input.shape[axis],), f"{name}: {what}").reshape(-1, *behind)
        for v, what in ((scale, "scale"), (zero_point, "zero_point"))
    )
    return _round_to_steps(name, input, each, zeros, quant_min, quant_max)


def _round_to_steps(name: str, x: Any, scale: Any, zero: Any, low: int, high: int) -> Any:
    at = f"at {format_locs(here())}"
    if not x.dtype.is_floating:
        raise DTypeError(f"{name}: takes floating numbers, not {x.dtype.name}; convert it, {at}")
    if low > high:
        raise ArgumentError(f"{name}: quant_min is {low}, above quant_max, {high}, {at}")
    zero = zero.to(x.dtype) if hasattr(zero, "__sf_mode__") else float(zero)
    values = x.detach()
    steps = round(values * (1 / scale)) + zero
    is_within = (steps >= low) & (steps <= high)
    value = ((clamp(steps, low, high) - zero) * scale).to(x.dtype)
    return keep_history(where(is_within, x, values), value)
