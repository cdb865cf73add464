"""Sizes that are computed of others, of which it is not proved that they are no less than 0, or,
where something is divided by them, than 1: ``n - m`` and ``n // m`` of two inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from staticflow.graph.dim_queries import as_call, as_symbol, divisors_of, substitute_dim
from staticflow.graph.dims import Dim, Size, Sym, dim_max, is_provably_ge
from staticflow.graph.equalities import Equality
from staticflow.graph.node import Node, param
from staticflow.graph.types import types_of

__all__ = ["checks_divisor", "compared_quotients", "doubtful_sizes"]


def doubtful_sizes(nodes: Iterable[Node], assumed: Sequence[Equality]) -> Iterator[Equality]:
    """What must hold of the sizes of ``nodes``, as ``max(n - m, 0) == n - m``, and of what is
    divided by in them and in attributes, where that is neither proved nor ``assumed``. What is
    divided by stands before what it divides."""
    least = _least_sizes(assumed)
    held = {(e.a, e.b) for e in assumed}
    seen: set[tuple[Size, bool]] = set()
    for node in nodes:
        name = "an input" if node.op is param else node.op.name
        sizes = [(d, True) for t in types_of(node.type) for d in t.shape]
        for value in node.attrs.values():
            if isinstance(value, (Dim, tuple)):
                sizes += [(d, False) for d in _sizes_in(value)]
        for d, is_shape in sizes:
            if not isinstance(d, Dim) or (d, is_shape) in seen:
                continue
            seen.add((d, is_shape))
            bounds = [(b, 1, f"what a size of {name} is divided by") for b in divisors_of(d)]
            bounds += [(d, 0, f"a size of {name}")] if is_shape else []
            for size, bound, what in bounds:
                if is_provably_ge(size, bound) or is_provably_ge(
                    substitute_dim(size, least), bound
                ):
                    continue
                e = Equality(dim_max(size, bound), size, what, node.locs)
                if (e.a, e.b) not in held:
                    held.add((e.a, e.b))
                    yield e


def compared_quotients(equalities: Sequence[Equality]) -> Iterator[Equality]:
    """What must hold of what is divided by in the sizes that ``equalities`` compare."""
    for e in equalities:
        for divisor in (*divisors_of(e.a), *divisors_of(e.b)):
            if not is_provably_ge(divisor, 1):
                what = "what a size is divided by that must be equal to another"
                yield Equality(dim_max(divisor, 1), divisor, what, e.locs)


def _sizes_in(value: Any) -> list[Dim]:
    """The sizes in an attribute."""
    if isinstance(value, Dim):
        return [value]
    return [d for v in value for d in _sizes_in(v)] if isinstance(value, tuple) else []


def checks_divisor(equality: Equality) -> bool:
    """Whether an equality says that what is divided by is at least 1."""
    return equality.a == dim_max(equality.b, 1)


def _least_sizes(equalities: Sequence[Equality]) -> dict[Sym, Size]:
    """What stands for sizes of which equalities say the least, as ``max(n, 3) == n`` does."""
    found: dict[Sym, Size] = {}
    for e in equalities:
        for whole, size in ((e.a, e.b), (e.b, e.a)):
            symbol, call = as_symbol(size), as_call(whole)
            if symbol is None or call is None or call.fn != "max":
                continue
            numbers = [n for n in (call.a, call.b) if isinstance(n, int)]
            if numbers and Dim.of(symbol) in (call.a, call.b):
                found[symbol] = Dim.of(symbol) + numbers[0]
    return found
