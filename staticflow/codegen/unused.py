"""Kernel IR without what nothing reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from staticflow.codegen.kernel import (
    Bind,
    Block,
    If,
    Let,
    Loop,
    Reg,
    Stmt,
    operands_of,
    sizes_of,
    walk,
)
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Sym

__all__ = ["innermost_loops", "without_unused"]


def without_unused(block: Block) -> Block:
    """The block without registers and symbols that nothing in it reads, and without loops that are
    left empty."""
    return _drop_unread(block, set())


def _drop_unread(block: Block, read: set[str | Sym]) -> Block:
    """The block without what nothing reads, where ``read``, names of registers and symbols, are
    read behind it; those that the block reads join them."""
    kept: list[Stmt] = []
    for stmt in reversed(block):
        if isinstance(stmt, Loop):
            stmt = replace(stmt, body=_drop_unread(stmt.body, read))
            needed = bool(stmt.body)
        elif isinstance(stmt, If):
            stmt = replace(
                stmt, then=_drop_unread(stmt.then, read), orelse=_drop_unread(stmt.orelse, read)
            )
            needed = bool(stmt.then or stmt.orelse)
        elif isinstance(stmt, Let):
            needed = stmt.reg.name in read
        else:
            needed = not isinstance(stmt, Bind) or stmt.sym in read
        if needed:
            kept.append(stmt)
            for part in (stmt, stmt.expr) if isinstance(stmt, Let) else (stmt,):
                read.update(o.name for o in operands_of(part) if isinstance(o, Reg))
                read.update(s for size in sizes_of(part) for s in symbols_of(size))
    return tuple(reversed(kept))


def innermost_loops(block: Block) -> Iterator[Loop]:
    """The loops that have no other in them."""
    for stmt in walk(block):
        if isinstance(stmt, Loop) and not any(isinstance(s, Loop) for s in walk(stmt.body)):
            yield stmt
