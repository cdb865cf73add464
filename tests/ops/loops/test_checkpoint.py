"""Loops that keep less and compute more: the same numbers, fewer bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import pytree
from staticflow.errors import ArgumentError


def cell(carry: Any, x: Any) -> tuple[Any, Any]:
    after = sf.tanh(carry * 0.9 + x)
    return after, after * x


def program(length: Any, second: bool = False, reverse: bool = False, **how: Any) -> sf.Program:
    """A loop over rows of 8, its ys, and the gradients (of the gradient, if ``second``)."""
    x = sf.placeholder((length, 8), "float64", name="x")
    c = sf.placeholder((8,), "float64", name="c")
    last, ys = sf.scan(cell, c, x, reverse=reverse, **how)
    loss = (last * last).sum() + (ys * ys).sum()
    grads = sf.grad(loss, [x, c])
    if second:
        grads = sf.grad(sum((g * g).sum() for g in grads), [x, c])
    return sf.compile([x, c], (last, ys, *grads))


def data(length: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(length)
    return rng.standard_normal((length, 8)), rng.standard_normal(8)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("how", ["all", "sqrt", 1, 3, 100, lambda n: n // 2])
def test_a_scan_gives_the_same_numbers_for_every_length(how: Any, reverse: bool) -> None:
    plain = program(None, reverse=reverse)
    kept = program(None, reverse=reverse, checkpoint=how)
    for length in (0, 1, 2, 3, 7, 9, 10):
        for a, b in zip(plain(*data(length)), kept(*data(length)), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-12, 1e-12)
    assert kept.compile_count == 1


@pytest.mark.parametrize("how", ["sqrt", 3])
def test_second_derivatives(how: Any) -> None:
    plain, kept = program(None, second=True), program(None, second=True, checkpoint=how)
    for length in (0, 1, 7):
        for a, b in zip(plain(*data(length)), kept(*data(length)), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-10, 1e-10)


def peak(length: Any, sizes: dict[str, int], **how: Any) -> int:
    """The bytes that the gradient of a loop with a wide carry needs."""
    x = sf.placeholder((length,), "float64", name="x")
    c = sf.placeholder((1000,), "float64", name="c")
    last, _ = sf.scan(lambda c, x: (sf.tanh(c + x), None), c, x, **how)
    return sf.compile([x, c], sf.grad(last.sum(), [c])).plan.peak_bytes(**sizes)


def test_the_root_of_the_iterations_is_kept() -> None:
    carry = 8000
    assert peak(400, {}) > 400 * carry
    assert peak(400, {}, checkpoint="sqrt") < 50 * carry
    unknown = {"x_0": 400}
    assert peak(None, unknown, checkpoint="sqrt") < 70 * carry
    assert peak(None, {"x_0": 10_000}, checkpoint="sqrt") < 320 * carry


def test_a_budget_is_kept() -> None:
    carry = 8000
    for budget in (100 * carry, 200 * carry):
        for length in (400, None):
            assert peak(length, {"x_0": 400}, memory_budget=budget) < budget - carry
    assert peak(4, {}, memory_budget=100 * carry) == peak(4, {})


def collatz_like(checkpoint: Any) -> sf.Program:
    """A loop whose iterations follow from the data: x grows by itself until it is large."""
    x = sf.placeholder((), "float64", name="x")
    w = sf.placeholder((), "float64", name="w")
    last = sf.while_loop(
        lambda x: x < 100, lambda x: x * w + 1 + sf.sin(x), x, checkpoint=checkpoint
    )
    first = sf.grad(last, [x, w])
    return sf.compile([x, w], (last, *first, *sf.grad(first[0] * first[1], [x, w])))


@pytest.mark.parametrize("how", ["sqrt", 1, 4])
def test_a_while_loop_gives_the_same_numbers(how: Any) -> None:
    plain, kept = collatz_like(None), collatz_like(how)
    for x, w in ((200.0, 2.0), (60.0, 2.0), (1.5, 1.5), (1.0, 1.05)):
        for a, b in zip(plain(x, w), kept(x, w), strict=True):
            np.testing.assert_allclose(a.item(), b.item(), 1e-9)


def ending(reverse: bool = False, checkpoint: Any = None) -> sf.Program:
    """A loop over rows of 1000 that ends when their sum so far is large; ys, and gradients
    twice."""
    x = sf.placeholder(("n",), "float64", name="x")
    c = sf.placeholder((1000,), "float64", name="c")
    (last, _), ys = sf.scan(
        lambda c, x: (((c[0] * c[0] + x).sin(), c[1] + x), {"x": x * x, "c": c[0].sum()}),
        (c, c.sum() * 0), x, reverse=reverse, until=lambda c, y: c[1] > 100, checkpoint=checkpoint,
    )  # fmt: skip
    loss = (last * last).sum() + (ys["x"] * ys["c"]).sum()
    first = sf.grad(loss, [x, c])
    second = sf.grad(sum((g * g).sum() for g in first), c)
    return sf.compile([x, c], (last, ys, first, second))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("how", ["sqrt", 4])
def test_a_loop_that_ends_early_gives_the_same_numbers(how: Any, reverse: bool) -> None:
    plain, kept = ending(reverse), ending(reverse, how)
    c = np.linspace(0, 1, 1000)
    for x in ((), (101.0,), (1.0,) * 7, (60.0, 1.0, 60.0, 1.0, 60.0, 3.0), (50.0,) * 9):
        wanted, got = (pytree.flatten(p(np.array(x), c))[0] for p in (plain, kept))
        for a, b in zip(wanted, got, strict=True):
            np.testing.assert_allclose(b.numpy(), a.numpy(), 1e-9, 1e-12, err_msg=str(x))
    assert kept.compile_count == 1


def test_a_loop_that_ends_early_keeps_the_root_of_its_rows() -> None:
    plain, kept = ending(), ending(checkpoint="sqrt")
    for program in (plain, kept):
        program(np.full(900, 0.01), np.ones(1000))
    assert 6 * kept.held_bytes < plain.held_bytes


def test_tensors_take_the_same_arguments() -> None:
    carry, ys = sf.scan(cell, sf.zeros(8), sf.ones(5, 8), checkpoint="sqrt")
    assert carry.shape == (8,) and ys.shape == (5, 8)
    assert sf.while_loop(lambda x: x < 9, lambda x: x * 2, sf.tensor(1.0), checkpoint=2) == 16


def refused(call: Callable[[], Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()


def test_what_is_refused() -> None:
    x = sf.placeholder((None,), name="x")
    step = lambda c, x: (c + x, None)  # noqa: E731
    for wrong in (0, -3, True, "log", 2.5):
        refused(lambda w=wrong: sf.scan(step, x[0], x, checkpoint=w), ArgumentError, "sqrt")
    refused(
        lambda: sf.scan(step, x[0], x, checkpoint=2, memory_budget=5), ArgumentError, "not both"
    )
