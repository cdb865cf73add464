"""Whether the iterations of a loop provably keep out of each other's elements."""

from __future__ import annotations

from collections.abc import Container
from typing import TypeAlias

from staticflow.codegen.kernel import Let, Load, Local, Loop, Store
from staticflow.codegen.parts import walk
from staticflow.codegen.rewrite import symbol_of
from staticflow.graph.dim_queries import coefficient, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, floor_div, is_provably_ge, prod, terms_of

__all__ = ["memory_conflict"]

# An element e belongs to the iteration ((e - start) mod modulus) // stride of the loop.
Owner: TypeAlias = tuple[Size, Size, Size | None]


def memory_conflict(loop: Loop, among: Container[str] | None = None) -> str | None:
    """What keeps two iterations from being independent in memory, or None if they provably are;
    in the buffers that are ``among`` these only, if such are given.

    A buffer that the loop stores to is safe if one rule tells from the number of an element which
    iteration it belongs to, and all loads and stores of that buffer follow it. The rule is read
    off the index, ``start + stride * variable + low + modulus * high`` with ``0 <= low < stride``
    (the digits of a number in a mixed base). A symbolic stride is taken not to be zero.
    """
    if is_provably_ge(loop.lo + 1, loop.hi):
        return None  # there is one iteration at most
    stmts = walk(loop.body)
    inner = frozenset(s for s in map(symbol_of, stmts) if s is not None)
    accessed: dict[str, list[Size]] = {}
    for stmt in stmts:
        part = stmt.expr if isinstance(stmt, Let) else stmt
        if isinstance(part, (Load, Store)):
            accessed.setdefault(part.buffer, []).append(part.index)
    own = {s.name for s in stmts if isinstance(s, Local)}
    stores = (s.buffer for s in stmts if isinstance(s, Store))
    stored = dict.fromkeys(name for name in stores if name not in own)
    for buffer in stored:
        if among is not None and buffer not in among:
            continue
        indices = list(dict.fromkeys(accessed[buffer]))
        moduli = dict.fromkeys(coefficient(i, s) for i in indices for s in inner)
        candidates = [None, *(m for m in moduli if m is not None and m != 0)]
        rules = [_owners(index, loop.var, inner, candidates) for index in indices]
        if not set.intersection(*rules):
            accesses = ", ".join(f"{buffer}[{index}]" for index in indices)
            return f"iterations may meet in {accesses}"
    return None


def _owners(index: Size, var: Sym, inner: frozenset[Sym], moduli: list[Size | None]) -> set[Owner]:
    """The rules that say for every element that ``index`` reaches which iteration reaches it."""
    stride = coefficient(index, var)
    if stride is None or stride == 0:
        return set()
    width = -stride if isinstance(stride, int) and stride < 0 else stride
    start = _start(index, {var, *inner}, width)
    rules: set[Owner] = set()
    for modulus in moduli:
        digits = index - start
        if modulus is not None:
            digits = digits % modulus
        low = digits - stride * Dim.of(var)
        if var not in symbols_of(low) and floor_div(low, width) == 0:
            rules.add((start, stride, modulus))
    return rules


def _start(index: Size, moving: set[Sym], width: Size) -> Size:
    """The terms of ``index`` that stay the same, a constant only up to a multiple of ``width``."""
    start: Size = 0
    for monomial, c in terms_of(index):
        if not monomial and isinstance(width, int):
            start = start + (c - c % width)
        elif not any(symbols_of(Dim.of(atom)) & moving for atom in monomial):
            start = start + prod((c, *map(Dim.of, monomial)))
    return start
