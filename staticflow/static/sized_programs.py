"""The programs of one trace, which was made with open sizes: each for some sizes of its inputs.

What is compiled for known sizes is several times shorter and sooner there than what holds for all
of them, and most functions are called with few: a trainer's parameters have one size each, its
batches two. So the first program is for the sizes of the first call; the next one for those that
differ from it in a later call, whatever they are; and the last for any sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.eager.tensor import Tensor
from staticflow.errors import ShapeError
from staticflow.graph.collector import without_collection
from staticflow.graph.dim_queries import as_symbol
from staticflow.graph.dims import Dim, Sym
from staticflow.graph.equalities import Equality
from staticflow.graph.locs import here
from staticflow.graph.node import Node
from staticflow.ops.symbols.symbol import Symbol
from staticflow.static.compile import Options, Program
from staticflow.static.written import Written, write

__all__ = ["SizedPrograms"]

_MOST_WITH_KNOWN_SIZES = 3
"""Programs of a trace for which sizes are known; the next one is for any."""

_MOST_MET = 256
"""Shapes of inputs that are remembered."""


@dataclass(slots=True)
class SizedPrograms:
    """The programs from ``inputs`` to ``outputs``, with the sizes that each has for known, in the
    order in which they were compiled. ``left`` are marks of effects; what does not follow what
    changes is the way back of a call, as `Written` says."""

    inputs: Sequence[Symbol]
    outputs: Sequence[Symbol]
    options: Options
    left: Sequence[Node] = ()
    follows: bool = True
    compiled: list[tuple[Mapping[Sym, int], Program]] = field(default_factory=list)
    _met: dict[tuple[tuple[int, ...], ...], Program] = field(default_factory=dict)

    def program_for(self, given: Sequence[Tensor]) -> Program:
        """The program that runs on tensors of these sizes, compiled if there is none yet."""
        shapes = tuple([t._data.shape for t in given])
        found = self._met.get(shapes)
        if found is None:
            found = self._find(self.sizes_of(given), given)
            if len(self._met) >= _MOST_MET:
                self._met.clear()
            self._met[shapes] = found
        return found

    def run(self, *given: Tensor) -> list[Tensor]:
        """The outputs of these inputs, by the program for their sizes, as a list of their own."""
        found: Any = self.program_for(given)(*given)
        return [found] if len(self.outputs) == 1 else list(found)

    def known_for(self, given: Sequence[Tensor]) -> Program | None:
        """The program for tensors of these sizes, if it is known already."""
        return self._met.get(tuple([t._data.shape for t in given]))

    def sizes_of(self, given: Sequence[Tensor]) -> dict[Sym, int]:
        """The number that each open size of the inputs has."""
        found: dict[Sym, int] = {}
        for symbol, tensor in zip(self.inputs, given, strict=True):
            shape = symbol.node.tensor_type.shape
            for size, number in zip(shape, tensor._data.shape, strict=True):
                name = as_symbol(size)
                if name is not None:
                    found.setdefault(name, number)
        return found

    def _find(self, sizes: dict[Sym, int], given: Sequence[Tensor]) -> Program:
        for known, program in self.compiled:
            if sizes.items() >= known.items():
                return program
        known = sizes if len(self.compiled) < _MOST_WITH_KNOWN_SIZES else {}
        for before, _ in self.compiled:
            known = {s: n for s, n in known.items() if before.get(s) == n}
        try:
            program = self._compile(known, given)
        except ShapeError:  # sizes that do not fit: a call of the program for any says which
            if not known:
                raise
            known = {}
            program = self._compile(known, given)
        self.compiled.append((known, program))
        return program

    def _compile(self, known: Mapping[Sym, int], given: Sequence[Tensor]) -> Program:
        """The program for which these sizes are known, on the device of what is ``given``."""
        with without_collection():
            return Program(self.write(known), self.options, given)

    def write(self, known: Mapping[Sym, int]) -> Written:
        """What the program is made of for which these sizes are known."""
        only = self.outputs[0] if len(self.outputs) == 1 else self.outputs  # given as it is
        reason = "the sizes that a program of jit is for"
        sizes = [Equality(Dim.of(s), n, reason, here()) for s, n in known.items()]
        return write(self.inputs, only, left=self.left, follows=self.follows, sizes=sizes)
