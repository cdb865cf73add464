"""Attention with several heads, and how it is computed."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.nn import functional as F
from staticflow.nn.functional.sdp_backends import SDPBackend, sdpa_kernel
from staticflow.nn.init import constant_, xavier_normal_, xavier_uniform_
from staticflow.nn.linear import Linear
from staticflow.nn.module import Module
from staticflow.nn.parameter import new_parameter
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.splitting import chunk
from staticflow.ops.declaring.declare import same_size

__all__ = ["MultiheadAttention", "SDPBackend", "sdpa_kernel"]


class MultiheadAttention(Module):
    """Attention in ``num_heads`` parts of the width (Vaswani et al. 2017), as PyTorch's.

    Parameters: ``in_proj_weight`` (3 E, E), the projections of query, key and value one below the
    other, or ``q_proj_weight`` (E, E), ``k_proj_weight`` (E, kdim) and ``v_proj_weight`` (E, vdim)
    where keys or values have another width; with ``bias``, ``in_proj_bias`` (3 E,); with
    ``add_bias_kv`` a key ``bias_k`` and a value ``bias_v`` (1, 1, E) more; and ``out_proj``.
    ``add_zero_attn`` adds a key and a value of zeros.

    >>> import staticflow as sf
    >>> x = sf.ones(2, 5, 8)
    >>> out, weights = MultiheadAttention(8, num_heads=2, batch_first=True)(x, x, x)
    >>> out.shape, weights.shape
    ((2, 5, 8), (2, 5, 5))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if min(embed_dim, num_heads) < 1 or embed_dim % num_heads:
            raise ArgumentError(
                f"MultiheadAttention: a width of {embed_dim} does not fall into {num_heads} heads"
                f", at {format_locs(here())}"
            )
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.head_dim, self.batch_first = embed_dim // num_heads, batch_first
        widths = {"q": embed_dim, "k": self.kdim, "v": self.vdim}
        if set(widths.values()) == {embed_dim}:
            joined = new_parameter(3 * embed_dim, embed_dim, device=device, dtype=dtype)
            self.register_parameter("in_proj_weight", xavier_uniform_(joined))
        else:
            self.register_parameter("in_proj_weight", None)
            for name, width in widths.items():
                weight = new_parameter(embed_dim, width, device=device, dtype=dtype)
                self.register_parameter(f"{name}_proj_weight", xavier_uniform_(weight))
        self.in_proj_bias = (
            new_parameter(3 * embed_dim, device=device, dtype=dtype) if bias else None
        )
        for name in ("bias_k", "bias_v"):
            made = None
            if add_bias_kv:
                made = new_parameter(1, 1, embed_dim, device=device, dtype=dtype)
                xavier_normal_(made)
            self.register_parameter(name, made)
        self.add_zero_attn = add_zero_attn
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        for each in (self.in_proj_bias, self.out_proj.bias):
            if each is not None:
                constant_(each, 0.0)

    def _asks_training(self) -> bool:
        return bool(self.dropout)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """``query`` (L, N, E), ``key`` (S, N, kdim), ``value`` (S, N, vdim), with ``batch_first`` N
        before L and S, or all without N.

        ``key_padding_mask`` (N, S) and ``attn_mask`` (L, S) or (N * heads, L, S) are bools, true
        where a key is *not* to be seen, or numbers that are added to the scores; ``is_causal``
        hides later keys. Returns the output, laid out as the query, and with ``need_weights`` the
        weights: (N, L, S), the mean over the heads, or (N, heads, L, S) of each.
        """
        batched = self._check(query, key, value)
        same = query is key and key is value
        q, k, v = (self._batch_first(x, batched) for x in (query, key, value))
        q, k, v = self._project(q, k, v, same)
        if self.bias_k is not None:
            k, v = (
                cat([x, b.expand(x.shape[0], 1, self.embed_dim)], 1)
                for x, b in ((k, self.bias_k), (v, self.bias_v))
            )
        q, k, v = (self._heads(x) for x in (q, k, v))
        if self.add_zero_attn:
            k, v = (F.pad(x, (0, 0, 0, 1)) for x in (k, v))
        mask = self._mask(key_padding_mask, attn_mask, q, batched)
        more = int(self.bias_k is not None) + int(self.add_zero_attn)
        if more and is_causal:
            raise ArgumentError(
                "MultiheadAttention: is_causal does not say which queries see the keys that "
                f"add_bias_kv and add_zero_attn add; give attn_mask, at {format_locs(here())}"
            )
        if more and mask is not None:  # which does not speak of what was added
            mask = F.pad(mask, (0, more))
        drop = self.dropout if self.training else 0.0
        if need_weights:
            weights = F.attention_weights(q, k, mask, is_causal)
            weights = F.dropout(weights, drop) if drop else weights
            out = weights @ v
        else:
            out = F.scaled_dot_product_attention(q, k, v, mask, drop, is_causal)
        out = out.transpose(1, 2)
        out = self.out_proj(out.reshape(*out.shape[:2], self.embed_dim))
        if not batched:
            out = out.squeeze(0)
        elif not self.batch_first:
            out = out.transpose(0, 1)
        if not need_weights:
            return out, None
        weights = weights.mean(1) if average_attn_weights else weights
        return out, weights if batched else weights.squeeze(0)

    def _check(self, query: Any, key: Any, value: Any) -> bool:
        """Whether there is a batch."""
        widths = (self.embed_dim, self.kdim, self.vdim)
        for name, x, width in zip(
            ("query", "key", "value"), (query, key, value), widths, strict=True
        ):
            if x.ndim not in (2, 3) or x.ndim != query.ndim or not same_size(x.shape[-1], width):
                raise ShapeError(
                    f"MultiheadAttention: the {name} has shape {list(x.shape)}; it must be of 3 "
                    f"dims, or all of 2, and the last {width}, at {format_locs(here())}"
                )
        return bool(query.ndim == 3)

    def _batch_first(self, x: Any, batched: bool) -> Any:
        if not batched:
            return x.unsqueeze(0)
        return x if self.batch_first else x.transpose(0, 1)

    def _project(self, q: Any, k: Any, v: Any, same: bool) -> tuple[Any, ...]:
        if same and self.in_proj_weight is not None:
            return tuple(chunk(F.linear(q, self.in_proj_weight, self.in_proj_bias), 3, -1))
        weights = (
            (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            if self.in_proj_weight is None
            else chunk(self.in_proj_weight, 3)
        )
        biases = (None,) * 3 if self.in_proj_bias is None else chunk(self.in_proj_bias, 3)
        return tuple(F.linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases, strict=True))

    def _heads(self, x: Any) -> Any:
        """(N, L, E) to (N, heads, L, E / heads)."""
        return x.reshape(*x.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)

    def _mask(self, padding: Any, mask: Any, q: Any, batched: bool) -> Any:
        """What is added to the scores (N, heads, L, S)."""
        parts = []
        if mask is not None:
            if mask.ndim == 3:
                mask = mask.reshape(-1, self.num_heads, *mask.shape[1:])
            parts.append(_as_added(mask, q))
        if padding is not None:
            padding = padding if batched else padding.unsqueeze(0)
            parts.append(_as_added(padding.unsqueeze(1).unsqueeze(1), q))
        return sum(parts[1:], parts[0]) if parts else None


def _as_added(mask: Any, like: Any) -> Any:
    """Minus infinity where a bool is true; numbers as they are."""
    if mask.dtype.kind != "b":
        return mask
    zeros = mask.to(like.dtype) * 0
    return where(mask, float("-inf"), zeros)
