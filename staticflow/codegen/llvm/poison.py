"""Memory that nothing should read, spoiled by a routine in LLVM text: a test mode.

Where a run begins, all of its own memory and every output holds `NOTHING`, and so does each buffer
again once the memory plan lets others have its place. What reads memory before it is written, or
after it is given up, then computes with NaN or with absurd integers instead of with numbers that
happen to be right. A program that is compiled without it has no trace of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from staticflow.codegen.llvm.arena import CELL
from staticflow.codegen.llvm.text import FunctionText
from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType

__all__ = ["NOTHING", "Poison"]

NOTHING = 0xFF
"""The byte of which all floats are NaN."""

_NO_NUMBER = 0xAB
"""The byte of which integers are large, and bools neither true nor false."""


@dataclass(frozen=True, slots=True)
class Poison:
    """The memory that a poisoned run spoils, and the LLVM text that does so: the buffers that are
    ``freed`` behind each step, by its number in the order of `walk_steps` from 1 on, and the
    ``outputs``, slots of the table.
    """

    freed: Mapping[int, tuple[int, ...]]
    outputs: tuple[int, ...]

    def fill(
        self, text: FunctionText, address: str, bytes_: str, dtype: DType | None = None
    ) -> None:
        """Write what spoils so many bytes, of any dtype unless it is told."""
        byte = NOTHING if dtype is None or dtype.is_floating else _NO_NUMBER
        text.do(f"call void @llvm.memset.p0.i64(ptr {address}, i8 {byte}, i64 {bytes_}, i1 false)")

    def fill_room(self, text: FunctionText, cell: str, dtype: DType | None = None) -> None:
        """Write what spoils all of the room of the growing buffer of a cell."""
        address = text.op(f"load ptr, ptr {cell}")
        self.fill(text, address, self.capacity(text, cell), dtype)

    def fill_from(self, text: FunctionText, cell: str, before: str) -> None:
        """Write what spoils the room of a growing buffer behind the ``before`` bytes it had."""
        address = text.op(f"load ptr, ptr {cell}")
        start = text.op(f"getelementptr i8, ptr {address}, i64 {before}")
        self.fill(text, start, text.op(f"sub i64 {self.capacity(text, cell)}, {before}"))

    def capacity(self, text: FunctionText, cell: str) -> str:
        """The bytes for which a growing buffer has room."""
        at = text.op(f"getelementptr i8, ptr {cell}, i64 {CELL // 2}")
        return text.op(f"load i64, ptr {at}")
