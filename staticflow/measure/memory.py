"""The memory of a step in either mode: what is in use after each part of it, and the most."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.codegen.program.routine import Repeat, Routine, Step, blocks_of
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Sym
from staticflow.graph.dtypes import BY_NUMPY
from staticflow.graph.types import TensorType
from staticflow.measure.lines import lines_in_words
from staticflow.measure.operations import record_operations
from staticflow.measure.recorder import Operation, Recording
from staticflow.runtime.counting import count_allocations
from staticflow.runtime.executable import Executable
from staticflow.runtime.plan import name_bound_sizes

__all__ = [
    "LARGEST", "Buffer", "Memory", "bytes_in_steps", "measure_eager", "measure_program",
    "memory_of",
]  # fmt: skip

LARGEST = 12
"""How many buffers are told of."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A large piece of memory: ``first`` and ``last`` are the steps of the program, or the
    operations of the eager step, between which it is live; ``lines`` the user's."""

    label: str
    type: str
    bytes: int
    first: int
    last: int
    lines: str


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one step. ``predicted`` is the plan's peak and the outputs, ``measured`` the
    high-water mark of the allocator above what is there from step to step; ``timeline`` the bytes
    in use after each step of the program, or each operation.

    What is there all the time (parameters, inputs) is not counted; gradients are, which the eager
    mode frees and makes anew. ``predicted`` takes the sizes that only the run can tell, as the
    iterations of a loop, from a run; it is None of the eager mode, and of runs too long for that.
    """

    predicted: int | None
    measured: int
    timeline: tuple[int, ...]
    largest: tuple[Buffer, ...]


# -- eager ---------------------------------------------------------------------------------------


def measure_eager(step: Callable[[], object]) -> Memory:
    """The memory of one call of ``step``, which runs eagerly: of all arrays, and of the workspaces
    of kernels. Objects of Python are not counted. Call ``step`` a few times before, since what is
    made and compiled in the first calls of a kind is memory, too.

    >>> import staticflow as sf
    >>> x = sf.ones(1000, requires_grad=True)
    >>> def step():
    ...     x.grad = None
    ...     (x * x).sum().backward()
    >>> for _ in range(10):
    ...     step()
    >>> found = measure_eager(step)
    >>> found.measured // 1000, found.largest[0].label, found.largest[0].type
    (12, 'mul', 'f32[1000]')
    """
    gc.collect()  # which might free old arrays in the midst
    with record_operations() as recording:
        step()
    return memory_of(recording)


def memory_of(recording: Recording) -> Memory:
    """The memory of what was recorded. The timeline has the outermost operations, in order."""
    outermost = _select_outermost(recording)
    least = recording.allocations.least
    measured = recording.allocations.peak - least
    timeline = tuple(o.held - least for o in outermost)
    return Memory(None, measured, timeline, tuple(_largest(recording, outermost)))


def _select_outermost(recording: Recording) -> list[Operation]:
    """The operations that are in no other, in order; of backward, which is one, its steps."""
    walks = {"backward", "grad"}
    found = [
        o for o in recording.operations
        if o.name not in walks and (o.depth == 0 or (o.depth == 1 and o.kind == "backward"))
    ]  # fmt: skip
    return sorted(found, key=lambda o: o.start)


def _largest(recording: Recording, operations: Sequence[Operation]) -> Iterator[Buffer]:
    """The largest arrays that operations have made, and when they were freed."""
    ends = [o.last_entry for o in operations]
    blocks = _live_ranges(recording.allocations.entries())
    for size, made, freed in sorted(blocks, key=lambda b: (-b[0], b[1]))[:LARGEST]:
        first, last = (int(np.searchsorted(ends, at, side="right")) for at in (made, freed))
        last = max(first, min(last, len(operations) - 1))
        makers = [o for o in recording.operations if o.first_entry <= made < o.last_entry]
        if not makers or first == len(operations) or operations[first] not in makers:
            yield Buffer("outside operations", f"u8[{size}]", size, first, last, "")
            continue
        maker = operations[first]
        kind = next((k for o in makers if (k := _type_of(o, size))), f"u8[{size}]")
        yield Buffer(maker.name, kind, size, first, last, lines_in_words(maker.locs))


def _live_ranges(entries: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """The size of each allocation in a log, and the positions where it was made and freed."""
    live: dict[int, tuple[int, int]] = {}
    found = []
    for place, (address, size) in enumerate(entries):
        if size >= 0:
            live[address] = size, place
        elif address in live:
            found.append((*live.pop(address), place))
    return found + [(size, made, len(entries)) for size, made in live.values()]


def _type_of(operation: Operation, size: int) -> str | None:
    """The type of what an operation gave, if it is of so many bytes."""
    if operation.result is None:
        return None
    dtype, shape = operation.result
    given = math.prod(shape) * dtype.itemsize
    return str(TensorType(BY_NUMPY[dtype], shape)) if given == size else None


# -- compiled ------------------------------------------------------------------------------------


def measure_program(
    executable: Executable,
    arrays: Sequence[Any],
    call: Callable[[], Sequence[Any]],
    found: Mapping[Sym, int],
) -> Memory:
    """The memory of one ``call`` of an executable on ``arrays``, which gives the arrays of the
    outputs: of these, the arena and the buffers that grow, as the allocator gives them. What
    earlier calls left is freed before, so that all of it is seen. ``found`` are sizes that only the
    run can tell."""
    values = executable.bind(arrays)
    executable.free()
    gc.collect()
    with count_allocations() as allocations:
        outputs = call()
        measured = allocations.peak - allocations.least
    outputs = [*{a.__array_interface__["data"][0]: a for a in outputs}.values()]
    plan = executable.plan
    names = {**values, **_by_names(executable.program, found)}
    own = [*_buffers(executable, {**values, **found})]
    steps = max([last for _, last in plan.live], default=0)
    buffers = own + [
        Buffer(f"output {i}", str(TensorType(BY_NUMPY[a.dtype], a.shape)), a.nbytes, 0, steps, "")
        for i, a in enumerate(outputs)
    ]
    given = sum(a.nbytes for a in outputs)
    predicted = plan.evaluate(plan.peak, names) + given if plan.unknown <= {*names} else None
    timeline = tuple(
        sum(b.bytes for b in buffers if b.first <= at <= b.last) for at in range(1, steps + 1)
    )
    largest = sorted(buffers, key=lambda b: (-b.bytes, b.first))[:LARGEST]
    return Memory(predicted, measured, timeline, tuple(largest))


def _by_names(routine: Routine, found: Mapping[Sym, int]) -> dict[Sym, int]:
    """The sizes that the run has ``found``, by the symbols that stand for them in the peak."""
    named = name_bound_sizes(routine)
    return {s: number for bound, number in found.items() for s in symbols_of(named.get(bound, 0))}


def bytes_in_steps(executable: Executable, arrays: Sequence[Any]) -> list[int]:
    """The bytes that the plan has in use in each step of the routine, in the order of `walk_steps`,
    for arguments like ``arrays``; of what grows, as it was after the latest run."""
    buffers = [*_buffers(executable, executable.bind(arrays))]
    return [
        sum(b.bytes for b in buffers if b.first <= at <= b.last)
        for at in _clocks(executable.program.steps)
    ]


def _clocks(steps: Sequence[Step]) -> list[int]:
    """The numbers by which live ranges name the steps: there the end of a loop has one, too."""
    found: list[int] = []
    clock = 0

    def visit(steps: Sequence[Step]) -> None:
        nonlocal clock
        for step in steps:
            clock += 1
            found.append(clock)
            for block in blocks_of(step):
                visit(block)
            clock += isinstance(step, Repeat)

    visit(steps)
    return found


def _buffers(executable: Executable, values: Mapping[Sym, int]) -> Iterator[Buffer]:
    """The buffers of a program as they were in its last run: one that grows as large as it grew,
    another as large as the plan says."""
    routine = executable.program
    grown = dict(zip(routine.growing, executable.growing_bytes, strict=True))
    for i, buffer in enumerate(routine.buffers):
        size = grown[i] if i in grown else evaluate_dim(buffer.bytes, values)
        known = all(symbols_of(d) <= values.keys() for d in buffer.shape)
        shape = tuple(evaluate_dim(d, values) if known else d for d in buffer.shape)
        first, last = executable.plan.live[i]
        kind = str(TensorType(buffer.dtype, shape))
        yield Buffer(buffer.label, kind, size, first, last, lines_in_words(buffer.locs))
