"""A model under other libraries, where its file has the counterparts.

A file of a model may have ``peers``, a dict of functions by the names under which they are shown.
Each takes the initial parameters, a dict of NumPy arrays by their names in the model, and gives two
functions: ``step(*arrays)``, which makes one step with a batch and gives the loss, and
``parameters()``, which gives the parameters of now, as arrays by the same names. What a function
imports it imports inside, so that only a library that is not installed is left out::

    def pytorch(parameters):
        import torch
        net = ...                                   # with these parameters
        def step(x, y):
            ...
            return loss
        return step, lambda: {n: p.detach().numpy() for n, p in net.named_parameters()}

    peers = {"PyTorch": pytorch}

A contestant that does not come to the losses and parameters of staticflow's eager mode is not
timed. Elements of parameters whose gradient is rounding alone are not compared, and how many these
are is said: a rule such as Adam's moves them by a whole step, each library its own way.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from staticflow.comparison.ablation import repeat_step
from staticflow.comparison.contest import Contestant, eager_contestant
from staticflow.comparison.differences import LIMITS, largest_difference, relative_difference
from staticflow.comparison.inputs import Batch
from staticflow.comparison.job import Job
from staticflow.comparison.record import Peer
from staticflow.comparison.rounding import clear_elements, find_noise
from staticflow.comparison.source import explain_failure
from staticflow.data_classes import dataclass
from staticflow.measure.others import OtherPrograms
from staticflow.measure.statistics import spread, spread_of_ratio, time_in_turns
from staticflow.runtime.threads import get_num_threads

__all__ = ["Peers", "time_peers"]

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Make = Callable[[Arrays], Any]

CHECKED_STEPS = 3
"""Steps that a peer makes, each with a loss, before it may be timed."""

_PACKAGES = {"pytorch": "torch"}
"""Packages whose name is not the first word of what contestants of theirs are called."""


@dataclass(frozen=True, slots=True)
class Peers:
    """The peers that were timed, for each other one a sentence that says why it was not, and
    sentences on what of the timed ones was not compared."""

    timed: tuple[Peer, ...]
    left_out: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Entrant:
    """A peer that agrees, the seconds that its first step took, how far off it was, and how many
    elements of its parameters were not compared."""

    step: Callable[..., Any]
    first_step: float
    difference: float
    noise: int


def time_peers(
    job: Job,
    peers: Mapping[str, Make],
    ours: Contestant,
    *,
    rounds: int = 15,
    seconds: float = 0.02,
    progress: Callable[[], object] = lambda: None,
) -> Peers:
    """Check each peer against the eager mode, and time those that agree in turns with ``ours``.

    A peer agrees if no loss of a few steps, and no parameter after them, is further from
    staticflow's than two modes may be. Each has ``rounds`` turns of ``seconds``; ``progress`` is
    called after each. PyTorch runs on as many threads as staticflow.
    """
    entrants: dict[str, _Entrant] = {}
    left_out: list[str] = []
    with _restoring_threads():
        for name, make in peers.items():
            found = _enter(job, name, make)
            if isinstance(found, str):
                left_out.append(found)
            else:
                entrants[name] = found
        if not entrants:
            return Peers((), tuple(left_out))
        batch = job.batches(1)[0]
        runs = {name: _repeat(e.step, batch) for name, e in entrants.items()}
        others = OtherPrograms()
        samples = time_in_turns(
            {"": repeat_step(ours, batch), **runs}, rounds, seconds, progress, get_num_threads()
        )
        busy = others.remark(get_num_threads())
    timed = tuple(
        Peer(
            name,
            _version_for(name),
            spread(samples[name]),
            e.first_step,
            e.difference,
            spread_of_ratio(samples[name], samples[""]),
        )
        for name, e in entrants.items()
    )
    notes = [f"beside the peers {busy}"] if busy else []
    notes += [
        f"{name} is compared without {e.noise:,} element{'s' * (e.noise != 1)} of its parameters, "
        "whose gradient is rounding alone in one of the first steps"
        for name, e in entrants.items()
        if e.noise
    ]
    return Peers(timed, tuple(left_out), tuple(notes))


def _enter(job: Job, name: str, make: Make) -> _Entrant | str:
    """The peer after its first steps, or why it does not take part."""
    ours = eager_contestant(job)
    batches = job.batches(CHECKED_STEPS)
    try:
        step, parameters = make({n: a.copy() for n, a in ours.snapshot().items()})
        _match_threads()
        began = time.perf_counter()
        losses = {"the loss of step 1": _wait(step(*batches[0]))}
        first_step = time.perf_counter() - began
        for number, batch in enumerate(batches[1:], 2):
            losses[f"the loss of step {number}"] = _wait(step(*batch))
        state = {n: np.array(a) for n, a in parameters().items()}
    except ImportError as error:
        return f"{name} is left out: {error}"
    except Exception as error:
        return f"{name} is left out, since it fails: {explain_failure(error)}"
    expected: Arrays = {}
    noise: Arrays = {}
    for what, batch in zip(losses, batches, strict=True):
        expected[what] = _wait(ours.step(*batch))
        noise = _add_noise(noise, ours, job)
    wanted = {n: p.detach().numpy().copy() for n, p in ours.model.named_parameters()}
    missing = sorted(wanted.keys() - state.keys())
    if missing:
        return f"{name} is left out: its parameters() has no {missing[0]!r}"
    apart = max((relative_difference(losses[n], expected[n]), n) for n in losses)
    same = {n: m for n, m in noise.items() if state[n].shape == m.shape}
    of_noise = clear_elements(same, (wanted, state))
    of_state = largest_difference(wanted, state)
    if of_state is not None:
        apart = max(apart, (of_state[0], f"parameter {of_state[1]}"))
    limit = LIMITS[job.dtype]
    if not apart[0] <= limit:
        return (
            f"{name} is left out, since it does not compute the same: {apart[1]} is "
            f"{apart[0]:.1e} off, relative to its size, and {limit:.0e} is allowed"
        )
    return _Entrant(step, first_step, apart[0], of_noise)


def _add_noise(noise: Arrays, ours: Contestant, job: Job) -> Arrays:
    """The masks ``noise``, with the elements of parameters whose gradient was rounding alone in the
    last step; without an update there are none."""
    if job.optimizer is None:
        return noise
    parameters = ours.model.named_parameters()
    gradients = {n: p.grad.numpy() for n, p in parameters if p.grad is not None}
    return {n: noise.get(n, False) | mask for n, mask in find_noise([gradients]).items()}


def _repeat(step: Callable[..., Any], batch: Batch) -> Callable[[int], None]:
    """A function that makes so many steps and waits for the last loss."""

    def run(n: int) -> None:
        loss: Any = None
        for _ in range(n):
            loss = step(*batch)
        _wait(loss)

    return run


def _wait(loss: Any) -> Array:
    """The loss as an array, once it is there: some libraries compute it later."""
    return np.asarray(loss.detach() if hasattr(loss, "detach") else loss)


def _version_for(name: str) -> str:
    """The version of the package that the first word of a contestant's name names, or nothing."""
    from importlib.metadata import PackageNotFoundError, version

    word = next(iter(name.replace(".", " ").lower().split()), "")
    try:
        return version(_PACKAGES.get(word, word))
    except (PackageNotFoundError, ValueError):
        return ""


@contextmanager
def _restoring_threads() -> Iterator[None]:
    """PyTorch has afterwards as many threads as before, if it was loaded."""
    torch = sys.modules.get("torch")
    before = None if torch is None else torch.get_num_threads()
    try:
        yield
    finally:
        if torch is not None:
            torch.set_num_threads(before)


def _match_threads() -> None:
    """Let PyTorch, where it is loaded, run on as many threads as staticflow."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(get_num_threads())
