"""Sizes that only the run can tell: the ops that bind them, and what keeps a graph behind those.

A node that names such a size must have whatever binds it among what it depends on, or that may be
left out, or run later. Mostly an operand of that size sees to it. Where there is none (zeros of the
size of a selection) the node takes a *tie* for an operand: any tensor of that size.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, Sym, fresh_sym
from staticflow.graph.dtypes import bool_, int64
from staticflow.graph.graph import bound_symbols
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node, item, make_node, param
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType, types_of
from staticflow.ops.declaring.declare import per_arg
from staticflow.ops.declaring.lowering import LoopNest, Measure, Prefix, View
from staticflow.ops.declaring.thread import thread

__all__ = [
    "add_ties",
    "behind",
    "measure_op",
    "prefix_op",
    "size_of",
    "tied_op",
    "ties_among",
    "ties_of",
    "unprefix_op",
]  # fmt: skip


def _measure_infer(
    facts: Facts, count: TensorType, *, most: Size, what: str, binds: tuple[Dim, ...]
) -> TensorType:
    if count != TensorType(int64, ()):
        raise DTypeError(f"the number is {count}; it must be an i64 of no dims")
    return TensorType(bool_, (binds[0], 0))


def _measure_reference(xp: Any, count: Any, *, most: int, what: str, binds: Any) -> Any:
    if not 0 <= count <= most:
        raise ShapeError(f"{what} is {count}; it must be in 0..{most}")
    return xp.zeros((int(count), 0), bool)


measure_op = Op(
    name="measure",
    doc="The size that the number ``count``, up to ``most``, ``binds``: a tensor of that many rows "
    "and no elements, which whatever depends on the size has for an argument. An error calls it "
    "``what``.",
    infer=_measure_infer,
    reference=_measure_reference,
    vjp=None,
    lowering=Measure(),
)


def _prefix_infer(facts: Facts, x: TensorType, rows: TensorType) -> TensorType:
    return TensorType(x.dtype, (rows.shape[0], *x.shape[1:]))


prefix_op: Op = Op(
    name="prefix",
    doc="The first rows of ``x``, as many as ``rows`` has.",
    infer=_prefix_infer,
    reference=lambda xp, x, rows: x[: len(rows)].copy(),
    vjp=per_arg(
        lambda ct, out, x, rows: unprefix_op(ct, rows, size=x.shape[0]),
        None,
    ),
    lowering=Prefix(),
    grad_name="SliceBackward0",
)


def _unprefix_infer(facts: Facts, x: TensorType, rows: TensorType, *, size: Size) -> TensorType:
    facts.equal(x.shape[0], rows.shape[0], f"the rows of {x} and those that are counted")
    return TensorType(x.dtype, (size, *x.shape[1:]))


def _unprefix_reference(xp: Any, x: Any, rows: Any, *, size: int) -> Any:
    out = xp.zeros((size, *x.shape[1:]), x.dtype)
    out[: len(x)] = x
    return out


def _unprefix_emit(nest: Any) -> None:
    dtype = nest.out_type(0).dtype
    zero = nest.k.const(False if dtype.kind == "b" else 0, dtype)
    with nest.loops(nest.out_shape(0), "parallel") as index:
        nest.store(0, index, zero)
    with nest.loops(nest.in_shape(0), "parallel") as index:
        nest.store(0, index, nest.load(0, index))


unprefix_op: Op = Op(
    name="unprefix",
    doc="``x`` with rows of zeros behind, ``size`` in all: the transpose of prefix.",
    infer=_unprefix_infer,
    reference=_unprefix_reference,
    vjp=per_arg(lambda ct, out, x, rows, *, size: prefix_op(ct, rows), None),
    lowering=LoopNest(_unprefix_emit),
    grad_name="SliceBackward0",
)

tied_op: Op = Op(
    name="tied",
    doc="``x``, behind what binds the sizes of the ``ties``.",
    infer=lambda facts, x, *ties: x,
    reference=lambda xp, x, *ties: x,
    vjp=lambda needs, ct, out, x, *ties: [ct if needs[0] else None, *(None for _ in ties)],
    lowering=View(lambda index, in_shape, out_shape: index),
    grad_name="AliasBackward0",
)


# -- sizes from values -----------------------------------------------------------------------------

MOST = 1 << 40
"""No size is larger that comes from a value which nothing else bounds."""


def size_of(value: Any, most: Size = MOST) -> Dim:
    """The size that a symbolic integer of no dims turns out to be: the same one for the same value
    within a region, and that of the region around it where that asked for it before.

    As the program runs it is held to be 0 or more, and at ``most`` so much.
    """
    if value.ndim or value.dtype.kind not in "iu":
        raise DTypeError(
            f"a size is {value.dtype.short}{list(value.shape)}; it must be an integer, or a symbol "
            f"of an integer dtype and of no dims, at {format_locs(here())}"
        )
    node = value.node
    for region in thread.state.within:
        measured = _measured.get((node.serial, region))
        if measured is not None:
            known: Dim = measured.attrs["binds"][0]
            return known
    name = str(node.attrs.get("name", ""))
    size = fresh_sym(name if name.isidentifier() else "size", most + 1, late=True)
    rows = measure_op(value.to(int64), most=most, what="a size", binds=(size,))
    _measured[node.serial, thread.state.within[-1]] = rows.node
    return size


_measured: weakref.WeakValueDictionary[tuple[int, int], Node] = weakref.WeakValueDictionary()
"""What binds the size that a value is, by the serial of the value's node and the region."""


# -- ties ------------------------------------------------------------------------------------------


class _Roots:
    """Nodes, and which of those that they depend on have a size."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.known: dict[Sym, Node | None] = {}

    def tie(self, sym: Sym) -> Node | None:
        """A node of that size: what binds it, or a param; None if there is none."""
        if sym not in self.known:
            self.known[sym] = _find_binder(self.nodes, sym)
        return self.known[sym]


def _find_binder(roots: Sequence[Node], sym: Sym) -> Node | None:
    seen: set[Node] = set()
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if sym in bound_symbols(node):
            return _of_size(node, sym)
        if node.op is param and _has(node.tensor_type, sym):
            return node
        stack.extend(reversed(node.args))
    return None


def _of_size(node: Node, sym: Sym) -> Node:
    """The result of ``node``, which binds ``sym``, that has the size, without elements if any
    is so."""
    if isinstance(node.type, TensorType):
        return node
    sized = [i for i, t in enumerate(node.type) if _has(t, sym)]
    bare = [i for i in sized if node.type[i].size == 0]
    return make_node(item, (node,), {"index": (bare or sized or [0])[0]}, node.locs)


def _has(t: TensorType, sym: Sym) -> bool:
    return any(sym in symbols_of(d) for d in t.shape)


@contextmanager
def behind(nodes: Sequence[Node]) -> Iterator[None]:
    """A block that makes nodes from those that ``nodes`` depend on: what is tied in it is tied to
    these. Elsewhere it is tied to whatever bound the size first."""
    state = thread.state
    before = state.roots
    try:
        state.roots = (_Roots(nodes), *before)
        yield
    finally:
        state.roots = before


def add_ties(operands: Sequence[Node], attrs: Mapping[str, Any]) -> Sequence[Node]:
    """``operands`` for a node with ``attrs``, with the ties that it needs."""
    ties = ties_of(operands, attrs)
    if not ties or not operands:
        return ties or operands
    return [make_node(tied_op, (operands[0], *ties), {}, operands[0].locs), *operands[1:]]


def ties_of(operands: Sequence[Node], attrs: Mapping[str, Any]) -> list[Node]:
    """A tie for each late size that ``attrs`` name and no operand has."""
    return [tie for s in _missing(operands, attrs) if (tie := _tie(s)) is not None]


def ties_among(
    nodes: Sequence[Node], operands: Sequence[Node], attrs: Mapping[str, Any]
) -> list[Node]:
    """Ties for late sizes among ``nodes``, which have the sizes; those without elements if there
    are any."""
    bare_first = sorted(nodes, key=lambda n: n.tensor_type.size != 0)
    return [
        next(n for n in bare_first if _has(n.tensor_type, s)) for s in _missing(operands, attrs)
    ]


def _missing(operands: Sequence[Node], attrs: Mapping[str, Any]) -> list[Sym]:
    types = [t for n in operands for t in types_of(n.type)]
    return [s for s in _late_symbols(attrs) if not any(_has(t, s) for t in types)]


def _tie(sym: Sym) -> Node | None:
    roots: _Roots
    for roots in thread.state.roots:
        tie = roots.tie(sym)
        if tie is not None:
            return tie
    return None if sym.binder is None else _of_size(sym.binder, sym)


def _late_symbols(attrs: Mapping[str, Any]) -> list[Sym]:
    found: set[Sym] = set()
    for name, value in attrs.items():
        if name != "binds":
            _add_late(found, value)
    return sorted(found, key=Sym.sort_key)


def _add_late(found: set[Sym], value: Any) -> None:
    if type(value) is Dim:
        found.update(s for s in symbols_of(value) if s.late)
    elif type(value) is tuple:
        for part in value:
            _add_late(found, part)
