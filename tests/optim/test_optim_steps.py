"""Eager steps over many parameters: what is looked at once, and parameters that differ in kind."""

import copy
import gc
import sys
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager import updates
from staticflow.optim import at_once

OPTIMIZERS = {
    "SGD": {},
    "SGD with momentum": {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01},
    "Adam": {"amsgrad": True, "maximize": True},
    "AdamW": {},
    "RMSprop": {"momentum": 0.5},
    "Adagrad": {},
}
LAYOUTS = {
    "row-major": lambda a: a.copy(),
    "column-major": np.asfortranarray,
    "stepped": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "flipped": lambda a: a[::-1].copy()[::-1],
}


def make(name: str, arrays: list[Any]) -> tuple[list[Any], Any]:
    """Parameters on these arrays, and their optimiser."""
    tensors = [sf.from_numpy(a).requires_grad_() for a in arrays]
    kind: Any = getattr(sf.optim, name.split()[0])
    return tensors, kind(tensors, lr=0.1, **OPTIMIZERS[name])


def give_gradients(tensors: list[Any], step: int) -> None:
    for i, t in enumerate(tensors):
        t.grad = (t.detach() * (i + 1) + step).cos()


def arrays_of(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    shapes = (3,), (1,), (), (2, 3), (1, 1), (0,), (4, 1, 2), (5, 0)
    return [
        np.asarray(rng.standard_normal(shape)).astype(dtype)
        for dtype in (np.float32, np.float64, np.float16)
        for shape in shapes
    ]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_of_several_kinds_step_as_each_alone(name: str) -> None:
    together, optimiser = make(name, arrays_of(0))
    alone = [make(name, [a]) for a in arrays_of(0)]
    for step in range(3):
        give_gradients(together, step)
        for t, (one, _) in zip(together, alone, strict=True):
            one[0].grad = t.grad.clone()
        optimiser.step()
        for _, single in alone:
            single.step()
    for t, (one, single) in zip(together, alone, strict=True):
        np.testing.assert_array_equal(t.detach().numpy(), one[0].detach().numpy())
        for part, value in single.state[one[0]].items():
            np.testing.assert_array_equal(optimiser.state[t][part].numpy(), value.numpy())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_and_gradients_that_lie_otherwise(name: str, layout: str) -> None:
    lie = LAYOUTS[layout]
    a = np.random.default_rng(1).standard_normal((4, 3)).astype(np.float32)
    (w,), optimiser = make(name, [lie(a)])
    (wanted,), reference = make(name, [a.copy()])
    for step in range(3):
        give_gradients([wanted], step)
        w.grad = sf.from_numpy(lie(wanted.grad.numpy()))
        version = w._version
        optimiser.step()
        reference.step()
        assert w._version > version
    np.testing.assert_allclose(w.detach().numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_parameter_without_gradient_and_one_without_elements(name: str) -> None:
    tensors, optimiser = make(name, [np.ones(3, np.float32), np.ones((0, 2), np.float32)])
    tensors[1].grad = sf.zeros(0, 2)
    optimiser.step()
    np.testing.assert_array_equal(tensors[0].detach().numpy(), np.ones(3))
    assert tensors[0] not in optimiser.state or not optimiser.state[tensors[0]]
    assert tensors[1]._version == 1


RULES = [n for n in sf.optim.__all__ if n != "Optimizer" and hasattr(getattr(sf.optim, n), "step")]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", RULES)
def test_every_optimiser_steps_in_every_dtype(name: str, dtype: str) -> None:
    def after_steps(dtype: str) -> Any:
        w = sf.nn.Parameter(sf.tensor([[1.0, -2.0], [3.0, 0.5]], dtype=dtype))
        optimiser = getattr(sf.optim, name)([w], lr=0.125)

        def closure() -> Any:
            optimiser.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            return loss

        for _ in range(3):
            optimiser.step(closure)
        assert w.dtype is getattr(sf, dtype)
        return w.detach().double().numpy()

    precision = sf.finfo(dtype).eps
    np.testing.assert_allclose(after_steps(dtype), after_steps("float64"), atol=16 * precision)


@pytest.mark.parametrize("shape", [(3, 4), (2,), (1, 1), ()])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_parameter_of_another_shape_than_its_gradient(name: str, shape: Any) -> None:
    (w,), optimiser = make(name, [np.ones((2, 4), np.float32)])
    w.grad = sf.ones(2, 4)
    w.data = sf.ones(shape)
    with pytest.raises(sf.ShapeError, match="test_optim_steps"):
        optimiser.step()
    assert w.shape == shape and (w == 1).all()


def test_an_array_that_cannot_be_written_is_refused_by_its_line() -> None:
    a = np.ones(3, np.float32)
    (w,), optimiser = make("SGD", [a])
    give_gradients([w], 0)
    optimiser.step()
    a.flags.writeable = False
    before = a.copy()
    with pytest.raises((sf.errors.StaticflowError, ValueError)):
        optimiser.step()
    np.testing.assert_array_equal(a, before)


def test_a_saved_value_that_a_step_overwrites_is_found_in_backward() -> None:
    tensors, optimiser = make("Adam", [np.ones(3, np.float32), np.ones((2, 2), np.float32)])
    losses = [(t * t).sum() for t in tensors]
    give_gradients(tensors, 0)
    optimiser.step()  # the line that errors name
    for loss in losses:
        with pytest.raises(sf.errors.AutogradError, match=r"test_optim_steps.*:\d+"):
            loss.backward()


def test_hyperparameters_that_are_set_between_steps_are_used() -> None:
    (w,), optimiser = make("SGD", [np.ones(2, np.float32)])
    w.grad = sf.ones(2)
    optimiser.step()
    group = optimiser.param_groups[0]
    group["lr"] = 0.5
    optimiser.step()
    np.testing.assert_allclose(w.detach().numpy(), 0.4, rtol=1e-6)
    group["weight_decay"] = 1.0
    optimiser.step()
    np.testing.assert_allclose(w.detach().numpy(), 0.4 - 0.5 * 1.4, rtol=1e-6)
    group["weight_decay"], group["maximize"] = 0.0, True
    optimiser.step()
    np.testing.assert_allclose(w.detach().numpy(), 0.2, rtol=1e-5)
    group["momentum"], group["maximize"] = 0.9, False  # a part of the state that was not there
    optimiser.step()
    assert tuple(optimiser.state[w]) == ("momentum_buffer",)
    np.testing.assert_allclose(w.detach().numpy(), -0.3, rtol=1e-5)


def test_a_copy_of_an_optimiser_reads_its_own_hyperparameters() -> None:
    (w,), optimiser = make("SGD", [np.ones(2, np.float32)])
    w.grad = sf.ones(2)
    optimiser.step()
    twin = copy.deepcopy(optimiser)
    twin.param_groups[0]["lr"] = 1.0
    own = twin.param_groups[0].params[0]
    own.grad = sf.ones(2)
    twin.step()
    np.testing.assert_allclose(own.detach().numpy(), -0.1, rtol=1e-5)
    np.testing.assert_allclose(w.detach().numpy(), 0.9, rtol=1e-6)
    optimiser.step()
    np.testing.assert_allclose(w.detach().numpy(), 0.8, rtol=1e-6)


def calls_of_step(optimiser: Any) -> int:
    """The calls of Python functions that a step makes, without those of collected garbage."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    gc.collect()
    gc.disable()
    sys.setprofile(count)
    try:
        optimiser.step()
    finally:
        sys.setprofile(None)
        gc.enable()
    return calls


def test_a_further_parameter_is_few_calls() -> None:
    counts = []
    for many in (10, 20):
        tensors, optimiser = make("Adam", [np.ones((2, 2), np.float32) for _ in range(many)])
        give_gradients(tensors, 0)
        optimiser.step()
        optimiser.step()
        counts.append(calls_of_step(optimiser))
    assert counts[1] - counts[0] <= 10 * 6  # one, and the loops over its tensors


def test_kinds_that_come_in_turns_are_not_looked_for_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at_once.stepper.cache_clear()
    kinds: list[Any] = []
    monkeypatch.setattr(updates, "kind_of", lambda a: kinds.append(a) or kind_of(a))
    arrays = [np.ones(s, d) for s in ((3,), (2, 2)) for d in (np.float32, np.float64)]
    tensors, optimiser = make("Adam", arrays * 2)
    for step in range(3):
        give_gradients(tensors, step)
        optimiser.step()
        seen, kinds[:] = len(kinds), []
        assert (seen > 0) == (step == 0)


kind_of = updates.kind_of
