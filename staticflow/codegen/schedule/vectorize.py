"""Vectorisation: the iterations of one loop, ``width`` of them at a time, as lanes.

What depends on the loop's variable gets lanes, everything else stays scalar. An array that each
iteration has for itself has a vector for each element. A symbol whose value
does is no symbol any more: what is loaded where it says is loaded `at` a vector. Iterations that do
not fill a vector run as one more vector with lanes off, or one by one where lanes are moved so. A
sum (or another combination) over the iterations is kept in one vector and folded after the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from staticflow.codegen.kernel import (
    LANE,
    LANE_SYM,
    Accumulate,
    Active,
    Apply,
    Bind,
    Bitcast,
    Block,
    Cast,
    Check,
    Const,
    Expr,
    Fold,
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
    Splat,
    Stmt,
    Store,
    Var,
)
from staticflow.codegen.parts import totals_of, walk
from staticflow.codegen.primitives import identity
from staticflow.codegen.rewrite import Names, copy_block, find_loop, replace_loop
from staticflow.codegen.schedule.lanes import is_vector, obstacle, own_arrays, vector_registers
from staticflow.errors import VerifyError
from staticflow.graph.dim_queries import coefficient, substitute_dim, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, dim_max, floor_div
from staticflow.graph.dtypes import DType, bool_, int64

__all__ = ["is_vectorizable", "vectorize", "vectorize_whole"]


def vectorize(
    kernel: Kernel, var: Sym, width: int, is_checked: bool = False, narrow: int | None = None
) -> Kernel:
    """The kernel whose loop over ``var`` handles ``width`` iterations at a time.

    Full vectors run in a loop of step ``width``; what is left, if anything, runs in one vector
    with lanes off, as the last iteration of an outermost parallel loop: whoever runs such a loop
    by parts has the rest in one of them. With a constant number of iterations, only what is needed
    of both is there.
    ``width`` may exceed the machine's vectors: the back end splits them, which gives a sum several
    accumulators. Combinations of floats are reordered. What keeps the loop from lanes is looked for
    unless it ``is_checked`` that nothing does. What is left of an outermost parallel loop of
    unknown length runs in ``narrow`` vectors, if that is given.

    Raises `VerifyError` where the loop cannot be vectorised, and says why: there is no such loop,
    its step is not 1 or its kind ``grid``; there is a vector in it, a `Set` of a register from
    outside, an `If` or inner loop that depends on ``var``, a bound symbol that does and says more
    than where something is loaded, an accumulator that is read or combined in two ways; or its
    iterations may touch the same element.
    """
    loop = find_loop(kernel, var)
    fault = None if is_checked else obstacle(loop)
    if width < 2:
        fault = f"the width must be at least 2, not {width}"
    _refuse(kernel, var, fault)
    is_outermost = any(stmt is loop for stmt in kernel.body)
    made = _vectorize_loop(loop, width, Names(kernel), is_outermost, narrow)
    return replace_loop(kernel, var, made)


def vectorize_whole(kernel: Kernel, var: Sym, width: int) -> Kernel:
    """The kernel whose loop over ``var``, of ``width`` iterations at most, is one vector of them,
    with lanes off where they are fewer.

    Raises `VerifyError` where the loop cannot be vectorised.
    """
    loop = find_loop(kernel, var)
    _refuse(kernel, var, obstacle(loop))
    totals = totals_of(loop)
    names = Names(kernel)
    sums = _sums(totals, width, names)
    lanes = _Lanes(var, width, names, sums)
    count = loop.hi - loop.lo
    block = lanes.iterations(loop.body, loop.lo, None if count == width else count)
    return replace_loop(
        kernel, var, (*_starts(totals, sums), *lanes.blocks[0], *block, *_ends(totals, sums, names))
    )


def _refuse(kernel: Kernel, var: Sym, fault: str | None) -> None:
    """Raise `VerifyError` if there is a ``fault``."""
    if fault is not None:
        raise VerifyError(
            f"kernel {kernel.name}: the loop over {var} cannot be vectorised: {fault}"
        )


def is_vectorizable(kernel: Kernel, var: Sym) -> bool:
    """Whether `vectorize` takes the loop over ``var``."""
    return obstacle(find_loop(kernel, var)) is None


# -- the vectorised loop ---------------------------------------------------------------------------


def _vectorize_loop(
    loop: Loop, width: int, names: Names, is_outermost: bool, narrow: int | None = None
) -> Block:
    count = dim_max(loop.hi - loop.lo, 0)
    full = floor_div(count, width) * width
    outer = totals_of(loop)
    sums = _sums(outer, width, names)
    lanes = _Lanes(loop.var, width, names, sums)
    if is_outermost and loop.kind == "parallel" and not isinstance(count, int) and full != count:
        if narrow is not None:
            return _with_narrow_rest(loop, width, narrow, names)
        whole = _with_rest(loop, width, names, lanes)
        return (*lanes.blocks[0], whole)
    block: list[Stmt] = []
    body = loop.body
    if full != 0:
        var = replace(loop.var, upper=loop.lo + full)
        if full == width:
            block += lanes.iterations(body, loop.lo, None)
        else:
            main = lanes.iterations(body, Dim.of(var), None)
            block.append(Loop(var, loop.lo, loop.lo + full, main, width, loop.kind))
        body = copy_block(body, {}, names)
    left = count - full
    if full != 0 and left not in (0, 1) and not outer and _goes_one_by_one(body, loop.var):
        block.append(_one_by_one(replace(loop, body=body), loop.lo + full, names))
    elif isinstance(left, int):
        block += lanes.iterations(body, loop.lo + full, left) if left else ()
    else:
        block += _tail(replace(loop, body=body), left, names, lanes)
    return (*_starts(outer, sums), *lanes.blocks[0], *block, *_ends(outer, sums, names))


def _sums(totals: Mapping[Reg, str], width: int, names: Names) -> dict[str, Reg]:
    """The vectors that stand for what a loop accumulates into from outside, by that."""
    return {r.name: Reg(names.fresh(r.name), r.dtype, width) for r in totals}


def _starts(totals: Mapping[Reg, str], sums: Mapping[str, Reg]) -> Block:
    """The vectors before the loop."""
    return tuple(
        Var(vector := sums[reg.name], Const(identity(op, reg.dtype), reg.dtype, vector.lanes))
        for reg, op in totals.items()
    )


def _ends(totals: Mapping[Reg, str], sums: Mapping[str, Reg], names: Names) -> Block:
    """What the vectors give to the registers behind the loop."""
    block: list[Stmt] = []
    for reg, op in totals.items():
        folded = Reg(names.fresh(reg.name), reg.dtype)
        block += [Let(folded, Fold(op, sums[reg.name])), Accumulate(reg, op, folded)]
    return tuple(block)


def _with_rest(loop: Loop, width: int, names: Names, lanes: _Lanes) -> Loop:
    """A parallel loop of vectors, the last of which has lanes off where fewer iterations are
    left."""
    name, first = loop.var.name, Dim.of(loop.var)
    left = Reg(names.fresh(f"{name}_left"), int64)
    is_full = Reg(names.fresh(f"{name}_full"), bool_)
    rest = Sym(names.fresh(f"{name}_rest"), 0, width)
    main = lanes.iterations(loop.body, first, None)
    tail: Block
    if _goes_one_by_one(loop.body, loop.var):
        tail = (_one_by_one(loop, first, names),)
    else:
        body = copy_block(loop.body, {}, names)
        tail = (Bind(rest, left), *lanes.iterations(body, first, Dim.of(rest)))
    vectors = (
        Let(left, Index(loop.hi - first)),
        Let(is_full, Apply("ge", (left, Const(width, int64)))),
        If(is_full, main, tail, mostly=True),
    )
    return replace(loop, body=vectors, step=width)


def _with_narrow_rest(loop: Loop, width: int, narrow: int, names: Names) -> Block:
    """A parallel loop of vectors, whose last iteration is a loop of ``narrow`` ones where fewer
    iterations are left."""
    (copy,) = copy_block((loop,), {}, names)
    assert isinstance(copy, Loop)
    first = Dim.of(loop.var)
    wide, few = (
        _Lanes(own.var, lanes, names, {}) for own, lanes in ((loop, width), (copy, narrow))
    )
    rest = _with_rest(replace(copy, lo=first, kind="serial"), narrow, names, few)
    is_full, left = Reg(names.fresh(f"{loop.var.name}_full"), bool_), Index(loop.hi - first)
    count = Reg(names.fresh(f"{loop.var.name}_left"), int64)
    main = wide.iterations(loop.body, first, None)
    vectors = (
        Let(count, left),
        Let(is_full, Apply("ge", (count, Const(width, int64)))),
        If(is_full, main, (*few.blocks[0], rest), mostly=True),
    )
    return (*wide.blocks[0], replace(loop, body=vectors, step=width))


def _goes_one_by_one(body: Block, var: Sym) -> bool:
    """Whether what is left runs without lanes: where something is stored apart from one iteration
    to the next, each lane that may be off is a branch of its own, and so are most of what is loaded
    so, or where a symbol says. Iterations that do little are as fast one by one, and a tenth of the
    code."""
    stmts = walk(body)
    strides = (coefficient(s.index, var) for s in stmts if isinstance(s, Store))
    is_little = sum(isinstance(s, Let) for s in stmts) <= _LITTLE
    looks_up = any(isinstance(s, Bind) for s in stmts)
    return is_little and (looks_up or any(stride not in (0, 1, -1) for stride in strides))


_LITTLE = 16
"""Values that an iteration computes, at most, that runs without lanes where few are left."""


def _one_by_one(loop: Loop, first: Size, names: Names) -> Loop:
    """The iterations of a loop from ``first`` on, one after the other."""
    (copy,) = copy_block((loop,), {}, names)
    assert isinstance(copy, Loop)
    return replace(copy, lo=first, kind="serial")


def _tail(loop: Loop, left: Size, names: Names, lanes: _Lanes) -> Block:
    """The last ``left`` iterations, fewer than there are lanes, if there are any."""
    name = loop.var.name
    count = Reg(names.fresh(f"{name}_left"), int64)
    rest = Sym(names.fresh(f"{name}_rest"), 0, lanes.width)
    some = Reg(names.fresh(f"{name}_some"), bool_)
    start = Reg(names.fresh(f"{name}_start"), int64)
    first = Sym(names.fresh(name), 0, loop.hi)
    tail = (
        Let(start, Index(loop.hi - Dim.of(rest))),
        Bind(first, start),
        *lanes.iterations(loop.body, Dim.of(first), Dim.of(rest)),
    )
    return (
        Let(count, Index(left)),
        Bind(rest, count),
        Let(some, Apply("gt", (count, Const(0, int64)))),
        If(some, tail),
    )


def _names_lanes(expr: Load | Index) -> bool:
    """Whether lanes differ in the place of a vector."""
    has_at = isinstance(expr, Load) and expr.at is not None
    return has_at or LANE_SYM in symbols_of(expr.index)


class _Lanes:
    """Writes iterations of the loop over ``var`` as lanes.

    ``sums`` are the vectors that stand for the accumulators from outside the loop. A scalar is
    splat once, in the block that binds it; ``blocks`` are the ones being written, the innermost
    last, and the first is what must stand before the loop.
    """

    def __init__(self, var: Sym, width: int, names: Names, sums: Mapping[str, Reg]) -> None:
        self.var = var
        self.width = width
        self.names = names
        self.sums = sums
        self.blocks: list[list[Stmt]] = [[]]
        self.known: list[dict[Expr, Reg]] = [{}]
        self.depths: dict[str, int] = {}

    def iterations(self, body: Block, first: Size, bound: Size | None) -> Block:
        """The body for as many iterations from ``first`` on as there are lanes, or ``bound``."""
        self.sizes = {self.var: first + LANE}
        self.bound = bound
        self.vectors = vector_registers(body, self.var)
        self.arrays = own_arrays(body)
        self.places: dict[Sym, Operand] = {}
        self.changing = {s.reg.name for s in walk(body) if isinstance(s, Var)}
        return self.block(body)

    def block(self, body: Block) -> Block:
        self.blocks.append([])
        self.known.append({})
        for stmt in body:
            _STATEMENTS[type(stmt)](self, stmt)
        self.known.pop()
        return tuple(self.blocks.pop())

    def emit(self, stmt: Stmt) -> None:
        self.blocks[-1].append(stmt)

    # -- operands --------------------------------------------------------------------------------

    def wide(self, reg: Reg) -> Reg:
        """The vector that takes the place of a register that differs between iterations."""
        return Reg(reg.name, reg.dtype, self.width)

    def new(self, like: str, dtype: DType, expr: Expr) -> Reg:
        """A new vector register that holds ``expr``."""
        reg = Reg(self.names.fresh(like), dtype, self.width)
        self.emit(Let(reg, expr))
        return reg

    def once(self, like: str, dtype: DType, expr: Expr, depth: int) -> Reg:
        """A vector register, bound in the block at ``depth``, that holds the constant ``expr``."""
        known = self.known[depth]
        if expr not in known:
            known[expr] = Reg(self.names.fresh(like), dtype, self.width)
            self.blocks[depth].append(Let(known[expr], expr))
        return known[expr]

    def vector(self, arg: Operand) -> Operand:
        """``arg`` in all lanes."""
        if isinstance(arg, Const):
            return Const(arg.value, arg.dtype, self.width)
        if arg.name in self.vectors:
            return self.wide(arg)
        if arg.name in self.changing:
            return self.new(arg.name, arg.dtype, Splat(arg))
        return self.once(arg.name, arg.dtype, Splat(arg), self.depths.get(arg.name, 0))

    def active_or(self, arg: Operand, rest: bool | int | float) -> Operand:
        """``arg`` in all lanes, but ``rest`` in those that are off."""
        value = self.vector(arg)
        if self.bound is None:
            return value
        on = self.once("on", bool_, Active(self.bound), 1)
        off = Const(rest, arg.dtype, self.width)
        return self.new("kept", arg.dtype, Apply("select", (on, value, off)))

    def index(self, index: Size) -> Size:
        return substitute_dim(index, self.sizes)

    def place(self, index: Size) -> tuple[Size, Operand | None]:
        """Where the lanes are: what is known of the index, and the vector to be added to that."""
        found: Operand | None = None
        for sym in sorted(symbols_of(index) & self.places.keys(), key=Sym.sort_key):
            step = coefficient(index, sym)
            assert step is not None
            part = self.places[sym]
            if step != 1:
                by = self.new("step", int64, Splat(self.number(self.index(step))))
                part = self.new(sym.name, int64, Apply("mul", (by, part)))
            found = part if found is None else self.new("at", int64, Apply("add", (found, part)))
        return self.index(substitute_dim(index, dict.fromkeys(self.places, 0))), found

    def number(self, size: Size) -> Operand:
        """A size as an int64 value, the same in every lane."""
        if isinstance(size, int):
            return Const(size, int64)
        reg = Reg(self.names.fresh("size"), int64)
        self.emit(Let(reg, Index(size)))
        return reg

    # -- statements ------------------------------------------------------------------------------

    def let(self, stmt: Let) -> None:
        if stmt.reg.name not in self.vectors:
            self.depths[stmt.reg.name] = len(self.blocks) - 1
            self.emit(self.fold_active(stmt) if isinstance(stmt.expr, Fold) else stmt)
            return
        expr = _EXPRESSIONS[type(stmt.expr)](self, stmt.expr)
        if isinstance(expr, (Load, Index)) and not _names_lanes(expr):
            # The index turned out to be the same for all these iterations.
            scalar = Reg(self.names.fresh(stmt.reg.name), stmt.reg.dtype)
            self.emit(Let(scalar, expr))
            expr = Splat(scalar)
        self.emit(Let(self.wide(stmt.reg), expr))

    def fold_active(self, stmt: Let) -> Let:
        """The fold of the lanes that are on, where its operand differs between iterations."""
        fold = stmt.expr
        assert isinstance(fold, Fold)
        if not is_vector(fold.arg, self.vectors):
            return stmt
        rest = identity(fold.op, fold.arg.dtype)
        return Let(stmt.reg, Fold(fold.op, self.active_or(fold.arg, rest)))

    def bind(self, stmt: Bind) -> None:
        if stmt.sym not in self.vectors:
            self.emit(stmt)
            return
        value = self.vector(stmt.value)
        if value.dtype is not int64:
            value = self.new(stmt.sym.name, int64, Cast(value))
        self.places[stmt.sym] = value

    def variable(self, stmt: Var) -> None:
        if stmt.reg.name in self.vectors:
            stmt = Var(self.wide(stmt.reg), self.vector(stmt.init))
        self.emit(stmt)

    def set(self, stmt: Set) -> None:
        if stmt.reg.name in self.vectors:
            stmt = Set(self.wide(stmt.reg), self.vector(stmt.value))
        self.emit(stmt)

    def accumulate(self, stmt: Accumulate) -> None:
        if stmt.reg.name in self.sums:
            value = self.active_or(stmt.value, identity(stmt.op, stmt.reg.dtype))
            stmt = Accumulate(self.sums[stmt.reg.name], stmt.op, value)
        elif stmt.reg.name in self.vectors:
            stmt = Accumulate(self.wide(stmt.reg), stmt.op, self.vector(stmt.value))
        self.emit(stmt)

    def local(self, stmt: Local) -> None:
        self.emit(replace(stmt, count=stmt.count * self.width))

    def store(self, stmt: Store) -> None:
        value = self.vector(stmt.value)
        if stmt.buffer in self.arrays:
            self.emit(Store(stmt.buffer, stmt.index * self.width + LANE, value))
            return
        self.emit(Store(stmt.buffer, self.index(stmt.index), value, self.bound))

    def check(self, stmt: Check) -> None:
        if is_vector(stmt.cond, self.vectors):
            holds = Reg(self.names.fresh("holds"), bool_)
            self.emit(Let(holds, Fold("and", self.active_or(stmt.cond, True))))
            stmt = replace(stmt, cond=holds)
        self.emit(stmt)

    def loop(self, stmt: Loop) -> None:
        self.emit(replace(stmt, body=self.block(stmt.body)))

    def branch(self, stmt: If) -> None:
        self.emit(replace(stmt, then=self.block(stmt.then), orelse=self.block(stmt.orelse)))

    # -- expressions -----------------------------------------------------------------------------

    def load(self, expr: Load) -> Load:
        if expr.buffer in self.arrays:
            return Load(expr.buffer, expr.index * self.width + LANE)
        index, at = self.place(expr.index)
        return Load(expr.buffer, index, self.bound, at)

    def index_value(self, expr: Index) -> Expr:
        index, at = self.place(expr.index)
        if at is None:
            return Index(index)
        names_lane = LANE_SYM in symbols_of(index)
        rest = Index(index) if names_lane else Splat(self.number(index))
        return Apply("add", (self.new("rest", int64, rest), at))

    def apply(self, expr: Apply) -> Apply:
        args = list(map(self.vector, expr.args))
        if expr.op in ("quotient", "remainder") and is_vector(expr.args[1], self.vectors):
            # Lanes that are off may have loaded a zero, and dividing by it would trap.
            args[1] = self.active_or(expr.args[1], 1)
        return Apply(expr.op, tuple(args))


_STATEMENTS: dict[type, Callable[[_Lanes, Any], None]] = {
    Let: _Lanes.let,
    Var: _Lanes.variable,
    Set: _Lanes.set,
    Accumulate: _Lanes.accumulate,
    Store: _Lanes.store,
    Local: _Lanes.local,
    Loop: _Lanes.loop,
    If: _Lanes.branch,
    Bind: _Lanes.bind,
    Check: _Lanes.check,
}
_EXPRESSIONS: dict[type, Callable[[_Lanes, Any], Expr]] = {
    Apply: _Lanes.apply,
    Load: _Lanes.load,
    Cast: lambda lanes, e: Cast(lanes.vector(e.arg)),
    Bitcast: lambda lanes, e: Bitcast(lanes.vector(e.arg)),
    Index: _Lanes.index_value,
}
