"""Two loops over the rows of one tensor, or that multiply vectors with one matrix, neither of which
needs the other, are one loop.

It reads each row, or the matrix, once and goes round once for both, and what they compute of a row
may be one kernel. Two solutions by conjugate gradients of one system of 500 equations take half
the time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.locs import merge_locs
from staticflow.graph.node import Node, item, make_node, toposort
from staticflow.ops.loops.loop import Loop, scan_op
from staticflow.passes.loops.scalar import MOST_STATE
from staticflow.passes.rewrite import Counts
from staticflow.passes.stack_vectors import matrix_of_vector

__all__ = ["pair_scans"]

_MOST_NODES = 200
"""Operations in the bodies of both."""


def pair_scans(graph: Graph, counts: Counts) -> Graph:
    """Join loops of equal length and direction that read the same rows or multiply vectors with the
    same matrix, where neither needs the other."""
    while (pair := next(_pairs(graph), None)) is not None:
        counts.note("loops that read the same", pair[0])
        outputs = substitute_nodes(graph.outputs, _join(graph, *pair))
        graph = close(graph.params, outputs, graph.equalities, graph.declared)
    return graph


def _pairs(graph: Graph) -> Iterator[tuple[Node, Node]]:
    """Loops that may be one."""
    readers: dict[object, list[Node]] = {}
    for node in graph.nodes:
        if node.op is scan_op:
            loop = Loop.of(node)
            rows = [(x, None) for x in loop.operands(node.args)[1] if x.tensor_type.size != 0]
            for read in dict.fromkeys((*rows, *_matrices_of(loop, node.args))):
                readers.setdefault((read, loop.length, loop.reverse), []).append(node)
    for group in readers.values():
        for a, b in itertools.pairwise(group):
            apart = a not in toposort(b.args) and b not in toposort(a.args)
            if apart and _fit(Loop.of(a), Loop.of(b)):
                yield a, b


def _matrices_of(loop: Loop, args: Sequence[Node]) -> Iterator[tuple[Node, int]]:
    """The large matrices that a loop multiplies vectors with and does not change, each with which
    operand it is."""
    given = dict(loop.pairs(args)[2])
    for node in loop.body.nodes:
        which = matrix_of_vector(node)
        if which is not None and node.args[which] in given:
            yield given[node.args[which]], which


def _fit(a: Loop, b: Loop) -> bool:
    """Whether one loop for both is no worse: loops over numbers stay in registers, so they are not
    joined with others, nor with too many of their kind."""
    small = _is_of_numbers(a)
    if small is not _is_of_numbers(b) or (small and a.carries + b.carries > MOST_STATE):
        return False
    return len(a.body.nodes) + len(b.body.nodes) <= _MOST_NODES


def _is_of_numbers(loop: Loop) -> bool:
    carries, xs, _ = loop.operands(loop.body.params)
    values = (*carries, *xs, *loop.body.outputs)
    return not any(n.tensor_type.shape for n in values if n.tensor_type.size != 0)


def _join(graph: Graph, one: Node, other: Node) -> dict[Node, Node]:
    """The results of two loops, each with what it is of the loop for both."""
    a, b = Loop.of(one), Loop.of(other)
    carries, xs, captured = (list(pairs) for pairs in a.pairs(one.args))
    values = {  # two loops may have a param in common, of which each has its own values
        p: new_param(p.tensor_type, p.attrs["name"], locs=p.locs) for p in b.body.params
    }
    more_carries, *more = b.pairs(other.args)
    carries += [(values[p], operand) for p, operand in more_carries]
    for own, pairs in zip((xs, captured), more, strict=True):
        known = {operand: p for p, operand in own}
        for p, operand in pairs:
            if operand in known:
                values[p] = known[operand]
            else:
                own.append((values[p], operand))
    outputs = substitute_nodes(b.body.outputs, values)
    (ends_a, ys_a), (ends_b, ys_b) = a.results(a.body.outputs), b.results(outputs)
    everything = [*carries, *xs, *captured]
    body = close(
        [p for p, _ in everything],
        [*ends_a, *ends_b, *ys_a, *ys_b],
        [*a.body.equalities, *b.body.equalities],
    )
    both = replace(a, body=body, carries=len(carries), xs=len(xs))
    locs = merge_locs(one.locs, other.locs)
    made = make_node(scan_op, tuple(x for _, x in everything), both.attrs, locs)
    places = {
        one: [*range(len(ends_a)), *range(len(carries), len(carries) + len(ys_a))],
        other: [
            *range(len(ends_a), len(carries)),
            *range(len(carries) + len(ys_a), len(body.outputs)),
        ],
    }
    return {
        n: make_node(item, (made,), {"index": places[n.args[0]][n.attrs["index"]]}, n.locs)
        for loop in (one, other)
        for n in graph.users[loop]
    }
