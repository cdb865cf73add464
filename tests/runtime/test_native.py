"""The JIT: text to object code to addresses, and what it says of text that is wrong."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
import time

import llvmlite.binding as llvm
import numpy as np
import pytest
from native_kernels import N, entry_text, run

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import LANE, Buffer, Kernel
from staticflow.codegen.llvm.render import render_kernel, render_module
from staticflow.errors import CompileError
from staticflow.graph.dims import Sym
from staticflow.graph.dtypes import float32
from staticflow.runtime.compiler import emit_objects
from staticflow.runtime.compiler_settings import LEFT_OUT, Settings
from staticflow.runtime.machine import host_target, vector_bits
from staticflow.runtime.native import compile_native, load_native
from staticflow.runtime.once import Lock, once


def doubling(name: str, factor: float) -> Kernel:
    k = Builder([Buffer("x", float32, "inout")], [Sym("n")])
    with k.loop("i", N) as i:
        k.store("x", i, k.mul(k.load("x", i), factor))
    return k.kernel(name)


def called(address: int, x: np.ndarray) -> None:
    function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)(address)
    assert function(x.ctypes.data, len(x)) == 0


def test_module_of_several_kernels_and_its_object_code() -> None:
    kernels = [doubling("twice", 2.0), doubling("thrice", 3.0)]
    text = render_module(kernels) + "".join(map(entry_text, kernels))
    exports = ["call_twice", "call_thrice"]
    module = compile_native(text, exports)
    again = load_native(module.object_bytes, exports)
    for loaded in (module, again):
        x = np.ones(5, np.float32)
        called(loaded.address("call_twice"), x)
        called(loaded.address("call_thrice"), x)
        assert x.tolist() == [6.0] * 5
    assert module.llvm == text
    assert "call_thrice" in module.assembly()
    with pytest.raises(KeyError):
        module.address("twice")


def test_settings_are_those_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever becomes of a compilation: other libraries of the process compile, too."""
    found: list[str] = []
    turns = sys.getswitchinterval()
    monkeypatch.setattr(llvm, "set_option", lambda _, option: found.append(option))
    compile_native(f"{render_module([doubling('d', 2.0)])} ; {time.time()}", [])
    with pytest.raises(CompileError):
        compile_native("nothing", [])
    left_out = [f"-disable-{name}" for name in ("lsr", "cgp", "post-ra")]
    assert found == [f"{option}={on}" for on in ("true", "false") for option in left_out] * 2
    assert sys.getswitchinterval() == turns


def test_settings_that_nobody_left_are_left_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler of a signal that raises may keep a compilation from its end."""
    turns = sys.getswitchinterval()
    lost = Settings()
    lost.enter()
    assert sys.getswitchinterval() < turns
    del lost
    found: list[str] = []
    monkeypatch.setattr(llvm, "set_option", lambda _, option: found.append(option))
    with Settings(), Settings():
        pass
    assert found == [f"-disable-{n}={on}" for on in ("true", "false") for n in LEFT_OUT]
    assert sys.getswitchinterval() == turns


def test_settings_are_changed_once_for_all_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change has LLVM go through all of its options."""
    found: list[str] = []
    monkeypatch.setattr(llvm, "set_option", lambda _, option: found.append(option))
    text = "define i64 @{}() {{ ret i64 1 }}"
    emit_objects([(text.format(name), name == "b") for name in "abc"])
    assert found == [f"-disable-{n}={on}" for on in ("true", "false") for n in LEFT_OUT]


def test_functions_that_are_marked_are_inlined() -> None:
    text = """
    define internal i64 @successor(i64 %x) {mark} {{
      %y = add i64 %x, 1
      ret i64 %y
    }}
    define i64 @second(i64 %x) {{
      %y = call i64 @successor(i64 %x)
      %z = call i64 @successor(i64 %y)
      ret i64 %z
    }}
    """
    for mark, calls in (("", True), ("alwaysinline", False)):
        module = compile_native(text.format(mark=mark), ["second"])
        assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(module.address("second"))(3) == 5
        assert ("successor" in module.assembly()) is calls


def test_symbols_are_given_by_address() -> None:
    seen = []

    @ctypes.CFUNCTYPE(None, ctypes.c_int64)
    def report(value: int) -> None:
        seen.append(value)

    text = (
        "declare void @report(i64)\n"
        "define i32 @go(i64 %n) {\n  call void @report(i64 %n)\n  ret i32 0\n}\n"
    )
    address = ctypes.cast(report, ctypes.c_void_p).value
    assert address is not None
    module = compile_native(text, ["go"], {"report": address})
    ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(module.address("go"))(41)
    assert seen == [41]


def test_a_fault_in_the_text_is_shown_with_its_line() -> None:
    text = "define i32 @go(i64 %n) {\n  %a = add i64 %n, 1\n  %b = add i32 %a, 1\n  ret i32 %b\n}\n"
    with pytest.raises(CompileError, match=r"(?s)defined with type.*>\s+3   %b = add i32 %a, 1"):
        compile_native(text, ["go"])


def test_a_fault_found_by_the_verifier() -> None:
    text = "define i32 @go(i1 %c) {\na:\n  br i1 %c, label %b, label %d\nb:\n  %x = add i32 1, 1\n"
    text += "  br label %d\nd:\n  ret i32 %x\n}\n"
    with pytest.raises(CompileError, match="does not dominate"):
        compile_native(text, ["go"])


def test_a_missing_symbol() -> None:
    text = "declare i32 @nowhere_to_be_found()\n"
    text += "define i32 @go() {\n  %r = call i32 @nowhere_to_be_found()\n  ret i32 %r\n}\n"
    with pytest.raises(CompileError, match="cannot be loaded"):
        compile_native(text, ["go"])


def test_threads_compile_at_once() -> None:
    results: dict[int, float] = {}

    def work(factor: int) -> None:
        for _ in range(3):
            kernel = doubling("times", float(factor))
            x = np.ones(3, np.float32)
            assert run(kernel, {"x": x}, n=3) == 0
            results[factor] = x[2]

    threads = [threading.Thread(target=work, args=(factor,)) for factor in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {factor: float(factor) for factor in range(1, 7)}


def test_host_target() -> None:
    assert host_target().vector_bits == vector_bits() in (128, 256, 512)


@pytest.mark.skipif(vector_bits() < 512, reason="needs AVX-512")
def test_wide_vectors_are_used() -> None:
    k = Builder([Buffer("x", float32, "inout")], [])
    k.store("x", LANE, k.add(k.load("x", LANE, 16), 1.0))
    kernel = k.kernel("wide")
    assert "%zmm" in compile_native(render_kernel(kernel) + entry_text(kernel), []).assembly()


def test_what_threads_make_at_once_is_made_once() -> None:
    """What native code points to, and what the end of the process calls, is the one that is kept."""
    together = threading.Barrier(4)
    made: list[object] = []

    @once
    def slowly() -> object:
        time.sleep(0.02)
        made.append(object())
        return made[-1]

    def ask() -> None:
        together.wait()
        given.append(slowly())

    given: list[object] = []
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert given == made * 4


def test_a_process_that_begins_on_several_threads_ends() -> None:
    """It crashed as it ended: each thread had made a pool, and all but one were gone."""
    program = textwrap.dedent("""
        import threading
        import staticflow as sf
        together = threading.Barrier(4)
        def work(n):
            together.wait()
            x = sf.placeholder((None,))
            assert sf.compile([x], (x * n).exp())(sf.zeros(4)).tolist() == [1.0] * 4
        threads = [threading.Thread(target=work, args=(float(n),)) for n in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_arrays_come_from_is_made_once() -> None:
    """The memory of large arrays came from code that was gone: of four threads each had compiled
    it, and only the last was kept. Slowed down, all of them compile at a time."""
    program = textwrap.dedent("""
        import threading, time
        import staticflow as sf
        from staticflow.runtime.native import NativeModule
        codes, load = [], NativeModule.__init__
        def slowly(self, object_bytes, text, *loaded):
            codes.append(object_bytes)
            time.sleep(0.02)
            load(self, object_bytes, text, *loaded)
        NativeModule.__init__ = slowly
        together = threading.Barrier(4)
        def work():
            together.wait()
            y = (sf.ones(700, 1000) * 2.0).exp()
            y.add_(1.0)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert len(codes) == len(set(codes)) > 5, (len(codes), len(set(codes)))
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_computing_while_one_compiles_is_no_deadlock() -> None:
    """As a finalizer or a handler of a signal does; nor is the lock held in a child."""
    lock = Lock()
    with lock, lock:
        child = os.fork() if hasattr(os, "fork") else None
        if child == 0:
            free = threading.Thread(target=lambda: os._exit(0 if lock.acquire(timeout=5) else 1))
            free.start()
            free.join()
        if child is not None:
            assert os.waitpid(child, 0)[1] == 0
