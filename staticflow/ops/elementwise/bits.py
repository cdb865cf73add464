"""Bits of integers and bools, element by element."""

from __future__ import annotations

from typing import Any

from staticflow.ops.declaring.declare import elementwise

__all__ = [
    "bitwise_and", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor",
]  # fmt: skip


def _bitwise(name: str, primitive: str, doc: str) -> Any:
    return elementwise(
        name, doc, name,
        lambda k, *xs: k.apply(primitive, *xs),
        kinds="biu", numbers="wrap",
    )  # fmt: skip


bitwise_and = _bitwise("bitwise_and", "and", "The bits that both ``x`` and ``y`` have.")
bitwise_or = _bitwise("bitwise_or", "or", "The bits that ``x`` or ``y`` has.")
bitwise_xor = _bitwise("bitwise_xor", "xor", "The bits in which ``x`` and ``y`` differ.")
bitwise_not = _bitwise("bitwise_not", "not", "The bits that ``x`` has not.")


bitwise_left_shift = elementwise(
    "bitwise_left_shift",
    "``x * 2**n``, wrapping; 0 where ``n`` is negative or as large as the dtype is wide.",
    "left_shift",
    lambda k, x, n: k.left_shift(x, n),
    kinds="iu", numbers="wrap",
)  # fmt: skip

bitwise_right_shift = elementwise(
    "bitwise_right_shift",
    "``x / 2**n`` rounded down; 0 or -1, the sign, where ``n`` is negative or as large as the "
    "dtype is wide.",
    "right_shift",
    lambda k, x, n: k.right_shift(x, n),
    kinds="iu", numbers="wrap",
)  # fmt: skip
