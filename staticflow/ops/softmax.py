"""Exponentials normalised along a dim, and the losses that stand on them. What has 16 bits is
computed in 32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import prod
from staticflow.graph.dtypes import DType, int32, int64
from staticflow.graph.op import OUT, Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.arithmetic import cast, where
from staticflow.ops.by_shape import by_shape
from staticflow.ops.creation import iota
from staticflow.ops.declare import normalize_dims, per_arg, strict, sum_to
from staticflow.ops.expand import expand
from staticflow.ops.extremes import supremum_op
from staticflow.ops.indexing import check_range, taken
from staticflow.ops.lowering import LoopNest
from staticflow.ops.maths import exp, isinf, log, reciprocal
from staticflow.ops.numpy_names import numpy_names
from staticflow.ops.reduce import (
    Dims,
    accumulator,
    along,
    mean_op,
    narrowed,
    reduced_shape,
    restored,
    share,
    sum_op,
    wide,
    widened,
)
from staticflow.ops.view import reshape, unsqueeze

__all__ = [
    "checked_classes", "cross_entropy_op", "log_softmax", "logsumexp", "mse_loss_op", "softmax",
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


def _shifted(xp: Any, x: Any, dim: int) -> Any:
    if x.shape[dim] == 0:
        return x
    return x - x.max(axis=dim, keepdims=True)


def _softmax_reference(xp: Any, x: Any, *, dim: int) -> Any:
    e = xp.exp(_shifted(xp, x, dim))
    return e / e.sum(axis=dim, keepdims=True)


def _softmax_decompose(x: Any, *, dim: int) -> Any:
    # softmax(x) = softmax(x - max x), which does not overflow
    w = widened(x)
    e = exp(w - supremum_op(w, dims=(dim,), keepdim=True))
    return narrowed(e * reciprocal(sum_op(e, dims=(dim,), keepdim=True)), x)


softmax_op = Op(
    name="softmax",
    doc="``exp(x) / sum(exp(x))`` along ``dim``.",
    infer=_along,
    reference=_in_32_bits(_softmax_reference),
    vjp=per_arg(
        lambda ct, out, x, *, dim: out * (ct - sum_op(ct * out, dims=(dim,), keepdim=True))
    ),
    decompose=_softmax_decompose,
    eager="native",
    saves=(OUT,),
    promote="float",
    grad_name="SoftmaxBackward0",
)


def _log_softmax_reference(xp: Any, x: Any, *, dim: int) -> Any:
    s = _shifted(xp, x, dim)
    return s - xp.log(xp.exp(s).sum(axis=dim, keepdims=True))


def _log_softmax_decompose(x: Any, *, dim: int) -> Any:
    w = widened(x)
    s = w - supremum_op(w, dims=(dim,), keepdim=True)
    return narrowed(s - log(sum_op(exp(s), dims=(dim,), keepdim=True)), x)


log_softmax_op = Op(
    name="log_softmax",
    doc="``x - log(sum(exp(x)))`` along ``dim``.",
    infer=_along,
    reference=_in_32_bits(_log_softmax_reference),
    vjp=per_arg(lambda ct, out, x, *, dim: ct - exp(out) * sum_op(ct, dims=(dim,), keepdim=True)),
    decompose=_log_softmax_decompose,
    eager="native",
    saves=(OUT,),
    promote="float",
    grad_name="LogSoftmaxBackward0",
)


def _lse_infer(facts: Facts, x: TensorType, *, dims: tuple[int, ...], keepdim: bool) -> TensorType:
    return TensorType(x.dtype, reduced_shape(x.shape, dims, keepdim))


def _lse_reference_parts(xp: Any, x: Any, dims: tuple[int, ...]) -> tuple[Any, Any]:
    m = supremum_op.reference(xp, x, dims=dims, keepdim=True)
    m = xp.where(xp.isinf(m), xp.zeros_like(m), m)
    return m, xp.log(xp.exp(x - m).sum(axis=dims, keepdims=True))


def _lse_reference(xp: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    m, rest = _lse_reference_parts(xp, x, dims)
    total = rest + m
    return total if keepdim else total.reshape(reduced_shape(x.shape, dims, False))


def _lse_parts(w: Any, dims: tuple[int, ...]) -> tuple[Any, Any]:
    """``m`` and ``log sum exp(w - m)``, with the largest element as m; an infinite one must not
    meet itself, and is 0."""
    m = supremum_op(w, dims=dims, keepdim=True)
    m = where(isinf(m), 0.0, m)
    return m, log(sum_op(exp(w - m), dims=dims, keepdim=True))


def _lse_decompose(x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    m, rest = _lse_parts(widened(x), dims)
    total = narrowed(rest + m, x)
    return total if keepdim else reshape(total, reduced_shape(x.shape, dims, False))


def _lse_vjp(ct: Any, out: Any, x: Any, *, dims: tuple[int, ...], keepdim: bool) -> Any:
    return restored(ct, x.shape, dims, keepdim) * exp(x - restored(out, x.shape, dims, keepdim))


logsumexp_op = Op(
    name="logsumexp",
    doc="``log(sum(exp(x)))`` over ``dims``.",
    infer=_lse_infer,
    reference=_in_32_bits(_lse_reference),
    vjp=per_arg(_lse_vjp),
    decompose=_lse_decompose,
    eager="large",
    saves=(0, OUT),
    promote="float",
    grad_name="LogsumexpBackward0",
)


@by_shape
@numpy_names
def softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """``exp(x) / sum(exp(x))`` along ``dim``, of ``input`` cast to ``dtype`` if that is given.

    >>> import staticflow as sf
    >>> sf.softmax(sf.zeros(2), dim=0)
    tensor([0.5000, 0.5000])
    """
    return along(softmax_op, input if dtype is None else input.to(dtype), dim)


@by_shape
@numpy_names
def log_softmax(input: Any, dim: int, dtype: Any = None) -> Any:
    """The logarithm of `softmax`, without its rounding to 0."""
    return along(log_softmax_op, input if dtype is None else input.to(dtype), dim)


@by_shape
@numpy_names
def logsumexp(input: Any, dim: Dims, keepdim: bool = False) -> Any:
    """``log(sum(exp(x)))`` over ``dim``, without overflow."""
    return logsumexp_op(input, dims=normalize_dims(dim, input.ndim, "logsumexp"), keepdim=keepdim)


# -- losses ---------------------------------------------------------------------------------------


def _class_emit(nest: Any) -> None:
    k = nest.k
    with nest.loops(nest.in_shape(0), "parallel") as at:
        value = k.cast(nest.load(0, at), int64)
        ignored = k.compare("eq", value, nest.attrs["ignore_index"])
        nest.check_index(k.select(ignored, 0, value), nest.attrs["classes"])
        nest.store(0, at, k.select(ignored, -1, value))


def _class_reference(
    xp: Any, target: Any, *, classes: int, ignore_index: int, dtype: DType, of: str
) -> Any:
    target = target.astype(xp.int64)
    keep = target != ignore_index
    check_range(xp, xp.where(keep, target, 0), classes, of, 1)
    return xp.where(keep, target, -1).astype(dtype.numpy)


class_op = Op(
    name="class_index",
    doc="``target``, checked to lie in [0, ``classes``); -1 where it is ``ignore_index``. In "
    "``dtype``; ``of`` says who asks, for the message of an error.",
    infer=lambda facts, target, *, dtype, **_: TensorType(dtype, target.shape),
    reference=_class_reference,
    vjp=None,
    lowering=LoopNest(_class_emit),
)


def _ce_infer(
    facts: Facts, x: TensorType, target: TensorType, *, ignore_index: int, mean: bool
) -> Any:
    if x.ndim < 2 or target.ndim != x.ndim - 1:
        raise ShapeError(
            f"takes scores (N, C, ...) and classes (N, ...), not shapes {list(x.shape)} and "
            f"{list(target.shape)}"
        )
    if not x.dtype.is_floating:
        raise DTypeError(f"the scores are {x.dtype}; they must be of a floating dtype")
    if target.dtype.kind not in "iu":
        raise DTypeError(f"the classes are {target.dtype}; they must be of an integer dtype")
    rest = (x.shape[0], *x.shape[2:])
    for a, b in zip(rest, target.shape, strict=True):
        facts.equal(a, b, f"the rows of {x} and the classes {target} agree")
    loss = TensorType(x.dtype, () if mean else rest)
    return loss, TensorType(wide(x.dtype), (x.shape[0], 1, *x.shape[2:]))


def _ce_reference(
    xp: Any, x: Any, target: Any, *, ignore_index: int, mean: bool
) -> tuple[Any, Any]:
    w = x.astype(accumulator(x.dtype), copy=False)
    attrs = {"classes": x.shape[1], "ignore_index": ignore_index}
    classes = _class_reference(xp, target, **attrs, dtype=int64, of="cross_entropy")
    m, rest = _lse_reference_parts(xp, w, (1,))
    at = xp.expand_dims(xp.where(classes < 0, 0, classes), 1)
    chosen = taken(xp, w, at, 1) if at.size else m
    loss = xp.where(classes < 0, w.dtype.type(0), (rest - (chosen - m))[:, 0])
    if mean:
        loss = loss.sum() / (classes >= 0).sum().astype(w.dtype)
    return loss.astype(x.dtype), rest + m


def checked_classes(x: Any, target: Any, ignore_index: int, of: str) -> Any:
    """``target`` where it is a class of ``x`` (N, C, ...), -1 where it is ``ignore_index``; any
    other stops ``of`` with an `IndexRangeError`."""
    size = x.shape[1]
    # in int32 where that is known to do: as wide as most floats that they stand beside
    dtype = int32 if isinstance(size, int) and size < 2**31 else int64
    attrs = {"classes": size, "ignore_index": ignore_index, "dtype": dtype, "of": of}
    return class_op.beside(x, target, **attrs)


def _classes(x: Any, target: Any, ignore_index: int) -> tuple[Any, Any]:
    """The checked classes, and where each element of ``x`` is that of its class."""
    classes = checked_classes(x, target, ignore_index, "cross_entropy")
    each = iota.beside(x, shape=x.shape, dim=1, dtype=classes.dtype)
    return classes, each == unsqueeze(classes, 1)


def _kept(classes: Any, w: Any) -> Any:
    """The number of classes that are not ignored, in the dtype of ``w``."""
    return sum_op(cast(classes >= 0, dtype=w.dtype), dims=tuple(range(classes.ndim)), keepdim=False)


def _ce_decompose(x: Any, target: Any, *, ignore_index: int, mean: bool) -> tuple[Any, Any]:
    w = widened(x)
    classes, hit = _classes(x, target, ignore_index)
    m, rest = _lse_parts(w, (1,))
    chosen = sum_op(where(hit, w - m, 0.0), dims=(1,), keepdim=True)  # of one, in the same pass
    loss = where(unsqueeze(classes, 1) < 0, 0.0, rest - chosen)
    loss = reshape(loss, target.shape)
    if mean:
        loss = sum_op(loss, dims=tuple(range(loss.ndim)), keepdim=False) / _kept(classes, w)
    return narrowed(loss, x), rest + m


def _ce_vjp(
    needs: Sequence[bool],
    cts: Sequence[Any],
    out: Any,
    x: Any,
    target: Any,
    *,
    ignore_index: int,
    mean: bool,
) -> list[Any]:
    # d loss[i] / d x[i, c] = softmax(x[i])[c] - (c == target[i])
    w = widened(x)
    classes, hit = _classes(x, target, ignore_index)
    softmax = exp(w - out[1])
    total = 0.0
    if cts[0] is not None:
        ct = widened(cts[0])
        ct = expand(ct / _kept(classes, w), target.shape) if mean else ct
        ct = where(unsqueeze(classes, 1) < 0, 0.0, unsqueeze(ct, 1))
        total = softmax * ct - where(hit, ct, 0.0)
    if cts[1] is not None:
        total = total + softmax * cts[1]
    return [narrowed(total, x), None]


cross_entropy_op = Op(
    name="cross_entropy",
    doc="``logsumexp(x[i]) - x[i, target[i]]``, 0 where the target is ``ignore_index``, or "
    "their ``mean`` over the others; and the logsumexp, which the derivative reads.",
    infer=_ce_infer,
    reference=strict(_ce_infer, _ce_reference),
    vjp=_ce_vjp,
    decompose=_ce_decompose,
    saves=(0, 1, OUT),
    grad_name="NllLossBackward0",
    eager="native",
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
    eager="large",
)
