"""Normalisation by statistics of the input, or by statistics of the inputs so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.dims import Size, is_provably_ge, prod, same, same_shape
from staticflow.graph.dtypes import float64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Shape
from staticflow.nn.functional.pad import pad
from staticflow.ops.along.collectives import all_reduce_op
from staticflow.ops.along.normalization import (
    batch_norm_op,
    batch_statistics,
    group_norm_op,
    instance_statistics,
    layer_norm_op,
)  # fmt: skip
from staticflow.ops.basics.arithmetic import clamp, where
from staticflow.ops.basics.creation import new_full
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.reduce import mean_op, narrow_as, widen
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import same_size
from staticflow.ops.declaring.fused import fused, in_place
from staticflow.ops.declaring.promote import one_number
from staticflow.ops.declaring.required import require_other, require_true
from staticflow.ops.declaring.sizes import as_size, as_sizes, refuse_many
from staticflow.ops.elementwise.maths import pow, rsqrt
from staticflow.ops.statistics.moments import vector_norm
from staticflow.ops.symbols.effect import effect, read
from staticflow.ops.symbols.real_sizes import number_of_size
from staticflow.ops.symbols.symbol import symbolic

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "local_response_norm", "normalize",
    "rms_norm",
]  # fmt: skip


def _apply(op: Op, x: Any, weight: Any, bias: Any, layout: Shape, **attrs: Any) -> Any:
    """``op`` with the weight and the bias that there are; a bias alone is added in ``layout``."""
    if weight is None:
        out = op(x, **attrs)
        return out if bias is None else out + reshape(bias, layout)
    return op(x, weight, **attrs) if bias is None else op(x, weight, bias, **attrs)


def _eps(name: str, given: Any) -> Any:
    """What the function ``name`` adds to a variance: a number from 0 on, or a symbol of one."""
    eps = given if type(given) is float else one_number(given, "eps")
    if isinstance(eps, int | float) and eps < 0:
        raise ArgumentError(
            f"{name}: eps is {eps}, and is added to a variance, of which the root is taken; it must"
            f" not be negative, at {format_locs(here())}"
        )
    return eps


def _per_channel(x: Any, size: Any) -> Shape:
    """The shape in which values of channels broadcast with ``x`` (N, C, ...)."""
    return (size, *(1,) * (x.ndim - 2))


def _check_channels(name: str, x: Any, **given: Any) -> None:
    """Refuse values of channels that are not (C,): they would broadcast against what they are not
    of."""
    channels = x.shape[1] if x.ndim > 1 else None
    for what, values in given.items():
        if values is None:
            continue
        if channels is None or values.ndim != 1 or not same_size(values.shape[0], channels):
            raise ShapeError(
                f"{name}: {what}, of shape {list(values.shape)}, must be (C,) for an input "
                f"(N, C, ...) of shape {list(x.shape)}, at {format_locs(here())}"
            )


def _with_variance(x: Any, sizes: Shape, name: str) -> Any:
    """``x``, a channel of which, of ``sizes``, has several elements or none."""
    if any(isinstance(n, int) and n != 1 for n in sizes):
        return x
    alone = f"one element in each channel, shape {list(x.shape)}, has no variance to train on"
    return require_other(x, prod(sizes), 1, f"{name}: {alone}; their number")


def _sizes(normalized_shape: int | Sequence[int]) -> Shape:
    return as_sizes(normalized_shape)


def _ending_in(sizes: Shape, x: Any, name: str) -> Any:
    """``x``, whose last dims are ``sizes``; in a graph, unknown ones are taken to be these."""
    lead, own = x.shape[: x.ndim - len(sizes)], x.shape[x.ndim - len(sizes) :]
    if (
        not sizes
        or len(own) != len(sizes)
        or any(_differ(a, b) for a, b in zip(own, sizes, strict=True))
    ):
        raise ShapeError(
            f"{name}: the input, of shape {list(x.shape)}, does not end in {list(sizes)}, "
            f"at {format_locs(here())}"
        )
    return x if same_shape(own, sizes) else expand(x, (*lead, *sizes))


def _differ(a: Any, b: Any) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a != b


@by_shape
def layer_norm(
    input: Any, normalized_shape: int | Sequence[int], weight: Any = None, bias: Any = None,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with the mean and the variance (not the
    unbiased one) over the last dims, which are ``normalized_shape`` as weight and bias are (Ba et
    al. 2016, arXiv:1607.06450).

    >>> import staticflow as sf
    >>> layer_norm(sf.tensor([[1.0, 3.0], [2.0, 2.0]]), 2)
    tensor([[-1.0000,  1.0000],
            [ 0.0000,  0.0000]])
    """
    sizes = _sizes(normalized_shape)
    eps = _eps("layer_norm", eps)
    return _layer_norm(_ending_in(sizes, input, "layer_norm"), sizes, weight, bias, eps)


@fused("NativeLayerNormBackward0")
def _layer_norm(input: Any, sizes: Shape, weight: Any, bias: Any, eps: float) -> Any:
    return _apply(layer_norm_op, input, weight, bias, sizes, ndim=len(sizes), eps=eps)


@by_shape
def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    """``input`` (N, C, ...) normalised as by `layer_norm`, with statistics over each of
    ``num_groups`` groups of channels, and a weight and bias (C,) (Wu and He 2018,
    arXiv:1803.08494)."""
    _check_channels("group_norm", input, weight=weight, bias=bias)
    eps = _eps("group_norm", eps)
    return _group_norm(input, num_groups, weight, bias, eps)


@fused("NativeGroupNormBackward0")
def _group_norm(input: Any, num_groups: int, weight: Any, bias: Any, eps: float) -> Any:
    layout = _per_channel(input, input.shape[1]) if input.ndim > 1 else ()
    return _apply(group_norm_op, input, weight, bias, layout, groups=num_groups, eps=eps)


def _moving(
    y: Any, x: Any, own: Sequence[Any], running: Sequence[Any], momentum: Any, count: Size
) -> Any:
    """``y``, and the running statistics a step nearer to those of ``x``, its ``own``, which are of
    ``count`` elements each; of none they stay."""
    if same(count, 0):
        return y
    pairs = [(v, o) for v, o in zip(running, own, strict=True) if v is not None]
    if not pairs:
        return y
    if not symbolic(x):
        step = momentum
        if isinstance(momentum, float):  # as a tensor, so that one program serves all
            step = new_full(x, (), momentum, dtype=float64)
        if _mover(len(pairs))(step)(*(v for v, _ in pairs), *(o for _, o in pairs)):
            return y
    is_empty = None if is_provably_ge(count, 1) else number_of_size(count) < 1
    olds = [read(variable, x) for variable, _ in pairs]
    for (variable, value), old in zip(pairs, olds, strict=True):
        new = _nearer(old, value.detach(), momentum).to(old.dtype)
        y = effect(y, variable, new if is_empty is None else where(is_empty, old, new))
    return y


def _nearer(old: Any, value: Any, momentum: Any) -> Any:
    return old * (1 - momentum) + narrow_as(value, old) * momentum


@cache
def _mover(count: int) -> Callable[..., Callable[..., bool]]:
    """What moves so many statistics in place: it takes the momentum, and gives what takes these and
    the values to move to."""

    def move(*tensors: Any) -> Sequence[Any]:
        pairs = zip(tensors[:count], tensors[count:-1], strict=True)
        return [_nearer(old, value, tensors[-1]).to(old.dtype) for old, value in pairs]

    return in_place(move, count, by_element=True)


def _by_running(
    x: Any, running: tuple[Any, Any], weight: Any, bias: Any, eps: float, name: str
) -> Any:
    """Normalised by running statistics."""
    if running[0] is None or running[1] is None:
        raise ShapeError(
            f"{name}: without running statistics it takes those of the input: training=True (or "
            f"use_input_stats=True), at {format_locs(here())}"
        )
    mean, var = (read(v, x) for v in running)
    return _by_statistics(x, mean, var, weight, bias, eps)


@fused("NativeBatchNormBackward0")
def _by_statistics(x: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    mean, var = widen(mean), widen(var)
    layout = _per_channel(x, x.shape[1])
    scale = rsqrt(var + eps)
    scale = scale if weight is None else scale * widen(weight)
    out = (widen(x) - reshape(mean, layout)) * reshape(scale, layout)
    out = out if bias is None else out + reshape(widen(bias), layout)
    return narrow_as(out, x)


def batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: Any = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """``input`` (N, C, ...) normalised in each channel (Ioffe and Szegedy 2015, arXiv:1502.03167).

    While ``training`` by the statistics of the input, and the running ones, where given, move by
    ``momentum`` towards them (the variance to the unbiased one); in a compiled program too, at each
    call. Otherwise by the running statistics. ``weight``, ``bias`` and the statistics are (C,).

    Raises `ShapeError` for a channel of one element in training.
    """
    _check_channels(
        "batch_norm",
        input,
        running_mean=running_mean,
        running_var=running_var,
        weight=weight,
        bias=bias,
    )
    eps = _eps("batch_norm", eps)
    if not training:
        return _by_running(input, (running_mean, running_var), weight, bias, eps, "batch_norm")
    sizes = (input.shape[0], *input.shape[2:])
    input, count = _with_variance(input, sizes, "batch_norm"), prod(sizes)
    out, *own = _by_batch(input, weight, bias, eps)
    return _moving(out, input, own, (running_mean, running_var), momentum, count)


def normalize_together(
    x: Any, running: Sequence[Any], weight: Any, bias: Any, group: Mapping[str, tuple[int, ...]],
    momentum: Any, eps: float,
) -> Any:  # fmt: skip
    """``x`` (N, C, ...) normalised by the statistics of the rows of all processes of a ``group``,
    the axes of a mesh, towards which the ``running`` ones move on each of them."""
    _check_channels(
        "SyncBatchNorm", x, running_mean=running[0], running_var=running[1], weight=weight,
        bias=bias,
    )  # fmt: skip
    dims, wide, layout = (0, *range(2, x.ndim)), widen(x), _per_channel(x, x.shape[1])
    rows = prod([x.shape[d] for d in dims])
    own = new_full(wide, (1,), 1.0) * (rows if isinstance(rows, int) else number_of_size(rows))
    total = all_reduce_op(cat([wide.sum(dims), own]), **group, reduce="sum")
    alone = "SyncBatchNorm: all processes together have one element of a channel, and need two"
    count = require_true(total[-1], total[-1] > 1, alone)
    mean = total[:-1] / count
    apart = wide - reshape(mean, layout)
    var = all_reduce_op((apart * apart).sum(dims), **group, reduce="sum") / count
    out = _by_statistics(x, mean, var, weight, bias, eps)
    statistics = mean.detach(), var.detach() * (count / (count - 1)).detach()
    return _moving(out, x, statistics, running, momentum, 2)


@fused("NativeBatchNormBackward0")
def _by_batch(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, ...]:
    """Normalised by its own statistics; these, the variance as the unbiased one."""
    layout = _per_channel(x, x.shape[1]) if x.ndim > 1 else ()
    out = _apply(batch_norm_op, x, weight, bias, layout, eps=eps)
    return out, *batch_statistics(x)


def instance_norm(
    input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None,
    bias: Any = None, use_input_stats: bool = True, momentum: Any = 0.1, eps: float = 1e-5,
) -> Any:  # fmt: skip
    """``input`` (N, C, ...) normalised in each channel of each n (Ulyanov et al. 2016,
    arXiv:1607.08022); otherwise as `batch_norm`, with ``use_input_stats`` for ``training``. The
    running statistics move towards the means, over n, of those of the channels.

    Raises `ShapeError` for channels of one element.
    """
    _check_channels(
        "instance_norm",
        input,
        running_mean=running_mean,
        running_var=running_var,
        weight=weight,
        bias=bias,
    )
    eps = _eps("instance_norm", eps)
    if not use_input_stats:
        return _by_running(input, (running_mean, running_var), weight, bias, eps, "instance_norm")
    input = _with_variance(input, input.shape[2:], "instance_norm")
    out, *own = _by_instance(input, weight, bias, eps)
    count = input.shape[0] * prod(input.shape[2:])
    return _moving(out, input, own, (running_mean, running_var), momentum, count)


@fused("NativeBatchNormBackward0")
def _by_instance(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, ...]:
    layout, groups = _per_channel(x, x.shape[1]), x.shape[1]
    out = _apply(group_norm_op, x, weight, bias, layout, groups=groups, eps=eps)
    return out, *(m.mean(0) for m in instance_statistics(x))


@by_shape
def rms_norm(
    input: Any, normalized_shape: int | Sequence[int], weight: Any = None,
    eps: float | None = None,
) -> Any:  # fmt: skip
    """``x / sqrt(mean(x ** 2) + eps) * weight`` with the mean over the last dims, which are
    ``normalized_shape`` as the weight is; ``eps`` of None is the distance from 1 to the next number
    (Zhang and Sennrich 2019, arXiv:1910.07467)."""
    sizes = _sizes(normalized_shape)
    eps = None if eps is None else _eps("rms_norm", eps)
    return _rms_norm(_ending_in(sizes, input, "rms_norm"), sizes, weight, eps)


@fused("RmsNormBackward0")
def _rms_norm(input: Any, sizes: Shape, weight: Any, eps: float | None) -> Any:
    x = widen(input)
    dims = tuple(range(x.ndim - len(sizes), x.ndim))
    size = mean_op(x * x, dims=dims, keepdim=True)
    out = x * rsqrt(size + (_precision(x) if eps is None else eps))
    return narrow_as(out if weight is None else out * widen(weight), input)


def _precision(x: Any) -> float:
    return float(np.finfo(x.dtype.numpy).eps)


@by_shape
def normalize(input: Any, p: float = 2.0, dim: int | Sequence[int] = 1, eps: float = 1e-12) -> Any:
    """``x / max(norm(x), eps)`` with the ``p``-norm along ``dim``.

    >>> import staticflow as sf
    >>> normalize(sf.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    return _normalize(input, p, dim if isinstance(dim, int) else tuple(dim), eps)


@fused("DivBackward0")
def _normalize(x: Any, p: float, dim: int | tuple[int, ...], eps: float) -> Any:
    return x / clamp(vector_norm(x, p, dim, keepdim=True), min=eps)


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """``input`` (N, C, ...) divided by ``(k + alpha * mean)**beta``, with the mean of the squares
    of the ``size`` channels around, those outside counted as 0 (Krizhevsky et al. 2012).

    >>> import staticflow as sf
    >>> local_response_norm(sf.ones(1, 3, 1), 1, alpha=3.0, beta=0.5).flatten()
    tensor([0.5000, 0.5000, 0.5000])
    """
    if input.ndim < 3:
        raise ShapeError(
            f"local_response_norm: takes (N, C, ...), not {list(input.shape)}, "
            f"at {format_locs(here())}"
        )
    size, channels = as_size(size), input.shape[1]
    if size < 1:
        raise ShapeError(
            f"local_response_norm: the size is {size}; it must be 1 at least, "
            f"at {format_locs(here())}"
        )
    before, after = size // 2, (size - 1) // 2
    if isinstance(channels, int):  # further away there are none
        before, after = min(before, channels), min(after, channels)
    refuse_many("local_response_norm", before + after + 1, "channels around")
    return _local_response_norm(input, before, after, alpha / size, beta, k)


@fused("DivBackward0")
def _local_response_norm(
    input: Any, before: int, after: int, weight: float, beta: float, k: float
) -> Any:
    squares = pad(input * input, (0, 0) * (input.ndim - 2) + (before, after))
    total: Any = 0
    for i in range(before + after + 1):
        total = total + narrow(squares, 1, i, input.shape[1])
    return input / pow(total * weight + k, beta)
