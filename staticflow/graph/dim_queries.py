"""What one asks of a size, and what it becomes when symbols get values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from staticflow.graph.dims import CALLS, Dim, Size, size_from
from staticflow.graph.terms import Atom, Call, Sym, Terms, replace_atoms, symbols_in, terms_of

__all__ = [
    "as_call", "as_symbol", "coefficient", "divisors_of", "evaluate_dim", "substitute_dim",
    "symbols_of",
]  # fmt: skip


def substitute_dim(size: Size, values: Mapping[Sym, Size]) -> Size:
    """``size`` with symbols replaced, simplified anew; symbols not in ``values`` stay."""
    if isinstance(size, int) or values.keys().isdisjoint(symbols_of(size)):
        return size

    def value_of(atom: Atom) -> Terms | None:
        if isinstance(atom, Sym):
            return terms_of(values[atom]) if atom in values else None
        if values.keys().isdisjoint(atom.symbols):
            return None
        a, b = substitute_dim(atom.a, values), substitute_dim(atom.b, values)
        return terms_of(CALLS[atom.fn](a, b))

    return size_from(replace_atoms(size.terms, value_of))


def evaluate_dim(size: Size, values: Mapping[Sym, int]) -> int:
    """The number that ``size`` is where the symbols have ``values``; KeyError if one is missing."""
    if isinstance(size, int):
        return size
    total = 0
    for monomial, c in size.terms:
        piece = c
        for atom in monomial:
            if isinstance(atom, Sym):
                piece *= values[atom]
            else:
                a, b = evaluate_dim(atom.a, values), evaluate_dim(atom.b, values)
                piece *= _EVALUATE[atom.fn](a, b)
        total += piece
    return total


_EVALUATE: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda a, b: a // max(b, 1),  # as kernels do: a size of 0 is refused elsewhere
    "max": max,
    "min": min,
    "root": lambda a, b: math.isqrt(a * b),
}


def divisors_of(size: Size) -> Iterator[Size]:
    """What is divided by in a size, each after what is divided by in it."""
    for monomial, _ in terms_of(size):
        for atom in monomial:
            if not isinstance(atom, Sym):
                yield from (*divisors_of(atom.a), *divisors_of(atom.b))
                if atom.fn == "floordiv":
                    yield atom.b


def symbols_of(size: Size) -> frozenset[Sym]:
    """The symbols that occur anywhere in ``size``, which keeps them."""
    if isinstance(size, int):
        return _NO_SYMBOLS
    if not hasattr(size, "_symbols"):
        object.__setattr__(size, "_symbols", symbols_in(size.terms))
    return size._symbols


_NO_SYMBOLS = frozenset[Sym]()


def as_symbol(size: Size) -> Sym | None:
    """The symbol that ``size`` is, if it is nothing more."""
    atom = _as_atom(size)
    return atom if isinstance(atom, Sym) else None


def as_call(size: Size) -> Call | None:
    """The division, maximum, minimum or root that ``size`` is, if it is nothing more."""
    atom = _as_atom(size)
    return atom if isinstance(atom, Call) else None


def _as_atom(size: Size) -> Atom | None:
    if isinstance(size, int) or len(size.terms) != 1:
        return None
    ((monomial, c),) = size.terms
    return monomial[0] if c == 1 and len(monomial) == 1 else None


def coefficient(size: Size, sym: Sym) -> Size | None:
    """``s`` where ``size = s * sym + rest`` with neither naming ``sym``; None if not of that form.

    >>> i = Sym("i"); n = Dim.of(Sym("N"))
    >>> coefficient(Dim.of(i) * n + 3, i)
    N
    """
    stride: Size = 0
    for monomial, c in terms_of(size):
        power = 0
        for atom in monomial:
            if isinstance(atom, Call):
                if sym in atom.symbols:
                    return None
            elif atom.key == sym.key:
                power += 1
        if power > 1:
            return None
        if power == 1:
            left = list(monomial)
            left.remove(sym)
            stride = stride + (Dim(((tuple(left), c),)) if left else c)
    return stride
