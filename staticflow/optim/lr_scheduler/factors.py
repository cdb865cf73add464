"""Schedules that multiply the rate by a factor that depends on the epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from staticflow.errors import ArgumentError, DTypeError
from staticflow.graph.locs import format_locs, here
from staticflow.optim.lr_scheduler.base import LRScheduler, for_groups
from staticflow.optim.optimizer import Optimizer

__all__ = [
    "ConstantLR", "ExponentialLR", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR",
    "PolynomialLR", "StepLR",
]  # fmt: skip

Function = Callable[[int], float]


class _ByFunction(LRScheduler):
    """A function of the epoch for each group, or one for all."""

    unsaved = ("optimizer", "lr_lambdas")

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Function | Sequence[Function], last_epoch: int = -1
    ) -> None:
        self.lr_lambdas: list[Function] = for_groups(optimizer, lr_lambda, "lr_lambda")
        for fn in self.lr_lambdas:
            if not callable(fn):
                raise DTypeError(
                    f"{type(self).__name__}: lr_lambda must be a function of the epoch, not "
                    f"{fn!r}, at {format_locs(here())}"
                )
        super().__init__(optimizer, last_epoch)


class LambdaLR(_ByFunction):
    """The initial rate times ``lr_lambda(epoch)``; a list has a function for each group."""

    def get_lr(self) -> list[float]:
        """The initial rates times the functions."""
        return [
            base * fn(self.last_epoch)
            for base, fn in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]


class MultiplicativeLR(_ByFunction):
    """The rate before times ``lr_lambda(epoch)``, from epoch 1 on."""

    def get_lr(self) -> list[float]:
        """The rates times the functions."""
        if self.last_epoch == 0:
            return self._rates
        return [
            rate * fn(self.last_epoch)
            for rate, fn in zip(self._rates, self.lr_lambdas, strict=True)
        ]


class _Factor(LRScheduler):
    """The rate before times a factor, the same for all groups."""

    def factor_now(self) -> float:
        """What the rates are multiplied by at ``last_epoch``."""
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        """The rates times the factor."""
        factor = self.factor_now()
        return [rate * factor for rate in self._rates]


class StepLR(_Factor):
    """Times ``gamma`` every ``step_size`` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if step_size < 1:
            raise ArgumentError(
                f"StepLR: step_size is 1 or more, not {step_size}, at {format_locs(here())}"
            )
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def factor_now(self) -> float:
        """``gamma`` at the multiples of the step size but 0."""
        return self.gamma if self.last_epoch and self.last_epoch % self.step_size == 0 else 1.0


class MultiStepLR(_Factor):
    """Times ``gamma`` at each of the ``milestones``, twice where one is there twice."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones, self.gamma = list(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def factor_now(self) -> float:
        """``gamma`` as often as this epoch is a milestone."""
        return float(self.gamma ** self.milestones.count(self.last_epoch))


class ExponentialLR(_Factor):
    """Times ``gamma`` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor_now(self) -> float:
        """``gamma`` from epoch 1 on."""
        return self.gamma if self.last_epoch else 1.0


class ConstantLR(_Factor):
    """``factor`` times the initial rate until epoch ``total_iters``, then the rate itself."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < factor <= 1:
            raise ArgumentError(
                f"ConstantLR: the factor lies in (0, 1], and {factor} does not"
                f", at {format_locs(here())}"
            )
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def factor_now(self) -> float:
        """The factor at first, its inverse at the end."""
        if self.last_epoch == 0:
            return self.factor
        return 1 / self.factor if self.last_epoch == self.total_iters else 1.0


class LinearLR(_Factor):
    """A rate that goes from ``start_factor`` to ``end_factor`` times the initial rate, evenly in
    ``total_iters`` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ArgumentError(
                f"LinearLR: start_factor lies in (0, 1], and {start_factor} does not"
                f", at {format_locs(here())}"
            )
        if not 0 <= end_factor <= 1:
            raise ArgumentError(
                f"LinearLR: end_factor lies in [0, 1], and {end_factor} does not"
                f", at {format_locs(here())}"
            )
        self.start_factor, self.end_factor = start_factor, end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def factor_now(self) -> float:
        """The quotient of the factors of this epoch and of the one before."""
        if self.last_epoch == 0:
            return self.start_factor
        if self.last_epoch > self.total_iters:
            return 1.0
        rise = self.end_factor - self.start_factor
        return 1 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)


class PolynomialLR(_Factor):
    """``(1 - epoch / total_iters) ** power`` times the initial rate, 0 from there on."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def factor_now(self) -> float:
        """The quotient of the factors of this epoch and of the one before."""
        left = self.total_iters - self.last_epoch
        if self.last_epoch == 0 or left < 0:
            return 1.0
        return float((left / (left + 1)) ** self.power)
