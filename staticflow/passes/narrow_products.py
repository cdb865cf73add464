"""A product of which only a part or a sum is read is computed for no more than that.

``(x @ w)[:, -1]`` is ``x[:, -1] @ w``, ``(x @ w).sum(0)`` is ``x.sum(0) @ w``, and a trace needs
the diagonal alone (`staticflow.passes.product_sums`). A part is looked for through what is done to
each element, such as a bias and an activation, so that a network of which the last position is read
computes its last layer there alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from staticflow.graph.dims import Size
from staticflow.graph.graph import Graph, rebuild
from staticflow.graph.locs import merge_locs, using
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.basics.reduce import sum_op
from staticflow.ops.basics.slicing import select_op, slice_op
from staticflow.ops.basics.view import reshape, reshape_op
from staticflow.ops.declaring.lowering import Elementwise
from staticflow.ops.matrices.contract import matmul, matmul_op
from staticflow.ops.matrices.triangle import diagonal_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.product_sums import ProductSums, rows_of_product
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["narrow_products"]

_DEEP = 12
"""Operations on each element behind a product that are looked through."""

_MOST = 60
"""Operations in a row of which only a part is computed."""

Part: TypeAlias = tuple[tuple[Size, Size, int], ...]
"""Of each dim the start, the size and the step."""


def narrow_products(graph: Graph, counts: Counts) -> Graph:
    """``(x w)[i] = x[i] w``, ``sum (x w) = (sum x) w`` and ``trace(x w) = sum (x * w.T)``, where
    nothing else is read of the product."""
    if not any(n.op is matmul_op for n in graph.nodes):
        return graph
    work = _Narrowing(graph)

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        work.new[node] = with_args(node, args)
        rewrite = _REWRITES.get(node.op)
        if rewrite is not None and work.reaches_product(_product_of(node)):
            with using(merge_locs(node.locs, node.args[0].locs)):
                found = rewrite(work, node)
            if found is not None:
                counts.note(f"{node.op.name} of a product", node)
                work.new[node] = found.node
        return work.new[node]

    return rebuild(graph, visit)


def _product_of(node: Node) -> Node:
    """Where a product may be of which ``node`` reads a part: a trace is a sum of a diagonal."""
    source = node.args[0]
    return source.args[0] if node.op is sum_op and source.op is diagonal_op else source


class _Narrowing:
    """What stands for the nodes of a graph, and which of them are read once."""

    def __init__(self, graph: Graph) -> None:
        self.new: dict[Node, Node] = {p: p for p in graph.params}
        kept = set(graph.outputs)
        self.once = {
            n for n in graph.nodes
            if n not in kept and len(us := graph.users[n]) == 1 and us[0].args.count(n) == 1
        }  # fmt: skip

    def reaches_product(self, node: Node, depth: int = _DEEP) -> bool:
        """Whether a node is a product, or computed from one element by element, for one reader."""
        if node not in self.once or depth == 0:
            return False
        if node.op is matmul_op or self._rows_of_product(node) is not None:
            return True
        return type(node.op.lowering) is Elementwise and any(
            a.type == node.type and self.reaches_product(a, depth - 1) for a in node.args
        )

    def _rows_of_product(self, node: Node) -> Node | None:
        product = rows_of_product(node)
        return product if product in self.once else None

    def take(self, node: Node, part: Part, depth: int = _MOST) -> Any:
        """A part of a node, of no more than is needed for it, ``depth`` operations up."""
        if depth == 0 or not self.reaches_product(node):
            return _slice(Symbol(self.new[node]), part)
        if node.op is matmul_op:
            inner, shape = node.args[0].tensor_type.shape[-1], node.tensor_type.shape
            sides = (
                ((*part[:-1], _whole(inner)), (*shape[:-1], inner)),
                ((*part[:-2], _whole(inner), part[-1]), (*shape[:-2], inner, shape[-1])),
            )
            return matmul(
                *(self.take(a, _own(p, a.tensor_type.shape, whole), depth - 1)
                  for a, (p, whole) in zip(node.args, sides, strict=True))
            )  # fmt: skip
        product = self._rows_of_product(node)
        if product is not None:
            x, w = product.args
            inner = x.tensor_type.shape[1]
            columns = _slice(Symbol(self.new[w]), (_whole(inner), part[-1]))
            return matmul(self._take_rows(x, node, (*part[:-1], _whole(inner)), depth - 1), columns)
        shapes = (a.tensor_type.shape for a in node.args)
        parts = [_own(part, shape, node.tensor_type.shape) for shape in shapes]
        args = [self.take(a, p, depth - 1) for a, p in zip(node.args, parts, strict=True)]
        return node.op(*args, **node.attrs)

    def _take_rows(self, x: Node, like: Node, part: Part, depth: int) -> Any:
        """A part of a matrix whose rows are in the leading dims that ``like`` has."""
        shape = (*like.tensor_type.shape[:-1], x.tensor_type.shape[1])
        if x in self.once and x.op is reshape_op and x.args[0].tensor_type.shape == shape:
            return self.take(x.args[0], part, depth)
        return _slice(reshape(Symbol(self.new[x]), shape), part)


def _whole(size: Size) -> tuple[Size, Size, int]:
    return (0, size, 1)


def _own(part: Part, shape: Shape, whole: Shape) -> Part:
    """The part of an operand of ``shape`` that is read for a part of what it is stretched to, of
    the shape ``whole``."""
    behind = len(part) - len(shape)
    return tuple(
        _whole(1) if n == 1 and of != 1 else p
        for n, of, p in zip(shape, whole[behind:], part[behind:], strict=True)
    )


def _slice(x: Any, part: Part) -> Any:
    if all(p == _whole(n) for p, n in zip(part, x.__sf_shape__, strict=True)):
        return x
    start, size, step = zip(*part, strict=True)
    return slice_op(x, start=start, size=size, step=step)


def _of_slice(work: _Narrowing, node: Node) -> Any:
    a = node.attrs
    return work.take(node.args[0], tuple(zip(a["start"], a["size"], a["step"], strict=True)))


def _of_select(work: _Narrowing, node: Node) -> Any:
    dim, index = node.attrs["dim"], node.attrs["index"]
    shape = node.args[0].tensor_type.shape
    part = tuple((index, 1, 1) if d == dim else _whole(n) for d, n in enumerate(shape))
    return reshape(work.take(node.args[0], part), node.tensor_type.shape)


def _of_sum(work: _Narrowing, node: Node) -> Any:
    return ProductSums(work.new, work.once).sum(node)


def _of_diagonal(work: _Narrowing, node: Node) -> Any:
    return ProductSums(work.new, work.once).diagonal(node)


_REWRITES: dict[Any, Callable[[_Narrowing, Node], Any]] = {
    slice_op: _of_slice, select_op: _of_select, sum_op: _of_sum,
    diagonal_op: _of_diagonal,
}  # fmt: skip
