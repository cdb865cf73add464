"""Sorting, whole rows and the first of them. NaN is the largest of all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from staticflow.graph.dims import Size, dim_min, is_provably_ge
from staticflow.graph.dtypes import DType, bfloat16, dtype_of, int64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.along.counting import Counting, place_each
from staticflow.ops.along.extremes import Chosen, max_dim_op, scatter_vjp
from staticflow.ops.along.first_few import emit_few
from staticflow.ops.along.selection import each_hit, each_row_with_rank, width_of
from staticflow.ops.along.stable import stable_order
from staticflow.ops.basics.reduce import along
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import strict
from staticflow.ops.declaring.lowering import LoopNest, Room, RowWork, linear
from staticflow.ops.declaring.numpy_names import numpy_names
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.indexing.gather_ops import gather_op
from staticflow.ops.indexing.radix import Row, Rows, StoredRow, counters, row_in, sort_by_digits
from staticflow.ops.indexing.rank_merge import sort_by_ranks

__all__ = [
    "FEW", "NETWORK", "SHORT", "SORT_DOWN", "SORT_UP", "argsort", "before", "reaches", "select_op",
    "sort", "sort_op", "sortable", "topk", "topk_op",
]  # fmt: skip


# -- sort -----------------------------------------------------------------------------------------


def _sort_infer(facts: Facts, x: TensorType, *, dim: int, descending: bool) -> Any:
    return x, TensorType(int64, x.shape)


def sortable(xp: Any, x: Any) -> Any:
    """``x``; in float32 if it is bfloat16, whose NaN NumPy would put first."""
    return x.astype(xp.float32) if dtype_of(x.dtype) is bfloat16 else x


def _argsort(xp: Any, x: Any, dim: int, descending: bool) -> Any:
    """The stable order along ``dim``, with NaN as the largest."""
    return stable_order(xp, sortable(xp, x), dim, descending)


def _sort_reference(xp: Any, x: Any, *, dim: int, descending: bool) -> tuple[Any, Any]:
    order = _argsort(xp, x, dim, descending)
    return xp.take_along_axis(x, order, axis=dim), order


def before(k: Any, a: Any, b: Any, descending: bool) -> Any:
    """Whether ``a`` stands strictly before ``b``."""
    comes = k.compare("gt" if descending else "lt", a, b)
    if not a.dtype.is_floating:
        return comes
    number, nan = (b, a) if descending else (a, b)
    return k.apply("or", comes, k.apply("and", k.compare("eq", number, number), k.isnan(nan)))


SHORT = 1 << 7
"""Elements up to which rows are sorted by counting, and longer ones by digits: 32 rows of 32
float32 take 4 microseconds, and 54 where they are merged; 8 of 128 8, and 23 by digits."""

NETWORK = 16
"""Elements up to which rows of known length are sorted in registers, several rows side by side: of
3 and of 16 float32 it takes a twentieth of the time of merging. It compiles in 0.1 to
0.25 s, and the number of its comparisons is the square of the length."""


def _sort_network(nest: Any, n: int) -> None:
    """Neighbours that stand in the wrong order change places, in ``n`` rounds, so that equal ones
    keep theirs (Knuth, "The Art of Computer Programming", 5.3.4)."""
    k, dim, descending = nest.k, nest.attrs["dim"], nest.attrs["descending"]
    shape = nest.in_shape(0)
    with nest.loops((*shape[:dim], *shape[dim + 1 :]), "parallel") as outer:
        places = [(*outer[:dim], j, *outer[dim:]) for j in range(n)]
        row = [(nest.load(0, at), k.const(j, int64)) for j, at in enumerate(places)]
        for number in range(n):
            for j in range(number % 2, n - 1, 2):
                (a, p), (b, q) = row[j], row[j + 1]
                turned = before(k, b, a, descending)
                row[j] = k.select(turned, b, a), k.select(turned, q, p)
                row[j + 1] = k.select(turned, a, b), k.select(turned, p, q)
        for at, (key, position) in zip(places, row, strict=True):
            nest.store(0, at, key)
            nest.store(1, at, position)


def _sort_emit(nest: Any) -> None:
    """Rows of a few are sorted in registers, short ones by counting, long ones by digits; one of
    unknown length in either of the last two ways, by a kernel that programs share. By teams of
    threads all but those of a few are merged."""
    k, dim, descending = nest.k, nest.attrs["dim"], nest.attrs["descending"]
    x = nest.out_type(0)
    n: Size = x.shape[dim]
    if isinstance(n, int) and n <= NETWORK:
        _sort_network(nest, n)
        return
    if nest.shares and not isinstance(n, int):
        _sort_by_call(nest)
        return

    def result_at(at: Callable[[Size], Any]) -> StoredRow:
        return row_in(k, nest.out_name(0), nest.out_name(1), lambda j: linear(at(j), x.shape))

    def rows_at(at: Callable[[Size], Any]) -> Rows:
        first = Row(lambda j: nest.load(0, at(j)), k.index_value)
        return first, row_in(k, *spare, lambda j: linear(at(j), x.shape)), result_at(at)

    def count_row(at: Callable[[Size], Any], worker: Size) -> None:
        def put(j: Size, place: Size) -> None:
            result_at(at).store(place, nest.load(0, at(j)), k.index_value(j))

        counting.each_place(at, worker, descending, put)

    if nest.has_teams:
        spare = nest.scratch(x.dtype, x.size), nest.scratch(int64, x.size)
        sort_by_ranks(nest, dim, rows_at, lambda a, b: before(k, a, b, descending))
        return
    workers, tasks = nest.rows_in_groups(x.shape, dim)
    if not is_provably_ge(n, SHORT + 1):
        counting = Counting.of(nest, dim_min(n, SHORT), workers)
    if is_provably_ge(SHORT, n):
        for at, worker in tasks:
            count_row(at, worker)
        return
    spare = nest.scratch(x.dtype, x.size), nest.scratch(int64, x.size)
    counts = nest.scratch(int64, workers * counters(n))
    for at, worker in tasks:
        rows, place = rows_at(at), (counts, worker * counters(n))
        count = functools.partial(sort_by_digits, nest, n, x.dtype, rows, place, descending)
        if is_provably_ge(n, SHORT + 1):
            count()
        else:
            is_long = k.compare("gt", k.index_value(n), k.index_value(SHORT))
            k.choose(is_long, count, functools.partial(count_row, at, worker))


def _sort_by_call(nest: Any) -> None:
    """Have each row, of unknown length, sorted by the kernel that programs share. The results of a
    row that do not lie one behind the other are copied to where they belong."""
    k, dim, shape = nest.k, nest.attrs["dim"], nest.out_shape(0)
    is_last = dim == len(shape) - 1
    for at, call in nest.rows_to_work(SORT_DOWN if nest.attrs["descending"] else SORT_UP, dim):
        first = linear(at(0), shape)
        to = [(nest.out_name(i), first) for i in range(2)] if is_last else None
        for number, (buffer, begin) in enumerate(call.emit(to=to)):
            if not is_last:
                with k.loop("j", shape[dim]) as j, nest.lanes_along(j):
                    nest.store(number, at(j), k.load(buffer, begin + j))


def _sort_results(dtype: DType, n: Size) -> tuple[Room, ...]:
    return ("values", dtype, n), ("positions", int64, n)


def _sort_rooms(dtype: DType, n: Size) -> tuple[Room, ...]:
    return (
        ("spare_keys", dtype, n),
        ("spare_positions", int64, n),
        ("counts", int64, counters(n)),
        ("integers", width_of(dtype), SHORT),
    )


def _sort_row(descending: bool) -> Callable[..., None]:
    """What writes the kernel that programs share; short rows have their counts where digits are
    counted in others."""

    def emit(nest: Any, n: Size) -> None:
        k = nest.k
        first = Row(nest.key_at, k.index_value)
        spare, result = (
            row_in(k, *buffers, lambda j: j)
            for buffers in (("spare_keys", "spare_positions"), ("values", "positions"))
        )

        def sort_long() -> None:
            rows = first, spare, result
            sort_by_digits(nest, n, nest.dtype, rows, ("counts", 0), descending)

        def sort_short() -> None:
            def put(j: Size, place: Size) -> None:
                result.store(place, first.key(j), first.position(j))

            few = dim_min(n, SHORT)
            place_each(nest, few, first.key, ("integers", 0), ("counts", 0), descending, put)

        is_long = k.compare("gt", k.index_value(n), SHORT)
        k.choose(is_long, sort_long, sort_short)

    return emit


def _sort_work(n: Size) -> Size:
    return 160 * n


SORT_UP = RowWork("sortup", _sort_results, _sort_rooms, _sort_row(False), _sort_work, looks=True)
"""A row in ascending order, and the positions of its elements."""

SORT_DOWN = RowWork("sortdown", _sort_results, _sort_rooms, _sort_row(True), _sort_work, looks=True)
"""A row in descending order, and the positions of its elements."""


sort_op = Op(
    name="sort",
    doc="The elements along ``dim`` in order, and where each came from; equal ones stay in the "
    "order that they were in.",
    infer=_sort_infer,
    reference=_sort_reference,
    vjp=scatter_vjp,
    lowering=LoopNest(_sort_emit),
    numpy="rows",
    exact=True,
    grad_name="SortBackward0",
)


@by_shape
@numpy_names
def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Chosen:
    """The elements along ``dim`` in order, and their indices (int64), as the named tuple
    (values, indices). NaN is the largest. Equal elements keep their order, ``stable`` or not.

    >>> import staticflow as sf
    >>> sf.sort(sf.tensor([3.0, 1.0, 2.0]), descending=True).indices
    tensor([0, 2, 1])
    """
    return Chosen(*along(sort_op, input, dim, descending=descending))


@by_shape
@numpy_names
def argsort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """The indices (int64) that `sort` gives."""
    return sort(input, dim, descending, stable).indices


# -- some of the sorted ---------------------------------------------------------------------------


def reaches(facts: Facts, x: TensorType, k: Size, dim: int) -> None:
    """State that a row has ``k`` elements."""
    n = x.shape[dim]
    facts.at_least(k, 0, "k")
    facts.at_least(n, k, f"dim {dim} of {x}, where k is {k}")


def _topk_infer(facts: Facts, x: TensorType, *, k: Size, dim: int, largest: bool) -> Any:
    reaches(facts, x, k, dim)
    shape = (*x.shape[:dim], k, *x.shape[dim + 1 :])
    return TensorType(x.dtype, shape), TensorType(int64, shape)


def _topk_reference(xp: Any, x: Any, *, k: int, dim: int, largest: bool) -> tuple[Any, Any]:
    rows = xp.moveaxis(x, dim, -1)
    few = _candidates(xp, rows, k, largest) if 0 < k < x.shape[dim] // 8 else None
    if few is None:
        order = xp.take(_argsort(xp, x, dim, largest), xp.arange(k), axis=dim)
    else:
        best = _argsort(xp, xp.take_along_axis(rows, few, axis=-1), -1, largest)
        order = xp.moveaxis(xp.take_along_axis(few, best, axis=-1), -1, dim).copy(order="C")
    return xp.take_along_axis(x, order, axis=dim), order


def _candidates(xp: Any, rows: Any, k: int, largest: bool) -> Any:
    """The positions of the ``k`` largest or smallest elements of each row, as they lie in it; None
    if that leaves a choice, among equal ones or where there is a NaN."""
    seen = sortable(xp, rows)
    at = seen.shape[-1] - k if largest else k - 1
    last = xp.partition(seen, at, axis=-1)[..., at : at + 1]
    is_one = seen >= last if largest else seen <= last
    if not xp.all(xp.count_nonzero(is_one, axis=-1) == k):
        return None
    return xp.nonzero(is_one)[-1].reshape(*rows.shape[:-1], k)


FEW = 16
"""So many of a row are kept in order while it is read."""


def _few_emit(nest: Any) -> None:
    emit_few(nest, lambda a, b: before(nest.k, a, b, nest.attrs["largest"]))


few_op = Op(
    name="top_few",
    doc="`topk` of a few elements that are known as the program is written.",
    infer=_topk_infer,
    reference=strict(_topk_infer, _topk_reference),
    vjp=scatter_vjp,
    lowering=LoopNest(_few_emit),
    grad_name="TopkBackward0",
)


def _select_emit(nest: Any) -> None:
    """Those before the one of the last rank, and as many of its equals as it has before it."""
    k, dim, largest = nest.k, nest.attrs["dim"], nest.attrs["largest"]
    n, count = nest.in_shape(0)[dim], nest.attrs["k"]

    def emit() -> None:
        for at, found in each_row_with_rank(nest, dim, count - 1, largest):
            taken, equals = k.var(k.const(0, int64)), k.var(k.add(found.before, 1))

            def take(j: Size, at: Any = at, found: Any = found, of: Any = (taken, equals)) -> None:
                taken, equals = of
                equal = k.compare("eq", found.integer_at(j), found.integer)
                is_left = k.compare("gt", equals, 0)
                with k.when(k.apply("or", k.apply("not", equal), is_left)):
                    to = at(k.bind(taken, "to", count))
                    nest.store(0, to, nest.load(0, at(j)))
                    nest.store(1, to, k.index_value(j))
                    k.set(equals, k.sub(equals, k.cast(equal, int64)))
                    k.set(taken, k.add(taken, 1))

            def may_be_taken(j: Size, found: Any = found) -> Any:
                return k.compare("le", found.integer_at(j), found.integer)

            each_hit(nest, n, may_be_taken, take)

    if is_provably_ge(count, 1):
        emit()
    else:
        with k.when(k.compare("gt", k.index_value(count), 0)):
            emit()


def _select_reference(xp: Any, x: Any, *, k: int, dim: int, largest: bool) -> tuple[Any, Any]:
    order = xp.take(_argsort(xp, x, dim, largest), xp.arange(k), axis=dim)
    order = xp.sort(order, axis=dim)
    return xp.take_along_axis(x, order, axis=dim), order


select_op = Op(
    name="top_select",
    doc="The elements that `topk` gives, in the order in which they lie.",
    infer=_topk_infer,
    reference=strict(_topk_infer, _select_reference),
    vjp=scatter_vjp,
    lowering=LoopNest(_select_emit),
    exact=True,
    grad_name="TopkBackward0",
)

_PART_OF_ROW = 4
"""A row is sorted as a whole where so many times ``k`` elements are more than it has."""


def _topk_decompose(x: Any, *, k: Size, dim: int, largest: bool) -> tuple[Any, Any]:
    found: tuple[Any, Any]
    if k == 1 and largest:
        found = max_dim_op(x, dim=dim, keepdim=True)
        return found
    is_short = is_provably_ge(NETWORK, x.shape[dim])
    if isinstance(k, int) and 0 < k <= FEW and not is_short:
        found = few_op(x, k=k, dim=dim, largest=largest)
        return found
    if is_short or is_provably_ge(_PART_OF_ROW * k, x.shape[dim]):
        values, positions = sort_op(x, dim=dim, descending=largest)
        return narrow(values, dim, 0, k), narrow(positions, dim, 0, k)
    some, places = select_op(x, k=k, dim=dim, largest=largest)
    values, order = sort_op(some, dim=dim, descending=largest)
    return values, gather_op(places, order, dim=dim)


topk_op = Op(
    name="topk",
    doc="The ``k`` largest or smallest elements along ``dim`` in order, and their indices.",
    infer=_topk_infer,
    reference=strict(_topk_infer, _topk_reference),
    vjp=scatter_vjp,
    decompose=_topk_decompose,
    numpy="rows",
    exact=True,
    grad_name="TopkBackward0",
)


@by_shape
@numpy_names
def topk(input: Any, k: Size, dim: int = -1, largest: bool = True, sorted: bool = True) -> Chosen:
    """The ``k`` largest elements along ``dim`` (or smallest) and their indices (int64), as the
    named tuple (values, indices); in order, ``sorted`` or not. NaN is the largest.

    >>> import staticflow as sf
    >>> sf.topk(sf.tensor([3.0, 1.0, 2.0]), 2).values
    tensor([3., 2.])
    """
    return Chosen(*along(topk_op, input, dim, k=as_size(k), largest=largest))
