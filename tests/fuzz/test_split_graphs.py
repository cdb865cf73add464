"""Random graphs of which params and values are split by chance, for meshes of two to six ranks: what
the ranks compute together is what the interpreter computes of the whole."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from functools import partial
from typing import Any

import campaign
import numpy as np
import pytest
from graph_judge import (
    Case,
    _prune,
    arrays_for,
    base_tolerance,
    compare,
    compile_case,
    noise,
    outcome,
    whole_graph,
)
from slices import today

from staticflow import distributed
from staticflow.errors import IndexRangeError, StaticflowError
from staticflow.graph.dtypes import int64
from staticflow.graph.graph import Graph, close, map_attrs, regions_of
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.node import Node, param
from staticflow.ops.along.collectives import shard_op
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.partition.layouts import Place
from staticflow.passes.partition.partition import partition
from staticflow.passes.partition.schedule import order_collectives
from staticflow.passes.partition.shares import send_less
from staticflow.passes.rewrite import with_args

Names = tuple[str, ...]
MESHES: tuple[tuple[Names, tuple[int, ...]], ...] = (
    (("data",), (2,)), (("data",), (3,)), (("data",), (5,)),
    (("data", "model"), (2, 2)), (("data", "model"), (3, 2)),
)  # fmt: skip
A_DAY = 20
FIRST = zlib.crc32(f"splits {today()}".encode())


def split_by_chance(graph: Graph, names: Sequence[str], chance: random.Random) -> Graph:
    """The graph in which every second param and some other values, also in loops and branches, are
    said to be split; its outputs are whole."""
    new: dict[Node, Node] = {}
    plain: dict[Node, Node] = {}
    for n in graph.nodes:
        made = n
        if n.op is not param:
            attrs = map_attrs(
                n.attrs, lambda size: size, lambda inner: split_by_chance(inner, names, chance)
            ) if regions_of(n) else n.attrs  # fmt: skip
            args = tuple(new[a] for a in n.args)
            made = (
                with_args(n, args) if attrs is n.attrs else Node(n.op, args, attrs, n.type, n.locs)
            )
        new[n] = plain[n] = made
        if not isinstance(n.type, tuple) and chance.random() < (0.5 if n.op is param else 0.08):
            spec = draw_spec(n.tensor_type.ndim, names, chance)
            if any(spec):
                new[n] = shard_op(Symbol(made), spec=spec).node
    return close(graph.params, [plain[o] for o in graph.outputs], graph.equalities, graph.declared)


def draw_spec(ndim: int, names: Sequence[str], chance: random.Random) -> Names:
    spec = [""] * ndim
    for name in names:
        if ndim and not spec[d := chance.randrange(ndim)] and chance.random() < 0.7:
            spec[d] = name
    return tuple(spec)


def difference(seed: int) -> str:
    """What is other for the case of a seed; nothing if all ranks agree with the interpreter."""
    case = campaign.draw_case(seed)
    if case is None:
        return ""
    chance = random.Random(f"splits {seed}")
    graph, arrays = whole_graph(case), arrays_for(case)
    names, shape = chance.choice(MESHES)
    given, is_compiled = split_by_chance(graph, names, chance), chance.random() < 0.2
    expected = outcome(partial(interpret_graph, graph), arrays)

    def run() -> Any:
        mesh = distributed.mesh(**dict(zip(names, shape, strict=True)))
        if is_compiled:
            return outcome(compile_case(case, given, mesh=mesh), arrays)
        return outcome(partial(interpret_graph, graph_of_rank(given, mesh)), arrays)

    try:
        found = distributed.simulate(run, int(np.prod(shape)))
    except StaticflowError as error:
        found = [error]
    for result in found:
        if what := compare_on_rank(result, expected, graph, arrays, is_compiled):
            return f"seed {seed}, {case_in_words(case)}, split over {names} of {shape}: {what}"
    return ""


def graph_of_rank(graph: Graph, mesh: Any) -> Graph:
    local, _ = partition(graph, mesh.names, mesh.shape, mesh.rank, len(graph.outputs))
    local = send_less(local, Place(mesh.shape, mesh.rank))
    return order_collectives(local, Symbol(constant_node(0, int64)))


def compare_on_rank(found: Any, expected: Any, graph: Graph, arrays: Any, is_compiled: bool) -> str:
    """What is other on a rank. Where the whole is an error, ranks have that one or say that another
    rank has ended."""
    if isinstance(expected, Exception) and isinstance(found, Exception):
        return ""
    room = base_tolerance(graph)
    what = compare(found, expected, is_compiled, room)
    if what and isinstance(expected, IndexRangeError):
        without = outcome(partial(interpret_graph, _prune(graph)), arrays)
        what = compare(found, without, is_compiled, room)
    if what and isinstance(expected, list) and isinstance(found, list):
        what = compare(found, expected, is_compiled, room, noise(graph, arrays, expected))
    return what


def case_in_words(case: Case) -> str:
    return ", ".join(f"{name} = {n}" for name, n in case.sizes)


def test_split_graphs_of_the_day() -> None:
    for seed in range(FIRST, FIRST + A_DAY):
        assert not difference(seed)


@pytest.mark.campaign
def test_many_split_graphs() -> None:
    found = [what for seed in range(FIRST, FIRST + 2000) if (what := difference(seed))]
    assert not found, "\n".join(found)


def test_values_are_split_and_sent() -> None:
    """The check has something to check: of few graphs, some are split in loops, and messages go."""
    split = sent = in_loops = 0
    for seed in range(30):
        case = campaign.draw_case(seed)
        assert case is not None
        graph = split_by_chance(whole_graph(case), ("data",), random.Random(seed))
        split += any(n.op is shard_op for n in graph.nodes)
        in_loops += any(
            inner.op is shard_op for n in graph.nodes for r in regions_of(n) for inner in r.nodes
        )
        local = distributed.simulate(lambda g=graph: graph_of_rank(g, distributed.mesh(data=2)), 2)
        sent += any("begin" in str(g) or "all_" in str(g) for g in local)
    assert split > 15 and sent > 8 and in_loops > 1
