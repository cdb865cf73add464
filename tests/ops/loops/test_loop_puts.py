"""A carry of which an iteration changes some elements, as a cache or a table, is in memory once: no
iteration copies it, whether anybody wants it afterwards, and errors leave nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loop_steps import carries_of, copies_in, loops_of
from routine_machine import run_slowly

import staticflow as sf
from staticflow.codegen.program.routine import Arena, Turn
from staticflow.graph.interpret import interpret_graph

Step = Callable[[Any, Any], Any]
rng = np.random.default_rng(0)


def _place(c: Any, i: Any) -> Any:
    c[i] = c[i] * 2 + 1
    return c


def _from_the_end(c: Any, i: Any) -> Any:
    c[-1 - i] = c[i] + 1
    return c


def _column(c: Any, i: Any) -> Any:
    c[:, i % 3] = c.sum(1)
    return c


def _rows(c: Any, i: Any) -> Any:
    rows = sf.stack([i, i + 1, i])
    return c.index_add(0, rows, c[rows] * 0.5)


def _element(c: Any, i: Any) -> Any:
    c[i, 1] = c[i + 1, 2] - c[i, 0]
    return c


def _read_first(c: Any, i: Any) -> Any:
    total = c.sum(0)
    c[i] = total * 0.1
    return c


def _two(c: Any, i: Any) -> Any:
    c[i] = c[i] + 1
    c[i + 1, 0] = 5.0
    return c


def _swap(c: Any, i: Any) -> Any:
    a, b = c[i].clone(), c[i + 1].clone()  # which are views
    c[i], c[i + 1] = b, a
    return c


def _many(c: Any, i: Any) -> Any:
    first = c[0].sum()
    c[i] = first
    c = c.index_add(0, sf.stack([i, i]), c[:2])
    c[i, 1:] = c[2, 1]
    c[:, 0] = first
    return c


STEPS: dict[str, Step] = {
    "a row": _place, "a row from the end": _from_the_end, "a column": _column,
    "some rows": _rows, "an element": _element, "what all gave": _read_first,
    "two": _two, "two that change places": _swap,
}  # fmt: skip


def scanned(step: Step, c: Any, n: Any) -> tuple[Any, Any]:
    """The carry after ``n``'s rows, and a number of each iteration."""

    def body(c: Any, i: Any) -> Any:
        c = step(c.clone(), i)
        return c, c[i].sum()

    return sf.scan(body, c, n)


def repeated(step: Step, c: Any, n: Any) -> tuple[Any, Any]:
    """The same by a guarded loop, and the number of its iterations."""
    i, c = sf.while_loop(
        lambda i, c: (i < n.shape[0]) & (c.sum() < 1e6),
        lambda i, c: (i + 1, step(c.clone(), n[i])),
        ((n * 0).sum(), c),
    )
    return c, i


def nested(step: Step, c: Any, n: Any) -> tuple[Any, Any]:
    """The same twice, by a loop in a loop."""

    def outer(c: Any, _: Any) -> Any:
        c, ys = scanned(step, c, n)
        return c, ys.sum()

    return sf.scan(outer, c, None, length=2)


LOOPS = {"scan": scanned, "while": repeated, "nested": nested}


@pytest.mark.parametrize("rows", [7, None])
@pytest.mark.parametrize("wanted", ["carry", "other", "both"])
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("step", STEPS)
def test_the_carry_is_in_memory_once(step: str, loop: str, wanted: str, rows: int | None) -> None:
    c = sf.placeholder((rows, 3), "float64", name="c")
    n = sf.placeholder((None,), "int64", name="n")
    last, other = LOOPS[loop](STEPS[step], c, n)
    outputs = {"carry": [last], "other": [other], "both": [last, other]}[wanted]
    program = sf.compile([c, n], outputs)
    for found in loops_of(program):
        assert not copies_in(found)
        turns = [p.made for p in carries_of(found) if isinstance(p.made, Turn)]
        buffers = [a.buffer for turn in turns for a in turn.arrays if isinstance(a, Arena)]
        assert all(len(program.plan.routine.buffers[b].shape) < 2 for b in buffers)
    for iterations in (0, 1, 2, 5):
        given = [rng.normal(size=(7, 3)), rng.permutation(6)[:iterations]]
        before = given[0].copy()
        expected = interpret_graph(program.graph, given)
        code, slow = run_slowly(program, given)
        assert code == 0
        result = program(*given)
        got = [t.numpy() for t in (result if isinstance(result, tuple | list) else (result,))]
        eager = LOOPS[loop](STEPS[step], *map(sf.tensor, given))
        by_hand = {"carry": eager[:1], "other": eager[1:], "both": eager}[wanted]
        for a, b, c_, d in zip(got, slow, expected, by_hand, strict=True):
            np.testing.assert_allclose(a, c_, 1e-9, 1e-12)
            np.testing.assert_allclose(b, c_, 1e-9, 1e-12)
            np.testing.assert_allclose(d.numpy(), c_, 1e-9, 1e-12)
        np.testing.assert_array_equal(given[0], before)


@pytest.mark.parametrize("loop", LOOPS)
def test_puts_between_which_the_array_is_read(loop: str) -> None:
    c = sf.placeholder((7, 3), "float64", name="c")
    n = sf.placeholder((None,), "int64", name="n")
    program = sf.compile([c, n], LOOPS[loop](_many, c, n)[0])
    for iterations in (0, 1, 3):
        given = [rng.normal(size=(7, 3)), rng.permutation(6)[:iterations]]
        (expected,) = interpret_graph(program.graph, given)
        _, (slow,) = run_slowly(program, given)
        eager = LOOPS[loop](_many, *map(sf.tensor, given))[0]
        for got in (program(*given), slow, eager):
            np.testing.assert_allclose(got, expected, 1e-9, 1e-12)


def test_a_table_is_filled_row_by_row() -> None:
    """Two loops, one in the other: the distance of two words, in one array that nobody copies."""
    a, b = (sf.placeholder((None,), "int64", name=name) for name in "ab")
    table = sf.zeros_like(a)[:1].sum() * 0 + sf.arange(a.shape[0] + 1)[:, None]
    table = (table + sf.arange(b.shape[0] + 1)).to(sf.int64)

    def row(table: Any, i: Any) -> Any:
        def cell(table: Any, j: Any) -> Any:
            table = table.clone()
            change = table[i, j] + (a[i] != b[j]).to(sf.int64)
            table[i + 1, j + 1] = sf.minimum(
                sf.minimum(table[i, j + 1], table[i + 1, j]) + 1, change
            )
            return table, None

        return sf.scan(cell, table, sf.arange(b.shape[0]))[0], None

    table, _ = sf.scan(row, table, sf.arange(a.shape[0]))
    program = sf.compile([a, b], table[-1, -1])
    assert not any(copies_in(loop) for loop in loops_of(program))
    words = [np.frombuffer(w, np.uint8).astype(np.int64) for w in (b"kitten", b"sitting", b"")]
    for i, j, distance in ((0, 1, 3), (1, 0, 3), (0, 2, 6), (2, 2, 0), (1, 1, 0)):
        assert program(words[i], words[j]).item() == distance


def test_puts_outside_of_loops_copy_once() -> None:
    x = sf.placeholder((64, 32), "float64", name="x")
    n = sf.placeholder((), "int64", name="n")
    y = x.clone()
    for i in range(4):
        y[n + i] = float(i)
    program = sf.compile([x, n], [y, y.sum()])
    given = rng.normal(size=(64, 32))
    kept = given.copy()
    got, total = program(given, np.int64(5))
    kept[5:9] = np.arange(4.0)[:, None]
    np.testing.assert_array_equal(got.numpy(), kept)
    np.testing.assert_allclose(total.numpy(), kept.sum())
    matrices = [b for b in program.plan.routine.buffers if b.shape == (64, 32)]
    assert not matrices  # all of it is where the result is wanted


@pytest.mark.parametrize("loop", ["scan", "while"])
def test_gradients_through_puts(loop: str) -> None:
    def objective(c: Any, n: Any) -> Any:
        return (LOOPS[loop](lambda c, i: _place(c.sin(), i), c, n)[0] ** 2).sum()

    c = sf.placeholder((5, 2), "float64", name="c")
    n = sf.placeholder((None,), "int64", name="n")
    program = sf.compile([c, n], sf.grad(objective(c, n), c))
    given = rng.normal(size=(5, 2)), np.array([3, 0, 3])
    x = sf.tensor(given[0], requires_grad=True)
    objective(x, sf.tensor(given[1])).backward()
    np.testing.assert_allclose(program(*given).numpy(), x.grad.numpy(), 1e-9, 1e-12)


def test_an_index_out_of_range_leaves_nothing_behind() -> None:
    """Several carries are put into before the index of a later iteration is wrong."""
    variable = sf.zeros(4, 2, dtype=sf.float64)
    c = sf.placeholder((4, 2), "float64", name="c")
    n = sf.placeholder((None,), "int64", name="n")

    def body(carry: Any, i: Any) -> Any:
        a, b = (x.clone() for x in carry)
        a[i] = b[i] + 1
        b[i] = a[i] * 2
        return (a, b), None

    (a, b), _ = sf.scan(body, (variable, c), n)
    program = sf.compile([c, n], b, updates={variable: a})
    assert program.explain("kernels").count("copy") == 1
    start = rng.normal(size=(4, 2))
    kept = start.copy()
    with pytest.raises(sf.errors.IndexRangeError):
        program(start, np.array([0, 1, 9]))
    np.testing.assert_array_equal(start, kept)
    assert not variable.numpy().any()
    got = program(start, np.array([1])).numpy()
    np.testing.assert_allclose(got[1], (kept[1] + 1) * 2)
    np.testing.assert_allclose(variable.numpy()[1], kept[1] + 1)
