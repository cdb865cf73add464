"""Slices that indices name, of a tensor that is split along the dim that they go: embeddings whose
words are split.

Each rank has the slices of its own part, and zeros for the others; their sum over the ranks has all
(Shoeybi et al. 2019, arXiv:1909.08053, section 3). In the gradient each rank adds up what falls in
its part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from staticflow.graph.dims import Size, same
from staticflow.graph.dtypes import bool_
from staticflow.graph.locs import using
from staticflow.graph.node import Node
from staticflow.ops.along.collectives import all_reduce_op
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.declaring.late import behind
from staticflow.ops.indexing.index_ops import (
    embedding_op,
    index_op,
    index_put_op,
    index_select_op,
)
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.partition.index_rules import INDEX_RULES, is_zero
from staticflow.passes.partition.layouts import Layout, Split, same_layout

if TYPE_CHECKING:
    from staticflow.passes.partition.partition import Walk

__all__ = ["add_up_part", "pick_from_parts"]


def pick_from_parts(
    node: Node, layouts: Sequence[Layout], walk: Walk
) -> tuple[Node, tuple[Layout, ...]] | None:
    """The result of a choice of slices, and its layout, where the dim is split; None of any other
    node, and where a rank may have no slice at all."""
    if node.op not in (embedding_op, index_op, index_select_op) or len(node.attrs["dims"]) != 1:
        return None
    x, index = node.args
    (d,), split = node.attrs["dims"], layouts[0][node.attrs["dims"][0]]
    size = x.tensor_type.shape[d]
    if split is None or not _can_be_masked(split, size, layouts[1], walk):
        return None
    if x.tensor_type.dtype is bool_:
        return None
    others = tuple([None if i == d else s for i, s in enumerate(layouts[0])])
    plan = INDEX_RULES[node.op](node, [others, layouts[1]], walk.place)
    if plan is None or any(s and s.axis == split.axis for s in plan.results[0]):
        return None
    part = tuple([split if i == d else s for i, s in enumerate(plan.arguments[0])])
    mine, at = walk.take(x, part, node), walk.take(index, plan.arguments[1], node)
    with using(node.locs), behind((mine, at)):
        own, safe = _own(Symbol(at), size, split, walk, wrap=node.op is not embedding_op)
        found = node.op(Symbol(mine), safe, **node.attrs)
        tail = node.tensor_type.ndim - d - at.tensor_type.ndim
        total = all_reduce_op(
            where(_with_dims(own, tail), found, 0),
            mesh=walk.place.shape, axes=(split.axis,), reduce="sum",
        )  # fmt: skip
    return total.node, plan.results


def add_up_part(node: Node, layout: Layout, walk: Walk) -> Node | None:
    """This rank's part of slices that are added up in zeros where indices say, along the dim that
    these go; None of any other node or layout."""
    if node.op is not index_put_op or not node.attrs["accumulate"] or not is_zero(node.args[0]):
        return None
    zeros, values, *indices = node.args
    (d, *more), shape = node.attrs["dims"], zeros.tensor_type.shape
    split = layout[d]
    if more or split is None or zeros.tensor_type.dtype is bool_:
        return None
    plan = INDEX_RULES[node.op](node, [walk.local[a][1][0] for a in node.args], walk.place)
    if plan is None or not _can_be_masked(split, shape[d], plan.arguments[2], walk):
        return None
    result = tuple([split if i == d else s for i, s in enumerate(plan.results[0])])
    if split.axis in plan.partial or not same_layout(result, layout):
        return None
    given = walk.take(values, plan.arguments[1], node)
    at = walk.take(indices[0], plan.arguments[2], node)
    with using(node.locs), behind((given, at)):
        own, safe = _own(Symbol(at), shape[d], split, walk, wrap=True)
        tail = node.args[1].tensor_type.ndim - d - at.tensor_type.ndim
        empty = full.beside(
            Symbol(given), shape=walk.place.local(shape, layout), value=0,
            dtype=zeros.tensor_type.dtype,
        )  # fmt: skip
        found = index_put_op(
            empty, where(_with_dims(own, tail), Symbol(given), 0), safe, **node.attrs
        )
        if plan.partial:
            found = all_reduce_op(found, mesh=walk.place.shape, axes=plan.partial, reduce="sum")
    made: Node = found.node
    return made


def _can_be_masked(split: Split, size: Size, index: Layout, walk: Walk) -> bool:
    """Whether each rank has a slice, which it takes where an index is another's, and all indices of
    the others."""
    is_apart = all(s is None or s.axis != split.axis for s in index)
    return same(split.outer, 1) and not walk.place.has_empty(size, split) and is_apart


def _own(index: Any, size: Size, split: Split, walk: Walk, *, wrap: bool) -> tuple[Any, Any]:
    """Which indices name a slice of this rank's part, and all of them counted within it: 0 where
    they name another's, and as wrong as before where they name none."""
    start, count = walk.place.part(size, split)
    index = where(index < 0, index + size, index) if wrap else index
    local = index - start
    own = (local >= 0) & (local < count)
    others = (index >= 0) & (index < size) & ~own
    wrong_below = where(index < 0, index - size, local)  # which no part takes for its last
    return own, where(others, 0, wrong_below)


def _with_dims(own: Any, count: int) -> Any:
    for _ in range(count):
        own = unsqueeze(own, -1)
    return own
