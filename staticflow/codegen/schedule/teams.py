"""Loops whose iterations the threads of a team share: `spread`.

Parallel loops are shared out as they are. A loop in order is, too, where its iterations provably
keep out of each other's elements and all that they hand on are totals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from staticflow.codegen.kernel import (
    IN_ORDER,
    SHARED,
    TEAMS,
    Accumulate,
    Bind,
    Block,
    If,
    Let,
    Loop,
    Reg,
    Set,
    Stmt,
    Var,
)
from staticflow.codegen.parts import operands_of, totals_of, walk
from staticflow.codegen.rewrite import Names
from staticflow.codegen.schedule.independent import memory_conflict
from staticflow.codegen.schedule.loops import (
    iteration_count,
    merge_nest,
    merge_parallel,
    thread_bound,
)
from staticflow.codegen.schedule.owners import by_owner
from staticflow.codegen.schedule.scans import as_scan
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, Sym

__all__ = ["FEW", "chain_of", "is_shared", "leaves_work", "spread"]

FEW = 16
"""Iterations that are not worth a team: most of its threads would wait."""

_MANY = 256
"""Iterations of a loop inside another one that keep a block busy; of fewer, the threads share out
those of both."""


def spread(block: Block, kind: str, names: Names, *, owners: bool = True) -> Block:
    """A block of an iteration of a loop over warps or blocks, in which the team shares out what it
    can; with ``owners`` also what each thread has to go through as a whole."""
    result: list[Stmt] = []
    for stmt in block:
        if isinstance(stmt, If):
            stmt = replace(
                stmt,
                then=spread(stmt.then, kind, names, owners=owners),
                orelse=spread(stmt.orelse, kind, names, owners=owners),
            )
        elif isinstance(stmt, Loop):
            stmt = _spread_loop(stmt, kind, names, owners)
        result.append(stmt)
    return tuple(result)


def is_shared(stmt: Stmt) -> TypeGuard[Loop]:
    """Whether a statement is a loop whose iterations a team shares."""
    return isinstance(stmt, Loop) and stmt.kind in SHARED


def leaves_work(block: Block) -> bool:
    """Whether a team does a loop of a block, one with many iterations or of unknown length, in
    order, none of it shared out."""
    return any(
        isinstance(s, Loop)
        and not is_shared(s)
        and not _is_few(s)
        and not any(map(is_shared, walk(s.body)))
        for s in _outside_shared(block)
    )


def _outside_shared(block: Block) -> list[Stmt]:
    found: list[Stmt] = []
    for stmt in block:
        found.append(stmt)
        if isinstance(stmt, Loop) and not is_shared(stmt):
            found += _outside_shared(stmt.body)
        elif isinstance(stmt, If):
            found += _outside_shared(stmt.then) + _outside_shared(stmt.orelse)
    return found


def _is_few(loop: Loop) -> bool:
    count = iteration_count(loop)
    return isinstance(count, int) and count < FEW


def _spread_loop(loop: Loop, kind: str, names: Names, owners: bool) -> Loop:
    if loop.kind == "parallel" and thread_bound(loop) is None:
        merged = merge_parallel(loop, names)
        inside = spread(merged.body, kind, names, owners=owners)
        if not _is_few(merged) or not any(map(is_shared, walk(inside))):
            return replace(merged, kind="threads")
    elif loop.kind in IN_ORDER:
        chain = chain_of(loop)
        if _can_share(chain) and not _has_long_loops(chain[-1].body):
            return _share(chain, kind, names)
        scan = as_scan(loop)
        if scan is not None and not _is_few(loop):
            return scan
        owned = by_owner(chain, TEAMS[kind], "threads", names) if owners else None
        if owned is not None and not _is_few_of(chain):
            return owned
    own = "long" if loop.kind == "long" else "serial"
    return replace(loop, kind=own, body=spread(loop.body, kind, names, owners=owners))


def chain_of(loop: Loop) -> list[Loop]:
    """A loop in order and those that are each all of the body of the one before but for what is
    worked out ahead of them."""
    chain = [loop]
    while chain[-1].body:
        *before, inner = chain[-1].body
        if not isinstance(inner, Loop) or inner.kind not in IN_ORDER:
            break
        if not all(isinstance(s, (Let, Bind)) for s in before):
            break
        chain.append(inner)
    return chain


def _can_share(chain: Sequence[Loop]) -> bool:
    """Whether the iterations of all loops of a chain, together, may be shared out."""
    loop = chain[0]
    if any(c.going is not None for c in chain) or _is_few_of(chain):
        return False
    own = {s.reg.name for s in walk(loop.body) if isinstance(s, (Let, Var))}
    totals = totals_of(loop)
    read: set[str] = set()
    for stmt in walk(loop.body):
        if isinstance(stmt, Set) and stmt.reg.name not in own:
            return False
        if isinstance(stmt, Accumulate) and totals.get(stmt.reg, stmt.op) != stmt.op:
            return False
        for part in (stmt, stmt.expr) if isinstance(stmt, Let) else (stmt,):
            read.update(o.name for o in operands_of(part) if isinstance(o, Reg))
    if any(reg.name in read for reg in totals):
        return False
    return all(memory_conflict(c) is None for c in chain)


def _is_few_of(chain: Sequence[Loop]) -> bool:
    count: Size = 1
    for loop in chain:
        n = iteration_count(loop)
        if not isinstance(n, int):
            return False
        count = count * n
    return isinstance(count, int) and count < FEW


def _has_long_loops(body: Block) -> bool:
    """Whether a loop of a body keeps a block busy alone, and can be shared out."""
    loops = (s for s in walk(body) if isinstance(s, Loop))
    for loop in loops:
        count = iteration_count(loop)
        is_long = not isinstance(count, int) or count >= _MANY
        if is_long and (loop.kind == "parallel" or (loop.kind in IN_ORDER and _can_share([loop]))):
            return True
    return False


def _share(chain: Sequence[Loop], kind: str, names: Names) -> Loop:
    """A loop that the threads of a team share, in place of a chain. If the innermost has many
    iterations, or nobody knows how many, they share those, without a division for each."""
    if len(chain) == 1:
        return replace(chain[0], kind="threads")
    last, count = chain[-1], iteration_count(chain[-1])
    if isinstance(count, int) and count < _MANY and _is_rectangular(chain):
        ahead = tuple(s for loop in chain[:-1] for s in loop.body[:-1])
        return replace(merge_nest(chain, (*ahead, *last.body), names), kind="threads")
    threads = TEAMS[kind]
    thread = Sym(names.fresh("thread"), 0, threads)
    body: Block = (
        replace(last, lo=last.lo + last.step * Dim.of(thread), step=last.step * threads),
    )
    for loop in reversed(chain[:-1]):
        body = (replace(loop, body=(*loop.body[:-1], *body)),)
    return Loop(thread, 0, threads, body, 1, "threads")


def _is_rectangular(chain: Sequence[Loop]) -> bool:
    """Whether no loop of a chain depends on where the others are."""
    inside = {loop.var for loop in chain}
    inside |= {s.sym for loop in chain[:-1] for s in loop.body if isinstance(s, Bind)}
    return not any(inside & (symbols_of(c.lo) | symbols_of(c.hi)) for c in chain)
