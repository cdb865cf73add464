"""Layers of attention in evaluation, where PyTorch runs each as one operation of its own."""

from __future__ import annotations

from typing import Any

import pytest

import staticflow as sf

torch = pytest.importorskip("torch", reason="whose layers these are")
nn = torch.nn
assert sf.torch.backend  # registers the name


@pytest.fixture(autouse=True)
def forget() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def check(module: Any, *args: Any, **named: Any) -> None:
    """Compiled and taken over, a module in evaluation is PyTorch's, where nothing is recorded."""
    module.eval()
    with torch.no_grad():
        wanted = module(*args, **named)
        found = torch.compile(module, backend="staticflow", fullgraph=True)(*args, **named)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("mask", [None, "of queries", "of keys", "both"])
def test_an_encoder_layer(norm_first: bool, activation: str, mask: str | None) -> None:
    layer = nn.TransformerEncoderLayer(
        16, 2, 32, activation=activation, norm_first=norm_first, batch_first=True
    )
    x = torch.randn(3, 5, 16)
    masks = {}
    if mask in ("of queries", "both"):
        masks["src_mask"] = torch.ones(5, 5, dtype=torch.bool).triu(1)
    if mask in ("of keys", "both"):
        masks["src_key_padding_mask"] = torch.arange(5)[None] >= torch.tensor([[5], [3], [1]])
    check(layer, x, **masks)


def test_an_encoder_of_any_number_of_rows() -> None:
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2, enable_nested_tensor=False
    ).eval()
    compiled = torch.compile(encoder, backend="staticflow", dynamic=True, fullgraph=True)
    with torch.no_grad():
        for shape in ((2, 5, 16), (3, 7, 16)):
            x = torch.randn(shape)
            torch.testing.assert_close(compiled(x), encoder(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("weights", [None, "of heads", "mean"])
@pytest.mark.parametrize("mask", [None, "of queries", "of keys", "both"])
def test_multi_head_attention(weights: str | None, mask: str | None) -> None:
    layer = nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.randn(2, 5, 16)
    masks = {}
    if mask in ("of queries", "both"):
        masks["attn_mask"] = torch.ones(5, 5, dtype=torch.bool).triu(1)
    if mask in ("of keys", "both"):
        masks["key_padding_mask"] = torch.arange(5)[None] >= torch.tensor([[5], [3]])
    check(
        layer, x, x, x, need_weights=weights is not None,
        average_attn_weights=weights != "of heads", **masks,
    )  # fmt: skip


def test_a_module_that_is_exported_where_nothing_is_recorded() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        ours = sf.torch.from_module(layer, (x,))
        wanted = layer(x)
    found = ours(sf.from_dlpack(x))
    torch.testing.assert_close(torch.tensor(found.tolist()), wanted, rtol=1e-4, atol=1e-5)
