"""Exponentials normalised along a dim, and the losses that stand on them."""

from __future__ import annotations

from typing import Any

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import prod
from staticflow.graph.dtypes import int64
from staticflow.graph.op import OUT, Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.arithmetic import where
from staticflow.ops.creation import iota
from staticflow.ops.declare import normalize_dim, normalize_dims, per_arg, strict, sum_to
from staticflow.ops.indexing import check_range, gather_op
from staticflow.ops.maths import exp, isinf, log
from staticflow.ops.reduce import (
    Dims,
    amax_op,
    mean_op,
    reduced_shape,
    restored,
    share,
    sum_op,
)
from staticflow.ops.view import reshape, unsqueeze

__all__ = ["log_softmax", "logsumexp", "mse_loss_op", "nll_loss_op", "softmax"]


def _along(facts: Facts, x: TensorType, *, dim: int) -> TensorType:
    if not x.dtype.is_floating:
        raise DTypeError(f"not defined for {x.dtype.name}; cast to a floating dtype")
    return x


def _shifted(xp: Any, x: Any, dim: int) -> Any:
    if x.shape[dim] == 0:
        return x
    return x - xp.max(x, axis=dim, keepdims=True)


def _softmax_reference(xp: Any, x: Any, *, dim: int) -> Any:
    e = xp.exp(_shifted(xp, x, dim))
    return e / xp.sum(e, axis=dim, keepdims=True)


def _softmax_decompose(x: Any, *, dim: int) -> Any:
    # softmax(x) = softmax(x - max x), which does not overflow
    e = exp(x - amax_op(x, dims=(dim,), keepdim=True))
    return e / sum_op(e, dims=(dim,), keepdim=True)


softmax_op = Op(
    name="softmax",
    doc="``exp(x) / sum(exp(x))`` along ``dim``.",
    infer=_along,
    reference=_softmax_reference,
    vjp=per_arg(
        lambda ct, out, x, *, dim: out * (ct - sum_op(ct * out, dims=(dim,), keepdim=True))
    ),
    decompose=_softmax_decompose,
    saves=(OUT,),
    promote="float",
    grad_name="SoftmaxBackward0",
)


def _log_softmax_reference(xp: Any, x: Any, *, dim: int) -> Any:
    s = _shifted(xp, x, dim)
    return s - xp.log(xp.sum(xp.exp(s), axis=dim, keepdims=True))


def _log_softmax_decompose(x: Any, *, dim: int) -> Any:
    s = x - amax_op(x, dims=(dim,), keepdim=True)
    return s - log(sum_op(exp(s), dims=(dim,), keepdim=True))


log_softmax_op = Op(
    name="log_softmax",
    doc="``x - log(sum(exp(x)))`` along ``dim``.",
    infer=_along,
    reference=_log_softmax_reference,
    vjp=per_arg(lambda ct, out, x, *, dim: ct - exp(out) * sum_op(ct, dims=(dim,), keepdim=True)),
    decompose=_log_softmax_decompose,
    saves=(OUT,),
    promote="float",
    grad_name="LogSoftmaxBackward0",
)


def _lse_infer(facts: Facts, x: TensorType, *, dims: tuple[int, ...], keepdim: bool) -> TensorType:
    return TensorType(x.dtype, reduced_shape(x.shape, dims, keepdim))


def _lse_reference(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    m = amax_op.reference(xp, x, dims=dims, keepdim=True)
    m = xp.where(xp.isinf(m), xp.zeros_like(m), m)
    total = xp.log(xp.sum(xp.exp(x - m), axis=dims, keepdims=True)) + m
    return total if keepdim else total.reshape(reduced_shape(x.shape, dims, False))


def _lse_decompose(x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    # log sum exp(x) = m + log sum exp(x - m); an infinite m must not meet itself
    m = amax_op(x, dims=dims, keepdim=True)
    m = where(isinf(m), 0.0, m)
    total = log(sum_op(exp(x - m), dims=dims, keepdim=True)) + m
    return total if keepdim else reshape(total, reduced_shape(x.shape, dims, False))


def _lse_vjp(ct: Any, out: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    return restored(ct, x.shape, dims, keepdim) * exp(x - restored(out, x.shape, dims, keepdim))


logsumexp_op = Op(
    name="logsumexp",
    doc="``log(sum(exp(x)))`` over ``dims``.",
    infer=_lse_infer,
    reference=_lse_reference,
    vjp=per_arg(_lse_vjp),
    decompose=_lse_decompose,
    saves=(0, OUT),
    promote="float",
    grad_name="LogsumexpBackward0",
)


def _along_dim(op: Op, x: Any, dim: int) -> Any:
    at = normalize_dim(dim, x.ndim, op.name)
    return op(x, dim=at) if x.ndim else reshape(op(reshape(x, (1,)), dim=0), ())


def softmax(x: Any, dim: int) -> Any:
    """``exp(x) / sum(exp(x))`` along ``dim``."""
    return _along_dim(softmax_op, x, dim)


def log_softmax(x: Any, dim: int) -> Any:
    """The logarithm of `softmax`, without its rounding to 0."""
    return _along_dim(log_softmax_op, x, dim)


def logsumexp(x: Any, dim: Dims, keepdim: bool = False) -> Any:
    """``log(sum(exp(x)))`` over ``dim``, without overflow."""
    return logsumexp_op(x, dims=normalize_dims(dim, x.ndim, "logsumexp"), keepdim=keepdim)


# -- losses -------------------------------------------------------------------------------------


def _nll_infer(facts: Facts, x: TensorType, target: TensorType) -> TensorType:
    if x.ndim != 2 or target.ndim != 1:
        raise ShapeError(f"takes log-probabilities (N, C) and classes (N,), not {x} and {target}")
    if not x.dtype.is_floating:
        raise DTypeError(f"the log-probabilities are {x.dtype}; they must be of a floating dtype")
    if target.dtype.kind not in "iu":
        raise DTypeError(f"the classes are {target.dtype}; they must be of an integer dtype")
    facts.equal(x.shape[0], target.shape[0], f"the rows of {x} and the classes {target} agree")
    return TensorType(x.dtype, ())


def _nll_reference(xp: Any, x: Any, target: Any) -> Any:
    check_range(xp, target, x.shape[1], "nll_loss")
    return -mean_op.reference(xp, x[xp.arange(x.shape[0]), target], dims=(0,), keepdim=False)


def _nll_vjp(ct: Any, out: Any, x: Any, target: Any) -> Any:
    classes = iota.beside(x, shape=x.shape, dim=1, dtype=int64)
    return where(classes == unsqueeze(target, 1), share(-ct, x.shape[0]), 0.0)


nll_loss_op = Op(
    name="nll_loss",
    doc="Minus the mean of ``x[i, target[i]]``.",
    infer=_nll_infer,
    reference=strict(_nll_infer, _nll_reference),
    vjp=per_arg(_nll_vjp, None),
    decompose=lambda x, target: (
        -mean_op(gather_op(x, unsqueeze(target, 1), dim=1), dims=(0, 1), keepdim=False)
    ),
    saves=(1,),
    grad_name="NllLossBackward0",
)


def _mse_infer(facts: Facts, x: TensorType, y: TensorType) -> TensorType:
    if not x.dtype.is_floating or x.dtype is not y.dtype:
        raise DTypeError(f"takes two tensors of one floating dtype, not {x} and {y}")
    facts.broadcast([x.shape, y.shape])
    return TensorType(x.dtype, ())


def _mse_reference(xp: Any, x: Any, y: Any) -> Any:
    d = x - y
    return mean_op.reference(xp, d * d, dims=tuple(range(d.ndim)), keepdim=False)


def _mse_partial(sign: int) -> Any:
    def partial(ct: Any, out: Any, x: Any, y: Any) -> Any:
        d = x - y
        slope = share(ct * (2.0 * sign), prod(d.shape))
        return sum_to(d * slope, (x if sign > 0 else y).shape)

    return partial


def _mse_decompose(x: Any, y: Any) -> Any:
    d = x - y
    return mean_op(d * d, dims=tuple(range(d.ndim)), keepdim=False)


mse_loss_op = Op(
    name="mse_loss",
    doc="The mean of ``(x - y) ** 2``.",
    infer=_mse_infer,
    reference=_mse_reference,
    vjp=per_arg(_mse_partial(1), _mse_partial(-1)),
    decompose=_mse_decompose,
    saves=(0, 1),
    promote="float",
    grad_name="MseLossBackward0",
)
