"""The rules of Kernel IR, checked: `verify_kernel` refuses a kernel that breaks one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import numpy as np

from staticflow.codegen.kernel import (
    ACCESSES,
    HALVES,
    IN_ORDER,
    KINDS,
    LANE_SYM,
    LAUNCHED,
    PLACES,
    SHARED,
    TEAMS,
    Accumulate,
    Active,
    Aligned,
    Apply,
    Bind,
    Bitcast,
    Block,
    Buffer,
    Cast,
    Check,
    Const,
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
    Reserve,
    Set,
    Splat,
    Store,
    Var,
    Worker,
    Workers,
    Zip,
    totals_of,
    walk,
)
from staticflow.codegen.primitives import COMBINES, PRIMITIVES
from staticflow.codegen.statuses import INTERRUPTED, NO_ROOM
from staticflow.codegen.text import format_statement
from staticflow.data_classes import dataclass
from staticflow.errors import VerifyError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size, Sym, is_provably_ge
from staticflow.graph.dtypes import DType, bool_, int64

__all__ = ["verify_kernel"]


def verify_kernel(kernel: Kernel) -> Kernel:
    """Return ``kernel`` if it keeps the rules of `staticflow.codegen.kernel`.

    Raises `VerifyError` with the kernel's name, the statement that breaks a rule, and the rule.
    Not checked, since it is not decidable: that indices are inside their buffers, and that the
    iterations of a parallel or grid loop are independent in memory.
    """
    try:
        verifier = _Verifier()
        verifier.signature(kernel)
        verifier.block(kernel.body)
    except _Fault as fault:
        raise VerifyError(f"kernel {kernel.name}: {fault}") from None
    return kernel


class _Fault(Exception):
    """A broken rule, before the kernel's name is put to it."""


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise _Fault(rule)


def _require_name(name: str, what: str) -> None:
    _require(name.isidentifier(), f"{name!r} is no name for {what}")


def _type(dtype: DType, lanes: int) -> str:
    return f"{dtype}" if lanes == 1 else f"{dtype}x{lanes}"


def _type_of(arg: Operand) -> str:
    return _type(arg.dtype, arg.lanes)


@dataclass
class _Verifier:
    """Walks a kernel with what is visible: registers by name, the changeable ones, symbols, and the
    buffers that something is reserved of, each with the depth of the block."""

    buffers: dict[str, Buffer] = field(default_factory=dict)
    symbols: set[Sym] = field(default_factory=set)
    regs: dict[str, Reg] = field(default_factory=dict)
    variables: set[str] = field(default_factory=set)
    reserved: dict[str, int] = field(default_factory=dict)
    all_regs: set[str] = field(default_factory=set)
    all_symbols: set[Sym] = field(default_factory=set)
    depth: int = 0
    shared: int = -1  # the depth of the body of the innermost parallel or grid loop
    before: set[Sym] = field(default_factory=set)  # the symbols bound before that
    in_order: bool = True
    team: bool = False  # whether this is the body of a loop whose iterations are teams'
    in_threads: bool = False
    scanned: int = -1  # the depth of the body of the scan around
    totals: frozenset[str] = frozenset()  # what may be accumulated into, but not read

    def signature(self, kernel: Kernel) -> None:
        _require_name(kernel.name, "a kernel")
        for buffer in kernel.buffers:
            _require_name(buffer.name, "a buffer")
            _require(buffer.name not in self.buffers, f"there are two buffers {buffer.name}")
            _require(
                buffer.access in ACCESSES,
                f"buffer {buffer.name}: {buffer.access!r} is none of {', '.join(ACCESSES)}",
            )
            self.buffers[buffer.name] = buffer
        for size in kernel.sizes:
            self.bind_symbol(size, self.all_symbols)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is bound inside is not visible after it."""
        saved = self.symbols, self.regs, self.variables, self.reserved, self.in_order
        shared = self.shared, self.before, self.team, self.totals, self.in_threads, self.scanned
        buffers = dict(self.buffers)
        self.symbols, self.regs = set(self.symbols), dict(self.regs)
        self.variables, self.reserved = set(self.variables), dict(self.reserved)
        self.depth += 1
        yield
        self.depth -= 1
        self.symbols, self.regs, self.variables, self.reserved, self.in_order = saved
        self.shared, self.before, self.team, self.totals, self.in_threads, self.scanned = shared
        self.buffers = buffers

    def block(self, block: Block) -> None:
        for stmt in block:
            try:
                _STATEMENTS[type(stmt)](self, stmt)
            except _FaultyStatement:
                raise
            except _Fault as fault:
                raise _FaultyStatement(f"{format_statement(stmt)}\n  {fault}") from None

    # -- parts -----------------------------------------------------------------------------------

    def operand(self, arg: Operand) -> None:
        if isinstance(arg, Const):
            _check_const(arg)
            return
        found = self.regs.get(arg.name)
        _require(found is not None, f"%{arg.name} is not bound here")
        _require(
            arg.name not in self.totals,
            f"%{arg.name} is known behind the loop only, whose threads accumulate into it",
        )
        _require(
            found == arg,
            f"%{arg.name} is used as {_type_of(arg)} but bound as {_type_of(found or arg)}",
        )

    def scalar_bool(self, arg: Operand) -> None:
        self.operand(arg)
        found = _type_of(arg)
        _require(found == "bool", f"the condition must be a bool of one lane, not {found}")

    def size(self, size: Size, what: str) -> None:
        """A size that is the same in every lane."""
        self.index(size, what)
        _require(LANE_SYM not in symbols_of(size), f"{what} must not name lane")

    def index(self, index: Size, what: str = "the index") -> None:
        unknown = sorted(s.name for s in symbols_of(index) - self.symbols - {LANE_SYM})
        _require(not unknown, f"{what} names {', '.join(unknown)}, not bound here")

    def lane_index(self, index: Size, lanes: int) -> None:
        self.index(index)
        names_lane = LANE_SYM in symbols_of(index)
        _require(lanes > 1 or not names_lane, "the index of one lane must not name lane")
        _require(lanes == 1 or names_lane, f"the index of {lanes} lanes must name lane")

    def check_bound(self, bound: Size | None) -> None:
        if bound is not None:
            self.size(bound, "the bound")

    def buffer(self, name: str) -> Buffer:
        _require(name in self.buffers, f"there is no buffer {name}")
        return self.buffers[name]

    def usable_buffer(self, name: str) -> Buffer:
        buffer = self.buffer(name)
        _require(
            buffer.access != "private" or self.in_threads,
            f"{name} is there once for each thread; only a threads loop touches it",
        )
        _require(
            buffer.access != "grows" or name in self.reserved, f"nothing is reserved of {name} here"
        )
        return buffer

    def bind_reg(self, reg: Reg) -> None:
        _require_name(reg.name, "a register")
        _require(reg.lanes >= 1, f"%{reg.name} has {reg.lanes} lanes; it needs at least one")
        _require(reg.name not in self.all_regs, f"%{reg.name} is bound twice")
        self.all_regs.add(reg.name)
        self.regs[reg.name] = reg

    def bind_symbol(self, sym: Sym, taken: set[Sym]) -> None:
        """Make a symbol visible, which must not be one of those ``taken``."""
        _require_name(sym.name, "a symbol")
        _require(sym != LANE_SYM, "lane is the lane's number; it cannot be bound")
        _require(sym not in taken, f"{sym} is bound twice")
        self.all_symbols.add(sym)
        self.symbols.add(sym)

    def result(self, reg: Reg, dtype: DType, lanes: int) -> None:
        _require(
            reg.dtype is dtype and reg.lanes == lanes,
            f"the value is {_type(dtype, lanes)}, the register {_type_of(reg)}",
        )

    # -- statements ------------------------------------------------------------------------------

    def let(self, stmt: Let) -> None:
        _EXPRESSIONS[type(stmt.expr)](self, stmt.reg, stmt.expr)
        self.bind_reg(stmt.reg)

    def var(self, stmt: Var) -> None:
        self.operand(stmt.init)
        self.result(stmt.reg, stmt.init.dtype, stmt.init.lanes)
        self.bind_reg(stmt.reg)
        self.variables.add(stmt.reg.name)

    def check_change(self, reg: Reg, value: Operand) -> None:
        self.operand(reg)
        _require(
            reg.name in self.variables,
            f"%{reg.name} cannot change here: only a var can, and inside a loop that is in no "
            "order only one of the same iteration",
        )
        self.operand(value)
        self.result(reg, value.dtype, value.lanes)

    def set(self, stmt: Set) -> None:
        self.check_change(stmt.reg, stmt.value)

    def accumulate(self, stmt: Accumulate) -> None:
        _check_combine(stmt.op, stmt.value)
        if stmt.reg.name in self.totals:
            self.operand(stmt.value)
            if self.depth == self.scanned:  # from here on it can be read
                self.totals = self.totals - {stmt.reg.name}
            self.result(stmt.reg, stmt.value.dtype, stmt.value.lanes)
            return
        self.check_change(stmt.reg, stmt.value)

    def store(self, stmt: Store) -> None:
        buffer = self.usable_buffer(stmt.buffer)
        _require(buffer.access != "in", f"{buffer.name} is an input; it cannot be stored to")
        self.operand(stmt.value)
        _require(
            stmt.value.dtype is buffer.dtype,
            f"the value is {stmt.value.dtype}, the buffer {buffer.dtype}",
        )
        self.lane_index(stmt.index, stmt.value.lanes)
        self.check_bound(stmt.bound)

    def loop(self, stmt: Loop) -> None:
        self.size(stmt.lo, "the loop's start")
        self.size(stmt.hi, "the loop's end")
        _require(stmt.step >= 1, f"the step must be at least 1, not {stmt.step}")
        _require(
            not isinstance(stmt.lo, int) or stmt.lo >= 0, "a loop variable must not be negative"
        )
        _require(stmt.kind in KINDS, f"{stmt.kind!r} is none of {', '.join(KINDS)}")
        if stmt.going is not None:
            self.scalar_bool(stmt.going)
            _require(
                stmt.kind in IN_ORDER, "only a loop in order asks a register before each iteration"
            )
        if stmt.kind in LAUNCHED:
            _require(self.depth == 0, f"a {stmt.kind} loop must be at the kernel's top level")
        if stmt.kind in SHARED:
            _require(
                self.team,
                f"a {stmt.kind} loop must be in a loop over warps or blocks, not in another that "
                "the team shares",
            )
        upper = stmt.var.upper
        _require(
            upper is None or is_provably_ge(upper, stmt.hi),
            f"{stmt.var} is said to be below {upper}, which the loop's end may exceed",
        )
        with self.scope():
            if stmt.kind not in IN_ORDER:
                self.totals = self.check_totals(stmt)
                self.variables, self.in_order = set(), False
                self.team, self.in_threads = stmt.kind in TEAMS, stmt.kind in SHARED
                self.scanned = self.depth if stmt.kind == "scan" else -1
                if stmt.kind not in SHARED:
                    self.shared, self.before = self.depth, set(self.symbols)
            self.bind_symbol(stmt.var, self.all_symbols)
            self.block(stmt.body)

    def check_totals(self, loop: Loop) -> frozenset[str]:
        """What the iterations of a loop accumulate into together, those around it too."""
        if loop.kind not in SHARED:
            return frozenset()
        totals = totals_of(loop)
        for reg, op in totals.items():
            if reg.name in self.variables:
                _require(reg.lanes == 1, f"%{reg.name} has {reg.lanes} lanes; threads add up one")
            for s in walk(loop.body):
                if isinstance(s, Accumulate) and s.reg == reg:
                    _require(s.op == op, f"%{reg.name} is accumulated into by {op} and {s.op}")
        if loop.kind == "scan":
            _check_scan(loop)
        return frozenset(reg.name for reg in totals if reg.name in self.variables)

    def branch(self, stmt: If) -> None:
        self.scalar_bool(stmt.cond)
        for block in (stmt.then, stmt.orelse):
            with self.scope():
                self.block(block)

    def bind(self, stmt: Bind) -> None:
        self.operand(stmt.value)
        _require(
            stmt.value.dtype.kind in "iu" and stmt.value.lanes == 1,
            f"a symbol must be an integer of one lane, not {_type_of(stmt.value)}",
        )
        if stmt.sym.upper is not None:
            self.size(stmt.sym.upper, f"the upper bound of {stmt.sym}")
        self.bind_symbol(stmt.sym, self.symbols)

    def check(self, stmt: Check) -> None:
        self.scalar_bool(stmt.cond)
        _require(stmt.code > 0, f"the code must be positive, not {stmt.code}")
        own = (INTERRUPTED, NO_ROOM)
        _require(stmt.code not in own, f"{stmt.code} is what a kernel returns for another reason")

    def reserve(self, stmt: Reserve) -> None:
        buffer = self.buffer(stmt.buffer)
        _require(buffer.access == "grows", f"{buffer.name} does not grow")
        depth = self.reserved.get(buffer.name, self.depth)
        _require(depth == self.depth, f"{buffer.name} is reserved around this block")
        _require(self.in_order, "only what runs in order reserves")
        self.size(stmt.count, "the number of elements")
        self.reserved[buffer.name] = self.depth

    def local(self, stmt: Local) -> None:
        _require_name(stmt.name, "an array")
        _require(stmt.name not in self.buffers, f"there are two buffers {stmt.name}")
        _require(self.team, "a local array must be in a loop over warps or blocks, for its team")
        _require(stmt.count >= 1, f"{stmt.name} has {stmt.count} elements; it needs at least one")
        _require(stmt.place in PLACES, f"{stmt.place!r} is none of {', '.join(PLACES)}")
        self.buffers[stmt.name] = Buffer(stmt.name, stmt.dtype, stmt.place)

    # -- expressions -----------------------------------------------------------------------------

    def apply(self, reg: Reg, expr: Apply) -> None:
        _require(expr.op in PRIMITIVES, f"there is no primitive {expr.op}")
        primitive = PRIMITIVES[expr.op]
        _require(
            len(expr.args) == primitive.arity,
            f"{expr.op} takes {primitive.arity} operands, not {len(expr.args)}",
        )
        for arg in expr.args:
            self.operand(arg)
            _require(
                arg.lanes == reg.lanes, f"operand {_type_of(arg)} in a value of {reg.lanes} lanes"
            )
        first = expr.args[0]
        _require(first.dtype.kind in primitive.kinds, f"{expr.op} is not defined for {first.dtype}")
        alike = expr.args[1:] if primitive.result == "second" else expr.args
        dtypes = ", ".join(str(a.dtype) for a in alike)
        _require(
            all(a.dtype is alike[0].dtype for a in alike),
            f"the operands of {expr.op} differ in dtype: {dtypes}",
        )
        self.result(reg, bool_ if primitive.result == "bool" else alike[0].dtype, reg.lanes)

    def load(self, reg: Reg, expr: Load) -> None:
        buffer = self.usable_buffer(expr.buffer)
        self.lane_index(expr.index, reg.lanes)
        self.check_bound(expr.bound)
        self.result(reg, buffer.dtype, reg.lanes)

    def cast(self, reg: Reg, expr: Cast) -> None:
        self.operand(expr.arg)
        self.result(reg, reg.dtype, expr.arg.lanes)

    def bitcast(self, reg: Reg, expr: Bitcast) -> None:
        self.operand(expr.arg)
        dtypes = (expr.arg.dtype, reg.dtype)
        _require(bool_ not in dtypes, "a bool has no bits to reinterpret")
        _require(
            expr.arg.dtype.bits == reg.dtype.bits,
            f"{dtypes[0]} and {dtypes[1]} differ in width",
        )
        self.result(reg, reg.dtype, expr.arg.lanes)

    def splat(self, reg: Reg, expr: Splat) -> None:
        self.operand(expr.arg)
        _require(expr.arg.lanes == 1, f"only a scalar can be splat, not {_type_of(expr.arg)}")
        self.result(reg, expr.arg.dtype, reg.lanes)

    def fold(self, reg: Reg, expr: Fold) -> None:
        self.operand(expr.arg)
        _check_combine(expr.op, expr.arg)
        self.result(reg, expr.arg.dtype, 1)

    def zip(self, reg: Reg, expr: Zip) -> None:
        self.operand(expr.a)
        self.operand(expr.b)
        first, second = _type_of(expr.a), _type_of(expr.b)
        _require(first == second, f"zip takes two of one type, not {first} and {second}")
        _require(expr.a.lanes % 2 == 0, f"{first} has no halves")
        _require(expr.half in HALVES, f"{expr.half!r} is none of {', '.join(HALVES)}")
        self.result(reg, expr.a.dtype, expr.a.lanes)

    def index_value(self, reg: Reg, expr: Index) -> None:
        self.lane_index(expr.index, reg.lanes)
        self.result(reg, int64, reg.lanes)

    def active(self, reg: Reg, expr: Active) -> None:
        self.check_bound(expr.bound)
        self.result(reg, bool_, reg.lanes)

    def check_aligned(self, reg: Reg, expr: Aligned) -> None:
        for name in expr.buffers:
            self.buffer(name)
        self.result(reg, bool_, 1)

    def worker(self, reg: Reg, expr: Worker) -> None:
        _require(
            self.depth == self.shared,
            "only the body of a loop in no order itself, no block in it, asks for the worker",
        )
        late = sorted(s.name for s in symbols_of(expr.most) - self.before)
        _require(not late, f"the number of threads names {', '.join(late)}, not bound before")
        self.result(reg, int64, 1)


class _FaultyStatement(_Fault):
    """A broken rule with the statement that broke it."""


def _check_const(const: Const) -> None:
    kind, value = const.dtype.kind, const.value
    _require(const.lanes >= 1, f"a constant has {const.lanes} lanes; it needs at least one")
    allowed = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float)}[kind]
    _require(type(value) in allowed, f"{value!r} is no {const.dtype}")
    if kind in "iu":
        limits = np.iinfo(const.dtype.numpy)
        in_range = limits.min <= value <= limits.max
        _require(bool(in_range), f"{value} is out of the range of {const.dtype}")


def _check_scan(loop: Loop) -> None:
    _require(loop.step == 1, f"the step of a scan must be 1, not {loop.step}")
    changes = [i for i, s in enumerate(loop.body) if isinstance(s, Accumulate)]
    inside = sum(isinstance(s, Accumulate) and s.reg in totals_of(loop) for s in walk(loop.body))
    regs = {s.reg for s in loop.body if isinstance(s, Accumulate)}
    _require(
        0 < len(changes) == len(regs) == inside,
        "a scan accumulates into registers from outside, once into each and in no block in it",
    )
    _require(not any(isinstance(s, Check) for s in walk(loop.body)), "a scan checks nothing")
    _require(
        all(isinstance(s, (Let, Bind, Accumulate)) for s in loop.body[: changes[-1]]),
        "before the last accumulate of a scan there is nothing but let, bind and others",
    )


def _check_combine(op: str, value: Operand) -> None:
    _require(op in COMBINES, f"{op} is no combination; there are {', '.join(COMBINES)}")
    _require(value.dtype.kind in PRIMITIVES[op].kinds, f"{op} is not defined for {value.dtype}")


_STATEMENTS: dict[type, Callable[[_Verifier, Any], None]] = {
    Let: _Verifier.let,
    Var: _Verifier.var,
    Set: _Verifier.set,
    Accumulate: _Verifier.accumulate,
    Store: _Verifier.store,
    Loop: _Verifier.loop,
    If: _Verifier.branch,
    Bind: _Verifier.bind,
    Check: _Verifier.check,
    Reserve: _Verifier.reserve,
    Local: _Verifier.local,
}
_EXPRESSIONS: dict[type, Callable[[_Verifier, Reg, Any], None]] = {
    Apply: _Verifier.apply,
    Load: _Verifier.load,
    Cast: _Verifier.cast,
    Bitcast: _Verifier.bitcast,
    Splat: _Verifier.splat,
    Fold: _Verifier.fold,
    Zip: _Verifier.zip,
    Index: _Verifier.index_value,
    Active: _Verifier.active,
    Worker: _Verifier.worker,
    Aligned: _Verifier.check_aligned,
    Workers: lambda verifier, reg, expr: verifier.result(reg, int64, 1),
}
