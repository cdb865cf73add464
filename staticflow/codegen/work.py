"""An estimate of how long a loop takes, which tells whether threads pay.

The unit is an operation on a vector of 64 bytes, about an eighth of a nanosecond. A load or store
counts more, as if from a cache that is not the nearest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.codegen.kernel import (
    Accumulate,
    Apply,
    Bind,
    Block,
    Expr,
    Fold,
    If,
    Let,
    Load,
    Loop,
    Operand,
    Stmt,
    Store,
)
from staticflow.graph.dim_queries import substitute_dim
from staticflow.graph.dims import Dim, Size, Sym, ceil_div, dim_max

__all__ = ["ENOUGH", "work_of"]

ENOUGH = 500_000
"""The work from which on threads pay: about 60 microseconds, several times what it takes to wake
a thread up."""

_VECTOR = 64  # bytes
_MEMORY = 8  # operations that a load or store of a vector counts as; one of a number counts two
_SLOW = {"div": 4, "sqrt": 4, "quotient": 16, "remainder": 16}


def work_of(stmt: Stmt) -> Size:
    """The work of a statement, as an expression of what is known before it. A symbol that
    is bound inside counts as the most that it may be, a loop's variable as half of that; of two
    branches both count, and of those that a `Fold` decides none: they are rare."""
    count = _WORK.get(type(stmt))
    return 0 if count is None else count(stmt)


def _block(block: Block) -> Size:
    total: Size = 0
    known = 0
    folds = {s.reg for s in block if isinstance(s, Let) and isinstance(s.expr, Fold)}
    for stmt in block:
        if isinstance(stmt, If) and stmt.cond in folds:
            continue
        work = work_of(stmt)
        if isinstance(work, int):
            known += work
        else:
            total = total + work
    total = total + known
    for stmt in reversed(block):
        if isinstance(stmt, Bind):
            total = _without(total, stmt.sym, 0 if stmt.sym.upper is None else stmt.sym.upper)
    return total


def _without(work: Size, sym: Sym, value: Size) -> Size:
    return substitute_dim(work, {sym: value}) if isinstance(work, Dim) else work


def _loop(loop: Loop) -> Size:
    iterations = dim_max(ceil_div(loop.hi - loop.lo, loop.step), 0)
    return iterations * _without(_block(loop.body), loop.var, (loop.lo + loop.hi) // 2)


def _let(stmt: Let) -> Size:
    expr: Expr = stmt.expr
    if isinstance(expr, Load):
        return _memory(stmt.reg)
    slow = _SLOW.get(expr.op, 1) if isinstance(expr, Apply) else 1
    return slow * _vectors(stmt.reg)


def _vectors(value: Operand) -> int:
    return -(-value.lanes * value.dtype.itemsize // _VECTOR)


def _memory(value: Operand) -> int:
    return max(2, _MEMORY * value.lanes * value.dtype.itemsize // _VECTOR)


_WORK: dict[type[Stmt], Callable[[Any], Size]] = {
    Loop: _loop,
    Let: _let,
    Accumulate: lambda stmt: _vectors(stmt.reg),
    Store: lambda stmt: _memory(stmt.value),
    If: lambda stmt: _block(stmt.then) + _block(stmt.orelse),
}
