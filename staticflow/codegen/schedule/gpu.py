"""How kernels are spread over a GPU.

The top level of a kernel becomes a row of launches. A parallel loop is one, whose iterations are
for a thread each, or for a warp or block each where they have loops that `spread` can share out.
What stands in order between parallel loops is one, too, for one block; what it leaves in registers
reaches later launches through memory. Where nothing of an iteration can be shared out it is for one
thread, so that neighbours read neighbouring elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from staticflow.codegen.kernel import (
    IN_ORDER,
    LAUNCHED,
    Accumulate,
    Bind,
    Block,
    Buffer,
    Check,
    Index,
    Let,
    Load,
    Loop,
    Reg,
    Set,
    Stmt,
    Store,
    Var,
)
from staticflow.codegen.lower.cluster import Lowered
from staticflow.codegen.lower.nest import Scratch
from staticflow.codegen.parts import walk
from staticflow.codegen.rewrite import Names, copy_block, rewrite
from staticflow.codegen.schedule.groups import in_groups
from staticflow.codegen.schedule.loops import iteration_count, merge_parallel, thread_bound
from staticflow.codegen.schedule.owners import by_owner
from staticflow.codegen.schedule.teams import FEW, chain_of, is_shared, leaves_work, spread
from staticflow.codegen.unused import bound_by, reads, without_unused
from staticflow.graph.dims import Dim, Sym
from staticflow.graph.dtypes import int64

__all__ = ["OWNERS", "ROW_OWNERS", "schedule_gpu"]

_SPREAD = ("parallel", *LAUNCHED)
"""Loops that are launches of their own. A lowering for a GPU writes some as such."""

_WARP_ROW = 1024
"""Elements of a row up to which a warp works on it, 32 for each of its threads; longer ones, and
those of unknown length, are for a block."""

OWNERS = 8192
"""Threads that own the elements of a scattered result. Each looks at all indices, which neighbours
read together: more threads would read more."""

_ROUNDS = 4
"""Iterations of a loop around a parallel one that are launches of their own."""

ROW_OWNERS = 64
"""Threads for each column of a result whose rows are scattered."""

_SOME = 512
"""Rows or columns of which fewer leave most of a GPU idle if each is for a thread."""


def schedule_gpu(lowered: Lowered) -> Lowered:
    """The kernel as launches for a GPU, and what more scratch memory it wants."""
    scheduler = _Scheduler(lowered)
    scheduler.run()
    kernel = replace(
        lowered.kernel.with_body(tuple(scheduler.body)), buffers=tuple(scheduler.buffers)
    )
    return replace(lowered, kernel=kernel, scratch=(*lowered.scratch, *scheduler.scratch))


class _Scheduler:
    """Takes the statements of a kernel's top level one by one. ``group`` are those in order since
    the last parallel loop."""

    def __init__(self, lowered: Lowered) -> None:
        self.kernel = lowered.kernel
        self.names = Names(lowered.kernel)
        self.contiguous = set(lowered.inner)
        self.buffers = [*lowered.kernel.buffers]
        self.scratch: list[Scratch] = []
        self.body: list[Stmt] = []
        self.writable = {b.name for b in self.buffers if b.access != "in"}

    def run(self) -> None:
        if not any(isinstance(s, Loop) for s in walk(self.kernel.body)):
            self.body += self.kernel.body  # of one thread
            return
        rest: Block = without_unused(self.kernel.body)
        group: list[Stmt] = []
        while rest:
            stmt = rest[0]
            if not group and isinstance(stmt, Loop) and _is_short_round(stmt):
                rest = (*self._written_out(stmt), *rest[1:])
            elif isinstance(stmt, Loop) and stmt.kind in _SPREAD and not _goes_on(group, rest):
                if group:
                    rest = self._close(group, rest)
                    group = []
                stmt = rest[0]
                assert isinstance(stmt, Loop)
                self.body.append(self._launch(stmt) if stmt.kind == "parallel" else stmt)
                rest = rest[1:]
            elif (not group and self._is_free(stmt)) or self._is_known(stmt, group):
                self.body.append(stmt)
                rest = rest[1:]
            else:
                group.append(stmt)
                rest = rest[1:]
        if any(isinstance(s, (Store, Check)) for s in walk(tuple(group))):
            self._close(group, ())

    def _written_out(self, loop: Loop) -> Block:
        """The iterations of a loop one after the other."""
        copies: list[Stmt] = []
        for number in range(_count_of(loop)):
            copies += copy_block(loop.body, {loop.var: loop.lo + number * loop.step}, self.names)
        return tuple(copies)

    def _is_free(self, stmt: Stmt) -> bool:
        """Whether every launch may do a statement of its own."""
        if isinstance(stmt, Let) and isinstance(stmt.expr, Load):
            return stmt.expr.buffer not in self.writable
        return isinstance(stmt, (Let, Bind, Check))

    def _is_known(self, stmt: Stmt, group: Sequence[Stmt]) -> bool:
        """Whether a statement works out a size, or gives it a name, without what a group does: the
        number of iterations of a later launch is known, then, before any launch."""
        if not isinstance(stmt, Bind) and not (
            isinstance(stmt, Let) and isinstance(stmt.expr, Index)
        ):
            return False
        named: set[str | Sym] = set()
        for s in walk(tuple(group)):
            named |= bound_by(s)
            named |= {s.reg.name} if isinstance(s, (Set, Accumulate)) else set()
        return named.isdisjoint(reads((stmt,)))

    # -- statements in order -----------------------------------------------------------------------

    def _close(self, group: list[Stmt], rest: Block) -> Block:
        """Write a launch for ``group``; gives the statements behind it, which read what it leaves
        in memory."""
        read = reads(rest)
        owned = self._by_owner(group)
        if owned is not None:
            self.body += [*group[:-1], owned]
            return rest
        body = [*spread(tuple(group), "blocks", self.names)]
        after: list[Stmt] = []
        regs: dict[str, Reg] = {}
        syms: dict[Sym, Sym] = {}
        for stmt in group:
            if isinstance(stmt, (Let, Var)) and stmt.reg.name in read:
                copy = Reg(self.names.fresh(stmt.reg.name), stmt.reg.dtype)
                regs[stmt.reg.name] = copy
                body.append(Store(self._carry(copy), 0, stmt.reg))
                after.append(Let(copy, Load(self.buffers[-1].name, 0)))
            elif isinstance(stmt, Bind) and stmt.sym in read:
                value = Reg(self.names.fresh("carried"), int64)
                copy = Reg(self.names.fresh("carried"), int64)
                syms[stmt.sym] = Sym(self.names.fresh(stmt.sym.name), 0, stmt.sym.upper)
                body += [Let(value, Index(Dim.of(stmt.sym))), Store(self._carry(copy), 0, value)]
                after.append(Let(copy, Load(self.buffers[-1].name, 0)))
                after.append(Bind(syms[stmt.sym], copy))
        self.body.append(Loop(Sym(self.names.fresh("one")), 0, 1, tuple(body), 1, "blocks"))
        self.body += after
        return rewrite(copy_block(rest, {s: Dim.of(c) for s, c in syms.items()}), {}, None, regs)

    def _by_owner(self, group: list[Stmt]) -> Loop | None:
        """A loop in order that stores at computed places, as a launch whose threads each own some
        of those places; None where the group is no such loop."""
        *before, loop = group
        if not isinstance(loop, Loop) or not all(map(self._is_free, before)):
            return None
        chain = chain_of(loop)
        beside = chain[-1].body[-1] if chain[-1].body else None
        columns = isinstance(beside, Loop) and beside.kind == "parallel"
        return by_owner(chain, ROW_OWNERS if columns else OWNERS, "grid", self.names)

    def _carry(self, reg: Reg) -> str:
        """A buffer of one element for what a register holds."""
        taken = {b.name for b in self.buffers}
        name = next(n for i in range(len(taken) + 1) if (n := f"carry{i}") not in taken)
        self.buffers.append(Buffer(name, reg.dtype, "inout"))
        self.scratch.append(Scratch(name, reg.dtype, 1))
        return name

    # -- parallel loops ----------------------------------------------------------------------------

    def _launch(self, loop: Loop) -> Loop:
        """A parallel loop as a launch."""
        columns = any(s.var in self.contiguous for s in _nest(loop))
        merged = merge_parallel(loop, self.names)
        kind = self._kind(merged, columns)
        if kind == "grid":
            return in_groups(replace(merged, kind=kind), self.buffers, self.names)
        return replace(merged, kind=kind, body=spread(merged.body, kind, self.names))

    def _kind(self, loop: Loop, columns: bool) -> str:
        """Who runs an iteration of a parallel loop. Neighbouring iterations read neighbouring
        elements if they are for ``columns``."""
        count = iteration_count(loop)
        some = isinstance(count, int) and count < _SOME
        columns = columns and not any(_is_parallel(s) for s in walk(loop.body))
        body = spread(loop.body, "blocks", Names(self.kernel), owners=some)
        lengths = [iteration_count(s) for s in walk(body) if is_shared(s)]
        known = [n for n in lengths if isinstance(n, int)]
        if not lengths or (len(known) == len(lengths) and max(known) < FEW):
            return "grid"
        if not some and (columns or leaves_work(body)):
            return "grid"
        if len(known) == len(lengths):
            return "warps" if max(known) <= _WARP_ROW else "blocks"
        return "blocks"


def _is_parallel(stmt: Stmt) -> bool:
    return isinstance(stmt, Loop) and stmt.kind == "parallel"


def _count_of(loop: Loop) -> int:
    """How many iterations a loop has, if that is known; else 0."""
    count = iteration_count(loop)
    return count if isinstance(count, int) else 0


def _is_short_round(loop: Loop) -> bool:
    """Whether a loop in order has a few iterations, each of which is one parallel loop."""
    if loop.kind not in IN_ORDER or loop.going is not None:
        return False
    (*before, last) = loop.body or (None,)
    inner = isinstance(last, Loop) and (last.kind == "parallel" or _is_short_round(last))
    return inner and not before and 0 < _count_of(loop) <= _ROUNDS


def _nest(loop: Loop) -> list[Loop]:
    """A parallel loop and those that are all of its body."""
    nest = [loop]
    while len(nest[-1].body) == 1:
        (stmt,) = nest[-1].body
        if not isinstance(stmt, Loop) or stmt.kind != "parallel" or thread_bound(stmt) is not None:
            break
        nest.append(stmt)
    return nest


def _goes_on(group: Sequence[Stmt], rest: Block) -> bool:
    """Whether a register of ``group`` changes behind it."""
    own = {s.reg.name for s in group if isinstance(s, Var)}
    return any(isinstance(s, (Set, Accumulate)) and s.reg.name in own for s in walk(rest))
