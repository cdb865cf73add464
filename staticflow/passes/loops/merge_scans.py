"""Two loops of which one does all that the other does are one loop, with the ys of both.

The derivative of a loop asks for a second one: that stacks its carries, or has their tangents
beside them. This makes it the first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from staticflow.graph.graph import Graph, close, substitute_nodes
from staticflow.graph.locs import merge_locs
from staticflow.graph.node import Node, item, make_node, toposort
from staticflow.ops.loops.loop import Loop, loop_ops
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["merge_scans"]


def merge_scans(graph: Graph, counts: Counts, inside: Callable[[Graph], Graph]) -> Graph:
    """Join loops of equal length and direction where one begins with the carries of the other,
    reads all that it reads, and gives equal carries. ``inside`` is done to joined bodies."""
    while found := _find_pairs(graph, counts, inside):
        outputs = substitute_nodes(graph.outputs, found)
        graph = close(graph.params, outputs, graph.equalities, graph.declared)
    return graph


def _find_pairs(graph: Graph, counts: Counts, inside: Callable[[Graph], Graph]) -> dict[Node, Node]:
    """The results of pairs of loops, each with what it is of one loop for both. No pair is needed
    by one that was found before, so that they may all be joined at once."""
    found: dict[Node, Node] = {}
    needed: set[Node] = set()
    groups: dict[object, list[Node]] = {}
    for node in graph.nodes:
        if node.op in loop_ops():
            loop = Loop.of(node)
            groups.setdefault((loop.length, loop.reverse, loop.binds), []).append(node)
    for group in groups.values():
        for a, b in itertools.combinations(group, 2):
            pair = (b, a) if len(b.args) > len(a.args) else (a, b)
            joined = None if needed & {a, b} else _join(*pair, inside)
            if joined is not None:
                both, positions = joined
                both = with_args(both, tuple(substitute_nodes(both.args, found)))
                found |= _results(graph, *pair, both, positions)
                needed |= {a, b, *toposort((*a.args, *b.args), known=needed)}
                counts.note("merge scans", a)
    return found


def _results(
    graph: Graph, wide: Node, narrow: Node, loop: Node, positions: Sequence[int]
) -> dict[Node, Node]:
    found = {}
    for node in graph.nodes:
        if node.op is item and node.args[0] in (wide, narrow):
            index = node.attrs["index"]
            position = positions[index] if node.args[0] is narrow else index
            found[node] = make_node(item, (loop,), {"index": position}, node.locs)
    return found


def _join(
    wide: Node, narrow: Node, inside: Callable[[Graph], Graph]
) -> tuple[Node, list[int]] | None:
    """The loop that does the work of both, and where the results of the narrow one stand in it;
    None if the wide one does not do all of it."""
    a, b = Loop.of(wide), Loop.of(narrow)
    params = _params_for(narrow, wide)
    if params is None:
        return None
    renamed = substitute_nodes(b.body.outputs, dict(zip(b.body.params, params, strict=True)))
    equalities = (*a.body.equalities, *b.body.equalities)
    both = inside(close(a.body.params, (*a.body.outputs, *renamed), equalities))
    count = len(a.body.outputs)
    outs_a, outs_b = both.outputs[:count], both.outputs[count:]
    if outs_a[: b.carries] != outs_b[: b.carries] or narrow in toposort(wide.args):
        return None
    outputs = list(outs_a)
    positions = list(range(b.carries))
    for out in outs_b[b.carries :]:
        if out not in outputs[a.carries :]:
            outputs.append(out)
        positions.append(outputs.index(out, a.carries))
    body = close(both.params, outputs, both.equalities)
    locs = merge_locs(wide.locs, narrow.locs)
    return make_node(wide.op, wide.args, {**wide.attrs, "body": body}, locs), positions


def _params_for(narrow: Node, wide: Node) -> list[Node] | None:
    """The params of the wide loop's body that get what those of the narrow one's get."""
    a, b = Loop.of(wide), Loop.of(narrow)
    params = a.operands(a.body.params)
    given = a.operands(wide.args)
    wanted = b.operands(narrow.args)
    if list(given[0][: b.carries]) != list(wanted[0]):
        return None
    found = list(params[0][: b.carries])
    for inner, outer, values in zip(params[1:], given[1:], wanted[1:], strict=True):
        by_operand = dict(zip(outer, inner, strict=True))
        if not by_operand.keys() >= set(values):
            return None
        found += [by_operand[v] for v in values]
    return found
