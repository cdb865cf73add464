"""Scans over batches of rows that end at different times: every combination of lengths, lags, ends
and direction, against the rows computed one by one, with gradients."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ShapeError

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(5)

LAGS = {"xs": (0, 2), "ys": (1, 3)}
BEFORE = 3
"""Rows of ``ys_init``."""

COMBINATIONS = [
    (lagged, ends, reverse, checkpoint)
    for lagged, ends, reverse in itertools.product(
        (False, True), (None, "each", "all"), (False, True)
    )
    for checkpoint in (None, 2 if reverse else "sqrt")
    if ends or checkpoint is None
]

every_combination = pytest.mark.parametrize(
    "how", COMBINATIONS, ids=lambda h: "-".join(map(str, h))
)


def scanned(xs: Any, w: Any, h: Any, before: Any, lengths: Any, how: Any) -> Any:
    lagged, ends, reverse, checkpoint = how

    def step(h: Any, x: Any, past: Any = ()) -> Any:
        now = (h @ w + (x[0] - 0.5 * x[1] if lagged else x)).tanh()
        y = now + 0.3 * past[0] - 0.2 * past[1] if lagged else now * 1.0
        return now, {"y": y, "of": y.sum(1)}

    def until(h: Any, y: Any) -> Any:
        over = y["y"].sum(1) + h.sum(1) > 1.5
        return over if ends == "each" else over.any()

    past = {"y": before, "of": before.sum(2)}
    last, ys = sf.scan(
        lambda h, x, past=None: step(h, x, past and [p["y"] for p in past]),
        h, xs, lengths=lengths, reverse=reverse, until=until if ends else None,
        taps=LAGS if lagged else None, ys_init=past if lagged else None, checkpoint=checkpoint,
    )  # fmt: skip
    return last, ys["y"], ys["of"]


def one_by_one(xs: Array, w: Array, h: Array, before: Array, lengths: Array, how: Any) -> Any:
    """The same, each row by itself, in the order in which steps are made."""
    lagged, ends, reverse, _ = how
    longest = 2 if lagged else 0
    steps, batch = max(len(xs) - longest, 0), len(h)
    last, ys = h.copy(), np.zeros((steps, *h.shape))
    past = [list(before[:, b]) for b in range(batch)]
    over = [False] * batch
    made = 0
    for t in reversed(range(steps)) if reverse else range(steps):
        made += 1
        going = [b for b in range(batch) if t < lengths[b] - longest and not over[b]]
        answers = {}
        for b in going:
            x = xs[t, b]
            if lagged:
                x = xs[t, b] - 0.5 * xs[t + 2, b] if reverse else xs[t + 2, b] - 0.5 * xs[t, b]
            last[b] = np.tanh(last[b] @ w + x)
            ys[t, b] = last[b] + (0.3 * past[b][-1] - 0.2 * past[b][-3] if lagged else 0)
            past[b].append(ys[t, b])
            answers[b] = ys[t, b].sum() + last[b].sum() > 1.5
        if not ends:
            continue
        for b in range(batch):
            over[b] |= any(answers.values()) if ends == "all" else answers.get(b, False)
        left = [t + 1 < n - longest if not reverse else n - longest > 0 for n in lengths]
        if not any(more and not o for more, o in zip(left, over, strict=True)):
            break
    ys = ys[steps - made :] if reverse else ys[:made]
    return last, ys, ys.sum(2)


@cache
def program_of(how: Any) -> Any:
    x = sf.placeholder(("T", "B", 3), "float64", name="x")
    w, h = (
        sf.placeholder((3, 3), "float64", name="w"),
        sf.placeholder(("B", 3), "float64", name="h"),
    )
    before = sf.placeholder((BEFORE, "B", 3), "float64", name="before")
    lengths = sf.placeholder(("B",), "int64", name="lengths")
    outs = scanned(x, w, h, before, lengths, how)
    grads = sf.grad(loss_of(outs), [x, w, h])
    return sf.compile([x, w, h, before, lengths], [*outs, *grads])


def loss_of(outs: Any) -> Any:
    last, ys, of = outs
    return last.sin().sum() + (ys * ys).sum() + of.sum()


def given_of(steps: int, batch: int) -> list[Array]:
    shapes = ((steps, batch, 3), (3, 3), (batch, 3), (BEFORE, batch, 3))
    return [*(rng.normal(size=s) for s in shapes), rng.integers(0, steps + 1, batch)]


SIZES = [(7, 4), (6, 1), (2, 3), (1, 1), (0, 2), (4, 0)]


@every_combination
def test_rows_as_they_are_one_by_one(how: Any) -> None:
    program = program_of(how)
    for steps, batch in SIZES:
        given = given_of(steps, batch)
        if how[0] and steps < 2:  # no row of the xs is two steps back
            continue
        got = [v.numpy() for v in program(*given)]
        wanted = one_by_one(*given, how)
        eager = scanned(*map(sf.tensor, given), how)
        for a, b, c in zip(got, wanted, eager, strict=False):
            np.testing.assert_allclose(a, b, 1e-9, 1e-12, err_msg=f"{steps=} {batch=}")
            np.testing.assert_allclose(c.numpy(), b, 1e-9, 1e-12, err_msg=f"{steps=} {batch=}")
    assert program.compile_count == 1


@every_combination
def test_gradients_of_rows(how: Any) -> None:
    program = program_of(how)
    for steps, batch in SIZES[:3]:
        given = given_of(steps, batch)
        got = [v.numpy() for v in program(*given)][3:]
        leaves = [sf.tensor(a, requires_grad=True) for a in given[:3]]
        loss_of(scanned(*leaves, *map(sf.tensor, given[3:]), how)).backward()
        for a, leaf in zip(got, leaves, strict=True):
            wanted = 0 if leaf.grad is None else leaf.grad.numpy()
            np.testing.assert_allclose(a, wanted, 1e-9, 1e-12, err_msg=f"{steps=} {batch=}")
        for which in (0, 1, 2):
            if not given[which].size:
                continue
            at = tuple(rng.integers(0, n) for n in given[which].shape)
            ends = []
            for sign in (1, -1):
                moved = [a.copy() for a in given]
                moved[which][at] += sign * 1e-6
                last, ys, of = (v.numpy() for v in program(*moved)[:3])
                ends.append(np.sin(last).sum() + (ys * ys).sum() + of.sum())
            np.testing.assert_allclose(got[which][at], (ends[0] - ends[1]) / 2e-6, 1e-5, 1e-6)


def test_cost_follows_the_rows_that_go_on() -> None:
    """A row that is over is not computed any more, whatever its length."""
    seen = []

    def step(h: Any, x: Any) -> Any:
        seen.append(x.shape[0])
        return h + x, h + x

    xs = sf.tensor([[1.0, 5.0, 1.0, 2.0]] * 6)
    last, ys = sf.scan(
        step, sf.zeros(4), xs, lengths=sf.tensor([2, 6, 0, 6]), until=lambda c, y: y >= 6
    )
    assert seen == [3, 3, 1]
    assert last.tolist() == [2, 10, 0, 6]
    assert ys.tolist() == [[1, 5, 0, 2], [2, 10, 0, 4], [0, 0, 0, 6]]


def test_lags_in_reverse_are_of_later_rows() -> None:
    xs = sf.tensor([1.0, 2.0, 4.0, 8.0])
    _, ys = sf.scan(lambda c, x: (c, x[0] - x[1]), (), xs, taps={"xs": (0, 1)}, reverse=True)
    assert ys.tolist() == [-1, -2, -4]


@pytest.mark.parametrize("wrong", [-1, 4])
@pytest.mark.parametrize("taps", [None, {"xs": (0, 1)}], ids=["plain", "lagged"])
@pytest.mark.parametrize("until", [None, lambda c, y: y > 9], ids=["all", "until"])
def test_lengths_that_there_are_no_steps_for(wrong: int, taps: Any, until: Any) -> None:
    def scanned(xs: Any, lengths: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            return c + (x[0] if taps else x), c

        return sf.scan(step, sf.zeros(2), xs, lengths=lengths, taps=taps, until=until)[0]

    xs, lengths = sf.placeholder((None, 2), name="xs"), sf.placeholder((2,), "int32", name="l")
    f = sf.compile([xs, lengths], scanned(xs, lengths))
    rows, given = sf.ones(3, 2), sf.tensor([2, wrong], dtype=sf.int32)
    said = rf"test_loops_rows.*\(it is {wrong}; it must be in 0\.\.3\)"
    with pytest.raises(ShapeError, match=said):
        f(rows, given)
    with pytest.raises(
        ShapeError, match=rf"one of the lengths is {wrong}, where .* 3 iterations.*at "
    ):
        scanned(rows, given)
    good = sf.tensor([2, 3])
    assert f(rows, good.to(sf.int32)).tolist() == scanned(rows, good).tolist()


@pytest.mark.parametrize("until", [None, lambda c, y: y > 9], ids=["all", "until"])
def test_as_many_lengths_as_rows(until: Any) -> None:
    def scanned(h: Any, xs: Any, lengths: Any) -> Any:
        return sf.scan(lambda c, x: (c + x, c), h, xs, lengths=lengths, until=until)[1]

    made = (sf.placeholder((None,), name="h"), sf.placeholder((None, None), name="xs"))
    lengths = sf.placeholder((None,), "int64", name="lengths")
    f = sf.compile([*made, lengths], scanned(*made, lengths))
    right = (sf.ones(2), sf.ones(3, 2), sf.tensor([3, 1]))
    assert f(*right).tolist() == scanned(*right).tolist()
    for i, wrong in enumerate((sf.ones(3), sf.ones(3, 4), sf.tensor([3, 1, 1]))):
        given = [*right[:i], wrong, *right[i + 1 :]]
        with pytest.raises(ShapeError, match=r"must be equal|wants"):
            f(*given)
        with pytest.raises(
            ShapeError, match=r"(carry|xs) has \d rows in dim \d, and there are \d len"
        ):
            scanned(*given)
    zeros = sf.compile([made[1], lengths], scanned(sf.zeros(2), made[1], lengths))
    assert zeros(*right[1:]).tolist() == scanned(sf.zeros(2), *right[1:]).tolist()
    with pytest.raises(ShapeError, match=r"must be equal|wants"):
        zeros(sf.ones(3, 4), sf.tensor([3, 1, 1, 0]))
    with pytest.raises(ShapeError, match="carry has the batch as dim 0, and it is 0-d"):
        scanned(sf.tensor(0.0), *right[1:])


def test_an_answer_that_is_none() -> None:
    with pytest.raises(ShapeError, match="gives a bool for each row that goes on"):
        sf.scan(lambda c, x: (c, x), sf.zeros(2), sf.ones(3, 2), lengths=sf.tensor([1, 2]),
                until=lambda c, y: y)  # fmt: skip
