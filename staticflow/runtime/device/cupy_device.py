"""A GPU by way of cupy, which is imported when a program for one is first compiled.

All is done in the stream that is cupy's current one in this thread, so that it comes in order with
what eager tensors do; memory is of cupy's pool.
"""

from __future__ import annotations

import importlib
import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from staticflow.errors import CompileError, DeviceError
from staticflow.graph.locs import format_locs, here
from staticflow.runtime.device.cublas import Cublas
from staticflow.runtime.device.cublaslt import CublasLt
from staticflow.runtime.device.device_code import compile_text
from staticflow.runtime.device.graph_loops import GraphLoops, find_graph_loops, warn_without_loops
from staticflow.runtime.device.interface import Argument, Dim3, EpilogueAt, MatricesAt, Pointer

__all__ = ["CupyDevice"]

T = TypeVar("T")

_HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEVICE_TO_DEVICE = 1, 2, 3
"""The kinds of copies, as the runtime of CUDA numbers them."""

_NO_MEMORY = 2
"""The status by which the runtime and the driver of CUDA say that there is no memory."""


class CupyDevice:
    """The GPU of a number, of which whoever asks for it knows that cupy can use it."""

    def __init__(self, index: int) -> None:
        self.name = f"cuda:{index}"
        self._cupy: Any = importlib.import_module("cupy")
        self._device = self._cupy.cuda.Device(index)
        self._libraries: tuple[Cublas, CublasLt] | None = None
        self._multiplying = threading.Lock()  # a handle of cuBLAS remembers a stream

    @contextmanager
    def _here(self) -> Iterator[Any]:
        """cupy, with this GPU as the current one, and errors in our words."""
        cupy = self._cupy
        try:
            with self._device:
                yield cupy
        except cupy.cuda.memory.OutOfMemoryError as error:
            raise self._memory_error(error) from None
        except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
            if error.status == _NO_MEMORY:  # as of a graph, which is not of cupy's pool
                raise self._memory_error(error) from None
            raise DeviceError(f"{self.name}: {error}, at {format_locs(here())}") from None

    def _memory_error(self, error: Exception) -> MemoryError:
        """What says how much was asked for, if ``error`` does, and how much is free."""
        free, total = self._device.mem_info
        free += self._cupy.get_default_memory_pool().free_bytes()
        asked = re.search(r"allocating ([\d,]+) bytes", str(error))
        return MemoryError(
            f"{self.name}: {f'{asked[1]} bytes are asked for' if asked else error}, and "
            f"{free:,} of {total:,} are free"
        )

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """A new array, in one row, of no particular values."""
        with self._here() as cupy:
            return cupy.empty(tuple(shape), dtype)

    def address(self, array: Any) -> int:
        """Where the first element of an array lies."""
        return int(array.data.ptr)

    def compute(self, work: Callable[[Any], T]) -> T:
        """What ``work`` gives of cupy."""
        with self._here() as cupy:
            return work(cupy)

    def array_at(self, address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """The memory from an address on as an array."""
        with self._here() as cupy:
            bytes_ = math.prod(shape) * dtype.itemsize
            memory = cupy.cuda.UnownedMemory(address, bytes_, self, self._device.id)
            return cupy.ndarray(tuple(shape), dtype, cupy.cuda.MemoryPointer(memory, 0))

    def upload(self, target: Any, source: np.ndarray[Any, Any]) -> None:
        """Copy an array of the host to ``target``."""
        with self._here():
            target.set(np.asarray(source, order="C"))  # ascontiguousarray adds a dim to none

    def download(self, target: np.ndarray[Any, Any], source: Any) -> None:
        """Copy ``source`` to an array of the host, which it has reached after `synchronize`."""
        with self._here():
            source.get(out=target, blocking=False)

    def pinned_memory(self, bytes_: int) -> np.ndarray[Any, Any]:
        """New page-locked memory of the host."""
        with self._here():
            new: np.ndarray[Any, Any] = importlib.import_module("cupyx").empty_pinned(
                (bytes_,), np.uint8
            )
            return new

    def send(self, target: int, source: np.ndarray[Any, Any]) -> None:
        """Copy pinned memory to an address."""
        with self._here() as cupy:
            stream = cupy.cuda.get_current_stream().ptr
            at, bytes_ = source.ctypes.data, source.nbytes
            cupy.cuda.runtime.memcpyAsync(target, at, bytes_, _HOST_TO_DEVICE, stream)

    def fetch(self, target: np.ndarray[Any, Any], source: int) -> None:
        """Fill pinned memory from an address."""
        with self._here() as cupy:
            stream = cupy.cuda.get_current_stream().ptr
            at, bytes_ = target.ctypes.data, target.nbytes
            cupy.cuda.runtime.memcpyAsync(at, source, bytes_, _DEVICE_TO_HOST, stream)

    def record(self) -> Any:
        """An event of the current stream."""
        with self._here() as cupy:
            event = cupy.cuda.Event(disable_timing=True)
            event.record()
            return event

    def wait(self, event: Any) -> None:
        """Wait for an event."""
        with self._here():
            event.synchronize()

    def copy(self, target: int, source: int, bytes_: int) -> None:
        """Copy bytes from address to address."""
        with self._here() as cupy:
            stream = cupy.cuda.get_current_stream().ptr
            cupy.cuda.runtime.memcpyAsync(target, source, bytes_, _DEVICE_TO_DEVICE, stream)

    def clear(self, target: int, bytes_: int) -> None:
        """Set bytes to 0."""
        with self._here() as cupy:
            stream = cupy.cuda.get_current_stream().ptr
            cupy.cuda.runtime.memsetAsync(target, 0, bytes_, stream)

    def compile(self, source: str) -> Callable[[str], Any]:
        """What gives a kernel by its name."""
        with self._here() as cupy:
            try:
                code = compile_text(cupy.cuda.nvrtc, source, int(self._device.compute_capability))
            except CompileError as error:
                raise CompileError(f"{self.name}: {error}") from None
            module = cupy.cuda.Module()
            module.load(code)
            found: Callable[[str], Any] = module.get_function
            return found

    def launch(self, kernel: Any, grid: Dim3, block: Dim3, arguments: Sequence[Argument]) -> None:
        """Run a kernel. A Python number would go as 64 bits whatever its parameter is."""
        with self._here():
            kernel(
                grid,
                block,
                tuple(np.uint64(a.address) if isinstance(a, Pointer) else a for a in arguments),
            )

    @property
    def workspace_bytes(self) -> int:
        """What cuBLAS recommends: 32 MiB from compute capability 9.0 on, else 4 MiB."""
        return (32 if int(self._device.compute_capability) >= 90 else 4) << 20

    def multiply(
        self,
        target: MatricesAt,
        left: MatricesAt,
        right: MatricesAt,
        workspace: int,
        *,
        tf32: bool,
        epilogue: EpilogueAt | None = None,
    ) -> bool:
        """Write the products of matrices: cuBLAS does, and cuBLASLt such with an epilogue, unless
        it has no algorithm. They are called without cupy, which refuses cuBLAS in a capture."""
        with self._here() as cupy, self._multiplying:
            if self._libraries is None:  # of a run, since a capture allows no new memory
                cupy.cuda.device.get_cublas_handle()  # has cupy find and load both
                version = cupy.cuda.runtime.runtimeGetVersion() // 1000
                self._libraries = Cublas(version), CublasLt(version)
            plain, other = self._libraries
            stream, bytes_ = self.stream(), self.workspace_bytes
            if epilogue is not None:
                three, memory = (target, left, right), (workspace, bytes_)
                if other.multiply(three, epilogue, stream, memory, tf32=tf32):
                    return True
            plain.begin(stream, workspace, bytes_)
            plain.multiply(target, left, right, tf32=tf32)
            return epilogue is None

    def stream(self) -> int:
        """The number of cupy's current stream in this thread."""
        with self._here() as cupy:
            return int(cupy.cuda.get_current_stream().ptr)

    def capture(self, work: Callable[[], None]) -> Any:
        """What ``work`` asks for, as a graph, captured in a stream of its own, as that of cupy may
        be the default one, which CUDA does not capture."""
        with self._here() as cupy:
            stream = cupy.cuda.Stream(non_blocking=True)
            with stream:
                stream.begin_capture(cupy.cuda.runtime.streamCaptureModeThreadLocal)
                try:
                    work()
                except BaseException:
                    with suppress(cupy.cuda.runtime.CUDARuntimeError):  # of what is invalid now
                        stream.end_capture()
                    raise
                return stream.end_capture()

    @property
    def loops_in_graphs(self) -> bool:
        """Whether CUDA has conditional nodes here, and cuda-bindings reaches them."""
        return self._graph_loops is not None

    @cached_property
    def _graph_loops(self) -> GraphLoops | None:
        try:
            with self._here() as cupy:
                return find_graph_loops(cupy, int(self._device.compute_capability))
        except Exception as error:  # whatever packages and drivers of others raise
            warn_without_loops(self.name, error)
            return None

    def capture_while(self, word: int, work: Callable[[], None]) -> None:
        """Have the graph that is captured do ``work`` as long as the int32 at ``word`` is 0."""
        loops = self._graph_loops
        if loops is None:
            raise DeviceError(f"{self.name} has no loops in graphs")
        with self._here():
            loops.capture(word, work)

    def give_up_loops(self, why: object) -> None:
        """Have no loops in graphs from now on, and warn ``why`` if there were some until now."""
        if self._graph_loops is not None:
            self._graph_loops = None
            warn_without_loops(self.name, why)

    def launch_graph(self, graph: Any) -> None:
        """Do all that was captured."""
        with self._here():
            graph.launch()

    def synchronize(self) -> None:
        """Wait for the current stream."""
        with self._here() as cupy:
            cupy.cuda.get_current_stream().synchronize()
