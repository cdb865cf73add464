"""Losses over classes: scores of each, against the right one or probabilities of each."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.dims import prod
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional.losses import check_reduction, reduce
from staticflow.ops.along.class_losses import (
    check_classes,
    class_hits,
    cross_entropy_op,
    nll_op,
    sum_chosen,
)
from staticflow.ops.along.softmax import log_softmax
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import same_size
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.required import require_shape
from staticflow.ops.indexing.index_ops import index_select_op
from staticflow.ops.matrices.contract import linear

__all__ = [
    "cross_entropy", "linear_cross_entropy", "nll_loss",
]  # fmt: skip


@by_shape
@by_autocast
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
    weight = _check_weight(weight, input)
    return _nll_loss(input, target, weight, ignore_index, reduction)


@fused("NllLossBackward0")
def _nll_loss(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    check_reduction(reduction)
    single = input.ndim == 1
    if single:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    each = nll_op(input, target, ignore_index=ignore_index)
    counts = _counts(input, target, weight, ignore_index, "nll_loss")
    loss = _weigh(each, counts, weight is not None, reduction)
    return loss.squeeze(0) if single and loss.ndim else loss


def _weigh(each: Any, counts: Any, weighted: bool, reduction: str) -> Any:
    """The losses of all targets, times what they count if that is ``weighted``, and reduced."""
    if weighted:
        each = each * counts
    if reduction == "mean":
        return each.sum() / counts.sum()
    return reduce(each, reduction)


def _counts(input: Any, target: Any, weight: Any, ignore_index: int, of: str) -> Any:
    """How much each target counts, by the weight of its class, and not where it is ignored."""
    if weight is None:
        return (target.long() != ignore_index).to(input.dtype)
    classes = check_classes(input, target, ignore_index, of)
    keep = classes >= 0
    chosen = index_select_op(weight, where(keep, classes, 0), dims=(0,))
    return where(keep, chosen, 0.0).to(input.dtype)


def _counts_of_columns(input: Any, target: Any, along: Any, ignore_index: int, of: str) -> Any:
    """`_counts` of scores that have more dims than classes, in a kernel that goes down all of them:
    there the weight, which lies ``along`` the classes, is found by a comparison."""
    _, hit = class_hits(input, target, ignore_index, of)
    return sum_chosen(hit, along, 1).squeeze(1).to(input.dtype)


@by_shape
@by_autocast
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
    weight = _check_weight(weight, input)
    return _cross_entropy_loss(input, target, weight, ignore_index, reduction, label_smoothing)


@fused("NllLossBackward0")
def _cross_entropy_loss(
    input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, label_smoothing: float
) -> Any:
    dim = min(1, input.ndim - 1)
    if target.dtype.is_floating:
        logs = log_softmax(input, dim)
        return _of_probabilities(logs, target, weight, reduction, label_smoothing, dim)
    check_reduction(reduction)
    single = input.ndim == 1
    if single:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    loss = _of_scores(input, target, weight, ignore_index, reduction, label_smoothing)
    return loss.squeeze(0) if single and loss.ndim else loss


def _of_scores(
    input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float
) -> Any:
    """The loss of scores (N, C, ...) for classes (N, ...)."""
    weighted = weight is not None
    along = _along(weight, input, 1) if weighted else None
    mean = reduction == "mean" and not weighted
    loss, lse = cross_entropy_op(input, target, ignore_index=ignore_index, mean=mean)
    if weighted and input.ndim > 2:
        counts = _counts_of_columns(input, target, along, ignore_index, "cross_entropy")
    else:
        counts = _counts(input, target, weight, ignore_index, "cross_entropy")
    if not mean:
        loss = _weigh(loss, counts, weighted, reduction)
    if not smoothing:
        return loss
    logs = input - lse  # of the same logarithm as the loss, which is computed once
    each = -(logs * along if weighted else logs).sum(1).to(loss.dtype)
    keep = target.long() != ignore_index
    each = where(keep, each, 0.0)  # no product: what is ignored, or its slope, may be infinite
    smooth = _weigh(each, counts, False, reduction)
    return (1 - smoothing) * loss + smoothing * smooth / input.shape[1]


@by_shape
def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:
    """`cross_entropy` of the scores ``linear(input, linear_weight, linear_bias)``.

    ``input`` is (N, in) or (in,), ``linear_weight`` (C, ..., in) and ``linear_bias`` (C, ...), so
    that scores are (N, C, ...); more dims than C want rows N. ``target`` and the rest are as in
    `cross_entropy`; an ``ignore_index`` is -100 by default, and none may be given where targets are
    probabilities. PyTorch's ``options`` say how it computes in chunks, and must be None.

    >>> import staticflow as sf
    >>> linear_cross_entropy(sf.ones(2, 3), sf.zeros(4, 3), sf.tensor([0, 3]))
    tensor(1.3863)
    """
    at = f"at {format_locs(here())}"
    if options is not None:
        raise ArgumentError(
            "linear_cross_entropy: options choose the chunks of PyTorch's own kernel, and there "
            f"are none here; leave them out, {at}"
        )
    dims = linear_weight.ndim
    if input.ndim not in (1, 2) or dims < 2 or (dims > 2 and input.ndim == 1):
        raise ShapeError(
            "linear_cross_entropy: takes an input (N, in) or (in,) and a weight (C, in), or with "
            f"rows N (C, ..., in), not {list(input.shape)} and {list(linear_weight.shape)}, {at}"
        )
    scores, features = linear_weight.shape[:-1], linear_weight.shape[-1]
    if linear_bias is not None:
        linear_bias = require_shape(linear_bias, scores, "linear_cross_entropy: linear_bias")
        linear_bias = linear_bias.reshape(-1)
    logits = linear(input, linear_weight.reshape(prod(scores), features), linear_bias)
    logits = logits.reshape(*input.shape[:-1], *scores)
    if target.dtype.is_floating and ignore_index is not None:
        raise ArgumentError(
            "linear_cross_entropy: the target is probabilities, of which none is ignored; leave "
            f"ignore_index out, {at}"
        )
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(logits, target, weight, ignored, reduction, label_smoothing)


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
    each = logs * target
    if weight is not None:
        each = each * _along(weight, logs, dim)
    return reduce(-each.sum(dim), reduction)


def _check_weight(weight: Any, input: Any) -> Any:
    if weight is None or not input.ndim:
        return weight
    return require_shape(weight, input.shape[:2][-1:], "the weight of each class")


def _along(weight: Any, x: Any, dim: int) -> Any:
    """``weight`` (C,) such that it broadcasts along ``dim`` of ``x``."""
    return weight.reshape(*(1,) * dim, -1, *(1,) * (x.ndim - dim - 1))
