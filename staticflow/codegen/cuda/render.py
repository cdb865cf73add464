"""The CUDA renderer: kernels as CUDA C, compiled by NVRTC for a GPU and as C++ for the tests.

The function is ``extern "C" __global__ void NAME_kernel(buffers, long long sizes, int* status)``; a
kernel may have the name of a C function, so the entry has another. The iterations of the loop of
kind ``grid`` are spread over the threads of a one-dimensional launch of any size; what stands
beside that loop is done by every thread, and so may not store. A kernel without such a loop is run
by one thread. Loops of the other kinds stay loops, in order.

``status`` points to a word that the caller has set to 0. A `Check` that fails ends its iteration of
the grid loop (outside of one, the thread), and the word becomes the smallest code of all that
failed: the same for every launch size and every order of the threads. (Where iterations fail with
different codes, the interpreter returns that of the one it comes to first.)

The text gives the same bits as the interpreter if products and sums are not contracted, quotients
and roots are rounded correctly and subnormals are kept, which `NVRTC_OPTIONS` asks for. What the
Kernel IR leaves open: the bits of a NaN that an operation makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext

from staticflow.codegen.cuda.values import (
    HELPERS,
    apply,
    bitcast,
    c_type,
    cast,
    helpers_in,
    literal,
    memory_type,
)
from staticflow.codegen.kernel import (
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
    Loop,
    Operand,
    Reg,
    Reserve,
    Set,
    Splat,
    Stmt,
    Store,
    Var,
    Worker,
    Workers,
    Zip,
    operands_of,
    walk,
)
from staticflow.codegen.schedule.loops import iteration_count, thread_bound
from staticflow.codegen.text import format_statement
from staticflow.errors import CompileError
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Call, Size, Sym, ceil_div, is_provably_ge

__all__ = [
    "NVRTC_OPTIONS",
    "entry_name",
    "launch_geometry",
    "render_cuda",
    "render_cuda_module",
]

NVRTC_OPTIONS = ("--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false")
"""The options of NVRTC under which it keeps the arithmetic as it is written; see the module."""

_BLOCK_THREADS = 256
_MAX_BLOCKS = 2**31 - 1  # the limit of the first dimension of a launch
_FILLING_BLOCKS = 1024  # several for each multiprocessor of the largest GPUs


def render_cuda(kernel: Kernel) -> str:
    """The CUDA C text of one scalar kernel, which `verify_kernel` accepts.

    Parameters are the buffers (``const`` those of access ``in``), then the sizes as ``long long``,
    then ``int* status``. Raises `CompileError` for a kernel with vectors, for one that reserves
    memory, and for one that stores, or loads what it stores, beside its grid loop.
    """
    return render_cuda_module([kernel])


def render_cuda_module(kernels: Iterable[Kernel]) -> str:
    """The CUDA C text of several kernels, whose names differ, behind one prelude."""
    functions = [_function(kernel) for kernel in kernels]
    return "\n\n".join([*helpers_in("\n".join(functions)), *functions]) + "\n"


def entry_name(kernel: Kernel) -> str:
    """The name of the function that ``kernel`` is rendered as."""
    return f"{kernel.name}_kernel"


def launch_geometry(
    kernel: Kernel, sizes: Mapping[Sym, int]
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The grid and the block to launch ``kernel`` with, each as (x, y, z).

    One thread for each iteration of its grid loop, or one in all if it has none. There is always a
    block, for the checks beside the loop. A iteration count that the kernel itself loads gets a
    launch that fills a large GPU, whose threads share the iterations.
    """
    loop = _grid_loop(kernel)
    if loop is None:
        return (1, 1, 1), (1, 1, 1)
    iterations = iteration_count(loop)
    if symbols_of(iterations) <= set(sizes):
        blocks = evaluate_dim(ceil_div(iterations, _BLOCK_THREADS), sizes)
    else:
        blocks = _FILLING_BLOCKS
    return (min(max(blocks, 1), _MAX_BLOCKS), 1, 1), (_BLOCK_THREADS, 1, 1)


# -- what can be rendered ------------------------------------------------------------------------


def _grid_loop(kernel: Kernel) -> Loop | None:
    loops = (s for s in kernel.body if isinstance(s, Loop) and s.kind == "grid")
    return next(loops, None)


def _check_beside(kernel: Kernel, loop: Loop) -> None:
    """Every thread runs what stands beside the grid loop, at its own time."""
    writable = {b.name for b in kernel.buffers if b.access != "in"}
    for stmt in walk(tuple(s for s in kernel.body if s is not loop)):
        access = stmt.expr if isinstance(stmt, Let) else stmt
        if isinstance(access, (Load, Store)) and access.buffer in writable:
            raise CompileError(
                f"kernel {kernel.name}: `{format_statement(stmt)}` stands beside the grid loop "
                f"over {loop.var}, where every thread does it; move it into a kernel of its own"
            )


def _check_memory(kernel: Kernel) -> None:
    for stmt in walk(kernel.body):
        if isinstance(stmt, Reserve):
            raise CompileError(
                f"kernel {kernel.name}: `{format_statement(stmt)}`: a kernel on a GPU gets no "
                "memory as it runs; such a loop runs on the CPU"
            )


def _check_scalar(kernel: Kernel) -> None:
    for stmt in walk(kernel.body):
        parts = [stmt, stmt.expr] if isinstance(stmt, Let) else [stmt]
        if any(_has_lanes(part) for part in parts):
            raise CompileError(
                f"kernel {kernel.name}: `{format_statement(stmt)}` has a vector; a GPU kernel is "
                "scheduled with bind_grid, from the kernel as it was before vectorize"
            )


def _has_lanes(part: Stmt | Expr) -> bool:
    if isinstance(part, (Splat, Zip, Active)) or getattr(part, "bound", None) is not None:
        return True
    operands = [*operands_of(part), getattr(part, "reg", None)]
    return any(operand is not None and operand.lanes > 1 for operand in operands)


# -- functions -----------------------------------------------------------------------------------


def _function(kernel: Kernel) -> str:
    _check_scalar(kernel)
    _check_memory(kernel)
    writer = _Writer()
    grid = _grid_loop(kernel)
    if grid is None:
        writer.line("if (sf_thread() != 0) return;")
    else:
        _check_beside(kernel, grid)
    writer.block(kernel.body)
    parameters = [
        f"{'const ' if b.access == 'in' else ''}{memory_type(b.dtype)}* __restrict__ "
        f"{writer.buffer(b.name)}"
        for b in kernel.buffers
    ]
    parameters += [f"long long {writer.symbol(size)}" for size in kernel.sizes]
    head = ",\n    ".join([*parameters, "int* status"])
    body = "\n".join(writer.lines)
    return f'extern "C" __global__ void {entry_name(kernel)}(\n    {head}) {{\n{body}\n}}'


class _Writer:
    """Writes the statements of one kernel; ``leave`` is what ends a thread's work at a failed
    check."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.leave = "return"
        self.worker = "0"  # where the innermost parallel loop around is run in order
        self._depth = 1
        self._names: dict[Hashable, str] = {}
        self._taken = set(HELPERS)

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

    def _name(self, thing: Hashable, like: str) -> str:
        """The identifier of a thing. No word of C++ or CUDA and no function that is called ends in
        an underscore, and none that matters in a digit."""
        if thing not in self._names:
            name = re.sub(r"\W", "_", like, flags=re.ASCII)
            name = name if name[:1].isalpha() else f"x{name}"
            name = name if name[-1].isdigit() else f"{name}_"
            while name in self._taken:
                name += "_"
            self._taken.add(name)
            self._names[thing] = name
        return self._names[thing]

    def buffer(self, name: str) -> str:
        """The identifier of a buffer."""
        return self._name(("buffer", name), name)

    def symbol(self, sym: Sym) -> str:
        """The identifier of a size, loop variable or bound register."""
        return self._name(sym, sym.name)

    def register(self, reg: Reg) -> str:
        """The identifier of a register."""
        return self._name(("register", reg.name), reg.name)

    def operand(self, operand: Operand) -> str:
        """A register or constant."""
        return literal(operand) if isinstance(operand, Const) else self.register(operand)

    # -- indices -----------------------------------------------------------------------------

    def index(self, size: Size) -> str:
        """An index expression, as a C expression of type ``long long`` or a literal."""
        if isinstance(size, int):
            return str(size)
        text = ""
        for monomial, c in size.terms:
            factors = [self._atom(atom) for atom in monomial]
            if abs(c) != 1 or not factors:
                factors.insert(0, str(abs(c)))
            sign = (" - " if c < 0 else " + ") if text else ("-" if c < 0 else "")
            text += sign + " * ".join(factors)
        return text

    def _atom(self, atom: Sym | Call) -> str:
        if isinstance(atom, Sym):
            return self.symbol(atom)
        a, b = self.index(atom.a), self.index(atom.b)
        if atom.fn == "floordiv" and is_provably_ge(atom.a, 0):
            return f"({_factor(a)} / {_factor(b)})"
        return f"{_INDEX_HELPERS[atom.fn]}({a}, {b})"

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
        self.line(f"{element} = {self.operand(stmt.value)};")

    def loop(self, stmt: Loop) -> None:
        around = self.worker
        if stmt.kind == "grid":
            self.worker = "sf_thread()"
            most = thread_bound(stmt)
            few = (
                nullcontext()
                if most is None
                else self.braces(f"if (sf_thread() < {self.index(most)})")
            )
            with few:
                self._grid(stmt, most)
        else:
            self.worker = "0"
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

    def _grid(self, stmt: Loop, most: Size | None) -> None:
        """A grid loop, which no more than ``most`` threads run."""
        threads = "sf_threads()"
        if most is not None:
            threads = f"sf_min_index({threads}, {self.index(most)})"
        times = "" if stmt.step == 1 else f"{stmt.step} * "
        plus = "" if stmt.lo == 0 else f"{self.index(stmt.lo)} + "
        with self._for(stmt, f"{plus}{times}sf_thread()", f"{times}{threads}"):
            if not any(isinstance(s, Check) for s in walk(stmt.body)):
                self.block(stmt.body)
                return
            # In braces of its own, because a jump may leave a scope but not pass a declaration.
            self.leave = "goto next_iteration"
            with self.braces(""):
                self.block(stmt.body)
            self.leave = "return"
            self.line("next_iteration:;")

    def branch(self, stmt: If) -> None:
        with self.braces(f"if ({self.operand(stmt.cond)})"):
            self.block(stmt.then)
        if stmt.orelse:
            with self.braces("else"):
                self.block(stmt.orelse)

    def bind(self, stmt: Bind) -> None:
        self.line(f"const long long {self.symbol(stmt.sym)} = {self.operand(stmt.value)};")

    def check(self, stmt: Check) -> None:
        with self.braces(f"if (!{self.operand(stmt.cond)})"):
            self.line(f"sf_fail(status, {stmt.code});")
            self.line(f"{self.leave};")

    # -- expressions -------------------------------------------------------------------------

    def apply(self, expr: Apply, reg: Reg) -> str:
        return apply(expr.op, map(self.operand, expr.args), expr.args[0].dtype)

    def load(self, expr: Load, reg: Reg) -> str:
        return f"{self.buffer(expr.buffer)}[{self.index(expr.index)}]"

    def cast(self, expr: Cast, reg: Reg) -> str:
        return cast(self.operand(expr.arg), expr.arg.dtype, reg.dtype)

    def bitcast(self, expr: Bitcast, reg: Reg) -> str:
        return bitcast(self.operand(expr.arg), expr.arg.dtype, reg.dtype)

    def index_value(self, expr: Index, reg: Reg) -> str:
        return self.index(expr.index)

    def fold(self, expr: Fold, reg: Reg) -> str:
        return self.operand(expr.arg)  # the one lane

    def number(self, expr: Worker, reg: Reg) -> str:
        return self.worker


def _factor(text: str) -> str:
    return text if re.fullmatch(r"\w+", text, flags=re.ASCII) else f"({text})"


_INDEX_HELPERS = {
    "floordiv": "sf_floordiv",
    "max": "sf_max_index",
    "min": "sf_min_index",
    "root": "sf_root_index",
}

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
}

_EXPRESSIONS: dict[type[Expr], Callable[..., str]] = {
    Apply: _Writer.apply,
    Load: _Writer.load,
    Cast: _Writer.cast,
    Bitcast: _Writer.bitcast,
    Index: _Writer.index_value,
    Fold: _Writer.fold,
    Worker: _Writer.number,
    Workers: lambda writer, expr, reg: "sf_threads()",
}
