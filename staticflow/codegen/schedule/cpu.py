"""How kernels are made fast on a CPU."""

from __future__ import annotations

from staticflow.codegen.kernel import (
    Accumulate,
    Block,
    If,
    Kernel,
    Let,
    Load,
    Loop,
    Store,
)
from staticflow.codegen.lower.cluster import Lowered
from staticflow.codegen.parts import walk
from staticflow.codegen.rewrite import find_loop
from staticflow.codegen.schedule.lanes import looks_up
from staticflow.codegen.schedule.loops import (
    is_vectorizable,
    iteration_count,
    split,
    vectorize,
    vectorize_whole,
)
from staticflow.codegen.schedule.phases import ROWS, in_phases
from staticflow.codegen.schedule.runs import share_runs
from staticflow.codegen.schedule.short_loops import write_out_short
from staticflow.codegen.schedule.streams import stream_stores
from staticflow.codegen.schedule.strips import strips
from staticflow.codegen.target import Target
from staticflow.graph.dim_queries import coefficient
from staticflow.graph.dims import Sym

__all__ = ["schedule_cpu"]

_SHORT = 16
"""Statements; a shorter body does not hide the latency of its own operations."""

_REGISTERS = 4
"""Registers side by side in a short body with sums, enough to hide the latency of an addition, and
in a search: of 1, 2, 4 and 8 registers 100,000 values among as many take 2.0, 1.5, 0.9 and 0.7 ms,
but integers 2.1, 1.3, 0.9 and 1.1."""

_BESIDE = 2
"""Registers side by side in a short body that adds nothing up: of 1, 2 and 4 none is faster, as its
iterations wait for nothing, and LLVM takes less time for fewer."""

_STRIP = 16
"""Lines of the cache that a transposed matrix is read in at a time, at least a vector of them. Of
64, a copy of 1024 x 1024 elements takes five times as long: they fall into the same few sets."""

_ALONG_COLUMNS = 8
"""Registers side by side where columns are summed up: so much of a row is read at a time, before
the next one, which lies elsewhere. More of them would leave fewer tasks for threads."""


_ALONG_LONG = 2
"""Registers side by side down columns where a loop computes much of each element or has several
sums: the exponentials of 50,000 rows of 100 are summed up in 0.4 of the time that one register at a
time takes, and `_ALONG_COLUMNS` of them would leave none for what is computed."""


def schedule_cpu(lowered: Lowered, target: Target) -> Kernel:
    """The kernel with its innermost loops vectorised, where that is legal."""
    kernel, innermost = lowered.kernel, lowered.inner
    if target.shares:
        kernel, innermost = share_runs(kernel, innermost)
    lanes = target.vector_bits // lowered.bits
    kernel, innermost = write_out_short(kernel, innermost, lanes)
    kernel, rows = in_phases(kernel, innermost, lanes)
    for var in rows:
        kernel = vectorize_whole(kernel, var, ROWS)
    for var in innermost:
        if is_vectorizable(kernel, var):
            body = find_loop(kernel, var).body
            beside = _columns_beside(body, var)
            if beside > 1 and _may_end_narrow(kernel, var):
                narrow = lanes * _beside(body, var)
                kernel = vectorize(kernel, var, lanes * beside, True, narrow)
                continue
            if beside > 1:
                kernel, wide = split(kernel, var, lanes * beside)
                if wide is not None:
                    kernel = vectorize(kernel, wide, lanes * beside, is_checked=True)
            beside = _beside(body, var)
            strip = max(_STRIP, lanes)
            kernel, variables = strips(kernel, var, strip)
            width = lanes * beside if variables == [var] else lanes
            for inner in variables:
                fitting = _fitting(find_loop(kernel, inner), width)
                kernel = vectorize(kernel, inner, fitting, is_checked=inner == var)
    return stream_stores(kernel, target) if innermost else kernel


def _may_end_narrow(kernel: Kernel, var: Sym) -> bool:
    """Whether what is left of a loop's vectors may be its last iteration: it is an outermost one
    that threads share, of unknown length. Where there are branches in it, LLVM would keep in memory
    what is summed up in them, and the variance of columns would take 1.4 times as long."""
    loop = find_loop(kernel, var)
    if loop.kind != "parallel" or isinstance(iteration_count(loop), int):
        return False
    is_outermost = any(stmt is loop for stmt in kernel.body)
    return is_outermost and not any(isinstance(s, If) for s in walk(loop.body))


def _fitting(loop: Loop, width: int) -> int:
    """``width``, or as many lanes as hold all iterations of a loop of few. Of a sum over these the
    order stays: half the lanes are added to the other half again and again, and those that are left
    out would add nothing."""
    count = iteration_count(loop)
    if not isinstance(count, int):
        return width
    return min(width, max(2, 1 << (count - 1).bit_length()))


def _scatters(body: Block, var: Sym) -> bool:
    """Whether something is stored apart from one iteration to the next: then each lane is stored by
    an instruction of its own, and more of them hide nothing."""
    strides = (coefficient(s.index, var) for s in walk(body) if isinstance(s, Store))
    return any(stride not in (0, 1, -1) for stride in strides)


def _divides(body: Block, var: Sym) -> bool:
    """Whether something is loaded at an index that is divided, as where dims of unknown sizes are
    one: then the index of each lane is computed by instructions of its own, and more lanes are as
    much more code and no faster. Sums keep their lanes, which are their order."""
    stmts = [*walk(body)]
    loads = [s.expr.index for s in stmts if isinstance(s, Let) and isinstance(s.expr, Load)]
    return any(coefficient(index, var) is None for index in loads) and not any(
        isinstance(s, Accumulate) for s in stmts
    )


def _columns_beside(body: Block, var: Sym) -> int:
    """How many vectors side by side are to run down columns, where the lanes of a loop would be
    columns that are summed up: fewer where much is computed of each element, and one where lanes
    are rows."""
    if _picks(body, var):
        return 1
    loops = [s for s in walk(body) if isinstance(s, Loop) and not _has_loops(s)]
    sums = [sum(isinstance(stmt, Accumulate) for stmt in walk(loop.body)) for loop in loops]
    if not any(sums):
        return 1
    if sums == [1] * len(sums) and all(_is_short(loop.body) for loop in loops):
        return _ALONG_COLUMNS
    return _ALONG_LONG


def _picks(body: Block, var: Sym) -> bool:
    """Whether what is loaded for one lane is apart from what is for the next."""
    loads = [s.expr for s in walk(body) if isinstance(s, Let) and isinstance(s.expr, Load)]
    return any(coefficient(load.index, var) not in (0, 1, -1) for load in loads)


def _beside(body: Block, var: Sym) -> int:
    """How many registers are side by side: more than one in a short body, unless lanes go one by
    one, and in one that looks up again and again, which would wait for the memory each time."""
    if looks_up(body):  # each lane by instructions of its own: there are enough in one register
        return _REGISTERS if any(isinstance(s, Loop) for s in walk(body)) else 1
    if not _is_short(body) or _scatters(body, var) or _divides(body, var):
        return 1
    return _REGISTERS if any(isinstance(s, Accumulate) for s in walk(body)) else _BESIDE


def _is_short(body: Block) -> bool:
    return sum(isinstance(stmt, Let) for stmt in walk(body)) < _SHORT


def _has_loops(loop: Loop) -> bool:
    return any(isinstance(stmt, Loop) for stmt in walk(loop.body))
