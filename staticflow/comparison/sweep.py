"""Which mode wins where: both modes over a grid of sizes, and the model that explains it.

A step takes so long for being a step, so long for each of its operations, and so long for each
floating-point operation in them. The eager mode pays for every operation; the static mode pays for
few. How large both prices are is fitted to the points of the grid.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from staticflow.comparison.ablation import repeat_step
from staticflow.comparison.amount import work_of_call
from staticflow.comparison.axes import Axes, grid, split_axes
from staticflow.comparison.contest import Contestant, eager_contestant, static_contestant
from staticflow.comparison.inputs import Batch
from staticflow.comparison.job import Job
from staticflow.comparison.record import Sweep, SweepPoint, WinModel
from staticflow.comparison.source import explain_failure
from staticflow.data_classes import dataclass
from staticflow.measure.operations import record_operations
from staticflow.measure.statistics import time_in_turns
from staticflow.static.twin import late_sizes_finder

__all__ = ["Pair", "fit_model", "sweep", "sweep_job", "usual_axes"]

Array = np.ndarray[Any, Any]

TERMS = ("per_step", "per_operation", "per_flop")


@dataclass(frozen=True, slots=True)
class Pair:
    """Both modes at one setting. ``eager(n)`` and ``static(n)`` make n steps; a step is
    ``operations`` of the eager mode and ``flops`` floating-point operations, which are None if only
    a run can tell them."""

    eager: Callable[[int], object]
    static: Callable[[int], object]
    operations: int
    flops: int | None


def sweep(
    pair_at: Callable[[dict[str, int]], Pair],
    axes: Axes,
    *,
    rounds: int = 5,
    seconds: float = 0.01,
    progress: Callable[[], object] = lambda: None,
    left_out: list[str] | None = None,
) -> Sweep:
    """Time both modes in turns at every setting of the axes, and fit the model to the medians.

    ``pair_at(sizes)`` makes the contestants; ``progress`` is called after each setting. A setting
    at which the model fails has no point, and a sentence in ``left_out``; without that list the
    error is raised.
    """
    points = []
    for sizes in grid(axes):
        try:
            pair = pair_at(sizes)
            samples = time_in_turns({"eager": pair.eager, "static": pair.static}, rounds, seconds)
        except Exception as error:  # whatever a model raises at sizes that nobody has tried
            if left_out is None:
                raise
            told = ", ".join(f"{name}={n}" for name, n in sizes.items())
            left_out.append(f"no step with {told}: {explain_failure(error)}")
        else:
            eager, static = (float(np.median(samples[mode])) for mode in ("eager", "static"))
            points.append(SweepPoint(sizes, eager, static, pair.operations, pair.flops))
        progress()
    return Sweep(tuple(points), fit_model(points))


# -- of a job -------------------------------------------------------------------------------------


def usual_axes(job: Job) -> dict[str, tuple[int, ...]]:
    """The axes of a sweep that nobody asked for: up to two open sizes of the job, each as it is, an
    eighth and four times as large."""
    return {
        name: tuple(sorted({max(1, n // 8), n, 4 * n}))
        for name, n in itertools.islice(job.sizes.items(), 2)
    }


def sweep_job(
    job: Job,
    axes: Axes,
    *,
    rounds: int = 5,
    seconds: float = 0.01,
    progress: Callable[[], object] = lambda: None,
    left_out: list[str] | None = None,
) -> Sweep:
    """The sweep of a job, over open sizes of its inputs and arguments of its model, with what
    ``left_out`` is for `sweep`.

    One program serves all open sizes; other arguments make another model, and another program.
    Raises `ArgumentError` for an axis that the job does not have.
    """
    opened, given = split_axes(axes, job.sizes, job.make)
    programs: dict[tuple[int, ...], tuple[Contestant, Contestant, Callable[..., Any]]] = {}

    def pair_at(sizes: dict[str, int]) -> Pair:
        arguments = {name: sizes[name] for name in given}
        key = tuple(arguments.values())
        if key not in programs:
            one = replace(job, make=functools.partial(job.make, **arguments))
            both = eager_contestant(one), static_contestant(one)
            assert both[1].program is not None
            programs[key] = *both, late_sizes_finder(both[1].program)
        eager, static, find_late = programs[key]
        batch = job.batches(1, {**job.sizes, **{name: sizes[name] for name in opened}})[0]
        assert static.program is not None
        work = work_of_call(static.program, *batch, late=find_late(*batch))
        flops = None if work is None else work.flops
        timed = repeat_step(eager, batch), repeat_step(static, batch)
        return Pair(*timed, operations=_count_operations(eager, batch), flops=flops)

    found = sweep(
        pair_at, axes, rounds=rounds, seconds=seconds, progress=progress, left_out=left_out
    )
    compiled = (static.program for _, static, _ in programs.values())
    return replace(found, compilations=sum(p.compile_count for p in compiled if p is not None))


def _count_operations(eager: Contestant, batch: Batch) -> int:
    """The operations of an eager step, those that others are made of."""
    run = repeat_step(eager, batch)
    run(3)  # what runs often is made ready in the first steps
    with record_operations() as recording:
        run(1)
    return sum(operation.children == 0 for operation in recording.operations)


# -- the model ------------------------------------------------------------------------------------


def fit_model(points: Sequence[SweepPoint]) -> WinModel | None:
    """The prices of a step, of an operation and of a floating-point operation in either mode, none
    below 0, that give the least sum of squared relative errors. What does not vary over the points
    cannot be told from the price of a step and has none, nor have floating-point operations that
    are not known at every point. None of fewer points than prices.

    >>> points = [SweepPoint({"n": n}, 3e-6 + 1e-9 * n, 1e-6 + 1e-9 * n, 1, n)
    ...           for n in (10, 1000, 100_000)]
    >>> fit = fit_model(points)
    >>> [f"{price:.1e}" for price in fit.eager.values()]
    ['3.0e-06', '0.0e+00', '1.0e-09']
    """
    knows = all(p.flops is not None for p in points)
    rows = [[1.0, p.operations, p.flops if knows and p.flops else 0] for p in points]
    features = np.array(rows).reshape(-1, len(TERMS))
    varies = [True, *(len(set(column)) > 1 for column in features.T[1:])]
    if len(points) < sum(varies):
        return None
    prices: dict[str, dict[str, float]] = {}
    errors: dict[str, float] = {}
    for mode in ("eager", "static"):
        seconds = np.array([getattr(p, mode) for p in points])
        found = np.zeros(len(TERMS))
        found[varies] = _least_squares(features[:, varies] / seconds[:, None])
        prices[mode] = dict(zip(TERMS, map(float, found), strict=True))
        errors[mode] = float(np.median(np.abs(features @ found / seconds - 1)))
    return WinModel(prices["eager"], prices["static"], errors)


def _least_squares(relative: Array) -> Array:
    """The ``x``, none below 0, for which ``relative @ x`` is nearest to 1 in every row.

    At the optimum the columns that are not 0 solve the problem without bounds, so with few
    columns every subset is tried and the best that is nowhere below 0 is it.
    """
    columns = relative.shape[1]
    scale = np.abs(relative).max(axis=0)
    best, least = np.zeros(columns), np.inf
    for chosen in itertools.product((False, True), repeat=columns):
        some = np.array(chosen)
        x = np.zeros(columns)
        if some.any():
            scaled = relative[:, some] / scale[some]
            x[some] = np.linalg.lstsq(scaled, np.ones(len(scaled)), rcond=None)[0] / scale[some]
        error = float(np.sum((relative @ x - 1) ** 2))
        if np.all(x >= 0) and error < least:
            best, least = x, error
    return best
