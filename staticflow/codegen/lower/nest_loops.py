"""Loops of a kernel that an op writes by itself, and which of them may be vectorised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from staticflow.codegen.gemm.plan import Span
from staticflow.codegen.gemm.tile import each
from staticflow.codegen.maths.scalars import Scalars
from staticflow.graph.dims import Dim, Size, Sym

__all__ = ["NestLoops"]

_FEW = 4
"""Iterations of a loop that `NestLoops.each` writes out: determinants of 3 x 3 take a third of the
time. With 8, those of 8 x 8 take 0.9 of it, and five times as long to compile."""


class NestLoops:
    """Loops that are written with a builder ``k``. ``innermost`` collects the variables of those
    inside which there is no other, and whose iterations may run in any order."""

    def __init__(self, k: Scalars) -> None:
        self.k = k
        self.innermost: list[Sym] = []
        self._around: list[Sym] = []

    @contextmanager
    def lanes_along(self, at: Dim) -> Iterator[None]:
        """Inside a loop over ``at``: its iterations may run in any order."""
        ((atom,), _) = at.terms[0]
        assert isinstance(atom, Sym)
        self.innermost = [v for v in self.innermost if v not in self._around]
        self.innermost.append(atom)
        self._around.append(atom)
        yield
        self._around.pop()

    def each(
        self, name: str, lo: Size, hi: Size, step: int = 1, kind: str = "serial"
    ) -> Iterator[Size]:
        """A loop, whose body is written by the body of ``for i in nest.each(...)``: several times,
        without a loop, where ``lo`` and ``hi`` are known and near."""
        if isinstance(lo, int) and isinstance(hi, int) and hi - lo <= _FEW:
            yield from range(lo, hi, step)
        else:
            yield from each(self.k, name, Span(lo, hi, step), kind)

    def along(self, name: str, lo: Size, hi: Size) -> Iterator[Size]:
        """`each`, whose iterations may run in any order: lanes of vectors, where a schedule makes
        such of the loop."""
        if isinstance(lo, int) and isinstance(hi, int) and hi - lo <= _FEW:
            yield from range(lo, hi)
        else:
            with self.k.loop(name, hi, lo=lo) as at, self.lanes_along(at):
                yield at
