"""What both modes cost in fresh processes: with nothing on disk, and with code on disk."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from staticflow.comparison.inputs import Batch
from staticflow.comparison.job import RANDOM_BATCHES, Job
from staticflow.data_classes import dataclass
from staticflow.graph.locs import PACKAGE

__all__ = [
    "STARTS", "FreshCosts", "ProcessError", "answer_of", "measure_fresh", "save_batches",
    "write_order",
]  # fmt: skip

STARTS = ("cold", "warm")

ALIKE = ("import", "model")
"""The phases that are the same in both modes."""

LONGEST = 300
"""Seconds after which a process is given up."""

Phases = dict[str, float]


class ProcessError(Exception):
    """A fresh process that failed, with what it said last."""


@dataclass(slots=True)
class FreshCosts:
    """The answers of all processes so far, by ``cold`` or ``warm`` and by mode."""

    phases: dict[str, dict[str, list[Phases]]] = field(default_factory=dict)
    passes: list[Phases] = field(default_factory=list)
    compilations: dict[str, dict[str, int]] = field(default_factory=dict)

    def medians(self, start: str, mode: str) -> Phases:
        """The median seconds of each phase: of those that both modes go through alike, of all
        processes."""
        by_mode = self.phases.get(start, {})
        found = _medians(by_mode.get(mode, []))
        alike = _medians([p for phases in by_mode.values() for p in phases])
        return {name: alike[name] if name in ALIKE else s for name, s in found.items()}

    def totals(self, start: str) -> dict[str, tuple[float, ...]]:
        """The seconds of all phases together, of each process, by mode. Those that both modes go
        through alike are charged to both alike: the median of all processes."""
        by_mode = self.phases.get(start, {})
        alike = [sum(p[n] for n in ALIKE) for found in by_mode.values() for p in found]
        return {
            mode: tuple(
                statistics.median(alike) + sum(s for n, s in p.items() if n not in ALIKE)
                for p in found
            )
            for mode, found in by_mode.items()
        }

    def passes_medians(self) -> Phases | None:
        """The median seconds of each pass; None if none was measured."""
        return _medians(self.passes) or None


def _medians(found: Sequence[Phases]) -> Phases:
    names = dict.fromkeys(name for phases in found for name in phases)
    return {n: statistics.median(p[n] for p in found if n in p) for n in names}


def measure_fresh(
    job: Job,
    modes: Sequence[str],
    sized: Sequence[tuple[str, Batch]],
    repeats: int,
    costs: FreshCosts,
    progress: Callable[[], Any] = lambda: None,
) -> None:
    """Run each of ``modes`` in fresh processes, ``repeats`` times cold and warm, and put what they
    say into ``costs`` as it comes. The job must have a request. Modes take turns.

    Raises `ProcessError` where a process fails.
    """
    with tempfile.TemporaryDirectory(prefix="staticflow-") as name:
        folder = Path(name)
        save_batches(folder / "data.npz", job, sized)
        for turn in range(repeats):
            for mode in modes if turn % 2 == 0 else list(reversed(modes)):
                cache = folder / f"cache-{mode}-{turn}"
                for start in STARTS:
                    found = _run_process(job, mode, folder, cache)
                    costs.phases.setdefault(start, {}).setdefault(mode, []).append(found["phases"])
                    if start == "cold" and mode == "static":
                        costs.passes.append(found["passes"])
                    costs.compilations[mode] = found["compilations"]
                    progress()


def save_batches(path: Path, job: Job, sized: Sequence[tuple[str, Batch]]) -> None:
    """Write the batches of a job, and those of some sizes, to a file."""

    def name_arrays() -> Iterator[tuple[str, Any]]:
        for number, batch in enumerate(job.batches(RANDOM_BATCHES)):
            yield from ((f"{number}/{i}", array) for i, array in enumerate(batch))
        for sizes, batch in sized:
            yield from ((f"={sizes}/{i}", array) for i, array in enumerate(batch))

    arrays = dict(name_arrays())
    np.savez(path, **{name: _plain(array) for name, array in arrays.items()})


def _plain(array: Any) -> Any:
    """The array in a dtype that a file of NumPy's has: bfloat16 as float32, which holds it."""
    return array if array.dtype.kind in "biuf" else array.astype(np.float32)


def _run_process(job: Job, mode: str, folder: Path, cache: Path) -> dict[str, Any]:
    path = write_order(job, folder, mode=mode)
    command = [sys.executable, "-m", "staticflow.comparison.fresh", str(path)]
    return answer_of(command, job, folder, {**os.environ, "STATICFLOW_CACHE_DIR": str(cache)})


def write_order(job: Job, folder: Path, **more: Any) -> Path:
    """The file that says to another process what to run, on the batches of the ``folder``, and
    where to write its answer."""
    assert job.request is not None
    request = dataclasses.asdict(job.request)
    request["inputs"] = [x.describe(job.sizes) for x in job.inputs]
    if job.optimizer is None:
        request["optimizer"] = "none"
        request["lr"] = None
    order = {
        "request": request,
        "model_takes": job.model_takes,
        "loss_takes": job.loss_takes,
        "data": str(folder / "data.npz"),
        "answer": str(folder / "answer.json"),
        **more,
    }
    path = folder / "order.json"
    path.write_text(json.dumps({**order, "began": time.monotonic()}))
    return path


def answer_of(
    command: Sequence[str], job: Job, folder: Path, environment: Mapping[str, str]
) -> dict[str, Any]:
    """What a command writes as its answer. Raises `ProcessError` where it fails."""
    assert job.request is not None
    root = str(Path(PACKAGE).parent)
    is_file = job.request.target.partition(":")[0].endswith(".py")
    others = [os.environ.get("PYTHONPATH", "")] if is_file else sys.path  # the user's packages
    paths = os.pathsep.join([root, *filter(None, others)])
    try:
        done = subprocess.run(
            command, env={**environment, "PYTHONPATH": paths}, capture_output=True, text=True,
            timeout=LONGEST, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ProcessError(f"it took more than {LONGEST} seconds") from None
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise ProcessError(next((s for s in said if s.startswith("staticflow.")), said[-1]))
    found: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    return found
