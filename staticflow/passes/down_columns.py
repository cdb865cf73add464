"""Kernels that go down columns, and write elements on the way.

A softmax over a dim that is not the innermost reduces columns: a kernel takes as many of them as
fill a vector, and goes down them once for the largest element, once for the sum, and once to write.
As kernels of their own the writes go along rows. One kernel takes 0.27 to 0.9 of the time where the
array is larger than the caches, or where what it goes down stays in the first one in between; and
up to twice as long elsewhere, as where rows are 4096 bytes apart, so that all of them lie in the
same places of a cache. Of many operations, as those of a loss or a norm with their gradients, there
are so many kernels otherwise that one takes 0.43 to 1.11 of their time, whatever the sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.ops.declaring.lowering import Elementwise

__all__ = ["writes_down_columns"]

_COLUMNS = 48
"""Columns at least: three vectors of 64 bytes, of which the last is full, or nearly."""

_ROWS = 512
"""Rows at most: more of them lie on more pages than an address is translated for at once."""

_LARGE = 10_000_000
"""Bytes of an array that no cache holds between kernels."""

_OPERATIONS = 8
"""Operations on each element from which on one kernel is as fast as several. A cross entropy of
images has 11 with its gradient, a layer norm of channels 10, the gradient of a softmax 7: that took
up to 1.4 times as long, and a softmax of 150 rows that are 16 KiB apart 1.5."""

_LINE, _PLACES, _WAYS = 64, 64, 8
"""Bytes of a line of a first-level cache, its places, and the lines that each holds."""

_ARRAYS = 3
"""Arrays that such a kernel goes down, about: two that it reads and one that it writes."""


def writes_down_columns(domain: Shape, dims: tuple[int, ...], members: Iterable[Node]) -> bool:
    """Whether one kernel that reduces ``dims`` of ``domain``, which are not the innermost, and
    writes elements of ``members`` is faster than one for each. False where that depends on unknown
    sizes."""
    members = [*members]
    if sum(_computes(n, domain) for n in members) >= _OPERATIONS:
        return True
    sizes = [d for d in domain if isinstance(d, int)]
    if len(sizes) < len(domain) or not dims or dims != tuple(range(dims[0], dims[-1] + 1)):
        return False
    width = max(n.tensor_type.dtype.itemsize for n in members)
    columns = math.prod(sizes[dims[-1] + 1 :])
    rows = math.prod(sizes[d] for d in dims)
    if columns < _COLUMNS or rows > _ROWS:
        return False
    return math.prod(sizes) * width >= _LARGE or rows * _ARRAYS <= _room(columns * width)


def _computes(node: Node, domain: Shape) -> bool:
    return node.tensor_type.shape == domain and isinstance(node.op.lowering, Elementwise)


def _room(stride: int) -> int:
    """Lines that are ``stride`` bytes apart, as many as a first-level cache holds."""
    lines = stride // _LINE if stride % _LINE == 0 else 1
    return _WAYS * _PLACES // math.gcd(_PLACES, lines)
