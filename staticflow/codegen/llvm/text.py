"""The text of one LLVM function: types, literals, instructions and basic blocks."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType, bfloat16, bool_, float16, float32

if TYPE_CHECKING:
    from staticflow.codegen.kernel import Const

__all__ = [
    "I32",
    "I64",
    "BasicBlock",
    "FunctionText",
    "Type",
    "lane_numbers",
    "literal",
    "local",
    "mask_literal",
    "memory_type",
    "phi",
    "register_type",
]

_SUFFIXES = {"half": "f16", "float": "f32", "double": "f64"}


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar, or a vector of ``lanes`` scalars."""

    scalar: str
    lanes: int = 1

    def __str__(self) -> str:
        return self.scalar if self.lanes == 1 else self.vector

    @property
    def vector(self) -> str:
        """The vector type, even of one lane."""
        return f"<{self.lanes} x {self.scalar}>"

    @property
    def suffix(self) -> str:
        """How the names of overloaded intrinsics spell the type."""
        own = _SUFFIXES.get(self.scalar, self.scalar)
        return own if self.lanes == 1 else f"v{self.lanes}{own}"

    def of(self, scalar: str) -> Type:
        """The type of as many lanes of another scalar."""
        return Type(scalar, self.lanes)

    def wide(self, lanes: int) -> Type:
        """Another number of lanes."""
        return Type(self.scalar, lanes)

    def splat(self, scalar: str) -> str:
        """The literal with ``scalar`` in every lane."""
        return scalar if self.lanes == 1 else f"splat ({self.scalar} {scalar})"


I32, I64 = Type("i32"), Type("i64")

_FLOATS = {"f16": "half", "bf16": "i16", "f32": "float", "f64": "double"}


def register_type(dtype: DType, lanes: int = 1) -> Type:
    """The type that registers of ``dtype`` have. A bfloat16 is its bits: LLVM's own ``bfloat`` is
    not lowered well everywhere."""
    if dtype is bool_:
        return Type("i1", lanes)
    return Type(_FLOATS.get(dtype.short) or f"i{dtype.bits}", lanes)


def memory_type(dtype: DType, lanes: int = 1) -> Type:
    """The type that elements of a buffer have: a bool takes a byte."""
    return Type("i8", lanes) if dtype is bool_ else register_type(dtype, lanes)


def local(name: str) -> str:
    """The name of a register or parameter; LLVM wants quotes about letters beyond ASCII."""
    return f"%{name}" if name.isascii() else f'%"{name}"'


def literal(const: Const) -> str:
    """A constant in the syntax of LLVM, splat if it has lanes."""
    return register_type(const.dtype, const.lanes).splat(_scalar_literal(const))


def _scalar_literal(const: Const) -> str:
    dtype, value = const.dtype, const.value
    if dtype is bool_:
        return "true" if value else "false"
    if not dtype.is_floating:
        return str(_wrap(int(value), dtype.bits))
    number = float(value)
    if dtype in (float16, bfloat16):
        with np.errstate(over="ignore"):
            bits = int(np.asarray(number, dtype.numpy).view(np.uint16))
        return f"0xH{bits:04X}" if dtype is float16 else str(_wrap(bits, 16))
    if math.isnan(number):
        return "0x7FF8000000000000"
    if dtype is float32:
        with np.errstate(over="ignore"):
            number = float(np.float32(number))
    return f"0x{struct.pack('>d', number).hex().upper()}"


def _wrap(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def mask_literal(active: int, lanes: int) -> str:
    """The mask with the first ``active`` of ``lanes`` lanes on."""
    return "<" + ", ".join(f"i1 {'true' if i < active else 'false'}" for i in range(lanes)) + ">"


def lane_numbers(scalar: str, lanes: int, stride: int = 1) -> str:
    """The literal ``<0, stride, 2 * stride, ...>``."""
    return "<" + ", ".join(f"{scalar} {i * stride}" for i in range(lanes)) + ">"


@dataclass(slots=True)
class BasicBlock:
    """Phis, instructions, and how the block ends; more can be added above the end at any time."""

    label: str
    phis: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    end: str = "unreachable"

    def __str__(self) -> str:
        body = "".join(f"  {line}\n" for line in (*self.phis, *self.lines, self.end))
        return f"{self.label}:\n{body}"


class FunctionText:
    """Writes instructions into the current block, giving each result a fresh name, which follows
    from the instructions before alone unless it has ``hints``."""

    def __init__(self, hints: bool = True) -> None:
        self._hints = hints
        self.entry = self.block = BasicBlock("entry")
        self._blocks = [self.block]
        self._serial = itertools.count()

    def __str__(self) -> str:
        return "".join(map(str, self._blocks))

    def fresh(self, hint: str = "t") -> str:
        """A name that nothing has yet."""
        return local(f"{hint if self._hints else 't'}.{next(self._serial)}")

    def op(self, instruction: str, hint: str = "t") -> str:
        """Append an instruction with a result; gives the result's name."""
        name = self.fresh(hint)
        self.block.lines.append(f"{name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Append an instruction without a result."""
        self.block.lines.append(instruction)

    def call(self, intrinsic: str, result: Type, *args: tuple[Type | str, str]) -> str:
        """Append a call of an intrinsic; the parser of LLVM declares those by itself."""
        given = ", ".join(f"{t} {value}" for t, value in args)
        return self.op(f"call {result} @llvm.{intrinsic}({given})")

    def splat(self, type: Type, scalar: str) -> str:
        """A scalar register in all lanes."""
        if type.lanes == 1:
            return scalar
        one = self.op(f"insertelement {type} poison, {type.scalar} {scalar}, i64 0")
        return self.shuffle(type, one, "poison", [0] * type.lanes)

    def shuffle(self, type: Type, a: str, b: str, lanes: list[int]) -> str:
        """The ``lanes`` of two vectors of ``type``, counted through both."""
        order = f"<{', '.join(f'i32 {i}' for i in lanes)}>" if any(lanes) else "zeroinitializer"
        return self.op(f"shufflevector {type} {a}, {type} {b}, <{len(lanes)} x i32> {order}")

    def convert(self, instruction: str, a: str, source: Type, to: str) -> str:
        """One of LLVM's conversions, lane by lane, to the scalar type ``to``."""
        return self.op(f"{instruction} {source} {a} to {source.of(to)}")

    # -- blocks ------------------------------------------------------------------------------

    def new_block(self, hint: str) -> BasicBlock:
        """A block that is not in the function yet."""
        return BasicBlock(f"{hint}.{next(self._serial)}")

    def start(self, block: BasicBlock) -> None:
        """Put a new block at the end of the function and write there."""
        self._blocks.append(block)
        self.block = block

    def jump(self, to: BasicBlock) -> None:
        """End the current block."""
        self.block.end = f"br label %{to.label}"

    def branch(
        self,
        cond: str,
        then: BasicBlock,
        orelse: BasicBlock,
        rare: bool = False,
        mostly: bool = False,
    ) -> None:
        """End the current block, going on where ``cond`` says, which may be ``then`` but rarely, or
        ``mostly``."""
        weights = "i32 1, i32 1000000" if rare else "i32 1000000, i32 1"
        odds = f', !prof !{{!"branch_weights", {weights}}}' if rare or mostly else ""
        self.block.end = f"br i1 {cond}, label %{then.label}, label %{orelse.label}{odds}"

    @contextmanager
    def at(self, block: BasicBlock) -> Iterator[None]:
        """Write at the end of an earlier block for a while."""
        here, self.block = self.block, block
        yield
        self.block = here


def phi(name: str, type: Type, incoming: list[tuple[str, BasicBlock]]) -> str:
    """The line that merges values where control flow meets."""
    values = ", ".join(f"[ {value}, %{block.label} ]" for value, block in incoming)
    return f"{name} = phi {type} {values}"
