"""The loops of a cluster: over which dims of its domain they run, in which order, and how many.

Dims are in the order in which most of what the loops touch lies in memory, whatever order they are
named in: a sum over all of a transposed matrix runs along the rows that are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import coefficient, evaluate_dim, symbols_of
from staticflow.graph.dims import Call, Size, Sym, fresh_sym, prod, terms_of
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node, param
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.declaring.lowering import Generate, Index, Reduce, View, delinear
from staticflow.passes.access import broadcast_index, chosen_from, member_index
from staticflow.passes.row_totals import operand_index, total_index

__all__ = ["LoopDims", "choose_loops", "is_affine", "positions_read", "runs_inward"]


@dataclass(frozen=True, slots=True)
class _Axes:
    """Some dims of the domain and the sizes of the loops that run over them: one for each dim, or
    one for all."""

    dims: tuple[int, ...]
    sizes: Shape
    collapsed: bool

    @property
    def loops(self) -> Shape:
        """The iteration counts."""
        return (prod(self.sizes),) if self.collapsed else self.sizes

    def index(self, at: Sequence[Size]) -> Index:
        """The index along the dims at these loop variables."""
        return delinear(at[0], self.sizes) if self.collapsed else tuple(at)


@dataclass(frozen=True, slots=True)
class LoopDims:
    """The loops of a cluster, and which of its nodes follow ``late``, from all rows."""

    domain: Shape
    outer: _Axes
    inner: _Axes
    late: Set[Node] = frozenset()

    def index(self, outer: Sequence[Size], inner: Sequence[Size]) -> Index:
        """The index in the domain."""
        at: dict[int, Size] = dict(zip(self.outer.dims, self.outer.index(outer), strict=True))
        at |= zip(self.inner.dims, self.inner.index(inner), strict=True)
        return tuple(0 if d == 1 else at[i] for i, d in enumerate(self.domain))

    def place(self, node: Node, full: Index) -> Index:
        """Where a node stands when the loops are at the index ``full``."""
        if node in self.late:
            return total_index(node.tensor_type.shape, full, self.domain, self.inner.dims)
        return member_index(node, full, self.domain, self.inner.dims)

    def operand_place(self, reduction: Node, full: Index) -> Index:
        """Where a reduction reads its operand when the loops are at the index ``full``."""
        return operand_index(reduction, full, self.domain, self.inner.dims)


def choose_loops(
    body: Graph,
    types: Sequence[TensorType],
    domain: Shape,
    dims: tuple[int, ...],
    late: Set[Node] = frozenset(),
) -> LoopDims:
    """The fewest loops that keep every index free of divisions, over dims as they lie."""
    kept = tuple(i for i in range(len(domain)) if i not in dims)
    every = LoopDims(domain, _axes(kept, domain, False), _axes(dims, domain, False), late)
    kept, dims = _in_memory_order(body, types, every)
    for outer_one, inner_one in ((True, True), (True, False), (False, True)):
        nest = LoopDims(
            domain, _axes(kept, domain, outer_one), _axes(dims, domain, inner_one), late
        )
        outer, inner = _symbols(nest)
        moving = frozenset[Sym]().union(*map(symbols_of, (*outer, *inner)))
        if all(is_affine(i, moving) for i in _element_indices(body, types, nest, outer, inner)):
            return nest
    return LoopDims(domain, _axes(kept, domain, False), _axes(dims, domain, False), late)


def is_affine(index: Size, moving: Set[Sym]) -> bool:
    """Whether no division, maximum or minimum changes as the variables ``moving`` do, so that it is
    worked out once."""
    atoms = {atom for monomial, _ in terms_of(index) for atom in monomial}
    return all(moving.isdisjoint(atom.symbols) for atom in atoms if isinstance(atom, Call))


def _in_memory_order(
    body: Graph, types: Sequence[TensorType], nest: LoopDims
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The dims of the outer and of the inner loops, each before those along which most of what the
    cluster touches lies closer together; as they were where that is undecided. Where nothing is
    reduced what is written decides: to store apart costs twice what it costs to load apart."""
    axes = (nest.outer, nest.inner)
    if all(len(a.dims) < 2 for a in axes) or not _may_lie_otherwise(body, types):
        return nest.outer.dims, nest.inner.dims
    outer, inner = _symbols(nest)
    indices = [*_element_indices(body, types, nest, outer, inner)]
    weights = [1 if inner or i >= len(types) else len(indices) for i in range(len(indices))]
    kept, reduced = (
        _sorted_by_stride(a.dims, loops, indices, weights)
        for a, loops in zip(axes, (outer, inner), strict=True)
    )
    return kept, reduced


def _may_lie_otherwise(body: Graph, types: Sequence[TensorType]) -> bool:
    """Whether something that a cluster touches may lie in another order than its dims have."""
    if any(t.strides is not None for t in (*types, *(p.tensor_type for p in body.params))):
        return True
    return any(isinstance(n.op.lowering, View) for n in body.nodes)


def _sorted_by_stride(
    dims: tuple[int, ...], loops: Sequence[Size], indices: Sequence[Size], weights: Sequence[int]
) -> tuple[int, ...]:
    """``dims`` in the order of the strides that the variables of their loops have in ``indices``,
    the widest first. Where a variable does not move an index, that has no say."""
    strides = {
        d: [_example_stride(i, at) for i in indices] for d, at in zip(dims, loops, strict=True)
    }
    ordered: list[int] = []
    for d in dims:
        at = len(ordered)
        for place in reversed(range(len(ordered))):
            wider = _wider(strides[d], strides[ordered[place]], weights)
            if wider < 0:
                break
            if wider > 0:
                at = place
        ordered.insert(at, d)
    return tuple(ordered)


def _wider(a: Sequence[int], b: Sequence[int], weights: Sequence[int]) -> int:
    """A number above 0 where the strides ``a`` are wider than those of ``b`` at more positions,
    each counted by its weight, than the other way round; below 0 where at fewer; else 0."""
    each = zip(a, b, weights, strict=True)
    return sum(w * ((x > y) - (x < y)) for x, y, w in each if x and y)


def _example_stride(index: Size, at: Size) -> int:
    """How far one step of a loop variable goes in memory, unknown sizes being `_EXAMPLE`; 0 where
    it goes nowhere, or not always as far."""
    syms = symbols_of(at)  # none of a loop of one iteration
    stride = coefficient(index, next(iter(syms))) if syms else 0
    if stride is None:
        return 0
    return abs(evaluate_dim(stride, dict.fromkeys(symbols_of(stride), _EXAMPLE)))


_EXAMPLE = 64
"""What an unknown size is taken for where strides are compared."""


def _axes(dims: tuple[int, ...], domain: Shape, collapsed: bool) -> _Axes:
    return _Axes(dims, tuple(domain[d] for d in dims), collapsed and len(dims) > 1)


def _symbols(nest: LoopDims) -> tuple[list[Size], list[Size]]:
    """Stand-ins for the loop variables."""
    outer: list[Size] = [fresh_sym("o", size) for size in nest.outer.loops]
    inner: list[Size] = [fresh_sym("r", size) for size in nest.inner.loops]
    return outer, inner


def _element_indices(
    body: Graph,
    types: Sequence[TensorType],
    nest: LoopDims,
    outer: Sequence[Size],
    inner: Sequence[Size],
) -> Iterator[Size]:
    """Every position in memory and every index value that the cluster works out."""
    full = nest.index(outer, inner)
    outputs = [(o, nest.place(o, full)) for o in body.outputs]
    for (_, index), type in zip(outputs, types, strict=True):
        yield type.offset(index)
    yield from positions_read(nest, outputs, full)


def positions_read(
    nest: LoopDims, elements: Sequence[tuple[Node, Index]], full: Index
) -> Iterator[Size]:
    """Every position in memory that is read, and every index value that is worked out, for
    ``elements``, nodes at an index each, where the loops are at ``full``."""
    seen: set[tuple[Node, Index]] = set()
    stack = [*elements]
    while stack:
        node, index = stack.pop()
        if (node, index) in seen:
            continue
        seen.add((node, index))
        lowering = node.op.lowering
        if node.op is param:
            yield node.tensor_type.offset(index)
        elif isinstance(lowering, Generate):
            yield from index
        elif isinstance(lowering, View):
            arg = node.args[0]
            shapes = (arg.tensor_type.shape, node.tensor_type.shape)
            stack.append((arg, lowering.source(index, *shapes, **node.attrs)))
        elif isinstance(lowering, Reduce):
            stack.append((node.args[0], nest.operand_place(node, full)))
        elif (chosen := chosen_from(node, index)) is not None:
            indices, place = chosen
            stack.append((node.args[0], place([0] * len(indices))))
            stack += zip(node.args[1:], indices, strict=True)
        else:
            stack += [(a, broadcast_index(index, a.tensor_type.shape)) for a in node.args]


def runs_inward(body: Graph, types: Sequence[TensorType], nest: LoopDims) -> bool:
    """Whether the innermost reduced dim is the one to vectorise: of what the inner loops touch,
    more is contiguous along it, or nearly."""
    if not nest.inner.loops:
        return False
    if not nest.outer.loops:
        return True
    outer, inner = _symbols(nest)
    within = frozenset[Sym]().union(*map(symbols_of, inner))
    indices = [
        p for p in _element_indices(body, types, nest, outer, inner) if symbols_of(p) & within
    ]
    scores = []
    for last in (inner[-1], outer[-1]):
        (sym,) = symbols_of(last) or (Sym("none"),)
        strides = [coefficient(p, sym) for p in indices]
        scores.append(sum(map(_closeness, strides)))
    return scores[0] >= scores[1]


def _closeness(stride: Size | None) -> int:
    """How good it is for vectors that their elements lie so far apart."""
    if stride in (0, 1):
        return 2 * (stride == 1)
    near = stride == -1 or (isinstance(stride, int) and 1 < stride <= _CLOSE)
    return 1 if near else _SCATTERED


_SCATTERED = -8
"""Of elements that are loaded one by one: worse than what a few vectors side by side are good."""


_CLOSE = 4
"""Elements apart at which a line of the cache still holds several."""
