"""Polynomials with integer coefficients over *atoms*, as tuples of terms: what a `Dim` consists of.

A term is a monomial, a sorted tuple of atoms, and its coefficient. An atom is a symbol, or a
`Call`: a division, maximum, minimum or root of two sizes. Terms are sorted and none is zero, so
that equal polynomials are equal tuples; no terms at all are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from staticflow.data_classes import dataclass

if TYPE_CHECKING:
    from staticflow.graph.dims import Size

__all__ = [
    "Atom", "Bounds", "Call", "Monomial", "Sym", "Terms", "bounds_of", "collect", "key_of",
    "product_of", "replace_atoms", "symbols_in", "terms_of", "text_of", "times",
]  # fmt: skip

Atom: TypeAlias = Union["Sym", "Call"]
Monomial: TypeAlias = tuple[Atom, ...]
"""Sorted, an atom repeated for a power; () is 1."""

Terms: TypeAlias = tuple[tuple[Monomial, int], ...]
Bounds: TypeAlias = "tuple[Size, ...] | None"

_NO_SYMBOLS: frozenset[Sym] = frozenset()
_KEY = attrgetter("key")


@dataclass(frozen=True, slots=True)
class Sym:
    """A named unknown. Serial 0 is the user's own name, equal wherever it is written. One that is
    ``late`` is known only when an op has run that binds it: the ``binder`` is the first node that
    was made to do so. The ``key`` orders atoms, so that polynomials have one form."""

    name: str
    serial: int = 0
    upper: Size | None = field(default=None, compare=False)
    late: bool = field(default=False, compare=False)
    binder: Any = field(default=None, init=False, repr=False, compare=False)
    key: tuple[Any, ...] = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (0, self.name, self.serial))
        object.__setattr__(self, "_hash", hash((self.name, self.serial)))

    def __hash__(self) -> int:
        return self._hash

    def bound_by(self, node: Any) -> None:
        """Note what binds it, unless that is known."""
        if self.binder is None:
            object.__setattr__(self, "binder", node)

    def __reduce__(self) -> tuple[Any, ...]:
        return Sym, (self.name, self.serial, self.upper, self.late)  # hashes differ by process

    def __str__(self) -> str:
        return self.name

    def sort_key(self) -> tuple[Any, ...]:
        """A total order over symbols."""
        return self.key


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """An atom that is no symbol: ``floordiv``, ``max``, ``min`` or ``root`` of two sizes. The
    ``key`` puts it after all symbols, by structure: symbols of one name differ in their serials.
    What a proof and a search ask again and again, its ``symbols`` and their ``bounds``, it knows.
    """

    fn: str
    a: Size
    b: Size
    key: tuple[Any, ...] = field(init=False, repr=False)
    symbols: frozenset[Sym] = field(init=False, repr=False)
    bounds: Bounds = field(init=False, repr=False)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        a, b = terms_of(self.a), terms_of(self.b)
        object.__setattr__(self, "key", (1, self.fn, key_of(self.a), key_of(self.b)))
        object.__setattr__(self, "symbols", symbols_in(a) | symbols_in(b))
        object.__setattr__(self, "bounds", bounds_of((*a, *b)))
        object.__setattr__(self, "_hash", hash((self.fn, self.a, self.b)))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Call)
            and self._hash == other._hash
            and (self.fn, self.a, self.b) == (other.fn, other.a, other.b)
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Call, (self.fn, self.a, self.b)  # hashes differ by process

    def __str__(self) -> str:
        if self.fn == "floordiv":
            return f"{_in_product(self.a)}//{_in_product(self.b)}"
        return f"{self.fn}({self.a}, {self.b})"


# -- of terms --------------------------------------------------------------------------------------


def terms_of(size: Size) -> Terms:
    """The terms of a size, (monomial, coefficient); an int has at most one."""
    if isinstance(size, int):
        return (((), size),) if size else ()
    return size.terms


def symbols_in(terms: Terms) -> frozenset[Sym]:
    """The symbols that occur anywhere in ``terms``."""
    found: set[Sym] = set()
    for monomial, _ in terms:
        for atom in monomial:
            if isinstance(atom, Sym):
                found.add(atom)
            else:
                found |= atom.symbols
    return frozenset(found) if found else _NO_SYMBOLS


def bounds_of(terms: Terms) -> Bounds:
    """The upper bounds of the symbols in ``terms``, in order of occurrence, each before those that
    it names itself: with the terms they are all that a proof depends on, as equal symbols may be
    bounded differently. None where a symbol is late."""
    found: list[Size] = []
    for monomial, _ in terms:
        for atom in monomial:
            if isinstance(atom, Call):
                inner = atom.bounds
            elif atom.late:
                return None
            elif atom.upper is None:
                continue
            else:
                inner = bounds_of(terms_of(atom.upper))
                found.append(atom.upper)
            if inner is None:
                return None
            found += inner
    return tuple(found)


def key_of(size: Size) -> tuple[Any, ...]:
    """The order of sizes inside atoms, which a `Dim` keeps: else a division of a division would go
    all the way down each time."""
    if isinstance(size, int):
        return (((0, ()), size),) if size else ()
    if not hasattr(size, "_key"):
        object.__setattr__(size, "_key", tuple([(_monomial_key(m), c) for m, c in size.terms]))
    key: tuple[Any, ...] = size._key
    return key


def _monomial_key(m: Monomial) -> tuple[Any, ...]:
    return (-len(m), tuple([a.key for a in m]))


# -- arithmetic ------------------------------------------------------------------------------------


def collect(terms: Iterable[tuple[Monomial, int]]) -> Terms:
    """The sum of terms in any order, of which several may have one monomial."""
    total: dict[Monomial, int] = {}
    for monomial, c in terms:
        total[monomial] = total.get(monomial, 0) + c
    kept = [(m, c) for m, c in total.items() if c]
    if len(kept) > 1:
        kept.sort(key=_term_key)
    return tuple(kept)


def _term_key(term: tuple[Monomial, int]) -> tuple[Any, ...]:
    return _monomial_key(term[0])


def product_of(m: Monomial, n: Monomial) -> Monomial:
    """The product of two monomials."""
    if not m or not n:
        return m or n
    return tuple(sorted(m + n, key=_KEY))


def times(a: Terms, b: Terms) -> list[tuple[Monomial, int]]:
    """The terms of a product, not yet collected."""
    return [(product_of(m, n), c * d) for m, c in a for n, d in b]


def replace_atoms(terms: Terms, value_of: Callable[[Atom], Terms | None]) -> Terms:
    """``terms`` with the value of each atom in its place, if it has one."""
    total: list[tuple[Monomial, int]] = []
    changes = False
    for monomial, c in terms:
        values = [value_of(atom) for atom in monomial]
        if all(v is None for v in values):
            total.append((monomial, c))
            continue
        changes = True
        stay = tuple([a for a, v in zip(monomial, values, strict=True) if v is None])
        piece: Terms = ((stay, c),)
        for value in values:
            if value is not None:
                piece = collect(times(piece, value))
        total += piece
    return collect(total) if changes else terms


# -- text ------------------------------------------------------------------------------------------


def text_of(terms: Terms) -> str:
    """Terms as Python writes them: ``2*N + 1``."""
    text = ""
    for monomial, c in terms:
        alone = len(monomial) == 1 and c == 1
        factors = [str(a) if alone else _in_product(a) for a in monomial]
        if abs(c) != 1 or not factors:
            factors.insert(0, str(abs(c)))
        sign = (" - " if c < 0 else " + ") if text else ("-" if c < 0 else "")
        text += sign + "*".join(factors)
    return text


def _in_product(part: Size | Atom) -> str:
    """The text of a factor or divisor, in parentheses where a Python reader would need them."""
    text = str(part)
    plain = text.replace(".", "").isidentifier() or text.isdigit() or _is_extreme(part)
    return text if plain else f"({text})"


def _is_extreme(part: Size | Atom) -> bool:
    if isinstance(part, Call):
        return part.fn != "floordiv"
    if isinstance(part, int | Sym) or len(part.terms) != 1:
        return False
    ((monomial, c),) = part.terms
    return c == 1 and len(monomial) == 1 and _is_extreme(monomial[0])
