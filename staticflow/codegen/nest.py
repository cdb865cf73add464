"""What an op with a loop nest of its own sees of the kernel that is built for it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from staticflow.codegen.kernel import Operand
from staticflow.codegen.math import Scalars
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.lowering import Index, linear

__all__ = ["INDEX_OUT_OF_RANGE", "Nest"]

INDEX_OUT_OF_RANGE = 1
"""The code with which a kernel stops at an index outside its dim."""


class Nest:
    """Loads and stores by argument number and index, loops over shapes, index checks.

    ``innermost`` collects the innermost loop variables of the nests whose iterations may run in any
    order: what a schedule may vectorise.
    """

    def __init__(
        self,
        k: Scalars,
        attrs: Mapping[str, Any],
        ins: Sequence[TensorType],
        outs: Sequence[TensorType],
        in_names: Sequence[str],
        out_names: Sequence[str],
    ) -> None:
        self.k, self.attrs = k, attrs
        self._ins, self._outs = ins, outs
        self._in_names, self._out_names = in_names, out_names
        self._names = itertools.count()
        self.innermost: list[Sym] = []

    @property
    def n_in(self) -> int:
        """How many arguments there are."""
        return len(self._ins)

    def in_shape(self, i: int) -> Shape:
        """The shape of an argument."""
        return self._ins[i].shape

    def out_shape(self, i: int) -> Shape:
        """The shape of a result."""
        return self._outs[i].shape

    def out_type(self, i: int) -> TensorType:
        """The type of a result."""
        return self._outs[i]

    def load(self, i: int, index: Index) -> Operand:
        """An element of an argument."""
        return self.k.load(self._in_names[i], linear(index, self._ins[i].shape))

    def load_out(self, i: int, index: Index) -> Operand:
        """An element of a result that was stored before."""
        return self.k.load(self._out_names[i], linear(index, self._outs[i].shape))

    def store(self, i: int, index: Index, value: Operand) -> None:
        """Write an element of a result, in its dtype."""
        out = self._outs[i]
        self.k.store(self._out_names[i], linear(index, out.shape), self.k.cast(value, out.dtype))

    def check_index(self, index: Operand, size: Size) -> None:
        """Stop with an error unless ``0 <= index < size`` (int64)."""
        k = self.k
        inside = k.apply(
            "and",
            k.compare("ge", index, 0),
            k.compare("lt", index, k.index_value(size)),
        )
        k.check(inside, INDEX_OUT_OF_RANGE)

    @contextmanager
    def loops(self, shape: Shape, kind: str) -> Iterator[Index]:
        """Loops over every index of ``shape``: ``parallel`` where their order does not matter,
        else ``serial``."""
        with ExitStack() as stack:
            index: list[Size] = []
            for size in shape:
                name = f"n{next(self._names)}"
                index.append(stack.enter_context(self.k.loop(name, size, kind=kind)))
            if index and kind == "parallel" and isinstance(index[-1], Dim):
                ((atom,), _) = index[-1].terms[0]
                assert isinstance(atom, Sym)
                self.innermost.append(atom)
            yield tuple(index)
