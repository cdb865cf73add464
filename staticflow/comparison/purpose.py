"""What differs on purpose between the modes, and what is left to agree without it.

A graph is compiled from the whole of a formula, and what overflows or cancels as it was written is
computed in a form that does not (docs/passes.md); an eager operation does not know what comes after
it. And a graph has a gradient for all that it can reach, zeros where this call did not, while the
tape has none, so that an eager optimiser leaves that parameter as it is.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from staticflow.comparison.contest import Contestant, eager_contestant
from staticflow.comparison.differences import LIMITS
from staticflow.comparison.job import Job
from staticflow.comparison.record import Difference
from staticflow.ops.basics.creation import zeros_like
from staticflow.static.compile import Program

__all__ = [
    "accept_finite", "accept_nearer", "add_zeros", "filling_contestant", "finite_losses",
    "stable_rules",
]  # fmt: skip

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


# -- forms that round better -----------------------------------------------------------------------


def stable_rules(program: Program | None) -> str:
    """The names of the rules that put stable forms into a program, in words; "" if there are
    none."""
    reports = [] if program is None else program.passes
    rules = {rule for r in reports if r.name.startswith("stabilize") for rule in r.counts}
    return ", ".join(sorted(rules))


def accept_finite(static: Arrays, eager: Arrays, double: Arrays | None) -> int:
    """Put into ``eager`` and ``double`` what ``static`` has where it is a number and they are
    infinite or NaN; how many elements of ``eager`` these were."""
    count = 0
    for name in static.keys() & eager.keys():
        for others in (eager, double or {}):
            other = others.get(name)
            if other is None or other.shape != static[name].shape:
                continue
            lost = ~np.isfinite(other) & np.isfinite(static[name])
            other[lost] = static[name][lost]
            count += int(lost.sum()) if others is eager else 0
    return count


def finite_losses(eager: Sequence[float], static: Sequence[float]) -> int:
    """How many losses there are before the first that is a number in the graph alone."""
    pairs = zip(eager, static, strict=False)
    return next(
        (i for i, (a, b) in enumerate(pairs) if not math.isfinite(a) and math.isfinite(b)),
        len(eager),
    )


def accept_nearer(found: Difference, dtype: str) -> bool:
    """Whether the modes are further apart than they may be, and the graph is as near to double
    precision as it must be."""
    is_apart = found.static_eager is not None and not found.static_eager <= found.limit
    return is_apart and found.static_float64 is not None and found.static_float64 <= LIMITS[dtype]


# -- gradients that are not there ------------------------------------------------------------------


def add_zeros(gradients: Arrays, others: Arrays) -> list[str]:
    """Zeros for each gradient that only ``others`` have, and their names."""
    missing = sorted(others.keys() - gradients.keys())
    gradients |= {name: np.zeros_like(others[name]) for name in missing}
    return missing


def filling_contestant(job: Job, names: Collection[str]) -> tuple[Contestant, set[str]]:
    """The eager mode that takes zeros for a gradient that a step does not reach, as a graph does;
    and a set, into which it puts the parameters of ``names`` of which that was so."""
    contestant = eager_contestant(job)
    parameters = {n: p for n, p in contestant.model.named_parameters() if n in names}
    filled: set[str] = set()
    update = contestant.optimizer.step

    def fill_and_update() -> None:
        for name, p in parameters.items():
            if p.grad is None:
                p.grad = zeros_like(p.detach())
                filled.add(name)
        update()

    contestant.optimizer.step = fill_and_update
    return contestant, filled
