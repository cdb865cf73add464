"""How much memory the steps of a routine move, a measure of how long they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.codegen.program.routine import (
    Ahead,
    Arena,
    Ask,
    Carry,
    Choose,
    Copy,
    Ensure,
    Give,
    Launch,
    Measure,
    Part,
    Place,
    Repeat,
    Require,
    Routine,
    Row,
    Step,
    Table,
    Turn,
    iteration_count,
)
from staticflow.graph.dim_queries import substitute_dim, symbols_of
from staticflow.graph.dims import Size, total

__all__ = ["moved_bytes"]

_GUESS = 256
"""What a size that is known only as the program runs is taken for."""


def moved_bytes(
    routine: Routine, table: Sequence[Size], steps: Sequence[Step] | None = None
) -> Size:
    """The bytes that ``steps`` together read and write (all of them, unless some are given);
    ``table`` has the bytes of the caller's arrays. Sizes that only the run can tell are guessed."""
    moved = _Traffic(routine, table).of(routine.steps if steps is None else steps)
    return substitute_dim(moved, dict.fromkeys(symbols_of(moved) - set(routine.sizes), _GUESS))


_A_CALL = 1 << 14
"""What a question to Python is counted as: some microseconds' work."""


class _Traffic:
    """Adds up what steps move."""

    def __init__(self, routine: Routine, table: Sequence[Size]) -> None:
        self.routine, self.table = routine, table

    def of(self, steps: Sequence[Step]) -> Size:
        return total(_STEPS[type(step)](self, step) for step in steps)

    def place(self, place: Place) -> Size:
        return _PLACES[type(place)](self, place)

    def launch(self, step: Launch) -> Size:
        return total(map(self.place, step.places))

    def repeat(self, step: Repeat) -> Size:
        one = self.of(step.body)
        length: Size = _GUESS if step.length is None else step.length
        (count,) = symbols_of(iteration_count(step.loop))
        return length * substitute_dim(one, {count: length})


_STEPS: dict[type, Callable[[_Traffic, Any], Size]] = {
    Launch: _Traffic.launch,
    Copy: lambda _, step: 2 * step.bytes,
    Repeat: _Traffic.repeat,
    Choose: lambda traffic, step: traffic.of(step.then) + traffic.of(step.orelse),
    Ensure: lambda _, step: 0,
    Require: lambda _, step: 0,
    Measure: lambda _, step: 0,
    Give: lambda _, step: 0,
    Ask: lambda _, step: _A_CALL,
}

_PLACES: dict[type, Callable[[_Traffic, Any], Size]] = {
    Table: lambda traffic, place: traffic.table[place.slot],
    Arena: lambda traffic, place: traffic.routine.buffers[place.buffer].bytes,
    Part: lambda traffic, place: traffic.place(place.array) - place.start,
    Row: lambda _, place: place.bytes,
    Turn: lambda traffic, place: traffic.place(place.arrays[0]),
    Carry: lambda traffic, place: traffic.place(place.made),
    Ahead: lambda traffic, place: traffic.place(place.last),
}
