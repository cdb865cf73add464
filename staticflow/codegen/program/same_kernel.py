"""Which clusters are one kernel: those that differ only in the names of their unknown sizes.

A kernel takes every unknown size as an argument, so the product of an (a, b) and a (b, c) array is
computed by the kernel of an (m, n) and an (n, k) one. Sizes that only the run can tell, and those
of nested graphs, keep their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import substitute_dim
from staticflow.graph.dims import Dim, Size, Sym, terms_of
from staticflow.graph.graph import Graph, attrs_key, map_attrs
from staticflow.graph.terms import Call
from staticflow.graph.types import TensorType

__all__ = ["Structure", "structure_of"]


@dataclass(frozen=True, slots=True)
class Structure:
    """What equal clusters share, as a ``key``: ops, attributes and types, but neither names nor
    lines. ``symbols`` are the unknown sizes that the key names by their position."""

    key: tuple[Any, ...]
    symbols: tuple[Sym, ...]

    def names_of(self, other: Structure) -> Mapping[Sym, Size]:
        """For the symbols of an ``other`` one of the same key, those of this one."""
        pairs = zip(other.symbols, self.symbols, strict=True)
        return {a: Dim.of(b) for a, b in pairs if a is not b}


def structure_of(
    kind: str, body: Graph, shared: Mapping[int, int], lies: Mapping[int, TensorType]
) -> Structure:
    """The structure of the cluster that runs ``body``."""
    names = _Names(body)
    number = {n: i for i, n in enumerate(body.nodes)}
    nodes = tuple(
        (
            n.op,
            tuple(number[a] for a in n.args),
            attrs_key(names.rename_all(n.attrs)),
            names.rename(n.type),
        )
        for n in body.nodes[len(body.params) :]
    )
    params = tuple(names.rename(p.type) for p in body.params)
    over = tuple((i, names.rename(t)) for i, t in lies.items())
    outputs = tuple(number[o] for o in body.outputs)
    bounds = tuple(names.bounds())
    key = (kind, params, nodes, outputs, tuple(shared.items()), over, bounds)
    return Structure(key, tuple(names.symbols))


class _Names:
    """The positions of the symbols of a cluster, in the order in which they are met."""

    def __init__(self, body: Graph) -> None:
        self.symbols: dict[Sym, Size] = {}
        self._kept = bool(body.bound_sizes) or body.has_regions
        self._found: dict[Dim, Size] = {}

    def rename_all(self, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        return attrs if self._kept else map_attrs(attrs, self._rename, lambda graph: graph)

    def rename(self, value: Any) -> Any:
        return self.rename_all({"": value})[""]

    def bounds(self) -> Iterator[Any]:
        """What each symbol is below, of which more symbols may be met."""
        symbols = list(self.symbols)
        for symbol in symbols:
            yield self.rename(symbol.upper)
            symbols += list(self.symbols)[len(symbols) :]

    def _rename(self, size: Dim) -> Size:
        if size not in self._found:
            self._meet(size)
            self._found[size] = substitute_dim(size, self.symbols)
        return self._found[size]

    def _meet(self, size: Size) -> None:
        for monomial, _ in terms_of(size):
            for atom in monomial:
                if isinstance(atom, Call):
                    self._meet(atom.a)
                    self._meet(atom.b)
                elif not atom.late and atom not in self.symbols:
                    self.symbols[atom] = Dim.of(Sym(f"_{len(self.symbols)}", -1))
