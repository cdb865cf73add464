"""Loops in order whose iterations may meet in an element, shared out by element: `by_owner`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from staticflow.codegen.kernel import (
    ENDLESS,
    IN_ORDER,
    Accumulate,
    Apply,
    Bind,
    Block,
    Const,
    If,
    Index,
    Let,
    Load,
    Loop,
    Reg,
    Set,
    Stmt,
    Store,
    Var,
)
from staticflow.codegen.parts import walk
from staticflow.codegen.rewrite import Names
from staticflow.codegen.schedule.independent import memory_conflict
from staticflow.codegen.schedule.loops import merge_nest
from staticflow.codegen.unused import bound_by, reads
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import bool_, int64

__all__ = ["by_owner"]


def by_owner(chain: Sequence[Loop], owners: int, kind: str, names: Names) -> Loop | None:
    """A loop over ``owners``, each of which goes through all iterations of a chain of loops in
    order and does those whose element is its own; None if they touch several elements.

    Every element has one owner, so that what happens to it happens in the order of the chain,
    whatever the threads do: it is as deterministic as the chain itself. Where an iteration touches
    a row of elements by a parallel loop, an owner has its elements in one column of some rows.
    """
    *ahead, last = chain[-1].body or (None,)
    columns = [last] if isinstance(last, Loop) and last.kind == "parallel" else []
    while columns and len(columns[-1].body) == 1:
        (inner,) = columns[-1].body
        if not isinstance(inner, Loop) or inner.kind != "parallel":
            break
        columns.append(inner)
    index = _one_element(chain[-1].body)
    if index is None or not _only_own_change(chain[0]):
        return None
    if any(c.kind not in IN_ORDER or c.going is not None for c in chain):
        return None
    if columns:
        key = _row_of(ahead, columns, index)
        before, work = tuple(ahead), columns[-1].body
    else:
        key = index if _moves(chain, index) else None
        count = _last_needed(chain[-1].body, index) + 1
        before, work = chain[-1].body[:count], chain[-1].body[count:]
    if key is None or any(isinstance(s, (Store, If, Loop)) for s in before):
        return None
    if not symbols_of(key).isdisjoint(_bound_in(work)):
        return None
    owner = Sym(names.fresh("owner"), 0, owners)
    rest, mine = Reg(names.fresh("owned_by"), int64), Reg(names.fresh("mine"), bool_)
    asked: tuple[Stmt, ...] = (
        Let(rest, Index(key % owners - Dim.of(owner))),
        Let(mine, Apply("eq", (rest, Const(0, int64)))),
        If(mine, work),
    )
    inside: Block = (*before, *asked)
    for loop in reversed(chain):
        around = loop.body[:-1] if loop is not chain[-1] else ()
        inside = (replace(loop, body=(*around, *inside)),)
    nest = [Loop(owner, 0, owners, inside, 1, "parallel"), *columns]
    return replace(merge_nest(nest, inside, names), kind=kind)


def _only_own_change(loop: Loop) -> bool:
    """Whether no register from outside a loop is changed in it."""
    own = {s.reg.name for s in walk(loop.body) if isinstance(s, (Let, Var))}
    changes = (s for s in walk(loop.body) if isinstance(s, (Set, Accumulate)))
    return all(s.reg.name in own for s in changes)


def _row_of(ahead: Sequence[Stmt], columns: Sequence[Loop], index: Size) -> Size | None:
    """The symbol that says which row of elements an iteration touches, each in a column of its own,
    if that is so."""
    keys = [s.sym for s in ahead if isinstance(s, Bind) and s.sym in symbols_of(index)]
    if len(keys) != 1 or any(symbols_of(c.hi) & {*keys} or c.lo != 0 for c in columns):
        return None
    rows = Loop(keys[0], 0, ENDLESS, (columns[0],))
    apart = all(memory_conflict(loop) is None for loop in (rows, *columns))
    return Dim.of(keys[0]) if apart else None


def _bound_in(block: Block) -> set[str | Sym]:
    return set[str | Sym]().union(*map(bound_by, block))


def _one_element(body: Block) -> Size | None:
    """The index at which a body stores, if it touches no other element of what it stores to."""
    parts = [s.expr if isinstance(s, Let) else s for s in walk(body)]
    stored = {p.buffer for p in parts if isinstance(p, Store)}
    indices = {p.index for p in parts if isinstance(p, (Load, Store)) and p.buffer in stored}
    return indices.pop() if len(indices) == 1 else None


def _moves(chain: Sequence[Loop], index: Size) -> bool:
    """Whether ``index`` is another one in other iterations."""
    inside = {c.var for c in chain} | {s.sym for s in chain[-1].body if isinstance(s, Bind)}
    return not inside.isdisjoint(symbols_of(index))


def _last_needed(body: Block, index: Size) -> int:
    """The place of the last statement that ``index`` is worked out by; -1 if there is none."""
    needed: set[str | Sym] = set(symbols_of(index))
    last = -1
    for at, stmt in reversed(list(enumerate(body))):
        if isinstance(stmt, (Bind, Let)) and needed & bound_by(stmt):
            last = max(last, at)
            needed |= reads((stmt,))
    return last
