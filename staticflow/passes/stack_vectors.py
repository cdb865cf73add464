"""Products of one matrix and several vectors are one product, of the vectors stacked.

Such a product takes as long as its matrix takes to be read, and so it takes for one vector as for
several: of 500 x 500 float64 two products took 44 microseconds and take 22, of 128 x 128 3.6 and
2.8. Smaller matrices save less than the stack costs.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from staticflow.graph.dims import Size
from staticflow.graph.graph import Graph, close
from staticflow.graph.locs import merge_locs, using
from staticflow.graph.node import Node
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.joining import cat_op
from staticflow.ops.basics.splitting import part_of
from staticflow.ops.basics.view import reshape
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["matrix_of_vector", "stack_vectors"]

_LEAST = 1 << 13
"""Elements of a matrix of known size from which on vectors are stacked for it."""

_MOST = 8
"""Vectors in a stack."""


def stack_vectors(graph: Graph, counts: Counts) -> Graph:
    """``A x, A y = A [x y]`` and ``x A, y A = [x; y] A``, where neither vector is made of the other
    one's product."""
    while stacks := _stacks(levels := _levels(graph)):  # one may leave room for another
        counts.note("products of one matrix", *stacks)
        graph = _with_stacks(graph, levels, stacks)
    return graph


def matrix_of_vector(node: Node) -> int | None:
    """Which operand of a product is a matrix that a vector, the other one, is multiplied with, if
    it is large; None of all other nodes."""
    if node.op is not matmul_op:
        return None
    x, y = (a.tensor_type for a in node.args)
    if x.ndim != 2 or y.ndim != 2 or 1 in (x.shape[1], y.shape[0]):
        return None
    if (x.shape[0] == 1) is (y.shape[1] == 1):
        return None
    which = 1 if x.shape[0] == 1 else 0
    size: Size = (x, y)[which].size
    return None if isinstance(size, int) and size < _LEAST else which


def _levels(graph: Graph) -> dict[Node, int]:
    """How many products with vectors each node is made of, one upon the other, itself included: no
    two with as many need each other."""
    levels: dict[Node, int] = {}
    for node in graph.nodes:
        below = max((levels[a] for a in node.args), default=0)
        levels[node] = below + (matrix_of_vector(node) is not None)
    return levels


def _stacks(levels: Mapping[Node, int]) -> dict[Node, Sequence[Node]]:
    """Products, each with those that are made at once with it."""
    found: dict[tuple[Node, int, int], list[Node]] = {}
    for node, level in levels.items():
        which = matrix_of_vector(node)
        if which is not None:
            found.setdefault((node.args[which], which, level), []).append(node)
    parts = (
        products[first : first + _MOST]
        for products in found.values()
        for first in range(0, len(products) - 1, _MOST)
    )
    return {node: stack for stack in parts for node in stack}


def _with_stacks(
    graph: Graph, levels: Mapping[Node, int], stacks: Mapping[Node, Sequence[Node]]
) -> Graph:
    """The graph with each stack in the place of its products."""
    new: dict[Node, Node] = {p: p for p in graph.params}
    for node in sorted(levels, key=levels.__getitem__):  # all vectors of a stack before it
        if node in stacks:
            new |= {} if node in new else _stack(stacks[node], new)
        elif node not in new:
            new[node] = with_args(node, tuple(new[a] for a in node.args))
    return close(graph.params, [new[o] for o in graph.outputs], graph.equalities, graph.declared)


def _stack(products: Sequence[Node], new: Mapping[Node, Node]) -> dict[Node, Node]:
    """Each of the ``products`` as a part of one."""
    which = matrix_of_vector(products[0])
    assert which is not None, "they are products with vectors"
    matrix = Symbol(new[products[0].args[which]])
    vectors = [Symbol(new[p.args[1 - which]]) for p in products]
    with using(functools.reduce(merge_locs, (p.locs for p in products))):
        rows = cat_op(*(reshape(v, (1, v.shape[which])) for v in vectors), dim=0)
        stacked = matmul_op(rows, matrix if which else mT(matrix))
        parts = (part_of(stacked, 0, i, 1) for i in range(len(products)))
        return {
            p: reshape(part, p.tensor_type.shape).node
            for p, part in zip(products, parts, strict=True)
        }
