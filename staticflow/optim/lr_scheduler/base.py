"""What all schedules share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar

from staticflow.errors import ArgumentError, CheckpointError, DTypeError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here
from staticflow.optim.group import ParamGroup
from staticflow.optim.optimizer import Optimizer

__all__ = ["LRScheduler", "for_groups", "leaves_rates"]


def leaves_rates(init: Callable[..., None]) -> Callable[..., None]:
    """``init``, which makes a schedule of an optimiser, such that one that fails leaves the rates,
    and what else it has set in the groups, as they were."""

    @wraps(init)
    def call(self: LRScheduler, *args: Any, **kwargs: Any) -> None:
        owners = [a for a in (*args, *kwargs.values()) if hasattr(a, "param_groups")]
        groups = owners[0].param_groups if owners else ()
        before = [group.settings() for group in groups if isinstance(group, ParamGroup)]
        try:
            init(self, *args, **kwargs)
        except BaseException:
            for group, settings in zip(groups, before, strict=False):
                group.restore(settings)
            raise

    call.__signature__ = inspect.signature(init)  # type: ignore[attr-defined]
    del call.__wrapped__
    return call


class LRScheduler:
    """The base of the schedules. A subclass says by `get_lr` what the rates are at ``last_epoch``.

    Making a schedule sets the rates of epoch 0; each `step` those of the next. The rate that a
    group had before its first schedule is kept in it as ``"initial_lr"``. ``last_epoch`` goes on
    from a later epoch, with an optimiser whose groups have one: `ValueError` otherwise.
    """

    unsaved: ClassVar[tuple[str, ...]] = ("optimizer",)
    """The attributes that are no part of `state_dict`."""

    needed: ClassVar[tuple[str, type]] = ("last_epoch", int)
    """What every state has, and of which type."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = self._check_optimizer(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ArgumentError(
                    f"{type(self).__name__}: group {i} has no 'initial_lr', which going on from "
                    f"epoch {last_epoch} needs; set it, or load the optimiser's state first"
                    f", at {format_locs(here())}"
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._last_lr: list[float] = []
        self.step()

    def _check_optimizer(self, optimizer: Any) -> Optimizer:
        """``optimizer``, if it is one."""
        if not isinstance(optimizer, Optimizer):
            raise DTypeError(
                f"{type(self).__name__} takes an optimiser, not {type(optimizer).__name__}"
                f", at {format_locs(here())}"
            )
        return optimizer

    @property
    def _groups(self) -> list[ParamGroup]:
        return self.optimizer.param_groups

    @property
    def _rates(self) -> list[float]:
        """The rates of the groups now."""
        return [group["lr"] for group in self._groups]

    def get_lr(self) -> list[float]:
        """The rates at ``last_epoch``, one for each group. Most schedules go on from the rates that
        the groups have, so that several can act together."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The rates that the schedule set last."""
        return self._last_lr

    def step(self) -> None:
        """Go on to the next epoch."""
        self.last_epoch += 1
        self._set_rates(self.get_lr())

    def restart(self) -> None:
        """Go back to epoch 0."""
        self.last_epoch = -1
        for group, rate in zip(self._groups, self.base_lrs, strict=True):
            group["lr"] = rate
        self.step()

    def _set_rates(self, rates: Iterable[float]) -> None:
        for group, rate in zip(self._groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = self._rates

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimiser, and but functions that cannot be saved."""
        return {n: v for n, v in vars(self).items() if n not in self.unsaved}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on as the schedule that gave ``state_dict``. The rates themselves are in the state of
        the optimiser. Raises `CheckpointError` for what no schedule gave."""
        self._check_saved(state_dict)
        vars(self).update(state_dict)

    def _check_saved(self, saved: Any) -> None:
        """Raise `CheckpointError` if ``saved`` cannot be the state of a schedule of this class."""
        is_dict = isinstance(saved, Mapping)
        if not is_dict or type(saved.get(self.needed[0])) is not self.needed[1]:
            has = [*saved] if is_dict else f"the type {type(saved).__name__}"
            raise CheckpointError(
                f"load_state_dict: the state of {with_article(type(self))} has {self.needed[0]!r}, "
                f"of the type {self.needed[1].__name__}, as its state_dict() gives it; "
                f"this has {has}, at {format_locs(here())}"
            )


def for_groups(optimizer: Optimizer, value: Any, name: str) -> list[Any]:
    """``value`` for each group, or the values of a list that has one for each."""
    count = len(optimizer.param_groups)
    if not isinstance(value, Sequence):
        return [value] * count
    if len(value) != count:
        raise ArgumentError(
            f"{name} has {len(value)} values for {count} parameter groups, at {format_locs(here())}"
        )
    return list(value)
