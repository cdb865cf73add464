"""The LLVM renderer: a kernel as the text of one function.

``define internal i32 @NAME(ptr %b.x, ..., i64 %s.n, ...)`` takes the buffers, then the sizes, and
returns 0 or the code of the failed check. A buffer that grows is given by its cell (see
`arena`). A kernel that `looks` whether the user wants to stop takes ``ptr %call`` behind them,
for ``i1 @look(ptr)``. The text is what should run: vectors are explicit,
registers that are set are phis, index arithmetic is where it is loop-invariant, so that no pass of
LLVM over the IR is needed. The outermost loops of kind ``parallel`` that may be much work are
functions of their own, which threads may share (`parallel`), and so are those inside of them
that have loops in turn; the others are rendered in order, and so are those of kind ``grid``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from staticflow.codegen.endless import find_counted_loop
from staticflow.codegen.kernel import (
    LINE_BYTES,
    Accumulate,
    Active,
    Apply,
    Bind,
    Bitcast,
    Block,
    Buffer,
    Call,
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
from staticflow.codegen.llvm.arena import make_room
from staticflow.codegen.llvm.float_parts import PARTS, float_part
from staticflow.codegen.llvm.index import IndexWriter
from staticflow.codegen.llvm.loops import write_loop
from staticflow.codegen.llvm.memory import (
    goes_past,
    load,
    store,
    store_past,
)
from staticflow.codegen.llvm.parallel import (
    DECLARATIONS,
    WANTED,
)
from staticflow.codegen.llvm.rare import RARELY, find_reads, give_all, take_all
from staticflow.codegen.llvm.sqrt import has_fast_root, square_root
from staticflow.codegen.llvm.text import BasicBlock, FunctionText, local, memory_type
from staticflow.codegen.llvm.values import (
    Value,
    apply,
    bitcast,
    cast,
    constant,
    extend_half,
    fold,
    splat,
    value_phi,
    zip_lanes,
)
from staticflow.codegen.parts import loops_in
from staticflow.codegen.statuses import NO_ROOM
from staticflow.codegen.target import PORTABLE, Target
from staticflow.graph.dims import Sym
from staticflow.graph.dtypes import bool_, float16, int64

__all__ = [
    "LOOK",
    "RUNS_ONCE",
    "called_in",
    "join_kernels",
    "looks",
    "may_stop",
    "render_kernel",
    "render_module",
]

LOOK = "declare i1 @look(ptr) cold\ndeclare void @commit()\n"
"""The declarations of what says whether the user wants to stop, and of what is said before."""

_CALLED = re.compile(r"call i32 @(shared_\w+)\(([^()]*)\)")

# LLVM narrows vectors to 256 bits on some CPUs with AVX-512 unless it is told not to.
_ATTRIBUTES = 'nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512"'

_VECTOR = re.compile(r"<\d+ x ")

RUNS_ONCE = " noinline optnone"
"""Of a function that only says what threads are to share: it takes LLVM 0.4 of the time without
optimisation, and is a few moves more."""

# With a profile LLVM leaves the constants of a rare branch there, and not before the loop around,
# where they would take the registers of what runs each time.
_COUNTED = ' !prof !{!"function_entry_count", i64 1000}'


def render_module(
    kernels: Iterable[Kernel], target: Target = PORTABLE, inside: bool = False
) -> str:
    """The text of several kernels, whose names differ; it may name instructions of ``target``.
    Those that run ``inside`` a loop of another kernel do not look whether the user wants to
    stop."""
    return join_kernels(render_kernel(kernel, target, inside=inside) for kernel in kernels)


def join_kernels(texts: Iterable[str], callers: str = "") -> str:
    """The text of several kernels from that of each, with the declarations that it needs, and that
    the text of ``callers`` needs, which stand elsewhere."""
    text = "\n".join(texts)
    every = text + callers
    called = "".join(f"{declaration}\n" for declaration in _declare_called(every))
    if called or may_stop(every) or WANTED in every:
        return f"{DECLARATIONS}\n{called}{text}"
    return text


def render_kernel(
    kernel: Kernel, target: Target = PORTABLE, counts: bool = False, inside: bool = False
) -> str:
    """The text of one kernel; intrinsics need no declaration, ``parallel`` needs `DECLARATIONS`.
    One that is an endless loop ``counts`` its iterations into ``@counted``; one that runs
    ``inside`` a loop of another, which looks whether the user wants to stop, does not."""
    sizes = _name_sizes(kernel.sizes)
    parameters = [
        f"ptr noalias {'readonly ' if b.access == 'in' else ''}{local(f'b.{b.name}')}"
        for b in kernel.buffers
    ]
    parameters += [f"i64 {name}" for name in sizes.values()]
    parameters += ["ptr %call"] if looks(kernel) else []
    writer = KernelWriter(kernel, target, sizes)
    writer.counted = find_counted_loop(kernel) if counts else None
    writer.inside = inside
    writer.block(kernel.body)
    return "\n".join([*writer.parts, writer.function(kernel.name, parameters)])


def _name_sizes(sizes: Sequence[Sym]) -> dict[Sym, str]:
    """A name for each size: two that only a run can tell may be called the same."""
    names = [f"s.{size}" for size in sizes]
    return {
        size: local(f"{name}.{i}" if names.count(name) > 1 else name)
        for i, (size, name) in enumerate(zip(sizes, names, strict=True))
    }


def may_stop(text: str) -> bool:
    """Whether a kernel of that text may end early in a loop that takes long."""
    return "@parallel(" in text or "@stopping(" in text or _CALLED.search(text) is not None


def called_in(text: str) -> tuple[str, ...]:
    """The names of the kernels that programs share and that a text calls."""
    return tuple(dict.fromkeys(name for name, _ in _CALLED.findall(text)))


def _declare_called(text: str) -> list[str]:
    found = dict(_CALLED.findall(text))
    return [
        f"declare i32 @{name}({', '.join(arg.split(' ')[0] for arg in given.split(', '))})"
        for name, given in found.items()
    ]


def looks(kernel: Kernel) -> bool:
    """Whether a kernel looks on its way if the user wants to stop."""
    return any(loop.kind == "long" for loop in loops_in(kernel.body))


class KernelWriter:
    """Writes statements; ``registers`` holds the value that each register has by now. Loops that
    threads may share become functions in ``parts``, ``inside`` of one only if they hold loops.
    What one of the ``folds`` decides is rare; ``rare`` has the names of such branches that are
    functions in ``parts``, by what these compute."""

    def __init__(
        self,
        kernel: Kernel,
        target: Target,
        symbols: dict[Sym, str],
        outer: KernelWriter | None = None,
        hints: bool = True,
    ) -> None:
        self.text = FunctionText(hints)
        self.indices = IndexWriter(self.text, symbols)
        self.kernel, self.target, self.inside = kernel, target, outer is not None
        self.parts: list[str] = [] if outer is None else outer.parts
        self.rare: dict[str, str] = {} if outer is None else outer.rare
        self.set_in: dict[int, tuple[Block, dict[str, None]]] = (
            {} if outer is None else outer.set_in
        )
        self.buffers = {b.name: b for b in kernel.buffers}
        self.registers: dict[str, Value] = {}
        self.splats: dict[str, tuple[Value, int]] = {}  # at the beginning, by what and how many
        self.worker = "0"  # where the innermost parallel loop around is run in order
        self.folds: set[Operand] = set()
        self.has_rare = False
        self.has_loops = False  # other than those of few iterations, or of loops that are shared
        self.shared = 0  # loops
        self.result = "0"  # where the statements end
        self.counted: Loop | None = None

    def function(self, name: str, parameters: Sequence[str]) -> str:
        """The text of the function, which succeeds where the statements end, or if the last of them
        does."""
        self.text.block.end = f"ret i32 {self.result}"
        body = str(self.text)
        head = f"define internal i32 @{name}({', '.join(parameters)}) {_ATTRIBUTES}"
        if "call i32 @parallel(" in body and not self.has_loops and not _VECTOR.search(body):
            head += RUNS_ONCE
        head += _COUNTED if self.has_rare else ""
        return f"{head} {{\n{body}}}\n"

    def part(self, symbols: dict[Sym, str], hints: bool = True) -> KernelWriter:
        """A writer of a function that this one calls."""
        return KernelWriter(self.kernel, self.target, symbols, self, hints)

    def block(self, block: Block) -> None:
        """Write the statements of a block."""
        for stmt in block:
            _STATEMENTS[type(stmt)](self, stmt)

    def operand(self, operand: Operand) -> Value:
        """The value of a register or constant."""
        if isinstance(operand, Const):
            return constant(operand.value, operand.dtype, operand.lanes)
        return self.register(operand.name)

    def register(self, name: str) -> Value:
        """The value that a register has by now. A number in all lanes that is bound where the
        function begins is made once it is read: a part that threads share makes its own."""
        found = self.registers.get(name)
        if found is None:
            value, lanes = self.splats[name]
            with self.text.at(self.text.entry):
                found = self.registers[name] = splat(self.text, value, lanes)
        return found

    # -- statements --------------------------------------------------------------------------

    def let(self, stmt: Let) -> None:
        if isinstance(stmt.expr, Splat) and self.text.block is self.text.entry:
            self.splats[stmt.reg.name] = self.operand(stmt.expr.arg), stmt.reg.lanes
            return
        self.registers[stmt.reg.name] = _EXPRESSIONS[type(stmt.expr)](self, stmt.expr, stmt.reg)

    def var(self, stmt: Var) -> None:
        self.registers[stmt.reg.name] = self.operand(stmt.init)

    def set(self, stmt: Set) -> None:
        self.registers[stmt.reg.name] = self.operand(stmt.value)

    def accumulate(self, stmt: Accumulate) -> None:
        name = stmt.reg.name
        self.registers[name] = apply(
            self.text, stmt.op, self.registers[name], self.operand(stmt.value)
        )

    def store(self, stmt: Store) -> None:
        value, buffer = self.operand(stmt.value), self.buffers[stmt.buffer]
        if stmt.past is None:
            store(self.indices, buffer, stmt.index, value, stmt.bound)
        else:
            past = self.operand(stmt.past).name
            store_past(self.indices, buffer, stmt.index, value, past)

    def bind(self, stmt: Bind) -> None:
        value = cast(self.text, self.operand(stmt.value), int64).name
        if stmt.held:  # behind an instruction that is none, whose result LLVM knows nothing of
            value = self.text.op(f'call i64 asm "", "=r,0"(i64 {value})')
        self.indices.define(stmt.sym, value)

    def check(self, stmt: Check) -> None:
        self.return_unless(self.operand(stmt.cond).name, str(stmt.code))

    def reserve(self, stmt: Reserve) -> None:
        cell = local(f"b.{stmt.buffer}")
        bytes_ = self.indices.value(stmt.count * self.buffers[stmt.buffer].dtype.itemsize)
        self.return_unless(make_room(self.text, cell, bytes_), str(NO_ROOM))
        self.indices.define_base(stmt.buffer, self.text.op(f"load ptr, ptr {cell}"))

    def local(self, stmt: Local) -> None:
        """An array on the stack, at a line of the caches."""
        base, element = self.text.fresh(stmt.name), memory_type(stmt.dtype)
        self.text.entry.phis.append(
            f"{base} = alloca [{stmt.count} x {element}], align {LINE_BYTES}"
        )
        self.buffers[stmt.name] = Buffer(stmt.name, stmt.dtype, stmt.place)
        self.indices.define_base(stmt.name, base)

    def call(self, stmt: Call) -> None:
        """A kernel that programs share is linked with the text by its name."""
        args = []
        for name, start in zip(stmt.buffers, stmt.starts, strict=True):
            element = memory_type(self.buffers[name].dtype)
            args.append(f"ptr {self.indices.address(self.indices.base(name), element, start)}")
        args += [f"i64 {self.indices.value(size)}" for size in stmt.sizes]
        code = self.text.op(f"call i32 @{stmt.kernel.name}({', '.join(args)})")
        self.return_unless(self.text.op(f"icmp eq i32 {code}, 0"), code)

    def return_unless(self, condition: str, code: str) -> None:
        """Return ``code`` unless ``condition`` holds."""
        text = self.text
        passed, failed = text.new_block("passed"), text.new_block("failed")
        text.branch(condition, passed, failed)
        text.start(failed)
        failed.end = f"ret i32 {code}"
        text.start(passed)

    def branch(self, stmt: If) -> None:
        text = self.text
        before, then, join = text.block, text.new_block("then"), text.new_block("join")
        orelse = text.new_block("else") if stmt.orelse else join
        # a branch of loops takes so long that it may lie apart, and the others fall through
        rare = stmt.cond in self.folds or any(isinstance(s, Loop) for s in stmt.then)
        self.has_rare |= rare or stmt.mostly
        text.branch(self.operand(stmt.cond).name, then, orelse, rare, stmt.mostly)
        entry = self.values_to_set(stmt.then + stmt.orelse)
        ends = []
        for block, body in ((then, stmt.then), (orelse, stmt.orelse)):
            if block is join:
                ends.append((entry, before))
                continue
            text.start(block)
            with self.indices.scope(before, is_loop=False):
                values = self._write_branch(stmt, body, entry)
            text.jump(join)
            ends.append((values, text.block))
        text.start(join)
        self.registers.update(self.merge(join, *ends))

    def _write_branch(self, stmt: If, body: Block, entry: dict[str, Value]) -> dict[str, Value]:
        """Write one side of a branch; gives the values at its end of the registers in ``entry``."""
        reads = find_reads(body) if stmt.cond in self.folds and entry else None
        if reads is None:
            return self.write_nested(body, entry)
        return self._write_apart(body, {name: self.register(name) for name in reads}, entry)

    def _write_apart(
        self, body: Block, reads: dict[str, Value], entry: dict[str, Value]
    ) -> dict[str, Value]:
        """Write a rare block, which ``reads`` these, as a call of a function, one for all blocks
        that compute alike."""
        read = reads | entry
        given = list(dict.fromkeys(v for v in read.values() if v.const is None))
        params = {v: replace(v, name=f"%given.{i}") for i, v in enumerate(given)}
        part = self.part({}, hints=False)
        part.registers = {name: params.get(v, v) for name, v in read.items()}
        part.block(body)
        kind = give_all(part.text, [part.registers[name] for name in entry])
        taken = ", ".join(f"{v.type} {v.name}" for v in params.values())
        text = f"({taken}) {_ATTRIBUTES} {RARELY} {{\n{part.text}}}\n"
        name = self.rare.get(kind + text)
        if name is None:
            name = self.rare[kind + text] = f"{self.kernel.name}.{len(self.parts)}"
            self.parts.append(f"define internal {kind} @{name}{text}")
        made = self.text.op(
            f"call {kind} @{name}({', '.join(f'{v.type} {v.name}' for v in given)})"
        )
        values = take_all(self.text, kind, made, [*entry.values()])
        return dict(zip(entry, values, strict=True))

    def values_to_set(self, body: Block) -> dict[str, Value]:
        """The registers of enclosing blocks that ``body`` sets, with their values before it."""
        registers = self.registers
        return {name: registers[name] for name in self._names_to_set(body) if name in registers}

    def _names_to_set(self, block: Block) -> dict[str, None]:
        """The registers that a block and those nested in it set, in order. Each block is asked, and
        all those around it, so that what is found is kept, with the block, by its address."""
        found = self.set_in.get(id(block))
        if found is None:
            names: dict[str, None] = {}
            for stmt in block:
                if isinstance(stmt, (Set, Accumulate)):
                    names[stmt.reg.name] = None
                elif isinstance(stmt, Loop):
                    names |= self._names_to_set(stmt.body)
                elif isinstance(stmt, If):
                    names |= self._names_to_set(stmt.then) | self._names_to_set(stmt.orelse)
            found = self.set_in[id(block)] = block, names
        return found[1]

    def write_nested(self, body: Block, entry: dict[str, Value]) -> dict[str, Value]:
        """Write a nested block; gives the values at its end of the registers in ``entry``."""
        self.registers.update(entry)
        self.block(body)
        return {name: self.registers[name] for name in entry}

    def merge(
        self, block: BasicBlock, *ends: tuple[dict[str, Value], BasicBlock]
    ) -> dict[str, Value]:
        """The registers behind a join, each a phi of its values at the ``ends``."""
        merged = {}
        for name, value in ends[0][0].items():
            merged[name] = Value(self.text.fresh(name), value.dtype, value.lanes)
            block.phis.append(value_phi(merged[name], [(values[name], at) for values, at in ends]))
        return merged

    # -- expressions -------------------------------------------------------------------------

    def apply(self, expr: Apply, reg: Reg) -> Value:
        args = list(map(self.operand, expr.args))
        if expr.op in PARTS:
            return float_part(self.text, expr.op, args[0], self.target.avx512)
        if expr.op == "sqrt" and self.target.avx512 and has_fast_root(args[0]):
            return square_root(self.text, args[0])
        return apply(self.text, expr.op, *args)

    def load(self, expr: Load, reg: Reg) -> Value:
        buffer = self.buffers[expr.buffer]
        at = None if expr.at is None else self.operand(expr.at).name
        return load(self.indices, buffer, expr.index, reg.lanes, expr.bound, at)

    def cast(self, expr: Cast, reg: Reg) -> Value:
        arg = self.operand(expr.arg)
        is_alone = arg.dtype is float16 and arg.lanes == 1 and arg.const is None
        if is_alone and reg.dtype is not float16 and self.target.avx512:
            arg = extend_half(self.text, arg)
        return cast(self.text, arg, reg.dtype)

    def bitcast(self, expr: Bitcast, reg: Reg) -> Value:
        return bitcast(self.text, self.operand(expr.arg), reg.dtype)

    def splat(self, expr: Splat, reg: Reg) -> Value:
        return splat(self.text, self.operand(expr.arg), reg.lanes)

    def fold(self, expr: Fold, reg: Reg) -> Value:
        self.folds.add(reg)
        return fold(self.text, expr.op, self.operand(expr.arg))

    def zip(self, expr: Zip, reg: Reg) -> Value:
        return zip_lanes(self.text, expr.half, self.operand(expr.a), self.operand(expr.b))

    def index(self, expr: Index, reg: Reg) -> Value:
        return Value(self.indices.vector(expr.index, reg.lanes), int64, reg.lanes)

    def active(self, expr: Active, reg: Reg) -> Value:
        if reg.lanes > 1:
            return Value(self.indices.mask(expr.bound, reg.lanes), bool_, reg.lanes)
        return Value(self.text.op(f"icmp sgt i64 {self.indices.value(expr.bound)}, 0"), bool_)

    def streams(self, expr: Streams, reg: Reg) -> Value:
        read = [b.name for b in self.kernel.buffers if b.access == "in"]
        least = self.target.streamed_bytes
        return Value(goes_past(self.indices, expr, read, least), bool_)

    def number(self, expr: Worker, reg: Reg) -> Value:
        return Value(self.worker, int64)

    def count(self, expr: Workers, reg: Reg) -> Value:
        return Value(self.text.op(f"load i64, ptr {WANTED}"), int64)


_STATEMENTS: dict[type[Stmt], Callable[..., None]] = {
    Let: KernelWriter.let,
    Var: KernelWriter.var,
    Set: KernelWriter.set,
    Accumulate: KernelWriter.accumulate,
    Store: KernelWriter.store,
    Loop: write_loop,
    If: KernelWriter.branch,
    Bind: KernelWriter.bind,
    Check: KernelWriter.check,
    Reserve: KernelWriter.reserve,
    Local: KernelWriter.local,
    Call: KernelWriter.call,
}

_EXPRESSIONS: dict[type[Expr], Callable[..., Value]] = {
    Apply: KernelWriter.apply,
    Load: KernelWriter.load,
    Cast: KernelWriter.cast,
    Bitcast: KernelWriter.bitcast,
    Splat: KernelWriter.splat,
    Fold: KernelWriter.fold,
    Zip: KernelWriter.zip,
    Index: KernelWriter.index,
    Active: KernelWriter.active,
    Worker: KernelWriter.number,
    Workers: KernelWriter.count,
    Streams: KernelWriter.streams,
}
