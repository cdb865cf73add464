"""Native code that finds the plan of a key: a table of slots, in a few of which one may lie."""

from __future__ import annotations

from staticflow.eager.fast.records import Key, Plan, Slot
from staticflow.native.cpython import memcmp
from staticflow.native.language import (
    Object,
    Row,
    constant,
    drop,
    export,
    hold,
    inline,
    logical_shift,
    native,
    take,
)

__all__ = ["PLACES", "SLOTS", "find", "install", "is_second", "slots"]

SLOTS = 4096
"""So many kinds of calls are remembered at most."""

PLACES = 4
"""In so many slots, the newest first, the plan of one may lie."""

slots = constant(Row[Slot], "slots")


@inline
def first_place(hash: int) -> int:
    """The first slot in which the plan of a key of a hash may lie."""
    return logical_shift(hash, 1) & (SLOTS - PLACES)


@native
def find(key: Key, hash: int) -> int:
    """The place of the slot in which the plan of a key lies; -1 if it has none."""
    count = key.count
    first = first_place(hash)
    for place in range(first, first + PLACES):
        slot = slots[place]
        if slot.hash == hash:
            plan = slot.plan
            if plan is None or plan.words != count:
                continue
            if memcmp(plan.key, key.words, count * 8) == 0:
                return place
    return -1


@native
def is_second(hash: int) -> bool:
    """Whether a key is looked for in vain a second time. Its slots remember the last ones that
    were."""
    first = first_place(hash)
    newer = hash
    for place in range(first, first + PLACES):
        slot = slots[place]
        before = slot.missed
        slot.missed = newer
        if before == hash:
            return True
        newer = before
    return False


@export
def install(hash: int, plan: Plan, owner: Object) -> None:
    """Put a plan, which ``owner`` holds, where keys of a hash look first; what lay there, and
    behind it, moves on, and what lay last is dropped. A slot holds its owner."""
    first = first_place(hash)
    last = take(slots[first + PLACES - 1].owner)
    for place in range(first + PLACES - 1, first, -1):
        move(slots[place - 1], slots[place])
    slot = slots[first]
    slot.hash = hash
    slot.plan = plan
    slot.owner = hold(owner)
    drop(last)  # nothing else runs before


@inline
def move(source: Slot, target: Slot) -> None:
    """Move a plan to another slot, in which there is no owner."""
    target.hash = source.hash
    target.plan = source.plan
    target.owner = take(source.owner)
