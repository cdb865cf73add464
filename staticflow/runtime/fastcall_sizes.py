"""Whether the sizes of a call are small enough to be computed with in 64 bits."""

from __future__ import annotations

from collections.abc import Iterable

from staticflow.graph.dims import Call, Size, terms_of

__all__ = ["size_limit"]

_BITS = 62
"""Sizes in bytes stay below two to this power, so that a sum of two is an int64 still."""


def size_limit(sizes: Iterable[Size]) -> int:
    """The largest power of two that every unknown may be with each of ``sizes`` in 62 bits.

    >>> from staticflow.graph.dims import fresh_sym
    >>> n = fresh_sym("N")
    >>> size_limit([4 * n * n]) == 2**30
    True
    """
    listed = list(sizes)
    for bits in range(_BITS, 0, -1):
        if all(_reach(size, 1 << bits) <= 1 << _BITS for size in listed):
            return 1 << bits
    return 1


def _reach(size: Size, largest: int) -> int:
    """A number that no part of ``size`` exceeds, in magnitude, with unknowns up to ``largest``."""
    total = 0
    for monomial, c in terms_of(size):
        piece = abs(c)
        for atom in monomial:
            piece *= _call_reach(atom, largest) if isinstance(atom, Call) else largest
        total += piece
    return total


def _call_reach(call: Call, largest: int) -> int:
    """Of a quotient the dividend, which is computed first; of a choice the larger; of a root the
    product."""
    if call.fn == "root":
        return _reach(call.a, largest) * _reach(call.b, largest)
    return max(_reach(call.a, largest), _reach(call.b, largest), 1)
