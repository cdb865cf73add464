"""``python -m staticflow plan-cluster``: what a process of a mesh would do and send."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from staticflow.errors import ArgumentError

if TYPE_CHECKING:
    from staticflow.distributed.mesh import Mesh
    from staticflow.graph.dims import Size
    from staticflow.runtime.draft import Draft
    from staticflow.static.written import Written

__all__ = ["add_arguments", "run"]

EXAMPLE = 64
"""What an unknown size is taken for that is not given."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program, the mesh, and what messages cost."""
    parser.add_argument(
        "target",
        metavar="FILE.py:FUNCTION",
        help="a function of a mesh that gives inputs, outputs and updates, as for sf.compile",
    )
    parser.add_argument("--mesh", required=True, metavar="data=64,model=8", help="its axes")
    parser.add_argument(
        "--sizes",
        default="",
        metavar="x_0=512",
        help=f"unknown sizes; those not given are {EXAMPLE}",
    )
    parser.add_argument(
        "--latency", type=float, default=20.0, help="microseconds that a message takes (20)"
    )
    parser.add_argument(
        "--bandwidth", type=float, default=10.0, help="gigabytes that a process sends a second (10)"
    )
    parser.add_argument(
        "--flops",
        type=float,
        help="billions of operations on floats that a process does a second (as this machine on "
        "one thread)",
    )
    parser.add_argument(
        "--memory",
        type=float,
        help="gigabytes that a process reads and writes a second (as this machine on one thread)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the plan of the first process, whose parts are the largest."""
    from staticflow.distributed.mesh import Mesh
    from staticflow.graph.dim_queries import symbols_of
    from staticflow.measure.messages import explain_messages, messages_of
    from staticflow.measure.tables import table
    from staticflow.measure.units import bytes_in_words
    from staticflow.runtime.drafting import draft_program
    from staticflow.runtime.recipe import Recipe
    from staticflow.static.partitioned import graph_of_rank

    axes = _read_numbers(arguments.mesh, "--mesh")
    mesh = Mesh(tuple(axes), tuple(axes.values()), 0)
    written = _write_program(arguments.target, mesh)
    graph, moved = graph_of_rank(written, mesh)
    draft = draft_program(Recipe(graph, written.names, written.updated))
    routine, plan = draft.plan.routine, draft.plan
    given = _read_numbers(arguments.sizes, "--sizes") if arguments.sizes else {}
    unknown = given.keys() - {s.name for s in routine.sizes}
    if unknown:
        names = ", ".join(s.name for s in routine.sizes) or "none"
        raise ArgumentError(f"plan-cluster: --sizes has {min(unknown)}; the sizes are {names}")
    at = {s.name: given.get(s.name, EXAMPLE) for s in routine.sizes}

    def evaluate(size: Size) -> int:
        values = {s: at.get(s.name, 1) for s in plan.layout.expand(symbols_of(size))}
        return plan.evaluate(size, values)

    count = len(written.names)
    whole, own = (
        sum(evaluate(p.tensor_type.size * p.tensor_type.dtype.itemsize) for p in g.params[count:])
        for g in (written.graph, graph)
    )
    rows = [
        ["processes", f"{mesh.size}, {mesh}"],
        ["tensors", f"{bytes_in_words(own)} of {bytes_in_words(whole)} on each, with states"],
        ["memory of a call", bytes_in_words(evaluate(plan.peak))],
    ]
    cost = arguments.latency * 1e-6, 1 / (arguments.bandwidth * 1e9)
    lines = explain_messages(routine.steps, evaluate, at, moved, cost)
    print("\n".join([*table(rows, "<<"), "", *lines]))
    once = [m for m in messages_of(routine.steps, evaluate) if not m.inside]
    messages = sum(m.messages * cost[0] + m.bytes * cost[1] for m in once)
    print(_least_time(draft, at, (arguments.flops, arguments.memory), messages))
    return 0


def _least_time(
    draft: Draft,
    at: Mapping[str, int],
    given: tuple[float | None, float | None],
    messages: float,
) -> str:
    """What the kernels of a call do, and how long that takes at least, alone and with messages of
    so many seconds that nothing hides. Rates that are not given are those of this machine."""
    from staticflow.measure.machine import least_seconds, machine
    from staticflow.measure.units import bytes_in_words, flops_in_words, seconds_in_words
    from staticflow.measure.work import work_of_routine
    from staticflow.ops.along.ordered_collectives import COLLECTIVES

    here = machine(1, measure=None in given)
    if given[0] is not None:
        here = replace(here, flops_per_second=given[0] * 1e9)
    if given[1] is not None:
        here = replace(here, bytes_per_second=given[1] * 1e9, bandwidth=())
    sending = {op.name for op in COLLECTIVES}
    work = [
        k for k in work_of_routine(draft.plan.routine, draft.signature, at) if k.name not in sending
    ]
    least = sum(least_seconds(k.bytes, k.flops, here) or 0.0 for k in work)
    flops, touched = sum(k.flops for k in work), sum(k.bytes for k in work)
    return (
        f"kernels {flops_in_words(flops)} and {bytes_in_words(touched)} a call, at least "
        f"{seconds_in_words(least)}; with all messages {seconds_in_words(least + messages)}"
    )


def _write_program(target: str, mesh: Mesh) -> Written:
    from staticflow.comparison.source import import_source
    from staticflow.static.written import write

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
    return write(*found)


def _read_numbers(text: str, option: str) -> dict[str, int]:
    found = {}
    for word in text.split(","):
        name, _, number = word.partition("=")
        if not name.isidentifier() or not number.isdecimal() or int(number) < 1:
            raise ArgumentError(
                f"plan-cluster: {option} has {word!r}; it has names with integers from 1 on, as "
                "data=64,model=8"
            )
        found[name] = int(number)
    return found
