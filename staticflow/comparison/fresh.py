"""One mode in a fresh process: ``python -m staticflow.comparison.fresh ORDER.json``.

The order says what to run and where to write how long each phase took. What only the comparison
needs, such as reading the order and the data, and running the file of the model, is not counted.
"""

from __future__ import annotations

import time

import staticflow

IMPORTED = time.monotonic()  # before any other import, which the phase `import` must not have in it

import json  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

from staticflow.comparison.chance import Chance  # noqa: E402
from staticflow.comparison.contest import (  # noqa: E402
    Contestant,
    eager_contestant,
    trace_step,
)
from staticflow.comparison.inputs import Batch  # noqa: E402
from staticflow.comparison.job import Job, Request, job_without_trial  # noqa: E402
from staticflow.runtime.native import NativeModule  # noqa: E402

__all__ = ["load_batches", "main"]

WARM_STEPS = 30
"""So many steps are made after the first, or as many as fit into `WARM_SECONDS`, at least 4."""

WARM_SECONDS = 0.5


def main(order_file: str) -> None:
    """Run the order that is in a file."""
    order = json.loads(Path(order_file).read_text())
    batches, sized = load_batches(Path(order["data"]))
    job = job_without_trial(
        Request(**{**order["request"], "inputs": tuple(order["request"]["inputs"])}),
        order["model_takes"],
        tuple(order["loss_takes"]),
    )
    phases = {"import": IMPORTED - order["began"]}
    passes: dict[str, float] = {}
    start = _start_eagerly if order["mode"] == "eager" else _start_statically
    contestant = start(job, phases, passes)
    modules = NativeModule.loads
    contestant.chance.restore()
    seconds = _time_steps(contestant, batches)
    phases["first_step"] = seconds[0]
    steady = statistics.median(seconds[1 + len(seconds) // 2 :] or seconds[1:] or seconds)
    phases["warm_up"] = max(0.0, sum(seconds[1:]) - steady * (len(seconds) - 1))
    compilations = _count_compilations(contestant, modules, sized)
    found = {"phases": phases, "passes": passes, "compilations": compilations}
    Path(order["answer"]).write_text(json.dumps(found))


def load_batches(path: Path) -> tuple[list[Batch], dict[str, Batch]]:
    """The batches to run in their order, and those of other sizes by name. An array's name is
    ``batch/input`` or ``=sizes/input``."""
    batches: dict[str, list[Any]] = {}
    with np.load(path) as arrays:
        for name in arrays.files:
            batches.setdefault(name.rpartition("/")[0], []).append(arrays[name])
    plain = [tuple(b) for name, b in batches.items() if not name.startswith("=")]
    return plain, {n[1:]: tuple(b) for n, b in batches.items() if n.startswith("=")}


def _start_eagerly(job: Job, phases: dict[str, float], passes: dict[str, float]) -> Contestant:
    began = time.monotonic()
    contestant = eager_contestant(job)
    phases["model"] = time.monotonic() - began
    return contestant


def _start_statically(job: Job, phases: dict[str, float], passes: dict[str, float]) -> Contestant:
    began = time.monotonic()
    model = job.make_model()
    chance = Chance.now()
    made = time.monotonic()
    optimizer, symbols, outputs, updates = trace_step(job, model)
    traced = time.monotonic()
    program = staticflow.compile(symbols, outputs, updates=updates)
    compiled = time.monotonic()
    of_compile = program.phase_seconds
    load = compiled - traced - of_compile.close - of_compile.optimise - of_compile.generate
    phases |= {
        "model": made - began,
        "trace": traced - made + of_compile.close,
        "optimise": of_compile.optimise,
        "generate": of_compile.generate,
        "load": load,
    }
    for report in program.passes if of_compile.optimise else ():
        passes[report.name] = passes.get(report.name, 0.0) + report.seconds
    return Contestant("static", model, optimizer, program, program, chance)


def _time_steps(contestant: Contestant, batches: Sequence[Batch]) -> list[float]:
    """The seconds of each step, the first included."""
    seconds: list[float] = []
    while len(seconds) <= WARM_STEPS and (len(seconds) < 5 or sum(seconds[1:]) < WARM_SECONDS):
        batch = batches[len(seconds) % len(batches)]
        began = time.perf_counter()
        contestant.step(*batch)
        seconds.append(time.perf_counter() - began)
    return seconds


def _count_compilations(
    contestant: Contestant, modules: int, sized: dict[str, Batch]
) -> dict[str, int]:
    """How often the mode has compiled so far, by sizes: the program of the static mode, and the
    pieces of machine code that eager operations have made since the process began to train."""
    found = {}
    for name, batch in sized.items():
        try:
            contestant.step(*batch)
        except Exception:  # a model may ask for sizes of its own: that has been noted
            continue
        program = contestant.program
        found[name] = NativeModule.loads - modules if program is None else program.compile_count
    return found


if __name__ == "__main__":
    main(sys.argv[1])
