"""A program for a GPU that can be called: its kernels compiled, its constants on the device, and
what a call makes of arrays."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from staticflow.codegen.cuda.render import (
    entry_name,
    launch_count,
    render_cuda_module,
)
from staticflow.codegen.kernel import Kernel
from staticflow.codegen.program.routine import (
    Choose,
    Copy,
    Launch,
    Multiply,
    Place,
    Repeat,
    Step,
    Table,
    walk_steps,
)
from staticflow.codegen.statuses import NO_MEMORY
from staticflow.config import config
from staticflow.data_classes import dataclass
from staticflow.graph.device import device
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Sym
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import TensorType
from staticflow.runtime.device.guards import BRANCH, COPIES, GO_ON, VOTE
from staticflow.runtime.device.interface import Device
from staticflow.runtime.device.masked import can_be_masked
from staticflow.runtime.device.refusing import refuse_what_has_no_kernel
from staticflow.runtime.device.replay import Replays
from staticflow.runtime.device.run import Run
from staticflow.runtime.device.segments import Segments, describe_segments, split_steps
from staticflow.runtime.draft import Draft
from staticflow.runtime.fastcall import decline
from staticflow.runtime.prepared import prepare
from staticflow.runtime.runnable import Runnable
from staticflow.runtime.turn import updating

__all__ = ["DeviceExecutable", "Loaded"]

_MOST_MET = 64
"""Sizes of calls whose offsets and segments are remembered."""

_ENOUGH = 1 << 62
"""Bytes that nothing has."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel, and what the device launches for it one after the other."""

    kernel: Kernel
    entries: tuple[Any, ...]


class DeviceExecutable(Runnable):
    """A program of a ``draft`` for ``device``. Called with one array of that device for each param;
    gives arrays there.

    An array of the host may stand for a param: it is copied to the device as a call begins, and
    back as one ends that updates it. From the second call of the same sizes on the steps are
    captured graphs, unless this is not to ``replay``. Raises `CompileError` for a step that has no
    kernel on a GPU, with the operation and its line.
    """

    def __init__(self, draft: Draft, device: Device, *, replay: bool = True) -> None:
        super().__init__(lambda: draft, (draft.optimised, time.perf_counter()))
        self.fast = decline
        self.device = device
        routine = draft.routine
        refuse_what_has_no_kernel(draft, device)
        params = draft.signature.params
        self.updated = frozenset(i for i, p in enumerate(params) if p.updated)
        """The numbers of the params that are updated."""
        self._by_name = {k.name: k for k in routine.kernels}
        self.grows = tuple(b.grows for b in routine.buffers)
        """Of each buffer whether it grows."""
        guarded, masked = self._find_guarded(), _find_masked(routine.steps)
        self.masked = masked
        """The kernels in loops and branches that can be masked, and those that do what a library
        may be able to: a graph may launch these though no kernel by itself was before."""
        kinds = {type(s) for s in walk_steps(routine.steps) if can_be_masked(s)}
        asked = ((VOTE, guarded), (GO_ON, Repeat in kinds), (BRANCH, Choose in kinds))
        own = tuple(k for k, is_asked in asked if is_asked)
        own += COPIES if own else ()
        guarded |= masked | ({k.name for k in COPIES} if own else set())
        self._text = render_cuda_module((*routine.kernels, *own), guarded)
        find = device.compile(self._text) if routine.kernels else None
        loaded = {
            k.name: Loaded(
                k,
                tuple(find(entry_name(k, i)) for i in range(launch_count(k))) if find else (),
            )
            for k in (*routine.kernels, *own)
        }
        self.vote = loaded.pop(VOTE.name, None)
        """The kernel of a `Vote`; None where nothing can fail, or kernels are not guarded."""
        self.go_on = loaded.pop(GO_ON.name, None)
        """The kernel that begins an iteration of a masked loop; None where there is none."""
        self.branch = loaded.pop(BRANCH.name, None)
        """The kernel that takes a masked branch; None where there is none."""
        self.copies = [loaded.pop(k.name) for k in COPIES] if own else []
        """Kernels that copy elements, unless a launch has failed, or a masked loop has ended."""
        self.kernels = loaded
        """The kernels by their names."""
        self.multiplies = any(isinstance(s, Multiply) for s in walk_steps(routine.steps))
        """Whether a library multiplies matrices."""
        self.constants = [self._to_device(c) for c in draft.signature.constants]
        """The constants on the device."""
        if self.constants:
            device.synchronize()  # for whichever stream a call comes in
        # by a proxy, so that a program that nobody holds is freed at once, with its memory
        self._replays = Replays(cast(DeviceExecutable, weakref.proxy(self))) if replay else None
        self._has_run = [False]
        self._met: dict[tuple[int, ...], tuple[tuple[int, ...], Segments]] = {}
        self._limit = [_ENOUGH]
        self.done: dict[int, int] = {}
        """How many iterations of each loop were done when a run last failed."""

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Run on ``arrays``; updated ones are changed in place.

        Raises `ShapeError` or `DTypeError` if an array is not what its param wants, before
        anything runs, and `MemoryError` if there is not memory enough.
        """
        values = self.bind(arrays)
        if not self.updated:
            return self._run_on(arrays, values)
        with updating, updating.lock:
            return self._run_on(arrays, values)

    def _run_on(self, arrays: Sequence[Any], values: Mapping[Sym, int]) -> list[Any]:
        ready, write_back = prepare(self.signature.params, arrays, self._as_numpy, _in_row)
        replays = self._replays if config.capture else None
        try:
            results = (self.run_once if replays is None else replays.call)(ready, values)
        except MemoryError as error:
            if not str(error).startswith(self.device.name):
                raise  # it says what has grown
            peak = self.plan.evaluate(self.plan.peak, values)
            raise MemoryError(
                f"{error}; the plan of the program has {peak:,} bytes beside what it takes and "
                f"gives, at {format_locs(here())}"
            ) from None
        for target, source in write_back:
            target[...] = source
        return results

    def run_once(self, arrays: Sequence[Any], values: Mapping[Sym, int]) -> list[Any]:
        """What a run gives whose kernels are launched one by one, in memory of its own."""
        there = [self._to_device(a) if isinstance(a, np.ndarray) else a for a in arrays]
        outputs = self.known_outputs(values)
        everything = (*there, *self.constants, *outputs)
        run = Run(self, [0 if a is None else self.device.address(a) for a in everything], values)
        run()
        results = self.take_outputs(run, outputs)
        self.bring_back(arrays, dict(enumerate(there)))
        return results

    def claim_first_run(self) -> bool:
        """Whether nothing has run before."""
        has_run, self._has_run[0] = self._has_run[0], True
        return not has_run

    def known_outputs(self, values: Mapping[Sym, int]) -> list[Any]:
        """New arrays for the outputs, None for those whose sizes only the run can tell."""
        return [
            self.empty(t, values) if symbols_of(t.size) <= values.keys() else None
            for t in self.signature.outputs
        ]

    def take_outputs(self, run: Run, outputs: Sequence[Any]) -> list[Any]:
        """The outputs behind a run: those that were known before, and those that it has made."""
        first = len(run.table) - len(outputs)
        return [
            self._take_output(run.given[first + i], t, run.values) if out is None else out
            for i, (t, out) in enumerate(zip(self.signature.outputs, outputs, strict=True))
        ]

    def _take_output(self, memory: Any, t: TensorType, values: Mapping[Sym, int]) -> Any:
        """The array at the beginning of the memory of a buffer that grew, if it ever did."""
        if memory is None:
            return self.empty(t, values)
        shape = _shape_of(t, values)
        count = int(np.prod(shape, dtype=np.int64))
        return memory[: count * t.dtype.itemsize].view(np.dtype(t.dtype.numpy)).reshape(shape)

    def bring_back(self, arrays: Sequence[Any], there: Mapping[int, Any]) -> None:
        """Copy those of the updated arrays that are the host's from the device, where they are
        ``there``."""
        mine = [i for i in self.updated if isinstance(arrays[i], np.ndarray)]
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

    def empty(self, t: TensorType, values: Mapping[Sym, int]) -> Any:
        """A new array on the device, of a type at these sizes."""
        return self.device.empty(_shape_of(t, values), np.dtype(t.dtype.numpy))

    def _as_numpy(self, array: Any) -> np.ndarray[Any, Any]:
        """An array of NumPy that lies where one of the device does: no element of it is read."""
        if isinstance(array, np.ndarray):
            return array
        return np.asarray(_Memory(self.device.address(array), array))

    # -- what a run asks ------------------------------------------------------------------------

    def offsets(self, values: Mapping[Sym, int]) -> tuple[int, ...]:
        """Where each buffer lies in the arena, in bytes, where the sizes have these values."""
        return self._at(values)[0]

    def segments(self, values: Mapping[Sym, int]) -> Segments:
        """The steps, in segments, where the sizes have these values."""
        return self._at(values)[1]

    def forget_segments(self) -> None:
        """Have the steps split again at the next call, as the device has turned out to do less."""
        self._met.clear()

    def _at(self, values: Mapping[Sym, int]) -> tuple[tuple[int, ...], Segments]:
        key = tuple(values[s] for s in self.program.sizes)
        found = self._met.get(key)
        if found is None:
            plan = self.plan
            offsets = tuple(plan.evaluate(o, values) for o in plan.offsets)
            found = offsets, split_steps(self, values)
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
            isinstance(p, Table) and p.slot in self.updated
            for inner in walk_steps((step,))
            for p in self._targets_of(inner)
        )

    def _find_guarded(self) -> frozenset[str]:
        """The kernels that look whether a launch has failed: where one can, and kernels and copies
        overwrite the variables, all that cannot fail themselves."""
        steps = self.program.steps
        launches = [s for s in walk_steps(steps) if isinstance(s, Launch)]
        fail = frozenset(s.kernel for s in launches if s.site)
        for step in filter(self.overwrites, steps):
            if not isinstance(step, Launch | Copy) or (isinstance(step, Launch) and step.site):
                return frozenset()
        return frozenset(s.kernel for s in launches) - fail if fail else frozenset()

    def makes_indices(self, step: Launch) -> bool:
        """Whether a launch writes integers."""
        buffers = self._by_name[step.kernel].buffers
        return any(b.access != "in" and b.dtype.kind in "iu" for b in buffers)

    def _targets_of(self, step: Step) -> Sequence[Place]:
        """The places that a step writes to."""
        if isinstance(step, Launch):
            buffers = self._by_name[step.kernel].buffers
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
        """Free the graphs and their memory: the next calls begin anew."""
        if self._replays is not None:
            self._replays.clear()

    def leave_room(self, bytes_: int) -> None:
        """Let the buffers that grow have no more than ``bytes_``, from the next run on."""
        self._limit[0] = bytes_

    @property
    def room(self) -> int:
        """The bytes that a buffer that grows may have."""
        return self._limit[0]

    @property
    def held_bytes(self) -> int:
        """The bytes that captured graphs work in; other memory goes back to the pool of the device
        as a call ends."""
        return 0 if self._replays is None else self._replays.held_bytes

    def launches_in_words(self, values: Mapping[str, int]) -> Sequence[str]:
        """How a call is launched where the unknown sizes have these values."""
        if self._replays is None:
            return ("each kernel by itself, as a budget of memory leaves nothing to capture in",)
        sizes = {s: values[s.name] for s in self.program.sizes}
        return (*describe_segments(self.segments(sizes)),)

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


def _in_row(array: Any) -> Any:
    """A copy of an array of the device in one row; one of the host is copied there in such."""
    return array if isinstance(array, np.ndarray) else array.copy(order="C")


def _find_masked(steps: tuple[Step, ...]) -> frozenset[str]:
    """The kernels in loops and branches that can be masked, and those behind products."""
    around = [s for s in walk_steps(steps) if can_be_masked(s) or isinstance(s, Multiply)]
    return frozenset(s.kernel for a in around for s in walk_steps((a,)) if isinstance(s, Launch))


def _shape_of(t: TensorType, values: Mapping[Sym, int]) -> list[int]:
    return [evaluate_dim(d, values) for d in t.shape]
