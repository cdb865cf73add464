"""Options of layers that few use: what they compute, in both modes where a graph has them."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.errors import ArgumentError

F = nn.functional
RNG = np.random.default_rng(0)


def filled(layer: Any) -> Any:
    """The layer with parameters of float64 that are always the same."""
    layer = layer.double()
    rng = np.random.default_rng(1)
    for p in layer.parameters():
        p.data.copy_(sf.tensor(rng.uniform(-1, 1, p.shape)))
    return layer


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("two_ways", [False, True], ids=["forward", "both"])
def test_an_lstm_with_a_projection(two_ways: bool) -> None:
    layer = filled(nn.LSTM(2, 4, bidirectional=two_ways, proj_size=3))
    x = RNG.standard_normal((5, 2, 2))
    wanted = []
    ends = []
    for suffix in ("", "_reverse")[: 1 + two_ways]:
        w = {
            n: getattr(layer, f"{n}_l0{suffix}").detach().numpy()
            for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        }
        h, c, outputs = np.zeros((2, 3)), np.zeros((2, 4)), []
        for row in x[::-1] if suffix else x:
            gates = row @ w["weight_ih"].T + w["bias_ih"] + h @ w["weight_hh"].T + w["bias_hh"]
            i, f, g, o = np.split(gates, 4, 1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = (sigmoid(o) * np.tanh(c)) @ w["weight_hr"].T
            outputs.append(h)
        wanted.append(np.stack(outputs[::-1] if suffix else outputs))
        ends.append((h, c))
    out, (h, c) = layer(sf.tensor(x))
    assert h.shape == (1 + two_ways, 2, 3) and c.shape == (1 + two_ways, 2, 4)
    np.testing.assert_allclose(out.detach().numpy(), np.concatenate(wanted, 2), 1e-9)
    np.testing.assert_allclose(c.detach().numpy(), np.stack([e[1] for e in ends]), 1e-9)
    s = sf.placeholder((None, None, 2), "float64", name="x")
    program = sf.compile([s], layer(s)[0])
    np.testing.assert_allclose(program(x).numpy(), np.concatenate(wanted, 2), 1e-9)
    deep = nn.LSTM(2, 4, num_layers=2, bidirectional=True, proj_size=3)
    assert deep.weight_ih_l1.shape == (16, 6) and "proj_size=3" in repr(deep)


@pytest.mark.parametrize("make, says", [(lambda: nn.GRU(2, 3, proj_size=2), "is for LSTMs"),
                                        (lambda: nn.LSTM(2, 3, proj_size=3), "below their hidden")],
                         ids=["GRU", "too wide"])  # fmt: skip
def test_a_projection_that_cannot_be(make: Any, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        make()


def test_keys_and_values_that_attention_adds() -> None:
    layer = filled(nn.MultiheadAttention(4, 2, add_bias_kv=True, add_zero_attn=True))
    x = RNG.standard_normal((3, 2, 4))
    hidden = np.array([[False, True, False]] * 2)
    out, weights = layer(sf.tensor(x), sf.tensor(x), sf.tensor(x), sf.tensor(hidden))
    w, b = layer.in_proj_weight.detach().numpy(), layer.in_proj_bias.detach().numpy()
    q, k, v = (x @ w[4 * i : 4 * i + 4].T + b[4 * i : 4 * i + 4] for i in range(3))
    more = [np.broadcast_to(p.detach().numpy(), (1, 2, 4)) for p in (layer.bias_k, layer.bias_v)]
    k, v = (np.concatenate([y, m, np.zeros((1, 2, 4))]) for y, m in ((k, more[0]), (v, more[1])))
    for n in range(2):
        parts, seen = [], []
        for head in (slice(0, 2), slice(2, 4)):
            scores = q[:, n, head] @ k[:, n, head].T / np.sqrt(2)
            scores[:, :3][:, hidden[n]] = -np.inf
            e = np.exp(scores)
            seen.append(e / e.sum(1, keepdims=True))
            parts.append(seen[-1] @ v[:, n, head])
        last = layer.out_proj
        wanted = np.concatenate(parts, 1) @ last.weight.detach().numpy().T
        wanted = wanted + last.bias.detach().numpy()
        np.testing.assert_allclose(out[:, n].detach().numpy(), wanted, 1e-9)
        np.testing.assert_allclose(weights[n].detach().numpy(), np.mean(seen, 0), 1e-9)
    s = sf.placeholder((None, None, 4), "float64", name="x")
    program = sf.compile([s], layer(s, s, s)[0])
    np.testing.assert_allclose(
        program(x).numpy(), layer(*[sf.tensor(x)] * 3)[0].detach().numpy(), 1e-9
    )
    with pytest.raises(ArgumentError, match="is_causal does not say"):
        layer(*[sf.tensor(x)] * 3, is_causal=True)


def test_an_embedding_of_bounded_rows() -> None:
    layer = nn.Embedding(4, 2, max_norm=1.0)
    layer.weight.data.copy_(sf.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0], [0.0, 2.0]]))
    out = layer(sf.tensor([2, 1, 2]))
    np.testing.assert_allclose(out.tolist(), [[0.6, 0.8], [0.3, 0.4], [0.6, 0.8]], 1e-6)
    assert layer.weight[0].tolist() == [3.0, 4.0]  # which was not read
    out.sum().backward()
    assert layer.weight.grad is not None and layer.weight.grad[2].tolist() == [2.0, 2.0]
    assert repr(layer) == "Embedding(4, 2, max_norm=1.0)"
    with pytest.raises(ArgumentError, match="max_norm changes the weight"):
        layer(sf.placeholder((2,), "int64", name="i"))


def test_rrelu() -> None:
    x = sf.tensor([-1.0, 2.0, -3.0])
    np.testing.assert_allclose(F.rrelu(x, 0.1, 0.3).tolist(), [-0.2, 2.0, -0.6], 1e-6)
    drawn = nn.RReLU(0.1, 0.3)(x)
    assert drawn[1].item() == 2.0 and -0.3 <= drawn[0].item() <= -0.1
    assert repr(nn.RReLU(0.1, 0.3)) == "RReLU(lower=0.1, upper=0.3)"
    assert F.rrelu(x, inplace=True) is x


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_way_back_of_pooling(rank: int) -> None:
    x = RNG.standard_normal((2, 3, *(4,) * rank))
    pool = getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)
    back = getattr(nn, f"MaxUnpool{rank}d")(2)
    leaf = sf.tensor(x, requires_grad=True)
    out = back(*pool(leaf))
    kept = out.detach().numpy() != 0
    np.testing.assert_array_equal(out.detach().numpy(), np.where(kept, x, 0))
    assert kept.sum() == 6 * 2**rank
    out.sum().backward()
    assert leaf.grad is not None
    np.testing.assert_array_equal(leaf.grad.numpy(), kept)
    larger = back(*pool(leaf), output_size=(2, 3, *(5,) * rank))
    assert larger.shape == (2, 3, *(5,) * rank)
    s = sf.placeholder((None, 3, *(4,) * rank), "float64", name="x")
    np.testing.assert_array_equal(sf.compile([s], back(*pool(s)))(x), out.detach().numpy())


def test_norms_of_windows() -> None:
    x = RNG.uniform(0.1, 1, (2, 3, 4, 6))
    windows = x.reshape(2, 3, 2, 2, 3, 2)
    wanted = (windows**3).sum((3, 5)) ** (1 / 3)
    np.testing.assert_allclose(nn.LPPool2d(3, 2)(sf.tensor(x)).numpy(), wanted, 1e-9)
    s = sf.placeholder((None, 3, 4, 6), "float64", name="x")
    np.testing.assert_allclose(sf.compile([s], F.lp_pool2d(s, 3, 2))(x).numpy(), wanted, 1e-9)
    assert nn.LPPool1d(1, 2)(sf.ones(1, 4)).tolist() == [[2.0] * 2]
    assert F.lp_pool3d(sf.ones(1, 2, 2, 2), 1, 2).item() == 8.0


def test_triplets_by_the_usual_distance() -> None:
    rows = [sf.tensor(RNG.standard_normal((4, 3))) for _ in range(3)]
    wanted = F.triplet_margin_loss(*rows)
    np.testing.assert_allclose(
        nn.TripletMarginWithDistanceLoss()(*rows).item(), wanted.item(), 1e-9
    )


ACTIVATIONS = {
    "relu": (), "relu6": (), "leaky_relu": (0.2,), "threshold": (0.1, 2.0), "hardtanh": (-0.5, 0.5),
    "hardsigmoid": (), "hardswish": (), "silu": (), "mish": (), "elu": (0.5,), "celu": (0.5,),
    "selu": (),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_in_place(name: str) -> None:
    """``inplace`` comes last, by name or not."""
    fn, options = getattr(F, name), ACTIVATIONS[name]
    assert list(inspect.signature(fn).parameters)[-1] == "inplace"
    data = sf.tensor([-2.0, -0.25, 0.25, 3.0])
    expected = fn(data, *options)
    w = data.clone().requires_grad_()
    for at_end, named in (((), {"inplace": True}), ((True,), {})):
        x = w * 1
        assert fn(x, *options, *at_end, **named) is x and x.tolist() == expected.tolist()
        (x * 2).sum().backward()
    by_hand = data.clone().requires_grad_()
    (fn(by_hand, *options) * 4).sum().backward()
    assert w.grad is not None and by_hand.grad is not None
    assert w.grad.tolist() == pytest.approx(by_hand.grad.tolist())
    with pytest.raises(TypeError, match="unexpected keyword argument 'slope'"):
        fn(x, *options, slope=3)
