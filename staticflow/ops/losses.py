"""Losses of single elements, before any sum or mean."""

from __future__ import annotations

from typing import Any

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import int64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.arithmetic import cast, clamp, logical_and, maximum, ne, where
from staticflow.ops.creation import iota
from staticflow.ops.declare import per_arg, strict, sum_to
from staticflow.ops.indexing import check_range, gather_op, taken
from staticflow.ops.maths import log, log1p
from staticflow.ops.softmax import checked_classes
from staticflow.ops.view import squeeze, unsqueeze

__all__ = ["bce_op", "nll_op"]


def _nll_infer(facts: Facts, x: TensorType, target: TensorType, *, ignore_index: int) -> TensorType:
    if x.ndim < 2 or target.ndim != x.ndim - 1:
        raise ShapeError(
            "takes log-probabilities (N, C, ...) and classes (N, ...), not shapes "
            f"{list(x.shape)} and {list(target.shape)}"
        )
    if not x.dtype.is_floating:
        raise DTypeError(f"the log-probabilities are {x.dtype}; they must be of a floating dtype")
    if target.dtype.kind not in "iu":
        raise DTypeError(f"the classes are {target.dtype}; they must be of an integer dtype")
    rest = (x.shape[0], *x.shape[2:])
    for a, b in zip(rest, target.shape, strict=True):
        facts.equal(a, b, f"the rows of {x} and the classes {target} agree")
    return TensorType(x.dtype, rest)


def _nll_reference(xp: Any, x: Any, target: Any, *, ignore_index: int) -> Any:
    keep = target != ignore_index
    classes = xp.where(keep, target, xp.zeros_like(target))
    check_range(xp, classes, x.shape[1], "nll_loss", 1)
    index = xp.expand_dims(classes.astype(xp.int64), 1)
    chosen = taken(xp, x, index, 1)[:, 0]
    return xp.where(keep, -chosen, xp.zeros_like(chosen))


def _nll_vjp(ct: Any, out: Any, x: Any, target: Any, *, ignore_index: int) -> Any:
    classes = iota.beside(x, shape=x.shape, dim=1, dtype=int64)
    target = unsqueeze(cast(target, dtype=int64), 1)  # in which any ignore_index fits
    hit = logical_and(classes == target, ne(target, ignore_index))
    return where(hit, -unsqueeze(ct, 1), 0.0)


def _nll_decompose(x: Any, target: Any, *, ignore_index: int) -> Any:
    classes = checked_classes(x, target, ignore_index, "nll_loss")
    keep = classes >= 0
    chosen = gather_op(x, unsqueeze(where(keep, classes, 0), 1), dim=1)
    return where(keep, -squeeze(chosen, 1), 0.0)


nll_op = Op(
    name="nll",
    doc="Minus ``x[i, target[i]]``, or 0 where the target is ``ignore_index``.",
    infer=_nll_infer,
    reference=strict(_nll_infer, _nll_reference),
    vjp=per_arg(_nll_vjp, None),
    decompose=_nll_decompose,
    saves=(1,),
    grad_name="NllLossBackward0",
)


def _bce_infer(facts: Facts, x: TensorType, target: TensorType) -> TensorType:
    if not x.dtype.is_floating:
        raise DTypeError(f"takes probabilities of a floating dtype, not {x.dtype}")
    return TensorType(x.dtype, facts.broadcast([x.shape, target.shape]))


def _logs(x: Any) -> tuple[Any, Any]:
    """The logarithms of ``x`` and ``1 - x``, at least -100, so that no loss is infinite."""
    return clamp(log(x), -100.0, None), clamp(log1p(-x), -100.0, None)


def _bce_reference(xp: Any, x: Any, target: Any) -> Any:
    bound = xp.asarray(-100.0, x.dtype)
    of_one, of_zero = xp.maximum(xp.log(x), bound), xp.maximum(xp.log1p(-x), bound)
    return -(target * of_one + (1 - target) * of_zero)


def _bce_decompose(x: Any, target: Any) -> Any:
    of_one, of_zero = _logs(x)
    return -(target * of_one + (1 - target) * of_zero)


def _bce_input(ct: Any, out: Any, x: Any, target: Any) -> Any:
    # finite at 0 and 1, where the derivative of the logarithm is not
    return sum_to(ct * (x - target) / maximum(x * (1 - x), 1e-12), x.shape)


def _bce_target(ct: Any, out: Any, x: Any, target: Any) -> Any:
    of_one, of_zero = _logs(x)
    return sum_to(ct * (of_zero - of_one), target.shape)


bce_op = Op(
    name="binary_cross_entropy",
    doc="``-(target * log(x) + (1 - target) * log(1 - x))``, logarithms at least -100.",
    infer=_bce_infer,
    reference=_bce_reference,
    vjp=per_arg(_bce_input, _bce_target),
    decompose=_bce_decompose,
    saves=(0, 1),
    promote="float",
    grad_name="BinaryCrossEntropyBackward0",
)
