"""How much one call of a program does."""

from __future__ import annotations

import staticflow as sf
from staticflow.comparison.amount import Work, work_of_call


def test_the_work_of_a_call_is_that_of_its_sizes() -> None:
    w = sf.ones(8, 4)
    x = sf.placeholder((None, 8), name="x")
    step = sf.compile([x], (x @ w).sum(), updates={w: sf.symbol(w) * 0.5})
    few, many = (work_of_call(step, sf.ones(n, 8)) for n in (16, 160))
    assert few is not None and many is not None
    assert many.flops - few.flops == 144 * 4 * (2 * 8 + 1)
    assert many.footprint - few.footprint >= 144 * 8 * 4  # what x has more


def test_variables_are_touched_once_and_read_and_written() -> None:
    w = sf.ones(1000)
    x = sf.placeholder((), name="x")
    assert work_of_call(sf.compile([x], None, updates={w: sf.symbol(w) * x}), sf.ones(())) == Work(
        bytes=8004, flops=1000, footprint=4004
    )


def test_only_a_run_can_tell_where_some_loops_end() -> None:
    x = sf.placeholder((), name="x")
    ends = sf.while_loop(lambda z: z < 100, lambda z: z * 2, x)
    rows = sf.scan(lambda c, _: (c + x, c), x, length=1000, until=lambda c, row: c > 5)[1]
    for output in (ends, rows):
        assert work_of_call(sf.compile([x], output), sf.ones(())) is None
