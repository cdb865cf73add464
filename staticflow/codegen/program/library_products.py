"""Matrix products that a library of the device computes, and what is fused behind them.

A library adds a bias to each row before it rounds a sum, and so changes no more than the last bits.
Whether its ``relu`` keeps NaN, and how near its ``gelu`` comes to the tangent that is written, its
documentation does not say: these it is asked for where numerics are fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticflow.codegen.program.routine import Matrices, Place
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import as_symbol, coefficient, substitute_dim
from staticflow.graph.dims import Size, Sym
from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.graph.proofs import is_provably_ge
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.basics.arithmetic import add
from staticflow.ops.declaring.lowering import Contract, View
from staticflow.ops.elementwise.activation import gelu_tanh_op
from staticflow.ops.elementwise.maths import relu
from staticflow.passes.access import broadcast_index, canonical_index, source_of

__all__ = ["LibraryProduct", "find_product", "rows_of"]

_ACTIVATIONS: dict[Op, str] = {relu: "relu", gelu_tanh_op: "gelu"}
"""What a library does to the elements of a product, by its names."""


@dataclass(frozen=True, slots=True)
class LibraryProduct:
    """The product of ``left`` and ``right``, and its type. ``rest`` is the cluster without it,
    which takes it as one more param; None if it is all there is. If the library can do the rest,
    too, it adds the ``bias``, one row, where there is one, and then does the ``activation``, which
    has a name where there is one."""

    left: Matrices
    right: Matrices
    type: TensorType
    rest: Graph | None
    bias: Matrices | None = None
    activation: str = ""

    @property
    def has_epilogue(self) -> bool:
        """Whether the library can do the rest."""
        return self.bias is not None or self.activation != ""


def find_product(body: Graph, places: Sequence[Place], fast: bool) -> LibraryProduct | None:
    """The product in the body of a cluster whose params lie at ``places``, if a library computes
    it: one of plain matrices of floats whose rows, or columns, lie in memory without gaps and
    apart from each other. Numerics are ``fast`` or not."""
    (product,) = (n for n in body.nodes if isinstance(n.op.lowering, Contract))
    t = product.tensor_type
    if type(product.op.lowering) is not Contract or not t.dtype.is_floating:
        return None
    lie = dict(zip(body.params, places, strict=True))
    left, right = (
        _lies_at(a, (*t.shape[:-2], *a.tensor_type.shape[-2:]), lie) for a in product.args
    )
    if left is None or right is None or not (_lies_well(left) and _lies_well(right)):
        return None
    if body.outputs == (product,):
        return LibraryProduct(left, right, t, None)
    made = new_param(t, "product", locs=product.locs)
    outputs = substitute_nodes(body.outputs, {product: made})
    rest = close([*body.params, made], outputs)
    return LibraryProduct(left, right, t, rest, *_find_epilogue(body, product, lie, fast))


def _find_epilogue(
    body: Graph, product: Node, places: Mapping[Node, Place], fast: bool
) -> tuple[Matrices | None, str]:
    """The bias and the activation behind a product, if these are all of the rest; else neither."""
    (node, *others), activation, bias = body.outputs, "", None
    if fast and node.op in _ACTIVATIONS:
        activation, node = _ACTIVATIONS[node.op], node.args[0]
    if node.op is add and product in node.args:
        other = node.args[node.args[0] is product]
        bias = _lies_at(other, product.tensor_type.shape, places)
        node = product if _is_bias(bias, product) else node
    return (bias, activation) if node is product and not others else (None, "")


def _is_bias(m: Matrices | None, product: Node) -> bool:
    """Whether matrices of the size of a product are one row of it again and again, without gaps."""
    t = product.tensor_type
    if m is None or m.dtype is not t.dtype:
        return False
    return all(s == 0 for s in m.strides[:-1]) and (m.strides[-1] == 1 or t.shape[-1] == 1)


def _lies_at(node: Node, shape: Shape, places: Mapping[Node, Place]) -> Matrices | None:
    """The matrices of a value, stretched to a shape, where it is a view of a param that lies in
    strides."""
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
