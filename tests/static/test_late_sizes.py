"""Sizes that only the run can tell: whatever has one stays behind what binds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ShapeError

VECTOR = np.array([1.0, -2.0, 3.0, -0.5])
MATRIX = np.array([[1.0, -1.0, 2.0], [2.0, 3.0, -1.0], [-1.0, -2.0, -3.0]])


def positive(x: Any) -> Any:
    return x[x > 0]


def count(x: Any) -> Any:
    return positive(x).shape[0]


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (lambda x, c: sf.zeros_like(positive(x)), [0.0, 0.0]),
        (lambda x, c: sf.arange(count(x)), [0, 1]),
        (lambda x, c: sf.ones(count(x), 2) * c, [[3.0, 3.0], [3.0, 3.0]]),
        (lambda x, c: c.expand(count(x)), [3.0, 3.0]),
        (lambda x, c: c * count(x), 6.0),
        (lambda x, c: sf.eye(count(x)), [[1.0, 0.0], [0.0, 1.0]]),
        (lambda x, c: sf.cat([x[x > 0], x[x < 0]]), [1.0, 3.0, -2.0, -0.5]),
        (lambda x, c: sf.zeros(count(x), count(-x)), [[0.0, 0.0], [0.0, 0.0]]),
        (lambda x, c: sf.scan(lambda a, _: (a * c, a), c, length=count(x))[1], [3.0, 9.0]),
        (lambda x, c: sf.fori_loop(0, count(x), lambda i, a: a * c, c), 27.0),
        (lambda x, c: sf.cond(c > 0, lambda: sf.arange(count(x)).sum(), lambda: count(x)), 1),
    ],
    ids=[
        "zeros_like", "arange", "ones", "expand", "number", "eye", "cat", "two", "scan", "fori",
        "cond",
    ],
)  # fmt: skip
def test_nothing_else_needs_what_binds_it(made: Callable[..., Any], want: Any) -> None:
    x, c = sf.placeholder((None,), "float64", name="x"), sf.placeholder((), "float64", name="c")
    f = sf.compile([x, c], made(x, c))
    assert f(VECTOR, 3.0).tolist() == want
    f(np.zeros(0), 3.0)


def sums(x: Any, c: Any) -> Any:
    return (positive(x) + c).sum()


def products(x: Any, c: Any) -> Any:
    return (sf.ones(count(x), dtype=x.dtype) * c).prod() * c.expand(count(x)).sum()


def in_a_loop(x: Any, c: Any) -> Any:
    def step(a: Any, row: Any) -> Any:
        return a * c + sums(row, c * a), products(row, c)

    last, ys = sf.scan(step, c, x)
    return last + ys.sum()


def in_a_branch(x: Any, c: Any) -> Any:
    return sf.cond(c > 0, lambda: sums(x[0], c) * c, lambda: products(x[1], c))


def in_a_branch_of_a_loop(x: Any, c: Any) -> Any:
    def step(a: Any, row: Any) -> Any:
        return a + sf.cond(row[0] > 0, lambda: sums(row, c * a), lambda: products(row, c * a)), ()

    return sf.scan(step, c, x)[0]


def of_a_size_from_outside(x: Any, c: Any) -> Any:
    n = count(x[0])
    return sf.scan(lambda a, row: (a + (c * a).expand(n).sum() * row.sum(), None), c, x)[0]


def iterations(x: Any, c: Any) -> Any:
    _, ys = sf.scan(lambda a, r: (a * c + r.sum(), a), c, x, until=lambda a, y: a > 4)
    return (c * c).expand(ys.shape[0]).sum() + (sf.zeros_like(ys) + c).prod()


@pytest.mark.parametrize(
    "of", [in_a_loop, in_a_branch, in_a_branch_of_a_loop, of_a_size_from_outside, iterations]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_gradients_stay_behind_it(of: Callable[..., Any], sign: int) -> None:
    x = sf.placeholder((None, None), "float64", name="x")
    c = sf.placeholder((), "float64", name="c")
    value = of(x, c)
    first = sf.grad(value, [c, x], allow_unused=True)
    first = [first[0], sf.zeros_like(x) if first[1] is None else first[1]]
    (second,) = sf.grad(first[0], [c], allow_unused=True)
    forward = sf.autograd.functional.jvp(lambda c: of(x, c), c)[1]
    f = sf.compile([x, c], [value, *first, c * 0 if second is None else second, forward])
    at = sf.tensor(0.7 * sign, dtype="float64", requires_grad=True)
    rows = sf.tensor(sign * MATRIX, requires_grad=True)
    got = f(rows.detach(), at.detach())
    want = of(rows, at)
    np.testing.assert_allclose(got[0], want.detach(), rtol=1e-12)
    d_at, d_rows = sf.grad(want, [at, rows], allow_unused=True, create_graph=True)
    np.testing.assert_allclose(got[1], d_at.detach(), rtol=1e-12)
    np.testing.assert_allclose(got[4], d_at.detach(), rtol=1e-12)
    if d_rows is not None:
        np.testing.assert_allclose(got[2], d_rows.detach(), rtol=1e-12, atol=1e-15)
    if d_at.requires_grad:
        (again,) = sf.grad(d_at, [at], allow_unused=True)
        np.testing.assert_allclose(got[3], 0.0 if again is None else again.detach(), rtol=1e-12)


def test_the_new_value_of_a_variable() -> None:
    """It has the size of the variable, or nothing is updated."""
    w, v = sf.zeros(2, dtype=sf.float64), sf.ones(2, dtype=sf.float64)
    x = sf.placeholder((None,), "float64", name="x")
    f = sf.compile([x], positive(x).sum(), updates={w: positive(x) + sf.symbol(w), v: x[:2]})
    assert f(VECTOR).item() == 4.0
    assert (w.tolist(), v.tolist()) == ([1.0, 3.0], [1.0, -2.0])
    f(VECTOR)
    assert w.tolist() == [2.0, 6.0]
    with pytest.raises(sf.errors.ShapeError, match="selected and 2 must be equal"):
        f(abs(VECTOR))
    assert (w.tolist(), v.tolist()) == ([2.0, 6.0], [1.0, -2.0])


def test_a_gradient_by_what_has_such_a_size() -> None:
    x = sf.placeholder((None,), "float64", name="x")
    y = positive(x)
    assert sf.compile([x], sf.grad(y.sum(), y))(VECTOR).tolist() == [1.0, 1.0]


def test_a_branch_that_is_not_taken_may_not_give_a_size_of_its_own_in_either_mode() -> None:
    def choose(x: Any) -> Any:
        return sf.cond(x.sum() > 0, lambda: x * 2, lambda: positive(x))

    for run in (choose, sf.jit(choose)):
        with pytest.raises(ShapeError, match=r"a size that only the inside can tell.*reduce it"):
            run(sf.tensor(VECTOR))


@pytest.mark.parametrize("rows", [2, 3, 7])
def test_a_loop_that_ends_early_is_differentiated_where_jit_knows_the_rows(rows: int) -> None:
    """The bound of its iterations names the size of the rows, for which a number is put."""

    def f(xs: Any, y: Any) -> Any:
        last, _ = sf.scan(lambda c, x: (c * x.sum(), c), y, xs, until=lambda c, y: c.sum() > 5)
        return last.tanh().sum()

    def step(xs: Any, y: Any) -> Any:
        return sf.grad(f(xs, y), [xs, y])

    xs, y = np.full((rows, 3), 0.7, np.float32), np.full(2, 0.9, np.float32)
    leaves = [sf.tensor(a, requires_grad=True) for a in (xs, y)]
    f(*leaves).backward()
    for got, leaf in zip(sf.jit(step)(xs, y), leaves, strict=True):
        np.testing.assert_allclose(got.numpy(), leaf.grad.numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    "shaped",
    [
        lambda y: y.repeat(2)[2:], lambda y: sf.cat([y, y * 2, y[:1]]), lambda y: y.repeat(2, 3),
        lambda y: sf.nn.functional.pad(y, (1, 2)), lambda y: sf.outer(y, y).reshape(-1),
        lambda y: y.unfold(0, 2, 1), lambda y: y[1:], lambda y: sf.stack([y, y]).flatten(),
        lambda y: y.expand(3, y.shape[0]).mT, lambda y: y.diff(), lambda y: y.repeat_interleave(3),
    ],
    ids=["repeat", "cat", "rows", "pad", "outer", "unfold", "slice", "stack", "expand", "diff",
         "interleave"],
)  # fmt: skip
def test_a_result_whose_size_follows_from_it_has_a_gradient(shaped: Callable[..., Any]) -> None:
    """By jit, whose backward is given a cotangent of that size."""
    at = np.array([1.0, -2.0, 3.0, 0.5, -1.0])

    def made(x: Any) -> Any:
        return shaped(positive(x) * x.sum())

    x, y = (sf.tensor(at, requires_grad=True) for _ in range(2))
    eager, traced = made(x), sf.jit(made)(y)
    np.testing.assert_allclose(traced.tolist(), eager.tolist())
    for result in (eager, traced):
        (result * result).sum().backward()
    np.testing.assert_allclose(y.grad.tolist(), x.grad.tolist(), 1e-12)


@pytest.mark.parametrize(
    "beside",
    [
        lambda x, m: x.sum(1), lambda x, m: (x * m).sum(1), lambda x, m: x.masked_fill(~m, 0.0),
        lambda x, m: sf.where(m, x, -9.0).softmax(1), lambda x, m: x[~m], lambda x, m: x[m] * 2,
        lambda x, m: m.sum(1) * x[:, 0],
    ],
    ids=["no mask", "product", "fill", "softmax", "the others", "the same", "counts"],
)  # fmt: skip
def test_a_selection_beside_another_use_of_its_mask_has_a_gradient(
    beside: Callable[..., Any],
) -> None:
    """By jit, with a mask made of lengths: sizes that are known to be equal have one name then."""
    lengths = sf.tensor([2, 1, 3])

    def made(x: Any, lengths: Any) -> Any:
        m = sf.arange(x.shape[1])[None] < lengths[:, None]
        return beside(x, m), x[m]

    x, y = (sf.tensor(MATRIX, requires_grad=True) for _ in range(2))
    for results in (made(x, lengths), sf.jit(made)(y, lengths)):
        sf.autograd.backward([r.sin().sum() for r in results])
    np.testing.assert_allclose(y.grad.tolist(), x.grad.tolist(), 1e-12)
