"""A program for a GPU that can be called: its kernels compiled, its constants on the device, and
what a call makes of arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from staticflow.codegen.cuda.render import (
    entry_name,
    launch_count,
    render_cuda,
    render_cuda_module,
)
from staticflow.codegen.kernel import Kernel
from staticflow.codegen.program.routine import (
    Ask,
    Copy,
    Launch,
    Multiply,
    Place,
    Routine,
    Step,
    Table,
    walk_steps,
)
from staticflow.codegen.statuses import NO_MEMORY
from staticflow.data_classes import dataclass
from staticflow.errors import CompileError
from staticflow.graph.device import device
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Sym
from staticflow.graph.dtypes import bfloat16
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import TensorType
from staticflow.runtime.device.interface import Device
from staticflow.runtime.device.run import Run
from staticflow.runtime.draft import Draft
from staticflow.runtime.fastcall import decline
from staticflow.runtime.prepared import prepare
from staticflow.runtime.runnable import Runnable
from staticflow.runtime.turn import updating

__all__ = ["DeviceExecutable", "Loaded"]

_MOST_MET = 64
"""Sizes of calls whose offsets are remembered."""

_ENOUGH = 1 << 62
"""Bytes that nothing has."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel, what the device launches for it one after the other, and whether it writes
    integers."""

    kernel: Kernel
    entries: tuple[Any, ...]
    makes_indices: bool


class DeviceExecutable(Runnable):
    """A program of a ``draft`` for ``device``. Called with one array of that device for each param;
    gives arrays there.

    An array of the host may stand for a param: it is copied to the device as a call begins, and
    back as one ends that updates it. Raises `CompileError` for a step that has no kernel on a GPU,
    with the operation and its line.
    """

    def __init__(self, draft: Draft, device: Device) -> None:
        super().__init__(lambda: draft, (draft.optimised, time.perf_counter()))
        self.fast = decline
        self.device = device
        routine = draft.routine
        _refuse_what_has_no_kernel(routine, draft, device)
        self._text = render_cuda_module(routine.kernels) if routine.kernels else ""
        find = device.compile(self._text) if routine.kernels else None
        self.kernels = {
            k.name: Loaded(
                k,
                tuple(find(entry_name(k, i)) for i in range(launch_count(k))) if find else (),
                _makes_indices(k),
            )
            for k in routine.kernels
        }
        """The kernels by their names."""
        self.grows = tuple(b.grows for b in routine.buffers)
        """Of each buffer whether it grows."""
        self._constants = [self._to_device(c) for c in draft.signature.constants]
        self._updated = frozenset(i for i, p in enumerate(draft.signature.params) if p.updated)
        self._met: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._limit = [_ENOUGH]
        self.done: dict[int, int] = {}
        """How many iterations of each loop were done when a run last failed."""

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Run on ``arrays``; updated ones are changed in place.

        Raises `ShapeError` or `DTypeError` if an array is not what its param wants, before
        anything runs, and `MemoryError` if there is not memory enough.
        """
        values = self.bind(arrays)
        with updating if self._updated else nullcontext():
            return self._run_on(arrays, values)

    def _run_on(self, arrays: Sequence[Any], values: Mapping[Sym, int]) -> list[Any]:
        there = [self._to_device(a) if isinstance(a, np.ndarray) else a for a in arrays]
        signature = self.signature
        ready, write_back = prepare(
            signature.params, there, self._as_numpy, lambda a: a.copy(order="C")
        )
        known = [symbols_of(t.size) <= values.keys() for t in signature.outputs]
        outputs = [
            self._empty(t, values) if is_known else None
            for t, is_known in zip(signature.outputs, known, strict=True)
        ]
        everything = (*ready, *self._constants, *outputs)
        table = [0 if a is None else self.device.address(a) for a in everything]
        run = Run(self, table, values)
        run()
        first = len(everything) - len(outputs)
        results = [
            self._take_output(run.given[first + i], t, run.values) if out is None else out
            for i, (t, out) in enumerate(zip(signature.outputs, outputs, strict=True))
        ]
        for target, source in write_back:
            target[...] = source
        self._bring_back(arrays, there)
        return results

    def _take_output(self, memory: Any, t: TensorType, values: Mapping[Sym, int]) -> Any:
        """The array at the beginning of the memory of a buffer that grew, if it ever did."""
        if memory is None:
            return self._empty(t, values)
        shape = _shape_of(t, values)
        count = int(np.prod(shape, dtype=np.int64))
        return memory[: count * t.dtype.itemsize].view(np.dtype(t.dtype.numpy)).reshape(shape)

    def _bring_back(self, arrays: Sequence[Any], there: Sequence[Any]) -> None:
        """Copy what the host has of the updated arrays from the device."""
        mine = [i for i in self._updated if isinstance(arrays[i], np.ndarray)]
        if not mine:
            return
        found = [np.empty(arrays[i].shape, arrays[i].dtype) for i in mine]
        for i, new in zip(mine, found, strict=True):
            self.device.download(new, there[i])
        self.device.synchronize()
        for i, new in zip(mine, found, strict=True):
            arrays[i][...] = new

    def _to_device(self, array: np.ndarray[Any, Any]) -> Any:
        target = self.device.empty(array.shape, array.dtype)
        self.device.upload(target, array)
        return target

    def _empty(self, t: TensorType, values: Mapping[Sym, int]) -> Any:
        return self.device.empty(_shape_of(t, values), np.dtype(t.dtype.numpy))

    def _as_numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """An array of NumPy that lies where one of the device does: no element of it is read."""
        return np.asarray(_Memory(self.device.address(array), array))

    # -- what a run asks ------------------------------------------------------------------------

    def offsets(self, values: Mapping[Sym, int]) -> tuple[int, ...]:
        """Where each buffer lies in the arena, in bytes, where the sizes have these values."""
        key = tuple(values[s] for s in self.program.sizes)
        found = self._met.get(key)
        if found is None:
            plan = self.plan
            found = tuple(plan.evaluate(o, values) for o in plan.offsets)
            if len(self._met) >= _MOST_MET:
                self._met.clear()
            self._met[key] = found
        return found

    def arena_bytes(self, values: Mapping[Sym, int]) -> int:
        """The bytes of the arena where the sizes have these values."""
        bytes_ = self.plan.evaluate(self.plan.arena, values)
        if bytes_ > _ENOUGH:
            self.fail(NO_MEMORY)
        return bytes_

    def overwrites(self, step: Step) -> bool:
        """Whether a step, or one inside it, writes the new value of a variable over the old one."""
        return any(
            isinstance(p, Table) and p.slot in self._updated
            for inner in walk_steps((step,))
            for p in self._targets_of(inner)
        )

    def _targets_of(self, step: Step) -> Sequence[Place]:
        """The places that a step writes to."""
        if isinstance(step, Launch):
            buffers = self.kernels[step.kernel].kernel.buffers
            return [p for b, p in zip(buffers, step.places, strict=True) if b.access != "in"]
        if isinstance(step, Multiply):
            return (step.target.place,)
        return (step.target,) if isinstance(step, Copy) else ()

    def to_host(self, arrays: Sequence[Any]) -> list[Any]:
        """Copies of the arrays of a call as those of NumPy."""
        found = [a if isinstance(a, np.ndarray) else np.empty(a.shape, a.dtype) for a in arrays]
        for copy, array in zip(found, arrays, strict=True):
            if copy is not array:
                self.device.download(copy, array.copy(order="C"))
        self.device.synchronize()
        return found

    # -- as every program -----------------------------------------------------------------------

    def free(self) -> None:
        """Free nothing: a call's memory goes back to the pool of the device as it ends."""

    def leave_room(self, bytes_: int) -> None:
        """Let the buffers that grow have no more than ``bytes_``, from the next run on."""
        self._limit[0] = bytes_

    @property
    def room(self) -> int:
        """The bytes that a buffer that grows may have."""
        return self._limit[0]

    @property
    def held_bytes(self) -> int:
        """No bytes: the arena is of the pool of the device, and goes back as a call ends."""
        return 0

    @property
    def where(self) -> device:
        """The GPU."""
        return device(self.device.name)

    @property
    def kernel_count(self) -> int:
        """How many different kernels there are."""
        return len(self.kernels)

    def sources(self) -> Mapping[str, Callable[[], str]]:
        """What gives the CUDA C text."""
        return {"cuda": lambda: self._text}

    def iterations(self, loop: int) -> int:
        """How many iterations of a loop were done when a run in it failed."""
        return self.done[loop]


class _Memory:
    """An array at an address, as NumPy takes it."""

    def __init__(self, address: int, array: Any) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "shape": array.shape,
            "strides": array.strides,
            "typestr": f"|V{array.dtype.itemsize}",
            "version": 3,
        }


def _shape_of(t: TensorType, values: Mapping[Sym, int]) -> list[int]:
    return [evaluate_dim(d, values) for d in t.shape]


def _makes_indices(kernel: Kernel) -> bool:
    return any(b.access != "in" and b.dtype.kind in "iu" for b in kernel.buffers)


def _refuse_what_has_no_kernel(routine: Routine, draft: Draft, device: Device) -> None:
    """Raise `CompileError` for what a GPU does not do."""
    for step in walk_steps(routine.steps):
        if isinstance(step, Ask):
            operands = ", ".join(str(t) for t in step.types[: len(step.values)])
            raise CompileError(
                f"{step.op.name}({operands}) is computed by the host, and a program for "
                f"{device.name} has no such step; compile it for the CPU, or do it eagerly on the "
                f"CPU, at {format_locs(step.locs)}"
            )
    for t in (*(p.type for p in draft.signature.params), *draft.signature.outputs):
        if t.dtype is bfloat16:
            raise CompileError(
                f"a program for {device.name} takes or gives {t}, and cupy has no arrays of "
                f"bfloat16; cast it inside the program, at {format_locs(here())}"
            )
    for kernel in routine.kernels:
        try:
            render_cuda(kernel)
        except CompileError as error:
            lines = next(
                s.locs for s in walk_steps(routine.steps)
                if isinstance(s, Launch) and s.kernel == kernel.name
            )  # fmt: skip
            raise CompileError(
                f"{device.name}: {error}; compile it for the CPU, at {format_locs(lines)}"
            ) from None
