"""Schedules: PyTorch's rates, their states, and that both modes follow without compiling anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import staticflow as sf
from staticflow import nn
from staticflow.optim import lr_scheduler as lr

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "schedules.json").read_text())
VALUES = [5.0, 4.0, 4.1, 4.2, 4.0, 3.9, 4.0, 4.0, 4.0, 4.0, 3.0, 3.1, 3.2, 2.99, 2.98, 2.97]


def optimiser() -> sf.optim.SGD:
    """Two groups with rates of their own, as in reference/make_schedules.py."""
    groups = [{"params": [nn.Parameter([0.0])]}, {"params": [nn.Parameter([0.0])], "lr": 0.1}]
    return sf.optim.SGD(groups, lr=0.2, momentum=0.9)


def made(kind: str, arguments: dict[str, Any], opt: sf.optim.SGD) -> Any:
    if kind == "SequentialLR":
        parts = [lr.LinearLR(opt, total_iters=4), lr.ExponentialLR(opt, 0.5), lr.StepLR(opt, 3)]
        return lr.SequentialLR(opt, parts, milestones=[5, 8])
    if kind == "ChainedScheduler":
        schedulers = [lr.ConstantLR(opt, 0.1, 4), lr.ExponentialLR(opt, gamma=0.9)]
        return lr.ChainedScheduler(schedulers, optimizer=opt)
    return getattr(lr, kind)(opt, **arguments)


def step(scheduler: Any, epoch: int) -> None:
    takes = isinstance(scheduler, lr.ReduceLROnPlateau)
    scheduler.step(*[VALUES[epoch]] * takes)


@pytest.mark.parametrize("resumed_at", [None, 7])
@pytest.mark.parametrize("case", range(len(REFERENCE)))
def test_pytorchs_rates(case: int, resumed_at: int | None) -> None:
    kind, arguments, wanted = REFERENCE[case]
    opt = optimiser()
    scheduler = made(kind, arguments, opt)
    for epoch in range(16):
        if epoch == resumed_at:
            saved, rates = scheduler.state_dict(), opt.state_dict()
            opt = optimiser()
            scheduler = made(kind, arguments, opt)
            opt.load_state_dict(rates)
            scheduler.load_state_dict(saved)
        found = [g[n] for g in opt.param_groups for n in ("lr", "momentum")]
        assert found == pytest.approx(wanted[epoch], rel=1e-9, abs=1e-12)
        assert scheduler.get_last_lr() == found[::2]
        step(scheduler, epoch)  # also behind the last update, as loops do


def test_one_cycle_stays_behind_its_last_step() -> None:
    for strategy in ("cos", "linear"):
        opt = optimiser()
        scheduler = lr.OneCycleLR(opt, 1.0, total_steps=6, anneal_strategy=strategy)
        rates = []
        for _ in range(6):
            rates.append(scheduler.get_last_lr())
            opt.step()
            scheduler.step()
        assert scheduler.get_last_lr() == rates[-1] == pytest.approx([4e-6, 4e-6])
        with pytest.raises(sf.ArgumentError, match="step 7 of 6 steps"):
            scheduler.step()


def test_lambdas() -> None:
    opt = optimiser()
    scheduler = lr.LambdaLR(opt, [lambda epoch: 0.5**epoch, lambda epoch: epoch])
    scheduler.step()
    scheduler.step()
    assert scheduler.get_last_lr() == [0.05, 0.2]
    opt = optimiser()
    scheduler = lr.MultiplicativeLR(opt, lambda epoch: epoch)
    for _ in range(3):
        scheduler.step()
    assert scheduler.get_last_lr() == pytest.approx([1.2, 0.6])
    assert "lr_lambdas" not in scheduler.state_dict()


def test_warm_restarts_go_to_fractions_of_epochs() -> None:
    opt = optimiser()
    scheduler = lr.CosineAnnealingWarmRestarts(opt, T_0=2, T_mult=2)
    scheduler.step(1.0)
    assert scheduler.get_last_lr() == pytest.approx([0.1, 0.05])
    scheduler.step(4.0)  # the half of the second run, of 4 epochs
    assert scheduler.get_last_lr() == pytest.approx([0.1, 0.05])
    scheduler.step()
    assert scheduler.T_cur == 3 and scheduler.last_epoch == 5
    with pytest.raises(ValueError, match="0 or more"):
        scheduler.step(-1.0)


def test_going_on_from_a_later_epoch() -> None:
    opt = optimiser()
    with pytest.raises(ValueError, match=r"StepLR: group 0 has no 'initial_lr'.*epoch 3"):
        lr.StepLR(opt, 3, last_epoch=3)
    lr.CosineAnnealingLR(opt, T_max=4)
    scheduler = lr.CosineAnnealingLR(opt, T_max=4, last_epoch=1)
    assert scheduler.last_epoch == 2 and scheduler.get_last_lr() == pytest.approx([0.1, 0.05])


def test_a_compiled_step_follows() -> None:
    w = nn.Parameter([0.0])
    opt = sf.optim.SGD([w], lr=1.0)
    x = sf.placeholder((1,), name="x")
    loss = (x * w).sum()
    program = sf.compile([x], loss, updates=opt.minimize(loss))
    scheduler = lr.ExponentialLR(opt, gamma=0.5)
    for _ in range(3):
        program(sf.ones(1))
        scheduler.step()
    assert w.item() == -1.75 and program.compile_count == 1


def test_betas_are_cycled_for_adam() -> None:
    opt = sf.optim.Adam([nn.Parameter([1.0])], lr=0.1)
    scheduler = lr.OneCycleLR(opt, max_lr=1.0, total_steps=10)
    assert opt.param_groups[0]["betas"] == (0.95, 0.999)
    scheduler.step()
    scheduler.step()
    assert opt.param_groups[0]["betas"] == pytest.approx((0.85, 0.999))
    with pytest.raises(ValueError, match="step 11 of 10"):
        for _ in range(10):
            scheduler.step()


def refuse(match: str, error: type[Exception] = ValueError) -> Any:
    return pytest.raises(error, match=match)


def test_what_schedules_refuse() -> None:
    opt = optimiser()
    with refuse("takes an optimiser, not list", TypeError):
        lr.StepLR([], 3)
    with refuse("lr_lambda has 1 values for 2"):
        lr.LambdaLR(opt, [lambda epoch: 1.0])
    with refuse(r"factor lies in \(0, 1\], and 2"):
        lr.ConstantLR(opt, factor=2)
    with refuse("start_factor"):
        lr.LinearLR(opt, start_factor=0.0)
    with refuse("end_factor"):
        lr.LinearLR(opt, end_factor=2.0)
    with refuse("T_mult is an integer"):
        lr.CosineAnnealingWarmRestarts(opt, 3, T_mult=0)
    with refuse("neither momentum nor betas"):
        lr.CyclicLR(sf.optim.Adagrad([nn.Parameter([1.0])]), 0.1, 0.2)
    with refuse("the mode is one of triangular, triangular2, exp_range, not 'up'"):
        lr.CyclicLR(opt, 0.1, 0.2, mode="up")
    with refuse("give total_steps"):
        lr.OneCycleLR(opt, 1.0)
    with refuse("0 steps are none"):
        lr.OneCycleLR(opt, 1.0, total_steps=0)
    with refuse("pct_start"):
        lr.OneCycleLR(opt, 1.0, total_steps=5, pct_start=2)
    with refuse("cos, linear, not 'exp'"):
        lr.OneCycleLR(opt, 1.0, total_steps=5, anneal_strategy="exp")
    with refuse("below 1"):
        lr.ReduceLROnPlateau(opt, factor=1.0)
    with refuse('"min" or "max", not \'least\''):
        lr.ReduceLROnPlateau(opt, mode="least")
    with refuse('"rel" or "abs"'):
        lr.ReduceLROnPlateau(opt, threshold_mode="part")
    with refuse("1 milestones between them, not 2"):
        lr.SequentialLR(opt, [lr.StepLR(opt, 3), lr.StepLR(opt, 3)], [1, 2])
    with refuse("schedule 1 is of another optimiser"):
        lr.ChainedScheduler([lr.StepLR(opt, 3), lr.StepLR(optimiser(), 3)])
    with refuse("got no schedules"):
        lr.ChainedScheduler([])
