"""The order in which elements are scattered, where several may come to one position.

On a GPU many of them are sorted by the position that they come to, stably; then a thread for each
position takes its elements in the order in which they lie. So results are those of a loop in
order, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from staticflow.graph.dims import Size, dim_max, dim_min, is_provably_ge, prod
from staticflow.graph.dtypes import bool_, int64
from staticflow.ops.declaring.lowering import Index, delinear, linear
from staticflow.ops.indexing.radix import row_in
from staticflow.ops.indexing.rank_merge import sort_rows

__all__ = ["in_order"]

_LEAST = 1 << 15
"""Elements up to which threads that own positions look at all indices."""


def in_order(nest: Any, position_at: Callable[[Index], Index]) -> Iterator[Index]:
    """The indices of all elements of the second argument, an index tensor, in order along the dim
    in which positions may repeat. What is done to an element is written by the body of ``for at in
    in_order(...)``, once or twice; it touches nothing of the result but ``position_at(at)``."""
    shape, dim = nest.in_shape(1), nest.attrs["dim"]
    count = prod(shape)
    is_many: Size = 0
    if nest.has_teams and not nest.only_looks and shape:
        is_many = dim_min(count // (_LEAST + 1), 1)
        if is_provably_ge(count, _LEAST + 1):
            is_many = 1
    if is_many != 1:
        few = (shape[0] * (1 - is_many), *shape[1:]) if shape else shape
        with nest.loops(few[:dim], "parallel") as rows, nest.loops(few[dim:], "serial") as at:
            yield (*rows, *at)
    if is_many != 0:
        yield from _by_position(nest, position_at, count, is_many)


def _by_position(
    nest: Any, position_at: Callable[[Index], Index], count: Size, times: Size
) -> Iterator[Index]:
    """The indices of elements, in launches that a ``count`` that is small, with 0 ``times``, makes
    none of."""
    k, shape, out = nest.k, nest.in_shape(1), nest.out_type(0)
    rooms = [nest.scratch(int64, count * times) for _ in range(4)]
    spare = row_in(k, rooms[0], rooms[1], lambda j: j)
    ordered = row_in(k, rooms[2], rooms[3], lambda j: j)

    def index_of(number: Size) -> Index:
        pairs = zip(delinear(number, shape), shape, strict=True)
        return tuple(k.bind(k.index_value(i), "i", n) for i, n in pairs)

    with k.loop("element", count * times, kind="grid") as element:
        place = linear(position_at(index_of(element)), out.shape)
        ordered.store(element, k.index_value(place), k.index_value(element))
    sort_rows(
        k, count, 1, lambda _: (ordered, spare, ordered), lambda a, b: k.compare("lt", a, b), times
    )
    with k.loop("first", count * times, kind="grid") as first:
        place = ordered.key(first)
        before = ordered.key(dim_max(first - 1, 0))
        begins = k.compare("eq", k.index_value(first), 0)
        with k.when(k.apply("or", begins, k.compare("ne", place, before))):
            going = k.var(k.const(True, bool_))
            with k.loop("j", count, lo=first, going=going) as j:
                same = k.compare("eq", ordered.key(j), place)
                with k.when(same):
                    yield index_of(k.bind(ordered.position(j), "element", count))
                k.set(going, same)
