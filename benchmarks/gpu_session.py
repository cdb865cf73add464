"""What is to be run first where there is a GPU, in the order of its worth, in calls of minutes.

    python benchmarks/gpu_session.py FOLDER                # until the 9 minutes of a call are over
    python benchmarks/gpu_session.py FOLDER                # again: goes on with what is left
    python benchmarks/gpu_session.py FOLDER --only bench   # one step, once more

Each step is a command with a limit. What it says is in a file of the folder as it says it, and how
it ended in ``summary.json``, so a session that is cut off anywhere keeps what it has. A step that
fails, or whose program is not there, stops no other. One that was cut off by the end of a call is
begun anew in the next; one that used up its own limit is not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["STEPS", "Step", "main", "run_steps"]

ROOT = Path(__file__).parents[1]

STAY = 15.0
"""Seconds that a step has to say what it found once it was interrupted."""

LEAST = 20.0
"""Seconds of a call for which no step is begun."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command of the root of the checkout, and the seconds that it may take. ``{folder}`` in it
    is the folder of the results."""

    name: str
    command: tuple[str, ...]
    seconds: float


def _tests(*paths: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "pytest", "-m", "gpu", "-v", "--tb=short", "-n", "0", *paths)


KERNELS = "tests/codegen/cuda/test_gpu.py"
PROGRAMS = "tests/runtime/device/test_gpu_programs.py"


def _checked(tool: str, path: str) -> tuple[str, ...]:
    return (
        "compute-sanitizer", "--tool", tool, "--target-processes", "all", "--error-exitcode", "9",
        *_tests(path),
    )  # fmt: skip


_BENCH = (sys.executable, "-m", "staticflow", "bench", "--device", "cuda", "--quick")

STEPS = (
    Step("machine", ("nvidia-smi",), 20),
    Step("info", (sys.executable, "-m", "staticflow", "info"), 30),
    Step("kernels", _tests(KERNELS), 120),
    Step("programs", _tests(PROGRAMS), 180),
    Step("bench", (*_BENCH, "--json", "{folder}/bench.json"), 240),
    Step("eager", _tests("tests/eager"), 120),
    Step("memcheck-kernels", _checked("memcheck", KERNELS), 120),
    Step("racecheck-kernels", _checked("racecheck", KERNELS), 120),
    Step("synccheck-kernels", _checked("synccheck", KERNELS), 120),
    Step(
        "others",
        _tests("tests", f"--ignore={KERNELS}", f"--ignore={PROGRAMS}", "--ignore=tests/eager"),
        240,
    ),
    Step("memcheck-programs", _checked("memcheck", PROGRAMS), 240),
    Step("racecheck-programs", _checked("racecheck", PROGRAMS), 240),
    Step("synccheck-programs", _checked("synccheck", PROGRAMS), 240),
)
"""The bench is before what is slower than it, since a session may end with its first call."""


def run_steps(steps: Sequence[Step], folder: Path, seconds: float) -> dict[str, Any]:
    """Run those steps that have not come to an end in this folder, for so many seconds at most;
    gives how each that was ever begun has ended."""
    folder.mkdir(parents=True, exist_ok=True)
    summary = folder / "summary.json"
    found: dict[str, Any] = json.loads(summary.read_text()) if summary.exists() else {}
    end = time.monotonic() + seconds
    for step in steps:
        if found.get(step.name, {}).get("has_ended"):
            continue
        left = end - time.monotonic()
        if left < min(LEAST, step.seconds):
            print(f"{step.name}: left for the next call", flush=True)
            continue
        print(f"{step.name}: {' '.join(step.command)}", flush=True)
        found[step.name] = {"how": "was cut off with the whole session", "has_ended": False}
        _write(summary, found)
        found[step.name] = _run(step, folder, min(step.seconds, left), left < step.seconds)
        print(f"{step.name}: {found[step.name]['how']}", flush=True)
        _write(summary, found)
    return found


def _write(summary: Path, found: dict[str, Any]) -> None:
    partial = summary.with_suffix(".partial")
    partial.write_text(json.dumps(found, indent=2))
    partial.replace(summary)


def _run(step: Step, folder: Path, seconds: float, is_cut: bool) -> dict[str, Any]:
    """How a step ends that has so many seconds, which ``is_cut`` if they are less than it wants."""
    command = [word.format(folder=folder.resolve()) for word in step.command]
    if shutil.which(command[0]) is None:
        return {"how": f"left out: there is no {command[0]}", "has_ended": True}
    began = time.monotonic()
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with (folder / f"{step.name}.txt").open("w") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            env=os.environ | {"PYTHONPATH": paths, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        try:
            status = process.wait(max(seconds - STAY, seconds / 2))
            how = "passed" if status == 0 else f"failed with status {status}"
            has_ended = True
        except subprocess.TimeoutExpired:
            _end(process)
            how = f"was cut off after {seconds:.0f} s" + (", with the call" if is_cut else "")
            has_ended = not is_cut
        except KeyboardInterrupt:
            _end(process)
            raise
    return {"how": how, "has_ended": has_ended, "seconds": round(time.monotonic() - began, 1)}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a step, upon which pytest and the bench say what they have; then kill it."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(STAY)
            return
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            process.wait()
            return


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0 where all steps have passed."""
    parser = argparse.ArgumentParser(description="the first session with a GPU")
    parser.add_argument("folder", type=Path, help="where the results are written")
    parser.add_argument("--minutes", type=float, default=9.0, help="of this call; 9")
    parser.add_argument("--only", nargs="+", choices=[s.name for s in STEPS], help="once more")
    options = parser.parse_args(arguments)
    steps = [s for s in STEPS if options.only is None or s.name in options.only]
    summary = options.folder / "summary.json"
    if options.only and summary.exists():
        found = json.loads(summary.read_text())
        _write(summary, {name: how for name, how in found.items() if name not in options.only})
    found = run_steps(steps, options.folder, options.minutes * 60)
    print(f"the results are in {options.folder}")
    left = [s.name for s in STEPS if not found.get(s.name, {}).get("has_ended")]
    if left:
        print(f"call it again for what is left: {', '.join(left)}")
    return 0 if all(found.get(s.name, {}).get("how") == "passed" for s in steps) else 1


if __name__ == "__main__":
    sys.exit(main())
