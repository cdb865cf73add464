"""Losses as modules."""

from __future__ import annotations

from typing import Any

from staticflow.nn import functional as F
from staticflow.nn.module import Module

__all__ = ["CrossEntropyLoss", "MSELoss"]


class _Loss(Module):
    """A function of an input and a target, reduced by "mean", "sum" or "none"."""

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = F.check_reduction(reduction)


class MSELoss(_Loss):
    """``(input - target) ** 2``, by default its mean over all elements."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of ``input`` against ``target``, of one shape."""
        return F.mse_loss(input, target, self.reduction)


class CrossEntropyLoss(_Loss):
    """Minus the log-probability that the softmax of scores gives to the right classes, by default
    its mean over the rows."""

    def forward(self, input: Any, target: Any) -> Any:
        """The loss of scores (N, C) against classes (N,), integers in [0, C)."""
        return F.cross_entropy(input, target, self.reduction)
