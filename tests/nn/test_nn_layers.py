"""Recurrent layers, attention and transformers: PyTorch's numbers in both modes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn, pytree
from staticflow.nn import functional as F

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "layers.json").read_text())
MASKS = {
    "padding": np.array([[False, False, True], [False, False, False]]),
    "mask": np.arange(15).reshape(5, 3) % 4 == 3,
    "added": np.sin(np.arange(15.0)).reshape(5, 3),
    "square": ~np.tri(5, dtype=bool),
}


def wave(*shape: int, by: float = 1.0) -> np.ndarray:
    """That of reference/make_layers.py."""
    return np.sin(by * (np.arange(np.prod(shape, dtype=int)) + 1.5) ** 2).reshape(shape)


def made(kind: str, args: list, options: dict) -> nn.Module:
    layer = getattr(nn, kind)(*args, **options).double()
    with sf.no_grad():
        for i, p in enumerate(layer.parameters()):
            p[...] = wave(*p.shape, by=1 + 0.1 * i)
    return layer


def outputs(layer: nn.Module, given: list, call: dict) -> list:
    masks = {n: sf.tensor(MASKS[v]) if v in MASKS else v for n, v in call.items()}
    return pytree.flatten(layer(*given, **masks))[0]


def loss_of(outs: list) -> Any:
    total = 0.0
    for o in outs:
        shape = tuple(int(n) for n in o.shape)
        total = total + (o * sf.tensor(wave(*shape, by=1.7))).sum()
    return total


CASES = [pytest.param(*case, id=f"{case[0]}-{i}") for i, case in enumerate(REFERENCE)]
NAMES = ("kind", "args", "options", "shapes", "call", "values", "gradients", "slopes")


def check(found: list, wanted: list, what: str) -> None:
    assert len(found) == len(wanted)
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(
            f.detach().numpy().ravel(), w, rtol=1e-10, atol=1e-12, err_msg=what
        )


@pytest.mark.parametrize(NAMES, CASES)
def test_pytorchs_numbers(
    kind: str, args: list, options: dict, shapes: list, call: dict, values: list, gradients: list,
    slopes: dict,
) -> None:  # fmt: skip
    layer = made(kind, args, options)
    assert [n for n, _ in layer.named_parameters()] == list(slopes)
    given = [sf.tensor(wave(*s, by=0.9 - 0.1 * i)).requires_grad_() for i, s in enumerate(shapes)]
    outs = outputs(layer, given, call)
    check(outs, values, "outputs")
    loss_of(outs).backward()
    check([g.grad for g in given], gradients, "gradients")
    for (name, p), slope in zip(layer.named_parameters(), slopes.values(), strict=True):
        found = (p.grad.numpy() * wave(*p.shape, by=0.3)).sum()
        assert found == pytest.approx(slope, rel=1e-9, abs=1e-11), name


@pytest.mark.parametrize(NAMES, CASES)
def test_compiled_layers_are_the_same(
    kind: str, args: list, options: dict, shapes: list, call: dict, values: list, gradients: list,
    slopes: dict,
) -> None:  # fmt: skip
    layer = made(kind, args, options)
    handles = [sf.placeholder(tuple(s), "float64", name=f"x{i}") for i, s in enumerate(shapes)]
    outs = outputs(layer, handles, call)
    parameters = list(layer.parameters())
    found = sf.grad(loss_of(outs), [*handles, *parameters])
    program = sf.compile(handles, [outs, found])
    got, grads = program(*(wave(*s, by=0.9 - 0.1 * i) for i, s in enumerate(shapes)))
    check(got, values, "outputs")
    check(grads[: len(shapes)], gradients, "gradients")
    for g, p, (name, slope) in zip(grads[len(shapes) :], parameters, slopes.items(), strict=True):
        product = (g.numpy() * wave(*p.shape, by=0.3)).sum()
        assert product == pytest.approx(slope, rel=1e-9, abs=1e-11), name


# -- sizes that are not known -------------------------------------------------------------------

SEQUENCES = {
    "RNN": lambda: nn.RNN(3, 4, nonlinearity="relu"),
    "LSTM": lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True),
    "GRU": lambda: nn.GRU(3, 4),
    "TransformerEncoderLayer": lambda: nn.Sequential(
        nn.Linear(3, 4), nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
    ),
}


@pytest.mark.parametrize("name", SEQUENCES)
def test_one_program_for_every_length_and_batch(name: str) -> None:
    layer = SEQUENCES[name]().double()
    xs = sf.placeholder(("T", "N", 3), "float64", name="xs")
    leaves = pytree.flatten(layer(xs))[0]
    gradient = sf.grad(sum(((leaf * leaf).sum() for leaf in leaves), 0.0), xs)
    program = sf.compile([xs], [leaves, gradient])
    for length, batch in ((5, 2), (1, 1), (3, 0), (0, 2), (7, 3)):
        if length == 0 and name.startswith("Transformer"):
            continue  # the softmax over no keys
        data = sf.tensor(wave(length, batch, 3)).requires_grad_()
        now = pytree.flatten(layer(data))[0]
        found, slope = program(data.detach())
        if length:  # no step has anything to do with the input
            sum(((leaf * leaf).sum() for leaf in now), 0.0).backward()
        else:
            data.grad = sf.zeros_like(data)
        for f, n in zip(found, now, strict=True):
            np.testing.assert_allclose(f.numpy(), n.detach().numpy(), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(slope.numpy(), data.grad.numpy(), rtol=1e-9, atol=1e-12)
    assert program.compile_count == 1


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_lengths(name: str) -> None:
    layer = getattr(nn, name)(3, 4, bidirectional=True, batch_first=True).double()
    x, lengths = sf.tensor(wave(4, 5, 3)), sf.tensor([5, 2, 0, 3])
    out, last = layer(x, lengths=lengths)
    states = last if name == "LSTM" else (last,)
    for row, length in enumerate(lengths.tolist()):
        alone, end = layer(x[row : row + 1, :length])
        ends = end if name == "LSTM" else (end,)
        np.testing.assert_allclose(
            out[row, :length].detach().numpy(), alone[0].detach().numpy(), rtol=1e-12, atol=1e-15
        )
        assert not out[row, length:].detach().numpy().any()
        for a, b in zip(states, ends, strict=True):
            np.testing.assert_allclose(
                a[:, row].detach().numpy(), b[:, 0].detach().numpy(), rtol=1e-12, atol=1e-15
            )


# -- attention ----------------------------------------------------------------------------------


def test_scaled_dot_product_attention() -> None:
    q, k, v = (wave(2, 4, 3, by=b) for b in (1.0, 1.1, 1.2))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(3)
    seen = np.tri(4, dtype=bool)

    def wanted(shown: np.ndarray, added: np.ndarray | float = 0.0) -> np.ndarray:
        e = np.exp(scores + added) * shown
        return e / e.sum(-1, keepdims=True) @ v

    given = [sf.tensor(a) for a in (q, k, v)]
    attend = F.scaled_dot_product_attention
    added = wave(4, 4, by=0.7)
    every = np.ones((4, 4), bool)
    for found, expected in (
        (attend(*given), wanted(every)),
        (attend(*given, is_causal=True), wanted(seen)),
        (attend(*given, attn_mask=sf.tensor(seen)), wanted(seen)),
        (attend(*given, attn_mask=sf.tensor(added)), wanted(every, added)),
    ):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)
    scores = scores * np.sqrt(3) * 0.25
    np.testing.assert_allclose(attend(*given, scale=0.25).numpy(), wanted(every), rtol=1e-12)


@pytest.mark.parametrize(("name", "shape"), [("query", ()), ("key", (3,)), ("value", ())])
def test_attention_names_what_has_too_few_dims(name: str, shape: tuple[int, ...]) -> None:
    given = {"query": sf.ones(2, 3), "key": sf.ones(2, 3), "value": sf.ones(2, 3)}
    with pytest.raises(sf.ShapeError, match=f"the {name} has {len(shape)} dims"):
        F.scaled_dot_product_attention(**{**given, name: sf.ones(shape)})
    symbol = sf.placeholder(shape, name="p")
    with pytest.raises(sf.ShapeError, match=f"the {name} has {len(shape)} dims"):
        F.scaled_dot_product_attention(**{**given, name: symbol})


@pytest.mark.parametrize("layer", [nn.BatchNorm1d, nn.InstanceNorm1d])
def test_an_empty_batch_leaves_the_running_statistics(layer: type[nn.Module]) -> None:
    eager, compiled = (layer(3, track_running_stats=True) for _ in range(2))
    x = sf.placeholder((None, 3, 4), name="x")
    program = sf.compile([x], compiled(x))
    for batch in (np.zeros((0, 3, 4), np.float32), wave(2, 3, 4).astype(np.float32)):
        eager(sf.tensor(batch))
        program(batch)
        for name in ("running_mean", "running_var"):
            there = getattr(compiled, name).numpy()
            np.testing.assert_allclose(getattr(eager, name).numpy(), there, rtol=1e-6)
            assert (there == float(name == "running_var")).all() == (len(batch) == 0)


@pytest.mark.parametrize(("dtype", "within"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_attention_rounds_16_bits_once(dtype: str, within: float) -> None:
    """Scores that are rounded to 16 bits are wrong by much behind the exponential."""
    given = [sf.tensor(wave(2, 4, 3, by=b) * 9).to(getattr(sf, dtype)) for b in (1.0, 1.1, 1.2)]
    mask = sf.tensor(wave(4, 4, by=0.7))
    exact = F.scaled_dot_product_attention(*(x.double() for x in given), attn_mask=mask)
    symbols = [
        sf.placeholder(x.shape, dtype, name=name) for name, x in zip("qkv", given, strict=True)
    ]
    compiled = sf.compile(symbols, F.scaled_dot_product_attention(*symbols, attn_mask=mask.float()))
    for out in (F.scaled_dot_product_attention(*given, mask.float()), compiled(*given)):
        found = sf.tensor(out)
        assert found.dtype is given[0].dtype
        assert (abs(found.double() - exact) <= within * abs(exact) + 1e-5).all()


def test_dropout_in_attention_follows_the_mode() -> None:
    layer = nn.MultiheadAttention(4, 2, dropout=0.5)
    x = sf.tensor(wave(5, 2, 4).astype(np.float32))
    sf.manual_seed(0)
    first, again = layer(x, x, x)[0], layer(x, x, x)[0]
    assert first.tolist() != again.tolist()
    layer.eval()
    assert layer(x, x, x)[0].tolist() == layer(x, x, x)[0].tolist()


def test_a_causal_layer_does_not_look_ahead() -> None:
    one = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)
    layer = nn.TransformerEncoder(one, 2, enable_nested_tensor=False, mask_check=False)
    x = wave(5, 1, 4).astype(np.float32)
    changed = x.copy()
    changed[3:] += 1
    a, b = (layer(sf.tensor(v), is_causal=True).detach().numpy() for v in (x, changed))
    assert np.array_equal(a[:3], b[:3]) and not np.allclose(a[3:], b[3:])


def test_a_transformer_of_encoder_and_decoder() -> None:
    model = nn.Transformer(4, 2, 1, 1, 8, dropout=0.0)
    mask = model.generate_square_subsequent_mask(5)
    assert mask.tolist()[1] == [0, 0, -np.inf, -np.inf, -np.inf]
    source, target = (sf.tensor(wave(n, 2, 4).astype(np.float32)) for n in (3, 5))
    changed = target.clone()
    changed[3:] += 1
    a, b = (model(source, t, tgt_mask=mask).detach() for t in (target, changed))
    np.testing.assert_allclose(a[:3].numpy(), b[:3].numpy(), rtol=1e-5, atol=1e-6)
    assert not np.allclose(a[3:].numpy(), b[3:].numpy())
    compiled = sf.jit(lambda s, t: model(s, t, tgt_mask=mask))(source, target)
    np.testing.assert_allclose(compiled.detach().numpy(), a.numpy(), rtol=1e-5, atol=1e-6)


# -- the rest -----------------------------------------------------------------------------------


def test_initial_values_are_pytorchs() -> None:
    sf.manual_seed(0)
    lstm = nn.LSTM(30, 25)
    for p in lstm.parameters():
        values = p.detach().numpy()
        assert np.abs(values).max() <= 0.2 and values.std() == pytest.approx(0.2 / 3**0.5, rel=0.2)
    attention = nn.MultiheadAttention(30, 3)
    bound = (6 / 120) ** 0.5
    weight = attention.in_proj_weight.detach().numpy()
    assert 0.99 * bound < np.abs(weight).max() <= bound
    assert not attention.in_proj_bias.detach().numpy().any()
    assert not attention.out_proj.bias.detach().numpy().any()


def test_repr_is_pytorchs() -> None:
    assert repr(nn.LSTM(3, 4, 2, batch_first=True, dropout=0.5)) == (
        "LSTM(3, 4, num_layers=2, batch_first=True, dropout=0.5)"
    )
    assert repr(nn.GRU(3, 4, bidirectional=True, bias=False)) == (
        "GRU(3, 4, bias=False, bidirectional=True)"
    )
    assert repr(nn.LSTMCell(2, 3)) == "LSTMCell(2, 3)"
    assert repr(nn.RNNCell(2, 3, False, "relu")) == "RNNCell(2, 3, bias=False, nonlinearity=relu)"


def refuse(match: str, error: type[Exception] = ValueError) -> Any:
    return pytest.raises(error, match=match)


def test_what_layers_refuse() -> None:
    x = sf.ones(5, 2, 3)
    with refuse("LSTM: sizes and layers"):
        nn.LSTM(3, 0)
    with refuse("GRU: the dropout"):
        nn.GRU(3, 4, dropout=2.0)
    with refuse("tanh or relu, not 'gelu'"):
        nn.RNN(3, 4, nonlinearity="gelu")
    with refuse("tanh or relu, not 'gelu'"):
        nn.RNNCell(3, 4, nonlinearity="gelu")
    with refuse(r"LSTM: takes \(T, N, 4\) .*\[5, 2, 3\], at .*test_nn_layers", sf.ShapeError):
        nn.LSTM(4, 4)(x)
    with refuse("the first state is 2 tensors", sf.ShapeError):
        nn.LSTM(3, 4)(x, sf.zeros(1, 2, 4))
    with refuse(r"the first state has shape \[1, 2, 5\], and \[1, 2, 4\]", sf.ShapeError):
        nn.GRU(3, 4)(x, sf.zeros(1, 2, 5))
    with refuse("lengths are", sf.ShapeError):
        nn.GRU(3, 4)(x[:, 0], lengths=sf.tensor([1]))
    with refuse(r"LSTMCell: takes \(N, 4\)", sf.ShapeError):
        nn.LSTMCell(4, 4)(x[0])
    with refuse("a width of 4 does not fall into 3 heads"):
        nn.MultiheadAttention(4, 3)
    with refuse(r"the key has shape \[5, 2, 3\]", sf.ShapeError):
        nn.MultiheadAttention(4, 2)(sf.ones(5, 2, 4), x, x)
    with refuse("relu, gelu or a function, not 'tanh'"):
        nn.TransformerEncoderLayer(4, 2, activation="tanh")


@pytest.mark.parametrize("name", ["running_mean", "running_var", "weight", "bias"])
def test_values_of_channels_that_are_of_others_are_refused(name: str) -> None:
    """They would broadcast, and running statistics would move to what they are not of."""
    x = sf.ones(4, 3)
    for shape in ((4, 3), (4,), (1,), (1, 3)):
        given = {"running_mean": sf.zeros(3), "running_var": sf.ones(3), name: sf.ones(shape)}
        before = given["running_mean"].clone()
        for training in (False, True):
            with pytest.raises(sf.ShapeError, match=rf"batch_norm: {name}, of shape .* \(C,\)"):
                F.batch_norm(x, **given, training=training)
            with pytest.raises(sf.ShapeError, match=f"instance_norm: {name}"):
                F.instance_norm(sf.ones(4, 3, 2), **given, use_input_stats=training)
        assert given["running_mean"].tolist() == before.tolist()
    if name in ("weight", "bias"):
        with pytest.raises(sf.ShapeError, match=f"group_norm: {name}"):
            F.group_norm(x, 3, **{name: sf.ones(4)})


@pytest.mark.parametrize("norm", [F.layer_norm, F.rms_norm])
def test_a_graph_asks_for_the_sizes_that_are_normalised(norm: Any) -> None:
    x = sf.placeholder(("N", "M"), name="x")
    program = sf.compile([x], norm(x, (4,)))
    given = sf.tensor(wave(2, 4).astype("f4"))
    np.testing.assert_allclose(program(given).numpy(), norm(given, (4,)).numpy(), rtol=1e-5)
    with pytest.raises(sf.ShapeError, match="M and 4 must be equal, but M is 5"):
        program(sf.ones(2, 5))


@pytest.mark.parametrize("bias", [True, False])
def test_linear_takes_an_array_as_what_is_beside_a_tensor(bias: bool) -> None:
    layer, x = nn.Linear(2, 3, bias=bias), wave(4, 2).astype("f4")
    assert layer(x).tolist() == layer(sf.tensor(x)).tolist()
    with pytest.raises(sf.DTypeError, match="Linear: 'input' must be a tensor, not list"):
        layer([1.0, 2.0])
