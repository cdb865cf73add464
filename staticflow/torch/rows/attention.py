"""Attention as PyTorch's layers ask for it where nothing is recorded: one operation each."""

from __future__ import annotations

from typing import Any

from staticflow.nn.functional.activations import gelu, relu
from staticflow.nn.functional.attention import scaled_dot_product_attention
from staticflow.nn.functional.normalization import layer_norm
from staticflow.ops.along.softmax import softmax
from staticflow.ops.basics.axes import mT, transpose
from staticflow.ops.basics.view import reshape
from staticflow.ops.matrices.contract import linear, matmul
from staticflow.torch.rows.row import Rows

__all__ = ["ATTENTION"]

_OF_KEYS = 1
"""The kind of a mask (N, S); others are (L, S) and (N, heads, L, S)."""


def _multi_head_attention(
    query: Any, key: Any, value: Any, embed_dim: int, num_head: int, qkv_weight: Any,
    qkv_bias: Any, proj_weight: Any, proj_bias: Any, mask: Any = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The layer's output and its weights. A mask is True, or not 0, where nothing is looked at."""
    parts = []
    for i, x in enumerate((query, key, value)):
        rows = slice(i * embed_dim, (i + 1) * embed_dim)
        projected = linear(x, qkv_weight[rows], qkv_bias[rows])
        shape = (*x.shape[:2], num_head, embed_dim // num_head)
        parts.append(transpose(reshape(projected, shape), 1, 2))
    q, k, v = parts
    seen = None if mask is None else mask == 0
    if seen is not None and mask_type == _OF_KEYS:
        seen = reshape(seen, (seen.shape[0], 1, 1, seen.shape[1]))
    weights = None
    if need_weights:
        scores = matmul(q, mT(k)) * q.shape[-1] ** -0.5
        hidden = scores if seen is None else scores.masked_fill(seen.logical_not(), float("-inf"))
        weights = softmax(hidden, -1)
        out = matmul(weights, v)
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        out = scaled_dot_product_attention(q, k, v, seen)
    joined = reshape(transpose(out, 1, 2), (*query.shape[:2], embed_dim))
    return linear(joined, proj_weight, proj_bias), weights


def _encoder_layer(
    src: Any, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any,
    proj_bias: Any, use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Any,
    norm_bias_1: Any, norm_weight_2: Any, norm_bias_2: Any, ffn_weight_1: Any, ffn_bias_1: Any,
    ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None, mask_type: int | None = None,
) -> Any:  # fmt: skip
    def first(x: Any) -> Any:
        return layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second(x: Any) -> Any:
        return layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    x = first(src) if norm_first else src
    attended, _ = _multi_head_attention(
        x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False,
        mask_type=mask_type,
    )  # fmt: skip
    x = src + attended if norm_first else first(src + attended)
    inner = linear(second(x) if norm_first else x, ffn_weight_1, ffn_bias_1)
    out = x + linear(gelu(inner) if use_gelu else relu(inner), ffn_weight_2, ffn_bias_2)
    return out if norm_first else second(out)


ATTENTION: Rows = {
    "aten._native_multi_head_attention.default": _multi_head_attention,
    "aten._transformer_encoder_layer_fwd.default": _encoder_layer,
}
"""Rows of layers of attention."""
