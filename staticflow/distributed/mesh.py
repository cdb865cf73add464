"""Processes in rows along named axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.graph.numbers import unwrap_integer
from staticflow.ops.declaring.communicator import current

__all__ = ["Axis", "Mesh", "mesh"]


@dataclass(frozen=True, slots=True)
class Mesh:
    """The processes of a run, ``shape`` of them along the axes of these ``names``; this one is
    ``rank``. They are counted from 0, along the last axis first."""

    names: tuple[str, ...]
    shape: tuple[int, ...]
    rank: int

    @property
    def size(self) -> int:
        """How many processes there are."""
        return math.prod(self.shape)

    @property
    def over(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape of the mesh, and along which axes of it a collective over all goes."""
        return self.shape, tuple(range(len(self.shape)))

    def axis(self, name: str) -> Axis:
        """The axis of that name. Raises `ArgumentError` if there is none."""
        if name not in self.names:
            raise ArgumentError(
                f"axis: {self} has no {name!r}, only {', '.join(self.names)}, at "
                f"{format_locs(here())}"
            )
        return Axis(self, self.names.index(name))

    def __str__(self) -> str:
        axes = ", ".join(f"{n}={s}" for n, s in zip(self.names, self.shape, strict=True))
        return f"mesh({axes})"

    def __repr__(self) -> str:
        return f"<{self}, rank {self.rank}>"


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a mesh: the processes that differ from this one in nothing else."""

    mesh: Mesh
    number: int

    @property
    def name(self) -> str:
        """Its name."""
        return self.mesh.names[self.number]

    @property
    def size(self) -> int:
        """How many processes there are along it."""
        return self.mesh.shape[self.number]

    @property
    def rank(self) -> int:
        """Which of them this process is."""
        return int(np.unravel_index(self.mesh.rank, self.mesh.shape)[self.number])

    @property
    def over(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape of the mesh, and the axis of it along which a collective goes."""
        return self.mesh.shape, (self.number,)

    def __repr__(self) -> str:
        return f"<axis {self.name} of {self.mesh}, {self.rank} of {self.size}>"


def mesh(**axes: int) -> Mesh:
    """The processes that run this program, so many along each axis as is said; one axis may be -1,
    and takes all that there are.

    Under ``mpirun``, or ``python -m staticflow launch -n 4 train.py``, these are the processes of
    MPI (the extra ``distributed``); a script that is started alone is one process. Raises
    `ArgumentError` where there are not as many as the axes have.

    >>> import staticflow as sf
    >>> mesh = sf.distributed.mesh(data=-1)
    >>> mesh.rank, mesh.size, mesh.axis("data").size
    (0, 1, 1)
    """
    if not axes or list(axes.values()).count(-1) > 1:
        raise ArgumentError(
            f"mesh: takes the sizes of axes by name, at most one of them -1, "
            f"as in mesh(data=-1), at {format_locs(here())}"
        )
    for name, given in axes.items():
        axes[name] = size = unwrap_integer(given)
        if type(size) is not int or (size < 1 and size != -1):
            raise ArgumentError(
                f"mesh: {name} is {size!r}; it must be an integer from 1 on, or -1 for all "
                f"processes that there are, at {format_locs(here())}"
            )
    _join()
    there = current()
    known = math.prod(size for size in axes.values() if size != -1)
    shape = tuple([there.size // known if size == -1 else size for size in axes.values()])
    if math.prod(shape) != there.size or 0 in shape:
        wanted = ", ".join(f"{n}={s}" for n, s in axes.items())
        count = f"a multiple of {known}" if -1 in axes.values() else f"{known}"
        raise ArgumentError(
            f"mesh({wanted}) does not take {there.size} "
            f"process{'es' if there.size > 1 else ''}, as many as there are; start {count}, with "
            f"python -m staticflow launch -n, at {format_locs(here())}"
        )
    return Mesh(tuple(axes), shape, there.rank)


def _join() -> None:
    """Have MPI carry this process's messages, if it was started by that."""
    if not _is_alone():
        from staticflow.distributed.mpi import join

        join()


def _is_alone() -> bool:
    import os

    return current().size > 1 or not any(name in os.environ for name in _LAUNCHED)


_LAUNCHED: Any = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MPI_LOCALNRANKS")
"""What launchers of MPI say to the processes that they start."""
