"""Whether the sizes of a call are small enough to be computed with in 64 bits."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from math import prod
from types import MappingProxyType
from typing import NamedTuple

from staticflow.graph.dims import Size, Sym, is_provably_ge, terms_of
from staticflow.graph.terms import Atom, Call

__all__ = ["size_limit"]

_BITS = 62
"""Sizes in bytes stay below two to this power, so that a sum of two is an int64 still."""


def size_limit(sizes: Iterable[Size], limits: Mapping[Sym, int] = MappingProxyType({})) -> int:
    """The largest power of two that every unknown may be with each of ``sizes`` in 62 bits, where
    some unknowns have ``limits`` already.

    >>> from staticflow.graph.dims import dim_min, fresh_sym
    >>> n = fresh_sym("N")
    >>> size_limit([4 * n * n]) == 2**30
    True
    >>> size_limit([n * dim_min(n, 16)]) == 2**58
    True
    >>> m = fresh_sym("M")
    >>> size_limit([4 * n * m], {m.terms[0][0][0]: 2**20}) == 2**40
    True
    """
    listed = list(dict.fromkeys(sizes))

    def fit(bits: int) -> bool:
        unknown = _Limits(1 << bits, limits, {})
        return all(_reach(size, unknown).parts <= 1 << _BITS for size in listed)

    # what sizes reach grows with what the unknowns may be: they fit up to some power of two
    return 1 << bisect_left(range(1, _BITS + 1), True, key=lambda bits: not fit(bits))


class _Limits(NamedTuple):
    """The most that each of some unknowns is, and any other; what atoms ``reach`` with these."""

    most: int
    known: Mapping[Sym, int]
    reach: dict[Atom, _Reach]


class _Reach(NamedTuple):
    """Numbers that the magnitudes of a size, and of all that is computed for it, do not exceed."""

    value: int
    parts: int


def _reach(size: Size, limits: _Limits) -> _Reach:
    """What a size comes to with unknowns up to their limits."""
    value = total = parts = 0
    for monomial, c in terms_of(size):
        atoms = [_atom_reach(atom, limits) for atom in monomial]
        value += abs(c) * prod(atom.value for atom in atoms)
        total += abs(c) * prod(max(atom.value, 1) for atom in atoms)  # of a product, as it grows
        parts = max(parts, *(atom.parts for atom in atoms), 0)
    return _Reach(value, max(parts, total))


def _atom_reach(atom: Atom, limits: _Limits) -> _Reach:
    if isinstance(atom, Sym):
        most = limits.known.get(atom, limits.most)
        return _Reach(most, most)
    known = limits.reach.get(atom)
    if known is None:
        known = limits.reach[atom] = _call_reach(atom, limits)
    return known


def _call_reach(atom: Call, limits: _Limits) -> _Reach:
    a, b = _reach(atom.a, limits), _reach(atom.b, limits)
    value = _VALUES[atom.fn](a.value, b.value)
    if atom.fn == "min" and is_provably_ge(atom.a, 0) and is_provably_ge(atom.b, 0):
        value = min(a.value, b.value)
    return _Reach(value, max(value, a.parts, b.parts))


_VALUES: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda a, b: a,
    "max": max,
    "min": max,  # of numbers of either sign
    "root": lambda a, b: a * b,
}
"""A magnitude that the result of each function does not exceed, by those of its arguments."""
