"""Rare branches as functions of their own: each is in the text of a kernel once, however often the
kernel takes it.

A sine reduces angles beyond half a million by some ninety operations on integers, which hardly any
call needs: of a chain of fifty sines they are three quarters of the instructions, and LLVM takes as
long for a branch that is never taken as for any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.codegen.kernel import (
    ENDLESS,
    Accumulate,
    Block,
    If,
    Let,
    Loop,
    Set,
    Var,
    Worker,
    Workers,
)
from staticflow.codegen.llvm.parallel import uses_of
from staticflow.codegen.llvm.text import FunctionText
from staticflow.codegen.llvm.values import Value
from staticflow.codegen.parts import walk

__all__ = ["RARELY", "find_reads", "give_all", "take_all"]

RARELY = "noinline cold willreturn memory(none)"
"""The attributes of such a function: it makes values of values."""


def find_reads(block: Block) -> tuple[str, ...] | None:
    """The registers of which a block makes others, if it does nothing else; None if it does."""
    for stmt in walk(block):
        if isinstance(stmt, Let) and isinstance(stmt.expr, (Worker, Workers)):
            return None
        if isinstance(stmt, Loop) and (stmt.kind != "serial" or stmt.hi == ENDLESS):
            return None
        if not isinstance(stmt, (Let, Var, Set, Accumulate, If, Loop)):
            return None
    uses = uses_of(block)
    return None if uses.buffers or uses.symbols else uses.registers


def give_all(text: FunctionText, values: Sequence[Value]) -> str:
    """End the function with several values; gives the type of its result."""
    kind = f"{{ {', '.join(str(v.type) for v in values)} }}"
    made = "poison"
    for i, v in enumerate(values):
        made = text.op(f"insertvalue {kind} {made}, {v.type} {v.name}, {i}")
    text.block.end = f"ret {kind} {made}"
    return kind


def take_all(text: FunctionText, kind: str, made: str, like: Sequence[Value]) -> list[Value]:
    """The values of a result of that kind, of the types of others."""
    return [
        Value(text.op(f"extractvalue {kind} {made}, {i}"), v.dtype, v.lanes)
        for i, v in enumerate(like)
    ]
