"""The contestants, one for each mode, and the rounds in which they take turns."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from staticflow import pytree
from staticflow.comparison.chance import Chance
from staticflow.comparison.inputs import Batch
from staticflow.comparison.job import Job, default_dtype
from staticflow.data_classes import dataclass
from staticflow.eager.creation import from_numpy
from staticflow.eager.grad_mode import no_grad
from staticflow.eager.tensor import Tensor
from staticflow.measure.statistics import until_idle
from staticflow.nn.module import Module
from staticflow.runtime.threads import get_num_threads
from staticflow.static.compile import Program, compile
from staticflow.static.grad import grad

__all__ = ["Contestant", "Samples", "eager_contestant", "run_rounds", "static_contestant"]

Array = np.ndarray[Any, Any]

ROUNDS = 10
"""The steps are made in so many rounds, of which the first warms up."""

LONG_ENOUGH = 0.4
"""Seconds of each contestant after which enough steps were timed."""

MOST_STEPS = 2000


@dataclass(slots=True)
class Contestant:
    """One mode of a job: ``step`` takes the arrays of a batch and gives the loss (of a job without
    one, the outputs)."""

    mode: str
    model: Module
    optimizer: Any
    step: Callable[..., Any]
    program: Program | None
    chance: Chance
    """Where the sources of random numbers stand at its turns."""

    def tensors(self) -> dict[str, Tensor]:
        """What a step may change: parameters, buffers, and the state of the optimiser."""
        parameters = dict(self.model.named_parameters())
        found: dict[str, Tensor] = {**parameters, **dict(self.model.named_buffers())}
        for name, parameter in parameters.items():
            for part, value in (getattr(self.optimizer, "state", {}).get(parameter) or {}).items():
                if isinstance(value, Tensor):
                    found[f"{name}.{part}"] = value
        return found

    def snapshot(self) -> dict[str, Array]:
        """A copy of all that a step may change."""
        return {name: t.detach().numpy().copy() for name, t in self.tensors().items()}

    def restore(self, snapshot: dict[str, Array], chance: Chance) -> None:
        """Go back to a snapshot, and to where the sources of random numbers stood then."""
        with no_grad():
            for name, tensor in self.tensors().items():
                if name in snapshot:
                    tensor.copy_(from_numpy(snapshot[name]))
        self.chance = chance


def eager_contestant(job: Job, dtype: str | None = None) -> Contestant:
    """The eager mode of the job, its model made by the seed."""
    model = job.make_model(dtype)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = job.make_optimizer(model)

    def run_forward(*arrays: Array) -> Any:
        with no_grad():
            tensors = [from_numpy(a) for a in arrays]
            output = job.output_of(model, tensors)
            return output if job.loss is None else job.loss_of(output, tensors)

    def find_gradients(*arrays: Array) -> Any:
        tensors = [from_numpy(a) for a in arrays]
        model.zero_grad()
        loss = job.loss_of(job.output_of(model, tensors), tensors)
        loss.backward()
        return loss

    def train(*arrays: Array) -> Any:
        tensors = [from_numpy(a) for a in arrays]
        optimizer.zero_grad()
        loss = job.loss_of(job.output_of(model, tensors), tensors)
        loss.backward()
        optimizer.step()
        return loss

    is_forward = job.loss is None or not trained
    step = run_forward if is_forward else find_gradients if optimizer is None else train
    return Contestant("eager", model, optimizer, step, None, Chance.now())


def static_contestant(job: Job, **options: Any) -> Contestant:
    """The static mode of the job: a compiled step, of a model made by the seed. ``options`` are
    those of `staticflow.compile`. Raises what the model raises if it cannot be a graph."""
    model = job.make_model()
    chance = Chance.now()
    optimizer, symbols, outputs, updates = trace_step(job, model)
    program = compile(symbols, outputs, updates=updates, **options)
    chance.restore()

    def step(*arrays: Array) -> Any:
        found = program(*arrays)
        return found[0] if isinstance(outputs, list) else found

    whole = step if isinstance(outputs, list) else program
    return Contestant("static", model, optimizer, whole, program, chance)


def trace_step(
    job: Job, model: Module, split: Callable[[list[Any]], list[Any]] = list
) -> tuple[Any, list[Any], Any, Any]:
    """The optimiser, and the symbols of the inputs, the outputs and the updates of a step: the
    outputs are the loss, with the gradients in a list if nothing is updated. The model and the loss
    are given what ``split`` makes of the symbols."""
    symbols = job.placeholders()
    with default_dtype(job.dtype):
        given = split(symbols)
        output = job.output_of(model, given)
        if job.loss is None:
            return None, symbols, output, None
        loss = job.loss_of(output, given)
        trained = [p for p in model.parameters() if p.requires_grad]
        if not trained:
            return None, symbols, loss, None
        if job.optimizer is None:
            return None, symbols, [loss, *grad(loss, trained, allow_unused=True)], None
        optimizer = job.make_optimizer(model)
        return optimizer, symbols, loss, optimizer.minimize(loss)


@dataclass(slots=True)
class Samples:
    """What a contestant did in its rounds: the loss and the seconds of each step. The first
    ``warm`` of these are of the round that warms up."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    warm: int = 0

    @property
    def steady(self) -> list[float]:
        """The seconds of the steps after the first round, or of all if there is no other."""
        return self.seconds[self.warm :] or self.seconds


def run_rounds(
    contestants: Sequence[Contestant],
    batches: Sequence[Batch],
    samples: dict[str, Samples],
    progress: Callable[[int], Any] = lambda steps: None,
    is_quick: bool = False,
    when_trained: Callable[[Contestant], Any] = lambda contestant: None,
) -> None:
    """Make the steps of ``batches`` with each contestant, and put what is measured into
    ``samples``, by mode, as it is found.

    They take turns in rounds, first the one and then the other, so that what else the machine does
    meets all alike; the threads of NumPy sleep before each turn. Afterwards steps are timed, with
    the same batches, until there are enough; before these ``when_trained`` is called with each
    contestant.
    """
    for each in contestants:
        samples[each.mode] = Samples()
    length = max(1, math.ceil(len(batches) / ROUNDS))
    starts = range(0, len(batches), length)
    for number, start in enumerate(starts):
        part = batches[start : start + length]
        for each in contestants if number % 2 == 0 else reversed(contestants):
            _run_round(each, part, samples[each.mode], keeps_losses=True)
            if number == 0:
                samples[each.mode].warm = len(part) if len(batches) > length else 0
            progress(len(part))
    for each in contestants:
        when_trained(each)
    number = 0
    while not is_quick and any(
        sum(s.steady) < LONG_ENOUGH and len(s.seconds) < MOST_STEPS for s in samples.values()
    ):
        start = number * length % len(batches)
        for each in contestants if number % 2 == 0 else reversed(contestants):
            _run_round(
                each, batches[start : start + length], samples[each.mode], keeps_losses=False
            )
        number += 1


def _run_round(
    contestant: Contestant, batches: Sequence[Batch], samples: Samples, keeps_losses: bool
) -> None:
    step, seconds = contestant.step, samples.seconds
    contestant.chance.restore()
    until_idle(get_num_threads())
    for batch in batches:
        began = time.perf_counter()
        found = step(*batch)
        seconds.append(time.perf_counter() - began)
        if keeps_losses and isinstance(found, Tensor) and found.shape == ():
            samples.losses.append(float(found.item()))
    contestant.chance = Chance.now()


def leaves_of(outputs: Any) -> dict[str, Array]:
    """The tensors of a tree as arrays, by their numbers."""
    leaves = [leaf for leaf in pytree.flatten(outputs)[0] if isinstance(leaf, Tensor)]
    names = ["output"] if len(leaves) == 1 else [f"output {i}" for i in range(len(leaves))]
    return {n: x.detach().numpy().copy() for n, x in zip(names, leaves, strict=True)}
