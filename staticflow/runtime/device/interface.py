"""What a program needs of the device that it runs on.

Whatever is asked for is done in order, some time after the call that asks for it: a copy to the
host has arrived, and a fault of a kernel is known, once `synchronize` has returned, or `wait` for
an event behind it. Arrays are those of eager tensors on that device, and lie where `address` says
until nobody holds them any more; the device does what was asked for before with memory that nobody
holds, too.

The order is that of a *stream*, the current one of the thread that asks; between two streams there
is none. Memory that nobody holds any more is given out again to the stream that it was made in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType

__all__ = ["Argument", "Device", "Dim3", "EpilogueAt", "MatricesAt", "Pointer"]

Array: TypeAlias = Any
"""An array on the device."""

T = TypeVar("T")

Dim3: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Pointer:
    """The address of elements of a dtype, as a kernel takes it, which writes there or does not."""

    address: int
    dtype: DType
    is_written: bool


Argument: TypeAlias = Pointer | np.generic
"""What a kernel is given: numbers as scalars of NumPy, of exactly the dtype of its parameter."""


@dataclass(frozen=True, slots=True)
class MatricesAt:
    """Matrices of floats: the address of the first element, and the bytes from one to the next
    along each dim."""

    address: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EpilogueAt:
    """What a library applies to a matrix product before it writes the result.

    ``bias`` is the address of one row in the dtype of the result, which is added to each row; 0 for
    none. ``activation``, applied after it, is "relu", "gelu" (its tanh form), or "" for none."""

    bias: int
    activation: str


class Device(Protocol):
    """A GPU, or what does as one.

    Raises `MemoryError` where there is not memory enough, `DeviceError` for whatever else the
    device refuses.
    """

    name: str
    """The device's name as users write it, such as ``"cuda:0"``."""

    @property
    def workspace_bytes(self) -> int:
        """The memory that `multiply` works in."""

    def empty(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """A new array, in one row, of no particular values."""

    def address(self, array: Array) -> int:
        """Where the first element of an array lies."""

    def compute(self, work: Callable[[Any], T]) -> T:
        """What ``work`` gives of the module of arrays, cupy or what does as it, with this as its
        current device."""

    def array_at(self, address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """The memory from an address on as an array in one row. Who holds it must hold the memory,
        too."""

    def upload(self, target: Array, source: np.ndarray[Any, Any]) -> None:
        """Copy an array of the host, which may be changed at once, to ``target``, which lies in one
        row and has its shape and dtype."""

    def download(self, target: np.ndarray[Any, Any], source: Array) -> None:
        """Copy ``source``, which lies in one row, to an array of the host of its shape and
        dtype."""

    def pinned_memory(self, bytes_: int) -> np.ndarray[Any, Any]:
        """New memory of the host, as bytes, that `send` and `fetch` take."""

    def send(self, target: int, source: np.ndarray[Any, Any]) -> None:
        """Copy pinned memory to an address. It must stay as it is, and be held, until a later event
        has passed."""

    def fetch(self, target: np.ndarray[Any, Any], source: int) -> None:
        """Fill pinned memory from an address. It must be held, and is not to be read, until a later
        event has passed."""

    def record(self) -> Any:
        """An event, which passes once all is done that was asked for in the current stream."""

    def wait(self, event: Any) -> None:
        """Wait until an event has passed. Raises what went wrong on the way."""

    def copy(self, target: int, source: int, bytes_: int) -> None:
        """Copy bytes from address to address of the device."""

    def clear(self, target: int, bytes_: int) -> None:
        """Set bytes to 0."""

    def compile(self, source: str) -> Callable[[str], Any]:
        """What gives a kernel of a CUDA C text, as `launch` takes it, by the name of its entry.
        Raises `CompileError` for a text that is refused."""

    def launch(self, kernel: Any, grid: Dim3, block: Dim3, arguments: Sequence[Argument]) -> None:
        """Run a kernel in a grid of so many blocks of so many threads."""

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
        """Write the products of matrices, summed in their own precision, to a ``target`` that lies
        in one row; the dims before the last two are those of the target. With ``tf32`` elements of
        float32 may be rounded to TF32 first. The rows of an operand, or its columns, have no gaps.
        At the address ``workspace`` are `workspace_bytes` that nobody else uses. False if the
        device cannot do the epilogue: the products are written without it."""

    def stream(self) -> int:
        """The number of the current stream."""

    def capture(self, work: Callable[[], None]) -> Any:
        """What ``work`` asks for, as a graph that `launch_graph` takes; nothing of it is done.

        ``work`` may launch kernels that have run before, copy on the device, clear and multiply.
        Raises `DeviceError` for new memory, copies from or to the host and waiting."""

    @property
    def loops_in_graphs(self) -> bool:
        """Whether a graph can have loops of its own: `capture_while`."""

    def capture_while(self, word: int, work: Callable[[], None]) -> None:
        """In a capture: have the graph do what ``work`` asks for again and again, as long as the
        int32 at the address ``word`` is 0. The graph looks before each time, and not the host.
        Whatever it raises, that graph cannot be had, and one without such loops may."""

    def give_up_loops(self, why: object) -> None:
        """Have no loops in graphs from now on, and warn ``why`` if there were some until now."""

    def launch_graph(self, graph: Any) -> None:
        """Do all that was captured, at the same addresses and with the same numbers, as one launch.
        The memory there must be held by somebody still."""

    def synchronize(self) -> None:
        """Wait until all is done that was asked for. Raises what went wrong on the way."""
