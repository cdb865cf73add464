"""Programs of open sizes in which it shows late, and of sizes that were computed with meanwhile, that
two are equal or that one is a number: the graph keeps its rules through every pass, and the program
gives what the operations give eagerly."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slices import today

import staticflow as sf
from staticflow.config import config
from staticflow.errors import StaticflowError

SIZES = (1, 2, 3)
A_DAY = 40


class Pair:
    """A value in both modes."""

    def __init__(self, eager: Any, symbol: Any) -> None:
        self.eager, self.symbol = eager, symbol

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.eager.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def is_literal(self, dim: int) -> bool:
        return isinstance(self.symbol.shape[dim], int)


def meet(x: Pair, y: Pair) -> bool:
    """Whether two broadcast, where only a literal 1 stretches."""
    for i in range(-min(x.ndim, y.ndim), 0):
        a, b = x.shape[i], y.shape[i]
        if a != b and not (a == 1 and x.is_literal(i)) and not (b == 1 and y.is_literal(i)):
            return False
    return True


Form = Callable[[random.Random, Pair, Pair], Callable[[Any, Any], Any] | None]


def _flat(chance: random.Random, x: Pair, y: Pair) -> Any:
    shape = chance.choice([(-1,), (-1, 1), (1, -1)])
    return lambda a, b: a.reshape(*shape)


def _swapped(chance: random.Random, x: Pair, y: Pair) -> Any:
    return (lambda a, b: a.transpose(0, 1)) if x.ndim > 1 else None


def _summed(chance: random.Random, x: Pair, y: Pair) -> Any:
    dim, keepdim = chance.randrange(max(x.ndim, 1)), chance.random() < 0.5
    return (lambda a, b: a.sum(dim=dim, keepdim=keepdim)) if x.ndim else None


def _row(chance: random.Random, x: Pair, y: Pair) -> Any:
    return (lambda a, b: a[0]) if x.ndim > 1 else None


def _combined(chance: random.Random, x: Pair, y: Pair) -> Any:
    forms: list[Any] = [
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: sf.where(a > b, a, b),
        sf.maximum,
    ]
    return chance.choice(forms) if meet(x, y) else None


def _dotted(chance: random.Random, x: Pair, y: Pair) -> Any:
    return sf.dot if x.ndim == y.ndim == 1 and x.shape == y.shape else None


def _ones(chance: random.Random, x: Pair, y: Pair) -> Any:
    """What meets a number of ones, which tells a size."""
    if not x.ndim:
        return None
    n = x.shape[-1]
    forms: list[Any] = [
        lambda a, b: a @ sf.ones(n),
        lambda a, b: a @ sf.ones(n, 2),
        lambda a, b: sf.cat([sf.ones(n), a.reshape(-1, n)[0]]) if a.ndim > 1 else a + sf.ones(n),
        lambda a, b: sf.dot(sf.ones(n), a.flatten()[: a.shape[-1]]),
    ]
    return chance.choice(forms[: 4 if n else 3])


def _multiplied(chance: random.Random, x: Pair, y: Pair) -> Any:
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
        return None
    return chance.choice([sf.matmul, lambda a, b: sf.einsum("ij,jk->ik", a, b)])


def _paired(chance: random.Random, x: Pair, y: Pair) -> Any:
    if x.shape != y.shape or x.ndim != 2:
        return None
    return chance.choice(
        [
            lambda a, b: sf.einsum("ij,ij->i", a, b),
            lambda a, b: sf.einsum("ij,kj->ik", a, b),
            lambda a, b: sf.stack([a, b]).sum(dim=0),
        ]
    )


def _joined(chance: random.Random, x: Pair, y: Pair) -> Any:
    if not x.ndim or x.ndim != y.ndim:
        return None
    dim = chance.randrange(x.ndim)
    if any(a != b for i, (a, b) in enumerate(zip(x.shape, y.shape, strict=True)) if i != dim):
        return None
    return lambda a, b: sf.cat([a, b], dim=dim)


def _chosen(chance: random.Random, x: Pair, y: Pair) -> Any:
    """A value of a size that only the run knows, which meets one that is known."""
    if x.ndim != 1 or y.ndim != 1 or int((x.eager > 0).sum()) != y.shape[0]:
        return None
    return lambda a, b: a[a > 0] * b


def _ran(chance: random.Random, x: Pair, y: Pair) -> Any:
    """A value that meets another one in a loop, or in a branch."""
    if not x.ndim or x.shape != y.shape:
        return None
    return chance.choice(
        [
            lambda a, b: sf.scan(lambda c, row: (c + row, c * 2), a[0] * 0, b)[1],
            lambda a, b: sf.fori_loop(0, 2, lambda i, c: c + b, a),
            lambda a, b: sf.cond(a.sum() > b.sum(), lambda: a + b, lambda: b * 2),
        ]
    )


FORMS: tuple[Form, ...] = (
    _flat, _flat, _swapped, _summed, _row, _combined, _combined, _combined, _dotted, _ones, _ones,
    _multiplied, _paired, _joined, _ran, _chosen, _chosen,
)  # fmt: skip

MOST = 1e4


class Drawn:
    """A program: placeholders of open sizes, arrays for them, and ``values`` in both modes."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.inputs: list[Any] = []
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.values: list[Pair] = []
        sizes = [chance.choice(SIZES) for _ in range(2)]
        for name in "xyz":  # of as many elements, each in a shape of its own
            shape = chance.choice([[sizes[0] * sizes[1]], [*sizes]]) + [1] * chance.randint(0, 1)
            chance.shuffle(shape)
            self.inputs.append(sf.placeholder((None,) * len(shape), name=name))
            values = np.random.default_rng(chance.getrandbits(32)).integers(0, 3, shape)
            self.arrays.append(values.astype("f"))
            self.values.append(Pair(sf.tensor(self.arrays[-1]), self.inputs[-1]))
        one, other = chance.sample(self.values, 2)
        flat = _flat(chance, one, other)
        self.add(lambda x, y: flat(x, y) * flat(y, x), one, other)
        for form in (_ones, *(chance.choice(FORMS) for _ in range(chance.randint(0, 8)))):
            x, y = chance.choice(self.values), chance.choice(self.values)
            apply = form(chance, x, y)
            if apply is not None:
                self.add(apply, x, y)

    def add(self, apply: Callable[[Any, Any], Any], x: Pair, y: Pair) -> None:
        """One more value, unless it is known that sizes differ in it, or numbers grow large."""
        eager = apply(x.eager, y.eager)
        with contextlib.suppress(StaticflowError):
            made = Pair(eager, apply(x.symbol, y.symbol))
            if abs(eager.numpy()).max(initial=0) < MOST:
                self.values.append(made)


def check(seed: str) -> None:
    drawn = Drawn(random.Random(seed))
    with config.change(verify=True):
        step = sf.compile(drawn.inputs, [v.symbol for v in drawn.values])
        programs = [step, saved(step)] if drawn.chance.random() < 0.3 else [step]
    for program in programs:
        for found, wanted in zip(program(*drawn.arrays), drawn.values, strict=True):
            assert found.tolist() == wanted.eager.tolist()


def saved(step: Any) -> Any:
    """The program as another process would read it."""
    file = io.BytesIO()
    step.save(file)
    file.seek(0)
    return sf.load_program(file)


@pytest.mark.parametrize("seed", range(A_DAY))
def test_sizes_that_show_late_to_be_equal(seed: int) -> None:
    check(f"{today()} {seed}")


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(100))
def test_many_sizes_that_show_late_to_be_equal(seed: int) -> None:
    for number in range(100):
        check(f"campaign {seed} {number}")


def test_a_product_of_sizes_that_is_one_size_once_another_is_1() -> None:
    x, t = sf.placeholder((None, None), name="x"), sf.placeholder((None, None), name="t")
    wide = x.reshape(-1, 1) * t.reshape(-1, 1) * sf.ones(3)
    step = sf.compile([x, t], [wide, sf.dot(sf.ones(1), t[0])])
    a, b = np.arange(6, dtype="f").reshape(2, 3), np.arange(6, dtype="f").reshape(6, 1)
    first, second = step(a, b)
    assert first.tolist() == (a.reshape(6, 1) * b * np.ones(3)).tolist() and second.item() == 0
    with pytest.raises(sf.ShapeError, match="x_0\\*x_1 and t_0\\*t_1 must be equal"):
        step(a, b[:5])


def test_a_size_that_only_the_run_knows_meets_another_in_a_file() -> None:
    x, y = sf.placeholder((None,), name="x"), sf.placeholder((None,), name="y")
    chosen = x[x > 0] * y
    again = saved(sf.compile([x, y], [chosen, chosen.cumsum(0)]))
    a = np.array([1, -1, 2], "f")
    assert [v.tolist() for v in again(a, np.array([3, 4], "f"))] == [[3, 8], [3, 11]]
    with pytest.raises(sf.ShapeError, match="selected and y_0 must be equal"):
        again(a, np.ones(3, "f"))
