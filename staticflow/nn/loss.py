"""Losses as modules: the functions of `staticflow.nn.functional` with their options."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from staticflow.nn import functional as F
from staticflow.nn.linear import Linear
from staticflow.nn.module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss",
    "GaussianNLLLoss", "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss",
    "LinearCrossEntropyLoss", "MSELoss",
    "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss",
    "NLLLoss", "PoissonNLLLoss", "SmoothL1Loss",
    "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Module):
    """A function of an input and a target, reduced by "mean", "sum" or "none"."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = F.check_reduction(reduction)


class _WeightedLoss(_Loss):
    """A loss with a ``weight``, a buffer."""

    weight: Any

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)


class MSELoss(_Loss):
    """The squared difference ``(input - target) ** 2``, by `mse_loss`."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of ``input`` against ``target``, of one shape."""
        return F.mse_loss(input, target, self.reduction)


class L1Loss(_Loss):
    """The absolute difference ``|input - target|``, by `l1_loss`."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of ``input`` against ``target``, of one shape."""
        return F.l1_loss(input, target, self.reduction)


class SmoothL1Loss(_Loss):
    """A loss quadratic up to ``beta``, then linear, by `smooth_l1_loss`."""

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of ``input`` against ``target``, of one shape."""
        return F.smooth_l1_loss(input, target, self.reduction, self.beta)


class HuberLoss(_Loss):
    """A loss quadratic up to ``delta``, then linear, by `huber_loss`."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of ``input`` against ``target``, of one shape."""
        return F.huber_loss(input, target, self.reduction, self.delta)


class NLLLoss(_WeightedLoss):
    """Minus the log-probability of the right classes, by `nll_loss`."""

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of log-probabilities (N, C, ...) against classes (N, ...)."""
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Minus the log-probability that the softmax of scores gives to the right classes; see
    `cross_entropy`."""

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of scores (N, C, ...) against classes (N, ...) or probabilities."""
        return F.cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """`CrossEntropyLoss` of the scores that a layer of its own, ``linear``, gives of features; see
    `linear_cross_entropy`.

    >>> import staticflow as sf
    >>> LinearCrossEntropyLoss(3, 10)(sf.ones(2, 3), sf.tensor([0, 9])).shape
    ()
    """

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: Sequence[int] = (),
        bias: bool = False, device: Any = None, dtype: Any = None, reduction: str = "mean",
        weight: Any = None, ignore_index: int | None = None, label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(weight, reduction)
        self.num_classes, self.out_features = num_classes, tuple(out_features)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.options = options
        scores = math.prod(self.out_features, start=num_classes)
        self.linear = Linear(in_features, scores, bias, device=device, dtype=dtype)

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of the scores (N, C, ...) of features (N, in) against classes (N, ...) or
        probabilities."""
        scores, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.reshape(*scores, self.linear.in_features), target,
            linear_bias=None if bias is None else bias.reshape(*scores), weight=self.weight,
            reduction=self.reduction, ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip


class BCELoss(_WeightedLoss):
    """The loss of probabilities against targets from 0 to 1, by `binary_cross_entropy`."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of ``input`` against ``target``, of one shape."""
        return F.binary_cross_entropy(input, target, self.weight, self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """The loss of scores against targets from 0 to 1, by `binary_cross_entropy_with_logits`."""

    pos_weight: Any

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None) -> None:
        super().__init__(weight, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of ``input`` against ``target``, of one shape."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, self.reduction, self.pos_weight
        )


class KLDivLoss(_Loss):
    """The loss of log-probabilities against probabilities, by `kl_div`; ``reduction`` may also be
    "batchmean"."""

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__("mean" if reduction == "batchmean" else reduction)
        self.reduction, self.log_target = reduction, log_target

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of ``input`` against ``target``, of one shape."""
        return F.kl_div(input, target, self.reduction, self.log_target)


class PoissonNLLLoss(_Loss):
    """The loss of rates, or their logarithms, against counts, by `poisson_nll_loss`."""

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        eps: float = 1e-8,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Any, target: Any) -> Any:
        """The loss of ``log_input``, rates or their logarithms, against ``target``, of one
        shape."""
        return F.poisson_nll_loss(
            log_input, target, self.log_input, self.full, self.eps, self.reduction
        )


class GaussianNLLLoss(_Loss):
    """The loss of means and variances against values, by `gaussian_nll_loss`."""

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Any, target: Any, var: Any) -> Any:
        """The loss of means ``input`` and variances ``var`` against ``target``."""
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


class MarginRankingLoss(_Loss):
    """The loss of two inputs of which one is to be larger, by `margin_ranking_loss`."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        """The loss of the order of the inputs against ``target``, 1 or -1."""
        return F.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class HingeEmbeddingLoss(_Loss):
    """The loss of distances against 1 (near) and -1 (far), by `hinge_embedding_loss`."""

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of ``input`` against ``target``, of one shape."""
        return F.hinge_embedding_loss(input, target, self.margin, self.reduction)


class CosineEmbeddingLoss(_Loss):
    """The loss of the angle of two vectors against 1 (near) and -1 (far), by
    `cosine_embedding_loss`."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Any, input2: Any, target: Any) -> Any:
        """The loss of two (N, D) against ``target`` (N,)."""
        return F.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


class SoftMarginLoss(_Loss):
    """The loss of scores against 1 and -1, by `soft_margin_loss`."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of ``input`` against ``target``, of one shape."""
        return F.soft_margin_loss(input, target, self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The loss of scores of labels that may be right together, by `multilabel_soft_margin_loss`."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of scores (N, C) against zeros and ones (N, C)."""
        return F.multilabel_soft_margin_loss(input, target, self.weight, self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """The loss of scores against classes by their margin, by `multi_margin_loss`."""

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(weight, reduction)
        self.p, self.margin = p, margin

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of scores (N, C) against classes (N,)."""
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, self.reduction)


class TripletMarginLoss(_Loss):
    """The loss of what is to be near an anchor and what far from it, by `triplet_margin_loss`."""

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        """The loss of three (N, D)."""
        return F.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, self.reduction
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with a distance of one's own, by default `PairwiseDistance`."""

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.distance_function, self.margin, self.swap = distance_function, margin, swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        """The loss of three of what the distance takes."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class MultiLabelMarginLoss(_Loss):
    """The loss of scores against the list of right classes of each row, by
    `multilabel_margin_loss`."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of scores (N, C) against classes (N, C) up to the first -1."""
        return F.multilabel_margin_loss(input, target, self.reduction)


class CTCLoss(_Loss):
    """Minus the log-probability that sequences spell their targets, by `ctc_loss`."""

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any) -> Any:
        """The loss of log-probabilities (T, N, C) against labels (N, S)."""
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
            self.zero_infinity,
        )  # fmt: skip
