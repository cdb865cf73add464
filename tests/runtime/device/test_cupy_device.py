"""The device of cupy: what it asks cupy for, by a stand-in that notes it down, and what it says
where there is no cupy or no memory."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_cublas import FakeCublas
from fake_nvrtc import FakeNvrtc

import staticflow as sf
from staticflow.codegen.cuda.render import NVRTC_OPTIONS
from staticflow.errors import CompileError, DeviceError
from staticflow.graph.dtypes import float32
from staticflow.runtime.device.cupy_device import CupyDevice
from staticflow.runtime.device.devices import OPEN
from staticflow.runtime.device.interface import EpilogueAt, MatricesAt, Pointer


class Refused(Exception):
    """What the stand-in raises in the place of an error of the runtime."""

    status = 901


class OutOfMemory(MemoryError):
    """What it raises where there is no memory."""


class Cupy:
    """The names of cupy that the device uses. What is called is in ``calls``."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.error = False
        self.streams = [_Stream(self, 7)]
        self.cuda = SimpleNamespace(
            Device=lambda index: _Device(self, index),
            get_current_stream=lambda: self.streams[-1],
            Stream=lambda non_blocking: _Stream(self, 8 if non_blocking else 9),
            Event=lambda disable_timing: _Event(self, disable_timing),
            device=SimpleNamespace(get_cublas_handle=lambda: self.note("load cuBLAS")),
            runtime=SimpleNamespace(
                CUDARuntimeError=Refused,
                runtimeGetVersion=lambda: 13010,
                streamCaptureModeThreadLocal=1,
                memcpyAsync=lambda *args: self.note("memcpyAsync", *args),
                memsetAsync=lambda *args: self.note("memsetAsync", *args),
            ),
            driver=SimpleNamespace(CUDADriverError=Refused),
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemory),
            nvrtc=FakeNvrtc(),
            Module=lambda: _Module(self),
        )

    def get_default_memory_pool(self) -> Any:
        return SimpleNamespace(free_bytes=lambda: 7)  # held, and nobody's

    def note(self, *call: Any) -> None:
        self.calls.append(call)

    def empty(self, shape: Any, dtype: Any) -> Any:
        if self.error:
            raise OutOfMemory("Out of memory allocating 4,096 bytes")
        self.note("empty", shape, np.dtype(dtype))


class _Module:
    """As ``cupy.cuda.Module``."""

    def __init__(self, cupy: Cupy) -> None:
        self.cupy = cupy

    def load(self, cubin: bytes) -> None:
        assert cubin.startswith(f"code {' '.join(NVRTC_OPTIONS)} --gpu".encode())
        self.cupy.note("load", cubin.decode().split()[-1])

    def get_function(self, name: str) -> Any:
        return lambda grid, block, args: self.cupy.note("launch", name, grid, block, args)


class _Device:
    """As `cupy.cuda.Device`, a context."""

    mem_info = 100, 1000
    compute_capability = "90"

    def __init__(self, cupy: Cupy, index: int) -> None:
        self.id = index

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class _Event:
    """As `cupy.cuda.Event`."""

    def __init__(self, cupy: Cupy, disable_timing: bool) -> None:
        assert disable_timing
        self.cupy = cupy

    def record(self) -> None:
        self.cupy.note("record", self.cupy.streams[-1].ptr)

    def synchronize(self) -> None:
        self.cupy.note("wait")


class _Stream:
    """As `cupy.cuda.Stream`, the current one in a block."""

    def __init__(self, cupy: Cupy, ptr: int) -> None:
        self.cupy, self.ptr = cupy, ptr

    def __enter__(self) -> None:
        self.cupy.streams.append(self)

    def __exit__(self, *_: object) -> None:
        self.cupy.streams.pop()

    def synchronize(self) -> None:
        self.cupy.note("synchronize")

    def begin_capture(self, mode: int) -> None:
        self.cupy.note("begin", self.ptr, mode)

    def end_capture(self) -> Any:
        self.cupy.note("end", self.ptr)
        if self.cupy.error:
            raise Refused("the capture was invalidated")
        return SimpleNamespace(launch=lambda: self.cupy.note("graph", self.cupy.streams[-1].ptr))


def device_over(monkeypatch: pytest.MonkeyPatch, cupy: Cupy) -> CupyDevice:
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return CupyDevice(0)


def test_what_it_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = Cupy()
    device = device_over(monkeypatch, cupy)
    device.empty([2, 3], np.dtype(np.float32))
    one = SimpleNamespace(set=lambda array: cupy.note("set", array.shape, array.dtype))
    device.upload(one, np.array(2.0))
    there = SimpleNamespace(get=lambda out, blocking: cupy.note("get", out.shape, blocking))
    device.download(np.empty((2, 3)), there)
    device.copy(1000, 2000, 12)
    device.clear(3000, 4)
    kernel = device.compile("text")("name")
    device.launch(kernel, (2, 1, 1), (256, 1, 1), [Pointer(4096, float32, True), np.int64(5)])
    device.synchronize()
    *rest, (_, name, grid, block, arguments), last = cupy.calls
    assert rest == [
        ("empty", (2, 3), np.dtype(np.float32)),
        ("set", (), np.dtype(np.float64)),
        ("get", (2, 3), False),
        ("memcpyAsync", 1000, 2000, 12, 3, 7),
        ("memsetAsync", 3000, 0, 4, 7),
        ("load", "text"),
    ]
    assert (name, grid, block) == ("name", (2, 1, 1), (256, 1, 1))
    assert [(type(a), int(a)) for a in arguments] == [(np.uint64, 4096), (np.int64, 5)]
    assert last == ("synchronize",)


def test_copies_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = Cupy()
    device = device_over(monkeypatch, cupy)
    cupyx = SimpleNamespace(empty_pinned=lambda shape, dtype: np.empty(shape, dtype))
    monkeypatch.setitem(sys.modules, "cupyx", cupyx)
    memory = device.pinned_memory(12)
    assert memory.shape == (12,) and memory.dtype == np.uint8
    device.send(4096, memory)
    device.fetch(memory, 8192)
    device.wait(device.record())
    at = memory.ctypes.data
    assert cupy.calls == [
        ("memcpyAsync", 4096, at, 12, 1, 7), ("memcpyAsync", at, 8192, 12, 2, 7), ("record", 7),
        ("wait",),
    ]  # fmt: skip


def test_a_capture_is_in_a_stream_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = Cupy()
    device = device_over(monkeypatch, cupy)
    graph = device.capture(lambda: device.clear(3000, 4))
    device.launch_graph(graph)
    assert device.stream() == 7
    assert cupy.calls == [("begin", 8, 1), ("memsetAsync", 3000, 0, 4, 8), ("end", 8), ("graph", 7)]
    cupy.error = True
    with pytest.raises(DeviceError, match="cuda:0: the capture was invalidated"):
        device.capture(lambda: None)

    def work() -> None:
        raise DeviceError("what went wrong first")

    with pytest.raises(DeviceError, match="what went wrong first"):
        device.capture(work)
    assert cupy.calls[-1] == ("end", 8) and len(cupy.streams) == 1


def test_products_are_asked_of_cublas(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = Cupy()
    device = device_over(monkeypatch, cupy)
    f32 = np.dtype(np.float32)
    at = [MatricesAt(a, f32, (2, 2), (8, 4)) for a in (512, 1024, 2048)]
    with FakeCublas.put_in(monkeypatch) as library:
        device.multiply(*at, 4096, tf32=False)
        device.multiply(*at, 4096, tf32=True)
    assert cupy.calls == [("load cuBLAS",)]
    first, *rest = library.calls
    assert first == ("cublasCreate_v2",)
    assert rest == 2 * [
        ("cublasSetStream_v2", 7),
        ("cublasSetWorkspace_v2", 4096, 32 << 20),
        ("float32", 2048, 1024, 512),
    ]


def test_epilogues_are_asked_of_cublaslt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it has no algorithm, the products are cuBLAS's, and the epilogue is left to others."""
    device = device_over(monkeypatch, Cupy())
    x, w, out = (np.ones((2, 2), np.float32) for _ in range(3))
    bias = np.ones(2, np.float32)
    at = [MatricesAt(a.ctypes.data, a.dtype, a.shape, a.strides) for a in (out, x, w)]
    epilogue = EpilogueAt(bias.ctypes.data, "")
    with FakeCublas.put_in(monkeypatch, computes=True) as library:
        assert device.multiply(*at, 4096, tf32=False, epilogue=epilogue)
        assert (out == 3).all() and len(library.calls) == 1
        library.other.has_algorithms = False
        at[1] = replace(at[1], shape=(2, 1))  # of another kind, of which it was not asked
        at[2] = replace(at[2], shape=(1, 2))
        assert not device.multiply(*at, 4096, tf32=False, epilogue=epilogue)
        assert (out == 1).all()
        assert device.multiply(*at, 4096, tf32=False)


def test_memory_and_texts_that_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = Cupy()
    device = device_over(monkeypatch, cupy)
    with pytest.raises(CompileError, match="cuda:0: NVRTC refuses a kernel: line 1: wrong"):
        device.compile("wrong")
    cupy.error = True
    says = r"^cuda:0: 4,096 bytes are asked for, and 107 of 1,000 are free$"
    with pytest.raises(MemoryError, match=says):
        device.empty([1024], np.dtype(np.float32))
    monkeypatch.setattr(Refused, "status", 2)  # of the runtime: a graph that has no memory
    with pytest.raises(MemoryError, match=r"^cuda:0: the capture .*, and 107 of 1,000 are free$"):
        device.capture(lambda: None)


def test_a_program_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert 0 not in OPEN
    x = sf.placeholder((3,), name="x")
    with pytest.raises(DeviceError, match="cupy is not installed"):
        sf.compile([x], x * 2, device="cuda")
