"""What one run of a kernel computes and touches, read off its Kernel IR at given sizes.

Statements are not run but counted: a loop counts as often as it runs, a branch that sizes decide is
followed, and a vector counts with the lanes that are on.
"""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, TypeAlias

from staticflow.codegen.kernel import (
    CORE_TILE,
    ENDLESS,
    LANE_SYM,
    Accumulate,
    Active,
    Apply,
    Bind,
    Block,
    Call,
    Cast,
    Const,
    Fold,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    MultiplyTiles,
    Operand,
    Reg,
    Set,
    Splat,
    Store,
    Var,
)
from staticflow.codegen.parts import operands_of, sizes_of
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Size, Sym
from staticflow.measure.loop_facts import LoopFacts, names_in

__all__ = ["FLOPS", "KernelWork", "work_of_kernel"]

FLOPS = {
    **dict.fromkeys(("add", "sub", "mul", "div", "sqrt", "max", "min"), 1),
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne"), 1),
    "fma": 2,
}
"""What a primitive counts as where its operands are floats; those that are not named are free: they
move, choose or change bits."""

_FEW = 4
_EXACT = 64
"""Iterations of a loop that are counted one by one where they differ, after so many in all that it
would take long, and before."""

_ENOUGH = 4000
"""Iterations of all loops of a kernel from which on few stand for many."""

_INTEGERS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "not": lambda a: not a,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "max": max,
    "min": min,
}
"""Arithmetic of sizes, by which a kernel chooses among several ways."""


@dataclass(frozen=True, slots=True)
class KernelWork:
    """One run of a kernel: its floating-point operations, and of each buffer how many elements it
    reads and how many it writes, each of them once. With ``endless`` a loop is in it whose
    iterations only the run can tell, and it is counted with one."""

    flops: int
    reads: Mapping[str, int]
    writes: Mapping[str, int]
    endless: bool = False


@dataclass(frozen=True, slots=True)
class _Touched:
    """Elements that one statement touches, and the loops on whose variables it depends which."""

    count: int
    loops: frozenset[Sym]


_Place: TypeAlias = tuple[int, str, bool]
"""The id of a statement, a buffer, and whether that is written to."""


@dataclass(slots=True)
class _Sum:
    """The operations of some statements, and what each load and store among them touches."""

    flops: int = 0
    touched: dict[_Place, _Touched] = field(default_factory=dict)

    def add(self, other: _Sum) -> None:
        self.flops += other.flops
        self.touched.update(other.touched)


def work_of_kernel(
    kernel: Kernel, sizes: Mapping[Sym, int], iterations: int | None = None
) -> KernelWork:
    """What one run of ``kernel`` does where its sizes have these values.

    ``iterations`` are those of a loop without an end of its own. Elements are counted as distinct
    where the variables of the loops around tell them apart; the caller, who knows how large the
    arrays are, bounds them by that. Elements of the kernel's own scratch memory and those that it
    reads again of what it has written are no traffic, and are left out. Where iterations differ and
    are many, some of them, evenly spaced, stand for all.
    """
    counter = _Counter(dict(sizes), iterations)
    total = counter.block(kernel.body)
    reads, writes = _traffic(total)
    return KernelWork(
        total.flops,
        {buffer: count for buffer, count in reads.items() if buffer[0] == "p"},
        {buffer: count for buffer, count in writes.items() if buffer[0] in "po"},
        counter.endless,
    )


def _traffic(total: _Sum) -> tuple[dict[str, int], dict[str, int]]:
    """How many elements some statements read of each buffer, and how many they write."""
    reads: dict[str, int] = {}
    writes: dict[str, int] = {}
    for (_, buffer, is_write), touched in total.touched.items():
        counts = writes if is_write else reads
        counts[buffer] = counts.get(buffer, 0) + touched.count
    return reads, writes


class _Counter:
    """Counts statements, inner blocks first; knows of registers and symbols what sizes tell."""

    def __init__(self, values: dict[Sym, int], iterations: int | None) -> None:
        self.values, self.iterations = values, iterations
        self.endless = False
        self.counted = 0  # iterations
        self.strips: Sym | None = None  # the variable of an endless loop that is cut into strips
        self.numbers: dict[str, int] = {}  # integer registers that sizes tell
        self.lanes: dict[str, int] = {}  # of vectors, the lanes that are on where not all are
        self.folds: set[str] = set()
        self.loops: dict[Sym | str, frozenset[Sym]] = {}  # the loops on which a name depends
        self.facts: dict[int, LoopFacts] = {}
        self.known_loops: dict[Any, tuple[_Sum, dict[str, int]]] = {}

    # -- statements --------------------------------------------------------------------------

    def block(self, block: Block) -> _Sum:
        total = _Sum()
        for stmt in block:
            count = _COUNT.get(type(stmt))
            if count is not None:
                total.add(count(self, stmt))
        return total

    def let(self, stmt: Let) -> _Sum:
        reg, expr = stmt.reg, stmt.expr
        used = [*operands_of(expr), *(sizes_of(expr) if not isinstance(expr, Load) else ())]
        self.loops[reg.name] = self.depends(used)
        found = _Sum()
        if isinstance(expr, Load):
            loops = self.depends([expr.index, *operands_of(expr)])
            self.loops[reg.name] = loops
            self.limit(reg, expr.bound)
            lanes = reg.lanes if expr.at is not None else _lanes_of(expr.index, reg.lanes)
            touched = _Touched(self.active_lanes(lanes, expr.bound), loops)
            found.touched[id(stmt), expr.buffer, False] = touched
        elif isinstance(expr, Apply):
            self.apply(reg, expr)
            if _is_float(expr.args[-1]):
                found.flops = FLOPS.get(expr.op, 0) * self.active(reg)
        elif isinstance(expr, Index) and LANE_SYM not in symbols_of(expr.index):
            self.know(reg, self.find(expr.index))
        elif isinstance(expr, Active):
            self.limit(reg, expr.bound)
        elif isinstance(expr, Fold):
            self.folds.add(reg.name)
        elif not isinstance(expr, Splat):
            self.share_lanes(reg, operands_of(expr))
            if isinstance(expr, Cast) and reg.lanes == 1:
                self.know(reg, self.number(expr.arg))
        return found

    def apply(self, reg: Reg, expr: Apply) -> None:
        self.share_lanes(reg, expr.args)
        evaluate = _INTEGERS.get(expr.op)
        numbers = [self.number(a) for a in expr.args]
        if evaluate is not None and reg.lanes == 1 and None not in numbers:
            self.know(reg, int(evaluate(*numbers)))
        elif expr.op == "select" and numbers[0] is not None:
            self.know(reg, numbers[1] if numbers[0] else numbers[2])

    def var(self, stmt: Var) -> _Sum:
        self.loops[stmt.reg.name] = self.depends([stmt.init])
        self.lanes.pop(stmt.reg.name, None)
        return _Sum()

    def set(self, stmt: Set) -> _Sum:
        self.share_lanes(stmt.reg, (stmt.value,))
        self.loops[stmt.reg.name] = self.loops.get(stmt.reg.name, frozenset()) | self.depends(
            [stmt.value]
        )
        return _Sum()

    def accumulate(self, stmt: Accumulate) -> _Sum:
        value = stmt.value
        self.share_lanes(stmt.reg, (value,))
        if not _is_float(value) or (isinstance(value, Reg) and value.name in self.folds):
            return _Sum()  # what lanes hold was counted as they were added up
        return _Sum(FLOPS.get(stmt.op, 0) * self.active(value))

    def store(self, stmt: Store) -> _Sum:
        lanes = _lanes_of(stmt.index, stmt.value.lanes)
        touched = _Touched(self.active_lanes(lanes, stmt.bound), self.depends([stmt.index]))
        return _Sum(0, {(id(stmt), stmt.buffer, True): touched})

    def multiply_tiles(self, stmt: MultiplyTiles) -> _Sum:
        """What all threads of a block do together."""
        return _Sum(2 * CORE_TILE**2 * stmt.depth)

    def call(self, stmt: Call) -> _Sum:
        """What a kernel that programs share does. Where in its buffers that is follows from where
        they start, and from its sizes."""
        kernel = stmt.kernel.make()
        sizes = (self.value(size) for size in stmt.sizes)
        total = _Counter(dict(zip(kernel.sizes, sizes, strict=True)), None).block(kernel.body)
        loops = self.depends([*stmt.starts, *stmt.sizes])
        given = dict(zip((b.name for b in kernel.buffers), stmt.buffers, strict=True))
        found = _Sum(total.flops)
        reads, writes = _traffic(total)
        for is_write, counts in ((False, reads), (True, writes)):
            for buffer, count in counts.items():
                place = id(stmt), given[buffer], is_write
                before = found.touched.get(place, _Touched(0, loops))
                found.touched[place] = replace(before, count=before.count + count)
        return found

    def bind(self, stmt: Bind) -> _Sum:
        self.loops[stmt.sym] = self.depends([stmt.value])
        value = self.number(stmt.value)
        if value is None and stmt.sym.upper is not None:
            most = self.find(stmt.sym.upper)
            value = None if most is None else max(most - 1, 0)
        if value is None:
            self.values.pop(stmt.sym, None)
        else:
            self.values[stmt.sym] = value
        return _Sum()

    def choose(self, stmt: If) -> _Sum:
        cond = self.number(stmt.cond)
        if cond is not None:
            return self.block(stmt.then if cond else stmt.orelse)
        if isinstance(stmt.cond, Reg) and stmt.cond.name in self.folds:
            return self.block(stmt.orelse)  # what few elements need
        return max(self.block(stmt.then), self.block(stmt.orelse), key=lambda s: s.flops)

    # -- loops -------------------------------------------------------------------------------

    def loop(self, loop: Loop) -> _Sum:
        """What a loop does; one that was counted with the same of what decides it is not counted
        again."""
        if id(loop) not in self.facts:
            self.facts[id(loop)] = LoopFacts.of(loop)
        facts = self.facts[id(loop)]
        key = (id(loop), *(self.names.get(name) for name in facts.outer))
        if key not in self.known_loops:
            total = self.iterate(loop, facts)
            lanes = {name: self.lanes[name] for name in facts.changed if name in self.lanes}
            self.known_loops[key] = total, lanes
        total, lanes = self.known_loops[key]
        self.lanes.update(lanes)
        return total

    def iterate(self, loop: Loop, facts: LoopFacts) -> _Sum:
        lo, times = self.range(loop)
        self.loops[loop.var] = frozenset({loop.var}) | self.depends([loop.lo])
        if times <= 0:
            return _Sum()

        def at(iteration: int) -> _Sum:
            self.counted += 1
            self.values[loop.var] = lo + iteration * loop.step
            return self.block(loop.body)

        if loop.var not in facts.deciding or times == 1:
            return _join([(at(0), times)], loop.var)
        if times > _FEW:
            usual = at(0)
            if all(_are_equal(usual, at(i)) for i in (1, times // 2, times - 2)):
                return _join([(usual, times - 1), (at(times - 1), 1)], loop.var)
        most = _EXACT if self.counted < _ENOUGH else _FEW
        if times <= most:
            return _join([(at(i), 1) for i in range(times)], loop.var)
        edges = [times * i // most for i in range(most + 1)]
        parts = [(at((a + b) // 2), b - a) for a, b in itertools.pairwise(edges)]
        return _join(parts, loop.var)

    def range(self, loop: Loop) -> tuple[int, int]:
        """Where a loop begins, and how many iterations it makes."""
        lo, hi = self.value(loop.lo), self.value(loop.hi)
        if hi >= ENDLESS:
            inner = [s for s in loop.body if isinstance(s, Loop) and s.going is not None]
            self.strips = loop.var if inner else None
            return lo, 1 if inner else self.count()
        if loop.going is not None and self.strips in symbols_of(loop.lo):
            return lo, self.count()
        return lo, -(-(hi - lo) // loop.step)

    def count(self) -> int:
        if self.iterations is None:
            self.endless = True
            return 1
        return self.iterations

    # -- what is known -----------------------------------------------------------------------

    @property
    def names(self) -> ChainMap[Any, int]:
        """The values of symbols and registers."""
        return ChainMap(self.values, self.numbers)

    def find(self, size: Size) -> int | None:
        try:
            return evaluate_dim(size, self.values)
        except KeyError:
            return None

    def value(self, size: Size) -> int:
        """A size, where symbols that only the run can tell are 1."""
        unknown = symbols_of(size) - self.values.keys()
        return evaluate_dim(size, {**self.values, **dict.fromkeys(unknown, 1)})

    def know(self, reg: Reg, value: int | None) -> None:
        if value is None:
            self.numbers.pop(reg.name, None)
        else:
            self.numbers[reg.name] = value

    def number(self, operand: Operand) -> int | None:
        if isinstance(operand, Const):
            return None if operand.dtype.is_floating else int(operand.value)
        return self.numbers.get(operand.name)

    def limit(self, reg: Reg, bound: Size | None) -> None:
        if bound is None or LANE_SYM in symbols_of(bound):
            self.lanes.pop(reg.name, None)
        else:
            self.lanes[reg.name] = min(reg.lanes, max(0, self.value(bound)))

    def share_lanes(self, reg: Reg, operands: tuple[Operand, ...]) -> None:
        """Note that as many lanes of a register are on as of the operands."""
        names = (o.name for o in operands if isinstance(o, Reg))
        found = [self.lanes[name] for name in names if name in self.lanes]
        if found and reg.lanes > 1:
            self.lanes[reg.name] = min(found)
        else:
            self.lanes.pop(reg.name, None)

    def active(self, operand: Operand) -> int:
        name = operand.name if isinstance(operand, Reg) else ""
        return self.lanes.get(name, operand.lanes)

    def depends(self, used: list[Any]) -> frozenset[Sym]:
        """The loops on whose variables operands and sizes depend."""
        return frozenset().union(*(self.loops.get(n, frozenset()) for n in names_in(used)))

    def active_lanes(self, lanes: int, bound: Size | None) -> int:
        """How many of the lanes of a load or store are on."""
        return lanes if bound is None else min(lanes, max(0, self.value(bound)))


def _lanes_of(index: Size, lanes: int) -> int:
    """How many elements ``lanes`` are that lie where an index says."""
    return lanes if LANE_SYM in symbols_of(index) else 1


def _is_float(operand: Operand) -> bool:
    return operand.dtype.is_floating


def _are_equal(a: _Sum, b: _Sum) -> bool:
    return a.flops == b.flops and a.touched == b.touched


def _join(parts: list[tuple[_Sum, int]], var: Sym) -> _Sum:
    """Iterations of a loop over ``var`` together, each with how many are like it. What does not
    depend on the variable is touched once."""
    total = _Sum()
    for one, times in parts:
        total.flops += one.flops * times
        for key, touched in one.touched.items():
            known = total.touched.get(key, replace(touched, count=0))
            if var in touched.loops:
                count = known.count + touched.count * times
            else:
                count = max(known.count, touched.count)
            total.touched[key] = replace(touched, count=count)
    return total


_COUNT: dict[type, Callable[[_Counter, Any], _Sum]] = {
    Let: _Counter.let,
    Var: _Counter.var,
    Set: _Counter.set,
    Accumulate: _Counter.accumulate,
    Store: _Counter.store,
    Bind: _Counter.bind,
    MultiplyTiles: _Counter.multiply_tiles,
    Call: _Counter.call,
    If: _Counter.choose,
    Loop: _Counter.loop,
}
