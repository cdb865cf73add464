"""What decides how much a loop of a kernel does: the sizes and registers in bounds and branches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from staticflow.codegen.kernel import (
    Accumulate,
    Active,
    Bind,
    Block,
    Call,
    Const,
    If,
    Let,
    Load,
    Loop,
    Reg,
    Set,
    Store,
    Var,
)
from staticflow.codegen.parts import operands_of, sizes_of, walk
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Sym

__all__ = ["LoopFacts", "names_in"]


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """The names that decide how much a loop does: ``deciding`` those on which it depends what an
    iteration does, ``outer`` those of them and of the bounds that are bound outside of the loop.
    ``changed`` are the registers from outside that it changes."""

    deciding: frozenset[Sym | str]
    outer: tuple[Sym | str, ...]
    changed: frozenset[str]

    @staticmethod
    def of(loop: Loop) -> LoopFacts:
        """The facts of ``loop``, read off its body."""
        deciding = _find_deciding(loop.body)
        inner: set[Sym | str] = {loop.var}
        changed = set()
        for stmt in walk(loop.body):
            if isinstance(stmt, Loop):
                inner.add(stmt.var)
            elif isinstance(stmt, Bind):
                inner.add(stmt.sym)
            elif isinstance(stmt, Let | Var):
                inner.add(stmt.reg.name)
            elif isinstance(stmt, Set | Accumulate):
                changed.add(stmt.reg.name)
        names = deciding | symbols_of(loop.lo) | symbols_of(loop.hi)
        return LoopFacts(deciding, tuple(names - inner), frozenset(changed - inner))


def _find_deciding(block: Block) -> frozenset[Sym | str]:
    """The names on which it depends how much the statements of a block do."""
    found: set[Sym | str] = set()
    made: list[tuple[Sym | str, set[Sym | str]]] = []
    for stmt in walk(block):
        if isinstance(stmt, Loop):
            found |= symbols_of(stmt.lo) | symbols_of(stmt.hi)
        elif isinstance(stmt, If) and isinstance(stmt.cond, Reg):
            found.add(stmt.cond.name)
        elif isinstance(stmt, Call):
            found |= names_in(stmt.sizes)
        elif isinstance(stmt, Bind):
            made.append((stmt.sym, names_in([stmt.value])))
        elif isinstance(stmt, Let):
            expr = stmt.expr
            if isinstance(expr, Load | Active) and expr.bound is not None:
                found |= symbols_of(expr.bound)
            made.append((stmt.reg.name, names_in([*operands_of(expr), *sizes_of(expr)])))
        elif isinstance(stmt, Store) and stmt.bound is not None:
            found |= symbols_of(stmt.bound)
    for name, names in reversed(made):  # what a name is made of stands before it
        if name in found:
            found |= names
    return frozenset(found)


def names_in(parts: Iterable[Any]) -> set[Sym | str]:
    """The registers, by name, and the symbols that operands and sizes name."""
    names: set[Sym | str] = set()
    for part in parts:
        if isinstance(part, Reg):
            names.add(part.name)
        elif not isinstance(part, Const):
            names |= symbols_of(part)
    return names
