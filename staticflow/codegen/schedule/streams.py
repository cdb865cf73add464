"""Stores of arrays that no cache holds, past the caches.

A processor reads a line of memory before it writes to it, unless whole lines go past its caches: of
a kernel that reads one large array and writes another that is a third of all that it moves. Where
the caches would hold the result for whoever reads it next, such a store is slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from staticflow.codegen.kernel import (
    LANE_SYM,
    LINE_BYTES,
    Bind,
    Block,
    If,
    Kernel,
    Let,
    Load,
    Loop,
    Reg,
    Store,
    Streams,
)
from staticflow.codegen.parts import walk
from staticflow.codegen.rewrite import Names
from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import coefficient, substitute_dim, symbols_of
from staticflow.graph.dims import Size, Sym, ceil_div, prod, total
from staticflow.graph.dtypes import bool_
from staticflow.graph.terms import terms_of

__all__ = ["stream_stores"]


def stream_stores(kernel: Kernel, target: Target) -> Kernel:
    """The kernel with stores past the caches (`Streams`) of what it writes only, line by line,
    where a run may move more bytes than the ``target``'s caches hold."""
    steps, written = _steps(kernel.body), _buffers_to_write(kernel)
    lines = {
        s.buffer
        for s in walk(kernel.body)
        if isinstance(s, Store) and s.buffer in written and _is_lines(s, written[s.buffer], steps)
    }
    if not lines:
        return kernel
    accesses = _accesses(kernel, _counts(kernel.body))
    most = max(a.loops for a in accesses.values())
    wanted = [name for name, a in accesses.items() if name in lines and a.loops == most]
    bytes_ = total(a.bytes for a in accesses.values())
    if not wanted or (isinstance(bytes_, int) and bytes_ < target.streamed_bytes):
        return kernel
    names = Names(kernel)
    past = {name: Reg(names.fresh(f"past_{name}"), bool_) for name in wanted}
    lets = [Let(reg, Streams(name, bytes_)) for name, reg in past.items()]
    return replace(kernel, body=(*lets, *_past(kernel.body, past, written, steps)))


def _buffers_to_write(kernel: Kernel) -> Mapping[str, int]:
    """The buffers that the kernel stores to and never reads, with the bytes of an element."""
    read = {
        s.expr.buffer for s in walk(kernel.body) if isinstance(s, Let) and isinstance(s.expr, Load)
    }
    return {
        b.name: b.dtype.itemsize for b in kernel.buffers if b.access == "out" and b.name not in read
    }


def _is_lines(store: Store, itemsize: int, steps: Mapping[Sym, int]) -> bool:
    """Whether a store writes whole lines of the caches, of a buffer that begins at one. ``steps``
    are what symbols are multiples of."""
    lanes = store.value.lanes
    if store.bound is not None or lanes * itemsize % LINE_BYTES:
        return False
    if coefficient(store.index, LANE_SYM) != 1:
        return False
    return all(
        c
        * prod(steps.get(a, 1) if isinstance(a, Sym) else 1 for a in monomial)
        * itemsize
        % LINE_BYTES
        == 0
        for monomial, c in terms_of(store.index)
        if monomial != (LANE_SYM,)
    )


def _steps(block: Block) -> dict[Sym, int]:
    """What each variable of a loop is a multiple of."""
    found = {}
    for stmt in walk(block):
        if isinstance(stmt, Loop):
            found[stmt.var] = gcd(stmt.step, _content(stmt.lo))
    return found


def _content(size: Size) -> int:
    """The largest number that divides all terms of a size; 0 of 0, which all divide."""
    return gcd(*(c for _, c in terms_of(size)))


def _counts(block: Block) -> dict[Sym, Size]:
    """How many values each symbol that is bound inside has, by what is known outside: at most, and
    of variables whose range depends on others as if these were 0."""
    found: dict[Sym, Size] = {}
    ends: dict[Sym, Size] = {}  # of what is bound so far
    for stmt in walk(block):
        if isinstance(stmt, Loop):
            lo, hi = substitute_dim(stmt.lo, ends), substitute_dim(stmt.hi, ends)
            found[stmt.var] = ceil_div(hi - lo, stmt.step)
            ends[stmt.var] = 0
        elif isinstance(stmt, Bind):
            upper = 1 if stmt.sym.upper is None else substitute_dim(stmt.sym.upper, ends)
            found[stmt.sym] = ends[stmt.sym] = upper
    return found


@dataclass(frozen=True, slots=True)
class _Access:
    """A load or store of so many ``lanes``, in so many ``loops`` that go through its buffer, and
    the ``bytes`` that it moves, each element once. Where a load also goes `at` a vector, that is
    left out."""

    loops: int
    lanes: int
    bytes: Size


def _accesses(kernel: Kernel, counts: Mapping[Sym, Size]) -> dict[str, _Access]:
    """The access of each argument that goes through most of it."""
    sizes = {b.name: b.dtype.itemsize for b in kernel.buffers if b.access in ("in", "out")}
    found: dict[str, _Access] = {}
    for stmt in walk(kernel.body):
        if isinstance(stmt, Let) and isinstance(stmt.expr, Load):
            name, index, lanes = stmt.expr.buffer, stmt.expr.index, stmt.reg.lanes
        elif isinstance(stmt, Store):
            name, index, lanes = stmt.buffer, stmt.index, stmt.value.lanes
        else:
            continue
        if name in sizes:
            through = sorted(symbols_of(index) & counts.keys(), key=Sym.sort_key)
            bytes_ = prod(counts[s] for s in through) * lanes * sizes[name]
            known = found.get(name)
            if known is None or (len(through), lanes) > (known.loops, known.lanes):
                found[name] = _Access(len(through), lanes, bytes_)
    return found


def _past(
    block: Block, past: Mapping[str, Reg], written: Mapping[str, int], steps: Mapping[Sym, int]
) -> Block:
    """The statements of a block, with what is stored in whole lines past the caches."""
    found = []
    for stmt in block:
        if isinstance(stmt, Loop):
            stmt = replace(stmt, body=_past(stmt.body, past, written, steps))
        elif isinstance(stmt, If):
            then, orelse = (_past(b, past, written, steps) for b in (stmt.then, stmt.orelse))
            stmt = replace(stmt, then=then, orelse=orelse)
        elif (
            isinstance(stmt, Store)
            and stmt.buffer in past
            and _is_lines(stmt, written[stmt.buffer], steps)
        ):
            stmt = replace(stmt, past=past[stmt.buffer])
        found.append(stmt)
    return tuple(found)
