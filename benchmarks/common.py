"""How the benchmarks measure: all contestants in one process, in turns, checked against each other.

Every round times each contestant once, in another order each time, so that what else the machine
does meets all alike. Of the rounds the median counts; it and the ratio to the best peer come with
their 95 % intervals (`staticflow.measure.statistics`). A peer that is not
installed is left out of the table and named below it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "STATICFLOW_CACHE_DIR", ""
)  # what a first run takes is compiling, not reading

__all__ = [
    "Contestant", "brief", "call_program", "eager_libraries", "main", "main_of_processes",
    "repeated", "seconds_of_process", "threads",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Contestant:
    """One way to do the work. ``run(n)`` does it n times and waits for the last; ``result()`` gives
    arrays that all contestants must agree on after as many runs. Where one call of a staticflow
    program with ``arguments`` is the work, its bytes and operations are counted."""

    run: Callable[[int], None]
    result: Callable[[], Sequence[Any]]
    program: Any = None
    arguments: tuple[Any, ...] = ()


Maker = Callable[[], Contestant]


def repeated(
    call: Callable[..., Any],
    wait: Callable[[Any], Any] = lambda y: y,
    program: Any = None,
    arguments: tuple[Any, ...] = (),
) -> Contestant:
    """A contestant that calls without arguments, and ``wait`` at the end of a run. What it gives is
    one array or a tuple of them."""
    last: Any = None

    def run(n: int) -> None:
        nonlocal last
        for _ in range(n):
            last = call()
        wait(last)

    return Contestant(run, lambda: last if isinstance(last, tuple) else (last,), program, arguments)


def call_program(program: Any, *arguments: Any) -> Contestant:
    """A contestant that calls a staticflow program."""
    return repeated(lambda: program(*arguments), program=program, arguments=arguments)


def main(
    description: str,
    tables: Mapping[str, Mapping[str, Maker]],
    *,
    checked_runs: int = 1,
    tolerance: float = 1e-4,
) -> None:
    """Run a benchmark's tables: contestants by name, those of staticflow named so.

    The first contestant of a table is what the others are checked against, after ``checked_runs``
    runs, to ``tolerance`` relative to the largest element.
    """
    options = _options(description)
    _settle_threads(options.threads)
    rows: dict[str, Any] = {}
    for title, makers in tables.items():
        chosen = {n: m for n, m in makers.items() if options.only in n or n == next(iter(makers))}
        print(f"{title}; threads: {options.threads}, rounds: {options.rounds}")
        entered, set_up, left_out = _enter(chosen, checked_runs, tolerance)
        seconds = _measure(entered, options.rounds, options.seconds)
        summary = _summary(seconds, set_up)
        rows[title] = {
            "contestants": summary,
            "left_out": left_out,
            "work": _work_of(entered.values()),
        }
        print(_table(summary), flush=True)
    _write(options, rows)


def _write(options: argparse.Namespace, rows: Mapping[str, Any]) -> None:
    """Write the tables as ``--json`` says."""
    if options.json is not None:
        options.json.write_text(json.dumps({"threads": options.threads, "tables": rows}, indent=2))


Child = Callable[[], tuple[str, Mapping[str, str]]]


def main_of_processes(
    description: str, tables: Mapping[str, Mapping[str, Child]], most_rounds: int = 5
) -> None:
    """Run a benchmark of whole processes: each contestant gives the text of a Python program that
    prints how many seconds its work took, and what to set in its environment.

    Of ``--rounds`` at most ``most_rounds`` are made, each of one process a contestant.
    """
    options = _options(description)
    _settle_threads(options.threads)
    rows: dict[str, Any] = {}
    for title, children in tables.items():
        chosen = {n: c for n, c in children.items() if options.only in n}
        print(f"{title}; threads: {options.threads}")
        measured: dict[str, list[float]] = {name: [] for name in chosen}
        left_out: list[str] = []
        for _ in range(min(options.rounds, most_rounds)):
            for name in [*measured]:
                found = seconds_of_process(*chosen[name]())
                if isinstance(found, str):
                    del measured[name]
                    left_out.append(f"{name} ({found})")
                    print(f"  left out: {left_out[-1]}")
                else:
                    measured[name].append(found)
        if measured:
            summary = _summary(measured, {name: times[0] for name, times in measured.items()})
            rows[title] = {"contestants": summary, "left_out": left_out, "work": None}
            print(_table(summary), flush=True)
    _write(options, rows)


def seconds_of_process(text: str, environment: Mapping[str, str]) -> float | str:
    """What a Python program prints last, in a process of its own; or why there is nothing."""
    done = subprocess.run(
        [sys.executable, "-c", text],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it failed"])[-1]
    return float(done.stdout.split()[-1])


def brief(description: str, tables: Mapping[str, Mapping[str, Maker]]) -> None:
    """`main` for many small tables of two contestants: a line for each whose title ``--only``
    matches, with the medians and our time as a part of the peer's."""
    options = _options(description)
    _settle_threads(options.threads)
    from staticflow.measure.statistics import spread

    print(f"{'':<36}{'staticflow':>12}{'peer':>12}   part of the peer's time")
    for title, makers in tables.items():
        if re.search(options.only, title) is None:
            continue
        entered, _, _ = _enter(makers, 1, 1e-3)  # PyTorch's norm of 16 M numbers errs by 6.5e-4
        measured = _measure(entered, options.rounds, options.seconds)
        medians = [spread(m).median for m in measured.values()]
        times = "".join(f"{_time(m):>12}" for m in medians)
        print(f"{title:<36}{times}   {medians[0] / medians[-1]:.2f}", flush=True)


def _options(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.1, help="for a contestant in a round")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="what has this in its name")
    parser.add_argument("--json", type=Path, metavar="PATH")
    return parser.parse_args()


def _settle_threads(count: int) -> None:
    """OpenMP, BLAS and XLA read these as they are loaded, so the process starts anew with them."""
    libraries = ("OMP", "OPENBLAS", "MKL", "STATICFLOW")
    wanted = {f"{name}_NUM_THREADS": str(count) for name in libraries}
    wanted["NPROC"] = str(count)  # the size of XLA's thread pool
    if count == 1:
        wanted["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | wanted)


def threads() -> int:
    """How many threads a contestant may use; some must be told by a call."""
    return int(os.environ["OMP_NUM_THREADS"])


def eager_libraries(make: Callable[[Any], Contestant]) -> dict[str, Maker]:
    """The contestant that ``make`` makes of a library with PyTorch's names, of each eager one."""

    def staticflow_eager() -> Contestant:
        import staticflow as sf

        return make(sf)

    def pytorch_eager() -> Contestant:
        import torch

        torch.set_num_threads(threads())
        return make(torch)

    return {"staticflow eager": staticflow_eager, "PyTorch eager": pytorch_eager}


def _enter(
    makers: Mapping[str, Maker], checked_runs: int, tolerance: float
) -> tuple[dict[str, Contestant], dict[str, float], list[str]]:
    """The contestants that can take part and agree, the seconds until each had run once, and who
    is left out."""
    entered: dict[str, Contestant] = {}
    set_up: dict[str, float] = {}
    left_out: list[str] = []
    expected: Sequence[Any] | None = None
    for name, make in makers.items():
        began = time.perf_counter()
        try:
            contestant = make()
        except ImportError as error:
            left_out.append(f"{name} ({error})")
            print(f"  left out: {left_out[-1]}")
            continue
        contestant.run(1)
        set_up[name] = time.perf_counter() - began
        contestant.run(checked_runs - 1)
        found = contestant.result()
        expected = found if expected is None else expected
        _check(name, found, expected, tolerance)
        entered[name] = contestant
    return entered, set_up, left_out


def _work_of(contestants: Iterable[Contestant]) -> dict[str, int] | None:
    """The bytes and the operations of the first program of staticflow's, and the memory that it
    touches."""
    from staticflow.comparison.amount import work_of_call

    known = [work_of_call(c.program, *c.arguments) for c in contestants if c.program is not None]
    return asdict(known[0]) if known and known[0] is not None else None


def _check(name: str, found: Sequence[Any], expected: Sequence[Any], tolerance: float) -> None:
    import numpy as np

    for position, (a, b) in enumerate(zip(found, expected, strict=True)):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        error = np.max(np.abs(a - b)) / np.max(np.abs(b))
        if not (a.shape == b.shape and error <= tolerance):
            raise SystemExit(f"{name} disagrees in result {position}: relative error {error:.1e}")


def _measure(
    entered: Mapping[str, Contestant], rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Seconds a run, for each contestant and round."""
    from staticflow.measure.statistics import time_in_turns

    return time_in_turns({name: c.run for name, c in entered.items()}, rounds, seconds)


def _is_ours(name: str) -> bool:
    return name.startswith("staticflow")


def _summary(measured: Mapping[str, list[float]], set_up: Mapping[str, float]) -> dict[str, Any]:
    from staticflow.measure.statistics import spread, spread_of_ratio

    spreads = {name: spread(times) for name, times in measured.items()}
    peers = [name for name in spreads if not _is_ours(name)]
    best = min(peers or spreads, key=lambda name: spreads[name].median)
    rows = {}
    for name, times in measured.items():
        ratio = spread_of_ratio(measured[best], times)
        rows[name] = {
            **asdict(spreads[name]),
            "least": min(times),
            "most": max(times),
            "first": set_up[name],
            "best_peer": best,
            "ratio": ratio.median,
            "ratio_low": ratio.low,
            "ratio_high": ratio.high,
        }
    return rows


def _table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    best = next(iter(rows.values()))["best_peer"]
    lines = [f"  {'':<24}{'median':>12}{'least':>12}{'most':>12}{'first run':>12}   against {best}"]
    for name, row in sorted(rows.items(), key=lambda item: item[1]["median"]):
        times = "".join(f"{_time(row[c]):>12}" for c in ("median", "least", "most", "first"))
        ratio = f"{row['ratio']:.2f} x" + (
            f", 95 % above {row['ratio_low']:.2f}" if _is_ours(name) else ""
        )
        lines.append(f"  {name:<24}{times}   {ratio}")
    return "\n".join(lines) + "\n"


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"
