"""Derivatives that ATen has as operations: those of the functions here, of which they are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.autograd.transforms import vjp
from staticflow.eager.creation import full
from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.reduce import mean as mean_over
from staticflow.ops.basics.reduce import sum
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.elementwise.activation import gelu
from staticflow.ops.indexing.index_functions import index_add
from staticflow.torch.rows.row import Rows, later
from staticflow.torch.rows.windows import WINDOWS, convolve

__all__ = ["GRADIENTS"]


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
    rows = reshape(x, (n, group, -1))
    h = (rows - reshape(mean, (n, group, 1))) * reshape(rstd, (n, group, 1))
    scaled = reshape(ct, (n, c, hw))
    scaled = scaled if weight is None else scaled * reshape(weight, (1, c, 1))
    g = reshape(scaled, (n, group, -1))

    def of_x() -> Any:
        centred = g - mean_over(g, (2,), True) - h * mean_over(g * h, (2,), True)
        return reshape(centred * reshape(rstd, (n, group, 1)), x.shape)

    def by_channel(v: Any) -> Any:
        return sum(reshape(v, (n, c, hw)), (0, 2))

    own = reshape(ct, (n, group, -1))
    found = (later(of_x), later(lambda: by_channel(own * h)), later(by_channel, ct))
    return tuple(f if m else None for f, m in zip(found, output_mask, strict=True))


def _gelu(ct: Any, x: Any, approximate: str = "none") -> Any:
    return _pull(lambda x: gelu(x, approximate), ct, x)[0]


def _embedding(
    ct: Any, indices: Any, num_weights: Any, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    if scale_grad_by_freq:
        raise ArgumentError(
            "embedding: a gradient that is scaled by frequency has no meaning here; leave out "
            f"scale_grad_by_freq, at {format_locs(here())}"
        )
    rows, places = reshape(ct, (-1, ct.shape[-1])), reshape(indices, (-1,))
    if padding_idx >= 0:
        rows = where(unsqueeze(places == padding_idx, 1), 0.0, rows)
    start = full((num_weights, ct.shape[-1]), 0, dtype=ct.dtype)
    return index_add(start, 0, places, rows)


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
            "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
        )
    },
    "aten.gelu_backward.default": _gelu,
    "aten.embedding_dense_backward.default": _embedding,
    "aten.native_layer_norm_backward.default": _layer_norm,
    "aten.native_group_norm_backward.default": _group_norm,
}  # fmt: skip
"""Rows of derivatives."""
