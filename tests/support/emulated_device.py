"""A device for tests over the emulator of CUDA kernels, whose arrays are those of the stand-in for
cupy.

It is lazy: what is asked for is only noted down, and done when somebody waits for it, so that a
value that is read too early is poison. New memory is poison, too, and ends at a guard page. Eager
operations of the stand-in come behind what was asked for before in the current stream, as in cupy;
what other streams were asked for is done only where somebody waits for those.

While a graph is captured, nothing is done, and what CUDA refuses then is an error: new memory,
copies from and to the host, waiting, and eager operations. Every address in a graph must lie in
memory that is still held as the graph is launched, and a kernel in it must have run before, since
the first launch of one loads its code.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from emulator import DeviceArray, EmulatorError, Module
from fake_cupy import fake_cupy, install

from staticflow.errors import CompileError, DeviceError
from staticflow.runtime.device.devices import OPEN
from staticflow.runtime.device.graph_loops import warn_without_loops
from staticflow.runtime.device.interface import Argument, Dim3, EpilogueAt, MatricesAt, Pointer

__all__ = ["ACTIVATIONS", "EmulatedDevice", "as_tf32", "emulated_gpus", "values_now"]

Array = np.ndarray[Any, Any]


def values_now(array: Any) -> Array:
    """The memory of an array of the stand-in, as it is before what was asked for is done."""
    values: Array = array.__dict__["values"]
    return values


def as_tf32(x: Array) -> Array:
    """An array of float32 as tensor cores see it, which look at 10 bits behind the point."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
}
"""What a library does to the elements of a product."""


class EmulatedDevice:
    """The GPU of a ``number``. Blocks and threads run in an ``order`` of the emulator's, and
    ``races`` of threads are errors, if they are looked for.

    ``counts`` says how often each thing was asked for. What is in ``faults`` goes wrong: as many
    times of it go well as the number says.
    """

    def __init__(self, number: int, order: str = "forward", races: bool = False) -> None:
        self.number, self.name, self.order = number, f"cuda:{number}", order
        self.races = races
        self.counts: Counter[str] = Counter()
        self.faults: dict[str, int] = {}
        self.current = 0  # the stream
        self.workspace_bytes = 64
        self.loops_in_graphs = False  # as without cuda-bindings
        self.has_epilogues = True  # of products
        self.largest_graph = 0  # the nodes of the largest that was captured
        self._queues: dict[int, deque[Callable[[], object]]] = {}
        self._captured: _Graph | None = None  # while one is captured
        self._ran: set[tuple[int, str]] = set()  # kernels that have run
        self._memory: dict[int, weakref.ref[Array]] = {}  # by the id of each
        self._held: list[Array] = []  # what somebody has held since the queue was empty

    def _count(self, what: str) -> bool:
        """Whether it goes well."""
        self.counts["captured" if self._captured and what == "launch" else what] += 1
        if what in self.faults:
            self.faults[what] -= 1
        return self.faults.get(what, 0) >= 0

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """New memory; what is noted down may use it after nobody else holds it."""
        self._outside("new memory")
        if not self._count("empty"):
            raise MemoryError(f"{self.name}: no more memory is emulated")
        align = 8 if dtype == np.uint8 else 1  # where arrays of any dtype may be put
        values = DeviceArray(np.empty(shape, dtype), poisoned=True, align=align).values
        array = fake_cupy.ndarray(values, self.number)
        array.__dict__["is_whole"] = True
        assert isinstance(values.base, np.ndarray)
        self._hold(values.base)
        return array

    def _hold(self, values: Array) -> None:
        """Keep memory until all is done that was asked for while somebody held it."""
        self._memory[id(values)] = weakref.ref(values)
        self._held.append(values)

    def address(self, array: Any) -> int:
        values = values_now(array)
        self._hold(values)
        return int(values.ctypes.data)

    def array_at(self, address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        self._outside("an array")
        strides = [int(np.prod(shape[d + 1 :])) * dtype.itemsize for d in range(len(shape))]
        matrices = MatricesAt(address, dtype, tuple(shape), tuple(strides))
        return fake_cupy.ndarray(_array_at(matrices), self.number)

    def compute(self, work: Callable[[Any], Any]) -> Any:
        self.counts["compute"] += 1
        with fake_cupy.cuda.Device(self.number):
            return work(fake_cupy)

    def upload(self, target: Any, source: Array) -> None:
        self._outside("a copy from the host")
        kept, values = source.copy(), values_now(target)
        assert values.shape == kept.shape and values.dtype == kept.dtype
        self._ask("upload", lambda: np.copyto(values, kept))

    def download(self, target: Array, source: Any) -> None:
        self._outside("a copy to the host")
        values = values_now(source)
        assert values.flags.c_contiguous
        assert target.shape == values.shape and target.dtype == values.dtype
        target.reshape(-1).view(np.uint8)[...] = 0xFF  # until it is there
        self._ask("download", lambda: np.copyto(target, values))

    def pinned_memory(self, bytes_: int) -> Array:
        self._outside("new memory")
        if not self._count("pinned"):
            raise MemoryError(f"{self.name}: no more pinned memory is emulated")
        return np.full(bytes_, 0xFF, np.uint8)

    def send(self, target: int, source: Array) -> None:
        self._outside("a copy from the host")
        memory, at, bytes_ = weakref.ref(source), source.ctypes.data, source.nbytes

        def work() -> None:
            assert memory() is not None, "pinned memory was freed before it was copied"
            ctypes.memmove(target, at, bytes_)

        self._ask("send", work)

    def fetch(self, target: Array, source: int) -> None:
        self._outside("a copy to the host")
        target[...] = 0xFF  # until it is there
        memory, at, bytes_ = weakref.ref(target), target.ctypes.data, target.nbytes

        def work() -> None:
            assert memory() is not None, "pinned memory was freed before it was filled"
            ctypes.memmove(at, source, bytes_)

        self._ask("fetch", work)

    def record(self) -> Any:
        event = _Event(self.current)
        self._ask("record", event.set)
        return event

    def wait(self, event: Any) -> None:
        self._outside("waiting")
        self.counts["wait" if event.passed else "synchronize"] += 1
        with self.on_stream(event.stream):
            self.catch_up(event)

    def copy(self, target: int, source: int, bytes_: int) -> None:
        self._ask("copy", lambda: ctypes.memmove(target, source, bytes_), target, source)

    def clear(self, target: int, bytes_: int) -> None:
        self._ask("clear", lambda: ctypes.memset(target, 0, bytes_), target)

    def compile(self, source: str) -> Callable[[str], Any]:
        if not self._count("compile"):
            raise CompileError(f"{self.name}: a compiler that fails")
        module = Module(source, races=self.races)
        return lambda name: (module, name)

    def launch(self, kernel: Any, grid: Dim3, block: Dim3, arguments: Sequence[Argument]) -> None:
        if not self._count("launch"):
            raise DeviceError(f"{self.name}: a launch that fails")
        module, name = kernel
        given = [_Place(a) if isinstance(a, Pointer) else a for a in arguments]
        assert module.kernels  # what it takes is checked as it runs
        if self._captured is None:
            self._ran.add((id(module), name))
        elif (id(module), name) not in self._ran:
            raise DeviceError(f"{self.name}: {name} is captured, and was never loaded")
        at = [a.address for a in arguments if isinstance(a, Pointer)]
        self._note(lambda: module.launch(name, grid, block, given, self.order), *at)

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
        out, a, b = map(_array_at, (target, left, right))
        asked = epilogue if self.has_epilogues else None
        places = [m.address for m in (target, left, right)]
        bias = np.zeros(1, out.dtype)
        if asked is not None and asked.bias:
            row = MatricesAt(asked.bias, out.dtype, target.shape[-1:], (out.dtype.itemsize,))
            bias = _array_at(row)
            places.append(asked.bias)

        def work() -> None:  # of 16 bits as a library does, which adds up in 32
            wide = np.promote_types(np.float32, out.dtype)
            operands = (x.astype(wide) for x in (a, b))
            total = np.matmul(*(map(as_tf32, operands) if tf32 else operands))
            out[...] = ACTIVATIONS[asked.activation if asked else ""](total + bias.astype(wide))
            ctypes.memset(workspace, 0xFF, self.workspace_bytes)  # as a library writes there

        self._ask("multiply", work, *places, workspace)
        return epilogue is None or asked is not None

    def stream(self) -> int:
        return self.current

    def capture(self, work: Callable[[], None]) -> Any:
        self._outside("a capture")
        if not self._count("capture"):
            raise DeviceError(f"{self.name}: a capture that fails")
        graph = self._captured = _Graph()
        try:
            work()
        finally:
            self._captured = None
        self.largest_graph = max(self.largest_graph, len(graph.work))
        return graph

    def capture_while(self, word: int, work: Callable[[], None]) -> None:
        around = self._captured
        assert self.loops_in_graphs and around is not None
        if not self._count("captured loop"):
            raise DeviceError(f"{self.name}: a node that is refused")
        around.has_loops = True
        body = self._captured = _Graph()
        try:
            work()
        finally:
            self._captured = around

        def go_on() -> None:
            while not ctypes.c_int32.from_address(word).value:
                for piece in body.work:
                    piece()

        around.work.append(go_on)
        around.addresses |= {word, *body.addresses}

    def give_up_loops(self, why: object) -> None:
        if self.loops_in_graphs:
            self.loops_in_graphs = False
            warn_without_loops(self.name, why)

    def held_bytes(self) -> int:
        """The bytes of the memory that somebody holds."""
        return sum(v.nbytes for ref in self._memory.values() if (v := ref()) is not None)

    def launch_graph(self, graph: Any) -> None:
        self._outside("a launch of a graph")
        if not self._count("graph"):
            raise DeviceError(f"{self.name}: a launch that fails")
        if graph.has_loops and not self._count("launched loop"):
            raise DeviceError(f"{self.name}: a node that is refused as it is launched")
        if graph.has_loops and not self._count("memory of a loop"):
            raise MemoryError(f"{self.name}: no memory for a loop")
        held = [
            range(v.ctypes.data, v.ctypes.data + max(v.nbytes, 1))
            for ref in self._memory.values()
            if (v := ref()) is not None
        ]
        for address in graph.addresses:
            if not any(address in memory for memory in held):
                raise DeviceError(f"{self.name}: a graph uses memory that nobody holds")
        for piece in graph.work:
            self._note(piece)

    @contextmanager
    def on_stream(self, number: int) -> Iterator[None]:
        """Another stream is the current one."""
        before, self.current = self.current, number
        try:
            yield
        finally:
            self.current = before

    def synchronize(self) -> None:
        self.counts["synchronize"] += 1
        self.catch_up()

    def catch_up(self, until: _Event | None = None) -> None:
        """Do what was noted down in the current stream, ``until`` an event has passed, for whoever
        comes behind it in order."""
        self._outside("waiting")
        queue = self._queues.setdefault(self.current, deque())
        while queue and not (until is not None and until.passed):
            try:
                queue.popleft()()
            except EmulatorError as error:
                queue.clear()
                raise DeviceError(f"{self.name}: {error}") from None
        if any(self._queues.values()):  # for which memory is kept
            return
        self._held.clear()
        memory, self._memory = self._memory, {}
        for values in [found for ref in memory.values() if (found := ref()) is not None]:
            self._hold(values)

    def _outside(self, what: str) -> None:
        if self._captured is not None:
            raise DeviceError(f"{self.name}: {what} in a capture")

    def _ask(self, what: str, work: Callable[[], object], *addresses: int) -> None:
        self.counts[f"captured {what}" if self._captured else what] += 1
        self._note(work, *addresses)

    def _note(self, work: Callable[[], object], *addresses: int) -> None:
        if self._captured is None:
            self._queues.setdefault(self.current, deque()).append(work)
            return
        self._captured.work.append(work)
        self._captured.addresses.update(addresses)


class _Event:
    """What passes in a stream."""

    def __init__(self, stream: int) -> None:
        self.stream, self.passed = stream, False

    def set(self) -> None:
        self.passed = True


class _Graph:
    """What was captured, and the addresses in it."""

    def __init__(self) -> None:
        self.work: list[Callable[[], object]] = []
        self.addresses: set[int] = set()
        self.has_loops = False


class _Place(DeviceArray):
    """An address as the emulator takes an array."""

    def __init__(self, pointer: Pointer) -> None:
        self.address = pointer.address
        self.dtype = np.dtype(pointer.dtype.numpy)
        self.writable = pointer.is_written

    def check(self) -> None:
        """Nothing: guard pages are around each memory, and what lies before is not known here."""


class _Memory:
    """An array at an address, as NumPy takes it."""

    def __init__(self, m: MatricesAt) -> None:
        self.__array_interface__ = {
            "data": (m.address, False), "shape": m.shape, "strides": m.strides,
            "typestr": f"|V{m.dtype.itemsize}", "version": 3,  # bfloat16 has no code
        }  # fmt: skip


def _array_at(m: MatricesAt) -> Array:
    if 0 in m.shape:
        return np.empty(m.shape, m.dtype)
    return np.asarray(_Memory(m)).view(m.dtype)


@contextmanager
def emulated_gpus(order: str = "forward", *, races: bool = False) -> Iterator[list[EmulatedDevice]]:
    """Two GPUs that programs and eager tensors find in the place of cupy's."""
    devices = [EmulatedDevice(i, order, races) for i in range(2)]

    def values_in_order(array: Any) -> Array:
        devices[array.number].catch_up()
        return values_now(array)

    def keep_values(array: Any, values: Array) -> None:
        array.__dict__["values"] = values

    def base_of(array: Any) -> Any:
        below = values_now(array).base
        is_whole = "is_whole" in array.__dict__ or not isinstance(below, np.ndarray)
        return None if is_whole else fake_cupy.ndarray(below, array.number)

    in_order = property(values_in_order, keep_values)
    with (
        pytest.MonkeyPatch.context() as patch,
        mock.patch.object(fake_cupy.ndarray, "values", in_order, create=True),
        mock.patch.object(fake_cupy.ndarray, "base", property(base_of)),
        mock.patch.dict(OPEN, {d.number: d for d in devices}),
    ):
        install(patch)
        yield devices
