"""The memory plan: where in the arena each buffer lies.

Each buffer is needed from one step to another, and buffers that are never needed at the same time
may lie in the same place: `staticflow.codegen.program.layout` finds where. Offsets are expressions
of the unknown sizes, computed as the program starts.

Buffers that grow are no part of the arena. Their sizes name what an op binds, as the iterations of
a loop, and they are part of the peak, unless the caller is given them: what a program returns is
not its own memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from staticflow.codegen.program.layout import ALIGNMENT, Layout, Tenant, lay_out_arena
from staticflow.codegen.program.packing import Item, arena_bound
from staticflow.codegen.program.routine import (
    Ahead,
    Arena,
    Carry,
    Give,
    Launch,
    Measure,
    Place,
    Repeat,
    Routine,
    Row,
    Step,
    Turn,
    blocks_of,
    parts_of,
    places_of,
    walk_steps,
)
from staticflow.data_classes import dataclass
from staticflow.errors import ShapeError
from staticflow.graph.dim_queries import evaluate_dim, substitute_dim, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, total
from staticflow.graph.locs import format_locs, here

__all__ = ["ALIGNMENT", "Plan", "name_bound_sizes", "plan_memory"]


@dataclass(frozen=True, slots=True)
class Plan:
    """When the buffers of a routine are ``live`` (the first and last step that touch each), their
    ``layout`` in the arena, and the ``peak`` in bytes, which counts the buffers that grow, too.
    Those have up to a tenth more than they need, or 64 KiB.

    The peak names the sizes that only the run can tell, each by a name of its own; where such a
    size differs from time to time, as the iterations of a loop in a loop, it stands for the
    largest. ``meanings`` are the names in the peak and what they stand for, which the text says,
    too.

    >>> import staticflow as sf
    >>> x = sf.placeholder((None, 4), name="x")
    >>> sf.compile([x], (x @ sf.ones(4, 4)).relu() @ sf.ones(4, 3)).plan.peak
    64*((16*x_0 + 63)//64)
    >>> n, z = sf.placeholder((), "int64", name="n"), sf.placeholder((), name="z")
    >>> last = sf.fori_loop(0, n, lambda i, z: (z + 1).sin(), z)
    >>> sf.compile([n, z], sf.grad(last, z)).plan.peak_bytes(iterations=100_000) // 100_000
    4
    """

    routine: Routine
    live: tuple[tuple[int, int], ...]
    layout: Layout
    peak: Size
    meanings: tuple[tuple[str, str], ...] = ()

    @property
    def offsets(self) -> tuple[Size, ...]:
        """Where each buffer lies in the arena, in bytes."""
        return self.layout.offsets

    @property
    def arena(self) -> Size:
        """The size of the arena, in bytes."""
        return self.layout.arena

    @property
    def unknown(self) -> frozenset[Sym]:
        """The unknown sizes on which the peak depends."""
        return self.layout.expand(symbols_of(self.peak))

    @property
    def peak_in_words(self) -> str:
        """The peak as an expression, and what the marks in it are."""
        marks = [f"{mark} is {height}" for mark, height in self._marks_of_peak()]
        return f"{self.peak} (where {'; '.join(marks)})" if marks else str(self.peak)

    def _marks_of_peak(self) -> list[tuple[Sym, Size]]:
        """The marks that the peak and the arena name, and those that these name."""
        return self.layout.marks_of(symbols_of(self.peak) | symbols_of(self.arena))

    def evaluate(self, size: Size, values: Mapping[Sym, int]) -> int:
        """An offset, the arena or the peak where the unknown sizes have these ``values``."""
        return self.layout.evaluate(size, values)

    def peak_bytes(self, **sizes: int) -> int:
        """The peak in bytes where the unknown sizes have these values, by name."""
        return self.evaluate(self.peak, self._by_symbol(sizes, "peak_bytes", self.unknown))

    def arena_bytes(self, **sizes: int) -> int:
        """The bytes of the arena where the unknown sizes have these values, by name."""
        arena = self.layout.expand(symbols_of(self.arena))
        return self.evaluate(self.arena, self._by_symbol(sizes, "arena_bytes", arena))

    def bound_bytes(self, **sizes: int) -> int:
        """The most bytes of buffers of the arena that are live at one time where the unknown sizes
        have these values, by name: no layout of the arena is smaller.

        >>> import staticflow as sf
        >>> x = sf.placeholder((None, 64), name="x")
        >>> plan = sf.compile([x], (x @ sf.ones(64, 64)).cumsum(0).sum()).plan
        >>> plan.bound_bytes(x_0=100), plan.arena_bytes(x_0=100)
        (51200, 51200)
        """
        inside = [(b, r) for b, r in zip(self.routine.buffers, self.live, strict=True)
                  if not b.grows]  # fmt: skip
        named = frozenset[Sym]().union(*(symbols_of(b.bytes) for b, _ in inside))
        values = self._by_symbol(sizes, "bound_bytes", named)
        return arena_bound(Item(*r, evaluate_dim(b.bytes, values)) for b, r in inside)

    def _by_symbol(
        self, sizes: Mapping[str, int], what: str, wanted: frozenset[Sym]
    ) -> dict[Sym, int]:
        """The values of the ``wanted`` unknown sizes, given by name to the method ``what``."""
        names = {s.name: s for s in wanted}
        missing = sorted(names.keys() - sizes)
        if missing:
            form = f"{what}({', '.join(f'{n}=...' for n in sorted(names))})"
            raise ShapeError(
                f"{what}: the peak of {self.peak} bytes depends on {', '.join(missing)} too"
                f"{self._explain_names(missing)}; call it as {form}, "
                f"at {format_locs(here())}"
            )
        return {s: sizes[n] for n, s in names.items()}

    def _explain_names(self, names: Sequence[str]) -> str:
        said = [f"{name} is {what}" for name, what in self.meanings if name in names]
        return f" ({'; '.join(said)})" if said else ""

    def __str__(self) -> str:
        lines = [
            f"peak of {self.peak} bytes, arena of {self.arena} bytes, {len(self.offsets)} buffers"
        ]
        lines += [f"  where {name} is {what}" for name, what in self.meanings]
        first_marks = self._marks_of_peak()
        lines += [f"  where {mark} is {height}" for mark, height in first_marks]
        names = name_bound_sizes(self.routine)
        for i, buffer in enumerate(self.routine.buffers):
            shape = ", ".join(str(substitute_dim(d, names)) for d in buffer.shape)
            first, last = self.live[i]
            where = "grows" if buffer.grows else f"at {self.offsets[i]}"
            lines.append(
                f"  {buffer.label}: {buffer.dtype}[{shape}] {where}, live in steps "
                f"{first}..{last}, {format_locs(buffer.locs)}"
            )
        others = [pair for pair in self.layout.marks if pair not in first_marks]
        lines += [f"  where {mark} is {height}" for mark, height in others]
        return "\n".join(lines)


def plan_memory(program: Routine, given: Mapping[Sym, str] | None = None) -> Plan:
    """Lay out the buffers of a program. ``given`` says of sizes of the caller's where they are."""
    live = _live_ranges(program)
    layout = lay_out_arena(
        [
            Tenant(first, last, 0 if b.grows else b.bytes)
            for b, (first, last) in zip(program.buffers, live, strict=True)
        ]
    )
    peak = layout.arena + _growing_bytes(program)
    meanings = tuple(_meanings(program, layout, peak, given or {}))
    return Plan(program, tuple(live), layout, peak, meanings)


def _meanings(
    program: Routine, layout: Layout, peak: Size, given: Mapping[Sym, str]
) -> Iterator[tuple[str, str]]:
    """The unknown sizes on which the peak depends, in their order, with what each stands for."""
    names = name_bound_sizes(program)
    found = {str(s): where for s, where in given.items()}
    for symbol, step, inside in _binding_steps(program.steps, inside=False):
        most = "the largest" if inside else "the"
        what = "number of iterations of the loop" if isinstance(step, Repeat) else "size found"
        found[str(names[symbol])] = f"{most} {what} at {format_locs(step.locs)}"
    for symbol in sorted(layout.expand(symbols_of(peak)), key=Sym.sort_key):
        yield symbol.name, found.get(symbol.name, "a size that only the run can tell")


def _binding_steps(
    steps: Sequence[Step], inside: bool
) -> Iterator[tuple[Sym, Repeat | Measure, bool]]:
    """The sizes that steps bind, by which, and whether that is in a loop, and so more than once."""
    for step in steps:
        if isinstance(step, Repeat | Measure) and step.binds is not None:
            yield step.binds, step, inside
        for block in blocks_of(step):
            yield from _binding_steps(block, inside or isinstance(step, Repeat))


def _growing_bytes(program: Routine) -> Size:
    """The bytes of the buffers that grow, but for those that the caller is given."""
    given = {s.buffer for s in walk_steps(program.steps) if isinstance(s, Give)}
    own = (program.buffers[i].bytes for i in program.growing if i not in given)
    return substitute_dim(total(own), name_bound_sizes(program))


def name_bound_sizes(program: Routine) -> dict[Sym, Size]:
    """Sizes of names of their own, as the peak names them, for those that steps and kernels
    bind."""
    taken = {s.name for s in program.sizes}
    found: dict[Sym, Size] = {}
    steps = walk_steps(program.steps)
    by_steps = (s.binds for s in steps if isinstance(s, Repeat | Measure | Launch))
    sizes = (b.bytes for b in program.buffers)
    by_kernels = (s for b in sizes for s in sorted(symbols_of(b), key=Sym.sort_key))
    for bound in itertools.chain(by_steps, by_kernels):
        if bound is None or bound in found or bound in program.sizes:
            continue
        numbered = (f"{bound.name}_{i}" for i in itertools.count(2))
        name = next(n for n in itertools.chain([bound.name], numbered) if n not in taken)
        taken.add(name)
        found[bound] = Dim.of(Sym(name))
    return found


def _live_ranges(program: Routine) -> list[tuple[int, int]]:
    """The first and last step that touch each buffer, steps counted in the order they are written.

    A buffer that was made before a loop and is used in it is needed until the loop ends; so is what
    lasts from iteration to iteration. What is made and used within one iteration is needed only
    there.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    clock = 0

    def touch(place: Place, now: int) -> None:
        for b in _buffers(place):
            first.setdefault(b, now)
            last[b] = max(last.get(b, now), now)

    def visit(steps: Sequence[Step]) -> None:
        nonlocal clock
        for step in steps:
            clock += 1
            for place in places_of(step):
                touch(place, clock)
            if not isinstance(step, Repeat):
                for block in blocks_of(step):
                    visit(block)
            else:
                begin = clock
                moving = _moving(step)
                for place in moving:
                    touch(place, clock)
                visit(step.body)
                clock += 1
                for place in moving:
                    touch(place, clock)
                for b, start in first.items():
                    if start <= begin and last[b] > begin:
                        last[b] = clock

    visit(program.steps)
    count = len(program.buffers)
    return [(first.get(b, 0), last.get(b, 0)) for b in range(count)]


def _moving(loop: Repeat) -> list[Place]:
    """The places that move with a loop: all arrays that they pass are needed while it runs."""
    found = [p for step in walk_steps((loop,)) for p in places_of(step)]
    return [p for p in found if _moves_with(p, loop.loop)]


def _moves_with(place: Place, loop: int) -> bool:
    moves = isinstance(place, Row | Turn | Carry | Ahead) and place.loop == loop
    return moves or any(_moves_with(p, loop) for p in parts_of(place))


def _buffers(place: Place) -> Iterator[int]:
    if isinstance(place, Arena):
        yield place.buffer
    for part in parts_of(place):
        yield from _buffers(part)
