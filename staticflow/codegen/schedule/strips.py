"""Loops over what lies transposed, in strips that the cache holds.

In ``out[i, j] = x[j, i]`` each step of the inner loop reads another line of the cache, and comes
back to it with the next ``i``, when it is gone. In strips of some ``j``, the lines of a strip are
still there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from staticflow.codegen.kernel import (
    Block,
    Kernel,
    Let,
    Load,
    Loop,
    Stmt,
    Store,
)
from staticflow.codegen.parts import walk
from staticflow.codegen.rewrite import Names, copy_block, replace_loop, rewrite
from staticflow.codegen.schedule.loops import iteration_count
from staticflow.graph.dim_queries import coefficient, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, floor_div

__all__ = ["strips"]

_NEAR = 4
"""Elements apart at which a line of the cache holds several."""


def strips(kernel: Kernel, var: Sym, width: int) -> tuple[Kernel, list[Sym]]:
    """The kernel whose innermost loop over ``var`` runs ``width`` iterations at a time, outside of
    which is the loop along which what it reads or writes is contiguous; and the variables of the
    loops within strips, of those that are whole and of the rest. As it was if nothing lies
    transposed in the nest of parallel loops around."""
    nest = _nest_of(kernel.body, var)
    along = next((i for i, loop in enumerate(nest[:-1]) if _is_along(loop.var, nest[-1])), None)
    if along is None:
        return kernel, [var]
    first, *between, inner = nest[along:]
    lets = tuple(s for loop in nest[along:-1] for s in loop.body if isinstance(s, Let))

    def exchange(inner: Loop, *outside: Loop) -> Loop:
        body: Block = (replace(first, body=(*lets, inner)),)
        for loop in reversed((*between, *outside)):
            body = (replace(loop, body=body),)
        (whole,) = body
        assert isinstance(whole, Loop)
        return whole

    full = floor_div(iteration_count(inner), width)
    rest = replace(inner, lo=inner.lo + full * width)
    if full == 0:
        return replace_loop(kernel, first.var, (exchange(rest),)), [var]
    strip = Sym(f"{var.name}_strip", 0, full)
    within = Sym(f"{var.name}_in", 0, width)
    element = inner.lo + Dim.of(strip) * width + Dim.of(within)
    part = Loop(within, 0, width, rewrite(inner.body, {var: element}), 1, "parallel")
    whole = exchange(part, Loop(strip, 0, full, (), 1, "parallel"))
    if iteration_count(rest) == 0:
        return replace_loop(kernel, first.var, (whole,)), [within]
    (main,) = copy_block((whole,), {}, Names(kernel))
    loops = (s for s in walk((main,)) if isinstance(s, Loop) and s.kind == "parallel")
    *_, last = (loop.var for loop in loops if loop.hi == width)  # a body may have loops of its own
    return replace_loop(kernel, first.var, (main, exchange(rest))), [last, var]


def _nest_of(block: Block, var: Sym) -> list[Loop]:
    """The parallel loops around the one over ``var``, and that, the outermost first: each but the
    last holds the next and registers alone, and none depends on another. Only the last if there is
    none such around it."""
    nest: list[Loop] = []
    for stmt in walk(block):
        if isinstance(stmt, Loop) and any(
            isinstance(s, Loop) and s.var == var for s in walk((stmt,))
        ):
            nest.append(stmt)
    first = len(nest) - 1
    while first > 0 and _holds_one(nest[first - 1]):
        first -= 1
    nest = nest[first:]
    variables = {loop.var for loop in nest}
    if any((symbols_of(loop.lo) | symbols_of(loop.hi)) & variables for loop in nest):
        return nest[-1:]
    return nest


def _holds_one(loop: Loop) -> bool:
    """Whether a loop is parallel and holds another such and registers alone."""
    inner = [stmt for stmt in loop.body if not isinstance(stmt, Let)]
    return len(inner) == 1 and all(
        isinstance(stmt, Loop) and stmt.kind == "parallel" and stmt.step == 1
        for stmt in (loop, *inner)
    )


def _is_along(outer: Sym, inner: Loop) -> bool:
    """Whether something is contiguous along ``outer`` of which the loop within takes distant
    elements."""
    indices = [p for stmt in inner.body for p in _element_indices(stmt)]
    return any(
        coefficient(p, outer) == 1 and not _is_near(coefficient(p, inner.var)) for p in indices
    )


def _is_near(stride: Size | None) -> bool:
    return isinstance(stride, int) and abs(stride) <= _NEAR


def _element_indices(stmt: Stmt) -> Sequence[Size]:
    """Where a statement reads or writes memory."""
    part = stmt.expr if isinstance(stmt, Let) else stmt
    return (part.index,) if isinstance(part, (Load, Store)) else ()
