"""A program as its graph went through the passes, and what each of them changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from staticflow import pytree
from staticflow.data_classes import dataclass
from staticflow.drawing.costs import Costs
from staticflow.drawing.graphs import draw_graph
from staticflow.drawing.model import Drawing, DrawnNode
from staticflow.eager.tensor import Tensor
from staticflow.graph.node import Node
from staticflow.measure.tensor_names import name_tensors
from staticflow.static.compile import Program

__all__ = ["WRITTEN", "Changes", "Stage", "find_changes", "stages_of"]

WRITTEN = "written"
"""The name of the first stage: the graph before any pass."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A drawing with the name of the pass that it comes out of, and how often each of its rules
    fired."""

    name: str
    drawing: Drawing
    counts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different in a drawing from the one before: nodes by their numbers. What is
    ``changed`` computes from other operands, or in another group, what one of the same op, type and
    lines did; ``gone`` are nodes of the drawing before."""

    new: tuple[int, ...]
    changed: tuple[int, ...]
    gone: tuple[int, ...]


def stages_of(program: Program, title: str, costs: Costs) -> list[Stage]:
    """The graph as it was written, and after each pass that changed it. A node that two stages
    share has one key in both. ``costs`` knows sizes."""
    keys: dict[Node, int] = {}
    tensors = name_variables(program)
    outputs = name_outputs(program, tensors)
    stages = [Stage(WRITTEN, draw_graph(program.graph, title, outputs, keys, costs, tensors))]
    for report in program.passes:
        if report.after is not report.before:
            drawing = draw_graph(report.after, title, outputs, keys, costs, tensors)
            stages.append(Stage(report.name, drawing, tuple(sorted(report.counts.items()))))
    return stages


def name_variables(program: Program) -> dict[Tensor, str]:
    """What a person calls the tensors that a program captures, as `Program.explain` does."""
    calls = (call.module() for call in program._calls)
    return name_tensors(program._caller.variables, [m for m in calls if m is not None])


def name_outputs(program: Program, tensors: Mapping[Tensor, str]) -> list[str]:
    """What the results of a program's graph are: outputs in the structure of the call, then the new
    values of tensors."""
    caller = program._caller
    names = pytree.paths(caller.structure, "output")
    names += [f"new {tensors.get(t, 'value of a variable')}" for t in caller.updated]
    rest = len(program.graph.outputs) - len(names)
    return names + [f"output {i}" for i in range(rest)]


def find_changes(before: Drawing, after: Drawing) -> Changes:
    """What is different in ``after``."""
    kept = {n.key for n in before.nodes} & {n.key for n in after.nodes}
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for node in before.nodes:
        if node.key not in kept:
            alike[_looks(node)].append(node.id)
    new: list[int] = []
    changed: list[int] = []
    for node in after.nodes:
        if node.key not in kept:
            others = alike[_looks(node)]
            (changed if others else new).append(node.id)
            if others:
                others.pop(0)
    gone = sorted(number for numbers in alike.values() for number in numbers)
    return Changes(tuple(new), tuple(changed), tuple(gone))


def _looks(node: DrawnNode) -> tuple[object, ...]:
    """What a node that was only rebuilt has in common with what it was."""
    return node.kind, node.label, node.type, node.lines
