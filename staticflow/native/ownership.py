"""Values of native code with how long they live, and what is known where control flow meets.

A value is *owned* (a reference that has to be consumed exactly once), *lives in* something owned
(it dies with that), is *fleeting* (read from where Python may change it: it is good until Python
runs), or lives for the whole call: parameters, constants, numbers, and what records of the call
hold.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from typing import Any

from staticflow.codegen.llvm.text import BasicBlock, FunctionText, phi
from staticflow.codegen.llvm.text import Type as LLVMType
from staticflow.data_classes import dataclass
from staticflow.native.source import Shown
from staticflow.native.types import NULL, Type, join_types

__all__ = ["Debt", "Edge", "OwnedField", "State", "Target", "Value", "join_values"]

_serials = itertools.count(1)


OwnedField = tuple[Any, str]
"""An owned field of all records of a class, by its name, or all rows of what is owned."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value: its LLVM text and its type.

    ``own`` is the number of the reference that it is itself, if it is owned; ``inside`` are those
    that it lives in; ``run`` is, of a fleeting value, the number of the last call before it that
    may have run Python. ``name`` and ``line`` say where it came from, ``local`` that it is memory
    of the call; ``origin`` are the parameters through which it may have been reached, ``lasting``
    says that it is memory of the code, or was read there. ``read_from`` are the owned fields that
    it was read from, with the number of the last time before it that what they own was taken.
    """

    text: str
    type: Type
    own: int | None = None
    inside: frozenset[int] = frozenset()
    run: int | None = None
    name: str | Shown = ""
    line: int = 0
    local: bool = False
    origin: frozenset[str] = frozenset()
    lasting: bool = False
    read_from: frozenset[tuple[OwnedField, int]] = frozenset()

    @property
    def depends(self) -> frozenset[int]:
        """All references that have to be there for the value to be."""
        return self.inside if self.own is None else self.inside | {self.own}

    def alias(self) -> Value:
        """The value under another name, which does not own it."""
        return replace(self, own=None, inside=self.depends)


@dataclass(frozen=True, slots=True)
class Debt:
    """An owned reference that is not consumed yet: what it is, and where it came from."""

    name: str | Shown
    line: int


@dataclass(frozen=True, slots=True)
class Taking:
    """The last time that a function took what an owned field has: its number and that of the time
    before, the reference that was taken (None if it is gone), how, and in which line."""

    number: int
    before: int
    own: int | None
    how: str | Shown
    line: int


@dataclass(slots=True)
class State:
    """State of a translation at one point of a function: its variables, the references it owns and
    what became of earlier ones, the last call that may have run Python (number, line, name), and
    what was last taken of which owned field."""

    names: dict[str, Value] = field(default_factory=dict)
    owned: dict[int, Debt] = field(default_factory=dict)
    gone: dict[int, tuple[str | Shown, int]] = field(default_factory=dict)
    run: int = 0
    ran: tuple[int, str | Shown] = (0, "")
    takings: dict[OwnedField, Taking] = field(default_factory=dict)

    def fork(self) -> State:
        """Another state that starts as this one."""
        names, owned, gone = dict(self.names), dict(self.owned), dict(self.gone)
        return State(names, owned, gone, self.run, self.ran, dict(self.takings))

    def reading_of(self, owned_field: OwnedField) -> tuple[OwnedField, int]:
        """An owned field as something is read from it."""
        return owned_field, self.takings[owned_field].number if owned_field in self.takings else 0

    def note_taking(
        self, owned_field: OwnedField, own: int | None, how: str | Shown, line: int
    ) -> None:
        """What an owned field had is taken: what was read from it lives as long as ``own``."""
        _, before = self.reading_of(owned_field)
        self.takings[owned_field] = Taking(next(_serials), before, own, how, line)

    def note_run(self, line: int, name: str | Shown) -> None:
        """Python may have run, by the call of ``name``."""
        self.run, self.ran = next(_serials), (line, name)

    def own(self, value: Value, name: str | Shown, line: int) -> Value:
        """The value as an owned reference."""
        number = next(_serials)
        self.owned[number] = Debt(name, line)
        return replace(
            value,
            own=number,
            inside=frozenset(),
            run=None,
            name=name,
            line=line,
            read_from=frozenset(),
        )

    def end(self, number: int, how: str | Shown, line: int) -> None:
        """A reference was consumed."""
        del self.owned[number]
        self.gone[number] = how, line

    def end_of(self, number: int) -> str:
        """What became of a reference."""
        if number not in self.gone:
            return "given up on one of the ways here"
        how, line = self.gone[number]
        return f"{how} in line {line}"

    def fault(self, value: Value) -> str | None:
        """Why a value must not be used here, if it must not."""
        missing = value.depends - self.owned.keys() if value.inside or value.own else None
        if missing:
            number = min(missing)
            lost = value.name if value.own == number else f"what {value.name} lives in"
            return f"{lost} was {self.end_of(number)}: use it before that"
        if value.run is not None and value.run != self.run:
            line, name = self.ran
            return (
                f"{value.name}, read in line {value.line}, may be gone: {name} in line {line} may "
                f"run Python; write hold({value.name}) where it is read, and drop it, or read it "
                "again"
            )
        for owned_field, number in value.read_from:
            taking = self.takings.get(owned_field)
            if taking is None or taking.number == number:
                continue
            if taking.before != number or taking.own not in self.owned:
                return (
                    f"{value.name}, read in line {value.line}, may be gone: {taking.how} in line "
                    f"{taking.line} takes what it was read from; write hold({value.name}) where it "
                    "is read, and drop it, or read it again"
                )
        return None

    def owns(self, value: Value) -> bool:
        """Whether a value is an owned reference that is still there."""
        return value.own is not None and value.own in self.owned


Edge = tuple[BasicBlock, State]
"""A way to a `Target`: the block it comes from, and what is known there."""


@dataclass(slots=True)
class Target:
    """A point of a function that several ways may lead to."""

    block: BasicBlock
    edges: list[Edge] = field(default_factory=list)

    def enter(self, text: FunctionText, refuse: Callable[[str], Exception]) -> State:
        """Go on here; gives what is known, with a phi for what the ways hold differently.
        ``refuse`` makes the error if what is owned on one way is not on another."""
        text.start(self.block)
        if len(self.edges) == 1:
            return self.edges[0][1]
        states = [state for _, state in self.edges]
        last = max(states, key=lambda s: s.run)
        gone = {number: how for s in states for number, how in s.gone.items()}
        joined = State({}, {}, gone, last.run, last.ran, _join_takings(states))
        taken: list[set[int]] = [set() for _ in states]
        for name in states[0].names:
            if all(name in s.names for s in states):
                values = [s.names[name] for s in states]
                value = join_values(self, text, values, joined, name, taken, refuse)
                if value is not None:
                    joined.names[name] = value
        rests = [s.owned.keys() - t for s, t in zip(states, taken, strict=True)]
        every = set.intersection(*map(set, rests))
        for state, rest in zip(states, rests, strict=True):
            for number in sorted(rest - every):
                debt = state.owned[number]
                raise refuse(
                    f"{debt.name}, owned since line {debt.line}, is still owned on one way here "
                    "and not on another: drop it, or hand it on, on every way"
                )
        joined.owned |= {number: states[0].owned[number] for number in every}
        return joined


def _join_takings(states: list[State]) -> dict[OwnedField, Taking]:
    """The last takings, where ways meet. What was read before either is to be there behind both:
    a field of which something was taken on one way alone counts as if that were gone."""
    joined: dict[OwnedField, Taking] = {}
    for owned_field in {owned_field for state in states for owned_field in state.takings}:
        known = [state.takings.get(owned_field) for state in states]
        last = max((taking for taking in known if taking is not None), key=lambda t: t.number)
        joined[owned_field] = (
            last if all(taking is last for taking in known) else replace(last, own=None)
        )
    return joined


def join_values(
    target: Target,
    text: FunctionText,
    values: list[Value],
    joined: State,
    name: str,
    taken: list[set[int]],
    refuse: Callable[[str], Exception],
) -> Value | None:
    """What a value is where the ways to ``target`` meet, on which it is ``values``; None if that
    has no type. ``taken`` are the owned references of each way that go into the joined ones."""
    first = values[0]
    if not first.depends and first.run is None and all(v is first for v in values):
        return first  # nothing can have become of it on one way
    states = [state for _, state in target.edges]
    type_ = _join_all(v.type for v in values)
    if type_ is None:
        return None
    owning = [v.own if s.owns(v) else None for v, s in zip(values, states, strict=True)]
    null = [v.type is NULL for v in values]
    origin = frozenset[str]().union(*(v.origin for v in values))
    read = frozenset[tuple[OwnedField, int]]().union(*(v.read_from for v in values))
    lasting = any(v.lasting for v in values)
    merged = replace(
        _merge(target, text, values, type_, name), origin=origin, read_from=read, lasting=lasting
    )
    fresh = all(s.fault(v) is None for v, s in zip(values, states, strict=True))
    if fresh:
        merged = replace(
            merged, read_from=frozenset(joined.reading_of(owned_field) for owned_field, _ in read)
        )
    if any(number is not None for number in owning):
        if not all(n is not None or z for n, z in zip(owning, null, strict=True)):
            if all(v.own == values[0].own for v in values):
                return replace(merged, own=values[0].own)  # consumed on one way: not to be used
            raise refuse(
                f"{name} is owned on one way here and borrowed on another: hold it on that one"
            )
        for number, numbers in zip(owning, taken, strict=True):
            if number is not None:
                numbers.add(number)
        debt = next(s.owned[n] for s, n in zip(states, owning, strict=True) if n is not None)
        numbers = {n for n in owning if n is not None}
        number = numbers.pop() if len(numbers) == 1 else next(_serials)
        joined.owned[number] = debt
        return replace(merged, own=number, run=None, inside=frozenset(), read_from=frozenset())
    if not fresh:
        faulty = next(v for v, s in zip(values, states, strict=True) if s.fault(v) is not None)
        return replace(
            merged, own=faulty.own, inside=faulty.inside, run=faulty.run, read_from=faulty.read_from
        )
    fleeting = any(v.run is not None for v in values)
    inside = frozenset[int]().union(*(v.inside for v in values))
    return replace(merged, own=None, inside=inside, run=joined.run if fleeting else None)


def _merge(
    target: Target, text: FunctionText, values: list[Value], type_: Type, name: str
) -> Value:
    first = values[0]
    if all(v.text == first.text for v in values):
        return replace(first, type=type_)
    result = text.fresh(name)
    blocks = [block for block, _ in target.edges]
    incoming = [(v.text, block) for v, block in zip(values, blocks, strict=True)]
    target.block.phis.append(phi(result, LLVMType(type_.llvm), incoming))
    line = max(v.line for v in values)
    local = any(v.local for v in values)
    return Value(result, type_, name=name, line=line, local=local)


def _join_all(types: Iterable[Type]) -> Type | None:
    first, *rest = types
    result: Type | None = first
    for other in rest:
        result = None if result is None else join_types(result, other)
    return result
