"""Short innermost loops, of which the loop around them gets the lanes.

A loop over the three coordinates of a point fills three lanes of a vector, and what is computed of
their sum none. Written out, it is a part of the loop over the points, whose iterations are lanes.
One over ten classes stays a loop, in which lanes are rows, if much is computed of each row.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.codegen.kernel import (
    Accumulate,
    Block,
    Kernel,
    Let,
    Load,
    Loop,
    Store,
)
from staticflow.codegen.parts import walk
from staticflow.codegen.rewrite import find_loop
from staticflow.codegen.schedule.lanes import looks_up
from staticflow.codegen.schedule.loops import is_vectorizable, iteration_count, unroll
from staticflow.codegen.schedule.pairs import beside_each_other
from staticflow.graph.dim_queries import coefficient
from staticflow.graph.dims import Sym

__all__ = ["write_out_short"]

_SHORT = 6
"""Iterations of a loop that is written out. Farther apart than this, elements are picked into
vectors more slowly than rows are summed up one by one, and the code is long."""

_SHORT_EACH = 3
"""Iterations of a loop without sums that is written out; one of more fills enough of a vector."""

_FEW = 16
"""Iterations of a loop that stays, where much is computed beside it, and twice as many if they
store nothing: of more, the elements that lanes pick take longer than what they save."""

_MUCH = 12
"""Statements of an iteration of the loop around that are much. A logarithm has 20, and as rows, the
logsumexp of 100,000 rows of 10 takes 0.56 ms, where 2.5 ms go by in one after the other."""

_MOST = 200
"""Statements that loops are written out to."""


def write_out_short(
    kernel: Kernel, inner: Sequence[Sym], lanes: int
) -> tuple[Kernel, tuple[Sym, ...]]:
    """The kernel without the short ones of its ``inner`` loops, and which loops get lanes then.

    A loop is written out, or stays without lanes, where it and the other loops beside it have few
    iterations, and those of the loop around them, which is parallel, are ``lanes`` at least and lie
    near to each other.
    """
    found: dict[Sym, None] = {}
    gone: set[Sym] = set()
    for var in inner:
        if var in gone:
            continue
        pairs = beside_each_other(kernel, var, lanes)
        if pairs is not None:
            kernel = pairs[0]
            found[pairs[1]] = None
            continue
        around = _loop_around(kernel.body, var)
        written = None if around is None else _write_out(kernel, around, lanes)
        if written is None or around is None:
            found[var] = None
        else:
            kernel = written
            found[around.var] = None
            gone.update(s.var for s in walk(around.body) if isinstance(s, Loop))
    return kernel, tuple(found)


def _write_out(kernel: Kernel, around: Loop, lanes: int) -> Kernel | None:
    """The kernel in which the loop ``around`` others, which are written out or stay, can have
    lanes; None if that does not pay or cannot be."""
    loops = [s for s in walk(around.body) if isinstance(s, Loop)]
    count = iteration_count(around)
    if around.kind != "parallel" or around.step != 1 or (isinstance(count, int) and count < lanes):
        return None
    most = _longest(around)
    if not all(_is_short(loop, most) for loop in loops) or not _is_near(around, most):
        stores = any(isinstance(s, Store) for loop in loops for s in walk(loop.body))
        few = _FEW if stores else 2 * _FEW
        stays = _computes_much(around) and all(_is_short(loop, few) for loop in loops)
        can = stays and _is_near(around, few) and is_vectorizable(kernel, around.var)
        return kernel if can else None
    before = len([*walk(around.body)])
    for loop in reversed(loops):
        kernel = unroll(kernel, loop.var, most)
    after = len([*walk(find_loop(kernel, around.var).body)])
    return kernel if after - before <= _MOST and is_vectorizable(kernel, around.var) else None


def _longest(around: Loop) -> int:
    """How many iterations a loop has that is written out."""
    return _SHORT if any(isinstance(s, Accumulate) for s in walk(around.body)) else _SHORT_EACH


def _computes_much(around: Loop) -> bool:
    """Whether much is computed in each iteration beside its loops."""
    return sum(isinstance(s, Let) for s in around.body) >= _MUCH


def _is_short(loop: Loop, most: int) -> bool:
    count = iteration_count(loop)
    return loop.going is None and isinstance(count, int) and count <= most


def _is_near(loop: Loop, most: int) -> bool:
    """Whether iterations beside each other read and write elements at most so far apart, and not
    where only the run knows."""
    parts = (s.expr if isinstance(s, Let) else s for s in walk(loop.body))
    strides = (coefficient(p.index, loop.var) for p in parts if isinstance(p, Load | Store))
    is_near = all(isinstance(s, int) and 0 <= s <= most for s in strides)
    return is_near and not looks_up(loop.body)


def _loop_around(body: Block, var: Sym) -> Loop | None:
    """The loop whose body has the one over ``var``; None if there is none."""
    for loop in walk(body):
        if isinstance(loop, Loop) and any(isinstance(s, Loop) and s.var == var for s in loop.body):
            return loop
    return None
