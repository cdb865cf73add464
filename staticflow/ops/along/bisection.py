"""The element of a rank in a row that the nearest caches hold, bit by bit, as kernels find it.

The integers of a row (`staticflow.ops.indexing.radix.integer_of`) are counted in vectors by whether
they are smaller than a bound, which is halfway between those that the one sought lies between; the
bound says a bit of it more each time. Only bits in which integers of the row differ are asked for,
and none once a single integer is left between the bounds: of a row of random numbers that takes the
logarithm of its length and a few rounds more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.graph.dims import Size
from staticflow.graph.dtypes import DType, bool_, int64

__all__ = ["bits_of", "find_bits", "find_by_bounds"]


def find_by_bounds(
    nest: Any, n: Size, dtype: DType, integer_at: Callable[[Size], Any], differ: Any, rank: Any
) -> tuple[Any, Any, Any]:
    """The position of the element of a ``rank`` in a row of ``n`` of a ``dtype``, how many equal
    ones are before it, and its integer. ``integer_at`` loads the integers of the row, and
    ``differ`` has the bits in which any of these is not as the first."""
    k, width = nest.k, differ.dtype
    bits = (
        8 * dtype.itemsize if dtype.kind in "if" else width.bits
    )  # of shorter ones the sign goes on
    sign = -(1 << (bits - 1))
    shared = k.apply("and", integer_at(0), k.apply("xor", differ, -1))
    least = k.var(k.apply("xor", shared, k.apply("and", differ, sign)))
    most = k.var(k.const((1 << (width.bits - 1)) - 1, width))
    below, through = k.var(k.const(0, int64)), k.var(k.index_value(n))
    going = k.var(k.const(True, bool_))
    with k.loop("round", bits, going=going) as number:
        one = k.select(k.compare("eq", k.index_value(number), 0), -1, k.const(1, width))
        bit = k.apply("shl", one, k.cast(k.index_value(bits - 1 - number), width))
        with k.when(k.compare("ne", k.apply("and", differ, bit), 0)):
            bound = k.freeze(k.var(k.apply("xor", least, bit)))
            smaller = k.var(k.const(0, width))
            with k.loop("j", n) as j, nest.lanes_along(j):
                less = k.compare("lt", integer_at(j), bound)
                k.accumulate(smaller, "add", k.cast(less, width))
            count = k.cast(k.freeze(smaller), int64)
            is_above = k.compare("ge", rank, count)
            k.set(least, k.select(is_above, bound, least))
            k.set(most, k.select(is_above, most, k.sub(bound, 1)))
            k.set(below, k.select(is_above, count, below))
            k.set(through, k.select(is_above, through, count))
            k.set(going, k.compare("gt", k.sub(through, below), 1))
    low, high = k.freeze(least), k.freeze(most)

    def is_between(j: Size) -> Any:
        number = integer_at(j)
        return k.apply("and", k.compare("ge", number, low), k.compare("le", number, high))

    before = k.freeze(k.var(k.sub(rank, below)))
    position = k.var(k.const(-1, int64))
    with k.loop("j", n) as j, nest.lanes_along(j):
        k.accumulate(position, "max", k.select(is_between(j), k.index_value(j), -1))
    with k.when(k.compare("gt", k.sub(through, below), 1)):  # which are equal
        left = k.var(before)
        with k.loop("j", n, going=going) as j:
            k.set(position, k.index_value(j))
            k.set(left, k.sub(left, k.cast(k.compare("eq", integer_at(j), low), int64)))
            k.set(going, k.compare("ge", left, 0))
    at = k.freeze(position)
    return at, before, integer_at(k.bind(at, "position", n))


_POSITION_BITS = 48
"""Bits of a position in a row of unknown length."""


def bits_of(n: Size) -> int:
    """Bits that the positions of a row of ``n`` elements have at most."""
    return n.bit_length() if isinstance(n, int) else _POSITION_BITS


def find_bits(
    nest: Any,
    n: Size,
    left: Any,
    bits: int,
    dtype: Any,
    number_at: Callable[[Size], Any],
    takes_part: Callable[[Size], Any] = lambda j: None,
) -> Any:
    """The one of ``n`` numbers, of so many ``bits``, that as many others are smaller than or equal
    to as ``left`` says, a variable that in the end says how many equal ones are before it."""
    k = nest.k
    found = k.var(k.const(0, dtype))
    with k.loop("round", bits) as number:
        bit = k.cast(k.index_value(bits - 1 - number), found.dtype)
        zeros = k.var(k.const(0, int64))
        with k.loop("j", n) as j:
            differs = k.apply("shr", k.apply("xor", number_at(j), found), bit)
            is_zero, counts = k.compare("eq", differs, 0), takes_part(j)
            is_zero = is_zero if counts is None else k.apply("and", is_zero, counts)
            k.accumulate(zeros, "add", k.cast(is_zero, int64))
        count = k.freeze(zeros)
        is_one = k.compare("ge", left, count)
        one = k.apply("shl", k.const(1, found.dtype), bit)
        k.set(found, k.select(is_one, k.apply("or", found, one), found))
        k.set(left, k.select(is_one, k.sub(left, count), left))
    return k.freeze(found)
