"""Layers of several inputs or of integers, by NumPy; and that every layer is in some test."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn

TESTS = Path(__file__).parents[1]
RNG = np.random.default_rng(0)


def test_every_layer_is_in_a_test() -> None:
    files = [*TESTS.rglob("*.py"), *TESTS.rglob("*.json")]
    text = "\n".join(f.read_text() for f in files if "wrong_arguments" not in f.name)
    layers = [n for n, v in vars(nn).items() if isinstance(v, type) and issubclass(v, nn.Module)]
    assert [n for n in layers if not re.search(rf"\b{n}\b", text)] == []


def both_modes(layer: Any, *arrays: Any) -> Any:
    """What a layer gives of arrays, eagerly, which a program gives as well."""
    out = layer(*map(sf.from_numpy, arrays)).detach().numpy()
    symbols = [sf.placeholder(a.shape, a.dtype) for a in arrays]
    compiled = sf.compile(symbols, layer(*symbols))(*arrays).numpy()
    np.testing.assert_allclose(compiled, out, rtol=1e-12)
    return out


def test_hardsigmoid() -> None:
    x = np.linspace(-4, 4, 17)
    np.testing.assert_allclose(both_modes(nn.Hardsigmoid(), x), np.clip(x / 6 + 0.5, 0, 1))
    leaf = sf.from_numpy(x).requires_grad_()
    nn.Hardsigmoid()(leaf).sum().backward()
    assert leaf.grad is not None
    np.testing.assert_allclose(leaf.grad.numpy(), np.where(abs(x) < 3, 1 / 6, 0))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.MaxUnpool1d, (2, 3, 6)),
        (nn.MaxUnpool2d, (2, 3, 4, 6)),
        (nn.MaxUnpool3d, (1, 2, 4, 2, 6)),
    ],
    ids=["1d", "2d", "3d"],
)
def test_unpooling_puts_the_largest_where_they_were(layer: Any, shape: tuple[int, ...]) -> None:
    x = RNG.permutation(np.arange(np.prod(shape)) + 1.0).reshape(shape)
    pool = getattr(nn, layer.__name__.replace("Unpool", "Pool"))(2, return_indices=True)
    values, indices = pool(sf.from_numpy(x))
    back = both_modes(layer(2), values.numpy(), indices.numpy())
    assert back.shape == shape
    blocks = x.reshape(*shape[:2], *(n for d in shape[2:] for n in (d // 2, 2)))
    inner = tuple(range(3, blocks.ndim, 2))
    largest = np.broadcast_to(blocks.max(inner, keepdims=True), blocks.shape).reshape(shape)
    np.testing.assert_array_equal(back, np.where(x == largest, x, 0))
    wide = layer(2)(values, indices, output_size=[d + 1 if d > 2 else d for d in shape[2:]])
    assert wide.shape[2:] == tuple(d + 1 if d > 2 else d for d in shape[2:])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode: str) -> None:
    layer = nn.EmbeddingBag(5, 3, mode=mode).double()
    table = layer.weight.detach().numpy()
    reduce = getattr(np, mode)
    bags = RNG.integers(0, 5, (4, 2))
    np.testing.assert_allclose(both_modes(layer, bags), reduce(table[bags], axis=1))
    flat, offsets = np.array([0, 4, 4, 1, 2]), np.array([0, 3, 3])
    found = layer(sf.from_numpy(flat), sf.from_numpy(offsets))
    wanted = [reduce(table[[0, 4, 4]], 0), np.zeros(3), reduce(table[[1, 2]], 0)]
    np.testing.assert_allclose(found.detach().numpy(), wanted)
    found.sum().backward()
    assert layer.weight.grad is not None and not layer.weight.grad[3].any()


def test_weighted_bags_of_embeddings() -> None:
    layer = nn.EmbeddingBag(5, 3, mode="sum", padding_idx=1).double()
    bags, weights = np.array([[0, 1, 4]]), np.array([[0.5, 9.0, -2.0]])
    found = layer(sf.from_numpy(bags), per_sample_weights=sf.from_numpy(weights))
    table = layer.weight.detach().numpy()
    np.testing.assert_allclose(found.detach().numpy(), [0.5 * table[0] - 2 * table[4]])


def test_a_decoder_is_its_layers_and_its_norm() -> None:
    layer = nn.TransformerDecoderLayer(4, 2, 6, dropout=0.0)
    stack = nn.TransformerDecoder(layer, 2, norm=nn.LayerNorm(4)).double()
    for i, p in enumerate(stack.parameters()):
        p.data.copy_(sf.from_numpy(np.sin(np.arange(p.numel()) + i).reshape(p.shape)))
    target, memory = (RNG.standard_normal((n, 2, 4)) for n in (5, 3))
    mask = ~np.tri(5, dtype=bool)
    x, m = sf.from_numpy(target), sf.from_numpy(memory)
    wanted = x
    for part in stack.layers:
        wanted = part(wanted, m, tgt_mask=sf.from_numpy(mask))
    assert stack.norm is not None
    found = stack(x, m, tgt_mask=sf.from_numpy(mask))
    sf.testing.assert_close(found, stack.norm(wanted))
    assert both_modes(stack, target, memory).shape == (5, 2, 4)
    assert stack.layers[0].linear1.weight is not stack.layers[1].linear1.weight
