"""Where in the arena the buffers of a program lie, whatever its unknown sizes are.

Where all sizes are known, buffers are packed and their offsets are numbers. Else they are packed at
a few examples of the sizes, and what is kept of that is only which buffer lies above which: each
begins where the highest of those below it ends that are in use at the same time. That is right for
all sizes, and small for those that are in some proportion to the examples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from staticflow.codegen.program.packing import Item, arena_bound, pack
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import (
    Call,
    Dim,
    Size,
    Sym,
    ceil_div,
    is_provably_ge,
    size_from,
    terms_of,
)
from staticflow.graph.terms import collect, key_of

__all__ = ["ALIGNMENT", "Layout", "Tenant", "lay_out_arena"]

ALIGNMENT = 64
"""Bytes to which the arena and every large buffer are aligned: a cache line, the widest vector."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A buffer of some ``bytes``, in use from step ``first`` to step ``last``."""

    first: int
    last: int
    bytes: Size


@dataclass(frozen=True, slots=True)
class Layout:
    """The ``offsets`` of buffers in an ``arena`` of some size, all in bytes. They name the unknown
    sizes, and *marks*: heights in the arena, each defined by the unknown sizes and the marks before
    it. ``most`` names no mark, and is no less than the arena, whatever the sizes."""

    offsets: tuple[Size, ...]
    arena: Size
    most: Size
    marks: tuple[tuple[Sym, Size], ...] = ()

    def evaluate(self, size: Size, values: Mapping[Sym, int]) -> int:
        """What ``size``, which may name marks, is where the unknown sizes have ``values``."""
        if isinstance(size, int):
            return size
        found = dict(values)
        for mark, height in self.marks_of(symbols_of(size)):
            found[mark] = evaluate_dim(height, found)
        return evaluate_dim(size, found)

    def expand(self, symbols: Iterable[Sym]) -> frozenset[Sym]:
        """The unknown sizes among ``symbols``, and those on which the marks among them depend."""
        marks = self.marks_of(symbols)
        inside = (symbols_of(height) for _, height in marks)
        return frozenset(symbols).union(*inside) - {mark for mark, _ in marks}

    def marks_of(self, symbols: Iterable[Sym]) -> list[tuple[Sym, Size]]:
        """The marks among ``symbols``, and those that they name, each after those that it names."""
        wanted = set(symbols)
        found = []
        for mark, height in reversed(self.marks):
            if mark in wanted:
                wanted |= symbols_of(height)
                found.append((mark, height))
        return found[::-1]


def lay_out_arena(tenants: Sequence[Tenant]) -> Layout:
    """The layout of ``tenants``, whose sizes may be unknown.

    >>> n = Dim.of(Sym("N"))
    >>> found = lay_out_arena([Tenant(1, 2, 640), Tenant(2, 3, 64 * n), Tenant(3, 4, 64 * n)])
    >>> found.offsets, found.arena, found.marks
    ((64*N, 0, 64*N), max(64*N + 640, 128*N), ())
    """
    symbols = {s for t in tenants for s in symbols_of(t.bytes)}
    if not symbols:
        return _lay_out_known(tenants)
    if sum(t.bytes != 0 for t in tenants) == 1:
        whole = sum(_pad(t.bytes) for t in tenants)
        return Layout((0,) * len(tenants), whole, whole)
    return _lay_out_open(tenants, sorted(symbols, key=Sym.sort_key))


def _lay_out_known(tenants: Sequence[Tenant]) -> Layout:
    offsets, top = pack([_item(t, evaluate_dim(t.bytes, {})) for t in tenants])
    whole = -(-top // ALIGNMENT) * ALIGNMENT
    return Layout(tuple(offsets), whole, whole)


def _item(tenant: Tenant, bytes_: int) -> Item:
    """A buffer of so many bytes, one of a few with an alignment that keeps it in one cache line."""
    power = 1 << max(bytes_ - 1, 0).bit_length()
    return Item(tenant.first, tenant.last, bytes_, min(power, ALIGNMENT))


def _pad(bytes_: Size) -> Size:
    return ceil_div(bytes_, ALIGNMENT) * ALIGNMENT


# -- unknown sizes ---------------------------------------------------------------------------------

_EXAMPLES = (
    (64, 64), (4, 8), (512, 512), (1, 64), (64, 16), (16, 64), (2, 32), (1, 1), (8, 8), (256, 32),
    (32, 256), (4, 512), (16, 16), (40, 10), (10, 40),
)  # fmt: skip
"""Examples at which buffers are packed: values of the symbols of an even and of an odd number. The
first few, which a large program has alone, are usual sizes, small and large ones."""

_WORK = 1 << 11
"""Buffers that are packed, those of all examples: of a large program there are fewer examples."""

_NEAR = 1.04
"""How many times the bound a layout may be at every example, so that no other is looked for."""

_MOST_STACKS = 4

Stack = list[tuple[int, list[int]]]
"""Buffers from below to above, each with those on which it may lie."""


def _lay_out_open(tenants: Sequence[Tenant], symbols: Sequence[Sym]) -> Layout:
    small = [i for i, t in enumerate(tenants) if isinstance(t.bytes, int) and t.bytes < ALIGNMENT]
    block = _lay_out_known([tenants[i] for i in small])
    offsets: list[Size] = [0] * len(tenants)
    for i, at in zip(small, block.offsets, strict=True):
        offsets[i] = at
    others = [i for i in range(len(tenants)) if i not in set(small) and tenants[i].bytes != 0]
    large = [tenants[i] for i in others]
    padded = [_pad(t.bytes) for t in large]
    heights = _Heights(block.arena)
    stacks = _choose_stacks(large, padded, symbols)
    placed = [heights.place(stack, padded, others) for stack in stacks]
    weights, arena = heights.choose([height for _, height in placed])
    for i, *starts in zip(others, *(starts for starts, _ in placed), strict=True):
        weighted = (weight * at for weight, at in zip(weights, starts, strict=True))
        offsets[i] = size_from(collect(term for at in weighted for term in terms_of(at)))
    most = size_from(collect(term for p in (block.arena, *padded) for term in terms_of(p)))
    return Layout(tuple(offsets), arena, most, tuple(heights.marks))


def _choose_stacks(
    tenants: Sequence[Tenant], padded: Sequence[Size], symbols: Sequence[Sym]
) -> list[Stack]:
    """A few of the stacks that come of packing at some examples; a call takes the lowest of them:
    first the one that is nearest to the bound at the example that suits it least, then, as long as
    that is far, the one that mends most."""
    few = _EXAMPLES[: max(_WORK // (len(tenants) + 1), 2)]
    examples = dict.fromkeys(e if len(symbols) > 1 else (e[0], e[0]) for e in few)
    packed = {e: found for e in examples if (found := _items_at(e, tenants, padded, symbols))}
    if not packed:  # there may be no such sizes
        packed = {(1, 1): [Item(t.first, t.last, 1) for t in tenants]}
    stacks: dict[tuple[int, ...], Stack] = {}
    for items in packed.values():
        stack = _stack_of(items, pack(items)[0])
        stacks.setdefault(tuple(i for i, _ in stack), stack)
    bounds = [max(arena_bound(items), 1) for items in packed.values()]
    far = [
        [_height_of(stack, items) / b for items, b in zip(packed.values(), bounds, strict=True)]
        for stack in stacks.values()
    ]
    chosen: list[int] = []
    best = [float("inf")] * len(bounds)
    while len(chosen) < _MOST_STACKS and max(best) > _NEAR:
        left = [[min(a, b) for a, b in zip(best, row, strict=True)] for row in far]
        ranked = min(range(len(far)), key=lambda k: (max(left[k]), sum(left[k]), k))
        if ranked in chosen:
            break
        chosen.append(ranked)
        best = left[ranked]
    candidates = list(stacks.values())
    return [candidates[k] for k in chosen]


def _items_at(
    example: tuple[int, int], tenants: Sequence[Tenant], padded: Sequence[Size],
    symbols: Sequence[Sym],
) -> list[Item] | None:  # fmt: skip
    """The buffers at an example of the sizes; None if there may be no such sizes, as there are
    none of ``root(n - 2)`` where n is 1."""
    values = {s: example[i % 2] for i, s in enumerate(symbols)}
    try:
        bytes_ = {p: max(evaluate_dim(p, values), 0) for p in set(padded)}
        return [Item(t.first, t.last, bytes_[p]) for t, p in zip(tenants, padded, strict=True)]
    except (ValueError, ZeroDivisionError):
        return None


def _stack_of(items: Sequence[Item], offsets: Sequence[int]) -> Stack:
    """The buffers by their offsets, each with those of the buffers below it, in use at the same
    time, that have no other such buffer between."""
    order = sorted(range(len(items)), key=lambda i: (offsets[i], items[i].bytes, i))
    firsts = np.array([items[i].first for i in order])
    lasts = np.array([items[i].last for i in order])
    below: list[int] = []  # by place, as bits
    stack: Stack = []
    for place, i in enumerate(order):
        meets = (firsts[:place] <= items[i].last) & (lasts[:place] >= items[i].first)
        covered = 0
        for other in np.flatnonzero(meets):
            covered |= below[other]
        bits = int.from_bytes(np.packbits(meets, bitorder="little").tobytes(), "little")
        below.append(bits)
        stack.append((i, [order[at] for at in _places_in(bits & ~covered)]))
    return stack


def _places_in(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _height_of(stack: Stack, items: Sequence[Item]) -> int:
    """The bytes of a stack where its buffers are ``items``."""
    ends = [0] * len(items)
    for i, below in stack:
        ends[i] = max([ends[j] for j in below], default=0) + items[i].bytes
    return max(ends, default=0)


class _Heights:
    """Finds where buffers begin that lie on others, above a ``floor``, and gives marks to heights
    that are not plain: what lies on a buffer is computed from where that begins, not from all that
    lies below."""

    def __init__(self, floor: Size) -> None:
        self.floor = floor
        self.marks: list[tuple[Sym, Size]] = []
        self.known: dict[Size, Size] = {}
        self.names: Counter[str] = Counter()

    def place(
        self, stack: Stack, padded: Sequence[Size], numbers: Sequence[int]
    ) -> tuple[list[Size], Size]:
        """The offsets of the buffers of a stack, whose ``numbers`` are for names, and its
        height."""
        starts: list[Size] = [0] * len(padded)
        ends: dict[int, Size] = {}
        for i, below in stack:
            start = _highest([ends[j] for j in below]) if below else self.floor
            starts[i] = self.mark(f"at_{numbers[i]}", start)
            ends[i] = starts[i] + padded[i]
        covered = {j for _, below in stack for j in below}
        top = _highest([e for i, e in ends.items() if i not in covered]) if ends else self.floor
        return starts, top

    def choose(self, arenas: Sequence[Size]) -> tuple[list[Size], Size]:
        """Weights of stacks of such heights, which are 1 for the lowest of them and 0 for the
        others, and its height."""
        arena, *others = arenas
        picks: list[Size] = [1]
        for number, other in enumerate(others, 2):
            picks.append(self.mark(f"pick_{number}", _clamp(arena - other, 1)))
            arena = self.mark(f"arena_{number}", _call("min", arena, other))
        weights: list[Size] = []
        left: Size = 1
        for number, pick in reversed([*enumerate(picks, 1)]):
            weights.append(self.mark(f"takes_{number}", left * pick))
            left = self.mark(f"before_{number}", left - weights[-1])
        return weights[::-1], arena

    def mark(self, name: str, height: Size) -> Size:
        """A height, under a name of its own if it is not plain."""
        if isinstance(height, int) or _is_plain(height):
            return height
        if height not in self.known:
            self.names[name] += 1
            again = "" if self.names[name] == 1 else f"_{self.names[name]}"
            mark = Sym(name + again, _MARK)
            self.marks.append((mark, height))
            self.known[height] = Dim.of(mark)
        return self.known[height]


_MARK = -7
"""The serial of marks, so that no unknown size of a user's is one."""


def _is_plain(size: Dim) -> bool:
    """Whether a size is a product that is made without a maximum or minimum."""
    return len(size.terms) == 1 and not any(
        isinstance(a, Call) and a.fn in ("max", "min") for a in size.terms[0][0]
    )


def _call(fn: str, a: Size, b: Size) -> Size:
    """The maximum or minimum of two sizes, about which nothing is proved."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b) if fn == "max" else min(a, b)
    return Dim.of(Call(fn, *sorted((a, b), key=key_of)))


def _clamp(size: Size, most: int) -> Size:
    """A size, at least 0 and at most ``most``."""
    return _call("min", _call("max", size, 0), most)


def _highest(ends: Sequence[Size]) -> Size:
    """The largest of sizes, without those that others are as large as at first sight: a proof in
    full could take long, and what is left out is all that it could change."""
    kept: list[Size] = []
    for end in dict.fromkeys(ends):
        if not any(_is_plainly_ge(k, end) for k in kept):
            kept = [*(k for k in kept if not _is_plainly_ge(end, k)), end]
    first, *rest = sorted(kept, key=key_of)
    for other in rest:
        first = _call("max", first, other)
    return first


def _is_plainly_ge(a: Size, b: Size) -> bool:
    """Whether ``a - b`` is a sum of products that are not negative."""
    terms = collect((*terms_of(a), *((m, -c) for m, c in terms_of(b))))
    return all(c > 0 for _, c in terms) and all(
        isinstance(atom, Sym) or is_provably_ge(Dim.of(atom), 0) for m, _ in terms for atom in m
    )
