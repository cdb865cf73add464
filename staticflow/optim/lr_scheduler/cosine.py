"""Schedules along a cosine (Loshchilov and Hutter 2016, "SGDR")."""

from __future__ import annotations

import math

from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.optim.lr_scheduler.base import LRScheduler
from staticflow.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts"]


def _falling(part: float) -> float:
    """A factor from 1 at 0 to 0 at 1, along half a cosine; up again after that."""
    return (1 + math.cos(math.pi * part)) / 2


class CosineAnnealingLR(LRScheduler):
    """A rate that goes from the initial one to ``eta_min`` in ``T_max`` epochs, and back again in
    the next."""

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        self._started = False
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates before, scaled by the quotient of the cosines of this epoch and of the last."""
        now = _falling(self.last_epoch / self.T_max)
        before = _falling((self.last_epoch - 1) / self.T_max)
        started, self._started = self._started, True
        if self.last_epoch == 0:
            return self._rates
        if not started:
            return [self.eta_min + (base - self.eta_min) * now for base in self.base_lrs]
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # it was eta_min before
            rise = 1 - _falling(1 / self.T_max)
            return [
                rate + (base - self.eta_min) * rise
                for rate, base in zip(self._rates, self.base_lrs, strict=True)
            ]
        return [self.eta_min + (rate - self.eta_min) * now / before for rate in self._rates]


class CosineAnnealingWarmRestarts(LRScheduler):
    """A rate that goes from the initial one towards ``eta_min`` in ``T_0`` epochs, then anew,
    each time in ``T_mult`` times as many epochs.

    ``step(epoch)`` goes to an epoch, which may be a fraction: ``epoch + i / batches``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if value < 1 or not isinstance(value, int):
                raise ArgumentError(
                    f"{name} is an integer from 1 on, not {value}, at {format_locs(here())}"
                )
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self.T_i, self.T_cur = T_0, 0.0
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The cosine of the part of this run that has passed."""
        part = _falling(self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go on to the next epoch, or to ``epoch``."""
        wanted = self.last_epoch + 1 if epoch is None else epoch
        if wanted < 0:
            raise ArgumentError(f"an epoch is 0 or more, not {wanted}, at {format_locs(here())}")
        self.last_epoch = math.floor(wanted)
        if epoch is None and self.T_cur + 1 < self.T_i and wanted > 0:
            self.T_cur += 1
        else:
            self.T_i, self.T_cur = self._run_of(wanted)
        self._set_rates(self.get_lr())

    def _run_of(self, epoch: float) -> tuple[int, float]:
        """The length of the run that ``epoch`` falls into, and how much of it has passed."""
        length, passed = self.T_0, epoch
        if self.T_mult == 1:
            return length, epoch % length
        while passed >= length:
            passed -= length
            length *= self.T_mult
        return length, passed
