"""Elementwise ops that ONNX has no operator for: what each computes of one element, as their
declarations say it for kernels, written as nodes that compute it of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from staticflow.codegen.kernel import Apply, Bitcast, Cast, Const, Expr, Fold, Operand, Reg, Splat
from staticflow.codegen.maths.scalars import Scalars
from staticflow.errors import SymbolicError
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import DType, bool_, float32, float64, int32, int64
from staticflow.graph.locs import format_locs
from staticflow.onnx.types import element_type
from staticflow.onnx.writer import Value, Writer

__all__ = ["NodeScalars", "trunc"]

_ONE_NODE: Mapping[str, str] = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "neg": "Neg", "abs": "Abs",
    "sqrt": "Sqrt", "floor": "Floor", "ceil": "Ceil", "round": "Round",
    "max": "Max", "min": "Min", "select": "Where",
}  # fmt: skip
"""Primitives of Kernel IR that one operator is."""

_COMPARE: Mapping[str, str] = {
    "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "eq": "Equal",
}  # fmt: skip

_LOGIC: Mapping[str, tuple[str, str]] = {
    "and": ("And", "BitwiseAnd"), "or": ("Or", "BitwiseOr"), "xor": ("Xor", "BitwiseXor"),
    "not": ("Not", "BitwiseNot"),
}  # fmt: skip
"""Of bools, and of integers."""


class NodeScalars(Scalars):
    """The builder that ops write one element with, by which they write nodes instead. Registers are
    the values of ``writer``; what a kernel does rarely, is computed of all elements."""

    def __init__(self, writer: Writer, name: str) -> None:
        super().__init__([], [])
        self.writer = writer
        self.op_name = name
        self.values: dict[str, Value] = {}
        self._made: dict[Any, Reg] = {}

    def register(self, value: Value) -> Reg:
        """A value as an operand."""
        reg = Reg(f"r{len(self.values)}", value.dtype)
        self.values[reg.name] = value
        return reg

    def value(self, operand: Operand) -> Value:
        """An operand as a value."""
        if isinstance(operand, Const):
            return self.writer.number(operand.value, operand.dtype)
        return self.values[operand.name]

    def let(self, expr: Expr, dtype: DType, lanes: int = 1) -> Reg:
        """A register with the value of an expression, for which nodes are written once."""
        match expr:
            case Apply(op=op, args=args):
                values = [self.value(a) for a in args]
                key: Any = (op, *(v.name for v in values))
            case Cast(arg=arg) | Bitcast(arg=arg):
                op, values = type(expr).__name__, [self.value(arg)]
                key = (op, values[0].name, dtype)
            case Splat(arg=Reg() as arg) | Fold(arg=Reg() as arg):
                return arg  # any lane's answer stands for all: both sides are computed
            case _:
                raise self._refuse(type(expr).__name__)
        if key not in self._made:
            self._made[key] = self.register(self._write(op, values, dtype))
        return self._made[key]

    def _refuse(self, what: str) -> SymbolicError:
        return SymbolicError(
            f"onnx.export: {self.op_name} has no form in ONNX, whose operators say no {what} of "
            "single elements; compute it outside of what is exported, at "
            f"{format_locs(self.writer.locs)}"
        )

    def _write(self, op: str, values: Sequence[Value], dtype: DType) -> Value:
        w, x = self.writer, values[0]
        if op in _ONE_NODE:
            return w.apply(_ONE_NODE[op], *values, keep=(0,) if op == "select" else ())
        if op in _COMPARE:
            if x.dtype is bool_ and op != "eq":
                values = [w.cast(v, int32) for v in values]
            return w.apply(_COMPARE[op], *values, dtype=bool_)
        if op == "ne":
            return w.node("Not", w.apply("Equal", *values, dtype=bool_), dtype=bool_)
        if op in _LOGIC:
            return w.apply(_LOGIC[op][x.dtype is not bool_], *values)
        own = _WRITTEN.get(op)
        if own is None:
            raise self._refuse(op)
        return own(w, values, dtype)

    # -- what changes ------------------------------------------------------------------------------

    def var(self, init: Operand) -> Reg:
        """A register that can be set."""
        return self.register(self.value(init))

    def set(self, reg: Reg, value: Operand) -> None:
        """From here on ``reg`` has another value."""
        self.values[reg.name] = self.value(value)
        self._made.clear()

    @contextmanager
    def when(self, cond: Operand) -> Iterator[None]:
        """What is rare is computed in any case, which changes no result where it need not be."""
        yield

    def choose(self, cond: Operand, then: Callable[[], None], orelse: Callable[[], None]) -> None:
        """What the rare elements need is right for all."""
        then()

    def loop(self, *_: Any, **__: Any) -> Any:
        """Raises `SymbolicError`: no element has a loop of its own."""
        raise self._refuse("loop")

    def accumulate(self, reg: Reg, op: str, value: Operand) -> None:
        """Combine ``reg`` with a value."""
        self.set(reg, self.apply(op, reg, value))

    def index_value(self, index: Size, lanes: int = 1) -> Operand:
        """A size as an operand."""
        return self.register(self.writer.scalar(index))

    # -- functions that ONNX has -------------------------------------------------------------------

    def _function(self, kind: str, x: Operand) -> Operand:
        def write(k: Any, a: Operand) -> Operand:
            return self.register(self.writer.apply(kind, self.value(a)))

        return self.real(write, x)

    def isnan(self, x: Operand) -> Operand:
        """Whether x is NaN."""
        return self.register(self.writer.apply("IsNaN", self.value(x), dtype=bool_))

    def pow(self, x: Any, y: Any) -> Operand:
        """x**y."""
        base, exponent = self._operands(x, y)
        if not base.dtype.is_floating:
            return super().pow(x, y)

        def write(k: Any, a: Operand, b: Operand) -> Operand:
            return self.register(self.writer.apply("Pow", self.value(a), self.value(b)))

        return self.real(write, base, exponent)


def _one_node(kind: str) -> Callable[[NodeScalars, Operand], Operand]:
    def function(self: NodeScalars, x: Operand) -> Operand:
        return self._function(kind, x)

    function.__doc__ = f"The operator {kind}."
    return function


FUNCTIONS = (
    "exp", "log", "sigmoid", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "asinh", "acosh", "atanh", "erf",
)  # fmt: skip
"""Functions of one number that ONNX has an operator of this name for."""

for _name in FUNCTIONS:
    setattr(NodeScalars, _name, _one_node(_name.title()))


# -- primitives that take several operators --------------------------------------------------------


def trunc(w: Writer, x: Value) -> Value:
    """``x`` without its fraction; the sign of a zero is that of ``x``."""
    below = w.apply("Less", x, w.number(0, x.dtype), dtype=bool_)
    return w.apply("Where", below, w.apply("Ceil", x), w.apply("Floor", x), keep=(0,))


_INTEGERS: Mapping[DType, tuple[DType, int, int]] = {
    float32: (int32, 23, 127), float64: (int64, 52, 1023),
}  # fmt: skip
"""The integer of as many bits as a float, the bits of its fraction, and the bias of its
exponent."""


def _bits(w: Writer, x: Value, dtype: DType) -> Value:
    return w.node("BitCast", x, dtype=dtype, to=element_type(dtype))


def _fma(w: Writer, values: Sequence[Value], dtype: DType) -> Value:
    a, b, c = values
    return w.apply("Add", w.apply("Mul", a, b), c)


def _copysign(w: Writer, values: Sequence[Value], dtype: DType) -> Value:
    # by bits, since runtimes may lose the sign of a zero in Where
    x, sign = values
    wide = x.dtype if x.dtype in _INTEGERS else float32
    integer = _INTEGERS[wide][0]
    least = int(np.iinfo(integer.numpy).min)
    size = w.apply("BitwiseAnd", _bits(w, w.cast(x, wide), integer), w.number(~least, integer))
    bit = w.apply("BitwiseAnd", _bits(w, w.cast(sign, wide), integer), w.number(least, integer))
    return w.cast(_bits(w, w.apply("BitwiseOr", size, bit), wide), x.dtype)


def _quotient(w: Writer, values: Sequence[Value], dtype: DType) -> Value:
    # the least integer divided by -1 ends the process that does it
    a, b = values
    if a.dtype.kind == "u":
        return w.apply("Div", a, b)
    minus = w.apply("Equal", b, w.number(-1, b.dtype), dtype=bool_)
    divisor = w.apply("Where", minus, w.number(1, b.dtype), b, keep=(0,))
    negative = w.apply("Sub", w.number(0, a.dtype), a)
    return w.apply("Where", minus, negative, w.apply("Div", a, divisor), keep=(0,))


def _remainder(w: Writer, values: Sequence[Value], dtype: DType) -> Value:
    a, b = values
    return w.apply("Sub", a, w.apply("Mul", _quotient(w, values, dtype), b))


def _powers(w: Writer, n: Value, dtype: DType) -> Value:
    """2**n, of n from 0 on below the bits of the dtype, wrapping."""
    powers = [1 << i for i in range(dtype.bits)]
    if dtype.kind == "i":
        powers[-1] -= 1 << dtype.bits
    numbers = np.array(powers, dtype.numpy)
    return w.apply("Gather", w.constant(numbers), w.cast(n, int64), keep=(1,))


def _shl(w: Writer, values: Sequence[Value], dtype: DType) -> Value:
    x, n = values
    return w.apply("Mul", x, _powers(w, n, x.dtype))


def _shr(w: Writer, values: Sequence[Value], dtype: DType) -> Value:
    # x // 2**n = (x - x mod 2**n) / 2**n; by all bits but the sign, of which 2**n is none, the sign
    x, n = values
    by, zero = _powers(w, n, x.dtype), w.number(0, x.dtype)
    whole = w.apply("Div", w.apply("Sub", x, w.apply("Mod", x, by)), by)
    if x.dtype.kind == "u":
        return whole
    below = w.apply("Less", x, zero, dtype=bool_)
    sign = w.apply("Where", below, w.number(-1, x.dtype), zero, keep=(0,))
    last = w.apply("Equal", n, w.number(x.dtype.bits - 1, n.dtype), dtype=bool_)
    return w.apply("Where", last, sign, whole, keep=(0,))


def _split(w: Writer, x: Value) -> tuple[Value, Value]:
    """(m, e) with ``x = m * 2**e`` and ``3/4 <= m < 3/2``; numbers that are subnormal are made
    larger before."""
    integer, fraction, _ = _INTEGERS[x.dtype]
    tiny = float(np.finfo(x.dtype.numpy).tiny)
    small = w.apply("Less", x, w.number(tiny, x.dtype), dtype=bool_)
    larger = w.apply("Mul", x, w.number(2.0**64, x.dtype))
    seen = _bits(w, w.apply("Where", small, larger, x, keep=(0,)), integer)
    middle = int(np.asarray(0.75, x.dtype.numpy).view(integer.numpy))
    steps = w.apply("Sub", seen, w.number(middle, integer))
    by = w.number(1 << fraction, integer)
    e = w.apply("Div", w.apply("Sub", steps, w.apply("Mod", steps, by)), by)
    m = _bits(w, w.apply("Sub", seen, w.apply("Mul", e, by)), x.dtype)
    exponent = w.cast(e, x.dtype)
    shifted = w.apply("Sub", exponent, w.number(64, x.dtype))
    return m, w.apply("Where", small, shifted, exponent, keep=(0,))


def _special(w: Writer, x: Value, found: Value, at_zero: float, at_inf: float) -> Value:
    zero, inf = w.number(0, x.dtype), w.number(np.inf, x.dtype)
    for at, value in ((zero, at_zero), (inf, at_inf)):
        there = w.apply("Equal", x, at, dtype=bool_)
        found = w.apply("Where", there, w.number(value, x.dtype), found, keep=(0,))
    inside = w.apply("GreaterOrEqual", x, zero, dtype=bool_)
    return w.apply("Where", inside, found, w.number(np.nan, x.dtype), keep=(0,))


def _mantissa(w: Writer, values: Sequence[Value], dtype: DType) -> Value:
    return _special(w, values[0], _split(w, values[0])[0], 1.0, 1.0)


def _exponent(w: Writer, values: Sequence[Value], dtype: DType) -> Value:
    return _special(w, values[0], _split(w, values[0])[1], -np.inf, np.inf)


_WRITTEN: Mapping[str, Callable[[Writer, Sequence[Value], DType], Value]] = {
    "Bitcast": lambda w, values, dtype: _bits(w, values[0], dtype),
    "Cast": lambda w, values, dtype: w.cast(values[0], dtype),
    "copysign": _copysign,
    "exponent": _exponent,
    "fma": _fma,
    "mantissa": _mantissa,
    "quotient": _quotient,
    "remainder": _remainder,
    "shl": _shl,
    "shr": _shr,
    "trunc": lambda w, values, dtype: trunc(w, values[0]),
}
"""Primitives that are several operators."""
