"""What the relocations of object files write, on each machine that `linker` is for.

LLVM makes code for processes whose parts may lie anywhere (the large code model), which needs few
kinds; another one is an error. On AArch64 a call reaches 128 MiB: what lies farther is called by an
`Islands`, code of its own beside the caller's.

Formats: System V ABI, AMD64 supplement, 4.4; ELF for the Arm 64-bit Architecture, 5.7.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import CompileError

__all__ = ["ISLAND", "MACHINES", "RELOCATION", "Islands", "Machine", "Where"]

Array = np.ndarray[Any, Any]

RELOCATION = np.dtype([
    ("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8"),
])  # fmt: skip
"""A row of a table of relocations."""

ISLAND = 16
"""The bytes of an island, and what its address is a multiple of."""

_JUMP = np.array([0x58000050, 0xD61F0200], "<u4")
"""The code of an island: ``ldr x16, #8`` and ``br x16``."""


class Islands:
    """A place for each symbol that may lie too far away: code that jumps there, and its address
    behind, which other code reads."""

    def __init__(self, symbols: Iterable[Array]) -> None:
        wanted = {symbol for table in symbols for symbol in table.tolist()}
        self._symbols = np.array(sorted(wanted), np.int64)
        self._place = 0

    def lie_at(self, place: int) -> int:
        """Lie at a place of the memory; gives the end."""
        self._place = place
        return place + ISLAND * len(self._symbols)

    def fill(self, image: Array, values: Array) -> None:
        """Write the islands of symbols that have ``values``."""
        end = self._place + ISLAND * len(self._symbols)
        rows = image[self._place : end].view("<u4").reshape(-1, ISLAND // 4)
        rows[:, :2] = _JUMP
        rows[:, 2:] = values[self._symbols].astype("<u8").view("<u4").reshape(-1, 2)

    def places_of(self, symbols: Array) -> Array:
        """Where the islands of ``symbols`` lie."""
        return self._place + ISLAND * np.searchsorted(self._symbols, symbols)


@dataclass(frozen=True, slots=True)
class Where:
    """A section of an object file that relocations write into: ``place`` is where it lies in the
    ``image`` of the code, which will lie at the address ``base``; ``islands`` are those of its
    file."""

    image: Array
    base: int
    place: int
    islands: Islands


class Machine(ABC):
    """A kind of processor; ``number`` is what an object file calls it."""

    number: int

    def far_symbols(self, table: Array) -> Array:
        """The symbols of which a table of relocations wants `Islands`."""
        return np.zeros(0, np.int64)

    def relocate(self, where: Where, table: Array, values: Array) -> None:
        """Write into a section what its table of relocations says, of symbols that have
        ``values``."""
        for kind in sorted({*table["type"].tolist()}):
            rows = table[table["type"] == kind]
            at = rows["offset"].astype(np.int64) + where.place
            wanted = values[rows["symbol"]].view(np.int64) + rows["addend"]
            islands = where.base + where.islands.places_of(rows["symbol"])
            self.write(kind, where, at, wanted, islands)

    @abstractmethod
    def write(self, kind: int, where: Where, at: Array, wanted: Array, islands: Array) -> None:
        """Write relocations of one kind: places in the image, addresses that are wanted there, and
        the islands of these."""


def _write_bytes(image: Array, at: Array, numbers: Array, width: int) -> None:
    if width == 4 and np.any(numbers != numbers.astype(np.int32)):
        raise _too_far()
    written = numbers.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width]
    image[at[:, None] + np.arange(width)] = written


def _too_far() -> CompileError:
    return CompileError("native code cannot be loaded: a symbol is too far away")


def _unknown(kind: int) -> CompileError:
    return CompileError(f"native code cannot be loaded: relocations of kind {kind}")


_BYTES = {1: 8, 24: 8, 2: 4, 4: 4}
"""Of each kind on x86-64 the bytes that it writes: R_X86_64_64, PC64, PC32 and PLT32."""

_RELATIVE = (24, 2, 4)
"""The kinds on x86-64 that are relative to the place where they are written."""


class _X86(Machine):
    number = 62

    def write(self, kind: int, where: Where, at: Array, wanted: Array, islands: Array) -> None:
        if kind not in _BYTES:
            raise _unknown(kind)
        if kind in _RELATIVE:
            wanted = wanted - (where.base + at)
        _write_bytes(where.image, at, wanted, _BYTES[kind])


_ADDRESSES = {257: 8, 260: 8, 261: 4}
"""Of the kinds on AArch64 that write bytes how many: R_AARCH64_ABS64, PREL64 and PREL32."""

_JUMPS = (282, 283)
"""JUMP26 and CALL26: how far to go, in words."""

_PAGES = (275, 311)
"""ADR_PREL_PG_HI21 and ADR_GOT_PAGE: how far a page is, in pages."""

_LOW = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4, 312: 3}
"""Of the kinds with the low 12 bits of an address the bits that are left out of these: ADD, LDST of
8 to 128 bits, LD64_GOT_LO12_NC."""

_PARTS = {264: 0, 266: 1, 268: 2, 269: 3}
"""Of the kinds with 16 bits of an address which ones they are: MOVW_UABS_G0_NC to G3."""

_OF_ISLANDS = (311, 312)
"""The kinds that are about the place where an address stands."""


class _Arm(Machine):
    number = 183

    def far_symbols(self, table: Array) -> Array:
        return table["symbol"][np.isin(table["type"], (*_JUMPS, *_OF_ISLANDS))].astype(np.int64)

    def write(self, kind: int, where: Where, at: Array, wanted: Array, islands: Array) -> None:
        here = where.base + at
        if kind in _OF_ISLANDS:
            wanted = islands + ISLAND // 2
        if kind in _ADDRESSES:
            relative = wanted if kind == 257 else wanted - here
            _write_bytes(where.image, at, relative, _ADDRESSES[kind])
        elif kind in _JUMPS:
            is_far = abs(wanted - here) >= 1 << 27
            _write_bits(where, at, np.where(is_far, islands, wanted) - here >> 2, _WORDS)
        elif kind in _PAGES:
            _write_bits(where, at, (wanted >> 12) - (here >> 12), _PAGE)
        elif kind in _LOW:
            _write_bits(where, at, (wanted & 0xFFF) >> _LOW[kind], [(10, 12)])
        elif kind in _PARTS:
            _write_bits(where, at, (wanted >> 16 * _PARTS[kind]) & 0xFFFF, [(5, 16)])
        else:
            raise _unknown(kind)


_WORDS, _PAGE = [(0, 26)], [(29, 2), (5, 19)]
"""The fields of instructions (the lowest bit of each and how many) with a distance."""


def _write_bits(where: Where, at: Array, numbers: Array, fields: list[tuple[int, int]]) -> None:
    """Write numbers into fields of instructions, the lowest bits into the first."""
    reach = 1 << sum(count for _, count in fields) - 1
    if fields in (_WORDS, _PAGE) and np.any((numbers < -reach) | (numbers >= reach)):
        raise _too_far()
    words = where.image.view("<u4")
    for lowest, count in fields:
        mask = (1 << count) - 1
        others = words[at // 4] & np.uint32(0xFFFFFFFF ^ (mask << lowest))
        words[at // 4] = others | ((numbers & mask) << lowest).astype(np.uint32)
        numbers = numbers >> count


MACHINES: dict[str, Machine] = {"x86_64": _X86(), "aarch64": _Arm()}
"""The machines by the names that ``uname`` has for them."""
