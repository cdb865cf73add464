"""Averages of the weights that a training goes through (Izmailov et al. 2018, arXiv:1803.05407)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.dtypes import int64
from staticflow.graph.locs import format_locs, here
from staticflow.nn.module import Module
from staticflow.nn.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d
from staticflow.ops.basics.creation import full
from staticflow.ops.declaring.foreign import refuses_foreign_in
from staticflow.ops.declaring.thread import recording
from staticflow.optim.lr_scheduler.base import LRScheduler, for_groups
from staticflow.optim.optimizer import Optimizer

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip

Average = Callable[[Any, Any, Any], Any]
Averages = Callable[[Sequence[Any], Sequence[Any], Any], None]


class AveragedModel(Module):
    """A copy of ``model``, in ``module``, whose parameters are averages of those that `model` had
    at the calls of `update_parameters`: plain means, what ``avg_fn(average, current, n_averaged)``
    gives of each, or what ``multi_avg_fn(averages, currents, n_averaged)`` writes into all.

    Buffers are averaged as well if ``use_buffers``, else taken over.

    >>> import staticflow as sf
    >>> model = sf.nn.Linear(1, 1, bias=False)
    >>> average = AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     model.weight.data.fill_(value)
    ...     average.update_parameters(model)
    tensor([[1.]])
    tensor([[2.]])
    tensor([[6.]])
    >>> average.module.weight.item(), average.n_averaged.item()
    (3.0, 3)
    """

    n_averaged: Any

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Averages | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ArgumentError(
                f"AveragedModel: give avg_fn or multi_avg_fn, not both, at {format_locs(here())}"
            )
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module.to(device=device)
        first = next(iter((*self.module.parameters(), *self.module.buffers())), None)
        if first is None:
            raise ArgumentError(
                f"AveragedModel: {type(model).__name__} has no parameters and no buffers to "
                f"average, at {format_locs(here())}"
            )
        self.register_buffer("n_averaged", full.beside(first, shape=(), value=0, dtype=int64))
        self.avg_fn, self.multi_avg_fn = avg_fn, multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the copy computes."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of ``model`` into the averages."""
        own, new = _tensors_of(self.module, self.use_buffers), _tensors_of(model, self.use_buffers)
        if self.n_averaged == 0:
            for average, current in zip(own, new, strict=True):
                average.copy_(current)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(own, new, self.n_averaged)
        else:
            average_of = self.avg_fn or get_swa_avg_fn()
            for average, current in zip(own, new, strict=True):
                average.copy_(average_of(average, current.to(average.device), self.n_averaged))
        if not self.use_buffers:
            for buffer, current in zip(self.module.buffers(), model.buffers(), strict=True):
                buffer.copy_(current)
        self.n_averaged.add_(1)


def _tensors_of(model: Module, buffers: bool) -> list[Any]:
    """What is averaged, on its own memory and without history."""
    return [t.detach() for t in (*model.parameters(), *(model.buffers() if buffers else ()))]


def get_swa_avg_fn() -> Average:
    """The function that makes the mean of all so far."""
    return lambda average, current, count: average + (current - average) / (count + 1)


def get_swa_multi_avg_fn() -> Averages:
    """The function that makes the means of all so far, for all parameters at once."""
    return _for_all(get_swa_avg_fn())


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The function that mixes ``decay`` of the average with the rest of the parameter."""
    if not 0 <= decay <= 1:
        raise ArgumentError(
            f"get_ema_avg_fn: decay must be from 0 to 1, not {decay}, at {format_locs(here())}"
        )
    return lambda average, current, count: decay * average + (1 - decay) * current


def get_ema_multi_avg_fn(decay: float = 0.999) -> Averages:
    """The function that mixes ``decay`` of each average with the rest of its parameter, for all
    parameters at once."""
    return _for_all(get_ema_avg_fn(decay))


def _for_all(average_of: Average) -> Averages:
    def write(averages: Sequence[Any], currents: Sequence[Any], count: Any) -> None:
        for average, current in zip(averages, currents, strict=True):
            average.copy_(average_of(average, current, count))

    return write


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Make the running means and variances of all batch normalisations in ``model`` those of the
    inputs in ``loader``, batches or lists that begin with one: the averaged weights never saw
    any."""
    norms = [m for m in model.modules() if isinstance(m, BatchNorm1d | BatchNorm2d | BatchNorm3d)]
    if not norms:
        return
    momenta, training = [m.momentum for m in norms], model.training
    before = [[(b, b.clone()) for b in norm.buffers()] for norm in norms]
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # plain means
        model.train()
        with recording(False):
            for batch in loader:
                given = batch[0] if isinstance(batch, list | tuple) else batch
                model(given if device is None else given.to(device))
    except BaseException:
        for buffer, values in chain.from_iterable(before):
            buffer.copy_(values)
        raise
    finally:
        _restore_modes(model, training, norms, momenta)


def _restore_modes(
    model: Module, training: bool, norms: Sequence[Any], momenta: Sequence[float | None]
) -> None:
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """A rate that goes from what the groups have to ``swa_lr`` (or one for each) in
    ``anneal_epochs`` epochs, along a cosine (``"cos"``) or evenly (``"linear"``)."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear") or anneal_epochs < 0:
            raise ArgumentError(
                'SWALR: anneal_strategy is "cos" or "linear" and anneal_epochs 0 or more, not '
                f"{anneal_strategy!r} and {anneal_epochs}, at {format_locs(here())}"
            )
        self.swa_lrs = for_groups(optimizer, swa_lr, "swa_lr")
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _remaining_part(self, epoch: int) -> float:
        """Which part of the way is still to go."""
        part = min(max(epoch, 0) / max(self.anneal_epochs, 1), 1.0)
        return 1 - part if self.anneal_strategy == "linear" else (1 + math.cos(math.pi * part)) / 2

    def get_lr(self) -> list[float]:
        """The rates before, nearer to ``swa_lr``."""
        epoch = self.last_epoch if self.anneal_epochs else max(self.last_epoch, 1)
        before = self._remaining_part(epoch - 1)
        shrunk = self._remaining_part(epoch) / before if before else 0.0
        pairs = zip(self._rates, self.swa_lrs, strict=True)
        return [end + (rate - end) * shrunk for rate, end in pairs]


refuses_foreign_in(globals())
