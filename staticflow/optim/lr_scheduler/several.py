"""Schedules made of schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from staticflow.errors import ArgumentError, CheckpointError
from staticflow.graph.locs import format_locs, here
from staticflow.optim.lr_scheduler.base import LRScheduler
from staticflow.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


class _Several(LRScheduler):
    """Schedules of one optimiser."""

    unsaved = ("optimizer", "_schedulers")
    needed = ("_schedulers", list)

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> None:
        name = type(self).__name__
        if not schedulers:
            raise ArgumentError(f"{name} got no schedules, at {format_locs(here())}")
        self._schedulers = list(schedulers)
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        for i, scheduler in enumerate(schedulers):
            if scheduler.optimizer is not self.optimizer:
                raise ArgumentError(
                    f"{name}: schedule {i} is of another optimiser, at {format_locs(here())}"
                )
        self.base_lrs = schedulers[0].base_lrs

    def state_dict(self) -> dict[str, Any]:
        """The attributes, and the states of the schedules as ``"_schedulers"``."""
        return super().state_dict() | {"_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on as the schedules that gave ``state_dict``. Raises `CheckpointError` for a state of
        other schedules, before any is changed."""
        self._check_saved(state_dict)
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)
        vars(self).update({n: v for n, v in state_dict.items() if n != "_schedulers"})

    def _check_saved(self, saved: Any) -> None:
        super()._check_saved(saved)
        states = saved["_schedulers"]
        if len(states) != len(self._schedulers):
            raise CheckpointError(
                f"load_state_dict: the state of {len(states)} schedules, where there are "
                f"{len(self._schedulers)}, at {format_locs(here())}"
            )
        for scheduler, state in zip(self._schedulers, states, strict=True):
            scheduler._check_saved(state)


class ChainedScheduler(_Several):
    """All ``schedulers`` step together; each goes on from the rates that the one before set."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        super().__init__(schedulers, optimizer)
        self._last_lr = self._rates

    def step(self) -> None:
        """Step each of them."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates


class SequentialLR(_Several):
    """One of ``schedulers`` after the other: the next begins, at its epoch 0, at each of the
    ``milestones``."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        super().__init__(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ArgumentError(
                f"SequentialLR: {len(schedulers)} schedules have {len(schedulers) - 1} milestones "
                f"between them, not {len(milestones)}, at {format_locs(here())}"
            )
        self._milestones, self.last_epoch = list(milestones), last_epoch + 1
        schedulers[0].restart()
        self._last_lr = self._rates

    def step(self) -> None:
        """Step the schedule whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn and self._milestones[turn - 1] == self.last_epoch:
            scheduler.restart()
        else:
            scheduler.step()
        self._last_lr = self._rates
