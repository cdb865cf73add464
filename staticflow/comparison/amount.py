"""How much a program does in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from staticflow.codegen.program.routine import Repeat, walk_steps
from staticflow.static.compile import Program

__all__ = ["Work", "work_of_call"]


@dataclass(frozen=True, slots=True)
class Work:
    """What one call of a program does: the bytes that its kernels read and write, its
    floating-point operations, and the bytes of all memory that it touches."""

    bytes: int
    flops: int
    footprint: int


def work_of_call(program: Program, *arguments: Any) -> Work | None:
    """The work of a call with these arrays; None if only the run can tell, as where a loop ends.

    >>> import staticflow as sf
    >>> x, w = sf.placeholder((None, 8), name="x"), sf.ones(8, 4)
    >>> work_of_call(sf.compile([x], x @ w), sf.ones(16, 8))
    Work(bytes=896, flops=1024, footprint=896)
    """
    executable = program._executable
    routine = executable.program
    loops = (s for s in walk_steps(routine.steps) if isinstance(s, Repeat))
    if routine.told or any(loop.flag is not None for loop in loops):
        return None
    arrays = program._caller.arrays(*arguments)
    values = executable.bind(arrays)
    kernels = program.work(**{s.name: values[s] for s in routine.sizes})
    if any(kernel.uncounted for kernel in kernels):
        return None
    outputs = [t.size * t.dtype.itemsize for t in executable.signature.outputs]
    touched = executable.plan.evaluate(executable.plan.arena + sum(outputs, start=0), values)
    touched += sum(a.nbytes for a in (*arrays, *executable.signature.constants))
    return Work(sum(k.bytes for k in kernels), sum(k.flops for k in kernels), touched)
