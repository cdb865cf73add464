"""What loops give besides their derivatives: lags, lengths, ends, state, messages; and how they
run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loop_steps import carries_of, loops_of

import staticflow as sf
from staticflow.codegen.program.routine import Arena, Choose, Copy, Launch, Repeat, Row, walk_steps
from staticflow.errors import IndexRangeError, ShapeError

rng = np.random.default_rng(3)


def steps_of(program: Any) -> list[Any]:
    return list(walk_steps(program.plan.routine.steps))


# -- lags ------------------------------------------------------------------------------------------


def _autoregression(xs: Any, ys_init: Any) -> Any:
    def step(c: Any, x: Any, past: Any) -> Any:
        y = x[0] + 0.5 * x[1] - 0.1 * past[0] + 0.2 * past[1]
        return c + y, y

    return sf.scan(step, xs.sum() * 0, xs, taps={"xs": (0, 2), "ys": (1, 3)}, ys_init=ys_init)


def test_lags_into_xs_and_ys() -> None:
    xs, before = rng.normal(size=7), rng.normal(size=3)
    ys = list(before)
    for t in range(2, 7):
        ys.append(xs[t] + 0.5 * xs[t - 2] - 0.1 * ys[-1] + 0.2 * ys[-3])
    x, b = sf.placeholder((None,), "float64", name="x"), sf.placeholder((3,), "float64", name="b")
    total, out = _autoregression(x, b)
    program = sf.compile([x, b], [out, total, *sf.grad((out * out).sum(), [x, b])])
    got = [v.numpy() for v in program(xs, before)]
    np.testing.assert_allclose(got[0], ys[3:], 1e-12)
    np.testing.assert_allclose(got[1], sum(ys[3:]), 1e-12)
    ex, eb = (sf.tensor(a, requires_grad=True) for a in (xs, before))
    _, out = _autoregression(ex, eb)
    np.testing.assert_allclose(out.detach().numpy(), ys[3:], 1e-12)
    (out * out).sum().backward()
    np.testing.assert_allclose(got[2], ex.grad.numpy(), 1e-12)
    np.testing.assert_allclose(got[3], eb.grad.numpy(), 1e-12)
    assert program(xs[:2], before)[0].shape == (0,)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"taps": {"xs": (-1,)}}, "taps of 'xs' are ints from 0 on, not [-1]"),
        ({"taps": {"ys": (0,)}, "ys_init": np.ones(1)}, "taps of 'ys' are ints from 1 on"),
        ({"taps": {"zs": (1,)}}, "not of ['zs']"),
        ({"taps": {"ys": (1,)}}, "go together"),
        ({"taps": {"ys": (2,)}, "ys_init": np.ones(1)}, "it needs 2 rows"),
    ],
)
def test_lags_that_are_none(more: dict[str, Any], says: str) -> None:
    if "ys_init" in more:
        more = {**more, "ys_init": sf.tensor(more["ys_init"])}
    with pytest.raises(ShapeError) as error:
        sf.scan(lambda c, x, *past: (c, x), sf.tensor(0.0), sf.ones(3), **more)
    assert says in str(error.value)


# -- rows of different lengths ---------------------------------------------------------------------


def _recurrent(xs: Any, w: Any, h: Any, lengths: Any, reverse: bool) -> Any:
    return sf.scan(lambda h, x: ((h @ w + x).tanh(),) * 2, h, xs, lengths=lengths, reverse=reverse)


def _masked(xs: Any, w: Any, h: Any, lengths: Any, reverse: bool) -> Any:
    """The same, computed for all rows at every step."""
    ys = np.zeros_like(xs)
    for t in reversed(range(len(xs))) if reverse else range(len(xs)):
        going = (t < lengths)[:, None]
        new = np.tanh(h @ w + xs[t])
        h, ys[t] = np.where(going, new, h), np.where(going, new, 0)
    return h, ys


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_of_different_lengths(reverse: bool) -> None:
    x, h = (
        sf.placeholder(s, "float64", name=n) for s, n in ((("T", "B", 3), "x"), (("B", 3), "h"))
    )
    w = sf.placeholder((3, 3), "float64", name="w")
    lengths = sf.placeholder(("B",), "int64", name="lengths")
    last, ys = _recurrent(x, w, h, lengths, reverse)
    loss = last.sin().sum() + (ys * ys).sum()
    first = sf.grad(loss, [x, w, h])
    second = sf.grad(sum((g * g).sum() for g in first), w)
    program = sf.compile([x, w, h, lengths], [last, ys, *first, second])
    for steps, batch in ((5, 4), (1, 1), (0, 4), (5, 0)):
        given = [rng.normal(size=s) for s in ((steps, batch, 3), (3, 3), (batch, 3))]
        given.append(rng.integers(0, steps + 1, batch))
        got = [v.numpy() for v in program(*given)]
        for a, b in zip(got, _masked(*given, reverse), strict=False):
            np.testing.assert_allclose(a, b, 1e-9, 1e-12)
        ex, ew, eh = (sf.tensor(a, requires_grad=True) for a in given[:3])
        last, ys = _recurrent(ex, ew, eh, sf.tensor(given[3]), reverse)
        (last.sin().sum() + (ys * ys).sum()).backward()
        for a, v in zip(got[2:5], (ex, ew, eh), strict=True):
            wanted = 0 if v.grad is None else v.grad.numpy()
            np.testing.assert_allclose(a, wanted, 1e-9, 1e-12)

        def slope(at: tuple[int, int], given: Any = given) -> float:
            ends = []
            for sign in (1, -1):
                moved = given[1].copy()
                moved[at] += sign * 1e-6
                grads = program(given[0], moved, *given[2:])[2:5]
                ends.append(sum((g.numpy() ** 2).sum() for g in grads))
            return float(ends[0] - ends[1]) / 2e-6

        np.testing.assert_allclose(got[5][1, 2], slope((1, 2)), 1e-5, 1e-6)
    assert program.compile_count == 1


def test_cost_follows_the_lengths() -> None:
    """Each step is called on the rows that go on, and on no others."""
    seen = []

    def step(h: Any, x: Any) -> Any:
        seen.append(x.shape[0])
        return h + x, h

    sf.scan(step, sf.zeros(4), sf.ones(5, 4), lengths=sf.tensor([2, 5, 0, 3]))
    assert seen == [3, 3, 2, 1, 1]


def test_compiled_steps_run_on_the_rows_that_go_on() -> None:
    """The kernels of the body are launched on a size that only the run tells, `active`."""
    x, w = sf.placeholder(("T", "B", 4), name="x"), sf.placeholder((4, 4), name="w")
    lengths = sf.placeholder(("B",), "int64", name="lengths")
    _, ys = _recurrent(x, w, x[0] * 0, lengths, reverse=False)
    program = sf.compile([x, w, lengths], ys)
    (loop,) = loops_of(program)
    products = [
        s for s in walk_steps(loop.body) if isinstance(s, Launch) and "contract" in s.kernel
    ]
    assert [[str(d) for d in s.sizes] for s in products] == [["active"]]


# -- every size, every form ------------------------------------------------------------------------


def test_one_compilation_for_a_hundred_shapes() -> None:
    """Batch and time unknown together, 0 and 1 among them, forward and backward."""
    x, w = (
        sf.placeholder(("T", "B", 3), "float64", name="x"),
        sf.placeholder((3, 3), "float64", name="w"),
    )
    n = sf.placeholder((), "int64", name="n")

    def loss_of(x: Any, w: Any, n: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = sf.fori_loop(0, n, lambda i, h: (h @ w + row).tanh(), h)
            return h, h * row

        last, ys = sf.scan(step, x.sum(0), x)
        return last.sum() + (ys * ys).sum()

    loss = loss_of(x, w, n)
    program = sf.compile([x, w, n], [loss, *sf.grad(loss, [x, w])])
    shapes = [(t, b) for t in range(10) for b in range(10)]
    weights = rng.normal(size=(3, 3))
    for steps, batch in shapes:
        given = rng.normal(size=(steps, batch, 3))
        iterations = (steps + batch) % 3
        got = [v.numpy() for v in program(given, weights, iterations)]
        if steps < 3 and batch < 3:
            ex, ew = (sf.tensor(a, requires_grad=True) for a in (given, weights))
            value = loss_of(ex, ew, sf.tensor(iterations))
            np.testing.assert_allclose(got[0], value.item(), 1e-9, 1e-12)
            if value.requires_grad:
                value.backward()
            for a, v in zip(got[1:], (ex, ew), strict=True):
                np.testing.assert_allclose(a, 0 if v.grad is None else v.grad.numpy(), 1e-9, 1e-12)
        assert got[1].shape == given.shape
    assert program.compile_count == 1


def test_loops_without_carries_outputs_or_floats() -> None:
    n, xs = sf.placeholder((), "int64", name="n"), sf.placeholder((None,), "int64", name="xs")
    assert sf.scan(lambda c, x: (c, None), (), xs) == ((), None)
    last, none = sf.scan(
        lambda c, x: ({"sum": c["sum"] + x, "odd": c["odd"] ^ (x % 2 == 1), "none": None}, None),
        {"sum": 0, "odd": False, "none": None}, xs,
    )  # fmt: skip
    assert none is None and last["none"] is None
    w = sf.placeholder((), "float64", name="w")
    out = last["sum"] * w + sf.while_loop(lambda i: i < n, lambda i: i + 2, 0)
    program = sf.compile([n, xs, w], [out, last["odd"], sf.grad(out, w)])
    got = program(3, np.array([1, 2, 4]), 0.5)
    assert [v.item() for v in got] == [7.5, True, 7.0]


def test_loops_four_deep() -> None:
    """A scan in a while in a branch in a scan, with a value of every level in the innermost."""
    xs, w = (sf.placeholder((None,), "float64", name=s) for s in ("xs", "w"))

    def loss_of(xs: Any, w: Any) -> Any:
        def outer(c: Any, x: Any) -> Any:
            def inside(i: Any, h: Any) -> Any:
                a = (h * x).sin()
                last, _ = sf.scan(lambda s, v: ((s * v * a + c + x).tanh(), None), h, w)
                return i + 1, last

            def looped() -> Any:
                return sf.while_loop(lambda i, h: i < 3, inside, (0, c + x))[1]

            h = sf.cond(x > 0, looped, lambda: c * x)
            return h, h

        last, ys = sf.scan(outer, w.sum(), xs)
        return last * 2 + ys.sum()

    loss = loss_of(xs, w)
    first = sf.grad(loss, [xs, w])
    second = sf.grad(sum((g * g).sum() for g in first), [xs, w])
    program = sf.compile([xs, w], [loss, *first, *second])
    for given, weights in (([0.5, -0.3, 0.8], [0.7, 1.1]), ([0.4], [0.2]), ([-1.0], [0.3])):
        leaves = [sf.tensor(np.array(a), requires_grad=True) for a in (given, weights)]
        value = loss_of(*leaves)
        grads = sf.grad(value, leaves, create_graph=True)
        wanted = [value, *grads, *sf.grad(sum((g * g).sum() for g in grads), leaves)]
        for a, b in zip(program(np.array(given), np.array(weights)), wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b.detach().numpy(), 1e-9, 1e-12)


# -- ends ------------------------------------------------------------------------------------------


def test_outputs_of_a_size_that_the_run_tells() -> None:
    x = sf.placeholder((), "float64", name="x")
    last, ys = sf.scan(lambda c, _: (c * 2, {"c": c, "pair": sf.stack([c, -c])}), x, length=50,
                       until=lambda c, y: c > 10)  # fmt: skip
    program = sf.compile([x], {"last": last, "ys": ys, "sum": ys["c"].sum()})
    for start, count in ((1.0, 4), (100.0, 1), (1e-3, 14), (0.0, 50), (1.0, 4)):
        out = program(start)
        wanted = start * 2.0 ** np.arange(count)
        np.testing.assert_array_equal(out["ys"]["c"].numpy(), wanted)
        np.testing.assert_array_equal(out["ys"]["pair"].numpy(), np.stack([wanted, -wanted], 1))
        np.testing.assert_allclose(out["sum"].item(), wanted.sum())


def test_gradients_of_products_of_rows_of_which_only_some_are_read() -> None:
    """Of all iterations at once they would have to be of those alone that were made."""

    def results(xs: Any, w: Any, h: Any) -> Any:
        last, ys = sf.scan(lambda c, r: ((c + r @ w).tanh(), r @ w), h, xs,
                           until=lambda c, y: (c * c).sum() > 1.5)  # fmt: skip
        return last.sum() + ys.sin().sum()

    shapes: list[tuple[Any, ...]] = [("T", 2, 3), (3, 3), (2, 3)]
    params = [sf.placeholder(s, "float64") for s in shapes]
    program = sf.compile(params, sf.grad(results(*params), params))
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=s) for s in ((6, 2, 3), (3, 3), (2, 3))]
    for scale in (0.0, 0.3, 1.0, 5.0):
        given = [a * scale for a in arrays]
        leaves = [sf.tensor(a, requires_grad=True) for a in given]
        for a, b in zip(program(*given), sf.grad(results(*leaves), leaves), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-9, 1e-12)


def test_a_stack_grows_far_and_stays() -> None:
    x = sf.placeholder((), "float64", name="x")
    n = sf.placeholder((), "int64", name="n")
    _, h = sf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, h.sin() + x), (0, x))
    program = sf.compile([n, x], sf.grad(h, x))
    for count in (0, 100_000, 3):
        d, h_now = 1.0, 0.5
        for _ in range(count):
            d, h_now = d * np.cos(h_now) + 1, np.sin(h_now) + 0.5
        np.testing.assert_allclose(program(count, 0.5).item(), d, 1e-9)


def test_a_loop_that_closes_over_symbols_alone() -> None:
    x = sf.placeholder((), name="x")
    f = sf.compile([x], sf.while_loop(lambda i: i < x, lambda i: i + 1, sf.tensor(0.0)))
    assert f(2.5).item() == 3
    f = sf.compile([x], sf.scan(lambda c, _: (c + x, c), sf.tensor(0.0), length=3)[0])
    assert f(2.0).item() == 6


def test_bounds_of_a_range_in_every_form() -> None:
    n = sf.placeholder((), "int32", name="n")
    rows = sf.placeholder((None,), name="rows")
    forms = [
        sf.fori_loop(0, n, lambda i, c: c + i, 0),
        sf.fori_loop(n, 5, lambda i, c: c + i, 0),
        sf.fori_loop(0, rows.shape[0], lambda i, c: c + i, 0),
        sf.fori_loop(2, rows.shape[0], lambda i, c: c + i, 0),
    ]
    program = sf.compile([n, rows], forms)
    for k, size in ((0, 0), (3, 1), (7, 4), (-2, 2)):
        wanted = [range(k), range(k, 5), range(size), range(2, size)]
        assert [v.item() for v in program(k, sf.ones(size))] == list(map(sum, wanted))
        eager = [
            sf.fori_loop(0, sf.tensor(k), lambda i, c: c + i, 0),
            sf.fori_loop(sf.tensor(k), 5, lambda i, c: c + i, 0),
            sf.fori_loop(0, size, lambda i, c: c + i, 0),
        ]
        assert [int(v) for v in eager] == list(map(sum, wanted[:3]))


# -- state that changes on the way -----------------------------------------------------------------


def test_state_inside_loops_and_branches() -> None:
    """A counter that the body changes is carried; a program updates it once, at the end."""
    from staticflow.ops.symbols.effect import effect, read

    calls = sf.variable(0.0)
    x, n = sf.placeholder((), name="x"), sf.placeholder((), "int64", name="n")

    def body(i: Any, h: Any) -> Any:
        h = effect(h + 1, calls, read(calls, h) + 1)
        return i + 1, sf.cond(i > 0, lambda: effect(h * 2, calls, read(calls, h) + 10), lambda: h)

    out = sf.while_loop(lambda i, h: i < n, body, (0, x))[1]
    program = sf.compile([n, x], out + read(calls, out))
    assert program(3, 1.0).item() == ((1 + 1 + 1) * 2 + 1) * 2 + 23
    assert calls.item() == 23
    assert program(0, 1.0).item() == 1 + 23


# -- how loops run ---------------------------------------------------------------------------------


def test_no_copy_of_what_is_carried_or_invariant() -> None:
    x, w = sf.placeholder((None, 8), name="x"), sf.placeholder((8, 8), name="w")
    n = sf.placeholder((), "int64", name="n")
    h = sf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, (h @ w).tanh()), (0, x))[1]
    program = sf.compile([x, w, n], h)
    (loop,) = loops_of(program)
    assert not any(isinstance(s, Copy) for s in walk_steps(loop.body))
    assert len(carries_of(loop)) == 3


def test_what_is_the_same_on_every_iteration_is_done_once() -> None:
    x, w = sf.placeholder((8, 8), name="x"), sf.placeholder((8, 8), name="w")
    n = sf.placeholder((), "int64", name="n")
    h = sf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, (h + (w @ w).exp()).sin()), (0, x))[
        1
    ]
    program = sf.compile([x, w, n], h)
    assert sum(r.counts.get("hoist", 0) for r in program.passes) > 0
    np.testing.assert_allclose(
        program(np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32), 1)[0, 0].item(),
        np.sin(1), 1e-6,
    )  # fmt: skip


def test_dead_carries_and_unread_results_are_not_kept() -> None:
    x = sf.placeholder((None, 4), name="x")

    def step(c: Any, row: Any) -> Any:
        return {"a": c["a"] + row, "dead": c["dead"].sin(), "same": c["same"]}, (row * 2, c["a"])

    init = {"a": x.sum(0), "dead": x.sum(0), "same": x.sum(0) + 1}
    last, _ = sf.scan(step, init, x)
    program = sf.compile([x], [last["a"], last["same"]])
    (loop,) = loops_of(program)
    assert len(carries_of(loop)) == 1
    assert not any(isinstance(p, Row) and isinstance(p.array, Arena)
                   for s in walk_steps(loop.body) for p in getattr(s, "places", ()))  # fmt: skip
    given = rng.normal(size=(3, 4)).astype(np.float32)
    np.testing.assert_allclose(program(given)[0].numpy(), 2 * given.sum(0), 1e-6)


def test_loops_over_numbers_are_kernels() -> None:
    n = sf.placeholder((), "int64", name="n")
    steps = sf.while_loop(
        lambda n, c: n != 1, lambda n, c: (sf.where(n % 2 == 0, n // 2, 3 * n + 1), c + 1), (n, 0)
    )[1]
    program = sf.compile([n], steps)
    assert not any(isinstance(s, Repeat) for s in steps_of(program))
    assert [program(k).item() for k in (1, 2, 27, 97)] == [0, 1, 111, 118]


def test_loops_of_numbers_in_loops_of_numbers() -> None:
    """Carries exchanged, rows read and stacked, a loop within."""
    xs, w = sf.placeholder((None,), "float64", name="xs"), sf.placeholder((), "float64", name="w")

    def step(c: Any, x: Any) -> Any:
        a, b = c
        inner = sf.fori_loop(0, 3, lambda i, s: s * w + x, a)
        return (b, inner), a - b

    (a, b), ys = sf.scan(step, (w, w * 2), xs)
    program = sf.compile([xs, w], [a, b, ys])
    for size in (0, 1, 5):
        given = rng.normal(size=size)
        p, q, kept = 0.7, 1.4, []
        for v in given:
            s = p
            for _ in range(3):
                s = s * 0.7 + v
            kept.append(p - q)
            p, q = q, s
        got = [v.numpy() for v in program(given, 0.7)]
        np.testing.assert_allclose(got[0], p)
        np.testing.assert_allclose(got[1], q)
        np.testing.assert_allclose(got[2], kept)


def test_branches_in_loops_of_numbers() -> None:
    """In registers, one within another, with a loop in a branch, and what only one side needs."""
    n, xs = sf.placeholder((), "int64", name="n"), sf.placeholder((None,), "float64", name="xs")
    steps = sf.while_loop(
        lambda n, c: n != 1,
        lambda n, c: (sf.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1), c + 1),
        (n, 0),
    )[1]

    def step(c: Any, x: Any) -> Any:
        a, b = c
        new = sf.cond(
            x > 0,
            lambda: (sf.fori_loop(0, 3, lambda i, s: s * 0.5 + x, a), b),
            lambda: sf.cond(x > -1, lambda: (b, a), lambda: (a, b * 2.0)),
        )
        return new, new[0] - new[1]

    (a, b), ys = sf.scan(step, (xs.sum() * 0 + 1.0, xs.sum() * 0 + 2.0), xs)
    program = sf.compile([n, xs], [steps, a, b, ys])
    assert not any(isinstance(s, Repeat | Choose) for s in steps_of(program))
    given = np.array([0.5, -0.5, -3.0, 2.0, -0.25])
    p, q, kept = 1.0, 2.0, []
    for x in given:
        if x > 0:
            for _ in range(3):
                p = p * 0.5 + x
        elif x > -1:
            p, q = q, p
        else:
            q *= 2
        kept.append(p - q)
    got = program(27, given)
    assert got[0].item() == 111
    np.testing.assert_allclose(got[1].numpy(), p)
    np.testing.assert_allclose(got[2].numpy(), q)
    np.testing.assert_allclose(got[3].numpy(), kept)


# -- the last row ----------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("form", ["a carry", "of a carry", "of a row"])
def test_of_the_last_row_no_stack_is_kept(form: str, reverse: bool) -> None:
    def last(xs: Any, c: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            end = c * 0.5 + x
            return end, {"a carry": end, "of a carry": (c * x).tanh(), "of a row": x.exp()}[form]

        ends, ys = sf.scan(step, c, xs, reverse=reverse)
        return ends.sum() + ys[0 if reverse else -1]

    xs, c = sf.placeholder(("T", 4), name="xs"), sf.placeholder((4,), name="c")
    program = sf.compile([xs, c], last(xs, c))
    assert program.plan.peak_bytes(T=1) == program.plan.peak_bytes(T=10_000)
    start = sf.tensor(rng.normal(size=4), dtype=sf.float32)
    for iterations in (1, 2, 7):
        rows = sf.tensor(rng.normal(size=(iterations, 4)), dtype=sf.float32)
        sf.testing.assert_close(program(rows, start), last(rows, start))
    with pytest.raises(ShapeError, match="T is 0"):
        program(sf.zeros(0, 4), start)


@pytest.mark.parametrize("form", ["a carry", "of a carry", "of a row"])
def test_a_loop_of_no_iterations_has_no_last_row(form: str) -> None:
    """Also where it is the loop that tells how many there are."""

    def last(xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            end = c + x
            return end, {"a carry": end, "of a carry": end.sin(), "of a row": x.exp()}[form]

        return sf.scan(step, sf.tensor(0.0), xs, until=lambda c, y: c >= 3)[1][-1]

    xs = sf.placeholder((None,), name="xs")
    program, jitted = sf.compile([xs], last(xs)), sf.jit(last)
    for fn in (program, jitted):
        sf.testing.assert_close(fn(sf.ones(5)), last(sf.ones(5)))
        with pytest.raises(ShapeError, match="iterations is 0"):
            fn(sf.ones(0))
    with pytest.raises(IndexRangeError, match="size 0"):
        last(sf.ones(0))
