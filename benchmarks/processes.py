"""How the benchmarks of whole processes measure: what each process says of itself, in turns."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

from common import options_of, other_programs, remarks, settle_threads
from report import Report, summarize

__all__ = ["Child", "main_of_processes", "number_of_process"]

Child = Callable[[], tuple[str, Mapping[str, str]]]


def main_of_processes(
    description: str,
    tables: Mapping[str, Mapping[str, Child]],
    most: int = 5,
    units: Mapping[str, str] | None = None,
    one_processor: bool = False,
) -> None:
    """Run a benchmark of whole processes: each contestant gives the text of a Python program that
    prints how many seconds its work took, and what to set in its environment.

    Of ``--rounds`` at most ``most`` are made, each of one process a contestant, and none begins
    once a table has taken half of ``--most`` seconds. A table whose title is among the ``units``
    counts those instead of seconds: ``"B"`` is bytes. With ``one_processor`` a process of one
    thread has no more, whatever threads it makes.
    """
    options = options_of(description)
    settle_threads(options.threads)
    if one_processor and options.threads == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    report = Report(options.threads, options.json)
    for title, children in tables.items():
        unit = (units or {}).get(title, "s")
        print(f"{title}; threads: {options.threads}")
        measured: dict[str, list[float]] = {n: [] for n in children if options.only in n}
        left_out: list[str] = []
        began, others = time.monotonic(), other_programs()
        for number in range(min(options.rounds, most)):
            if number and time.monotonic() - began > options.most / 2:
                break
            for name in [*measured]:
                print(f"  {name}", flush=True)
                found = number_of_process(*children[name](), limit=options.limit)
                if isinstance(found, str):
                    del measured[name]
                    left_out.append(f"{name} ({found})")
                    print(f"  left out: {left_out[-1]}", flush=True)
                else:
                    measured[name].append(found)
        if measured:
            firsts = {name: numbers[0] for name, numbers in measured.items()}
            notes = remarks(others)
            report.add(title, summarize(measured, firsts), left_out, unit=unit, notes=notes)
    report.end()


def number_of_process(
    text: str, environment: Mapping[str, str], limit: float | None = None
) -> float | str:
    """What a Python program prints last, in a process of its own; or why there is nothing."""
    # A package that was installed has bytecode; a checkout has it if the first process leaves it.
    kept = {n: value for n, value in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", text],
            env=kept | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
            capture_output=True,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return f"it takes more than {limit:.0f} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it failed"])[-1]
    return float(done.stdout.split()[-1])
