"""The addresses of the places of a program, as LLVM text: where its arrays lie while it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from staticflow.codegen.llvm.index import IndexWriter
from staticflow.codegen.llvm.text import FunctionText
from staticflow.codegen.program.routine import Ahead, Arena, Carry, Part, Place, Row, Table, Turn
from staticflow.data_classes import dataclass

__all__ = ["Places", "Reached"]


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a loop is: how many iterations it has made, of how many if that is known, and its last
    row if it runs backwards."""

    iteration: str
    length: str | None
    last: str | None


class Places:
    """The addresses of the arrays in the table, if they were loaded; the ``arena``, and for each
    buffer in it the address or how many bytes it is behind the beginning; the cells of those that
    grow; and where each loop is, or has ended."""

    def __init__(self, text: FunctionText, indices: IndexWriter) -> None:
        self.text, self.indices = text, indices
        self.tables: list[str] = []
        self.arena = ""
        self.arrays: list[str | int] = []
        self.cells: dict[int, str] = {}
        self.reached: dict[int, Reached] = {}

    def address(self, place: Place) -> str:
        """Where an array lies now."""
        return _PLACES[type(place)](self, place)

    def load_slot(self, slot: int) -> str:
        """The address of the array in a slot of the table."""
        return self.address_at(Table(slot), str(slot))

    def _table(self, place: Table) -> str:
        return self.tables[place.slot] if self.tables else self.load_slot(place.slot)

    def _buffer(self, place: Arena) -> str:
        cell = self.cells.get(place.buffer)
        if cell is not None:
            return self.text.op(f"load ptr, ptr {cell}")
        array = self.arrays[place.buffer]
        if isinstance(array, str):
            return array
        return self.address_at(place, str(array))

    def cell(self, place: Place) -> str:
        """The cell of a buffer that grows."""
        assert isinstance(place, Arena)
        return self.cells[place.buffer]

    def address_at(self, place: Place, number: str) -> str:
        """Where the array lies that is in the slot of a ``number``, or so many bytes behind the
        beginning of the arena, as ``place`` is."""
        if isinstance(place, Arena):
            return self.text.op(f"getelementptr i8, ptr {self.arena}, i64 {number}")
        at = self.text.op(f"getelementptr ptr, ptr %table, i64 {number}")
        return self.text.op(f"load ptr, ptr {at}")

    def _part(self, place: Part) -> str:
        start = self.indices.value(place.start)
        return self.text.op(f"getelementptr i8, ptr {self.address(place.array)}, i64 {start}")

    def _row(self, place: Row) -> str:
        base, at = self.address(place.array), self.reached[place.loop]
        row = (
            at.iteration if at.last is None else self.text.op(f"sub i64 {at.last}, {at.iteration}")
        )
        offset = self.text.op(f"mul i64 {row}, {self.indices.value(place.bytes)}")
        return self.text.op(f"getelementptr i8, ptr {base}, i64 {offset}")

    def _turn(self, place: Turn) -> str:
        *arrays, last = map(self.address, place.arrays)
        turn = self.text.op(f"urem i64 {self.reached[place.loop].iteration}, {len(place.arrays)}")
        return self._among(turn, arrays, last)

    def _carry(self, place: Carry) -> str:
        text, at = self.text, self.reached[place.loop]
        starts = [self.address(p) for p in place.starts]
        earlier = text.op(f"sub i64 {at.iteration}, {len(starts)}")
        return self._among(
            at.iteration, starts, self._at_iteration(place.loop, earlier, place.made)
        )

    def _ahead(self, place: Ahead) -> str:
        text, at = self.text, self.reached[place.loop]
        iteration, last = text.op(f"add i64 {at.iteration}, 1"), self.address(place.last)
        following = self._at_iteration(place.loop, iteration, place.place)
        ends = text.op(f"icmp eq i64 {iteration}, {at.length}")
        return text.op(f"select i1 {ends}, ptr {last}, ptr {following}")

    def _at_iteration(self, loop: int, iteration: str, place: Place) -> str:
        """A place, as it is in another iteration."""
        at = self.reached[loop]
        self.reached[loop] = replace(at, iteration=iteration)
        found = self.address(place)
        self.reached[loop] = at
        return found

    def _among(self, number: str, arrays: Sequence[str], other: str) -> str:
        """The array of a number, and the ``other`` for numbers beyond."""
        for i, array in enumerate(arrays):
            here = self.text.op(f"icmp eq i64 {number}, {i}")
            other = self.text.op(f"select i1 {here}, ptr {array}, ptr {other}")
        return other


_PLACES: dict[type, Callable[[Places, Any], str]] = {
    Table: Places._table,
    Arena: Places._buffer,
    Part: Places._part,
    Row: Places._row,
    Turn: Places._turn,
    Carry: Places._carry,
    Ahead: Places._ahead,
}
