"""Operands that are split otherwise than an op takes them: results are those of one process, and
``explain("mesh")`` says each tensor that is sent for that, with its bytes, both layouts and the line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slices import by_days

import staticflow as sf
from staticflow import distributed
from staticflow.distributed import shard
from staticflow.measure.messages import messages_of

Array = np.ndarray[Any, Any]
Moves = list[tuple[str, str, str]]
ROWS, COLUMNS, WHOLE = "data, None", "None, data", "None, None"
OTHER_ROWS = "model, None"


def rows(x: Any) -> Any:
    return shard(x, "data", None)


def columns(x: Any) -> Any:
    return shard(x, None, "data")


# name: a function of x (n, 5) and y (5, n), in numbers of double precision; what is sent since it is
# split otherwise: how it is split, how it is wanted, and by which op
CONFLICTS: dict[str, tuple[Callable[[Any, Any], Any], Moves]] = {
    "rows and columns are added": (
        lambda x, y: rows(x) + columns(y.t()), [(COLUMNS, ROWS, "add")],
    ),
    "rows over two axes are added": (
        lambda x, y: rows(x) + shard(y.t(), "model", None), [(OTHER_ROWS, ROWS, "add")],
    ),
    "the middle of a product is split over two axes": (
        lambda x, y: columns(x) @ shard(y, "model", None), [(OTHER_ROWS, ROWS, "matmul")],
    ),
    "rows and columns of a product are split over one axis": (
        lambda x, y: rows(x) @ columns(y), [(COLUMNS, WHOLE, "matmul")],
    ),
    "three layouts meet": (
        lambda x, y: sf.where(rows(x) > 0, columns(x * 2), shard(y.t(), "model", None)),
        [(COLUMNS, ROWS, "where"), (OTHER_ROWS, ROWS, "where")],
    ),
    "joined along the split dim": (
        lambda x, y: sf.cat([rows(x), rows(x * 2)]), [(ROWS, WHOLE, "cat")] * 2,
    ),
    "a reshape across parts": (lambda x, y: rows(x)[:, :4].reshape(2, -1), [(ROWS, WHOLE, "reshape")]),
    "sorted along the split dim": (lambda x, y: rows(x).sort(0).values, [(ROWS, WHOLE, "sort")]),
    "the largest places along the split dim": (
        lambda x, y: rows(x).argmax(0), [(ROWS, WHOLE, "argmax")],
    ),
    "a running sum along the split dim": (
        lambda x, y: rows(x).cumsum(0), [(ROWS, WHOLE, "cumsum")],
    ),
    "rows backwards": (lambda x, y: rows(x).flip(0), [(ROWS, WHOLE, "flip")]),
    "all rows but the first": (lambda x, y: rows(x)[1:] * 2, [(ROWS, WHOLE, "slice")]),
    "one row": (lambda x, y: rows(x)[1] * 2, [(ROWS, WHOLE, "select")]),
    "chosen along the split dim": (
        lambda x, y: rows(x).gather(0, x.argsort(0)), [(ROWS, WHOLE, "gather")],
    ),
    "an op without a rule": (
        lambda x, y: sf.linalg.qr(rows(x)).R.abs(), [(ROWS, WHOLE, "qr")],
    ),
    "split anew": (lambda x, y: columns(rows(x).exp()) * 2, [(ROWS, COLUMNS, "shard")]),
    "split over the other axis": (
        lambda x, y: shard(rows(x).exp(), "model", None) * 2, [(ROWS, OTHER_ROWS, "shard")],
    ),
    "a loop that goes along the split dim": (
        lambda x, y: sf.scan(lambda c, row: (c + row, c * row), x[0], rows(x))[1],
        [(ROWS, WHOLE, "scan")],
    ),
    "a loop that ends split otherwise": (
        lambda x, y: sf.fori_loop(0, 3, lambda i, c: columns(c * 2), rows(x)),
        [(ROWS, COLUMNS, "shard"), (COLUMNS, ROWS, "scan")],
    ),
    "branches that end split otherwise": (
        lambda x, y: sf.cond(
            y.sum() > 0, lambda a: rows(a) * 2, lambda a: columns(a) * 3, x
        ),
        [(COLUMNS, ROWS, "cond")],
    ),
}  # fmt: skip


def compiled(write: Callable[[Any, Any], Any], size: int | None, mesh: Any = None) -> Any:
    x = sf.placeholder((size, 5), sf.float64, name="x")
    y = sf.placeholder((5, x.shape[0]), sf.float64, name="y")
    return sf.compile([x, y], write(x, y), mesh=mesh)


def read_moves(step: Any) -> Moves:
    """What is said to be sent since it is split otherwise, but for results."""
    _, _, text = step.explain("mesh").partition("\n\n")
    found = []
    for line in text.splitlines()[1:]:
        kind, now, wanted, by, _, at = re.split(r" {2,}", line)
        assert kind.startswith(("f64[", "i64[")) and "test_conflicts.py:" in at
        if by != "the results":
            found.append((now, wanted, by))
    return found


def check(write: Callable[[Any, Any], Any], size: int | None, n: int, wanted: Moves | None) -> None:
    """Results are those of one process, and all is said that is sent for it, if it is given."""
    rng = np.random.default_rng(0)
    given = rng.standard_normal((n, 5)), rng.standard_normal((5, n))
    alone = compiled(write, size)(*given).numpy()

    def run() -> tuple[Array, Moves]:
        step = compiled(write, size, distributed.mesh(data=3, model=2))
        return step(*given).numpy(), read_moves(step)

    for found, moves in distributed.simulate(run, 6):
        np.testing.assert_allclose(found, alone, rtol=1e-12, atol=1e-13)
        assert wanted is None or moves == wanted


@pytest.mark.parametrize("name", by_days(list(CONFLICTS), 8, "conflicts"))
def test_what_is_split_otherwise_is_sent_and_said(name: str) -> None:
    """Of sizes that the axis divides and does not, known and unknown."""
    for size, n in ((9, 9), (None, 7), (None, 2)):
        check(CONFLICTS[name][0], size, n, CONFLICTS[name][1])


def test_lengths_that_are_split_otherwise_than_rows() -> None:
    """They are gathered, once for all that reads them; where a process may have no row, rows are."""

    def write(x: Any, y: Any) -> Any:
        lengths = shard(x.argmax(1), "model")
        return sf.scan(lambda c, r: (c * 2 + r, r), y[0], columns(y), lengths=lengths)[0]

    check(write, 9, 9, [("model", "None", "cat")])
    check(write, None, 10, None)


def test_all_bytes_that_are_no_sums_are_said() -> None:
    """Those of messages that gather or deal out are those of what is split otherwise."""
    for name, (write, _) in CONFLICTS.items():
        if "loop" in name or "branches" in name:
            continue  # which are counted by the iteration

        def run(write: Any = write) -> Any:
            step = compiled(write, 9, distributed.mesh(data=3, model=2))
            steps = step.plan.routine.steps
            sent = [m for m in messages_of(steps, int) if "all_reduce" not in str(m.step)]
            return sum(m.bytes for m in sent), sum(int(m.bytes) for m in step._written.moved)

        sent, said = distributed.simulate(run, 6)[0]
        assert sent == said > 0, name


def test_what_is_dealt_out_is_sent_once() -> None:
    """From rows to columns each process sends the others what they have of it: of its 3 rows of 6
    numbers two thirds; what is gathered goes as a whole to each of two others."""

    def run() -> tuple[str, str, str]:
        mesh = distributed.mesh(data=-1)
        x = sf.placeholder((9, 6), sf.float64, name="x")
        dealt = sf.compile([x], shard(columns(rows(x).exp()), None, "data"), mesh=mesh)
        gathered = sf.compile([x], shard(rows(x).exp().cumsum(0), None, None), mesh=mesh)
        return dealt.explain("mesh"), dealt.explain(), gathered.explain("mesh")

    dealt, screen, gathered = distributed.simulate(run, 3)[0]
    assert "collectives 1 all_to_all" in screen
    assert f"each process sends {9 * 6 * 8 // 3 * 2 // 3} B in 2 messages" in dealt
    assert f"each process sends {9 * 6 * 8 // 3 * 2} B in 2 messages" in gathered
    assert dealt.splitlines()[-1].split()[-2:-4:-1] == ["B", "96"]
    assert gathered.splitlines()[-1].split()[-2:-4:-1] == ["B", "288"]
