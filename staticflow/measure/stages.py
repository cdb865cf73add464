"""What a program would cost if the passes ended early: its kernels, their bytes and FLOPs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from staticflow.codegen.program.routine import Routine
from staticflow.data_classes import dataclass
from staticflow.graph.graph import Graph
from staticflow.measure.work import COPY, work_of_routine
from staticflow.passes.fuse import separate
from staticflow.passes.order import INTO_KERNELS
from staticflow.passes.pipeline import RUNS, PassReport
from staticflow.passes.rewrite import Counts, each_region
from staticflow.runtime.draft import Signature

__all__ = ["StageCosts", "costs_of_stages"]

_FINISHING = {"decompose", "separate", *INTO_KERNELS}
"""The passes that make kernels of a graph, whatever else was done to it."""


@dataclass(frozen=True, slots=True)
class StageCosts:
    """What the kernels of a stage do in one call: how many there are, the bytes that they move at
    least, and their FLOPs."""

    kernels: int
    bytes: int
    flops: int


def costs_of_stages(
    reports: Sequence[PassReport],
    lay_out: Callable[[Graph], tuple[Routine, Signature]],
    sizes: Mapping[str, int],
) -> list[tuple[StageCosts, StageCosts]]:
    """The costs before and after each pass. A graph of operations is made into kernels as it is, by
    the passes behind it that no program can do without and by fusion, and before ``fuse`` into one
    kernel for each operation; ``lay_out`` makes a routine of it. No machine code is made."""
    counted: dict[Graph, StageCosts] = {}

    def count(graph: Graph, done: int) -> StageCosts:
        """The costs of what came out of so many passes."""
        if graph not in counted:
            finished = graph
            for report in reports[done:]:
                if report.name in _FINISHING:
                    finished = each_region(finished, RUNS[report.name], Counts())
            counted[graph] = _total(*lay_out(finished), sizes)
        return counted[graph]

    found = []
    for done, report in enumerate(reports):
        if report.after is report.before:
            before = after = count(report.after, done + 1)
        elif report.name == "fuse":
            before = _total(*lay_out(each_region(report.before, separate, Counts())), sizes)
            after = count(report.after, done + 1)
        else:
            before, after = count(report.before, done), count(report.after, done + 1)
        found.append((before, after))
    return found


def _total(routine: Routine, signature: Signature, sizes: Mapping[str, int]) -> StageCosts:
    kernels = work_of_routine(routine, signature, sizes)
    return StageCosts(
        sum(k.name != COPY for k in kernels),
        sum(k.bytes for k in kernels),
        sum(k.flops for k in kernels),
    )
