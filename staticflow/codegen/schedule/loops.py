"""Schedules: functions from a kernel to one that computes the same in another order or shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from staticflow.codegen.kernel import (
    Accumulate,
    Bind,
    Block,
    Check,
    Kernel,
    Let,
    Loop,
    Set,
    Stmt,
    Store,
    Var,
    Worker,
)
from staticflow.codegen.parts import walk
from staticflow.codegen.rewrite import Names, copy_block, find_loop, replace_loop
from staticflow.codegen.schedule.vectorize import is_vectorizable, vectorize, vectorize_whole
from staticflow.codegen.text import format_statement
from staticflow.errors import VerifyError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, Sym, ceil_div, dim_max, floor_div, prod

__all__ = [
    "bind_grid",
    "is_vectorizable",
    "iteration_count",
    "merge_nest",
    "merge_parallel",
    "parallel",
    "split",
    "thread_bound",
    "unroll",
    "vectorize",
    "vectorize_whole",
]  # fmt: skip


def iteration_count(loop: Loop) -> Size:
    """How often the body of a loop runs."""
    return ceil_div(dim_max(loop.hi - loop.lo, 0), loop.step)


def thread_bound(loop: Loop) -> Size | None:
    """How many threads or teams may run a loop at most, where its body asks for the worker, or
    None."""
    asked = (s.expr for s in loop.body if isinstance(s, Let))
    return next((e.most for e in asked if isinstance(e, Worker)), None)


def unroll(kernel: Kernel, var: Sym, factor: int) -> Kernel:
    """The kernel whose loop over ``var`` has ``factor`` iterations in its body, in order.

    What is left over runs in a second loop. Where the number of iterations is constant, ``factor``
    of them or fewer are written out with no loop, and so are those that are left over.

    Raises `VerifyError` if there is no such loop, it is a grid's or has a ``while``, or ``factor``
    is below 1.
    """
    loop = find_loop(kernel, var)
    if loop.kind == "grid":
        raise VerifyError(f"kernel {kernel.name}: {var} numbers a grid's threads; it has no order")
    if loop.going is not None:
        raise VerifyError(f"kernel {kernel.name}: the loop over {var} asks before each iteration")
    if factor < 1:
        raise VerifyError(f"kernel {kernel.name}: {var} cannot be unrolled {factor} times")
    return replace_loop(kernel, var, _unroll_loop(loop, factor, Names(kernel)))


def _unroll_loop(loop: Loop, factor: int, names: Names) -> Block:
    count = iteration_count(loop)
    if isinstance(count, int) and count <= factor:
        return _copies(loop, loop.lo, count, names)
    full = floor_div(count, factor) * factor
    middle = loop.lo + full * loop.step
    if full == factor:
        main = _copies(loop, loop.lo, factor, names)
    else:
        var = replace(loop.var, upper=middle)
        body = _copies(loop, Dim.of(var), factor, names)
        main = (Loop(var, loop.lo, middle, body, loop.step * factor, loop.kind),)
    if isinstance(count, int):
        rest = replace(loop, body=copy_block(loop.body, {}, names))
        return (*main, *_copies(rest, middle, count % factor, names))
    if count == full:
        return main
    return (*main, *copy_block((replace(loop, lo=middle),), {}, names))


def _copies(loop: Loop, first: Size, count: int, names: Names) -> Block:
    """``count`` iterations in a row, the first of them with the names of the loop's own body."""
    copies: list[Stmt] = []
    for k in range(count):
        at = {loop.var: first + k * loop.step}
        copies += copy_block(loop.body, at, names if k else None)
    return tuple(copies)


def split(kernel: Kernel, var: Sym, count: int) -> tuple[Kernel, Sym | None]:
    """The kernel whose loop over ``var`` leaves all but the last iterations, as many as are a
    multiple of ``count``, to a loop before it; and the variable of that. None if there are fewer
    than ``count``.

    Raises `VerifyError` if there is no such loop, its step is not 1, it is a grid's or has a
    ``while``.
    """
    loop = find_loop(kernel, var)
    if loop.kind == "grid" or loop.going is not None or loop.step != 1:
        raise VerifyError(f"kernel {kernel.name}: the loop over {var} cannot be split")
    full = floor_div(iteration_count(loop), count) * count
    if full == 0:
        return kernel, None
    middle = loop.lo + full
    (first,) = copy_block((replace(loop, hi=middle),), {}, Names(kernel))
    assert isinstance(first, Loop)
    return replace_loop(kernel, var, (first, replace(loop, lo=middle))), first.var


def parallel(kernel: Kernel, var: Sym) -> Kernel:
    """The kernel whose loop over ``var`` may run its iterations in any order, on any thread.

    Raises `VerifyError` if an iteration changes a register from outside the loop, or stores to an
    element that does not depend on ``var``. That no iteration loads or stores what another one
    stores is the caller's promise: it cannot be decided in general.
    """
    loop = find_loop(kernel, var)
    own = {s.reg.name for s in walk(loop.body) if isinstance(s, (Let, Var))}
    for stmt in walk(loop.body):
        if isinstance(stmt, (Set, Accumulate)) and stmt.reg.name not in own:
            fault = "iterations share the register"
        elif isinstance(stmt, Store) and var not in symbols_of(stmt.index):
            fault = "iterations share the element"
        else:
            continue
        raise VerifyError(
            f"kernel {kernel.name}: the loop over {var} cannot be parallel: "
            f"{format_statement(stmt)}: {fault}"
        )
    return replace_loop(kernel, var, (replace(loop, kind="parallel"),))


def bind_grid(kernel: Kernel) -> Kernel:
    """The kernel as one GPU thread of a grid.

    The outermost parallel loop, together with the parallel loops that are all of its body, becomes
    one loop of kind ``grid`` over the product of their numbers of iterations, the innermost varying
    fastest. Statements that compute no more than registers may stand before it; every thread runs
    them. Any other kernel is returned unchanged: it runs in one thread.
    """
    *before, loop = kernel.body or (None,)
    if not isinstance(loop, Loop) or loop.kind != "parallel":
        return kernel
    if not all(isinstance(stmt, (Let, Var, Bind, Check)) for stmt in before):
        return kernel
    return kernel.with_body((*before, replace(merge_parallel(loop, Names(kernel)), kind="grid")))


def merge_parallel(loop: Loop, names: Names) -> Loop:
    """One parallel loop for ``loop`` and the parallel ones that are all of its body, over the
    product of their numbers of iterations, the innermost varying fastest."""
    nest = [loop]
    while (inner := _only_loop(nest[-1].body)) is not None and _is_rectangular(nest, inner):
        nest.append(inner)
    return merge_nest(nest, nest[-1].body, names)


def merge_nest(nest: Sequence[Loop], body: Block, names: Names) -> Loop:
    """One parallel loop, in which ``body`` is run for all iterations of some loops, each in the
    other."""
    counts = [iteration_count(loop) for loop in nest]
    total = prod(counts)
    thread = Sym(names.fresh("thread"), 0, total)
    values: dict[Sym, Size] = {}
    rest: Size = Dim.of(thread)
    for loop, count in reversed(list(zip(nest, counts, strict=True))):
        if total == 0:  # no iteration, whatever the others are
            values[loop.var] = loop.lo
            continue
        values[loop.var] = loop.lo + loop.step * (rest % count if loop is not nest[0] else rest)
        rest = rest // count
    return Loop(thread, 0, total, copy_block(body, values), 1, "parallel")


def _only_loop(body: Block) -> Loop | None:
    """The parallel loop that is all of a body, unless its own body asks for the worker, of which
    there are a few for this loop alone."""
    (stmt,) = body if len(body) == 1 else (None,)
    if not isinstance(stmt, Loop) or stmt.kind != "parallel":
        return None
    return stmt if thread_bound(stmt) is None else None


def _is_rectangular(nest: Sequence[Loop], inner: Loop) -> bool:
    outer = {loop.var for loop in nest}
    return not outer & (symbols_of(inner.lo) | symbols_of(inner.hi))
