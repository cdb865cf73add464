"""What each op does with operands that are split: which layouts it takes, and what its results are.

A rule is given a node of whole tensors and the layouts of its arguments, and says a `Plan`, or None
where it has none; the arguments are then said in other ops, or whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, prod, same
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.graph.types import Shape, types_of
from staticflow.ops.along.class_losses import class_op
from staticflow.ops.along.cumulative import cumprod_op, cumsum_op
from staticflow.ops.along.extremes import argmax_op, argmin_op
from staticflow.ops.along.order import sort_op
from staticflow.ops.basics.axes import flip_op, permute_op, transpose_op
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.joining import cat_op, stack_op
from staticflow.ops.basics.slicing import embed_op, slice_op
from staticflow.ops.basics.view import reshape_op, squeeze_op, unsqueeze_op
from staticflow.ops.declaring.lowering import Elementwise, Reduce
from staticflow.ops.matrices.contract import matmul_op
from staticflow.ops.windows.correlate import correlate_kernel_op, correlate_op
from staticflow.ops.windows.pooling import (
    max_pool_index_op,
    max_pool_op,
    place_gather_op,
    place_scatter_op,
)
from staticflow.passes.partition.layouts import Layout, Place, Split, whole

__all__ = ["Plan", "Rule", "rule_of"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The layouts that the arguments are brought to, and those of the results. Each rank has a
    part of what is to be combined over the ``partial`` axes, as ``reduce`` says. ``shape`` names
    the attribute that is the shape of the result, if there is one."""

    arguments: tuple[Layout, ...]
    results: tuple[Layout, ...]
    partial: tuple[int, ...] = ()
    reduce: str = "sum"
    shape: str = ""


Rule = Callable[[Node, Sequence[Layout], Place], Plan | None]


def _shapes(node: Node) -> list[Shape]:
    return [a.tensor_type.shape for a in node.args]


def _once_each(layout: Sequence[Split | None]) -> Layout:
    """A layout in which each axis splits one dim: the first that has it."""
    used: set[int] = set()
    found: list[Split | None] = []
    for split in layout:
        kept = split if split is not None and split.axis not in used else None
        found.append(kept)
        used |= {kept.axis} if kept else set()
    return tuple(found)


def _meet(ndim: int, shapes: Sequence[Shape], layouts: Sequence[Layout]) -> list[Split | None]:
    """How the dims of a result are split to which operands are broadcast: as in the first operand
    that has them split."""
    out: list[Split | None] = [None] * ndim
    for shape, layout in zip(shapes, layouts, strict=True):
        for d, split in enumerate(layout, ndim - len(shape)):
            out[d] = out[d] or split
    return out


def _stretch(out: Sequence[Split | None], shape: Shape) -> Layout:
    """The layout of an operand of this shape that is broadcast to one of the layout ``out``."""
    return tuple([
        None if same(size, 1) else split
        for size, split in zip(shape, out[len(out) - len(shape) :], strict=True)
    ])  # fmt: skip


def _elementwise(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    shapes = _shapes(node)
    out = _once_each(_meet(max(map(len, shapes)), shapes, layouts))
    return Plan(tuple(_stretch(out, s) for s in shapes), (out,) * len(types_of(node.type)))


_COMBINED = {"add": "sum", "max": "amax", "min": "amin", "and": "amin", "or": "amax"}


def _reduce(node: Node, layouts: Sequence[Layout], place: Place) -> Plan | None:
    (layout,), (shape,) = layouts, _shapes(node)
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
    shapes = _shapes(node)
    batch = _meet(
        max(map(len, shapes)) - 2, [s[:-2] for s in shapes], [layout[:-2] for layout in layouts]
    )
    inner = x[-1] or y[-2]
    *front, rows, inner, columns = _once_each([*batch, x[-2], inner, y[-1]])
    first = (*_stretch(front, shapes[0][:-2]), rows, inner)
    second = (*_stretch(front, shapes[1][:-2]), inner, columns)
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
    rows, channels = _once_each([
        next((layout[d] for layout in layouts if layout[d]), None) for d in (0, 1)
    ])  # fmt: skip
    results = tuple((rows, channels, *whole(t.ndim - 2)) for t in types_of(node.type))
    arguments = tuple((rows, channels, *whole(len(layout) - 2)) for layout in layouts)
    return Plan(arguments, results)


def _along(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    """An op along one dim of its argument, which a result may be without."""
    dim, (layout,) = node.attrs["dim"], layouts
    kept = tuple([None if d == dim else s for d, s in enumerate(layout)])
    without = kept[:dim] + kept[dim + 1 :]
    results = tuple(kept if t.ndim == len(kept) else without for t in types_of(node.type))
    return Plan((kept,), results)


# -- views and joins -----------------------------------------------------------------------------


def _permute(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    (layout,) = layouts
    return Plan((layout,), (tuple(layout[d] for d in node.attrs["dims"]),))


def _transpose(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    out = list(layouts[0])
    i, j = node.attrs["dim0"], node.attrs["dim1"]
    out[i], out[j] = out[j], out[i]
    return Plan((layouts[0],), (tuple(out),))


def _flip(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    kept = tuple([None if d in node.attrs["dims"] else s for d, s in enumerate(layouts[0])])
    return Plan((kept,), (kept,))


def _expand(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    shape = node.args[0].tensor_type.shape
    out = (*whole(node.tensor_type.ndim - len(shape)), *_stretch(layouts[0], shape))
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
    met = _meet(node.tensor_type.ndim, _shapes(node), layouts)
    met[node.attrs["dim"]] = None
    out = _once_each(met)
    return Plan((out,) * len(layouts), (out,))


def _stack(node: Node, layouts: Sequence[Layout], place: Place) -> Plan:
    dim = node.attrs["dim"]
    out = _once_each(_meet(node.tensor_type.ndim - 1, _shapes(node), layouts))
    return Plan((out,) * len(layouts), ((*out[:dim], None, *out[dim:]),))


def _reshape(shape: str) -> Rule:
    """Elements in their order: a split dim stays one where it comes first among those that it is
    joined with, or parted into."""

    def rule(node: Node, layouts: Sequence[Layout], place: Place) -> Plan | None:
        (layout,), source, target = layouts, node.args[0].tensor_type.shape, node.tensor_type.shape
        kept: list[Split | None] = [None] * len(source)
        out: list[Split | None] = [None] * len(target)
        groups = _matching(source, target)
        if groups is None:
            return None
        for ins, outs in groups:
            first = next((d for d in ins if not same(source[d], 1)), None)
            to = next((d for d in outs if not same(target[d], 1)), None)
            if first is None or to is None or layout[first] is None:
                continue
            split = layout[first]
            assert split is not None
            elements = split.chunk * prod(source[d] for d in ins if d > first)
            inner = prod(target[d] for d in outs if d > to)
            if same(inner, 0) or not same(elements // inner * inner, elements):
                continue
            kept[first], out[to] = split, Split(split.axis, elements // inner)
        return Plan((tuple(kept),), (tuple(out),), shape=shape)

    return rule


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
    argmax_op: _along,
    argmin_op: _along,
    cat_op: _cat,
    class_op: _elementwise,
    correlate_kernel_op: _correlate_kernel,
    correlate_op: _correlate,
    cumprod_op: _along,
    cumsum_op: _along,
    embed_op: _cut("shape"),
    expand_op: _expand,
    flip_op: _flip,
    matmul_op: _matmul,
    max_pool_index_op: _planes,
    max_pool_op: _planes,
    permute_op: _permute,
    place_gather_op: _planes,
    place_scatter_op: _planes,
    reshape_op: _reshape("shape"),
    slice_op: _cut("size"),
    sort_op: _along,
    squeeze_op: _reshape(""),
    stack_op: _stack,
    transpose_op: _transpose,
    unsqueeze_op: _reshape(""),
}


def rule_of(op: Op) -> Rule | None:
    """The rule of an op; None where it has none."""
    if op in _RULES:
        return _RULES[op]
    if isinstance(op.lowering, Elementwise):
        return _elementwise
    return _reduce if isinstance(op.lowering, Reduce) else None
