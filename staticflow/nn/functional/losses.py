"""Losses: what a model gives against what it should have given, as one number.

``reduction`` is "mean" (over all elements), "sum" or "none" everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.locs import format_locs, here, warn
from staticflow.graph.types import Shape
from staticflow.ops.basics.arithmetic import clamp, logical_not, where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.creation import ones_like
from staticflow.ops.basics.expand import stretches_to
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import same_size
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.required import require_shape, require_true
from staticflow.ops.declaring.thread import thread
from staticflow.ops.elementwise.activation import logsigmoid
from staticflow.ops.elementwise.losses import bce_op, mse_loss_op
from staticflow.ops.elementwise.maths import abs, exp, log
from staticflow.ops.random.sampling import are_probabilities

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "check_reduction",
    "gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss", "mse_loss", "poisson_nll_loss",
    "smooth_l1_loss",
]  # fmt: skip

_REDUCED: dict[str, Callable[[Any], Any]] = {
    "none": lambda each: each,
    "mean": lambda each: each.mean(),
    "sum": lambda each: each.sum(),
}


def check_reduction(reduction: str) -> str:
    """``reduction`` if it is one of "mean", "sum" and "none"; else a `ShapeError`."""
    if reduction not in _REDUCED:
        raise ShapeError(
            f'a loss is reduced by "mean", "sum" or "none", not {reduction!r}'
            f", at {format_locs(here())}"
        )
    return reduction


def reduce(each: Any, reduction: str) -> Any:
    """The losses ``each``, reduced to one number or not at all."""
    return _REDUCED[check_reduction(reduction)](each)


def _one_shape(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(map(same_size, a, b))


def _differ(input: Any, target: Any) -> str | None:
    """What to say of an input and a target that would be broadcast, as (N, 1) and (N,) would."""
    have, want = (getattr(x, "shape", None) for x in (input, target))
    if have is None or want is None or _one_shape(have, want):
        return None
    return f"an input of shape {list(have)} and a target of shape {list(want)}"


def _expect_one_shape(what: str, input: Any, target: Any) -> None:
    """Warn of a target that is broadcast against the input."""
    if () not in (input.shape, getattr(target, "shape", ())) and (differ := _differ(input, target)):
        thread.state.note_more()
        warn(f"{what}: {differ} are broadcast, which is rarely meant; give both one shape")


def _need_one_shape(what: str, input: Any, target: Any) -> None:
    """Refuse a target that would be broadcast, as PyTorch does for these losses."""
    if differ := _differ(input, target):
        raise ShapeError(f"{what}: {differ}; both must have one shape, at {format_locs(here())}")


def _reduce_weighted(what: str, each: Any, input: Any, weight: Any, reduction: str, by: Any) -> Any:
    """The losses ``each`` times their ``weight``, reduced; a mean divides by the sum of ``by``, by
    the number of elements where that is None."""
    weight = require_shape(weight, input.shape, f"{what}: the weight")
    scaled = each * weight
    if by is None or check_reduction(reduction) != "mean":
        return reduce(scaled, reduction)
    return scaled.sum() / weight.sum()


# -- distances ----------------------------------------------------------------------------------


@by_shape
@by_autocast
def mse_loss(input: Any, target: Any, reduction: str = "mean", weight: Any = None) -> Any:
    """``(input - target) ** 2``, broadcast; each times its ``weight``, a tensor of the shape of
    ``input``, by the sum of which the mean divides.

    >>> import staticflow as sf
    >>> mse_loss(sf.tensor([1.0, 3.0]), sf.tensor([1.0, 1.0]))
    tensor(2.)
    """
    _expect_one_shape("mse_loss", input, target)
    if weight is not None:
        return _reduce_weighted(
            "mse_loss", (input - target) ** 2, input, weight, reduction, by=weight
        )
    return _mse_loss(input, target, reduction)


@fused("MseLossBackward0", any_order=True)
def _mse_loss(input: Any, target: Any, reduction: str) -> Any:
    if check_reduction(reduction) == "mean":
        return mse_loss_op(input, target)
    return reduce((input - target) ** 2, reduction)


@by_shape
@by_autocast
def l1_loss(input: Any, target: Any, reduction: str = "mean", weight: Any = None) -> Any:
    """``|input - target|``, broadcast; each times its ``weight``, a tensor of the shape of
    ``input``, by the sum of which the mean divides."""
    _expect_one_shape("l1_loss", input, target)
    if weight is not None:
        return _reduce_weighted("l1_loss", abs(input - target), input, weight, reduction, by=weight)
    return _l1_loss(input, target, reduction)


@fused("MeanBackward0", any_order=True)
def _l1_loss(input: Any, target: Any, reduction: str) -> Any:
    return reduce(abs(input - target), reduction)


@by_shape
@by_autocast
def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Any:
    """``d ** 2 / 2`` up to ``d = |input - target| = delta``, and ``delta * (d - delta / 2)`` beyond
    (Huber 1964); each times its ``weight``, a tensor of the shape of ``input``. The mean divides by
    the number of elements."""
    if not delta > 0:
        raise ArgumentError(
            f"huber_loss: delta lies above 0, and {delta} does not, at {format_locs(here())}"
        )
    _expect_one_shape("huber_loss", input, target)
    if weight is not None:
        each = _huber(input, target, delta)
        return _reduce_weighted("huber_loss", each, input, weight, reduction, by=None)
    return _huber_loss(input, target, reduction, delta)


@fused("HuberLossBackward0", any_order=True)
def _huber_loss(input: Any, target: Any, reduction: str, delta: float) -> Any:
    return reduce(_huber(input, target, delta), reduction)


@by_shape
@by_autocast
def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    """``d ** 2 / (2 beta)`` up to ``d = |input - target| = beta``, and ``d - beta / 2`` beyond."""
    if beta < 0:
        raise ArgumentError(
            f"smooth_l1_loss: beta cannot be negative, as {beta} is, at {format_locs(here())}"
        )
    if beta == 0:
        return l1_loss(input, target, reduction)
    _expect_one_shape("smooth_l1_loss", input, target)
    return _smooth_l1_loss(input, target, reduction, beta)


@fused("SmoothL1LossBackward0", any_order=True)
def _smooth_l1_loss(input: Any, target: Any, reduction: str, beta: float) -> Any:
    return reduce(_huber(input, target, beta) / beta, reduction)


def _huber(input: Any, target: Any, delta: float) -> Any:
    distance = abs(input - target)
    near = clamp(distance, max=delta)  # of an infinite distance no square
    return 0.5 * near * near + delta * (distance - near)


# -- probabilities ------------------------------------------------------------------------------


@by_autocast
def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Any:
    """``-(target * log(input) + (1 - target) * log(1 - input))`` of probabilities ``input``, times
    ``weight``. Logarithms are at least -100, so that no loss is infinite.

    Raises `ArgumentError` for what is no probability.
    """
    _need_one_shape("binary_cross_entropy", input, target)
    if weight is not None:
        weight = stretches_to(weight, input.shape, "binary_cross_entropy: the weight")
    loss = _bce(input, target, weight, reduction)
    for name, given in (("input", input), ("target", target)):
        what = (
            f"binary_cross_entropy: the {name} holds numbers outside of [0, 1]; of scores take "
            "binary_cross_entropy_with_logits"
        )
        loss = require_true(loss, are_probabilities(given), what)
    return loss


@fused("BinaryCrossEntropyBackward0", any_order=True)
def _bce(input: Any, target: Any, weight: Any, reduction: str) -> Any:
    each = bce_op(input, target)
    return reduce(each if weight is None else each * weight, reduction)


@by_shape
@by_autocast
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """`binary_cross_entropy` of the sigmoid of scores ``input``, without overflow; ``pos_weight``
    scales the part of the positive ``target``."""
    _need_one_shape("binary_cross_entropy_with_logits", input, target)
    if weight is not None:
        weight = stretches_to(weight, input.shape, "binary_cross_entropy_with_logits: the weight")
    return _bce_with_logits(input, target, weight, reduction, pos_weight)


@fused("BinaryCrossEntropyWithLogitsBackward0", any_order=True)
def _bce_with_logits(input: Any, target: Any, weight: Any, reduction: str, pos_weight: Any) -> Any:
    # -log(1 - sigmoid(x)) = x - log(sigmoid(x))
    soft = -logsigmoid(input)
    if pos_weight is not None:
        soft = soft * (1 + (pos_weight - 1) * target)
    each = (1 - target) * input + soft
    return reduce(each if weight is None else each * weight, reduction)


@by_shape
@by_autocast
def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """``target * (log(target) - input)`` of log-probabilities ``input``; with ``log_target`` the
    target is given as logarithms.

    "batchmean" divides the sum by the first dim, which is the Kullback-Leibler divergence; "mean"
    divides by the number of elements.
    """
    return _kl_div(input, target, reduction, log_target)


@fused("KlDivBackward0", any_order=True)
def _kl_div(input: Any, target: Any, reduction: str, log_target: bool) -> Any:
    if log_target:
        each = exp(target) * (target - input)
    else:  # 0 * log(0) = 0, and NaN below
        safe = where(target == 0, 1.0, target)
        each = target * log(safe) - target * input
    if reduction == "batchmean":
        return each.sum() / each.shape[0] if each.ndim else each
    return reduce(each, reduction)


@by_autocast
def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Any:
    """``exp(input) - target * input``, or without ``log_input`` ``input - target * log(input +
    eps)``; with ``full`` plus Stirling's approximation of ``log(target!)`` for targets above 1."""
    return _poisson_nll(input, target, log_input, full, eps, reduction)


@fused("MeanBackward0", any_order=True)
def _poisson_nll(
    input: Any, target: Any, log_input: bool, full: bool, eps: float, reduction: str
) -> Any:
    each = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        safe = where(target > 1, target, 1.0)
        stirling = safe * log(safe) - safe + 0.5 * log(2 * math.pi * safe)
        each = each + where(target > 1, stirling, 0.0)
    return reduce(each, reduction)


def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """``(log(var) + (input - target) ** 2 / var) / 2``; with ``full`` plus ``log(2 pi) / 2``.

    ``var``, a number or a tensor that broadcasts or lacks the last dim, is raised to at least
    ``eps``, which its gradient does not see."""
    if isinstance(var, float | int):
        var = ones_like(input) * var
    loss = _gaussian_nll(input, target, var, full, eps, reduction)
    return require_true(loss, _has_none_below(var), "gaussian_nll_loss: var has negative entries")


@fused("")
def _has_none_below(x: Any) -> Any:
    return logical_not(x < 0).all()


@fused("MeanBackward0", any_order=True)
def _gaussian_nll(input: Any, target: Any, var: Any, full: bool, eps: float, reduction: str) -> Any:
    if var.ndim == input.ndim - 1:
        var = var.unsqueeze(-1)
    var = var + (var.detach().clamp(min=eps) - var.detach())
    each = 0.5 * (log(var) + (input - target) ** 2 / var)
    return reduce(each + 0.5 * math.log(2 * math.pi) if full else each, reduction)
