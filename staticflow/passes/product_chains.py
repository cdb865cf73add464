"""Matrix products in a row, as the factors that are multiplied.

``((x w) * 2).T @ v`` is the chain of ``w.T``, ``x.T`` and ``v``, times 2: what transposes, scales
or changes the shape of a product is done to a factor, or to the result, instead. A factor is a node
and what is done to it; two chains that multiply equal factors do the same work.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, TypeAlias

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.graph.types import Shape
from staticflow.ops.basics.arithmetic import div, mul, neg
from staticflow.ops.basics.axes import permute_op
from staticflow.ops.basics.view import reshape, reshape_op
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.symbols.symbol import Symbol

__all__ = [
    "MOST_FACTORS",
    "THROUGH",
    "Chain",
    "Factor",
    "Key",
    "Tree",
    "batch_of",
    "chain_of",
    "turn",
    "turned_key",
]

MOST_FACTORS = 96
"""Longer chains are cut into several: the search takes time that grows with the third power."""

Tree: TypeAlias = int | tuple["Tree", "Tree"]
"""An order of the products of a chain: a factor by its position, or a product of two trees."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """The last two dims change places."""

    def shape(self, shape: Shape) -> Shape:
        return (*shape[:-2], shape[-1], shape[-2])

    def build(self, value: Any, new: dict[Node, Node]) -> Any:
        return turn(value)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a matrix are ordered by other leading dims."""

    lead: Shape

    def shape(self, shape: Shape) -> Shape:
        return (*self.lead, shape[-1])

    def build(self, value: Any, new: dict[Node, Node]) -> Any:
        return reshape(value, (*self.lead, value.shape[-1]))


@dataclass(frozen=True, slots=True)
class _Scale:
    """Each row or each column is multiplied by, or divided by, a number of its own."""

    op: Op
    by: Node

    def shape(self, shape: Shape) -> Shape:
        return shape

    def build(self, value: Any, new: dict[Node, Node]) -> Any:
        return self.op(value, Symbol(new[self.by]))


@dataclass(frozen=True, slots=True)
class Factor:
    """A matrix, or a batch of them: a node, and the ``steps`` done to it."""

    node: Node
    steps: tuple[Any, ...] = ()

    @property
    def shape(self) -> Shape:
        """The shape of what the steps make of it."""
        shape = self.node.tensor_type.shape
        for step in self.steps:
            shape = step.shape(shape)
        return shape

    def then(self, step: Any) -> Factor:
        """The factor with one more step; two turns are none."""
        if isinstance(step, _Turn) and self.steps and isinstance(self.steps[-1], _Turn):
            return Factor(self.node, self.steps[:-1])
        return Factor(self.node, (*self.steps, step))

    def build(self, new: dict[Node, Node]) -> Any:
        """The factor as a symbol, of the nodes that stand for those of the graph."""
        value: Any = Symbol(new[self.node])
        for step in self.steps:
            value = step.build(value, new)
        return value

    def nodes(self) -> list[Node]:
        """Every node that it reads."""
        return [self.node, *(s.by for s in self.steps if isinstance(s, _Scale))]


@dataclass(frozen=True, slots=True)
class Chain:
    """The ``factors`` of a product, the order ``written`` by the user, the ``scales`` (an op, and a
    number of no dims or None) that the result goes through, and the nodes it ``absorbed``. The rows
    of a ``merged`` result have other leading dims than the product, in the same order."""

    factors: tuple[Factor, ...]
    written: Tree
    scales: tuple[tuple[Op, Node | None], ...] = ()
    absorbed: tuple[Node, ...] = ()
    merged: bool = False

    def transpose(self) -> Chain | None:
        """The chain of the transposed result."""
        if self.merged:
            return None
        factors = tuple(f.then(_Turn()) for f in reversed(self.factors))
        return replace(self, factors=factors, written=_mirror(self.written, len(factors) - 1))

    @property
    def shape(self) -> Shape | None:
        """The shape of the product; None where it is not seen from the factors."""
        batch = batch_of([f.shape for f in self.factors])
        if batch is None:
            return None
        return (*batch, self.factors[0].shape[-2], self.factors[-1].shape[-1])

    def nodes(self) -> list[Node]:
        """Every node that it reads."""
        numbers = [by for _, by in self.scales if by is not None]
        return [*(n for f in self.factors for n in f.nodes()), *numbers]


Key: TypeAlias = tuple[Factor, ...]
"""Factors that are multiplied: products of equal keys are equal, however they are ordered."""


def turn(value: Any) -> Any:
    """``value`` with its last two dims exchanged."""
    last = value.ndim - 1
    return permute_op(value, dims=(*range(last - 1), last, last - 1))


def turned_key(key: Key) -> Key:
    """The factors of the transposed product."""
    return tuple(f.then(_Turn()) for f in reversed(key))


def _mirror(tree: Tree, last: int) -> Tree:
    return _map_tree(tree, lambda i: last - i, swap=True)


def _map_tree(tree: Tree, leaf: Any, swap: bool = False) -> Tree:
    done: list[Tree] = []
    stack: list[Any] = [tree]
    while stack:
        at = stack.pop()
        if at is None:
            b, a = done.pop(), done.pop()
            done.append((b, a) if swap else (a, b))
        elif isinstance(at, int):
            done.append(leaf(at))
        else:
            stack += [None, at[1], at[0]]
    return done[0]


def chain_of(root: Node, through: Collection[Node]) -> Chain:
    """The chain that the product ``root`` is, of what is multiplied by ``through``, nodes whose
    value nothing else needs."""
    return _product(root, through, MOST_FACTORS)


def _product(node: Node, through: Collection[Node], most: int) -> Chain:
    """A product as the chain of its arguments' factors. At most ``most`` are looked for."""
    left = _look(node.args[0], through, most - 1)
    right = _look(node.args[1], through, most - len(left.factors))
    if right.merged:
        right = _leaf(node.args[1])
    if left.merged and any(len(f.shape) > 2 for f in right.factors):
        left = _leaf(node.args[0])
    shift = len(left.factors)
    written = (left.written, _map_tree(right.written, lambda i: i + shift))
    return Chain(
        (*left.factors, *right.factors), written, (*left.scales, *right.scales),
        (*left.absorbed, *right.absorbed, node), left.merged,
    )  # fmt: skip


def _look(node: Node, through: Collection[Node], most: int) -> Chain:
    """What stands on one side of a product."""
    if most > 1 and node in through:
        if node.op is matmul_op:
            return _product(node, through, most)
        see = THROUGH.get(node.op)
        found = None if see is None else see(node, through, most - 1)
        if found is not None and len(found.factors) > 1:
            return replace(found, absorbed=(*found.absorbed, node))
    return _leaf(node)


def _leaf(node: Node) -> Chain:
    if _swaps_last(node):
        return Chain((Factor(node.args[0], (_Turn(),)),), 0)
    return Chain((Factor(node),), 0)


def _swaps_last(node: Node) -> bool:
    """Whether a node exchanges the last two dims and leaves the others where they are."""
    if node.op is not permute_op:
        return False
    rank = len(node.attrs["dims"])
    return bool(node.attrs["dims"] == (*range(rank - 2), rank - 1, rank - 2))


def _through_turn(node: Node, through: Collection[Node], most: int) -> Chain | None:
    return _look(node.args[0], through, most).transpose() if _swaps_last(node) else None


def _through_neg(node: Node, through: Collection[Node], most: int) -> Chain | None:
    inner = _look(node.args[0], through, most)
    return replace(inner, scales=(*inner.scales, (neg, None)))


def _through_scale(node: Node, through: Collection[Node], most: int) -> Chain | None:
    """``c * P``, ``P * c`` and ``P / c``, with one number, or with one for each row or column. In
    16 bits a number keeps its place, which may be what keeps the product from overflowing."""
    if node.tensor_type.dtype.itemsize < 4:
        return None
    for product, by in (node.args, node.args[::-1])[: 2 if node.op is mul else 1]:
        if product not in through or product.type != node.type:
            continue
        shape = by.tensor_type.shape
        if by.tensor_type.size == 1:
            inner = _look(product, through, most)
            return replace(inner, scales=(*inner.scales, (node.op, by)))
        if all(s == 1 for s in shape[:-1]) and len(shape) <= node.tensor_type.ndim:
            return _with_scale(_look(product, through, most), -1, _Scale(node.op, by))
        if len(shape) > 1 and shape[-1] == 1 and all(s == 1 for s in shape[:-2]):
            return _with_scale(_look(product, through, most), 0, _Scale(node.op, by))
    return None


def _with_scale(chain: Chain, at: int, scale: _Scale) -> Chain | None:
    if chain.merged and at == 0:
        return None
    factors = list(chain.factors)
    factors[at] = factors[at].then(scale)
    return replace(chain, factors=tuple(factors))


def _through_reshape(node: Node, through: Collection[Node], most: int) -> Chain | None:
    """Rows of a product in other leading dims: those of its first factor, if the others are
    matrices without batches, or else those of the result."""
    before, after = node.args[0].tensor_type.shape, node.tensor_type.shape
    if len(before) < 2 or len(after) < 2 or before[-1] != after[-1]:
        return None
    inner = _look(node.args[0], through, most)
    if inner.merged or any(len(f.shape) > 2 for f in inner.factors[1:]):
        return replace(inner, merged=after != inner.shape)
    first = inner.factors[0].then(_Rows(after[:-1]))
    return replace(inner, factors=(first, *inner.factors[1:]))


THROUGH = {
    permute_op: _through_turn, neg: _through_neg, mul: _through_scale, div: _through_scale,
    reshape_op: _through_reshape,
}  # fmt: skip
"""What may stand between two products of a chain."""


def batch_of(shapes: list[Shape]) -> Shape | None:
    """The leading dims of a product of these shapes; None where that is not seen from them."""
    rank = max(len(s) for s in shapes) - 2
    found: list[Size] = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape[:-2], rank - len(shape) + 2):
            if found[i] == 1:
                found[i] = size
            elif size not in (1, found[i]):
                return None
    return tuple(found)
