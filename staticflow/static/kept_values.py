"""Which values of a call are kept for its gradient, so that this need not compute them again.

The gradient of a graph asks for values of the graph. What a product, a sum, a loop or a draw gave
is kept; what follows from such values element by element, or by moving elements, is worked out
again where it is read, in the kernels of the gradient, which takes less time than to write and read
it (Chen et al. 2016, arXiv:1604.06174, section 3: what is cheap is dropped). Nor is kept what a
program computes for a block of rows at a time: scores of many words are never in memory at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Size, Sym, prod
from staticflow.graph.node import Node, constant, item, param, toposort
from staticflow.graph.types import Shape, TensorType, types_of
from staticflow.ops.declaring.lowering import Contract, Elementwise, Generate, View
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.flow import operands

__all__ = ["number_of", "values_to_keep"]

_LEAST = 10_000
"""Elements read, or products of two a sixteenth of that each, that are as soon worked out again as
a dozen values are kept: both take some 10 microseconds."""


def values_to_keep(
    wanted: Sequence[Node],
    seeds: Collection[Node],
    sizes: Mapping[Sym, int],
    in_blocks: Callable[[Collection[Node]], set[Node]],
) -> list[Node]:
    """The nodes that the gradients ``wanted`` read of what does not depend on the ``seeds``, their
    cotangents, and that are worth keeping, in the order in which they are computed.

    There are none where it takes little to compute them at the ``sizes`` of a call, and where the
    size of one shows only as the graph runs. ``in_blocks`` says which of some nodes are computed
    for a block of rows at a time if nobody keeps them.
    """
    order = toposort(wanted)
    late = set(seeds)
    _spread(late, order)
    read = [a for node in order if node in late for a in _read(node) if a not in late]
    kept = _worth_keeping(read, ())
    if dropped := in_blocks(kept):
        _spread(dropped, order)
        kept = _worth_keeping(read, dropped)
    if any(s.late for n in kept for d in n.tensor_type.shape for s in symbols_of(d)):
        return []
    if sum(_work(node, sizes) for node in toposort(kept)) < _LEAST:
        return []
    return [node for node in order if node in kept]


def _spread(nodes: set[Node], order: Sequence[Node]) -> None:
    """Add to ``nodes`` what depends on one of them."""
    for node in order:
        if not nodes.isdisjoint(operands(node)):
            nodes.add(node)


def _work(node: Node, sizes: Mapping[Sym, int]) -> float:
    """Elements that a node reads, and a sixteenth of the products that it adds up; much where it is
    a loop or the like."""
    op, lowering = node.op, node.op.lowering
    if not node.args or op is item or isinstance(lowering, Generate | View):
        return 0
    if lowering is None and op.decompose is None:
        return _LEAST
    shapes = [a.tensor_type.shape for a in operands(node)]
    if isinstance(lowering, Contract) or (lowering is None and _takes_matrices(shapes)):
        inner = shapes[0][-1] if op is matmul_op else prod(shapes[1][1:])
        return number_of(prod(types_of(node.type)[0].shape) * inner, sizes) / 16
    return sum(number_of(prod(shape), sizes) for shape in shapes)


def _takes_matrices(shapes: Sequence[Shape]) -> bool:
    """Whether an op that is written in others is likely to be a product, as a layer of weights."""
    return len(shapes) > 1 and len(shapes[1]) > 1


def number_of(size: Size, sizes: Mapping[Sym, int]) -> int:
    """The number that a size has at the ``sizes`` of a call."""
    return evaluate_dim(size, {s: sizes.get(s, 1) for s in symbols_of(size)})


def _read(node: Node) -> tuple[Node, ...]:
    """The arguments whose elements a node reads."""
    return node.args[:1] if node.op.shapeless else operands(node)


def _worth_keeping(read: Iterable[Node], dropped: Collection[Node]) -> set[Node]:
    """The values that are not cheaper to compute again, of what ``read`` needs; of those that are
    ``dropped`` what they are computed of."""
    kept: set[Node] = set()
    seen: set[Node] = set()
    stack = list(read)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is param or node.op is constant or not node.args:
            continue
        if node in dropped or isinstance(node.op.lowering, Elementwise | Generate | View):
            stack += _read(node)
        elif node.op is item or isinstance(node.type, TensorType):
            kept.add(node)
        else:
            return set()  # several results at once, which no argument of a program is
    return kept
