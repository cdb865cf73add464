"""An estimate of how long a loop takes, which tells whether threads pay.

The unit is an operation on a vector of 64 bytes, about an eighth of a nanosecond. A load or store
counts more, as if from a cache that is not the nearest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from staticflow.codegen.kernel import (
    LANE_SYM,
    Accumulate,
    Apply,
    Bind,
    Block,
    Call,
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
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import (
    as_symbol,
    coefficient,
    evaluate_dim,
    substitute_dim,
    symbols_of,
)
from staticflow.graph.dims import Size, Sym, ceil_div, dim_max

__all__ = ["Summary", "most_work", "summarize", "work_at", "work_of"]

_VECTOR = 64  # bytes
_MEMORY = 8  # operations that a load or store of a vector counts as; one of a number counts two
_NEAR = 4  # elements apart at which lanes are loaded as vectors
_SLOW = {"div": 4, "sqrt": 4, "quotient": 16, "remainder": 16}


def work_at(stmt: Stmt | Summary, values: Mapping[Sym, int]) -> int:
    """The work of a statement, or of what was summarized, where symbols have ``values``, and all
    others are 1. A symbol that is bound inside counts as the most that it may be, a loop's variable
    as half of that; of two branches both count, but a rare one does not, and of those that a `Fold`
    decides neither."""
    work = _count(_summary_of(stmt), _Numbers(values))
    assert isinstance(work, int)
    return work


def most_work(stmt: Stmt | Summary, values: Mapping[Sym, int]) -> int:
    """The work of a statement, or of what was summarized, as `work_at` counts it, where each symbol
    that is bound before the statement, and has no value, is as large as it may be. A loop that runs
    to such a symbol, which is the number of its tasks, would be one iteration else."""
    work = _count(_summary_of(stmt), _Bounds(values))
    assert isinstance(work, int)
    return work


def work_of(stmt: Stmt, name: Callable[[Size], Size]) -> Size:
    """The work of a statement, as `work_at` counts it, by what is known before it. What its parts
    come to is said by a ``name`` each: written out it would be an expression of thousands of terms,
    for products of unknown sizes."""
    return _count(summarize(stmt), _Named({}, name))


def _summary_of(stmt: Stmt | Summary) -> Summary:
    return stmt if isinstance(stmt, Summary) else summarize(stmt)


class _Numbers(dict[Sym, int]):
    """Values of symbols, 1 for those that have none."""

    def __missing__(self, sym: Sym) -> int:
        return 1

    def size(self, size: Size) -> Size:
        """What a size is."""
        return evaluate_dim(size, self)

    def name(self, size: Size) -> Size:
        """What stands for a size that is made of such."""
        return size

    def and_of(self, sym: Sym, value: Callable[[], Size]) -> _Numbers:
        """These, and the value of one more."""
        found, number = type(self)(self), value()
        assert isinstance(number, int)
        found[sym] = number
        return found


class _Bounds(_Numbers):
    """Values of symbols, and the bounds of those that have none; 1 where nothing bounds them."""

    def __missing__(self, sym: Sym) -> int:
        return 1 if sym.upper is None else max(evaluate_dim(sym.upper, self), 0)


@dataclass(frozen=True, slots=True)
class _Named:
    """What gives the ``values`` of symbols that are bound inside, and what gives a name to a size.
    A value is named, once, where another size is made of it: few are."""

    values: Mapping[Sym, Callable[[], Size]]
    namer: Callable[[Size], Size]

    def size(self, size: Size) -> Size:
        """A size of symbols that are known outside, or names."""
        inside = sorted(symbols_of(size) & self.values.keys(), key=Sym.sort_key)
        return substitute_dim(size, {s: self.values[s]() for s in inside})

    def name(self, size: Size) -> Size:
        """What stands for a size that is made of such."""
        return size if isinstance(size, int) or as_symbol(size) else self.namer(size)

    def and_of(self, sym: Sym, value: Callable[[], Size]) -> _Named:
        """These, and the value of one more."""
        return _Named({**self.values, sym: functools.cache(lambda: self.name(value()))}, self.namer)


_At = _Numbers | _Named


@dataclass(frozen=True, slots=True)
class Summary:
    """What counts of a block: the work that is ``known`` of it, and the ``parts`` whose work
    depends on sizes, in their order. Whoever counts at several values of these makes it once."""

    known: int
    parts: tuple[Bind | Call | _Branch | _Loop, ...]


@dataclass(frozen=True, slots=True)
class _Branch:
    """Two blocks of which one runs."""

    then: Summary
    orelse: Summary


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop, and what counts of its body."""

    loop: Loop
    body: Summary


def summarize(*block: Stmt) -> Summary:
    """What counts of the statements of a block."""
    known = 0
    parts: list[Bind | Call | _Branch | _Loop] = []
    for stmt in block:
        count = _KNOWN.get(type(stmt))
        if count is not None:
            known += count(stmt)
        elif isinstance(stmt, Loop):
            parts.append(_Loop(stmt, summarize(*stmt.body)))
        elif isinstance(stmt, If):
            if not _is_rare(stmt, block):
                rest = () if stmt.mostly else stmt.orelse
                parts.append(_Branch(summarize(*stmt.then), summarize(*rest)))
        elif isinstance(stmt, Bind | Call):
            parts.append(stmt)
    return Summary(known, tuple(parts))


def _is_rare(branch: If, block: Block) -> bool:
    """Whether a `Fold` of its block decides a branch."""
    lets = (s for s in block if isinstance(s, Let) and s.reg == branch.cond)
    return any(isinstance(s.expr, Fold) for s in lets)


def _count(summary: Summary, at: _At) -> Size:
    total: Size = 0
    known = summary.known
    for part in summary.parts:
        if isinstance(part, Bind):
            at = at.and_of(part.sym, functools.partial(_most, part.sym, at))
            continue
        work = _part(part, at)
        if isinstance(work, int):
            known += work
        else:
            total = total + work
    return at.name(total + known)


def _part(part: Call | _Branch | _Loop, at: _At) -> Size:
    if isinstance(part, Call):
        return at.size(part.work)
    if isinstance(part, _Branch):
        return _count(part.then, at) + _count(part.orelse, at)
    loop = part.loop
    lo, hi = at.size(loop.lo), at.size(loop.hi)
    iterations = at.name(dim_max(ceil_div(hi - lo, loop.step), 0))
    inside = at.and_of(loop.var, lambda: dim_max((lo + hi) // 2, 0))
    return at.name(iterations * _count(part.body, inside))


def _most(sym: Sym, at: _At) -> Size:
    """The most that a symbol may be."""
    return dim_max(at.size(0 if sym.upper is None else sym.upper), 0)


def _let(stmt: Let) -> int:
    expr: Expr = stmt.expr
    if isinstance(expr, Load):
        return _memory(stmt.reg, None if expr.at else expr.index)
    slow = _SLOW.get(expr.op, 1) if isinstance(expr, Apply) else 1
    return slow * _vectors(stmt.reg)


def _vectors(value: Operand) -> int:
    return -(-value.lanes * value.dtype.itemsize // _VECTOR)


def _memory(value: Operand, index: Size | None) -> int:
    """What it counts to load or store a value at an ``index``, or at one for each lane. Lanes that
    lie apart are numbers: transposed, 100,000 float32 take 20 microseconds, and 5 as vectors."""
    step = None if index is None else coefficient(index, LANE_SYM)
    if value.lanes > 1 and not (isinstance(step, int) and abs(step) <= _NEAR):
        return 2 * value.lanes
    return max(2, _MEMORY * value.lanes * value.dtype.itemsize // _VECTOR)


_KNOWN: dict[type[Stmt], Callable[[Any], int]] = {
    Let: _let,
    Accumulate: lambda stmt: _vectors(stmt.reg),
    Store: lambda stmt: _memory(stmt.value, stmt.index),
}
"""The work of statements that is the same at all sizes."""
