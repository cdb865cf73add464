"""Loops whose iterations may be spread over threads, in LLVM text.

Such a loop is a function of its own, a *part*, over a range of the loop's variable; it takes what
it uses of its surroundings as arguments. Where there is little work it is called once. Otherwise
its arguments are put into a record, and ``@parallel`` has it called for ranges of the iterations
(`staticflow.runtime.pool`). Either way each iteration does the same, so that no result depends on
the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from staticflow.codegen.kernel import (
    LANE_SYM,
    Bind,
    Let,
    Load,
    Loop,
    Reg,
    Store,
    Var,
    operands_of,
    walk,
)
from staticflow.codegen.llvm_index import IndexWriter
from staticflow.codegen.llvm_text import FunctionText
from staticflow.codegen.schedule import trip_count
from staticflow.codegen.work import ENOUGH, work_of
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, Sym, is_provably_ge

__all__ = ["DECLARATION", "Argument", "Uses", "is_spread", "task_text", "uses_of", "write_call"]

DECLARATION = "declare i32 @parallel(ptr, ptr, i64)"


@dataclass(frozen=True, slots=True)
class Argument:
    """What a part takes: the type and name of its parameter, and the value that it is given."""

    type: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Uses:
    """What a loop uses of its surroundings, each once, in order."""

    buffers: tuple[str, ...]
    symbols: tuple[Sym, ...]
    registers: tuple[str, ...]


def is_spread(loop: Loop, inside: bool) -> bool:
    """Whether the iterations of a loop may be spread, and may be enough work for that; ``inside``
    of such a loop, which may have few iterations, only if it is no innermost one."""
    return (
        loop.kind == "parallel"
        and not (inside and not any(isinstance(stmt, Loop) for stmt in walk(loop.body)))
        and not is_provably_ge(loop.lo + loop.step, loop.hi)
        and not is_provably_ge(ENOUGH - 1, work_of(loop))
    )


def uses_of(loop: Loop) -> Uses:
    """What the body of a loop uses and does not bind."""
    buffers: dict[str, None] = {}
    symbols: dict[Sym, None] = {}
    registers: dict[str, None] = {}
    bound: set[Sym | str] = {loop.var, LANE_SYM}
    for stmt in walk(loop.body):
        for part in (stmt, stmt.expr) if isinstance(stmt, Let) else (stmt,):
            registers |= {a.name: None for a in operands_of(part) if isinstance(a, Reg)}
            values = (getattr(part, name) for name in part.__slots__)
            symbols |= {s: None for v in values if isinstance(v, Dim) for s in sorted_symbols(v)}
            if isinstance(part, (Load, Store)):
                buffers[part.buffer] = None
        if isinstance(stmt, (Let, Var)):
            bound.add(stmt.reg.name)
        elif isinstance(stmt, Loop):
            bound.add(stmt.var)
        elif isinstance(stmt, Bind):
            bound.add(stmt.sym)
    return Uses(
        tuple(buffers),
        tuple(s for s in symbols if s not in bound),
        tuple(r for r in registers if r not in bound),
    )


def sorted_symbols(size: Size) -> list[Sym]:
    """The symbols of a size, in an order that is the same in every process."""
    return sorted(symbols_of(size), key=Sym.sort_key)


def write_call(
    text: FunctionText, indices: IndexWriter, loop: Loop, part: str, arguments: list[Argument]
) -> str:
    """Call ``part`` for all iterations, in order or spread; gives its code."""
    given = [f"{a.type} {a.value}" for a in arguments]
    lo, hi = indices.value(loop.lo), indices.value(loop.hi)
    count, work = indices.value(trip_count(loop)), indices.value(work_of(loop))
    small, large, done = (text.new_block(name) for name in ("small", "large", "done"))
    record = text.fresh("record")
    text.entry.phis.append(f"{record} = alloca {_record_type(arguments)}, align 64")
    text.branch(text.op(f"icmp sge i64 {work}, {ENOUGH}"), large, small)
    text.start(small)
    alone = text.op(f"call i32 @{part}({', '.join([*given, f'i64 {lo}', f'i64 {hi}'])})")
    text.jump(done)
    text.start(large)
    for i, value in enumerate([*given, f"i64 {lo}", f"i64 {hi}"]):
        at = text.op(f"getelementptr {_record_type(arguments)}, ptr {record}, i64 0, i32 {i}")
        text.do(f"store {value}, ptr {at}")
    together = text.op(f"call i32 @parallel(ptr @{part}.task, ptr {record}, i64 {count})")
    text.jump(done)
    text.start(done)
    code = text.fresh("code")
    done.phis.append(
        f"{code} = phi i32 [ {alone}, %{small.label} ], [ {together}, %{large.label} ]"
    )
    return code


def task_text(loop: Loop, part: str, arguments: list[Argument]) -> str:
    """The function that calls ``part`` with what is in a record, for some of the iterations."""
    text = FunctionText()
    given = []
    for i, type in enumerate([*(a.type for a in arguments), "i64", "i64"]):
        at = text.op(f"getelementptr {_record_type(arguments)}, ptr %record, i64 0, i32 {i}")
        given.append((type, text.op(f"load {type}, ptr {at}")))
    (_, lo), (_, hi) = given[-2:]
    ends = []
    for name in ("%first", "%last"):
        steps = text.op(f"mul i64 {name}, {loop.step}")
        ends.append(text.op(f"add i64 {lo}, {steps}"))
    ends[1] = text.op(f"call i64 @llvm.smin.i64(i64 {ends[1]}, i64 {hi})")
    given[-2:] = [("i64", end) for end in ends]
    code = text.op(f"call i32 @{part}({', '.join(f'{t} {v}' for t, v in given)})")
    text.block.end = f"ret i32 {code}"
    head = f"define internal i32 @{part}.task(ptr %record, i64 %first, i64 %last) nounwind"
    return f"{head} {{\n{text}}}\n"


def _record_type(arguments: list[Argument]) -> str:
    return "{ " + ", ".join([*(a.type for a in arguments), "i64", "i64"]) + " }"
