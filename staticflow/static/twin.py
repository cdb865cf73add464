"""A program apart from its own tensors: what it would do, without a change of what it updates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow import pytree
from staticflow.eager.tensor import Tensor
from staticflow.measure.memory import Memory, measure_program
from staticflow.runtime.executable import Executable
from staticflow.runtime.object_layout import box_type
from staticflow.static.caller import Caller

if TYPE_CHECKING:
    from staticflow.static.compile import Program

__all__ = ["measure_memory", "twin_of"]


def twin_of(program: Program) -> Caller:
    """The call of a program on copies of the tensors that it updates, and memory of its own. It
    takes the arguments that the program takes, gives the same, and raises the same errors."""
    caller, executable = program._caller, program._executable
    copies = {id(t): Tensor._wrap(np.array(t._data)) for t in caller.updated}
    variables = tuple(copies.get(id(t), t) for t in caller.variables)
    other = Executable(
        executable.program, executable.plan, executable.signature, variables,
        box_type(Tensor, "_data"),
    )  # fmt: skip
    updated = tuple(copies[id(t)] for t in caller.updated)
    structure, names, made = caller.structure, caller.names, caller.made
    return Caller(other, caller.graph, names, variables, updated, structure, made)


def measure_memory(program: Program, *args: Any, **named: Any) -> Memory:
    """The memory of a call of a program with these arguments, predicted and measured. What the
    program updates stays as it is.

    >>> import staticflow as sf
    >>> x = sf.placeholder((None, 100), name="x")
    >>> found = measure_memory(sf.compile([x], x.cumsum(dim=1).sum()), sf.ones(50, 100))
    >>> found.predicted <= found.measured <= found.predicted + 200
    True
    """
    call = twin_of(program)

    def run() -> Sequence[Any]:
        leaves, _ = pytree.flatten(call(*args, **named))
        return [t._data for t in leaves]

    run()
    return measure_program(call.executable, call.arrays(*args, **named), run)
