"""The rules of Kernel IR, checked: `verify_kernel` refuses a kernel that breaks one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.codegen.kernel import (
    CORE_DEPTH,
    CORE_SUMS,
    CORE_TILE,
    HALVES,
    IN_ORDER,
    KINDS,
    LAUNCHED,
    LINE_BYTES,
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
    Call,
    Cast,
    Check,
    Fold,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    MultiplyTiles,
    Operand,
    Reg,
    Reserve,
    Set,
    Splat,
    Store,
    Streams,
    Var,
    Worker,
    Workers,
    Zip,
)
from staticflow.codegen.parts import totals_of, walk
from staticflow.codegen.primitives import COMBINES, PRIMITIVES
from staticflow.codegen.scope import Fault, Scope, describe_type, require, require_name
from staticflow.codegen.statuses import INTERRUPTED, NO_ROOM
from staticflow.codegen.text import format_statement
from staticflow.errors import VerifyError
from staticflow.graph.articles import with_article
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import is_provably_ge
from staticflow.graph.dtypes import bfloat16, bool_, float16, float32, int64

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
    except Fault as fault:
        raise VerifyError(f"kernel {kernel.name}: {fault}") from None
    return kernel


class _FaultyStatement(Fault):
    """A broken rule with the statement that broke it."""


class _Verifier(Scope):
    """Walks a kernel: the rules of its statements and of what they compute."""

    def block(self, block: Block) -> None:
        for stmt in block:
            try:
                _STATEMENTS[type(stmt)](self, stmt)
            except _FaultyStatement:
                raise
            except Fault as fault:
                raise _FaultyStatement(f"{format_statement(stmt)}\n  {fault}") from None

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
        require(
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
        require(buffer.access != "in", f"{buffer.name} is an input; it cannot be stored to")
        self.operand(stmt.value)
        require(
            stmt.value.dtype is buffer.dtype,
            f"the value is {stmt.value.dtype}, the buffer {buffer.dtype}",
        )
        self.lane_index(stmt.index, stmt.value.lanes)
        self.check_bound(stmt.bound)
        if stmt.past is not None:
            self.operand(stmt.past)
            bytes_ = stmt.value.lanes * buffer.dtype.itemsize
            require(
                stmt.past.dtype is bool_ and stmt.past.lanes == 1,
                f"what goes past the caches is said by one bool, not {describe_type(stmt.past)}",
            )
            require(
                stmt.bound is None and bytes_ % LINE_BYTES == 0,
                f"{bytes_} bytes, or some of them, are no lines of {LINE_BYTES}",
            )

    def loop(self, stmt: Loop) -> None:
        self.size(stmt.lo, "the loop's start")
        self.size(stmt.hi, "the loop's end")
        require(stmt.step >= 1, f"the step must be at least 1, not {stmt.step}")
        require(
            not isinstance(stmt.lo, int) or stmt.lo >= 0, "a loop variable must not be negative"
        )
        require(stmt.kind in KINDS, f"{stmt.kind!r} is none of {', '.join(KINDS)}")
        if stmt.going is not None:
            self.scalar_bool(stmt.going)
            require(
                stmt.kind in IN_ORDER, "only a loop in order asks a register before each iteration"
            )
        if stmt.kind in LAUNCHED:
            require(
                self.depth == 0, f"{with_article(stmt.kind)} loop must be at the kernel's top level"
            )
        if stmt.kind in SHARED:
            require(
                self.team != "",
                f"{with_article(stmt.kind)} loop must be in a loop over warps or blocks, not in "
                "another that the team shares",
            )
        upper = stmt.var.upper
        require(
            upper is None or is_provably_ge(upper, stmt.hi),
            f"{stmt.var} is said to be below {upper}, which the loop's end may exceed",
        )
        with self.enter_block():
            if stmt.kind not in IN_ORDER:
                self.totals = self.check_totals(stmt)
                self.variables, self.in_order = set(), False
                self.team = stmt.kind if stmt.kind in TEAMS else ""
                self.in_threads = stmt.kind in SHARED
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
                require(reg.lanes == 1, f"%{reg.name} has {reg.lanes} lanes; threads add up one")
            for s in walk(loop.body):
                if isinstance(s, Accumulate) and s.reg == reg:
                    require(s.op == op, f"%{reg.name} is accumulated into by {op} and {s.op}")
        if loop.kind == "scan":
            _check_scan(loop)
        return frozenset(reg.name for reg in totals if reg.name in self.variables)

    def branch(self, stmt: If) -> None:
        self.scalar_bool(stmt.cond)
        for block in (stmt.then, stmt.orelse):
            with self.enter_block():
                self.block(block)

    def bind(self, stmt: Bind) -> None:
        self.operand(stmt.value)
        require(
            stmt.value.dtype.kind in "iu" and stmt.value.lanes == 1,
            f"a symbol must be an integer of one lane, not {describe_type(stmt.value)}",
        )
        if stmt.sym.upper is not None:
            self.size(stmt.sym.upper, f"the upper bound of {stmt.sym}")
        self.bind_symbol(stmt.sym, self.symbols)

    def check(self, stmt: Check) -> None:
        self.scalar_bool(stmt.cond)
        require(stmt.code > 0, f"the code must be positive, not {stmt.code}")
        own = (INTERRUPTED, NO_ROOM)
        require(stmt.code not in own, f"{stmt.code} is what a kernel returns for another reason")

    def reserve(self, stmt: Reserve) -> None:
        buffer = self.buffer(stmt.buffer)
        require(buffer.access == "grows", f"{buffer.name} does not grow")
        depth = self.reserved.get(buffer.name, self.depth)
        require(depth == self.depth, f"{buffer.name} is reserved around this block")
        require(self.in_order, "only what runs in order reserves")
        self.size(stmt.count, "the number of elements")
        self.reserved[buffer.name] = self.depth

    def local(self, stmt: Local) -> None:
        require_name(stmt.name, "an array")
        require(stmt.name not in self.buffers, f"there are two buffers {stmt.name}")
        require(stmt.count >= 1, f"{stmt.name} has {stmt.count} elements; it needs at least one")
        require(stmt.place in PLACES, f"{stmt.place!r} is none of {', '.join(PLACES)}")
        if stmt.place == "stack":
            require(self.team == "", "an array on the stack must not be in a loop over teams")
            self.stacked[stmt.name] = self.depth
        else:
            require(
                self.team != "",
                "a local array must be in a loop over warps or blocks, for its team",
            )
        self.buffers[stmt.name] = Buffer(stmt.name, stmt.dtype, stmt.place)
        self.counts[stmt.name] = stmt.count

    def multiply_tiles(self, stmt: MultiplyTiles) -> None:
        require(self.team == "blocks", "all threads of a block multiply tiles together")
        left, right, sums = map(self.buffer, (stmt.left, stmt.right, stmt.sums))
        for tile in (left, right):
            require(tile.access == "shared", f"{tile.name} is no shared array")
            require(
                tile.dtype is left.dtype and tile.dtype in (float16, bfloat16),
                f"{tile.name} is {tile.dtype}; both tiles are float16, or both bfloat16",
            )
        require(sums.access == "private", f"{sums.name} is no private array")
        require(sums.dtype is float32, f"{sums.name} is {sums.dtype}, not float32")
        counts = self.counts
        require(
            counts[sums.name] >= CORE_SUMS
            and min(counts[left.name], counts[right.name]) >= CORE_TILE * stmt.pitch,
            f"there are {CORE_SUMS} sums of a thread, and {CORE_TILE} places of a tile",
        )
        require(
            stmt.depth % CORE_DEPTH == 0 and 0 < stmt.depth <= stmt.pitch and stmt.pitch % 2 == 0,
            f"the depth {stmt.depth} is no number of {CORE_DEPTH}, or more than the pitch "
            f"{stmt.pitch}, which is even",
        )

    def call(self, stmt: Call) -> None:
        kernel = stmt.kernel
        require(
            len(stmt.buffers) == len(stmt.starts) == len(kernel.buffers)
            and len(stmt.sizes) == len(kernel.sizes),
            f"{kernel.name} takes {len(kernel.buffers)} buffers and {len(kernel.sizes)} sizes",
        )
        for name, start, taken in zip(stmt.buffers, stmt.starts, kernel.buffers, strict=True):
            buffer = self.usable_buffer(name)
            require(buffer.dtype is taken.dtype, f"{name} is {buffer.dtype}, not {taken.dtype}")
            written = taken.access != "in"
            require(
                not written or buffer.access != "in", f"{name} is an input; it cannot be stored to"
            )
            self.size(start, f"where {name} starts")
        for size in (*stmt.sizes, stmt.work):
            self.size(size, "a size")

    # -- expressions -----------------------------------------------------------------------------

    def apply(self, reg: Reg, expr: Apply) -> None:
        require(expr.op in PRIMITIVES, f"there is no primitive {expr.op}")
        primitive = PRIMITIVES[expr.op]
        require(
            len(expr.args) == primitive.arity,
            f"{expr.op} takes {primitive.arity} operands, not {len(expr.args)}",
        )
        for arg in expr.args:
            self.operand(arg)
            require(
                arg.lanes == reg.lanes,
                f"operand {describe_type(arg)} in a value of {reg.lanes} lanes",
            )
        first = expr.args[0]
        require(first.dtype.kind in primitive.kinds, f"{expr.op} is not defined for {first.dtype}")
        alike = expr.args[1:] if primitive.result == "second" else expr.args
        dtypes = ", ".join(str(a.dtype) for a in alike)
        require(
            all(a.dtype is alike[0].dtype for a in alike),
            f"the operands of {expr.op} differ in dtype: {dtypes}",
        )
        self.result(reg, bool_ if primitive.result == "bool" else alike[0].dtype, reg.lanes)

    def load(self, reg: Reg, expr: Load) -> None:
        buffer = self.usable_buffer(expr.buffer)
        if expr.at is None:
            self.lane_index(expr.index, reg.lanes)
        else:
            self.index(expr.index)
            self.operand(expr.at)
            found, wanted = describe_type(expr.at), describe_type(Reg("at", int64, reg.lanes))
            require(reg.lanes > 1, "a load of one lane takes its place from the index alone")
            require(found == wanted, f"what it is at must be {wanted}, not {found}")
        self.check_bound(expr.bound)
        self.result(reg, buffer.dtype, reg.lanes)

    def cast(self, reg: Reg, expr: Cast) -> None:
        self.operand(expr.arg)
        self.result(reg, reg.dtype, expr.arg.lanes)

    def bitcast(self, reg: Reg, expr: Bitcast) -> None:
        self.operand(expr.arg)
        dtypes = (expr.arg.dtype, reg.dtype)
        require(bool_ not in dtypes, "a bool has no bits to reinterpret")
        require(
            expr.arg.dtype.bits == reg.dtype.bits,
            f"{dtypes[0]} and {dtypes[1]} differ in width",
        )
        self.result(reg, reg.dtype, expr.arg.lanes)

    def splat(self, reg: Reg, expr: Splat) -> None:
        self.operand(expr.arg)
        require(expr.arg.lanes == 1, f"only a scalar can be splat, not {describe_type(expr.arg)}")
        self.result(reg, expr.arg.dtype, reg.lanes)

    def fold(self, reg: Reg, expr: Fold) -> None:
        self.operand(expr.arg)
        _check_combine(expr.op, expr.arg)
        self.result(reg, expr.arg.dtype, 1)

    def zip(self, reg: Reg, expr: Zip) -> None:
        self.operand(expr.a)
        self.operand(expr.b)
        first, second = describe_type(expr.a), describe_type(expr.b)
        require(first == second, f"zip takes two of one type, not {first} and {second}")
        require(expr.a.lanes % 2 == 0, f"{first} has no halves")
        require(expr.half in HALVES, f"{expr.half!r} is none of {', '.join(HALVES)}")
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

    def streams(self, reg: Reg, expr: Streams) -> None:
        self.buffer(expr.buffer)
        self.size(expr.bytes, "the number of bytes")
        self.result(reg, bool_, 1)

    def worker(self, reg: Reg, expr: Worker) -> None:
        require(
            self.depth == self.shared,
            "only the body of a loop in no order itself, no block in it, asks for the worker",
        )
        late = sorted(s.name for s in symbols_of(expr.most) - self.before)
        require(not late, f"the number of threads names {', '.join(late)}, not bound before")
        self.result(reg, int64, 1)


def _check_scan(loop: Loop) -> None:
    require(loop.step == 1, f"the step of a scan must be 1, not {loop.step}")
    changes = [i for i, s in enumerate(loop.body) if isinstance(s, Accumulate)]
    inside = sum(isinstance(s, Accumulate) and s.reg in totals_of(loop) for s in walk(loop.body))
    regs = {s.reg for s in loop.body if isinstance(s, Accumulate)}
    require(
        0 < len(changes) == len(regs) == inside,
        "a scan accumulates into registers from outside, once into each and in no block in it",
    )
    require(not any(isinstance(s, Check) for s in walk(loop.body)), "a scan checks nothing")
    require(
        all(isinstance(s, (Let, Bind, Accumulate)) for s in loop.body[: changes[-1]]),
        "before the last accumulate of a scan there is nothing but let, bind and others",
    )


def _check_combine(op: str, value: Operand) -> None:
    require(op in COMBINES, f"{op} is no combination; there are {', '.join(COMBINES)}")
    require(value.dtype.kind in PRIMITIVES[op].kinds, f"{op} is not defined for {value.dtype}")


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
    MultiplyTiles: _Verifier.multiply_tiles,
    Call: _Verifier.call,
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
    Streams: _Verifier.streams,
    Workers: lambda verifier, reg, expr: verifier.result(reg, int64, 1),
}
