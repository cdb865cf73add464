"""Branches that need not be asked for: by a number, of equal sides, by what was asked before.

A condition that a side of a branch is handed has a known value there.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.graph.dtypes import bool_
from staticflow.graph.graph import Graph, close, substitute_nodes
from staticflow.graph.node import Node, item, make_node
from staticflow.ops.basics.arithmetic import logical_not
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.pattern import number_of
from staticflow.passes.loops.results import replace_results
from staticflow.passes.rewrite import Counts

__all__ = ["decide"]


def decide(graph: Graph, counts: Counts) -> Graph:
    """A branch by a number is one of its sides, of two equal sides it is either, and inside of a
    side its condition is a number."""
    if not any(n.op is cond_op for n in graph.nodes):
        return graph
    return replace_results(graph, lambda node: _simplify(node, counts))


def _simplify(node: Node, counts: Counts) -> Sequence[Node] | None:
    """What the results of a branch are without it, or of a simpler one."""
    if node.op is not cond_op:
        return None
    condition, *operands = node.args
    true, false = node.attrs["true"], node.attrs["false"]
    if true.bound_sizes or false.bound_sizes:  # what it assumes of these is checked inside
        return None
    number = number_of(condition)
    if number is not None:
        counts.note("branch by a number", node)
        return _inline(true if number else false, operands)
    if _are_equal(true, false):
        counts.note("branch of equal sides", node)
        return _inline(true, operands)
    if condition.op is logical_not and condition.args[0].tensor_type.dtype is bool_:
        counts.note("branch by what is not", node)
        return _branch(node, condition.args[0], operands, false, true)
    sides = [_knowing(g, condition, operands, v) for g, v in ((true, True), (false, False))]
    if sides == [true, false]:
        return None
    counts.note("condition known inside", node)
    return _branch(node, condition, operands, *(decide(side, counts) for side in sides))


def _inline(side: Graph, operands: Sequence[Node]) -> Sequence[Node]:
    return substitute_nodes(side.outputs, dict(zip(side.params, operands, strict=True)))


def _branch(
    node: Node, condition: Node, operands: Sequence[Node], true: Graph, false: Graph
) -> Sequence[Node]:
    """The results of another branch in the place of ``node``."""
    made = make_node(cond_op, (condition, *operands), {"true": true, "false": false}, node.locs)
    results = range(len(true.outputs))
    return [make_node(item, (made,), {"index": i}, node.locs) for i in results]


def _are_equal(true: Graph, false: Graph) -> bool:
    """Whether two sides of as many nodes give the same of the same operands."""
    if len(true.nodes) != len(false.nodes):
        return False
    renamed = substitute_nodes(false.outputs, dict(zip(false.params, true.params, strict=True)))
    both = close(true.params, (*true.outputs, *renamed), (*true.equalities, *false.equalities))
    return both.outputs[: len(true.outputs)] == both.outputs[len(true.outputs) :]


def _knowing(side: Graph, condition: Node, operands: Sequence[Node], value: bool) -> Graph:
    """A side whose params that get the condition are its value."""
    values = {
        p: constant_node(value, bool_)
        for p, operand in zip(side.params, operands, strict=True)
        if operand is condition and (side.users[p] or p in side.outputs)
    }
    if not values:
        return side
    return close(side.params, substitute_nodes(side.outputs, values), side.equalities)
