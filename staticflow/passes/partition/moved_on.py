"""Elements that go from part to part of a split dim: those that are rolled on, which a pipeline of
stages and keys that go round are written with, and one that all ranks take.

Each rank sends what it has to the one that is to have it, so that no rank ever has the whole (Xu et
al. 2021, arXiv:2105.04663, section 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from staticflow.graph.dims import Size, same
from staticflow.graph.locs import using
from staticflow.graph.node import Node
from staticflow.ops.along.collectives import broadcast_op, exchange_op
from staticflow.ops.basics.joining import cat_op
from staticflow.ops.basics.slicing import select_op
from staticflow.ops.basics.splitting import part_of
from staticflow.ops.declaring.late import behind
from staticflow.ops.indexing.roll_repeat import roll_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.partition.layouts import Layout, Split
from staticflow.passes.partition.moves import Moved, in_words

if TYPE_CHECKING:
    from staticflow.passes.partition.partition import Walk

__all__ = ["take_from_parts"]


def take_from_parts(
    node: Node, layouts: Sequence[Layout], walk: Walk
) -> tuple[Node, tuple[Layout, ...]] | None:
    """The result of ``roll`` or ``select`` along a split dim, and its layout. None of any other
    node, and where it is not known which rank has what."""
    if node.op not in (roll_op, select_op):
        return None
    (x,), (layout,), dim = node.args, layouts, node.attrs["dim"]
    split, size = layout[dim], x.tensor_type.shape[dim]
    if split is None or not same(split.outer, 1) or not isinstance(size, int):
        return None
    own = walk.local[x][0]
    with using(node.locs), behind((own,)):
        if node.op is select_op:
            found = _select(Symbol(own), dim, node.attrs["index"], size, split, walk)
        else:
            found = _roll(Symbol(own), dim, node.attrs["shift"], size, split, walk)
    if found is None:
        return None
    result, sent = found
    is_select = node.op is select_op
    wanted = (*layout[:dim], None, *layout[dim + 1 :]) if is_select else layout
    walk.moved.append((x, Moved(
        x.tensor_type, in_words(layout, walk.names), in_words(wanted, walk.names), (split.axis,),
        (node.op.name,), node.locs, sent,
    )))  # fmt: skip
    return result.node, ((*layout[:dim], *layout[dim + 1 :]) if is_select else layout,)


def _select(
    own: Symbol, dim: int, index: object, size: int, split: Split, walk: Walk
) -> tuple[Symbol, Size] | None:
    """The element, which one rank has and sends to all others, and the bytes of that. Each must
    have one to begin with."""
    if not isinstance(index, int) or walk.place.has_empty(size, split):
        return None
    chunk, count = split.chunk, walk.place.part(size, split)[1]
    assert isinstance(chunk, int) and isinstance(count, int)
    root, at = divmod(index, chunk)
    found: Symbol = broadcast_op(
        select_op(own, dim=dim, index=min(at, count - 1)),
        mesh=walk.place.shape, axes=(split.axis,), root=root,
    )  # fmt: skip
    return found, _bytes_of(found) * (walk.place.shape[split.axis] - 1)


def _roll(
    own: Symbol, dim: int, shift: object, size: int, split: Split, walk: Walk
) -> tuple[Symbol, Size] | None:
    """The part of what is moved on by ``shift``, where all parts are equal: the last elements of
    one rank's part, and the first of the next one's; and the bytes that a rank sends."""
    ranks = walk.place.shape[split.axis]
    if not isinstance(shift, int) or size % ranks or not size:
        return None
    chunk = size // ranks
    if not same(split.chunk, chunk):  # rows that were joined: a rank may have more, others none
        return None
    by, rest = divmod(shift % size, chunk)

    sent: list[Size] = [0]

    def send(x: Symbol, by: int) -> Symbol:
        if by % ranks == 0:
            return x
        sent.append(_bytes_of(x))
        everyone = tuple(range(ranks))
        found: Symbol = exchange_op(
            x, mesh=walk.place.shape, axes=(split.axis,), senders=everyone,
            receivers=tuple([(i + by) % ranks for i in everyone]),
        )  # fmt: skip
        return found

    if rest == 0:
        return send(own, by), sum(sent)
    last, first = part_of(own, dim, chunk - rest, rest), part_of(own, dim, 0, chunk - rest)
    found: Symbol = cat_op(send(last, by + 1), send(first, by), dim=dim)
    return found, sum(sent)


def _bytes_of(x: Symbol) -> Size:
    kind = x.node.tensor_type
    return kind.size * kind.dtype.itemsize
