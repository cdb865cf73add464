"""Attention: averages of values, weighted by how well keys fit queries."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from staticflow.errors import ShapeError
from staticflow.graph.dims import Size, same
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import Shape
from staticflow.nn.functional.dropout import dropout
from staticflow.nn.functional.sdp_backends import chosen_way
from staticflow.ops.along.softmax import softmax
from staticflow.ops.basics.arithmetic import cast, where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.reduce import widen
from staticflow.ops.basics.view import of_size
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.promote import result_type
from staticflow.ops.declaring.required import required_op
from staticflow.ops.indexing.roll_repeat import repeat_interleave
from staticflow.ops.matrices.contract import matmul

__all__ = ["attention_weights", "causal_mask", "scaled_dot_product_attention"]


def causal_mask(query: Any, key: Any) -> Any:
    """Whether each query (..., L, E) may see each key (..., S, E), the two counted from the first:
    bools (L, S), true where the key is not later."""
    return _not_later(query, (query.shape[-2], key.shape[-2]))


def _not_later(beside: Any, shape: Shape) -> Any:
    rows, columns = (iota.beside(beside, shape=shape, dim=d, dtype=int64) for d in (0, 1))
    return rows >= columns


def _scores(query: Any, key: Any, scale: float | None) -> Any:
    """How well keys fit queries, (..., L, S)."""
    scale = _usual_scale(query.shape[-1]) if scale is None else scale
    # on the queries, which are fewer numbers than the scores
    return matmul(query * scale, key.transpose(-2, -1))


def _usual_scale(width: Size) -> Any:
    """What scores of queries of ``width`` elements are multiplied by; 1 where these have none."""
    if isinstance(width, int):
        return 1 / math.sqrt(width) if width else 1.0
    return 1 / np.sqrt(width)


@fused("SoftmaxBackward0")
def _softmax_of_seen(scores: Any, mask: Any, is_causal: bool) -> Any:
    """The softmax over the keys of scores (..., L, S) of which some are hidden; zeros for a query
    that may see no key, since a softmax of nothing is NaN."""
    causal = _not_later(scores, scores.shape[-2:]) if is_causal else None
    if mask is None:
        return softmax(where(causal, scores, -math.inf), -1)
    of_bools = mask.dtype.kind == "b"
    if is_causal:
        mask = where(causal, mask, False if of_bools else -math.inf)
    blind = (~mask if of_bools else mask == -math.inf).all(-1, keepdim=True)
    if of_bools:
        scores = where(mask | blind, scores, -math.inf)
    else:
        scores = scores + where(blind, 0.0, mask)
    return where(blind, 0.0, softmax(scores, -1))


def attention_weights(
    query: Any,
    key: Any,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Any:
    """``softmax(query @ key.T * scale)`` over the keys, (..., L, S); see
    `scaled_dot_product_attention`."""
    scores = _scores(query, key, scale)
    if attn_mask is None and not is_causal:
        return softmax(scores, -1)
    return _softmax_of_seen(scores, attn_mask, is_causal)


def _for_each_head(query: Any, x: Any, name: str) -> Any:
    """Keys or values (..., G, S, E), each repeated for the heads of ``query`` (..., H, L, E) that
    share it: as many as H is of G."""
    if query.ndim < 3 or x.ndim < 3:
        raise ShapeError(
            f"scaled_dot_product_attention: with enable_gqa the heads are dim -3; the query has "
            f"{query.ndim} dims, the {name} {x.ndim}, at {format_locs(here())}"
        )
    heads, groups = query.shape[-3], x.shape[-3]
    each = 0 if same(groups, 0) else heads // groups
    if isinstance(heads, int) and isinstance(groups, int) and each * groups != heads:
        raise ShapeError(
            f"scaled_dot_product_attention: the query has {heads} heads and the {name} {groups}; "
            f"with enable_gqa the first must be a multiple of the second, at {format_locs(here())}"
        )
    spread = repeat_interleave(x, each, -3)
    return of_size(spread, spread.ndim - 3, heads)


@by_autocast
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """``softmax(query @ key.T * scale) @ value`` (Vaswani et al. 2017, arXiv:1706.03762).

    ``query`` (..., L, E), ``key`` (..., S, E), ``value`` (..., S, V) to (..., L, V). ``scale`` is
    1 / sqrt(E) by default. ``attn_mask`` broadcasts to (..., L, S): bools that say where to look,
    or numbers to be added; ``is_causal`` hides later keys. Weights are left out with the
    probability ``dropout_p``, in evaluation, too: pass 0.0 there. A query that may see no key gives
    zeros, as in PyTorch. Floats of 16 bits are rounded once, in the result.
    ``nn.attention.sdpa_kernel`` chooses between weights written out and a kernel that keeps none.

    With ``enable_gqa`` keys and values (..., G, S, E) may have fewer heads than queries
    (..., H, L, E): each of the G heads serves H / G of those, one behind the other.

    >>> import staticflow as sf
    >>> x = sf.ones(2, 5, 4)
    >>> scaled_dot_product_attention(x, x, x, is_causal=True).shape
    (2, 5, 4)
    """
    _check_dims(query, key, value)
    if enable_gqa:
        key, value = (
            _for_each_head(query, x, name) for x, name in ((key, "key"), (value, "value"))
        )
    way = chosen_way(drops=bool(dropout_p))
    if not dropout_p and way != "math":
        width = query.shape[-1] if scale is None and getattr(query, "ndim", False) else None
        if isinstance(width, int):
            scale = _usual_scale(width)  # a number, which kernels are made for
        return _attend(query, key, value, attn_mask, is_causal, scale)
    weights = attention_weights(widen(query), widen(key), attn_mask, is_causal, scale)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    return _averages(_out_of_sight(weights) if way == "math" else weights, query, key, value)


def _check_dims(query: Any, key: Any, value: Any) -> None:
    for x, name, least in ((query, "query", 1), (key, "key", 2), (value, "value", 1)):
        ndim = getattr(x, "ndim", least)
        if ndim < least:
            raise ShapeError(
                f"scaled_dot_product_attention: the {name} has {ndim} dims; query (..., L, E), key "
                f"(..., S, E) and value (..., S, V) have a width each, and the key its rows, "
                f"at {format_locs(here())}"
            )


@fused("ScaledDotProductFlashAttentionForCpuBackward0", only_large=True, attends=True)
def _attend(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: Any) -> Any:
    """What `scaled_dot_product_attention` gives without dropout."""
    weights = attention_weights(widen(query), widen(key), mask, is_causal, scale)
    return _averages(weights, query, key, value)


def _out_of_sight(weights: Any) -> Any:
    """Weights that a graph has, too: behind an op that no pattern looks through."""
    return required_op(weights, pairs=(), what="") if weights.__sf_mode__.rank else weights


def _averages(weights: Any, query: Any, key: Any, value: Any) -> Any:
    """The averages of the values, of the dtype of all three."""
    out, dtype = matmul(weights, widen(value)), result_type((query, key, value))
    return out if out.dtype is dtype else cast(out, dtype=dtype)
