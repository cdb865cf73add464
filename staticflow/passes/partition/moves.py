"""From one layout of a tensor to another: parts that are gathered or dealt out anew, and whole
tensors that are cut.

What is sent since an op takes it otherwise than it is split is noted, so that nobody pays for it
unawares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, prod, same
from staticflow.graph.graph import Graph, regions_of
from staticflow.graph.locs import Locs, merge_locs
from staticflow.graph.node import Node
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.along.collectives import (
    all_gather_op,
    all_to_all_op,
    broadcast_op,
    exchange_op,
    shard_op,
)
from staticflow.ops.basics.slicing import embed_op, slice_op
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.late import tied_op
from staticflow.ops.indexing.roll_repeat import roll_op
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.partition.layouts import Layout, Place, Split, same_layout

__all__ = ["Moved", "cut_to_parts", "in_words", "move", "moves_left", "note_move"]


@dataclass(frozen=True, slots=True)
class Moved:
    """A tensor of the type ``kind``, which is split as ``now`` says, and ``wanted`` otherwise by
    its ``readers``, the names of ops, or as a result. For that it is gathered or dealt out over the
    ``axes``, and each rank sends so many ``bytes``."""

    kind: TensorType
    now: str
    wanted: str
    axes: tuple[int, ...]
    readers: tuple[str, ...]
    locs: Locs
    bytes: Size


def move(value: Symbol, shape: Shape, now: Layout, layout: Layout, place: Place) -> Symbol:
    """A rank's part, in a layout, of a tensor of this ``shape`` of which it has that of the layout
    ``now``: gathered where a dim is split otherwise, or dealt out where another dim is split over
    the same axis then, and cut where it is whole."""
    sends, current = _sends_between(now, layout)
    for d, to, _ in sends:
        if to is None:
            value = _in_stretches(_gather, value, d, shape[d], now[d], place)
        else:
            value = _deal_out(value, d, to, shape, (now[d], layout[to]), place)
    cuts = {d: b for d, (a, b) in enumerate(zip(current, layout, strict=True)) if b and not a}
    if all(same(b.outer, 1) for b in cuts.values()):
        return cut_to_parts(value, {d: (shape[d], b) for d, b in cuts.items()}, place)
    for d, b in cuts.items():
        value = _in_stretches(_cut_one, value, d, shape[d], b, place)
    return value


def _sends_between(
    now: Layout, layout: Layout
) -> tuple[list[tuple[int, int | None, Layout]], Layout]:
    """The steps by which a tensor goes from the layout ``now`` to ``layout``, and the layout behind
    them. A step is a dim that is not split as wanted, the dim that is split over its axis instead,
    or None where all of it is gathered, and the layout before the step."""
    current, found = list(now), list[tuple[int, int | None, Layout]]()
    for d, (a, b) in enumerate(zip(now, layout, strict=True)):
        if a is None or same_layout((a,), (b,)):
            continue
        to = _dealt_to(d, current, layout)
        found.append((d, to, tuple(current)))
        current[d] = None
        if to is not None:
            current[to] = layout[to]
    return found, tuple(current)


def _dealt_to(d: int, now: Sequence[Split | None], layout: Layout) -> int | None:
    """The dim, whole now, that is to be split over the axis that splits ``d``; None if there is
    none, and where a dim is in stretches."""
    split = now[d]
    for to, wanted in enumerate(layout):
        if split and wanted and now[to] is None and wanted.axis == split.axis:
            return to if same(split.outer, 1) and same(wanted.outer, 1) else None
    return None


def _deal_out(
    value: Symbol,
    dim: int,
    to: int,
    shape: Shape,
    splits: tuple[Split | None, Split | None],
    place: Place,
) -> Symbol:
    """A rank's part of a dim ``to`` of what it has a part of along ``dim``, for as many bytes as
    that has. Both are filled up to a multiple of the first part, and cut off again."""
    before, after = splits
    assert before is not None and after is not None
    ranks = place.shape[before.axis]
    none, one = (0,) * len(shape), (1,) * len(shape)
    padded = list(value.node.tensor_type.shape)
    padded[dim], padded[to] = before.chunk, after.chunk * ranks
    if not all(map(same, padded, value.node.tensor_type.shape)):
        value = embed_op(value, shape=tuple(padded), start=none, step=one)
    value = all_to_all_op(value, mesh=place.shape, axes=(before.axis,), dim0=to, dim1=dim)
    exact = list(value.node.tensor_type.shape)
    exact[dim], exact[to] = shape[dim], place.part(shape[to], after)[1]
    if not all(map(same, exact, value.node.tensor_type.shape)):
        value = slice_op(value, start=none, size=tuple(exact), step=one)
    return value


Move = Callable[[Symbol, int, Size, Split, Place], Symbol]


def _in_stretches(
    do: Move, value: Symbol, dim: int, size: Size, split: Split | None, place: Place
) -> Symbol:
    """What a function makes of a dim, done to each of its stretches."""
    assert split is not None
    outer = split.outer
    if same(outer, 1):
        return do(value, dim, size, split, place)
    shape = value.node.tensor_type.shape
    apart = (*shape[:dim], outer, shape[dim] // outer, *shape[dim + 1 :])
    value = do(reshape(value, apart), dim + 1, size // outer, replace(split, outer=1), place)
    shape = value.node.tensor_type.shape
    joined: Symbol = reshape(value, (*shape[:dim], outer * shape[dim + 1], *shape[dim + 2 :]))
    return joined


def _cut_one(value: Symbol, dim: int, size: Size, split: Split, place: Place) -> Symbol:
    return cut_to_parts(value, {dim: (size, split)}, place)


def cut_to_parts(value: Symbol, parts: Mapping[int, tuple[Size, Split]], place: Place) -> Symbol:
    """A slice that has this rank's part of some dims, each of which has a size and is split so.

    It is of ``value`` marked by a `shard` with the numbers of the axes, until `send_less` takes
    that away: a slice of the user's that is like one rank's part, and a part along another axis,
    are told apart on all ranks alike.
    """
    if not parts:
        return value
    size = list(value.node.tensor_type.shape)
    start: list[Size] = [0] * len(size)
    spec = [""] * len(size)
    for d, (whole, split) in parts.items():
        start[d], size[d] = place.part(whole, split)
        spec[d] = str(split.axis)
    marked = shard_op(value, spec=tuple(spec))
    found: Symbol = slice_op(marked, start=tuple(start), size=tuple(size), step=(1,) * len(size))
    return found


def _gather(value: Symbol, dim: int, size: Size, split: Split, place: Place) -> Symbol:
    """The parts of all ranks along a dim: each is filled up to as many elements as the first has,
    and what is too much at the end is cut off."""
    shape = value.node.tensor_type.shape
    none, one = (0,) * len(shape), (1,) * len(shape)
    chunk, axis = split.chunk, split.axis
    if not same(shape[dim], chunk):
        padded = (*shape[:dim], chunk, *shape[dim + 1 :])
        value = embed_op(value, shape=padded, start=none, step=one)
    value = all_gather_op(value, mesh=place.shape, axes=(axis,), dim=dim)
    if not same(chunk * place.shape[axis], size):
        exact = (*shape[:dim], size, *shape[dim + 1 :])
        value = slice_op(value, start=none, size=exact, step=one)
    return value


# -- what is sent --------------------------------------------------------------------------------


def note_move(
    node: Node, now: Layout, layout: Layout, user: Node | str, place: Place, names: Sequence[str]
) -> Moved | None:
    """The `Moved` row of `explain("mesh")` for a node whose layout, ``now``, is not the ``layout``
    that its user wants (an op, or in words a result), on a mesh with axes of these names; None
    where nothing is sent."""
    kind, axes = node.tensor_type, list[int]()
    sent: Size = 0
    for d, to, before in _sends_between(now, layout)[0]:
        split, after = now[d], None if to is None else layout[to]
        assert split is not None
        local = list(place.local(kind.shape, before))
        local[d] = split.outer * split.chunk
        if to is not None and after is not None:
            local[to] = after.chunk
        sent = sent + prod(local) * kind.dtype.itemsize * (place.shape[split.axis] - 1)
        axes.append(split.axis)
    if not axes:
        return None
    reader, locs = (user, node.locs) if isinstance(user, str) else (user.op.name, user.locs)
    readers = () if reader == tied_op.name else (reader,)
    return Moved(
        kind, in_words(now, names), in_words(layout, names), tuple(axes), readers,
        locs, sent,
    )  # fmt: skip


def in_words(layout: Layout, names: Sequence[str]) -> str:
    """A layout as a user says it to ``shard``."""
    return ", ".join("None" if split is None else names[split.axis] for split in layout)


def moves_left(found: Sequence[tuple[Node, Moved]], graph: Graph) -> tuple[Moved, ...]:
    """Those, of nodes, for which the graph has a collective: what nobody needs is not in it. What
    several ops want alike is sent once, and what a loop was sent is not sent again on the way back.
    """
    left: Counter[object] = Counter()

    def walk(g: Graph) -> None:
        for n in g.nodes:
            if n.op in (all_gather_op, all_to_all_op, broadcast_op, exchange_op):
                left.update((n.attrs["axes"], n.tensor_type.dtype, loc) for loc in n.locs)
            for region in regions_of(n):
                walk(region)

    walk(graph)
    each: dict[tuple[Node, str], Moved] = {}
    for node, m in found:
        keys = [((axis,), m.kind.dtype, loc) for axis in m.axes for loc in m.locs]
        if not any(left[key] > 0 for key in keys):
            continue
        if m.readers == (roll_op.name,):
            left.subtract(keys)
        before = each.setdefault((node, m.wanted), m)
        readers = tuple(dict.fromkeys((*before.readers, *m.readers)))
        each[node, m.wanted] = replace(
            before, readers=readers, locs=merge_locs(before.locs, m.locs)
        )
    return tuple(each.values())
