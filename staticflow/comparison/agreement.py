"""Whether both modes compute the same: against each other, against double precision, again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from staticflow import pytree
from staticflow.comparison.chance import Chance, has_drawn
from staticflow.comparison.contest import Contestant, eager_contestant, leaves_of
from staticflow.comparison.differences import (
    SMALL,
    compare_arrays,
    compare_losses,
    first_nan,
    largest_magnitude,
)
from staticflow.comparison.gradient_check import check_gradients
from staticflow.comparison.inputs import Batch
from staticflow.comparison.job import Job, default_dtype
from staticflow.comparison.record import Agreement, Difference
from staticflow.comparison.source import explain_failure
from staticflow.eager.creation import from_numpy
from staticflow.ops.tensors.queries import finfo
from staticflow.runtime.threads import get_num_threads, set_num_threads
from staticflow.static.compile import Program, compile
from staticflow.static.grad import grad

__all__ = ["CHECKED_STEPS", "Look", "agreement_of", "look_eagerly", "look_statically"]

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

CHECKED_STEPS = 50
"""The losses of so many steps are compared: training amplifies differences of rounding."""

NOISE = 100
"""A gradient is rounding alone below so many times what gradients of both modes differ by."""

REPEATED_STEPS = 3
"""So many steps are made again, for the same bits."""


@dataclass(frozen=True, slots=True)
class Look:
    """The outputs, the loss among them, and the gradients of the first step, and whether the model
    draws random numbers."""

    values: Arrays
    gradients: Arrays
    draws: bool


def look_eagerly(job: Job) -> Look:
    """The first step of the eager mode, without its update."""
    model = job.make_model()
    before = Chance.now()
    tensors = [from_numpy(a) for a in job.batches(1)[0]]
    with default_dtype(job.dtype):
        output = job.output_of(model, tensors)
        values = leaves_of(output)
        if job.loss is None:
            return Look(values, {}, has_drawn(before))
        loss = job.loss_of(output, tensors)
        draws = has_drawn(before)
        if loss.requires_grad:
            loss.backward()
    values["loss"] = loss.detach().numpy().copy()
    named = model.named_parameters()
    return Look(values, {n: p.grad.numpy().copy() for n, p in named if p.grad is not None}, draws)


def look_statically(job: Job, **options: Any) -> Look:
    """The first step of the static mode, by a program that gives its values and gradients."""
    model = job.make_model()
    before = Chance.now()
    symbols = job.placeholders()
    with default_dtype(job.dtype):
        output = job.output_of(model, symbols)
        leaves = list(pytree.flatten(output)[0])
        loss = None if job.loss is None else job.loss_of(output, symbols)
        named = {n: p for n, p in model.named_parameters() if p.requires_grad}
        found = (
            grad(loss, list(named.values()), allow_unused=True)
            if loss is not None and named
            else []
        )
    wanted = [leaves, [] if loss is None else [loss], [g for g in found if g is not None]]
    program = compile(symbols, wanted, **options)
    before.restore()
    outputs, losses, gradients = program(*job.batches(1)[0])
    values = leaves_of(outputs)
    if losses:
        values["loss"] = losses[0].numpy().copy()
    reached = [n for n, g in zip(named, found, strict=False) if g is not None]
    return Look(
        values,
        {n: g.numpy().copy() for n, g in zip(reached, gradients, strict=True)},
        has_drawn(before),
    )


# -- all of it -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Double:
    """The eager mode in double precision: a look, the state after a step, and losses. All is None
    where there is none, ``why`` says the reason."""

    look: Look | None = None
    state: Arrays | None = None
    losses: tuple[float, ...] | None = None
    why: str = ""


def agreement_of(
    job: Job,
    static: Contestant,
    losses: Mapping[str, Sequence[float]],
    progress: Callable[[str], Any] = lambda stage: None,
) -> tuple[Agreement, tuple[str, ...]]:
    """What `Agreement` says, and notes on how it was found. ``static`` is a contestant before its
    first step, and is put back there; ``losses`` are those of both modes' steps."""
    progress("values and gradients")
    eager_look, static_look = look_eagerly(job), look_statically(job)
    double = _run_double(job, eager_look.draws)
    progress("the state after a step")
    snapshot, chance = static.snapshot(), static.chance
    batch = job.batches(1)
    eager = eager_contestant(job)
    _run_steps(eager, batch)
    _run_steps(static, batch)
    after = [static.snapshot(), eager.snapshot(), double.state]
    values_64, gradients_64 = (
        (None, None) if double.look is None else (double.look.values, double.look.gradients)
    )
    gradients = compare_arrays(
        static_look.gradients,
        eager_look.gradients,
        gradients_64,
        job.dtype,
    )
    left_out = _leave_out(after, static_look.gradients, eager_look.gradients, gradients)
    state = compare_arrays(after[0] or {}, after[1] or {}, after[2], job.dtype)
    static.restore(snapshot, chance)
    progress("once more, and on one thread")
    deterministic, on_threads = _repeat(job, static)
    checked = min(job.steps, CHECKED_STEPS)
    of_steps = compare_losses(
        losses["static"][:checked], losses["eager"][:checked], double.losses, job.dtype
    )
    values = compare_arrays(static_look.values, eager_look.values, values_64, job.dtype)
    on_purpose = _on_purpose(static.program, losses, static_look, eager_look)
    parts = {"values": values, "gradients": gradients, "state": state, "losses": of_steps}
    agree, verdict = _verdict(parts, losses, on_purpose)
    found = Agreement(
        agree, verdict, values, gradients, state, of_steps, check_gradients(job),
        deterministic, on_threads, on_purpose,
    )  # fmt: skip
    notes = [double.why] if double.why else []
    if left_out:
        notes.append(
            f"the state is compared without {left_out:,} elements whose gradient is rounding alone"
        )
    return found, tuple(notes)


def _leave_out(
    states: Sequence[Arrays | None], static: Arrays, eager: Arrays, gradients: Difference
) -> int:
    """Put zeros for the elements of parameters whose gradient is nothing but rounding, since a rule
    such as Adam's makes a whole step of it; the number of elements."""
    count = 0
    least = SMALL * max(largest_magnitude(static), largest_magnitude(eager))
    for name in static.keys() & eager.keys():
        ours, other = np.abs(static[name]), np.abs(eager[name])
        largest = max(ours.max(initial=0), other.max(initial=0), least)
        rounding = max(gradients.static_eager or 0.0, finfo(ours.dtype).eps)
        noise = min(NOISE * rounding, SMALL) * float(largest)
        is_noise = (np.minimum(ours, other) <= noise) & ((ours != 0) | (other != 0))
        count += int(is_noise.sum())
        for state in states:
            if state is not None and name in state:
                state[name][is_noise] = 0
    return count


def _run_double(job: Job, draws: bool) -> _Double:
    if job.dtype == "float64":
        return _Double()
    if draws:
        return _Double(
            why="not compared with float64: the model draws random numbers, which differ by dtype"
        )
    try:
        with default_dtype("float64"):
            twin = job.in_dtype("float64")
            look = look_eagerly(twin)
            contestant = eager_contestant(twin)
            count = min(job.steps, CHECKED_STEPS)
            batches = twin.batches(count)
            losses = _run_steps(contestant, batches[:1])
            state = contestant.snapshot()
            losses += _run_steps(contestant, batches[1:])
    except Exception as error:  # whatever a model in float32 alone may raise
        return _Double(why=f"not compared with float64: {explain_failure(error)}")
    return _Double(look, state, tuple(losses))


def _run_steps(contestant: Contestant, batches: Sequence[Batch]) -> list[float]:
    """The losses of some steps: nothing of a job without one."""
    contestant.chance.restore()
    losses = []
    for batch in batches:
        found = contestant.step(*batch)
        if getattr(found, "shape", None) == ():
            losses.append(float(found.item()))
    contestant.chance = Chance.now()
    return losses


def _repeat(job: Job, static: Contestant) -> tuple[dict[str, bool], dict[str, bool]]:
    """Whether the same steps give the same bits once more, and on one thread, by mode."""
    batches = job.batches(min(job.steps, REPEATED_STEPS))
    snapshot, chance = static.snapshot(), static.chance

    def run_static() -> list[bytes]:
        static.restore(snapshot, chance)
        return _bits(static, batches)

    def run_eager() -> list[bytes]:
        return _bits(eager_contestant(job), batches)

    again, threads = {}, {}
    for mode, run in (("eager", run_eager), ("static", run_static)):
        first = run()
        again[mode] = run() == first
        count = get_num_threads()
        set_num_threads(1)
        try:
            threads[mode] = run() == first
        finally:
            set_num_threads(count)
    static.restore(snapshot, chance)
    return again, threads


def _bits(contestant: Contestant, batches: Sequence[Batch]) -> list[bytes]:
    contestant.chance.restore()
    found = []
    for batch in batches:
        found += [a.tobytes() for a in leaves_of(contestant.step(*batch)).values()]
    contestant.chance = Chance.now()
    return found + [a.tobytes() for a in contestant.snapshot().values()]


# -- the verdict -----------------------------------------------------------------------------------


def _on_purpose(
    program: Program | None, losses: Mapping[str, Sequence[float]], static: Look, eager: Look
) -> tuple[str, ...]:
    """Sentences on losses that are infinite or NaN eagerly, and numbers in the graph, where a
    stable form stands for what was written; none where no such rule fired."""
    rules = [rule for report in program.passes if report.name.startswith("stabilize")
             for rule in report.counts] if program else []  # fmt: skip
    if not rules:
        return ()
    pairs = list(zip(losses["eager"], losses["static"], strict=False))
    if "loss" in static.values and "loss" in eager.values:
        pairs.insert(0, (float(eager.values["loss"]), float(static.values["loss"])))
    for ours, other in pairs:
        if not math.isfinite(ours) and math.isfinite(other):
            return (
                f"the loss is {ours} eagerly and {other:.6g} in the graph, which rounds better "
                f"({', '.join(sorted(rules))})",
            )
    return ()


def _verdict(
    parts: dict[str, Difference], losses: Mapping[str, Sequence[float]], on_purpose: tuple[str, ...]
) -> tuple[bool, str]:
    """Whether all parts agree, and a sentence."""
    if on_purpose:
        return True, f"they differ on purpose: {on_purpose[0]}"
    apart = [
        f"the {part} differ by {d.static_eager:.1e}"
        f"{f' at {d.where}' if d.where else ''}, more than {d.limit:.0e}"
        for part, d in parts.items()
        if d.static_eager is not None and not d.static_eager <= d.limit
    ]
    nans = {mode: first_nan(losses[mode]) for mode in ("eager", "static")}
    if nans["eager"] != nans["static"]:
        told = [f"{m} at step {n}" if n else f"{m} not" for m, n in nans.items()]
        apart.insert(0, f"went to NaN: {', '.join(told)}")
    if apart:
        return False, f"they do not agree: {'; '.join(apart)}"
    if nans["eager"] is not None:
        return True, f"both went to NaN at step {nans['eager']}; until then they agree"
    return True, "they agree"
