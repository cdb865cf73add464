"""What ops whose operands are chosen by indices do with operands that are split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticflow.graph.dims import same
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape
from staticflow.ops.indexing.gather_ops import gather_op, scatter_add_op
from staticflow.ops.indexing.index_ops import (
    Frame,
    embedding_op,
    index_add_op,
    index_op,
    index_put_op,
    index_select_op,
    take_op,
)
from staticflow.passes.partition.layouts import Layout, Place
from staticflow.passes.partition.plans import Plan, Rule, meet, once_each, shapes_of, stretch

__all__ = ["INDEX_RULES", "is_zero"]


def _pick(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    """Slices that indices name: each finds its own, of whole dims."""
    dims, shapes = node.attrs["dims"], shapes_of(node)
    x = tuple([None if d in dims else s for d, s in enumerate(layouts[0])])
    frame = Frame(shapes[0], dims, Facts().broadcast(shapes[1:]))
    batch = meet(len(frame.batch), shapes[1:], layouts[1:])
    rest = [s for d, s in enumerate(x) if d not in dims]
    out = once_each([*rest[: frame.at], *batch, *rest[frame.at :]])
    return Plan((_source_layout(out, frame, len(x)), *_indices(out, frame, shapes[1:])), (out,))


def _put(node: Node, layouts: Sequence[Layout], place: Place) -> Plan | None:
    """The plan of ``index_add`` and ``index_put``: where values and their indices are split, each
    rank adds its own, and the results are added up over the ranks. None where split values take
    the place of what is there, which no sum says."""
    dims, shapes = node.attrs["dims"], shapes_of(node)
    frame = Frame(shapes[0], dims, Facts().broadcast(shapes[2:]))
    end = frame.at + len(frame.batch)
    batch = meet(len(frame.batch), shapes[2:], layouts[2:])
    rest = [s for d, s in enumerate(layouts[0]) if d not in dims]
    given = [*rest[: frame.at], *batch, *rest[frame.at :]]
    own = meet(len(shapes[1]), shapes[1:2], layouts[1:2])
    values = once_each([a or b for a, b in zip(own, given, strict=True)])
    partial = tuple(sorted(s.axis for s in values[frame.at : end] if s))
    if partial and not node.attrs["accumulate"]:
        return None
    begun = 0 if partial and not is_zero(node.args[0]) else None
    x = _source_layout(values, frame, len(shapes[0]))
    return Plan((x, values, *_indices(values, frame, shapes[2:])), (x,), partial, start=begun)


def _source_layout(out: Layout, frame: Frame, ndim: int) -> Layout:
    """The layout of a tensor whose slices are chosen, from that of what is chosen."""
    rest = iter((*out[: frame.at], *out[frame.at + len(frame.batch) :]))
    return tuple([None if d in frame.dims else next(rest) for d in range(ndim)])


def _indices(out: Layout, frame: Frame, shapes: Sequence[Shape]) -> list[Layout]:
    return [stretch(out[frame.at : frame.at + len(frame.batch)], s) for s in shapes]


def is_zero(node: Node) -> bool:
    """Whether a node is zeros, as it was written."""
    return node.op.name == "full" and node.attrs["value"] == 0


def _gather(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    """Elements along one dim that each has whole, at places of the others."""
    x, index = shapes_of(node)
    dim, alike = node.attrs["dim"], [same(a, b) for a, b in zip(x, index, strict=True)]
    out = once_each([
        layouts[1][d] if d == dim else (layouts[1][d] or layouts[0][d]) if alike[d] else None
        for d in range(len(x))
    ])  # fmt: skip
    return Plan((tuple([None if d == dim else s for d, s in enumerate(out)]), out), (out,))


def _scatter(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    """The plan of ``scatter_add``: along the dim that indices go, each rank has all of the three
    operands; along others of one size in all three, its part."""
    shapes, dim = shapes_of(node), node.attrs["dim"]
    out = once_each([
        next((layout[d] for layout in layouts if layout[d]), None)
        if d != dim and all(same(s[d], shapes[0][d]) for s in shapes)
        else None
        for d in range(len(shapes[0]))
    ])  # fmt: skip
    return Plan((out,) * 3, (out,))


INDEX_RULES: Mapping[Op, Rule] = {
    embedding_op: _pick,
    gather_op: _gather,
    index_add_op: _put,
    index_op: _pick,
    index_put_op: _put,
    index_select_op: _pick,
    scatter_add_op: _scatter,
    take_op: _pick,
}
