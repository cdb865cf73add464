"""The kernels for runs of unknown length (`staticflow.codegen.schedule.runs`), made fast."""

from __future__ import annotations

from dataclasses import replace

from staticflow.codegen.kernel import Apply, Const, If, Index, Kernel, Let, Reg
from staticflow.codegen.rewrite import Names, copy_block
from staticflow.codegen.schedule.cpu import schedule_cpu
from staticflow.codegen.schedule.runs import emit_run, least_shared
from staticflow.codegen.schedule.vectorize import vectorize
from staticflow.codegen.target import Target
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import bool_, int64

__all__ = ["schedule_run"]

_BESIDE = 2
"""Registers side by side in a loop over a short run, as in the other."""


def schedule_run(name: str, target: Target) -> Kernel:
    """The kernel of that name: a loop that threads share, and that knows when to store past the
    caches, and for shorter runs one that asks for neither."""
    alone = replace(target, shares=False)  # it would be a call of itself
    long = schedule_cpu(emit_run(name), alone)
    raw = emit_run(name, "serial")
    (var,) = raw.inner
    short = vectorize(raw.kernel, var, _BESIDE * target.vector_bits // raw.bits)
    names = Names(long)
    count, is_short = Reg(names.fresh("count"), int64), Reg(names.fresh("is_short"), bool_)
    (size,) = long.sizes
    least = Const(least_shared(name), int64)
    return long.with_body(
        (
            Let(count, Index(Dim.of(size))),
            Let(is_short, Apply("lt", (count, least))),
            If(is_short, copy_block(short.body, {}, names), long.body),
        )
    )
