"""What machine code leaves behind once it is unloaded."""

from __future__ import annotations

import ctypes
import gc

import pytest

from staticflow.runtime import compiler
from staticflow.runtime.native import compile_native, load_native

TEXT = "define i64 @f(i64 %x) { %y = add i64 %x, 1\n ret i64 %y }"


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
    before = _bytes_in_use()
    for _ in range(200):
        load_native(code, ["f"])
    assert _bytes_in_use() - before < 50 * 200


FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def test_code_outlives_the_linker_of_llvm_that_came_after() -> None:
    """On machines that staticflow's own linker is not for."""
    code = compile_native(TEXT, ["f"]).object_bytes
    kept = [compiler.link_with_llvm(code, ["f"], {}) for _ in range(3)]
    for _ in range(compiler.LOADS_OF_A_LINKER):
        compiler.link_with_llvm(code, ["f"], {})
    gc.collect()
    assert [FUNCTION(linked.address("f"))(41) for linked in kept] == [42, 42, 42]
