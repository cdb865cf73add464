"""What tells the work of a called program, and of a step of an optimiser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.measure.operation_work import (
    Call,
    Counted,
    Described,
    OperationWork,
    describe_array,
    work_of_executable,
)

__all__ = ["OfProgram", "OfStep"]


class OfProgram(Described):
    """A compiled program is counted by its kernels, at the sizes of the call."""

    __slots__ = ("program",)

    def __init__(self, program: Any = None) -> None:
        self.program = program

    def bound_to(self, program: Any) -> OfProgram:
        """What describes the calls of one ``program``."""
        return OfProgram(program)

    def describe(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call | None:
        """The program, and its arguments; None where some are named."""
        if kwargs:
            return None
        return Call(_Program(self.program), tuple(map(describe_array, args)))


@dataclass(frozen=True, slots=True)
class _Program(Counted):
    """A program, and of the sizes that only a run can tell those that one has told."""

    program: Any
    told: tuple[tuple[str, int | tuple[int, ...]], ...] = ()

    def with_sizes(self, told: Mapping[str, int | Sequence[int]]) -> _Program:
        """The program in a run that has told these sizes."""
        words = ((name, n if isinstance(n, int) else (*n,)) for name, n in told.items())
        return _Program(self.program, tuple(words))

    def count(self, *arrays: Any) -> OperationWork | None:
        """The work on such arrays."""
        given = self.program._caller.arrays(*(np.empty(a.shape, a.dtype) for a in arrays))
        return work_of_executable(self.program._executable, given, dict(self.told))


class OfStep(Described):
    """A step of an optimiser is counted by its rule, for the parameters that have a gradient."""

    __slots__ = ()

    def describe(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
        """The optimiser, and those parameters."""
        optimiser = args[0]
        params = [p for g in optimiser.param_groups for p in g.params if p._grad is not None]
        step = _Step(optimiser, tuple(map(id, params)))
        return Call(step, tuple(map(describe_array, params)))


@dataclass(frozen=True, slots=True)
class _Step:
    """The new values of the parameters of these ids, and of their state, by their gradients."""

    optimiser: Any
    ids: tuple[int, ...]

    def __call__(self, *grads: Any) -> Any:
        params = {id(p): p for group in self.optimiser.param_groups for p in group.params}
        chosen = [params[i] for i in self.ids]
        return tuple(self.optimiser.updates(dict(zip(chosen, grads, strict=True))).values())
