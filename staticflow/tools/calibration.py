"""Measured calls on a few processes of this machine, beside what their plans predict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from staticflow.data_classes import dataclass
from staticflow.errors import RankError
from staticflow.runtime.threads import usable_processors

if TYPE_CHECKING:
    from staticflow.measure.machine import Machine

__all__ = ["Calibration", "calibrate", "measure_call"]


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many times longer kernels take than they must, the largest error of the predictions that
    follow, as a part of what was measured, and all that in ``lines``."""

    factor: float
    error: float | None
    lines: list[str]


def calibrate(
    target: str,
    names: Sequence[str],
    sizes: Mapping[str, int],
    counts: Sequence[int],
    machine: Machine,
) -> Calibration:
    """Run the program on each of these numbers of processes, of one thread each. The first gives
    the factor; the others are predicted by it. Where there are more processes than processors,
    kernels take as many times longer."""
    from staticflow.measure.others import OtherPrograms
    from staticflow.measure.tables import table
    from staticflow.measure.units import seconds_in_words
    from staticflow.tools.rank_plan import plan_rank

    processors, others = usable_processors(), OtherPrograms()
    rows = [["processes", "kernels at least", "messages", "measured", "predicted", "error"]]
    factor, worst = 1.0, None
    for i, count in enumerate(sorted(counts)):
        seconds, cost = measure_call(target, names, sizes, count)
        plan = plan_rank(target, dict.fromkeys(names, 1) | {names[0]: count}, sizes)
        least = plan.work(machine)[2] * max(1.0, count / processors)
        messages = plan.message_seconds(cost) if cost else 0.0
        if i == 0:
            factor = (seconds - messages) / least
        predicted = least * factor + messages
        error = predicted / seconds - 1
        if i:
            worst = max(worst or 0.0, abs(error))
        many = f" on {processors} processors" if count > processors else ""
        rows.append([
            f"{count}{many}", *map(seconds_in_words, (least, messages, seconds, predicted)),
            f"{error:+.0%}" if i else f"none: it gives the factor {factor:.2f}",
        ])  # fmt: skip
    remark = others.remark(min(max(counts), processors))
    return Calibration(factor, worst, [*([remark] if remark else []), *table(rows, "<>>>><")])


def measure_call(
    target: str, names: Sequence[str], sizes: Mapping[str, int], count: int
) -> tuple[float, tuple[float, float] | None]:
    """The seconds of a call on so many processes, and what a message costs there."""
    from staticflow.distributed.launching import launch_command

    words = ["-m", "staticflow.tools.timed_step", target, ",".join(names), json.dumps(dict(sizes))]
    command, environment = [sys.executable, *words], dict(os.environ)
    if count > 1:
        command, environment = launch_command(count, words)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.splitlines()
        said = [line for line in lines if "Error: " in line and not line.startswith(" ")]
        raise RankError(
            f"plan-cluster: the program failed on {count} processes: "
            f"{said[0] if said else done.stderr.strip()}"
        )
    seconds, cost = json.loads(done.stdout.splitlines()[-1])
    return seconds, None if cost is None else (cost[0], cost[1])
