"""Transformers (Vaswani et al. 2017, "Attention is all you need")."""

from __future__ import annotations

import copy
from collections.abc import Callable
from math import inf
from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.nn import functional as F
from staticflow.nn.attention import MultiheadAttention
from staticflow.nn.container import ModuleList
from staticflow.nn.dropout import Dropout
from staticflow.nn.init import xavier_uniform_
from staticflow.nn.linear import Linear
from staticflow.nn.module import Module
from staticflow.nn.normalization import LayerNorm
from staticflow.nn.parameter import empty
from staticflow.ops.basics.creation import full_like
from staticflow.ops.declaring.foreign import refuses_foreign
from staticflow.ops.matrices.triangle import triu

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"relu": F.relu, "gelu": F.gelu}


def _activation(given: str | Callable[[Any], Any]) -> Callable[[Any], Any]:
    if callable(given):
        return given
    if given not in _ACTIVATIONS:
        raise ArgumentError(
            f"the activation is {', '.join(_ACTIVATIONS)} or a function, not {given!r}"
            f", at {format_locs(here())}"
        )
    return _ACTIVATIONS[given]


class TransformerEncoderLayer(Module):
    """Attention of a sequence to itself, and a network with one hidden layer of
    ``dim_feedforward`` at each position; both are added to their input, which is normalised after
    that, or before with ``norm_first``.

    >>> import staticflow as sf
    >>> layer = TransformerEncoderLayer(8, nhead=2, dim_feedforward=16, batch_first=True)
    >>> layer(sf.ones(2, 5, 8)).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, device=device, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, device=device, dtype=dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Any:
        """``src`` (T, N, d_model), with ``batch_first`` (N, T, d_model), or without a batch; the
        masks are those of `MultiheadAttention`."""

        def attend(x: Any) -> Any:
            out, _ = self.self_attn(
                x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal
            )
            return self.dropout1(out)

        if self.norm_first:
            src = src + attend(self.norm1(src))
            return src + self._feed(self.norm2(src))
        src = self.norm1(src + attend(src))
        return self.norm2(src + self._feed(src))

    def _feed(self, x: Any) -> Any:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Attention to itself, attention to the output of an encoder, ``memory``, and two linear
    layers, with the options of `TransformerEncoderLayer`."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = {"batch_first": batch_first, "device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, **options)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, **options)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, device=device, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, device=device, dtype=dtype)
        self.norm_first = norm_first
        for i in (1, 2, 3):
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)
            self.add_module(f"norm{i}", norm)
        for i in (1, 2, 3):
            self.add_module(f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """``tgt`` (T, N, d_model) and ``memory`` (S, N, d_model), or N first with ``batch_first``;
        the masks are those of `MultiheadAttention`."""

        def to_itself(x: Any) -> Any:
            out, _ = self.self_attn(
                x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal
            )
            return self.dropout1(out)

        def to_memory(x: Any) -> Any:
            out, _ = self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask,
                is_causal=memory_is_causal,
            )  # fmt: skip
            return self.dropout2(out)

        x = tgt
        for norm, part in (
            (self.norm1, to_itself),
            (self.norm2, to_memory),
            (self.norm3, self._feed),
        ):
            x = x + part(norm(x)) if self.norm_first else norm(x + part(x))
        return x

    def _feed(self, x: Any) -> Any:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """``num_layers`` copies of a layer one after the other, and ``norm`` if given.

    ``enable_nested_tensor`` and ``mask_check``, ways to run it in PyTorch, change nothing."""

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Any:
        """``src`` through all layers."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """``num_layers`` copies of a layer one after the other, and ``norm`` if given."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt: Any, memory: Any, *args: Any, **kwargs: Any) -> Any:
        """``tgt`` and ``memory`` through all layers, which take the other arguments, too."""
        for layer in self.layers:
            tgt = layer(tgt, memory, *args, **kwargs)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder of one sequence and a decoder of another that attends to it, with a normalisation
    behind each; matrices start by `init.xavier_uniform_`. The other arguments are those of the
    layers, unless a ``custom_encoder`` or ``custom_decoder`` is given.

    >>> import staticflow as sf
    >>> model = Transformer(8, 2, 1, 1, dim_feedforward=16)
    >>> model(sf.ones(5, 2, 8), sf.ones(3, 2, 8)).shape
    (3, 2, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        how = dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            inner = TransformerEncoderLayer(d_model, nhead, *how, device=device, dtype=dtype)
            custom_encoder = TransformerEncoder(inner, num_encoder_layers, norm())
        if custom_decoder is None:
            outer = TransformerDecoderLayer(d_model, nhead, *how, device=device, dtype=dtype)
            custom_decoder = TransformerDecoder(outer, num_decoder_layers, norm())
        self.encoder, self.decoder = custom_encoder, custom_decoder
        for parameter in self.parameters():
            if parameter.ndim > 1:
                xavier_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool = False,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """``src`` (S, N, d_model) and ``tgt`` (T, N, d_model), or N first with ``batch_first``, to
        the shape of ``tgt``; the masks are those of `MultiheadAttention`."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        padding = tgt_key_padding_mask, memory_key_padding_mask
        causal = tgt_is_causal, memory_is_causal
        return self.decoder(tgt, memory, tgt_mask, memory_mask, *padding, *causal)

    @staticmethod
    @refuses_foreign
    def generate_square_subsequent_mask(sz: int, *, device: Any = None, dtype: Any = None) -> Any:
        """The mask (sz, sz) under which each position attends to those up to itself: -inf above the
        diagonal, 0 elsewhere."""
        positions = empty(sz, sz, device=device, dtype=dtype)
        return triu(full_like(positions, -inf), 1)
