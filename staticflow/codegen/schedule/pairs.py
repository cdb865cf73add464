"""Sums over a few elements for each pair of a row of one array and a row of another, as distances.

Along the last dim, a row fills part of a vector, whose lanes are then added up for each pair. Here
lanes are rows of one of the two arrays, whose elements are loaded once, apart as they lie; then
rows of the other one go by, a block of them.
"""

from __future__ import annotations

from dataclasses import replace

from staticflow.codegen.kernel import Block, Kernel, Let, Load, Local, Loop, Stmt, Store
from staticflow.codegen.parts import totals_of, walk
from staticflow.codegen.rewrite import Names, find_loop, replace_loop, rewrite
from staticflow.codegen.schedule.loops import is_vectorizable, iteration_count, unroll
from staticflow.graph.dim_queries import coefficient, symbols_of
from staticflow.graph.dims import Dim, Sym, ceil_div, dim_min

__all__ = ["beside_each_other"]

_MOST = 64
"""Elements of a row, at most: so many vectors are near while the other rows go by."""

_WRITTEN_OUT = 8
"""Elements whose part of the sum is written out, one behind the other."""

_LEAST = 8
"""Rows that go by, at least, as far as is known: they make up for loads of elements apart."""

_BLOCK = 64
"""Rows that go by at a time, between which threads share the work."""


def beside_each_other(kernel: Kernel, var: Sym, lanes: int) -> tuple[Kernel, Sym] | None:
    """The kernel in which the loops over pairs around the one over ``var``, of few elements, are
    exchanged, within blocks of the one outside, and what is loaded for the one that is outside then
    is loaded once for it, into an array on the stack; with the variable of that, which is to have
    ``lanes``. None if that is no loop over elements of pairs of rows, or does not pay."""
    around, loop = _pairs_around(kernel.body, var), find_loop(kernel, var)
    if around is None or not _pays(*around, loop, lanes):
        return None
    first, second = around
    names = Names(kernel)
    copies, body = _take_apart(kernel, loop, second.var, names)
    again = tuple(replace(s, body=body) if s is loop else s for s in second.body)
    blocks = ceil_div(iteration_count(first), _BLOCK)
    block = Sym(names.fresh(f"{first.var.name}_block"), 0, blocks)
    start = first.lo + Dim.of(block) * _BLOCK
    end = dim_min(start + _BLOCK, first.hi)
    row = Sym(names.fresh(f"{first.var.name}_row"), 0, first.hi)
    rows = Loop(row, start, end, rewrite(again, {first.var: Dim.of(row)}))
    nest = Loop(block, 0, blocks, (replace(second, body=(*copies, rows)),), 1, "parallel")
    kernel = unroll(replace_loop(kernel, first.var, (nest,)), var, _WRITTEN_OUT)
    return (kernel, second.var) if is_vectorizable(kernel, second.var) else None


def _take_apart(kernel: Kernel, loop: Loop, row: Sym, names: Names) -> tuple[Block, Block]:
    """What copies the elements of a ``row`` that a loop loads into arrays, and the body of the loop
    that loads them there."""
    count = iteration_count(loop)
    assert isinstance(count, int)
    dtypes = {b.name: b.dtype for b in kernel.buffers}
    arrays: list[Stmt] = []
    stores: list[Stmt] = []
    body: list[Stmt] = []
    at = Dim.of(loop.var) - loop.lo
    element = Sym(names.fresh(loop.var.name), 0, loop.hi)
    for stmt in loop.body:
        load = stmt.expr if isinstance(stmt, Let) else None
        if isinstance(load, Load) and isinstance(stmt, Let) and row in symbols_of(load.index):
            name = names.fresh(f"{load.buffer}_row")
            arrays.append(Local(name, dtypes[load.buffer], count, "stack"))
            copy = replace(stmt.reg, name=names.fresh(stmt.reg.name))
            stores += [
                rewrite(s, {loop.var: Dim.of(element)})
                for s in (Let(copy, load), Store(name, at, copy))
            ]
            stmt = Let(stmt.reg, Load(name, at))
        body.append(stmt)
    return (*arrays, replace(loop, var=element, body=tuple(stores))), tuple(body)


def _pairs_around(body: Block, var: Sym) -> tuple[Loop, Loop] | None:
    """The two loops around the one over ``var``, each but the last all that is in the other."""
    for first in walk(body):
        if isinstance(first, Loop) and len(first.body) == 1 and isinstance(first.body[0], Loop):
            second = first.body[0]
            if any(isinstance(s, Loop) and s.var == var for s in second.body):
                return first, second
    return None


def _pays(first: Loop, second: Loop, loop: Loop, lanes: int) -> bool:
    """Whether the elements that a loop loads are each of one of the rows, and rows are enough."""
    count, rows, beside = map(iteration_count, (loop, first, second))
    if not isinstance(count, int) or not 1 < count <= _MOST:
        return False
    if any(nest.kind != "parallel" or nest.step != 1 for nest in (first, second)):
        return False
    if (isinstance(rows, int) and rows < _LEAST) or (isinstance(beside, int) and beside < lanes):
        return False
    if first.var in symbols_of(second.lo) | symbols_of(second.hi):
        return False
    if any(isinstance(s, Store | Loop) for s in loop.body) or not totals_of(loop):
        return False
    if sum(isinstance(s, Loop) for s in second.body) != 1:
        return False
    loads = [s.expr.index for s in loop.body if isinstance(s, Let) and isinstance(s.expr, Load)]
    of = [symbols_of(index) & {first.var, second.var} for index in loads]
    stores = [s.index for s in second.body if isinstance(s, Store)]
    return (
        {first.var} in of
        and {second.var} in of
        and all(len(o) < 2 for o in of)
        and all(coefficient(index, second.var) == 1 for index in stores)
    )
