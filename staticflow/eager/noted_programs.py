"""Programs as steps of plans: a program that a remembered call runs is an op to who notes its ops.

What makes a plan (`staticflow.eager.fast.plans`) knows ops alone. While ops are noted, a program of
tensors is noted as `program_op`, with a `ProgramCall` as its attribute, or a `ChangeCall` where it
overwrites one, and native code runs it from then on (`staticflow.eager.fast.program_calls`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.eager.overwrite import Overwriting
from staticflow.eager.programs import run
from staticflow.errors import IndexRangeError, SymbolicError
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.thread import thread
from staticflow.runtime.executable import Executable

__all__ = ["ChangeCall", "ProgramCall", "note_change", "note_program", "program_op", "run_noted"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """A call of a program of tensors. ``entry`` computes it of their arrays; ``otherwise`` takes
    the tensors where that declines. Of what the program gives the first are the ``outputs``, in a
    tuple or one alone.

    The gradients that are ``wanted``, a bit for each tensor, are those of an entry of the tape that
    is like the ``example``, and keeps the tensors and the results behind the outputs. Without an
    example nothing is recorded; then the arrays of as many dims as an ``order`` has are taken, and
    its only result is given, with these in that, unless it is None.
    """

    entry: Callable[..., Any]
    otherwise: Callable[..., Any]
    outputs: int
    is_tuple: bool
    wanted: int = 0
    example: Any = None
    order: tuple[int, ...] | None = None


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise SymbolicError(
        f"a program of the eager side is no part of a graph, at {format_locs(here())}"
    )


@dataclass(frozen=True, slots=True)
class ChangeCall:
    """A call of a program that writes new elements into its first tensor. ``entry`` takes the
    arrays of the tensors, those of as many dims as an ``order`` has with their dims in that, unless
    it is None; and an array ``instead`` of some of them, by their index, for numbers."""

    entry: Callable[..., Any]
    order: tuple[int, ...] | None
    instead: Mapping[int, Array]


program_op = Op(
    name="program", doc="What a compiled program gives.",
    infer=_refuse, reference=_refuse, vjp=None,
)  # fmt: skip


def note_program(
    call: ProgramCall | ChangeCall, tensors: Sequence[Any], arrays: Sequence[Array], out: Any
) -> None:
    """Note that a program of tensors, which are on ``arrays``, gave ``out``, if anybody wants to
    know."""
    noted = thread.state.noted
    if noted is not None:
        noted.append((program_op, tensors, arrays, {"program": call}, out))


def note_change(x: Any, others: Sequence[Any], done: Overwriting) -> None:
    """Note what a program put into the tensor ``x``, computed of it and of ``others``, if anybody
    wants to know."""
    state = thread.state
    if state.noted is None:
        return
    if any(a._data is x._data and a is not x for a in others):  # and another time may not be
        state.note_more()
        return
    apart = (a for a in others if a is not x)
    numbers = {i: done.arrays[i] for i in done.numbers}
    # (where the program takes a number, x stands among the tensors)
    tensors = [x if i in (0, *numbers) else next(apart) for i in range(len(done.arrays))]
    program = done.program
    call = ChangeCall(program.executable.fast, program.order, numbers)
    note_program(call, tensors, [a._data for a in tensors], x)


def run_noted(
    executable: Executable, known: Sequence[Array], arrays: Sequence[Array], values: Sequence[Any]
) -> Any:
    """What a program, of which nothing is recorded, gives of arrays, of which the ``known`` come
    first, as `programs.run` gives it. Where ops are noted, and the other arrays are those of the
    tensors among ``values`` in order, it is noted, too, and gives tensors."""
    found = run(executable, [*known, *arrays])
    if found is None or thread.state.noted is None:
        return found
    # (by order, since several tensors may be on one array in this call and apart in others)
    tensors = [v for v in values if isinstance(v, eager.tensor)]
    if not tensors or list(map(id, arrays)) != [id(t._data) for t in tensors]:
        return found
    several = type(found) is tuple
    entry = partial(executable.fast, *known) if known else executable.fast
    otherwise = partial(_run_again, executable, known)
    call = ProgramCall(entry, otherwise, len(found) if several else 1, several)
    out = tuple(map(eager.wrap, found)) if several else eager.wrap(found)
    note_program(call, tensors, arrays, out)
    return out


def _run_again(executable: Executable, known: Sequence[Array], *tensors: Any) -> Any:
    """What a program gives of the known arrays and of tensors. Raises `IndexRangeError`."""
    found = run(executable, [*known, *(t._data for t in tensors)])
    if found is None:
        raise IndexRangeError("an index is out of range")
    return tuple(map(eager.wrap, found)) if type(found) is tuple else eager.wrap(found)
