"""Programs that are kept on disk: what a call has to know of one, found by its recipe, so that
another process neither runs passes nor makes text.

An entry of the `code_cache` is a JSON text, with a mark and its length before it and the elements
of the program's constants behind. It names the machine code by the keys of other entries, which
texts that are compiled find, too. Where one of these is gone, there is no such program.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from staticflow.graph.dtypes import dtype_of
from staticflow.runtime.code_cache import LIMIT, CodeCache
from staticflow.runtime.native import ObjectCode
from staticflow.runtime.program_code import EntryCode, OutputFacts, ParamFacts, ProgramCode

__all__ = ["MARK", "find_program", "store_program"]

MARK = b"program\n"
"""How an entry begins that is a program."""

_MOST_OF_CONSTANTS = LIMIT // 16
"""Bytes of the constants of a program that is kept, at most."""

_HEAD = len(MARK) + 8
"""The bytes of the mark, and of the length of the JSON text behind it."""


def store_program(cache: CodeCache, key: bytes, code: ProgramCode) -> None:
    """Keep a program, if another process can have it without its draft: it has a native entry, asks
    for no references, and its constants are not too large."""
    entry = code.entry
    if entry is None or code.asks or sum(c.nbytes for c in entry.constants) > _MOST_OF_CONSTANTS:
        return
    header = {
        "object": code.object.key.hex(),
        "exports": code.exports,
        "is_shared": code.is_shared,
        "called": code.called,
        "kernels": code.kernels,
        "has_arena": code.has_arena,
        "growing": code.growing,
        "entry": entry.object.key.hex(),
        "params": [(p.dtype.name, p.sizes, p.is_row_major, p.is_updated) for p in entry.params],
        "outputs": [(o.dtype.name, o.at, o.ndim, o.is_late, o.may_be_large) for o in entry.outputs],
        "constants": [(dtype_of(c.dtype).name, c.shape) for c in entry.constants],
        "numbers": entry.numbers,
        "traffic": entry.traffic,
    }
    text = json.dumps(header).encode()
    elements = (c.tobytes() for c in entry.constants)
    cache.store(key, b"".join((MARK, len(text).to_bytes(8, "little"), text, *elements)))


def find_program(cache: CodeCache, key: bytes) -> ProgramCode | None:
    """The program that is kept under ``key``, with all of its machine code; None if there is
    none."""
    data = cache.find(key)
    if data is None:
        return None
    end = _HEAD + int.from_bytes(data[len(MARK) : _HEAD], "little")
    header = json.loads(data[_HEAD:end])
    code, of_entry = (_find_object(cache, header[name]) for name in ("object", "entry"))
    if code is None or of_entry is None:
        return None
    entry = EntryCode(
        of_entry,
        tuple(
            ParamFacts(dtype_of(dtype), tuple(sizes), *flags)
            for dtype, sizes, *flags in header["params"]
        ),
        tuple(OutputFacts(dtype_of(dtype), *facts) for dtype, *facts in header["outputs"]),
        tuple(_read_constants(header["constants"], data, end)),
        header["numbers"],
        header["traffic"],
    )
    return ProgramCode(
        code,
        tuple(header["exports"]),
        header["is_shared"],
        tuple(header["called"]),
        header["kernels"],
        header["has_arena"],
        header["growing"],
        0,
        entry,
    )


def _find_object(cache: CodeCache, name: str) -> ObjectCode | None:
    key = bytes.fromhex(name)
    data = cache.find(key)
    return None if data is None else ObjectCode(data, key)


def _read_constants(
    listed: list[tuple[str, list[int]]], data: bytes, at: int
) -> Iterator[np.ndarray[Any, Any]]:
    for name, shape in listed:
        dtype = dtype_of(name).numpy
        array = np.empty(shape, dtype)
        count = prod(shape) * dtype.itemsize
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(data, np.uint8, count, at)
        at += count
        yield array
