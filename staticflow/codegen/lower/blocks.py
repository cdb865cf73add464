"""Sums over everything, cut into blocks that threads may share.

How the elements are cut depends on their number alone, and the sums of the blocks are added in
order, so that the total is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from staticflow.codegen.kernel import Buffer
from staticflow.codegen.lower.nest import Scratch
from staticflow.codegen.maths.scalars import Scalars
from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Dim, Size, ceil_div, dim_max, dim_min, is_provably_ge, prod
from staticflow.graph.dtypes import DType
from staticflow.graph.types import Shape

__all__ = ["Blocks", "cut_blocks"]

_MOST = 64
"""Blocks: enough for the threads of a processor, few enough to be added by one."""

_LEAST = 1 << 14
"""Elements of a block; fewer are not worth a thread."""

_MOST_OF_TEAMS, _LEAST_OF_TEAMS = 1024, 1 << 12
"""Blocks on a GPU, and elements of each: a team computes a block, one team adds up all results."""

_EVEN = 64
"""Elements that whole vectors are made of, so that only the last block has a rest."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The iterations of a loop over ``iterations`` in ``count`` blocks of ``size``."""

    iterations: Size
    size: Size
    count: Size
    most: int

    @contextmanager
    def each(self, k: Scalars) -> Iterator[tuple[Dim, Size, Size]]:
        """A loop over the blocks: the number, the first iteration and how many there are."""
        with k.loop("block", self.count, kind="parallel") as number:
            start = number * self.size
            length = k.index_value(dim_min(self.size, self.iterations - start))
            yield number, start, k.bind(length, "length", upper=self.size + 1)

    def partial(self, k: Scalars, dtype: DType, numbers: int = 1) -> Scratch:
        """A buffer with a number for each block, or some ``numbers``."""
        names = (f"scratch{i}" for i in range(len(k.buffers)))
        scratch = Scratch(next(n for n in names if n not in k.buffers), dtype, self.most * numbers)
        k.buffers[scratch.name] = Buffer(scratch.name, dtype, "inout")
        return scratch


def cut_blocks(k: Scalars, loops: Shape, target: Target) -> Blocks | None:
    """The blocks of the outermost of ``loops``, or None if there is never more than one."""
    first, inner = loops[0], prod(loops[1:])
    most, least = (_MOST_OF_TEAMS, _LEAST_OF_TEAMS) if target.teams else (_MOST, _LEAST)
    if is_provably_ge(least, first * inner):
        return None
    size = dim_max(ceil_div(first, most), ceil_div(least, dim_max(inner, 1)))
    if inner == 1:
        size = ceil_div(size, _EVEN) * _EVEN
    if isinstance(size, Dim):
        size = k.bind(k.index_value(size), "size")
    return Blocks(first, size, ceil_div(first, size), most)
