"""`.ci/run` ends with an error where any part of it fails, and says what that part said, also of those
that run beside others."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PART = """#!/bin/sh
echo "$0 $*" >> calls
case "$0 $*" in *"$FAILS"*) echo "fault of $*"; exit 1 ;; esac
"""
MADE = """#!/bin/sh
mkdir -p .venv/bin
cp programs/part .venv/bin/python
"""


@pytest.fixture
def checkout(tmp_path):
    """A folder in which nothing is installed or tested, but called."""
    for folder in (".ci", "programs"):
        (tmp_path / folder).mkdir()
    shutil.copy(Path(__file__).parents[2] / ".ci" / "run", tmp_path / ".ci" / "run")
    for name, body in (
        (".ci/core", PART), ("programs/part", PART), ("programs/python3", MADE), ("programs/chromium", ""),
    ):  # fmt: skip
        (tmp_path / name).write_text(body or "#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def run(checkout, fails):
    path = f"{checkout / 'programs'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [checkout / ".ci" / "run"], env={**os.environ, "PATH": path, "FAILS": fails},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_all_parts_are_run(checkout):
    done = run(checkout, "nothing")
    assert done.returncode == 0, done.stdout + done.stderr
    calls = (checkout / "calls").read_text()
    for part in (".ci/core 6", "ruff check", "ruff format --check", "mypy", "torch==", "jax"):
        assert part in calls
    assert "-m pytest" in calls.splitlines()[-1]


@pytest.mark.parametrize(
    "part", ["core 6", "ruff check", "ruff format", "mypy", "pytest", ".[test]"]
)
def test_a_part_that_fails_is_told(checkout, part):
    done = run(checkout, part)
    assert done.returncode != 0 and "fault of" in done.stdout


@pytest.mark.parametrize("library", ["torch==", "tensorflow", "nvrtc", "distributed"])
def test_a_library_that_is_not_there_is_told(checkout, library):
    done = run(checkout, library)
    assert done.returncode == 0 and "could be installed" in done.stdout
