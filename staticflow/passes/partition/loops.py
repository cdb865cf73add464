"""Loops over what is split: each rank runs the iterations on its part.

A carry is split as it begins or as an iteration gives it, so the body is followed until its carries
end as they begin. A carry that only adds up, as the gradient of a weight over time, adds up this
rank's share, and the ranks' shares are added up once, behind the loop. So are those of a sum that
each iteration gives a row of, as the losses of micro-batches and the gradients of stacked layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from staticflow.graph.graph import Graph, close
from staticflow.graph.locs import using
from staticflow.graph.node import Node
from staticflow.ops.along.collectives import all_reduce_op
from staticflow.ops.basics.arithmetic import add
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.declaring.late import behind
from staticflow.ops.loops.loop import Loop
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.partition.index_rules import is_zero
from staticflow.passes.partition.layouts import Layout, same_layout, whole
from staticflow.passes.partition.shares import share_of
from staticflow.passes.rewrite import with_args

if TYPE_CHECKING:
    from staticflow.passes.partition.partition import Walk

__all__ = ["split_loop"]


def split_loop(node: Node, layouts: Sequence[Layout], walk: Walk) -> list[tuple[Node, Layout]]:
    """The results of a loop on this rank, with their layouts, for those of its operands."""
    loop = Loop.of(node)
    begun, rows, captured = loop.operands(layouts)
    rows = [layout[1:] for layout in rows]
    captured = [  # a parameter in parts is gathered once, not in every iteration
        whole(len(layout)) if walk.is_kept_in_parts(a) else layout
        for layout, a in zip(captured, loop.operands(node.args)[2], strict=True)
    ]
    carries, inner = _follow(loop, [*begun, *rows, *captured], walk)
    ends = [*carries, *(inner.local[o][1][0] for o in loop.body.outputs[loop.carries :])]
    given = [inner.take(o, layout, node) for o, layout in zip(loop.body.outputs, ends, strict=True)]
    shares = {i: share for i in range(loop.carries) if (share := _share(loop, i, given[i], inner))}
    given = [shares[i][0] if i in shares else o for i, o in enumerate(given)]
    params = [inner.local[p][0] for p in loop.body.params]
    body = close(params, given, loop.body.equalities)
    rows_of = {i: y for i in range(loop.carries, len(given)) if (y := _share_of_row(body, i))}
    if rows_of:
        given = [rows_of[i][0] if i in rows_of else o for i, o in enumerate(given)]
        body = close(params, given, loop.body.equalities)
    wanted = [*carries, *((None, *layout) for layout in rows), *captured]
    operands = [walk.take(a, layout, node) for a, layout in zip(node.args, wanted, strict=True)]
    with using(node.locs), behind(operands):
        starts = list(map(Symbol, operands))
        for i in shares:
            starts[i] = zeros_like(starts[i])
        made = loop.op(*starts, **(loop.attrs | {"body": body}))
        results = list(made)
        for i, (_, axes) in shares.items():
            total = all_reduce_op(results[i], mesh=walk.place.shape, axes=axes, reduce="sum")
            results[i] = total if is_zero(operands[i]) else Symbol(operands[i]) + total
        for i, (_, axes) in rows_of.items():
            results[i] = all_reduce_op(results[i], mesh=walk.place.shape, axes=axes, reduce="sum")
    stacked = [(None, *layout) for layout in ends[loop.carries :]]
    return [(y.node, layout) for y, layout in zip(results, [*carries, *stacked], strict=True)]


def _follow(loop: Loop, layouts: Sequence[Layout], walk: Walk) -> tuple[list[Layout], Walk]:
    """The layouts of the carries, as they begin and end, and the walk of the body with these."""
    carries = list(layouts[: loop.carries])
    while True:
        inner = walk.follow(loop.body, [*carries, *layouts[loop.carries :]])
        ends = [inner.local[o][1][0] for o in loop.body.outputs[: loop.carries]]
        met = [_either(a, b) for a, b in zip(carries, ends, strict=True)]
        if all(same_layout(a, b) for a, b in zip(carries, met, strict=True)):
            return carries, inner
        carries = met


def _either(begins: Layout, ends: Layout) -> Layout:
    """The layout of a carry that is split as it begins, and where it then is not, as it ends."""
    used = {s.axis for s in begins if s}
    return tuple([
        a or (b if b and b.axis not in used else None) for a, b in zip(begins, ends, strict=True)
    ])  # fmt: skip


def _share(loop: Loop, i: int, end: Node, inner: Walk) -> tuple[Node, tuple[int, ...]] | None:
    """What a carry that only adds up becomes if each rank adds up its own share, and the axes over
    which the shares are to be added; None for any other carry."""
    carry, out = loop.body.params[i], loop.body.outputs[i]
    if len(loop.body.users[carry]) != 1 or carry in loop.body.outputs:
        return None
    if loop.body.outputs.count(out) != 1 or loop.body.users[out]:
        return None
    found = _accumulate_shares(end, inner.local[carry][0])
    return None if found is None or found[1] is None else (found[0], found[1])


def _share_of_row(body: Graph, i: int) -> tuple[Node, tuple[int, ...]] | None:
    """What each iteration gives as its row if that is this rank's share of a sum, which nobody
    needs in the iteration, and over which axes the shares are to be added; None of others."""
    out = body.outputs[i]
    found = share_of(out)
    if found is None or body.outputs.count(out) != 1:
        return None
    share, axes, inside = found
    is_needed = any(
        (n in body.outputs and n is not out) or any(u not in inside for u in body.users[n])
        for n in inside
    )
    return None if is_needed else (share, axes)


def _accumulate_shares(node: Node, carry: Node) -> tuple[Node, tuple[int, ...] | None] | None:
    """A carry with sums over ranks added to it, without their messages, and over which axes."""
    if node is carry:
        return node, None
    if node.op is not add:
        return None
    for at in (0, 1):
        before = _accumulate_shares(node.args[at], carry)
        more = share_of(node.args[1 - at], with_zeros=True)
        if before and more and before[1] in (None, more[1]):
            args = (before[0], more[0]) if at == 0 else (more[0], before[0])
            return with_args(node, args), more[1]
    return None
