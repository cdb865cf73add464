"""Reductions over dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Size, dim_max, is_provably_ge, prod
from staticflow.graph.dtypes import DType, bool_, dtype_of, float32, int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import OUT, Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.arithmetic import cast, div, where
from staticflow.ops.creation import zeros_like
from staticflow.ops.declare import normalize_dim, normalize_dims, per_arg
from staticflow.ops.indexing import gather
from staticflow.ops.lowering import LoopNest, Reduce
from staticflow.ops.view import expand, reshape, squeeze

__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "max", "mean", "min", "sum"]

Dims = int | Sequence[int] | None


def reduced_shape(shape: Shape, dims: tuple[int, ...], keepdim: bool) -> Shape:
    """``shape`` with ``dims`` gone, or 1 with ``keepdim``."""
    kept = (1 if i in dims else d for i, d in enumerate(shape) if keepdim or i not in dims)
    return tuple(kept)


def _infer(facts: Facts, x: TensorType, *, dims: tuple[int, ...], keepdim: bool) -> TensorType:
    return TensorType(x.dtype, reduced_shape(x.shape, dims, keepdim))


def restored(y: Any, shape: Shape, dims: tuple[int, ...], keepdim: bool) -> Any:
    """A reduction's result (or its cotangent) stretched over what it was reduced from."""
    if not keepdim:
        y = reshape(y, reduced_shape(shape, dims, True))
    return expand(y, shape)


def _wide_sum(xp: Any, x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The sum in the dtype it is made in: float32 for 16-bit floats."""
    wide = xp.float32 if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x.dtype
    return xp.asarray(xp.sum(x, axis=dims, keepdims=keepdim, dtype=wide))


def _sum_reference(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    return _wide_sum(xp, x, dims, keepdim).astype(x.dtype)


sum_op = Op(
    name="sum",
    doc="The sum over ``dims``; 0 of nothing.",
    infer=_infer,
    reference=_sum_reference,
    vjp=per_arg(lambda ct, out, x, *, dims, keepdim: restored(ct, x.shape, dims, keepdim)),
    lowering=Reduce("add"),
    grad_name="SumBackward0",
)


def _mean_reference(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    count = prod(x.shape[d] for d in dims)
    total = _wide_sum(xp, x, dims, keepdim)
    with xp.errstate(invalid="ignore", divide="ignore"):
        return xp.asarray(total / total.dtype.type(count)).astype(x.dtype)


def share(x: Any, count: Size) -> Any:
    """``x / count``, also where a 16-bit float cannot hold the count."""
    if x.dtype.bits > 16:
        return x / count
    return cast(cast(x, dtype=float32) / count, dtype=x.dtype)


def _mean_vjp(ct: Any, out: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    return restored(share(ct, prod(x.shape[d] for d in dims)), x.shape, dims, keepdim)


def _mean_decompose(x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    # the sum of 16-bit floats may be out of their range, their mean is not
    wide = x if x.dtype.bits > 16 else cast(x, dtype=float32)
    mean = div(sum_op(wide, dims=dims, keepdim=keepdim), prod(x.shape[d] for d in dims))
    return mean if wide is x else cast(mean, dtype=x.dtype)


mean_op = Op(
    name="mean",
    doc="The arithmetic mean over ``dims``; NaN of nothing.",
    infer=_infer,
    reference=_mean_reference,
    vjp=per_arg(_mean_vjp),
    decompose=_mean_decompose,
    grad_name="MeanBackward0",
)


def _extreme_vjp(ct: Any, out: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    """Shared evenly among ties, as PyTorch's amax and amin do; where NaN won, among the NaNs."""
    hit = (x == restored(out, x.shape, dims, keepdim)) | (x != x)
    ties = sum_op(cast(hit, dtype=ct.dtype), dims=dims, keepdim=keepdim)
    return where(hit, restored(ct / ties, x.shape, dims, keepdim), 0.0)


def _bounds(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The largest and the smallest value, infinities included."""
    if dtype.kind == "b":
        return True, False
    if dtype.kind in "iu":
        return np.iinfo(dtype).max, np.iinfo(dtype).min
    return np.inf, -np.inf


def _extreme_op(name: str, which: str, numpy_name: str, combine: str, of_nothing: int) -> Op:
    def reference(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
        if 0 in (x.shape[d] for d in dims):
            shape = reduced_shape(x.shape, dims, keepdim)
            return xp.full(shape, _bounds(x.dtype)[of_nothing], dtype=x.dtype)
        return getattr(xp, numpy_name)(x, axis=dims, keepdims=keepdim)

    return Op(
        name=name,
        doc=f"The {which} element over ``dims``; NaN if there is one, of nothing the neutral one.",
        infer=_infer,
        reference=reference,
        vjp=per_arg(_extreme_vjp),
        lowering=Reduce(combine),
        saves=(0, OUT),
        grad_name=f"{name.title()}Backward0",
    )


amax_op = _extreme_op("amax", "largest", "max", "max", of_nothing=1)
amin_op = _extreme_op("amin", "smallest", "min", "min", of_nothing=0)


def _bool_infer(facts: Facts, x: TensorType, *, dims: Any, keepdim: bool) -> TensorType:
    if x.dtype is not bool_:
        raise DTypeError(f"takes a bool tensor, not {x.dtype}; compare first, as in x != 0")
    return _infer(facts, x, dims=dims, keepdim=keepdim)


all_op = Op(
    name="all",
    doc="Whether every element over ``dims`` is true; true of nothing.",
    infer=_bool_infer,
    reference=lambda xp, x, *, dims, keepdim: xp.all(x, axis=dims, keepdims=keepdim),
    vjp=None,
    lowering=Reduce("and"),
)

any_op = Op(
    name="any",
    doc="Whether any element over ``dims`` is true; false of nothing.",
    infer=_bool_infer,
    reference=lambda xp, x, *, dims, keepdim: xp.any(x, axis=dims, keepdims=keepdim),
    vjp=None,
    lowering=Reduce("or"),
)


def _arg_infer(facts: Facts, x: TensorType, *, dim: int, keepdim: bool) -> TensorType:
    if not is_provably_ge(x.shape[dim], 1):
        some = dim_max(x.shape[dim], 1)
        facts.equal(some, x.shape[dim], f"the extreme of nothing, dim {dim} of {x}")
    return TensorType(int64, reduced_shape(x.shape, (dim,), keepdim))


def _arg_emit(wins: str) -> Any:
    """The first extreme; a NaN beats every number, as in NumPy and PyTorch."""

    def emit(nest: Any) -> None:
        k, dim = nest.k, nest.attrs["dim"]
        shape = nest.in_shape(0)
        outer = tuple(d for i, d in enumerate(shape) if i != dim)
        with nest.loops(outer, "parallel") as index:

            def at(j: Size) -> tuple[Size, ...]:
                return (*index[:dim], j, *index[dim:])

            best = k.var(nest.load(0, at(0)))
            where_ = k.var(k.const(0, int64))
            with k.loop("j", shape[dim], lo=1) as j:
                value = nest.load(0, at(j))
                better = k.compare(wins, value, best)
                if value.dtype.is_floating:
                    first_nan = k.apply(
                        "and", k.compare("ne", value, value), k.compare("eq", best, best)
                    )
                    better = k.apply("or", better, first_nan)
                k.set(where_, k.select(better, k.index_value(j, 1), where_))
                k.set(best, k.select(better, value, best))
            place = (*index[:dim], 0, *index[dim:]) if nest.attrs["keepdim"] else index
            nest.store(0, place, where_)

    return emit


def _arg_op(name: str, wins: str, which: str) -> Op:
    return Op(
        name=name,
        doc=f"The index of the first {which} element along ``dim``; of a NaN if there is one.",
        infer=_arg_infer,
        reference=lambda xp, x, *, dim, keepdim: xp.asarray(
            getattr(xp, name)(x, axis=dim, keepdims=keepdim)
        ).astype(xp.int64),
        vjp=None,
        lowering=LoopNest(_arg_emit(wins)),
    )


argmax_op = _arg_op("argmax", "gt", "largest")
argmin_op = _arg_op("argmin", "lt", "smallest")


class MaxResult(NamedTuple):
    """What ``max(x, dim)`` and ``min(x, dim)`` return."""

    values: Any
    indices: Any


def sum(x: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum of the elements over ``dim`` (an int, several, or None for all). Bools and integers
    are summed in int64 unless ``dtype`` says otherwise.

    >>> import staticflow as sf
    >>> sf.sum(sf.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    """
    wanted: DType = dtype_of(dtype) if dtype is not None else x.dtype
    if dtype is None and not wanted.is_floating:
        wanted = int64
    x = x if x.dtype is wanted else cast(x, dtype=wanted)
    return sum_op(x, dims=normalize_dims(dim, x.ndim, "sum"), keepdim=keepdim)


def mean(x: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The arithmetic mean over ``dim``; of floating tensors, or in a floating ``dtype``."""
    if dtype is not None:
        x = cast(x, dtype=dtype_of(dtype))
    if not x.dtype.is_floating:
        raise DTypeError(
            f"mean: of {x.dtype.name}; give a floating dtype, as in mean(x, dtype='float32'), "
            f"at {format_locs(here())}"
        )
    return mean_op(x, dims=normalize_dims(dim, x.ndim, "mean"), keepdim=keepdim)


def _extreme(x: Any, dim: Dims, keepdim: bool, op: Op) -> Any:
    dims = normalize_dims(dim, x.ndim, op.name)
    for d in dims:
        if isinstance(x.shape[d], int) and x.shape[d] == 0:
            raise ShapeError(
                f"{op.name}: the extreme of nothing: dim {d} of shape {list(x.shape)} has size 0, "
                f"at {format_locs(here())}"
            )
    return op(x, dims=dims, keepdim=keepdim)


def amax(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """The largest element over ``dim`` (an int, several, or None for all); NaN if there is one.

    Where there is nothing a `ShapeError`; but where a size known only as a program runs turns out
    0, the neutral element (-inf).

    >>> import staticflow as sf
    >>> sf.amax(sf.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
    tensor([4., 3.])
    """
    return _extreme(x, dim, keepdim, amax_op)


def amin(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """The smallest element over ``dim``, as `amax`."""
    return _extreme(x, dim, keepdim, amin_op)


def _extreme_along(x: Any, dim: int | None, keepdim: bool, full: Op, arg: Op, name: str) -> Any:
    if dim is None:
        return _extreme(x, None, keepdim, full)
    dim = normalize_dim(dim, x.ndim, name)
    if x.ndim == 0:
        return MaxResult(x, cast(zeros_like(x), dtype=int64))
    indices = arg(x, dim=dim, keepdim=True)
    values = gather(x, dim, indices)
    if keepdim:
        return MaxResult(values, indices)
    return MaxResult(squeeze(values, dim), squeeze(indices, dim))


def max(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The largest element, or with ``dim`` the named tuple (values, indices) along it."""
    return _extreme_along(x, dim, keepdim, amax_op, argmax_op, "max")


def min(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest element, or with ``dim`` the named tuple (values, indices) along it."""
    return _extreme_along(x, dim, keepdim, amin_op, argmin_op, "min")


def _arg(x: Any, dim: int | None, keepdim: bool, op: Op) -> Any:
    if dim is None or x.ndim == 0:
        at = op(reshape(x, (prod(x.shape),)), dim=0, keepdim=False)
        return reshape(at, (1,) * x.ndim) if keepdim else at
    return op(x, dim=normalize_dim(dim, x.ndim, op.name), keepdim=keepdim)


def argmax(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index (int64) of the largest element along ``dim``, or in the flattened tensor."""
    return _arg(x, dim, keepdim, argmax_op)


def argmin(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index (int64) of the smallest element along ``dim``, or in the flattened tensor."""
    return _arg(x, dim, keepdim, argmin_op)


def all(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether all elements over ``dim`` are nonzero."""
    x = x if x.dtype is bool_ else x != 0
    return all_op(x, dims=normalize_dims(dim, x.ndim, "all"), keepdim=keepdim)


def any(x: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether any element over ``dim`` is nonzero."""
    x = x if x.dtype is bool_ else x != 0
    return any_op(x, dims=normalize_dims(dim, x.ndim, "any"), keepdim=keepdim)
