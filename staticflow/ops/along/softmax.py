"""Exponentials normalised along a dim. What has 16 bits is computed in 32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.locs import format_locs, here, warn
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.along.extremes import supremum_op
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.reduce import (
    Dims,
    accumulator,
    along,
    expand_back,
    narrow_as,
    reduced_shape,
    sum_op,
    widen,
)
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dims, per_arg
from staticflow.ops.declaring.numpy_names import numpy_names
from staticflow.ops.declaring.thread import thread
from staticflow.ops.elementwise.maths import exp, isinf, log, reciprocal

__all__ = [
    "default_dim", "log_softmax", "log_softmax_op", "logsumexp", "lse_parts", "lse_reference_parts",
    "softmax", "softmax_op",
]  # fmt: skip


def _in_32_bits(reference: Callable[..., Any]) -> Callable[..., Any]:
    """A reference that computes 16-bit floats in 32 bits."""

    def of(xp: Any, x: Any, **attrs: Any) -> Any:
        y = reference(xp, x.astype(accumulator(x.dtype), copy=False), **attrs)
        return y.astype(x.dtype, copy=False)

    return of


def _along(facts: Facts, x: TensorType, *, dim: int) -> TensorType:
    if not x.dtype.is_floating:
        raise DTypeError(f"not defined for {x.dtype.name}; cast to a floating dtype")
    return x


def _below_peak(xp: Any, x: Any, dim: int) -> Any:
    if x.shape[dim] == 0:
        return x
    return x - x.max(axis=dim, keepdims=True)


def _softmax_reference(xp: Any, x: Any, *, dim: int) -> Any:
    e = xp.exp(_below_peak(xp, x, dim))
    return e / e.sum(axis=dim, keepdims=True)


def _softmax_decompose(x: Any, *, dim: int) -> Any:
    # softmax(x) = softmax(x - max x), which does not overflow
    w = widen(x)
    e = exp(w - supremum_op(w, dims=(dim,), keepdim=True))
    return narrow_as(e * reciprocal(sum_op(e, dims=(dim,), keepdim=True)), x)


def _softmax_vjp(ct: Any, out: Any, x: Any, *, dim: int) -> Any:
    g, y = widen(ct), widen(out)
    return narrow_as(y * (g - sum_op(g * y, dims=(dim,), keepdim=True)), ct)


softmax_op = Op(
    name="softmax",
    doc="``exp(x) / sum(exp(x))`` along ``dim``.",
    infer=_along,
    reference=_in_32_bits(_softmax_reference),
    vjp=per_arg(_softmax_vjp),
    decompose=_softmax_decompose,
    numpy="slower",
    promote="float",
    grad_name="SoftmaxBackward0",
)


def _log_softmax_vjp(ct: Any, out: Any, x: Any, *, dim: int) -> Any:
    g = widen(ct)  # whose sum 16 bits need not hold
    total = sum_op(g, dims=(dim,), keepdim=True)
    return narrow_as(g - exp(widen(out)) * total, ct)


def _log_softmax_reference(xp: Any, x: Any, *, dim: int) -> Any:
    s = _below_peak(xp, x, dim)
    return s - xp.log(xp.exp(s).sum(axis=dim, keepdims=True))


def _log_softmax_decompose(x: Any, *, dim: int) -> Any:
    w = widen(x)
    s = w - supremum_op(w, dims=(dim,), keepdim=True)
    return narrow_as(s - log(sum_op(exp(s), dims=(dim,), keepdim=True)), x)


log_softmax_op = Op(
    name="log_softmax",
    doc="``x - log(sum(exp(x)))`` along ``dim``.",
    infer=_along,
    reference=_in_32_bits(_log_softmax_reference),
    vjp=per_arg(_log_softmax_vjp),
    decompose=_log_softmax_decompose,
    numpy="slower",
    promote="float",
    grad_name="LogSoftmaxBackward0",
)


def _lse_infer(facts: Facts, x: TensorType, *, dims: tuple[int, ...], keepdim: bool) -> TensorType:
    return TensorType(x.dtype, reduced_shape(x.shape, dims, keepdim))


def lse_reference_parts(xp: Any, x: Any, dims: tuple[int, ...]) -> tuple[Any, Any]:
    """`lse_parts` of arrays."""
    m = supremum_op.reference(xp, x, dims=dims, keepdim=True)
    m = xp.where(xp.isinf(m), xp.zeros_like(m), m)
    return m, xp.log(xp.exp(x - m).sum(axis=dims, keepdims=True))


def _lse_reference(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    m, rest = lse_reference_parts(xp, x, dims)
    total = rest + m
    return total if keepdim else total.reshape(reduced_shape(x.shape, dims, False))


def lse_parts(w: Any, dims: tuple[int, ...]) -> tuple[Any, Any]:
    """``m`` and ``log sum exp(w - m)``, with the largest element as m; an infinite one must not
    meet itself, and is 0."""
    m = supremum_op(w, dims=dims, keepdim=True)
    m = where(isinf(m), 0.0, m)
    return m, log(sum_op(exp(w - m), dims=dims, keepdim=True))


def _lse_decompose(x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    m, rest = lse_parts(widen(x), dims)
    total = narrow_as(rest + m, x)
    return total if keepdim else reshape(total, reduced_shape(x.shape, dims, False))


def _lse_vjp(ct: Any, out: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    return expand_back(ct, x.shape, dims, keepdim) * exp(
        x - expand_back(out, x.shape, dims, keepdim)
    )


logsumexp_op = Op(
    name="logsumexp",
    doc="``log(sum(exp(x)))`` over ``dims``.",
    infer=_lse_infer,
    reference=_in_32_bits(_lse_reference),
    vjp=per_arg(_lse_vjp),
    decompose=_lse_decompose,
    numpy="slower",
    promote="float",
    grad_name="LogsumexpBackward0",
)


def _in(dtype: Any, x: Any, name: str) -> Any:
    """``x`` in ``dtype``, if that is given."""
    if dtype is None:
        return x
    if not dtype_of(dtype).is_floating:
        raise DTypeError(
            f"{name}: the dtype is {dtype_of(dtype).name}; it must be a floating one, "
            f"at {format_locs(here())}"
        )
    return x.to(dtype)


@by_shape
@numpy_names
def softmax(input: Any, dim: int | None = None, dtype: Any = None, *, _stacklevel: int = 3) -> Any:
    """``exp(x) / sum(exp(x))`` along ``dim``, of ``input`` cast to ``dtype`` if that is given.
    Without ``dim`` it warns, and takes 0 where there are none, one or three dims, else 1.

    >>> import staticflow as sf
    >>> sf.softmax(sf.zeros(2), dim=0)
    tensor([0.5000, 0.5000])
    """
    at = default_dim("softmax", input) if dim is None else dim
    return along(softmax_op, _in(dtype, input, "softmax"), at)


@by_shape
@numpy_names
def log_softmax(
    input: Any, dim: int | None = None, dtype: Any = None, *, _stacklevel: int = 3
) -> Any:
    """The logarithm of `softmax`, without its rounding to 0."""
    at = default_dim("log_softmax", input) if dim is None else dim
    return along(log_softmax_op, _in(dtype, input, "log_softmax"), at)


def default_dim(name: str, x: Any) -> int:
    """The dim that PyTorch takes where none is given, with a warning."""
    dim = 0 if x.ndim in (0, 1, 3) else 1
    thread.state.note_more()
    warn(
        f"{name}: no dim is given, so {dim} is taken, which depends on how many there are; "
        f"write dim={dim}"
    )
    return dim


@by_shape
@numpy_names
def logsumexp(input: Any, dim: Dims, keepdim: bool = False) -> Any:
    """``log(sum(exp(x)))`` over ``dim``, without overflow."""
    return logsumexp_op(input, dims=normalize_dims(dim, input.ndim, "logsumexp"), keepdim=keepdim)
