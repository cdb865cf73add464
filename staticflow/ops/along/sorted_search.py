"""Where values belong among sorted ones. NaN is the largest of all."""

from __future__ import annotations

from typing import Any

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import int32, int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.along.order import before, sortable
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import same_size, strict
from staticflow.ops.declaring.lowering import LoopNest
from staticflow.ops.declaring.promote import is_number, result_type
from staticflow.ops.indexing.gather_ops import gather

__all__ = ["bucketize", "searchsorted"]


def _search_infer(facts: Facts, edges: TensorType, x: TensorType, *, right: bool) -> TensorType:
    if edges.dtype is not x.dtype:
        raise DTypeError(f"the sorted {edges} and the values {x} are of different dtypes")
    if edges.ndim == 0:
        raise ShapeError("the sorted elements are 0-d; they need a dim to lie along")
    if edges.ndim > 1:
        if edges.ndim != x.ndim:
            raise ShapeError(f"the sorted {edges} and the values {x} differ in their dims")
        for a, b in zip(edges.shape[:-1], x.shape[:-1], strict=True):
            facts.equal(a, b, f"the sizes of the sorted {edges} and of the values {x}")
    return TensorType(int64, x.shape)


def _search_reference(xp: Any, edges: Any, x: Any, *, right: bool) -> Any:
    """Step by step as `_search_emit`, so that elements that are not sorted give the same."""
    edges, x = sortable(xp, edges), sortable(xp, x)
    low, left = xp.zeros(x.shape, xp.int64), edges.shape[-1]
    while left > 0:
        half = (left + 1) >> 1
        middle = low + (half - 1)
        edge = edges[middle] if edges.ndim == 1 else xp.take_along_axis(edges, middle, -1)
        goes_on = ~_is_before(xp, x, edge) if right else _is_before(xp, edge, x)
        low = xp.where(goes_on, low + half, low)
        left -= half
    return low


def _is_before(xp: Any, a: Any, b: Any) -> Any:
    """Where ``a`` stands strictly before ``b``, as `before`."""
    return (a < b) | ((a == a) & (b != b)) if b.dtype.kind == "f" else a < b


_HALVINGS = 63
"""Steps of a search in any number of elements, at most."""


def _search_emit(nest: Any) -> None:
    """Each step halves what is left, whatever it finds: all values take as many steps, in which no
    branch is to be guessed."""
    k, right = nest.k, nest.attrs["right"]
    edges, shape = nest.in_shape(0), nest.in_shape(1)
    n = edges[-1]

    def further(low: Any, behind: Any, half: Any, goes_on: Any) -> Any:
        """``behind``, which is ``low + half``, if the search ``goes_on`` there, else ``low``. Where
        one comparison of integers tells, LLVM makes a branch of a select, which is guessed wrong
        half the time: 100,000 values among 1,000 took 3.7 ms, and take 0.64."""
        if nest.in_type(0).dtype.is_floating:
            return k.select(goes_on, behind, low)
        return k.add(low, k.apply("and", half, k.apply("neg", k.cast(goes_on, int64))))

    with nest.loops(shape, "parallel") as at:
        value, low = nest.load(1, at), k.var(k.const(0, int64))
        left = k.var(k.index_value(n))
        some = k.var(k.compare("gt", left, 0))
        with k.loop("step", _HALVINGS, going=some):
            half = k.apply("shr", k.add(left, 1), 1)
            behind = k.add(low, half)
            row = at[:-1] if len(edges) > 1 else ()
            edge = nest.load(0, (*row, k.bind(k.add(behind, -1), "middle", n)))
            goes_on = before(k, edge, value, False)
            if right:
                goes_on = k.apply("not", before(k, value, edge, False))
            k.set(low, further(low, behind, half, goes_on))
            k.set(left, k.apply("sub", left, half))
            k.set(some, k.compare("gt", left, 0))
        nest.store(0, at, low)


search_op = Op(
    name="searchsorted",
    doc="How many of the sorted elements are smaller than each value, with ``right`` not larger.",
    infer=_search_infer,
    reference=strict(_search_infer, _search_reference),
    vjp=None,
    lowering=LoopNest(_search_emit),
    promote="common",
    numpy="slower",
    exact=True,
)


@by_shape
def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Where in ``sorted_sequence`` (n,) or (..., n) each value of ``input`` (..., m) would be put
    to keep the order: before its equals, or with ``right`` (or ``side="right"``) behind them.
    Indices are int64, or int32 with ``out_int32``. NaN is the largest. A sequence that is not
    sorted comes with the ``sorter`` that `argsort` gives, of its shape.

    >>> import staticflow as sf
    >>> sf.searchsorted(sf.tensor([1.0, 3.0, 5.0]), sf.tensor([3.0, 6.0]))
    tensor([1, 3])
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ShapeError(
            f'searchsorted: the side is {side!r} and right {right}; give one of them, "left" or '
            f'"right", at {format_locs(here())}'
        )
    if sorter is not None:
        if sorter.ndim != sorted_sequence.ndim or not all(
            map(same_size, sorter.shape, sorted_sequence.shape)
        ):
            raise ShapeError(
                f"searchsorted: the sorter has the shape {list(sorter.shape)} and the sequence "
                f"{list(sorted_sequence.shape)}; they must be equal, at {format_locs(here())}"
            )
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    if is_number(input):
        dtype = result_type([sorted_sequence, input])
        input = sorted_sequence.new_full((), input, dtype=dtype)
    out = search_op(sorted_sequence, input, right=right or side == "right")
    return cast(out, dtype=int32) if out_int32 else out


@by_shape
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """The index of the bucket between ``boundaries`` (sorted, (n,)) that each element lies in, as
    `searchsorted` finds it.

    >>> import staticflow as sf
    >>> sf.bucketize(sf.tensor([0.0, 3.0, 9.0]), sf.tensor([1.0, 3.0, 5.0]))
    tensor([0, 1, 3])
    """
    if boundaries.ndim != 1:
        raise ShapeError(
            f"bucketize: the boundaries have shape {list(boundaries.shape)}; they must be a "
            f"vector; rows of them are for searchsorted, at {format_locs(here())}"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
