"""Programs that the eager mode computes by: one for each kind of operands.

A function is traced on symbols and compiled for a *kind* of call: the dtypes of the arrays, their
ranks, which sizes are 1 and how they lie in memory. Other sizes stay unknown, so that the next
batch compiles nothing, unless the function asks for them. A call that was met before is found by
the very shapes that it has, in one step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from staticflow.eager.rows import Steps, steps_of
from staticflow.graph.dims import Size, fresh_sym
from staticflow.graph.dtypes import BY_NUMPY
from staticflow.graph.graph import Graph, new_param
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType
from staticflow.passes.pipeline import PASSES, optimize
from staticflow.runtime.build import build
from staticflow.runtime.executable import Executable
from staticflow.runtime.object_layout import BoxType, box_type
from staticflow.runtime.once import compiling

__all__ = ["MOST_CALLS", "UNMET", "ArrayKind", "Programs", "compiled", "kind_of"]

P = TypeVar("P")

MOST_KINDS = 256
"""So many programs are kept; then it begins anew. A number that is an attribute and changes at
every step would otherwise fill the memory with code."""

MOST_CALLS = 1024
"""So many shapes find their program in one step; then it begins anew."""

UNMET: Any = object()
"""What stands for a call that was not met before."""


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """What a program knows of an array: the dtype; the ``sizes``, with 0 for one that it does not
    know; and the strides as `steps_of` says them, None for a row-major array."""

    dtype: Any
    sizes: tuple[int, ...]
    steps: Steps = None

    def param(self, name: str, source: object = None) -> Node:
        """A param that such an array is given for."""
        shape: tuple[Size, ...] = tuple(
            n or fresh_sym(f"{name}_{d}") for d, n in enumerate(self.sizes)
        )
        strides: tuple[Size, ...] | None = None
        if self.steps is not None:
            strides = tuple(
                fresh_sym(f"{name}_s{d}") if s is None else s for d, s in enumerate(self.steps)
            )
        return new_param(TensorType(BY_NUMPY[self.dtype], shape, strides), name, source)


def kind_of(array: np.ndarray[Any, Any]) -> ArrayKind:
    """The kind of an array of which a program knows the sizes of 1, which broadcast."""
    return ArrayKind(array.dtype, tuple([int(n == 1) for n in array.shape]), steps_of(array))


class Programs(Generic[P]):
    """Programs by kind, and by the calls that they serve; None stands where there can be none.

    ``programs.by_call.get(call, UNMET)`` is all that a call takes that was met before.
    """

    __slots__ = ("by_call", "by_kind")

    def __init__(self) -> None:
        self.by_call: dict[Hashable, P | None] = {}
        self.by_kind: dict[Hashable, P | None] = {}

    def remember(self, call: Hashable, program: P | None) -> None:
        """Find ``program`` by ``call`` from now on."""
        if len(self.by_call) >= MOST_CALLS:
            self.by_call.clear()
        self.by_call[call] = program

    def find(self, *kinds: tuple[Hashable, Callable[[], P | None]]) -> P | None:
        """The program of the first of ``kinds`` that has one: those come first that serve the most
        calls. Each comes with what makes its program, once, whichever threads ask."""
        for kind, make in kinds:
            program: P | None = self.by_kind.get(kind, UNMET)
            if program is UNMET:
                program = self._make(kind, make)
            if program is not None:
                return program
        return None

    def _make(self, kind: Hashable, make: Callable[[], P | None]) -> P | None:
        with compiling:
            program: P | None = self.by_kind.get(kind, UNMET)
            if program is UNMET:
                program = make()
                if len(self.by_kind) >= MOST_KINDS:
                    self.by_kind.clear()
                    self.by_call.clear()
                self.by_kind[kind] = program
            return program


def compiled(
    graph: Graph, updated: Sequence[object] = (), passes: Sequence[Any] = PASSES
) -> Executable:
    """The program of a graph without variables. Its last outputs are the new values of the params
    whose sources are ``updated``."""
    names = [p.attrs["name"] for p in graph.params]
    optimized, _ = optimize(graph, passes=passes)
    given = len(graph.outputs) - len(updated)
    return build(optimized, names, updated, given, _box(), keeps_arena=False)


class _Box:
    """What the native entry takes beside arrays; nobody makes one."""

    __slots__ = ("array",)


@functools.cache
def _box() -> BoxType | None:
    return box_type(_Box, "array")
