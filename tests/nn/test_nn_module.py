"""Modules as PyTorch users know them: registration, hooks, containers, state, copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.nn import functional as F


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.Sequential(nn.Tanh(), nn.Linear(4, 2, bias=False))
        self.register_buffer("scale", sf.tensor([2.0, 1.0]))

    def forward(self, x: Any) -> Any:
        return self.rest(self.first(x)) * self.scale


def refuse(match: str, error: type[Exception]) -> Any:
    return pytest.raises(error, match=match)


# -- looking and registering --------------------------------------------------------------------


def test_paths_lead_to_modules_parameters_and_buffers() -> None:
    net = Net()
    assert net.get_submodule("rest.1") is net.rest[1] and net.get_submodule("") is net
    assert net.get_parameter("rest.1.weight") is net.rest[1].weight
    assert net.get_buffer("scale") is net.scale
    with refuse("Net has no module 'rest.7': Sequential holds no '7'", AttributeError):
        net.get_submodule("rest.7")
    with refuse("Net has no 'first.wait'; what is there: weight, bias", AttributeError):
        net.get_parameter("first.wait")
    with refuse("Net has no 'first.scale'; what is there: none", AttributeError):
        net.get_buffer("first.scale")


def test_recursion_prefixes_and_duplicates() -> None:
    net = Net()
    net.again = net.first
    assert [n for n, _ in net.named_parameters("net")] == [
        "net.first.weight", "net.first.bias", "net.rest.1.weight",
    ]  # fmt: skip
    assert list(net.parameters(recurse=False)) == [] and len(list(net.buffers())) == 1
    every = [n for n, _ in net.named_parameters(remove_duplicate=False)]
    assert every[-2:] == ["again.weight", "again.bias"]
    assert [n for n, _ in net.named_children()] == ["first", "rest"]
    assert [n for n, _ in net.named_modules(prefix="m")][:2] == ["m", "m.first"]
    assert [n for n, _ in net.named_modules(remove_duplicate=False)][-1] == "again"
    seen: set[int] = {id(net.rest)}
    assert [n for n, _ in net.named_modules(seen)] == ["", "first"]


def test_apply_goes_from_the_leaves_up() -> None:
    net = Net()
    seen: list[str] = []
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["Linear", "Tanh", "Linear", "Sequential", "Net"]


def test_attributes_are_deleted_and_replaced() -> None:
    net = Net()
    del net.scale, net.first.bias
    assert list(net.buffers()) == [] and "first.bias" not in net.state_dict()
    with refuse("Net.first is a module; an int cannot take its place", TypeError):
        net.first = 3
    net.first = None
    assert [n for n, _ in net.named_children()] == ["rest"]
    with refuse("no attribute 'scale'", AttributeError):
        net.scale  # noqa: B018


def test_what_registering_refuses() -> None:
    net = Net()
    for call in (net.register_buffer, net.register_parameter, net.add_module):
        with refuse("empty or has a dot", KeyError):
            call("a.b", None)
        with refuse("Net has an attribute 'forward' already", KeyError):
            call("forward", None)
    with refuse("'w' is a Tensor; wrap it in nn.Parameter", TypeError):
        net.register_parameter("w", sf.ones(1))
    with refuse("'w' is a function, which is no module", TypeError):
        net.register_module("w", F.relu)


# -- hooks --------------------------------------------------------------------------------------


def test_forward_hooks_see_and_change() -> None:
    layer = nn.Linear(2, 1, bias=False)
    log: list[str] = []

    def before(module: Any, args: Any) -> Any:
        log.append("before")
        return args[0] * 2

    def after(module: Any, args: Any, out: Any) -> Any:
        log.append("after")
        assert module is layer
        return out + 1

    first = layer.register_forward_pre_hook(before)
    second = layer.register_forward_hook(after)
    x = sf.ones(1, 2)
    plain = layer.forward(x).item()
    assert layer(x).item() == pytest.approx(2 * plain + 1) and log == ["before", "after"]
    handle = sf.placeholder((None, 2), name="x")
    program = sf.compile([handle], layer(handle))
    assert program(x).item() == pytest.approx(2 * plain + 1)
    first.remove()
    first.remove()
    with second:
        assert layer(x).item() == pytest.approx(plain + 1)
    assert layer(x).item() == pytest.approx(plain)


def test_forward_hooks_with_keywords_and_in_order() -> None:
    class Scaled(nn.Module):
        def forward(self, x: Any, by: float = 1.0) -> Any:
            return x * by

    layer = Scaled()
    log: list[Any] = []
    layer.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"by": kwargs["by"] * 2}), with_kwargs=True
    )
    layer.register_forward_hook(
        lambda m, args, kwargs, out: log.append((1, kwargs["by"])), with_kwargs=True
    )
    layer.register_forward_hook(lambda m, args, out: log.append(2), prepend=True)
    assert layer(sf.ones(1), by=3.0).item() == 6.0 and log == [2, (1, 6.0)]


@pytest.mark.parametrize("static", [False, True])
def test_backward_hooks_see_and_change_gradients(static: bool) -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 1, bias=False))
    with sf.no_grad():
        model[0].weight[...] = np.array([[1.0, 2.0], [3.0, 4.0]])
        model[1].weight[...] = np.array([[1.0, -1.0]])
    log: list[Any] = []

    def after(module: Any, grad_input: Any, grad_output: Any) -> Any:
        log.append((len(grad_input), len(grad_output)))
        return (grad_input[0] * 10,)

    model[1].register_full_backward_pre_hook(lambda m, grad_output: (grad_output[0] * 2,))
    model[1].register_full_backward_hook(after)
    if static:
        x = sf.placeholder((1, 2), name="x")
        wanted = [x, model[0].weight, model[1].weight]
        grads = sf.compile([x], sf.grad(model(x).sum(), wanted))(sf.ones(1, 2))
    else:
        x = sf.ones(1, 2, requires_grad=True)
        model(x).sum().backward()
        grads = [x.grad, model[0].weight.grad, model[1].weight.grad]
    assert log == [(1, 1)]
    assert grads[2].tolist() == [[6.0, 14.0]]  # twice the input of the second layer
    assert grads[1].tolist() == [[20.0, 20.0], [-20.0, -20.0]]
    assert grads[0].tolist() == [[-40.0, -40.0]]


def test_backward_hooks_are_called_once_and_with_tensors() -> None:
    """Also at the first recording, which finds out what a vjp needs."""
    seen: list[Any] = []
    layer = nn.Linear(3, 2)
    layer.register_full_backward_hook(lambda m, grad_in, grad_out: seen.append(grad_out[0]))
    layer(sf.ones(4, 3)).sum().backward()
    assert [type(g) for g in seen] == [sf.Tensor] and seen[0].tolist() == [[1, 1]] * 4


@pytest.mark.parametrize("rows", [2, 2**17])
def test_backward_hooks_see_numbers_of_small_and_large_tensors(rows: int) -> None:
    layer, seen = nn.Tanh(), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append(float(gi[0][0])))
    x = sf.zeros(rows, requires_grad=True)
    layer(x).sum().backward()
    assert seen == [1.0] and x.grad is not None and x.grad.sum() == rows


def test_backward_hooks_leave_out_what_has_no_gradient() -> None:
    class Pair(nn.Module):
        def forward(self, x: Any, y: Any, index: Any) -> Any:
            return x * 2, x + y

    log: list[Any] = []
    layer = Pair()
    layer.register_full_backward_hook(lambda m, grad_in, grad_out: log.append((grad_in, grad_out)))
    x, y = sf.ones(1, requires_grad=True), sf.ones(1)
    layer(x, y, sf.tensor([1]))[0].sum().backward()
    ((grad_in, grad_out),) = log
    assert grad_in[0].tolist() == [2.0] and grad_in[1:] == (None, None)
    assert grad_out[0].tolist() == [1.0] and grad_out[1] is None


def test_backward_hooks_of_a_first_layer() -> None:
    layer = nn.Linear(2, 1)
    log: list[Any] = []
    layer.register_full_backward_hook(lambda m, grad_in, grad_out: log.append((grad_in, grad_out)))
    layer(sf.ones(1, 2)).sum().backward()
    assert log[0][0] == (None,) and log[0][1][0].tolist() == [[1.0]]
    with sf.no_grad():
        layer(sf.ones(1, 2))
    assert len(log) == 1 and layer.weight.grad.tolist() == [[1.0, 1.0]]


# -- containers ---------------------------------------------------------------------------------


def kinds(modules: Any) -> list[str]:
    return [type(m).__name__ for m in modules]


def test_sequential_as_a_list() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    model.append(nn.Tanh()).extend([nn.Sigmoid()]).insert(1, nn.ELU())
    assert kinds(model) == ["Linear", "ELU", "ReLU", "Tanh", "Sigmoid"]
    assert list(model.state_dict()) == ["0.weight", "0.bias"]
    assert kinds(model[1:3]) == ["ELU", "ReLU"] and isinstance(model[1:3], nn.Sequential)
    assert repr(model[1:3]) == "Sequential(\n  (1): ELU(alpha=1.0)\n  (2): ReLU()\n)"
    model[0] = nn.Identity()
    del model[1:3]
    assert kinds(model) == ["Identity", "Tanh", "Sigmoid"] and type(model.pop()) is nn.Sigmoid
    assert kinds(model + nn.Sequential(nn.ReLU())) == ["Identity", "Tanh", "ReLU"]
    model += [nn.ReLU()]
    assert len(model) == 3 and isinstance(model[-1], nn.ReLU)
    with refuse("takes modules, not function .index 0.", TypeError):
        model[0] = F.relu


def test_sequential_by_names_and_with_one_module_twice() -> None:
    relu = nn.ReLU()
    model = nn.Sequential({"a": nn.Linear(2, 2), "b": relu, "c": relu})
    assert list(model.state_dict()) == ["a.weight", "a.bias"] and len(model) == 3
    assert model.a is model[0] and kinds(model.children()) == ["Linear", "ReLU"]


def test_module_lists_and_dicts() -> None:
    model = nn.ModuleList([nn.Linear(1, 1), nn.ReLU(), nn.ReLU(), nn.Sequential(nn.Tanh())])
    assert repr(model) == (
        "ModuleList(\n  (0): Linear(in_features=1, out_features=1, bias=True)\n"
        "  (1-2): 2 x ReLU()\n  (3): Sequential(\n    (0): Tanh()\n  )\n)"
    )
    assert kinds(model[2:]) == ["ReLU", "Sequential"] and repr(nn.ModuleList()) == "ModuleList()"
    named = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Linear(1, 1)})
    named["c"] = nn.Tanh()
    named.update([("b", nn.ELU())])
    assert list(named) == list(named.keys()) == ["b", "a", "c"] and "a" in named
    assert kinds(named.values()) == ["ELU", "Linear", "Tanh"] and len(named) == 3
    assert type(named.pop("c")) is nn.Tanh and dict(named.items())["a"] is named["a"]
    with refuse("'c'", KeyError):
        del named["c"]
    with refuse("has an attribute 'items' already", KeyError):
        named["items"] = nn.ReLU()
    named.clear()
    assert len(named) == 0


def test_parameter_lists_and_dicts() -> None:
    model = nn.Module()
    model.list = nn.ParameterList([nn.Parameter([1.0]), sf.ones(2, 3)])
    model.dict = nn.ParameterDict({"w": sf.tensor(1.0)})
    assert list(model.state_dict()) == ["list.0", "list.1", "dict.w"]
    assert all(p.requires_grad for p in model.parameters())
    assert repr(model.list) == (
        "ParameterList(\n  (0): Parameter containing: [float32 of size 1]\n"
        "  (1): Parameter containing: [float32 of size 2x3]\n)"
    )
    assert repr(model.dict) == "ParameterDict((w): Parameter containing: [float32 of size ()])"
    model.list.append(sf.zeros(1))
    assert len(model.list) == 3 and model.list[1].shape == (2, 3)


def test_none_stands_in_a_list_of_modules() -> None:
    model = nn.ModuleList([nn.ReLU(), None, nn.Linear(1, 2)])
    assert kinds(model) == ["ReLU", "NoneType", "Linear"] and len(model) == 3
    assert kinds(model.children()) == ["ReLU", "Linear"] and kinds(model[1:]) == kinds(model)[1:]
    assert list(model.state_dict()) == ["2.weight", "2.bias"] and "  (1): None\n" in repr(model)
    model.insert(0, None)
    model.append(None)
    model[0], model[1] = model[1], None
    assert kinds(model) == ["ReLU", "NoneType", "NoneType", "Linear", "NoneType"]
    assert "  (1-2): 2 x None\n" in repr(model)
    del model[2]
    assert model.pop() is None and list(model.state_dict()) == ["2.weight", "2.bias"]
    with refuse("takes modules, not NoneType", TypeError):
        nn.Sequential(None)


def test_modules_stand_in_a_list_of_parameters() -> None:
    model = nn.ParameterList([sf.ones(2), nn.ParameterList([sf.ones(1)]), nn.ParameterList()])
    assert list(model.state_dict()) == ["0", "1.0"] and len(model) == 3
    assert repr(model).count("Parameter containing") == 2 and model[1][0].shape == (1,)


class Through(nn.Module):
    def __init__(self, *layers: Any) -> None:
        super().__init__()
        self.lists = nn.ModuleList([nn.ModuleList(layers)])

    def forward(self, x: Any) -> Any:
        for layer in self.lists[0]:
            x = x if layer is None else layer(x)
        return x * 2


@pytest.mark.parametrize("layers", [(), (None,), ("layer", None)], ids=str)
def test_lists_that_hold_nothing_are_followed(layers: tuple[Any, ...]) -> None:
    model = Through(*(nn.Linear(2, 2) if layer else layer for layer in layers))
    f = sf.jit(model)
    assert f(sf.ones(1, 2)).shape == (1, 2)
    inner = model.lists[0]
    if layers:
        inner[-1] = nn.Linear(2, 3)
    else:
        inner.append(nn.Linear(2, 3))
    assert f(sf.ones(1, 2)).shape == (1, 3)
    inner[-1] = None
    assert f(sf.ones(1, 2)).shape == (1, 2)


# -- state --------------------------------------------------------------------------------------


def test_state_dicts_with_prefix_destination_and_variables() -> None:
    net = Net()
    into: dict[str, Any] = {"x": 1}
    assert net.state_dict(destination=into, prefix="net.", keep_vars=True) is into
    assert list(into) == [
        "x", "net.scale", "net.first.weight", "net.first.bias", "net.rest.1.weight",
    ]  # fmt: skip
    assert into["net.first.weight"] is net.first.weight


def test_assigned_states_take_the_place_of_parameters() -> None:
    net = Net()
    state = {n: sf.tensor(t.numpy(), dtype="float64") for n, t in net.state_dict().items()}
    result = net.load_state_dict(state, assign=True)
    assert repr(result) == "<All keys matched successfully>"
    assert net.first.weight.dtype is net.scale.dtype is sf.float64
    assert isinstance(net.first.weight, nn.Parameter) and net.first.weight.requires_grad
    assert np.shares_memory(net.scale.numpy(), state["scale"].numpy())
    assert "scale" in dict(net.named_buffers())
    loose = net.load_state_dict({"more": sf.ones(1)}, strict=False)
    assert repr(loose).startswith("LoadResult(missing_keys=['scale'")


def test_copies_are_of_their_own_and_pickles_come_back() -> None:
    net = Net()
    net.tied = net.first
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other.tied is other.first and other.first.weight is not net.first.weight
        assert type(other.first.weight) is nn.Parameter and other.first.weight.requires_grad
        assert not np.shares_memory(
            other.first.weight.detach().numpy(), net.first.weight.detach().numpy()
        )
        x = sf.ones(2, 3)
        assert other(x).tolist() == net(x).tolist()
        assert list(other.state_dict()) == list(net.state_dict())


def test_dtypes_and_devices() -> None:
    net = Net()
    for cast, dtype in (("double", "float64"), ("half", "float16"), ("bfloat16", "bfloat16")):
        assert getattr(net, cast)() is net
        assert {t.dtype.name for t in net.state_dict().values()} == {dtype}
    assert net.float().cpu().to("cpu", sf.float32).first.weight.dtype is sf.float32
    assert net.to(sf.ones(1, dtype="float64")).scale.dtype is sf.float64


def test_parameters_may_have_attributes() -> None:
    layer = sf.nn.Linear(2, 2)
    layer.bias._no_weight_decay = True
    groups = [p for p in layer.parameters() if not getattr(p, "_no_weight_decay", False)]
    assert groups == [layer.weight]


def test_gradients_are_zeroed_in_place() -> None:
    net = Net()
    net(sf.ones(1, 3)).sum().backward()
    kept = net.first.weight.grad
    net.zero_grad(set_to_none=False)
    assert not kept.numpy().any()
    assert np.shares_memory(net.first.weight.grad.numpy(), kept.numpy())


# -- jit ----------------------------------------------------------------------------------------


def test_jit_knows_whether_a_module_is_training() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    run = sf.jit(lambda x: model(x))
    x = sf.ones(3, 2)
    run(x)
    model.eval()
    np.testing.assert_allclose(run(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-6)
    assert run.compile_count == 2
    model.train()
    run(x)
    assert run.compile_count == 2
    whole = sf.jit(model)
    model.eval()
    np.testing.assert_allclose(whole(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-6)


def test_jit_of_a_method() -> None:
    class Gate(nn.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = nn.Parameter([factor])

        @sf.jit
        def forward(self, x: Any) -> Any:
            return x * self.factor if self.training else x

    first, second = Gate(2.0), Gate(3.0)
    x = sf.tensor([1.0, 2.0])
    assert first(x).tolist() == [2.0, 4.0] and second(x).tolist() == [3.0, 6.0]
    first(x).sum().backward()
    assert first.factor.grad.tolist() == [3.0] and second.factor.grad is None
    assert first.eval()(x).tolist() == [1.0, 2.0]
    assert Gate.forward.compile_count == 3


def test_what_is_no_tensor_is_no_buffer() -> None:
    module = nn.Module()
    with pytest.raises(
        TypeError, match=r"register_buffer: 'scale' is an int; wrap it in sf.tensor"
    ):
        module.register_buffer("scale", 3)
    module.register_buffer("scale", sf.ones(1))
    with pytest.raises(TypeError, match=r"Module.scale is a buffer; an int cannot take its place"):
        module.scale = 3
    module.scale = sf.zeros(2)
    assert module.state_dict()["scale"].shape == (2,)
    module.scale = None


def test_a_copied_parameter_has_no_gradient_yet() -> None:
    """As in PyTorch; sharing stays."""
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    tied(sf.ones(1, 2)).sum().backward()
    other = copy.deepcopy(tied)
    assert other[1].weight is other[0].weight is not tied[0].weight
    assert other[0].weight.grad is None and tied[0].weight.grad is not None
    assert sf.equal(other[0].weight, tied[0].weight) and other[0].weight.requires_grad
    assert other[0].weight.name == tied[0].weight.name


@pytest.mark.parametrize(
    "layer, shape",
    [
        (nn.Linear(3, 2), (4, 3)),
        (nn.Conv1d(3, 2, 1), (4, 3, 5)),
        (nn.BatchNorm1d(3), (4, 3)),
        (nn.LayerNorm(3), (4, 3)),
        (nn.MaxPool1d(1), (4, 3, 5)),
        (nn.Dropout(0.0), (4,)),
        (nn.Flatten(), (4, 3)),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else str(v),
)
def test_the_argument_is_named_input(layer: Any, shape: tuple[int, ...]) -> None:
    x = sf.ones(shape)
    assert sf.allclose(layer(input=x), layer(x))


def test_a_module_is_cast_by_type() -> None:
    assert nn.Linear(1, 1).type(sf.float64).weight.dtype is sf.float64
    assert nn.Parameter().shape == (0,)
