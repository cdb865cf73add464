"""Branches by a value without the host, and loops that end by one without it in each iteration.

Of a branch both sides are launched, and the kernels of the one that is not taken do nothing.

Before each iteration a kernel looks at the flag of the loop. Where that is false it writes to a
word, and the kernels of the iteration, and of those behind it, find it there and do nothing. Where
the device has loops in graphs, a loop is one launch, as the graph itself looks at the word; else
the host reads it behind each launch. How many iterations were made the host reads at the end.
Where the driver refuses the graph of a whole loop, as it is captured or first launched, nothing of
it was done, and the host looks instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow.codegen.program.routine import (
    Ahead,
    Carry,
    Choose,
    Copy,
    Launch,
    Matrices,
    Multiply,
    Place,
    Repeat,
    Row,
    Step,
    Turn,
    blocks_of,
    parts_of,
    places_of,
    walk_steps,
)
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Size, Sym

if TYPE_CHECKING:
    from staticflow.runtime.device.executable import DeviceExecutable
    from staticflow.runtime.device.run import Run

__all__ = [
    "MOST_CAPTURED", "Mask", "MaskedLoop", "bytes_of_products", "can_be_masked", "count_launches",
    "depth_of_branches", "iterations_at_once", "launches_of_iteration",
]  # fmt: skip

MOST_CAPTURED = 4096
"""Launches in a segment: each is a node of the graph, which has memory on the device and is written
once for each."""

_AT_ONCE = 16
"""Iterations that are one launch, where their number is unknown: a guess between launches of
kernels that do nothing and looks of the host, neither of which was measured on a GPU."""

_WORDS = np.dtype(np.int32)


@dataclass(frozen=True, slots=True)
class Mask:
    """The address of the word that kernels look at, and of memory for products of matrices, which a
    library makes whatever is there."""

    word: int
    scratch: int


def can_be_masked(step: Step) -> bool:
    """Whether a step is a branch, or a loop that ends by a value, in which nothing can fail or
    grows, and no loop ends by a value."""
    if isinstance(step, Choose):
        return all(map(_does_nothing, (*step.then, *step.orelse)))
    if not isinstance(step, Repeat) or step.flag is None:
        return False
    return all(map(_does_nothing, step.body)) and (
        step.length is not None
        or not any(isinstance(p, Row | Ahead) and p.loop == step.loop for p in _places_in(step))
    )


def _does_nothing(step: Step) -> bool:
    """Whether a step does nothing if kernels do not."""
    if isinstance(step, Repeat):
        return step.flag is None and step.length is not None and all(map(_does_nothing, step.body))
    if isinstance(step, Choose):
        return can_be_masked(step)
    return isinstance(step, Copy | Multiply) or (isinstance(step, Launch) and not step.site)


def bytes_of_products(steps: tuple[Step, ...], size: Callable[[Size], int]) -> int:
    """The bytes of the largest product of matrices in some steps, 1 at least, where ``size`` gives
    the number that a size is."""

    def bytes_of(m: Matrices) -> int:
        return math.prod(map(size, m.shape)) * m.dtype.itemsize

    products = (s.target for s in walk_steps(steps) if isinstance(s, Multiply))
    return max([1, *map(bytes_of, products)])


def depth_of_branches(steps: tuple[Step, ...]) -> int:
    """How many branches lie inside each other at most."""
    inner = [depth_of_branches(block) for s in steps for block in blocks_of(s)]
    own = any(isinstance(s, Choose) for s in steps)
    return max(inner, default=0) + own


def count_launches(
    step: Step, program: DeviceExecutable, values: Mapping[Sym, int], *, masked: bool = False
) -> int:
    """What a step of a ``program`` launches where the sizes have these ``values``; nothing in loops
    whose number of iterations these do not say, which are not captured. In ``masked`` loops and
    branches a product is copied to its place."""
    if isinstance(step, Repeat):
        if step.length is None or not symbols_of(step.length) <= set(values):
            return 0
        inside = (count_launches(s, program, values, masked=masked) for s in step.body)
        return evaluate_dim(step.length, values) * sum(inside)
    if isinstance(step, Choose):
        sides = (*step.then, *step.orelse)
        return 1 + sum(count_launches(s, program, values, masked=True) for s in sides)
    if isinstance(step, Launch):
        return len(program.kernels[step.kernel].entries)
    return 1 + (masked and isinstance(step, Multiply))


def launches_of_iteration(
    step: Repeat, program: DeviceExecutable, values: Mapping[Sym, int]
) -> int:
    """What an iteration of a masked loop launches, the kernel that looks at the flag included."""
    return 1 + sum(count_launches(s, program, values, masked=True) for s in step.body)


def iterations_at_once(
    step: Repeat, length: int | None, by_graph: bool, launches: int
) -> tuple[int, int]:
    """How many iterations of a loop, of so many ``launches`` each, the first launch makes at most,
    and each after it: of a known ``length`` all. Where the loop goes on ``by_graph``, those are one
    launch: so many, and then so many again and again. They are more than can be captured only where
    the fewest possible are."""
    if length is not None:
        return length, 0
    places = [*_places_in(step)]
    turns = (len(p.arrays) for p in places if isinstance(p, Turn) and p.loop == step.loop)
    period = math.lcm(1, *turns)
    starts = sum(len(p.starts) for p in {*places} if isinstance(p, Carry) and p.loop == step.loop)
    before = -(-starts // period) * period
    if by_graph:
        return before + period, period
    most = (MOST_CAPTURED // launches - before) // period
    again = max(1, min(-(-_AT_ONCE // period), most)) * period
    return before + again, again


def _places_in(step: Repeat) -> Iterator[Place]:
    """All places that a loop names, and the places that these are made of."""
    for inner in walk_steps((step,)):
        yield from _parts(places_of(inner))


def _parts(places: Iterable[Place]) -> Iterator[Place]:
    for place in places:
        yield place
        yield from _parts(parts_of(place))


class MaskedLoop:
    """A loop of a ``run``, captured when it is first gone through."""

    def __init__(self, run: Run, step: Repeat) -> None:
        self._run, self._step = run, step
        device = run.device
        self._scratch = device.empty([bytes_of_products(step.body, run.size)], np.dtype(np.uint8))
        self._words = device.empty([2], _WORDS)
        self._at = device.address(self._words)
        self._mask = Mask(self._at, device.address(self._scratch))
        self._length = None if step.length is None else run.size(step.length)
        self._by_graph = self._length is None and device.loops_in_graphs
        self._was_launched = False  # by the graph of the whole loop
        self._graphs: dict[int, Any] = {}  # by the iteration that each begins with
        self._divide()

    def _divide(self) -> None:
        """Find how many iterations each launch has."""
        run, step = self._run, self._step
        launches = launches_of_iteration(step, run.program, run.values)
        self._first, self._again = iterations_at_once(step, self._length, self._by_graph, launches)

    @property
    def held_bytes(self) -> int:
        """The bytes of its memory."""
        return int(self._scratch.nbytes) + int(self._words.nbytes)

    def __call__(self) -> None:
        """Go through the loop."""
        run, device = self._run, self._run.device
        run.check()
        device.clear(self._at, 2 * _WORDS.itemsize)
        begun, made, has_ended = 0, 0, self._first == 0
        while not has_ended:
            begun += self._launch_from(begun)
            words = np.empty(2, _WORDS)
            device.download(words, self._words)
            device.synchronize()
            has_ended, made = bool(words[0]) or begun == self._length, int(words[1])
        run.end_loop(self._step, made)

    def _launch_from(self, begun: int) -> int:
        """Launch the iterations behind those that have ``begun``; gives how many they are, or, by a
        graph of the whole loop, how many are at least."""
        if self._by_graph:
            try:
                self._launch(0, self._first, self._again)
            except MemoryError:
                raise
            except Exception as error:  # whatever packages and drivers of others raise
                if self._was_launched:
                    raise
                self._give_up(error)
            else:
                self._was_launched = True
                return self._first
        count = self._again if begun else self._first
        self._launch(min(begun, self._first), count)
        return count

    def _launch(self, start: int, count: int, again: int = 0) -> None:
        if start not in self._graphs:
            self._graphs[start] = self._run.capture_loop(
                self._step, start, count, self._mask, again=again
            )
        self._run.launch_graph(self._graphs[start], may_fail=False)

    def _give_up(self, error: Exception) -> None:
        """Have the host look at the loop from now on, with a warning that says why."""
        self._run.device.give_up_loops(error)
        self._run.program.forget_segments()
        self._graphs.clear()
        self._by_graph = False
        self._divide()
