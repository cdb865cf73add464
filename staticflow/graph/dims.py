"""Sizes that may be unknown until the program runs, with exact integer arithmetic.

A `Size` is a Python int or a `Dim`. A `Dim` is a polynomial with integer coefficients over *atoms*:
symbols (`Sym`), floor divisions, maxima, minima and square roots. Arithmetic keeps it canonical, so
two sizes that are equal as polynomials are equal as Python objects, and an operation whose result
is known gives an int. The remainder has no atom of its own: ``e % d`` is ``e - d * (e // d)``, so
that ``(e // d) * d + e % d`` cancels to ``e``.

The same arithmetic serves as the index arithmetic of the Kernel IR, where loop variables are
symbols too. A symbol is a non-negative integer; one with an ``upper`` bound is smaller than it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from staticflow.errors import ShapeError, SymbolicError
from staticflow.graph.locs import format_locs, here
from staticflow.graph.proofs import is_provably_ge
from staticflow.graph.reals import Real
from staticflow.graph.terms import (
    Atom,
    Call,
    Monomial,
    Sym,
    Terms,
    collect,
    key_of,
    terms_of,
    text_of,
    times,
)

__all__ = [
    "CALLS",
    "Call",
    "Dim",
    "Size",
    "Sym",
    "ceil_div",
    "closed_size",
    "dim_max",
    "dim_min",
    "floor_div",
    "fresh_sym",
    "is_provably_ge",
    "prod",
    "root",
    "same",
    "same_shape",
    "size_from",
    "terms_of",
    "total",
]

_serials = itertools.count(1)


def fresh_sym(name: str, upper: Size | None = None, late: bool = False) -> Dim:
    """A size equal to no other, printed as ``name``; below ``upper`` if that is given; for an op to
    bind if it is ``late``."""
    return Dim.of(Sym(name, next(_serials), closed_size(upper), late))


class Dim(Real):
    """A size that is not a plain int; see the module. Immutable and hashable.

    >>> n = Dim.of(Sym("N"))
    >>> (n + 1) * 2 - n
    N + 2
    >>> (2 * n) // 2 == n
    True
    """

    __slots__ = ("_hash", "_key", "_symbols", "terms")
    terms: Terms
    _hash: int
    _key: tuple[Any, ...]
    _symbols: frozenset[Sym]

    def __init__(self, terms: Terms) -> None:
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "_hash", hash(terms))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Dim is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return Dim, (self.terms,)

    @property
    def dim(self) -> Dim:
        """The size that compares as an expression: this one."""
        return self

    @staticmethod
    def of(atom: Atom) -> Dim:
        """The size that is this one atom."""
        return Dim((((atom,), 1),))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Dim) and self.terms == other.terms)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return text_of(self.terms)

    # arithmetic
    def __add__(self, other: Size) -> Size:
        if isinstance(other, int):
            return self._plus(other)
        if not isinstance(other, Dim):
            return Real.number(self) + other if isinstance(other, float) else NotImplemented
        return _build(itertools.chain(self.terms, other.terms))

    __radd__ = __add__

    def __neg__(self) -> Size:
        return Dim(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Size) -> Size:
        if not isinstance(other, (int, Dim, float)):
            return NotImplemented
        return self + -other

    def __rsub__(self, other: Size) -> Size:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return -self + other

    def __mul__(self, other: Size) -> Size:
        if isinstance(other, int):
            return Dim(tuple((m, c * other) for m, c in self.terms)) if other else 0
        if not isinstance(other, Dim):
            return Real.number(self) * other if isinstance(other, float) else NotImplemented
        return _build(times(self.terms, other.terms))

    __rmul__ = __mul__

    def _plus(self, number: int) -> Size:
        """The sum with a number, which stands behind all other terms."""
        *rest, (monomial, c) = self.terms
        if monomial != ():
            return Dim((*self.terms, ((), number))) if number else self
        return Dim((*rest, ((), c + number))) if c + number else Dim(tuple(rest))

    def __floordiv__(self, other: Size) -> Size:
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        return floor_div(self, other)

    def __rfloordiv__(self, other: Size) -> Size:
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        return floor_div(other, self)

    def __mod__(self, other: Size) -> Size:
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        return self - floor_div(self, other) * other

    def __rmod__(self, other: Size) -> Size:
        if not isinstance(other, (int, Dim)):
            return NotImplemented
        return other - floor_div(other, self) * self

    # order: only what holds for every non-negative value of the symbols
    def __ge__(self, other: Size) -> bool:
        if not isinstance(other, (int, float, Real)):
            return NotImplemented
        return _decide(self, _whole(other, math.ceil), f"{self} >= {other}")

    def __le__(self, other: Size) -> bool:
        if not isinstance(other, (int, float, Real)):
            return NotImplemented
        return _decide(_whole(other, math.floor), self, f"{self} <= {other}")

    def __gt__(self, other: Size) -> bool:
        if not isinstance(other, (int, float, Real)):
            return NotImplemented
        return _decide(self, _whole(other, math.floor) + 1, f"{self} > {other}")

    def __lt__(self, other: Size) -> bool:
        if not isinstance(other, (int, float, Real)):
            return NotImplemented
        return _decide(_whole(other, math.ceil), self + 1, f"{self} < {other}")

    def __bool__(self) -> bool:
        return _decide(self, 1, f"bool({self})")


Size: TypeAlias = int | Dim


def same(a: Size, b: Size) -> bool:
    """Whether two sizes are one expression, and so equal whatever their symbols are. Unlike ``==``
    it never refuses to answer for a size that a user holds (`staticflow.graph.open_size`).

    >>> n = Dim.of(Sym("N"))
    >>> same(n, n + 1 - 1), same(n, 1)
    (True, False)
    """
    if isinstance(a, Dim):
        return isinstance(b, Dim) and a.terms == b.terms
    return not isinstance(b, Dim) and a == b


def same_shape(a: Sequence[Size], b: Sequence[Size]) -> bool:
    """Whether two shapes are of the `same` sizes."""
    return len(a) == len(b) and all(map(same, a, b))


def closed_size(size: Any) -> Any:
    """A size as the framework compares it, not as a user does; anything else as it is."""
    return size.dim if isinstance(size, Dim) else size


def _build(terms: Iterable[tuple[Monomial, int]]) -> Size:
    return size_from(collect(terms))


def size_from(terms: Terms) -> Size:
    """The size of terms that are collected: an int or a `Dim`."""
    if not terms:
        return 0
    if len(terms) == 1 and not terms[0][0]:
        return terms[0][1]
    return Dim(terms)


def _whole(number: Any, rounded: Callable[[float], int]) -> Size:
    """What a size is compared with: a number that is none is ``rounded`` to one, which a size is on
    the same side of."""
    if isinstance(number, (int, Dim)):
        return number
    if not math.isfinite(number):
        raise SymbolicError(
            f"a size is compared with {number}; it must be a finite number, at "
            f"{format_locs(here())}"
        )
    return rounded(number)


def _decide(big: Size, small: Size, question: str) -> bool:
    if is_provably_ge(big, small):
        return True
    if is_provably_ge(small - 1, big):
        return False
    raise SymbolicError(
        f"whether {question} depends on sizes known only when the program runs, so Python cannot "
        "branch on it; select with sf.where, or have the sizes known, by numbers in the "
        f"placeholders or sf.jit(fn, dynamic=False), at {format_locs(here())}"
    )


def floor_div(a: Size, b: Size) -> Size:
    """``a // b``, rounded towards minus infinity as Python does; ``b`` is positive.

    Terms that ``b`` divides leave the division, and a rest that is provably in ``[0, b)`` gives 0.
    """
    a, b = closed_size(a), closed_size(b)
    if isinstance(b, int) and b == 0:
        raise ShapeError(f"the size {a} is divided by zero")
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if b == 1:
        return a
    if a == b:
        return 1
    whole: Size = 0
    rest: Size = 0
    for monomial, c in terms_of(a):
        quotient = _divide_term(monomial, c, b)
        if quotient is None:
            rest = rest + _build([(monomial, c)])
        else:
            whole = whole + quotient
    if isinstance(rest, int) and isinstance(b, int):
        return whole + rest // b
    if rest == 0 or (is_provably_ge(rest, 0) and is_provably_ge(b, rest + 1)):
        return whole
    if isinstance(rest, Dim) and len(rest.terms) == 1 and rest.terms[0][1] == 1:
        ((monomial, _),) = rest.terms
        inner = monomial[0]
        if len(monomial) == 1 and isinstance(inner, Call) and inner.fn == "floordiv":
            return whole + floor_div(inner.a, inner.b * b)  # (e // c) // d = e // (c d)
    return whole + Dim.of(Call("floordiv", rest, b))


def _divide_term(monomial: Monomial, c: int, b: Size) -> Size | None:
    """The exact quotient of one term by ``b``, or None if ``b`` does not divide it."""
    if isinstance(b, int):
        return _build([(monomial, c // b)]) if c % b == 0 else None
    if len(b.terms) != 1:
        return None
    ((divisor, d),) = b.terms
    if c % d:
        return None
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return _build([(tuple(left), c // d)])


def ceil_div(a: Size, b: Size) -> Size:
    """``a / b`` rounded up."""
    return floor_div(a + b - 1, b)


def _choose(fn: str, a: Size, b: Size, a_wins: bool, b_wins: bool) -> Size:
    a, b = closed_size(a), closed_size(b)
    if a_wins:
        return a
    if b_wins:
        return b
    first, second = sorted((a, b), key=key_of)
    return Dim.of(Call(fn, first, second))


def dim_max(a: Size, b: Size) -> Size:
    """The larger of two sizes."""
    return _choose("max", a, b, is_provably_ge(a, b), is_provably_ge(b, a))


def dim_min(a: Size, b: Size) -> Size:
    """The smaller of two sizes."""
    return _choose("min", a, b, is_provably_ge(b, a), is_provably_ge(a, b))


def root(a: Size, b: Size = 1) -> Size:
    """The square root of ``a * b``, both non-negative and their product below 2**52, rounded down.

    >>> root(17)
    4
    """
    a, b = closed_size(a), closed_size(b)
    if isinstance(a, int) and isinstance(b, int):
        return math.isqrt(a * b)
    first, second = sorted((a, b), key=key_of)
    return Dim.of(Call("root", first, second))


CALLS: dict[str, Callable[[Size, Size], Size]] = {
    "floordiv": floor_div,
    "max": dim_max,
    "min": dim_min,
    "root": root,
}


def total(sizes: Iterable[Size]) -> Size:
    """The sum of sizes, 0 if there are none: all terms are collected once, where `sum` would do so
    for every size.

    >>> n, m = Dim.of(Sym("N")), Dim.of(Sym("M"))
    >>> total([n, 2, m, n])
    M + 2*N + 2
    """
    return _build(term for size in sizes for term in terms_of(size))


def prod(sizes: Iterable[Size]) -> Size:
    """The product of sizes, 1 if there are none."""
    return math.prod(sizes)
