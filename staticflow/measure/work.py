"""What each kernel of a program does in a call: how often it runs, what it touches and computes."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from staticflow.codegen.kernel import Kernel as KernelCode
from staticflow.codegen.program.routine import (
    Ahead,
    Arena,
    Ask,
    Carry,
    Choose,
    Copy,
    Launch,
    Measure,
    Multiply,
    Part,
    Place,
    Repeat,
    Routine,
    Row,
    Step,
    Table,
    Turn,
    iteration_count,
    walk_steps,
)
from staticflow.data_classes import dataclass
from staticflow.errors import ShapeError
from staticflow.graph.dim_queries import evaluate_dim, substitute_dim, symbols_of
from staticflow.graph.dims import Size, Sym
from staticflow.graph.equalities import unify
from staticflow.graph.locs import Locs, format_locs, here, merge_locs
from staticflow.measure.kernel_work import KernelWork, work_of_kernel
from staticflow.measure.lines import lines_in_words
from staticflow.runtime.draft import Signature
from staticflow.runtime.plan import name_bound_sizes
from staticflow.runtime.runnable import Runnable

__all__ = ["COPY", "PRODUCT", "Kernel", "size_names", "work_of_program", "work_of_routine"]

COPY = "copy"
"""The name of the row of copies from array to array."""

PRODUCT = "product"
"""The name of the row of products that a library of the device computes."""

_EACH = 64
"""Iterations of a loop that are counted one by one where they differ."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of the compiled step: how often it runs, what it touches and computes in all, its
    share of the step's time, and the user's lines that it comes from. ``uncounted`` names what only
    the run can tell, as the iterations of a loop: the numbers are those where each of it is 1."""

    name: str
    launches: int
    bytes: int
    flops: int
    seconds: float | None
    lines: str
    uncounted: tuple[str, ...] = ()


@dataclass(slots=True)
class _Total:
    """What was counted of one kernel so far."""

    launches: int = 0
    bytes: int = 0
    flops: int = 0
    locs: Locs = ()
    uncounted: dict[str, None] = field(default_factory=dict)


def size_names(executable: Runnable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a program's sizes: those of a call, and those that only the run can tell."""
    routine = executable.program
    late = [str(name) for name in name_bound_sizes(routine).values()]
    return tuple(s.name for s in routine.sizes), tuple(late)


def work_of_program(
    executable: Runnable, sizes: Mapping[str, int | Sequence[int]]
) -> tuple[Kernel, ...]:
    """The kernels of a program in the order in which they are first run, with what they do in one
    call where the unknown sizes have these values, by name.

    **Bytes** are the traffic at least needed: the distinct elements of its arrays that a kernel
    reads and those that it writes, counted once for each launch, though a cache may hold some from
    the launch before. Scratch memory is not counted, nor is what a kernel reads again of what it
    has written. Elements that are chosen by data (`gather`) count as if they were different ones.

    **FLOPs** are the additions, subtractions, multiplications, divisions, square roots, extremes
    and comparisons of floats that the kernel does, a fused multiply-add as two. There is no
    instruction for ``exp`` and its like: they count as the arithmetic that they are made of, from
    15 (``exp``) to 30 or so operations an element. Absolute values, signs, choices (`where`),
    roundings and conversions are free. What vectors compute in lanes that are off is not counted,
    nor what rare elements need, as the sine of 1e9. A product in blocks computes whole tiles, also
    where they stick out at its edges, and these count whole.

    Copies from array to array are one more row, ``copy``, products by a library of a GPU another,
    ``product``, and each operation that runs in Python a
    row of its name. Of two branches that the data choose, the one that touches more counts; so do
    all iterations of a loop that may end early, where its longest run is known. A number that only
    the run can tell counts as 1 unless it is among ``sizes``, and is named as ``uncounted``. One
    that is found anew in each iteration of a loop is a sequence there, in the order of the run.
    """
    return work_of_routine(executable.program, executable.signature, sizes)


def work_of_routine(
    routine: Routine, signature: Signature, sizes: Mapping[str, int | Sequence[int]]
) -> tuple[Kernel, ...]:
    """The kernels of a routine, compiled or not, as `work_of_program` counts them."""
    counter = _Counter(routine, signature, sizes)
    counter.steps(routine.steps, 1, counter.totals)
    return tuple(
        Kernel(
            name,
            t.launches,
            t.bytes,
            t.flops,
            None,
            lines_in_words(t.locs) if t.locs else "",
            tuple(t.uncounted),
        )
        for name, t in counter.totals.items()
    )


Totals = dict[str, _Total]


class _Counter:
    """Walks the steps of a routine at given sizes."""

    def __init__(
        self,
        routine: Routine,
        signature: Signature,
        sizes: Mapping[str, int | Sequence[int]],
    ) -> None:
        names = [s.name for s in routine.sizes]
        missing = [name for name in names if name not in sizes]
        late = {s: str(name) for s, name in name_bound_sizes(routine).items()}
        unknown = [name for name in sizes if name not in names and name not in late.values()]
        if missing or unknown:
            form = ", ".join(f"{name}=..." for name in names)
            wrong = f"{unknown[0]} is no size of it" if unknown else f"{missing[0]} is not given"
            raise ShapeError(
                f"work: {wrong}; the sizes of this program are work({form})"
                + (f", and what only the run can tell {', '.join(late.values())}" if late else "")
                + f", at {format_locs(here())}"
            )
        self.routine = routine
        equal = unify(signature.equalities, frozenset())[0]
        self.table = [substitute_dim(n, equal) for n in _table_bytes(signature)]
        self.values: dict[Sym, int] = {}
        self.varying: dict[Sym, Sequence[int]] = {}
        given = {**{s: sizes[s.name] for s in routine.sizes},
                 **{s: sizes[name] for s, name in late.items() if name in sizes}}  # fmt: skip
        for sym, value in given.items():
            if isinstance(value, int):
                self.values[sym] = value
            else:
                self.varying[sym] = value
        self.late = late
        self.kernels: dict[str, KernelCode] = {k.name: k for k in routine.kernels}
        self.known: dict[Any, KernelWork] = {}
        self.totals: Totals = {}
        every = list(walk_steps(routine.steps))
        products = (s for s in every if isinstance(s, Multiply))
        rare = [s.epilogue.otherwise for s in products if s.epilogue is not None]
        for step in every:
            if isinstance(step, Launch) and step not in rare:
                total = self.totals.setdefault(step.kernel, _Total())
                total.locs = merge_locs(total.locs, step.locs)

    def steps(self, steps: Sequence[Step], times: int, totals: Totals) -> None:
        """Count ``steps``, which run so many times."""
        for step, following in itertools.zip_longest(steps, steps[1:]):
            if isinstance(step, Launch):
                self.launch(step, following, times, totals)
            elif type(step) in _COUNT:
                _COUNT[type(step)](self, step, times, totals)

    def launch(self, step: Launch, following: Step | None, times: int, totals: Totals) -> None:
        kernel = self.kernels[step.kernel]
        total = totals.setdefault(step.kernel, _Total())
        given = [self.value(size, total) for size in step.sizes]
        binds = following.binds if isinstance(following, Measure) else step.binds
        iterations = self.values.get(binds) if binds is not None else None
        key = (step.kernel, tuple(given), iterations)
        if key not in self.known:
            values = dict(zip(kernel.sizes, given, strict=True))
            self.known[key] = work_of_kernel(kernel, values, iterations)
        work = self.known[key]
        if work.endless:
            name = "iterations" if binds is None else self.late[binds]
            total.uncounted[name] = None
        moved = 0
        for touched in (work.reads, work.writes):
            by_place: dict[Place, int] = {}
            for buffer, place in zip(kernel.buffers, step.places, strict=True):
                if buffer.name in touched:
                    count = touched[buffer.name] * buffer.dtype.itemsize
                    most = self.find(self.place(place))
                    count = count if most is None else min(count, most)
                    by_place[place] = max(by_place.get(place, 0), count)
            moved += sum(by_place.values())
        total.launches += times
        total.bytes += times * moved
        total.flops += times * work.flops

    def multiply(self, step: Multiply, times: int, totals: Totals) -> None:
        total = totals.setdefault(PRODUCT, _Total())
        total.locs = merge_locs(total.locs, step.locs)
        total.launches += times
        three = [
            [self.value(n, total) for n in m.shape] for m in (step.target, step.left, step.right)
        ]
        bias = 0 if step.epilogue is None or step.epilogue.bias is None else three[0][-1]
        total.bytes += times * step.target.dtype.itemsize * (sum(map(math.prod, three)) + bias)
        total.flops += times * 2 * math.prod(three[0]) * three[1][-1]

    def copy(self, step: Copy, times: int, totals: Totals) -> None:
        total = totals.setdefault(COPY, _Total())
        total.launches += times
        total.bytes += times * 2 * self.value(step.bytes, total)

    def ask(self, step: Ask, times: int, totals: Totals) -> None:
        total = totals.setdefault(f"Python: {step.op.name}", _Total())
        total.locs = merge_locs(total.locs, step.locs)
        total.launches += times
        moved = sum((t.size * t.dtype.itemsize for t in step.types), start=0)
        total.bytes += times * self.value(moved, total)

    def repeat(self, step: Repeat, times: int, totals: Totals) -> None:
        uncounted = _Total()
        if step.binds is not None and step.binds in self.values:
            length = self.values[step.binds]
        elif step.length is None:
            length = 1
            name = "iterations" if step.binds is None else self.late[step.binds]
            uncounted.uncounted[name] = None
        else:
            length = self.value(step.length, uncounted)
        inner: Totals = {}
        (count,) = symbols_of(iteration_count(step.loop))
        if length > 0 and self.repeat_varying(step, count, length, inner):
            _add(inner, totals, uncounted.uncounted)
            return
        parts = [(0, length)] if length > 0 else []
        if length > 1 and any(count in symbols_of(s) for s in _sizes_in(step.body)):
            edges = sorted({length * i // _EACH for i in range(_EACH + 1)})
            parts = [((a + b) // 2, b - a) for a, b in itertools.pairwise(edges)]
        for at, like in parts:
            self.values[count] = at
            self.steps(step.body, times * like, inner)
        self.values.pop(count, None)
        _add(inner, totals, uncounted.uncounted)

    def repeat_varying(self, step: Repeat, count: Sym, length: int, inner: Totals) -> bool:
        """Count the iterations of a loop in which sizes are found that are others each time, as
        often as they were found; whether there are such sizes."""
        found = (s.binds for s in step.body if isinstance(s, Repeat | Measure | Launch))
        varying = [s for s in found if s is not None and s in self.varying]
        if not varying or len({len(self.varying[s]) for s in varying}) > 1:
            return False
        depends = any(count in symbols_of(size) for size in _sizes_in(step.body))
        order = range(len(self.varying[varying[0]]))
        settings = [
            (i % length if depends else 0, *(self.varying[s][i] for s in varying)) for i in order
        ]
        for setting, times in Counter(settings).items():
            self.values |= dict(zip((count, *varying), setting, strict=True))
            self.steps(step.body, times, inner)
        for sym in (count, *varying):
            del self.values[sym]
        return True

    def choose(self, step: Choose, times: int, totals: Totals) -> None:
        branches: list[Totals] = [{}, {}]
        for steps, found in zip((step.then, step.orelse), branches, strict=True):
            self.steps(steps, times, found)
        _add(max(branches, key=lambda b: sum(t.bytes for t in b.values())), totals, {})

    def place(self, place: Place) -> Size:
        return _PLACES[type(place)](self, place)

    def find(self, size: Size) -> int | None:
        unknown = symbols_of(size) - self.values.keys()
        return None if unknown else evaluate_dim(size, self.values)

    def value(self, size: Size, total: _Total) -> int:
        """A size, where what only the run can tell is 1, and noted in ``total``."""
        unknown = symbols_of(size) - self.values.keys()
        total.uncounted |= dict.fromkeys(self.late.get(s, s.name) for s in unknown)
        return evaluate_dim(size, {**self.values, **dict.fromkeys(unknown, 1)})


def _add(some: Totals, totals: Totals, uncounted: Mapping[str, None]) -> None:
    for name, one in some.items():
        total = totals.setdefault(name, _Total())
        total.launches += one.launches
        total.bytes += one.bytes
        total.flops += one.flops
        total.locs = merge_locs(total.locs, one.locs)
        total.uncounted |= {**one.uncounted, **uncounted}


def _sizes_in(steps: tuple[Step, ...]) -> Iterator[Size]:
    for step in walk_steps(steps):
        if isinstance(step, Launch):
            yield from step.sizes
        elif isinstance(step, Copy):
            yield step.bytes
        elif isinstance(step, Repeat) and step.length is not None:
            yield step.length


def _table_bytes(signature: Signature) -> Iterator[Size]:
    """The bytes of the arrays of the table, in their order."""
    for param in signature.params:
        yield param.type.size * param.type.dtype.itemsize
    for constant in signature.constants:
        yield constant.nbytes
    for output in signature.outputs:
        yield output.size * output.dtype.itemsize


_COUNT: dict[type, Callable[[_Counter, Any, int, Totals], None]] = {
    Multiply: _Counter.multiply,
    Copy: _Counter.copy,
    Ask: _Counter.ask,
    Repeat: _Counter.repeat,
    Choose: _Counter.choose,
}

_PLACES: dict[type, Callable[[_Counter, Any], Size]] = {
    Table: lambda counter, place: counter.table[place.slot],
    Arena: lambda counter, place: counter.routine.buffers[place.buffer].bytes,
    Part: lambda counter, place: counter.place(place.array) - place.start,
    Row: lambda _, place: place.bytes,
    Turn: lambda counter, place: counter.place(place.arrays[0]),
    Carry: lambda counter, place: counter.place(place.made),
    Ahead: lambda counter, place: counter.place(place.last),
}
