"""Loops whose iterations may be spread over threads, in LLVM text.

Such a loop is a function of its own, a *part*: ``i32 part(ptr struct, i64 first, i64 last, i64
worker)`` runs those iterations, with what it uses of its surroundings in a struct, on the thread of
that number. ``@parallel`` calls it: once if
there is little work, or for ranges of the iterations on several threads (see the pool, in
`runtime`). Each iteration does the same either way, so that no result depends on the number of
threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.codegen.kernel import (
    LANE_SYM,
    Bind,
    Block,
    Call,
    Let,
    Load,
    Local,
    Loop,
    Reg,
    Store,
    Var,
)
from staticflow.codegen.llvm.text import FunctionText
from staticflow.codegen.parts import operands_of, sizes_of, walk
from staticflow.codegen.thresholds import SHARED_WORK
from staticflow.codegen.work import most_work, summarize, work_at
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Sym, is_provably_ge

__all__ = [
    "DECLARATIONS",
    "MANY_WORKERS",
    "WANTED",
    "Field",
    "Uses",
    "is_worth_sharing",
    "load_fields",
    "may_be_much",
    "store_fields",
    "uses_of",
]

WANTED = "@wanted"
"""Where the number of threads is, an i64."""

MANY_WORKERS = 1024
"""The threads that may run a loop whose body does not ask for its worker: as many as the pool has
shares for."""

DECLARATIONS = f"""{WANTED} = external global i64
declare i32 @parallel(ptr, ptr, i64, i64, i64)
declare i1 @stopping() cold"""


@dataclass(frozen=True, slots=True)
class Uses:
    """What a block uses of its surroundings, each once."""

    buffers: tuple[str, ...]
    symbols: tuple[Sym, ...]
    registers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct: its type, its value where the struct is written, and the name of the
    register that holds it where the struct is read."""

    type: str
    value: str
    name: str


def is_worth_sharing(loop: Loop, sizes: Sequence[Sym], inside: bool) -> bool:
    """Whether the iterations of a loop may be spread, and there may be enough work for that at some
    ``sizes`` of the kernel. ``inside`` of such a loop, which may have few iterations, innermost
    loops do not count."""
    if loop.kind != "parallel" or is_provably_ge(loop.lo + loop.step, loop.hi):
        return False
    if inside and not any(isinstance(stmt, Loop) for stmt in loop.body):
        return False
    return may_be_much(loop, sizes, SHARED_WORK)


def may_be_much(loop: Loop, sizes: Sequence[Sym], least: int) -> bool:
    """Whether a loop may be ``least`` work, or more, at some ``sizes`` of the kernel."""
    # Where sizes are very large: powers of two, of which tiles leave no rest, and unequal ones, so
    # that windows are smaller than images. What is bound on the way is at its beginning, where a
    # triangle is large, or at its end, where there are many tasks.
    large = tuple([1 << max(24 - i, 12) for i in range(len(sizes))])
    orders = {large, large[::-1]}  # one of them where no size, or one, is unknown
    summary = summarize(loop)
    return any(
        count(summary, dict(zip(sizes, order, strict=True))) >= least
        for count in (work_at, most_work)
        for order in orders
    )


def uses_of(body: Block, *own: Sym) -> Uses:
    """What a block, such as the body of a loop over one of ``own``, uses and does not bind."""
    buffers: dict[str, None] = {}
    symbols: set[Sym] = set()
    registers: dict[str, None] = {}
    arrays: set[str] = set()
    bound: set[Sym | str] = {*own, LANE_SYM}
    for stmt in walk(body):
        part = stmt.expr if isinstance(stmt, Let) else stmt
        for size in sizes_of(part):
            symbols |= symbols_of(size)
        for a in operands_of(part):
            if isinstance(a, Reg):
                registers[a.name] = None
        if isinstance(part, (Load, Store)):
            buffers[part.buffer] = None
        elif isinstance(part, Call):
            buffers |= dict.fromkeys(part.buffers)
        if isinstance(stmt, (Let, Var)):
            bound.add(stmt.reg.name)
        elif isinstance(stmt, Loop):
            bound.add(stmt.var)
        elif isinstance(stmt, Bind):
            bound.add(stmt.sym)
        elif isinstance(stmt, Local):
            arrays.add(stmt.name)
    return Uses(
        tuple(b for b in buffers if b not in arrays),
        tuple(sorted(symbols - bound, key=Sym.sort_key)),
        tuple(r for r in registers if r not in bound),
    )


def store_fields(text: FunctionText, fields: Sequence[Field]) -> str:
    """Put values in memory that lasts as long as the function runs; gives its address."""
    struct = text.fresh("struct")
    text.entry.phis.append(f"{struct} = alloca {_struct(fields)}, align 64")
    for i, field in enumerate(fields):
        text.do(f"store {field.type} {field.value}, ptr {_address(text, struct, fields, i)}")
    return struct


def load_fields(text: FunctionText, struct: str, fields: Sequence[Field]) -> None:
    """Load the values of a struct into registers of the fields' names."""
    for i, field in enumerate(fields):
        at = _address(text, struct, fields, i)
        text.do(f"{field.name} = load {field.type}, ptr {at}")


def _address(text: FunctionText, struct: str, fields: Sequence[Field], i: int) -> str:
    """The address of a field."""
    if i == 0:
        return struct
    return text.op(f"getelementptr {_struct(fields)}, ptr {struct}, i64 0, i32 {i}")


def _struct(fields: Sequence[Field]) -> str:
    return f"{{ {', '.join(field.type for field in fields)} }}"
