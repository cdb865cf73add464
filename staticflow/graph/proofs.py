"""What holds for every value that the symbols of a size can take.

A symbol is a non-negative integer, and smaller than its ``upper`` bound if it has one. A proof
tries what is cheap first: signs, then bounds, then one choice after another for maxima and minima.
The compiler asks the same of the same sizes many times (20 times on average, for attention with all
sizes open), so what was proved or not is remembered.
"""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from staticflow.graph.terms import (
    Atom,
    Bounds,
    Call,
    Monomial,
    Sym,
    Terms,
    bounds_of,
    collect,
    replace_atoms,
    terms_of,
    times,
)

if TYPE_CHECKING:
    from staticflow.graph.dims import Size

__all__ = ["is_provably_ge"]

_ONE_LESS: Terms = (((), -1),)


def is_provably_ge(a: Size, b: Size) -> bool:
    """Whether ``a >= b`` for every value that the symbols can take. False means "not proved".

    >>> from staticflow.graph.dims import Dim, Sym
    >>> n = Dim.of(Sym("N"))
    >>> is_provably_ge(2 * n, n), is_provably_ge(n, 1)
    (True, False)
    """
    if isinstance(b, int):
        if isinstance(a, int):
            return a >= b
        return _is_nonnegative(terms_of(a - b if b else a))  # half of all questions
    return _is_nonnegative(collect((*terms_of(a), *((m, -c) for m, c in terms_of(b)))))


def _is_nonnegative(terms: Terms) -> bool:
    """Whether the sum of ``terms`` is provably 0 or more."""
    if all(c >= 0 and all(type(a) is Sym for a in m) for m, c in terms):
        return True
    if len(terms) == 1 and not terms[0][0]:
        return False
    bounds = bounds_of(terms)  # a late symbol leads to a node, which is not to be remembered
    return _prove(terms) if bounds is None else _prove_once(terms, bounds)


@lru_cache(1 << 13)
def _prove_once(terms: Terms, bounds: Bounds) -> bool:
    return _prove(terms)


def _prove(terms: Terms) -> bool:
    if all(c >= 0 and all(map(_is_atom_nonnegative, m)) for m, c in terms):
        return True
    low = _lowest(terms)
    if low != terms and _is_nonnegative(low):
        return True
    low = _with_quotients_lowest(terms)
    if low != terms and _is_nonnegative(low):
        return True
    return _holds_for_choices(terms)


def _is_atom_nonnegative(atom: Atom) -> bool:
    if isinstance(atom, Sym):
        return True
    enough = any if atom.fn == "max" else all
    return enough(_is_nonnegative(terms_of(part)) for part in (atom.a, atom.b))


def _lowest(terms: Terms) -> Terms:
    """Every bounded symbol that is subtracted, at its largest."""
    return collect(
        part
        for term in terms
        for part in (replace_atoms((term,), _largest) if _is_subtracted(*term) else (term,))
    )


def _is_subtracted(monomial: tuple[Atom, ...], c: int) -> bool:
    return c < 0 and all(map(_is_atom_nonnegative, monomial))


def _largest(atom: Atom) -> Terms | None:
    if isinstance(atom, Call) or atom.upper is None:
        return None
    return collect((*terms_of(atom.upper), *_ONE_LESS))


def _with_quotients_lowest(terms: Terms) -> Terms:
    """Every quotient times its divisor at the smallest that it can be: ``a // b * b`` is at most
    ``a``, where it is subtracted, and above ``a - b``, where it is added."""
    quotients = {a for m, _ in terms for a in m if isinstance(a, Call) and a.fn == "floordiv"}
    for quotient in sorted(quotients, key=attrgetter("key")):  # one may take another with it
        divisor = terms_of(quotient.b)
        share = _exact_quotient(_factor_of(quotient, terms), divisor)
        if share is None or not _is_nonnegative(divisor):
            continue
        (others, c) = share
        if not all(map(_is_atom_nonnegative, others)):
            continue
        least = terms_of(quotient.a if c < 0 else quotient.a - quotient.b + 1)
        kept = (term for term in terms if quotient not in term[0])
        terms = collect((*kept, *times((share,), least)))
    return terms


def _factor_of(atom: Atom, terms: Terms) -> Terms:
    """What an atom is multiplied with in ``terms``."""
    found = []
    for monomial, c in terms:
        if atom in monomial:
            left = list(monomial)
            left.remove(atom)
            found.append((tuple(left), c))
    return collect(found)


def _exact_quotient(terms: Terms, divisor: Terms) -> tuple[Monomial, int] | None:
    """The one term that gives ``terms`` times the divisor, if there is one."""
    if not terms:
        return None
    (first, c), (second, d) = terms[0], divisor[0]
    left = list(first)
    for atom in second:
        if atom not in left:
            return None
        left.remove(atom)
    found = (tuple(left), c // d)
    return found if collect(times((found,), divisor)) == terms else None


def _holds_for_choices(terms: Terms) -> bool:
    """``c * max(a, b) + rest >= 0``: where the atom only raises the sum (max with c > 0, min with
    c < 0) one choice proves it, otherwise both must hold."""
    for monomial, _ in terms:
        for atom in monomial:
            if isinstance(atom, Call) and atom.fn in ("max", "min"):
                enough = any if _only_raises(atom, terms) else all
                return enough(
                    _is_nonnegative(_with_choice(terms, atom, choice))
                    for choice in (atom.a, atom.b)
                )
    return False


def _with_choice(terms: Terms, atom: Call, choice: Size) -> Terms:
    value = terms_of(choice)
    return replace_atoms(terms, lambda a: value if a == atom else None)


def _only_raises(atom: Call, terms: Terms) -> bool:
    """Whether the sum grows with a max (falls with a min) wherever it stands."""
    return all(
        (c > 0) == (atom.fn == "max")
        and monomial.count(atom) == 1
        and all(_is_atom_nonnegative(other) for other in monomial if other != atom)
        for monomial, c in terms
        if atom in monomial
    )
