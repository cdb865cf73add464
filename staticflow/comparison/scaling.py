"""How much faster several processes train a model than one, each on its part of every batch."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from staticflow.comparison.costs import ProcessError, answer_of, save_batches, write_order
from staticflow.comparison.job import Job
from staticflow.comparison.record import Scaling
from staticflow.distributed.launching import launch_command
from staticflow.errors import ArgumentError
from staticflow.measure.statistics import spread
from staticflow.runtime.threads import usable_processors

__all__ = ["check_counts", "find_scaling"]

MOST_PROCESSES = 64


def check_counts(counts: Sequence[int]) -> tuple[int, ...]:
    """The numbers of processes in ascending order, with 1 among them if there are any. Raises
    `ArgumentError` for what is no such number, and `RankError` where nothing can start them."""
    for count in counts:
        if type(count) is not int or not 1 <= count <= MOST_PROCESSES:
            raise ArgumentError(
                f"the numbers of processes have {count!r}; they are integers from 1 to "
                f"{MOST_PROCESSES}"
            )
    if counts:
        launch_command(1, ())
    return tuple(sorted({1, *counts})) if counts else ()


def find_scaling(
    job: Job, counts: Sequence[int], progress: Callable[[], Any] = lambda: None
) -> tuple[tuple[Scaling, ...], list[str]]:
    """The step on each of these numbers of processes, the first of which is 1, with what a reader
    has to know of it. The job must have a request.

    The batches are the same, so more processes have smaller parts. Each process runs its kernels on
    one thread, and one process is started as several are.
    """
    found: list[Scaling] = []
    notes: list[str] = []
    alone: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="staticflow-") as name:
        folder = Path(name)
        save_batches(folder / "data.npz", job, ())
        for count in counts:
            path = write_order(job, folder, processes=count)
            command, environment = launch_command(
                count, ["-m", "staticflow.comparison.on_mesh", str(path)]
            )
            try:
                answer = answer_of(command, job, folder, environment)
            except ProcessError as error:
                notes.append(f"{count} processes were not measured: {error}")
                if count == 1:
                    break
                continue
            (folder / "answer.json").unlink()
            step = spread(answer["seconds"])
            first = found[0].step.median if found else step.median
            alone = alone or answer
            found.append(
                Scaling(
                    count,
                    step,
                    first / step.median,
                    first / step.median / count,
                    answer["bytes"],
                    answer["messages"],
                    _difference(answer["losses"], alone["losses"]),
                )
            )
            progress()
    processors = usable_processors()
    if found and found[-1].processes > processors:
        notes.append(
            f"there are {processors} processors, which more processes share: beyond that no "
            "speedup can come"
        )
    return tuple(found), notes


def _difference(losses: Sequence[float], alone: Sequence[float]) -> float | None:
    """The largest relative difference; None where there are no losses."""
    return max(
        (abs(a - b) / max(abs(b), 1e-300) for a, b in zip(losses, alone, strict=True)),
        default=None,
    )
