"""What the sizes of a call tell before the program runs: how much it will do, and whether they are
small enough to be computed with in 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from staticflow.codegen.routine import (
    Arena,
    Carry,
    Choose,
    Copy,
    Ensure,
    Give,
    Launch,
    Measure,
    Place,
    Repeat,
    Require,
    Routine,
    Row,
    Step,
    Table,
    trip_count,
)
from staticflow.graph.dim_queries import substitute_dim, symbols_of
from staticflow.graph.dims import Call, Size, terms_of

__all__ = ["moved_bytes", "size_limit"]

_GUESS = 256
"""What a size that is known only as the program runs is taken for."""

_BITS = 62
"""Sizes in bytes stay below two to this power, so that a sum of two is an int64 still."""


def moved_bytes(routine: Routine, table: Sequence[Size]) -> Size:
    """The bytes that all steps together read and write, a measure of how long the program runs;
    ``table`` has the bytes of the caller's arrays. Sizes that only the run can tell are guessed."""
    moved = _Traffic(routine, table).of(routine.steps)
    return substitute_dim(moved, dict.fromkeys(symbols_of(moved) - set(routine.sizes), _GUESS))


class _Traffic:
    """Adds up what steps move."""

    def __init__(self, routine: Routine, table: Sequence[Size]) -> None:
        self.routine, self.table = routine, table
        self.loops: dict[int, Repeat] = {}

    def of(self, steps: Sequence[Step]) -> Size:
        total: Size = 0
        for step in steps:
            total = total + _STEPS[type(step)](self, step)
        return total

    def place(self, place: Place) -> Size:
        return _PLACES[type(place)](self, place)

    def launch(self, step: Launch) -> Size:
        return sum(map(self.place, step.places))

    def repeat(self, step: Repeat) -> Size:
        self.loops[step.loop] = step
        one = self.of(step.body)
        length: Size = _GUESS if step.length is None else step.length
        (count,) = symbols_of(trip_count(step.loop))
        return length * substitute_dim(one, {count: length})

    def carry(self, place: Carry) -> Size:
        _, own, _ = self.loops[place.loop].carries[place.index]
        return self.place(own)


_STEPS: dict[type, Callable[[_Traffic, Any], Size]] = {
    Launch: _Traffic.launch,
    Copy: lambda _, step: 2 * step.bytes,
    Repeat: _Traffic.repeat,
    Choose: lambda traffic, step: traffic.of(step.then) + traffic.of(step.orelse),
    Ensure: lambda _, step: 0,
    Require: lambda _, step: 0,
    Measure: lambda _, step: 0,
    Give: lambda _, step: 0,
}

_PLACES: dict[type, Callable[[_Traffic, Any], Size]] = {
    Table: lambda traffic, place: traffic.table[place.slot],
    Arena: lambda traffic, place: traffic.routine.buffers[place.buffer].bytes,
    Row: lambda _, place: place.bytes,
    Carry: _Traffic.carry,
}


def size_limit(sizes: Iterable[Size]) -> int:
    """The largest power of two that every unknown may be with each of ``sizes`` in 62 bits.

    >>> from staticflow.graph.dims import fresh_sym
    >>> n = fresh_sym("N")
    >>> size_limit([4 * n * n]) == 2**30
    True
    """
    listed = list(sizes)
    for bits in range(_BITS, 0, -1):
        if all(_reach(size, 1 << bits) <= 1 << _BITS for size in listed):
            return 1 << bits
    return 1


def _reach(size: Size, largest: int) -> int:
    """A number that no part of ``size`` exceeds, in magnitude, with unknowns up to ``largest``."""
    total = 0
    for monomial, c in terms_of(size):
        piece = abs(c)
        for atom in monomial:
            piece *= _call_reach(atom, largest) if isinstance(atom, Call) else largest
        total += piece
    return total


def _call_reach(call: Call, largest: int) -> int:
    """Of a quotient the dividend, which is computed first; of a choice the larger; of a root the
    product."""
    if call.fn == "root":
        return _reach(call.a, largest) * _reach(call.b, largest)
    return max(_reach(call.a, largest), _reach(call.b, largest), 1)
