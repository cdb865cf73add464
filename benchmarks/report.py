"""What a script has measured: its tables on the screen and in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Report", "format_table", "in_units", "is_ours", "summarize"]


@dataclass(slots=True)
class Report:
    """What a script has measured so far, and the file that has it after each table: a script that
    is ended keeps what it has. ``faults`` are tables that did not come to an end, and why."""

    threads: int
    path: Path | None
    tables: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)

    def add(
        self,
        title: str,
        summary: Mapping[str, Any],
        left_out: Sequence[str] = (),
        work: Any = None,
        unit: str = "s",
        notes: Sequence[str] = (),
    ) -> None:
        """Print a table and write it down."""
        self.tables[title] = {
            "contestants": summary, "left_out": [*left_out], "work": work, "unit": unit,
            "notes": [*notes],
        }  # fmt: skip
        print(format_table(summary, unit), flush=True)
        for note in notes:
            print(f"  {note}")
        self.write()

    def fail(self, title: str, reason: str) -> None:
        """Note that a table did not come to its end."""
        self.faults[title] = reason
        print(f"  FAILED: {reason}", flush=True)
        self.write()

    def write(self) -> None:
        """Write everything to the file, if there is one."""
        if self.path is not None:
            content = {"threads": self.threads, "tables": self.tables, "faults": self.faults}
            partial = self.path.with_suffix(".partial")
            partial.write_text(json.dumps(content, indent=2))
            partial.replace(self.path)

    def end(self) -> None:
        """End the script with the status 1 if a table failed."""
        if self.faults:
            raise SystemExit("; ".join(f"{t}: {reason}" for t, reason in self.faults.items()))


def is_ours(name: str) -> bool:
    """Whether a contestant is staticflow's."""
    return name.startswith("staticflow")


def summarize(measured: Mapping[str, list[float]], set_up: Mapping[str, float]) -> dict[str, Any]:
    """The medians, with their intervals, of what each contestant took, and the ratios to those of
    the best peer."""
    from staticflow.measure.statistics import spread, spread_of_ratio

    spreads = {name: spread(times) for name, times in measured.items()}
    peers = [name for name in spreads if not is_ours(name)]
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


def format_table(rows: Mapping[str, Mapping[str, Any]], unit: str = "s") -> str:
    """The contestants of a table, the fastest first."""
    best = next(iter(rows.values()))["best_peer"]
    lines = [f"  {'':<24}{'median':>12}{'least':>12}{'most':>12}{'first run':>12}   against {best}"]
    for name, row in sorted(rows.items(), key=lambda item: item[1]["median"]):
        times = "".join(
            f"{in_units(row[c], unit):>12}" for c in ("median", "least", "most", "first")
        )
        ratio = f"{row['ratio']:.2f} x" + (
            f", 95 % above {row['ratio_low']:.2f}" if is_ours(name) else ""
        )
        lines.append(f"  {name:<24}{times}   {ratio}")
    return "\n".join(lines) + "\n"


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"


def _bytes(count: float) -> str:
    return f"{count / 2**20:.4g} MiB"


def in_units(number: float, unit: str = "s") -> str:
    """A number of seconds, or of bytes where ``unit`` is ``"B"``."""
    return _bytes(number) if unit == "B" else _time(number)
