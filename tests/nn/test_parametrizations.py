"""Weights that are computed from what is trained: in both modes, saved, assigned and taken back."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.errors import ArgumentError
from staticflow.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm
from staticflow.nn.utils.parametrize import (
    cached,
    is_parametrized,
    register_parametrization,
    remove_parametrizations,
)


class Symmetric(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.triu() + x.triu(1).mT


class Doubled(nn.Module):
    def forward(self, x: Any) -> Any:
        return 2 * x

    def right_inverse(self, x: Any) -> Any:
        return x / 2


class Wider(nn.Module):
    def forward(self, x: Any) -> Any:
        return sf.cat([x, x])


MAKERS: dict[str, Callable[[], nn.Module]] = {
    "weight_norm": lambda: weight_norm(nn.Linear(4, 3)),
    "weight_norm of all": lambda: weight_norm(nn.Linear(4, 3), dim=None),
    "weight_norm of columns": lambda: weight_norm(nn.Linear(4, 3), dim=1),
    "spectral_norm": lambda: spectral_norm(nn.Linear(4, 3)),
    "spectral_norm of a bias": lambda: spectral_norm(nn.Linear(4, 3), "bias"),
    "orthogonal by rotations": lambda: orthogonal(nn.Linear(4, 3), orthogonal_map="matrix_exp"),
    "orthogonal by Cayley's map": lambda: orthogonal(nn.Linear(4, 3), orthogonal_map="cayley"),
    "orthogonal by reflections": lambda: orthogonal(nn.Linear(4, 3)),
    "both": lambda: register_parametrization(weight_norm(nn.Linear(4, 3)), "weight", Doubled()),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_compiled_step_trains_as_an_eager_one(name: str) -> None:
    model = MAKERS[name]()
    other = copy.deepcopy(model)
    x, t = sf.placeholder((None, 4), name="x"), sf.placeholder((None, 3), name="t")
    opt = sf.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    own = sf.optim.SGD(other.parameters(), lr=0.1, momentum=0.5)
    loss = nn.functional.mse_loss(model(x), t)
    step = sf.compile([x, t], loss, updates=opt.minimize(loss))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    for _ in range(3):
        rows, targets = sf.randn(5, 4), sf.randn(5, 3)
        own.zero_grad()
        eager = nn.functional.mse_loss(other(rows), targets)
        eager.backward()
        own.step()
        sf.testing.assert_close(step(rows, targets), eager.detach(), rtol=1e-5, atol=1e-6)
    for key, value in other.state_dict().items():
        sf.testing.assert_close(model.state_dict()[key], value, rtol=1e-5, atol=1e-6)
        assert sf.equal(before[key], value) == key.endswith(".base"), key  # all else is trained


def test_a_norm_is_apart_from_the_direction() -> None:
    layer = nn.Conv2d(2, 3, 3)
    weight = layer.weight.detach().clone()
    weight_norm(layer)
    sf.testing.assert_close(layer.weight.detach(), weight)
    originals = layer.parametrizations.weight
    assert originals.original0.shape == (3, 1, 1, 1)
    with sf.no_grad():
        originals.original1.mul_(7)
        originals.original0.mul_(2)
    sf.testing.assert_close(layer.weight.detach(), 2 * weight)


@pytest.mark.parametrize(
    "make",
    [lambda: nn.Conv2d(3, 4, 2), lambda: nn.ConvTranspose2d(3, 4, 2)],
    ids=["conv", "turned"],
)
def test_the_largest_singular_value_is_one(make: Callable[[], nn.Module]) -> None:
    layer = make()
    dim = 1 if isinstance(layer, nn.ConvTranspose2d) else 0
    spectral_norm(layer, n_power_iterations=50)
    matrix = layer.weight.detach().movedim(dim, 0).flatten(1).numpy()
    np.testing.assert_allclose(np.linalg.svd(matrix)[1][0], 1, rtol=1e-5)
    layer.eval()
    vectors = {name: b.clone() for name, b in layer.named_buffers()}
    sf.testing.assert_close(layer.weight, layer.weight)
    assert all(sf.equal(b, vectors[name]) for name, b in layer.named_buffers())


def test_two_passes_forward_may_come_before_one_backward() -> None:
    layer = spectral_norm(nn.Linear(3, 2)).eval()
    first = layer(sf.ones(1, 3)).sum()
    layer.train()
    (first + layer(sf.ones(1, 3)).sum()).backward()
    assert layer.parametrizations.weight.original.grad is not None


def test_state_goes_from_one_to_another() -> None:
    one, other = weight_norm(nn.Linear(3, 2)), weight_norm(nn.Linear(3, 2))
    names = ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    assert [*one.state_dict()] == names
    other.load_state_dict(one.state_dict())
    assert sf.equal(one.weight, other.weight)


def test_parametrizations_follow_each_other_and_are_taken_away() -> None:
    layer = nn.Linear(3, 3)
    own, weight = layer.weight, layer.weight.detach().clone()
    register_parametrization(layer, "weight", Doubled())
    assert layer.parametrizations.weight.original is own and type(layer) is not nn.Linear
    assert isinstance(layer, nn.Linear) and type(layer).__name__ == "ParametrizedLinear"
    sf.testing.assert_close(layer.weight.detach(), weight)
    register_parametrization(layer, "weight", Symmetric())
    sf.testing.assert_close(layer.weight, layer.weight.mT)
    with pytest.raises(ArgumentError, match="Symmetric has no right_inverse"):
        layer.weight = weight
    symmetric = layer.weight.detach().clone()
    assert remove_parametrizations(layer, "weight") is layer
    assert layer.weight is own and type(layer) is nn.Linear and not is_parametrized(layer)
    sf.testing.assert_close(own.detach(), symmetric)


def test_what_is_assigned_is_what_is_read() -> None:
    layer = weight_norm(nn.Linear(3, 2))
    register_parametrization(layer, "bias", Doubled())
    layer.weight, layer.bias = sf.ones(2, 3), sf.full((2,), 4.0)
    sf.testing.assert_close(layer.weight.detach(), sf.ones(2, 3))
    assert layer.parametrizations.bias.original.tolist() == [2, 2]
    remove_parametrizations(layer, "bias", leave_parametrized=False)
    assert layer.bias.tolist() == [2, 2] and is_parametrized(layer, "weight")
    with pytest.raises(ArgumentError, match="made from 2 tensors"):
        remove_parametrizations(layer, "weight", leave_parametrized=False)
    remove_parametrizations(layer, "weight")
    sf.testing.assert_close(layer.weight.detach(), sf.ones(2, 3))


def test_a_buffer_stays_a_buffer() -> None:
    norm = nn.BatchNorm1d(2)
    register_parametrization(norm, "running_var", Doubled())
    assert "parametrizations.running_var.original" in dict(norm.named_buffers())
    assert norm.running_var.tolist() == [1, 1]
    remove_parametrizations(norm, "running_var")
    assert "running_var" in dict(norm.named_buffers())


def test_copies_have_values_of_their_own() -> None:
    layer = spectral_norm(nn.Linear(3, 2)).eval()
    other = copy.deepcopy(layer)
    with sf.no_grad():
        other.parametrizations.weight.original.mul_(3).add_(1)
    assert not sf.equal(layer.weight, other.weight)


def test_a_jitted_function_is_traced_anew() -> None:
    layer = nn.Linear(2, 2)
    f = sf.jit(lambda x: layer(x))
    x = sf.ones(1, 2)
    f(x)
    weight_norm(layer)
    with sf.no_grad():
        layer.parametrizations.weight.original0.mul_(3)
    sf.testing.assert_close(f(x), layer(x))


@pytest.mark.parametrize(
    ("fail", "says"),
    [
        (
            lambda: register_parametrization(nn.Linear(2, 2), "weights", Doubled()),
            "no parameter or",
        ),
        (lambda: register_parametrization(nn.Linear(2, 2), "weight", Wider()), "unsafe=True"),
        (lambda: remove_parametrizations(nn.Linear(2, 2), "weight"), "has none"),
        (lambda: spectral_norm(nn.Linear(2, 2), n_power_iterations=0), "must be 1 at least"),
        (lambda: spectral_norm(nn.Linear(2, 2), "weights"), "no tensor 'weights'"),
        (lambda: weight_norm(nn.Linear(2, 2), dim=2), "weight_norm"),
    ],
)
def test_what_cannot_be_is_refused(fail: Callable[[], Any], says: str) -> None:
    with pytest.raises(sf.StaticflowError, match=says):
        fail()


def test_what_is_refused_changes_nothing() -> None:
    layer = nn.Linear(2, 2)
    own, weight = layer.weight, layer.weight.detach().clone()
    with pytest.raises(ArgumentError):
        register_parametrization(layer, "weight", Wider())
    assert layer.weight is own and type(layer) is nn.Linear and sf.equal(own.detach(), weight)
    wide = register_parametrization(layer, "weight", Wider(), unsafe=True)
    assert wide.weight.shape == (4, 2)


MAPS = [("matrix_exp", True), ("cayley", True), ("householder", True), ("householder", False)]


@pytest.mark.parametrize("shape", [(4, 4), (2, 5), (5, 2), (3, 4, 2), (1, 1)])
@pytest.mark.parametrize(("name", "trivialized"), MAPS)
def test_weights_stay_orthogonal(name: str, trivialized: bool, shape: tuple[int, ...]) -> None:
    layer = nn.Module()
    layer.weight = nn.Parameter(sf.randn(shape, dtype="float64"))
    orthogonal(layer, orthogonal_map=name, use_trivialization=trivialized)
    original = layer.parametrizations.weight.original
    with sf.no_grad():
        original.add_(3 * sf.randn(shape, dtype="float64").tril(-1))
    weight = layer.weight
    tall = weight if shape[-2] >= shape[-1] else weight.mT
    unit = sf.eye(tall.shape[-1], dtype="float64").expand(*shape[:-2], -1, -1)
    sf.testing.assert_close(tall.mT @ tall, unit, rtol=0, atol=1e-12)
    other = orthogonal(_copy_of(weight), orthogonal_map=name, use_trivialization=trivialized)
    sf.testing.assert_close(other.weight, weight)  # what it begins with
    layer.weight = -weight.detach()  # and what is assigned
    sf.testing.assert_close(layer.weight, -weight)


def _copy_of(weight: Any) -> nn.Module:
    layer = nn.Module()
    layer.weight = nn.Parameter(weight.detach().clone())
    return layer


@pytest.mark.parametrize("turn", [0.1, 3.0, 400.0])
def test_rotations_of_any_angle(turn: float) -> None:
    layer = nn.Module()
    layer.weight = nn.Parameter(sf.eye(2, dtype="float64"))
    orthogonal(layer)
    with sf.no_grad():
        layer.parametrizations.weight.original.copy_(sf.tensor([[-1.0, 0.0], [turn, -1.0]]))
    wanted = [[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]
    np.testing.assert_allclose(layer.weight.detach().numpy(), wanted, atol=1e-12)


def test_what_orthogonal_refuses() -> None:
    with pytest.raises(ArgumentError, match="no tensor 'absent'"):
        orthogonal(nn.Linear(2, 2), "absent")
    with pytest.raises(sf.ShapeError, match=r"bias is of shape \[2\]; it must be a matrix"):
        orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ArgumentError, match="it must be one of 'matrix_exp', 'cayley'"):
        orthogonal(nn.Linear(2, 2), orthogonal_map="exp")
    with pytest.raises(ArgumentError, match="is not known without use_trivialization"):
        orthogonal(nn.Linear(2, 2), use_trivialization=False)
    layer = orthogonal(nn.Linear(2, 2))
    with pytest.raises(sf.ShapeError, match=r"a value of shape \[3, 2\]"):
        layer.weight = sf.ones(3, 2)


def test_a_weight_is_computed_once_in_a_block() -> None:
    calls = []

    class Counted(Doubled):
        def forward(self, x: Any) -> Any:
            calls.append(x)
            return super().forward(x)

    layer = register_parametrization(nn.Linear(2, 2), "weight", Counted())
    calls.clear()
    x = sf.placeholder((None, 2), name="x")
    step = sf.compile([x], None, updates={layer.bias: sf.symbol(layer.bias) + 1})
    with cached():
        first = layer.weight
        with cached():  # an inner block takes what the outer one has
            assert layer.weight is first
        with sf.no_grad():
            assert layer.weight is not first  # it has no history
        assert layer.weight is first and len(calls) == 2
        layer.weight = sf.ones(2, 2)
        np.testing.assert_array_equal(layer.weight.detach().numpy(), np.ones((2, 2)))
        optimizer = sf.optim.SGD([layer.parametrizations.weight.original], lr=1.0)
        layer(sf.ones(1, 2)).sum().backward()
        optimizer.step()
        changed = layer.weight
        np.testing.assert_array_equal(changed.detach().numpy(), -3 * np.ones((2, 2)))
        step(sf.ones(1, 2))
        assert layer.weight is changed
        program = sf.compile([x], layer(x))
        np.testing.assert_array_equal(program(sf.ones(1, 2)).numpy(), layer(sf.ones(1, 2)).detach())
    assert layer.weight is not layer.weight


def test_a_block_sees_what_a_program_updates() -> None:
    layer = register_parametrization(nn.Linear(2, 2), "weight", Doubled())
    original = layer.parametrizations.weight.original
    x = sf.placeholder((None, 2), name="x")
    step = sf.compile([x], None, updates={original: sf.symbol(original) + 1})
    with cached():
        before = layer.weight.detach().clone()
        step(sf.ones(1, 2))
        sf.testing.assert_close(layer.weight.detach(), before + 2)


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
def test_older_names_are_those_of_parametrizations(name: str) -> None:
    layer = nn.Linear(4, 3)
    before = layer.weight.tolist()
    normed = getattr(nn.utils, name)(layer)
    assert normed is layer and is_parametrized(layer, "weight")
    value = layer.weight.tolist()
    assert getattr(nn.utils, f"remove_{name}")(layer) is layer and not is_parametrized(layer)
    assert [n for n, _ in layer.named_parameters()] == ["bias", "weight"]
    np.testing.assert_allclose(layer.weight.tolist(), value, rtol=1e-6)
    if name == "weight_norm":
        np.testing.assert_allclose(value, before, rtol=1e-6)
    with pytest.raises(ArgumentError, match="'weight' of Linear has none"):
        getattr(nn.utils, f"remove_{name}")(layer)


@pytest.mark.parametrize("name", MAKERS)
def test_a_copy_and_a_pickle_are_parametrized_apart(name: str) -> None:
    """Each has a class of its own: removing a parametrization of one leaves the other's."""
    layer = nn.Sequential(MAKERS[name]()).eval()
    own = layer[0]
    tensors = [*own.parametrizations.keys()]
    for copied in (copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):
        other = copied(layer)[0]
        assert isinstance(other, nn.Linear)
        for tensor in tensors:
            assert getattr(other, tensor).tolist() == getattr(own, tensor).tolist()
            remove_parametrizations(other, tensor)
            assert is_parametrized(own, tensor) and not is_parametrized(other)
            assert getattr(other, tensor).tolist() == getattr(own, tensor).tolist()


def test_a_state_has_all_older_names_or_none() -> None:
    layer = weight_norm(nn.Linear(3, 2))
    state = {"bias": sf.ones(2), "weight_g": sf.ones(2, 1)}
    with pytest.raises(sf.CheckpointError, match=r"original1 is missing; weight_g is not known"):
        layer.load_state_dict(state)
    state["weight_v"] = sf.ones(2, 4)
    with pytest.raises(sf.CheckpointError, match=r"original1 has shape \[2, 4\]"):
        layer.load_state_dict(state)
