"""Variances and norms over dims."""

from __future__ import annotations

from math import inf
from typing import Any

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import dim_max, prod
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import OUT, Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.along.extremes import amax, amin
from staticflow.ops.basics.arithmetic import cast, clamp, where
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.creation import new_full, zeros_like
from staticflow.ops.basics.reduce import (
    Dims,
    dims_of,
    expand_back,
    mean,
    mean_op,
    narrow_as,
    reduced_type,
    sum_op,
    wide,
    widen,
)
from staticflow.ops.declaring.array_modules import quietly
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import per_arg, strict
from staticflow.ops.declaring.numpy_names import numpy_names
from staticflow.ops.declaring.promote import one_number
from staticflow.ops.elementwise.maths import abs, pow, sign, sqrt

__all__ = ["norm", "std", "std_mean", "var", "var_mean", "vector_norm"]


def _floating(facts: Facts, x: TensorType, *, dims: Any, keepdim: bool, **_: Any) -> TensorType:
    if not x.dtype.is_floating:
        raise DTypeError(f"not defined for {x.dtype.name}; cast to a floating dtype")
    return reduced_type(facts, x, dims=dims, keepdim=keepdim)


# -- variances ------------------------------------------------------------------------------------


def _spread_type(
    facts: Facts, x: TensorType, *, dims: Any, correction: float, keepdim: bool
) -> TensorType:
    return _floating(facts, x, dims=dims, keepdim=keepdim)


def _freedom(x: Any, dims: tuple[int, ...], correction: float) -> Any:
    """What the sum of squares is divided by: 0 where there are too few elements, as in PyTorch."""
    count = prod(x.shape[d] for d in dims)
    if isinstance(correction, int):
        return dim_max(count - correction, 0)
    if isinstance(count, int):
        return max(count - correction, 0.0)
    return clamp(new_full(x, (), -correction) + count, min=0.0)  # sizes are whole


def _var_reference(xp: Any, x: Any, *, dims: Any, correction: float, keepdim: bool) -> Any:
    d = x - mean_op.reference(xp, x, dims=dims, keepdim=True)
    total = xp.sum(d * d, axis=dims, keepdims=keepdim)
    with quietly(xp):
        return total / x.dtype.type(_freedom(x, dims, correction))


def _var_decompose(x: Any, *, dims: Any, correction: float, keepdim: bool) -> Any:
    d = x - mean_op(x, dims=dims, keepdim=True)
    return sum_op(d * d, dims=dims, keepdim=keepdim) / _freedom(x, dims, correction)


def _var_vjp(ct: Any, x: Any, *, dims: Any, correction: float, keepdim: bool) -> Any:
    slope = expand_back(ct * 2.0 / _freedom(x, dims, correction), x.shape, dims, keepdim)
    return (x - mean_op(x, dims=dims, keepdim=True)) * slope


def _spread_op(name: str, doc: str, root: bool) -> Op:
    """The variance or, with ``root``, the standard deviation."""

    def reference(xp: Any, x: Any, **attrs: Any) -> Any:
        w = x.astype(wide(dtype_of(x.dtype)).numpy)
        var = _var_reference(xp, w, **attrs)
        return xp.asarray(xp.sqrt(var) if root else var).astype(x.dtype)

    def decompose(x: Any, **attrs: Any) -> Any:
        var = _var_decompose(widen(x), **attrs)
        return narrow_as(sqrt(var) if root else var, x)

    def vjp(ct: Any, out: Any, x: Any, **attrs: Any) -> Any:
        ct, w = widen(ct), widen(x)
        if root:  # where there is no deviation there is no slope, as in PyTorch
            out = widen(out)
            ct = where(out == 0, 0.0, ct / (where(out == 0, 1.0, out) * 2.0))
        return narrow_as(_var_vjp(ct, w, **attrs), x)

    return Op(
        name=name,
        doc=doc,
        infer=_spread_type,
        reference=strict(_spread_type, reference),
        vjp=per_arg(vjp),
        decompose=decompose,
        grad_name=f"{name.title()}Backward0",
        numpy="slower",
    )


var_op = _spread_op(
    "var",
    "The sum of squared distances to the mean over ``dims``, divided by the number of elements "
    "less ``correction``.",
    root=False,
)
std_op = _spread_op("std", "The square root of var.", root=True)


def _call_spread(
    op: Op, x: Any, dim: Dims | bool, unbiased: bool | None, keepdim: bool, correction: Any
) -> Any:
    if isinstance(dim, bool):  # PyTorch's form var(x, unbiased)
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise ShapeError(
            f"{op.name}: give unbiased or correction, not both, at {format_locs(here())}"
        )
    given = 1 if correction is None else _correction(correction)
    if unbiased is not None:
        given = int(unbiased)
    dims = dims_of(dim, x.ndim, op.name)
    return op(x, dims=dims, correction=given, keepdim=keepdim)


def _correction(given: Any) -> float:
    """A correction, an int where it is whole."""
    return int(given) if given == int(given) else float(given)


@by_shape
@numpy_names
def var(
    input: Any,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Any:
    """The variance over ``dim`` (an int, several, or None for all) of a floating tensor: the sum of
    squared distances to the mean, divided by the number of elements less ``correction``.

    ``correction`` is 1 unless given; ``unbiased`` False makes it 0. NaN where not more elements
    than that are there.

    >>> import staticflow as sf
    >>> sf.var(sf.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return _call_spread(var_op, input, dim, unbiased, keepdim, correction)


@by_shape
@numpy_names
def std(
    input: Any,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Any:
    """The standard deviation, the square root of `var`. Its gradient is 0 where it is 0."""
    return _call_spread(std_op, input, dim, unbiased, keepdim, correction)


@by_shape
@numpy_names
def var_mean(
    input: Any,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Any, Any]:
    """`var` and `mean`, as a tuple."""
    spread = var(input, dim, unbiased, keepdim, correction=correction)
    return spread, _mean_beside(input, dim, keepdim)


@by_shape
@numpy_names
def std_mean(
    input: Any,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Any, Any]:
    """`std` and `mean`, as a tuple."""
    spread = std(input, dim, unbiased, keepdim, correction=correction)
    return spread, _mean_beside(input, dim, keepdim)


def _mean_beside(x: Any, dim: Dims | bool, keepdim: bool) -> Any:
    """The mean over what a spread is of, whose ``dim`` may be its ``unbiased``."""
    return mean(x, None if isinstance(dim, bool) or dim == () else dim, keepdim)


# -- norms ----------------------------------------------------------------------------------------


def _norm_infer(
    facts: Facts, x: TensorType, *, ord: float, dims: tuple[int, ...], keepdim: bool
) -> TensorType:
    return _floating(facts, x, dims=dims, keepdim=keepdim)


def _norm_reference(xp: Any, x: Any, *, ord: float, dims: Any, keepdim: bool) -> Any:
    size = xp.abs(x).astype(wide(dtype_of(x.dtype)).numpy)
    if ord in (inf, -inf):
        out = (xp.max if ord > 0 else xp.min)(size, axis=dims, keepdims=keepdim)
    elif ord == 0:
        out = xp.sum(size != 0, axis=dims, keepdims=keepdim)
    elif ord == 2:
        out = xp.sqrt(xp.sum(size * size, axis=dims, keepdims=keepdim))
    else:
        with quietly(xp):
            out = xp.power(xp.sum(xp.power(size, ord), axis=dims, keepdims=keepdim), 1 / ord)
    return xp.asarray(out).astype(x.dtype)


def _norm_decompose(x: Any, *, ord: float, dims: Any, keepdim: bool) -> Any:
    w = widen(x)
    if ord == 2:
        return narrow_as(sqrt(sum_op(w * w, dims=dims, keepdim=keepdim)), x)
    size = abs(w)
    if ord in (inf, -inf):
        out = (amax if ord > 0 else amin)(size, dims, keepdim) if dims else size
    elif ord == 0:
        out = sum_op(cast(size != 0, dtype=size.dtype), dims=dims, keepdim=keepdim)
    elif ord == 1:
        out = sum_op(size, dims=dims, keepdim=keepdim)
    else:
        out = pow(sum_op(pow(size, ord), dims=dims, keepdim=keepdim), 1 / ord)
    return narrow_as(out, x)


def _norm_vjp(ct: Any, out: Any, x: Any, *, ord: float, dims: Any, keepdim: bool) -> Any:
    """Where the norm is 0 there is no slope, and a largest element shares it with its equals."""
    if ord == 0:
        return zeros_like(x)
    w, norm, ct = (widen(v) for v in (x, expand_back(out, x.shape, dims, keepdim), ct))
    if ord in (inf, -inf):
        hit = cast(abs(w) == norm, dtype=w.dtype)
        share = ct / sum_op(hit, dims=dims, keepdim=keepdim)
        return narrow_as(sign(w) * hit * expand_back(share, x.shape, dims, keepdim), x)
    if ord == 2:  # one quotient for each norm, not for each element
        length = widen(out)
        share = where(length == 0, 0.0, ct / where(length == 0, 1.0, length))
        return narrow_as(w * expand_back(share, x.shape, dims, keepdim), x)
    ct = expand_back(ct, x.shape, dims, keepdim)
    safe = where(norm == 0, 1.0, norm)
    if ord == 1:
        slope = sign(w)
    else:  # d|x|_p / dx = sign(x) (|x| / |x|_p) ** (p - 1)
        flat = (w == 0) | (norm == 0)
        slope = where(flat, 0.0, sign(w) * pow(where(flat, 1.0, abs(w)) / safe, ord - 1))
    return narrow_as(ct * slope, x)


vector_norm_op = Op(
    name="vector_norm",
    doc="``sum(|x| ** ord) ** (1 / ord)`` over ``dims``; for infinite ``ord`` the largest or "
    "smallest ``|x|``, for 0 the number of elements that are not 0.",
    infer=_norm_infer,
    reference=strict(_norm_infer, _norm_reference),
    vjp=per_arg(_norm_vjp),
    decompose=_norm_decompose,
    saves=(0, OUT),  # neither where ord is 0
    grad_name="LinalgVectorNormBackward0",
    numpy="slower",
)


@by_shape
def vector_norm(
    input: Any, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """``sum(|x| ** ord) ** (1 / ord)`` over ``dim`` (an int, several, or None for all) of a
    floating tensor, computed in ``dtype`` if that is given.

    With ``ord`` inf or -inf the largest or smallest ``|x|``, with 0 the number of elements that are
    not 0. The gradient is 0 where the norm is 0. A negative ``ord`` or inf of nothing is a
    `ShapeError`.

    >>> import staticflow as sf
    >>> sf.vector_norm(sf.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if dtype is not None:
        input = cast(input, dtype=dtype_of(dtype))
    dims = dims_of(dim, input.ndim, "vector_norm")
    for d in dims:
        if isinstance(input.shape[d], int) and input.shape[d] == 0 and (ord < 0 or ord == inf):
            raise ShapeError(
                f"vector_norm: the norm of order {ord} of nothing: dim {d} of shape "
                f"{list(input.shape)} has size 0, at {format_locs(here())}"
            )
    return vector_norm_op(input, ord=float(ord), dims=dims, keepdim=keepdim)


@by_shape
@numpy_names
def norm(
    input: Any,
    p: float | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Any:
    """The `vector_norm` of order ``p`` over ``dim``; "fro" (Frobenius) is order 2. The nuclear norm
    "nuc", the sum of the singular values, is that of matrices, over two dims.

    >>> import staticflow as sf
    >>> sf.norm(sf.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(5.)
    """
    p = p if isinstance(p, str | None) else one_number(p, "p")
    if p == "nuc":
        return _nuclear(input if dtype is None else cast(input, dtype=dtype), dim, keepdim)
    if isinstance(p, str) and p != "fro":
        raise ShapeError(
            f'norm: the order is {p!r}; it must be a number, "fro" or "nuc", '
            f"at {format_locs(here())}"
        )
    order = 2.0 if isinstance(p, str) or p is None else p
    return vector_norm(input, order, dim, keepdim, dtype=dtype)


def _nuclear(x: Any, dim: Dims, keepdim: bool) -> Any:
    """The sum of the singular values of matrices over two dims."""
    # which is made of what is here
    from staticflow.ops.matrices.singular_values import spectral_norm

    dims = dims_of(dim, x.ndim, "norm")
    if len(dims) != 2:
        raise ShapeError(
            f'norm: "nuc" is of matrices, over two dims, not over {list(dims)} of shape '
            f"{list(x.shape)}, at {format_locs(here())}"
        )
    out = spectral_norm(movedim(x, dims, (-2, -1)), "nuc", keepdim)
    return movedim(out, (-2, -1), dims) if keepdim else out
