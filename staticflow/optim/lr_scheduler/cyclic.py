"""Schedules that raise the rate and lower it again, and the momentum the other way round."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here
from staticflow.optim.group import ParamGroup
from staticflow.optim.lr_scheduler.base import LRScheduler, for_groups
from staticflow.optim.optimizer import Optimizer

__all__ = ["CyclicLR", "OneCycleLR"]


def _momentum_name(optimizer: Optimizer) -> str:
    for name in ("betas", "momentum"):
        if name in optimizer.defaults:
            return name
    raise ArgumentError(
        f"{type(optimizer).__name__} has neither momentum nor betas; pass cycle_momentum=False"
        f", at {format_locs(here())}"
    )


def _set_momentum(group: ParamGroup, name: str, value: float) -> None:
    """Adam's momentum is its first beta."""
    group[name] = (value, *group[name][1:]) if name == "betas" else value


class CyclicLR(LRScheduler):
    """A rate that goes from ``base_lr`` to ``max_lr`` in ``step_size_up`` steps, back in
    ``step_size_down``, and so on (Smith 2015, "Cyclical learning rates").

    ``mode`` scales the cycles: ``"triangular"`` not at all, ``"triangular2"`` each by half of the
    one before, ``"exp_range"`` each step by ``gamma ** step``; or ``scale_fn`` does, a function of
    the cycle or of the step by ``scale_mode`` ("cycle" or "iterations"). With ``cycle_momentum``
    the momentum goes from ``max_momentum`` to ``base_momentum`` and back.
    """

    unsaved = ("optimizer", "_scale_fn")

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        modes: dict[str, tuple[Callable[[float], float], str]] = {
            "triangular": (lambda cycle: 1.0, "cycle"),
            "triangular2": (lambda cycle: 2.0 ** (1 - cycle), "cycle"),
            "exp_range": (lambda step: gamma**step, "iterations"),
        }
        if scale_fn is None and mode not in modes:
            raise ArgumentError(
                f"CyclicLR: the mode is one of {', '.join(modes)}, not {mode!r}"
                f", at {format_locs(here())}"
            )
        self._scale_fn, self._scale_mode = (
            modes[mode] if scale_fn is None else (scale_fn, scale_mode)
        )
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.max_lrs = for_groups(optimizer, max_lr, "max_lr")
        starts = for_groups(optimizer, base_lr, "base_lr")
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._momentum = _momentum_name(optimizer)
            self.base_momentums = for_groups(optimizer, base_momentum, "base_momentum")
            self.max_momentums = for_groups(optimizer, max_momentum, "max_momentum")
        for group, start in zip(optimizer.param_groups, starts, strict=True):
            if last_epoch == -1:
                group["initial_lr"] = start
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of this step; sets the momentum, too."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        up = x <= self.step_ratio
        height = x / self.step_ratio if up else (x - 1) / (self.step_ratio - 1)
        height *= self._scale_fn(cycle if self._scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ranges = zip(self._groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in ranges:
                _set_momentum(group, self._momentum, high - (high - low) * height)
        return [
            low + (high - low) * height
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]


class OneCycleLR(LRScheduler):
    """One rise of the rate to ``max_lr`` and one fall far below where it began (Smith and Topin
    2017, "Super-convergence").

    From ``max_lr / div_factor`` to ``max_lr`` in ``pct_start`` of the ``total_steps`` (or
    ``epochs * steps_per_epoch``), then down to the first rate over ``final_div_factor``; with
    ``three_phase`` down to the first rate in as many steps as up, and then further. The way is
    ``anneal_strategy``, "cos" or "linear". The momentum goes the other way between ``max_momentum``
    and ``base_momentum``. Raises `ValueError` when it is asked for more steps.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ArgumentError(
                    "OneCycleLR: give total_steps, or epochs and steps_per_epoch"
                    f", at {format_locs(here())}"
                )
            total_steps = epochs * steps_per_epoch
        if total_steps < 1:
            raise ArgumentError(
                f"OneCycleLR: {total_steps} steps are none, at {format_locs(here())}"
            )
        if not 0 <= pct_start <= 1:
            raise ArgumentError(
                f"OneCycleLR: pct_start lies in [0, 1], and {pct_start} does not"
                f", at {format_locs(here())}"
            )
        if anneal_strategy not in _WAYS:
            raise ArgumentError(
                f"OneCycleLR: anneal_strategy is one of {', '.join(_WAYS)}, not {anneal_strategy!r}"
                f", at {format_locs(here())}"
            )
        self.total_steps, self.anneal_strategy = total_steps, anneal_strategy
        up, end = pct_start * total_steps - 1, total_steps - 1
        # each phase: its first and last step, and the names of what it goes from and to
        self._phases: list[tuple[float, float, str, str]] = [(0, up, "initial", "max")]
        if three_phase:
            self._phases += [(up, 2 * up, "max", "initial"), (2 * up, end, "initial", "min")]
        else:
            self._phases += [(up, end, "max", "min")]
        highest = for_groups(optimizer, max_lr, "max_lr")
        self._lrs = [
            {"initial": r / div_factor, "max": r, "min": r / div_factor / final_div_factor}
            for r in highest
        ]
        self._momentum = _momentum_name(optimizer) if cycle_momentum else None
        lows = for_groups(optimizer, base_momentum, "base_momentum")
        highs = for_groups(optimizer, max_momentum, "max_momentum")
        self._momenta = [
            {"initial": high, "max": low, "min": high}
            for low, high in zip(lows, highs, strict=True)
        ]
        if last_epoch == -1:
            for group, rates in zip(optimizer.param_groups, self._lrs, strict=True):
                group["initial_lr"] = rates["initial"]
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates of this step; sets the momentum, too."""
        step = self.last_epoch
        if step > self.total_steps:  # a loop steps once more behind its last update
            raise ArgumentError(
                f"OneCycleLR: step {step} of {self.total_steps} steps, at {format_locs(here())}"
            )
        running = (phase for phase in self._phases if step <= phase[1])
        begin, last, first, second = next(running, self._phases[-1])
        part = min((step - begin) / (last - begin), 1.0) if last != begin else 1.0
        way = _WAYS[self.anneal_strategy]
        if self._momentum is not None:
            for group, ends in zip(self._groups, self._momenta, strict=True):
                _set_momentum(group, self._momentum, way(ends[first], ends[second], part))
        return [way(ends[first], ends[second], part) for ends in self._lrs]


_WAYS: dict[str, Any] = {
    "cos": lambda a, b, part: b + (a - b) / 2 * (1 + math.cos(math.pi * part)),
    "linear": lambda a, b, part: a + (b - a) * part,
}
