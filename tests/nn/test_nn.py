"""Modules, parameters and losses, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.nn import functional as F


def array(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


class Net(nn.Module):
    def __init__(self) -> None:
        self.fc1 = nn.Linear(4, 3)
        self.fc2 = nn.Linear(3, 2, bias=False)
        self.scale = nn.Parameter([2.0])
        self.register_buffer("offset", sf.ones(2))
        self.register_buffer("cache", sf.zeros(1), persistent=False)

    def forward(self, x: Any) -> Any:
        return self.fc2(self.fc1(x).tanh()) * self.scale + self.offset


# -- both modes ---------------------------------------------------------------------------------

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Linear": (lambda: nn.Linear(4, 3), (4,)),
    "Linear without bias": (lambda: nn.Linear(4, 3, bias=False), (4,)),
    "Linear on three dims": (lambda: nn.Linear(4, 3), (2, 4)),
    "ReLU": (nn.ReLU, (4,)),
    "Tanh": (nn.Tanh, (4,)),
    "Sigmoid": (nn.Sigmoid, (4,)),
    "Flatten": (nn.Flatten, (2, 3)),
    "Flatten of the last dims": (lambda: nn.Flatten(2, 3), (2, 3, 2)),
    "Sequential": (lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 2), nn.ReLU()), (2, 3)),
    "empty Sequential": (nn.Sequential, (4,)),
    "Net": (Net, (4,)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_gives_the_same_in_both_modes(name: str) -> None:
    make, shape = LAYERS[name]
    layer = make()
    x = sf.placeholder((None, *shape), name="x")
    out = layer(x)
    params = list(layer.parameters())
    program = sf.compile([x], [out, *sf.grad((out * out).sum(), [x, *params])])
    for rows in (5, 1, 0):
        data = sf.from_numpy(array(rows, *shape)).requires_grad_()
        layer.zero_grad()
        eager = layer(data)
        (eager * eager).sum().backward()
        wanted = [eager.detach(), data.grad, *(p.grad for p in params)]
        for static, now in zip(program(data.detach()), wanted, strict=True):
            np.testing.assert_allclose(static.numpy(), now.numpy(), rtol=1e-5, atol=1e-6)
    assert program.compile_count == 1


def test_linear_is_the_formula_in_pytorchs_layout() -> None:
    layer = nn.Linear(4, 3, dtype="float64")
    x = array(5, 4, dtype="float64")
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    assert weight.shape == (3, 4) and bias.shape == (3,)
    out = layer(sf.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(out, x @ weight.T + bias, rtol=1e-14)


def test_what_forward_computes_of_parameters_alone_belongs_to_the_graph() -> None:
    class Squared(nn.Module):
        def __init__(self) -> None:
            self.w = nn.Parameter(array(4, 3))
            self.register_buffer("offset", sf.ones(3))

        def forward(self, x: Any) -> Any:
            return x @ (self.w * self.w).t().t() + 2.0 * self.offset

    model = Squared()
    x = sf.placeholder((None, 4), name="x")
    out = model(x)
    program = sf.compile([x], [out, sf.grad(out.sum(), model.w)])
    data = array(5, 4)
    with sf.no_grad():
        model.w[...] = 3.0
    model.offset[...] = 10.0
    value, gradient = program(data)
    np.testing.assert_allclose(value.numpy(), (data @ np.full((4, 3), 9.0)) + 20, rtol=1e-5)
    wanted = np.repeat(6 * data.sum(0)[:, None], 3, axis=1)
    np.testing.assert_allclose(gradient.numpy(), wanted, rtol=1e-5)


def test_a_symbol_inside_a_container_is_seen() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            self.w = nn.Parameter([2.0])

        def forward(self, given: Any, more: Any = None) -> Any:
            return (self.w * self.w) * (given["a"][0] if more is None else more[0])

    x = sf.placeholder((None,), name="x")
    for out in (Pair()({"a": [x]}), Pair()(None, more=(x,))):
        assert sf.compile([x], out)(sf.ones(2)).tolist() == [4.0, 4.0]


def test_an_eager_result_with_history_is_its_history_in_a_graph() -> None:
    w = nn.Parameter([2.0])
    x = sf.placeholder((1,), name="x")
    assert sf.compile([x], sf.grad((w * w * x).sum(), w))(sf.ones(1)).item() == 4.0
    assert sf.compile([x], (w * w).detach() * x)(sf.ones(1)).item() == 4.0


def test_changing_a_buffer_inside_a_graph_is_refused() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            self.register_buffer("count", sf.zeros(1))

        def forward(self, x: Any) -> Any:
            self.count.add_(1)
            return x + self.count

    model = Counter()
    assert model(sf.zeros(1)).item() == 1.0
    with pytest.raises(sf.SymbolicError, match="updates="):
        model(sf.placeholder((1,), name="x"))
    assert model(sf.zeros(1)).item() == 2.0  # tracing is over


# -- parameters ---------------------------------------------------------------------------------


def test_a_parameter_is_a_leaf_on_the_given_memory() -> None:
    data = np.zeros(3, np.float32)
    p = nn.Parameter(data)
    assert isinstance(p, sf.Tensor) and p.requires_grad and p.is_leaf
    data[0] = 5.0
    assert p.tolist() == [5.0, 0.0, 0.0]
    t = sf.zeros(2)
    shared = nn.Parameter(t, requires_grad=False)
    t.add_(1)
    assert shared.tolist() == [1.0, 1.0] and not shared.requires_grad
    assert nn.Parameter([1.0, 2.0]).dtype is sf.float32


def test_a_parameter_of_integers_cannot_require_a_gradient() -> None:
    with pytest.raises(sf.AutogradError, match="floating"):
        nn.Parameter([1, 2])
    assert nn.Parameter([1, 2], requires_grad=False).dtype is sf.int64


def test_initial_values_follow_the_seed_and_the_bound() -> None:
    def drawn(seed: int) -> np.ndarray:
        sf.manual_seed(seed)
        layer = nn.Linear(100, 50)
        return np.concatenate([p.detach().numpy().ravel() for p in layer.parameters()])

    first = drawn(3)
    assert np.array_equal(first, drawn(3)) and not np.array_equal(first, drawn(4))
    assert np.abs(first).max() <= 0.1 and np.abs(first).max() > 0.099
    # uniform on +-0.1: mean 0, standard deviation 0.1 / sqrt(3)
    assert abs(first.mean()) < 0.004 and abs(first.std() - 0.1 / 3**0.5) < 0.002


def test_a_layer_without_inputs_gives_its_bias() -> None:
    layer = nn.Linear(0, 2)
    assert layer(sf.zeros(3, 0)).tolist() == [[0.0, 0.0]] * 3
    with pytest.raises(sf.ShapeError, match="negative"):
        nn.Linear(-1, 2)


def test_uniform_fills_in_place() -> None:
    p = nn.Parameter(np.zeros(1000))
    assert nn.init.uniform_(p, 2.0, 3.0) is p
    assert p.dtype is sf.float64 and 2 <= p.detach().numpy().min() < p.detach().numpy().max() <= 3


# -- registration -------------------------------------------------------------------------------


def test_names_and_order() -> None:
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "scale", "fc1.weight", "fc1.bias", "fc2.weight",
    ]  # fmt: skip
    assert [n for n, _ in net.named_buffers()] == ["offset", "cache"]
    assert [n for n, _ in net.named_modules()] == ["", "fc1", "fc2"]
    assert [n for n, _ in net.named_children()] == ["fc1", "fc2"]
    assert next(iter(net.modules())) is net and len(list(net.children())) == 2
    outer = nn.Sequential(nn.Sequential(nn.Linear(2, 2)))
    (weight, bias) = outer.parameters()
    assert (weight.name, bias.name) == ("0.0.weight", "0.0.bias")
    x = sf.placeholder((None, 2), name="x")
    assert "0.0.weight" in str(sf.compile([x], outer(x)).graph)


def test_a_shared_parameter_counts_once_and_a_cycle_ends() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            self.a, self.b = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight
            self.again = self.a

    tied = Tied()
    assert [n for n, _ in tied.named_parameters()] == ["a.weight"]
    assert list(tied.state_dict()) == ["a.weight", "b.weight", "again.weight"]
    tied.a.parent = tied
    assert len(list(tied.modules())) == 3


def test_register_by_name() -> None:
    module = nn.Module()
    module.register_parameter("w", nn.Parameter([1.0]))
    module.register_parameter("none", None)
    module.register_buffer("gone", None)
    module.add_module("sub", nn.ReLU())
    assert list(module.state_dict()) == ["w"] and list(module.buffers()) == []
    assert module.none is None and [n for n, _ in module.named_children()] == ["sub"]
    module.gone = sf.ones(1)
    assert [n for n, _ in module.named_buffers()] == ["gone"]


def test_a_tensor_in_the_place_of_a_parameter_is_refused() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"Linear.weight is a parameter; a Tensor .* nn.Parameter"):
        layer.weight = sf.zeros(2, 2)
    layer.bias = None
    assert [n for n, _ in layer.named_parameters()] == ["weight"]
    assert layer(sf.zeros(1, 2)).tolist() == [[0.0, 0.0]]


def test_repr_is_pytorchs() -> None:
    model = nn.Sequential(nn.Linear(4, 2), nn.Sequential(nn.Flatten(), nn.Tanh()), nn.MSELoss())
    assert repr(model) == (
        "Sequential(\n"
        "  (0): Linear(in_features=4, out_features=2, bias=True)\n"
        "  (1): Sequential(\n"
        "    (0): Flatten(start_dim=1, end_dim=-1)\n"
        "    (1): Tanh()\n"
        "  )\n"
        "  (2): MSELoss()\n"
        ")"
    )


def test_sequential_is_a_sequence_of_modules() -> None:
    model = nn.Sequential(nn.ReLU(), nn.Tanh())
    assert len(model) == 2 and isinstance(model[-1], nn.Tanh) and next(iter(model)) is model[0]
    with pytest.raises(TypeError, match="argument 1"):
        nn.Sequential(nn.ReLU(), F.relu)


def test_a_module_without_forward_says_so() -> None:
    class Empty(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match="Empty does not define forward"):
        Empty()(sf.ones(1))


# -- state --------------------------------------------------------------------------------------


def test_loading_a_state_reaches_compiled_programs() -> None:
    source, target = Net(), Net()
    x = sf.placeholder((None, 4), name="x")
    program = sf.compile([x], target(x))
    data = array(3, 4)
    assert not np.array_equal(program(data).numpy(), source(sf.from_numpy(data)).detach().numpy())
    memory = target.fc1.weight.detach().numpy()
    result = target.load_state_dict(source.state_dict())
    assert result == ([], [])
    wanted = source(sf.from_numpy(data)).detach().numpy()
    np.testing.assert_allclose(program(data).numpy(), wanted, rtol=1e-6)
    assert np.shares_memory(memory, target.fc1.weight.detach().numpy())


def test_a_state_has_what_is_persistent_and_takes_arrays() -> None:
    net = Net()
    state = net.state_dict()
    assert list(state) == ["scale", "offset", "fc1.weight", "fc1.bias", "fc2.weight"]
    assert not any(t.requires_grad for t in state.values())
    arrays = {n: np.full(t.shape, 0.5) for n, t in state.items()}  # float64
    net.load_state_dict(arrays)
    assert net.fc1.weight.dtype is sf.float32
    assert all((t.numpy() == 0.5).all() for t in net.state_dict().values())


def test_a_state_that_does_not_fit_is_refused_as_a_whole() -> None:
    net = Net()
    before = {n: t.numpy().copy() for n, t in net.state_dict().items()}
    state = {n: sf.zeros(*t.shape) for n, t in before.items()}
    del state["scale"]
    state["more"], state["fc1.bias"] = sf.zeros(1), sf.zeros(7)
    with pytest.raises(sf.CheckpointError) as caught:
        net.load_state_dict(state)
    text = str(caught.value)
    assert "fc1.bias has shape [7], and [3] is needed" in text
    assert "scale is missing" in text and "more is not known" in text
    with pytest.raises(sf.CheckpointError, match=r"fc1.bias has shape"):
        net.load_state_dict(state, strict=False)
    assert all(np.array_equal(before[n], t.numpy()) for n, t in net.state_dict().items())
    state["fc1.bias"] = sf.zeros(3)
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["scale"] and result.unexpected_keys == ["more"]
    assert net.fc1.bias.tolist() == [0.0] * 3 and net.scale.tolist() == [2.0]


def test_casting_keeps_the_parameters_and_leaves_integers() -> None:
    net = Net()
    net.register_buffer("steps", sf.tensor([1]))
    weight = net.fc1.weight
    net(sf.ones(1, 4)).sum().backward()
    assert net.to("float64") is net and net.fc1.weight is weight
    assert weight.dtype is weight.grad.dtype is net.offset.dtype is sf.float64
    assert net.steps.dtype is sf.int64
    assert net(sf.ones(1, 4, dtype="float64")).dtype is sf.float64
    with pytest.raises(TypeError, match="floating dtype, not to int32"):
        net.to("int32")


def test_training_flags_gradients_and_freezing() -> None:
    net = nn.Sequential(Net(), nn.ReLU())
    assert net.training and not net.eval()[0].fc1.training and net.train()[0].fc1.training
    net(sf.ones(1, 4)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not net(sf.ones(1, 4)).requires_grad


# -- losses -------------------------------------------------------------------------------------


def losses_by_hand(kind: str, x: np.ndarray, t: np.ndarray) -> np.ndarray:
    if kind == "mse":
        return (x - t) ** 2
    logs = x - np.log(np.exp(x).sum(1, keepdims=True)) if kind == "cross_entropy" else x
    return -logs[np.arange(len(t)), t]


FUNCTIONS = {"mse": F.mse_loss, "nll": F.nll_loss, "cross_entropy": F.cross_entropy}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_losses(kind: str, reduction: str) -> None:
    data = array(5, 3, dtype="float64")
    target = (
        array(5, 3, dtype="float64")[::-1].copy() if kind == "mse" else np.array([0, 2, 1, 1, 0])
    )
    x = sf.placeholder((None, 3), "float64", name="x")
    t = sf.placeholder((None, 3) if kind == "mse" else (None,), target.dtype, name="t")
    out = FUNCTIONS[kind](x, t, reduction=reduction)
    program = sf.compile([x, t], [out, sf.grad(out.sum(), x)])
    value, gradient = program(data, target)
    each = losses_by_hand(kind, data, target)
    wanted = {"mean": each.mean(), "sum": each.sum(), "none": each}[reduction]
    np.testing.assert_allclose(value.numpy(), wanted, rtol=1e-12)
    leaf = sf.tensor(data, requires_grad=True)
    eager = FUNCTIONS[kind](leaf, sf.from_numpy(target), reduction=reduction)
    np.testing.assert_allclose(eager.detach().numpy(), wanted, rtol=1e-12)
    eager.sum().backward()
    np.testing.assert_allclose(gradient.numpy(), leaf.grad.numpy(), rtol=1e-12, atol=1e-15)


def test_loss_modules_are_the_functions() -> None:
    x, t = sf.from_numpy(array(4, 3)), sf.tensor([0, 1, 2, 0])
    assert (
        nn.CrossEntropyLoss(reduction="sum")(x, t).item()
        == F.cross_entropy(x, t, reduction="sum").item()
    )
    assert nn.MSELoss("none")(x, x + 1).tolist() == F.mse_loss(x, x + 1, "none").tolist()


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_loss_of_no_rows(reduction: str) -> None:
    x = sf.placeholder((None, 3), name="x")
    t = sf.placeholder((None,), "int64", name="t")
    program = sf.compile([x, t], F.cross_entropy(x, t, reduction=reduction))
    none = (np.zeros((0, 3), np.float32), np.zeros(0, np.int64))
    eager = F.cross_entropy(*map(sf.from_numpy, none), reduction=reduction)
    for value in (program(*none).item(), eager.item()):
        assert np.isnan(value) if reduction == "mean" else value == 0.0


@pytest.mark.parametrize("bad", [3, -1])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_a_class_out_of_range_is_refused_in_both_modes(bad: int, reduction: str) -> None:
    classes = np.array([0, bad])
    x = sf.placeholder((None, 3), name="x")
    t = sf.placeholder((None,), "int64", name="t")
    program = sf.compile([x, t], F.cross_entropy(x, t, reduction=reduction))
    with pytest.raises(sf.IndexRangeError):
        program(array(2, 3), classes)
    with pytest.raises(sf.IndexRangeError):
        F.cross_entropy(sf.from_numpy(array(2, 3)), sf.from_numpy(classes), reduction=reduction)


def test_losses_refuse_what_does_not_fit() -> None:
    x = sf.from_numpy(array(4, 3))
    with pytest.raises(sf.ShapeError, match='"mean", "sum" or "none", not \'average\''):
        nn.MSELoss("average")
    with pytest.raises(sf.ShapeError, match="average"):
        F.nll_loss(x, sf.tensor([0, 1, 2, 0]), reduction="average")
    for reduction in ("mean", "none"):
        with pytest.raises(sf.ShapeError, match=r"log-probabilities \(N, C, ...\)"):
            F.nll_loss(x, x, reduction=reduction)
