"""Losses that want a margin: between scores, or between distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.errors import ArgumentError, DTypeError, ShapeError
from staticflow.graph.dtypes import int32
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional.losses import binary_cross_entropy_with_logits, reduce
from staticflow.ops.along.class_losses import check_classes, class_hits
from staticflow.ops.basics.arithmetic import clamp, minimum, where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.required import require_shape
from staticflow.ops.elementwise.activation import logsigmoid
from staticflow.ops.elementwise.maths import abs, relu, sqrt
from staticflow.ops.indexing.gather_ops import gather_op
from staticflow.ops.indexing.index_ops import index_select_op
from staticflow.ops.statistics.distances import pairwise_distance

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


def _need_as_many_dims(what: str, *tensors: Any) -> None:
    if len({t.ndim for t in tensors}) > 1:
        shapes = ", ".join(str(list(t.shape)) for t in tensors)
        raise ShapeError(
            f"{what}: the shapes {shapes} must have as many dims, at {format_locs(here())}"
        )


@by_autocast
def margin_ranking_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """``max(0, -target * (input1 - input2) + margin)``; a target of 1 wants ``input1`` to be
    larger, -1 smaller. All have as many dims."""
    _need_as_many_dims("margin_ranking_loss", input1, input2, target)
    return _margin_ranking(input1, input2, target, margin, reduction)


@fused("MeanBackward0", any_order=True)
def _margin_ranking(input1: Any, input2: Any, target: Any, margin: float, reduction: str) -> Any:
    return reduce(clamp(-target * (input1 - input2) + margin, min=0), reduction)


@by_autocast
def hinge_embedding_loss(
    input: Any, target: Any, margin: float = 1.0, reduction: str = "mean"
) -> Any:
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1."""
    if not hasattr(target, "ndim"):  # which would equal neither
        raise DTypeError("the target is no tensor", target, "a tensor")
    return _hinge_embedding(input, target, margin, reduction)


@fused("MeanBackward0", any_order=True)
def _hinge_embedding(input: Any, target: Any, margin: float, reduction: str) -> Any:
    far = where(target == 1, 0.0, clamp(margin - input, min=0))
    near = where(target == -1, 0.0, input)
    return reduce(far + near, reduction)


@by_autocast
def soft_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """``log(1 + exp(-target * input))`` for targets of 1 and -1."""
    return _soft_margin(input, target, reduction)


@fused("SoftMarginLossBackward0", any_order=True)
def _soft_margin(input: Any, target: Any, reduction: str) -> Any:
    return reduce(-logsigmoid(target * input), reduction)


@by_autocast
def multilabel_soft_margin_loss(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean"
) -> Any:
    """The mean over the classes, the last dim, of `binary_cross_entropy_with_logits`."""
    target = require_shape(target, input.shape, "multilabel_soft_margin_loss: the target")
    each = binary_cross_entropy_with_logits(input, target, weight, "none")
    return reduce(each.mean(-1), reduction)


@by_autocast
def multilabel_margin_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """``sum(max(0, 1 - (input[y] - input[i]))) / C`` over the classes y that ``target`` (N, C),
    (C,) or () names, up to the first -1, and all other classes i.

    >>> import staticflow as sf
    >>> multilabel_margin_loss(sf.tensor([0.5, 0.0]), sf.tensor([0, -1]))
    tensor(0.2500)
    """
    if input.ndim == 0:
        input = reshape(input, (1,))
    if target.ndim == 0:
        target = reshape(target, (1,))
    target = require_shape(target, input.shape, "multilabel_margin_loss: the target")
    return _multilabel_margin(input, target, reduction)


@fused("MultilabelMarginLossBackward0")
def _multilabel_margin(input: Any, target: Any, reduction: str) -> Any:
    if input.ndim not in (1, 2):
        raise ShapeError(
            "multilabel_margin_loss: takes scores and classes (N, C) or (C,), not of shape "
            f"{list(input.shape)}, at {format_locs(here())}"
        )
    single = input.ndim == 1
    if single:
        input, target = input.unsqueeze(0), target.unsqueeze(0)
    count = input.shape[1]
    each = iota.beside(input, shape=(count,), dim=0, dtype=int32)
    first = where(target < 0, each, count).amin(1, keepdim=True)  # the end of the named classes
    named = each < first
    classes = check_classes(input, where(named, target, 0), None, "multilabel_margin_loss")
    named_here = (unsqueeze(classes.to(int32), -1) == each) & unsqueeze(named, -1)
    times = named_here.to(input.dtype).sum(1)  # how often each class is named
    margins = relu(1 - unsqueeze(input, 2) + unsqueeze(input, 1))  # of each class beside each other
    counts = unsqueeze(times > 0, 2) & unsqueeze(times == 0, 1)
    losses = where(counts, unsqueeze(times, 2) * margins, 0.0).sum((1, 2)) / count
    return reduce(losses.squeeze(0) if single else losses, reduction)


@by_autocast
def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
) -> Any:
    """``sum(max(0, margin - x[target] + x[i]) ** p) / C`` over the classes i other than the target;
    scores ``input`` (N, C), (C,) or (), classes ``target`` (N,), or () or (1,); ``weight`` (C,)."""
    scores = input if input.ndim else reshape(input, (1,))
    if scores.ndim != 1 or target.ndim != 1 or target.shape[0] != 1:
        target = require_shape(target, scores.shape[:-1], "multi_margin_loss: the target")
    if weight is not None:
        weight = require_shape(weight, scores.shape[-1:], "multi_margin_loss: the weight")
    return _multi_margin(scores, target, p, margin, weight, reduction)


@fused("MultiMarginLossBackward0")
def _multi_margin(
    input: Any, target: Any, p: int, margin: float, weight: Any, reduction: str
) -> Any:
    if p not in (1, 2):
        raise ArgumentError(f"multi_margin_loss: p is 1 or 2, not {p}, at {format_locs(here())}")
    shape = target.shape
    if input.ndim == 1:
        input, target = input.unsqueeze(0), reshape(target, (1,))
    classes, hit = class_hits(input, target, None, "multi_margin_loss")
    gaps = relu(margin - gather_op(input, unsqueeze(classes, 1), dim=1) + input)
    gaps = gaps if p == 1 else gaps * gaps
    if weight is not None:
        gaps = gaps * unsqueeze(index_select_op(weight, classes, dims=(0,)), 1)
    each = where(hit, 0.0, gaps).sum(1) / input.shape[1]
    return reduce(reshape(each, shape), reduction)


@by_autocast
def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Any:
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1, of the angle
    between the last dims of (N, D) or (D,), with targets (N,) or ()."""
    dims = target.ndim + 1
    if dims > 2 or input1.ndim != dims or input2.ndim != dims:
        shapes = ", ".join(str(list(x.shape)) for x in (input1, input2, target))
        raise ShapeError(
            "cosine_embedding_loss: takes vectors (N, D) and targets (N,), or (D,) and (), not "
            f"shapes {shapes}, at {format_locs(here())}"
        )
    return _cosine_embedding(input1, input2, target, margin, reduction)


@fused("MeanBackward0")
def _cosine_embedding(input1: Any, input2: Any, target: Any, margin: float, reduction: str) -> Any:
    tiny = 1e-12
    product = (input1 * input2).sum(-1)
    sizes = ((input1 * input1).sum(-1) + tiny) * ((input2 * input2).sum(-1) + tiny)
    cosine = product / sqrt(sizes)
    near = where(target == 1, 1 - cosine, 0.0)
    far = where(target == -1, clamp(cosine - margin, min=0), 0.0)
    return reduce(near + far, reduction)


@by_autocast
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
    return _triplet_margin(anchor, positive, negative, margin, p, eps, swap, reduction)


@fused("MeanBackward0")
def _triplet_margin(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
    reduction: str,
) -> Any:

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
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """`triplet_margin_loss` with a distance of one's own, by default `pairwise_distance`. Raises
    `ArgumentError` where ``margin`` is not positive."""
    if isinstance(margin, int | float) and not margin > 0:
        raise ArgumentError(
            f"triplet_margin_loss: the margin is {margin}; it must be positive, "
            f"at {format_locs(here())}"
        )
    if isinstance(distance_function, type):
        raise DTypeError(
            "triplet_margin_with_distance_loss: 'distance_function' must be a function of two "
            f"tensors, not the class {distance_function.__name__}; give an instance, at "
            f"{format_locs(here())}"
        )
    _need_as_many_dims("triplet_margin_loss", anchor, positive, negative)
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduce(clamp(near - far + margin, min=0), reduction)
