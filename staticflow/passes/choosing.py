"""Elements that an index names, read in the kernel that needs them.

The score of a row's class is one element of the row, and its weight one of a vector. Such a node is
worked out where it is read, like an elementwise one, and what it chooses from stands in memory. Its
loop does not fill vectors: it is worth a kernel of its own where costly functions stand beside it,
and where lanes would go down columns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.locs import using
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.along.class_losses import class_op
from staticflow.ops.basics.arithmetic import (
    add,
    cast,
    eq,
    ge,
    gt,
    le,
    logical_and,
    logical_not,
    logical_or,
    lt,
    maximum,
    minimum,
    mul,
    ne,
    neg,
    sub,
    where,
)
from staticflow.ops.basics.slicing import select_op
from staticflow.ops.basics.view import reshape_op, squeeze_op, unsqueeze_op
from staticflow.ops.declaring.lowering import Elementwise, Index, IndexCheck, LoopNest, Place
from staticflow.ops.indexing.gather_ops import gather_op, load_index
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.access import chooses_element
from staticflow.passes.cluster import cluster
from staticflow.passes.rewrite import with_args

__all__ = ["FUSED", "choose_of_rows", "keeps_from_vectors", "row_element"]

_CHEAP = frozenset((
    add, cast, class_op, eq, ge, gt, le, logical_and, logical_not,
    logical_or, lt, maximum, minimum, mul, ne, neg, sub, where,
))  # fmt: skip
"""What takes about as long as to read the element, one by one."""


def _infer(facts: Facts, x: TensorType, index: TensorType, *, dim: int, of: str) -> TensorType:
    return TensorType(x.dtype, index.shape)


def _reference(xp: Any, x: Any, index: Any, *, dim: int, of: str) -> Any:
    at = xp.expand_dims(index, dim)
    return xp.squeeze(gather_op.reference(xp, x, at, dim=dim), dim)


def _checks(x: TensorType, index: TensorType, *, dim: int, of: str) -> list[IndexCheck]:
    return [IndexCheck(1, x.shape[dim])]


def _emit(nest: Any) -> None:
    with nest.loops(nest.in_shape(1), "parallel") as at:
        dim = nest.attrs["dim"]
        position = load_index(nest, 1, at, nest.in_shape(0)[dim])
        nest.store(0, at, nest.load(0, (*at[:dim], position, *at[dim:])))


def _source(
    index: Index, x: Shape, index_shape: Shape, *, dim: int, of: str
) -> tuple[tuple[Index], Place]:
    return (index,), lambda at: (*index[:dim], *at, *index[dim:])


row_element = Op(
    name="row_element",
    doc="One element of ``x`` along ``dim`` for each row, in the shape of the rows: a `gather` "
    "without that dim. ``of`` says who asks, for the message of an error.",
    infer=_infer,
    reference=_reference,
    vjp=None,
    lowering=LoopNest(_emit, checks=_checks, source=_source),
)


FUSED = {op.name: op for op in (cluster, row_element)}
"""The ops that fusion makes, by name."""


def choose_of_rows(graph: Graph) -> Graph:
    """The graph in which what a `gather` takes, one element of each row, has the shape of the rows
    where it is read so: it is worked out in loops over these."""
    wanted = {n: source for n in graph.nodes if (source := _gather_behind(n)) is not None}
    if not wanted:
        return graph
    new: dict[Node, Node] = {}

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        new[node] = made = with_args(node, args)
        if node in wanted:
            x, index = wanted[node].args
            dim, shape = wanted[node].attrs["dim"], node.tensor_type.shape
            with using(wanted[node].locs):
                if index.op in _RESHAPING and index.args[0].tensor_type.shape == shape:
                    rows = Symbol(new[index.args[0]])
                else:
                    rows = reshape_op(Symbol(new[index]), shape=shape)
                new[node] = made = row_element(
                    Symbol(new[x]), rows, dim=dim, of=gather_op.name
                ).node
        return made

    for p in graph.params:
        new[p] = p
    return rebuild(graph, visit)


def _gather_behind(node: Node) -> Node | None:
    """The `gather` of one element of each row, all of which a node shows without that dim."""
    if node.op not in (*_RESHAPING, select_op) or node.args[0].op is not gather_op:
        return None
    gathered = node.args[0]
    shape, dim = gathered.tensor_type.shape, gathered.attrs["dim"]
    if shape[dim] != 1 or node.tensor_type.shape != (*shape[:dim], *shape[dim + 1 :]):
        return None
    return gathered if node.op is not select_op or node.attrs["dim"] == dim else None


_RESHAPING = (reshape_op, squeeze_op, unsqueeze_op)
"""Views that show all elements in their order."""


def keeps_from_vectors(domain: Shape, dims: tuple[int, ...], members: Iterable[Node]) -> bool:
    """Whether a kernel over ``domain``, of which it reduces ``dims``, is slow because it chooses
    elements: one with a choice for each row does all else that it does for rows one by one, and
    one for each element what it does for elements."""
    members = [*members]
    chosen = [n for n in members if chooses_element(n)]
    sized = [axis for axis, d in enumerate(domain) if d != 1]
    if not chosen or not sized:
        return False
    if any(dims and n.tensor_type.shape != domain for n in chosen) and sized[-1] not in dims:
        return True
    return any(n.tensor_type.shape == domain for n in chosen) and any(
        isinstance(n.op.lowering, Elementwise) and n.op not in _CHEAP
        for n in members
        if n.tensor_type.shape == domain
    )
