"""A product that two loops make in the same iterations is made by the first and stacked for the
second; so is what processes send to each other.

The derivative of a scan computes each iteration again from the carries that it began with.
Elementwise work is cheaper done twice than stored; a product is not, nor is a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.graph import (
    Graph,
    attrs_key,
    new_param,
    rebuild,
    substitute_nodes,
)
from staticflow.graph.node import Node, constant, item, make_node
from staticflow.ops.along.ordered_collectives import COLLECTIVES
from staticflow.ops.declaring.late import measure_op, prefix_op, unprefix_op
from staticflow.ops.declaring.lowering import Contract
from staticflow.ops.loops.loop import Loop, loop_ops, scan_op
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["share_products"]


def share_products(graph: Graph, counts: Counts) -> Graph:
    """Stack products of one scan for the scans that read its stacks and make them again."""
    plans = _plans(graph)
    kept = sum(len(p.read) for p in plans.values())
    if not kept:
        return graph
    counts["product kept for the way back"] += kept
    new: dict[Node, Node] = {}

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        plan = plans.get(node)
        made = with_args(node, args) if plan is None else _carry_out(node, args, plan, plans, new)
        new[node] = made
        return made

    return rebuild(graph, visit)


@dataclass(slots=True)
class _Plan:
    """What a loop stacks for others, each node of its body in the form that `_of_one_size` gives
    it, and what it reads instead of making it: a node of its body, and the loop and the node there
    that it equals."""

    stack: dict[Node, Node] = field(default_factory=dict)
    read: dict[Node, tuple[Node, Node]] = field(default_factory=dict)


def _plans(graph: Graph) -> dict[Node, _Plan]:
    loops = [n for n in graph.nodes if n.op in loop_ops()]
    plans = {n: _Plan() for n in loops}
    for second in loops:
        if second.op is not scan_op:
            continue
        for first in dict.fromkeys(a.args[0] for a in second.args if a.op is item):
            if first not in plans or Loop.of(first).iterations != Loop.of(second).iterations:
                continue
            same = _equal_nodes(first, second)
            own = _of_carries(first)
            for there, here in same.items():
                if _is_dear(there) and here in own and _of_one_size(here, first) is not None:
                    there = _last_alike(there, same, second)
                    plans[second].read.setdefault(there, (first, same[there]))
    for plan in plans.values():
        for first, here in plan.read.values():
            stacked = _of_one_size(here, first)
            assert stacked is not None
            plans[first].stack[here] = stacked
    return plans


def _is_dear(n: Node) -> bool:
    """Whether a node costs more than to store it and read it again."""
    return type(n.op.lowering) is Contract or (
        n.op in COLLECTIVES and not isinstance(n.type, tuple)
    )


def _of_one_size(n: Node, loop: Node) -> Node | None:
    """The values of a node of a body as they can be stacked, all of one size: those of rows whose
    number differs from iteration to iteration have rows of zeros behind them. None if another dim
    differs."""
    body = Loop.of(loop).body
    inner = body.bound_sizes
    shape = n.tensor_type.shape
    if all(inner.isdisjoint(symbols_of(d)) for d in shape):
        return n
    counts = (m for m in body.nodes if m.op is measure_op and m.tensor_type.shape[0] == shape[0])
    rows = next(counts, None)
    if rows is None or any(not inner.isdisjoint(symbols_of(d)) for d in shape[1:]):
        return None
    most = rows.attrs["most"]
    if not inner.isdisjoint(symbols_of(most)):
        return None
    return make_node(unprefix_op, (n, rows), {"size": most}, n.locs)


def _equal_nodes(first: Node, second: Node) -> Mapping[Node, Node]:
    """Nodes of the body of ``second`` that in every iteration have the value of one of
    ``first``."""
    a, b = Loop.of(first), Loop.of(second)
    _, a_rows, a_captured = a.pairs(first.args)
    _, b_rows, b_captured = b.pairs(second.args)
    rows = {arg: p for p, arg in a_rows}
    captured = {arg: p for p, arg in a_captured}
    same: dict[Node, Node] = {}
    for p, arg in b_rows:
        if arg in rows:
            same[p] = rows[arg]
        elif arg.op is item and arg.args[0] is first and arg.attrs["index"] >= a.carries:
            same[p] = a.body.outputs[arg.attrs["index"]]
    same |= {p: captured[arg] for p, arg in b_captured if arg in captured}
    table = {_key(n, n.args): n for n in a.body.nodes}
    for n in b.body.nodes:
        if n not in same and (n.args or n.op is constant) and all(x in same for x in n.args):
            equal = table.get(_key(n, tuple(same[x] for x in n.args)))
            if equal is not None:
                same[n] = equal
    return same


def _last_alike(n: Node, same: Mapping[Node, Node], loop: Node) -> Node:
    """The last of the nodes that only ``n`` and its like lead to, and that are as large: what is
    added to a product is kept with it."""
    body = Loop.of(loop).body
    while len(body.users[n]) == 1 and n not in body.outputs:
        (user,) = body.users[n]
        if user not in same or user.type != n.type:
            break
        n = user
    return n


def _key(n: Node, args: tuple[Node, ...]) -> object:
    return n.op, args, attrs_key(n.attrs), n.type


def _of_carries(loop: Node) -> set[Node]:
    """What the body of a loop computes of its carries: the rest can be had for all iterations at
    once."""
    body = Loop.of(loop).body
    found = set(body.params[: Loop.of(loop).carries])
    for n in body.nodes:
        if any(a in found for a in n.args):
            found.add(n)
    return found


def _carry_out(
    node: Node,
    args: tuple[Node, ...],
    plan: _Plan,
    plans: Mapping[Node, _Plan],
    new: Mapping[Node, Node],
) -> Node:
    """The loop that stacks and reads what the plan says; what it stacks comes behind its ys."""
    loop = Loop.of(node)
    inner, rows = {}, []
    for n, (first, here) in plan.read.items():
        stack = plans[first].stack
        index = len(Loop.of(first).body.outputs) + list(stack).index(here)
        kept = new_param(stack[here].tensor_type, "kept", locs=n.locs)
        rows.append((kept, make_node(item, (new[first],), {"index": index}, here.locs)))
        own = _of_one_size(n, node)
        assert own is not None
        inner[n] = kept if own is n else make_node(prefix_op, (kept, own.args[1]), {}, n.locs)
    outputs = substitute_nodes([*loop.body.outputs, *plan.stack.values()], inner)
    carries, xs, captured = loop.pairs(args)
    return loop.remade(outputs, carries, [*xs, *rows], captured, node.locs)
