"""The orders in which a chain of matrix products may be multiplied, and what each costs.

The cost of an order is the number of its multiply-adds, a polynomial of the sizes. The cheapest one
is found by dynamic programming over the intervals of the chain, at the sizes if all are known, and
at many tried sizes at once if some are not: there may be several that are the cheapest at some.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size, prod
from staticflow.graph.terms import Sym, terms_of
from staticflow.graph.types import Shape
from staticflow.passes.product_chains import Chain, Key, Tree, batch_of

__all__ = ["Orders", "Sizes"]

_TRIED = 160
_LARGEST = 4096
_EQUAL = 1 + 1e-9


class Sizes:
    """The sizes of a graph at many tried values of what is unknown, 1 to 4,096 each, drawn by their
    logarithms; a single value where all are known."""

    def __init__(self) -> None:
        self._draws = random.Random(17)
        self._symbols: dict[Sym, Any] = {}
        self._sizes: dict[Size, Any] = {}

    def of(self, size: Size) -> Any:
        """The values of ``size``, floats of at least 1."""
        if size not in self._sizes:
            self._sizes[size] = np.maximum(self._evaluate(size), 1.0)
        return self._sizes[size]

    def _evaluate(self, size: Size) -> Any:
        total: Any = 0.0
        for monomial, c in terms_of(size):
            piece: Any = float(c)
            for atom in monomial:
                if isinstance(atom, Sym):
                    piece = piece * self._symbol(atom)
                else:
                    piece = piece * _CALLS[atom.fn](self.of(atom.a), self.of(atom.b))
            total = total + piece
        return total

    def _symbol(self, symbol: Sym) -> Any:
        if symbol not in self._symbols:
            ends, most = (1, 1, _LARGEST, _LARGEST), math.log(_LARGEST)
            drawn = [round(math.exp(self._draws.uniform(0, most))) for _ in range(_TRIED)]
            where = [self._draws.randrange(24) for _ in drawn]
            values = [ends[w] if w < 4 else d for w, d in zip(where, drawn, strict=True)]
            self._symbols[symbol] = np.array(values, np.float64)
        return self._symbols[symbol]


_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": np.floor_divide,
    "max": np.maximum,
    "min": np.minimum,
    "root": lambda a, b: np.floor(np.sqrt(a * b)),
}


@dataclass(frozen=True)
class Orders:
    """The orders of a ``chain``. Products in ``given`` cost nothing: they are there anyway."""

    chain: Chain
    sizes: Sizes
    given: frozenset[Key] = frozenset()

    @cached_property
    def shapes(self) -> list[Shape]:
        """The shapes of the factors."""
        return [f.shape for f in self.chain.factors]

    @cached_property
    def is_known(self) -> bool:
        """Whether the shapes fit together as they stand."""
        inner = zip(self.shapes, self.shapes[1:], strict=False)
        return batch_of(self.shapes) is not None and all(a[-1] == b[-2] for a, b in inner)

    @cached_property
    def symbols(self) -> frozenset[Sym]:
        """The unknown sizes of the factors."""
        return frozenset[Sym]().union(*(symbols_of(d) for s in self.shapes for d in s))

    def key(self, first: int, last: int) -> Key:
        """The product of the factors from ``first`` to ``last``, both included."""
        return self.chain.factors[first : last + 1]

    @cached_property
    def _zero(self) -> Any:
        """No work, at each of the tried sizes: one number where all sizes are known."""
        return np.zeros(_TRIED if self.symbols else 1)

    @cached_property
    def _edges(self) -> list[Any]:
        shapes = self.shapes
        return [self.sizes.of(d) + self._zero for d in (shapes[0][-2], *(s[-1] for s in shapes))]

    @cached_property
    def _has_batches(self) -> bool:
        return any(len(s) > 2 for s in self.shapes)

    def _batches(self, first: int, last: int) -> Any:
        batch = batch_of(self.shapes[first : last + 1]) if self._has_batches else None
        return math.prod(map(self.sizes.of, batch or ()), start=1.0)

    @cached_property
    def _search(self) -> tuple[Mapping[tuple[int, int], Any], Mapping[tuple[int, int], Any]]:
        """For each interval the least cost, and where it is split for that."""
        count = len(self.shapes)
        best: dict[tuple[int, int], Any] = {(i, i): self._zero for i in range(count)}
        split: dict[tuple[int, int], Any] = {}
        for length in range(1, count):
            for i in range(count - length):
                j = i + length
                costs = np.stack(self._costs(best, i, j))
                split[i, j] = i + costs.argmin(0)
                best[i, j] = self._zero if self.key(i, j) in self.given else costs.min(0)
        return best, split

    def _costs(self, best: Mapping[tuple[int, int], Any], first: int, last: int) -> list[Any]:
        """What the factors of an interval cost to multiply, for each way to split them."""
        edges = self._edges
        outer = self._batches(first, last) * edges[first] * edges[last + 1]
        return [
            best[first, k] + best[k + 1, last] + outer * edges[k + 1] for k in range(first, last)
        ]

    @property
    def least(self) -> Any:
        """The least cost at each of the tried sizes."""
        return self._search[0][0, len(self.shapes) - 1]

    def products(self, tree: Tree) -> Iterator[tuple[int, int, int]]:
        """The products of an order: first factor, last factor of the left side, last factor."""
        found: list[tuple[int, int, int]] = []

        def span(at: Tree) -> tuple[int, int]:
            if isinstance(at, int):
                return at, at
            (first, middle), (_, last) = span(at[0]), span(at[1])
            found.append((first, middle, last))
            return first, last

        span(tree)
        yield from found

    def cost(self, tree: Tree) -> Any:
        """What an order costs at the tried sizes."""
        edges, total = self._edges, self._zero
        given: list[tuple[int, int]] = []
        for i, k, j in reversed([*self.products(tree)]):
            if any(a <= i and j <= b for a, b in given):
                continue
            if self.key(i, j) in self.given:
                given.append((i, j))
            else:
                total = total + self._batches(i, j) * edges[i] * edges[k + 1] * edges[j + 1]
        return total

    @cached_property
    def is_written_best(self) -> bool:
        """Whether the order as it was written is the cheapest at all tried sizes."""
        return bool((self.cost(self.chain.written) <= self.least * _EQUAL).all())

    def steadiest(self) -> Tree:
        """The order that is the least above the cheapest, over all tried sizes."""
        drawn = {self._tree(self._search[1], s) for s in range(len(self._zero))}
        least = np.maximum(self.least, 1)

        def above(tree: Tree) -> tuple[float, bool, str]:
            mean = float(np.log(np.maximum(self.cost(tree), 1) / least).mean())
            return round(mean, 9), tree != self.chain.written, repr(tree)

        return min({*drawn, self.chain.written}, key=above)

    def several(self, most: int) -> list[Tree]:
        """Orders to choose from as the sizes are, of at most ``most`` different products: all that
        are the cheapest at one of the tried sizes or, where these are too many, those that together
        are the least above it."""
        least = np.log(np.maximum(self.least, 1))
        split = self._search[1]
        drawn = dict.fromkeys(self._tree(split, s) for s in range(len(self._zero)))
        above = {t: np.log(np.maximum(self.cost(t), 1)) - least for t in drawn}
        found: list[Tree] = []
        reached = np.full(len(self._zero), 99.0)
        while above and reached.max() > 1e-9:
            tree = min(above, key=lambda t: float((np.minimum(reached, above[t]) ** 2).sum()))
            products = {p for t in (*found, tree) for p in self.products(t)}
            with_it = np.minimum(reached, above.pop(tree))
            if len(products) <= most and not np.allclose(with_it, reached, rtol=0, atol=1e-9):
                found.append(tree)
                reached = with_it
        return found

    def work(self, tree: Tree) -> Size:
        """The multiply-adds of an order, as a size."""
        shapes = self.shapes
        total: Size = 0
        for i, k, j in self.products(tree):
            batch = batch_of(shapes[i : j + 1]) or ()
            total = total + prod((*batch, shapes[i][-2], shapes[k][-1], shapes[j][-1]))
        return total

    def _tree(self, split: Mapping[tuple[int, int], Any], sample: Any) -> Tree:
        """The cheapest order at one of the tried sizes."""
        done: list[Tree] = []
        stack: list[tuple[int, int] | None] = [(0, len(self.shapes) - 1)]
        while stack:
            at = stack.pop()
            if at is None:
                right, left = done.pop(), done.pop()
                done.append((left, right))
            elif at[0] == at[1]:
                done.append(at[0])
            else:
                k = int(split[at][sample])
                stack += [None, (k + 1, at[1]), (at[0], k)]
        return done[0]
