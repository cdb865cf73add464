"""The workloads of a checkout, and how they are run: each in a process of its own.

A workload is a script in the folder ``benchmarks`` whose docstring begins with *Workload* and the
letter of it. Run with ``--json`` it writes its tables.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import staticflow.comparison.bench.results as stored
from staticflow.errors import ArgumentError
from staticflow.measure.machine import machine

__all__ = ["Run", "Workload", "choose_workloads", "find_folder", "find_workloads", "run_workloads"]

_TITLE = re.compile(r"Workload ([a-z]): (.*?)(?:\.\s|\.$|$)", re.DOTALL)
_STAY = 3.0
"""Seconds that a script has to end by itself once it was interrupted."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A script, the letter of what it measures, and what that is."""

    letter: str
    path: Path
    title: str


@dataclass(frozen=True, slots=True)
class Run:
    """How the scripts measure: on so many threads each, in ``rounds`` in which each contestant has
    a turn of ``seconds``."""

    threads: tuple[int, ...]
    rounds: int
    seconds: float


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


def find_workloads(folder: Path) -> list[Workload]:
    """The workloads in a folder, in the order of their letters."""
    found = []
    for path in sorted(folder.glob("*.py")):
        match = _TITLE.match(ast.get_docstring(ast.parse(path.read_text())) or "")
        if match is not None:
            found.append(Workload(match[1], path, " ".join(match[2].split())))
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
) -> stored.Results:
    """Run the scripts one after the other and ``report`` each table as it is there.

    A script that fails is named with what it said last, and the others go on. On Ctrl-C what was
    measured until then is given, with a word in ``failed``.
    """
    machines = {threads: machine(threads, anew=True) for threads in how.threads}
    tables: list[stored.Table] = []
    failed: list[str] = []
    began = datetime.now(UTC).isoformat(timespec="seconds")
    for each in machines.values():
        report(stored.format_machine(each))
    try:
        for workload in workloads:
            for threads in how.threads:
                name = f"{workload.letter} {workload.path.name}, threads {threads}"
                written, fault = _run_script(workload.path, how, threads)
                if written is None:
                    failed.append(f"{name}: {fault}")
                    report(f"{name} FAILED: {fault}")
                    continue
                for table in stored.read_tables(workload.letter, written, machines[threads]):
                    tables.append(table)
                    report(stored.format_table(table))
    except KeyboardInterrupt:
        failed.append(f"interrupted in {name}")
    return stored.Results(
        began, tuple(machines.values()), how.rounds, how.seconds, tuple(tables), tuple(failed)
    )


def _run_script(path: Path, how: Run, threads: int) -> tuple[dict[str, object] | None, str]:
    """What a script wrote, or None and its last word."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "tables.json")
        command = [
            sys.executable, str(path), "--threads", str(threads), "--rounds", str(how.rounds),
            "--seconds", str(how.seconds), "--json", str(target),
        ]  # fmt: skip
        lines = list(_lines_of(command))
        code = lines.pop()
        if code == "0" and target.exists():
            return json.loads(target.read_text()), ""
        said = [line for line in lines if line.strip()]
        return None, said[-1].strip() if said else f"it ended with status {code}"


def _lines_of(command: Sequence[str]) -> Iterator[str]:
    """What a process says, line by line, and at last its exit status. It finds this package
    first, and is ended when the caller is interrupted."""
    root = str(Path(__file__).parents[3])
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | {"PYTHONPATH": paths},
    ) as process:
        assert process.stdout is not None
        try:
            yield from process.stdout
        except BaseException:
            process.terminate()
            try:
                process.wait(_STAY)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
    yield str(process.returncode)
