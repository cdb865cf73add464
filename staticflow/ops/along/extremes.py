"""The largest and smallest elements over dims, and where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from staticflow.errors import DimRangeError
from staticflow.graph.dims import Size, dim_min, prod
from staticflow.graph.dtypes import int32, int64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.along.recurrence import Parts, cut_rows
from staticflow.ops.basics.arithmetic import cast, maximum, minimum, where
from staticflow.ops.basics.creation import iota, zeros_like
from staticflow.ops.basics.reduce import (
    Dims,
    along,
    dims_of,
    expand_back,
    reduced_shape,
    reduced_type,
    sum_op,
)
from staticflow.ops.basics.view import reshape, squeeze_op
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import per_arg
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.lowering import LoopNest, Reduce
from staticflow.ops.declaring.numpy_names import numpy_names
from staticflow.ops.indexing.gather_ops import scatter_add_op, take_along

__all__ = ["Chosen", "Extremes", "amax", "amin", "aminmax", "argmax", "argmin", "max", "min"]


def something(facts: Facts, x: TensorType, dims: Sequence[int]) -> None:
    """State that there is an element; a size known only as the program runs is checked then."""
    for d in dims:
        n = x.shape[d]
        if n == 0:
            raise DimRangeError(f"the extreme of nothing: dim {d} of {x} has size 0")
        facts.at_least(n, 1, f"the extreme of nothing, as dim {d} of {x}")


def _infer(facts: Facts, x: TensorType, *, dims: tuple[int, ...], keepdim: bool) -> TensorType:
    something(facts, x, dims)
    return reduced_type(facts, x, dims=dims, keepdim=keepdim)


def _share_evenly(ct: Any, out: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    """Shared evenly among equals, as PyTorch's amax and amin do; where NaN won, among the NaNs."""
    hit = (x == expand_back(out, x.shape, dims, keepdim)) | (x != x)
    ties = sum_op(cast(hit, dtype=ct.dtype), dims=dims, keepdim=keepdim)
    return where(hit, expand_back(ct / ties, x.shape, dims, keepdim), 0.0)


shared_vjp = per_arg(_share_evenly)


def _extreme_op(name: str, which: str, numpy_name: str, combine: str) -> Op:
    def reference(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
        return xp.asarray(getattr(x, numpy_name)(axis=dims, keepdims=keepdim))

    return Op(
        name=name,
        doc=f"The {which} element over ``dims``; NaN if there is one.",
        infer=_infer,
        reference=reference,
        vjp=shared_vjp,
        lowering=Reduce(combine),
        numpy="small",
        exact=True,
        grad_name=f"{name.title()}Backward0",
    )


amax_op = _extreme_op("amax", "largest", "max", "max")
amin_op = _extreme_op("amin", "smallest", "min", "min")

# the same of all elements, under the name that PyTorch gives their derivative
max_op = replace(amax_op, name="max", grad_name="MaxBackward1")
min_op = replace(amin_op, name="min", grad_name="MinBackward1")


def _supremum_reference(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    if 0 in (x.shape[d] for d in dims):
        lowest = -np.inf if x.dtype.kind not in "biu" else xp.iinfo(x.dtype).min
        return xp.full(reduced_shape(x.shape, dims, keepdim), lowest, dtype=x.dtype)
    return amax_op.reference(xp, x, dims=dims, keepdim=keepdim)


supremum_op = replace(
    amax_op,
    name="supremum",
    doc="The largest element over ``dims``, as amax; of nothing the lowest value of the dtype.",
    infer=reduced_type,
    reference=_supremum_reference,
    grad_name="SupremumBackward0",
)


# -- along one dim, and where ----------------------------------------------------------------------
#
# Rows of the last dim are gone through twice, in vectors: for the extreme, and for where it first
# is. Along another dim the lanes are columns, and once is enough.


def _find_in_rows(x: Any, extreme: Op, keepdim: bool) -> tuple[Any, Any]:
    """The extreme of each row and where it first is; a NaN beats every number, as in NumPy and
    PyTorch."""
    dim = x.ndim - 1
    best = extreme(x, dims=(dim,), keepdim=True)
    is_best = x == best
    if x.dtype.is_floating:
        is_best = is_best | (x != x)
    n = x.shape[dim]
    dtype, behind = (int32, n) if isinstance(n, int) and n < 1 << 31 else (int64, 1 << 62)
    position = iota.beside(x, shape=x.shape, dim=dim, dtype=dtype)
    first = amin_op(where(is_best, position, behind), dims=(dim,), keepdim=keepdim)
    return best if keepdim else squeeze_op(best, dims=(dim,)), cast(first, dtype=int64)


def _find_across(
    nest: Any, wins: str, at: Callable[[Size], Any], start: Size, n: Size, first: Size
) -> tuple[Any, Any]:
    """The first extreme of ``n`` elements of the argument from ``start`` on, and its index; a NaN
    beats every number. The element ``first`` counts where there is no other."""
    k = nest.k
    best = k.var(nest.load(0, at(first)))
    position = k.var(k.cast(k.index_value(first), int64))
    with k.loop("j", n, lo=1) as j:
        value = nest.load(0, at(start + j))
        better = k.compare(wins, value, best)
        if value.dtype.is_floating:
            first_nan = k.apply("and", k.isnan(value), k.compare("eq", best, best))
            better = k.apply("or", better, first_nan)
        k.set(position, k.select(better, k.index_value(start + j), position))
        k.set(best, k.select(better, value, best))
    return best, position


def _find_in_parts(nest: Any, wins: str, parts: Parts, store: Callable[..., None]) -> None:
    """The first extreme of each of few long columns, and its index: of its parts, and of those."""
    k, n, dtype = nest.k, parts.shape[parts.dim], nest.in_type(0).dtype
    values, places = (nest.scratch(d, parts.room) for d in (dtype, int64))
    with parts.each() as (row, part, at, start, length):
        found = _find_across(nest, wins, at, start, length, dim_min(start, n - 1))
        for name, value in zip((values, places), found, strict=True):
            k.store(name, parts.place(row, part), k.freeze(value))
    with parts.each_row() as (row, at):
        best = k.var(k.load(values, parts.place(row, 0)))
        with k.loop("part", parts.count, kind="threads") as part:
            value = k.load(values, parts.place(row, part))
            k.accumulate(best, "max" if wins == "gt" else "min", value)
        extreme, first = k.freeze(best), k.var(k.const(_BEHIND, int64))
        with k.loop("part", parts.count, kind="threads") as part:
            value = k.load(values, parts.place(row, part))
            is_best = k.compare("eq", value, extreme)
            if dtype.is_floating:
                is_best = k.apply("or", is_best, k.isnan(value))
            place = k.load(places, parts.place(row, part))
            k.accumulate(first, "min", k.select(is_best, place, _BEHIND))
        position = k.bind(k.freeze(first), upper=n)
        store(at, nest.load(0, at(position)), k.index_value(position))


_BEHIND = (1 << 63) - 1

_MOST = 1 << 12
"""Parts of a column: a warp finds the extreme of them."""


def _emit(wins: str, results: Callable[[Any, Any], tuple[Any, ...]]) -> Callable[[Any], None]:
    """The loop nest of what is wanted of the extreme and its index."""

    def emit(nest: Any) -> None:
        dim, shape = nest.attrs["dim"], nest.in_shape(0)

        def store(at: Callable[[Size], Any], *found: Any) -> None:
            position = reduced_index(at, dim, nest.attrs["keepdim"])
            for i, value in enumerate(results(*found)):
                nest.store(i, position, value)

        parts = cut_rows(nest, dim, _MOST)
        whole = None if parts is None else parts.each_whole()
        if parts is None or parts.is_cut != 1:
            with whole or nest.rows(shape, dim) as at:
                store(at, *_find_across(nest, wins, at, 0, shape[dim], 0))
        if parts is not None:
            _find_in_parts(nest, wins, parts, store)

    return emit


def _by_dim(across: Op, extreme: Op, result: Callable[[tuple[Any, Any]], Any]) -> Op:
    """The op that is ``across`` along any dim but the last, where it is found in rows."""

    def decompose(x: Any, *, dim: int, keepdim: bool) -> Any:
        if dim < x.ndim - 1:
            return across(x, dim=dim, keepdim=keepdim)
        return result(_find_in_rows(x, extreme, keepdim))

    name = across.name.removesuffix("_across")
    return replace(across, name=name, lowering=None, decompose=decompose)


def reduced_index(at: Callable[[Size], Any], dim: int, keepdim: bool) -> tuple[Size, ...]:
    """Where the result of the row ``at`` goes."""
    index: tuple[Size, ...] = at(0)
    return index if keepdim else (*index[:dim], *index[dim + 1 :])


def _arg_infer(facts: Facts, x: TensorType, *, dim: int, keepdim: bool) -> TensorType:
    something(facts, x, (dim,))
    return TensorType(int64, reduced_shape(x.shape, (dim,), keepdim))


def _arg_reference(name: str) -> Callable[..., Any]:
    def reference(xp: Any, x: Any, *, dim: int, keepdim: bool) -> Any:
        at = xp.asarray(getattr(x, name)(axis=dim, keepdims=keepdim))
        return at.astype(xp.int64, copy=False)

    return reference


def _arg_op(name: str, wins: str, which: str) -> Op:
    return Op(
        name=f"{name}_across",
        doc=f"The index of the first {which} element along ``dim``; of a NaN if there is one.",
        infer=_arg_infer,
        reference=_arg_reference(name),
        vjp=None,
        lowering=LoopNest(_emit(wins, lambda best, position: (position,))),
        numpy="rows",
        exact=True,
    )


argmax_across_op = _arg_op("argmax", "gt", "largest")
argmin_across_op = _arg_op("argmin", "lt", "smallest")
argmax_op = _by_dim(argmax_across_op, amax_op, lambda found: found[1])
argmin_op = _by_dim(argmin_across_op, amin_op, lambda found: found[1])


def choose_infer(facts: Facts, x: TensorType, *, dim: int, keepdim: bool) -> Any:
    """The type rule of ops that choose one element along ``dim``: it and its index."""
    something(facts, x, (dim,))
    shape = reduced_shape(x.shape, (dim,), keepdim)
    return TensorType(x.dtype, shape), TensorType(int64, shape)


def choose_vjp(
    needs: Sequence[bool],
    cts: Sequence[Any],
    out: Any,
    x: Any,
    *,
    dim: int,
    keepdim: bool,
    **_: Any,
) -> list[Any]:
    """The cotangent at the elements that were chosen along ``dim``; ``out`` holds their indices."""
    at = iota.beside(x, shape=x.shape, dim=dim, dtype=int64)
    chosen = at == expand_back(out[1], x.shape, (dim,), keepdim)
    return [where(chosen, expand_back(cts[0], x.shape, (dim,), keepdim), 0.0)]


def scatter_vjp(
    needs: Sequence[bool], cts: Sequence[Any], out: Any, x: Any, *, dim: int, **_: Any
) -> list[Any]:
    """The vjp of ops that choose several elements of a row, or one several times: to where each
    was."""
    return [scatter_add_op(zeros_like(x), out[1], cts[0], dim=dim)]


def choose_reference(arg: Callable[..., Any]) -> Callable[..., Any]:
    """The reference of such an op, by the reference that gives the indices."""

    def reference(xp: Any, x: Any, *, dim: int, keepdim: bool, **attrs: Any) -> tuple[Any, Any]:
        at = arg(xp, x, dim=dim, keepdim=True, **attrs)
        shape = reduced_shape(x.shape, (dim,), keepdim)
        return take_along(xp, x, at, dim).reshape(shape), at.reshape(shape)

    return reference


def _dim_op(name: str, which: str, arg: Op, wins: str) -> Op:
    return Op(
        name=f"{name}_dim_across",
        doc=f"The first {which} element along ``dim`` and its index; a NaN if there is one.",
        infer=choose_infer,
        reference=choose_reference(arg.reference),
        vjp=choose_vjp,
        lowering=LoopNest(_emit(wins, lambda best, position: (best, position))),
        numpy="rows",
        exact=True,
        grad_name=f"{name.title()}Backward0",
    )


max_dim_across_op = _dim_op("max", "largest", argmax_op, "gt")
min_dim_across_op = _dim_op("min", "smallest", argmin_op, "lt")
max_dim_op = _by_dim(max_dim_across_op, amax_op, lambda found: found)
min_dim_op = _by_dim(min_dim_across_op, amin_op, lambda found: found)


class Chosen(NamedTuple):
    """Elements chosen along a dim: what ``max(x, dim)``, `sort`, `topk` and others return."""

    values: Any
    indices: Any


class Extremes(NamedTuple):
    """What `aminmax` returns."""

    min: Any
    max: Any


# -- functions -----------------------------------------------------------------------------------


def _over(op: Op, x: Any, dim: Dims, keepdim: bool) -> Any:
    return op(x, dims=dims_of(dim, x.ndim, op.name), keepdim=keepdim)


@by_shape
@numpy_names
def amax(input: Any, dim: Dims = (), keepdim: bool = False) -> Any:
    """The largest element over ``dim`` (an int, several, or () or None for all); NaN if there is
    one. The gradient is shared among ties. Of nothing it is a `DimRangeError`.

    >>> import staticflow as sf
    >>> sf.amax(sf.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
    tensor([4., 3.])
    """
    return _over(amax_op, input, dim, keepdim)


@by_shape
@numpy_names
def amin(input: Any, dim: Dims = (), keepdim: bool = False) -> Any:
    """The smallest element over ``dim``, as `amax`."""
    return _over(amin_op, input, dim, keepdim)


@by_shape
@numpy_names
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Extremes:
    """The smallest and the largest element along ``dim`` or of all, as the named tuple (min, max).

    >>> import staticflow as sf
    >>> sf.aminmax(sf.tensor([3.0, 1.0, 2.0]))
    Extremes(min=tensor(1.), max=tensor(3.))
    """
    return Extremes(*_both(input, dim, keepdim))


@fused("AminmaxBackward0", only_large=True)
def _both(input: Any, dim: int | None, keepdim: bool) -> tuple[Any, Any]:
    return _over(amin_op, input, dim, keepdim), _over(amax_op, input, dim, keepdim)


def _extreme(x: Any, dim: Any, keepdim: bool, whole: Op, part: Op, pair: Any) -> Any:
    if dim is None:
        return _over(whole, x, None, keepdim)
    if hasattr(dim, "__sf_mode__"):
        return pair(x, dim)
    return Chosen(*along(part, x, dim, keepdim=keepdim))


@by_shape
@numpy_names
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; with ``dim`` the named tuple (values, indices) of the first largest
    along it; of ``input`` and ``other``, a tensor, the larger elements (`maximum`).

    NaN if there is one. The gradient of ``max(x)`` is shared among ties, that of ``max(x, dim)``
    goes to the index. Of nothing it is a `DimRangeError`.

    >>> import staticflow as sf
    >>> sf.max(sf.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1).indices
    tensor([1, 0])
    """
    return _extreme(input, dim if other is None else other, keepdim, max_op, max_dim_op, maximum)


@by_shape
@numpy_names
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element in the forms of `max`."""
    return _extreme(input, dim if other is None else other, keepdim, min_op, min_dim_op, minimum)


def _arg(x: Any, dim: int | None, keepdim: bool, op: Op) -> Any:
    if dim is not None:
        return along(op, x, dim, keepdim=keepdim)
    at = op(reshape(x, (prod(x.shape),)), dim=0, keepdim=False)
    return reshape(at, (1,) * x.ndim) if keepdim else at


@by_shape
@numpy_names
def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index (int64) of the first largest element along ``dim``, or in the flattened tensor."""
    return _arg(input, dim, keepdim, argmax_op)


@by_shape
@numpy_names
def argmin(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The index (int64) of the first smallest element along ``dim``, or in the flattened tensor."""
    return _arg(input, dim, keepdim, argmin_op)
