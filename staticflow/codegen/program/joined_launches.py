"""Small launches and copies of a GPU that do not depend on each other, as one launch:
`join_launches`.

The updates of a model's parameters are such. A launch takes a GPU a microsecond or two, however few
elements it is for. Each thread of the joined one finds out whose element it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from staticflow.codegen.kernel import (
    Apply,
    Bind,
    Block,
    Buffer,
    Check,
    Const,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Reg,
    Store,
    Worker,
    Workers,
)
from staticflow.codegen.parts import walk
from staticflow.codegen.program.routine import (
    Arena,
    Copy,
    Launch,
    Multiply,
    Place,
    Require,
    Routine,
    Step,
    Table,
    parts_of,
    walk_steps,
)
from staticflow.codegen.rewrite import Names, copy_block, rename_buffers
from staticflow.codegen.schedule.loops import iteration_count
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Dim, Sym
from staticflow.graph.dtypes import bool_, int64, uint8

__all__ = ["join_launches"]

_FEW = 1 << 16
"""Iterations of a launch that is joined to others, at most: more take their time anyhow. Not
measured on a GPU."""

_BUFFERS = 384
"""Buffers of a joined launch, at most: its parameters have 4096 bytes."""


@dataclass(frozen=True, slots=True)
class _Access:
    """What a step reads and writes: slots of the table and buffers of the arena."""

    reads: frozenset[Place]
    writes: frozenset[Place]

    def meets(self, other: _Access) -> bool:
        """Whether the order of two steps matters."""
        touched = other.reads | other.writes
        return not (self.writes.isdisjoint(touched) and other.writes.isdisjoint(self.reads))


def join_launches(routine: Routine) -> Routine:
    """The routine, in which elementwise launches and copies of few elements wait for others that do
    not depend on them, and all of them are one kernel. A step waits at most until something needs
    what it makes, or changes what it reads."""
    work = _Joiner({k.name: k for k in routine.kernels})
    for step in routine.steps:
        work.add(step)
    work.flush()
    used = {s.kernel for s in walk_steps(tuple(work.steps)) if isinstance(s, Launch)}
    kernels = tuple(k for k in (*routine.kernels, *work.made) if k.name in used)
    return replace(routine, steps=tuple(work.steps), kernels=kernels)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A step that waits to be joined to others, as a kernel and its places."""

    step: Launch | Copy
    access: _Access
    kernel: Kernel
    places: tuple[Place, ...]


class _Joiner:
    """Takes steps in their order. The steps of a wave depend on none of it or of a later one."""

    def __init__(self, kernels: Mapping[str, Kernel]) -> None:
        self.kernels = kernels
        self.steps: list[Step] = []
        self.made: list[Kernel] = []
        self.waves: list[list[_Piece]] = []

    def add(self, step: Step) -> None:
        """Take one more step: it waits in the wave behind the last that it depends on."""
        access = self._access(step)
        piece = None if access is None else self._piece(step, access)
        met = [
            number
            for number, wave in enumerate(self.waves)
            if access is None or any(access.meets(other.access) for other in wave)
        ]
        if piece is not None:
            number = max(met, default=-1) + 1
            if number == len(self.waves):
                self.waves.append([])
            self.waves[number].append(piece)
            return
        if met:
            self.flush()
        self.steps.append(step)

    def flush(self) -> None:
        """Write what waits, wave by wave."""
        waves, self.waves = self.waves, []
        for wave in waves:
            part: list[_Piece] = []
            for piece in wave:
                if sum(len(p.places) for p in (*part, piece)) > _BUFFERS:
                    self._write(part)
                    part = []
                part.append(piece)
            self._write(part)

    def _write(self, pieces: Sequence[_Piece]) -> None:
        """One launch for steps none of which depends on another."""
        if len(pieces) < 2:
            self.steps += [piece.step for piece in pieces]
            return
        name = f"joined{len(self.made)}"
        kernel, places = _join([(p.kernel, p.places) for p in pieces], name)
        known = next((k for k in self.made if replace(k, name=name) == kernel), None)
        if known is None:
            self.made.append(kernel)
        launches = [p.step for p in pieces if isinstance(p.step, Launch)]
        locs = tuple(dict.fromkeys(loc for step in launches for loc in step.locs))
        self.steps.append(Launch((known or kernel).name, places, (), 0, locs))

    def _kernel(self, step: Launch) -> Kernel:
        return self.kernels[step.kernel]

    def _piece(self, step: Step, access: _Access) -> _Piece | None:
        """A step that is small and cannot fail, as a kernel; None of any other."""
        if isinstance(step, Copy) and isinstance(step.bytes, int) and 0 < step.bytes <= _FEW:
            return _Piece(step, access, _copy_kernel(step.bytes), (step.source, step.target))
        if isinstance(step, Launch):
            kernel = _as_loop(self._kernel(step))
            if _is_joinable(kernel, step):
                return _Piece(step, access, kernel, step.places)
        return None

    def _access(self, step: Step) -> _Access | None:
        """What a step touches; None of one that all others keep their places about."""
        if isinstance(step, Launch):
            pairs = list(zip(self._kernel(step).buffers, step.places, strict=True))
            if any(b.access == "grows" for b, _ in pairs):
                return None
            return _Access(
                _roots(p for b, p in pairs if b.access != "out"),
                _roots(p for b, p in pairs if b.access != "in"),
            )
        if isinstance(step, Copy):
            return _Access(_roots([step.source]), _roots([step.target]))
        if isinstance(step, Multiply):
            target, *operands = (m.place for m in step.matrices)
            return _Access(_roots(operands), _roots([target]))
        nothing = frozenset[Place]()
        return _Access(nothing, nothing) if isinstance(step, Require) else None


def _roots(places: Iterable[Place]) -> frozenset[Place]:
    """The slots and buffers that places are in."""
    found: set[Place] = set()
    stack = list(places)
    while stack:
        place = stack.pop()
        if isinstance(place, Table | Arena):
            found.add(place)
        else:
            stack += parts_of(place)
    return frozenset(found)


def _as_loop(kernel: Kernel) -> Kernel:
    """A kernel of one thread as one of a grid of one; another as it is."""
    if any(isinstance(s, Loop) for s in walk(kernel.body)):
        return kernel
    return kernel.with_body((Loop(Sym("one", 0, 1), 0, 1, kernel.body, 1, "grid"),))


def _is_joinable(kernel: Kernel, step: Launch) -> bool:
    """Whether a launch is one grid loop over few iterations, as many at each call, that cannot
    fail."""
    if step.site or step.binds is not None or kernel.sizes or not kernel.body:
        return False
    *before, loop = kernel.body
    if not isinstance(loop, Loop) or (loop.kind, loop.lo, loop.step) != ("grid", 0, 1):
        return False
    count = iteration_count(loop)
    if not isinstance(count, int) or not 0 < count <= _FEW:
        return False
    parts = [s.expr if isinstance(s, Let) else s for s in walk(kernel.body)]
    if any(isinstance(p, Check | Worker | Workers) for p in parts):
        return False
    return all(isinstance(s, Let | Bind) for s in before)


def _copy_kernel(bytes_: int) -> Kernel:
    """A kernel that copies bytes: how elements lie is not known of a copy."""
    i = Sym("i", 0, bytes_)
    value = Reg("value", uint8)
    body = (Let(value, Load("source", Dim.of(i))), Store("target", Dim.of(i), value))
    buffers = Buffer("source", uint8, "in"), Buffer("target", uint8, "out")
    return Kernel("copy", buffers, (), (Loop(i, 0, bytes_, body, 1, "grid"),))


# -- the kernel ------------------------------------------------------------------------------------


def _join(
    launches: Sequence[tuple[Kernel, tuple[Place, ...]]], name: str
) -> tuple[Kernel, tuple[Place, ...]]:
    """One kernel for several, and its places. An array that several read is one buffer."""
    buffers: dict[tuple[Place, Buffer], Buffer] = {}
    pieces: list[tuple[int, Kernel]] = []
    total = 0
    for kernel, places in launches:
        own: dict[str, str] = {}
        for buffer, place in zip(kernel.buffers, places, strict=True):
            key = place, replace(buffer, name="")
            new = replace(buffer, name=f"b{len(buffers)}")
            own[buffer.name] = buffers.setdefault(key, new).name
        pieces.append((total, kernel.with_body(rename_buffers(kernel.body, own))))
        total += _count_of(kernel)
    empty = Kernel(name, tuple(buffers.values()), (), ())
    names = Names(empty)
    var = Sym(names.fresh("i"), 0, total)
    number = Reg(names.fresh("number"), int64)
    body = (Let(number, Index(Dim.of(var))), *_choose(pieces, var, number, names))
    loop = Loop(var, 0, total, body, 1, "grid")
    return empty.with_body((loop,)), tuple(place for place, _ in buffers)


def _count_of(kernel: Kernel) -> int:
    """The iterations of a kernel that is joined to others."""
    loop = kernel.body[-1]
    assert isinstance(loop, Loop)
    count = iteration_count(loop)
    assert isinstance(count, int)
    return count


def _choose(pieces: Sequence[tuple[int, Kernel]], var: Sym, number: Reg, names: Names) -> Block:
    """What an iteration does: that of the kernel whose iterations begin last before it."""
    if len(pieces) == 1:
        return _piece(*pieces[0], var, names)
    half = len(pieces) // 2
    before = Reg(names.fresh("before"), bool_)
    first, second = (_choose(p, var, number, names) for p in (pieces[:half], pieces[half:]))
    return (
        Let(before, Apply("lt", (number, Const(pieces[half][0], int64)))),
        If(before, first, second),
    )


def _piece(start: int, kernel: Kernel, var: Sym, names: Names) -> Block:
    """The iteration of a kernel whose iterations begin at ``start``."""
    *before, loop = kernel.body
    assert isinstance(loop, Loop)
    own = Sym(names.fresh(loop.var.name), 0, loop.hi)
    at = Reg(names.fresh("at"), int64)
    block = copy_block((*before, *loop.body), {loop.var: Dim.of(own)}, names)
    return (Let(at, Index(Dim.of(var) - start)), Bind(own, at), *block)
