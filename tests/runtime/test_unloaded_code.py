"""What machine code leaves behind once it is unloaded."""

from __future__ import annotations

import ctypes
import gc
import tracemalloc

import pytest

import staticflow as sf
from staticflow.graph import proofs
from staticflow.passes import access
from staticflow.runtime import compiler
from staticflow.runtime.native import compile_native, load_native

TEXT = "define i64 @f(i64 %x) { %y = add i64 %x, 1\n ret i64 %y }"


TRIES = 3
"""Of which the least counts: a table that is about to grow, or another thread, is in one of them."""


class _Memory(ctypes.Structure):
    """What the C library says of its memory: ``inuse`` are the bytes that somebody has."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "a", "b", "c", "mapped", "d", "e", "inuse", "free", "f")
    ]


def _bytes_in_use() -> int:
    gc.collect()
    tell = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if tell is None:
        pytest.skip("the C library does not say how much memory is in use")
    tell.restype = _Memory
    found = tell()
    return int(found.inuse + found.mapped)


def test_modules_that_are_gone_leave_nothing() -> None:
    code = compile_native(TEXT, ["f"]).object_bytes
    load_native(code, ["f"])
    grown = []
    for _ in range(TRIES):
        before = _bytes_in_use()
        for _ in range(200):
            load_native(code, ["f"])
        grown.append(_bytes_in_use() - before)
    assert min(grown) < 50 * 200, grown


FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def test_code_outlives_the_linker_of_llvm_that_came_after() -> None:
    """On machines that staticflow's own linker is not for."""
    code = compile_native(TEXT, ["f"]).object_bytes
    kept = [compiler.link_with_llvm(code, ["f"], {}) for _ in range(3)]
    for _ in range(compiler.LOADS_OF_A_LINKER):
        compiler.link_with_llvm(code, ["f"], {})
    gc.collect()
    assert [FUNCTION(linked.address("f"))(41) for linked in kept] == [42, 42, 42]


def _compile_and_drop(number: float) -> None:
    x = sf.placeholder((None, 8), name="x")
    sf.compile([x], (x * number).exp().sum(1))(sf.ones(3, 8))


def _python_bytes() -> int:
    """What Python holds, without the proofs and domains that are remembered, which are bounded."""
    proofs._prove_once.cache_clear()
    access.canonical_index.cache_clear()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def test_a_program_that_is_gone_leaves_less_than_a_kilobyte() -> None:
    for number in range(12):
        _compile_and_drop(number + 0.5)
    grown = []
    tracemalloc.start(1)
    try:
        for first in range(TRIES):
            before = _python_bytes()
            for number in range(16):
                _compile_and_drop(100 * (first + 1) + number + 0.5)
            grown.append(_python_bytes() - before)
    finally:
        tracemalloc.stop()
    assert min(grown) < 1000 * 16, grown
