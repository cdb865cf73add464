"""Losses: what a model gives against what it should have given, as one number.

``reduction`` is "mean" (over all elements), "sum" or "none" everywhere.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.dims import Size
from staticflow.graph.locs import format_locs, here
from staticflow.ops.activation import logsigmoid
from staticflow.ops.arithmetic import minimum, where
from staticflow.ops.creation import ones_like
from staticflow.ops.declare import same_size
from staticflow.ops.indexing import gather
from staticflow.ops.losses import bce_op, nll_op
from staticflow.ops.maths import abs, exp, log, relu, sqrt
from staticflow.ops.softmax import cross_entropy_op, log_softmax, mse_loss_op
from staticflow.ops.symbol import symbolic

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "check_reduction",
    "cosine_embedding_loss", "cross_entropy", "gaussian_nll_loss", "hinge_embedding_loss",
    "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
    "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss",
    "soft_margin_loss", "triplet_margin_loss", "triplet_margin_with_distance_loss",
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


def _reduced(each: Any, reduction: str) -> Any:
    return _REDUCED[check_reduction(reduction)](each)


def _expect_one_shape(what: str, input: Any, target: Any) -> None:
    """Warn of a target that is broadcast against the input, as (N,) is against (N, 1)."""
    have, want = (getattr(x, "shape", ()) for x in (input, target))
    if have == want or () in (have, want):
        return
    if len(have) != len(want) or not all(map(same_size, have, want)):
        warnings.warn(
            f"{what}: an input of shape {list(have)} and a target of shape {list(want)} are "
            f"broadcast, which is rarely meant; give both one shape, at {format_locs(here())}",
            stacklevel=3,
        )


# -- distances ----------------------------------------------------------------------------------


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """``(input - target) ** 2``, broadcast.

    >>> import staticflow as sf
    >>> mse_loss(sf.tensor([1.0, 3.0]), sf.tensor([1.0, 1.0]))
    tensor(2.)
    """
    _expect_one_shape("mse_loss", input, target)
    if check_reduction(reduction) == "mean":
        return mse_loss_op(input, target)
    return _reduced((input - target) ** 2, reduction)


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """``|input - target|``, broadcast."""
    _expect_one_shape("l1_loss", input, target)
    return _reduced(abs(input - target), reduction)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """``d ** 2 / 2`` up to ``d = |input - target| = delta``, and ``delta * (d - delta / 2)`` beyond
    (Huber 1964)."""
    if not delta > 0:
        raise ArgumentError(
            f"huber_loss: delta lies above 0, and {delta} does not, at {format_locs(here())}"
        )
    _expect_one_shape("huber_loss", input, target)
    return _reduced(_huber(input, target, delta), reduction)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Any:
    """``d ** 2 / (2 beta)`` up to ``d = |input - target| = beta``, and ``d - beta / 2`` beyond."""
    if beta < 0:
        raise ArgumentError(
            f"smooth_l1_loss: beta cannot be negative, as {beta} is, at {format_locs(here())}"
        )
    if beta == 0:
        return l1_loss(input, target, reduction)
    _expect_one_shape("smooth_l1_loss", input, target)
    return _reduced(_huber(input, target, beta) / beta, reduction)


def _huber(input: Any, target: Any, delta: float) -> Any:
    distance = abs(input - target)
    return where(distance < delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta))


# -- classes ------------------------------------------------------------------------------------


def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Any:
    """Minus the log-probability ``input`` (N, C, ...) or (C,) of the classes ``target`` (N, ...) or
    (), integers.

    ``weight`` (C,) scales each class, and the mean is divided by the sum of the weights of the
    targets. Targets equal to ``ignore_index`` take no part; the mean of none is NaN. Raises
    `IndexRangeError` for any other class outside [0, C).
    """
    return _of_classes(nll_op, input, target, weight, ignore_index, reduction)


def _of_classes(
    each_of: Callable[..., Any],
    input: Any,
    target: Any,
    weight: Any,
    ignore_index: int,
    reduction: str,
) -> Any:
    """What ``each_of`` gives for each target, weighted and reduced."""
    check_reduction(reduction)
    single = input.ndim == 1
    if single:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    _check_weight(weight, input.shape[1] if input.ndim > 1 else 1)
    each = each_of(input, target, ignore_index=ignore_index)
    each, counts = _weighted(each, target, weight, ignore_index)
    if reduction == "mean":
        return each.sum() / counts.sum()
    return _reduced(each.squeeze(0) if single else each, reduction)


def _weighted(each: Any, target: Any, weight: Any, ignore_index: int) -> tuple[Any, Any]:
    """The losses times the weights of their classes, and these weights; 0 for what is ignored."""
    keep = target.long() != ignore_index
    counts = keep.to(each.dtype)
    if weight is None:
        return each, counts
    classes = where(keep, target.long(), 0)
    counts = counts * gather(weight, 0, classes.reshape(-1)).reshape(target.shape)
    return each * counts, counts


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """`nll_loss` of the `log_softmax` of scores ``input`` (N, C, ...) or (C,), for classes or for
    probabilities.

    ``target`` is integer classes (N, ...) or (), or floating probabilities in the shape of
    ``input``: then the loss is ``-sum(target * log_softmax(input))`` over the classes, and the mean
    is over the rest. ``label_smoothing`` moves that part of the target to all classes alike.

    >>> import staticflow as sf
    >>> cross_entropy(sf.zeros(2, 4), sf.tensor([0, 3]))
    tensor(1.3863)
    """
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            f"label_smoothing lies in [0, 1], and {label_smoothing} does not"
            f", at {format_locs(here())}"
        )
    dim = min(1, input.ndim - 1)
    if target.dtype.is_floating:
        logs = log_softmax(input, dim)
        return _of_probabilities(logs, target, weight, reduction, label_smoothing, dim)
    loss = _of_classes(_cross_entropy, input, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return loss
    logs = log_softmax(input, dim)
    classes = input.shape[dim]
    smooth = -(logs if weight is None else logs * _along(weight, logs, dim)).sum(dim)
    keep = (target.long() != ignore_index).to(smooth.dtype)
    smooth = smooth * keep
    if reduction == "mean":
        smooth = smooth.sum() / _weighted(keep, target, weight, ignore_index)[1].sum()
    else:
        smooth = _reduced(smooth, reduction)
    return (1 - label_smoothing) * loss + label_smoothing * smooth / classes


def _cross_entropy(input: Any, target: Any, ignore_index: int) -> Any:
    """The loss of each row; the op gives the logsumexp beside it."""
    return cross_entropy_op(input, target, ignore_index=ignore_index)[0]


def _of_probabilities(
    logs: Any, target: Any, weight: Any, reduction: str, smoothing: float, dim: int
) -> Any:
    if logs.ndim != target.ndim or not all(map(same_size, logs.shape, target.shape)):
        raise ShapeError(
            f"cross_entropy: a target of {target.dtype.name} is probabilities in the shape of the "
            f"scores, {list(logs.shape)}, not {list(target.shape)}; classes are integers, as "
            f"target.long() gives, at {format_locs(here())}"
        )
    if smoothing:
        target = target * (1 - smoothing) + smoothing / logs.shape[dim]
    _check_weight(weight, logs.shape[dim])
    each = logs * target
    if weight is not None:
        each = each * _along(weight, logs, dim)
    return _reduced(-each.sum(dim), reduction)


def _check_weight(weight: Any, classes: Size) -> None:
    if weight is None:
        return
    size = weight.shape[0] if weight.ndim == 1 else None
    if size is None or (isinstance(size, int) and isinstance(classes, int) and size != classes):
        raise ShapeError(
            f"a loss over {classes} classes takes a weight for each, not weights of shape "
            f"{list(weight.shape)}, at {format_locs(here())}"
        )


def _along(weight: Any, x: Any, dim: int) -> Any:
    """``weight`` (C,) such that it broadcasts along ``dim`` of ``x``."""
    return weight.reshape(*(1,) * dim, -1, *(1,) * (x.ndim - dim - 1))


# -- probabilities ------------------------------------------------------------------------------


def binary_cross_entropy(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Any:
    """``-(target * log(input) + (1 - target) * log(1 - input))`` of probabilities ``input``, times
    ``weight``. Logarithms are at least -100, so that no loss is infinite."""
    each = bce_op(input, target)
    return _reduced(each if weight is None else each * weight, reduction)


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """`binary_cross_entropy` of the sigmoid of scores ``input``, without overflow; ``pos_weight``
    scales the part of the positive ``target``."""
    # -log(1 - sigmoid(x)) = x - log(sigmoid(x))
    soft = -logsigmoid(input)
    if pos_weight is not None:
        soft = soft * (1 + (pos_weight - 1) * target)
    each = (1 - target) * input + soft
    return _reduced(each if weight is None else each * weight, reduction)


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Any:
    """``target * (log(target) - input)`` of log-probabilities ``input``; with ``log_target`` the
    target is given as logarithms.

    "batchmean" divides the sum by the first dim, which is the Kullback-Leibler divergence; "mean"
    divides by the number of elements.
    """
    if log_target:
        each = exp(target) * (target - input)
    else:  # 0 * log(0) = 0
        safe = where(target > 0, target, 1.0)
        each = where(target > 0, target * log(safe), 0.0) - target * input
    if reduction == "batchmean":
        return each.sum() / each.shape[0] if each.ndim else each
    return _reduced(each, reduction)


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
    each = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        safe = where(target > 1, target, 1.0)
        stirling = safe * log(safe) - safe + 0.5 * log(2 * math.pi * safe)
        each = each + where(target > 1, stirling, 0.0)
    return _reduced(each, reduction)


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
    if not symbolic(var) and (var < 0).any().item():
        raise ArgumentError(
            f"gaussian_nll_loss: var has negative entries, at {format_locs(here())}"
        )
    if var.ndim == input.ndim - 1:
        var = var.unsqueeze(-1)
    var = var + (var.detach().clamp(min=eps) - var.detach())
    each = 0.5 * (log(var) + (input - target) ** 2 / var)
    return _reduced(each + 0.5 * math.log(2 * math.pi) if full else each, reduction)


# -- margins ------------------------------------------------------------------------------------


def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """``max(0, -target * (input1 - input2) + margin)``; a target of 1 wants ``input1`` to be
    larger, -1 smaller."""
    return _reduced(relu(-target * (input1 - input2) + margin), reduction)


def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, reduction: str = "mean"
) -> Any:
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1."""
    far = where(target == 1, 0.0, relu(margin - input))
    near = where(target == -1, 0.0, input)
    return _reduced(far + near, reduction)


def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """``log(1 + exp(-target * input))`` for targets of 1 and -1."""
    return _reduced(-logsigmoid(target * input), reduction)


def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Any:
    """The mean over the classes, the last dim, of `binary_cross_entropy_with_logits`."""
    each = binary_cross_entropy_with_logits(input, target, weight, "none")
    return _reduced(each.mean(-1), reduction)


def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
) -> Any:
    """``sum(max(0, margin - x[target] + x[i]) ** p) / C`` over the classes i other than the target;
    scores ``input`` (N, C) or (C,), classes ``target`` (N,) or (); ``weight`` (C,)."""
    if p not in (1, 2):
        raise ArgumentError(f"multi_margin_loss: p is 1 or 2, not {p}, at {format_locs(here())}")
    single = input.ndim == 1
    if single:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    at = target.long().unsqueeze(1)
    gaps = relu(margin - gather(input, 1, at) + input)
    gaps = gaps if p == 1 else gaps * gaps
    if weight is not None:
        gaps = gaps * gather(weight, 0, target.long()).unsqueeze(1)
    own = (gather(gaps, 1, at) * 0 + margin**p).squeeze(1)  # the term of the target itself
    if weight is not None:
        own = own * gather(weight, 0, target.long())
    each = (gaps.sum(1) - own) / input.shape[1]
    return _reduced(each.squeeze(0) if single else each, reduction)


def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1, of the angle
    between the last dims of (N, D) or (D,)."""
    tiny = 1e-12
    product = (input1 * input2).sum(-1)
    sizes = ((input1 * input1).sum(-1) + tiny) * ((input2 * input2).sum(-1) + tiny)
    cosine = product / sqrt(sizes)
    near = where(target == 1, 1 - cosine, 0.0)
    far = where(target == -1, relu(cosine - margin), 0.0)
    return _reduced(near + far, reduction)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` with the p-norm of the last
    dim; ``swap`` takes ``d(positive, negative)`` where that is smaller."""

    def distance(a: Any, b: Any) -> Any:
        gap = abs(a - b + eps)
        return sqrt((gap * gap).sum(-1)) if p == 2 else (gap**p).sum(-1) ** (1 / p)

    return triplet_margin_with_distance_loss(
        anchor,
        positive,
        negative,
        distance_function=distance,
        margin=margin,
        swap=swap,
        reduction=reduction,
    )


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any],
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """`triplet_margin_loss` with a distance of one's own."""
    near = distance_function(anchor, positive)
    far = distance_function(anchor, negative)
    if swap:
        far = minimum(far, distance_function(positive, negative))
    return _reduced(relu(near - far + margin), reduction)
