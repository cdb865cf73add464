"""The workloads of a checkout, and how they are run: each in a process of its own.

A workload is a script in the folder ``benchmarks`` whose docstring begins with *Workload* and the
letter of it, or with *GPU workload*. Run with ``--json`` it writes its tables.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import staticflow.comparison.bench.results as stored
from staticflow.comparison.bench.schedule import Schedule
from staticflow.comparison.bench.script import Script, run_script
from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError
from staticflow.measure.machine import Machine, machine

__all__ = [
    "QUICK", "USUAL", "Run", "Workload", "choose_workloads", "find_folder", "find_workloads",
    "machine_of", "run_workloads",
]  # fmt: skip

_TITLE = re.compile(r"(GPU w|W)orkload ([a-z]): (.*?)(?:\.\s|\.$|$)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Workload:
    """A script, the letter of what it measures, and what that is."""

    letter: str
    path: Path
    title: str


@dataclass(frozen=True, slots=True)
class Run:
    """How the scripts measure: on so many threads each, in ``rounds`` in which each contestant has
    a turn of ``seconds``. A table that takes more than ``most`` seconds has fewer rounds; a
    contestant that is not ready after ``limit`` seconds is left out. ``gpu`` is what the GPU that
    they measure calls itself; None if they measure the processor."""

    threads: tuple[int, ...]
    rounds: int
    seconds: float
    most: float = 60.0
    limit: float = 120.0
    gpu: str | None = None

    def arguments(self) -> tuple[str, ...]:
        """What a script is told of it besides the threads and the limit."""
        return (
            "--rounds", str(self.rounds), "--seconds", f"{self.seconds:g}",
            "--most", f"{self.most:g}",
        )  # fmt: skip


USUAL = Run((1,), rounds=15, seconds=0.1)
QUICK = Run((1,), rounds=5, seconds=0.03, most=10.0, limit=60.0)
"""A look at everything, in less time."""


def find_folder(named: Path | None = None) -> Path:
    """The folder of the benchmarks: the one that is ``named``, or that of the checkout in which
    this package or the working directory lies. Raises `ArgumentError` where there is none."""
    if named is not None:
        places = [named]
    else:
        places = [Path(__file__).parents[3] / "benchmarks", Path.cwd() / "benchmarks"]
    for place in places:
        if place.is_dir() and find_workloads(place):
            return place
    if named is not None:
        raise ArgumentError(f"{named} is no folder of benchmarks; give that of a checkout")
    raise ArgumentError(
        "there is no folder benchmarks here: an installed package is without it; run this in a "
        "checkout of staticflow, or name its folder, as --folder staticflow/benchmarks"
    )


def find_workloads(folder: Path, *, on_gpu: bool = False) -> list[Workload]:
    """The workloads in a folder, of the processor or those ``on_gpu``, in the order of their
    letters."""
    found = []
    for path in sorted(folder.glob("*.py")):
        match = _TITLE.match(ast.get_docstring(ast.parse(path.read_text())) or "")
        if match is not None and match[1].startswith("GPU") == on_gpu:
            found.append(Workload(match[2], path, " ".join(match[3].split())))
    return sorted(found, key=lambda w: w.letter)


def choose_workloads(known: Sequence[Workload], names: Sequence[str]) -> list[Workload]:
    """Those of the ``names``, which are letters or names of scripts; all if there are no names.
    Raises `ArgumentError` for a name that is neither."""
    for name in names:
        if not any(name in (w.letter, w.path.name, w.path.stem) for w in known):
            letters = ", ".join(dict.fromkeys(w.letter for w in known))
            raise ArgumentError(
                f"there is no workload {name!r}; the letters are {letters}, and a script's name "
                f"will do, such as {known[0].path.stem}"
            )
    if not names:
        return list(known)
    return [w for w in known if {w.letter, w.path.name, w.path.stem} & set(names)]


def run_workloads(
    workloads: Sequence[Workload],
    how: Run,
    report: Callable[[str], object] = print,
    progress: Callable[[str], object] = lambda text: None,
    expected: Mapping[str, float] | None = None,
) -> stored.Results:
    """Run the scripts one after the other and ``report`` each table as it is there. How far it is
    goes to ``progress``, with an estimate by the seconds that were ``expected`` of each script.

    A script that fails is named with what it said last, and the others go on; so is one that says
    nothing for too long. On Ctrl-C what was measured until then is given, with a word in
    ``failed``.
    """
    machines = {threads: machine_of(threads, how.gpu) for threads in how.threads}
    tables: list[stored.Table] = []
    failed: list[str] = []
    began = datetime.now(UTC).isoformat(timespec="seconds")
    for each in machines.values():
        report(stored.format_machine(each))
    turns = [(w, threads) for w in workloads for threads in how.threads]
    watch = Schedule([_name(w, threads) for w, threads in turns], expected or {})
    try:
        for workload, threads in turns:
            name = watch.begin()
            progress(watch.text())
            outcome = run_script(
                Script(workload.path, ("--threads", str(threads), *how.arguments()), how.limit)
            )
            if not outcome.is_interrupted:
                watch.finish()
            for table in stored.read_tables(
                workload.letter, threads, outcome.tables, machines[threads], began
            ):
                tables.append(table)
                report(stored.format_table(table))
            for title, fault in outcome.faults.items():
                failed.append(": ".join(filter(None, (name, title, fault))))
                report(f"FAILED: {failed[-1]}")
            if outcome.is_interrupted:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        failed.append(f"interrupted in {watch.name}" if watch.name else "interrupted")
    return stored.Results(
        began,
        tuple(machines.values()),
        how.rounds,
        how.seconds,
        tuple(tables),
        tuple(failed),
        watch.took,
    )


def machine_of(threads: int, gpu: str | None) -> Machine:
    """This machine with its rates; or, without any, its ``gpu`` of that name."""
    if gpu is None:
        return machine(threads, anew=True)
    return replace(machine(threads, measure=False), processor=gpu)


def _name(workload: Workload, threads: int) -> str:
    return f"{workload.letter} {workload.path.name}, threads {threads}"
