"""Why one mode wins: what each pass is worth, which sizes favour which mode, what peers take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from staticflow.comparison.ablation import ablate
from staticflow.comparison.contest import Contestant
from staticflow.comparison.job import Job
from staticflow.comparison.peers import time_peers
from staticflow.comparison.progress import Progress
from staticflow.comparison.record import Ablation, Peer, Sweep
from staticflow.comparison.source import explain_failure
from staticflow.comparison.sweep import sweep_job, usual_axes
from staticflow.data_classes import dataclass

__all__ = ["Why", "find_why"]

T = TypeVar("T")


@dataclass(slots=True)
class Why:
    """What was found so far."""

    ablation: tuple[Ablation, ...] = ()
    no_effect: tuple[str, ...] = ()
    sweep: Sweep | None = None
    peers: tuple[Peer, ...] = ()


def find_why(
    job: Job,
    eager: Contestant,
    static: Contestant | None,
    why: Why,
    notes: list[str],
    progress: Progress,
) -> None:
    """Put into ``why`` what is found, as it is found, and into ``notes`` what could not be.

    Without a graph there are peers alone.
    """
    if static is not None:
        progress.stage("leaving out each pass")
        left = _try("what each pass is worth", lambda: ablate(job), notes)
        if left is not None:
            why.ablation, why.no_effect = left.rows, left.no_effect
        axes = usual_axes(job) if job.sweep is None else job.sweep
        if axes:
            progress.stage("both modes at other sizes")
            missed: list[str] = []
            found = _try(
                "which sizes favour which mode",
                lambda: sweep_job(job, axes, left_out=missed),
                notes,
            )
            others = f"; nor at {len(missed) - 1} of the others" if len(missed) > 1 else ""
            notes.extend(f"{first}{others}" for first in missed[:1])
            why.sweep = found if found is not None and found.points else None
    if job.peers:
        progress.stage(f"the same under {', '.join(job.peers)}")
        peers = time_peers(job, job.peers, static or eager)
        why.peers = peers.timed
        notes.extend((*peers.left_out, *peers.notes))


def _try(what: str, find: Callable[[], T], notes: list[str]) -> T | None:
    """What ``find`` gives. A model may fail at sizes or arguments that nobody has tried yet: that
    is a note, and the rest of the comparison stands."""
    try:
        return find()
    except Exception as error:
        notes.append(f"{what} was not measured: {explain_failure(error)}")
        return None
