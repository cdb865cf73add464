"""Matrix products that a library of the device computes, and what is fused behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticflow.codegen.program.routine import Matrices, Place
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import as_symbol, coefficient, substitute_dim
from staticflow.graph.dims import Size, Sym
from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.node import Node
from staticflow.graph.proofs import is_provably_ge
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.declaring.lowering import Contract, View
from staticflow.passes.access import broadcast_index, canonical_index, source_of

__all__ = ["LibraryProduct", "find_product", "rows_of"]


@dataclass(frozen=True, slots=True)
class LibraryProduct:
    """The product of ``left`` and ``right``, and its type. ``rest`` is the cluster without it,
    which takes it as one more param; None if it is all there is."""

    left: Matrices
    right: Matrices
    type: TensorType
    rest: Graph | None


def find_product(body: Graph, places: Sequence[Place]) -> LibraryProduct | None:
    """The product in the body of a cluster whose params lie at ``places``, if a library computes
    it: one of plain matrices of floats whose rows, or columns, lie in memory without gaps and
    apart from each other."""
    (product,) = (n for n in body.nodes if isinstance(n.op.lowering, Contract))
    t = product.tensor_type
    if type(product.op.lowering) is not Contract or not t.dtype.is_floating:
        return None
    lie = dict(zip(body.params, places, strict=True))
    left, right = (_operand(a, t.shape[:-2], lie) for a in product.args)
    if left is None or right is None or not (_lies_well(left) and _lies_well(right)):
        return None
    if body.outputs == (product,):
        return LibraryProduct(left, right, t, None)
    made = new_param(t, "product", locs=product.locs)
    outputs = substitute_nodes(body.outputs, {product: made})
    return LibraryProduct(left, right, t, close([*body.params, made], outputs))


def _operand(node: Node, batch: Shape, places: Mapping[Node, Place]) -> Matrices | None:
    """The matrices of an operand, where it is a view of a param that lies in strides."""
    shape = (*batch, *node.tensor_type.shape[-2:])
    names = tuple(Sym(f"dim{i}", -1 - i) for i in range(len(shape)))
    index = canonical_index(shape, names)
    source, source_index = source_of(node, broadcast_index(index, node.tensor_type.shape))
    if source not in places or isinstance(source.op.lowering, View):
        return None
    at = source.tensor_type.offset(source_index)
    own = [as_symbol(i) for i in index]  # None along a dim of size 1
    strides = [0 if s is None else coefficient(at, s) for s in own]
    known = [s for s in strides if s is not None]
    if len(known) != len(strides):
        return None
    start = substitute_dim(at, {s: 0 for s in own if s is not None})
    return Matrices(places[source], source.tensor_type.dtype, start, shape, tuple(known))


def _lies_well(m: Matrices) -> bool:
    """Whether matrices lie as those of BLAS: the elements of a row, or of a column, one behind the
    other, and from one to the next at least as many elements as it has."""
    (rows, columns), (down, along) = m.shape[-2:], m.strides[-2:]
    by_rows = (along == 1 or columns == 1) and (rows == 1 or is_provably_ge(down, columns))
    return by_rows or ((down == 1 or rows == 1) and (columns == 1 or is_provably_ge(along, rows)))


def rows_of(place: Place, t: TensorType) -> Matrices:
    """The matrices of an array that lies in one row."""
    strides: list[Size] = []
    step: Size = 1
    for size in reversed(t.shape):
        strides.append(step)
        step = step * size
    return Matrices(place, t.dtype, 0, t.shape, tuple(reversed(strides)))
