"""Matrix products that a library of the device computes, and what is fused behind them."""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.codegen.program.routine import Matrices, Place
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import as_symbol, coefficient, substitute_dim
from staticflow.graph.dims import Size, Sym
from staticflow.graph.dtypes import float32, float64
from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.node import Node
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.declaring.lowering import Contract, View
from staticflow.passes.access import broadcast_index, canonical_index, source_of

__all__ = ["LibraryProduct", "find_product", "rows_of"]


@dataclass(frozen=True, slots=True)
class _Operand:
    """Matrices in the memory of a param: from which element on, and how far neighbours along each
    dim are from each other."""

    param: int
    start: Size
    shape: Shape
    strides: tuple[Size, ...]

    def at(self, place: Place, t: TensorType) -> Matrices:
        """The matrices, where the param lies at ``place``."""
        return Matrices(place, t.dtype, self.start, self.shape, self.strides)


@dataclass(frozen=True, slots=True)
class LibraryProduct:
    """The ``operands`` of the product, and its type. ``rest`` is the cluster without it, which
    takes it as one more param; None if it is all there is."""

    operands: tuple[_Operand, _Operand]
    type: TensorType
    rest: Graph | None


def find_product(body: Graph) -> LibraryProduct | None:
    """The product in the body of a cluster, if a library computes it: one of plain matrices of
    floats of 32 or 64 bits that lie in strides."""
    (product,) = (n for n in body.nodes if isinstance(n.op.lowering, Contract))
    t = product.tensor_type
    if type(product.op.lowering) is not Contract or t.dtype not in (float32, float64):
        return None
    found = [_operand(a, t.shape[:-2], body.params) for a in product.args]
    if None in found:
        return None
    left, right = (o for o in found if o is not None)
    if body.outputs == (product,):
        return LibraryProduct((left, right), t, None)
    made = new_param(t, "product", locs=product.locs)
    outputs = substitute_nodes(body.outputs, {product: made})
    return LibraryProduct((left, right), t, close([*body.params, made], outputs))


def _operand(node: Node, batch: Shape, params: Sequence[Node]) -> _Operand | None:
    shape = (*batch, *node.tensor_type.shape[-2:])
    names = tuple(Sym(f"dim{i}", -1 - i) for i in range(len(shape)))
    index = canonical_index(shape, names)
    source, source_index = source_of(node, broadcast_index(index, node.tensor_type.shape))
    if source not in params or isinstance(source.op.lowering, View):
        return None
    at = source.tensor_type.offset(source_index)
    own = [as_symbol(i) for i in index]  # None along a dim of size 1
    strides = [0 if s is None else coefficient(at, s) for s in own]
    known = [s for s in strides if s is not None]
    if len(known) != len(strides):
        return None
    start = substitute_dim(at, {s: 0 for s in own if s is not None})
    return _Operand([*params].index(source), start, shape, tuple(known))


def rows_of(place: Place, t: TensorType) -> Matrices:
    """The matrices of an array that lies in one row."""
    strides: list[Size] = []
    step: Size = 1
    for size in reversed(t.shape):
        strides.append(step)
        step = step * size
    return Matrices(place, t.dtype, 0, t.shape, tuple(reversed(strides)))
