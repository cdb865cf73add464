"""Elementwise loops of a grid whose threads take some neighbours at a time: `in_groups`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticflow.codegen.kernel import (
    VECTOR_BYTES,
    Aligned,
    Apply,
    Block,
    Buffer,
    Const,
    If,
    Index,
    Let,
    Load,
    Loop,
    Reg,
    Store,
    Worker,
    Workers,
)
from staticflow.codegen.rewrite import Names, copy_block
from staticflow.codegen.schedule.loops import iteration_count
from staticflow.graph.dims import Dim, Size, Sym, ceil_div, dim_min
from staticflow.graph.dtypes import bool_, int64

__all__ = ["in_groups"]

_ENOUGH = 1 << 12
"""Iterations that are worth it: fewer keep more threads busy one by one."""

_MOST = 64
"""Statements of an iteration, at most: those of a group have all their registers at once."""


def in_groups(loop: Loop, buffers: Sequence[Buffer], names: Names) -> Loop:
    """A grid loop whose iterations load and store neighbours, with a thread for as many of these as
    one instruction moves; any other loop as it is. Where arrays do not begin at a multiple of 16
    bytes, and for what is left over, a thread takes them one by one.
    """
    count = iteration_count(loop)
    moved = _buffers_moved(loop, {b.name: b for b in buffers})
    if moved is None or (isinstance(count, int) and count < _ENOUGH):
        return loop
    size = VECTOR_BYTES // max(b.dtype.itemsize for b in moved)
    group = Sym(names.fresh("group"), 0, ceil_div(count, size))
    first = size * Dim.of(group)
    inside, begin = Reg(names.fresh("inside"), bool_), Reg(names.fresh("aligned"), bool_)
    whole, left = Reg(names.fresh("whole"), bool_), Reg(names.fresh("left"), int64)
    end = dim_min(first + size, count)
    var = Sym(names.fresh(loop.var.name), 0, end)
    rest = Loop(var, first, end, copy_block(loop.body, {loop.var: Dim.of(var)}, names))
    body: Block = (
        Let(left, Index(count - first - size)),
        Let(inside, Apply("ge", (left, Const(0, int64)))),
        Let(begin, Aligned(tuple(b.name for b in moved))),
        Let(whole, Apply("and", (inside, begin))),
        If(whole, _side_by_side(loop, first, size, names), (rest,)),
    )
    return Loop(group, 0, ceil_div(count, size), body, 1, "grid")


def _buffers_moved(loop: Loop, buffers: Mapping[str, Buffer]) -> list[Buffer] | None:
    """The buffers whose neighbours the iterations of a loop move, in their order and from the
    first element on, if all that they store is such and they load such, too; else None."""
    if loop.lo != 0 or loop.step != 1 or len(loop.body) > _MOST:
        return None
    if not all(isinstance(s, (Let, Store)) for s in loop.body):
        return None
    parts = [s.expr if isinstance(s, Let) else s for s in loop.body]
    if any(isinstance(p, (Worker, Workers)) for p in parts):
        return None
    loads = {p.buffer for p in parts if isinstance(p, Load) and p.index == Dim.of(loop.var)}
    stores = [p for p in parts if isinstance(p, Store)]
    if not loads or not stores or any(p.index != Dim.of(loop.var) for p in stores):
        return None
    return [buffers[name] for name in sorted(loads | {p.buffer for p in stores})]


def _side_by_side(loop: Loop, first: Size, size: int, names: Names) -> Block:
    """Some iterations from ``first`` on, statement by statement."""
    copies = [copy_block(loop.body, {loop.var: first + i}, names) for i in range(size)]
    return tuple(copy[at] for at in range(len(loop.body)) for copy in copies)
