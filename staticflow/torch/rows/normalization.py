"""Normalisation and dropout. Statistics that only PyTorch's derivatives read are made for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.eager.creation import full
from staticflow.nn.functional.activations import leaky_relu
from staticflow.nn.functional.normalization import batch_norm, group_norm, layer_norm
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.reduce import mean
from staticflow.ops.basics.view import reshape
from staticflow.ops.elementwise.maths import rsqrt
from staticflow.ops.random.sampling import rand_like
from staticflow.ops.statistics.moments import var
from staticflow.torch.rows.row import Rows, each, later

__all__ = ["NORMALIZATION"]


def _mean_over(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    return mean(x, dims, keepdim)


def _rstd_over(x: Any, dims: tuple[int, ...], eps: float, keepdim: bool) -> Any:
    return rsqrt(var(x, dims, correction=0, keepdim=keepdim) + eps)


def _layer_norm(x: Any, shape: Sequence[Any], weight: Any, bias: Any, eps: float) -> Any:
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    out = layer_norm(x, tuple(shape), weight, bias, eps)
    return out, later(_mean_over, x, dims, True), later(_rstd_over, x, dims, eps, True)


def _group_norm(
    x: Any, weight: Any, bias: Any, n: Any, c: Any, hw: Any, group: int, eps: float
) -> Any:
    rows = reshape(x, (n, group, c // group * hw))
    out = group_norm(x, group, weight, bias, eps)
    return out, later(_mean_over, rows, (2,), False), later(_rstd_over, rows, (2,), eps, False)


def _by_batch(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, ...]:
    dims = (0, *range(2, x.ndim))
    out = batch_norm(x, None, None, weight, bias, True, 0.0, eps)
    return out, later(_mean_over, x, dims, False), later(_rstd_over, x, dims, eps, False)


def _move(old: Any, new: Any, momentum: float) -> Any:
    return (old * (1 - momentum) + new.detach() * momentum).to(old.dtype)


def _move_var(x: Any, dims: tuple[int, ...], old: Any, momentum: float) -> Any:
    return _move(old, var(x, dims, correction=1), momentum)


def _move_mean(x: Any, dims: tuple[int, ...], old: Any, momentum: float) -> Any:
    return _move(old, mean(x, dims), momentum)


def _batch_norm_training(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> tuple[Any, ...]:  # fmt: skip
    """The functional overload: the new running statistics are results."""
    if not training:
        out = batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
        return out, running_mean, rsqrt(running_var + eps), running_mean, running_var
    dims = (0, *range(2, x.ndim))
    mean_of, var_of = (
        later(move, x, dims, old, momentum)
        for move, old in ((_move_mean, running_mean), (_move_var, running_var))
    )
    return *_by_batch(x, weight, bias, eps), mean_of, var_of


def _batch_norm_no_training(
    x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float, eps: float
) -> tuple[Any, ...]:
    out = batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    return out, later(full, (0,), 0.0), later(full, (0,), 0.0)


def _batch_norm_of_input(
    x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, ...]:
    return _by_batch(x, weight, bias, eps)


def _dropout(x: Any, p: float, train: bool | None = True) -> tuple[Any, ...]:
    if train is False:
        return x, later(_draw_mask, x, 0.0)
    mask = _draw_mask(x, p)
    return x * mask.to(x.dtype) * (1 / (1 - p) if p < 1 else 0.0), mask


def _rrelu(
    x: Any, noise: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> tuple[Any, ...]:
    """The slopes that were drawn, 1 where ``x`` is not negative, are the second result."""
    if not training:
        return leaky_relu(x, (lower + upper) / 2), noise
    slopes = where(x > 0, 1.0, rand_like(x) * (upper - lower) + lower).to(x.dtype)
    return x * slopes, slopes


def _draw_mask(x: Any, p: float) -> Any:
    return rand_like(x) >= p


NORMALIZATION: Rows = {
    "aten.native_layer_norm.default": _layer_norm,
    "aten.native_group_norm.default": _group_norm,
    "aten._native_batch_norm_legit_functional.default": _batch_norm_training,
    "aten._native_batch_norm_legit_no_training.default": _batch_norm_no_training,
    **each(("_native_batch_norm_legit.no_stats",), _batch_norm_of_input),
    "aten.native_dropout.default": _dropout,
    "aten.rrelu_with_noise_functional.default": _rrelu,
}
"""Rows of normalisation and dropout."""
