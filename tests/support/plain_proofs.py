"""The proof of ``a >= b`` as it is defined, on sizes and without a memory: what
`staticflow.graph.proofs` has to agree with."""

from __future__ import annotations

from staticflow.graph.dims import Dim, Size, closed_size, terms_of
from staticflow.graph.terms import Atom, Call, Sym

__all__ = ["is_provably_ge"]


def is_provably_ge(a: Size, b: Size) -> bool:
    """Whether ``a >= b`` for every value that the symbols can take. False means "not proved"."""
    difference = closed_size(a) - closed_size(b)
    if isinstance(difference, int):
        return difference >= 0
    if all(c >= 0 and all(map(_nonnegative, m)) for m, c in difference.terms):
        return True
    low = _lower_bound(difference)
    if low != difference and is_provably_ge(low, 0):
        return True
    low = _below_quotients(difference)
    if low != difference and is_provably_ge(low, 0):
        return True
    return _ge_through_call(difference)


def _nonnegative(atom: Atom) -> bool:
    if isinstance(atom, Sym):
        return True
    enough = any if atom.fn == "max" else all
    return enough(is_provably_ge(part, 0) for part in (atom.a, atom.b))


def _lower_bound(difference: Dim) -> Size:
    """Every bounded symbol that is subtracted, at its largest."""
    total: Size = 0
    for monomial, c in difference.terms:
        grows = c < 0 and all(map(_nonnegative, monomial))
        value: Size = c
        for atom in monomial:
            if grows and isinstance(atom, Sym) and atom.upper is not None:
                value = value * (atom.upper - 1)
            else:
                value = value * Dim.of(atom)
        total = total + value
    return total


def _below_quotients(difference: Dim) -> Size:
    """``a // b * b`` at ``a`` where it is subtracted, at ``a - b + 1`` where it is added."""
    atoms = {
        a for m, _ in difference.terms for a in m if isinstance(a, Call) and a.fn == "floordiv"
    }
    low: Size = difference
    for q in sorted(atoms, key=lambda a: a.key):
        free = _replace_atom(low, q, 0)
        factor = _replace_atom(low - free, q, 1)
        for monomial, c in terms_of(factor)[:1]:
            for n, d in terms_of(q.b)[:1]:
                others = [a for a in monomial]
                if any(others.count(a) < n.count(a) for a in n) or c % d:
                    continue
                for a in n:
                    others.remove(a)
                share: Size = c // d
                for a in others:
                    share = share * Dim.of(a)
                if (
                    share * q.b == factor
                    and is_provably_ge(q.b, 0)
                    and all(map(_nonnegative, others))
                ):
                    low = free + share * (q.a if c < 0 else q.a - q.b + 1)
    return low


def _ge_through_call(difference: Dim) -> bool:
    """``c * max(a, b) + rest >= 0``: where the atom only raises the sum (max with c > 0, min with
    c < 0) one choice proves it, otherwise both must hold."""
    for monomial, _ in difference.terms:
        for atom in monomial:
            if isinstance(atom, Call) and atom.fn in ("max", "min"):
                proofs = (
                    is_provably_ge(_replace_atom(difference, atom, choice), 0)
                    for choice in (atom.a, atom.b)
                )
                return any(proofs) if _only_raises(atom, difference) else all(proofs)
    return False


def _only_raises(atom: Call, difference: Dim) -> bool:
    """Whether the sum grows with a max (falls with a min) wherever it stands."""
    return all(
        (c > 0) == (atom.fn == "max")
        and monomial.count(atom) == 1
        and all(_nonnegative(other) for other in monomial if other != atom)
        for monomial, c in difference.terms
        if atom in monomial
    )


def _replace_atom(size: Size, atom: Atom, value: Size) -> Size:
    total: Size = 0
    for monomial, c in terms_of(size):
        piece: Size = c
        for a in monomial:
            piece = piece * (value if a == atom else Dim.of(a))
        total = total + piece
    return total
