"""One run of a routine on a device: its steps in order, asked for one by one by the host.

Loops and branches are the host's: it reads their flags, and their bodies are launched in each
iteration. A kernel that refuses a value writes its code into the word of the launch's site. The
host reads these words where the parts of the program say so (`segments`), after each iteration in
which one may have been written, and at the end. Word 0 is nobody's: a `Vote` writes to it if
another was written, and the guarded kernels, which have no other word, look there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from staticflow.codegen.cuda.render import code_of, has_work, launch_geometry
from staticflow.codegen.program.routine import (
    Ahead,
    Arena,
    Ask,
    Carry,
    Choose,
    Copy,
    Ensure,
    Epilogue,
    Give,
    Launch,
    Matrices,
    Measure,
    Multiply,
    Part,
    Place,
    Repeat,
    Require,
    Row,
    Step,
    Table,
    Turn,
    iteration_count,
)
from staticflow.codegen.statuses import NO_ROOM, SIZES_DIFFER
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import as_symbol, evaluate_dim
from staticflow.graph.dims import Size, Sym
from staticflow.graph.dtypes import int32
from staticflow.graph.types import TensorType
from staticflow.ops.along.ordered_collectives import NUMBERS, agree_op, begin_op
from staticflow.runtime.device.guarding import Guards
from staticflow.runtime.device.interface import Argument, Device, EpilogueAt, MatricesAt, Pointer
from staticflow.runtime.device.masked import Mask
from staticflow.runtime.runnable import run_reference

if TYPE_CHECKING:
    from staticflow.runtime.device.executable import DeviceExecutable

__all__ = ["Run", "Vote"]

_BYTES = np.dtype(np.uint8)
_WORDS = np.dtype(np.int32)
_NUMBERS = np.dtype(np.int64)


@dataclass(slots=True)
class _Reached:
    """Where a loop is: how many iterations it has made, of how many if that is known, and whether
    it runs backwards through rows."""

    iteration: int
    length: int | None
    reverse: bool


@dataclass(frozen=True, slots=True)
class Vote:
    """Let the device see whether a launch so far has failed: guarded kernels do nothing then."""


class Run:
    """A run of ``program`` on the arrays whose addresses are in ``table``, one for each slot (0 for
    an output that the run makes), where the unknown sizes have these ``values``."""

    def __init__(
        self, program: DeviceExecutable, table: Sequence[int], values: Mapping[Sym, int]
    ) -> None:
        self.program, self.table = program, table
        self.device: Device = program.device
        self.values = dict(values)
        self.given: dict[int, Any] = {}
        """The memory of outputs that the run has made, by their slots."""
        self.failed = 0
        """The site of the launch of which the words said that it failed; 0 before."""
        self._offsets = program.offsets(values)
        self._arena = self._memory(program.arena_bytes(values))
        self._base = self.device.address(self._arena)
        self._grown: dict[int, Any] = {}
        self._loops: dict[int, _Reached] = {}
        self._count = 1 + len(program.program.failures)
        self._words = self.device.empty([self._count], _WORDS)
        self._first_word = self.device.address(self._words)
        self._workspace = self._memory(self.device.workspace_bytes if program.multiplies else 0)
        self._in_doubt = False  # whether a word may have been written since they were read
        self._begun: dict[Place, int] = {}  # the numbers of collectives, where they lie
        self.guards = Guards(program, self._first_word)
        """What launches the kernels that guard others."""
        self._captures = False  # whether what is asked for is not done yet
        self.clear_words()

    def __call__(self) -> None:
        """Run all steps, and wait for them if one may have failed."""
        if self.program.claim_first_run():
            self.guards.load()
        for segment in self.program.segments(self.values):
            for step in segment.steps:
                self.take(step)
            if segment.is_checked:
                self.check()
        self.check()

    def take(self, step: Step | Vote) -> None:
        """Ask the device for a step."""
        _STEPS[type(step)](self, step)

    def capture(self, steps: Sequence[Step | Vote], *, first: bool) -> Any:
        """The graph of some steps, which ask the host for nothing; the ``first`` of a run also
        forgets the failures of the one before."""

        def work() -> None:
            if first and self._count > 1:
                self.clear_words()
            for step in steps:
                self.take(step)

        before = self._in_doubt
        try:
            self._captures = True
            return self.device.capture(work)
        finally:
            self._captures, self._in_doubt = False, before

    def capture_loop(
        self, step: Repeat, start: int, count: int, mask: Mask, *, again: int = 0
    ) -> Any:
        """The graph of so many iterations of a loop from ``start`` on, behind the end of which the
        ``mask`` leaves all as it is; and of ``again`` more at a time, until the loop has ended."""
        assert step.flag is not None
        flag, at = step.flag, self._begin_loop(step)
        counter = as_symbol(iteration_count(step.loop))
        assert counter is not None

        def go_on(start: int, count: int) -> None:
            for at.iteration in range(start, start + count):
                self.values[counter] = at.iteration
                self.guards.begin_iteration(self.address(flag), mask.word)
                for inner in step.body:
                    self.take(inner)

        def work() -> None:
            go_on(start, count)
            if again:
                self.device.capture_while(mask.word, lambda: go_on(start + count, again))

        try:
            self._captures = True
            with self.guards.behind(mask):
                return self.device.capture(work)
        finally:
            self._captures = False

    def end_loop(self, step: Repeat, iterations: int) -> None:
        """Go on behind a loop that has made so many iterations."""
        self._begin_loop(step).iteration = iterations
        if step.binds is not None:
            self.values[step.binds] = iterations

    def _begin_loop(self, step: Repeat) -> _Reached:
        length = None if step.length is None else self.size(step.length)
        at = self._loops[step.loop] = _Reached(0, length, step.reverse)
        return at

    def launch_graph(self, graph: Any, *, may_fail: bool) -> None:
        """Do what was captured."""
        self.device.launch_graph(graph)
        self._in_doubt = self._in_doubt or may_fail

    def begin_anew(self) -> None:
        """Forget what grew, and what was found of the run before."""
        self.given, self._grown, self._begun = {}, {}, {}
        self._in_doubt, self.failed = False, 0

    def clear_words(self) -> None:
        """Forget all failures."""
        self.device.clear(self._first_word, self._count * _WORDS.itemsize)

    @property
    def held_bytes(self) -> int:
        """The bytes of the memory that stays as long as this."""
        arrays = (self._arena, self._words, self._workspace)
        return self.guards.held_bytes + sum(int(a.nbytes) for a in arrays)

    def _memory(self, bytes_: int) -> Any:
        return self.device.empty([max(bytes_, 1)], _BYTES)

    # -- places --------------------------------------------------------------------------------

    def size(self, size: Size) -> int:
        """The number that a size is now."""
        return size if isinstance(size, int) else evaluate_dim(size, self.values)

    def address(self, place: Place) -> int:
        """Where an array lies now."""
        return _PLACES[type(place)](self, place)

    def _buffer(self, place: Arena) -> int:
        if self.program.grows[place.buffer]:
            return self.device.address(self._grown[place.buffer])
        return self._base + self._offsets[place.buffer]

    def _row(self, place: Row) -> int:
        at = self._loops[place.loop]
        row = at.iteration
        if at.reverse:
            assert at.length is not None
            row = at.length - 1 - row
        return self.address(place.array) + row * self.size(place.bytes)

    def _turn(self, place: Turn) -> int:
        number = self._loops[place.loop].iteration % len(place.arrays)
        return self.address(place.arrays[number])

    def _carry(self, place: Carry) -> int:
        iteration = self._loops[place.loop].iteration
        if iteration < len(place.starts):
            return self.address(place.starts[iteration])
        return self._at_iteration(place.loop, iteration - len(place.starts), place.made)

    def _ahead(self, place: Ahead) -> int:
        at = self._loops[place.loop]
        if at.iteration + 1 == at.length:
            return self.address(place.last)
        return self._at_iteration(place.loop, at.iteration + 1, place.place)

    def _at_iteration(self, loop: int, iteration: int, place: Place) -> int:
        at = self._loops[loop]
        before, at.iteration = at.iteration, iteration
        found = self.address(place)
        at.iteration = before
        return found

    # -- steps ---------------------------------------------------------------------------------

    def _launch(self, step: Launch) -> None:
        code = self.program.kernels[step.kernel]
        kernel = code.kernel
        numbers = [self.size(s) for s in step.sizes]
        arguments: list[Argument] = [
            Pointer(self.address(p), b.dtype, b.access != "in")
            for b, p in zip(kernel.buffers, step.places, strict=True)
        ]
        arguments += map(np.int64, numbers)
        word = self._first_word + _WORDS.itemsize * step.site if step.site else self.guards.word
        arguments.append(Pointer(word, *_STATUS))
        sizes = dict(zip(kernel.sizes, numbers, strict=True))
        for number, entry in enumerate(code.entries):
            if has_work(kernel, sizes, number):
                self.device.launch(entry, *launch_geometry(kernel, sizes, number), arguments)
        self._in_doubt = self._in_doubt or bool(step.site)

    def _multiply(self, step: Multiply) -> None:
        target, left, right = (self._matrices(m) for m in (step.target, step.left, step.right))
        bytes_ = math.prod(target.shape) * target.dtype.itemsize
        mask = self.guards.mask
        to = target if mask is None else replace(target, address=mask.scratch)
        epilogue = None if step.epilogue is None else self._epilogue(step.epilogue)
        is_done = epilogue is None
        if left.shape[-1]:
            workspace, tf32 = self.device.address(self._workspace), step.tf32
            is_done = self.device.multiply(to, left, right, workspace, tf32=tf32, epilogue=epilogue)
        elif bytes_:
            self.device.clear(to.address, bytes_)  # of an inner dimension of nothing
        if mask is not None:
            self.guards.copy(target.address, to.address, bytes_)
        if step.epilogue is not None and not is_done:
            self._launch(step.epilogue.otherwise)

    def _epilogue(self, epilogue: Epilogue) -> EpilogueAt:
        bias = 0 if epilogue.bias is None else self._matrices(epilogue.bias).address
        return EpilogueAt(bias, epilogue.activation)

    def _vote(self, _: Vote) -> None:
        self.guards.vote(self._count - 1)

    def _matrices(self, m: Matrices) -> MatricesAt:
        dtype = np.dtype(m.dtype.numpy)
        return MatricesAt(
            self.address(m.place) + self.size(m.start) * dtype.itemsize,
            dtype,
            tuple(map(self.size, m.shape)),
            tuple(self.size(s) * dtype.itemsize for s in m.strides),
        )

    def _copy(self, step: Copy) -> None:
        bytes_ = self.size(step.bytes)
        if not bytes_:
            return
        target, source = self.address(step.target), self.address(step.source)
        is_guarded = self.program.vote is not None and self.program.overwrites(step)
        if is_guarded or self.guards.mask is not None:
            self.guards.copy(target, source, bytes_)
        else:
            self.device.copy(target, source, bytes_)

    def _repeat(self, step: Repeat) -> None:
        at = self._begin_loop(step)
        counter = as_symbol(iteration_count(step.loop))
        assert counter is not None
        while (at.length is None or at.iteration < at.length) and self._flag(step.flag):
            self.values[counter] = at.iteration
            self._take_inside(step.body)
            self.check()
            at.iteration += 1
        if step.binds is not None:
            self.values[step.binds] = at.iteration

    def _take_inside(self, steps: Sequence[Step]) -> None:
        """Take steps that are inside another one."""
        for step in steps:
            self.take(step)
            if isinstance(step, Launch) and step.site and self.program.makes_indices(step):
                self.check()

    def _flag(self, place: Place | None) -> bool:
        """The bool that lies at a place; True without one."""
        return place is None or bool(self._read(place, np.dtype(np.uint8)))

    def _read(self, place: Place, dtype: np.dtype[Any]) -> int:
        """The number that lies at a place, once all before it is done."""
        cell, number = self.device.empty([1], dtype), np.empty(1, dtype)
        self.device.copy(self.device.address(cell), self.address(place), dtype.itemsize)
        self.device.download(number, cell)
        if not self.check():
            self.device.synchronize()
        return int(number[0])

    def _choose(self, step: Choose) -> None:
        if self._captures:
            for mask, steps in zip(
                self.guards.take_branch(self.address(step.flag)),
                (step.then, step.orelse),
                strict=True,
            ):
                with self.guards.behind(mask, inside=True):
                    for inner in steps:
                        self.take(inner)
            return
        self._take_inside(step.then if self._flag(step.flag) else step.orelse)

    def _ensure(self, step: Ensure) -> None:
        bytes_ = self.size(step.bytes)
        old = self._grown.get(step.buffer)
        if old is not None and old.nbytes >= bytes_:
            return
        try:
            if bytes_ > self.program.room:
                raise MemoryError
            # by half, so that an array that grows with each iteration is not copied in each
            more = 0 if old is None else min(old.nbytes + old.nbytes // 2, self.program.room)
            new = self._memory(max(bytes_, more))
        except MemoryError:
            self._fail(256 * step.site + NO_ROOM)
        if old is not None:
            self.device.copy(self.device.address(new), self.device.address(old), old.nbytes)
        self._grown[step.buffer] = new

    def _require(self, step: Require) -> None:
        if self.size(step.a) != self.size(step.b):
            self._fail(256 * step.site + SIZES_DIFFER)

    def _measure(self, step: Measure) -> None:
        number = self._read(step.number, np.dtype(np.int64))
        if step.most is not None and not 0 <= number <= self.size(step.most):
            self._fail(256 * step.site + SIZES_DIFFER)
        self.values[step.binds] = number

    def _give(self, step: Give) -> None:
        self.given[step.slot] = self._grown.pop(step.buffer, None)

    def _ask(self, step: Ask) -> None:
        """Have a collective done, on arrays where they are. A run of which a value was refused
        sends nothing. The numbers of what was begun are the host's."""
        self.check()
        arrays = [
            self.device.array_at(self.address(p), self._shape(t), np.dtype(t.dtype.numpy))
            for p, t in zip(step.places, step.types, strict=True)
        ]
        count, first = len(step.values), NUMBERS.get(step.op, 0)
        numbers = [np.int64(self._begun_at(p)) for p in step.values[:first]]

        def work(cupy: Any) -> None:
            given = run_reference(step, cupy, [*numbers, *arrays[first:count]])
            for (i, place), array in zip(step.results, arrays[count:], strict=True):
                if step.op in (agree_op, begin_op):
                    self._begun[place] = int(given[i])
                    array[...] = self._begun[place]
                else:
                    array[...] = given[i]

        self.device.compute(work)

    def _begun_at(self, place: Place) -> int:
        """The number of what was begun, which the host has, but for the first of all."""
        return self._begun[place] if place in self._begun else self._read(place, _NUMBERS)

    def _shape(self, t: TensorType) -> list[int]:
        return [self.size(n) for n in t.shape]

    # -- failures ------------------------------------------------------------------------------

    def check(self) -> bool:
        """Whether the words had to be read: then all before is done. Raises what the first launch
        that failed has to say."""
        if self._captures or not self._in_doubt:
            return False
        self._in_doubt = False
        words = np.empty(self._count, _WORDS)
        self.device.download(words, self._words)
        self.device.synchronize()
        sites = 1 + np.flatnonzero(words[1:])
        if len(sites):
            self.failed = int(sites[0])
            self._fail(256 * self.failed + code_of(int(words[self.failed])))
        return True

    def _fail(self, status: int) -> NoReturn:
        for loop, at in self._loops.items():
            self.program.done[loop] = at.iteration
        self.program.fail(status)


_STATUS = (int32, True)

_PLACES: dict[type, Callable[[Run, Any], int]] = {
    Table: lambda run, place: run.table[place.slot],
    Arena: Run._buffer,
    Part: lambda run, place: run.address(place.array) + run.size(place.start),
    Row: Run._row,
    Turn: Run._turn,
    Carry: Run._carry,
    Ahead: Run._ahead,
}

_STEPS: dict[type, Callable[[Run, Any], None]] = {
    Ask: Run._ask,
    Vote: Run._vote,
    Launch: Run._launch,
    Multiply: Run._multiply,
    Copy: Run._copy,
    Repeat: Run._repeat,
    Choose: Run._choose,
    Ensure: Run._ensure,
    Require: Run._require,
    Measure: Run._measure,
    Give: Run._give,
}
