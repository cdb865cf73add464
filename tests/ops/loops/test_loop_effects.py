"""What is traced has no effect: a loop, a branch or a transform over tensors whose function meets a
symbol is part of a graph, and nothing changes before that is called. Then it changes what an eager
run changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.errors import SymbolicError

Function = Callable[[Any], Any]


class World:
    """What a function may change, and the functions that do."""

    def __init__(self) -> None:
        self.norm = nn.BatchNorm1d(2)
        self.captured, self.other = sf.zeros(2), sf.ones(2)
        self.generator = sf.Generator().manual_seed(1)
        self.calls = 0
        self.spread = sf.tensor([[0.0], [1.0], [2.0], [3.0]])
        sf.manual_seed(3)

    def state(self) -> list[Any]:
        """All of it, as numbers."""
        held = (*self.norm.buffers(), self.captured, self.generator.get_state(), sf.get_rng_state())
        return [v.tolist() for v in held]

    def draw(self, v: Any) -> Any:
        return v + sf.rand(2)

    def draw_of_a_generator(self, v: Any) -> Any:
        return v + sf.rand(2, generator=self.generator)

    def statistics(self, v: Any) -> Any:
        return self.norm(v.reshape(1, 2).expand(4, 2) + self.spread).sum(0)

    def prints(self, v: Any) -> Any:
        sf.print("{}", v)
        return v + 0

    def counts(self, v: Any) -> Any:
        self.calls += 1
        return v

    def change(self, v: Any, change: Callable[[Any, Any], Any]) -> Any:
        change(self.captured, self.other)
        return v


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda w, v: w.add_(1),
    "copy_": lambda w, v: w.copy_(v),
    "fill_": lambda w, v: w.fill_(3.0),
    "zero_": lambda w, v: w.zero_(),
    "uniform_": lambda w, v: w.uniform_(),
    "setitem": lambda w, v: w.__setitem__(0, 5.0),
    "setitem of all": lambda w, v: w.__setitem__(slice(None), 5.0),
    "setitem of a tensor": lambda w, v: w.__setitem__(0, v[0]),
    "setitem by a mask": lambda w, v: w.__setitem__(v > 0, 5.0),
    "iadd": lambda w, v: w.__iadd__(v),
    "view": lambda w, v: w[:1].add_(1),
    "detached": lambda w, v: w.detach().add_(1),
    "set_": lambda w, v: w.set_(v),
    "data": lambda w, v: setattr(w, "data", v),
    "resize_": lambda w, v: w.resize_(3),
    "unsqueeze_": lambda w, v: w.unsqueeze_(0),
    "out=": lambda w, v: sf.add(v, v, out=w),
    "seed": lambda w, v: sf.manual_seed(7),
    "set_rng_state": lambda w, v: sf.set_rng_state(sf.tensor([4, 2])),
}

EFFECTS = ("draw", "draw_of_a_generator", "statistics", "prints")


def pulled_back(fn: Function) -> Any:
    """A vjp, beside the value, with which a print goes."""
    value, pullback = sf.func.vjp(fn, sf.ones(2))
    return pullback(sf.ones(2))[0] + value


# of a function f and something s that may be a symbol, over tensors
CONSTRUCTS: dict[str, Callable[[Function, Any], Any]] = {
    "scan": lambda f, s: sf.scan(lambda c, x: (f(c) + x * s.sum(), c), sf.zeros(2), sf.ones(3, 2))[0],
    "until": lambda f, s: sf.scan(
        lambda c, x: (f(c) + x, c), sf.zeros(2), sf.ones(3, 2), until=lambda c, y: c.sum() > s.sum()
    )[1].sum(0),
    "checkpoint": lambda f, s: sf.scan(
        lambda c, x: (f(c) * s, c), sf.zeros(2), sf.ones(4, 2), checkpoint=2
    )[0],
    "taps": lambda f, s: sf.scan(
        lambda c, x, past: (c, f(past[0]) * s), (), sf.ones(3, 2), taps={"ys": (1,)},
        ys_init=sf.ones(1, 2),
    )[1],
    "while": lambda f, s: sf.while_loop(
        lambda i, c: i < 3, lambda i, c: (i + 1, f(c) * s), (sf.tensor(0), sf.zeros(2))
    )[1],
    "while of numbers": lambda f, s: sf.while_loop(
        lambda i, c: i < 3, lambda i, c: (i + 1, (f(s * 0) * s).sum()), (0, 0.0)
    )[1],
    "condition": lambda f, s: sf.while_loop(
        lambda i, c: (f(c) - c + i).sum() < s.sum(), lambda i, c: (i + 1, c), (0.0, sf.zeros(2))
    )[0],
    "fori": lambda f, s: sf.fori_loop(0, 3, lambda i, c: f(c) * s, sf.zeros(2)),
    "fori of numbers": lambda f, s: sf.fori_loop(0, 3, lambda i, c: (f(s * 0) * s).sum(), 0.0),
    "fori of tensors": lambda f, s: sf.fori_loop(
        sf.tensor(0), sf.tensor(3), lambda i, c: f(c) * s, sf.zeros(2)
    ),
    "map": lambda f, s: sf.map(lambda x: f(x) * s, sf.ones(3, 2)),
    "cond": lambda f, s: sf.cond(sf.tensor(True), lambda: f(sf.ones(2)) * s, lambda: s),
    "associative_scan": lambda f, s: sf.associative_scan(lambda a, b: a + f(b[0]) * s, sf.ones(3, 2)),
    "func.grad": lambda f, s: sf.func.grad(lambda v: (f(v) * s * v).sum())(sf.ones(2)),
    "func.vjp": lambda f, s: pulled_back(lambda v: f(v) * s * v),
    "func.jvp": lambda f, s: sf.func.jvp(lambda v: f(v) * s * v, (sf.ones(2),), (sf.ones(2),))[1],
    "func.jacrev": lambda f, s: sf.func.jacrev(lambda v: f(v) * s * v)(sf.ones(2)),
    "jacobian": lambda f, s: sf.autograd.functional.jacobian(lambda v: f(v) * s * v, sf.ones(2)),
    "vjp": lambda f, s: sf.autograd.functional.vjp(lambda v: f(v) * s * v, sf.ones(2), sf.ones(2))[1],
    "utils.checkpoint": lambda f, s: sf.utils.checkpoint.checkpoint(lambda v: f(v) * s, sf.ones(2)),
    "nested": lambda f, s: sf.map(
        lambda x: sf.fori_loop(0, 2, lambda i, c: f(c) * s, x), sf.ones(3, 2)
    ),
}  # fmt: skip

# that call their function more often than once to trace it
MORE_CALLS = {"condition": 2, "associative_scan": 2, "checkpoint": 1}


@contextmanager
def unchanged(world: World, capsys: Any) -> Iterator[None]:
    """A block that changes and prints nothing."""
    capsys.readouterr()
    before = world.state()
    yield
    assert world.state() == before
    assert capsys.readouterr().out == ""


def after_a_run(construct: str, effect: str, capsys: Any) -> tuple[list[Any], list[Any], str]:
    """The eager results, and what was changed and printed."""
    world = World()
    capsys.readouterr()
    value = CONSTRUCTS[construct](getattr(world, effect), sf.tensor([0.5, 0.75]))
    return value.detach().tolist(), world.state(), capsys.readouterr().out


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_an_effect_waits_for_the_call(construct: str, effect: str, capsys: Any) -> None:
    wanted, changed, printed = after_a_run(construct, effect, capsys)
    world = World()
    s = sf.placeholder((2,), name="s")
    with unchanged(world, capsys):
        result = CONSTRUCTS[construct](getattr(world, effect), s)
        program = sf.compile([s], result)
    value = program(sf.tensor([0.5, 0.75]))
    np.testing.assert_allclose(value.tolist(), wanted, 1e-5, 1e-6)
    for mine, theirs in zip(world.state(), changed, strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-5, 1e-6)
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_a_change_is_refused(construct: str, change: str, capsys: Any) -> None:
    world = World()
    f = partial(world.change, change=CHANGES[change])
    s = sf.placeholder((2,), name="s")
    with unchanged(world, capsys), pytest.raises(SymbolicError, match="test_loop_effects"):
        CONSTRUCTS[construct](f, s)
    with unchanged(world, capsys), pytest.raises(SymbolicError, match="test_loop_effects"):
        sf.jit(f)(sf.ones(2))


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_a_function_is_called_to_be_traced_and_not_before(construct: str) -> None:
    world = World()
    CONSTRUCTS[construct](world.counts, sf.placeholder((2,), name="s"))
    assert world.calls <= MORE_CALLS.get(construct, 1)


# of a tensor that a loop begins with, and that its function changes in place
IN_PLACE: dict[str, Callable[[Any], Any]] = {
    "carry of scan": lambda x: sf.scan(lambda c, r: (c.add_(r), c * 1), x, sf.ones(3, 2))[0],
    "carry of while": lambda x: sf.while_loop(lambda c: c.sum() < 99, lambda c: c.mul_(2), x),
    "carry of fori": lambda x: sf.fori_loop(0, 3, lambda i, c: c.mul_(2), x),
}


@pytest.mark.parametrize("case", IN_PLACE)
def test_a_change_of_a_carry_stays_in_the_loop(case: str) -> None:
    x, s = sf.tensor([1.0, 2.0]), sf.placeholder((2,), name="s")
    wanted = sf.compile([s], IN_PLACE[case](s))(x).tolist()
    assert IN_PLACE[case](x).tolist() == wanted
    assert x.tolist() == [1.0, 2.0]


def test_a_row_cannot_be_changed() -> None:
    x = sf.tensor([1.0, 2.0])
    for run in (
        lambda: sf.map(lambda r: r.mul_(2), x),
        lambda: sf.associative_scan(lambda a, b: a.add_(b), x),
    ):
        with pytest.raises(sf.AutogradError, match=r"read-only; change a clone, at .*loop_effects"):
            run()
    assert x.tolist() == [1.0, 2.0]
    last, _ = sf.scan(lambda c, r: (r, None), x[0], x)
    last.add_(5)  # is the caller's own
    assert x.tolist() == [1.0, 2.0]
