"""Packing: where in one block of memory buffers lie, so that those in use at the same time lie
apart and the block is small.

The least that any layout can do is the *bound*: the most bytes in use at one time. Buffers are laid
out one after the other, each into the smallest gap that those already there leave while it is in
use, or on top of them. That comes within a few percent of the bound if large buffers are first, or
those that are in use for long; the better layout is taken. (Memory for tensors with lifetimes:
Pisarchyk and Lee 2020, "Efficient Memory Management for Deep Neural Net Inference".)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass

__all__ = ["Item", "arena_bound", "pack"]

Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Item:
    """A buffer of some ``bytes``, in use from step ``first`` to step ``last``, both included."""

    first: int
    last: int
    bytes: int
    alignment: int = 1


def arena_bound(items: Iterable[Item]) -> int:
    """The most bytes that are in use at one time: no layout of ``items`` is smaller.

    >>> arena_bound([Item(1, 2, 40), Item(2, 3, 20), Item(3, 4, 40)])
    60
    """
    changes: dict[int, int] = {}
    for item in items:
        changes[item.first] = changes.get(item.first, 0) + item.bytes
        changes[item.last + 1] = changes.get(item.last + 1, 0) - item.bytes
    most = used = 0
    for step in sorted(changes):
        used += changes[step]
        most = max(most, used)
    return most


def pack(items: Sequence[Item]) -> tuple[list[int], int]:
    """The offsets of ``items``, and the bytes of the whole.

    >>> pack([Item(1, 2, 40), Item(2, 3, 20), Item(3, 4, 40)])
    ([0, 40, 0], 60)
    """
    bound = arena_bound(items)
    best: tuple[list[int], int] | None = None
    for rank in _RANKS[:1] if len(items) > _MANY else _RANKS:
        found = _pack_in_order(items, sorted(range(len(items)), key=lambda i: rank(items[i])))
        if best is None or found[1] < best[1]:
            best = found
        if best[1] <= _NEAR * bound:
            break
    assert best is not None, "there is an order at least"
    return best


_NEAR = 1.01
"""How many times the bound a layout may be, so that no other is tried."""

_MANY = 4096
"""Buffers of which one layout is enough: each costs a look at all that are laid out."""

_RANKS: tuple[Callable[[Item], tuple[int, ...]], ...] = (
    lambda item: (-item.bytes, item.first),
    lambda item: (-item.bytes * (item.last - item.first + 1), item.first),
    lambda item: (item.first - item.last, -item.bytes),
    lambda item: (item.first, -item.bytes),
)
"""Orders in which buffers are placed: the largest first, those that are large for long, those in
use for long, or those in use first."""


def _pack_in_order(items: Sequence[Item], order: Sequence[int]) -> tuple[list[int], int]:
    """The offsets of items that are laid out in an order, and the bytes of the whole."""
    count = len(items)
    offsets = [0] * count
    # of the items that are laid out, by their offsets
    starts, ends, firsts, lasts = (np.zeros(count, np.int64) for _ in range(4))
    filled = top = 0
    for i in order:
        item = items[i]
        if item.bytes == 0:
            continue
        meets = (firsts[:filled] <= item.last) & (lasts[:filled] >= item.first)
        at = _lowest_gap(starts[:filled][meets], ends[:filled][meets], item)
        offsets[i] = at
        place = int(np.searchsorted(starts[:filled], at))
        for column, value in (
            (starts, at), (ends, at + item.bytes), (firsts, item.first), (lasts, item.last),
        ):  # fmt: skip
            column[place + 1 : filled + 1] = column[place:filled]
            column[place] = value
        filled += 1
        top = max(top, at + item.bytes)
    return offsets, top


def _lowest_gap(starts: Ints, ends: Ints, item: Item) -> int:
    """The offset of the smallest gap between blocks that holds an item, else that behind them. The
    blocks are sorted by their starts and may overlap."""
    if not len(starts):
        return 0
    reached = np.maximum.accumulate(ends)
    aligned = -(-reached // item.alignment) * item.alignment
    before = np.concatenate(([0], aligned[:-1]))
    room = starts - before
    gaps = np.flatnonzero(room >= item.bytes)
    return int(before[gaps[np.argmin(room[gaps])]] if len(gaps) else aligned[-1])
