"""A builder for Kernel IR: methods for the statements and primitives, blocks as context managers.

Pure expressions are built once, and as far out as their operands and index symbols allow: what does
not depend on a loop is computed before it, and asking again for what is in scope gives the same
register. A load leaves an ``if``, or a loop that may run zero times, only if it is in range anyway.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from staticflow.codegen.kernel import (
    ACCESSES,
    LANE_SYM,
    Accumulate,
    Active,
    Apply,
    Bind,
    Bitcast,
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
    Reserve,
    Set,
    Splat,
    Stmt,
    Store,
    Var,
    Worker,
    Workers,
    Zip,
)
from staticflow.codegen.parts import operands_of, sizes_of
from staticflow.codegen.primitives import PRIMITIVES
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import substitute_dim, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, is_provably_ge
from staticflow.graph.dtypes import DType, bool_, int64

__all__ = ["Builder", "Loose"]

_ONE_LANE: dict[Sym, Size] = {LANE_SYM: 0}


@dataclass(frozen=True, slots=True)
class Loose:
    """A number that only the run knows. It takes the dtype of the operand beside it, as a Python
    number does."""

    reg: Operand


Number = bool | int | float | Loose
_Key = tuple[Expr, DType, int]


class Builder:
    """Builds the body of one kernel, statement by statement.

    >>> from staticflow.graph.dtypes import float32
    >>> n = Dim.of(Sym("n"))
    >>> k = Builder([Buffer("x", float32, "in"), Buffer("y", float32, "out")], [Sym("n")])
    >>> with k.loop("i", n) as i:
    ...     k.store("y", i, k.mul(k.load("x", i), 2.0))
    >>> kernel = k.kernel("double")
    """

    def __init__(
        self,
        buffers: list[Buffer],
        sizes: list[Sym],
        extents: Mapping[str, Size] | None = None,
    ) -> None:
        """``extents`` are the numbers of elements of buffers, where they are known."""
        self.buffers = {b.name: b for b in buffers}
        self._extents = extents or {}
        self.sizes = tuple(sizes)
        self._serial = itertools.count()
        self._blocks: list[list[Stmt]] = [[]]
        self._known: dict[_Key, Reg] = {}  # what each visible register holds
        self._in_block: list[list[_Key]] = [[]]  # which of them end with each block
        self._guards: list[int] = [0]  # for each block, the innermost that may not run
        self._depths: dict[str | Sym, int] = {sym: 0 for sym in sizes}
        self._mutable: set[str] = set()

    def kernel(self, name: str) -> Kernel:
        """The kernel, once its body is complete."""
        (body,) = self._blocks
        buffers = tuple(b for b in self.buffers.values() if b.access in ACCESSES)
        return Kernel(name, buffers, self.sizes, tuple(body))

    # -- statements --------------------------------------------------------------------------

    def emit(self, stmt: Stmt) -> None:
        """Append a statement to the current block."""
        self._blocks[-1].append(stmt)

    def let(self, expr: Expr, dtype: DType, lanes: int = 1) -> Reg:
        """A register that holds ``expr``; one that already does is reused where that is safe."""
        key = (expr, dtype, lanes)
        known = self._known.get(key)
        if known is not None:
            return known
        reg = Reg(f"v{next(self._serial)}", dtype, lanes)
        pure = self._is_pure(expr)
        depth = self._home(expr) if pure else len(self._blocks) - 1
        self._depths[reg.name] = depth
        self._blocks[depth].append(Let(reg, expr))
        if pure:
            self._known[key] = reg
            self._in_block[depth].append(key)
        return reg

    def _home(self, expr: Expr) -> int:
        """The depth of the outermost block in which ``expr`` can stand."""
        needs: set[str | Sym] = {a.name for a in operands_of(expr) if isinstance(a, Reg)}
        for size in sizes_of(expr):
            needs |= symbols_of(size) - {LANE_SYM}
        here = len(self._blocks) - 1
        home = max((self._depths.get(n, here) for n in needs), default=0)
        guard = self._guards[-1]
        is_kept = home < guard and isinstance(expr, Load) and not self._is_in_range(expr)
        return guard if is_kept else home

    def _is_in_range(self, load: Load) -> bool:
        extent = self._extents.get(load.buffer)
        return (
            extent is not None
            and LANE_SYM not in symbols_of(load.index)
            and is_provably_ge(load.index, 0)
            and is_provably_ge(extent, load.index + 1)
        )

    def _is_pure(self, expr: Expr) -> bool:
        if isinstance(expr, Worker):
            return False
        if isinstance(expr, Load):
            return self.buffers[expr.buffer].access == "in"
        return not any(isinstance(a, Reg) and a.name in self._mutable for a in operands_of(expr))

    def var(self, init: Operand) -> Reg:
        """A register that can be set and accumulated into."""
        reg = Reg(f"m{next(self._serial)}", init.dtype, init.lanes)
        self._mutable.add(reg.name)
        self._depths[reg.name] = len(self._blocks) - 1
        self.emit(Var(reg, init))
        return reg

    def freeze(self, reg: Reg) -> Reg:
        """Say that a `var` of the current block is not changed any more."""
        self._mutable.discard(reg.name)
        return reg

    def set(self, reg: Reg, value: Operand) -> None:
        """Give a `var` another value."""
        self.emit(Set(reg, self.splat(value, reg.lanes)))

    def accumulate(self, reg: Reg, op: str, value: Operand) -> None:
        """``reg = op(reg, value)``, in any order."""
        self.emit(Accumulate(reg, op, self.splat(value, reg.lanes)))

    def store(self, buffer: str, index: Size, value: Operand, bound: Size | None = None) -> None:
        """Write ``value`` at ``index``."""
        index = index if value.lanes > 1 else substitute_dim(index, _ONE_LANE)
        self.emit(Store(buffer, index, value, bound))

    def check(self, cond: Operand, code: int) -> None:
        """Leave the kernel with ``code`` unless ``cond``."""
        self.emit(Check(cond, code))

    def reserve(self, buffer: str, count: Size) -> None:
        """Give a buffer that grows room for ``count`` elements."""
        self.emit(Reserve(buffer, count))

    def local(self, dtype: DType, count: int, place: str) -> str:
        """An array of ``count`` elements of a team (``shared``), of each of its threads
        (``private``), or of this block (``stack``)."""
        name = f"local{next(self._serial)}"
        self.buffers[name] = Buffer(name, dtype, place)
        self.emit(Local(name, dtype, count, place))
        return name

    def multiply_tiles(self, left: str, right: str, sums: str, pitch: int, depth: int) -> None:
        """Add the products of tiles in shared arrays to the sums of the threads of a block."""
        self.emit(MultiplyTiles(left, right, sums, pitch, depth))

    def bind(
        self, value: Operand, name: str = "b", upper: Size | None = None, *, held: bool = False
    ) -> Dim:
        """An integer register as a symbol for indices."""
        sym = Sym(f"{name}{next(self._serial)}", 0, upper)
        self.define(sym, value, held=held)
        return Dim.of(sym)

    def define(self, sym: Sym, value: Operand, *, held: bool = False) -> None:
        """Give a symbol, which nothing else binds, the value of an integer register."""
        self._depths[sym] = len(self._blocks) - 1
        self.emit(Bind(sym, value, held))

    def worker(self, most: Size) -> Dim:
        """The number of the thread that runs an iteration of the parallel loop whose body this is,
        as a symbol. There are ``most`` such threads, a size that was known before the loop."""
        return self.bind(self.let(Worker(most), int64), "worker", most)

    def workers(self) -> Operand:
        """How many threads may run the iterations of parallel loops."""
        return self.let(Workers(), int64)

    @contextmanager
    def _block(self, guarded: bool = False) -> Iterator[list[Stmt]]:
        self._blocks.append([])
        self._in_block.append([])
        self._guards.append(len(self._blocks) - 1 if guarded else self._guards[-1])
        yield self._blocks[-1]
        self._blocks.pop()
        for key in self._in_block.pop():
            del self._known[key]
        self._guards.pop()

    @contextmanager
    def loop(
        self,
        name: str,
        hi: Size,
        *,
        lo: Size = 0,
        step: int = 1,
        kind: str = "serial",
        going: Reg | None = None,
    ) -> Iterator[Dim]:
        """``for name in lo..hi step step while going``; gives the loop variable."""
        sym = Sym(f"{name}{next(self._serial)}", 0, hi)
        guarded = going is not None or not is_provably_ge(hi, lo + 1)
        with self._block(guarded=guarded) as body:
            self._depths[sym] = len(self._blocks) - 1
            yield Dim.of(sym)
        self.emit(Loop(sym, lo, hi, tuple(body), step, kind, going))

    @contextmanager
    def when(self, cond: Operand) -> Iterator[None]:
        """A block that runs where the scalar ``cond`` is true."""
        with self._block(guarded=True) as body:
            yield
        self.emit(If(cond, tuple(body)))

    def choose(self, cond: Operand, then: Callable[[], None], orelse: Callable[[], None]) -> None:
        """What ``then`` writes runs where the scalar ``cond`` is true, else what ``orelse``
        writes."""
        with self._block(guarded=True) as first:
            then()
        with self._block(guarded=True) as second:
            orelse()
        self.emit(If(cond, tuple(first), tuple(second)))

    # -- expressions -------------------------------------------------------------------------

    def load(self, buffer: str, index: Size, lanes: int = 1, bound: Size | None = None) -> Reg:
        """The element at ``index``, or ``lanes`` of them if the index names ``lane``."""
        dtype = self.buffers[buffer].dtype
        index = index if lanes > 1 else substitute_dim(index, _ONE_LANE)
        if lanes > 1 and LANE_SYM not in symbols_of(index):
            return self.let(Splat(self.let(Load(buffer, index), dtype)), dtype, lanes)
        return self.let(Load(buffer, index, bound), dtype, lanes)

    def const(self, value: bool | int | float, dtype: DType, lanes: int = 1) -> Const:
        """A literal."""
        return Const(value, dtype, lanes)

    def index_value(self, index: Size, lanes: int = 1) -> Operand:
        """An index expression as an int64 value in every lane; one that names `lane` differs by
        lane."""
        if isinstance(index, int):
            return Const(index, int64, lanes)
        if LANE_SYM not in symbols_of(index):
            return self.splat(self.let(Index(index), int64), lanes)
        return self.let(Index(index), int64, lanes)

    def active(self, bound: Size, lanes: int) -> Reg:
        """``lane < bound``."""
        return self.let(Active(bound), bool_, lanes)

    def splat(self, arg: Operand, lanes: int) -> Operand:
        """A scalar in every lane; what already has the lanes is returned as it is."""
        if arg.lanes == lanes:
            return arg
        if isinstance(arg, Const):
            return Const(arg.value, arg.dtype, lanes)
        return self.let(Splat(arg), arg.dtype, lanes)

    def cast(self, arg: Operand, dtype: DType) -> Operand:
        """``arg`` in ``dtype``."""
        return arg if arg.dtype is dtype else self.let(Cast(arg), dtype, arg.lanes)

    def bitcast(self, arg: Operand, dtype: DType) -> Operand:
        """The bits of ``arg`` as ``dtype``."""
        return arg if arg.dtype is dtype else self.let(Bitcast(arg), dtype, arg.lanes)

    def fold(self, op: str, arg: Operand) -> Operand:
        """All lanes combined into one."""
        return arg if arg.lanes == 1 else self.let(Fold(op, arg), arg.dtype)

    def any(self, cond: Operand) -> Operand:
        """Whether ``cond`` holds in any lane, also of vectors that a schedule makes of a loop.
        It may be true where the own ``cond`` is not, and no result may depend on it then."""
        return self.let(Fold("or", cond), bool_)

    def zip(self, a: Operand, b: Operand, half: str) -> Operand:
        """The lanes of the ``low`` or ``high`` half of two vectors in turns."""
        return self.let(Zip(a, b, half), a.dtype, a.lanes)

    def apply(self, op: str, *args: Operand | Number) -> Operand:
        """A primitive. Python numbers take the dtype of the other operands, scalars are splat."""
        regs = [a for a in args if isinstance(a, (Reg, Const))]
        lanes = max(a.lanes for a in regs)
        typed = regs[1:] if op == "select" and len(regs) > 1 else regs
        own = typed[0].dtype
        operands = tuple(self.splat(self._as_operand(a, own), lanes) for a in args)
        result = {"same": operands[0].dtype, "second": operands[-1].dtype, "bool": bool_}
        return self.let(Apply(op, operands), result[PRIMITIVES[op].result], lanes)

    def _as_operand(self, a: Operand | Number, dtype: DType) -> Operand:
        """A number as an operand of ``dtype``; an operand as it is."""
        if isinstance(a, (Reg, Const)):
            return a
        return self.cast(a.reg, dtype) if isinstance(a, Loose) else Const(a, dtype)

    def add(self, a: Operand | Number, b: Operand | Number) -> Operand:
        """``a + b``."""
        return self.apply("add", a, b)

    def sub(self, a: Operand | Number, b: Operand | Number) -> Operand:
        """``a - b``."""
        return self.apply("sub", a, b)

    def mul(self, a: Operand | Number, b: Operand | Number) -> Operand:
        """``a * b``."""
        return self.apply("mul", a, b)

    def div(self, a: Operand | Number, b: Operand | Number) -> Operand:
        """``a / b``."""
        return self.apply("div", a, b)

    def fma(self, a: Operand | Number, b: Operand | Number, c: Operand | Number) -> Operand:
        """``a * b + c``, rounded once."""
        return self.apply("fma", a, b, c)

    def neg(self, a: Operand) -> Operand:
        """``-a``."""
        return self.apply("neg", a)

    def select(self, cond: Operand, a: Operand | Number, b: Operand | Number) -> Operand:
        """``a`` where ``cond``, else ``b``."""
        return self.apply("select", cond, a, b)

    def compare(self, op: str, a: Operand | Number, b: Operand | Number) -> Operand:
        """One of lt, le, gt, ge, eq, ne."""
        return self.apply(op, a, b)
