"""Where a loop keeps what it carries and what it stacks, so that no iteration copies either.

What an iteration makes is written once, where all who want it read it:

- A carry that is stacked as iterations begin is the stack, which has a row more: an iteration reads
  one row and writes the next, and the start is copied to the first row before the loop. From its
  second row on, the same stack has the carry as iterations end. (Where that stack is wanted in a
  place of just as many rows, the last iteration writes elsewhere.)
- A carry that is stacked as iterations end only is read from the row of the iteration before.
- A large carry whose new value may be written over the old one, as that of a sum may, is one
  buffer, to which the start is copied before the loop, unless it was made there. So is one of any
  size of which an iteration puts some elements, as of a cache, and leaves the others as they are.
- Any other carry lies in buffers that it uses by turns.
- A carry that takes over another (``a, b = f(a, b), a``) is that other one, an iteration earlier.
  It needs one row more, or one buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from staticflow.codegen.program.buffers import nbytes
from staticflow.codegen.program.routine import (
    Ahead,
    Arena,
    Carry,
    Copy,
    Ensure,
    Part,
    Place,
    Row,
    Step,
    Turn,
    iteration_count,
)
from staticflow.codegen.program.update_order import changes_elements, root_of
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size, dim_max, dim_min
from staticflow.graph.node import Node, maker_of
from staticflow.graph.types import TensorType
from staticflow.ops.loops.loop import Loop, loop_ops

__all__ = ["Layout", "PlaceFor", "lay_out", "may_be_over"]

PlaceFor = Callable[[TensorType, Place | None, str, bool], Place]
"""Where an array of a type lies: where it is wanted, if anywhere, or in a new buffer with a label.
The last says whether the loop itself makes room for it."""


@dataclass(slots=True)
class Layout:
    """Where the carries lie that an iteration begins with, where it writes what it makes
    (``ends``), and where the results are after the loop. ``before`` runs before it, ``room`` as
    each iteration begins.
    """

    carries: dict[int, Place] = field(default_factory=dict)
    ends: list[tuple[Node, Place]] = field(default_factory=list)
    results: dict[int, Place] = field(default_factory=dict)
    before: list[Step] = field(default_factory=list)
    room: list[Step] = field(default_factory=list)


def lay_out(
    loop: Loop,
    number: int,
    starts: Sequence[Place],
    given: Mapping[Node, Place],
    wanted: Mapping[int, Place | None],
    place_for: PlaceFor,
    over: Mapping[int, Place],
) -> Layout:
    """Lay out the loop that has this ``number`` in its routine. ``given`` has the places of values
    in its body that no iteration makes and that stay as they are. ``wanted`` has the results that
    anybody reads, each with the place where the loop should write it, if there is one. ``over`` has
    the carries that are written over, each with its one place."""
    work = _Builder(loop, number, starts, wanted, place_for, dict(given), over)
    chains = _chains(loop)
    begun = loop.body.params[: loop.carries]
    stacked = [c for c in chains if any(begun[i] in work.stacked for i in c)]
    for chain in stacked:
        place = work.place_of_starts(chain)
        if place is None:
            work.in_a_stack(chain)
        else:
            work.in_a_wanted_stack(chain[0], place)
    for chain in chains:
        if chain not in stacked:
            work.elsewhere(chain)
    work.find_results()
    return work.layout


def may_be_over(loop: Loop) -> list[int]:
    """The carries that nothing but the body needs, and of which no other result is made, that are
    large, or of which an iteration changes some elements."""
    params = loop.body.params[: loop.carries]
    roots = [root_of(o) for o in loop.body.outputs]
    return [
        i for i, p in enumerate(params)
        if p not in roots and roots.count(roots[i]) == 1
        and (_is_large(nbytes(p.tensor_type)) or _changes_elements(roots[i], p))
    ]  # fmt: skip


def _changes_elements(value: Node, old: Node) -> bool:
    """`changes_elements`, also by a loop that carries it."""
    maker = maker_of(value)
    if maker.op not in loop_ops():
        return changes_elements(value, old)
    inner, i = Loop.of(maker), value.attrs["index"]
    return i < inner.carries and maker.args[i] is old and i in may_be_over(inner)


def _is_large(bytes_: Size) -> bool:
    return isinstance(bytes_, int) and bytes_ >= _LARGE


_LARGE = 1 << 16
"""Bytes from which on a carry is worth the copy of its start, to be in memory once."""


def _chains(loop: Loop) -> list[list[int]]:
    """The carries, each in a chain behind the one that it takes over. Of several that take over the
    same, or each other, a chain has one. The longest come first."""
    params = loop.body.params[: loop.carries]
    values = [root_of(o) for o in loop.body.outputs[: loop.carries]]
    behind: dict[Node, int] = {}
    for i, value in enumerate(values):
        behind.setdefault(value, i)
    chains = []
    for i, value in enumerate(values):
        if value not in params:
            chains.append([i])
            while params[chains[-1][-1]] in behind:
                chains[-1].append(behind[params[chains[-1][-1]]])
    placed = {i for chain in chains for i in chain}
    chains += [[i] for i in range(loop.carries) if i not in placed]
    return sorted(chains, key=len, reverse=True)


@dataclass(slots=True)
class _Builder:
    """Builds a `Layout`."""

    loop: Loop
    number: int
    starts: Sequence[Place]
    wanted: Mapping[int, Place | None]
    place_for: PlaceFor
    homes: dict[Node, Place]  # where an iteration has values, at its end
    over: Mapping[int, Place]
    layout: Layout = field(default_factory=Layout)
    stacked: dict[Node, list[int]] = field(default_factory=dict)  # results, by what is stacked
    stacks: dict[Node, Place] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for i, o in enumerate(self.loop.body.outputs):
            if i >= self.loop.carries and i in self.wanted and nbytes(o.tensor_type) != 0:
                self.stacked.setdefault(root_of(o), []).append(i)

    def row(self, stack: Place, size: Size) -> Row:
        return Row(stack, size, self.number)

    def in_a_stack(self, chain: Sequence[int]) -> None:
        """A chain of carries of which one is stacked as iterations begin: one stack for all, which
        has their starts before what the iterations make (behind it, if the loop runs backwards)."""
        loop, count = self.loop, len(chain)
        value, t = loop.body.outputs[chain[0]], loop.body.params[chain[0]].tensor_type
        size = nbytes(t)
        whole = TensorType(t.dtype, (loop.iterations + count, *t.shape))
        stack = self.place_for(whole, None, "stacked carry of ", bool(loop.binds))
        self.make_room(stack, size, count)
        # forward: the starts, the last of the chain first, then what iterations 0, 1, ... make
        for back, i in enumerate(chain):
            at = 1 + back if loop.reverse else count - 1 - back
            first, last = (
                (loop.iterations - 1 + at, at - 1) if loop.reverse else (at, loop.iterations + at)
            )
            begun, param = _from(stack, at * size), loop.body.params[i]
            self.layout.before.append(Copy(_from(stack, first * size), self.starts[i], size))
            self.layout.carries[i] = self.homes[param] = self.row(begun, size)
            self.layout.results[i] = _from(stack, last * size)
            self.stacks[param] = begun
        made = _from(stack, 0 if loop.reverse else count * size)
        self.stacks.setdefault(root_of(value), made)
        self.homes.setdefault(root_of(value), self.row(made, size))
        self.layout.ends.append((value, self.row(made, size)))

    def place_of_starts(self, chain: Sequence[int]) -> Place | None:
        """Where the stack of a carry as iterations begin is wanted, if it is wanted alone; that has
        no row for what the last iteration makes."""
        (first, *others), loop = chain, self.loop
        if others or loop.binds or root_of(loop.body.outputs[first]) in self.stacked:
            return None
        places = (self.wanted[i] for i in self.stacked[loop.body.params[first]])
        return next((p for p in places if p is not None), None)

    def in_a_wanted_stack(self, i: int, place: Place) -> None:
        """A carry that is stacked as iterations begin, in the place where the stack is wanted."""
        loop, param, value = self.loop, self.loop.body.params[i], self.loop.body.outputs[i]
        t, size = param.tensor_type, nbytes(param.tensor_type)
        whole = TensorType(t.dtype, (loop.iterations, *t.shape))
        stack = self.place_for(whole, place, "", False)
        last = self.place_for(t, None, "last carry of ", False)
        row = self.row(stack, size)
        first = dim_max(loop.iterations - 1, 0) * size if loop.reverse else 0
        begins = Copy(_from(stack, first), self.starts[i], dim_min(loop.iterations, 1) * size)
        self.layout.before.append(begins)
        self.stacks[param] = stack
        self.layout.carries[i] = self.homes[param] = row
        made = Ahead(self.number, row, last)
        self.homes.setdefault(root_of(value), made)
        self.layout.ends.append((value, made))
        self.layout.results[i] = Carry(self.number, (self.starts[i],), last)

    def elsewhere(self, chain: Sequence[int]) -> None:
        """A chain of carries of which none is stacked as iterations begin."""
        value = root_of(self.loop.body.outputs[chain[0]])
        if chain[0] in self.over:
            self.written_over(chain[0], value)
            return
        if value not in self.homes:
            home = self.stack(value) if value in self.stacked else self.by_turns(chain)
            self.homes[value] = home
            self.layout.ends.append((value, home))
        starts: tuple[Place, ...] = ()
        for i in chain:
            starts = (self.starts[i], *starts)
            self.layout.carries[i] = Carry(self.number, starts, self.homes[value])
            self.layout.results.setdefault(i, self.layout.carries[i])

    def written_over(self, i: int, value: Node) -> None:
        """A carry in one place, where each iteration writes the new value over the old one."""
        home = self.over[i]
        if home != self.starts[i]:
            size = nbytes(self.loop.body.params[i].tensor_type)
            self.layout.before.append(Copy(home, self.starts[i], size))
        self.layout.carries[i] = self.homes[value] = self.layout.results[i] = home
        self.layout.ends.append((value, home))

    def by_turns(self, chain: Sequence[int]) -> Turn:
        """Buffers for a chain of carries. If it is known which of them the last iteration writes,
        that is the place where the result is wanted."""
        first, count, iterations = chain[0], len(chain) + 1, self.loop.iterations
        there: dict[int, Place] = {}
        if (
            isinstance(iterations, int)
            and iterations > 0
            and (place := self.wanted.get(first)) is not None
        ):
            there[(iterations - 1) % count] = self.layout.results[first] = place
        t = self.loop.body.params[first].tensor_type
        places = (self.place_for(t, there.get(i), "carry of ", False) for i in range(count))
        return Turn(tuple(places), self.number)

    def stack(self, value: Node) -> Row:
        """A stack of what iterations make, where it is wanted if it is; gives the row of this
        iteration."""
        t = self.loop.body.outputs[self.stacked[value][0]].tensor_type  # the root's may be late
        size, whole = nbytes(t), TensorType(t.dtype, (self.loop.iterations, *t.shape))
        places = (self.wanted[i] for i in self.stacked[value])
        place = next((p for p in places if p is not None), None)
        self.stacks[value] = self.place_for(whole, place, "stack of ", bool(self.loop.binds))
        self.make_room(self.stacks[value], size, 0)
        return self.row(self.stacks[value], size)

    def make_room(self, stack: Place, size: Size, more: int) -> None:
        """Steps that make room as the loop goes on, if only that tells how much is needed."""
        if self.loop.binds:
            assert isinstance(stack, Arena)
            self.layout.before += [Ensure(stack.buffer, more * size)] if more else []
            rows = iteration_count(self.number) + 1 + more
            self.layout.room.append(Ensure(stack.buffer, rows * size))

    def find_results(self) -> None:
        """Stack what is no carry, and say where all results are."""
        for value in self.stacked:
            if value not in self.stacks:
                self.layout.ends.append((value, self.stack(value)))
            self.layout.results |= dict.fromkeys(self.stacked[value], self.stacks[value])
        for i, place in self.wanted.items():
            if i not in self.layout.results:  # it has no bytes
                t = self.loop.body.outputs[i].tensor_type
                whole = TensorType(t.dtype, (self.loop.iterations, *t.shape))
                self.layout.results[i] = self.place_for(whole, place, "stack of ", True)


def _from(array: Place, start: Size) -> Place:
    return Part(array, start) if start != 0 else array
