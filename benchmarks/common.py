"""How the benchmarks measure: all contestants in one process, in turns, checked against each other.

Every round times each contestant once, in another order each time, so that what else the machine
does meets all alike. Of the rounds the median counts; it and the ratio to the best peer come with
their 95 % intervals (`staticflow.measure.statistics`). A peer that is not installed, fails or
takes too long is left out of the table and named below it, with the reason.

The *first run* is the time until a contestant has run once, with whatever it compiles; libraries
are imported before, and neither staticflow nor `torch.compile` finds anything on disk.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from report import Report, in_units, is_ours, summarize

# what a first run takes is compiling, not reading
os.environ.setdefault("STATICFLOW_CACHE_DIR", "")
os.environ.setdefault("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1")

__all__ = [
    "Contestant", "brief", "call_program", "eager_libraries", "import_libraries", "main",
    "most_rounds", "options_of", "repeated", "settle_threads", "size", "threads", "training",
]  # fmt: skip

FEWEST = 3
"""Rounds that are made however long they take."""


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


def training(
    step: Callable[[], Any],
    state: Callable[[], Sequence[Any]],
    program: Any = None,
    arguments: tuple[Any, ...] = (),
) -> Contestant:
    """A contestant that makes ``step``, which gives the loss, and changes its ``state``: its result
    is both."""
    loss: Any = None

    def run(n: int) -> None:
        nonlocal loss
        for _ in range(n):
            loss = step()

    def detached() -> list[Any]:
        values = (loss, *state())
        return [v.detach() if hasattr(v, "detach") else v for v in values]

    return Contestant(run, detached, program, arguments)


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
    options = options_of(description)
    settle_threads(options.threads)
    import_libraries(Path(sys.argv[0]))
    report = Report(options.threads, options.json)
    for title, makers in tables.items():
        first = next(iter(makers))
        chosen = {n: m for n, m in makers.items() if options.only in n or n == first}
        chosen = {n: m for n, m in chosen.items() if f"{title}: {n}" not in options.without}
        print(f"{title}; threads: {options.threads}, rounds: {options.rounds}")
        try:
            entered, set_up, left_out = _enter(chosen, checked_runs, tolerance, options.limit)
            rounds, slow = _rounds_of(entered, options)
            left_out += slow
            others = other_programs()
            seconds = _measure(entered, rounds, options.seconds)
            notes = remarks(others)
        except (_WrongResult, _OwnFault) as fault:
            report.fail(title, str(fault))
            continue
        work = _work_of(entered.values())
        report.add(title, summarize(seconds, set_up), left_out, work, notes=notes)
    report.end()


class _WrongResult(SystemExit):
    """Contestants that do not agree."""


class _OwnFault(Exception):
    """A contestant of staticflow's that fails."""


class _TooLong(BaseException):
    """A contestant that has used up its time. No ``except Exception`` of a library stops it."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise `_TooLong` in the block once it has taken so long, where Python is asked now and then;
    who runs the script ends what does not come back at all."""

    def stop(*_: Any) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def import_libraries(script: Path) -> None:
    """Import every library that a script imports somewhere, and those parts of PyTorch that
    ``torch.compile`` loads when it is first called."""
    tree = ast.parse(script.read_text())
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    if "torch" in names:
        names |= {"torch._dynamo", "torch._inductor.compile_fx"}
    for name in sorted(names - {"", "common"}):
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def most_rounds(seconds_of_round: float, options: argparse.Namespace) -> int:
    """How many rounds of this length a table has."""
    return max(
        min(FEWEST, options.rounds), min(options.rounds, int(options.most / seconds_of_round))
    )


def _rounds_of(
    entered: dict[str, Contestant], options: argparse.Namespace
) -> tuple[int, list[str]]:
    """How many rounds are made, and who is taken out since a single run of it takes too long."""
    left_out = []
    turns = 0.0
    for name, contestant in [*entered.items()]:
        began = time.perf_counter()
        contestant.run(1)
        taken = time.perf_counter() - began
        if taken > options.most / FEWEST and not is_ours(name):
            del entered[name]
            left_out.append(f"{name} (one run takes {in_units(taken)}: too long to be repeated)")
            print(f"  left out: {left_out[-1]}", flush=True)
        else:
            turns += max(taken, options.seconds)
    return most_rounds(turns, options), left_out


def brief(description: str, tables: Mapping[str, Mapping[str, Maker]]) -> None:
    """`main` for many small tables of two contestants: a line for each whose title ``--only``
    matches, with the medians and our time as a part of the peer's."""
    options = options_of(description)
    settle_threads(options.threads)
    from staticflow.measure.statistics import spread

    print(f"{'':<36}{'staticflow':>12}{'peer':>12}   part of the peer's time")
    for title, makers in tables.items():
        if re.search(options.only, title) is None:
            continue
        # PyTorch's norm of 16 M numbers errs by 6.5e-4
        entered, _, _ = _enter(makers, 1, 1e-3, options.limit)
        measured = _measure(entered, options.rounds, options.seconds)
        medians = [spread(m).median for m in measured.values()]
        times = "".join(f"{in_units(m):>12}" for m in medians)
        print(f"{title:<36}{times}   {medians[0] / medians[-1]:.2f}", flush=True)


def options_of(description: str) -> argparse.Namespace:
    """What the command line of a script says."""
    parser = argparse.ArgumentParser(description=description)
    add = parser.add_argument
    add("--rounds", type=int, default=15)
    add("--seconds", type=float, default=0.1, help="for a contestant in a round")
    add("--most", type=float, default=60.0, help="seconds of a table; longer ones have less rounds")
    add("--limit", type=float, default=120.0, help="seconds that a contestant has to begin")
    add("--threads", type=int, default=1)
    add("--only", default="", help="what has this in its name")
    add("--without", action="append", default=[], metavar="TABLE: NAME", help="leave it out")
    add("--json", type=Path, metavar="PATH")
    return parser.parse_args()


def settle_threads(count: int) -> None:
    """OpenMP, BLAS and XLA read these as they are loaded, so the process starts anew with them."""
    libraries = ("OMP", "OPENBLAS", "MKL", "STATICFLOW")
    wanted = {f"{name}_NUM_THREADS": str(count) for name in libraries}
    wanted["NPROC"] = str(count)  # the size of XLA's thread pool
    if count == 1:
        wanted["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | wanted)


def size(name: str, number: int) -> str | int:
    """A size of a placeholder: unknown, and so its ``name``; or the ``number`` in a process whose
    environment says ``SIZES=known``."""
    return number if os.environ.get("SIZES") == "known" else name


def threads() -> int:
    """How many threads a contestant may use; some must be told by a call. One in a process that
    nobody has settled."""
    return int(os.environ.get("OMP_NUM_THREADS", "1"))


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
    makers: Mapping[str, Maker], checked_runs: int, tolerance: float, limit: float
) -> tuple[dict[str, Contestant], dict[str, float], list[str]]:
    """The contestants that can take part and agree, the seconds until each had run once, and who
    is left out: what is not installed, fails, or is not ready after ``limit`` seconds."""
    entered: dict[str, Contestant] = {}
    set_up: dict[str, float] = {}
    left_out: list[str] = []
    expected: Sequence[Any] | None = None
    for name, make in makers.items():
        print(f"  {name}", flush=True)
        try:
            with _time_limit(limit):
                began = time.perf_counter()
                contestant = make()
                contestant.run(1)
                set_up[name] = time.perf_counter() - began
                contestant.run(checked_runs - 1)
                found = contestant.result()
        except (Exception, _TooLong) as error:
            set_up.pop(name, None)
            left_out.append(f"{name} ({_reason(name, error, limit)})")
            print(f"  left out: {left_out[-1]}", flush=True)
            continue
        expected = found if expected is None else expected
        _check(name, found, expected, tolerance)
        entered[name] = contestant
    if not entered:
        raise _OwnFault(f"no contestant is there: {', '.join(left_out)}")
    return entered, set_up, left_out


def _reason(name: str, error: BaseException, limit: float) -> str:
    """Why a peer is left out. Raises `_OwnFault` for a contestant of staticflow's."""
    if isinstance(error, ImportError):
        return str(error)
    if isinstance(error, _TooLong):
        reason = f"not ready after {limit:.0f} s"
    else:
        said = (str(error).strip().splitlines() or [""])[0][:200]
        reason = f"{type(error).__name__}: {said}"
    if is_ours(name):
        raise _OwnFault(f"{name}: {reason}") from error
    return reason


def other_programs() -> Any:
    """A look at what other programs take of the processors from now on."""
    from staticflow.measure.others import OtherPrograms

    return OtherPrograms()


def remarks(others: Any) -> list[str]:
    """What is to be said of a table beside such other programs: one note, or nothing."""
    return list(filter(None, [others.remark(threads())]))


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
            raise _WrongResult(f"{name} disagrees in result {position}: relative error {error:.1e}")


def _measure(
    entered: Mapping[str, Contestant], rounds: int, seconds: float
) -> dict[str, list[float]]:
    """Seconds a run, for each contestant and round."""
    from staticflow.measure.statistics import time_in_turns

    runs = {name: c.run for name, c in entered.items()}
    return time_in_turns(runs, rounds, seconds, threads=threads())
