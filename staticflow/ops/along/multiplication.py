"""Products over dims, and for each element the product of all others, which is their derivative."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import numpy as np

from staticflow.errors import DTypeError
from staticflow.graph.dims import Size
from staticflow.graph.dims import prod as prod_of
from staticflow.graph.dtypes import DType, dtype_of, float32, float64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.along.cumulative import cumprod_op
from staticflow.ops.along.recurrence import shift_op, walk
from staticflow.ops.basics.reduce import (
    Dims,
    all_op,
    as_truth,
    dims_of,
    expand_back,
    is_bool,
    longest,
    reduced_type,
    summable,
    wide,
)
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import per_arg, strict
from staticflow.ops.declaring.lowering import LoopNest, Reduce
from staticflow.ops.declaring.numpy_names import numpy_names

__all__ = ["others_op", "prod", "prod_op"]


# -- the product of all others --------------------------------------------------------------------


def _others_infer(facts: Facts, x: TensorType, *, dim: int) -> TensorType:
    if not x.dtype.is_floating:
        raise DTypeError(f"not defined for {x.dtype.name}; cast to a floating dtype")
    return x


def _others_reference(xp: Any, x: Any, *, dim: int) -> Any:
    def run(rows: Any) -> Any:
        one = xp.ones_like(rows[:1])
        before = xp.cumprod(xp.concatenate([one, rows[:-1]]), axis=0)
        behind = xp.cumprod(xp.concatenate([one, rows[:0:-1]]), axis=0)[::-1]
        return before * behind

    return walk(xp, run, dim, False, x) if x.size else x.copy()


_IN_REGISTERS = 8
"""Elements up to which the products of a row of known length are made in registers, several rows
side by side."""


def _others_emit(nest: Any) -> None:
    """What stands before each element is multiplied on the way there, what stands behind it on the
    way back. Along the last dim, where each product would wait for the one before, the product of
    all is divided where that has all its digits."""
    k, dim, shape = nest.k, nest.attrs["dim"], nest.in_shape(0)
    n: Size = shape[dim]
    if isinstance(n, int) and n <= _IN_REGISTERS:
        _emit_short(nest, n)
        return
    own = nest.out_type(0).dtype
    dtype = longest(own)
    with nest.rows(shape, dim) as at:

        def load(j: Size) -> Any:
            return k.cast(nest.load(0, at(j)), dtype)

        def multiply() -> None:
            before = k.var(k.const(1.0, dtype))
            with k.loop("j", n) as j:
                nest.store(0, at(j), before)
                k.set(before, k.mul(before, load(j)))
            behind = k.var(k.const(1.0, dtype))
            with k.loop("j", n) as j:
                x, place = load(n - 1 - j), at(n - 1 - j)
                nest.store(0, place, k.mul(k.cast(nest.load_out(0, place), dtype), behind))
                k.set(behind, k.mul(behind, x))

        def divide(in_dtype: DType) -> None:
            with k.loop("j", n) as j, nest.lanes_along(j):
                x = k.cast(nest.load(0, at(j)), in_dtype)
                nest.store(0, at(j), k.div(k.cast(whole, in_dtype), x))

        if dim < len(shape) - 1:
            multiply()
            return
        total, least = k.var(k.const(1.0, dtype)), k.var(k.const(inf, dtype))
        with k.loop("j", n) as j, nest.lanes_along(j):
            x = load(j)
            k.accumulate(total, "mul", x)
            k.accumulate(least, "min", k.apply("abs", x))
        whole = k.freeze(total)
        size = k.apply("abs", whole)
        is_whole = k.compare("ge", size, float(np.finfo(np.float64).tiny))
        if own is not float64:  # what is too small then is 0 in its dtype, unless x is
            is_whole = k.apply("or", is_whole, k.compare("gt", k.freeze(least), 0.0))
        is_whole = k.apply("and", is_whole, k.compare("lt", size, inf))
        narrow = np.finfo(np.float32)
        is_near = k.apply(
            "and",
            k.compare("ge", size, float(narrow.tiny)),
            k.compare("le", size, float(narrow.max)),
        )
        is_near = k.apply("or", is_near, k.compare("eq", size, 0.0))
        by_own = partial(k.choose, is_near, partial(divide, float32), partial(divide, float64))
        k.choose(is_whole, partial(divide, float64) if own is float64 else by_own, multiply)


def _emit_short(nest: Any, n: int) -> None:
    """Rows of ``n`` elements, whose products are made in registers."""
    k, dim, shape = nest.k, nest.attrs["dim"], nest.in_shape(0)
    dtype = wide(nest.out_type(0).dtype)
    with nest.loops((*shape[:dim], *shape[dim + 1 :]), "parallel") as outer:
        places = [(*outer[:dim], j, *outer[dim:]) for j in range(n)]
        row = [k.cast(nest.load(0, at), dtype) for at in places]
        before: list[Any] = [k.const(1.0, dtype)]
        behind: list[Any] = [k.const(1.0, dtype)]
        for j in range(n - 1):
            before.append(row[j] if j == 0 else k.mul(before[-1], row[j]))
            behind.append(row[-1] if j == 0 else k.mul(behind[-1], row[n - 1 - j]))
        for j, at in enumerate(places):
            nest.store(0, at, k.mul(before[j], behind[n - 1 - j]))


def _others_vjp(ct: Any, out: Any, x: Any, *, dim: int) -> Any:
    # it is what stands before times what stands behind
    behind, pull_behind = _products_before(x, dim, True)
    before, pull_before = _products_before(x, dim, False)
    return pull_before(ct * behind) + pull_behind(ct * before)


def _products_before(x: Any, dim: int, reverse: bool) -> tuple[Any, Callable[[Any], Any]]:
    """The product of all that stands before each element, and the vjp of it."""
    whole = cumprod_op(x, dim=dim, reverse=reverse)
    attrs = {"dim": dim, "fill": 1.0, "reverse": reverse}
    before = shift_op(whole, **attrs)

    def pull(ct: Any) -> Any:
        assert shift_op.vjp is not None and cumprod_op.vjp is not None
        (ct,) = shift_op.vjp((True,), ct, before, whole, **attrs)
        (ct,) = cumprod_op.vjp((True,), ct, whole, x, dim=dim, reverse=reverse)
        return ct

    return before, pull


others_op: Op = Op(
    name="product_of_others",
    doc="For each element the product of all others along ``dim``.",
    infer=_others_infer,
    reference=strict(_others_infer, _others_reference),
    vjp=per_arg(_others_vjp),
    lowering=LoopNest(_others_emit),
    kinds="f",
    numpy="slower",
    grad_name="ProductOfOthersBackward0",
)


# -- the product ----------------------------------------------------------------------------------


def _prod_reference(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    dtype = wide(dtype_of(x.dtype)).numpy
    return xp.asarray(xp.prod(x, axis=dims, keepdims=keepdim, dtype=dtype)).astype(x.dtype)


def _prod_vjp(ct: Any, out: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    ct = expand_back(ct, x.shape, dims, keepdim)
    if len(dims) == 1:
        return ct * others_op(x, dim=dims[0])
    others = others_op(reshape(x, (prod_of(x.shape),)), dim=0)  # of all elements
    return ct * reshape(others, x.shape)


prod_op = Op(
    name="prod",
    doc="The product over ``dims``, one or all of them; 1 of nothing.",
    infer=reduced_type,
    reference=_prod_reference,
    vjp=per_arg(_prod_vjp),
    lowering=Reduce("mul"),
    kinds="iuf",
    numpy="slower",
    grad_name="ProdBackward0",
)


@by_shape
@numpy_names
def prod(input: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The product of the elements over ``dim`` (one or several), or of all; 1 of nothing. Bools and
    integers are multiplied in int64 unless ``dtype`` says otherwise; in bool it is `all`. The
    gradient is right where elements are 0, too.

    >>> import staticflow as sf
    >>> sf.prod(sf.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([3., 8.])
    """
    dims = dims_of(dim, input.ndim, "prod")
    if is_bool(dtype):
        return all_op(as_truth(input), dims=dims, keepdim=keepdim)
    out = summable(input, dtype)
    if len(dims) in (1, input.ndim):
        return prod_op(out, dims=dims, keepdim=keepdim)
    for one in reversed(dims):
        out = prod_op(out, dims=(one,), keepdim=keepdim)
    return out
