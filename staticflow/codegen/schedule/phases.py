"""Rows some at a time, in phases, where in one row much waits for much.

In the logarithm of a softmax each loop over a row waits for the one before it, and a logarithm for
that: a processor looks ahead by less than a row, and computes the logarithm of one number where it
could those of a vector. Here, sixteen rows have their largest elements found, one row after the
other; then all of them their sums; then these their logarithms, as lanes. What a later phase reads
of an earlier one is in arrays on the stack, an element a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from staticflow.codegen.kernel import (
    Accumulate,
    Apply,
    Bind,
    Block,
    Check,
    Const,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Operand,
    Reg,
    Set,
    Stmt,
    Store,
    Var,
    Worker,
)
from staticflow.codegen.parts import totals_of, walk
from staticflow.codegen.rewrite import Names, copy_block, replace_loop, rewrite
from staticflow.codegen.schedule.independent import memory_conflict
from staticflow.codegen.schedule.lanes import accumulator_obstacle, obstacle
from staticflow.codegen.schedule.loops import iteration_count
from staticflow.codegen.unused import bound_by, reads
from staticflow.graph.dim_queries import coefficient, substitute_dim, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, ceil_div, dim_min
from staticflow.graph.dtypes import bool_, int64

__all__ = ["ROWS", "in_phases"]

ROWS = 16
"""Rows at a time."""

_MUCH = 12
"""Statements of a row beside its loops that are much, as a logarithm is."""

_NEAR = 4096
"""Bytes of a row, of all arrays, at most: a longer one has enough to do by itself, and sixteen of
them are not near when the next phase comes back to them. The logsumexp of 1,000 rows of 1,000
takes 0.91 of the time that it takes row by row, and of 2,000 the layer norm 1.2. Half of it where
little is computed of a row beside its loops: there is less to win."""


def in_phases(kernel: Kernel, inner: Sequence[Sym], lanes: int) -> tuple[Kernel, tuple[Sym, ...]]:
    """The kernel in which loops around the ``inner`` ones run `ROWS` iterations at a time, phase by
    phase, and the variables of the loops over these rows that are to be lanes, all at once. A
    vector has so many ``lanes``."""
    found: list[Sym] = []
    for var in [loop.var for loop in _loops_around(kernel.body, inner)]:
        # (as it is by now: the loop around it may have been written anew)
        around = next((a for a in _loops_around(kernel.body, inner) if a.var == var), None)
        if around is None:
            continue
        near = _NEAR if _computes_much(around) else _NEAR // 2
        lengths, longest = _lengths(around), near // _bytes_of_element(kernel, around)
        known = set().union(*map(symbols_of, lengths)).issubset(kernel.sizes)
        if known and _pays(around, lengths, longest, lanes) and _can_be(around):
            names = Names(kernel)
            unknown = [n for n in lengths if not isinstance(n, int)]
            head, most = _rows_at_once(unknown, longest, names)
            strips, loops = _Strips(around, most, names).write()
            kernel = replace_loop(kernel, around.var, (strips,))
            kernel = kernel.with_body((*head, *kernel.body))
            found += [loop.var for loop in loops if _can_be_lanes(loop)]
    return kernel, tuple(found)


def _rows_at_once(lengths: Sequence[Size], longest: int, names: Names) -> tuple[Block, Size]:
    """How many rows there are at a time, and what says so: one where one of the ``lengths``, which
    only the run knows, is more than ``longest``."""
    if not lengths:
        return (), ROWS
    block: list[Stmt] = []
    most: Operand = Const(ROWS, int64)
    for length in lengths:
        count, is_short = Reg(names.fresh("length"), int64), Reg(names.fresh("is_short"), bool_)
        rows = Reg(names.fresh("rows"), int64)
        block += [
            Let(count, Index(length)),
            Let(is_short, Apply("le", (count, Const(longest, int64)))),
            Let(rows, Apply("select", (is_short, most, Const(1, int64)))),
        ]
        most = rows
    symbol = Sym(names.fresh("at_once"), 0, ROWS + 1)
    return (*block, Bind(symbol, most)), Dim.of(symbol)


def _loops_around(body: Block, inner: Sequence[Sym]) -> Iterator[Loop]:
    """The loops whose bodies have one of the ``inner`` ones."""
    for stmt in walk(body):
        loops = [s.var for s in stmt.body if isinstance(s, Loop)] if isinstance(stmt, Loop) else []
        if isinstance(stmt, Loop) and not set(loops).isdisjoint(inner):
            yield stmt


def _can_be_lanes(loop: Loop) -> bool:
    return not any(isinstance(s, (Loop, If)) for s in loop.body) and obstacle(loop) is None


def _computes_much(around: Loop) -> bool:
    """Whether much is computed of each row beside its loops."""
    return sum(isinstance(s, Let) for s in around.body) >= _MUCH


def _lengths(around: Loop) -> list[Size]:
    """The numbers of iterations of the loops in a loop, each once; those of branches go on where
    others end."""
    loops = (s for s in around.body if isinstance(s, Loop))
    return list(dict.fromkeys(map(iteration_count, loops)))


def _bytes_of_element(kernel: Kernel, around: Loop) -> int:
    """The bytes of an element of a row, in all arrays of which each row has another one: at the
    loop's variable, or at a symbol that an iteration binds, as rows in blocks do."""
    loops = [s for s in around.body if isinstance(s, Loop)]
    parts = (s.expr if isinstance(s, Let) else s for loop in loops for s in walk(loop.body))
    accesses = [p for p in parts if isinstance(p, Load | Store)]
    own = {around.var} | {s.sym for s in around.body if isinstance(s, Bind)}
    rows = {p.buffer for p in accesses if not own.isdisjoint(symbols_of(p.index))}
    return max(sum(b.dtype.itemsize for b in kernel.buffers if b.name in rows), 1)


def _pays(around: Loop, lengths: Sequence[Size], longest: int, lanes: int) -> bool:
    """Whether a loop has rows enough, none of them longer than ``longest`` as far as is known, in
    which something waits: a total for another, or much for a total. A row that is stored and read
    again stays in a register if one holds it, with so many ``lanes``."""
    count = iteration_count(around)
    if isinstance(count, int) and count < ROWS:
        return False
    if any(isinstance(length, int) and length > longest for length in lengths):
        return False
    loops = [s for s in around.body if isinstance(s, Loop)]
    if not _computes_much(around):
        if sum(bool(totals_of(loop)) for loop in loops) < 2:
            return False
        fit = all(isinstance(length, int) and length <= lanes for length in lengths)
        if fit and _comes_back(loops):
            return False
    return all(map(_is_along, loops))


def _comes_back(loops: Sequence[Loop]) -> bool:
    """Whether one of some loops stores to a buffer that a later one reads."""
    stored: set[str] = set()
    for loop in loops:
        stmts = [*walk(loop.body)]
        loads = (s.expr for s in stmts if isinstance(s, Let) and isinstance(s.expr, Load))
        if any(load.buffer in stored for load in loads):
            return True
        stored |= {s.buffer for s in stmts if isinstance(s, Store)}
    return False


def _is_along(loop: Loop) -> bool:
    """Whether a loop has no other in it, and goes through elements that lie beside each other."""
    if any(isinstance(s, Loop) for s in loop.body):
        return False
    parts = (s.expr if isinstance(s, Let) else s for s in walk(loop.body))
    strides = (coefficient(p.index, loop.var) for p in parts if isinstance(p, Load | Store))
    return all(s in (0, 1) for s in strides)


def _can_be(around: Loop) -> bool:
    """Whether each iteration of a loop may stop between any two statements of its body, for others
    to come so far."""
    if around.kind not in ("parallel", "serial") or around.step != 1 or around.going is not None:
        return False
    own = {s.reg.name for s in walk(around.body) if isinstance(s, (Let, Var))}
    return (
        all(isinstance(stmt, _KINDS) or _goes_on(stmt) for stmt in around.body)
        and not any(_stands_in_the_way(stmt, own) for stmt in walk(around.body))
        and accumulator_obstacle(around.body, own) is None
        and (around.kind == "parallel" or _keep_apart(around))
    )


def _keep_apart(around: Loop) -> bool:
    """Whether the iterations of a loop keep out of each other's elements, but in buffers that only
    one phase touches, in which they stay in order."""
    touched: list[set[str]] = []
    for phase in _phases_of(around.body):
        parts = [s.expr if isinstance(s, Let) else s for s in walk(phase)]
        touched.append({p.buffer for p in parts if isinstance(p, Load | Store)})
    counts = Counter(name for names in touched for name in names)
    return memory_conflict(around, {name for name, count in counts.items() if count > 1}) is None


_KINDS = (Let, Var, Set, Accumulate, Store, Bind, Check, Loop)


def _goes_on(stmt: Stmt) -> bool:
    """Whether a statement is a branch of loops, which go on where one before it ends."""
    return isinstance(stmt, If) and any(isinstance(s, Loop) for s in stmt.then)


def _stands_in_the_way(stmt: Stmt, own: set[str]) -> bool:
    """Whether a statement is one of vectors, of threads, or of the order of rows."""
    if isinstance(stmt, Loop):
        return stmt.kind not in ("parallel", "serial")
    if isinstance(stmt, Let) and isinstance(stmt.expr, Worker):
        return True
    if isinstance(stmt, (Let, Var, Set, Accumulate)) and stmt.reg.lanes > 1:
        return True
    return isinstance(stmt, Set) and stmt.reg.name not in own


class _Strips:
    """Writes a loop over rows as one over strips of ``most`` of them, with a loop over the rows of
    a strip for each phase.

    ``made`` are the statements that bind what a later phase may read, by that; ``carried`` what it
    does read: of such, an index is computed again, and the rest is in ``arrays``.
    """

    def __init__(self, around: Loop, most: Size, names: Names) -> None:
        self.around, self.most, self.names = around, most, names
        self.phases = _phases_of(around.body)
        self.made: dict[str | Sym, Stmt] = {}
        for stmt in around.body:
            if not isinstance(stmt, Loop):
                self.made |= dict.fromkeys(bound_by(stmt), stmt)
        self.carried = [self.needs(phase) for phase in self.phases]
        self.arrays: dict[str, Local] = {}

    def needs(self, phase: Block) -> dict[str | Sym, Stmt]:
        """What a phase reads of those before it, in the order in which it is bound."""
        own = set().union(*map(bound_by, phase))
        wanted = reads(phase) - own
        for name, stmt in reversed(self.made.items()):
            if name in wanted and _is_index(stmt):
                wanted |= reads((stmt,))
        return {name: stmt for name, stmt in self.made.items() if name in wanted}

    def write(self) -> tuple[Loop, list[Loop]]:
        """The loop over strips, and those in it over rows."""
        around, names, most = self.around, self.names, self.most
        count = iteration_count(around)
        strips = ceil_div(count, most)
        strip = Sym(names.fresh(f"{around.var.name}_strip"), 0, strips)
        first = around.lo + Dim.of(strip) * most
        rows = most
        head: Block = ()
        if strips * most != count:
            here = Reg(names.fresh(f"{around.var.name}_here"), int64)
            symbol = Sym(names.fresh(f"{around.var.name}_rows"), 0, ROWS + 1)
            head = (Let(here, Index(dim_min(around.hi - first, most))), Bind(symbol, here))
            rows = Dim.of(symbol)
        loops = [self.phase(number, first, rows) for number in range(len(self.phases))]
        body = (*self.arrays.values(), *head, *loops)
        return replace(around, var=strip, lo=0, hi=strips, body=body), loops

    def phase(self, number: int, first: Size, rows: Size) -> Loop:
        """The loop over the rows of the strip from ``first`` on, of one phase."""
        row = Sym(self.names.fresh(f"{self.around.var.name}_row"), 0, rows)
        at: dict[Sym, Size] = {self.around.var: first + Dim.of(row)}
        regs: dict[str, Reg] = {}
        stmts: list[Stmt] = []
        changed = _changes(self.phases[number])
        for name, stmt in self.carried[number].items():
            if isinstance(stmt, Bind):
                upper = stmt.sym.upper
                above = None if upper is None else substitute_dim(upper, at)
                symbol = Sym(self.names.fresh(stmt.sym.name), 0, above)
                stmts += rewrite((replace(stmt, sym=symbol),), at, None, regs)
                at[stmt.sym] = Dim.of(symbol)
                continue
            assert isinstance(stmt, (Let, Var)) and isinstance(name, str)
            regs[name] = replace(stmt.reg, name=self.names.fresh(name))
            if _is_index(stmt):
                assert isinstance(stmt, Let)
                stmts.append(Let(regs[name], rewrite(stmt.expr, at)))
            elif name in changed:
                before = replace(stmt.reg, name=self.names.fresh(name))
                stmts += [Let(before, self.load(stmt.reg, row)), Var(regs[name], before)]
            else:
                stmts.append(Let(regs[name], self.load(stmt.reg, row)))
        stmts += rewrite(copy_block(self.phases[number], at), {}, None, regs)
        later = set().union(*self.carried[number + 1 :])
        for name in sorted((changed | _binds(self.phases[number])) & later):
            stmt = self.made[name]
            if isinstance(stmt, (Let, Var)) and not _is_index(stmt):
                array = self.array(stmt.reg)
                stmts.append(Store(array, Dim.of(row), regs.get(name, stmt.reg)))
        return Loop(row, 0, rows, tuple(stmts))

    def load(self, reg: Reg, row: Sym) -> Load:
        """What a register of an earlier phase held for a row."""
        return Load(self.array(reg), Dim.of(row))

    def array(self, reg: Reg) -> str:
        """The name of the array of what a register holds for each row."""
        if reg.name not in self.arrays:
            name = self.names.fresh(f"{reg.name}_of")
            self.arrays[reg.name] = Local(name, reg.dtype, ROWS, "stack")
        return self.arrays[reg.name].name


def _phases_of(body: Block) -> list[Block]:
    """The statements of a row, phase by phase: each loop is one, with what goes on where it ends,
    and so is what stands between two. A variable that begins with a constant does so where it is
    used."""
    phases: list[list[Stmt]] = []
    for stmt in body:
        is_behind = bool(phases) and isinstance(phases[-1][-1], (Loop, If))
        if not phases or isinstance(stmt, Loop) or (is_behind and not _goes_on(stmt)):
            phases.append([])
        phases[-1].append(stmt)
    for i, phase in enumerate(phases):
        for stmt in [*phase]:
            if isinstance(stmt, Var) and isinstance(stmt.init, Const):
                phase.remove(stmt)
                uses = (p for p in phases[i:] if stmt.reg.name in reads(tuple(p)))
                home = next(uses, None)
                if home is not None:
                    home.insert(0, stmt)
    return [tuple(phase) for phase in phases if phase]


def _is_index(stmt: Stmt) -> bool:
    """Whether a statement says an index, which each phase does again."""
    return isinstance(stmt, Bind) or (isinstance(stmt, Let) and isinstance(stmt.expr, Index))


def _binds(block: Block) -> set[str]:
    return {stmt.reg.name for stmt in block if isinstance(stmt, (Let, Var))}


def _changes(block: Block) -> set[str]:
    """The registers that a block sets or accumulates into."""
    return {stmt.reg.name for stmt in walk(block) if isinstance(stmt, (Set, Accumulate))}
