"""Loops that copy a run of elements, or set one to zero, as calls of kernels that programs share.

Where it is unknown how long a run is, such a loop is whole vectors and a rest, shares for threads
and stores past the caches: as much text as where something is computed, the same in each program.
The kernels are called ``shared_copy_`` or ``shared_zero_`` and the short name of the dtype.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import (
    Block,
    Buffer,
    Call,
    Const,
    If,
    Kernel,
    Let,
    Load,
    Loop,
    Shared,
    Stmt,
    Store,
)
from staticflow.codegen.lower.cluster import Lowered
from staticflow.codegen.thresholds import SHARED_WORK
from staticflow.graph.dim_queries import coefficient, substitute_dim
from staticflow.graph.dims import Dim, Size, Sym, ceil_div, is_provably_ge
from staticflow.graph.dtypes import DTYPES, DType, bool_

__all__ = ["emit_run", "is_run", "least_shared", "share_runs"]

_BYTES = {"copy": 4, "zero": 8}
"""The bytes of a run that are a unit of work, as `staticflow.codegen.work` counts vectors of it."""


def share_runs(kernel: Kernel, inner: Sequence[Sym]) -> tuple[Kernel, tuple[Sym, ...]]:
    """The kernel with a call in the place of each loop, or loops in each other, that is a run of
    unknown length which threads may share as a whole; and which of the ``inner`` loops are left."""
    grows = {b.name for b in kernel.buffers if b.access == "grows"}
    gone: set[Sym] = set()
    body = _share(kernel.body, grows, gone)
    if not gone:
        return kernel, tuple(inner)
    return kernel.with_body(body), tuple(var for var in inner if var not in gone)


def _share(block: Block, grows: set[str], gone: set[Sym]) -> Block:
    """The statements of a block, with calls; the variables of the loops in whose place these are
    are added to those that are ``gone``."""
    found: list[Stmt] = []
    for stmt in block:
        if isinstance(stmt, Loop):
            nest = _nest_of(stmt)
            run = None if nest is None else _run_of(nest, grows)
            if nest is not None and run is not None:
                gone.update(loop.var for loop in nest)
                found.append(run)
                continue
            if stmt.kind != "parallel" or is_provably_ge(stmt.lo + stmt.step, stmt.hi):
                stmt = replace(stmt, body=_share(stmt.body, grows, gone))
        elif isinstance(stmt, If):
            then, orelse = (_share(b, grows, gone) for b in (stmt.then, stmt.orelse))
            stmt = replace(stmt, then=then, orelse=orelse)
        found.append(stmt)
    return tuple(found)


def _nest_of(loop: Loop) -> list[Loop] | None:
    """Parallel loops, each all of the body of the one around it, but for the innermost, which is
    one or two statements; None if they are not such."""
    nest = []
    while loop.kind == "parallel" and loop.step == 1 and loop.lo == 0:
        nest.append(loop)
        last = loop.body[-1] if loop.body else None
        if isinstance(last, Store):
            return nest if len(loop.body) <= 2 else None
        if len(loop.body) != 1 or not isinstance(last, Loop):
            return None
        loop = last
    return None


def _run_of(nest: Sequence[Loop], grows: set[str]) -> Call | None:
    """The call for a nest that is a run of unknown length, which may be worth sharing."""
    *before, store = nest[-1].body
    assert isinstance(store, Store)
    places = {store.buffer: store.index}
    if isinstance(store.value, Const):
        if before or repr(store.value.value) not in ("0", "0.0", "False"):
            return None
        word = "zero"
    else:
        (load,) = before or (None,)
        if not isinstance(load, Let) or load.reg != store.value or not isinstance(load.expr, Load):
            return None
        if load.expr.bound is not None or load.expr.at is not None:
            return None
        places = {load.expr.buffer: load.expr.index, **places}
        word = "copy"
    if len(places) != len(before) + 1 or not grows.isdisjoint(places):
        return None
    count = _length(nest, [*places.values()])
    dtype = store.value.dtype
    if count is None or is_provably_ge(_least_shared(word, dtype), count):
        return None
    starts = tuple(
        substitute_dim(index, {loop.var: 0 for loop in nest}) for index in places.values()
    )
    work = ceil_div(count * dtype.itemsize, _BYTES[word])
    return Call(_kernel_of(word, dtype), tuple(places), starts, (count,), work)


def _length(nest: Sequence[Loop], places: Sequence[Size]) -> Size | None:
    """How many elements lie one behind the other that a nest goes through at all ``places``; None
    where they do not, or where that is known."""
    length: Size = 1
    for loop in reversed(nest):
        if any(coefficient(index, loop.var) != length for index in places):
            return None
        length = length * loop.hi
    return None if isinstance(length, int) else length


def _least_shared(word: str, dtype: DType) -> int:
    """The elements of a run from which on threads may share it."""
    return SHARED_WORK * _BYTES[word] // dtype.itemsize


# -- the kernels -----------------------------------------------------------------------------------


def is_run(name: str) -> bool:
    """Whether a kernel of that name, which programs share, is for runs."""
    return name.split("_")[1] in _BYTES


def emit_run(name: str, kind: str = "parallel") -> Lowered:
    """The kernel of that name, before it is scheduled, a loop of some kind."""
    _, word, short = name.split("_")
    dtype = next(d for d in DTYPES if d.short == short)
    buffers, (size,) = _buffers(word, dtype), _SIZES
    k = Builder([*buffers], [size])
    with k.loop("i", Dim.of(size), kind=kind) as i:
        zero = k.const(False if dtype is bool_ else 0, dtype)
        k.store("to", i, k.load("from", i) if word == "copy" else zero)
    kernel = k.kernel(name)
    (loop,) = kernel.body
    assert isinstance(loop, Loop)
    return Lowered(kernel, inner=(loop.var,), bits=dtype.bits)


def least_shared(name: str) -> int:
    """The elements from which on threads may share a run, of the kernel of that name."""
    _, word, short = name.split("_")
    return _least_shared(word, next(d for d in DTYPES if d.short == short))


_SIZES = (Sym("n"),)


def _buffers(word: str, dtype: DType) -> tuple[Buffer, ...]:
    to = Buffer("to", dtype, "out")
    return (Buffer("from", dtype, "in"), to) if word == "copy" else (to,)


def _kernel_of(word: str, dtype: DType) -> Shared:
    name = f"shared_{word}_{dtype.short}"
    return Shared(name, _buffers(word, dtype), _SIZES, lambda: emit_run(name).kernel)
