"""What the benchmarks measured, as data and as JSON, and what changed since another time.

A change is one that noise does not explain: the 95 % intervals of before and after have no point in
common, and it is larger than what the peers, which are as they were, have changed from the one run
to the other. A time is compared on the same processor only; how far ahead of the best peer
staticflow is can be compared anywhere, and hardly depends on what else a machine does.
"""

from __future__ import annotations

import dataclasses
import json
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from staticflow.comparison.amount import Work
from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError
from staticflow.measure.machine import Machine, least_seconds
from staticflow.measure.statistics import Spread, differ
from staticflow.measure.units import (
    bytes_in_words,
    flops_in_words,
    ratio_in_words,
    seconds_in_words,
)

__all__ = [
    "SCHEMA", "Change", "Results", "Table", "Timing", "find_changes", "format_changes",
    "format_machine", "format_table", "join_results", "load_results", "noise_between",
    "read_tables", "refuse_another_machine", "results_as_json",
]  # fmt: skip

SCHEMA = "staticflow.bench/1"
"""The form of the JSON. Its number grows where a field changes its meaning or goes."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One contestant: the seconds of a run, those of the first (with whatever it compiled), and how
    many times as long the best peer takes. ``roofline`` is the least time that the `Work` needs on
    this machine over the time that it took; None of a peer, which may do other work."""

    run: Spread
    least: float
    most: float
    first: float
    ratio: Spread
    roofline: float | None = None

    @staticmethod
    def of(row: Mapping[str, Any], least: float | None) -> Timing:
        """The timing that a benchmark wrote, with the ``least`` seconds that its work needs."""
        run = Spread(row["median"], row["low"], row["high"], row["count"])
        ratio = Spread(row["ratio"], row["ratio_low"], row["ratio_high"], row["count"])
        fraction = None if least is None else least / run.median
        return Timing(run, row["least"], row["most"], row["first"], ratio, fraction)


@dataclass(frozen=True, slots=True)
class Table:
    """Contestants that did the same. ``workload`` is a letter, ``best_peer`` the fastest that is
    not staticflow's; None if none took part. ``left_out`` says who did not, and why. The ``unit``
    of what was measured is ``"s"`` or ``"B"``: where it is bytes, those stand in the place of
    seconds. ``notes`` say what medians do not. ``when`` is the time at which the run began."""

    workload: str
    title: str
    threads: int
    best_peer: str | None
    contestants: dict[str, Timing]
    left_out: tuple[str, ...]
    work: Work | None = None
    unit: str = "s"
    notes: tuple[str, ...] = ()
    when: str = ""

    @property
    def key(self) -> tuple[str, str, int]:
        """The workload, the title of the measurement and the number of threads, by which a row is
        found again in the results of another run."""
        return self.workload, self.title, self.threads


@dataclass(frozen=True, slots=True)
class Results:
    """A run of the benchmarks on a machine, whose rates are there for each number of threads.
    ``failed`` says which workloads did not come to an end, and why; ``took`` has the seconds of
    each script, with all that it compiled."""

    when: str
    machines: tuple[Machine, ...]
    rounds: int
    seconds: float
    tables: tuple[Table, ...]
    failed: tuple[str, ...] = ()
    took: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The results in types that JSON has."""
        return {"schema": SCHEMA, **dataclasses.asdict(self)}


def read_tables(
    workload: str, threads: int, written: Mapping[str, Any], machine: Machine, when: str = ""
) -> list[Table]:
    """The tables that a benchmark wrote, as dicts of JSON by title, on this ``machine`` in the run
    that began at ``when``."""
    tables = []
    for title, table in written.items():
        work = None if table["work"] is None else Work(**table["work"])
        least = (
            None if work is None else least_seconds(work.bytes, work.flops, machine, work.footprint)
        )
        rows = {
            name: Timing.of(row, least if _is_ours(name) else None)
            for name, row in table["contestants"].items()
        }
        peers = [name for name in rows if not _is_ours(name)]
        best = min(peers, key=lambda name: rows[name].run.median, default=None)
        tables.append(
            Table(
                workload,
                title,
                threads,
                best,
                rows,
                tuple(table["left_out"]),
                work,
                table.get("unit", "s"),
                tuple(table.get("notes", ())),
                when,
            )
        )
    return tables


def _is_ours(name: str) -> bool:
    return name.startswith("staticflow")


# -- files ----------------------------------------------------------------------------------------


def results_as_json(results: Results) -> str:
    """The results as the text of a file that `load_results` reads."""
    return json.dumps(results.as_dict(), indent=1) + "\n"


def load_results(path: Path) -> Results:
    """The results that `results_as_json` wrote down. Raises `ArgumentError` for what it did not."""
    try:
        data = json.loads(path.read_text())
    except OSError as error:
        raise ArgumentError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ArgumentError(f"{path} is no JSON; give what `bench --json` wrote") from None
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        raise ArgumentError(f"{path} has the schema {found!r}; it must have {SCHEMA!r}")
    try:
        return Results(
            data["when"],
            tuple(_machine(m) for m in data["machines"]),
            data["rounds"],
            data["seconds"],
            tuple(_table(t) for t in data["tables"]),
            tuple(data["failed"]),
            dict(data.get("took", {})),
        )
    except (KeyError, TypeError) as error:
        raise ArgumentError(f"{path} is not what `bench --json` writes: {error}") from None


def _machine(data: Mapping[str, Any]) -> Machine:
    bandwidth = tuple((size, rate) for size, rate in data["bandwidth"])
    return Machine(**{**data, "bandwidth": bandwidth})


def _table(data: Mapping[str, Any]) -> Table:
    rows = {
        name: Timing(**{**row, "run": Spread(**row["run"]), "ratio": Spread(**row["ratio"])})
        for name, row in data["contestants"].items()
    }
    work = None if data["work"] is None else Work(**data["work"])
    lists = {name: tuple(data.get(name, ())) for name in ("left_out", "notes")}
    return Table(**{**data, **lists, "contestants": rows, "work": work})


def refuse_another_machine(results: Results, here: Machine) -> None:
    """Raise `ArgumentError` if the ``results`` are of another machine than ``here``, or of other
    versions."""
    for there in results.machines:
        if (there.processor, there.versions) != (here.processor, here.versions):
            raise ArgumentError(
                f"what is measured on {_place(here)} cannot be added to results of {_place(there)}"
            )


def join_results(before: Results, after: Results) -> Results:
    """The results of two runs as one: the tables of ``before`` that ``after`` has not measured
    anew, and those of ``after``."""
    anew = {table.key for table in after.tables}
    tables = [table for table in before.tables if table.key not in anew] + [*after.tables]
    machines = {m.threads: m for m in (*before.machines, *after.machines)}
    failed = [
        f for f in before.failed
        if not any(f.startswith(f"{name}:") or f == f"interrupted in {name}" for name in after.took)
    ]  # fmt: skip
    return dataclasses.replace(
        after,
        machines=tuple(machines[threads] for threads in sorted(machines)),
        tables=tuple(sorted(tables, key=lambda table: table.workload)),
        failed=(*failed, *after.failed),
        took={**before.took, **after.took},
    )


def _place(machine: Machine) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
    return f"{machine.processor} with {versions}"


# -- what changed ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Change:
    """What noise does not explain about one contestant of staticflow's: the seconds of a run, or
    how many times as long the best peer takes, before and after."""

    table: Table
    contestant: str
    of_time: bool
    before: Spread
    after: Spread

    @property
    def is_better(self) -> bool:
        """Whether less time is taken, or the best peer is further behind."""
        return self.gain() > 1

    def gain(self) -> float:
        """How many times as good it is as before."""
        grown = self.after.median / self.before.median
        return 1 / grown if self.of_time else grown


def find_changes(before: Results, after: Results) -> list[Change]:
    """What changed of staticflow's contestants in the tables that both have, the worst first."""
    old = {table.key: table for table in before.tables}
    pairs = [(old[table.key], table) for table in after.tables if table.key in old]
    same = {m.processor for m in before.machines} == {m.processor for m in after.machines}
    changes = [change for a, b in pairs for change in _changes_of(a, b, same)]
    noise = {of_time: noise_between(pairs, of_time) for of_time in (False, True)}
    kept = [c for c in changes if abs(math.log(c.gain())) > math.log(noise[c.of_time])]
    return sorted(kept, key=Change.gain)


def noise_between(pairs: Sequence[tuple[Table, Table]], of_time: bool) -> float:
    """How many times as much, or as little, the peers of tables before and after took; of 20 peers
    one may be further off. Without ``of_time`` it is about their ratios to the best peer."""
    logs = sorted(
        abs(math.log(new / old))
        for before, after in pairs
        for name in before.contestants.keys() & after.contestants.keys()
        if not _is_ours(name)
        for old, new in [
            [
                row.run.median if of_time else row.ratio.median
                for row in (before.contestants[name], after.contestants[name])
            ]
        ]
    )
    return math.exp(logs[(len(logs) - 1) * 19 // 20]) if logs else 1.0


def _changes_of(before: Table, after: Table, same_machine: bool) -> Iterator[Change]:
    for name in before.contestants.keys() & after.contestants.keys():
        if not _is_ours(name):
            continue
        a, b = before.contestants[name], after.contestants[name]
        has_peers = before.best_peer is not None and after.best_peer is not None
        if has_peers and differ(a.ratio, b.ratio):
            yield Change(after, name, False, a.ratio, b.ratio)
        if same_machine and differ(a.run, b.run):
            yield Change(after, name, True, a.run, b.run)


_UNITS = {"s": seconds_in_words, "B": bytes_in_words}

# -- text -----------------------------------------------------------------------------------------


def format_machine(machine: Machine) -> str:
    """The machine and its rates in a line."""
    rates = ""
    if machine.flops_per_second is not None and machine.bytes_per_second is not None:
        rates = (
            f": {flops_in_words(machine.flops_per_second)}/s, "
            f"{bytes_in_words(machine.bytes_per_second)}/s of memory"
        )
    return f"{machine.processor}, {_threads_in_words(machine.threads)}{rates}"


def _threads_in_words(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def format_table(table: Table) -> str:
    """A table in lines of at most 80 columns, the fastest contestant first."""
    threads = _threads_in_words(table.threads)
    against = f"against {table.best_peer}" if table.best_peer else "no peer took part"
    lines = [f"{table.workload}  {table.title}, {threads}; {against}"]
    for name, row in sorted(table.contestants.items(), key=lambda item: item[1].run.median):
        ratio = ""
        if table.best_peer is not None:
            ratio = f"{ratio_in_words(row.ratio.median):>10}"
            ratio += f" ({row.ratio.low:.2f} to {row.ratio.high:.2f})" if _is_ours(name) else ""
        reached = "" if row.roofline is None else f"{row.roofline:.0%}"
        lines.append(f"   {name:<24}{_UNITS[table.unit](row.run.median):>9} {reached:>5}{ratio}")
    for remark in (*table.notes, *(f"left out: {reason}" for reason in table.left_out)):
        lines += textwrap.wrap(remark, 80, initial_indent=" " * 3, subsequent_indent=" " * 6)
    return "\n".join(lines)


def format_changes(changes: list[Change], since: str) -> str:
    """The changes in words, a line each."""
    if not changes:
        return f"nothing changed beyond noise since {since}"
    lines = [f"changed beyond noise since {since}:"]
    for c in changes:
        words = _UNITS[c.table.unit] if c.of_time else ratio_in_words
        what = "a run takes" if c.of_time else "the best peer takes"
        end = "" if c.of_time else " as long"
        where = f"{c.table.workload} {c.table.title}, {c.contestant}"
        lines.append(
            f"  {'better' if c.is_better else 'WORSE'}: {where}, "
            f"{_threads_in_words(c.table.threads)}: {what} {words(c.after.median)}{end}, "
            f"{words(c.before.median)} before"
        )
    return "\n".join(lines)
