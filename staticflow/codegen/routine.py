"""A routine, the code of a compiled program: kernels, and the order and places in which they run.
Data only, for either back end.

A *place* is where an array lies: a slot of the table that the caller fills (inputs, variables,
constants, outputs), a buffer of the arena, or, inside a loop, a row of an array or one of the two
buffers that a carry alternates between. Steps run in order; buffers and sizes are named, offsets
are the memory plan's matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from staticflow.codegen.kernel import Kernel
from staticflow.graph.dims import Size, Sym
from staticflow.graph.dtypes import DType
from staticflow.graph.locs import Locs
from staticflow.graph.types import Shape

__all__ = [
    "Arena", "ArenaBuffer", "Carry", "Copy", "Failure", "Launch", "Place", "Repeat", "Routine",
    "Row", "Step", "Table", "walk_steps",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """An array of the caller's."""

    slot: int


@dataclass(frozen=True, slots=True)
class Arena:
    """A buffer of the program's own memory."""

    buffer: int


@dataclass(frozen=True, slots=True)
class Row:
    """The row of an array that a loop has reached, ``bytes`` each."""

    array: Place
    bytes: Size
    loop: int


@dataclass(frozen=True, slots=True)
class Carry:
    """A carry of a loop: the value that an iteration begins with, or the one that it makes. After
    the loop the former is the last value."""

    loop: int
    index: int
    next: bool = False


Place = Table | Arena | Row | Carry


@dataclass(frozen=True, slots=True)
class Launch:
    """Run a kernel on arrays and sizes. ``site`` says who fails if it fails."""

    kernel: str
    places: tuple[Place, ...]
    sizes: tuple[Size, ...]
    site: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy ``bytes`` from one array to another."""

    target: Place
    source: Place
    bytes: Size


@dataclass(frozen=True, slots=True)
class Repeat:
    """Run ``body`` ``length`` times. Each carry starts at its first place and alternates between
    the other two."""

    loop: int
    length: Size
    reverse: bool
    carries: tuple[tuple[Place, Place, Place], ...]
    body: tuple[Step, ...]


Step = Launch | Copy | Repeat


@dataclass(frozen=True, slots=True)
class ArenaBuffer:
    """An arena buffer: its type, and the lines that made it."""

    dtype: DType
    shape: Shape
    bytes: Size
    label: str
    locs: Locs


@dataclass(frozen=True, slots=True)
class Failure:
    """Who failed, for the message of an error: the op, its operands' types and its lines."""

    what: str
    locs: Locs


@dataclass(frozen=True, slots=True)
class Routine:
    """The whole. ``sizes`` are given by the caller in this order; ``slots`` counts the table."""

    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    buffers: tuple[ArenaBuffer, ...]
    sizes: tuple[Sym, ...]
    slots: int
    failures: tuple[Failure, ...]

    def __str__(self) -> str:
        return "\n".join(_lines(self.steps, ""))


def _lines(steps: tuple[Step, ...], indent: str) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Launch):
            sizes = "".join(f", {s}" for s in step.sizes)
            yield f"{indent}{step.kernel}({', '.join(map(_text, step.places))}{sizes})"
        elif isinstance(step, Copy):
            ends = f"to {_text(step.target)} from {_text(step.source)}"
            yield f"{indent}copy {step.bytes} bytes {ends}"
        else:
            back = " backwards" if step.reverse else ""
            yield f"{indent}repeat {step.length} times{back}"
            for i, (start, a, b) in enumerate(step.carries):
                yield f"{indent}  carry {i} from {_text(start)} in {_text(a)} and {_text(b)}"
            yield from _lines(step.body, indent + "  ")


def _text(place: Place) -> str:
    if isinstance(place, Table):
        return f"slot {place.slot}"
    if isinstance(place, Arena):
        return f"buffer {place.buffer}"
    if isinstance(place, Row):
        return f"row of {_text(place.array)}"
    return f"{'next' if place.next else 'this'} carry {place.index}"


def walk_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Every step, those of loops after the loop itself."""
    for step in steps:
        yield step
        if isinstance(step, Repeat):
            yield from walk_steps(step.body)
