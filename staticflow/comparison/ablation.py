"""What each pass is worth: the compiled step without it, in turns with the whole one.

A pass whose absence leaves the optimised graph as it is cannot change its time: it is named, and
neither compiled nor timed, so an ablation costs what the passes that matter cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from staticflow.comparison.agreement import look_eagerly, look_statically
from staticflow.comparison.chance import Chance
from staticflow.comparison.contest import Contestant, leaves_of, static_contestant
from staticflow.comparison.differences import LIMITS, largest_difference
from staticflow.comparison.inputs import Batch
from staticflow.comparison.job import Job
from staticflow.comparison.record import Ablation
from staticflow.comparison.rounding import clear_elements, find_noise
from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError, ShapeError
from staticflow.measure.statistics import spread, spread_of_ratio, time_in_turns
from staticflow.passes.order import choose_passes
from staticflow.passes.pipeline import optimize
from staticflow.static.compile import Program

__all__ = ["Ablations", "ablate", "repeat_step"]

Array = np.ndarray[Any, Any]

CHECKED_STEPS = 3
"""Steps after which the results without a pass are compared with those of the whole program."""


@dataclass(frozen=True, slots=True)
class Ablations:
    """``rows``, the pass that saves most time first; ``no_effect`` are the passes without which the
    optimised graph is the same, ``needed`` those that no program can do without."""

    rows: tuple[Ablation, ...]
    no_effect: tuple[str, ...]
    needed: tuple[str, ...]


def ablate(
    job: Job,
    *,
    rounds: int = 9,
    seconds: float = 0.02,
    progress: Callable[[], object] = lambda: None,
) -> Ablations:
    """Leave out each pass in turn, and time what is left.

    Results agree if after a few steps no output and no part of the state is further from those of
    the whole program than two modes may be. Each program has ``rounds`` turns of ``seconds``;
    ``progress`` is called after each. The model must be one that can be a graph.
    """
    whole = static_contestant(job)
    no_effect, needed, effective = _sort_passes(_program_of(whole))
    programs = {"": whole}
    for name in effective:
        programs[name] = static_contestant(job, passes=[f"-{name}"])
    judge = _Judge(job, _results(job, whole))
    agree = {name: judge.agrees(name, _results(job, programs[name])) for name in effective}
    batch = job.batches(1)[0]
    runs = {name: repeat_step(each, batch) for name, each in programs.items()}
    samples = time_in_turns(runs, rounds, seconds, progress)
    rows = [
        Ablation(
            name,
            spread(samples[name]),
            spread_of_ratio(samples[name], samples[""]).median,
            _peak_of(_program_of(programs[name]), job.sizes),
            _program_of(programs[name]).kernel_count,
            agree[name],
        )
        for name in effective
    ]
    rows.sort(key=lambda row: row.ratio, reverse=True)
    return Ablations(tuple(rows), tuple(no_effect), tuple(needed))


def _program_of(contestant: Contestant) -> Program:
    assert contestant.program is not None
    return contestant.program


def _sort_passes(program: Program) -> tuple[list[str], list[str], list[str]]:
    """The names of the passes that change nothing, that cannot be left out, and the others."""
    no_effect: list[str] = []
    needed: list[str] = []
    effective: list[str] = []
    expected = str(program.optimized)
    for report in program.passes:
        try:
            without = choose_passes([f"-{report.name}"])
        except ArgumentError:
            needed.append(report.name)
            continue
        did_nothing = report.after is report.before
        if did_nothing or str(optimize(program.graph, passes=without)[0]) == expected:
            no_effect.append(report.name)
        else:
            effective.append(report.name)
    return no_effect, needed, effective


def _results(job: Job, contestant: Contestant) -> dict[str, Array]:
    """The outputs of a few steps from the beginning, and the state after them."""
    contestant.chance.restore()
    found: dict[str, Array] = {}
    for number, batch in enumerate(job.batches(CHECKED_STEPS)):
        outputs = leaves_of(contestant.step(*batch))
        found |= {f"{name} of step {number}": array for name, array in outputs.items()}
    contestant.chance = Chance.now()
    return found | contestant.snapshot()


class _Judge:
    """Says whether the results of a program without a pass are those that are ``expected``.

    Where they are not, elements of the state whose gradient is rounding alone in one of the modes,
    or in that program, are left out.
    """

    def __init__(self, job: Job, expected: dict[str, Array]) -> None:
        self._job, self._expected = job, expected
        self._gradients: list[dict[str, Array]] = []

    def agrees(self, name: str, found: dict[str, Array]) -> bool:
        """Whether ``found``, what the program without the pass gives, is what is expected."""
        if found.keys() != self._expected.keys():
            return False
        if self._is_near(found, self._expected):
            return True
        if self._job.optimizer is None:
            return False
        if not self._gradients:
            self._gradients = [f(self._job).gradients for f in (look_eagerly, look_statically)]
        own = look_statically(self._job, passes=[f"-{name}"]).gradients
        noise = find_noise([*self._gradients, own])
        expected = {key: array.copy() for key, array in self._expected.items()}
        clear_elements(noise, (found, expected))
        return self._is_near(found, expected)

    def _is_near(self, found: dict[str, Array], expected: dict[str, Array]) -> bool:
        difference = largest_difference(found, expected)
        return difference is None or difference[0] <= LIMITS[self._job.dtype]


def _peak_of(program: Program, sizes: dict[str, int]) -> int:
    """The peak in bytes that the plan has for ``sizes``; where it depends on what only a run can
    tell, such as the iterations of a loop, what the runs so far have taken."""
    try:
        return program.plan.peak_bytes(**sizes)
    except ShapeError:
        return program.held_bytes


def repeat_step(contestant: Contestant, batch: Batch) -> Callable[[int], None]:
    """A function that makes so many steps of a contestant, all of one batch."""
    step = contestant.step

    def run(n: int) -> None:
        contestant.chance.restore()
        for _ in range(n):
            step(*batch)
        contestant.chance = Chance.now()

    return run
