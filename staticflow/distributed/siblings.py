"""Whether the processes that mpirun has started beside this one are there.

MPI begins on all ranks together, and waits for one that has ended before. mpirun knows of that one,
and ends all, if any other had begun MPI by then; else it takes it for a program without MPI.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from staticflow.errors import RankError
from staticflow.graph.locs import format_locs, here

__all__ = ["refuse_missing"]

DAEMONS = ("mpirun", "orted", "orterun", "prted", "prterun")
"""The programs of Open MPI that start processes, one behind the other."""
STARTING = 5.0
"""Seconds within which all were started, once one of them runs Python."""
NAP = 0.05


def refuse_missing() -> None:
    """Raise `RankError` where a rank of this machine has ended already, which so never comes to the
    mesh. That is seen on Linux, of what Open MPI started itself, and of no other machine's."""
    until = time.monotonic() + STARTING
    while missing := _missing():
        if time.monotonic() > until:
            raise RankError(
                f"mesh: {missing} has ended without making a mesh; every rank that is started must "
                f"make it, since all wait for each other there; let that one make it, or start "
                f"fewer, at {format_locs(here())}"
            )
        time.sleep(NAP)


def _missing() -> str:
    """In words which rank of this machine does not run; "" where all do, and where none can be
    seen."""
    size, local = (os.environ.get(f"OMPI_COMM_WORLD_{name}", "") for name in ("SIZE", "LOCAL_SIZE"))
    parent = Path(f"/proc/{os.getppid()}")
    try:
        if not local or (parent / "comm").read_text().strip() not in DAEMONS:
            return ""
        of_threads = [(t / "children").read_text() for t in (parent / "task").iterdir()]
        there = set(filter(None, map(_rank_of, " ".join(of_threads).split())))
    except OSError:  # no Linux, or what others run may not be seen
        return ""
    if len(there) >= int(local):
        return ""
    if local != size:  # the ranks of this machine have other numbers than 0, 1, ...
        return f"one of the {local} ranks of this machine"
    return f"rank {min(r for r in range(int(size)) if str(r) not in there)} of {size}"


def _rank_of(process: str) -> str:
    """The rank that a process was started as; "" of one that was not, or has ended."""
    try:
        environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    start = b"OMPI_COMM_WORLD_RANK="
    return next((e[len(start) :].decode() for e in environment if e.startswith(start)), "")
