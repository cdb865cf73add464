"""A slow machine that runs the routine of a compiled program, kernel by kernel with the interpreter
of Kernel IR, and watches its memory: whoever reads a buffer must find what was written to that very
buffer last."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.program.routine import (
    Ahead,
    Arena,
    Ask,
    Choose,
    Copy,
    Ensure,
    Give,
    Launch,
    Measure,
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
from staticflow.codegen.statuses import SIZES_DIFFER
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Size, Sym
from staticflow.runtime.plan import Plan

__all__ = ["Machine", "run_slowly"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Region:
    """Some bytes of a table array or of the arena; ``buffer`` is the arena buffer they belong
    to."""

    memory: Array
    start: int
    stop: int
    buffer: int | None

    def part(self, start: int, size: int) -> Region:
        assert start >= 0
        assert self.start + start + size <= self.stop
        return Region(self.memory, self.start + start, self.start + start + size, self.buffer)


class Machine:
    """Memory, and where the loops are. ``run`` gives the code of the kernel that failed, or 0."""

    def __init__(self, plan: Plan, table: Sequence[Array], sizes: Mapping[Sym, int]) -> None:
        self.plan, self.routine = plan, plan.routine
        self.sizes = dict(sizes)
        self.kernels = {k.name: k for k in plan.routine.kernels}
        self.table = [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in table]
        self.arena = np.full(self.number(plan.arena), 0xAB, np.uint8)
        self.owner = np.full(len(self.arena), -1)
        self.iterations: dict[int, int] = {}  # how many each loop has made
        self.last: dict[int, int] = {}  # the last row of each that runs backwards
        self.lengths: dict[int, int | None] = {}
        self.grown = {b: np.zeros(0, np.uint8) for b in plan.routine.growing}

    def number(self, size: Size) -> int:
        return self.plan.evaluate(size, self.sizes)

    def run(self) -> int:
        return self.steps(self.routine.steps)

    def steps(self, steps: Sequence[Step]) -> int:
        for step in steps:
            code = getattr(self, _STEPS[type(step)])(step)
            if code:
                return code
        return 0

    # -- places ----------------------------------------------------------------------------------

    def place(self, place: Place) -> Region:
        if isinstance(place, Table):
            memory = self.table[place.slot]
            return Region(memory, 0, len(memory), None)
        if isinstance(place, Arena) and place.buffer in self.grown:
            memory = self.grown[place.buffer]
            return Region(memory, 0, len(memory), None)
        if isinstance(place, Arena):
            start = self.number(self.plan.offsets[place.buffer])
            size = self.number(self.routine.buffers[place.buffer].bytes)
            assert start + size <= len(self.arena)
            return Region(self.arena, start, start + size, place.buffer)
        if isinstance(place, Part):
            array, start = self.place(place.array), self.number(place.start)
            return array.part(start, array.stop - array.start - start)
        iteration = self.iterations[place.loop]
        if isinstance(place, Row):
            size = self.number(place.bytes)
            row = self.last[place.loop] - iteration if place.loop in self.last else iteration
            return self.place(place.array).part(row * size, size)
        if isinstance(place, Turn):
            return self.place(place.arrays[iteration % len(place.arrays)])
        if isinstance(place, Ahead):
            if iteration + 1 == self.lengths[place.loop]:
                return self.place(place.last)
            return self.at_iteration(place.loop, iteration + 1, place.place)
        if iteration < len(place.starts):
            return self.place(place.starts[iteration])
        return self.at_iteration(place.loop, iteration - len(place.starts), place.made)

    def at_iteration(self, loop: int, iteration: int, place: Place) -> Region:
        """A place, as it is in another iteration."""
        now, self.iterations[loop] = self.iterations[loop], iteration
        found = self.place(place)
        self.iterations[loop] = now
        return found

    def read(self, region: Region) -> Array:
        """The bytes, which must be the buffer's own."""
        if region.buffer is not None:
            owners = set(self.owner[region.start : region.stop].tolist())
            assert owners <= {region.buffer}, f"buffer {region.buffer} was overwritten by {owners}"
        return region.memory[region.start : region.stop]

    def write(self, region: Region) -> Array:
        if region.buffer is not None:
            self.owner[region.start : region.stop] = region.buffer
        return region.memory[region.start : region.stop]

    # -- steps -----------------------------------------------------------------------------------

    def launch(self, step: Launch) -> int:
        kernel = self.kernels[step.kernel]
        regions = [self.place(p) for p in step.places]
        arrays: dict[str, Array] = {}
        for buffer, region in zip(kernel.buffers, regions, strict=True):
            if buffer.name.startswith("p"):  # a param; what else is "inout" is the kernel's own
                arrays[buffer.name] = self.read(region).view(buffer.dtype.numpy)
        for buffer, region in zip(kernel.buffers, regions, strict=True):
            if buffer.access != "in":
                arrays[buffer.name] = self.write(region).view(buffer.dtype.numpy)
        sizes = dict(zip(kernel.sizes, map(self.number, step.sizes), strict=True))
        code = interpret_kernel(kernel, arrays, sizes)
        for buffer, place in zip(kernel.buffers, step.places, strict=True):
            if buffer.access == "grows":
                assert isinstance(place, Arena)
                self.grown[place.buffer] = arrays[buffer.name].view(np.uint8)
        assert code == 0 or step.site > 0
        return code

    def copy(self, step: Copy) -> int:
        size = self.number(step.bytes)
        source, target = (self.place(p) for p in (step.source, step.target))
        source, target = source.part(0, size), target.part(0, size)
        values = self.read(source).copy()
        self.write(target)[:] = values
        return 0

    def choose(self, step: Choose) -> int:
        return self.steps(step.then if self.flag(self.place(step.flag)) else step.orelse)

    def flag(self, region: Region) -> bool:
        (byte,) = self.read(region)
        assert byte in (0, 1)
        return bool(byte)

    def ensure(self, step: Ensure) -> int:
        """Rather less room than more: just what is asked for, in another place each time."""
        held = self.grown[step.buffer]
        size = self.number(step.bytes)
        self.grown[step.buffer] = np.full(max(size, len(held)), 0xAB, np.uint8)
        self.grown[step.buffer][: len(held)] = held
        return 0

    def require(self, step: Require) -> int:
        return 0 if self.number(step.a) == self.number(step.b) else SIZES_DIFFER

    def measure(self, step: Measure) -> int:
        number = int(self.read(self.place(step.number)).view(np.int64)[0])
        self.sizes[step.binds] = number
        most = number if step.most is None else self.number(step.most)
        return 0 if 0 <= number <= most else SIZES_DIFFER

    def give(self, step: Give) -> int:
        self.table[step.slot] = self.grown[step.buffer]
        return 0

    def ask(self, step: Ask) -> int:
        arrays = [
            self.read(self.place(p)).view(t.dtype.numpy).reshape([*map(self.number, t.shape)])
            for p, t in zip(step.values, step.types, strict=False)
        ]
        given = step.op.reference(np, *arrays, **step.attrs)
        results = given if isinstance(given, tuple) else (given,)
        for i, place in step.results:
            value = np.ascontiguousarray(results[i]).reshape(-1)
            self.write(self.place(place))[:] = value.view(np.uint8)
        return 0

    def repeat(self, step: Repeat) -> int:
        length = None if step.length is None else self.number(step.length)
        if step.reverse:
            assert length is not None
            self.last[step.loop] = length - 1
        self.lengths[step.loop] = length
        (counter,) = symbols_of(iteration_count(step.loop))
        iteration = self.iterations[step.loop] = 0
        while iteration != length and (step.flag is None or self.flag(self.place(step.flag))):
            self.sizes[counter] = iteration
            code = self.steps(step.body)
            if code:
                return code
            iteration += 1
            self.iterations[step.loop] = iteration
        if step.binds is not None:
            self.sizes[step.binds] = iteration
        return 0


_STEPS: dict[type, str] = {
    Launch: "launch",
    Copy: "copy",
    Repeat: "repeat",
    Choose: "choose",
    Ensure: "ensure",
    Require: "require",
    Measure: "measure",
    Give: "give",
    Ask: "ask",
}


def run_slowly(
    program: Any, arrays: Sequence[Array], machine_class: type[Machine] = Machine
) -> tuple[int, list[Array]]:
    """The code and the outputs of a compiled program; its variables are left alone."""
    executable = program._executable
    signature = executable.signature
    variables = [v._data.copy() for v in program._caller.variables]
    sizes = executable.bind([*arrays, *variables])
    late = set(program.plan.routine.told)
    outputs = [
        np.empty(
            [0 if symbols_of(d) & late else evaluate_dim(d, sizes) for d in t.shape], t.dtype.numpy
        )
        for t in signature.outputs
    ]
    table = [*arrays, *variables, *signature.constants, *outputs]
    flat = [np.ascontiguousarray(a).reshape(-1) for a in table]
    machine = machine_class(program.plan, flat, sizes)
    code = machine.run()
    first = len(table) - len(outputs)
    shapes = [
        [evaluate_dim(d, machine.sizes) for d in t.shape] if code == 0 else [0]
        for t in signature.outputs
    ]
    results = [
        machine.table[first + i].view(o.dtype)[: math.prod(shape)].reshape(shape)
        for i, (o, shape) in enumerate(zip(outputs, shapes, strict=True))
    ]
    return code, results
