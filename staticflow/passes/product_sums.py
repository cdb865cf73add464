"""Sums and diagonals of matrix products, of no more of the product than they read.

A sum over rows is one of the left factor, ``sum_i (x w)_ij = (sum_i x_i) w``, one over columns one
of the right factor, and what is added to the product in every row is added once, times the rows.
The diagonal of ``a b`` has ``sum_k a_ik b_ki``: of all products of numbers those that it needs.
In 16 bits a sum would be rounded before it is multiplied, and all stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dims import is_provably_ge, prod
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.basics.arithmetic import add, mul, sub
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.reduce import sum_op
from staticflow.ops.basics.slicing import slice_op
from staticflow.ops.basics.view import reshape, reshape_op
from staticflow.ops.matrices.contract import matmul, matmul_op
from staticflow.ops.matrices.triangle import diagonal_op
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["ProductSums", "rows_of_product"]

_DEEP = 4
"""Sums of products and biases that are looked through."""


def rows_of_product(node: Node) -> Node | None:
    """The product of two matrices whose rows a reshape has in several leading dims."""
    if node.op is not reshape_op:
        return None
    product, shape = node.args[0], node.tensor_type.shape
    if product.op is not matmul_op or any(a.tensor_type.ndim != 2 for a in product.args):
        return None
    same = len(shape) > 2 and shape[-1] == product.tensor_type.shape[-1]
    return product if same and prod(shape[:-1]) == product.tensor_type.shape[0] else None


@dataclass(frozen=True, slots=True)
class ProductSums:
    """What stands for the nodes of a graph (``new``), and which of them one other node reads, once
    (``once``)."""

    new: Mapping[Node, Node]
    once: Collection[Node]

    def sum(self, node: Node) -> Any:
        """A sum over dims of a product, or of the diagonal of one; None for other sums."""
        source, dims = node.args[0], frozenset(node.attrs["dims"])
        if source.tensor_type.dtype.itemsize < 4:
            return None
        if source.op is diagonal_op and source.tensor_type.ndim - 1 in dims:
            terms = self._terms(source) if source in self.once else None
            found = None if terms is None else _sum_away(terms, (*dims, terms.ndim - 1))
        else:
            found = self._sum(source, dims, _DEEP)
        return None if found is None else reshape(found, node.tensor_type.shape)

    def diagonal(self, node: Node) -> Any:
        """The diagonal of a product as sums of its terms; None for other diagonals."""
        terms = self._terms(node)
        return None if terms is None else _sum_away(terms, (terms.ndim - 1,))

    def _terms(self, node: Node) -> Any:
        """What is summed over its last dim for the diagonal of a product."""
        product, offset = node.args[0], node.attrs["offset"]
        t = product.tensor_type
        dims = node.attrs["dim1"], node.attrs["dim2"]
        if product.op is not matmul_op or product not in self.once or t.dtype.itemsize < 4:
            return None
        if {*dims} != {t.ndim - 2, t.ndim - 1} or not isinstance(offset, int):
            return None
        if dims[0] > dims[1]:
            offset = -offset
        size = node.tensor_type.shape[-1]
        a, b = (Symbol(self.new[x]) for x in product.args)
        parts = [_take(y, max(at, 0), size) for y, at in ((a, -offset), (mT(b), offset))]
        return None if any(p is None for p in parts) else mul(*parts)

    def _sum(self, node: Node, dims: frozenset[int], depth: int) -> Any:
        """The sum, with dims of size 1, of what is made of products that nobody else reads."""
        if node not in self.once or depth == 0:
            return None
        if node.op is matmul_op:
            return self._sum_factors(node, dims)
        product = rows_of_product(node)
        if product is not None and product in self.once:
            x, w = product.args
            shape = (*node.tensor_type.shape[:-1], x.tensor_type.shape[1])
            last = node.tensor_type.ndim - 1
            left = _sum_over(reshape(Symbol(self.new[x]), shape), dims - {last})
            return matmul(left, _sum_over(Symbol(self.new[w]), {1} if last in dims else ()))
        return self._sum_terms(node, dims, depth) if node.op in (add, sub) else None

    def _sum_factors(self, product: Node, dims: frozenset[int]) -> Any:
        """A batch is summed where one of the factors is the same in all of it."""
        (x, y), ndim = product.args, product.tensor_type.ndim
        sides: list[set[int]] = [set(), set()]
        for d in dims:
            behind = ndim - d
            if behind <= 2:
                sides[2 - behind].add(d)
                continue
            batched = [behind <= f.tensor_type.ndim and f.tensor_type.shape[-behind] != 1
                       for f in (x, y)]  # fmt: skip
            if all(batched):
                return None
            sides[0 if batched[0] else 1].add(d)
        summed = [
            _sum_over(f, {f.ndim - (ndim - d) for d in side if ndim - d <= f.ndim})
            for f, side in zip((Symbol(self.new[x]), Symbol(self.new[y])), sides, strict=True)
        ]
        return matmul_op(*summed)

    def _sum_terms(self, node: Node, dims: frozenset[int], depth: int) -> Any:
        """Products that are added, and what is added to a product in every row that is summed."""
        shape = node.tensor_type.shape
        count = prod(shape[d] for d in dims)
        parts: list[Any] = []
        for term in node.args:
            own = term.tensor_type.shape
            if own == shape:
                part = self._sum(term, dims, depth - 1)
            else:
                part = self._times(term, dims, len(shape), count)
            if part is None:
                return None
            parts.append(part)
        return node.op(*parts)

    def _times(self, term: Node, dims: frozenset[int], ndim: int, count: Any) -> Any:
        """A sum of ``count`` equal terms; None of so many that a float has no such number."""
        t = term.tensor_type
        same = all(ndim - d > t.ndim or t.shape[d - ndim] == 1 for d in dims)
        if not same or not isinstance(count, int) or not 0 < count <= 1 << 24:
            return None
        return mul(Symbol(self.new[term]), count)


def _sum_away(x: Any, dims: Collection[int]) -> Any:
    return sum_op(x, dims=tuple(sorted(dims)), keepdim=False)


def _sum_over(x: Any, dims: Collection[int]) -> Any:
    return sum_op(x, dims=tuple(sorted(dims)), keepdim=True) if dims else x


def _take(x: Any, at: int, size: Any) -> Any:
    """The ``size`` rows of matrices from ``at`` on; None where there may be fewer."""
    shape: Shape = x.__sf_shape__
    if at == 0 and shape[-2] == size:
        return x
    if not is_provably_ge(shape[-2], at + size):
        return None
    start = tuple(at if d == len(shape) - 2 else 0 for d in range(len(shape)))
    sizes = tuple(size if d == len(shape) - 2 else n for d, n in enumerate(shape))
    return slice_op(x, start=start, size=sizes, step=(1,) * len(shape))
