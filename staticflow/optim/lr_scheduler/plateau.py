"""A schedule that follows a measured value."""

from __future__ import annotations

import math
from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.optim.lr_scheduler.base import LRScheduler, for_groups
from staticflow.optim.optimizer import Optimizer

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Times ``factor`` after more than ``patience`` epochs in which the value given to `step` was
    not better than the best.

    Better is smaller (``mode`` "min") or larger ("max") by ``threshold``, a part of the best value
    ("rel") or an amount ("abs"). After a cut, ``cooldown`` epochs are not counted. No rate falls
    below ``min_lr``, and changes of at most ``eps`` are left out.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1:
            raise ArgumentError(
                f"ReduceLROnPlateau: the factor lies below 1, and {factor} does not"
                f", at {format_locs(here())}"
            )
        if mode not in ("min", "max"):
            raise ArgumentError(
                f'ReduceLROnPlateau: the mode is "min" or "max", not {mode!r}'
                f", at {format_locs(here())}"
            )
        if threshold_mode not in ("rel", "abs"):
            raise ArgumentError(
                f'ReduceLROnPlateau: threshold_mode is "rel" or "abs", not {threshold_mode!r}'
                f", at {format_locs(here())}"
            )
        self.optimizer = self._check_optimizer(optimizer)
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown = threshold, threshold_mode, cooldown
        self.min_lrs = for_groups(optimizer, min_lr, "min_lr")
        self.eps, self.last_epoch = eps, 0
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0
        self._last_lr = self._rates

    def get_lr(self) -> list[float]:
        """The rates of the groups: values decide when they fall, not the epoch."""
        return self._rates

    def step(self, metrics: Any) -> None:  # type: ignore[override]
        """Take the value of an epoch, a number or a tensor of one element."""
        value = float(metrics)
        self.last_epoch += 1
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates

    def _is_better(self, value: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        margin = self.threshold
        if self.threshold_mode == "rel" and not math.isinf(self.best):
            margin *= self.best * sign
        return sign * value < sign * self.best - margin

    def _reduce(self) -> None:
        for group, rate, least in zip(self._groups, self._rates, self.min_lrs, strict=True):
            lower = max(rate * self.factor, least)
            if rate - lower > self.eps:
                group["lr"] = lower
