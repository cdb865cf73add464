"""Sizes that are computed of others: one that comes out negative, or divides by 0, is an error that
names it, before anything is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.graph.interpret import interpret_graph


def two() -> tuple[Any, Any]:
    return sf.placeholder((None,), name="x"), sf.placeholder((None,), name="y")


def ones(n: int) -> Any:
    return np.ones(n, np.float32)


def filled(x: Any, y: Any) -> Any:
    return sf.cat([sf.full((x.shape[0] - y.shape[0],), 1.0), sf.full((y.shape[0],), 2.0)])


NEGATIVE = {
    "filled": filled,
    "stretched": lambda x, y: x.sum().expand(x.shape[0] - y.shape[0]).cumsum(0),
    "drawn": lambda x, y: sf.rand(x.shape[0] - y.shape[0], 3).sum(0),
    "of several": lambda x, y: sf.zeros(2, 2 * x.shape[0] - y.shape[0] - 1).sum(1),
}


@pytest.mark.parametrize("name", NEGATIVE)
@pytest.mark.parametrize("rows", [5, 1000, 1_000_000])
def test_a_negative_size_is_refused(name: str, rows: int) -> None:
    x, y = two()
    step = sf.compile([x, y], NEGATIVE[name](x, y))
    for _ in range(3):
        with pytest.raises(sf.ShapeError, match=rf"a size of .* must be at least 0.*{rows}"):
            step(ones(1), ones(rows))
    step(ones(5), ones(3))


def test_sizes_that_fit_are_as_before() -> None:
    x, y = two()
    step = sf.compile([x, y], filled(x, y))
    for n, m in ((4, 3), (4, 4), (4, 0), (0, 0)):
        assert step(ones(n), ones(m)).numpy().tolist() == [1.0] * (n - m) + [2.0] * m


def test_a_division_by_0_is_refused() -> None:
    x, y = two()
    step = sf.compile([x, y], sf.full((x.shape[0] // y.shape[0],), 1.0))
    for n in range(100, 120):
        with pytest.raises(sf.ShapeError, match="is divided by: y_0 must be at least 1"):
            step(ones(n), ones(0))
    assert step(ones(7), ones(2)).shape == (3,)


QUOTIENTS = {
    "an index": lambda z, q: z[q],
    "a place": lambda z, q: z.narrow(0, q, 2).exp(),
    "a number": lambda z, q: z * q,
    "iterations": lambda z, q: sf.scan(lambda c, _: (c + 1, None), z, None, length=q)[0],
    "what must be equal": lambda z, q: z[:3] + sf.full((q,), 1.0),
}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_a_division_by_0_is_refused_wherever_it_stands(name: str) -> None:
    (x, y), z = two(), sf.placeholder((None,), name="z")
    step = sf.compile([x, y, z], QUOTIENTS[name](z, x.shape[0] // y.shape[0]))
    step(ones(6), ones(2), ones(9))
    with pytest.raises(sf.ShapeError, match="is divided by: y_0 must be at least 1"):
        step(ones(5), ones(0), ones(9))


def test_jit_refuses_them_too() -> None:
    f = sf.jit(lambda x, y: sf.zeros(x.shape[0] - y.shape[0]).sum() + x.sum())
    assert f(sf.ones(5), sf.ones(3)).item() == 5
    for n, m in ((6, 2), (7, 3), (8, 4), (9, 5)):
        assert f(sf.ones(n), sf.ones(m)).item() == n
    with pytest.raises(sf.ShapeError):
        f(sf.ones(3), sf.ones(6))


def test_what_is_proved_is_not_checked() -> None:
    x = sf.placeholder((1, 1, None, None), name="x")
    c = sf.nn.Conv2d(1, 2, 3, stride=2)(x)
    step = sf.compile([x], [c, sf.grad(c.sum(), x), x[:, :, 1:], x.flatten()])
    assert not any("a size of" in e.reason for e in step.graph.equalities)


# -- inside of loops and branches ------------------------------------------------------------------


def joined(whole: Any, part: Any, c: Any) -> Any:
    """The sum of running sums over ``whole - part`` and ``part`` elements, which are ``c``."""
    return sf.cat([sf.full((whole - part,), 1.0) * c, sf.full((part,), 1.0) * c]).cumsum(0).sum()


def triangle(n: int) -> float:
    return n * (n + 1) / 2


@pytest.mark.parametrize("rows", [6, 1000, 1_000_000])
def test_a_body_refuses_a_negative_size(rows: int) -> None:
    x, y = two()
    n, m = x.shape[0], y.shape[0]
    last, _ = sf.scan(lambda c, r: (c + joined(n, m, r), None), sf.zeros(()), x)
    step = sf.compile([x, y], last)
    assert step(ones(5), ones(3)).item() == 5 * triangle(5)
    for _ in range(3):
        with pytest.raises(sf.ShapeError, match=r"a size of .* must be at least 0.*iteration 0"):
            step(ones(5), ones(rows))
    assert step(ones(0), ones(rows)).item() == 0, "of which no iteration runs, as eagerly"


@pytest.mark.parametrize("rows", [6, 1000, 1_000_000])
def test_a_branch_refuses_it_where_it_is_taken(rows: int) -> None:
    x, y = two()
    n, m = x.shape[0], y.shape[0]
    total = x.sum()
    beside = y.cumsum(0).cumsum(0)
    out = sf.cond(total > 0, lambda: joined(n, m, total / n), lambda: total)
    step = sf.compile([x, y], [out, beside.cumsum(0).sum()])
    wanted = float(np.cumsum(np.cumsum(np.cumsum(np.ones(rows)))).sum())
    for _ in range(3):
        value, other = step(-ones(5), ones(rows))
        assert value.item() == -5 and other.item() == pytest.approx(wanted, rel=1e-3)
        with pytest.raises(sf.ShapeError, match=r"a size of .* must be at least 0"):
            step(ones(5), ones(rows))
    assert step(ones(5), ones(3))[0].item() == triangle(5)


def counted(row: Any) -> Any:
    return (row > 0).nonzero().shape[0]


def late_in_a_body(p: Any, n: Any) -> Any:
    return sf.scan(lambda c, r: (c + joined(3, counted(r), c * 0 + 1), None), sf.zeros(()), p)[0]


def late_outside_and_inside(p: Any, n: Any) -> Any:
    three = counted(n)
    return sf.scan(lambda c, r: (c + joined(three, counted(r), c * 0 + 1), None), sf.zeros(()), p)[
        0
    ]


def late_in_a_loop_in_a_loop(p: Any, n: Any) -> Any:
    def outer(c: Any, r: Any) -> Any:
        most = counted(n)
        inner = sf.scan(
            lambda d, q: (d + joined(most, counted(q), d * 0 + 1), None), c, p[:1] * 0 + r
        )
        return inner[0], None

    return sf.scan(outer, sf.zeros(()), p)[0]


def late_in_an_endless_loop(p: Any, n: Any) -> Any:
    def body(i: Any, c: Any) -> Any:
        return i + 1, c + joined(3, counted(p[i]), c * 0 + 1)

    start = sf.zeros((), dtype="int64"), sf.zeros(())
    return sf.while_loop(lambda i, c: i < p.shape[0], body, start)[1]


LATE = [
    late_in_a_body,
    late_outside_and_inside,
    late_in_a_loop_in_a_loop,
    late_in_an_endless_loop,
]


@pytest.mark.parametrize("of", LATE)
@pytest.mark.parametrize("positive", range(7))
def test_sizes_that_only_the_loop_knows(of: Any, positive: int) -> None:
    p, n = sf.placeholder((None, 6), name="p"), sf.placeholder((None,), name="n")
    step = sf.compile([p, n], of(p, n))
    rows = -np.ones((4, 6), np.float32)
    rows[2, :positive] = 1
    for _ in range(3):
        if positive <= 3:
            assert step(rows, ones(3)).item() == 4 * triangle(3)
        else:
            with pytest.raises(sf.ShapeError, match=r"must be at least 0.*in iteration 2"):
                step(rows, ones(3))


def test_a_division_by_a_size_that_only_the_loop_knows() -> None:
    p, n = sf.placeholder((None, 6), name="p"), sf.placeholder((None,), name="n")

    def body(c: Any, r: Any) -> Any:
        return c + (sf.full((6 // counted(r),), 1.0) * (c * 0 + 1)).cumsum(0).sum(), None

    def of_outside(c: Any, r: Any) -> Any:
        return c + (sf.full((6 // counted(n),), 1.0) * (c * 0 + 1)).cumsum(0).sum(), None

    step = sf.compile([p, n], sf.scan(body, sf.zeros(()), p)[0])
    rows = np.ones((4, 6), np.float32)
    rows[1, 2:] = -1
    assert step(rows, ones(2)).item() == 3 + triangle(3)
    rows[3] = -1
    with pytest.raises(sf.ShapeError, match=r"is divided by.*at least 1.*in iteration 3"):
        step(rows, ones(2))
    step = sf.compile([p, n], sf.scan(of_outside, sf.zeros(()), p)[0])
    assert step(rows, ones(2)).item() == 4 * triangle(3)
    with pytest.raises(sf.ShapeError, match=r"is divided by.*at least 1"):
        step(rows, -ones(2))


def test_a_body_divides_by_a_size_of_the_caller() -> None:
    x, y = two()
    n, m = x.shape[0], y.shape[0]
    last, _ = sf.scan(lambda c, r: (c + (sf.full((n // m,), 1.0) * r).sum(), None), sf.zeros(()), x)
    step = sf.compile([x, y], last)
    assert step(ones(7), ones(2)).item() == 21
    with pytest.raises(sf.ShapeError, match="is divided by: y_0 must be at least 1"):
        step(ones(7), ones(0))


def summed(body: Any) -> Any:
    return lambda x, y, q: sf.scan(lambda c, r: (c + body(r, y, q), None), sf.zeros(()), x)[0]


def taken(of: Any) -> Any:
    """What is computed where the sum of x is above 0."""
    return lambda x, y, q: sf.cond(x.sum() > 0, lambda: of(x, y, q), lambda: x.sum())


WITHIN = {
    "an array in a branch": taken(lambda x, y, q: (sf.full((q,), 1.0) * x.sum()).cumsum(0).sum()),
    "a number in a branch": taken(lambda x, y, q: x.sum() * q),
    "iterations in a branch": taken(
        lambda x, y, q: sf.scan(lambda c, _: (c + x, None), x, None, length=q)[0].sum()
    ),
    "an array in a loop": summed(lambda r, y, q: (sf.full((q,), 1.0) * r).cumsum(0).sum()),
    "a number in a loop": summed(lambda r, y, q: r * q),
    "what no iteration changes": summed(
        lambda r, y, q: (sf.full((q,), 1.0) * y.sum()).exp().cumsum(0).sum()
    ),
    "a branch in a loop": summed(
        lambda r, y, q: sf.cond(r > 0, lambda: r * q, lambda: r)  # which is one kernel else
    ),
    "a counted loop": lambda x, y, q: sf.fori_loop(
        0, x.shape[0], lambda i, c: c + q, sf.zeros((), dtype="int64")
    ),
    "an endless loop": lambda x, y, q: sf.while_loop(
        lambda i, c: i < x.sum(), lambda i, c: (i + 1, c + q), (sf.zeros(()), sf.zeros(()))
    )[1],
}


@pytest.mark.parametrize("name", WITHIN)
@pytest.mark.parametrize("passes", [None, "-hoist,-unroll,-unswitch,-scalar_loops"])
def test_what_does_not_run_divides_by_nothing(name: str, passes: str | None) -> None:
    x, y = two()
    step = sf.compile([x, y], WITHIN[name](x, y, x.shape[0] // y.shape[0]), passes=passes)
    assert float(step(ones(6), ones(2))) == pytest.approx(
        float(WITHIN[name](sf.tensor(ones(6)), sf.tensor(ones(2)), 3))
    )
    idle = -ones(6) if "branch" in name and "loop" not in name else ones(0)
    assert float(step(idle, ones(0))) == idle.sum()
    for _ in range(2):
        with pytest.raises(sf.ShapeError, match="is divided by: y_0 must be at least 1"):
            step(ones(6), ones(0))
    captured = [t.numpy() for t in step.variables.values()]
    assert float(interpret_graph(step.graph, [idle, ones(0), *captured])[0]) == idle.sum()
    with pytest.raises(sf.ShapeError, match="x_0//y_0 is divided by 0"):
        interpret_graph(step.graph, [ones(6), ones(0), *captured])


def test_what_no_iteration_changes_stays_where_its_size_is_checked() -> None:
    x, y = two()
    more = x.shape[0] - y.shape[0]
    body = summed(lambda r, y, q: (sf.full((q,), 1.0) * y.sum()).exp().sum())
    step = sf.compile([x, y], body(x, y, more))
    assert step(ones(0), ones(5)).item() == 0
    with pytest.raises(sf.ShapeError, match="must be at least 0"):
        step(ones(3), ones(5))


@pytest.mark.parametrize("wrong", [-1, -1000])
def test_a_size_that_is_wrong_leaves_variables_as_they_were(wrong: int) -> None:
    n, v, w = sf.placeholder((), "int64", name="n"), sf.zeros(3), sf.zeros(())
    row = sf.zeros(n).cumsum(0).sum()
    step = sf.compile(
        [n],
        None,
        updates={
            v: sf.symbol(v) + 1,
            w: sf.scan(lambda c, _: (c + row, None), sf.symbol(w), None, length=2)[0],
        },
    )
    step(np.int64(3))
    with pytest.raises(sf.ShapeError):
        step(np.int64(wrong))
    assert v.tolist() == [1, 1, 1]


def test_a_size_that_is_wrong_inside_of_a_kernel_of_a_branch_leaves_variables_as_they_were() -> (
    None
):
    x, y = two()
    more = x.shape[0] - y.shape[0]
    for branch in (
        lambda: sf.rand(more).sum(),
        lambda: (sf.full((more,), 1.0) * x.sum()).exp().sum(),
    ):
        v = sf.zeros(3)
        out = sf.cond(x.sum() > 0, branch, lambda: x.sum())
        step = sf.compile([x, y], out, updates={v: sf.symbol(v) + 1})
        step(ones(5), ones(3))
        with pytest.raises(sf.ShapeError, match="must be at least 0"):
            step(ones(3), ones(5))
        assert v.tolist() == [1, 1, 1]
