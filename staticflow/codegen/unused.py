"""Kernel IR without what nothing reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from staticflow.codegen.kernel import (
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
from staticflow.codegen.parts import operands_of, sizes_of, walk
from staticflow.codegen.rewrite import symbol_of
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Sym

__all__ = ["bound_by", "innermost_loops", "reads", "without_unused"]


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
            read |= _own_reads(stmt)
    return tuple(reversed(kept))


def innermost_loops(block: Block) -> Iterator[Loop]:
    """The loops that have no other in them."""
    for stmt in walk(block):
        if isinstance(stmt, Loop) and not any(isinstance(s, Loop) for s in walk(stmt.body)):
            yield stmt


def reads(block: Block) -> set[str | Sym]:
    """The registers, by name, and the symbols that a block reads; those that it changes, too."""
    found: set[str | Sym] = set()
    for stmt in walk(block):
        if isinstance(stmt, (Set, Accumulate)):
            found.add(stmt.reg.name)
        found |= _own_reads(stmt)
    return found


def _own_reads(stmt: Stmt) -> set[str | Sym]:
    """What a statement reads, and what bounds the symbol that it binds, nested blocks left out."""
    found: set[str | Sym] = set()
    for part in (stmt, stmt.expr) if isinstance(stmt, Let) else (stmt,):
        found.update(o.name for o in operands_of(part) if isinstance(o, Reg))
        found.update(s for size in sizes_of(part) for s in symbols_of(size))
    symbol = symbol_of(stmt)
    if symbol is not None and symbol.upper is not None:
        found |= symbols_of(symbol.upper)
    return found


def bound_by(stmt: Stmt) -> set[str | Sym]:
    """The registers, by name, and the symbols that a statement binds, or one in it."""
    found: set[str | Sym] = set()
    for s in walk((stmt,)):
        symbol = symbol_of(s)
        if symbol is not None:
            found.add(symbol)
        elif isinstance(s, (Let, Var)):
            found.add(s.reg.name)
    return found
