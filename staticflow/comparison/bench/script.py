"""A script of the benchmarks as a process: what it wrote, or why it did not.

A script writes its tables to a file as it has them, so one that is ended has lost the table that it
was at, and no other.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from staticflow.data_classes import dataclass

__all__ = ["Outcome", "Script", "run_script"]

_STAY = 3.0
"""Seconds that a script has to end by itself once it was interrupted."""
_PATIENCE = 2.0
"""How many times as long as a contestant may take a script may say nothing."""


@dataclass(frozen=True, slots=True)
class Script:
    """A script, what it is told on its command line, and the seconds that one of its contestants
    may take before it is left out."""

    path: Path
    arguments: tuple[str, ...]
    limit: float


@dataclass(slots=True)
class Outcome:
    """The tables that a script wrote, by title, and why others are missing, by title or, where it
    failed as a whole, under ``""``."""

    tables: dict[str, Any] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    is_interrupted: bool = False


def run_script(script: Script) -> Outcome:
    """Run a script to its end, or until it says nothing for too long or Ctrl-C is pressed."""
    with tempfile.TemporaryDirectory(prefix="staticflow-") as folder:
        target = Path(folder, "tables.json")
        command = [
            sys.executable, str(script.path), *script.arguments, "--limit", f"{script.limit:g}",
            "--json", str(target),
        ]  # fmt: skip
        said, fault, is_interrupted = _follow(command, _PATIENCE * script.limit)
        outcome = _read(target)
        outcome.is_interrupted = is_interrupted
        if fault and not outcome.faults and not is_interrupted:
            outcome.faults[""] = fault if fault.startswith("it said") or not said else said[-1]
        return outcome


def _read(path: Path) -> Outcome:
    if not path.exists():
        return Outcome()
    written: Mapping[str, Any] = json.loads(path.read_text())
    return Outcome(dict(written["tables"]), dict(written.get("faults", {})))


def _follow(command: Sequence[str], patience: float) -> tuple[list[str], str, bool]:
    """What a process says that finds this package first; why it did not end well, if so; and
    whether it was ended by Ctrl-C."""
    root = str(Path(__file__).parents[3])
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    said: list[str] = []
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=os.environ | {"PYTHONPATH": paths},
    ) as process:
        threading.Thread(target=_pass_on, args=(process, lines), daemon=True).start()
        try:
            while (line := lines.get(timeout=patience)) is not None:
                if line.strip():
                    said.append(line.strip())
            code = process.wait()
        except queue.Empty:
            process.kill()
            last = f"; the last was {said[-1]!r}" if said else ""
            return said, f"it said nothing for {patience:.0f} s{last}", False
        except KeyboardInterrupt:
            _end(process)
            return said, "interrupted", True
    return said, f"it ended with status {code}" if code else "", False


def _pass_on(process: subprocess.Popen[str], lines: queue.SimpleQueue[str | None]) -> None:
    """Put what a process says into a queue, and None at its end."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_STAY)
    except subprocess.TimeoutExpired:
        process.kill()
