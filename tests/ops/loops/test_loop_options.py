"""What loops take beside their functions: unrolled iterations, truncated derivatives, lags of each
sequence; each beside the same loop said otherwise."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loop_steps import loops_of
from slices import daily

import staticflow as sf

rng = np.random.default_rng(11)
XS, W = rng.normal(size=(11, 3)), rng.normal(size=(3, 3)) * 0.5


def step(c: Any, x: Any, w: Any) -> Any:
    after = (c @ w + x).tanh()
    return after, (after * x, after.sum())


def loss_of(found: Any) -> Any:
    last, (ys, sums) = found
    return (last * last).sum() + (ys * ys).sum() + (sums**3).sum()


def derivatives(loop: Callable[..., Any], xs: Any, w: Any, tangent: Any) -> list[Any]:
    """The values of a loop, its gradients, a second derivative, and a tangent: on symbols."""
    found = loop(xs, w)
    gradients = sf.grad(loss_of(found), [xs, w])
    second = sf.grad((gradients[1] * gradients[1]).sum(), [xs, w])
    _, pushed = sf.autograd.functional.jvp(lambda x: loss_of(loop(x, w)), xs, tangent)
    return [found[0], *found[1], *gradients, *second, pushed]


def compiled(loop: Callable[..., Any], many: int, known: bool) -> list[Any]:
    x = sf.placeholder((many if known else "T", 3), "float64", name="x")
    w, t = sf.placeholder((3, 3), "float64", name="w"), sf.placeholder(x.shape, "float64", name="t")
    program = sf.compile([x, w, t], derivatives(loop, x, w, t))
    return [v.numpy() for v in program(XS[:many], W, np.cos(XS[:many]))]


def eagerly(loop: Callable[..., Any], many: int) -> list[Any]:
    x, w = sf.tensor(XS[:many], requires_grad=True), sf.tensor(W, requires_grad=True)
    found = loop(x, w)
    loss_of(found).backward()
    slope = sf.zeros_like(x) if x.grad is None else x.grad  # no iteration reads it
    return [v.detach().numpy() for v in (found[0], *found[1], slope, w.grad)]


CASES = [
    (many, reverse, known, k)
    for many in (0, 1, 2, 4, 7, 11)
    for reverse in (False, True)
    for known in (False, True)
    for k in (2, 3, 16)
]


@pytest.mark.parametrize(("many", "reverse", "known", "k"), daily(CASES, 5, "unrolled"))
def test_unrolled_loops_are_the_same(many: int, reverse: bool, known: bool, k: int) -> None:
    def loop(xs: Any, w: Any, unroll: int = 1) -> Any:
        return sf.scan(lambda c, x: step(c, x, w), w[0], xs, reverse=reverse, unroll=unroll)

    plain = compiled(loop, many, known)
    unrolled = compiled(lambda x, w: loop(x, w, k), many, known)
    for a, b in zip(plain[:3], unrolled[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(plain, unrolled, strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-12)
    for a, b in zip(eagerly(loop, many), eagerly(lambda x, w: loop(x, w, k), many), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.campaign
@pytest.mark.parametrize(("many", "reverse", "known", "k"), CASES)
def test_all_unrolled_loops_are_the_same(many: int, reverse: bool, known: bool, k: int) -> None:
    test_unrolled_loops_are_the_same(many, reverse, known, k)


def test_an_unrolled_loop_has_fewer_iterations() -> None:
    x = sf.placeholder((64, 300), name="x")
    found = {}
    for unroll in (1, 4, 64):
        last, _ = sf.scan(lambda c, r: ((c + r).tanh(), None), x[0], x, unroll=unroll)
        found[unroll] = [loop.length for loop in loops_of(sf.compile([x], last))]
    assert found == {1: [64], 4: [16], 64: []}


def test_unrolled_loops_of_other_kinds() -> None:
    x = sf.placeholder((None, 3), "float64", name="x")
    total = sf.fori_loop(1, x.shape[0] + 1, lambda i, c: c * 0.5 + i, sf.tensor(0.0), unroll=3)
    rows = sf.map(lambda r: r / r.norm(), x, unroll=4)
    lagged = sf.scan(lambda c, r: (c + r[0] * r[1], c), x[0], x, taps={"xs": (0, 1)}, unroll=2)[0]
    kept = sf.scan(lambda c, r: (c * r, c), x[0], x, checkpoint=4, unroll=2)[0]
    f = sf.compile([x], [total, rows, lagged, kept, sf.grad(kept.sum(), x)])
    for many in (1, 4, 7, 11):
        a = sf.tensor(XS[:many], requires_grad=True)
        t = sf.fori_loop(1, many + 1, lambda i, c: c * 0.5 + i, sf.tensor(0.0), unroll=3)
        u = sf.scan(lambda c, r: (c + r[0] * r[1], c), a[0], a, taps={"xs": (0, 1)})[0]
        v = sf.scan(lambda c, r: (c * r, c), a[0], a)[0]
        v.sum().backward()
        expected = (t, sf.map(lambda r: r / r.norm(), a), u, v, a.grad)
        for one, other in zip(f(a.detach()), expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.detach().numpy(), 1e-9, 1e-12)


def detached_by_hand(xs: Any, w: Any, k: int, reverse: bool) -> Any:
    """The loop in two, the first of them detached."""
    many = xs.shape[0]
    last = min(k, many)
    turned = xs.flip(0) if reverse else xs
    c, early = sf.scan(lambda c, x: step(c, x, w), w[0], turned[: many - last])
    if many - last:
        c, early = c.detach(), tuple(y.detach() for y in early)
    c, late = sf.scan(lambda c, x: step(c, x, w), c, turned[many - last :])
    ys = tuple(sf.cat([a, b]) for a, b in zip(early, late, strict=True))
    return c, tuple(y.flip(0) for y in ys) if reverse else ys


@pytest.mark.parametrize(("many", "reverse", "known", "k"), daily(CASES, 5, "truncated"))
def test_truncated_derivatives(many: int, reverse: bool, known: bool, k: int) -> None:
    def loop(xs: Any, w: Any) -> Any:
        return sf.scan(lambda c, x: step(c, x, w), w[0], xs, reverse=reverse, truncate=k)

    whole = compiled(lambda x, w: detached_by_hand(x, w, k, reverse), many, True)
    for a, b in zip(compiled(loop, many, known), whole, strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-12)
    for a, b in zip(eagerly(loop, many), whole[:5], strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-12)


@pytest.mark.campaign
@pytest.mark.parametrize(("many", "reverse", "known", "k"), CASES)
def test_all_truncated_derivatives(many: int, reverse: bool, known: bool, k: int) -> None:
    test_truncated_derivatives(many, reverse, known, k)


def test_a_truncated_derivative_is_that_of_the_last_iterations() -> None:
    """By differences: of the last three iterations, from where those before have come."""
    w = sf.tensor(W, requires_grad=True)
    last, _ = sf.scan(lambda c, x: step(c, x, w), w[0], sf.tensor(XS), truncate=3)
    last.sum().backward()
    with sf.no_grad():
        start, _ = sf.scan(lambda c, x: step(c, x, w), w[0], sf.tensor(XS[:-3]))

    def end(v: Any) -> float:
        late = sf.scan(lambda c, x: step(c, x, v), start, sf.tensor(XS[-3:]))
        return float(late[0].sum().item())

    for i in np.ndindex(3, 3):
        change = np.zeros((3, 3))
        change[i] = 1e-6
        slope = (end(sf.tensor(W + change)) - end(sf.tensor(W - change))) / 2e-6
        assert abs(slope - w.grad[i].item()) < 1e-8


def test_truncated_loops_with_lags_and_checkpoints() -> None:
    def loop(xs: Any, w: Any, **more: Any) -> Any:
        def one(c: Any, x: Any, past: Any) -> Any:
            y = (x[0] + x[1] @ w + past[0][0]).tanh()
            return c + y, (y, y.sum())

        init = (w[:1] * 0, w[:1, 0] * 0)
        taps = {"xs": (0, 2), "ys": (1,)}
        return sf.scan(one, w[0], xs, taps=taps, ys_init=init, truncate=4, **more)

    plain = compiled(loop, 11, False)
    for a, b in zip(plain[:5], eagerly(loop, 11), strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-12)
    x = sf.placeholder((None, 3), "float64", name="x")
    found = loop(x, sf.tensor(W), checkpoint="sqrt", unroll=2)
    kept = sf.compile([x], [found[0], *found[1], sf.grad(loss_of(found), x)])(XS)
    for a, b in zip(kept, plain, strict=False):
        np.testing.assert_allclose(a.numpy(), b, 1e-9, 1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_lags_of_each_sequence(reverse: bool) -> None:
    def loop(a: Any, b: Any, d: Any) -> Any:
        return sf.scan(
            lambda c, x: (c + x["a"][1] * x["b"][0] + x["d"], x["a"][0] - x["a"][2]),
            a[0] * 0, {"a": a, "b": b, "d": d},
            taps={"xs": {"a": (0, 2, 1), "b": (1,), "d": None}}, reverse=reverse,
        )  # fmt: skip

    arrays = [XS, np.cos(XS), np.sin(XS)]
    s = [sf.placeholder((None, 3), "float64") for _ in arrays]
    c, ys = loop(*s)
    program = sf.compile(s, [c, ys, *sf.grad((c * c).sum() + (ys * ys).sum(), s)])
    t = [sf.tensor(v, requires_grad=True) for v in arrays]
    last, rows = loop(*t)
    ((last * last).sum() + (rows * rows).sum()).backward()
    for got, known in zip(program(*arrays), (last, rows, *(v.grad for v in t)), strict=True):
        np.testing.assert_allclose(got.numpy(), known.detach().numpy(), 1e-12)
    a, b, d = (v[::-1] if reverse else v for v in arrays)
    np.testing.assert_allclose(last.detach(), (a[:-2] * b[1:-1] + d[2:]).sum(0), 1e-12)
    expected = a[2:] - a[1:-1]
    np.testing.assert_allclose(rows.detach(), expected[::-1] if reverse else expected)


def test_lags_of_each_of_a_tuple() -> None:
    _, ys = sf.scan(
        lambda c, x: (c, x[0][0] + x[1]),
        (),
        (sf.arange(4), sf.arange(4)),
        taps={"xs": ((1,), None)},
    )
    assert ys.tolist() == [1, 3, 5]
    xs = namedtuple("Both", "left right")(sf.arange(4), sf.arange(4))
    _, ys = sf.scan(lambda c, x: (c, x.left[0] + x.right), (), xs, taps={"xs": {"left": (1,)}})
    assert ys.tolist() == [1, 3, 5]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: sf.scan(lambda c, x: (c, x), 0.0, x, unroll=0), "unroll is an int from 1 on"),
        (lambda x: sf.map(lambda x: x, x, unroll=1.5), "map: 'unroll' must be int"),
        (lambda x: sf.fori_loop(0, 3, lambda i, c: c, x, unroll="all"), "not 'all'"),
        (
            lambda x: sf.scan(lambda c, x: (c, x), 0.0, x, unroll=2, until=lambda c, y: y > 0),
            "unroll and until do not go together",
        ),
        (
            lambda x: sf.scan(lambda c, x: (c, x), 0.0, sf.placeholder(("T",)), unroll=True),
            "and their number is T",
        ),
        (
            lambda x: sf.fori_loop(0, sf.tensor(3), lambda i, c: c, x, unroll=2),
            "unroll needs bounds that are ints or sizes",
        ),
        (lambda x: sf.scan(lambda c, x: (c, x), 0.0, x, truncate=-1), "truncate is a number"),
        (lambda x: sf.scan(lambda c, x: (c, x), 0.0, x, truncate=True), "not True"),
        (
            lambda x: sf.scan(lambda c, x: (c, x), 0.0, x, truncate=2, until=lambda c, y: y > 0),
            "truncate and until do not go together",
        ),
        (
            lambda x: sf.scan(lambda c, x: (c, x), 0.0, x, taps=[0, 1]),
            'taps are a dict of lags of "xs" and "ys", not list',
        ),
        (
            lambda x: sf.scan(lambda c, x: (c, x), 0.0, {"a": x}, taps={"xs": {"b": (1,)}}),
            "taps of 'xs' are of the entries ['b'], and the entries of xs are ['a']",
        ),
        (
            lambda x: sf.scan(lambda c, x: (c, x), 0.0, {"a": x}, taps={"xs": {"a": (-1,)}}),
            "taps of 'xs'['a'] are ints from 0 on, not [-1]",
        ),
        (
            lambda x: sf.scan(lambda c, x: (c, x), 0.0, x, taps={"xs": ((1,), None)}),
            "the entries of xs are []",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(call: Callable[..., Any], says: str) -> None:
    with pytest.raises((sf.ArgumentError, sf.ShapeError, sf.DTypeError)) as error:
        call(sf.ones(3))
    assert says in str(error.value) and "test_loop_options.py" in str(error.value)
