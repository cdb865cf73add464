"""Selection by masks: tensors of bools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.errors import DTypeError, IndexRangeError
from staticflow.graph.dims import Size, ceil_div, dim_min, prod
from staticflow.graph.dtypes import bool_, int64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.expand import common_shape, expand
from staticflow.ops.basics.view import ravel
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import elementwise, per_arg, strict
from staticflow.ops.declaring.lowering import LoopNest, delinear
from staticflow.ops.indexing.index_functions import filling

__all__ = [
    "masked_fill", "masked_fill_op", "masked_scatter", "masked_scatter_op", "masked_take_op",
]  # fmt: skip


def _is_bool(mask: TensorType) -> None:
    if mask.dtype is not bool_:
        raise DTypeError(f"the mask is {mask.dtype}; it must be bool: compare, as in x > 0")


# -- filling --------------------------------------------------------------------------------------


def _fill_infer(facts: Facts, mask: TensorType, value: TensorType, x: TensorType) -> TensorType:
    _is_bool(mask)
    shape = facts.broadcast([mask.shape, x.shape])
    return TensorType(x.dtype, shape)


masked_fill_op: Op = elementwise(
    "masked_fill",
    "A number where ``mask`` is true, ``x`` elsewhere; takes the mask, the number and ``x``.",
    strict(_fill_infer, lambda xp, mask, value, x: xp.where(mask, value, x)),
    lambda k, mask, value, x: k.select(mask, value, x),
    (
        None,
        lambda ct, out, mask, value, x: where(mask, ct, 0),
        lambda ct, out, mask, value, x: masked_fill(ct, mask, 0),
    ),
    numpy="small",
    exact=True,
    promote="none",
    infer=_fill_infer,
)


@by_shape
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """``input`` with ``value`` (a number or 0-d tensor, cast to the dtype of ``input``) where
    ``mask`` is true; ``input`` and ``mask`` are broadcast.

    >>> import staticflow as sf
    >>> sf.tensor([1.0, -2.0]).masked_fill(sf.tensor([False, True]), 0)
    tensor([1., 0.])
    """
    return masked_fill_op(mask, filling(value, input, "masked_fill"), input)


# -- source elements in the order of the mask -----------------------------------------------------


def _scatter_infer(facts: Facts, x: TensorType, mask: TensorType, src: TensorType) -> TensorType:
    _is_bool(mask)
    if src.dtype is not x.dtype:
        raise DTypeError(f"the source is {src.dtype} and the target {x.dtype}")
    for axis, (n, m) in enumerate(zip(x.shape, mask.shape, strict=True)):
        facts.equal(n, m, f"dim {axis} of the mask {mask} and of {x}")
    return x


def _enough(count: int, size: int) -> None:
    if count > size:
        raise IndexRangeError(
            f"masked_scatter: the mask is true in {count} positions, the source has {size} elements"
        )


def _scatter_reference(xp: Any, x: Any, mask: Any, src: Any) -> Any:
    out = x.copy()
    count = int(mask.sum())
    _enough(count, src.size)
    out[mask] = src[:count]
    return out


_CHUNK = 4096
"""Elements of a mask that a block of threads counts."""


def _count_chunks(nest: Any) -> tuple[str, str]:
    """Have teams count how often the mask is true before each chunk of it, and in all: the buffers
    of both."""
    k, n = nest.k, prod(nest.in_shape(1))
    chunks = ceil_div(n, _CHUNK)
    counts, before, total = (nest.scratch(int64, size) for size in (chunks, chunks, 1))
    with k.loop("chunk", chunks, kind="blocks") as chunk:
        count = k.var(k.const(0, int64))
        with k.loop("i", dim_min(_CHUNK, n - chunk * _CHUNK), kind="threads") as i:
            at = delinear(chunk * _CHUNK + i, nest.in_shape(1))
            k.accumulate(count, "add", k.cast(nest.load(1, at), int64))
        k.store(counts, chunk, count)
    with k.loop("one", 1, kind="blocks"):
        count = k.var(k.const(0, int64))
        with k.loop("chunk", chunks, kind="scan") as chunk:
            own = k.load(counts, chunk)
            k.accumulate(count, "add", own)
            k.store(before, chunk, k.sub(count, own))
        k.store(total, 0, count)
    return before, total


def _visit_in_order(nest: Any, before: str, visit: Callable[[Any, Any, Any], None]) -> None:
    """Have teams ``visit(at, is_true, rank)`` all elements of the mask, where ``rank`` says of how
    many before it it is true."""
    k, n = nest.k, prod(nest.in_shape(1))
    with k.loop("chunk", ceil_div(n, _CHUNK), kind="blocks") as chunk:
        count = k.var(k.load(before, chunk))
        with k.loop("i", dim_min(_CHUNK, n - chunk * _CHUNK), kind="scan") as i:
            at = delinear(chunk * _CHUNK + i, nest.in_shape(1))
            is_true = nest.load(1, at)
            k.accumulate(count, "add", k.cast(is_true, int64))
            visit(at, is_true, k.sub(count, k.cast(is_true, int64)))


def _scatter_by_teams(nest: Any) -> None:
    k = nest.k
    (size,) = nest.in_shape(2)
    before, total = _count_chunks(nest)
    nest.check_index(k.load(total, 0), size + 1)

    def visit(at: Any, is_true: Any, rank: Any) -> None:
        k.choose(
            is_true,
            lambda: nest.store(0, at, nest.load(2, (k.bind(rank, "at", size),))),
            lambda: nest.store(0, at, nest.load(0, at)),
        )

    _visit_in_order(nest, before, visit)


def _scatter_emit(nest: Any) -> None:
    if nest.has_teams:
        _scatter_by_teams(nest)
        return
    k = nest.k
    (size,) = nest.in_shape(2)
    count = k.var(k.const(0, int64))
    with nest.loops(nest.in_shape(0), "serial") as at:
        nest.store(0, at, nest.load(0, at))
        with k.when(nest.load(1, at)):
            nest.check_index(count, size)
            nest.store(0, at, nest.load(2, (k.bind(count, "at", size),)))
            k.set(count, k.add(count, 1))


def _take_vjp(ct: Any, out: Any, x: Any, mask: Any, *, size: Size) -> Any:
    return masked_scatter_op(zeros_like(x), mask, ct)


masked_scatter_op: Op = Op(
    name="masked_scatter",
    doc="``x`` with the elements of a vector, in order, where ``mask`` is true.",
    infer=_scatter_infer,
    reference=strict(_scatter_infer, _scatter_reference),
    vjp=per_arg(
        lambda ct, out, x, mask, src: masked_fill(ct, mask, 0),
        None,
        lambda ct, out, x, mask, src: masked_take_op(ct, mask, size=src.shape[0]),
    ),
    lowering=LoopNest(_scatter_emit),
    grad_name="MaskedScatterBackward0",
)


def _take_infer(facts: Facts, x: TensorType, mask: TensorType, *, size: Size) -> TensorType:
    _scatter_infer(facts, x, mask, x)
    return TensorType(x.dtype, (size,))


def _take_reference(xp: Any, x: Any, mask: Any, *, size: int) -> Any:
    out = xp.zeros(size, x.dtype)
    found = x[mask][:size]
    out[: found.size] = found
    return out


def _take_emit(nest: Any) -> None:
    k = nest.k
    size = nest.attrs["size"]
    nest.zero()

    def store(at: Any, is_true: Any, rank: Any) -> None:
        fits = k.compare("lt", rank, k.index_value(size))
        with k.when(k.apply("and", is_true, fits)):
            nest.store(0, (k.bind(rank, "at", size),), nest.load(0, at))

    if nest.has_teams:
        _visit_in_order(nest, _count_chunks(nest)[0], store)
        return
    count = k.var(k.const(0, int64))
    with nest.loops(nest.in_shape(0), "serial") as at:
        fits = k.compare("lt", count, k.index_value(size))
        with k.when(k.apply("and", nest.load(1, at), fits)):
            nest.store(0, (k.bind(count, "at", size),), nest.load(0, at))
            k.set(count, k.add(count, 1))


masked_take_op: Op = Op(
    name="masked_take",
    doc="A vector of ``size``: the elements of ``x`` where ``mask`` is true, in order, then zeros; "
    "the transpose of masked_scatter.",
    infer=_take_infer,
    reference=strict(_take_infer, _take_reference),
    vjp=per_arg(_take_vjp, None),
    lowering=LoopNest(_take_emit),
    grad_name="MaskedScatterBackward0",
)


@by_shape
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """``input`` with the elements of ``source``, in row-major order, where ``mask`` (broadcast) is
    true; ``input`` is not changed.

    Raises `IndexRangeError` if ``source`` has fewer elements than positions.

    >>> import staticflow as sf
    >>> sf.masked_scatter(sf.zeros(3), sf.tensor([True, False, True]), sf.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    shape = common_shape([input.shape, mask.shape], "masked_scatter")
    return masked_scatter_op(expand(input, shape), expand(mask, shape), ravel(source))
