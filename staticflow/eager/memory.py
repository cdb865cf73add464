"""What tensors share, and how often it was changed in place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from types import CodeType
from typing import TYPE_CHECKING

from staticflow.graph.locs import Loc, Locs

if TYPE_CHECKING:
    from staticflow.eager.tensor import Tensor

__all__ = ["Memory", "note_exchange", "versions"]

note_exchange = count().__next__
"""Called when a tensor was given another array, and by who looks whether one was: then the number
that it gives is not the next."""


class Memory:
    """The memory of a tensor, of its views and of what was detached from it: ``version`` is how
    often it was changed in place, ``changed`` the code and the instruction where last."""

    __slots__ = ("changed", "version")

    def __init__(self) -> None:
        self.version = 0
        self.changed: tuple[CodeType | None, int] = None, 0

    @property
    def locs(self) -> Locs:
        """The user's line that changed it last."""
        code, at = self.changed
        return () if code is None else (Loc(code, at),)

    @locs.setter
    def locs(self, locs: Locs) -> None:
        self.changed = (locs[0].code, locs[0].instruction) if locs else (None, 0)


def versions(tensors: Sequence[Tensor]) -> list[int]:
    """How often the memory of each of the ``tensors`` was changed in place."""
    return [0 if (memory := t._memory) is None else memory.version for t in tensors]
