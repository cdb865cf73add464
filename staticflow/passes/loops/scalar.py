"""Loops whose state is a few numbers become kernels: their carries live in registers.

Runs on a fused graph. A loop is turned into a cluster if everything that it carries, reads row by
row and stacks is a number, and its body is elementwise work, or loops and branches of the same
kind. Numbers that are computed for it alone, such as those that it starts with, are computed there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from staticflow.graph.dims import fresh_sym
from staticflow.graph.doubtful_sizes import doubtful_sizes
from staticflow.graph.dtypes import int64
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import (
    Graph,
    close,
    map_attrs,
    new_param,
    rebuild,
    regions_of,
    substitute_nodes,
)
from staticflow.graph.locs import Locs
from staticflow.graph.node import Node, constant, item, make_node, maker_of, param
from staticflow.graph.types import TensorType, types_of
from staticflow.ops.basics.view import reshape_op
from staticflow.ops.declaring.late import measure_op
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.loops.loop import Loop, loop_ops
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.cluster import checked_members, cluster, inner_nodes
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["scalar_loops"]

MOST_STATE = 16
"""Carries of a loop that is a kernel; more would not stay in registers."""


def scalar_loops(graph: Graph, counts: Counts) -> Graph:
    """Make the loops of ``graph`` kernels where they may be."""
    used = {
        n: sorted({u.attrs["index"] for u in graph.users[n] if u.op is item})
        for n in graph.nodes
        if n.op in loop_ops()
    }
    made: dict[Node, tuple[Node, list[int]]] = {}  # by the loop as rebuilt: cluster, its results

    def doubts(loop: Node) -> bool:
        """Whether a size in the loop may be wrong, which the steps of a program check."""
        return bool(graph.symbols) and any(_doubts_in(Loop.of(loop).body, graph.equalities))

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if node.op is item and args[0] in made:
            one, results = made[args[0]]
            if not isinstance(one.type, tuple):
                return one
            return make_node(item, (one,), {"index": results.index(node.attrs["index"])}, node.locs)
        now = with_args(node, args)
        if node.op in loop_ops() and used[node] and _is_small(now) and not doubts(now):
            counts.note("loop in registers", node)
            own = [_is_for(node, a, graph) for a in node.args]
            made[now] = _as_cluster(now, used[node], own), used[node]
        return now

    return rebuild(graph, visit)


def _doubts_in(body: Graph, assumed: Sequence[Equality]) -> Iterator[Equality]:
    """What must hold of the sizes in a body and in its clusters, loops and branches."""
    within = (*assumed, *body.equalities)
    yield from doubtful_sizes(inner_nodes(body), within)
    for region in (r for node in body.nodes for r in regions_of(node) if node.op is not cluster):
        yield from _doubts_in(region, within)


def _is_small(node: Node) -> bool:
    loop = Loop.of(node)
    body = loop.body
    carries, xs, _ = loop.operands(body.params)
    _, ys = loop.results(body.outputs)
    if loop.carries > MOST_STATE:
        return False
    rows = [n for n in (*xs, *ys) if n.tensor_type.size != 0]  # the others are ties
    if any(n.tensor_type.shape for n in (*carries, *rows)):
        return False
    return all(map(_is_scalar_work, body.nodes))


def _is_scalar_work(node: Node) -> bool:
    if node.op is measure_op:  # a kernel learns no size on its way, nor checks one
        return False
    if node.op in (item, param) or all(t.size == 0 for t in types_of(node.type)):
        return True
    if node.op is constant:
        return bool(node.attrs["value"].array.size == 1)
    if node.op is reshape_op:
        return not node.tensor_type.shape
    if node.op is cluster and node.attrs["kind"] == "loop":
        return True
    if any(t.shape for t in types_of(node.type)):
        return False
    if node.op is cond_op:
        return all(_is_scalar_work(n) for branch in regions_of(node) for n in branch.nodes)
    return _is_map(node)


def _is_map(node: Node) -> bool:
    """Whether a node is a cluster of elementwise work that cannot fail."""
    if node.op is not cluster or node.attrs["kind"] != "map":
        return False
    return not checked_members(node.attrs["body"])


def _is_for(loop: Node, operand: Node, graph: Graph) -> bool:
    """Whether a number is computed for this loop alone, or from nothing."""
    maker = maker_of(operand)
    if not _is_map(maker):
        return False
    results = [maker, *(n for n in graph.users[maker] if n.op is item)]
    if any(t.shape for t in types_of(maker.type)):
        return False
    if not maker.args:
        return True
    readers = {u for r in results for u in graph.users[r]} - set(results)
    return readers == {loop} and not set(results) & set(graph.outputs)


def _as_cluster(node: Node, used: list[int], own: Sequence[bool]) -> Node:
    """The kernel of a loop, of which some results are used, and of the operands that are its
    ``own``."""
    loop = replace(Loop.of(node), body=_flat(node.attrs["body"]))
    param_of: dict[Node, Node] = {}

    def inside(operand: Node) -> Node:
        if operand not in param_of:
            param_of[operand] = new_param(
                operand.tensor_type, f"p{len(param_of)}", locs=operand.locs
            )
        return param_of[operand]

    def compute(number: Node) -> Node:
        maker = maker_of(number)
        body: Graph = maker.attrs["body"]
        values = {p: inside(a) for p, a in zip(body.params, maker.args, strict=True)}
        result = body.outputs[number.attrs["index"] if number.op is item else 0]
        return substitute_nodes([result], values)[0]

    args = tuple(
        compute(a) if is_own else inside(a) for a, is_own in zip(node.args, own, strict=True)
    )
    binds: dict[str, Any] = {}
    if loop.binds and used[-1] >= loop.carries:
        new = _count_iterations(loop, args, node.locs)
        used = [*(i + (i >= loop.carries) for i in used), loop.carries]
        binds["binds"] = loop.binds
    else:
        if loop.binds:  # nobody outside has this number; a loop beside may bind the same
            most = None if loop.length is None else loop.length + 1
            loop = replace(loop, binds=(fresh_sym("iterations", most, late=True),))
        new = make_node(node.op, args, loop.attrs, node.locs)
    outputs = [make_node(item, (new,), {"index": i}, node.locs) for i in used]
    body = close(list(param_of.values()), outputs)
    attrs = {"body": body, "kind": "loop", **binds}
    return make_node(cluster, tuple(param_of), attrs, node.locs)


def _count_iterations(loop: Loop, args: Sequence[Node], locs: Locs) -> Node:
    """A loop on ``args`` with one more carry, the number of iterations until then."""
    count = new_param(TensorType(int64, ()), "count")
    ends, ys = loop.results(loop.body.outputs)
    carries, xs, captured = loop.pairs(args)
    more: Node = (Symbol(count) + 1).node
    first = count, constant_node(0, int64)
    return loop.remade([*ends, more, *ys], [*carries, first], xs, captured, locs)


def _flat(body: Graph) -> Graph:
    """The body with what its clusters hold in their place."""
    new: dict[Node, Node] = {p: p for p in body.params}
    several: dict[Node, list[Node]] = {}
    for node in body.nodes[len(body.params) :]:
        if node.op is cluster:
            inner: Graph = node.attrs["body"]
            values: Mapping[Node, Node] = {
                p: new[a] for p, a in zip(inner.params, node.args, strict=True)
            }
            outs = substitute_nodes(inner.outputs, values)
            several[node] = outs
            new[node] = outs[0]
        elif node.op is item and node.args[0] in several:
            new[node] = several[node.args[0]][node.attrs["index"]]
        elif node.op is cond_op:
            attrs = map_attrs(node.attrs, lambda size: size, _flat)
            new[node] = make_node(cond_op, tuple(new[a] for a in node.args), attrs, node.locs)
        else:
            new[node] = with_args(node, tuple(new[a] for a in node.args))
    return close(body.params, [new[o] for o in body.outputs], body.equalities)
