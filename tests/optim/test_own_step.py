"""Optimisers that are written as for PyTorch: a step of their own, and no rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn


class Lion(sf.optim.Optimizer):
    """Signs of an average of gradients (Chen et al. 2023), every ``every``-th step."""

    def __init__(self, params: Any, lr: float = 0.1, betas: Any = (0.9, 0.99), **more: Any) -> None:
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=0.0, **more))

    @sf.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None
        if closure is not None:
            with sf.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["average"] = sf.zeros_like(p)
                state["step"] += 1
                one, two = group["betas"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = state["average"] * one + p.grad * (1 - one)
                p.add_(update.sign_(), alpha=-group["lr"])
                state["average"].mul_(two).add_(p.grad, alpha=1 - two)
        return loss


def gradient_step(opt: Any, w: Any) -> Any:
    def closure() -> Any:
        opt.zero_grad()
        loss = (w * w * sf.tensor([1.0, 2.0])).sum()
        loss.backward()
        return loss

    return opt.step(closure)


def test_a_step_of_its_own_works_on_its_state() -> None:
    w = nn.Parameter([1.0, -2.0])
    opt = Lion([w])
    losses = [gradient_step(opt, w).item() for _ in range(3)]
    value, average, wanted = np.array([1.0, -2.0]), np.zeros(2), []
    for _ in range(3):
        wanted.append((value * value * [1, 2]).sum())
        grad = 2 * value * [1, 2]
        value = value - 0.1 * np.sign(0.9 * average + 0.1 * grad)
        average = 0.99 * average + 0.01 * grad
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    np.testing.assert_allclose(w.detach(), value, rtol=1e-5)
    assert opt.state[w]["step"] == 3
    np.testing.assert_allclose(opt.state[w]["average"], average, rtol=1e-4)


def test_its_groups_hold_what_was_given() -> None:
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    kinds = {"kind": "signs", "none": None, "fn": abs, "steps": 5, "lr": 1, "least": [1e-3, -1.0]}
    opt = Lion([{"params": [a]}, {"params": [b], "name": "biases", "steps": 7}], **kinds)
    first, second = opt.param_groups
    assert {n: first[n] for n in kinds} == kinds
    assert all(type(first[n]) is type(v) for n, v in kinds.items())
    assert (second["name"], second["steps"]) == ("biases", 7)
    first["count"] = 0
    first["count"] += 1
    assert first["count"] == 1 and first.get("name") is None
    with pytest.raises(KeyError, match=r"'name' is not there; the group has lr, betas, "):
        first["name"]
    with pytest.raises(KeyError, match="'params' cannot be set"):
        first["params"] = []


def test_its_state_is_saved_and_goes_on(tmp_path: Any) -> None:
    pytest.importorskip("safetensors.numpy")
    w = nn.Parameter([1.0, -2.0])
    opt = Lion([w], kind="signs")
    gradient_step(opt, w)
    sf.save(opt.state_dict(), tmp_path / "state")
    v = nn.Parameter(np.array([9.0, 9.0]))
    other = Lion([v], lr=3.0, kind="other")
    other.load_state_dict(sf.load(tmp_path / "state"))
    assert other.param_groups[0]["kind"] == "signs" and other.param_groups[0]["lr"] == 0.1
    assert other.state[v]["step"] == 1
    assert other.state[v]["average"].dtype is sf.float64  # that of the parameter
    with sf.no_grad():
        v.copy_(w)
    gradient_step(opt, w)
    gradient_step(other, v)
    np.testing.assert_allclose(v.detach(), w.detach(), rtol=1e-6)


def test_a_loaded_state_shares_no_memory() -> None:
    w = nn.Parameter([1.0, -2.0])
    opt, other = Lion([w]), Lion([w])
    gradient_step(opt, w)
    other.load_state_dict(opt.state_dict())
    before = opt.state[w]["average"].tolist()
    gradient_step(other, w)
    assert opt.state[w]["average"].tolist() == before


def test_schedules_set_its_rate() -> None:
    w = nn.Parameter([1.0, -2.0])
    opt = Lion([w], lr=0.4)
    schedule = sf.optim.lr_scheduler.StepLR(opt, 1, gamma=0.5)
    gradient_step(opt, w)
    schedule.step()
    assert opt.param_groups[0]["lr"] == 0.2


def test_what_a_program_needs_is_said() -> None:
    w = nn.Parameter([1.0, -2.0])
    with pytest.raises(NotImplementedError, match=r"Lion has no init_state.*test_own_step\.py"):
        Lion([w]).minimize((sf.symbol(w) * 2).sum())
    w.grad = sf.ones(2)
    with pytest.raises(NotImplementedError, match="Optimizer has no init_state"):
        sf.optim.Optimizer([w], {"lr": 0.1}).step()


def test_hyperparameters_that_a_rule_reads_are_still_checked() -> None:
    class Later(sf.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    w = nn.Parameter([1.0])
    for make in (Later, sf.optim.LBFGS, sf.optim.SGD):
        with pytest.raises(sf.DTypeError, match="'lr' must be float, not 'fast'"):
            make([w], lr="fast")
        with pytest.raises(sf.ArgumentError, match="no hyperparameter 'rate'"):
            make([{"params": [w], "rate": 1.0}], lr=0.1)
    opt = Later([w], lr=0.5)
    w.grad = sf.ones(1)
    opt.step()
    assert w.tolist() == [0.5]


class Sharp(sf.optim.Optimizer):
    """Sharpness-aware steps (Foret et al. 2021) of another optimiser."""

    def __init__(self, params: Any, base: Any, rho: float, **settings: Any) -> None:
        super().__init__(params, dict(rho=rho, adaptive=False, **settings))
        self.base = base(self.param_groups, **settings)
        self.param_groups = self.base.param_groups
        self.defaults.update(self.base.defaults)

    def step(self, closure: Any = None) -> Any:
        loss = closure()
        with sf.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p]["old"] = p.data.clone()
                    p.add_(p.grad * (group["rho"] / p.grad.norm()))
        closure()
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old"]
        self.base.step()
        return loss


def test_an_optimiser_wraps_another_on_its_groups() -> None:
    w = nn.Parameter([1.0, -2.0])
    opt = Sharp([{"params": [w], "rho": 0.5}], sf.optim.SGD, rho=0.1, lr=0.1)
    gradient_step(opt, w)
    value = np.array([1.0, -2.0])
    grad = 2 * value * [1, 2]
    away = value + 0.5 * grad / np.sqrt((grad * grad).sum())
    np.testing.assert_allclose(w.detach(), value - 0.1 * 2 * away * [1, 2], rtol=1e-5)
    (group,) = opt.param_groups
    assert (group["rho"], group["adaptive"], group["lr"]) == (0.5, False, 0.1)
    group["rho"] = 0.25
    assert opt.base.state_dict()["param_groups"][0]["rho"] == 0.25
    with pytest.raises(KeyError, match="'rate' cannot be set"):
        group["rate"] = 1.0
