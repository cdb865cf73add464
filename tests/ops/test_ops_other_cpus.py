"""Ops as native code for older processors, whose vectors are shorter and have no masks: compiled by a
process that LLVM tells of such a one, and run here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import other_cpu
import pytest
from slices import by_days

from staticflow.ops import OPS

ROOT = Path(__file__).parents[2]
FILE = "tests/ops/test_ops_native.py"
PARTS = 60
NAMES = [list(OPS)[part::PARTS] for part in range(PARTS)]

pytestmark = pytest.mark.skipif(
    not other_cpu.runs_here(), reason="code of x86-64 with AVX2 does not run on this processor"
)


def run(cpu: str, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A Python that finds no code on disk and takes this processor for ``cpu``."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    own = {other_cpu.VARIABLE: cpu, "STATICFLOW_CACHE_DIR": str(folder), "PYTHONPATH": paths}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env={**os.environ, **own}, capture_output=True,
        text=True, timeout=600,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cpu", "names"),
    by_days([(cpu, names) for names in NAMES for cpu in other_cpu.CPUS], 2, "other processors"),
    ids=lambda v: v if isinstance(v, str) else v[0],
)
def test_ops_on_an_older_processor(cpu: str, names: list[str], tmp_path: Path) -> None:
    chosen = [
        *(f"test_native_code[{name}-{sizes}]" for name in names for sizes in ("known", "unknown")),
        *(f"test_one_program_for_every_size[{name}]" for name in names),
        *(f"test_native_gradient_for_every_size[{n}]" for n in names if OPS[n].vjp),
    ]
    done = run(
        cpu, tmp_path, "-m", "pytest", "-q", "-x", "-p", "other_cpu", "-p", "no:cacheprovider",
        "-m", "",  # also what is another day's
        *(f"{FILE}::{name}" for name in chosen),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert f"{len(chosen)} passed" in done.stdout


@pytest.mark.parametrize(
    ("cpu", "bits", "masks"), [("haswell", 256, True), ("ivybridge", 128, False)]
)
def test_the_processor_is_taken_for_an_older_one(
    cpu: str, bits: int, masks: bool, tmp_path: Path
) -> None:
    code = (
        "import other_cpu, staticflow as sf; from staticflow.runtime.machine import host_target;"
        "x = sf.placeholder((40,), name='x'); text = sf.compile([x], x.exp()).source('asm');"
        "print(host_target().vector_bits, host_target().masks, 'zmm' in text, 'ymm' in text)"
    )
    done = run(cpu, tmp_path, "-c", code)
    assert done.stdout.split() == [str(bits), str(masks), "False", str(bits == 256)], done.stderr
