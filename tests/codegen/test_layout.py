"""Where buffers lie in the arena: apart where they are in use at the same time, whatever the sizes,
and within a few percent of the least that any layout can do."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from staticflow.codegen.program.layout import ALIGNMENT, Layout, Tenant, lay_out_arena
from staticflow.codegen.program.packing import Item, arena_bound, pack
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dims import Dim, Size, Sym, dim_min, terms_of

N, M = Sym("N"), Sym("M")


def tenants(seed: int, sizes: Sequence[Size]) -> list[Tenant]:
    """Sixty buffers of these sizes as a step of training has them: some are needed soon, others on
    the way back."""
    draw = random.Random(seed)
    found = []
    for step in range(60):
        last = step + draw.randint(1, 3) if draw.random() < 0.6 else 120 - step
        found.append(Tenant(step, last, draw.choice(sizes)))
    return found


def assert_apart(found: Layout, of: Sequence[Tenant], values: dict[Sym, int]) -> int:
    """Check a layout at some sizes, and give the bytes of its arena."""
    blocks = []
    arena = found.evaluate(found.arena, values)
    for t, offset in zip(of, found.offsets, strict=True):
        start, size = found.evaluate(offset, values), evaluate_dim(t.bytes, values)
        assert 0 <= start <= start + size <= arena <= found.evaluate(found.most, values)
        assert size < ALIGNMENT or start % ALIGNMENT == 0
        blocks.append((t, start, start + size))
    for (a, start, stop), (b, other, end) in itertools.combinations(blocks, 2):
        if a.first <= b.last and b.first <= a.last and start < stop and other < end:
            assert stop <= other or end <= start, (a, b, values)
    return arena


def bound_of(of: Sequence[Tenant], values: dict[Sym, int]) -> int:
    return arena_bound(Item(t.first, t.last, evaluate_dim(t.bytes, values)) for t in of)


def test_known_sizes_come_to_the_bound() -> None:
    for seed in range(10):
        of = tenants(seed, [64, 640, 1000, 4096, 7, 40_000, 100_000])
        assert assert_apart(lay_out_arena(of), of, {}) <= 1.05 * bound_of(of, {})


def test_one_unknown_size_comes_to_the_bound() -> None:
    n = Dim.of(N)
    for seed in range(5):
        of = tenants(seed, [4, 4 * n, 400 * n, 4096 * n, 1200 * n, 12_000])
        found = lay_out_arena(of)
        for value in (1, 33, 64, 200, 5000):
            arena = assert_apart(found, of, {N: value})
            assert value < 33 or arena <= 1.12 * bound_of(of, {N: value})


def test_no_guess_of_sizes_is_needed_to_lie_apart() -> None:
    """Sizes that no example has, and of which none surely is the larger."""
    n, m = Dim.of(N), Dim.of(M)
    sizes = [4 * n, 4 * m, 8 * n * m, 12 * n * n, 64 * dim_min(n, 16), 4 * ((n + 7) // 8), 40, 0]
    for seed in range(5):
        of = tenants(seed, sizes)
        found = lay_out_arena(of)
        for a, b in ((0, 0), (1, 1), (0, 9), (3, 1000), (1000, 3), (77, 77)):
            assert_apart(found, of, {N: a, M: b})


def test_a_size_that_the_examples_cannot_have() -> None:
    n = Dim.of(N)
    of = [Tenant(1, 2, 4 * (n // (n - n // 1 + 1))), Tenant(2, 3, 8 * n), Tenant(1, 3, 4 * n)]
    assert_apart(lay_out_arena(of), of, {N: 10})


def test_small_buffers_share_lines() -> None:
    of = [Tenant(1, 9, 4) for _ in range(16)]
    assert lay_out_arena(of).arena == 64


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_every_order_of_packing_keeps_buffers_apart(
    rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from staticflow.codegen.program import packing

    monkeypatch.setattr(packing, "_RANKS", packing._RANKS[rank : rank + 1])
    items = [Item(t.first, t.last, evaluate_dim(t.bytes, {})) for t in tenants(rank, [9, 50, 333])]
    offsets, top = pack(items)
    for (a, at), (b, other) in itertools.combinations(zip(items, offsets, strict=True), 2):
        if a.first <= b.last and b.first <= a.last:
            assert at + a.bytes <= other or other + b.bytes <= at
    assert top == max(at + item.bytes for item, at in zip(items, offsets, strict=True))


def test_heights_are_short_sums_whatever_lies_below() -> None:
    """What a run computes grows with the buffers, and not with their square: a height names the one
    below it, and an offset one height of each stack."""
    n, m = Dim.of(N), Dim.of(M)
    sizes = [4 * n, 400 * m, 4 * n * m, 4096 * n, 40 * m * m, 12_000]
    found = lay_out_arena([t for seed in range(4) for t in tenants(seed, sizes)])
    assert len(found.marks) > 240
    assert max(len(terms_of(height)) for _, height in found.marks) <= 2
    assert max(len(terms_of(offset)) for offset in found.offsets) <= 4
