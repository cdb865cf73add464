"""The scopes of a kernel in Kernel IR: which buffers, sizes and registers a statement may use.
`staticflow.codegen.verify` enters a scope for each block and asks it about each operand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

import numpy as np

from staticflow.codegen.kernel import ACCESSES, LANE_SYM, Buffer, Const, Kernel, Operand, Reg
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size, Sym
from staticflow.graph.dtypes import DType

__all__ = ["Fault", "Scope", "describe_type", "require", "require_name"]


class Fault(Exception):
    """A broken rule, before the kernel's name is put to it."""


def require(condition: bool, rule: str) -> None:
    """Raise `Fault` with the rule unless it is kept."""
    if not condition:
        raise Fault(rule)


def require_name(name: str, what: str) -> None:
    """Raise `Fault` unless ``name`` is an identifier, as the name of ``what`` must be."""
    require(name.isidentifier(), f"{name!r} is no name for {what}")


def _type(dtype: DType, lanes: int) -> str:
    return f"{dtype}" if lanes == 1 else f"{dtype}x{lanes}"


def describe_type(arg: Operand) -> str:
    """The type of an operand as the text of kernels says it: ``float32x8``."""
    return _type(arg.dtype, arg.lanes)


@dataclass
class Scope:
    """What the statements of a block may use: buffers, registers by name, those that may change,
    symbols, and the buffers that something is reserved of, each with the depth of the block."""

    buffers: dict[str, Buffer] = field(default_factory=dict)
    symbols: set[Sym] = field(default_factory=set)
    regs: dict[str, Reg] = field(default_factory=dict)
    variables: set[str] = field(default_factory=set)
    reserved: dict[str, int] = field(default_factory=dict)
    stacked: dict[str, int] = field(default_factory=dict)  # the depth of arrays on the stack
    counts: dict[str, int] = field(default_factory=dict)  # of the elements of local arrays
    all_regs: set[str] = field(default_factory=set)
    all_symbols: set[Sym] = field(default_factory=set)
    depth: int = 0
    shared: int = -1  # the depth of the body of the innermost parallel or grid loop
    before: set[Sym] = field(default_factory=set)  # the symbols bound before that
    in_order: bool = True
    team: str = ""  # the kind of the loop around whose iterations are teams', if this is its body
    in_threads: bool = False
    scanned: int = -1  # the depth of the body of the scan around
    totals: frozenset[str] = frozenset()  # what may be accumulated into, but not read

    def signature(self, kernel: Kernel) -> None:
        """Make the buffers and sizes of a kernel visible."""
        require_name(kernel.name, "a kernel")
        for buffer in kernel.buffers:
            require_name(buffer.name, "a buffer")
            require(buffer.name not in self.buffers, f"there are two buffers {buffer.name}")
            require(
                buffer.access in ACCESSES,
                f"buffer {buffer.name}: {buffer.access!r} is none of {', '.join(ACCESSES)}",
            )
            self.buffers[buffer.name] = buffer
        for size in kernel.sizes:
            self.bind_symbol(size, self.all_symbols)

    @contextmanager
    def enter_block(self) -> Iterator[None]:
        """Enter the scope of a block: what its statements bind is not visible after the block."""
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

    def operand(self, arg: Operand) -> None:
        """Require that an operand may be read here: a sound constant, or a register as bound."""
        if isinstance(arg, Const):
            _check_const(arg)
            return
        found = self.regs.get(arg.name)
        require(found is not None, f"%{arg.name} is not bound here")
        require(
            arg.name not in self.totals,
            f"%{arg.name} is known behind the loop only, whose threads accumulate into it",
        )
        require(
            found == arg,
            f"%{arg.name} is used as {describe_type(arg)} but bound as "
            f"{describe_type(found or arg)}",
        )

    def scalar_bool(self, arg: Operand) -> None:
        """Require that an operand is a condition."""
        self.operand(arg)
        found = describe_type(arg)
        require(found == "bool", f"the condition must be a bool of one lane, not {found}")

    def size(self, size: Size, what: str) -> None:
        """Require that a size is known here and the same in every lane."""
        self.index(size, what)
        require(LANE_SYM not in symbols_of(size), f"{what} must not name lane")

    def index(self, index: Size, what: str = "the index") -> None:
        """Require that all symbols of an index are bound here, or ``lane``."""
        unknown = sorted(s.name for s in symbols_of(index) - self.symbols - {LANE_SYM})
        require(not unknown, f"{what} names {', '.join(unknown)}, not bound here")

    def lane_index(self, index: Size, lanes: int) -> None:
        """Require that an index names ``lane`` if and only if there are several lanes."""
        self.index(index)
        names_lane = LANE_SYM in symbols_of(index)
        require(lanes > 1 or not names_lane, "the index of one lane must not name lane")
        require(lanes == 1 or names_lane, f"the index of {lanes} lanes must name lane")

    def check_bound(self, bound: Size | None) -> None:
        """Require that the bound of a load or store, if it has one, is a size."""
        if bound is not None:
            self.size(bound, "the bound")

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name, which must be there."""
        require(name in self.buffers, f"there is no buffer {name}")
        return self.buffers[name]

    def usable_buffer(self, name: str) -> Buffer:
        """The buffer of that name, whose elements must be within reach here."""
        buffer = self.buffer(name)
        require(
            buffer.access != "private" or self.in_threads,
            f"{name} is there once for each thread; only a threads loop touches it",
        )
        require(
            buffer.access != "stack" or self.shared <= self.stacked[name],
            f"{name} is on the stack around a parallel loop, whose iterations have other stacks",
        )
        require(
            buffer.access != "grows" or name in self.reserved, f"nothing is reserved of {name} here"
        )
        return buffer

    def bind_reg(self, reg: Reg) -> None:
        """Make a register visible, of a name that no other of the kernel has."""
        require_name(reg.name, "a register")
        require(reg.lanes >= 1, f"%{reg.name} has {reg.lanes} lanes; it needs at least one")
        require(reg.name not in self.all_regs, f"%{reg.name} is bound twice")
        self.all_regs.add(reg.name)
        self.regs[reg.name] = reg

    def bind_symbol(self, sym: Sym, taken: set[Sym]) -> None:
        """Make a symbol visible, which must not be one of those ``taken``."""
        require_name(sym.name, "a symbol")
        require(sym != LANE_SYM, "lane is the lane's number; it cannot be bound")
        require(sym not in taken, f"{sym} is bound twice")
        self.all_symbols.add(sym)
        self.symbols.add(sym)

    def result(self, reg: Reg, dtype: DType, lanes: int) -> None:
        """Require that a register is of the type of the value that it is given."""
        require(
            reg.dtype is dtype and reg.lanes == lanes,
            f"the value is {_type(dtype, lanes)}, the register {describe_type(reg)}",
        )


def _check_const(const: Const) -> None:
    kind, value = const.dtype.kind, const.value
    require(const.lanes >= 1, f"a constant has {const.lanes} lanes; it needs at least one")
    allowed = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float)}[kind]
    require(type(value) in allowed, f"{value!r} is no {const.dtype}")
    if kind in "iu":
        limits = np.iinfo(const.dtype.numpy)
        in_range = limits.min <= value <= limits.max
        require(bool(in_range), f"{value} is out of the range of {const.dtype}")
