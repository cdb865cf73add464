"""A routine, the code of a compiled program: kernels, and the order and places in which they run.
Data only, for either back end.

A *place* is where an array lies: a slot of the table that the caller fills (inputs, variables,
constants, outputs), a buffer of the program's own, or a part of one of them. Some places move as a
loop goes on: the row of an array that it has reached, buffers that are used by turns, and what a
carry was given in the iteration before. After the loop they are where it left them. Steps run in
order; buffers and sizes are named, offsets are the memory plan's matter.

Buffers lie in an arena whose size follows from the sizes of the call. A buffer that *grows* has
memory of its own instead: its size names one that is known only as the program runs, such as the
iterations of a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from staticflow.codegen.kernel import Kernel
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import DType
from staticflow.graph.locs import Locs
from staticflow.graph.op import Op
from staticflow.graph.types import Shape, TensorType

__all__ = [
    "Ahead",
    "Arena",
    "ArenaBuffer",
    "Ask",
    "Carry",
    "Choose",
    "Copy",
    "Ensure",
    "Epilogue",
    "Failure",
    "Give",
    "Launch",
    "Matrices",
    "Measure",
    "Multiply",
    "Part",
    "Place",
    "Repeat",
    "Require",
    "Routine",
    "Row",
    "Step",
    "Table",
    "Turn",
    "blocks_of",
    "iteration_count",
    "parts_of",
    "places_of",
    "walk_steps",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Table:
    """An array of the caller's."""

    slot: int


@dataclass(frozen=True, slots=True)
class Arena:
    """A buffer of the program's own memory, in the arena or growing."""

    buffer: int


@dataclass(frozen=True, slots=True)
class Part:
    """What is in an array from its byte ``start`` on."""

    array: Place
    start: Size


@dataclass(frozen=True, slots=True)
class Row:
    """The row of an array that a loop has reached, ``bytes`` each."""

    array: Place
    bytes: Size
    loop: int


@dataclass(frozen=True, slots=True)
class Turn:
    """One of several arrays, by turns from iteration to iteration of a loop."""

    arrays: tuple[Place, ...]
    loop: int


@dataclass(frozen=True, slots=True)
class Carry:
    """What an iteration of a loop begins with: in the first iterations one of the ``starts`` after
    the other, then what has been left in ``made`` as many iterations before. After the loop it is
    what another iteration would begin with."""

    loop: int
    starts: tuple[Place, ...]
    made: Place


@dataclass(frozen=True, slots=True)
class Ahead:
    """Where ``place`` will be in the next iteration of a loop of known length; ``last`` if there
    will be none."""

    loop: int
    place: Place
    last: Place


Place = Table | Arena | Part | Row | Turn | Carry | Ahead


@dataclass(frozen=True, slots=True)
class Launch:
    """Run a kernel on arrays and sizes. ``site`` says who fails if it fails, ``locs`` which lines
    asked for what it computes: a kernel may stand for several clusters. ``binds`` stands for the
    iterations of a kernel that is an endless loop, where only a routine with probes counts them."""

    kernel: str
    places: tuple[Place, ...]
    sizes: tuple[Size, ...]
    site: int
    locs: Locs = ()
    binds: Sym | None = None


@dataclass(frozen=True, slots=True)
class Matrices:
    """Matrices in an array: from which element on, of which shape, and how many elements neighbours
    along each dim are apart."""

    place: Place
    dtype: DType
    start: Size
    shape: Shape
    strides: tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What a library does to products before it writes them: it adds the ``bias``, one row again
    and again, if there is one, and then does the ``activation``, "relu" or "gelu" (by the tangent),
    if that has a name. Where it cannot, the launch ``otherwise`` does, in the same place."""

    bias: Matrices | None
    activation: str
    otherwise: Launch


@dataclass(frozen=True, slots=True)
class Multiply:
    """Have a library of the device write the products of matrices, for GPUs alone; those of
    float32 with ``tf32`` by tensor cores, which round them to 10 bits behind the point."""

    target: Matrices
    left: Matrices
    right: Matrices
    tf32: bool
    locs: Locs = ()
    epilogue: Epilogue | None = None

    @property
    def matrices(self) -> tuple[Matrices, ...]:
        """The target, and what is read."""
        bias = None if self.epilogue is None else self.epilogue.bias
        return (self.target, self.left, self.right, *(() if bias is None else (bias,)))


@dataclass(frozen=True, slots=True)
class Copy:
    """Copy ``bytes`` from one array to another."""

    target: Place
    source: Place
    bytes: Size


@dataclass(frozen=True, slots=True)
class Repeat:
    """Run ``body`` ``length`` times, backwards through rows if ``reverse``.

    A guarded loop ends earlier where the ``flag``, a bool, is false before an iteration (its
    ``length`` may be None: there is no other end), and ``binds`` a size to the iterations it made.
    """

    loop: int
    length: Size | None
    reverse: bool
    body: tuple[Step, ...]
    flag: Place | None = None
    binds: Sym | None = None
    locs: Locs = ()


@dataclass(frozen=True, slots=True)
class Choose:
    """Run one of two lists of steps, by a bool."""

    flag: Place
    then: tuple[Step, ...]
    orelse: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Ensure:
    """Give a growing buffer room for ``bytes``, or fail, at ``site`` if that is told; what it
    holds stays."""

    buffer: int
    bytes: Size
    site: int = 0


@dataclass(frozen=True, slots=True)
class Require:
    """Fail at ``site`` unless two sizes are equal."""

    a: Size
    b: Size
    site: int


@dataclass(frozen=True, slots=True)
class Measure:
    """Bind a size to an int64 in memory; fail at ``site`` unless it is in 0..``most``. Without
    ``most``, a kernel has counted it."""

    binds: Sym
    number: Place
    most: Size | None = None
    site: int = 0
    locs: Locs = ()


@dataclass(frozen=True, slots=True)
class Give:
    """Hand the memory of a growing buffer to the caller, by a slot of the table."""

    slot: int
    buffer: int


@dataclass(frozen=True, slots=True)
class Ask:
    """Have Python run the reference of ``op`` on the ``values``. The ``results`` are numbers of
    what it gives, each with the place to which that goes. ``types`` are those of the values, then
    of the results."""

    op: Op
    attrs: Mapping[str, Any]
    values: tuple[Place, ...]
    results: tuple[tuple[int, Place], ...]
    types: tuple[TensorType, ...]
    locs: Locs = ()

    @property
    def places(self) -> tuple[Place, ...]:
        """The places of the values and of the results."""
        return (*self.values, *(place for _, place in self.results))


Step = Launch | Multiply | Copy | Repeat | Choose | Ensure | Require | Measure | Give | Ask


def iteration_count(loop: int) -> Dim:
    """How many iterations of a loop are done, as its body may name it."""
    return Dim.of(Sym("count", -1 - loop))


@dataclass(frozen=True, slots=True)
class ArenaBuffer:
    """A buffer: its type, and the lines that made it."""

    dtype: DType
    shape: Shape
    bytes: Size
    label: str
    locs: Locs
    grows: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """Who failed, for the message of an error: the op, its operands' types and its lines, and the
    loops that it is in, the outermost first, each by its number with its op and lines."""

    what: str
    locs: Locs
    loops: tuple[tuple[int, str, Locs], ...] = ()


@dataclass(frozen=True, slots=True)
class Routine:
    """The whole. ``sizes`` are given by the caller in this order; ``slots`` counts the table.
    ``told`` are sizes that the caller is told afterwards: the array that holds ``sizes`` has room
    for them behind those. Subnormal numbers are zero where it ``flushes`` them, by the mode of the
    machine of that name."""

    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    buffers: tuple[ArenaBuffer, ...]
    sizes: tuple[Sym, ...]
    slots: int
    failures: tuple[Failure, ...]
    told: tuple[Sym, ...] = ()
    flushes: str | None = None

    @property
    def loops(self) -> int:
        """How many loops there are."""
        return sum(isinstance(s, Repeat) for s in walk_steps(self.steps))

    @property
    def growing(self) -> tuple[int, ...]:
        """The buffers that grow."""
        return tuple(i for i, b in enumerate(self.buffers) if b.grows)

    def __str__(self) -> str:
        return "\n".join(_lines(self.steps, ""))


def _lines(steps: tuple[Step, ...], indent: str) -> Iterator[str]:
    for step in steps:
        yield from _LINES[type(step)](step, indent)


def _launch_lines(step: Launch, indent: str) -> Iterator[str]:
    sizes = "".join(f", {s}" for s in step.sizes)
    yield f"{indent}{step.kernel}({', '.join(map(_text, step.places))}{sizes})"


def _repeat_lines(step: Repeat, indent: str) -> Iterator[str]:
    times = "" if step.length is None else f" {step.length} times"
    ends = "" if step.flag is None else f" while {_text(step.flag)}, which binds {step.binds}"
    yield f"{indent}repeat{times}{' backwards' if step.reverse else ''}{ends}"
    yield from _lines(step.body, indent + "  ")


def _choose_lines(step: Choose, indent: str) -> Iterator[str]:
    yield f"{indent}if {_text(step.flag)}"
    yield from _lines(step.then, indent + "  ")
    yield f"{indent}else"
    yield from _lines(step.orelse, indent + "  ")


_LINES: dict[type, Callable[[Any, str], Iterable[str]]] = {
    Launch: _launch_lines,
    Copy: lambda s, indent: [
        f"{indent}copy {s.bytes} bytes to {_text(s.target)} from {_text(s.source)}"
    ],
    Multiply: lambda s, indent: [
        f"{indent}multiply {_text(s.left.place)} by {_text(s.right.place)}"
        f"{_epilogue_text(s.epilogue)} to {_text(s.target.place)}{' in tf32' if s.tf32 else ''}"
    ],
    Repeat: _repeat_lines,
    Choose: _choose_lines,
    Ensure: lambda s, indent: [f"{indent}ensure {s.bytes} bytes of buffer {s.buffer}"],
    Require: lambda s, indent: [f"{indent}require {s.a} == {s.b}"],
    Measure: lambda s, indent: [
        f"{indent}{s.binds} is {_text(s.number)}{'' if s.most is None else f', up to {s.most}'}"
    ],
    Ask: lambda s, indent: [
        f"{indent}ask for {s.op.name}({', '.join(map(_text, s.values))}) to "
        f"{', '.join(_text(place) for _, place in s.results) or 'nowhere'}"
    ],
    Give: lambda s, indent: [f"{indent}give buffer {s.buffer} to slot {s.slot}"],
}


def _epilogue_text(epilogue: Epilogue | None) -> str:
    if epilogue is None:
        return ""
    bias = "" if epilogue.bias is None else f" plus {_text(epilogue.bias.place)}"
    return bias + (f" under {epilogue.activation}" if epilogue.activation else "")


def _text(place: Place) -> str:
    if isinstance(place, Table):
        return f"slot {place.slot}"
    if isinstance(place, Arena):
        return f"buffer {place.buffer}"
    if isinstance(place, Part):
        return f"({_text(place.array)} from byte {place.start})"
    if isinstance(place, Row):
        return f"row of {_text(place.array)}"
    if isinstance(place, Turn):
        return f"({' or '.join(map(_text, place.arrays))})"
    if isinstance(place, Ahead):
        return f"(next {_text(place.place)}, at last {_text(place.last)})"
    return f"({', '.join(map(_text, place.starts))}, then {_text(place.made)})"


def blocks_of(step: Step) -> tuple[tuple[Step, ...], ...]:
    """The lists of steps inside a step."""
    if isinstance(step, Repeat):
        return (step.body,)
    if isinstance(step, Multiply):
        return () if step.epilogue is None else ((step.epilogue.otherwise,),)
    return (step.then, step.orelse) if isinstance(step, Choose) else ()


def places_of(step: Step) -> tuple[Place, ...]:
    """The places that a step itself reads or writes."""
    if isinstance(step, Launch):
        return step.places
    if isinstance(step, Copy):
        return (step.target, step.source)
    if isinstance(step, Multiply):
        return tuple(m.place for m in step.matrices)
    if isinstance(step, Choose | Repeat):
        return () if step.flag is None else (step.flag,)
    if isinstance(step, Measure):
        return (step.number,)
    if isinstance(step, Ask):
        return step.places
    return (Arena(step.buffer),) if isinstance(step, Ensure | Give) else ()


def parts_of(place: Place) -> tuple[Place, ...]:
    """The places of which a place is made."""
    if isinstance(place, Part | Row):
        return (place.array,)
    if isinstance(place, Turn):
        return place.arrays
    if isinstance(place, Ahead):
        return (place.place, place.last)
    return (*place.starts, place.made) if isinstance(place, Carry) else ()


def walk_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Every step, those inside a step after that itself."""
    for step in steps:
        yield step
        for block in blocks_of(step):
            yield from walk_steps(block)
