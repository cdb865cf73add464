"""Loops in order that store running totals, as scans: `as_scan`."""

from __future__ import annotations

from dataclasses import replace

from staticflow.codegen.kernel import (
    Accumulate,
    Apply,
    Bind,
    Check,
    Let,
    Loop,
    Operand,
    Reg,
    Set,
    Stmt,
    Var,
)
from staticflow.codegen.parts import operands_of, totals_of, walk
from staticflow.codegen.primitives import COMBINES
from staticflow.codegen.rewrite import rewrite
from staticflow.codegen.schedule.independent import memory_conflict

__all__ = ["as_scan"]


def as_scan(loop: Loop) -> Loop | None:
    """A loop in order as a scan, if all that its iterations hand on are totals; None if not."""
    if loop.going is not None or loop.step != 1 or memory_conflict(loop) is not None:
        return None
    own = {s.reg.name for s in walk(loop.body) if isinstance(s, (Let, Var))}
    body: list[Stmt] = []
    renamed: dict[str, Reg] = {}  # values that are totals from where they are worked out on
    for stmt in loop.body:
        step = _step_of(stmt, loop)
        if isinstance(stmt, Let) and step is not None:
            body.append(rewrite(step, {}, None, renamed))
            renamed[stmt.reg.name] = step.reg
        elif isinstance(stmt, Set) and stmt.reg.name not in own:
            if not isinstance(stmt.value, Reg) or renamed.get(stmt.value.name) != stmt.reg:
                return None
        else:
            body.append(rewrite(stmt, {}, None, renamed))
    result = replace(loop, body=tuple(body), kind="scan")
    return result if _is_scan(result) else None


def _step_of(stmt: Stmt, loop: Loop) -> Accumulate | None:
    """``let v = OP(reg, x)`` as ``accumulate reg OP x``, where ``set reg = v`` comes behind it.
    Not products of floating numbers: in another order they may be 0 * inf."""
    if not (isinstance(stmt, Let) and isinstance(stmt.expr, Apply) and stmt.expr.op in COMBINES):
        return None
    if stmt.expr.op == "mul" and stmt.reg.dtype.is_floating:
        return None
    for reg in (s.reg for s in loop.body if isinstance(s, Set) and s.value == stmt.reg):
        others: list[Operand] = [a for a in stmt.expr.args if a != reg]
        if len(others) == 1:
            return Accumulate(reg, stmt.expr.op, others[0])
    return None


def _is_scan(loop: Loop) -> bool:
    """Whether a loop keeps the rules of a scan: totals are read behind the last `Accumulate`."""
    own = {s.reg.name for s in walk(loop.body) if isinstance(s, (Let, Var))}
    changes = [i for i, s in enumerate(loop.body) if isinstance(s, Accumulate)]
    totals = totals_of(loop)
    inside = sum(isinstance(s, Accumulate) and s.reg in totals for s in walk(loop.body))
    if not 0 < len(changes) == len(totals) == inside:
        return False
    if any(isinstance(s, Set) and s.reg.name not in own for s in walk(loop.body)):
        return False
    if any(isinstance(s, Check) for s in walk(loop.body)):  # it would end the work of one thread
        return False
    ahead = loop.body[: changes[-1] + 1]
    if not all(isinstance(s, (Let, Bind, Accumulate)) for s in ahead):
        return False
    read = {
        o.name
        for s in ahead
        for part in ((s, s.expr) if isinstance(s, Let) else (s,))
        for o in operands_of(part)
        if isinstance(o, Reg)
    }
    return not any(reg.name in read for reg in totals)
