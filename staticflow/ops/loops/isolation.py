"""What keeps the iterations of a loop that runs on tensors apart.

In a graph each iteration has a carry and a y of its own, and a change in place reaches nothing
else. On tensors it reaches whoever has the same memory: what the loop began with, another part of
the carry, a y of an earlier iteration, what the body took from outside. To copy all of that would
be slow, and few bodies change their carry in place; whether one does is seen in its first
iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from staticflow.errors import SymbolicError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.eager_side import eager

__all__ = ["Apart"]


class Apart:
    """The leaves of a ``carry``, an iteration's own, from copies of ``init`` on; ``what`` is the
    loop."""

    def __init__(self, what: str, init: Sequence[Any]) -> None:
        self.what = what
        self.carry = [eager.copy(x) for x in init]
        self._versions = eager.versions(self.carry)
        self._changes: bool | None = None  # not seen yet

    def refuse_changed_carry(self, name: str) -> None:
        """Refuse the function ``name``, which was asked whether to go on, if it changed the carry
        in place: in a graph the body would not see that."""
        if eager.versions(self.carry) != self._versions:
            raise SymbolicError(
                f"{self.what}: {name} changes the carry in place, and is only asked whether the "
                f"loop goes on; compute out of place there, as in c = c + 1, at "
                f"{format_locs(here())}"
            )

    def follow(self, after: list[Any], y: list[Any]) -> list[Any]:
        """The leaves ``after`` an iteration are the carry of the next one. Gives the leaves ``y``,
        or copies of them where the next one may change them."""
        count = len(after)
        versions = eager.versions([*self.carry, *after, *y])
        if not self._changes:
            changed = versions[:count] != self._versions
            if changed and self._changes is False:
                self._refuse_late("changes its carry in place in a later iteration")
            self._changes = changed
        if self._changes:
            own = {id(x): x for x in self.carry}
            self.carry = [x if own.pop(id(x), None) is x else x.clone() for x in after]
            self._versions = eager.versions(self.carry)
            return [x.clone() for x in y]
        self.carry, self._versions = after, versions[count : 2 * count]
        return [x.clone() for x in y] if any(versions[2 * count :]) else y

    def refuse_changed_ys(self, ys: Sequence[Any]) -> None:
        """Refuse a body of which an iteration changed one of the ``ys`` that were given before."""
        if any(eager.versions(ys)):
            self._refuse_late("changes in place, in a later iteration, what it gave as y before")

    def _refuse_late(self, does: str) -> NoReturn:
        raise SymbolicError(
            f"{self.what}: the body {does}, and changed nothing of its carry in the first one; "
            "what has the same memory would change with it, which it does not in a graph: compute "
            f"out of place, as in c = c + 1, at {format_locs(here())}"
        )
