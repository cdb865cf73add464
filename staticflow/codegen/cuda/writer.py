"""Statements and expressions of a launch in CUDA C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from staticflow.codegen.cuda.cores import write_product
from staticflow.codegen.cuda.names import Names, in_brackets
from staticflow.codegen.cuda.teams import Team, combine_partial, scan_partial
from staticflow.codegen.cuda.values import (
    apply,
    bitcast,
    c_type,
    cast,
    literal,
    memory_type,
)
from staticflow.codegen.kernel import (
    LAUNCHED,
    SHARED,
    VECTOR_BYTES,
    Accumulate,
    Aligned,
    Apply,
    Bind,
    Bitcast,
    Block,
    Buffer,
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
    MultiplyTiles,
    Operand,
    Reg,
    Set,
    Stmt,
    Store,
    Var,
    Worker,
    Workers,
)
from staticflow.codegen.parts import totals_of, walk
from staticflow.codegen.primitives import identity
from staticflow.codegen.schedule.loops import thread_bound
from staticflow.graph.dtypes import DType

__all__ = ["LATER", "write_launch"]

LATER = 1 << 16
"""What a launch adds to the codes of the one before; codes are smaller."""


def write_launch(
    kernel: Kernel, entry: str, number: int, block: Block, guarded: bool = False
) -> str:
    """The function ``entry`` that does what a block says, launch ``number`` of a kernel; its first
    thread alone if none of the kernel's loops is launched. A ``guarded`` one does nothing where the
    word of the status is not 0 before."""
    writer = _Writer(kernel, number)
    if not any(isinstance(s, Loop) and s.kind in LAUNCHED for s in block):
        writer.line("if (sf_thread() != 0) return;")
    if number or guarded:
        writer.line(f"if (sf_stopped(status, {max(number, 1) * LATER})) return;")
    writer.block(block)
    parameters = [f"{pointer_type(b)} {writer.buffer(b.name)}" for b in kernel.buffers]
    parameters += [f"long long {writer.symbol(size)}" for size in kernel.sizes]
    head = ",\n    ".join([*parameters, "int* status"])
    body = "\n".join([*writer.arrays.values(), *writer.lines])
    return f'extern "C" __global__ void {entry}(\n    {head}) {{\n{body}\n}}'


_ASSUMED = "({})__builtin_assume_aligned({}, " + f"{VECTOR_BYTES})"


def pointer_type(buffer: Buffer) -> str:
    """The type of the parameter that a buffer is."""
    const = "const " if buffer.access == "in" else ""
    return f"{const}{memory_type(buffer.dtype)}* __restrict__"


class _Writer(Names):
    """Writes the statements of one launch; ``leave`` is what ends a thread's work at a failed
    check."""

    def __init__(self, kernel: Kernel, number: int) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.arrays: dict[str, str] = {}  # shared memory, by the name of the array
        self._tiles: dict[str, DType] = {}  # of what local arrays are
        self.leave = "return;"
        self.worker = "0"  # where the innermost parallel loop around is run in order
        self._fail = f"sf_fail(status, {{}} + {number * LATER});" if number else ""
        self._writable = {b.name for b in kernel.buffers if b.access != "in"}
        for stmt in walk(kernel.body):
            if isinstance(stmt, Local) and stmt.place == "shared":
                self._writable.add(stmt.name)
        self._team: Team | None = None  # of the body that is being written
        self._alone = True  # whether each thread of it runs its own statements
        self._loaded: set[str] = set()  # what all threads of the team load
        self._depth = 1
        self._labels = 0
        self._pointers = {b.name: pointer_type(b) for b in kernel.buffers}
        self._aligned: dict[Operand, list[tuple[str, str]]] = {}

    # -- text --------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """One line, indented."""
        self.lines.append("  " * self._depth + text)

    @contextmanager
    def braces(self, head: str) -> Iterator[None]:
        """A block in braces behind ``head``."""
        self.line(f"{head} {{".lstrip())
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    # -- statements --------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """The statements of a block."""
        for stmt in block:
            _STATEMENTS[type(stmt)](self, stmt)

    def let(self, stmt: Let) -> None:
        value = _EXPRESSIONS[type(stmt.expr)](self, stmt.expr, stmt.reg)
        self.line(f"const {c_type(stmt.reg.dtype)} {self.register(stmt.reg)} = {value};")

    def var(self, stmt: Var) -> None:
        name = self.register(stmt.reg)
        self.line(f"{c_type(stmt.reg.dtype)} {name} = {self.operand(stmt.init)};")

    def set(self, stmt: Set) -> None:
        self.line(f"{self.register(stmt.reg)} = {self.operand(stmt.value)};")

    def accumulate(self, stmt: Accumulate) -> None:
        name = self.register(stmt.reg)
        value = apply(stmt.op, [name, self.operand(stmt.value)], stmt.reg.dtype)
        self.line(f"{name} = {value};")

    def store(self, stmt: Store) -> None:
        element = f"{self.buffer(stmt.buffer)}[{self.index(stmt.index)}]"
        text = f"{element} = {self.operand(stmt.value)};"
        if stmt.bound is not None:  # of the one lane, which is number 0
            text = f"if (0 < {self.index(stmt.bound)}) {text}"
        if self._team is None or self._alone:
            self.line(text)
            return
        if stmt.buffer in self._loaded:
            self.line(self._team.wait)
        self.line(f"if ({self._team.rank} == 0) {text}")
        self.line(self._team.wait)

    def loop(self, stmt: Loop) -> None:
        if stmt.kind in LAUNCHED:
            self._spread_launch(stmt)
        elif stmt.kind == "threads":
            self._threads(stmt)
        elif stmt.kind == "scan":
            self._scan(stmt)
        else:
            around, self.worker = self.worker, "0"
            with self._for(stmt, self.index(stmt.lo), str(stmt.step)):
                self.block(stmt.body)
            self.worker = around

    @contextmanager
    def _for(self, stmt: Loop, first: str, step: str) -> Iterator[None]:
        i = self.symbol(stmt.var)
        going = "" if stmt.going is None else f" && {self.operand(stmt.going)}"
        with self.braces(
            f"for (long long {i} = {first}; {i} < {self.index(stmt.hi)}{going}; {i} += {step})"
        ):
            yield

    @contextmanager
    def _iteration(self, body: Block) -> Iterator[None]:
        """The body of a loop whose iteration a check that fails ends, and then does ``leave``."""
        if not any(isinstance(s, Check) for s in walk(body)):
            yield
            return
        self._labels += 1
        label, around = f"next_iteration_{self._labels}", self.leave
        self.leave = f"goto {label};"
        # In braces of its own, because a jump may leave a scope but not pass a declaration.
        with self.braces(""):
            yield
        self.leave = around
        self.line(f"{label}:;")

    def _spread_launch(self, stmt: Loop) -> None:
        """The loop of a launch, whose iterations its threads or teams share."""
        team = self._team = Team.of(stmt.kind)
        number, count = (
            ("sf_thread()", "sf_threads()") if team is None else (team.number, team.count)
        )
        self.worker, most = number, thread_bound(stmt)
        self._alone = team is None
        self._loaded = self._writable & _loads_of_all(stmt.body)
        times = "" if stmt.step == 1 else f"{stmt.step} * "
        plus = "" if stmt.lo == 0 else f"{self.index(stmt.lo)} + "
        with ExitStack() as stack:
            if most is not None:
                stack.enter_context(self.braces(f"if ({number} < {self.index(most)})"))
                count = f"sf_min_index({count}, {self.index(most)})"
            stack.enter_context(self._for(stmt, f"{plus}{times}{number}", f"{times}{count}"))
            stack.enter_context(self._iteration(stmt.body))
            self.block(stmt.body)
        self.worker, self._team = "0", None

    def _threads(self, stmt: Loop) -> None:
        """A loop that the threads of a team share; behind it each of them has the totals, and sees
        what the others have stored."""
        team, totals = self._team, totals_of(stmt)
        assert team is not None
        stored = {s.buffer for s in walk(stmt.body) if isinstance(s, Store)}
        if stored & self._loaded:
            self.line(team.wait)
        partial = {reg: self.name_of(("partial", reg.name), f"{reg.name}_part") for reg in totals}
        for reg, op in totals.items():
            start = literal(Const(identity(op, reg.dtype), reg.dtype))
            self.line(f"{c_type(reg.dtype)} {partial[reg]} = {start};")
        checks = any(isinstance(s, Check) for s in walk(stmt.body))
        failed, fail = self.name_of(("failed", stmt.var), "failed"), self._fail
        if checks:
            self.line(f"bool {failed} = false;")
            self._fail = f"{failed} = true; {fail or 'sf_fail(status, {});'}"
        self.partial = {reg.name: name for reg, name in partial.items()}
        self._alone = True
        times = "" if stmt.step == 1 else f"{stmt.step} * "
        plus = "" if stmt.lo == 0 else f"{self.index(stmt.lo)} + "
        first, step = f"{plus}{times}{team.rank}", str(stmt.step * team.threads)
        with self._for(stmt, first, step), self._iteration(stmt.body):
            self.block(stmt.body)
        self.partial, self._alone, self._fail = {}, False, fail
        for reg, op in totals.items():
            lines, arrays = combine_partial(team, op, reg.dtype, partial[reg])
            self.arrays |= arrays
            for line in lines:
                self.line(line)
            name = self.register(reg)
            self.line(f"{name} = {apply(op, [name, partial[reg]], reg.dtype)};")
        if checks:
            with self.braces(f"if ({team.any.format(failed)})"):
                self.line(self.leave)
        elif self._writable & _buffers_touched(stmt.body):
            self.line(team.wait)

    def _scan(self, stmt: Loop) -> None:
        """A loop that the threads of a team share in rounds. Past the end of the loop a thread
        works out what the last iteration gives, and gives nothing."""
        team = self._team
        assert team is not None
        stored = {s.buffer for s in walk(stmt.body) if isinstance(s, Store)}
        if stored & self._loaded:
            self.line(team.wait)
        last = max(i for i, s in enumerate(stmt.body) if isinstance(s, Accumulate))
        i, hi = self.symbol(stmt.var), self.index(stmt.hi)
        start, at = self.name_of(("start", stmt.var), "start"), self.name_of(("at", stmt.var), "at")
        self._alone = True
        with self.braces(
            f"for (long long {start} = {self.index(stmt.lo)}; {start} < {hi}; "
            f"{start} += {team.threads})"
        ):
            self.line(f"const long long {at} = {start} + {team.rank};")
            self.line(f"const long long {i} = sf_min_index({at}, {in_brackets(hi)} - 1);")
            for inner in stmt.body[: last + 1]:
                if not isinstance(inner, Accumulate):
                    self.block((inner,))
                    continue
                reg, op = inner.reg, inner.op
                own = self.name_of(("partial", reg.name), f"{reg.name}_part")
                neutral = literal(Const(identity(op, reg.dtype), reg.dtype))
                self.line(
                    f"{c_type(reg.dtype)} {own} = {at} < {hi} ? {self.operand(inner.value)} "
                    f": {neutral};"
                )
                lines, arrays = scan_partial(team, op, reg.dtype, own, self.register(reg))
                self.arrays |= arrays
                for line in lines:
                    self.line(line)
                self.partial[reg.name] = own
            with self.braces(f"if ({at} < {hi})"):
                self.block(stmt.body[last + 1 :])
            self.partial = {}
        self._alone = False
        if self._writable & _buffers_touched(stmt.body):
            self.line(team.wait)

    def branch(self, stmt: If) -> None:
        with self.braces(f"if ({self.operand(stmt.cond)})"):
            for name, pointer in self._aligned.get(stmt.cond, ()):
                self.line(f"{pointer} {name}_a = {_ASSUMED.format(pointer, name)};")
                self.renamed[name] = f"{name}_a"
            self.block(stmt.then)
            self.renamed = {}
        if stmt.orelse:
            with self.braces("else"):
                self.block(stmt.orelse)

    def bind(self, stmt: Bind) -> None:
        self.line(f"const long long {self.symbol(stmt.sym)} = {self.operand(stmt.value)};")

    def check(self, stmt: Check) -> None:
        with self.braces(f"if (!{self.operand(stmt.cond)})"):
            self.line((self._fail or "sf_fail(status, {});").format(stmt.code))
            self.line(self.leave)

    def multiply_tiles(self, stmt: MultiplyTiles) -> None:
        names = map(self.buffer, (stmt.left, stmt.right, stmt.sums))
        with self.braces(""):
            for line in write_product(stmt, self._tiles[stmt.left], *names):
                self.line(line)

    def local(self, stmt: Local) -> None:
        self._tiles[stmt.name] = stmt.dtype
        kind, name = memory_type(stmt.dtype), self.buffer(stmt.name)
        if stmt.place == "shared":
            self.arrays[name] = f"  SF_SHARED({kind}, {name}, {stmt.count});"
        else:
            self.line(f"{kind} {name}[{stmt.count}];")

    # -- expressions -------------------------------------------------------------------------

    def apply(self, expr: Apply, reg: Reg) -> str:
        if expr.op == "and":  # what is known where an operand is true is known where all are
            known = [names for a in expr.args for names in self._aligned.get(a, ())]
            self._aligned[reg] = known
        return apply(expr.op, map(self.operand, expr.args), expr.args[0].dtype)

    def load(self, expr: Load, reg: Reg) -> str:
        element = f"{self.buffer(expr.buffer)}[{self.index(expr.index)}]"
        if expr.bound is None:
            return element
        zero = literal(Const(reg.dtype.numpy.type(0).item(), reg.dtype))
        return f"0 < {self.index(expr.bound)} ? {element} : {zero}"

    def cast(self, expr: Cast, reg: Reg) -> str:
        return cast(self.operand(expr.arg), expr.arg.dtype, reg.dtype)

    def bitcast(self, expr: Bitcast, reg: Reg) -> str:
        return bitcast(self.operand(expr.arg), expr.arg.dtype, reg.dtype)

    def index_value(self, expr: Index, reg: Reg) -> str:
        return self.index(expr.index)

    def fold(self, expr: Fold, reg: Reg) -> str:
        return self.operand(expr.arg)  # the one lane

    def is_aligned(self, expr: Aligned, reg: Reg) -> str:
        names = [(self.buffer(b), self._pointers[b]) for b in expr.buffers]
        self._aligned[reg] = names
        together = " | ".join(f"(unsigned long long){name}" for name, _ in names)
        return f"({together}) % {VECTOR_BYTES} == 0"

    def number(self, expr: Worker, reg: Reg) -> str:
        return self.worker


def _loads_of_all(block: Block) -> set[str]:
    """The buffers that statements of a team load, those outside of its threads loops."""
    found: set[str] = set()
    for stmt in block:
        if isinstance(stmt, Let) and isinstance(stmt.expr, Load):
            found.add(stmt.expr.buffer)
        elif isinstance(stmt, MultiplyTiles):
            found |= {stmt.left, stmt.right}
        elif isinstance(stmt, Loop) and stmt.kind not in SHARED:
            found |= _loads_of_all(stmt.body)
        elif isinstance(stmt, If):
            found |= _loads_of_all(stmt.then) | _loads_of_all(stmt.orelse)
    return found


def _buffers_touched(block: Block) -> set[str]:
    """The buffers that a block loads from or stores to."""
    parts = (s.expr if isinstance(s, Let) else s for s in walk(block))
    return {p.buffer for p in parts if isinstance(p, (Load, Store))}


_STATEMENTS: dict[type[Stmt], Callable[..., None]] = {
    Let: _Writer.let,
    Var: _Writer.var,
    Set: _Writer.set,
    Accumulate: _Writer.accumulate,
    Store: _Writer.store,
    Loop: _Writer.loop,
    If: _Writer.branch,
    Bind: _Writer.bind,
    Check: _Writer.check,
    Local: _Writer.local,
    MultiplyTiles: _Writer.multiply_tiles,
}

_EXPRESSIONS: dict[type[Expr], Callable[..., str]] = {
    Apply: _Writer.apply,
    Load: _Writer.load,
    Cast: _Writer.cast,
    Bitcast: _Writer.bitcast,
    Index: _Writer.index_value,
    Fold: _Writer.fold,
    Worker: _Writer.number,
    Aligned: _Writer.is_aligned,
    Workers: lambda writer, expr, reg: "sf_threads()",
}
