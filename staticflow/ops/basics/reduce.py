"""Reductions over dims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.dims import Size, prod
from staticflow.graph.dtypes import DType, bool_, dtype_of, float32, float64, int64, uint8
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, Shape, TensorType
from staticflow.ops.basics.arithmetic import cast, div, where
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim, normalize_dims, per_arg
from staticflow.ops.declaring.lowering import Reduce
from staticflow.ops.declaring.numpy_names import numpy_names

__all__ = ["all", "any", "count_nonzero", "mean", "nanmean", "nansum", "sum"]

Dims = int | Sequence[int] | None


def reduced_shape(shape: Shape, dims: tuple[int, ...], keepdim: bool) -> Shape:
    """``shape`` with ``dims`` gone, or 1 with ``keepdim``."""
    kept = (1 if i in dims else d for i, d in enumerate(shape) if keepdim or i not in dims)
    return tuple(kept)


def reduced_type(
    facts: Facts, x: TensorType, *, dims: tuple[int, ...], keepdim: bool
) -> TensorType:
    """The type rule of a reduction that keeps the dtype."""
    return TensorType(x.dtype, reduced_shape(x.shape, dims, keepdim))


def expand_back(y: Any, shape: Shape, dims: tuple[int, ...], keepdim: bool) -> Any:
    """A reduction's result (or its cotangent) stretched over what it was reduced from."""
    if not keepdim:
        y = reshape(y, reduced_shape(shape, dims, True))
    return expand(y, shape)


def dims_of(dim: Dims, ndim: int, what: str) -> tuple[int, ...]:
    """The dims that a function reduces over: None and no dims are all."""
    return normalize_dims(None if isinstance(dim, Sequence) and not dim else dim, ndim, what)


def along(op: Op, x: Any, dim: int, **attrs: Any) -> Any:
    """An op of one tensor along ``dim``; of a 0-d tensor as of its one element."""
    at = normalize_dim(dim, x.ndim, op.name.removesuffix("_dim"))
    if x.ndim:
        return op(x, dim=at, **attrs)
    out = op(reshape(x, (1,)), dim=0, **attrs)
    return tuple(reshape(o, ()) for o in out) if isinstance(out, tuple) else reshape(out, ())


def wide(dtype: DType) -> DType:
    """The dtype in which values of ``dtype`` are accumulated."""
    return float32 if dtype.is_floating and dtype.bits == 16 else dtype


def longest(dtype: DType) -> DType:
    """The dtype in which values of ``dtype`` are accumulated where each total is wanted."""
    return float64 if dtype.is_floating else dtype


def widen(x: Any) -> Any:
    """``x`` in the dtype in which its values are accumulated."""
    return x if wide(x.dtype) is x.dtype else cast(x, dtype=wide(x.dtype))


def narrow_as(y: Any, like: Any) -> Any:
    """``y`` in the dtype of ``like``, from which it was computed `widen`."""
    return y if y.dtype is like.dtype else cast(y, dtype=like.dtype)


def add_wide(put: Callable[[Any, Any], Any], x: Any, source: Any) -> Any:
    """``put(x, source)``, which adds the source in positions that may repeat, in the dtype in which
    values are accumulated; ``put`` itself refuses a source of another dtype than ``x``."""
    if x.dtype is not source.dtype:
        return put(x, source)
    return narrow_as(put(widen(x), widen(source)), x)


def summable(x: Any, dtype: Any) -> Any:
    """``x`` in ``dtype``; without one, integers and bools in int64. Refuses bool."""
    wanted = dtype_of(dtype) if dtype is not None else x.dtype if x.dtype.is_floating else int64
    if wanted is bool_:
        raise DTypeError(
            "bools are neither added nor multiplied along a dim; take an integer dtype and compare "
            f"the result, as in y != 0, at {format_locs(here())}"
        )
    return x if x.dtype is wanted else cast(x, dtype=wanted)


def is_bool(dtype: Any) -> bool:
    """Whether an argument ``dtype`` asks for bool."""
    return dtype is not None and dtype_of(dtype) is bool_


def as_truth(x: Any) -> Any:
    """Whether each element of ``x`` is nonzero."""
    return x if x.dtype is bool_ else x != 0


@lru_cache(None)
def accumulator(dtype: Any) -> Any:
    """`wide` of NumPy's dtypes."""
    return wide(dtype_of(dtype)).numpy


def _wide_sum(xp: Any, x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The sum in the dtype it is made in: float32 for 16-bit floats."""
    return xp.asarray(x.sum(axis=dims, keepdims=keepdim, dtype=accumulator(x.dtype)))


def _sum_reference(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    total = _wide_sum(xp, x, dims, keepdim)
    return total if total.dtype is x.dtype else total.astype(x.dtype, copy=False)


sum_op = Op(
    name="sum",
    doc="The sum over ``dims``; 0 of nothing.",
    infer=reduced_type,
    reference=_sum_reference,
    vjp=per_arg(lambda ct, out, x, *, dims, keepdim: expand_back(ct, x.shape, dims, keepdim)),
    lowering=Reduce("add"),
    numpy="small",
    grad_name="SumBackward0",
)


def _mean_reference(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    count = prod(x.shape[d] for d in dims)
    total = _wide_sum(xp, x, dims, keepdim)
    if not count:
        return xp.full(total.shape, xp.nan, x.dtype)
    return xp.asarray(total / total.dtype.type(count)).astype(x.dtype, copy=False)


def share(x: Any, count: Size) -> Any:
    """``x / count``, also where a 16-bit float cannot hold the count."""
    return narrow_as(widen(x) / count, x)


def _mean_vjp(ct: Any, out: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    return expand_back(share(ct, prod(x.shape[d] for d in dims)), x.shape, dims, keepdim)


def _mean_decompose(x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    # the sum of 16-bit floats may be out of their range, their mean is not
    total = sum_op(widen(x), dims=dims, keepdim=keepdim)
    return narrow_as(div(total, prod(x.shape[d] for d in dims)), x)


mean_op = Op(
    name="mean",
    doc="The arithmetic mean over ``dims``; NaN of nothing.",
    infer=reduced_type,
    reference=_mean_reference,
    vjp=per_arg(_mean_vjp),
    decompose=_mean_decompose,
    numpy="small",
    grad_name="MeanBackward0",
)


def _nansum_reference(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    zero = x.dtype.type(0)
    return _sum_reference(xp, xp.where(x == x, x, zero), dims=dims, keepdim=keepdim)


def _nansum_vjp(ct: Any, out: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    return where(x == x, expand_back(ct, x.shape, dims, keepdim), 0)


nansum_op = Op(
    name="nansum",
    doc="The sum over ``dims`` of what is not NaN; 0 of nothing.",
    infer=reduced_type,
    reference=_nansum_reference,
    vjp=per_arg(_nansum_vjp),
    decompose=lambda x, *, dims, keepdim: sum_op(where(x == x, x, 0), dims=dims, keepdim=keepdim),
    numpy="slower",
    grad_name="NansumBackward0",
)


def _bool_infer(facts: Facts, x: TensorType, *, dims: Any, keepdim: bool) -> TensorType:
    if x.dtype is not bool_:
        raise DTypeError(f"takes a bool tensor, not {x.dtype}; compare first, as in x != 0")
    return reduced_type(facts, x, dims=dims, keepdim=keepdim)


all_op = Op(
    name="all",
    doc="Whether every element over ``dims`` is true; true of nothing.",
    infer=_bool_infer,
    reference=lambda xp, x, *, dims, keepdim: xp.all(x, axis=dims, keepdims=keepdim),
    vjp=None,
    lowering=Reduce("and"),
    numpy="small",
    exact=True,
)

any_op = Op(
    name="any",
    doc="Whether any element over ``dims`` is true; false of nothing.",
    infer=_bool_infer,
    reference=lambda xp, x, *, dims, keepdim: xp.any(x, axis=dims, keepdims=keepdim),
    vjp=None,
    lowering=Reduce("or"),
    numpy="small",
    exact=True,
)


def _count_infer(facts: Facts, x: TensorType, *, dims: Any, keepdim: bool) -> TensorType:
    return replace(_bool_infer(facts, x, dims=dims, keepdim=keepdim), dtype=int64)


def _count_reference(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    if len(dims) < x.ndim or keepdim:
        return xp.asarray(x.sum(axis=dims, keepdims=keepdim, dtype=xp.int64))
    return xp.asarray(xp.count_nonzero(x), xp.int64)  # which NumPy is fastest at


count_op = Op(
    name="count",
    doc="How many elements over ``dims`` are true.",
    infer=_count_infer,
    reference=_count_reference,
    vjp=None,
    decompose=lambda x, *, dims, keepdim: sum_op(cast(x, dtype=int64), dims=dims, keepdim=keepdim),
    numpy="small",
    exact=True,
)


@by_shape
@numpy_names
def sum(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum of the elements over ``dim`` (an int, several, or None for all). Bools and integers
    are summed in int64 unless ``dtype`` says otherwise; in bool it is `any`.

    >>> import staticflow as sf
    >>> sf.sum(sf.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    """
    dims = dims_of(dim, input.ndim, "sum")
    if is_bool(dtype):
        return any_op(as_truth(input), dims=dims, keepdim=keepdim)
    if input.dtype is bool_ and dtype is None:
        return count_op(input, dims=dims, keepdim=keepdim)
    return sum_op(summable(input, dtype), dims=dims, keepdim=keepdim)


@by_shape
@numpy_names
def mean(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The arithmetic mean over ``dim``; of floating tensors, or in a floating ``dtype``."""
    input = _floating("mean", input, dtype)
    return mean_op(input, dims=dims_of(dim, input.ndim, "mean"), keepdim=keepdim)


@by_shape
@numpy_names
def all(input: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether all elements over ``dim`` are nonzero: a bool, or uint8 of uint8."""
    out = all_op(as_truth(input), dims=normalize_dims(dim, input.ndim, "all"), keepdim=keepdim)
    return cast(out, dtype=uint8) if input.dtype is uint8 else out


@by_shape
@numpy_names
def any(input: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    """Whether any element over ``dim`` is nonzero: a bool, or uint8 of uint8."""
    out = any_op(as_truth(input), dims=normalize_dims(dim, input.ndim, "any"), keepdim=keepdim)
    return cast(out, dtype=uint8) if input.dtype is uint8 else out


@by_shape
@numpy_names
def count_nonzero(input: Any, dim: Dims = None) -> Any:
    """How many elements over ``dim`` are not 0, in int64. NaN is not 0."""
    return sum(as_truth(input), dim)


@by_shape
@numpy_names
def nansum(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The `sum` over ``dim`` of what is not NaN, in the dtypes of `sum`.

    >>> import staticflow as sf
    >>> sf.nansum(sf.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    if is_bool(dtype):
        return sum(input, dim, keepdim, dtype=bool_)
    dims = dims_of(dim, input.ndim, "nansum")
    return nansum_op(summable(input, dtype), dims=dims, keepdim=keepdim)


@by_shape
@numpy_names
def nanmean(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The `mean` over ``dim`` of what is not NaN; NaN where all is."""
    input = _floating("nanmean", input, dtype)
    total = nansum(widen(input), dim, keepdim)
    return narrow_as(total / sum(input == input, dim, keepdim), input)


def _floating(name: str, input: Any, dtype: Any) -> Any:
    """``input`` in ``dtype``, if that is given. Raises `DTypeError` unless it is floating then."""
    if dtype is not None:
        input = cast(input, dtype=dtype_of(dtype))
    if not input.dtype.is_floating:
        raise DTypeError(
            f"{name}: of {input.dtype.name}; give a floating dtype, as in {name}(x, "
            f"dtype='float32'), at {format_locs(here())}"
        )
    return input
