"""Selection by values that are known only when the program runs."""

from __future__ import annotations

from typing import Any

from staticflow.errors import DTypeError, IndexRangeError, ShapeError
from staticflow.graph.dims import Size, dim_max, is_provably_ge
from staticflow.graph.dtypes import int64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.creation import zeros_like
from staticflow.ops.declare import normalize_dim, per_arg, strict
from staticflow.ops.lowering import LoopNest
from staticflow.ops.slicing import embed_op
from staticflow.ops.view import reshape

__all__ = ["gather", "gather_op", "scatter_add", "scatter_add_op"]


def _fits(facts: Facts, x: TensorType, index: TensorType, dim: int) -> None:
    """An index tensor may be smaller than the tensor in every dim but ``dim``."""
    if index.dtype.kind not in "iu":
        raise DTypeError(f"the index is {index.dtype}; it must be of an integer dtype")
    if index.ndim != x.ndim:
        raise ShapeError(f"the index {index} must have as many dims as {x}")
    for axis, (n, m) in enumerate(zip(x.shape, index.shape, strict=True)):
        if axis != dim and not is_provably_ge(n, m):
            facts.equal(dim_max(n, m), n, f"dim {axis} of the index {index} lies within {x}")


def _gather_infer(facts: Facts, x: TensorType, index: TensorType, *, dim: int) -> TensorType:
    _fits(facts, x, index, dim)
    return TensorType(x.dtype, index.shape)


def check_range(xp: Any, index: Any, size: int, what: str) -> None:
    """Raises `IndexRangeError` naming the first index outside ``[0, size)``."""
    bad = (index < 0) | (index >= size)
    if bad.any():
        at = tuple(int(i) for i in xp.argwhere(bad)[0])
        value = int(index[at])
        raise IndexRangeError(
            f"{what}: the index {value}, at {list(at)}, is outside dim of size {size}; "
            f"it must be from 0 to {size - 1}"
        )


def _within(x: Any, index: Any, dim: int) -> Any:
    return x[tuple(slice(None) if a == dim else slice(n) for a, n in enumerate(index.shape))]


def _gather_reference(xp: Any, x: Any, index: Any, *, dim: int) -> Any:
    check_range(xp, index, x.shape[dim], "gather")
    return xp.take_along_axis(_within(x, index, dim), index.astype(xp.int64), axis=dim)


def _chosen(nest: Any, at: tuple[Size, ...], size: Size, which: int) -> tuple[Size, ...]:
    """The place that the index at ``at`` selects, checked."""
    k, dim = nest.k, nest.attrs["dim"]
    chosen = k.cast(nest.load(which, at), int64)
    nest.check_index(chosen, size)
    return (*at[:dim], k.bind(chosen, "at", size), *at[dim + 1 :])


def _gather_emit(nest: Any) -> None:
    size = nest.in_shape(0)[nest.attrs["dim"]]
    with nest.loops(nest.in_shape(1), "parallel") as at:
        nest.store(0, at, nest.load(0, _chosen(nest, at, size, 1)))


gather_op = Op(
    name="gather",
    doc="``out[i, j] = x[index[i, j], j]`` for dim 0, and so on.",
    infer=_gather_infer,
    reference=strict(_gather_infer, _gather_reference),
    vjp=per_arg(
        lambda ct, out, x, index, *, dim: scatter_add_op(zeros_like(x), index, ct, dim=dim), None
    ),
    lowering=LoopNest(_gather_emit),
    saves=(1,),
    grad_name="GatherBackward0",
)


def gather(x: Any, dim: int, index: Any) -> Any:
    """The elements of ``x`` that ``index`` names along ``dim``: ``out[i, j] = x[i, index[i, j]]``
    for ``dim=1``. ``index`` has the dims of ``x`` and an integer dtype.

    Raises `IndexRangeError` for an index outside ``[0, x.shape[dim])``.
    """
    at = normalize_dim(dim, x.ndim, "gather")
    if x.shape == index.shape == ():
        return reshape(gather_op(reshape(x, (1,)), reshape(index, (1,)), dim=0), ())
    return gather_op(x, index, dim=at)


def _scatter_infer(
    facts: Facts, x: TensorType, index: TensorType, src: TensorType, *, dim: int
) -> TensorType:
    _fits(facts, x, index, dim)
    if src.dtype is not x.dtype:
        raise DTypeError(f"the source is {src.dtype} and the target {x.dtype}")
    if src.ndim != index.ndim:
        raise ShapeError(f"the source {src} must have as many dims as the index {index}")
    for axis, (n, m) in enumerate(zip(src.shape, index.shape, strict=True)):
        if not is_provably_ge(n, m):
            facts.equal(dim_max(n, m), n, f"dim {axis} of the index {index} lies within {src}")
    return x


def _scatter_reference(xp: Any, x: Any, index: Any, src: Any, *, dim: int) -> Any:
    check_range(xp, index, x.shape[dim], "scatter_add")
    out = x.copy()
    place = list(xp.indices(index.shape, sparse=True))
    place[dim] = index
    source = src[tuple(slice(n) for n in index.shape)]
    xp.add.at(out, tuple(place), source)
    return out


def _scatter_emit(nest: Any) -> None:
    k = nest.k
    size = nest.in_shape(0)[nest.attrs["dim"]]
    with nest.loops(nest.in_shape(0), "parallel") as at:
        nest.store(0, at, nest.load(0, at))
    with nest.loops(nest.in_shape(1), "serial") as at:  # in order: places may repeat
        place = _chosen(nest, at, size, 1)
        nest.store(0, place, k.add(nest.load_out(0, place), nest.load(2, at)))


def _source_vjp(ct: Any, out: Any, x: Any, index: Any, src: Any, *, dim: int) -> Any:
    """A source may be larger than the index: what lies outside of it is not read."""
    used = gather_op(ct, index, dim=dim)
    if index.shape == src.shape:
        return used
    rank = len(src.shape)
    return embed_op(used, shape=src.shape, start=(0,) * rank, step=(1,) * rank)


scatter_add_op: Op = Op(
    name="scatter_add",
    doc="``x`` with ``src`` added where ``index`` says, places that repeat in order.",
    infer=_scatter_infer,
    reference=strict(_scatter_infer, _scatter_reference),
    vjp=per_arg(
        lambda ct, out, x, index, src, *, dim: ct,
        None,
        _source_vjp,
    ),
    lowering=LoopNest(_scatter_emit),
    saves=(1,),
    grad_name="ScatterAddBackward0",
)


def scatter_add(x: Any, dim: int, index: Any, src: Any) -> Any:
    """``x`` with ``src[i, j]`` added at ``[i, index[i, j]]`` for ``dim=1``; ``x`` is not changed.

    Raises `IndexRangeError` for an index outside ``[0, x.shape[dim])``.
    """
    at = normalize_dim(dim, x.ndim, "scatter_add")
    if x.shape == index.shape == src.shape == ():
        rows = (reshape(v, (1,)) for v in (x, index, src))
        return reshape(scatter_add_op(*rows, dim=0), ())
    return scatter_add_op(x, index, src, dim=at)
