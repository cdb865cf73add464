"""Steps on the tape, ``differentiable=True``: PyTorch's gradients through them, of both orders."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "optim.json").read_text())[
    "recorded"
]
# PyTorch rounds 1 - beta ** step to float32
TOLERANCES = {"Adam": 1e-6, "AdamW": 1e-6, "NAdam": 1e-6}


def close(found: Any, numbers: Any, name: str) -> bool:
    found = found.detach().numpy().ravel()
    tolerance = TOLERANCES.get(name.split()[0], 1e-12)
    return bool(np.abs(found - numbers).max() <= tolerance * np.abs(numbers).max())


@pytest.mark.parametrize("name", REFERENCE)
def test_gradients_go_through_steps_as_pytorchs(name: str) -> None:
    case = REFERENCE[name]
    x = sf.from_numpy(np.sin(np.arange(12.0)).reshape(4, 3))
    t = sf.from_numpy(np.cos(np.arange(8.0)).reshape(4, 2))
    start = sf.from_numpy(np.sin(np.arange(6.0) + 1).reshape(2, 3)).requires_grad_()
    rate = sf.tensor(case["arguments"]["lr"], dtype=sf.float64, requires_grad=True)
    leaves = [start, rate][: len(case["gradients"])]
    w = start.clone()
    kind = getattr(sf.optim, name.split()[0])
    arguments = case["arguments"] | ({"lr": rate} if rate in leaves[1:] else {})
    optimiser = kind([w], differentiable=True, **arguments)
    for _ in range(case["steps"]):
        loss = ((x @ w.t()).tanh() - t).square().mean()
        (w.grad,) = sf.autograd.grad(loss, [w], create_graph=True)
        optimiser.step()
    outer = ((x @ w.t()).tanh() - t).square().sum()
    gradients = sf.autograd.grad(outer, leaves, create_graph=True)
    (second,) = sf.autograd.grad(gradients[0].sum(), [start])
    assert close(w, case["value"], name)
    assert all(close(g, c, name) for g, c in zip(gradients, case["gradients"], strict=True))
    assert close(second, case["second"], name)


KINDS = {
    "SGD": {"momentum": 0.9, "dampening": 0.1},
    "SGD, nesterov": {"momentum": 0.9, "nesterov": True, "maximize": True},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "NAdam": {"weight_decay": 0.1},
    "RAdam": {"betas": (0.8, 0.9)},
    "RMSprop": {"momentum": 0.5, "centered": True},
    "Adamax": {},
}


@pytest.mark.parametrize("name", KINDS)
def test_gradients_of_steps_by_all_that_they_read_are_differences(name: str) -> None:
    def outer(start: Any, rate: Any, decay: Any) -> Any:
        """What two steps of a net of two layers give, whose weights backward needs."""
        a, b = start[0].clone(), start[1].clone()
        kind = getattr(sf.optim, name.split(",")[0])
        given = {"lr": rate, "weight_decay": decay} | KINDS[name]
        optimiser = kind([a, b], differentiable=True, **given)
        for _ in range(2):
            loss = ((a.sin() * b).tanh() * b * a).sum()
            a.grad, b.grad = sf.autograd.grad(loss, [a, b], create_graph=True)
            optimiser.step()
        return (a * b).sum()

    start = sf.tensor([[0.3, -0.8, 1.1], [0.9, 0.4, -0.7]], dtype=sf.float64, requires_grad=True)
    numbers = [sf.tensor(v, dtype=sf.float64, requires_grad=True) for v in (0.1, 0.2)]
    assert sf.autograd.gradcheck(outer, (start, *numbers))
    assert sf.autograd.gradgradcheck(outer, (start, *numbers))


def test_betas_are_tensors_and_a_counter_keeps_their_history() -> None:
    def outer(beta: Any) -> Any:
        w = sf.tensor([1.0, -2.0], dtype=sf.float64)
        optimiser = sf.optim.NAdam([w], lr=0.1, betas=(beta, 0.9), differentiable=True)
        for k in range(3):
            w.grad = sf.tensor([0.5 + k, 1.0], dtype=sf.float64)
            optimiser.step()
        return w.sum()

    beta = sf.tensor(0.8, dtype=sf.float64, requires_grad=True)
    # the product of the mu is stored as float32, whose rounding a difference of 0.001 sees little
    assert sf.autograd.gradcheck(outer, (beta,), eps=1e-3, atol=1e-3)


def test_a_rate_that_is_set_takes_the_place_of_the_tensor() -> None:
    rate = sf.tensor(0.5, requires_grad=True)
    w = sf.tensor([1.0, 2.0])
    optimiser = sf.optim.SGD([w], lr=rate, differentiable=True)
    w.grad = sf.ones(2)
    optimiser.step()
    assert w.requires_grad and sf.autograd.grad(w.sum(), [rate])[0].item() == -2.0
    with sf.no_grad():
        rate.fill_(0.75)
    assert optimiser.param_groups[0]["lr"] == 0.75
    optimiser.param_groups[0]["lr"] = 0.25
    optimiser.zero_grad()
    w = optimiser.param_groups[0]["params"][0]
    w.detach_()
    w.grad = sf.ones(2)
    optimiser.step()
    assert not w.requires_grad and w.tolist() == [0.25, 1.25]


def test_updates_of_a_program_reach_the_rate_too() -> None:
    rate = sf.tensor(0.5, requires_grad=True)
    w = sf.nn.Parameter([1.0, 2.0])
    optimiser = sf.optim.SGD([w], lr=rate, differentiable=True)
    x = sf.placeholder((2,), name="x")
    updates = optimiser.minimize((w * x).sum())
    (of_rate,) = sf.grad((updates[w] ** 2).sum(), [sf.symbol(rate)])
    program = sf.compile([x], [updates[w], of_rate])
    assert [t.tolist() for t in program(sf.ones(2))] == [[0.5, 1.5], -4.0]
    with sf.no_grad():
        rate.fill_(1.0)
    assert [t.tolist() for t in program(sf.ones(2))] == [[0.0, 1.0], -2.0]


def test_what_cannot_be_recorded_is_refused_before_anything_changes() -> None:
    w, b = sf.nn.Parameter([1.0, 2.0]), sf.tensor([1.0])
    w.name = "w"
    optimiser = sf.optim.Adam([b, w], differentiable=True)
    b.grad, w.grad = sf.ones(1), sf.ones(2)
    with pytest.raises(sf.AutogradError, match=r"Adam: with differentiable=True .* 'w' .* clone"):
        optimiser.step()
    assert b.item() == 1.0
    with pytest.raises(sf.ArgumentError, match=r"differentiable=True step on the tape"):
        sf.optim.Adam([w * 2])
    with pytest.raises(sf.DTypeError, match="SGD: 'differentiable'"):
        sf.optim.SGD([w], differentiable="yes")


def test_adamw_stays_decoupled_with_the_state_of_an_adam() -> None:
    w = sf.nn.Parameter([1.0])
    state = sf.optim.Adam([w], weight_decay=0.1).state_dict()
    assert state["param_groups"][0]["decoupled_weight_decay"] is False
    optimiser = sf.optim.AdamW([w])
    optimiser.minimize((w * sf.placeholder((1,), name="x")).sum())
    optimiser.load_state_dict(state)
    group = optimiser.param_groups[0]
    assert (group["weight_decay"], group["decoupled_weight_decay"]) == (0.1, True)
    adam = sf.optim.Adam([w])
    adam.load_state_dict(sf.optim.AdamW([w]).state_dict())
    assert adam.param_groups[0]["decoupled_weight_decay"] is True
