"""The steps of a routine in *segments*, each of which a device does as one launch, and what the
host does between them.

A step can be captured where all that it asks for is the same at each call of the same sizes: no
value is read, no memory is made, and every size follows from those of the call. A loop is captured
with all its iterations where their number is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from staticflow.codegen.program.routine import (
    Ahead,
    Arena,
    Ask,
    Carry,
    Choose,
    Copy,
    Ensure,
    Give,
    Launch,
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
    parts_of,
    places_of,
    walk_steps,
)
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import as_symbol, evaluate_dim, symbols_of
from staticflow.graph.dims import Size, Sym
from staticflow.graph.locs import format_locs
from staticflow.runtime.device.masked import (
    MOST_CAPTURED,
    can_be_masked,
    count_launches,
    iterations_at_once,
    launches_of_iteration,
)
from staticflow.runtime.device.run import Vote

if TYPE_CHECKING:
    from staticflow.runtime.device.executable import DeviceExecutable

__all__ = ["Segment", "Segments", "describe_segments", "split_steps"]

_MOST_ON_BOTH_SIDES = 128
"""Launches in a captured branch, of which those of one side do nothing: a guess, not measured on a
GPU."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Some steps of a routine, in order, that are one launch; or, where there is a ``why``, one
    that the host goes through. A kernel in it ``may_fail``; where it ``is_checked`` the host looks
    behind it whether one has. One that ``is_masked`` is a `MaskedLoop`."""

    steps: tuple[Step | Vote, ...]
    may_fail: bool
    is_checked: bool
    why: str | None = None
    is_masked: bool = False


Segments = tuple[Segment, ...]


def split_steps(program: DeviceExecutable, values: Mapping[Sym, int]) -> Segments:
    """The steps of a program, in order, where the unknown sizes have these ``values``."""
    work = _Splitter(program, values)
    for step in program.program.steps:
        work.add(step)
    work.close()
    return tuple(work.segments)


def describe_segments(segments: Segments) -> Iterator[str]:
    """What the segments of a call are, in words: how many launches, then what the host does."""
    count = sum(s.why is None for s in segments)
    yield f"{count} launch{'es' if count != 1 else ''} a call"
    checks = sum(s.is_checked for s in segments)
    if checks:
        yield f"{checks} wait{'s' if checks > 1 else ''} for a check before what depends on it"
    told = []
    for segment in (s for s in segments if s.why is not None):
        locs = getattr(segment.steps[0], "locs", ())
        told.append(f"the host: {segment.why}" + (f", at {format_locs(locs)}" if locs else ""))
    yield from dict.fromkeys(told)


class _Splitter:
    """Adds steps to segments, in order."""

    def __init__(self, program: DeviceExecutable, values: Mapping[Sym, int]) -> None:
        self.program, self.values = program, values
        self.segments: list[Segment] = []
        self._steps: list[Step | Vote] = []
        self._known = set(values)
        self._loops: set[int] = set()  # whose places are the same at each call
        self._may_fail = False  # a kernel of this segment
        self._doubt = self._indices = False  # what a kernel before, or its indices, may be wrong
        self._unseen = False  # whether it may have failed since the last vote
        self._committed = False
        self._made = {s.slot for s in walk_steps(program.program.steps) if isinstance(s, Give)}

    def add(self, step: Step) -> None:
        """Add a step to the segment, or end that and leave the step to the host."""
        sites = [s for s in walk_steps((step,)) if isinstance(s, Launch) and s.site]
        if sites and self._indices:  # which it would take for right, and cannot be guarded
            self.close(is_checked=True)
        if not self._committed and self.program.overwrites(step):
            self._committed = True
            self._see()
        why = self._refuse(step)
        if why is not None:
            self.close()
            told = self._mask(step)
            masked = told is not None
            self.segments.append(Segment((step,), bool(sites), False, told or why, masked))
        else:
            self._steps.append(step)
        if sites:
            self._may_fail = self._may_fail or why is None
            self._doubt = self._unseen = True
            if why is None and any(map(self.program.makes_indices, sites)):
                self._see()
                self._indices = self._doubt

    def close(self, *, is_checked: bool = False) -> None:
        """End the segment."""
        if self._steps:
            self.segments.append(Segment(tuple(self._steps), self._may_fail, is_checked))
        elif is_checked:
            self.segments[-1] = replace(self.segments[-1], is_checked=True)
        self._steps, self._may_fail = [], False
        if is_checked:
            self._doubt = self._unseen = self._indices = False

    def _see(self) -> None:
        """Have guarded kernels know what has failed so far; or else the host."""
        if self._unseen and self.program.vote is not None:
            self._steps.append(Vote())
            self._unseen = False
        elif self._unseen:
            self.close(is_checked=True)

    # -- what can be captured --------------------------------------------------------------------

    def _refuse(self, step: Step) -> str | None:
        """Why a step cannot be captured; None where it can."""
        found = _REFUSALS[type(step)](self, step)
        if found is None and not all(map(self._is_fixed, places_of(step))):
            return "works on memory that grows, or that a loop of the host has reached"
        return found

    def _launch(self, step: Launch) -> str | None:
        return self._sizes(*step.sizes)

    def _copy(self, step: Copy) -> str | None:
        return self._sizes(step.bytes)

    def _multiply(self, step: Multiply) -> str | None:
        own = (s for m in step.matrices for s in (m.start, *m.shape, *m.strides))
        return self._sizes(*own, *(step.epilogue.otherwise.sizes if step.epilogue else ()))

    def _require(self, step: Require) -> str | None:
        return self._sizes(step.a, step.b)

    def _repeat(self, step: Repeat) -> str | None:
        if step.flag is not None or step.length is None:
            return "a loop that ends by a value, which the host reads in each iteration"
        counter = as_symbol(iteration_count(step.loop))
        assert counter is not None
        if not symbols_of(step.length) <= set(self.values):
            return "a loop whose number of iterations only the run can tell"
        count = self._count_launches(step)
        if count > MOST_CAPTURED:
            return f"a loop of {count} launches; {MOST_CAPTURED} at most are captured"
        known, loops = set(self._known), set(self._loops)
        self._known.add(counter)
        self._loops.add(step.loop)
        for inner in step.body:
            why = self._refuse(inner)
            if why is None and self._makes_doubtful_indices(inner):
                why = "finds indices that may be wrong, which the host looks at"
            if why is not None:
                self._known, self._loops = known, loops
                return (
                    f"a loop whose iterations have {why}"
                    if why.startswith("a ")
                    else (f"a loop, in which a step {why}")
                )
        return None

    def _choose(self, step: Choose) -> str | None:
        if not can_be_masked(step) or self._count_launches(step) > _MOST_ON_BOTH_SIDES:
            return "a branch by a value, which the host reads"
        for inner in (*step.then, *step.orelse):
            why = self._refuse(inner)
            if why is not None:
                return f"a branch by a value, in which a step {why}"
        return None

    def _mask(self, step: Step) -> str | None:
        """How a loop that ends by a value is gone through, if it can be masked."""
        if not isinstance(step, Repeat) or not can_be_masked(step):
            return None
        length = None
        if step.length is not None:
            if not symbols_of(step.length) <= set(self.values):
                return None
            length = evaluate_dim(step.length, self.values)
        by_graph = length is None and self.program.device.loops_in_graphs
        launches = launches_of_iteration(step, self.program, self.values)
        first, again = iterations_at_once(step, length, by_graph, launches)
        if first * launches > MOST_CAPTURED:
            return None
        known, loops = set(self._known), set(self._loops)
        counter = as_symbol(iteration_count(step.loop))
        if counter is not None and length is not None:
            self._known.add(counter)
        self._loops.add(step.loop)
        can = all(map(self._is_fixed, places_of(step)))
        can = can and not any(self._refuse(inner) for inner in step.body)
        self._known, self._loops = known, loops
        if not can:
            return None
        if length is not None:
            return f"one launch of a loop that ends by a value, after {length} iterations at most"
        if by_graph:
            return "one launch of a loop that ends by a value, which the GPU goes through by itself"
        return f"a loop that ends by a value, of {again} iterations or more a launch"

    def _makes_doubtful_indices(self, step: Step) -> bool:
        return isinstance(step, Launch) and bool(step.site) and self.program.makes_indices(step)

    def _count_launches(self, step: Step) -> int:
        return count_launches(step, self.program, self.values)

    def _sizes(self, *sizes: Size) -> str | None:
        if all(symbols_of(s) <= self._known for s in sizes):
            return None
        return "has sizes that only the run can tell"

    # -- places ----------------------------------------------------------------------------------

    def _is_fixed(self, place: Place) -> bool:
        """Whether an array lies at the same address at each call of the same sizes."""
        if isinstance(place, Table):
            return place.slot not in self._made
        if isinstance(place, Arena):
            return not self.program.grows[place.buffer]
        if isinstance(place, Row | Turn | Carry | Ahead) and place.loop not in self._loops:
            return False
        size = place.start if isinstance(place, Part) else 0
        size = place.bytes if isinstance(place, Row) else size
        return symbols_of(size) <= self._known and all(map(self._is_fixed, parts_of(place)))


def _because(why: str) -> Callable[[_Splitter, Any], str]:
    return lambda splitter, step: why


_REFUSALS: dict[type, Callable[[_Splitter, Any], str | None]] = {
    Ask: _because("exchanges messages with other processes"),
    Launch: _Splitter._launch,
    Copy: _Splitter._copy,
    Multiply: _Splitter._multiply,
    Require: _Splitter._require,
    Repeat: _Splitter._repeat,
    Choose: _Splitter._choose,
    Ensure: _because("makes memory that grows"),
    Measure: _because("reads a size"),
    Give: _because("gives memory that grew to the caller"),
}
