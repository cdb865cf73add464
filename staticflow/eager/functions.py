"""The tape as PyTorch's programs walk over it: ``grad_fn.next_functions``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["AccumulateGrad", "functions_of"]


class AccumulateGrad:
    """Where a walk ends, for who looks at the tape: the gradient of the leaf ``variable``. The tape
    itself has the leaf in this place."""

    __slots__ = ("variable",)
    next_functions = ()

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    def name(self) -> str:
        """The name that is printed."""
        return "AccumulateGrad"

    def __eq__(self, other: object) -> bool:
        return type(other) is AccumulateGrad and other.variable is self.variable

    def __hash__(self) -> int:
        return id(self.variable)

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


def functions_of(edges: Sequence[Any]) -> tuple[tuple[Any, int], ...]:
    """``grad_fn`` and the number of its result for each edge, as PyTorch's ``next_functions``."""
    return tuple(
        (e.entry, e.index) if hasattr(type(e), "entry")  # one of several results
        else (e if e is None or e.serial else AccumulateGrad(e), 0)
        for e in edges
    )  # fmt: skip
