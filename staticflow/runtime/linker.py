"""Machine code into memory: the object files that LLVM makes for this machine, without LLVM.

`link_object` reads an ELF file of x86-64 or AArch64 as LLVM makes it: it lays the sections out in
memory of its own, writes the addresses of symbols where `relocations` want them, and makes the code
executable and no longer writable. Files that name what others define are joined, one behind the
other: LLVM ends a file with the table of its sections, so its header says how long it is. So a
process whose code is on disk never imports LLVM, and code that is unloaded leaves nothing. What is
not known here is an error. Unwinding tables, where they are told apart, are left out: nothing
throws, and what ends a thread stops at a frame that has none. What was written and becomes
executable then, the system fetches anew.

Format: System V ABI, chapter 4 (object files).
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import CompileError
from staticflow.runtime.relocations import ISLAND, MACHINES, RELOCATION, Islands, Machine, Where

__all__ = ["LinkedCode", "join_objects", "link_object", "links_for"]

Array = np.ndarray[Any, Any]

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, least byte first
_RELOCATABLE = 1
_SYMBOLS, _RELOCATIONS, _NO_BITS, _PLAIN_RELOCATIONS, _UNWINDING = 2, 4, 8, 9, 0x70000001
_WRITABLE, _ALLOCATED, _OF_THREADS = 1, 2, 0x400
_UNDEFINED, _ABSOLUTE, _FIRST_RESERVED = 0, 0xFFF1, 0xFF00
_LOCAL = 0

_SECTION = np.dtype([
    ("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"),
    ("size", "<u8"), ("link", "<u4"), ("info", "<u4"), ("alignment", "<u8"), ("entry", "<u8"),
])  # fmt: skip
_SYMBOL = np.dtype([
    ("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"),
    ("size", "<u8"),
])  # fmt: skip


def links_for(platform: str, machine: str, word: int) -> bool:
    """Whether `link_object` is for a ``platform`` (``sys.platform``), a ``machine`` (of ``uname``)
    and processes whose largest size is ``word`` (``sys.maxsize``)."""
    return platform == "linux" and machine in MACHINES and word > 1 << 32


class LinkedCode:
    """Machine code in memory, with the addresses of what it exports. The memory is given back with
    the object, but not as the process ends: threads may still be in it."""

    def __init__(self, memory: _Memory, addresses: Mapping[str, int]) -> None:
        self._memory, self._addresses = memory, addresses

    def address(self, name: str) -> int:
        """The address of an exported function; KeyError if it was not exported."""
        return self._addresses[name]

    def stay(self) -> None:
        """Stay loaded until the process ends, for calls that come as the interpreter ends."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._memory))


def join_objects(files: Sequence[bytes]) -> bytes:
    """Object files as one, for `link_object`."""
    if len(files) > 1 and any(_length_of(data, 0) != len(data) for data in files):
        raise CompileError("native code cannot be joined: a file does not end with its sections")
    return b"".join(files)


def link_object(data: bytes, exports: Iterable[str], symbols: Mapping[str, int]) -> LinkedCode:
    """Load an object file, or such as `join_objects` joined. What these do not define is looked for
    in ``symbols``, then in the process. Raises `CompileError` where that fails, where an export is
    missing, and where a file has what is not known here."""
    files = [_File(piece) for piece in _pieces_of(data)]
    code_bytes, all_bytes = _lay_out(files)
    memory = _Memory(all_bytes)
    image = np.zeros(all_bytes, np.uint8)
    defined: dict[str, int] = {}
    for file in files:
        file.copy_sections(image)
        defined |= file.define(memory.address)
    known = {**symbols, **defined}
    for file in files:
        file.relocate(image, memory.address, known)
    missing = [name for name in exports if name not in defined]
    if missing:
        raise CompileError(f"native code cannot be loaded: it has no {', '.join(missing)}")
    memory.fill(image, code_bytes)
    return LinkedCode(memory, {name: defined[name] for name in exports})


def _pieces_of(data: bytes) -> Iterator[bytes]:
    """The files that were joined."""
    at = 0
    while at < len(data) or at == 0:
        if (
            data[at : at + 6] != _MAGIC
            or _number(data, at + 16, 2) != _RELOCATABLE
            or _number(data, at + 18, 2) != _machine().number
        ):
            raise CompileError("native code cannot be loaded: it is no object file of this machine")
        length = _length_of(data, at)
        yield data[at : at + length]
        at += length


def _length_of(data: bytes, at: int) -> int:
    """The bytes of the file at a place, to the end of the table of its sections."""
    return _number(data, at + 40, 8) + _number(data, at + 58, 2) * _number(data, at + 60, 2)


def _machine() -> Machine:
    return MACHINES[os.uname().machine]


class _File:
    """An object file, and where in the memory its sections lie, and its `islands`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.sections = np.frombuffer(data, _SECTION, _number(data, 60, 2), _number(data, 40, 8))
        self.kept = [i for i, s in enumerate(self.sections) if _is_kept(s)]
        self.places: dict[int, int] = {}
        self.islands = Islands(_machine().far_symbols(table) for _, table in self._relocations())
        self._values = np.zeros(0, np.uint64)
        self._undefined: dict[int, str] = {}

    def copy_sections(self, image: Array) -> None:
        """Put what the sections hold where these lie."""
        for i, place in self.places.items():
            section = self.sections[i]
            if section["type"] != _NO_BITS:
                at, size = int(section["offset"]), int(section["size"])
                image[place : place + size] = np.frombuffer(self._data, np.uint8, size, at)

    def define(self, base: int) -> dict[str, int]:
        """The addresses of the functions and variables that others may name, where the memory is at
        ``base``."""
        found = [s for s in self.sections if s["type"] == _SYMBOLS]
        if not found:
            return {}
        addresses = np.zeros(len(self.sections), np.uint64)
        for i, place in self.places.items():
            addresses[i] = base + place
        table = _table(self._data, found[0], _SYMBOL)
        strings = self.sections[found[0]["link"]]
        names = _table(self._data, strings, np.dtype(np.uint8)).tobytes()
        values = self._values = table["value"].copy()
        inside = (table["section"] != _UNDEFINED) & (table["section"] < _FIRST_RESERVED)
        values[inside] += addresses[table["section"][inside]]
        defined: dict[str, int] = {}
        for i in np.flatnonzero(table["info"] >> 4 != _LOCAL).tolist():
            start, section = int(table["name"][i]), int(table["section"][i])
            name = names[start : names.index(0, start)].decode()
            if section == _UNDEFINED:
                self._undefined[i] = name
            elif inside[i] or section == _ABSOLUTE:
                defined[name] = int(values[i])
            else:
                raise CompileError(f"native code cannot be loaded: {name} is in no section")
        return defined

    def relocate(self, image: Array, base: int, known: Mapping[str, int]) -> None:
        """Write into the sections what their relocations say, where others are ``known``."""
        for i, name in self._undefined.items():
            self._values[i] = known[name] if name in known else _address_in_process(name)
        self.islands.fill(image, self._values)
        for section, table in self._relocations():
            where = Where(image, base, self.places[section], self.islands)
            _machine().relocate(where, table, self._values)

    def _relocations(self) -> Iterator[tuple[int, Array]]:
        """The sections that are kept, by their numbers, with the relocations that each has."""
        for section in self.sections:
            of = int(section["info"])
            if of in self.kept and section["type"] == _PLAIN_RELOCATIONS:
                raise CompileError(
                    "native code cannot be loaded: it has relocations without addends"
                )
            if of in self.kept and section["type"] == _RELOCATIONS:
                yield of, _table(self._data, section, RELOCATION)


def _is_kept(section: Any) -> bool:
    flags = int(section["flags"])
    if flags & _OF_THREADS:
        raise CompileError("native code cannot be loaded: it has variables of threads")
    return bool(flags & _ALLOCATED) and section["type"] != _UNWINDING


def _lay_out(files: Sequence[_File]) -> tuple[int, int]:
    """Say where each section lies; gives how many bytes of them are code and constants, and all
    bytes, both whole pages: what is written lies behind, on pages of its own."""
    end, ends = 0, []
    for is_written in (False, True):
        for file in files:
            for i in file.kept:
                section = file.sections[i]
                if bool(int(section["flags"]) & _WRITABLE) is is_written:
                    place = _round_up(end, max(1, int(section["alignment"])))
                    file.places[i] = place
                    end = place + int(section["size"])
            if not is_written:
                end = file.islands.lie_at(_round_up(end, ISLAND))
        end = _round_up(end, mmap.PAGESIZE)
        ends.append(end)
    return ends[0], max(ends[1], mmap.PAGESIZE)


def _table(data: bytes, section: Any, dtype: np.dtype[Any]) -> Array:
    count = int(section["size"]) // dtype.itemsize
    return np.frombuffer(data, dtype, count, int(section["offset"]))


def _number(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "little")


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


@functools.cache
def _address_in_process(name: str) -> int:
    """The address of what the process exports."""
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))
    except ValueError:
        why = ", as this processor computes no float16" if name in _OF_FLOAT16 else ""
        raise CompileError(f"native code cannot be loaded: it needs {name}{why}") from None


_OF_FLOAT16 = ("__extendhfsf2", "__truncsfhf2", "__truncdfhf2")
"""What LLVM calls on x86-64 for float16 where there is no F16C, which came in 2012."""


# -- memory ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _System:
    """What the C library has for pages."""

    map: Any
    protect: Any
    unmap: Any


@functools.cache
def _system() -> _System:
    library = ctypes.CDLL(None, use_errno=True)
    address, size, flags = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    library.mmap.restype = address
    library.mmap.argtypes = (address, size, flags, flags, flags, ctypes.c_int64)
    library.mprotect.argtypes = (address, size, flags)
    library.munmap.argtypes = (address, size)
    return _System(library.mmap, library.mprotect, library.munmap)


class _Memory:
    """Whole pages, private to the process, and given back with the object."""

    def __init__(self, size: int) -> None:
        self._unmap, self._is_ending = _system().unmap, sys.is_finalizing
        self.address, self._size = 0, size
        found = _system().map(
            None,
            size,
            mmap.PROT_READ | mmap.PROT_WRITE,
            mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
            -1,
            0,
        )
        if found == ctypes.c_void_p(-1).value:
            raise _error_of_system("there is no memory for it")
        self.address = found

    def fill(self, image: Array, code_bytes: int) -> None:
        """Write what is to lie here; the first ``code_bytes`` can be run, and not written, then."""
        ctypes.memmove(self.address, image.ctypes.data, image.nbytes)
        readable = mmap.PROT_READ | mmap.PROT_EXEC
        if code_bytes and _system().protect(self.address, code_bytes, readable):
            raise _error_of_system("the system does not let it run")

    def __del__(self) -> None:
        if self.address and not self._is_ending():
            self._unmap(self.address, self._size)


def _error_of_system(what: str) -> CompileError:
    number = ctypes.get_errno()
    return CompileError(f"native code cannot be loaded: {what} ({os.strerror(number)})")
