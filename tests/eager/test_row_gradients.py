"""Gradients of large tables by their rows: the bits of the dense ones, and nobody sees a
difference but in time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager import row_gradient
from staticflow.eager.row_gradient import is_of_rows
from staticflow.nn.functional import embedding

ROWS, WIDTH = 3000, 24


def a_table(dtype: Any = np.float32) -> Any:
    values = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(dtype)
    return sf.nn.Parameter(sf.from_numpy(values))


def numbers(seed: int = 1) -> Any:
    chosen = np.random.default_rng(seed).integers(0, ROWS, (4, 10))
    chosen[1] = chosen[0]  # some come twice
    return sf.from_numpy(chosen)


def loss_of(table: Any, which: Any, **kwargs: Any) -> Any:
    rows = embedding(which, table, **kwargs)
    return (rows * rows.sin()).sum()


def densely(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a function gives where no gradient is kept by its rows."""
    with monkeypatch.context() as patch:
        patch.setattr(row_gradient, "FEW", ROWS)
        return run()


def bits(t: Any) -> Any:
    return None if t is None else (type(t), t.dtype, t.shape, t.detach().numpy().tobytes())


OPTIMISERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda ps: sf.optim.SGD(ps, lr=0.3),
    "maximize": lambda ps: sf.optim.SGD(ps, lr=0.3, maximize=True),
    "momentum": lambda ps: sf.optim.SGD(ps, lr=0.3, momentum=0.9),
    "decay": lambda ps: sf.optim.SGD(ps, lr=0.3, weight_decay=0.1),
    "adam": lambda ps: sf.optim.Adam(ps, lr=0.3),
    "adagrad": lambda ps: sf.optim.Adagrad(ps, lr=0.3),
    "another rule": lambda ps: Shrinking(ps, lr=0.3),
    "a static rule": lambda ps: StaticRule(ps, lr=0.3),
    "a rule around it": lambda ps: Around(ps, lr=0.3),
}


class Shrinking(sf.optim.SGD):
    """A rule that changes what has no gradient, too."""

    @classmethod
    def update(cls, param: Any, grad: Any, state: Any, hyper: Any) -> Any:
        return param * 0.5 - grad, {}


class StaticRule(sf.optim.SGD):
    """A rule in a function that does not take the class."""

    @staticmethod
    def update(param: Any, grad: Any, state: Any, hyper: Any) -> Any:  # type: ignore[override]
        return param * 0.5 - grad, {}


class Around(sf.optim.SGD):
    """The rule, and what it gives changed."""

    @classmethod
    def apply_rule(cls, param: Any, grad: Any, state: Any, hyper: Any) -> Any:
        value, after = super().apply_rule(param, grad, state, hyper)
        return value * 0.5, after


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("padding", [None, 7])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_training(
    name: str, padding: int | None, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> Any:
        table = a_table(dtype)
        optimiser = OPTIMISERS[name]([table])
        for seed in range(3):
            which = numbers(seed)
            which[2] = 7
            optimiser.zero_grad()
            loss_of(table, which, padding_idx=padding).backward()
            optimiser.step()
        optimiser.step()  # with the same gradient
        return bits(table), bits(table.grad)

    assert run() == densely(run, monkeypatch)


def test_it_is_kept_by_rows_until_it_is_asked_for() -> None:
    table = a_table()
    loss_of(table, numbers()).backward()
    assert is_of_rows(table._grad) and "_data" in dir(table._grad)
    version = table._version
    sf.optim.SGD([table], lr=0.1).step()
    assert is_of_rows(table._grad) and table._version == version + 1
    grad = table.grad
    assert type(grad) is sf.Tensor and table.grad is grad and not is_of_rows(table._grad)


def test_a_change_of_the_gradient_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> Any:
        table = a_table()
        loss_of(table, numbers()).backward()
        table.grad.add_(1.0)
        sf.optim.SGD([table], lr=0.1).step()
        return bits(table)

    assert run() == densely(run, monkeypatch)


USES: dict[str, Callable[[Any], Any]] = {
    "twice": lambda t: [(loss_of(t, numbers()) + loss_of(t, numbers(2))).backward()],
    "added up": lambda t: [loss_of(t, numbers(s)).backward() for s in (1, 2)],
    "added to a dense one": lambda t: [(t * t).sum().backward(), loss_of(t, numbers()).backward()],
    "and a dense one to it": lambda t: [loss_of(t, numbers()).backward(), (t * t).sum().backward()],
    "tied": lambda t: [(embedding(numbers(), t) @ t.t()).tanh().sum().backward()],
    "hooked": lambda t: [t.register_hook(lambda g: g * 2), loss_of(t, numbers()).backward()],
    "after": lambda t: [
        t.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(3.0)),
        loss_of(t, numbers()).backward(),
    ],
    "inputs": lambda t: [loss_of(t, numbers()).backward(inputs=[t])],
    "grad": lambda t: [bits(g) for g in sf.grad(loss_of(t, numbers()), [t])],
    "recorded": lambda t: [loss_of(t, numbers()).backward(create_graph=True), t.grad.requires_grad],
    "of a copy": lambda t: [loss_of(t * 1.0, numbers()).backward()],
    "clipped": lambda t: [
        loss_of(t, numbers()).backward(),
        bits(sf.nn.utils.clip_grad_norm_([t], 1.0)),
    ],
    "copied": lambda t: [loss_of(t, numbers()).backward(), bits(copy.deepcopy(t).grad)],
    "filled": lambda t: [
        loss_of(t, numbers()).backward(),
        sf.optim.SGD([t], lr=0.1).zero_grad(set_to_none=False),
    ],
    "anomaly": lambda t: [in_anomaly_mode(t)],
}  # fmt: skip


def in_anomaly_mode(table: Any) -> None:
    with sf.autograd.detect_anomaly():
        loss_of(table, numbers()).backward()


@pytest.mark.parametrize("name", USES)
def test_uses(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> Any:
        table = a_table()
        found = [f for f in USES[name](table) if type(f) in (tuple, bool)]
        return found, bits(table.grad)

    assert run() == densely(run, monkeypatch)


@pytest.mark.parametrize("maximize", [False, True])
def test_signs_of_zeros(maximize: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> Any:
        table = sf.nn.Parameter(sf.full((ROWS, WIDTH), -0.0))
        embedding(numbers(), table).sum().backward()
        sf.optim.SGD([table], lr=0.1, maximize=maximize).step()
        return bits(table)

    assert run() == densely(run, monkeypatch)


def test_a_hook_made_within_the_walk_sees_a_tensor() -> None:
    table, x, seen = a_table(), sf.ones(1, requires_grad=True), []
    y = x * 2
    y.register_hook(lambda _: table.register_hook(lambda g: seen.append(type(g))) and None)
    (loss_of(table, numbers()) + y.sum() * 0).backward()  # rows are pulled before
    assert seen == [sf.Tensor]


def shrink(table: Any) -> None:
    table.data = table.data[:100].clone()


def grow(table: Any) -> None:
    table.data = sf.zeros(ROWS + 1, WIDTH)


def expand(table: Any) -> None:
    table.data = table.data[:1].expand(ROWS, WIDTH)


@pytest.mark.parametrize("change", [shrink, grow, expand])
def test_a_step_that_the_table_does_not_take(
    change: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> Any:
        table = a_table()
        loss_of(table, numbers()).backward()
        change(table)
        before = bits(table)
        with pytest.raises(Exception) as caught:
            sf.optim.SGD([table], lr=0.1).step()
        assert bits(table) == before
        return type(caught.value), str(caught.value)

    assert run() == densely(run, monkeypatch)


def test_a_step_within_a_trace() -> None:
    table = a_table()
    loss_of(table, numbers()).backward()
    optimiser = sf.optim.SGD([table], lr=0.1)

    def traced(x: Any) -> Any:
        optimiser.step()
        return x * 2

    with pytest.raises(sf.SymbolicError, match="an in-place operation"):
        sf.jit(traced)(sf.ones(3))


def test_indices_that_change_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> Any:
        table, which = a_table(), numbers()
        loss = loss_of(table, which)
        loss.backward()
        which.zero_()
        sf.optim.SGD([table], lr=0.1).step()
        return bits(table), bits(table.grad)

    assert run() == densely(run, monkeypatch)
