"""The primitives of Kernel IR: what each takes and gives. Both back ends have all of them."""

from __future__ import annotations

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType, bool_

__all__ = ["COMBINES", "PRIMITIVES", "Primitive", "identity"]


@dataclass(frozen=True, slots=True)
class Primitive:
    """What a primitive takes and gives. ``kinds`` are the operand dtype kinds it is defined for
    (see `DType`); ``result`` is ``same`` as the first operand, or ``bool``."""

    arity: int
    kinds: str
    result: str
    doc: str


PRIMITIVES: dict[str, Primitive] = {
    "add": Primitive(2, "iuf", "same", "a + b; integers wrap"),
    "sub": Primitive(2, "iuf", "same", "a - b; integers wrap"),
    "mul": Primitive(2, "iuf", "same", "a * b; integers wrap"),
    "div": Primitive(2, "f", "same", "a / b"),
    "fma": Primitive(3, "f", "same", "a * b + c, rounded once"),
    "neg": Primitive(1, "if", "same", "-a; flips the sign of zero"),
    "abs": Primitive(1, "if", "same", "|a|"),
    "sqrt": Primitive(1, "f", "same", "square root, NaN below zero"),
    "floor": Primitive(1, "f", "same", "towards minus infinity"),
    "ceil": Primitive(1, "f", "same", "towards infinity"),
    "trunc": Primitive(1, "f", "same", "towards zero"),
    "round": Primitive(1, "f", "same", "to nearest, ties to even"),
    "mantissa": Primitive(
        1, "f", "same", "m of a = m * 2**e, 3/4 <= m < 3/2; 1 at 0 and infinity, NaN below zero"
    ),
    "exponent": Primitive(
        1, "f", "same", "e of a = m * 2**e; -inf at 0, inf at infinity, NaN below zero"
    ),
    "copysign": Primitive(2, "f", "same", "|a| with the sign bit of b"),
    "quotient": Primitive(2, "iu", "same", "a / b towards zero; the caller excludes b = 0"),
    "remainder": Primitive(2, "iu", "same", "a - quotient(a, b) * b"),
    "and": Primitive(2, "biu", "same", "bitwise and"),
    "or": Primitive(2, "biu", "same", "bitwise or"),
    "xor": Primitive(2, "biu", "same", "bitwise exclusive or"),
    "not": Primitive(1, "biu", "same", "bitwise complement"),
    "shl": Primitive(2, "iu", "same", "a shifted left by b, 0 <= b < bits"),
    "shr": Primitive(2, "iu", "same", "a shifted right by b; keeps the sign of a signed a"),
    "lt": Primitive(2, "biuf", "bool", "a < b, false with NaN"),
    "le": Primitive(2, "biuf", "bool", "a <= b, false with NaN"),
    "gt": Primitive(2, "biuf", "bool", "a > b, false with NaN"),
    "ge": Primitive(2, "biuf", "bool", "a >= b, false with NaN"),
    "eq": Primitive(2, "biuf", "bool", "a == b, false with NaN"),
    "ne": Primitive(2, "biuf", "bool", "a != b, true with NaN"),
    "max": Primitive(2, "biuf", "same", "the larger; NaN if either is NaN"),
    "min": Primitive(2, "biuf", "same", "the smaller; NaN if either is NaN"),
    "select": Primitive(3, "b", "second", "b where a (a bool) is true, else c"),
}

COMBINES = ("add", "mul", "max", "min", "and", "or")
"""The primitives that `Accumulate` and `Fold` take: associative, with an identity."""


def identity(op: str, dtype: DType) -> bool | int | float:
    """The value that changes nothing when it is combined with ``op``.

    >>> from staticflow.graph.dtypes import float32, int8
    >>> identity("max", float32), identity("max", int8), identity("add", float32)
    (-inf, -128, -0.0)
    """
    if dtype is bool_:
        return op in ("min", "and")
    if dtype.is_floating:
        return {"add": -0.0, "mul": 1.0, "max": -np.inf, "min": np.inf}[op]
    limits = np.iinfo(dtype.numpy)
    ones = -1 if dtype.kind == "i" else int(limits.max)
    lowest, highest = int(limits.min), int(limits.max)
    return {"add": 0, "mul": 1, "max": lowest, "min": highest, "and": ones, "or": 0}[op]
