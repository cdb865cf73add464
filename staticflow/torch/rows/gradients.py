"""Derivatives that ATen has as operations: those of the functions here, of which they are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from staticflow.autograd.transforms import vjp
from staticflow.eager.creation import full
from staticflow.nn.functional.embedding import divide_by_frequency
from staticflow.ops.basics.arithmetic import clamp, where
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.reduce import mean as mean_over
from staticflow.ops.basics.reduce import sum
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.elementwise.activation import gelu
from staticflow.ops.indexing.gather_ops import scatter_add
from staticflow.ops.indexing.index_functions import index_add, index_select
from staticflow.ops.indexing.mask_ops import masked_scatter
from staticflow.ops.matrices.triangle import unfold
from staticflow.ops.statistics.distances import cdist, pdist
from staticflow.ops.statistics.moments import vector_norm
from staticflow.torch.rows.indexing import bag_of_each
from staticflow.torch.rows.row import Rows, later
from staticflow.torch.rows.views import VIEWS
from staticflow.torch.rows.windows import WINDOWS, convolve

__all__ = ["GRADIENTS"]

_MEAN, _MAX = 1, 2


def _pull(fn: Callable[..., Any], cotangent: Any, *inputs: Any) -> tuple[Any, ...]:
    """What ``cotangent`` of ``fn(*inputs)`` gives for each input. Its sizes may be said in other
    terms than those of the result, and are assumed to be these."""
    out, back = vjp(fn, *inputs)
    found: tuple[Any, ...] = back(expand(cotangent, out.shape))
    return found if isinstance(found, tuple) else (found,)


def _by_mask(found: Sequence[Any], mask: Sequence[bool]) -> tuple[Any, ...]:
    """A result for each entry of ``mask``, None where it is False."""
    rest = iter(found)
    return tuple(next(rest) if m else None for m in mask)


def _convolution(
    ct: Any, x: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int, output_mask: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    rest = (None, stride, padding, dilation, transposed, output_padding, groups)
    of_x, of_weight, of_bias = output_mask
    found: list[Any] = []
    if of_x and of_weight:
        found += _pull(lambda x, w: convolve(x, w, *rest), ct, x, weight)
    elif of_x:
        found += _pull(lambda x: convolve(x, weight, *rest), ct, x)
    elif of_weight:
        found += _pull(lambda w: convolve(x, w, *rest), ct, weight)
    if of_bias:
        found.append(sum(ct, (0, *range(2, ct.ndim))))
    return _by_mask(found, output_mask)


def _of_first(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The derivative of ``fn(x, ...)``, the first of whose results counts, by ``x``."""

    def row(ct: Any, x: Any, *rest: Any, **named: Any) -> Any:
        def first(x: Any) -> Any:
            out = fn(x, *rest, **named)
            return out[0] if isinstance(out, tuple) else out

        return _pull(first, ct, x)[0]

    return row


def _max_pool(pool: Callable[..., Any]) -> Callable[..., Any]:
    def row(
        ct: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
        indices: Any,
    ) -> Any:  # fmt: skip
        rest = (kernel, stride, padding, dilation, ceil_mode)
        return _pull(lambda x: pool(x, *rest)[0], ct, x)[0]

    return row


def _adaptive(pool: Callable[..., Any], dims: int) -> Callable[..., Any]:
    def row(ct: Any, x: Any) -> Any:
        return _pull(lambda x: pool(x, ct.shape[-dims:]), ct, x)[0]

    return row


def _of_fractional(dims: int) -> Callable[..., Any]:
    pull = _by_positions(dims)
    return lambda ct, x, kernel, sizes, indices: pull(ct, x, indices)


def _by_positions(dims: int) -> Callable[..., Any]:
    """What elements that were chosen by position in the last ``dims`` dims pass on."""

    def row(ct: Any, x: Any, indices: Any) -> Any:
        lead = x.shape[: x.ndim - dims]
        flat = full((*lead, prod(x.shape[-dims:])), 0, dtype=ct.dtype)
        rows, places = (reshape(v, (*lead, prod(v.shape[-dims:]))) for v in (ct, indices))
        return reshape(scatter_add(flat, -1, places, rows), x.shape)

    return row


def _grid_sample(
    ct: Any, x: Any, grid: Any, mode: int, padding: int, corners: bool, output_mask: Sequence[bool]
) -> tuple[Any, ...]:
    sample = WINDOWS["aten.grid_sampler_2d.default"]
    of_x, of_grid = output_mask
    rest = (mode, padding, corners)
    found: list[Any] = []
    if of_x:
        found += _pull(lambda x: sample(x, grid, *rest), ct, x)
    if of_grid:
        found += _pull(lambda grid: sample(x, grid, *rest), ct, grid)
    return _by_mask(found, output_mask)


def _cdist(ct: Any, x1: Any, x2: Any, p: float, distances: Any) -> Any:
    """The derivative by ``x1``; ATen asks for that by ``x2`` with both turned around."""
    return _pull(lambda x1: cdist(x1, x2, p), ct, x1)[0]


def _masked_scatter(ct: Any, mask: Any, sizes: Sequence[Any]) -> Any:
    start = full(tuple(sizes), 0, dtype=ct.dtype)
    return _pull(lambda source: masked_scatter(ct, expand(mask, ct.shape), source), ct, start)[0]


def _unfold(ct: Any, sizes: Sequence[Any], dim: int, size: int, step: int) -> Any:
    start = full(tuple(sizes), 0, dtype=ct.dtype)
    return _pull(lambda x: unfold(x, dim, size, step), ct, start)[0]


def _layer_norm(
    ct: Any, x: Any, shape: Sequence[Any], mean: Any, rstd: Any, weight: Any, bias: Any,
    output_mask: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    """Derivatives of a layer norm. With h = (x - mean) * rstd and g = ct * weight they are
    rstd (g - E g - h E(g h)), the sums over rows of ct * h, and those of ct (Ba et al. 2016,
    arXiv:1607.06450)."""
    lead = tuple(range(x.ndim - len(shape)))
    dims = tuple(range(x.ndim - len(shape), x.ndim))
    h = (x - mean) * rstd
    g = ct if weight is None else ct * weight

    def of_x() -> Any:
        return (g - mean_over(g, dims, True) - h * mean_over(g * h, dims, True)) * rstd

    def over_rows(v: Any) -> Any:
        return sum(v, lead) if lead else v

    found = (later(of_x), later(lambda: over_rows(ct * h)), later(over_rows, ct))
    return tuple(f if m else None for f, m in zip(found, output_mask, strict=True))


def _group_norm(
    ct: Any, x: Any, mean: Any, rstd: Any, weight: Any, n: Any, c: Any, hw: Any, group: int,
    output_mask: Sequence[bool],
) -> tuple[Any, ...]:  # fmt: skip
    """A layer norm of each group; the weight and bias are of channels."""
    size = c // group * hw
    rows = reshape(x, (n, group, size))
    h = (rows - reshape(mean, (n, group, 1))) * reshape(rstd, (n, group, 1))
    scaled = reshape(ct, (n, c, hw))
    scaled = scaled if weight is None else scaled * reshape(weight, (1, c, 1))
    g = reshape(scaled, (n, group, size))

    def of_x() -> Any:
        centred = g - mean_over(g, (2,), True) - h * mean_over(g * h, (2,), True)
        return reshape(centred * reshape(rstd, (n, group, 1)), x.shape)

    def by_channel(v: Any) -> Any:
        return sum(reshape(v, (n, c, hw)), (0, 2))

    own = reshape(ct, (n, group, size))
    found = (later(of_x), later(lambda: by_channel(own * h)), later(by_channel, ct))
    return tuple(f if m else None for f, m in zip(found, output_mask, strict=True))


def _rrelu(
    ct: Any, x: Any, noise: Any, lower: float, upper: float, training: bool, self_is_result: bool
) -> Any:
    return ct * (noise if training else where(x > 0, 1.0, (lower + upper) / 2).to(ct.dtype))


def _gelu(ct: Any, x: Any, approximate: str = "none") -> Any:
    return _pull(lambda x: gelu(x, approximate), ct, x)[0]


def _embedding(
    ct: Any, indices: Any, num_weights: Any, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    rows, places = reshape(ct, (-1, ct.shape[-1])), reshape(indices, (-1,))
    if scale_grad_by_freq:
        rows = divide_by_frequency(rows, places, num_weights)
    if padding_idx >= 0:
        rows = where(unsqueeze(places == padding_idx, 1), 0.0, rows)
    start = full((num_weights, ct.shape[-1]), 0, dtype=ct.dtype)
    return index_add(start, 0, places, rows)


def _embedding_bag(
    ct: Any, indices: Any, offset2bag: Any, bag_size: Any, maximum_indices: Any, num_weights: Any,
    scale_grad_by_freq: bool, mode: int, per_sample_weights: Any, padding_idx: int = -1,
) -> Any:  # fmt: skip
    """The derivative by the weight: a bag hands its cotangent to its rows, or to its maxima."""
    start = full((num_weights, ct.shape[-1]), 0, dtype=ct.dtype)
    if mode == _MAX:
        found = where(unsqueeze(bag_size, 1) > 0, ct, 0.0)
        return scatter_add(start, 0, clamp(maximum_indices, min=0), found)
    if mode == _MEAN:
        ct = ct / clamp(unsqueeze(bag_size, 1), min=1).to(ct.dtype)
    rows = index_select(ct, 0, offset2bag)
    if per_sample_weights is not None:
        rows = rows * unsqueeze(per_sample_weights, 1)
    if padding_idx >= 0:
        rows = where(unsqueeze(indices == padding_idx, 1), 0.0, rows)
    if scale_grad_by_freq:
        rows = divide_by_frequency(rows, indices, num_weights)
    return index_add(start, 0, indices, rows)


def _embedding_bag_of_offsets(
    ct: Any, indices: Any, offsets: Any, offset2bag: Any, *rest: Any
) -> Any:
    """The derivative by the weight, where no bags of the rows were kept: the offsets say them."""
    bag_size, maxima, weights, by_frequency, mode, *more = rest
    bags = bag_of_each(indices, offsets)
    return _embedding_bag(ct, indices, bags, bag_size, maxima, weights, by_frequency, mode, *more)


def _sample_weights(
    ct: Any, weight: Any, indices: Any, offsets: Any, offset2bag: Any, mode: int,
    padding_idx: int = -1,
) -> Any:  # fmt: skip
    bags = bag_of_each(indices, offsets)
    found = sum(index_select(ct, 0, bags) * index_select(weight, 0, indices), 1)
    return where(indices == padding_idx, 0.0, found) if padding_idx >= 0 else found


def _weight_norm(ct: Any, v: Any, g: Any, norms: Any, dim: int) -> tuple[Any, ...]:
    others = tuple(d for d in range(v.ndim) if d != dim % v.ndim)
    return _pull(lambda v, g: v * (g / vector_norm(v, 2, others, keepdim=True)), ct, v, g)


GRADIENTS: Rows = {
    "aten.convolution_backward.default": _convolution,
    "aten.max_pool2d_with_indices_backward.default": _max_pool(
        WINDOWS["aten.max_pool2d_with_indices.default"]
    ),
    "aten.max_pool3d_with_indices_backward.default": _max_pool(
        WINDOWS["aten.max_pool3d_with_indices.default"]
    ),
    **{
        f"aten.{name}_backward.default": _of_first(WINDOWS[f"aten.{name}.default"])
        for name in (
            "avg_pool2d", "avg_pool3d",
        )
    },
    **{
        f"aten.{mode}_pad{n}d_backward.default": _of_first(VIEWS[f"aten.{mode}_pad{n}d.default"])
        for mode in ("reflection", "replication")
        for n in (1, 2, 3)
    },
    **{
        f"aten._adaptive_avg_pool{n}d_backward.default": _adaptive(
            WINDOWS[f"aten._adaptive_avg_pool{n}d.default"], n
        )
        for n in (2, 3)
    },
    "aten.fractional_max_pool2d_backward.default": _of_fractional(2),
    "aten.fractional_max_pool3d_backward.default": _of_fractional(3),
    "aten.adaptive_max_pool2d_backward.default": _by_positions(2),
    "aten.adaptive_max_pool3d_backward.default": _by_positions(3),
    "aten.grid_sampler_2d_backward.default": _grid_sample,
    "aten._cdist_backward.default": _cdist,
    "aten._pdist_backward.default": lambda ct, x, p, pdist_: _pull(lambda x: pdist(x, p), ct, x)[0],
    "aten.masked_scatter_backward.default": _masked_scatter,
    "aten.unfold_backward.default": _unfold,
    "aten.rrelu_with_noise_backward.default": _rrelu,
    "aten.gelu_backward.default": _gelu,
    "aten.embedding_dense_backward.default": _embedding,
    "aten._embedding_bag_backward.default": _embedding_bag_of_offsets,
    "aten._embedding_bag_dense_backward.default": _embedding_bag,
    "aten._embedding_bag_per_sample_weights_backward.default": _sample_weights,
    "aten.native_layer_norm_backward.default": _layer_norm,
    "aten.native_group_norm_backward.default": _group_norm,
    "aten._weight_norm_interface_backward.default": _weight_norm,
}  # fmt: skip
"""Rows of derivatives."""
