"""Loops whose state is a few numbers and that stack rows: one kernel each, whatever ends them,
which gives its stacks room as it runs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from routine_machine import run_slowly

import staticflow as sf
from staticflow.codegen.program.routine import Choose, Launch, Measure, Repeat, walk_steps
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.interpret import interpret_graph

ROOM = 256
"""Rows for which a kernel makes room at a time."""

TRIPS = [0, 1, 2, ROOM - 1, ROOM, ROOM + 1, 5000, 3]


def number(name: str, dtype: str = "float64") -> Any:
    return sf.placeholder((), dtype, name=name)


def steps_of(program: Any) -> list[Any]:
    return list(walk_steps(program.plan.routine.steps))


def is_kernels_alone(program: Any) -> bool:
    """Whether the program has kernels, which keep to the rules, and neither loops nor branches."""
    for kernel in program.plan.routine.kernels:
        verify_kernel(kernel)
    return not any(isinstance(s, Repeat | Choose) for s in steps_of(program))


def test_rows_up_to_an_end_that_the_run_finds(call_path: bool) -> None:
    n, x = number("n", "int64"), number("x")
    (k, c), (ys, flags) = sf.scan(
        lambda c, _: ((c[0] + 1, c[1] * 0.5 + x), (c[1], c[1] > 1.5)),
        (n * 0, x),
        length=10**6,
        until=lambda c, y: c[0] >= n,
    )
    program = sf.compile([n, x], [k, c, ys, flags])
    assert is_kernels_alone(program)
    assert sum(isinstance(s, Measure) for s in steps_of(program)) == 1
    for iterations in (1, *TRIPS[1:]):
        rows, last = [], 1.0
        for _ in range(iterations):
            rows.append(last)
            last = last * 0.5 + 1.0
        got = [v.numpy() for v in program(iterations, 1.0)]
        assert got[0] == iterations
        np.testing.assert_allclose(got[1], last, 1e-12)
        np.testing.assert_allclose(got[2], rows, 1e-12)
        assert np.array_equal(got[3], np.array(rows) > 1.5)


def test_the_most_rows_may_be_known() -> None:
    x, most = number("x"), sf.placeholder((None,), "float64", name="most")
    for rows, until in ((most, None), (None, 100), (None, 5)):
        _, ys = sf.scan(
            lambda c, r: (c + 1.0, c), x, rows, length=until, until=lambda c, y: c > 40.0
        )
        program = sf.compile([x, most], ys)
        assert is_kernels_alone(program)
        for start in (0.0, 38.0, 50.0):
            for size in (0, 1, 300):
                limit = until if until is not None else size
                got = program(start, np.zeros(size)).numpy()
                wanted = [start + i for i in range(limit)]
                ends = next((i + 1 for i, c in enumerate(wanted) if c + 1 > 40.0), limit)
                np.testing.assert_array_equal(got, wanted[:ends])


def test_gradients_of_a_while_loop() -> None:
    n, x = number("n", "int64"), number("x")
    _, h = sf.while_loop(lambda i, h: i < n, lambda i, h: (i + 1, (h * 0.9).sin() + x), (0, x))
    first = sf.grad(h, x)
    program = sf.compile([n, x], [h, first, sf.grad(first, x)])
    assert is_kernels_alone(program)
    assert program.plan.peak_bytes(iterations=10**6) // 10**6 == 24
    alone = sf.compile([n, x], first)  # forward, backward, and the sum of what comes back
    assert sum(isinstance(s, Launch) for s in steps_of(alone)) == 3
    for iterations in TRIPS:
        value, d, dd = 0.5, 1.0, 0.0
        for _ in range(iterations):
            s, c = np.sin(value * 0.9), np.cos(value * 0.9)
            value, d, dd = s + 0.5, 0.9 * c * d + 1.0, 0.9 * c * dd - 0.81 * s * d * d
        np.testing.assert_allclose(
            [v.item() for v in program(iterations, 0.5)], [value, d, dd], 1e-9
        )


def test_what_a_branch_gives_is_stacked() -> None:
    n = number("n", "int64")
    (last, _), ys = sf.scan(
        lambda c, _: (
            (sf.cond(c[0] % 2 == 0, lambda: c[0] // 2, lambda: 3 * c[0] + 1), c[1]),
            c[0],
        ),
        (n, n),
        length=10**6,
        until=lambda c, y: c[0] == 1,
    )
    program = sf.compile([n], [last, ys])
    assert is_kernels_alone(program)
    assert program(6)[1].tolist() == [6, 3, 10, 5, 16, 8, 4, 2]
    assert program(27)[1].shape == (111,)


def test_a_stack_of_numbers_in_a_loop_over_arrays() -> None:
    """The number of its rows is another one on every iteration."""
    x = sf.placeholder((3,), "float64", name="x")

    def iteration(i: Any, c: Any) -> Any:
        s = c.sum()
        _, h = sf.while_loop(lambda k, h: k < i * 200, lambda k, h: (k + 1, h.sin() + s), (0, s))
        return c * 0.5 + h

    total = sf.fori_loop(0, 3, iteration, x).sum()
    program = sf.compile([x], [total, sf.grad(total, x)])
    eager = sf.tensor([0.1, 0.2, 0.3], dtype="float64", requires_grad=True)
    c = eager
    for i in range(3):
        s = c.sum()
        h = s
        for _ in range(i * 200):
            h = h.sin() + s
        c = c * 0.5 + h
    c.sum().backward()
    value, gradient = program(eager.detach())
    np.testing.assert_allclose(value.item(), c.sum().item(), 1e-12)
    np.testing.assert_allclose(gradient.numpy(), eager.grad.numpy(), 1e-9)


def test_memory_stays_from_call_to_call() -> None:
    n = number("n", "int64")
    _, ys = sf.scan(lambda c, _: (c + 1, c), n * 0, length=10**9, until=lambda c, y: c == n)
    program = sf.compile([n], ys.sum())
    program(100_000)
    held = program.held_bytes
    assert 800_000 <= held <= 1_000_000
    assert program(7).item() == 21
    assert program(100_000).item() == 100_000 * 99_999 // 2
    assert program.held_bytes == held


@pytest.mark.parametrize("given", [False, True], ids=["kept", "given out"])
def test_no_memory_is_an_error(given: bool) -> None:
    """And the program goes on working after it."""
    text = f"""
import resource
import staticflow as sf
n = sf.placeholder((), "int64", name="n")
_, ys = sf.scan(lambda c, _: (c + 1, c), n * 0, length=10**12, until=lambda c, y: c == n)
program = sf.compile([n], {"ys" if given else "ys.sum()"})
program(10).sum().item()  # what is compiled, is before the limit
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 26), -1))
for _ in range(2):
    try:
        program(-1)
    except MemoryError as error:
        assert "no memory" in str(error)
    else:
        raise AssertionError("it found memory")
    print(program(1000).sum().item())
"""
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["499500"] * 2


@pytest.mark.parametrize("checkpoint", [None, 7, "sqrt"])
@pytest.mark.parametrize("form", ["while", "scan"])
def test_roots_and_their_derivatives(form: str, checkpoint: Any) -> None:
    a, x = number("a"), number("x")
    more = {} if checkpoint is None else {"checkpoint": checkpoint}
    if form == "while":
        root = sf.while_loop(
            lambda x: (x * x - a).abs() > 1e-12, lambda x: x - 0.3 * (x * x - a) / x, x, **more
        )
    else:
        root, _ = sf.scan(
            lambda x, _: (x - 0.3 * (x * x - a) / x, x),
            x,
            length=1000,
            until=lambda x, y: (x * x - a).abs() <= 1e-12,
            **more,
        )
    slope = sf.grad(root, a)
    program = sf.compile([a, x], [root, slope, sf.grad(slope, a)])
    for value in (2.0, 9.0, 100.0):
        got = [v.item() for v in program(value, 3.5)]
        wanted = [value**0.5, 0.5 * value**-0.5, -0.25 * value**-1.5]
        np.testing.assert_allclose(got, wanted, 1e-6)


# -- loops in loops --------------------------------------------------------------------------------


def in_turn(x: Any, n: Any) -> Any:
    """Inner loops of a known number of iterations."""
    return sf.fori_loop(
        0, n, lambda i, c: sf.fori_loop(0, 3, lambda j, s: (s * 0.9).sin() + x, c), x
    )


def as_the_run_tells(x: Any, n: Any) -> Any:
    """Inner loops of 0 to 3 iterations."""

    def iteration(i: Any, c: Any) -> Any:
        return sf.while_loop(
            lambda j, s: j < i % 4, lambda j, s: (j + 1, (s * 0.9).sin() + x), (i * 0, c)
        )[1]

    return sf.fori_loop(0, n, iteration, x)


def in_branches(x: Any, n: Any) -> Any:
    """Loops that only one branch has."""

    def iteration(i: Any, c: Any) -> Any:
        return sf.cond(
            c > 1.0,
            lambda: sf.fori_loop(0, i % 3, lambda j, s: (s * 0.9).sin() + x, c),
            lambda: c * 1.5,
        )

    return sf.fori_loop(0, n, iteration, x)


def read_twice(x: Any, n: Any) -> Any:
    """What an inner loop stacks is read by two others, the other way round, and by its place. The
    derivative adds what comes back from them, which are arrays."""

    def iteration(i: Any, c: Any) -> Any:
        _, ys = sf.scan(lambda s, _: (s.sin() + x, s * 2), c, length=4)
        a, _ = sf.scan(lambda s, y: (s * 0.5 + y, None), c, ys)
        b, _ = sf.scan(lambda s, y: (s - y * 0.3, None), c, ys, reverse=True)
        return (a + b) * 0.1 + ys[1] - ys[3] * 0.5

    return sf.fori_loop(0, n, iteration, x)


def three_deep(x: Any, n: Any) -> Any:
    def inner(i: Any, c: Any) -> Any:
        return sf.while_loop(lambda s: s < 1.5, lambda s: s * 1.1 + 0.1 * x, c * 0.6)

    return sf.fori_loop(0, n, lambda i, c: sf.fori_loop(0, i % 3, inner, c), x)


def of_no_iteration(x: Any, n: Any) -> Any:
    """Inner loops that never run, on rows that are none."""

    def iteration(i: Any, c: Any) -> Any:
        a, ys = sf.scan(lambda s, _: (s + x, s), c, length=0)
        b, _ = sf.scan(lambda s, y: (s + y, None), a, ys)
        return sf.fori_loop(0, 0, lambda j, s: s + j, b) * 0.5 + x

    return sf.fori_loop(0, n, iteration, x)


def up_to_an_end(x: Any, n: Any) -> Any:
    """An inner loop that ends early, of few iterations at most."""

    def iteration(i: Any, c: Any) -> Any:
        a, ys = sf.scan(lambda s, _: (s * 1.2 + x, s), c, length=3, until=lambda s, y: s > 2)
        b, _ = sf.scan(lambda s, y: (s * 0.5 + y, None), a, ys)
        return b * 0.3

    return sf.fori_loop(0, n, iteration, x)


def in_segments(x: Any, n: Any) -> Any:
    return sf.while_loop(
        lambda i, h: i < n, lambda i, h: (i + 1, (h * 0.9).sin() + x), (n * 0, x), checkpoint="sqrt"
    )[1]


@pytest.mark.parametrize(
    "form",
    [
        in_turn, as_the_run_tells, in_branches, read_twice, three_deep, of_no_iteration, up_to_an_end,
        in_segments,
    ],
)  # fmt: skip
def test_loops_in_loops_of_numbers(form: Any) -> None:
    x, n = number("x"), number("n", "int64")
    value = form(x, n)
    first = sf.grad(value, x)
    second = sf.grad(first, x, allow_unused=True)  # None of what is linear
    program = sf.compile([x, n], [value, first, *([] if second is None else [second])])
    by_numbers = form not in (read_twice, up_to_an_end)  # the others add arrays on the way back
    assert is_kernels_alone(program if by_numbers else sf.compile([x, n], value))
    for iterations in (0, 1, 2, 7, 30):
        given = [np.asarray(0.5), np.asarray(iterations)]
        got = [v.numpy() for v in program(*given)]
        at = sf.tensor(0.5, dtype="float64", requires_grad=True)
        eager = form(at, sf.tensor(iterations, dtype="int64"))
        (slope,) = sf.autograd.grad(eager, at, create_graph=True)
        wanted = [eager.item(), slope.item()]
        if slope.requires_grad:
            assert second is not None
            wanted.append(sf.autograd.grad(slope, at)[0].item())
        np.testing.assert_allclose(got[: len(wanted)], wanted, 1e-8, 1e-8)
        code, slowly = run_slowly(program, given)
        assert code == 0
        np.testing.assert_allclose(slowly, got, 1e-12)
        np.testing.assert_allclose(interpret_graph(program.optimized, given), got, 1e-9, 1e-12)


def test_a_loop_whose_inside_the_rules_change_runs_once() -> None:
    """Forward for the value and for what the derivative needs."""
    x, n = number("x"), number("n", "int64")
    value = sf.fori_loop(
        0, n, lambda i, c: sf.fori_loop(0, 3, lambda j, s: (s * 1.0 + 0.1).sigmoid() + x, c), x
    )
    program = sf.compile([x, n], [value, sf.grad(value, x)])
    assert sum(isinstance(s, Launch) for s in steps_of(program)) == 3
