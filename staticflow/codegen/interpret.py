"""An interpreter of Kernel IR in NumPy: slow, plain, and the tests' word on what a kernel means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from staticflow.codegen.kernel import (
    CORE_SUMS,
    CORE_TILE,
    IN_ORDER,
    LANE_SYM,
    TEAMS,
    Accumulate,
    Active,
    Aligned,
    Apply,
    Bind,
    Bitcast,
    Block,
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
    Stmt,
    Store,
    Streams,
    Var,
    Worker,
    Workers,
    Zip,
)
from staticflow.codegen.parts import totals_of
from staticflow.codegen.primitive_functions import FUNCTIONS, Array, cast_array
from staticflow.codegen.primitives import identity
from staticflow.codegen.team_order import combine_threads, core_place, scan_threads
from staticflow.codegen.text import format_statement
from staticflow.errors import IndexRangeError, VerifyError
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dims import Size, Sym
from staticflow.graph.dtypes import int64

__all__ = ["interpret_kernel"]


def interpret_kernel(
    kernel: Kernel, buffers: MutableMapping[str, Array], sizes: Mapping[Sym, int]
) -> int:
    """Run a verified kernel and return its code: 0, or that of the first check that failed.

    ``buffers`` holds a flat array of the right dtype for every buffer; those that the kernel
    stores to are written in place, those that grow are replaced by longer ones. Every operation
    rounds to its own dtype. The iterations of loops that are in no order run last to first, so that
    a result that depends on their order shows.

    Raises `IndexRangeError` for an access outside its buffer and ZeroDivisionError for an integer
    division by zero, both of which are undefined in native code, and `VerifyError` for buffers or
    sizes that do not fit.
    """
    for buffer in kernel.buffers:
        array = buffers.get(buffer.name)
        if array is None or array.ndim != 1 or array.dtype != buffer.dtype.numpy:
            raise VerifyError(
                f"kernel {kernel.name}: buffer {buffer.name} needs a flat {buffer.dtype} array"
            )
    for size in kernel.sizes:
        if sizes.get(size, -1) < 0:
            raise VerifyError(f"kernel {kernel.name}: size {size} needs a non-negative number")
    with np.errstate(all="ignore"):
        run = _Run(kernel.name, dict(buffers), {s: int(sizes[s]) for s in kernel.sizes})
        code = run.block(kernel.body)
    buffers.update((b.name, run.buffers[b.name]) for b in kernel.buffers)
    return code


_WORKERS = 3  # as if there were so many


class _Run:
    """One run of a kernel: its buffers, and what its symbols and registers hold."""

    def __init__(
        self, name: str, buffers: MutableMapping[str, Array], symbols: dict[Sym, int]
    ) -> None:
        self.name = name
        self.buffers = buffers
        self.symbols = symbols
        self.regs: dict[str, Array] = {}
        self.worker = 0
        self.team = self.thread = 0  # threads of a team, and the one that runs
        self.private: dict[str, int] = {}  # elements of an array that a thread has

    def block(self, block: Block) -> int:
        """Run the statements until one gives a code that is not 0."""
        for stmt in block:
            code = _STATEMENTS[type(stmt)](self, stmt)
            if code:
                return code
        return 0

    # -- values ----------------------------------------------------------------------------------

    def size(self, size: Size) -> int:
        return evaluate_dim(size, self.symbols)

    def lane_sizes(self, size: Size, lanes: Sequence[int]) -> list[int]:
        return [evaluate_dim(size, self.symbols | {LANE_SYM: lane}) for lane in lanes]

    def operand(self, arg: Operand) -> Array:
        if isinstance(arg, Reg):
            return self.regs[arg.name]
        return np.full(arg.lanes, arg.value, arg.dtype.numpy)

    def bind(self, reg: Reg, value: Array) -> int:
        if value.dtype != reg.dtype.numpy or value.shape != (reg.lanes,):
            raise VerifyError(
                f"kernel {self.name}: {value.dtype} of {value.shape} in the register {reg}"
            )
        self.regs[reg.name] = value
        return 0

    def elements(self, part: Load | Store, lanes: int, stmt: Stmt) -> list[int]:
        """The elements that the lanes that are on touch, in order."""
        on = lanes if part.bound is None else min(max(self.size(part.bound), 0), lanes)
        elements = self.lane_sizes(part.index, range(on))
        if isinstance(part, Load) and part.at is not None:
            ats = self.operand(part.at)
            elements = [element + int(at) for element, at in zip(elements, ats, strict=False)]
        length = self.private.get(part.buffer, len(self.buffers[part.buffer]))
        for element in elements:
            if not 0 <= element < length:
                values = ", ".join(f"{s}={v}" for s, v in self.symbols.items())
                raise IndexRangeError(
                    f"kernel {self.name}: {format_statement(stmt)}\n  element {element} of "
                    f"{part.buffer}, which has {length}, where {values}"
                )
        if part.buffer in self.private:
            return [self.thread * length + element for element in elements]
        return elements

    # -- statements ------------------------------------------------------------------------------

    def let(self, stmt: Let) -> int:
        if isinstance(stmt.expr, Load):
            return self.bind(stmt.reg, self.load(stmt, stmt.expr))
        return self.bind(stmt.reg, _EXPRESSIONS[type(stmt.expr)](self, stmt.reg, stmt.expr))

    def load(self, stmt: Let, expr: Load) -> Array:
        value = np.zeros(stmt.reg.lanes, stmt.reg.dtype.numpy)
        for lane, element in enumerate(self.elements(expr, stmt.reg.lanes, stmt)):
            value[lane] = self.buffers[expr.buffer][element]
        return value

    def accumulate(self, stmt: Accumulate) -> int:
        combined = FUNCTIONS[stmt.op](self.regs[stmt.reg.name], self.operand(stmt.value))
        return self.bind(stmt.reg, combined)

    def store(self, stmt: Store) -> int:
        value = self.operand(stmt.value)
        for lane, element in enumerate(self.elements(stmt, stmt.value.lanes, stmt)):
            self.buffers[stmt.buffer][element] = value[lane]
        return 0

    def loop(self, stmt: Loop) -> int:
        iterations = range(self.size(stmt.lo), self.size(stmt.hi), stmt.step)
        if stmt.kind == "threads":
            return self.threads(stmt, iterations)
        if stmt.kind == "scan":
            return self.scan(stmt, iterations)
        self.team = TEAMS.get(stmt.kind, self.team)
        around = self.worker
        for iteration in iterations if stmt.kind in IN_ORDER else reversed(iterations):
            if stmt.going is not None and not self.operand(stmt.going)[0]:
                break
            self.symbols[stmt.var], self.worker = (
                iteration,
                (iteration - iterations.start) // stmt.step,
            )
            code = self.block(stmt.body)
            if code:
                return code
        self.worker = around
        return 0

    def threads(self, stmt: Loop, iterations: range) -> int:
        """A loop that the threads of a team share, the last thread first."""
        totals = totals_of(stmt)
        before = {reg: self.regs[reg.name] for reg in totals}
        partial: dict[Reg, list[Array]] = {reg: [] for reg in totals}
        for thread in reversed(range(self.team)):
            self.thread = thread
            for reg, op in totals.items():
                self.regs[reg.name] = np.full(1, identity(op, reg.dtype), reg.dtype.numpy)
            for iteration in iterations[thread :: self.team]:
                self.symbols[stmt.var] = iteration
                code = self.block(stmt.body)
                if code:
                    return code
            for reg, values in partial.items():
                values.insert(0, self.regs[reg.name])
        for reg, op in totals.items():
            combine = FUNCTIONS[op]
            together = combine_threads(partial[reg], combine)
            self.regs[reg.name] = combine(before[reg], together)
        return 0

    def scan(self, stmt: Loop, iterations: range) -> int:
        """A loop in rounds of a team's threads: all of them up to the last `Accumulate`, then all
        from there on, the last thread first."""
        totals = totals_of(stmt)
        last = max(i for i, s in enumerate(stmt.body) if isinstance(s, Accumulate))
        for start in range(0, len(iterations), self.team):
            before = {reg: self.regs[reg.name] for reg in totals}
            given: dict[Reg, list[Array]] = {reg: [] for reg in totals}
            states = []
            for iteration in iterations[start : start + self.team]:
                for reg, op in totals.items():
                    neutral = np.full(1, identity(op, reg.dtype), reg.dtype.numpy)
                    self.regs[reg.name] = neutral
                self.symbols[stmt.var] = iteration
                self.scan_block(stmt.body[: last + 1], given)
                states.append((dict(self.regs), dict(self.symbols)))
            for reg, op in totals.items():
                neutral = np.full(1, identity(op, reg.dtype), reg.dtype.numpy)
                given[reg] += [neutral] * (self.team - len(given[reg]))
                found = scan_threads(given[reg], FUNCTIONS[op])
                for thread, (regs, _) in enumerate(states):
                    regs[reg.name] = FUNCTIONS[op](before[reg], found[thread])
                before[reg] = FUNCTIONS[op](before[reg], found[-1])
            for regs, symbols in reversed(states):
                self.regs, self.symbols = regs, symbols
                code = self.block(stmt.body[last + 1 :])
                if code:
                    return code
            self.regs |= {reg.name: value for reg, value in before.items()}
        return 0

    def scan_block(self, block: Block, given: Mapping[Reg, list[Array]]) -> None:
        for stmt in block:
            if isinstance(stmt, Accumulate):
                given[stmt.reg].append(self.operand(stmt.value))
            else:
                self.block((stmt,))

    def branch(self, stmt: If) -> int:
        return self.block(stmt.then if self.operand(stmt.cond)[0] else stmt.orelse)

    def bind_symbol(self, stmt: Bind) -> int:
        self.symbols[stmt.sym] = int(self.operand(stmt.value)[0])
        return 0

    def check(self, stmt: Check) -> int:
        return 0 if self.operand(stmt.cond)[0] else stmt.code

    def reserve(self, stmt: Reserve) -> int:
        held = self.buffers[stmt.buffer]
        missing = max(self.size(stmt.count) - len(held), 0)
        self.buffers[stmt.buffer] = np.concatenate([held, np.zeros(missing, held.dtype)])
        return 0

    def local(self, stmt: Local) -> int:
        """An array that is unset: every byte of it is 0xff."""
        count = stmt.count
        if stmt.place == "private":
            self.private[stmt.name] = count
            count *= self.team
        self.buffers[stmt.name] = np.full(count * stmt.dtype.itemsize, 0xFF, np.uint8).view(
            stmt.dtype.numpy
        )
        return 0

    def multiply_tiles(self, stmt: MultiplyTiles) -> int:
        places = CORE_TILE * stmt.pitch
        left, right = (
            self.buffers[name][:places].reshape(CORE_TILE, stmt.pitch).astype(np.float32)
            for name in (stmt.left, stmt.right)
        )
        rows, columns = np.array(
            [
                [core_place(thread, own) for own in range(CORE_SUMS)]
                for thread in range(TEAMS["blocks"])
            ]
        ).T
        sums = self.buffers[stmt.sums].reshape(-1, self.private[stmt.sums])[:, :CORE_SUMS]
        for k in range(stmt.depth):
            a, b = left[rows.T, k].ravel(), right[columns.T, k].ravel()
            sums[...] = FUNCTIONS["fma"](a, b, sums.ravel()).reshape(sums.shape)
        return 0

    def call(self, stmt: Call) -> int:
        views: dict[str, Array] = {}
        for name, start, taken in zip(stmt.buffers, stmt.starts, stmt.kernel.buffers, strict=True):
            array, first = self.buffers[name], self.size(start)
            if not 0 <= first <= len(array):
                raise IndexRangeError(
                    f"kernel {self.name}: {format_statement(stmt)}\n  element {first} of {name}, "
                    f"which has {len(array)}"
                )
            views[taken.name] = array[first:]
        sizes = {
            sym: self.size(size) for sym, size in zip(stmt.kernel.sizes, stmt.sizes, strict=True)
        }
        return _Run(stmt.kernel.name, views, sizes).block(stmt.kernel.make().body)

    # -- expressions -----------------------------------------------------------------------------

    def apply(self, reg: Reg, expr: Apply) -> Array:
        return FUNCTIONS[expr.op](*map(self.operand, expr.args))

    def cast(self, reg: Reg, expr: Cast) -> Array:
        return cast_array(self.operand(expr.arg), reg.dtype)

    def bitcast(self, reg: Reg, expr: Bitcast) -> Array:
        return self.operand(expr.arg).view(reg.dtype.numpy)

    def splat(self, reg: Reg, expr: Splat) -> Array:
        return np.repeat(self.operand(expr.arg), reg.lanes)

    def fold(self, reg: Reg, expr: Fold) -> Array:
        value = self.operand(expr.arg)
        total = value[:1]
        for lane in range(1, len(value)):
            total = FUNCTIONS[expr.op](total, value[lane : lane + 1])
        return total

    def zip(self, reg: Reg, expr: Zip) -> Array:
        half = reg.lanes // 2
        chosen = slice(half) if expr.half == "low" else slice(half, None)
        return np.stack([self.operand(a)[chosen] for a in (expr.a, expr.b)], axis=1).ravel()

    def index(self, reg: Reg, expr: Index) -> Array:
        return np.array(self.lane_sizes(expr.index, range(reg.lanes)), int64.numpy)

    def active(self, reg: Reg, expr: Active) -> Array:
        return np.arange(reg.lanes) < self.size(expr.bound)

    def number(self, reg: Reg, expr: Worker) -> Array:
        return np.array([self.worker % self.size(expr.most)], int64.numpy)

    def count(self, reg: Reg, expr: Workers) -> Array:
        return np.array([_WORKERS], int64.numpy)


_STATEMENTS: dict[type, Callable[[_Run, Any], int]] = {
    Let: _Run.let,
    Var: lambda run, s: run.bind(s.reg, run.operand(s.init)),
    Set: lambda run, s: run.bind(s.reg, run.operand(s.value)),
    Accumulate: _Run.accumulate,
    Store: _Run.store,
    Loop: _Run.loop,
    If: _Run.branch,
    Bind: _Run.bind_symbol,
    Check: _Run.check,
    Reserve: _Run.reserve,
    Local: _Run.local,
    MultiplyTiles: _Run.multiply_tiles,
    Call: _Run.call,
}
_EXPRESSIONS: dict[type, Callable[[_Run, Reg, Any], Array]] = {
    Apply: _Run.apply,
    Cast: _Run.cast,
    Bitcast: _Run.bitcast,
    Splat: _Run.splat,
    Fold: _Run.fold,
    Zip: _Run.zip,
    Index: _Run.index,
    Active: _Run.active,
    Worker: _Run.number,
    Workers: _Run.count,
    Aligned: lambda run, reg, expr: np.array([True]),
    Streams: lambda run, reg, expr: np.array([True]),
}
