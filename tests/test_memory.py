"""The predicted peak against the memory that a program has, and against the pages that it touches."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ShapeError

WIDE = 1000


def close_to(held: int, peak: int, buffers: int) -> bool:
    """Whether what is held is what was predicted, and a tenth more at most: rounded up to cache
    lines, of which a buffer that grows may have one more."""
    return peak <= held <= 1.1 * peak + 64 * buffers


def fits(program: Any, **sizes: int) -> bool:
    routine = program.plan.routine
    return close_to(program.held_bytes, program.plan.peak_bytes(**sizes), len(routine.growing))


def while_of(checkpoint: Any = None) -> Any:
    """The gradient of a loop over ``n`` trips with a wide carry."""
    x = sf.placeholder((WIDE,), "float64", name="x")
    n = sf.placeholder((), "int64", name="n")
    last = sf.while_loop(
        lambda i, h: i < n, lambda i, h: (i + 1, (h * h).sin()), (0, x), checkpoint=checkpoint
    )[1]
    return sf.compile([x, n], sf.grad(last.sum(), x))


@pytest.mark.parametrize("trips", [0, 1, 10, 1000, 10_000])
def test_a_loop_of_unknown_trips(trips: int) -> None:
    program = while_of()
    program(np.ones(WIDE), trips)
    assert program.plan.peak_bytes(trips=trips) >= 8 * WIDE * trips
    assert fits(program, trips=trips)


def test_a_loop_of_very_many_trips() -> None:
    n, x = sf.placeholder((), "int64", name="n"), sf.placeholder((), "float64", name="x")
    program = sf.compile([n, x], sf.grad(sf.fori_loop(0, n, lambda i, h: (h + x).sin(), x), x))
    for trips in (10, 1000, 100_000):
        program(trips, 0.5)
        assert fits(program, trips=trips)


def test_segments_of_a_loop_of_unknown_trips() -> None:
    program = while_of("sqrt")
    program(np.ones(WIDE), 45 * 46 // 2)  # 45 segments, of 1 to 45 trips
    assert str(program.plan.peak).count("trips_2")
    assert fits(program, trips=45, trips_2=45)


@pytest.mark.parametrize("how", [None, "sqrt", 7, lambda n: n // 2])
def test_a_scan_by_checkpoint(how: Any) -> None:
    x = sf.placeholder((None,), "float64", name="x")
    c = sf.placeholder((WIDE,), "float64", name="c")
    last, _ = sf.scan(lambda c, x: (sf.tanh(c + x), None), c, x, checkpoint=how)
    program = sf.compile([x, c], sf.grad(last.sum(), [c]))
    for length in (0, 1, 10, 300, 1000):
        program(np.ones(length), np.ones(WIDE))
        assert fits(program, x_0=length)


def test_a_loop_in_a_loop() -> None:
    """The inner trips differ; the largest number of them counts."""
    x = sf.placeholder((WIDE,), "float64", name="x")
    n = sf.placeholder((), "int64", name="n")

    def body(i: Any, h: Any) -> Any:
        return sf.while_loop(lambda j, h: j < i, lambda j, h: (j + 1, (h * h).sin()), (0, h))[1]

    program = sf.compile([x, n], sf.grad(sf.fori_loop(0, n, body, x).sum(), x))
    for trips in (1, 2, 40):
        program(np.ones(WIDE), trips)
        assert fits(program, trips=trips, trips_2=trips - 1)


def test_what_the_caller_is_given_is_not_the_programs() -> None:
    x = sf.placeholder((WIDE,), "float64", name="x")
    _, ys = sf.scan(lambda c, _: (c * 2, c), x, length=10_000, until=lambda c, y: c.sum() > 1e6)
    program = sf.compile([x], ys)
    assert program(np.ones(WIDE)).shape == (10, WIDE)
    assert program.plan.peak_bytes() < 4 * 8 * WIDE
    assert fits(program)


def test_a_size_that_is_missing() -> None:
    with pytest.raises(ShapeError, match=r"depends on trips too; call it as peak_bytes\(trips="):
        while_of().plan.peak_bytes()


RESIDENT = """
import re, sys
import numpy as np, staticflow as sf
WIDE = 1000
x = sf.placeholder((WIDE,), "float64", name="x")
n = sf.placeholder(({length},), "float64", name="n")
{loop}
program = sf.compile([x, n], sf.grad(last.sum(), x))
def status(key):
    return 1024 * int(re.search(key + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1])
program(np.ones(WIDE), np.ones(2))
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
program(np.ones(WIDE), np.ones({trips}))
print(status("VmHWM") - before, program.plan.peak_bytes({sizes}), program.held_bytes)
"""

LOOPS = {
    "while": (
        "last = sf.while_loop(lambda i, h: i < n.sum(), lambda i, h: (i + 1, (h * h).sin()), "
        "(0.0, x))[1]",
        10_000,
        "trips=10_000",
    ),
    "scan": ("last = sf.scan(lambda h, r: ((h * r).sin(), None), x, n)[0]", 10_000, "n=10_000"),
    "segments": (
        "last = sf.scan(lambda h, r: ((h * r).sin(), None), x, n, checkpoint=9000)[0]",
        20_000,
        "n=20_000",
    ),
    "nested": (
        "last = sf.scan(lambda h, r: (sf.while_loop(lambda i, a: i < r * 90, "
        "lambda i, a: (i + 1, (a * a).sin()), (0.0, h))[1], None), x, n)[0]",
        10_000,
        "n=10_000, trips=90",
    ),
}


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="Linux alone tells this")
@pytest.mark.parametrize("name", list(LOOPS))
def test_the_pages_that_a_program_touches(name: str) -> None:
    loop, trips, sizes = LOOPS[name]
    script = RESIDENT.format(length='"n"', loop=loop, trips=trips, sizes=sizes)
    fixed = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "131072"}
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, check=True, env=fixed,
    )  # fmt: skip
    resident, predicted, held = map(int, told.stdout.split())
    assert predicted >= 70_000_000
    assert abs(resident - predicted) <= 0.1 * predicted
    assert abs(held - predicted) <= 0.1 * predicted + 1000
