"""Losses of numbers against numbers."""

from __future__ import annotations

from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.dims import prod
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.arithmetic import clamp, maximum
from staticflow.ops.basics.reduce import mean_op, share
from staticflow.ops.declaring.declare import per_arg, sum_to
from staticflow.ops.elementwise.maths import log, log1p

__all__ = ["bce_op", "mse_loss_op"]


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
    return sum_to(ct * (x - target) / maximum(x * (1 - x), 1e-12), x.__sf_shape__)


def _bce_target(ct: Any, out: Any, x: Any, target: Any) -> Any:
    of_one, of_zero = _logs(x)
    return sum_to(ct * (of_zero - of_one), target.__sf_shape__)


bce_op = Op(
    name="binary_cross_entropy",
    doc="``-(target * log(x) + (1 - target) * log(1 - x))``, logarithms at least -100.",
    infer=_bce_infer,
    reference=_bce_reference,
    vjp=per_arg(_bce_input, _bce_target),
    decompose=_bce_decompose,
    promote="float",
    grad_name="BinaryCrossEntropyBackward0",
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
        return sum_to(d * slope, (x if sign > 0 else y).__sf_shape__)

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
    promote="float",
    grad_name="MseLossBackward0",
    numpy="small",
)
