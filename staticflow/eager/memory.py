"""Who shares memory with whom, and what in-place changes that the tape must know of."""

from __future__ import annotations

from staticflow.graph.locs import Locs, here

__all__ = ["Family", "Version"]


class Version:
    """How often the memory of a tensor and of its views was changed in place, and where last."""

    __slots__ = ("count", "locs")

    def __init__(self) -> None:
        self.count = 0
        self.locs: Locs = ()

    def bump(self) -> None:
        """Note a change."""
        self.count += 1
        self.locs = here()


class Family:
    """A tensor and the views taken of it. A recorded change gives the elements of the tensor
    another history; a view taken before it still has the old one and must not be used any more."""

    __slots__ = ("changes", "locs")

    def __init__(self) -> None:
        self.changes = 0
        self.locs: Locs = ()

    def note_recorded(self) -> None:
        """Note a recorded change."""
        self.changes += 1
        self.locs = here()
