"""What lends programs their arenas: one code for all that have no growing buffers."""

from __future__ import annotations

import numpy as np

import staticflow as sf
from staticflow.runtime.lending import lending_symbols
from staticflow.runtime.native import NativeModule


def program(number: float) -> sf.Program:
    x = sf.placeholder((None, 8), name="x")
    return sf.compile([x], (x @ sf.full((8, 8), number)).softmax(0) @ sf.ones(8, 2))


def test_programs_without_growing_buffers_call_one_code() -> None:
    """Three functions that LLVM compiled for each of them."""
    text = program(0.5).source()
    assert "call ptr @borrow(" in text
    assert not any(f"@{name}(" in line for name in lending_symbols()
                   for line in text.splitlines() if line.startswith("define"))  # fmt: skip
    lending_symbols()
    program(1.5)
    before = NativeModule.loads
    program(2.5)
    assert NativeModule.loads - before <= 2  # its code, and that of its entry


def test_an_arena_is_kept_and_freed() -> None:
    step = program(0.25)
    assert step.held_bytes == 0
    for rows in (3, 300, 5):
        x = sf.ones(rows, 8)
        assert np.allclose(step(x).numpy(), 8 / rows)
    assert step.held_bytes >= 300 * 8 * 4
    step._executable.free()
    assert step.held_bytes == 0
    assert np.allclose(step(sf.ones(4, 8)).numpy(), 2)
