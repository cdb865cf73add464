"""A program at one set of sizes as captured graphs, which are launched again at each call."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow.codegen.program.routine import Repeat
from staticflow.data_classes import dataclass
from staticflow.errors import DeviceError, StaticflowError
from staticflow.graph.dims import Sym
from staticflow.runtime.device.masked import MaskedLoop
from staticflow.runtime.device.run import Run, Vote
from staticflow.runtime.device.segments import Segment
from staticflow.runtime.device.staging import Staging

if TYPE_CHECKING:
    from staticflow.runtime.device.executable import DeviceExecutable

__all__ = ["Replay", "Replays"]

_MOST_REPLAYS = 8
"""The sets of sizes, in all streams, whose graphs and memory a program holds."""

_MOST_LAYOUTS = 64
"""The sets of sizes of which it is remembered where the params lay."""

_WITHOUT = (
    "from the second call of the same sizes on a program holds the memory of its captured graph; "
    "STATICFLOW_CAPTURE=0 launches its kernels one by one, in memory of the call"
)

_Key = tuple[int, ...]
"""A stream, and the unknown sizes."""

Layout = tuple[int | None, ...]
"""Where the array of each param lies; None for one that is copied to a place of the replay's."""


@dataclass(frozen=True, slots=True)
class _Fixed:
    """An array of the replay's, and where it lies, of how many bytes."""

    array: Any
    address: int
    bytes: int


class Replay:
    """The calls of a ``program`` at some sizes, with the params where ``layout`` says.

    It has memory of its own: an arena, places of the params that lie elsewhere at each call, and of
    the outputs. The graphs are captured in the first call, which does what they say, too.
    """

    def __init__(
        self,
        program: DeviceExecutable,
        values: Mapping[Sym, int],
        layout: Layout,
        arrays: Sequence[Any],
    ) -> None:
        self.program, self.layout = program, layout
        hosted = {i: a for i, a in enumerate(arrays) if isinstance(a, np.ndarray)}
        self._staging = Staging(program.device, hosted, program.updated)
        self._places = {
            i: self._fix(program.empty(program.signature.params[i].type, values))
            for i, at in enumerate(layout)
            if at is None and i not in hosted
        }
        self._outputs = [None if a is None else self._fix(a) for a in program.known_outputs(values)]
        table = [self._find(i) if at is None else at for i, at in enumerate(layout)]
        table += map(program.device.address, program.constants)
        table += [0 if a is None else a.address for a in self._outputs]
        self._run = Run(program, table, values)
        self._values = dict(values)
        self._segments = program.segments(values)
        captured = [s for s in self._segments if s.why is None or s.is_masked]
        steps = tuple(s for x in captured for s in x.steps if not isinstance(s, Vote))
        self._run.guards.reserve(steps, self._run.size)
        self._graphs: dict[int, Any] = {}
        self._loops: dict[int, MaskedLoop] = {}

    def _fix(self, array: Any) -> _Fixed:
        return _Fixed(array, self.program.device.address(array), int(array.nbytes))

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """Run on ``arrays``, each in one row, which lie as the layout says; gives new arrays."""
        self._bring(arrays)
        run = self._run
        run.begin_anew()
        if self._segments and self._segments[0].why is not None:
            run.clear_words()
        try:
            for number, segment in enumerate(self._segments):
                self._take(number, segment)
                if segment.is_checked:
                    run.check()
            self._staging.fetch()
            run.check()
        except StaticflowError:
            if run.failed and self.program.program.failures[run.failed - 1].loops:
                Run(self.program, run.table, self._values)()  # which says in which iteration
            raise
        results = self._take_outputs()
        self._staging.write_back(arrays)
        return results

    @property
    def held_bytes(self) -> int:
        """The bytes of its memory."""
        fixed = [a for a in (*self._places.values(), *self._outputs) if a is not None]
        loops = sum(x.held_bytes for x in self._loops.values())
        return self._run.held_bytes + self._staging.bytes + sum(a.bytes for a in fixed) + loops

    def _take(self, number: int, segment: Segment) -> None:
        if segment.why is not None and not segment.is_masked:
            for step in segment.steps:
                self._run.take(step)
            return
        try:
            self._launch(number, segment)
        except MemoryError as error:
            raise MemoryError(f"{error}; {_WITHOUT}") from None
        except DeviceError as error:
            raise DeviceError(
                f"steps cannot be captured, or launched as a graph: {error}; {_WITHOUT}"
            ) from None

    def _launch(self, number: int, segment: Segment) -> None:
        """Do a segment by its graph, or, of a loop, by its graphs; captured if it was not yet."""
        run = self._run
        if segment.is_masked:
            (step,) = segment.steps
            assert isinstance(step, Repeat)
            if number not in self._loops:
                self._loops[number] = MaskedLoop(run, step)
            self._loops[number]()
            return
        if number not in self._graphs:
            self._graphs[number] = run.capture(segment.steps, first=number == 0)
        run.launch_graph(self._graphs[number], may_fail=segment.may_fail)

    def _bring(self, arrays: Sequence[Any]) -> None:
        """Copy to their places what lies elsewhere at each call."""
        device = self.program.device
        self._staging.send(arrays)
        for i, place in self._places.items():
            if isinstance(arrays[i], np.ndarray):
                device.upload(place.array, arrays[i])
        for i, at in enumerate(self.layout):
            if at is None and not isinstance(arrays[i], np.ndarray) and arrays[i].nbytes:
                device.copy(self._find(i), device.address(arrays[i]), int(arrays[i].nbytes))

    def _find(self, number: int) -> int:
        """The address of the place of a param."""
        if number in self._staging:
            return self._staging.address(number)
        return self._places[number].address

    def _take_outputs(self) -> list[Any]:
        """Copies of the outputs that have a place here, and those that the run has made."""
        device = self.program.device
        copies = self.program.known_outputs(self._values)
        for new, own in zip(copies, self._outputs, strict=True):
            if own is not None and own.bytes:
                device.copy(device.address(new), own.address, own.bytes)
        results = self.program.take_outputs(self._run, copies)
        self._run.begin_anew()
        return results


class Replays:
    """The replays of a program: of the sizes that it was last called with, in each stream.

    A call is captured where the one before of the same sizes, in the same stream, was of params
    that lay in the same places. A param that is not updated and lies elsewhere is copied to a
    place of the replay's from then on.
    """

    def __init__(self, program: DeviceExecutable) -> None:
        self._program = program
        self._found: dict[_Key, Replay] = {}
        self._layouts: dict[_Key, Layout] = {}
        self._moving: set[int] = set()
        self._running = threading.Lock()

    def call(self, arrays: Sequence[Any], values: Mapping[Sym, int]) -> list[Any]:
        """What the program gives of ``arrays``, each in one row: by a replay, or kernel by kernel
        where there is nothing to replay yet, or another call is at it.

        Raises `MemoryError` and `DeviceError`, which say how to run without, where the call cannot
        be captured.
        """
        if not self._running.acquire(blocking=False):
            return self._program.run_once(arrays, values)
        try:
            key = (self._program.device.stream(), *(values[s] for s in self._program.program.sizes))
            layout, comes_again = self._compare(key, arrays)
            if comes_again:
                return self._find(key, values, layout, arrays)(arrays)
            self._found.pop(key, None)
            self._layouts.pop(key, None)
            results = self._program.run_once(arrays, values)
            self._remember(key, layout)  # now that all kernels are loaded
            return results
        finally:
            self._running.release()

    def clear(self) -> None:
        """Drop all of them."""
        self._found.clear()
        self._layouts.clear()

    @property
    def held_bytes(self) -> int:
        """The bytes of their memory."""
        return sum(r.held_bytes for r in self._found.values())

    def _compare(self, key: _Key, arrays: Sequence[Any]) -> tuple[Layout, bool]:
        """Where the params lie, and whether the last call with that key had them there, too."""
        before, now = self._layouts.get(key), self._lie(arrays)
        if before is None or before == now:
            return now, before is not None
        moved = {i for i, (a, b) in enumerate(zip(before, now, strict=True)) if a != b}
        self._moving |= moved - self._program.updated
        return self._lie(arrays), not moved & self._program.updated

    def _remember(self, key: _Key, layout: Layout) -> None:
        self._layouts.pop(key, None)
        self._layouts[key] = layout
        if len(self._layouts) > _MOST_LAYOUTS:
            del self._layouts[next(iter(self._layouts))]

    def _find(
        self, key: _Key, values: Mapping[Sym, int], layout: Layout, arrays: Sequence[Any]
    ) -> Replay:
        replay = self._found.pop(key, None)
        if replay is not None and replay.layout != layout:
            replay = None  # before there is another: its memory is free for that
        if replay is None:
            while len(self._found) >= _MOST_REPLAYS:
                del self._found[next(iter(self._found))]
            replay = self._make(values, layout, arrays)
        self._found[key] = replay
        self._remember(key, layout)
        return replay

    def _lie(self, arrays: Sequence[Any]) -> Layout:
        address = self._program.device.address
        return tuple(
            None if isinstance(a, np.ndarray) or i in self._moving else address(a)
            for i, a in enumerate(arrays)
        )

    def _make(self, values: Mapping[Sym, int], layout: Layout, arrays: Sequence[Any]) -> Replay:
        try:
            return Replay(self._program, values, layout, arrays)
        except MemoryError:
            self._found.clear()  # what other sizes hold
        try:
            return Replay(self._program, values, layout, arrays)
        except MemoryError as error:
            raise MemoryError(f"{error}; {_WITHOUT}") from None
