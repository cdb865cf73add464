"""What each op does with operands that are split: which layouts it takes, and what its results are.

A rule is given a node of whole tensors and the layouts of its arguments, and says a `Plan`, or None
where it has none; the arguments are then said in other ops, or whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.graph.dims import Size, prod, same
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.graph.types import Shape, types_of
from staticflow.ops.along.class_losses import class_op
from staticflow.ops.along.cumulative import (
    cummax_op,
    cummin_op,
    cumprod_op,
    cumsum_op,
    logcumsumexp_op,
)
from staticflow.ops.along.extremes import argmax_op, argmin_op
from staticflow.ops.along.order import sort_op
from staticflow.ops.along.recurrence import recurrence_op, shift_op
from staticflow.ops.basics.axes import flip_op, permute_op, t_op, transpose_op
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.joining import cat_op, stack_op
from staticflow.ops.basics.slicing import embed_op, select_op, slice_op
from staticflow.ops.basics.view import reshape_op, squeeze_op, unsqueeze_op
from staticflow.ops.declaring.lowering import Elementwise, Reduce
from staticflow.ops.declaring.required import asserted_op, required_op
from staticflow.ops.matrices.attention import attend_back_op, attend_op
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.windows.correlate import correlate_kernel_op, correlate_op
from staticflow.ops.windows.pooling import (
    max_pool_index_op,
    max_pool_op,
    place_gather_op,
    place_scatter_op,
)
from staticflow.passes.partition.index_rules import INDEX_RULES
from staticflow.passes.partition.layouts import Layout, Place, Split, whole
from staticflow.passes.partition.plans import Plan, Rule, meet, once_each, shapes_of, stretch

__all__ = ["rule_of", "turn_back"]


def _elementwise(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    shapes = shapes_of(node)
    out = once_each(meet(max(map(len, shapes)), shapes, layouts))
    return Plan(tuple(stretch(out, s) for s in shapes), (out,) * len(types_of(node.type)))


_COMBINED = {"add": "sum", "max": "amax", "min": "amin", "and": "amin", "or": "amax"}


def _reduce(node: Node, layouts: Sequence[Layout], place: Place) -> Plan | None:
    (layout,), (shape,) = layouts, shapes_of(node)
    dims, combine = node.attrs["dims"], node.op.lowering.combine
    if combine not in _COMBINED:
        return None
    if combine in ("max", "min"):  # of which there is none of no elements
        layout = tuple([
            None if d in dims and split and place.has_empty(shape[d], split) else split
            for d, split in enumerate(layout)
        ])  # fmt: skip
    partial = tuple(sorted(s.axis for d, s in enumerate(layout) if d in dims and s))
    kept = [None if d in dims else s for d, s in enumerate(layout)]
    if not node.attrs["keepdim"]:
        kept = [s for d, s in enumerate(kept) if d not in dims]
    return Plan((layout,), (tuple(kept),), partial, _COMBINED[combine])


def _matmul(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    x, y = layouts
    shapes = shapes_of(node)
    batch = meet(
        max(map(len, shapes)) - 2, [s[:-2] for s in shapes], [layout[:-2] for layout in layouts]
    )
    inner = x[-1] or y[-2]
    *front, rows, inner, columns = once_each([*batch, x[-2], inner, y[-1]])
    first = (*stretch(front, shapes[0][:-2]), rows, inner)
    second = (*stretch(front, shapes[1][:-2]), inner, columns)
    partial = () if inner is None else (inner.axis,)
    return Plan((first, second), ((*front, rows, columns),), partial)


def _correlate(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    rows = layouts[0][0]
    rest = whole(node.tensor_type.ndim - 1)
    return Plan(((rows, *rest), whole(len(layouts[1]))), ((rows, *rest),))


def _correlate_kernel(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    rows = layouts[0][0] or layouts[1][0]
    rest = whole(node.args[0].tensor_type.ndim - 1)
    partial = () if rows is None else (rows.axis,)
    return Plan(((rows, *rest),) * 2, (whole(node.tensor_type.ndim),), partial)


def _planes(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    """Images (N, C, ...), each by itself."""
    rows, channels = once_each([
        next((layout[d] for layout in layouts if layout[d]), None) for d in (0, 1)
    ])  # fmt: skip
    results = tuple((rows, channels, *whole(t.ndim - 2)) for t in types_of(node.type))
    arguments = tuple((rows, channels, *whole(len(layout) - 2)) for layout in layouts)
    return Plan(arguments, results)


def _alike(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    """Its argument, where others, whole, allow it."""
    others = (whole(len(layout)) for layout in layouts[1:])
    return Plan((layouts[0], *others), (layouts[0],))


def _select(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    dim, (layout,) = node.attrs["dim"], layouts
    kept = tuple([None if d == dim else s for d, s in enumerate(layout)])
    return Plan((kept,), (kept[:dim] + kept[dim + 1 :],))


def _rows(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    """An op along one dim of operands of one shape."""
    met = meet(node.args[0].tensor_type.ndim, shapes_of(node), layouts)
    met[node.attrs["dim"]] = None
    out = once_each(met)
    return Plan((out,) * len(layouts), (out,))


def _along(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    """An op along one dim of its argument, which a result may be without."""
    dim, (layout,) = node.attrs["dim"], layouts
    kept = tuple([None if d == dim else s for d, s in enumerate(layout)])
    without = kept[:dim] + kept[dim + 1 :]
    results = tuple(kept if t.ndim == len(kept) else without for t in types_of(node.type))
    return Plan((kept,), results)


# -- attention -----------------------------------------------------------------------------------


def _attend(node: Node, layouts: Sequence[Layout], place: Place) -> Plan | None:
    """Batches, heads and queries, each by itself, of whole keys and values. None where these are
    split over another axis than the queries."""
    *front, queries, keys = _parts_of_attention(node, layouts, layouts[0][-2])
    if keys is not None:
        return None
    rows = (*front, queries)
    extras = [stretch((*rows, None), s) for s in shapes_of(node)[3:]]
    whole_rows = (*front, None, None)
    return Plan(((*rows, None), whole_rows, whole_rows, *extras), ((*rows, None), rows, rows))


def _attend_back(node: Node, layouts: Sequence[Layout], place: Place) -> Plan | None:
    """Each rank's queries have their share of the gradients of all keys and values; a rank has its
    part of the sums if it had that of the keys. None as for attention itself."""
    first = layouts[0][-2] or layouts[3][-2] or layouts[4][-1]
    *front, queries, keys = _parts_of_attention(node, layouts, first)
    if keys is not None:
        return None
    rows, others = (*front, queries), (*front, None, None)
    extras = [stretch((*rows, None), s) for s in shapes_of(node)[7:]]
    arguments = ((*rows, None), others, others, (*rows, None), *(rows,) * 3, *extras)
    scores = ((*rows, None),) if node.attrs.get("with_scores") else ()
    if queries is None:
        return Plan(arguments, ((others,) * 3) + scores)
    own = layouts[1][-2] or layouts[2][-2]
    sums = (*front, own if own and own.axis == queries.axis else None, None)
    results = ((*rows, None), sums, sums, *scores)
    return Plan(arguments, results, (queries.axis,), shares=(1, 2))


def _parts_of_attention(node: Node, layouts: Sequence[Layout], queries: Split | None) -> Layout:
    """How batches and heads, queries, and keys are split."""
    keys = layouts[1][-2] or layouts[2][-2]
    return once_each([*_batch_of(node, layouts), queries, keys])


def _batch_of(node: Node, layouts: Sequence[Layout]) -> Layout:
    count = len(layouts[0]) - 2
    return once_each(
        meet(count, [s[:-2] for s in shapes_of(node)[:3]], [layout[:-2] for layout in layouts[:3]])
    )


# -- views and joins -----------------------------------------------------------------------------


def _permute(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    (layout,) = layouts
    return Plan((layout,), (tuple(layout[d] for d in node.attrs["dims"]),))


def _transpose(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    out = list(layouts[0])
    i, j = node.attrs["dim0"], node.attrs["dim1"]
    out[i], out[j] = out[j], out[i]
    return Plan((layouts[0],), (tuple(out),))


def _t(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    return Plan((layouts[0],), (layouts[0][::-1],))


def turn_back(node: Node, layout: Layout) -> Layout | None:
    """The layout of the argument of a node that only changes the order of dims, where that has this
    one; None of any other node."""
    places = list(range(len(layout)))
    if node.op is permute_op:
        places = list(node.attrs["dims"])
    elif node.op is t_op:
        places = places[::-1]
    elif node.op is transpose_op:
        i, j = node.attrs["dim0"], node.attrs["dim1"]
        places[i], places[j] = j, i
    else:
        return None
    return tuple([layout[places.index(d)] for d in range(len(layout))])


def _flip(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    kept = tuple([None if d in node.attrs["dims"] else s for d, s in enumerate(layouts[0])])
    return Plan((kept,), (kept,))


def _expand(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    shape = node.args[0].tensor_type.shape
    out = (*whole(node.tensor_type.ndim - len(shape)), *stretch(layouts[0], shape))
    return Plan((out[len(out) - len(shape) :],), (out,), shape="shape")


def _cut(shape: str) -> Rule:
    """A slice, or its transpose: dims that are taken as they are stay split."""

    def rule(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
        sizes = zip(node.args[0].tensor_type.shape, node.tensor_type.shape, strict=True)
        steps = zip(node.attrs["start"], node.attrs["step"], strict=True)
        kept = tuple([
            split if same(a, b) and same(start, 0) and same(step, 1) else None
            for split, (a, b), (start, step) in zip(layouts[0], sizes, steps, strict=True)
        ])  # fmt: skip
        return Plan((kept,), (kept,), shape=shape)

    return rule


def _cat(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    met = meet(node.tensor_type.ndim, shapes_of(node), layouts)
    met[node.attrs["dim"]] = None
    out = once_each(met)
    return Plan((out,) * len(layouts), (out,))


def _stack(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    dim = node.attrs["dim"]
    out = once_each(meet(node.tensor_type.ndim - 1, shapes_of(node), layouts))
    return Plan((out,) * len(layouts), ((*out[:dim], None, *out[dim:]),))


def _reshape(shape: str) -> Rule:
    """Elements in their order: a split dim stays one, joined with others or parted into some."""

    def rule(node: Node, layouts: Sequence[Layout], place: Place) -> Plan | None:
        (layout,), source, target = layouts, node.args[0].tensor_type.shape, node.tensor_type.shape
        kept: list[Split | None] = [None] * len(source)
        out: list[Split | None] = [None] * len(target)
        groups = _matching(source, target)
        if groups is None:
            return None
        for ins, outs in groups:
            for d in ins:
                split = layout[d]
                found = split and _move_split(split, d, source, ins, target, outs)
                if found:
                    kept[d], out[found[0]] = split, found[1]
                    break
        return Plan((tuple(kept),), (tuple(out),), shape=shape)

    return rule


def _move_split(
    split: Split, d: int, source: Shape, ins: range, target: Shape, outs: range
) -> tuple[int, Split] | None:
    """Which of the dims ``outs`` is split, and how, where the dim ``d`` of ``ins`` was: so many
    elements lie before the split ones, and behind each of these."""
    before = split.outer * prod(source[i] for i in ins if i < d)
    behind = prod(source[i] for i in ins if i > d)
    elements, size = split.chunk * behind, source[d] // split.outer * behind
    for to in reversed(outs):
        first = prod(target[i] for i in outs if i < to)
        inner = prod(target[i] for i in outs if i > to)
        if same(target[to], 1) or same(first, 0) or same(inner, 0):
            continue
        outer, chunk = before // first, elements // inner
        if (
            same(outer * first, before)
            and same(chunk * inner, elements)
            and same(outer * (size // inner), target[to])
        ):
            return to, Split(split.axis, chunk, outer)
    return None


def _matching(source: Shape, target: Shape) -> list[tuple[range, range]] | None:
    """The dims of two shapes of as many elements in groups, from the front, that have as many in
    either; None where that cannot be told."""
    found: list[tuple[range, range]] = []
    i = j = 0
    while i < len(source) or j < len(target):
        ends = _group_ends(source[i:], target[j:])
        if ends is None:
            return None
        found.append((range(i, i + ends[0]), range(j, j + ends[1])))
        i, j = i + ends[0], j + ends[1]
    return found


def _group_ends(source: Shape, target: Shape) -> tuple[int, int] | None:
    """How many dims, the least that there may be, have as many elements in either shape."""
    for total in range(1, len(source) + len(target) + 1):
        for n in range(max(0, total - len(target)), min(total, len(source)) + 1):
            if same(_product(source[:n]), _product(target[: total - n])):
                return n, total - n
    return None


def _product(sizes: Sequence[Size]) -> Size:
    return prod(sizes)


_RULES: dict[Op, Rule] = {
    attend_back_op: _attend_back,
    attend_op: _attend,
    argmax_op: _along,
    asserted_op: _alike,
    argmin_op: _along,
    cat_op: _cat,
    class_op: _elementwise,
    correlate_kernel_op: _correlate_kernel,
    correlate_op: _correlate,
    cummax_op: _along,
    cummin_op: _along,
    cumprod_op: _along,
    cumsum_op: _along,
    embed_op: _cut("shape"),
    expand_op: _expand,
    flip_op: _flip,
    logcumsumexp_op: _along,
    matmul_op: _matmul,
    max_pool_index_op: _planes,
    max_pool_op: _planes,
    permute_op: _permute,
    place_gather_op: _planes,
    place_scatter_op: _planes,
    recurrence_op: _rows,
    required_op: _alike,
    reshape_op: _reshape("shape"),
    select_op: _select,
    shift_op: _rows,
    slice_op: _cut("size"),
    sort_op: _along,
    squeeze_op: _reshape(""),
    stack_op: _stack,
    t_op: _t,
    transpose_op: _transpose,
    unsqueeze_op: _reshape(""),
}


def rule_of(op: Op) -> Rule | None:
    """The rule of an op; None where it has none."""
    if op in _RULES:
        return _RULES[op]
    if op in INDEX_RULES:
        return INDEX_RULES[op]
    if isinstance(op.lowering, Elementwise):
        return _elementwise
    return _reduce if isinstance(op.lowering, Reduce) else None
