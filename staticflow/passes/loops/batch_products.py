"""Products leave a loop where all iterations together can do them at once.

A row times a matrix that no iteration changes is one product of all rows before the loop. A carry
that only sums products is one product after it, of the factors stacked; so is a y that is nothing
but a product with such a matrix. Many small products become a large one, which runs at full speed,
and the sum is not read and written at every iteration. What is left in the loop takes its matrices
as they are multiplied: one that would be transposed at every iteration is transposed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size
from staticflow.graph.graph import Graph, new_param, rebuild, substitute_nodes
from staticflow.graph.locs import using
from staticflow.graph.node import Node, constant, item, make_node
from staticflow.ops.basics.arithmetic import add
from staticflow.ops.basics.axes import permute_op
from staticflow.ops.basics.reduce import sum_op
from staticflow.ops.basics.view import reshape, reshape_op
from staticflow.ops.loops.loop import Loop, loop_ops, scan_op
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.rewrite import Counts, with_args

__all__ = ["batch_products"]

_LARGE = 128
"""Rows from which a product of one iteration is as fast as it gets."""


def batch_products(graph: Graph, counts: Counts) -> Graph:
    """Take products out of the scans of ``graph``."""
    graph = _each_scan(graph, _rows_first, counts, _may_lift)
    graph = _each_scan(graph, _products_last, counts, _may_lift)
    return _each_scan(graph, _transpose_first, counts, _is_innermost)


Batched = tuple[Node, Sequence[Node]]
"""A loop that stands for another, and what stands for each of that one's results."""


def _each_scan(
    graph: Graph,
    one: Callable[[Node, Counts], Batched | None],
    counts: Counts,
    may: Callable[[Loop], bool],
) -> Graph:
    results: dict[Node, Sequence[Node]] = {}

    def visit(node: Node, args: tuple[Node, ...]) -> Node:
        if node.op is item and args[0] in results:
            index: int = node.attrs["index"]
            return results[args[0]][index]
        node = with_args(node, args)
        if node.op is scan_op and may(Loop.of(node)):
            with using(node.locs):
                batched = one(node, counts)
            if batched is not None:
                node, results[batched[0]] = batched
        return node

    return rebuild(graph, visit)


def _may_lift(loop: Loop) -> bool:
    """Whether work of a loop may be done for all its iterations at once: its rows are of one
    size."""
    return not loop.body.bound_sizes and _is_innermost(loop)


def _is_innermost(loop: Loop) -> bool:
    """Whether a loop has no loop in it: one that has does work enough in an iteration, and may be
    one so that less memory is taken."""
    return not any(n.op in loop_ops() for n in loop.body.nodes)


@dataclass(frozen=True, slots=True)
class _Outside:
    """What is known of the values of a body outside of its loop."""

    node: Node
    loop: Loop

    def rows(self, n: Node) -> Any:
        """The values that ``n`` has in all iterations, as one symbol; None if only the loop knows,
        or if there are more of them, since the loop that this one is the way back of ended
        early."""
        loop = self.loop
        view = _VIEWS.get(n.op)
        if view is not None:
            below = self.rows(n.args[0])
            return None if below is None else view(below, n, loop.iterations)
        _, xs, _ = loop.operands(loop.body.params)
        _, given, _ = loop.operands(self.node.args)
        x = given[xs.index(n)] if n in xs else None
        return None if x is None or x.tensor_type.shape[0] != loop.iterations else Symbol(x)

    def fixed_value(self, n: Node) -> Any:
        """The value that ``n`` has in every iteration, as a symbol; None if iterations differ."""
        if n.op is constant:
            return Symbol(n)
        if n.op in _VIEWS:
            below = self.fixed_value(n.args[0])
            return None if below is None else n.op(below, **n.attrs)
        _, _, captured = self.loop.operands(self.loop.body.params)
        _, _, given = self.loop.operands(self.node.args)
        return Symbol(given[captured.index(n)]) if n in captured else None

    def product(self, n: Node, left: Any) -> Any:
        """``left @ w`` for the rows ``left`` of all iterations, where ``n`` is a product with a
        matrix ``w`` that is the same in every iteration; None if it is not, or too large to gain by
        it."""
        if not _is_matrix_product(n) or _is_large(n.tensor_type.shape[0]):
            return None
        right = self.fixed_value(n.args[1])
        if right is None or left is None:
            return None
        rows, (inner, columns) = n.tensor_type.shape[0], right.shape
        flat = reshape(left, (self.loop.iterations * rows, inner))
        return reshape(matmul_op(flat, right), (self.loop.iterations, rows, columns))


_VIEWS: Mapping[Any, Callable[[Any, Node, Size], Any]] = {
    reshape_op: lambda rows, n, iterations: reshape(rows, (iterations, *n.attrs["shape"])),
    permute_op: lambda rows, n, iterations: permute_op(
        rows, dims=(0, *(d + 1 for d in n.attrs["dims"]))
    ),
}
"""Views that may be taken of all iterations at once."""


def _is_matrix_product(n: Node) -> bool:
    return n.op is matmul_op and all(a.tensor_type.ndim == 2 for a in n.args)


def _is_transpose(n: Node) -> bool:
    return n.op is permute_op and bool(n.attrs["dims"] == (1, 0))


def _is_large(size: Size) -> bool:
    return isinstance(size, int) and size >= _LARGE


# -- before the loop -------------------------------------------------------------------------------


def _rows_first(node: Node, counts: Counts) -> Batched | None:
    """Products of rows become rows themselves."""
    loop = Loop.of(node)
    outside = _Outside(node, loop)
    found: dict[Node, Any] = {}
    for n in loop.body.nodes:
        if _is_matrix_product(n):
            all_iterations = outside.product(n, outside.rows(n.args[0]))
            if all_iterations is not None:
                found[n] = all_iterations.node
    if not found:
        return None
    counts.note("product of all rows", *found)
    return _with_rows(node, loop, found, {})


def _transpose_first(node: Node, counts: Counts) -> Batched | None:
    """Matrices that are the same in every iteration and multiplied from the right are transposed
    before the loop."""
    loop = Loop.of(node)
    outside = _Outside(node, loop)
    found: dict[Node, Node] = {}
    for n in loop.body.nodes:
        if _is_matrix_product(n) and n.args[1].op is permute_op:
            turned = outside.fixed_value(n.args[1])
            if turned is not None:
                found[n.args[1]] = turned.node
    if not found:
        return None
    counts.note("matrix transposed before the loop", *found)
    return _with_rows(node, loop, {}, found)


def _with_rows(
    node: Node, loop: Loop, rows: Mapping[Node, Node], fixed: Mapping[Node, Node]
) -> Batched:
    """The loop that is given some values of its body: ``rows`` from arrays that have one for each
    iteration, ``fixed`` as they are."""
    inner = {n: new_param(n.tensor_type, "given", locs=n.locs) for n in (*rows, *fixed)}
    outputs = substitute_nodes(loop.body.outputs, inner)
    carries, xs, captured = loop.pairs(node.args)
    all_rows = [*xs, *((inner[n], rows[n]) for n in rows)]
    all_fixed = [*captured, *((inner[n], fixed[n]) for n in fixed)]
    new = loop.remade(outputs, carries, all_rows, all_fixed, node.locs)
    return new, _items(new)


def _items(node: Node) -> list[Node]:
    assert isinstance(node.type, tuple)
    return [make_node(item, (node,), {"index": i}, node.locs) for i in range(len(node.type))]


# -- after the loop --------------------------------------------------------------------------------


def _products_last(node: Node, counts: Counts) -> Batched | None:
    """Sums of products, and products that are only given out, are done when all factors are
    there."""
    loop = Loop.of(node)
    body = loop.body
    single = {o for o in body.outputs if not body.users[o] and body.outputs.count(o) == 1}
    work = _Later(_Outside(node, loop))
    late: dict[int, Callable[[], Any]] = {}
    for i, o in enumerate(body.outputs):
        if o in single:
            job = work.sum_products(i, o) if i < loop.carries else work.multiply_rows(o)
            if job is not None:
                late[i] = job
    if not late:
        return None
    for i, o in enumerate(body.outputs[: loop.carries]):
        if i not in late and o in single and (job := work.sum_rows(i, o)) is not None:
            late[i] = job
    counts["product after the loop"] += len(late)
    return work.finish(late)


class _Later:
    """The work of one loop that is put off until after it, and the stacks that it needs."""

    def __init__(self, outside: _Outside) -> None:
        self.outside = outside
        self.loop = outside.loop
        self.stacked: list[Node] = []  # of the body
        self.stacks: dict[Node, Node] = {}  # of these, once the loop is made

    def _addend(self, i: int, o: Node) -> Node | None:
        """The value that output ``o`` of the body adds to carry ``i`` at every iteration; None if
        the carry is read elsewhere, or is computed otherwise."""
        carry = self.loop.body.params[i]
        if o.op is not add or self.loop.body.users[carry] != (o,):
            return None
        if carry in self.loop.body.outputs or o.args[0] is o.args[1]:
            return None
        (other,) = (a for a in o.args if a is not carry)
        return other if other.type == carry.type else None

    def _stack(self, n: Node) -> Callable[[], Any]:
        """What ``n`` was in all iterations."""
        rows = self.outside.rows(n)
        if rows is not None:
            return lambda: rows
        if n not in self.stacked:
            self.stacked.append(n)
        return lambda: Symbol(self.stacks[n])

    def sum_products(self, i: int, o: Node) -> Callable[[], Any] | None:
        """The last value of a carry to which every iteration adds a product: over the iterations
        and the inner dim at once."""
        addend = self._addend(i, o)
        if addend is None:
            return None
        turned = _is_transpose(addend)
        product = addend.args[0] if turned else addend
        if not _is_matrix_product(product):
            return None
        left, right = product.args
        rows, inner = left.tensor_type.shape
        if _is_large(inner) or any(self.outside.fixed_value(a) is not None for a in product.args):
            return None
        columns = right.tensor_type.shape[1]
        flipped = _is_transpose(left)
        first, second = self._stack(left.args[0] if flipped else left), self._stack(right)
        start = Symbol(self.outside.node.args[i])

        def total() -> Any:
            a = first() if flipped else permute_op(first(), dims=(0, 2, 1))
            tall = reshape(a, (self.loop.iterations * inner, rows))
            b = reshape(second(), (self.loop.iterations * inner, columns))
            sum_of_all = matmul_op(permute_op(tall, dims=(1, 0)), b)
            return add(start, permute_op(sum_of_all, dims=(1, 0)) if turned else sum_of_all)

        return total

    def sum_rows(self, i: int, o: Node) -> Callable[[], Any] | None:
        """The last value of a carry to which every iteration adds a sum over what is stacked
        anyway."""
        part = self._addend(i, o)
        if part is None or part.op is not sum_op or part.args[0] not in self.stacked:
            return None
        stack, shape = self._stack(part.args[0]), part.tensor_type.shape
        dims = (0, *(d + 1 for d in part.attrs["dims"]))
        start = Symbol(self.outside.node.args[i])
        return lambda: add(start, reshape(sum_op(stack(), dims=dims, keepdim=False), shape))

    def multiply_rows(self, o: Node) -> Callable[[], Any] | None:
        """A y that is a product with a matrix that stays the same."""
        if not _is_matrix_product(o) or self.outside.fixed_value(o.args[1]) is None:
            return None
        if _is_large(o.tensor_type.shape[0]):
            return None
        left = self._stack(o.args[0])
        return lambda: self.outside.product(o, left())

    def finish(self, late: Mapping[int, Callable[[], Any]]) -> Batched:
        """The loop without that work, and its results with it done."""
        node, loop = self.outside.node, self.loop
        keep = [i for i in range(len(loop.body.outputs)) if i not in late]
        outputs = [*(loop.body.outputs[i] for i in keep), *self.stacked]
        carries, xs, captured = loop.pairs(node.args)
        left = [pair for i, pair in enumerate(carries) if i not in late]
        new = loop.remade(outputs, left, xs, captured, node.locs)
        parts = _items(new)
        self.stacks = dict(zip(self.stacked, parts[len(keep) :], strict=True))
        found = dict(zip(keep, parts, strict=False))
        found |= {i: job().node for i, job in late.items()}
        return new, [found[i] for i in range(len(loop.body.outputs))]
