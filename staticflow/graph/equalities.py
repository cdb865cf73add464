"""What a graph assumes of unknown sizes: pairs that must turn out equal, and which size stands for
which because of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from staticflow.data_classes import dataclass
from staticflow.errors import ShapeError
from staticflow.graph.dim_queries import as_call, as_symbol, substitute_dim, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, terms_of
from staticflow.graph.locs import Locs, format_locs

__all__ = ["Equality", "describe_requirement", "unify"]


@dataclass(frozen=True, slots=True)
class Equality:
    """Two sizes of a graph that must turn out equal, and the lines that need it."""

    a: Size
    b: Size
    reason: str
    locs: Locs

    def __str__(self) -> str:
        return f"{self.a} == {self.b} ({self.reason}, {format_locs(self.locs)})"


def describe_requirement(a: Size, b: Size) -> str:
    """What two sizes of an equality must be: ``N and M must be equal``; of a maximum or minimum and
    one of its two, ``N must be at least M``."""
    for whole, one in ((a, b), (b, a)):
        atom = as_call(whole)
        if atom is not None and one in (atom.a, atom.b) and atom.fn in ("max", "min"):
            other = atom.b if atom.a == one else atom.a
            more, least = (one, other) if atom.fn == "max" else (other, one)
            return f"{more} must be at least {least}"
    return f"{a} and {b} must be equal"


def unify(
    found: Iterable[Equality], bound: frozenset[Sym] = frozenset()
) -> tuple[dict[Sym, Size], list[Equality]]:
    """Replacements for symbols that equal something else, and the equalities left to check.

    With them put in, no equality gives another one, whichever was found first: ``n m == k l`` says
    nothing of ``n`` until another says that ``m`` is 1. So equalities of a part of a graph give
    none either.

    All stay to be checked, in their first form, since the caller must be told in the names that
    the user gave. Symbols in ``bound`` are left alone: what is known only when an op has run cannot
    stand for a size that is needed before, nor the other way round, or there was nothing to check.
    """
    values: dict[Sym, Size] = {}
    kept: dict[tuple[Size, Size], Equality] = {}
    for fact in found:
        kept.setdefault((fact.a, fact.b), fact)
    unsolved, known = [*kept.values()], -1
    while known < len(values):
        known, left = len(values), []
        for fact in unsolved:
            a, b = _substitute(fact, values)
            if a == b:
                continue
            left.append(fact)
            if any(s.late or s in bound for s in symbols_of(a) | symbols_of(b)):
                continue
            sym, value = _solve(a, b) or (None, 0)
            if sym is not None:
                values = {s: substitute_dim(v, {sym: value}) for s, v in values.items()}
                values[sym] = value
        unsolved = left
    for fact in kept.values():
        _substitute(fact, values)  # what was found later may contradict it
    return values, list(kept.values())


def _substitute(fact: Equality, values: Mapping[Sym, Size]) -> tuple[Size, Size]:
    """The two sizes with ``values`` put in; a `ShapeError` if they never are equal then."""
    a, b = substitute_dim(fact.a, values), substitute_dim(fact.b, values)
    if a != b and isinstance(a - b, int):
        wanted = describe_requirement(fact.a, fact.b)
        at = f"at {format_locs(fact.locs)}"
        raise ShapeError(f"{fact.reason}: {wanted}, but {a} and {b} differ, {at}")
    return a, b


def _solve(a: Size, b: Size) -> tuple[Sym, Size] | None:
    """A symbol and what it is if ``a`` and ``b`` are equal: the two without what they have in
    common, if a multiple of a symbol is left on one side, ``9 n == 18 m``."""
    return _bare(a, b) or _bare(b, a) or _multiple(a - b)


def _bare(a: Size, b: Size) -> tuple[Sym, Size] | None:
    """``a`` as a bare symbol that may be replaced by ``b``. What the user named (serial 0) stays,
    and among the others what was declared first."""
    sym, other = as_symbol(a), as_symbol(b)
    if sym is None or sym in symbols_of(b):
        return None
    if other is not None and other.serial > sym.serial:
        return None  # rather replace the other
    return sym, b


def _multiple(zero: Size) -> tuple[Sym, Size] | None:
    """A symbol of which a size that is 0 has a multiple, and what it is: the others by its factor,
    where that divides them and none of them is taken away."""
    singles = [(m[0], c) for m, c in terms_of(zero) if len(m) == 1 and isinstance(m[0], Sym)]
    for sym, factor in sorted(singles, key=lambda one: -one[0].serial):
        rest = Dim.of(sym) * factor - zero
        shares = [c / factor for _, c in terms_of(rest)]
        if sym not in symbols_of(rest) and all(s >= 0 and s.is_integer() for s in shares):
            return sym, rest // factor
    return None
