"""Recurrent layers on tensors run as programs, and give what their steps one by one give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager import fused as fused_calls
from staticflow.errors import AutogradError
from staticflow.nn import recurrent
from staticflow.testing import assert_close

KINDS: dict[str, dict[str, Any]] = {
    "LSTM": {},
    "GRU": {},
    "RNN": {},
    "RNN of relu": {"nonlinearity": "relu"},
}

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "layers both ways": {"num_layers": 2, "bidirectional": True},
    "batch first": {"batch_first": True},
}


def layer_of(kind: str, **options: Any) -> Any:
    """A layer from 3 to 4 features, always the same."""
    sf.manual_seed(0)
    return getattr(sf.nn, kind.split(" ")[0])(3, 4, **KINDS[kind], **options)


def first_state(layer: Any, batch: int) -> Any:
    """A first state that requires gradients."""
    count = layer.num_layers * (1 + layer.bidirectional)
    widths = [layer.proj_size or 4, 4][: layer.states]
    states = [sf.randn(count, batch, w, dtype=layer.weight_hh_l0.dtype) for w in widths]
    given = tuple(s.requires_grad_() for s in states)
    return given if layer.states > 1 else given[0]


def leaves(tree: Any) -> list[Any]:
    """The tensors of a result."""
    return [t for part in tree for t in leaves(part)] if isinstance(tree, tuple) else [tree]


def outcome(layer: Any, x: Any, hx: Any = None, lengths: Any = None) -> list[Any]:
    """Outputs, last states, and the gradients of everything."""
    given = [x, *(leaves(hx) if hx is not None else []), *layer.parameters()]
    found = leaves(layer(x, hx, lengths))
    weights = [sf.linspace(0.5, 1.5, f.numel(), dtype=f.dtype).view(f.shape) for f in found]
    loss = sum((f * w).sum() for f, w in zip(found, weights, strict=True))
    return [*found, *sf.autograd.grad(loss, given)]


@pytest.fixture
def stepwise(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """`outcome` where every step is made of operations."""

    def run(*args: Any) -> list[Any]:
        with monkeypatch.context() as patch:
            patch.setattr(recurrent, "_steps", recurrent._steps.__wrapped__)
            return outcome(*args)

    return run


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Grows by one for each program of a fused function that is compiled."""
    made: list[Any] = []
    compiled = fused_calls.compile_graph

    def counted(graph: Any, **named: Any) -> Any:
        made.append(graph)
        return compiled(graph, **named)

    monkeypatch.setattr(fused_calls, "compile_graph", counted)
    return made


def assert_same(found: list[Any], expected: list[Any]) -> None:
    """Equal but for the order of sums."""
    for a, b in zip(found, expected, strict=True):
        assert_close(a.detach(), b.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_program_gives_what_the_steps_give(
    kind: str, options: str, stepwise: Callable[..., list[Any]]
) -> None:
    layer = layer_of(kind, **OPTIONS[options])
    x = sf.randn(5, 5, 3, requires_grad=True)
    hx = first_state(layer, 5)
    assert_same(outcome(layer, x, hx), stepwise(layer, x, hx))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_lengths_zeros_for_a_state_and_no_batch(
    kind: str, stepwise: Callable[..., list[Any]]
) -> None:
    layer = layer_of(kind)
    x = sf.randn(5, 3, 3, requires_grad=True)
    lengths = sf.tensor([2, 5, 1])
    assert_same(outcome(layer, x, None, lengths), stepwise(layer, x, None, lengths))
    alone = sf.randn(5, 3, requires_grad=True)
    assert_same(outcome(layer, alone), stepwise(layer, alone))


def test_projected_states(stepwise: Callable[..., list[Any]]) -> None:
    layer = layer_of("LSTM", proj_size=2, num_layers=2)
    x = sf.randn(5, 3, 3, requires_grad=True)
    hx = first_state(layer, 3)
    assert_same(outcome(layer, x, hx), stepwise(layer, x, hx))


@pytest.mark.parametrize("dtype", [sf.float64, sf.bfloat16], ids=lambda d: d.name)
def test_other_dtypes(dtype: Any, stepwise: Callable[..., list[Any]]) -> None:
    layer = layer_of("LSTM", dtype=dtype)
    x = sf.randn(5, 3, 3).to(dtype).requires_grad_()
    for a, b in zip(outcome(layer, x), stepwise(layer, x), strict=True):
        rtol = 1e-10 if dtype is sf.float64 else 0.1
        assert_close(a.detach().double(), b.detach().double(), rtol=rtol, atol=rtol)


def test_other_sizes_compile_nothing(compilations: list[Any]) -> None:
    layers = [sf.nn.LSTM(3, 4), sf.nn.LSTM(7, 6, 2)]
    for layer, shape in zip(layers * 2, [(2, 3, 3), (5, 2, 7), (9, 4, 3), (3, 8, 7)], strict=True):
        before = len(compilations)
        x = sf.randn(*shape)
        layer(x)[0].sum().backward()
    assert len(compilations) == before  # what a derivative needs of inputs differs in the first two


def test_a_dropout_between_layers_is_of_training_only() -> None:
    says = "LSTM: dropout=0.5 is between layers, and there is one"
    with pytest.warns(UserWarning, match=says) as caught:
        layer_of("LSTM", dropout=0.5)
    assert [w.filename for w in caught] == [__file__]
    layer = layer_of("LSTM", num_layers=2, dropout=0.5)
    x = sf.randn(5, 3, 3)
    assert not layer(x)[0].equal(layer(x)[0])
    layer.eval()
    assert layer(x)[0].equal(layer(x)[0])


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_second_derivatives(kind: str) -> None:
    layer = getattr(sf.nn, kind)(2, 2, dtype=sf.float64)
    x = sf.randn(2, 2, 2, dtype=sf.float64, requires_grad=True)
    weights = list(layer.parameters())

    def of(x: Any, *_: Any) -> Any:
        return layer(x)[0]

    assert sf.autograd.gradgradcheck(of, (x, *weights))


def test_some_results_and_some_gradients() -> None:
    layer = layer_of("LSTM")
    x = sf.randn(5, 3, 3, requires_grad=True)
    for pick in (lambda y, h, c: h, lambda y, h, c: c, lambda y, h, c: y[1]):
        y, (h, c) = layer(x)
        (alone,) = sf.autograd.grad(pick(y, h, c).sum(), [x], retain_graph=True)
        both = sf.autograd.grad(pick(y, h, c).sum(), [x, layer.weight_hh_l0])
        assert_close(alone, both[0])
    layer.weight_hh_l0.requires_grad_(False)
    layer(x)[0].sum().backward()
    assert layer.weight_hh_l0.grad is None and layer.weight_ih_l0.grad is not None


def test_graphs_are_freed_kept_and_guarded() -> None:
    layer = layer_of("LSTM")
    x = sf.randn(5, 3, 3)
    y = layer(x)[0].sum()
    y.backward(retain_graph=True)
    first = layer.weight_hh_l0.grad.clone()
    y.backward()
    assert_close(layer.weight_hh_l0.grad, 2 * first)
    with pytest.raises(AutogradError, match="second time"):
        y.backward()
    y = layer(x)[0].sum()
    with sf.no_grad():
        layer.weight_hh_l0.mul_(2)
    with pytest.raises(AutogradError, match="changed in place"):
        y.backward()


def test_nothing_is_recorded_where_nothing_is_wanted() -> None:
    layer = layer_of("GRU")
    x = sf.randn(5, 3, 3)
    with sf.no_grad():
        assert layer(x)[0].grad_fn is None
    with sf.inference_mode():
        assert layer(x)[0].is_inference()
    layer.requires_grad_(False)
    assert not layer(x)[0].requires_grad


def test_swapped_data_is_seen() -> None:
    layer = layer_of("RNN")
    x = sf.randn(5, 3, 3)
    before = layer(x)[0]
    layer.weight_hh_l0.data = layer.weight_hh_l0.detach() * 2
    other = layer_of("RNN")
    with sf.no_grad():
        other.weight_hh_l0.mul_(2)
    assert layer(x)[0].equal(other(x)[0])
    assert not layer(x)[0].equal(before)


def test_no_steps_and_hooks() -> None:
    layer = layer_of("LSTM")
    y, (h, c) = layer(sf.randn(0, 3, 3))
    assert y.shape == (0, 3, 4) and h.shape == c.shape == (1, 3, 4)
    seen: list[Any] = []
    layer.register_full_backward_hook(lambda module, into, out: seen.append(out[0].shape))
    layer.weight_hh_l0.register_hook(lambda g: g * 0)
    layer(sf.randn(5, 3, 3, requires_grad=True))[0].sum().backward()
    assert seen == [(5, 3, 4)]
    assert not np.any(layer.weight_hh_l0.grad.numpy())


def test_sequences_are_put_in_order_once_and_before_they_are_projected() -> None:
    """Of two layers both ways: the input, the lengths and the first states, and back the outputs and
    the last states; what a layer makes of its input, three times as wide, never."""
    layer = layer_of("GRU", num_layers=2, bidirectional=True)
    x = sf.placeholder(("T", "B", 3), name="x")
    lengths = sf.placeholder(("B",), "int64", name="lengths")
    program = sf.compile([x, lengths], layer(x, lengths=lengths), passes=[])
    ops = [n for n in program.graph.nodes if n.op.name == "index_select"]
    assert sorted(str(n.type) for n in ops) == [
        "f32[4, B, 4]", "f32[4, B, 4]", "f32[T, B, 3]", "f32[T, B, 8]", "i64[B]",
    ]  # fmt: skip
    assert sum(n.op.name == "sort" for n in program.graph.nodes) == 2


def test_the_way_back_reads_the_products_of_the_rows_that_went_on() -> None:
    """An iteration has a product forward, and backward one for the state and one for the weight."""
    layer = sf.nn.LSTM(8, 16)
    x = sf.placeholder(("T", "B", 8), name="x")
    lengths = sf.placeholder(("B",), "int64", name="lengths")
    loss = layer(x, lengths=lengths)[0].square().sum()
    grads = sf.grad(loss, list(layer.parameters()))
    program = sf.compile([x, lengths], [loss, *grads])
    plain = sf.compile([x, lengths], [loss, *grads], passes="-share_products")
    assert products_in_loops(program) == 3
    assert products_in_loops(plain) == 4
    arrays = np.ones((5, 3, 8), np.float32), np.array([2, 5, 1])
    for got, wanted in zip(program(*arrays), plain(*arrays), strict=True):
        assert_close(got, wanted)


def products_in_loops(program: Any) -> int:
    """Products in the bodies of the loops of a program as it runs."""
    text = program.explain("graph")
    return sum(line.count("= matmul(") for line in text.split("\n") if line.startswith("      %"))
