"""What a program is and does, in one screen of text, and its details by topic."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from staticflow.data_classes import dataclass
from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size
from staticflow.graph.graph import Graph, regions_of
from staticflow.graph.locs import Locs, format_locs, here
from staticflow.graph.node import Node
from staticflow.measure.ledger import count_nodes, ledger, summarise_passes
from staticflow.measure.lines import lines_in_words
from staticflow.measure.stages import costs_of_stages
from staticflow.measure.tables import WIDTH, cut, fold_lines, table, wrap_items
from staticflow.measure.units import bytes_in_words, flops_in_words, seconds_in_words
from staticflow.measure.work import COPY, Kernel, size_names, work_of_program
from staticflow.ops.along.ordered_collectives import COLLECTIVES, end_op
from staticflow.passes.partition.moves import Moved
from staticflow.passes.pipeline import PassReport
from staticflow.runtime.drafting import lay_out
from staticflow.runtime.plan import Plan
from staticflow.runtime.recipe import Recipe
from staticflow.runtime.runnable import Runnable

__all__ = ["EXAMPLE", "Subject", "explain"]

EXAMPLE = 64
"""What an unknown size is taken for where a number is to be shown and none was given."""

_HEAVIEST = 10
"""Kernels that have a row of their own on the first screen."""

_BALANCE = 8
"""FLOPs that are done while a byte is moved, roughly: what orders kernels by their weight."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The program to explain: its graph as it was written and as it came out of the passes, its
    native code, and what the user calls its inputs, outputs and tensors. ``updated`` are those of
    the ``variables`` that a call changes, and ``moved`` what a process of a mesh sends since it is
    split otherwise than it is wanted."""

    graph: Graph
    optimized: Graph
    reports: Sequence[PassReport]
    executable: Runnable
    inputs: Sequence[str]
    outputs: Sequence[str]
    variables: Sequence[Tensor]
    names: Mapping[Tensor, str]
    updated: Sequence[Tensor]
    made: Locs
    phases: Mapping[str, float]
    moved: Sequence[Moved]

    @property
    def plan(self) -> Plan:
        """The memory plan."""
        return self.executable.plan


def explain(subject: Subject, topic: str | None, sizes: Mapping[str, int]) -> str:
    """The text about ``topic``, or the one screen that says what the program is. ``sizes`` are the
    unknown sizes at which numbers are shown, by name; those that are not given are `EXAMPLE`.

    Raises `ArgumentError` for a word that is no topic and `ShapeError` for a name of no size.
    """
    if topic is not None and topic not in _TOPICS:
        near = difflib.get_close_matches(str(topic), _TOPICS, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ArgumentError(
            f"explain: there is no topic {topic!r}; {hint}there are "
            f"{', '.join(map(repr, _TOPICS))}, at {format_locs(here())}"
        )
    known, _ = size_names(subject.executable)
    at = {**dict.fromkeys(known, EXAMPLE), **sizes}
    lines = _screen(subject, at) if topic is None else _TOPICS[topic](subject, at)
    return "\n".join(lines)


def _screen(subject: Subject, at: Mapping[str, int]) -> list[str]:
    kernels = work_of_program(subject.executable, at)
    return [
        *_title(subject),
        "",
        *_interface(subject),
        *_costs(subject, kernels, at),
        *_collective_total(subject, at),
        "",
        *_kernel_table(kernels, _HEAVIEST),
        "",
        *wrap_items("passes", summarise_passes(subject.reports)),
        f"more        explain(topic), a topic of {', '.join(map(repr, _TOPICS))}",
    ]


# -- what it is ----------------------------------------------------------------------------------


def _title(subject: Subject) -> list[str]:
    phases = ", ".join(f"{name} {seconds_in_words(s)}" for name, s in subject.phases.items())
    made = lines_in_words(subject.made)
    total = seconds_in_words(sum(subject.phases.values()))
    where = subject.executable.where
    on = "" if where.type == "cpu" else f" on {where}"
    return [
        cut(f"program{on} compiled at {made} in {total}", WIDTH),
        cut(f"            {phases}", WIDTH),
    ]


def _interface(subject: Subject) -> list[str]:
    params = subject.graph.params
    inputs = [f"{n}: {p.type}" for n, p in zip(subject.inputs, params, strict=False)]
    results = subject.graph.outputs[: len(subject.outputs)]
    outputs = [
        f"{name}: {o.type}" if name else str(o.type)
        for name, o in zip(subject.outputs, results, strict=True)
    ]
    own = dict(zip(subject.variables, params[len(subject.inputs) :], strict=True))
    trained = [t for t in own if t.requires_grad]
    rest = [t for t in own if not t.requires_grad]
    changed = set(subject.updated)
    lines = wrap_items("inputs", inputs or ["none"])
    lines += wrap_items("outputs", outputs or ["none"])
    for title, tensors in (("parameters", trained), ("other state", rest)):
        if tensors:
            count = sum(t.numel() for t in tensors)
            updated = sum(t in changed for t in tensors)
            how = "all updated" if updated == len(tensors) else f"{updated} updated"
            lines.append(f"{title:12}{len(tensors)}, of {count:,} elements, {how}")
            said = [_describe(t, own[t], subject.names) for t in tensors]
            lines += wrap_items("", said, 2)
    return lines


def _describe(t: Tensor, param: Node, names: Mapping[Tensor, str]) -> str:
    shape = list(t.shape)
    if t in names:
        return f"{names[t]} {shape}"
    return f"a tensor of shape {shape} at {lines_in_words(param.locs, 1)}"


# -- what it costs -------------------------------------------------------------------------------


def _costs(subject: Subject, kernels: Sequence[Kernel], at: Mapping[str, int]) -> list[str]:
    where = ", ".join(f"{name} = {value}" for name, value in at.items())
    peak, late = _peak(subject.plan, at)
    formula = "" if isinstance(subject.plan.peak, int) else f" = {subject.plan.peak}"
    guessed = "".join(f", {name} = 1" for name in late if name not in at)
    uncounted = _find_uncounted(kernels)
    of_each = f", with {uncounted[0]} = 1" if len(uncounted) == 1 else ""
    of_each = ", each unknown number as 1" if len(uncounted) > 1 else of_each
    launches, moved, flops = _totals(kernels)
    copies = sum(k.launches for k in kernels if k.name == COPY)
    count = sum(k.name != COPY for k in kernels)
    also = f" and {_count(copies, 'copy')}" if copies else ""
    runs = f"{_count(launches - copies, 'launch')} of {_count(count, 'kernel')}{also}"
    return [
        *([cut(f"at          {where}{guessed}", WIDTH)] if where or guessed else []),
        cut(f"memory      {peak}{formula}", WIDTH),
        cut(
            f"work        {runs}, {flops_in_words(flops)}, {bytes_in_words(moved)} moved{of_each}",
            WIDTH,
        ),
        *_launch_lines(subject.executable.launches_in_words(at)),
    ]


def _launch_lines(parts: Sequence[str]) -> list[str]:
    """How a call is launched on a GPU."""
    if not parts:
        return []
    first, *rest = parts
    again = "" if rest or "launch" not in first else ", from the second of the same sizes on"
    return [
        cut(f"captured    {first}{again}", WIDTH),
        *(cut(f"            {line}", WIDTH) for line in rest),
    ]


def _peak(plan: Plan, at: Mapping[str, int]) -> tuple[str, list[str]]:
    """The peak in words, and the sizes in it that only the run can tell."""
    late = [s.name for s in plan.unknown if s.name not in at]
    return f"{_bytes(plan.peak, at, plan)} at the peak", late


def _evaluate(size: Size, at: Mapping[str, int], plan: Plan) -> int:
    values = {s: at.get(s.name, 1) for s in plan.layout.expand(symbols_of(size))}
    return plan.evaluate(size, values)


def _bytes(size: Size, at: Mapping[str, int], plan: Plan) -> str:
    try:
        return bytes_in_words(_evaluate(size, at, plan))
    except (ValueError, ZeroDivisionError):  # no such sizes can be
        return f"{size} bytes"


def _kernel_table(kernels: Sequence[Kernel], most: int | None = None) -> list[str]:
    """The heaviest kernels, and the rest in one row."""
    ordered = sorted(kernels, key=lambda k: -max(k.bytes, k.flops / _BALANCE))
    shown = ordered[:most] if most is not None and len(ordered) > most + 1 else ordered
    rows = [["kernel", "launches", "bytes", "FLOPs", "from"]]
    rows += [_kernel_row(k) for k in shown]
    left = ordered[len(shown) :]
    if left:
        launches, moved, flops = _totals(left)
        rest = Kernel(f"{len(left)} more", launches, moved, flops, None, "", _find_uncounted(left))
        rows.append(_kernel_row(rest))
    return table(rows, "<>>><")


def _count(number: int, what: str) -> str:
    plurals = {"launch": "launches", "copy": "copies"}
    return f"{number:,} {what if number == 1 else plurals.get(what, f'{what}s')}"


def _totals(kernels: Sequence[Kernel]) -> tuple[int, int, int]:
    """The launches, bytes and FLOPs of kernels together."""
    return (
        sum(k.launches for k in kernels),
        sum(k.bytes for k in kernels),
        sum(k.flops for k in kernels),
    )


def _find_uncounted(kernels: Sequence[Kernel]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for k in kernels for name in k.uncounted))


def _kernel_row(k: Kernel) -> list[str]:
    each = f" x {'*'.join(k.uncounted)}" if k.uncounted else ""
    flops = flops_in_words(k.flops).removesuffix("FLOP").strip()
    return [k.name, f"{k.launches:,}{each}", bytes_in_words(k.bytes), flops, k.lines]


# -- the topics ----------------------------------------------------------------------------------


def _kernels(subject: Subject, at: Mapping[str, int]) -> list[str]:
    kernels = work_of_program(subject.executable, at)
    where = ", ".join(f"{name} = {value}" for name, value in at.items())
    return [
        *([f"at {where}"] if where else []),
        *_kernel_table(kernels),
        'their code: program.source("kernels"); the order in which they run: explain("routine")',
    ]


def _plan(subject: Subject, at: Mapping[str, int]) -> list[str]:
    plan = subject.plan
    where = ", ".join(f"{name} = {value}" for name, value in at.items())
    lines = [
        cut(f"peak: {_bytes(plan.peak, at, plan)}, {plan.peak} bytes", WIDTH),
        *(f"at {where}" for _ in [0] if where),
    ]
    lines += [cut(f"where {name} is {what}", WIDTH) for name, what in plan.meanings]
    rows = [["buffer", "type", "bytes", "offset", "steps", "from"]]
    for buffer, offset, (first, last) in zip(
        plan.routine.buffers, plan.offsets, plan.live, strict=True
    ):
        kind = f"{buffer.dtype}[{', '.join(map(str, buffer.shape))}]"
        place = "grows" if buffer.grows else cut(_bytes(offset, at, plan), 20)
        rows.append(
            [
                cut(buffer.label, 24), cut(kind, 24), cut(_bytes(buffer.bytes, at, plan), 20),
                place, f"{first}..{last}", lines_in_words(buffer.locs),
            ]
        )  # fmt: skip
    return [*lines, *table(rows, "<<>>><"), "every expression in full: print(program.plan)"]


def _graph(subject: Subject, at: Mapping[str, int]) -> list[str]:
    params = subject.graph.params[len(subject.inputs) :]
    unnamed = [t for p, t in zip(params, subject.variables, strict=True) if _is_unnamed(p)]
    legend = [
        f"%captured{f'_{i}' if i > 1 else ''} is {subject.names[t]}"
        for i, t in enumerate(unnamed, 1)
        if t in subject.names
    ]
    return [
        f"# {count_nodes(subject.graph)} nodes as written, which program.graph prints; as it runs:",
        *([cut(f"# {', '.join(legend)}", WIDTH)] if legend else []),
        *fold_lines(str(subject.optimized)),
    ]


def _is_unnamed(param: Node) -> bool:
    return str(param.attrs["name"]).startswith("captured")


def _passes(subject: Subject, at: Mapping[str, int]) -> list[str]:
    """The ledger. To count, each stage is made into kernels: it takes as long as some compilations
    without machine code."""
    costs = costs_of_stages(
        subject.reports,
        lambda graph: lay_out(Recipe(graph, tuple(subject.inputs), tuple(subject.updated)), graph),
        at,
    )
    where = ", ".join(f"{name} = {value}" for name, value in at.items())
    return [*([f"at {where}"] if where else []), *ledger(subject.reports, costs)]


def _collective_nodes(graph: Graph) -> list[Node]:
    """The collectives of a graph and of those inside it."""
    found = [n for n in graph.nodes if n.op in COLLECTIVES]
    return found + [c for n in graph.nodes for r in regions_of(n) for c in _collective_nodes(r)]


def _collective_total(subject: Subject, at: Mapping[str, int]) -> list[str]:
    """How many collectives there are, if there are some."""
    nodes = [n for n in _collective_nodes(subject.graph) if n.op is not end_op]
    counts = Counter(n.attrs.get("collective", n.op.name) for n in nodes)
    said = [f"{count} {name}" for name, count in counts.items()]
    return wrap_items("collectives", said) if said else []


def _collectives(subject: Subject, at: Mapping[str, int]) -> list[str]:
    from staticflow.measure.messages import explain_messages

    return explain_messages(
        subject.plan.routine.steps,
        lambda size: _evaluate(size, at, subject.plan),
        at,
        subject.moved,
    )


_TOPICS: dict[str, Callable[[Subject, Mapping[str, int]], list[str]]] = {
    "passes": _passes,
    "kernels": _kernels,
    "plan": _plan,
    "graph": _graph,
    "routine": lambda subject, _: fold_lines(str(subject.plan.routine)),
    "mesh": _collectives,
}
