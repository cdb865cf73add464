"""Tiles of products of 16-bit floats for the tensor cores of a GPU, with sums in float32.

Operands pass by in shared memory as in `TeamTiles`, 32 of the inner dimension at a time, neighbours
along that side by side, as tensor cores take them.
"""

from __future__ import annotations

from staticflow.codegen.kernel import CORE_SUMS, CORE_TILE, TEAMS
from staticflow.codegen.lower.team_tiles import Passing, divmod_of, read_passing
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.team_order import core_place
from staticflow.graph.dims import Dim, Size
from staticflow.graph.dtypes import DType, float32

__all__ = ["CoreTiles"]

_STEP = 32
"""Of the inner dimension, what is in shared memory at a time."""

_PITCH = _STEP + 8
"""Elements from one place of a tile to the next, in shared memory: the pairs that the threads of a
warp read are then in banks of their own."""


class CoreTiles:
    """Writes products of tiles. A thread has the sums of its elements in a private array."""

    def __init__(self, k: Scalars, dtype: DType) -> None:
        self.k, self.dtype = k, dtype
        self.left = k.local(dtype, CORE_TILE * _PITCH, "shared")
        self.right = k.local(dtype, CORE_TILE * _PITCH, "shared")

    def clear(self, sums: str, count: int) -> None:
        """Make ``count`` sums of each thread 0."""
        with self.k.loop("t", TEAMS["blocks"], kind="threads"):
            for own in range(count):
                self.k.store(sums, own, self.k.const(0.0, float32))

    def place(self, t: Dim, own: int) -> tuple[Size, Size]:
        """The row and column, in the tile, of an element of a thread."""
        return core_place(t, own)

    def add_up(
        self, sums: str, left: Passing, right: Passing, span: tuple[Size, Size], depth: Size
    ) -> None:
        """Add the products of the places ``span`` of the inner dimension, which has ``depth``, to
        the sums of a tile."""
        k, threads = self.k, TEAMS["blocks"]
        first, end = span
        with k.loop("k", end, lo=first, step=_STEP) as inner:
            with k.loop("t", threads, kind="threads") as t:
                for q in range(_STEP * CORE_TILE // threads):
                    number = t + q * threads
                    for room, of in ((self.left, left), (self.right, right)):
                        # neighbouring threads read neighbouring elements
                        side, step = (
                            divmod_of(number, _STEP)
                            if of.along
                            else divmod_of(number, CORE_TILE)[::-1]
                        )
                        at = inner + step, depth
                        value = read_passing(k, self.dtype, of, at, of.start + side)
                        k.store(room, side * _PITCH + step, value)
            k.multiply_tiles(self.left, self.right, sums, _PITCH, _STEP)


assert CORE_SUMS * TEAMS["blocks"] == CORE_TILE**2
