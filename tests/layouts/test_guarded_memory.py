"""Results, arenas and temporaries beside pages that may not be touched: a kernel that reads or writes
outside its memory ends the process.

``STATICFLOW_TEST_GUARDED=1 python -m pytest -n 0 tests/...`` runs any test so, see `guarded_memory`;
within an arena, where buffers are neighbours, `guarded_machine` runs kernel after kernel.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import GUARDED
from guarded_machine import run_guarded
from layout_checks import Check
from opinfo import ROWS
from slices import daily
from test_layouts import NAMES, samples_for, small_ones

TESTS = Path(__file__).parents[1]
BATCH = 20
BATCHES = [NAMES[at : at + BATCH] for at in range(0, len(NAMES), BATCH)]

FILES = [
    "eager/test_eager_layouts.py", "eager/test_eager_rows.py", "eager/test_eager_large.py", "eager/test_eager_overwrite.py",
    "eager/test_eager_pullback.py", "eager/test_eager_products.py", "eager/test_eager_in_place.py", "eager/test_eager_fused.py",
    "runtime/test_fastcall_sizes.py", "static/test_late_sizes.py", "ops/loops/test_loop_memory.py", "ops/loops/test_loop_programs.py",
    "ops/loops/test_loops.py", "nn/test_nn_layers.py", "nn/test_nn_recurrent.py", "codegen/test_program.py", "codegen/test_strips.py",
    "optim/test_training.py", "layouts/test_view_programs.py",
]  # fmt: skip
"""Tests that run many kernels and programs."""


def run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run Python with all memory guarded."""
    environment = {
        **os.environ,
        GUARDED: "1",
        "PYTHONPATH": os.pathsep.join([str(TESTS / "support"), str(TESTS), str(TESTS.parent)]),
    }
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", *arguments],
        env=environment, cwd=TESTS.parent, capture_output=True, text=True,
    )  # fmt: skip


def run_tests(*chosen: str) -> None:
    found = run(["-m", "pytest", "-n", "0", "-v", "-x", "-p", "no:cacheprovider", *chosen])
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-4000:]


# -- the mode ------------------------------------------------------------------------------------

_FAULTS = [
    ("(sf.ones(5) + 1)._data", "before"),
    ("sf.ones(300, 300).exp()._data", "behind"),
    ("sf.compile([x], x.exp())(np.ones((7, 3), np.float32))._data", "behind"),
]


@pytest.mark.parametrize(("made", "side"), _FAULTS)
def test_a_byte_outside_is_a_fault(made: str, side: str) -> None:
    """Some blocks end at a protected page, others begin at one: of a few there are both."""
    program = f"""
import guarded_memory
guarded_memory.guard_memory()
import ctypes, numpy as np, staticflow as sf
x = sf.placeholder((7, 3))
for _ in range(40):
    made = {made}
    at = made.ctypes.data + made.nbytes if "{side}" == "behind" else made.ctypes.data - 1
    if (at + ("{side}" == "before")) % 4096 == 0:
        print("writing", flush=True)
        ctypes.memset(at, 0, 1)
"""
    found = run(["-c", program])
    assert found.stdout == "writing\n"
    assert found.returncode == -signal.SIGSEGV


def test_operations_today() -> None:
    names = daily(NAMES, 2, "guarded memory")
    run_tests("-m", "campaign", *(f"tests/layouts/test_layouts.py::test_once[{n}]" for n in names))


@pytest.mark.campaign
@pytest.mark.parametrize("names", BATCHES, ids=lambda names: f"{names[0]} to {names[-1]}")
def test_operations(names: Sequence[str]) -> None:
    run_tests("-m", "campaign", *(f"tests/layouts/test_layouts.py::test_once[{n}]" for n in names))


@pytest.mark.campaign
@pytest.mark.parametrize("file", FILES)
def test_other_tests(file: str) -> None:
    run_tests(f"tests/{file}")


# -- within an arena -----------------------------------------------------------------------------


def check_temporaries(name: str) -> None:
    """The gradients of an op, kernel by kernel, are those of the whole program."""
    info = ROWS[name]
    large, base = samples_for(name, info.dtypes[0])
    for sample in (*small_ones(large), base[-1]):
        found = Check(info, sample).program_of_gradients()
        if found is None:
            continue
        program, arrays, _ = found
        code, results = run_guarded(program, arrays)
        assert code == 0
        for result, wanted in zip(results, program(*arrays), strict=True):
            np.testing.assert_array_equal(result, wanted.numpy(), f"{name}({sample})")


WITH_GRADIENT = [n for n in NAMES if ROWS[n].grad]


@pytest.mark.parametrize("name", daily(WITH_GRADIENT, 2, "temporaries"))
def test_temporaries_today(name: str) -> None:
    check_temporaries(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", WITH_GRADIENT)
def test_temporaries(name: str) -> None:
    check_temporaries(name)
