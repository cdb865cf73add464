"""Whether both modes compute the same: against each other, against double precision, again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow import pytree
from staticflow.comparison.chance import Chance, has_drawn
from staticflow.comparison.contest import Contestant, eager_contestant, leaves_of
from staticflow.comparison.differences import first_lost, first_nan
from staticflow.comparison.gradient_check import check_gradients
from staticflow.comparison.inputs import Batch
from staticflow.comparison.job import Job, default_dtype
from staticflow.comparison.judge import Double, Judge, Look, Parts
from staticflow.comparison.purpose import filling_contestant, stable_rules
from staticflow.comparison.record import Agreement
from staticflow.comparison.source import explain_failure
from staticflow.eager.creation import from_numpy
from staticflow.runtime.threads import get_num_threads, set_num_threads
from staticflow.static.compile import compile
from staticflow.static.grad import grad

__all__ = [
    "CHECKED_STEPS",
    "Look",
    "agreement_of",
    "find_verdict",
    "look_eagerly",
    "look_statically",
]

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

CHECKED_STEPS = 50
"""The losses of so many steps are compared: training amplifies differences of rounding."""

REPEATED_STEPS = 3
"""So many steps are made again, for the same bits."""


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


def agreement_of(
    job: Job,
    static: Contestant,
    losses: Mapping[str, Sequence[float]],
    progress: Callable[[str], Any] = lambda stage: None,
) -> tuple[Agreement, tuple[str, ...]]:
    """What `Agreement` says, and notes on how it was found. ``static`` is a contestant before its
    first step, and is put back there; ``losses`` are those of both modes' steps."""
    progress("values and gradients")
    looks = {"static": look_statically(job), "eager": look_eagerly(job)}
    double = _run_double(job, looks["eager"].draws)
    progress("the state after a step")
    snapshot, chance = static.snapshot(), static.chance
    _run_steps(static, job.batches(1))
    after = static.snapshot()
    static.restore(snapshot, chance)
    checked = losses["static"][: min(job.steps, CHECKED_STEPS)]
    rules = stable_rules(static.program)
    judge = Judge(job.dtype, looks["static"], looks["eager"], after, checked, rules)
    parts, of_zeros = judge.compare(_first_state(job), losses["eager"], double), ""
    if judge.find_apart(parts) or judge.unreached:
        parts, of_zeros = _compare_with_zeros(job, judge, parts)
    on_purpose = (*judge.on_purpose, *filter(None, [of_zeros]))
    progress("once more, and on one thread")
    deterministic, on_threads = _repeat(job, static)
    agree, verdict = find_verdict(judge.find_apart(parts), losses, on_purpose)
    found = Agreement(
        agree, verdict, **parts, gradcheck=check_gradients(job), deterministic=deterministic,
        same_on_threads=on_threads, on_purpose=on_purpose,
    )  # fmt: skip
    notes = [double.why] if double.why else []
    if judge.left_out:
        notes.append(
            f"the state is compared without {judge.left_out:,} element"
            f"{'s' * (judge.left_out != 1)} whose gradient is rounding alone"
        )
    return found, tuple(notes)


def _first_state(job: Job) -> Arrays:
    """The state of the eager mode after its first step."""
    eager = eager_contestant(job)
    _run_steps(eager, job.batches(1))
    return eager.snapshot()


def _compare_with_zeros(job: Job, judge: Judge, parts: Parts) -> tuple[Parts, str]:
    """The differences from an eager mode that takes zeros for gradients that a step does not reach,
    as the graph does, and a sentence on it, if it agrees by that; else ``parts`` and ""."""
    names = judge.static.gradients.keys()
    if job.optimizer is None or not names:
        return parts, ""
    contestant, filled = filling_contestant(job, names)
    batches = job.batches(len(judge.losses))
    losses = _run_steps(contestant, batches[:1])
    state = contestant.snapshot()
    losses += _run_steps(contestant, batches[1:])
    if not filled:
        return parts, ""
    found = judge.compare(state, losses, _run_double(job, judge.eager.draws, names))
    if judge.find_apart(found):
        return parts, ""
    some = ", ".join(sorted(filled)[:3])
    more = f" and {len(filled) - 3} more" if len(filled) > 3 else ""
    return found, (
        f"where a step does not reach {some}{more}, as in a loop of no iterations, the gradient is "
        "None eagerly and the optimiser passes over it; in the graph it is zeros, which the "
        "optimiser takes. State and losses are compared with an eager mode that takes zeros"
    )


def _run_double(job: Job, draws: bool, filled: Collection[str] = ()) -> Double:
    """The eager mode in double precision, with zeros for a gradient of ``filled`` that a step does
    not reach."""
    if job.dtype == "float64":
        return Double()
    if draws:
        return Double(
            why="not compared with float64: the model draws random numbers, which differ by dtype"
        )
    try:
        with default_dtype("float64"):
            twin = job.in_dtype("float64")
            look = look_eagerly(twin)
            contestant = filling_contestant(twin, filled)[0] if filled else eager_contestant(twin)
            count = min(job.steps, CHECKED_STEPS)
            batches = twin.batches(count)
            losses = _run_steps(contestant, batches[:1])
            state = contestant.snapshot()
            losses += _run_steps(contestant, batches[1:])
    except Exception as error:  # whatever a model in float32 alone may raise
        return Double(why=f"not compared with float64: {explain_failure(error)}")
    return Double(look, state, tuple(losses))


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


def find_verdict(
    apart: list[str], losses: Mapping[str, Sequence[float]], on_purpose: tuple[str, ...]
) -> tuple[bool, str]:
    """Whether all parts agree, and a sentence."""
    nans = {mode: first_nan(losses[mode]) for mode in ("eager", "static")}
    lost = first_lost(losses["eager"], losses["static"])
    is_late = lost is not None and all(n is None or n >= lost for n in nans.values())
    if nans["eager"] != nans["static"] and not on_purpose and not is_late:
        told = [f"{m} at step {n}" if n else f"{m} not" for m, n in nans.items()]
        apart = [f"went to NaN: {', '.join(told)}", *apart]
    if apart:
        return False, f"they do not agree: {'; '.join(apart)}"
    if on_purpose:
        return True, "they agree, but for what differs on purpose"
    if lost is not None:
        ends = ", ".join(f"{mode} {losses[mode][lost - 1]}" for mode in nans)
        return True, f"both overflowed by step {lost} ({ends}); until then they agree"
    if nans["eager"] is not None:
        return True, f"both went to NaN at step {nans['eager']}; until then they agree"
    return True, "they agree"
