"""Which buffers the memory plan frees behind which step, for the test mode that spoils them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from staticflow.codegen.llvm.poison import Poison
from staticflow.codegen.program.routine import Repeat, Step, blocks_of
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.types import TensorType
from staticflow.runtime.plan import Plan

__all__ = ["plan_poison"]


def plan_poison(plan: Plan, outputs: Sequence[TensorType]) -> Poison:
    """What a run of a planned routine, whose last slots are the ``outputs``, spoils and when."""
    routine = plan.routine
    steps = dict(_ends(routine.steps))
    freed: dict[int, list[int]] = defaultdict(list)
    for buffer, (_, last) in enumerate(plan.live):
        if last in steps:
            freed[steps[last]].append(buffer)
    first = routine.slots - len(outputs)
    known = set(routine.sizes)
    slots = (first + i for i, t in enumerate(outputs) if symbols_of(t.size) <= known)
    return Poison({step: tuple(buffers) for step, buffers in freed.items()}, tuple(slots))


def _ends(steps: Sequence[Step]) -> Iterator[tuple[int, int]]:
    """The times of the plan at which a step has ended, each with the number of the step. A branch
    or a loop has no such time as it begins: what is last read there may lie where something in it
    is made."""
    time = number = 0

    def visit(steps: Sequence[Step]) -> Iterator[tuple[int, int]]:
        nonlocal time, number
        for step in steps:
            time, number = time + 1, number + 1
            own, blocks = number, blocks_of(step)
            for block in blocks:
                yield from visit(block)
            if isinstance(step, Repeat):
                time += 1
            if isinstance(step, Repeat) or not blocks:
                yield time, own

    return visit(steps)
