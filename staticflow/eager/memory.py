"""Who shares memory with whom, and how often it was changed in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from types import CodeType
from typing import TYPE_CHECKING, Any

from staticflow.graph.locs import Loc, Locs
from staticflow.graph.op import Op

if TYPE_CHECKING:
    from staticflow.eager.tensor import Tensor

__all__ = ["Memory", "View", "ViewStep", "note_exchange", "versions"]

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


ViewStep = tuple[Op, Mapping[str, Any]]
"""A view op with its attributes."""


class View:
    """How a tensor is a view of ``base``, which is none: by the last ``step``, from the view
    ``before`` it or from the base itself.

    A recorded change of the base or of one of its views gives all of them another history. A view
    finds out when its version is not the one that it has ``seen``, and works its history out anew.
    ``recorded`` says whether it was taken where operations are recorded.
    """

    __slots__ = ("_base", "before", "recorded", "seen", "step")

    def __init__(
        self, base: Tensor, before: View | None, step: ViewStep, seen: int, recorded: bool
    ) -> None:
        self._base = base
        self.before = before
        self.step = step
        self.seen = seen
        self.recorded = recorded

    @property
    def base(self) -> Tensor:
        """The tensor with the history; one that changed its own shape became a view of that."""
        base = self._base
        return base if base._view is None else base._view.base

    @property
    def leads_back(self) -> bool:
        """Whether it, and every view on the way to the base, was recorded."""
        view: View | None = self
        while view is not None and view.recorded:
            view = view.before
        return view is None

    @property
    def steps(self) -> tuple[ViewStep, ...]:
        """All steps from the base on."""
        steps = []
        view: View | None = self
        while view is not None:
            steps.append(view.step)
            view = view.before
        return tuple(reversed(steps))
