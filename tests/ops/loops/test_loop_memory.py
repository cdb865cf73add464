"""Where loops keep what they carry and stack: no iteration copies it, whatever else wants it, and
it is right for no iteration, one and many, by the machine code and by the slow machine that watches
memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loop_steps import carries_of, copies_in, loops_of
from routine_machine import run_slowly

import staticflow as sf
from staticflow.codegen.program.routine import Turn
from staticflow.graph.dims import same_shape
from staticflow.graph.interpret import interpret_graph

rng = np.random.default_rng(0)


def _as_they_begin(x: Any, w: Any, h: Any) -> Any:
    return sf.scan(lambda h, r: ((h @ w + r).tanh(), h), h, x)


def _as_they_end(x: Any, w: Any, h: Any) -> Any:
    return sf.scan(lambda h, r: ((h @ w + r).tanh(),) * 2, h, x)


def _both_ways_and_in_two_shapes(x: Any, w: Any, h: Any) -> Any:
    def step(h: Any, r: Any) -> Any:
        new = (h @ w + r).tanh()
        return new, (h, new, new.reshape(-1), new)

    return sf.scan(step, h, x)


def _backwards(x: Any, w: Any, h: Any) -> Any:
    def step(h: Any, r: Any) -> Any:
        new = (h @ w + r).tanh()
        return new, (h * r, new)

    return sf.scan(step, h, x, reverse=True)


def _two_that_are_one(x: Any, w: Any, h: Any) -> Any:
    """Two carries that differ in the first iteration only."""

    def step(c: Any, r: Any) -> Any:
        new = (c[0] @ w + c[1] * r).tanh()
        return (new, new), (c[1] + r).sum(0)

    return sf.scan(step, (h, h * 2), x)


def _one_behind_another(x: Any, w: Any, h: Any) -> Any:
    """Three steps of one value, as carries."""

    def step(c: Any, r: Any) -> Any:
        a, b, c = c
        return ((a @ w + b * r - c).tanh(), a, b), (c * r).sum(0)

    return sf.scan(step, (h, h * 2, h + 1), x)


def _what_no_iteration_makes(x: Any, w: Any, h: Any) -> Any:
    """The row of the iteration before, and what is first one thing, then another."""

    def step(c: Any, r: Any) -> Any:
        row, other, own = c
        return (r, h, (own @ w + other).sin()), ((row - r).sum(0), r, h)

    return sf.scan(step, (h * 2, h + 1, h), x)


def _lags(x: Any, w: Any, h: Any) -> Any:
    def step(c: Any, r: Any, past: Any) -> Any:
        return c, (past[0] @ w + 0.5 * past[1] + r).tanh()

    start = sf.stack([h, h * 2, h * 3])
    return sf.scan(step, (), x, taps={"ys": (1, 3)}, ys_init=start)[1]


def _lags_backwards(x: Any, w: Any, h: Any) -> Any:
    def step(c: Any, r: Any, past: Any) -> Any:
        return c + past[1], (past[0] @ w + c * r).tanh()

    start = sf.stack([h, h * 2])
    return sf.scan(step, h, x, taps={"ys": (1, 2)}, ys_init=start, reverse=True)


def _until(x: Any, w: Any, h: Any) -> Any:
    """As many iterations as the values have it."""

    def step(h: Any, r: Any) -> Any:
        new = (h @ w + r).tanh()
        return new, (h, new)

    return sf.scan(step, h, x, until=lambda h, y: (h * h).sum() > 1.5)


def _while(x: Any, w: Any, h: Any) -> Any:
    return sf.while_loop(
        lambda i, a, b: i < x.shape[0],
        lambda i, a, b: (i + 1, (a @ w + b).tanh(), a),
        (0, h, h + x.sum(0)),
    )[1:]


def _a_known_number_of_iterations(x: Any, w: Any, h: Any) -> Any:
    return sf.fori_loop(0, 5, lambda i, h: (h @ w + x.sum(0)).tanh(), h)


def _loop_in_loop(x: Any, w: Any, h: Any) -> Any:
    """The inner loop leaves its last carry where the outer one wants it."""

    def step(h: Any, r: Any) -> Any:
        return sf.fori_loop(0, 3, lambda i, h: (h @ w + r).tanh(), h), h.sum(0)

    return sf.scan(step, h, x)


CASES: dict[str, Callable[..., Any]] = {
    f.__name__.strip("_"): f
    for f in (
        _as_they_begin, _as_they_end, _both_ways_and_in_two_shapes, _backwards, _two_that_are_one,
        _one_behind_another, _what_no_iteration_makes, _lags, _lags_backwards, _until, _while, _a_known_number_of_iterations,
        _loop_in_loop,
    )
}  # fmt: skip


def operands() -> list[Any]:
    shapes: dict[str, tuple[Any, ...]] = {"x": ("T", "B", 3), "w": (3, 3), "h": ("B", 3)}
    return [sf.placeholder(shape, "float64", name=name) for name, shape in shapes.items()]


def program_of(name: str, wanted: str) -> Any:
    given = operands()
    values = sf.pytree.flatten(CASES[name](*given))[0]
    total = sum(((v * v).sin().sum() for v in values), start=0.0)
    outs = values if "values" in wanted else []
    return sf.compile(given, [*outs, *(sf.grad(total, given) if "gradients" in wanted else [])])


every_case = pytest.mark.parametrize("name", list(CASES))
what = pytest.mark.parametrize("wanted", ["values", "gradients", "values and gradients"])


LEFT = {
    "two_that_are_one": 1,  # a stack of its own, for the sake of its first row
    "loop_in_loop": 1,  # where the stack of the inner loop starts
}
"""Cases in which the gradients have a copy."""


@what
@every_case
def test_no_iteration_copies_anything(name: str, wanted: str) -> None:
    copies = [c for loop in loops_of(program_of(name, wanted)) for c in copies_in(loop)]
    assert len(copies) == (LEFT.get(name, 0) if "gradients" in wanted else 0)


@what
@every_case
def test_every_number_of_iterations(name: str, wanted: str) -> None:
    program = program_of(name, wanted)
    for iterations, batch in [(0, 2), (1, 1), (2, 0), (3, 2), (6, 2)]:
        given = [rng.normal(size=s) for s in [(iterations, batch, 3), (3, 3), (batch, 3)]]
        expected = interpret_graph(program.graph, given)
        code, slow = run_slowly(program, given)
        assert code == 0
        for got in ([o.numpy() for o in program(*given)], slow):
            for a, b in zip(got, expected, strict=True):
                np.testing.assert_allclose(a, b, 1e-9, 1e-12, err_msg=f"{iterations=} {batch=}")


def test_values_lie_in_one_stack_however_they_are_read() -> None:
    """As iterations begin, as they end, reshaped, and the last of them."""
    program = program_of("both_ways_and_in_two_shapes", "gradients")
    first, *_ = loops_of(program)
    stacks = [b for b in program.plan.routine.buffers if b.shape[:1] == (first.length + 1,)]
    assert [b.label for b in stacks] == ["stacked carry of scan"]
    assert not carries_of(first)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_stack_of_what_iterations_begin_with_is_made_where_it_is_wanted(reverse: bool) -> None:
    x, w, h = operands()
    last, ys = sf.scan(lambda h, r: ((h @ w + r).tanh(), h), h, x, reverse=reverse)
    program = sf.compile([x, w, h], [last, ys])
    assert not any(same_shape(b.shape[:1], x.shape[:1]) for b in program.plan.routine.buffers)
    for iterations in (0, 1, 4):
        given = [rng.normal(size=s) for s in [(iterations, 2, 3), (3, 3), (2, 3)]]
        for got, expected in zip(
            program(*given), interpret_graph(program.graph, given), strict=True
        ):
            np.testing.assert_allclose(got.numpy(), expected, 1e-9, 1e-12)


def test_what_takes_over_another_carry_needs_one_more_buffer() -> None:
    program = program_of("one_behind_another", "values")
    (loop,) = loops_of(program)
    assert len(carries_of(loop)) == 3
    (turns,) = {c.made for c in carries_of(loop) if isinstance(c.made, Turn)}
    assert len(turns.arrays) == 4


def test_the_last_value_is_written_where_it_is_wanted() -> None:
    x = sf.placeholder((8,), name="x")
    program = sf.compile([x], sf.fori_loop(0, 9, lambda i, h: (h + x).sin(), x))
    assert [type(s).__name__ for s in program.plan.routine.steps] == ["Repeat"]
    assert len(program.plan.routine.buffers) == 1


def test_a_variable_that_changes_is_still_what_a_loop_without_iterations_began_with() -> None:
    """Its memory has the new value before what the loop gave is read."""
    v, u = sf.variable(np.ones(3), name="v"), sf.variable(np.zeros(3), name="u")
    n = sf.placeholder((), "int64", name="n")
    last = sf.fori_loop(0, n, lambda i, h: h * 2 + sf.symbol(v), sf.symbol(v))
    out = last + sf.symbol(u)
    program = sf.compile([n], [out, last], updates={v: sf.symbol(v) + 10, u: last})
    for iterations, got in [(0, 1), (1, 33), (0, 21)]:
        start = float(v[0])
        out, last = program(iterations)
        assert last.tolist() == [got] * 3
        assert u.tolist() == [got] * 3 and v.tolist() == [start + 10] * 3


def test_rows_of_a_variable_that_changes() -> None:
    v, u = sf.variable(np.ones((3, 2)), name="v"), sf.variable(np.zeros(2), name="u")
    x = sf.placeholder((2,), "float64", name="x")
    (row, _), ys = sf.scan(lambda c, r: ((r, (c[1] * r).sin()), c[0].sum()), (x, x), sf.symbol(v))
    program = sf.compile([x], ys, updates={v: sf.symbol(v) + 1, u: row})
    for call in (1, 2):
        assert program(np.zeros(2)).tolist() == [0, 2 * call, 2 * call]
        assert u.tolist() == [call] * 2


def test_variables_exchanged_by_a_loop_without_iterations() -> None:
    v, u = sf.variable(np.ones(3), name="v"), sf.variable(np.zeros(3), name="u")
    n = sf.placeholder((), "int64", name="n")
    a, b = sf.fori_loop(0, n, lambda i, c: (c[0] + 1, c[1] * c[0]), (sf.symbol(u), sf.symbol(v)))
    program = sf.compile([n], [], updates={v: a, u: b})
    program(0)
    assert v.tolist() == [0] * 3 and u.tolist() == [1] * 3
    program(1)
    assert v.tolist() == [2] * 3 and u.tolist() == [0] * 3


def test_a_stack_that_grows_is_given_to_the_caller_as_it_lies() -> None:
    """Once with a start of its own, once from the second row of what the other is."""
    x = sf.placeholder((4,), "float64", name="x")

    def body(h: Any) -> Any:
        new = h * 1.5
        return new, (new, h)

    _, (ends, begins) = sf.scan(
        lambda h, _: body(h), x, length=10_000, until=lambda h, y: h.sum() > 1e6
    )
    program = sf.compile([x], [ends, begins])
    for start in (1.0, 1e9, 1e-30, 1.0):
        first, second = program(np.full(4, start))
        wanted = [start * 1.5]
        while wanted[-1] * 4 <= 1e6:
            wanted.append(wanted[-1] * 1.5)
        np.testing.assert_allclose(first[:, 0].numpy(), wanted, 1e-12)
        np.testing.assert_allclose(second[:, 0].numpy(), [start, *wanted[:-1]], 1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_the_derivative_of_the_last_row_is_no_stack_of_zeros(
    reverse: bool, batch_first: bool
) -> None:
    x, w, h = operands()
    _, ys = sf.scan(lambda h, r: ((h @ w + r).tanh(), (h @ w).sin()), h, x, reverse=reverse)
    last = ys.transpose(0, 1)[:, 0 if reverse else -1] if batch_first else ys[0 if reverse else -1]
    program = sf.compile([x, w, h], sf.grad((last**3).sum(), [x, w, h]))
    assert not any("nest" in k.name for k in program.plan.routine.kernels)  # such as writes zeros
    assert not any(copies_in(loop) for loop in loops_of(program))
    for iterations in (1, 2, 4):
        given = [rng.normal(size=s) for s in [(iterations, 2, 3), (3, 3), (2, 3)]]
        for got, expected in zip(
            program(*given), interpret_graph(program.graph, given), strict=True
        ):
            np.testing.assert_allclose(got.numpy(), expected, 1e-9, 1e-12)


LARGE = 128 * 128
"""Elements of a carry that is worth a copy of its start, to be in memory once."""


@pytest.mark.parametrize("made", [False, True])
def test_a_large_sum_is_one_buffer(made: bool) -> None:
    """It lies where the result is wanted, and zeros are written there at once."""
    x = sf.placeholder((None, LARGE), "float64", name="x")
    start = x.sum(0).sin() if made else sf.placeholder((LARGE,), "float64", name="start")
    total, _ = sf.scan(lambda c, r: (c + r * r, None), start, x)
    program = sf.compile([x] if made else [x, start], total)
    assert not any("carry of" in b.label for b in program.plan.routine.buffers)
    (loop,) = loops_of(program)
    assert not copies_in(loop)
    assert not any(isinstance(p, Turn) for p in carries_of(loop))
    for iterations in (0, 1, 2, 5):
        given = [rng.normal(size=(iterations, LARGE)), rng.normal(size=LARGE)][: 2 - made]
        (expected,) = interpret_graph(program.graph, given)
        code, (slow,) = run_slowly(program, given)
        assert code == 0
        for got in (program(*given).numpy(), slow):
            np.testing.assert_allclose(got, expected, 1e-9, 1e-12)


@pytest.mark.parametrize(
    "step",
    [
        lambda c, r: (c.flip(0) + r, None),  # read elsewhere than it is written
        lambda c, r: (c + r, c),  # stacked as iterations begin
        lambda c, r: ((c + r).exp().cumsum(0), None),  # made by a kernel that loops on its own
    ],
)
def test_a_large_carry_that_is_not_written_over(step: Callable[..., Any]) -> None:
    x = sf.placeholder((None, LARGE), "float64", name="x")
    start = sf.placeholder((LARGE,), "float64", name="start")
    last, ys = sf.scan(step, start, x)
    program = sf.compile([x, start], [last] if ys is None else [last, ys])
    given = [rng.normal(size=(3, LARGE)) / 10, rng.normal(size=LARGE)]
    for got, expected in zip(program(*given), interpret_graph(program.graph, given), strict=True):
        np.testing.assert_allclose(got.numpy(), expected, 1e-9, 1e-12)


def test_a_large_carry_is_read_before_it_is_written_over() -> None:
    """What else needs the old value in an iteration runs first."""
    x = sf.placeholder((None, LARGE), "float64", name="x")
    start = sf.placeholder((LARGE,), "float64", name="start")
    last, sums = sf.scan(lambda c, r: (c * 0.5 + r, (c * c).sum()), start, x)
    program = sf.compile([x, start], [last, sums])
    (loop,) = loops_of(program)
    assert not copies_in(loop)
    given = [rng.normal(size=(4, LARGE)), rng.normal(size=LARGE)]
    for got, expected in zip(program(*given), interpret_graph(program.graph, given), strict=True):
        np.testing.assert_allclose(got.numpy(), expected, 1e-9, 1e-12)
