"""How much a program does in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from staticflow.codegen.program.routine import Repeat, walk_steps
from staticflow.data_classes import dataclass
from staticflow.runtime.plan import name_bound_sizes
from staticflow.static.compile import Program

__all__ = ["Work", "sizes_of_call", "work_of_call"]


@dataclass(frozen=True, slots=True)
class Work:
    """What one call of a program does: the bytes that its kernels read and write, its
    floating-point operations, and the bytes of all memory that it touches."""

    bytes: int
    flops: int
    footprint: int


def sizes_of_call(program: Program, arguments: Sequence[Any]) -> dict[str, int]:
    """The unknown sizes of a program, by name, as they are in a call with these arrays."""
    executable = program._executable
    values = executable.bind(program._caller.arrays(*arguments))
    return {s.name: values[s] for s in executable.program.sizes}


def work_of_call(
    program: Program, *arguments: Any, late: Mapping[str, int | Sequence[int]] | None = None
) -> Work | None:
    """The work of a call with these arrays; None if only the run can tell, as where a loop ends.
    ``late`` are such sizes, as `late_sizes_finder` finds them.

    >>> import staticflow as sf
    >>> x, w = sf.placeholder((None, 8), name="x"), sf.ones(8, 4)
    >>> work_of_call(sf.compile([x], x @ w), sf.ones(16, 8))
    Work(bytes=896, flops=1024, footprint=896)
    """
    executable = program._executable
    routine = executable.program
    known = dict(late or {})
    names = {s: str(name) for s, name in name_bound_sizes(routine).items()}
    loops = (s for s in walk_steps(routine.steps) if isinstance(s, Repeat))
    ends = [loop.binds for loop in loops if loop.flag is not None]
    if any(end is None or names.get(end) not in known for end in (*ends, *routine.told)):
        return None
    kernels = program.work(**sizes_of_call(program, arguments), **known)
    if any(kernel.uncounted for kernel in kernels):
        return None
    arrays = program._caller.arrays(*arguments)
    largest = {name: n if isinstance(n, int) else max(n) for name, n in known.items()}
    values = executable.bind(arrays) | {s: largest[n] for s, n in names.items() if n in largest}
    outputs = [t.size * t.dtype.itemsize for t in executable.signature.outputs]
    touched = executable.plan.evaluate(executable.plan.arena + sum(outputs, start=0), values)
    touched += sum(a.nbytes for a in (*arrays, *executable.signature.constants))
    return Work(sum(k.bytes for k in kernels), sum(k.flops for k in kernels), touched)
