"""A device for tests over the emulator of CUDA kernels, whose arrays are those of the stand-in for
cupy.

It is lazy: what is asked for is only noted down, and done when somebody waits for it, so that a
value that is read too early is poison. New memory is poison, too, and ends at a guard page. Eager
operations of the stand-in come behind what was asked for before, as in a stream of cupy.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import Counter
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
from staticflow.runtime.device.interface import Argument, Dim3, MatricesAt, Pointer

__all__ = ["EmulatedDevice", "emulated_gpus", "values_now"]

Array = np.ndarray[Any, Any]


def values_now(array: Any) -> Array:
    """The memory of an array of the stand-in, as it is before what was asked for is done."""
    values: Array = array.__dict__["values"]
    return values


class EmulatedDevice:
    """The GPU of a ``number``. Blocks and threads run in an ``order`` of the emulator's.

    ``counts`` says how often each thing was asked for. What is in ``faults`` goes wrong: as many
    times of it go well as the number says.
    """

    def __init__(self, number: int, order: str = "forward") -> None:
        self.number, self.name, self.order = number, f"cuda:{number}", order
        self.counts: Counter[str] = Counter()
        self.faults: dict[str, int] = {}
        self._queue: list[Callable[[], object]] = []
        self._memory: dict[int, weakref.ref[Array]] = {}  # by the id of each
        self._held: list[Array] = []  # what somebody has held since the queue was empty

    def _count(self, what: str) -> bool:
        """Whether it goes well."""
        self.counts[what] += 1
        if what in self.faults:
            self.faults[what] -= 1
        return self.faults.get(what, 0) >= 0

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
        """New memory; what is noted down may use it after nobody else holds it."""
        if not self._count("empty"):
            raise MemoryError(f"{self.name}: no more memory is emulated")
        values = DeviceArray(np.empty(shape, dtype), poisoned=True).values
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

    def upload(self, target: Any, source: Array) -> None:
        kept, values = source.copy(), values_now(target)
        assert values.shape == kept.shape and values.dtype == kept.dtype
        self._ask("upload", lambda: np.copyto(values, kept))

    def download(self, target: Array, source: Any) -> None:
        values = values_now(source)
        assert values.flags.c_contiguous
        assert target.shape == values.shape and target.dtype == values.dtype
        target.reshape(-1).view(np.uint8)[...] = 0xFF  # until it is there
        self._ask("download", lambda: np.copyto(target, values))

    def copy(self, target: int, source: int, bytes_: int) -> None:
        self._ask("copy", lambda: ctypes.memmove(target, source, bytes_))

    def clear(self, target: int, bytes_: int) -> None:
        self._ask("clear", lambda: ctypes.memset(target, 0, bytes_))

    def compile(self, source: str) -> Callable[[str], Any]:
        if not self._count("compile"):
            raise CompileError(f"{self.name}: a compiler that fails")
        module = Module(source)
        return lambda name: (module, name)

    def launch(self, kernel: Any, grid: Dim3, block: Dim3, arguments: Sequence[Argument]) -> None:
        if not self._count("launch"):
            raise DeviceError(f"{self.name}: a launch that fails")
        module, name = kernel
        given = [_Place(a) if isinstance(a, Pointer) else a for a in arguments]
        assert module.kernels  # what it takes is checked as it runs
        self._queue.append(lambda: module.launch(name, grid, block, given, self.order))

    def multiply(self, target: MatricesAt, left: MatricesAt, right: MatricesAt) -> None:
        out, a, b = map(_array_at, (target, left, right))
        self._ask("multiply", lambda: np.matmul(a, b, out=out))

    def synchronize(self) -> None:
        self.counts["synchronize"] += 1
        self.catch_up()

    def catch_up(self) -> None:
        """Do what was noted down, for whoever comes behind it in order."""
        queue, self._queue = self._queue, []
        for work in queue:
            try:
                work()
            except EmulatorError as error:
                raise DeviceError(f"{self.name}: {error}") from None
        self._held.clear()
        memory, self._memory = self._memory, {}
        for values in [found for ref in memory.values() if (found := ref()) is not None]:
            self._hold(values)

    def _ask(self, what: str, work: Callable[[], object]) -> None:
        self.counts[what] += 1
        self._queue.append(work)


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
            "typestr": m.dtype.str, "version": 3,
        }  # fmt: skip


def _array_at(m: MatricesAt) -> Array:
    return np.empty(m.shape, m.dtype) if 0 in m.shape else np.asarray(_Memory(m))


@contextmanager
def emulated_gpus(order: str = "forward") -> Iterator[list[EmulatedDevice]]:
    """Two GPUs that programs and eager tensors find in the place of cupy's."""
    devices = [EmulatedDevice(i, order) for i in range(2)]

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
