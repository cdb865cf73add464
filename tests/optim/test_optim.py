"""Optimisers: PyTorch's numbers in either mode and in turns, groups, state, and what is refused."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.eager import updates
from staticflow.optim import at_once, optimizer

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "optim.json").read_text())[
    "cases"
]
# Of the largest element. Steps that are divided by the gradient's scale magnify roundings.
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}
TOLERANCES = {
    "SGD": {"float32": 1e-6, "float64": 2e-15},  # some eight roundings
    "NAdam": {"float32": 1e-5, "float64": 1e-7},  # PyTorch rounds its mu_product to float32
}


class Problem:
    """The problem of reference/make_optim.py."""

    def __init__(self, case: str, dtype: str, **changed: Any) -> None:
        self.case, self.dtype = case, dtype
        arguments = REFERENCE[case]["arguments"] | changed
        self.x = np.sin(np.arange(12.0)).reshape(4, 3).astype(dtype)
        self.t = np.cos(np.arange(8.0)).reshape(4, 2).astype(dtype)
        self.w = nn.Parameter(np.sin(np.arange(6.0) + 1).reshape(2, 3).astype(dtype))
        start = [[0.5, -0.5]] if case.startswith("Muon") else [0.5, -0.5]
        self.b = nn.Parameter(np.array(start, dtype))
        slow = {"params": [self.b], "lr": arguments["lr"] / 2}
        kind = getattr(sf.optim, case.split()[0])
        self.optimiser = kind([{"params": [self.w]}, slow], **arguments)

    @cached_property
    def program(self) -> Any:
        x = sf.placeholder((None, 3), self.w.dtype, name="x")
        t = sf.placeholder((None, 2), self.w.dtype, name="t")
        loss = self.loss(x, t)
        return sf.compile([x, t], loss, updates=self.optimiser.minimize(loss))

    def loss(self, x: Any, t: Any) -> Any:
        hidden = nn.functional.linear(x, self.w) + self.b
        return ((hidden.tanh() - t) ** 2).mean()

    def static_step(self) -> None:
        self.program(self.x, self.t)

    def eager_step(self) -> None:
        self.optimiser.zero_grad()
        self.loss(sf.from_numpy(self.x), sf.from_numpy(self.t)).backward()
        self.optimiser.step()

    def check(self, step: int) -> None:
        wanted = REFERENCE[self.case][self.dtype].get(str(step), ())
        tolerance = TOLERANCES.get(self.case.split()[0], TOLERANCE)[self.dtype]
        for got, numbers in zip((self.w, self.b), wanted, strict=False):
            found = got.detach().numpy().ravel()
            assert np.abs(found - numbers).max() <= tolerance * np.abs(numbers).max()


@pytest.mark.parametrize("mode", ["eager", "static", "in turns"])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("case", REFERENCE)
def test_pytorchs_numbers(case: str, dtype: str, mode: str) -> None:
    problem = Problem(case, dtype)
    for step in range(1, 101):
        if step == 51:
            problem.optimiser.param_groups[0]["lr"] *= 0.3
        static = mode == "static" or (mode == "in turns" and step % 3 == 0)
        (problem.static_step if static else problem.eager_step)()
        problem.check(step)
    if mode != "eager":
        assert problem.program.compile_count == 1


@pytest.mark.parametrize("case", REFERENCE)
def test_a_program_makes_the_steps_that_operations_make(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = np.sin(np.arange(6)).astype(np.float32).reshape(2, 3)
    kind, arguments = getattr(sf.optim, case.split()[0]), REFERENCE[case]["arguments"]
    weights = nn.Parameter(start.copy()), nn.Parameter(start.copy())
    optimisers = [kind([w], **arguments) for w in weights]
    versions = [w._version for w in weights]
    for step in range(4):
        for w, optimiser, by_ops in zip(weights, optimisers, (False, True), strict=True):
            w.grad = w.detach().cos()
            with monkeypatch.context() as patch:
                if by_ops:
                    patch.setattr(optimizer, "stepper", lambda *_: lambda *_: lambda *_: False)
                optimiser.step()
            if step == 1:
                optimiser.param_groups[0]["lr"] *= 0.5
    states = [o.state_dict()["state"].get(0, {}) for o in optimisers]
    assert states[0].keys() == states[1].keys()
    assert all(w._version > v for w, v in zip(weights, versions, strict=True))
    for a, b in ((w.detach() for w in weights), *zip(*(s.values() for s in states), strict=True)):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def test_one_program_steps_parameters_of_all_dims(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    compiled = updates.compile_function

    def counted(*args: object, **named: object) -> object:
        made.append(args)
        return compiled(*args, **named)

    monkeypatch.setattr(updates, "compile_function", counted)
    at_once.stepper.cache_clear()
    weights = [nn.Parameter(np.ones(shape, np.float32)) for shape in ((2, 3), (4,), (2, 1, 5))]
    optimiser = sf.optim.Adam(weights, lr=0.1)
    for _ in range(2):
        for w in weights:
            w.grad = sf.ones(w.shape)
        optimiser.step()
        optimiser.param_groups[0]["lr"] = 0.2
    assert len(made) == 1
    for w in weights:
        np.testing.assert_allclose(w.detach(), 0.7, atol=1e-6)


def test_a_rule_that_looks_at_rows_sees_them() -> None:
    class ByRows(sf.optim.Optimizer):
        def init_state(self, param: Any, hyper: Any, known: Any) -> dict[str, Any]:
            return {}

        @classmethod
        def update(cls, param: Any, grad: Any, state: Any, hyper: Any) -> Any:
            return param - hyper["lr"] * grad.sum(-1, keepdim=True), {}

    w = nn.Parameter(np.zeros((2, 3), np.float32))
    w.grad = sf.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]])
    ByRows([w], {"lr": 0.5}).step()
    assert w.tolist() == [[-3.0] * 3, [-0.5] * 3]


# -- groups -------------------------------------------------------------------------------------


def test_a_learning_rate_reads_and_sets_as_a_float() -> None:
    w = nn.Parameter([1.0])
    optimiser = sf.optim.SGD([w], lr=0.1, momentum=0.5)
    group = optimiser.param_groups[0]
    assert group["lr"] == 0.1 and type(group["lr"]) is float and group["params"] == [w]
    x = sf.placeholder((1,), name="x")
    loss = (x * w).sum()
    program = sf.compile([x], loss, updates=optimiser.minimize(loss))
    group["lr"] = 0.25
    program(sf.ones(1))
    assert w.item() == 0.75
    group["momentum"] = 0.0  # from now on as if there were none
    program(sf.ones(1))
    assert w.item() == 0.5 and program.compile_count == 1


def test_groups_have_their_own_hyperparameters() -> None:
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    optimiser = sf.optim.SGD([{"params": a, "lr": 0.5}, {"params": [b]}], lr=0.25)
    (a * 1 + b * 1).sum().backward()
    optimiser.step()
    assert (a.item(), b.item()) == (0.5, 0.75)
    assert dict(optimiser.param_groups[1])["lr"] == 0.25
    assert repr(optimiser).startswith("SGD (\nParameter Group 0\n    dampening: 0.0\n    lr: 0.5\n")


def test_named_parameters_are_taken() -> None:
    model = nn.Linear(2, 1)
    (group,) = sf.optim.SGD(model.named_parameters()).param_groups
    assert [p.name for p in group["params"]] == ["weight", "bias"]


def refuse(match: str, error: type[Exception] = ValueError) -> Any:
    return pytest.raises(error, match=match)


def test_a_switch_can_be_set_until_a_program_is_built_for_it() -> None:
    w = nn.Parameter([1.0])
    optimiser = sf.optim.SGD([w], lr=0.5)
    group = optimiser.param_groups[0]

    def step() -> float:
        w.grad = sf.ones(1)
        optimiser.step()
        return w.item()

    assert step() == 0.5 and optimiser.state[w] == {}
    group["momentum"] = 0.5
    assert step() == 0.0 and step() == -0.75
    group["dampening"] = 0.5  # the buffer of 1.5 has begun, so this is no first step
    assert step() == -0.75 - 0.5 * (0.75 + 0.5)
    group["momentum"], group["maximize"] = 0.0, True
    assert step() == -0.75 - 0.625 + 0.5
    loss = (sf.placeholder((1,), name="x") * w).sum()
    optimiser.minimize(loss)
    with refuse(r"momentum was 0.0 when updates were made.*test_optim.*momentum=0.9"):
        group["momentum"] = 0.9
    with refuse("maximize was True"):
        group["maximize"] = False
    group["momentum"], group["maximize"], group["lr"] = 0.0, True, 0.25
    assert group["lr"] == 0.25


def test_what_a_group_refuses() -> None:
    w = nn.Parameter([1.0], requires_grad=True)
    group = sf.optim.SGD([w], lr=0.1).param_groups[0]
    for wrong in (-1.0, float("nan")):
        with refuse("lr cannot be negative"):
            group["lr"] = wrong
    with refuse("'learning_rate' cannot be set; the group has lr, momentum", KeyError):
        group["learning_rate"] = 0.1
    assert group["lr"] == 0.1
    with refuse("betas must lie below 1, and 1.0 does not"):
        sf.optim.Adam([w], betas=(0.9, 1.0))


class Mixed(sf.optim.Optimizer):
    """An optimiser of a user's, with kinds of its own."""

    kinds = {"rates": 2, "weights": 4, "way": ("up", "down")}  # noqa: RUF012

    def __init__(self, params: Any, **given: Any) -> None:
        usual = {"rates": (0.1, 0.2), "weights": (1.0, 2.0, 3.0, 4.0), "way": "down"}
        super().__init__(params, usual | given)

    def init_state(self, param: Any, hyper: Any, known: Any) -> dict[str, Any]:
        return {}

    @classmethod
    def update(cls, param: Any, grad: Any, state: Any, hyper: Any) -> Any:
        size = hyper["rates"][1] * hyper["weights"][3]
        return param + size * grad * (1 if hyper["way"] == "up" else -1), {}


def test_kinds_of_an_optimiser_of_a_users() -> None:
    w = nn.Parameter([1.0])
    with refuse(r"rates are two numbers, not \(1, 2, 3\)"):
        Mixed([w], rates=(1, 2, 3))
    with refuse("weights are 4 numbers, not 0.5"):
        Mixed([w], weights=0.5)
    with refuse("way is 'up' or 'down', not 'left'"):
        Mixed([w], way="left")
    optimiser = Mixed([w])
    w.grad = sf.ones(1)
    optimiser.step()
    optimiser.param_groups[0]["way"] = "up"
    optimiser.param_groups[0]["weights"] = (0.0, 0.0, 0.0, 10.0)
    optimiser.step()
    np.testing.assert_allclose(w.detach().numpy(), [1 - 0.8 + 2.0], rtol=1e-6)


def test_betas_are_a_pair_that_programs_read() -> None:
    first, second = nn.Parameter([1.0]), nn.Parameter([1.0])
    x = sf.placeholder((1,), name="x")
    steps = []
    for w in (first, second):
        optimiser = sf.optim.Adam([w], lr=0.1, betas=(0.5, 0.5))
        loss = (x * w * w).sum()
        steps.append((optimiser, sf.compile([x], loss, updates=optimiser.minimize(loss))))
    for optimiser, program in steps:
        program(sf.ones(1))
        if program is steps[1][1]:
            optimiser.param_groups[0]["betas"] = (0.9, 0.99)
            assert optimiser.param_groups[0]["betas"] == (0.9, 0.99)
        program(sf.ones(1))
    assert first.item() != second.item()


def test_what_an_optimiser_refuses() -> None:
    w = nn.Parameter([1.0])
    w.name = "w"
    with refuse("SGD got no parameters"):
        sf.optim.SGD([])
    with refuse("without parameters"):
        sf.optim.SGD([{"params": []}])
    with refuse("'w' is given twice"):
        sf.optim.SGD([w, w])
    with refuse("'w' is given twice"):
        sf.optim.SGD([{"params": [w]}, {"params": [w]}])
    with refuse("was computed.*Mul.*no leaf"):
        sf.optim.SGD([w * 2])
    with refuse("the parameters are a set", TypeError):
        sf.optim.SGD({w})
    with refuse("the parameters are a set", TypeError):
        sf.optim.SGD([{"params": {w}}])
    with refuse("parameter 0 is a tuple"):
        sf.optim.SGD([()])
    with refuse("rho cannot be above 1, as 1.5 is"):
        sf.optim.Adadelta([w], rho=1.5)
    with refuse("no hyperparameter 'lrr'"):
        sf.optim.SGD([{"params": [w], "lrr": 1}])
    for name in ("lr", "momentum", "weight_decay"):
        with refuse(f"{name} cannot be negative, as -0.5 is"):
            sf.optim.SGD([w], **{name: -0.5})
    for make, wrong, message in (
        (sf.optim.Rprop, {"etas": (1.5, 2.0)}, "etas are a number between 0 and 1 and one above 1"),
        (sf.optim.Rprop, {"etas": 0.5}, r"etas are two numbers, as \(0.5, 1.2\), not 0.5"),
        (sf.optim.Rprop, {"step_sizes": (-1.0, 1.0)}, "step_sizes cannot be negative, as -1.0 is"),
        (sf.optim.Adafactor, {"beta2_decay": 0.5}, "beta2_decay cannot be above 0, as 0.5 is"),
        (sf.optim.Adafactor, {"d": 0.5}, "d cannot be below 1, as 0.5 is"),
        (sf.optim.Adafactor, {"eps": 1e-3}, r"eps are two numbers, as \(None, 1e-3\)"),
        (sf.optim.Adafactor, {"eps": (1e-3, None)}, "eps is a number, not None"),
        (sf.optim.Adam, {"eps": (1e-3, 1e-3)}, "'eps' must be float, not tuple"),
        (sf.optim.Muon, {}, r"shape \[1\]; all must be matrices"),
        (sf.optim.Muon, {"ns_steps": 100}, "ns_steps is an integer from 0 to 99, not 100"),
        (sf.optim.Muon, {"ns_steps": 1.0}, "'ns_steps' must be int, not float"),
        (sf.optim.Muon, {"adjust_lr_fn": "best"}, "None or 'original' or 'match_rms_adamw'"),
        (sf.optim.Muon, {"ns_coefficients": (1.0, 2.0)}, "ns_coefficients are three numbers"),
    ):
        with refuse(message, TypeError if message.startswith("'") else ValueError):
            make([w], **wrong)
    for wrong in ({}, {"momentum": 0.9, "dampening": 0.1}):
        with refuse("Nesterov momentum needs"):
            sf.optim.SGD([w], nesterov=True, **wrong)


# -- the two ways -------------------------------------------------------------------------------


def test_foreach_fused_and_capturable_are_taken_and_change_nothing() -> None:
    def after(make: Any, **how: Any) -> tuple[list[float], set[str]]:
        w = sf.tensor([1.0, -2.0], requires_grad=True)
        opt = make([{"params": [w], **how}], lr=0.1)
        again = make([w], lr=0.1, **how)
        for each in (opt, again):
            (w * w).sum().backward()
            each.step()
        return w.tolist(), set(opt.state_dict()["param_groups"][0])

    for name in (
        "Adadelta",
        "Adagrad",
        "Adam",
        "AdamW",
        "Adamax",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
        "ASGD",
        "SGD",
    ):
        make = getattr(sf.optim, name)
        fused = name in ("SGD", "Adam", "AdamW", "Adagrad")
        if name not in ("SGD", "Adagrad"):  # as PyTorch has it
            assert after(make, capturable=True) == after(make)
        plain = after(make)
        for value in (None, True, False):
            assert after(make, foreach=value) == plain
            if fused:
                assert after(make, fused=value) == plain
        with pytest.raises(sf.DTypeError, match=f"{name}: 'foreach'"):
            after(make, foreach="yes")
        if fused:
            with pytest.raises(sf.ArgumentError, match=f"{name}: foreach=True and fused=True"):
                after(make, foreach=True, fused=True)
        else:
            with pytest.raises(sf.ArgumentError, match="no hyperparameter 'fused'"):
                after(make, fused=True)


def test_what_the_loss_does_not_reach_and_what_is_frozen_is_left_out() -> None:
    used, unused, frozen = (nn.Parameter(sf.ones(2)) for _ in range(3))
    frozen.requires_grad_(False)
    optimiser = sf.optim.SGD([used, unused, frozen], lr=0.5, momentum=0.5)
    x = sf.placeholder((2,), name="x")
    loss = (x * used * frozen).sum()
    updates = optimiser.minimize(loss)
    assert list(updates) == [used, optimiser.state[used]["momentum_buffer"]]
    sf.compile([x], loss, updates=updates)(sf.ones(2))
    assert (used.tolist(), unused.tolist(), frozen.tolist()) == ([0.5] * 2, [1.0] * 2, [1.0] * 2)
    assert used.grad is None


def test_step_leaves_parameters_without_a_gradient_alone() -> None:
    a, b = nn.Parameter([1.0]), nn.Parameter([1.0])
    optimiser = sf.optim.SGD([a, b], lr=0.5, weight_decay=0.1, momentum=0.9)
    (a * 2).sum().backward()
    memory = a.detach().numpy()
    optimiser.step()
    assert np.shares_memory(memory, a.detach().numpy())
    assert memory[0] == pytest.approx(1 - 0.5 * 2.1, rel=1e-5)
    assert b.item() == 1.0 and b not in optimiser.state
    assert a.requires_grad and a.is_leaf
    optimiser.zero_grad()
    assert a.grad is None


def test_a_step_between_forward_and_backward_is_caught() -> None:
    w = nn.Parameter([2.0])
    optimiser = sf.optim.SGD([w], lr=0.5)
    loss = (w * w).sum()
    loss.backward(retain_graph=True)
    optimiser.step()
    with pytest.raises(sf.AutogradError, match="changed in place"):
        loss.backward()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_parameter_of_no_dims_keeps_its_dtype(dtype: str) -> None:
    w = nn.Parameter(np.array(3.0, dtype))
    optimiser = sf.optim.SGD([w], lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.1)
    x = sf.placeholder((), dtype, name="x")
    loss = x * w * w
    program = sf.compile([x], loss, updates=optimiser.minimize(loss))
    twin = nn.Parameter(np.array(3.0, dtype))
    other = sf.optim.SGD([twin], lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.1)
    for _ in range(3):
        program(np.array(1.0, dtype))
        other.zero_grad()
        (twin * twin).backward()
        other.step()
    assert w.dtype is twin.dtype is getattr(sf, dtype)
    np.testing.assert_allclose(w.item(), twin.item(), rtol=1e-6 if dtype == "float32" else 1e-14)


def test_gradients_can_be_changed_before_they_are_used() -> None:
    w = nn.Parameter([1.0, -1.0])
    optimiser = sf.optim.SGD([w], lr=1.0)
    x = sf.placeholder((2,), name="x")
    loss = (x * w).sum()
    clipped = sf.grad(loss, w).clamp(-0.5, 0.5)
    sf.compile([x], loss, updates=optimiser.updates({w: clipped}))(np.array([3.0, 0.25], "float32"))
    assert w.tolist() == [0.5, -1.25]
    with refuse("named 'other' is no parameter"):
        other = nn.Parameter([1.0])
        other.name = "other"
        optimiser.updates({w: clipped, other: clipped})
    with refuse("named 'w' is no parameter"):
        optimiser.updates({"w": clipped})
    with refuse(r"a dict by parameter, as in opt.updates\({w: g}\), not list"):
        optimiser.updates([clipped])


def test_what_minimize_refuses() -> None:
    w = nn.Parameter([1.0])
    optimiser = sf.optim.SGD([w], lr=0.1)
    x = sf.placeholder((None,), name="x")
    with refuse("symbolic loss.*backward.*test_optim", sf.AutogradError):
        optimiser.minimize((w * w).sum())
    with refuse("single number.*loss.mean", sf.AutogradError):
        optimiser.minimize(x * w)
    with refuse("depends on no parameter", sf.AutogradError):
        optimiser.minimize(x.sum())


def test_a_closure_computes_the_loss() -> None:
    w = nn.Parameter([3.0])
    optimiser = sf.optim.SGD([w], lr=0.5)

    def closure() -> Any:
        optimiser.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert optimiser.step(closure).item() == 9.0 and w.item() == 0.0
    assert optimiser.step() is None


def test_gradients_can_be_zeroed_in_place() -> None:
    w, other = nn.Parameter([3.0]), nn.Parameter([1.0])
    optimiser = sf.optim.SGD([w, other], lr=0.5)
    (w * w).sum().backward()
    memory = w.grad.numpy()
    optimiser.zero_grad(set_to_none=False)
    assert w.grad.tolist() == [0.0] and np.shares_memory(memory, w.grad.numpy())
    assert other.grad is None


# -- state --------------------------------------------------------------------------------------


def test_a_saved_state_is_gone_on_from() -> None:
    straight, broken = Problem("SGD all", "float64"), Problem("SGD all", "float64")
    for _ in range(5):
        straight.static_step()
        broken.eager_step()
    saved = broken.optimiser.state_dict()
    assert saved["param_groups"][1]["params"] == [1]
    assert sorted(saved["state"][0]) == ["momentum_buffer", "step"]
    resumed = Problem("SGD all", "float64", lr=7.0)
    resumed.static_step()  # its own state is replaced
    resumed.optimiser.load_state_dict(saved)
    with sf.no_grad():
        resumed.w[...], resumed.b[...] = broken.w, broken.b
    assert resumed.optimiser.param_groups[0]["lr"] == REFERENCE["SGD all"]["arguments"]["lr"]
    for _ in range(5):
        straight.static_step()
        resumed.static_step()
    for a, b in ((straight.w, resumed.w), (straight.b, resumed.b)):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-13)


def test_a_state_of_no_steps_starts_anew() -> None:
    problem = Problem("SGD dampening", "float64")
    fresh = sf.optim.SGD(
        [{"params": [nn.Parameter(sf.zeros(2, 3))]}, {"params": [nn.Parameter(sf.zeros(2))]}],
        **REFERENCE["SGD dampening"]["arguments"],
    ).state_dict()
    assert fresh["state"] == {}
    problem.static_step()
    problem.optimiser.load_state_dict(fresh)
    state = problem.optimiser.state[problem.w]
    assert state["step"].item() == 0 and not state["momentum_buffer"].numpy().any()


def test_a_state_that_does_not_fit_is_refused_as_a_whole() -> None:
    def made(shape: tuple[int, ...] = (2,), **arguments: float) -> sf.optim.SGD:
        w = nn.Parameter(np.ones(shape, np.float32))
        w.name = "w"
        optimiser = sf.optim.SGD([w], **arguments)
        w.grad = sf.ones(*shape)
        optimiser.step()
        return optimiser

    target = made(lr=0.5, momentum=0.5)
    two = sf.optim.SGD([nn.Parameter([1.0]), nn.Parameter([1.0])]).state_dict()
    with refuse(r"groups of \[2\] parameters, where \[1\] are needed", sf.ShapeError):
        target.load_state_dict(two)
    with refuse("momentum_buffer of 'w' has shape .3., and .2. is needed", sf.ShapeError):
        target.load_state_dict(made((3,), lr=0.1, momentum=0.5).state_dict())
    with refuse(
        "the state of 'w' has other, which SGD does not keep; it keeps momentum_buffer, step",
        sf.ShapeError,
    ):
        target.load_state_dict(
            {**target.state_dict(), "state": {0: {"step": sf.zeros(), "other": sf.zeros()}}}
        )
    with refuse("the state of 'w' has step, and momentum_buffer is needed too", sf.ShapeError):
        target.load_state_dict({**target.state_dict(), "state": {0: {"step": sf.zeros()}}})
    built = made(lr=0.1)
    built.minimize((sf.placeholder((2,), name="x") * built.param_groups[0]["params"][0]).sum())
    with refuse("momentum was 0.0"):
        built.load_state_dict(target.state_dict())
    with refuse("'betas' cannot be set; the group has lr, momentum", KeyError):
        target.load_state_dict(sf.optim.Adam([nn.Parameter([1.0, 2.0])]).state_dict())
    assert target.param_groups[0]["lr"] == 0.5
    assert (
        target.state[target.param_groups[0]["params"][0]]["momentum_buffer"].tolist() == [1.0] * 2
    )


def test_a_checkpoint_of_pytorch_is_gone_on_from() -> None:
    # what torch.optim.Adam.state_dict() has after a step
    state = {"step": np.float32(1.0), "exp_avg": np.array([0.5]), "exp_avg_sq": np.array([0.25])}
    group = {
        "lr": 0.125, "betas": (0.5, 0.75), "eps": 1e-08, "weight_decay": 0, "amsgrad": False,
        "maximize": False, "foreach": None, "capturable": False, "differentiable": False,
        "fused": None, "decoupled_weight_decay": False, "initial_lr": 0.25, "params": [0],
    }  # fmt: skip
    w = nn.Parameter([1.0])
    optimiser = sf.optim.Adam([w])
    optimiser.load_state_dict({"state": {0: state}, "param_groups": [group]})
    assert optimiser.param_groups[0]["lr"] == 0.125
    assert optimiser.param_groups[0]["initial_lr"] == 0.25
    assert {n: t.item() for n, t in optimiser.state[w].items()} == {
        "step": 1.0, "exp_avg": 0.5, "exp_avg_sq": 0.25,
    }  # fmt: skip
    sgd = sf.optim.SGD([w], lr=0.1, momentum=0.5, dampening=0.5)
    saved = sgd.state_dict()
    for buffer, started in ((np.array([2.0]), 1), (None, 0)):
        sgd.load_state_dict({**saved, "state": {0: {"momentum_buffer": buffer}}})
        assert sgd.state[w]["step"].item() == started


def test_what_says_how_a_rule_is_written_may_change_until_a_program_is() -> None:
    start = np.cos(np.arange(6.0)).reshape(2, 3)

    def after_step(ns_steps: int, later: int | None = None) -> list[Any]:
        w = sf.tensor(start, requires_grad=True)
        opt = sf.optim.Muon([w], lr=0.1, ns_steps=ns_steps)
        if later is not None:
            (w * w).sum().backward()
            opt.step()
            with sf.no_grad():
                w.copy_(sf.from_numpy(start))
            opt.state[w]["momentum_buffer"].zero_()
            opt.zero_grad()
            opt.param_groups[0]["ns_steps"] = later
        (w * w).sum().backward()
        opt.step()
        return w.tolist()

    assert after_step(5, later=2) == after_step(2) != after_step(5)
    w = sf.tensor(start, requires_grad=True)
    opt = sf.optim.Muon([w])
    opt.minimize((w * w).sum() * sf.placeholder(()))
    opt.param_groups[0]["ns_steps"] = 5
    with refuse("ns_steps was 5 when updates were made for a program"):
        opt.param_groups[0]["ns_steps"] = 4
    factor = sf.optim.Adafactor([w])
    factor.param_groups[0]["eps"] = (None, 0.1)
    assert factor.param_groups[0]["eps"] == (None, 0.1)
    with refuse(r"eps is \(None, 0.1\), and what is None in it stays so"):
        factor.param_groups[0]["eps"] = (1e-3, 0.1)


@pytest.mark.parametrize("name", ["Rprop", "ASGD", "Adafactor", "Muon"])
def test_a_state_goes_on_where_it_was_saved_and_into_pytorchs(name: str) -> None:
    def run(opt: Any, w: Any, steps: int) -> None:
        for _ in range(steps):
            opt.zero_grad()
            (w * w).sum().backward()
            opt.step()

    start = np.cos(np.arange(6.0)).reshape(2, 3)
    make = getattr(sf.optim, name)
    w = sf.tensor(start, requires_grad=True)
    opt = make([w], lr=0.01)
    run(opt, w, 3)
    other = w.detach().clone().requires_grad_()
    again = make([other], lr=0.5)
    again.load_state_dict(opt.state_dict())
    run(opt, w, 3)
    run(again, other, 3)
    assert w.tolist() == other.tolist()
    torch = pytest.importorskip("torch")
    theirs = torch.tensor(start, requires_grad=True)
    judge = getattr(torch.optim, name)([theirs], lr=0.01)
    run(judge, theirs, 3)
    third = sf.from_numpy(theirs.detach().numpy().copy()).requires_grad_()
    taken = make([third], lr=0.5)
    saved = judge.state_dict()
    held = {n: sf.from_numpy(t.numpy().copy()) for n, t in saved["state"][0].items()}
    taken.load_state_dict({**saved, "state": {0: held}})
    run(taken, third, 3)
    np.testing.assert_allclose(third.detach().numpy(), w.detach().numpy(), 1e-7)
