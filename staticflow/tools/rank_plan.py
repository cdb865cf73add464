"""The plan of the first process of a mesh, whose parts are the largest: what it holds, sends and
computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticflow.comparison.source import import_source
from staticflow.data_classes import dataclass
from staticflow.distributed.mesh import Mesh
from staticflow.errors import ArgumentError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size
from staticflow.measure.machine import Machine, least_seconds
from staticflow.measure.messages import explain_messages, messages_of
from staticflow.measure.work import work_of_routine
from staticflow.ops.along.ordered_collectives import COLLECTIVES
from staticflow.passes.partition.moves import Moved
from staticflow.runtime.draft import Draft
from staticflow.runtime.drafting import draft_program
from staticflow.runtime.recipe import Recipe
from staticflow.static.partitioned import graph_of_rank
from staticflow.static.written import write

__all__ = ["EXAMPLE", "RankPlan", "load_program", "plan_rank"]

EXAMPLE = 64
"""What an unknown size is taken for that is not given."""


@dataclass(frozen=True, slots=True)
class RankPlan:
    """The plan for a ``mesh``, at sizes ``at``, of which the process has so many bytes of tensors
    (``own``) of as many as there are (``whole``)."""

    mesh: Mesh
    draft: Draft
    moved: tuple[Moved, ...]
    at: Mapping[str, int]
    own: int
    whole: int

    @property
    def peak(self) -> int:
        """The bytes of memory of a call."""
        return _evaluate(self.draft, self.at, self.draft.plan.peak)

    def lines(self, cost: tuple[float, float]) -> list[str]:
        """The tables of ``explain("mesh")``: the collectives of a call, and what is moved unasked,
        where a message takes ``cost``: seconds each, and seconds a byte."""
        steps = self.draft.plan.routine.steps
        return explain_messages(steps, self._evaluate, self.at, self.moved, cost)

    def message_seconds(self, cost: tuple[float, float]) -> float:
        """How long the messages of a call take, one behind the other."""
        found = messages_of(self.draft.plan.routine.steps, self._evaluate)
        return sum(m.messages * cost[0] + m.bytes * cost[1] for m in found if not m.inside)

    def work(self, machine: Machine) -> tuple[int, int, float]:
        """The operations and bytes of the kernels of a call, and the seconds that a machine needs
        for them at least."""
        sending = {op.name for op in COLLECTIVES}
        work = [
            k
            for k in work_of_routine(self.draft.plan.routine, self.draft.signature, self.at)
            if k.name not in sending
        ]
        least = sum(least_seconds(k.bytes, k.flops, machine) or 0.0 for k in work)
        return sum(k.flops for k in work), sum(k.bytes for k in work), least

    def _evaluate(self, size: Size) -> int:
        return _evaluate(self.draft, self.at, size)


def _evaluate(draft: Draft, at: Mapping[str, int], size: Size) -> int:
    values = {s: at.get(s.name, 1) for s in draft.plan.layout.expand(symbols_of(size))}
    return draft.plan.evaluate(size, values)


def plan_rank(target: str, axes: Mapping[str, int], sizes: Mapping[str, int]) -> RankPlan:
    """The plan of the program that ``FILE.py:FUNCTION`` writes for a mesh with these axes. Unknown
    sizes are as given, else `EXAMPLE`."""
    mesh = Mesh(tuple(axes), tuple(axes.values()), 0)
    written = write(*load_program(target, mesh))
    graph, moved = graph_of_rank(written, mesh)
    draft = draft_program(Recipe(graph, written.names, written.updated))
    known = [s.name for s in draft.plan.routine.sizes]
    unknown = sizes.keys() - set(known)
    if unknown:
        raise ArgumentError(
            f"plan-cluster: --sizes has {min(unknown)}; the sizes are {', '.join(known) or 'none'}"
        )
    at = {name: sizes.get(name, EXAMPLE) for name in known}
    count = len(written.names)
    whole, own = (
        sum(
            _evaluate(draft, at, p.tensor_type.size * p.tensor_type.dtype.itemsize)
            for p in g.params[count:]
        )
        for g in (written.graph, graph)
    )
    return RankPlan(mesh, draft, moved, at, own, whole)


def load_program(target: str, mesh: Mesh) -> tuple[Any, Any, Any]:
    """The inputs, outputs and updates that ``FILE.py:FUNCTION`` gives for a mesh."""
    module, (_, _, name) = import_source(target), target.partition(":")
    function = getattr(module, name, None)
    if not callable(function):
        raise ArgumentError(f"plan-cluster: {target!r} names no function; give FILE.py:FUNCTION")
    found = function(mesh)
    if not isinstance(found, tuple) or len(found) != 3:
        raise ArgumentError(
            f"plan-cluster: {name}(mesh) gives {type(found).__name__}; it must be a tuple of the "
            "inputs, outputs and updates of a program"
        )
    return found
