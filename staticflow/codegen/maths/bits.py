"""Functions of bits: shifts by any number, and the block cipher that random numbers come from."""

from __future__ import annotations

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Const, Operand
from staticflow.graph.dtypes import int32, int64

__all__ = ["left_shift", "right_shift", "threefry"]


def left_shift(k: Builder, x: Operand, n: Operand) -> Operand:
    """x shifted left by n; 0 where n is negative or as large as the dtype is wide."""
    if isinstance(n, Const) and 0 <= n.value < x.dtype.bits:
        return k.apply("shl", x, n)
    return k.select(_is_within(k, n), k.apply("shl", x, _mask_shift(k, n)), 0)


def right_shift(k: Builder, x: Operand, n: Operand) -> Operand:
    """x shifted right by n, keeping its sign; nothing but the sign is left where n is negative or
    as large as the dtype is wide."""
    if isinstance(n, Const) and 0 <= n.value < x.dtype.bits:
        return k.apply("shr", x, n)
    sign = k.apply("shr", x, x.dtype.bits - 1) if x.dtype.kind == "i" else 0
    return k.select(_is_within(k, n), k.apply("shr", x, _mask_shift(k, n)), sign)


def _mask_shift(k: Builder, n: Operand) -> Operand:
    return k.apply("and", n, n.dtype.bits - 1)


def _is_within(k: Builder, n: Operand) -> Operand:
    return k.compare("eq", n, _mask_shift(k, n))


# Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC11): Threefry
# with two words of 32 bits, the rotations of its rounds and the parity word of the key.
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
ROUNDS = 20


def _halves(k: Builder, x: Operand) -> tuple[Operand, Operand]:
    return k.cast(x, int32), k.cast(k.apply("shr", x, 32), int32)


def _rotate_left(k: Builder, x: Operand, n: int) -> Operand:
    """The bits of an int32, ``n`` places to the left and round."""
    low = k.apply("and", k.apply("shr", x, 32 - n), (1 << n) - 1)
    return k.apply("or", k.apply("shl", x, n), low)


def threefry(k: Builder, key: Operand, counter: Operand) -> Operand:
    """Threefry-2x32-20 of int64 operands, the first words in their low halves."""
    first, second = _halves(k, key)
    parity = k.apply("xor", k.apply("xor", first, second), PARITY)
    keys = (first, second, parity)
    x, y = _halves(k, counter)
    x, y = k.add(x, first), k.add(y, second)
    for i in range(ROUNDS):
        x = k.add(x, y)
        y = k.apply("xor", _rotate_left(k, y, ROTATIONS[i % 8]), x)
        if i % 4 == 3:
            n = i // 4 + 1
            x, y = k.add(x, keys[n % 3]), k.add(k.add(y, keys[(n + 1) % 3]), n)
    low = k.apply("and", k.cast(x, int64), 0xFFFFFFFF)
    return k.apply("or", k.apply("shl", k.cast(y, int64), 32), low)
