"""A compiled program that can be called on arrays: checks, sizes, output arrays, the native run."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow.codegen.llvm.arena import capacities_at
from staticflow.codegen.statuses import NO_MEMORY
from staticflow.data_classes import dataclass
from staticflow.graph.device import device
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Sym
from staticflow.graph.rowmajor import row_major
from staticflow.graph.types import TensorType
from staticflow.runtime.fastcall import NativeEntry, decline
from staticflow.runtime.host import host, host_symbols, memory_symbols
from staticflow.runtime.lending import lending_symbols
from staticflow.runtime.native import NativeModule, load_native
from staticflow.runtime.object_layout import BoxType
from staticflow.runtime.prepared import prepare
from staticflow.runtime.program_code import ProgramCode
from staticflow.runtime.runnable import Runnable, run_reference
from staticflow.runtime.sealed import Sealed
from staticflow.runtime.threads import pool_symbols
from staticflow.runtime.turn import updating

if TYPE_CHECKING:
    from staticflow.codegen.program.routine import Ask
    from staticflow.runtime.draft import Draft

__all__ = ["Executable"]

Array = np.ndarray[Any, Any]

_LARGEST = 1 << 62
"""Bytes that no arena has; native code computes with 64 bits."""


class _State(Sealed):
    """The cell that keeps the arena between calls, where there is one, and what else the code
    points to."""

    def __init__(self, module: NativeModule, release: int | None, *held: Any) -> None:
        """``release`` is where the function lies that frees an arena, if there may be one."""
        self.held, self.release = held, release
        self.cell = ctypes.c_void_p(None)
        self.address = ctypes.addressof(self.cell)
        if release is None:
            return
        # The call keeps the interpreter's lock: see `threads.leave`.
        free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(release)
        weakref.finalize(self, _free_arena, self.cell, free, module)


def _free_arena(cell: ctypes.c_void_p, release: Callable[..., None], code: object) -> None:
    """``code`` is what ``release`` runs, kept alive until now."""
    release(cell)
    cell.value = None


class Executable(Runnable):
    """Native code for a program. Called with one array for each param; gives the outputs.

    ``variables`` are the boxes of the last params, of a class that ``box`` describes; ``fast``
    looks into them at each call. Without a ``box``, or an entry in the ``code``, it declines every
    call. Where the code was found on disk, the ``draft`` and the ``text`` that it would be compiled
    of are made when somebody asks for them: for an explanation, an error, or a call that the entry
    does not take. Both give one value however often they are called.
    """

    def __init__(
        self,
        code: ProgramCode,
        draft: Callable[[], Draft],
        text: Callable[[], str],
        variables: Sequence[object] = (),
        box: BoxType | None = None,
        stamps: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        super().__init__(draft, stamps)  # both when it was begun, where the code was found
        self.code, self._text = code, text
        functions = [*map(_answer, self._asks())] if code.asks else []
        answers = {f"answer{i}": id(f) for i, f in enumerate(functions)}
        symbols = host_symbols() | answers | (pool_symbols() if code.is_shared else {})
        if code.called:
            from staticflow.runtime.shared_kernels import shared_symbols

            symbols |= shared_symbols(code.called)
        lending = lending_symbols() if code.has_arena and not code.growing else {}
        symbols |= lending
        self.module: NativeModule = load_native(code.object.data, code.exports, symbols, text)
        release = self.module.address("release") if code.growing else lending.get("release")
        self._state = _State(self.module, release, *functions)
        self._entry = (
            NativeEntry(code.entry, box, self.module, self._state, variables)
            if box and code.entry
            else None
        )
        self.fast = self._entry.fast if self._entry else decline

    @property
    def llvm(self) -> str:
        """The text."""
        return self._text()

    @property
    def kernel_count(self) -> int:
        """How many different kernels there are."""
        return self.code.kernels

    @property
    def where(self) -> device:
        """The CPU."""
        return device("cpu")

    def to_host(self, arrays: Sequence[Array]) -> list[Array]:
        """The arrays, which are the host's."""
        return list(arrays)

    def sources(self) -> Mapping[str, Callable[[], str]]:
        """What gives the LLVM text, and the code of this machine."""
        return {"llvm": self._text, "asm": self.module.assembly}

    def _asks(self) -> Iterator[Ask]:
        from staticflow.codegen.program.routine import Ask, walk_steps

        return (s for s in walk_steps(self.program.steps) if isinstance(s, Ask))

    def boxing(self, portable: Callable[..., Any], example: object) -> Callable[..., Any]:
        """``portable``, or a native entry that gives what that does, in an object like ``example``,
        and leaves to it what is not so usual (`NativeEntry`)."""
        return self._entry.boxing(portable, example) if self._entry else portable

    def in_rows(self, arrays: Sequence[Array]) -> Sequence[Array]:
        """What the native entry may take where it declined ``arrays``: with copies of those that do
        not lie in one row, if it takes no others."""
        if self.code.entry is None:
            return arrays
        return [
            row_major(a)
            if wanted.is_row_major and not (a.flags.c_contiguous and a.flags.aligned)
            else a
            for a, wanted in zip(arrays, self.code.entry.params, strict=False)
        ]

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Run on ``arrays``, of the params' shapes and dtypes; updated ones are changed in place.

        Raises `ShapeError` or `DTypeError` if an array is not what its param wants, before
        anything runs, and `MemoryError` if the arena cannot be had.
        """
        values = self.bind(arrays)
        if self.plan.evaluate(self.plan.arena, values) > _LARGEST:
            self.fail(NO_MEMORY)
        if not any(p.updated for p in self.signature.params):
            return self._run_on(arrays, values)
        with updating, updating.lock:
            return self._run_on(arrays, values)

    def _run_on(self, arrays: Sequence[Array], values: Mapping[Sym, int]) -> list[Array]:
        ready, write_back = prepare(self.signature.params, arrays)
        program = self.program
        outputs = [
            None if _is_late(t, values) else _empty(t, values) for t in self.signature.outputs
        ]
        everything = (*ready, *self.signature.constants, *outputs)
        table = _array_type(ctypes.c_void_p, len(everything))(
            *(None if a is None else a.ctypes.data for a in everything)
        )
        known = [values[s] for s in program.sizes]
        sizes = _array_type(ctypes.c_int64, len(known) + len(program.told))(*known)
        status = _go()(
            self.module.address("run"), ctypes.addressof(table), ctypes.addressof(sizes),
            self._state.address, True, False,
        )  # fmt: skip
        if status != 0:
            self.fail(status)
        told = {**values, **dict(zip(program.told, sizes[len(known) :], strict=True))}
        first = len(everything) - len(outputs)
        results = [
            _take_output(t, told, table[first + i]) if out is None else out
            for i, (t, out) in enumerate(zip(self.signature.outputs, outputs, strict=True))
        ]
        for target, source in write_back:
            np.copyto(target, source)
        return results

    def free(self) -> None:
        """Free the memory that the calls so far have left."""
        arena, release = self._state.cell.value, self._state.release
        if arena is not None and release is not None:
            self._state.cell.value = None
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release)(arena)

    def leave_room(self, bytes_: int) -> None:
        """Let the buffers that grow have no more than ``bytes_``, from the next run on."""
        ctypes.c_int64.from_address(self.module.address("room")).value = bytes_

    @property
    def held_bytes(self) -> int:
        """The bytes of the arena and of the growing buffers that stay from call to call."""
        arena = self._state.cell.value
        if arena is None:
            return 0
        cells = range(self.code.growing)
        return sum(ctypes.c_int64.from_address(arena + at).value for at in capacities_at(cells))

    @property
    def growing_bytes(self) -> tuple[int, ...]:
        """The bytes that the calls so far have left to each buffer that grows."""
        arena = self._state.cell.value
        cells = range(self.code.growing)
        if arena is None:
            return (0,) * len(cells)
        _, *places = capacities_at(cells)
        return tuple(ctypes.c_int64.from_address(arena + at).value for at in places)

    def iterations(self, loop: int) -> int:
        """How many iterations of a loop were done when a run in it failed."""
        return ctypes.c_int64.from_address(self.module.address("iterations") + 8 * loop).value


def _is_late(t: TensorType, values: Mapping[Sym, int]) -> bool:
    """Whether only the run can tell the size of an output."""
    return any(not symbols_of(d) <= values.keys() for d in t.shape)


def _answer(step: Ask) -> Callable[[int], None]:
    """What runs an op's reference. It is given the address of the arrays' addresses, and then of
    their sizes."""
    count = len(step.values)
    words_of = ctypes.c_int64 * (len(step.types) + sum(t.ndim for t in step.types))

    def answer(at: int) -> None:
        words = words_of.from_address(at)
        addresses, sizes = words[: len(step.types)], iter(words[len(step.types) :])
        arrays = [
            _array_at(address, [next(sizes) for _ in t.shape], t)
            for address, t in zip(addresses, step.types, strict=True)
        ]
        results = run_reference(step, np, arrays[:count])
        for (i, _), array in zip(step.results, arrays[count:], strict=True):
            array[...] = results[i]

    return answer


@dataclass(frozen=True, slots=True)
class _Memory:
    """Memory as NumPy takes it."""

    __array_interface__: dict[str, Any]


def _array_at(address: int, shape: Sequence[int], t: TensorType) -> Array:
    """The array that lies at an address, as long as the program runs."""
    dtype = np.dtype(t.dtype.numpy)
    if 0 in shape:
        return np.empty(shape, dtype)
    where = {"data": (address, False), "shape": (*shape, dtype.itemsize), "typestr": "|u1"}
    whole: Array = np.asarray(_Memory({**where, "version": 3})).view(dtype)
    return whole.reshape(shape)


def _empty(t: TensorType, values: Mapping[Sym, int]) -> Array:
    return np.empty([evaluate_dim(d, values) for d in t.shape], t.dtype.numpy)


def _take_output(t: TensorType, values: Mapping[Sym, int], address: int | None) -> Array:
    """A copy of an output that lies in memory of its own, which is freed."""
    out = _empty(t, values)
    if address:
        ctypes.memmove(out.ctypes.data, address, out.nbytes)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(memory_symbols()["free"])(address)
    return out


@functools.lru_cache(maxsize=1)
def _go() -> Callable[..., int]:
    """The ``go`` of `host`. It has the lock of the interpreter as it begins and as it ends, and
    raises what made the user stop the run."""
    kinds = (*[ctypes.c_void_p] * 4, ctypes.c_bool, ctypes.c_bool)
    return ctypes.PYFUNCTYPE(ctypes.c_int64, *kinds)(host().address("go"))


@functools.cache
def _array_type(kind: Any, length: int) -> Any:
    """A class of ctypes, which keeps none itself: each is a cycle for the garbage collector."""
    return kind * length
