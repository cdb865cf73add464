"""Native code survives what `stress` does: threads, hostile values, finalizers, hooks, signals, the
garbage collector at every allocation.

``python -m pytest -m campaign tests/stress/test_stress.py`` goes on for ``STATICFLOW_STRESS_SECONDS``, five
minutes unless that is set; a night is 3600. Each worker is a process, so that a crash is found, and
the failure says the command that repeats it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pytest
from slices import today

import staticflow

SCRIPT = Path(__file__).parent / "stress.py"
STRUCK = SCRIPT.with_name("struck.py")
SECONDS = float(os.environ.get("STATICFLOW_STRESS_SECONDS", "300"))
TRIALS = 60
LIMIT = 600
"""Seconds that no worker takes."""


def work(seed: int, trials: int, *weather: str, script: Path = SCRIPT, **env: str) -> None:
    """Run a worker, and fail with what it said last."""
    command = [sys.executable, str(script), str(seed), str(trials), *weather]
    package = Path(staticflow.__file__).parents[1]
    paths = os.pathsep.join([str(package), str(SCRIPT.parent)])
    said = subprocess.run(
        command, capture_output=True, text=True, timeout=LIMIT, check=False,
        env={**os.environ, "PYTHONPATH": paths, **env},
    )  # fmt: skip
    if said.returncode != 0:
        last = "\n".join([*said.stdout.splitlines()[-3:], *said.stderr.splitlines()[-40:]])
        pytest.fail(f"{' '.join(command)} ended with {said.returncode}:\n{last}")


def seed_of_today() -> int:
    """Another number every day."""
    return zlib.crc32(today().encode())


@pytest.mark.parametrize("weather", ["collector", "signals"])
def test_a_share_of_the_stress(weather: str) -> None:
    work(seed_of_today(), 12, weather)


@pytest.mark.campaign
def test_stress() -> None:
    until, seed = time.monotonic() + SECONDS, seed_of_today()
    while time.monotonic() < until:
        work(seed, TRIALS)
        seed += 1


def test_new_objects_may_be_changed_at_any_allocation() -> None:
    work(seed_of_today(), 40, script=STRUCK, PYTHONMALLOC="debug")


@pytest.mark.campaign
def test_new_objects_may_be_changed_at_any_allocation_in_full() -> None:
    until, seed = time.monotonic() + SECONDS / 5, seed_of_today()
    while time.monotonic() < until:
        work(seed, 200, script=STRUCK, PYTHONMALLOC="debug")
        seed += 200
