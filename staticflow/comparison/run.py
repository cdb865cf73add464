"""The comparison: one job in both modes, and the record of all that is found."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import field
from typing import Any

from staticflow.comparison.agreement import agreement_of
from staticflow.comparison.contest import (
    Contestant,
    Samples,
    eager_contestant,
    run_rounds,
)
from staticflow.comparison.costs import STARTS, FreshCosts, ProcessError, measure_fresh
from staticflow.comparison.differences import first_nan
from staticflow.comparison.estimate import StartUp, break_even, curve, even_samples
from staticflow.comparison.graphs import find_graphs
from staticflow.comparison.inputs import Batch
from staticflow.comparison.insides import (
    eager_roofline,
    kernels_of,
    memory_of_steps,
    roofline_of,
)
from staticflow.comparison.job import Job
from staticflow.comparison.progress import Progress
from staticflow.comparison.record import (
    Agreement,
    BreakEven,
    Comparison,
    Curve,
    Graphs,
    Kernel,
    Memory,
    ModeCosts,
    Model,
    Roofline,
    Scaling,
)
from staticflow.comparison.refusal import try_statically
from staticflow.comparison.scaling import find_scaling
from staticflow.comparison.scores import find_scores
from staticflow.comparison.source import explain_failure, is_of_model
from staticflow.comparison.why import Why, find_why
from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError
from staticflow.measure.machine import Machine, machine
from staticflow.measure.others import OtherPrograms
from staticflow.measure.statistics import Spread, spread

__all__ = ["FailedComparison", "InterruptedComparison", "Options", "compare_job"]

MODES = ("eager", "static")


@dataclass(frozen=True, slots=True)
class Options:
    """How much is measured: ``is_quick`` leaves out all that takes more than a few seconds."""

    is_quick: bool = False
    repeats: int = 3
    """Fresh processes of each mode and kind."""
    processes: tuple[int, ...] = ()
    """On how many processes the compiled step is timed, 1 first; none if nobody asked for it."""


class InterruptedComparison(KeyboardInterrupt):
    """An interrupt, with what was found before it as ``record``."""

    def __init__(self, record: Comparison) -> None:
        super().__init__("the comparison was interrupted")
        self.record = record


class FailedComparison(ArgumentError):
    """A model that failed on the way, with what was found before it as ``record``."""

    def __init__(self, message: str, record: Comparison) -> None:
        super().__init__(message)
        self.record = record


@dataclass(slots=True)
class Findings:
    """What was found so far: a `Comparison` that grows."""

    job: Job
    machine: Machine
    parameters: int = 0
    refused: str | None = None
    samples: dict[str, Samples] = field(default_factory=dict)
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    agreement: Agreement | None = None
    fresh: FreshCosts = field(default_factory=FreshCosts)
    memory: dict[str, Memory] = field(default_factory=dict)
    kernels: tuple[Kernel, ...] = ()
    rooflines: dict[str, Roofline | None] = field(default_factory=dict)
    compilations: dict[str, dict[str, int]] = field(default_factory=dict)
    graphs: Graphs = field(default_factory=lambda: Graphs(None, None))
    why: Why = field(default_factory=Why)
    scaling: tuple[Scaling, ...] = ()
    notes: list[str] = field(default_factory=list)

    def as_record(self, unfinished: str | None = None) -> Comparison:
        """The record of what there is."""
        job = self.job
        crossings, curves = self._crossings()
        return Comparison(
            model=Model(
                job.name,
                job.source,
                self.parameters,
                tuple(x.describe(job.sizes) for x in job.inputs),
                job.loss_name,
                job.optimizer_name,
                job.steps,
                job.seed,
                job.dtype,
            ),
            machine=self.machine,
            eager=self._costs("eager"),
            static=None if self.refused is not None else self._costs("static"),
            refused=self.refused,
            agreement=self.agreement,
            break_even=crossings,
            curve=curves,
            memory=self.memory,
            kernels=self.kernels,
            compilations={**self.compilations, **self.fresh.compilations},
            graphs=self.graphs,
            ablation=self.why.ablation,
            no_effect=self.why.no_effect,
            sweep=self.why.sweep,
            peers=self.why.peers,
            scaling=self.scaling,
            notes=(*job.notes, *self.notes),
            unfinished=unfinished,
        )

    def _costs(self, mode: str) -> ModeCosts:
        samples = self.samples.get(mode)
        return ModeCosts(
            cold=self.fresh.medians("cold", mode),
            warm=self.fresh.medians("warm", mode),
            step=self.spread_of(mode),
            losses=() if samples is None else tuple(samples.losses),
            roofline=self.rooflines.get(mode),
            passes=self.fresh.passes_medians() if mode == "static" else None,
            scores=self.scores.get(mode, {}),
        )

    def spread_of(self, mode: str) -> Spread | None:
        """The steady step of a mode; None if there was none."""
        samples = self.samples.get(mode)
        return spread(even_samples(samples.steady)) if samples and samples.steady else None

    def _crossings(self) -> tuple[dict[str, BreakEven], dict[str, Curve]]:
        crossings: dict[str, BreakEven] = {}
        curves: dict[str, Curve] = {}
        for start in STARTS:
            totals = self.fresh.totals(start)
            if set(totals) != set(MODES):
                continue
            eager, static = (
                StartUp(totals[mode], tuple(self.samples[mode].steady)) for mode in MODES
            )
            crossings[start] = break_even(eager, static)
            curves[start] = curve(eager, static, crossings[start].step)
        return crossings, curves


def compare_job(
    job: Job, options: Options | None = None, progress: Progress | None = None
) -> Comparison:
    """The record of a job. What the model prints is counted and not shown, since it prints at every
    eager step.

    Raises `InterruptedComparison` for Ctrl-C, and `FailedComparison` where the model raises what it
    did not raise in its first run.
    """
    told = progress or Progress()
    findings = Findings(job, machine(measure=False))
    stage = _Stage(told)
    printed = _LineCounter()
    try:
        with redirect_stdout(printed):
            _find_all(findings, options or Options(), stage)
    except KeyboardInterrupt:
        raise InterruptedComparison(findings.as_record(stage.name)) from None
    except (Exception, SystemExit) as error:
        if not is_of_model(error):
            raise
        message = f"the model fails in the stage {stage.name!r}: {explain_failure(error)}"
        raise FailedComparison(message, findings.as_record(stage.name)) from error
    finally:
        told.close()
    if printed.lines:
        findings.notes.append(
            f"the model printed {printed.lines:,} lines, which are not shown: eagerly it prints at "
            "every step, in the time that is measured, in a graph as it is traced"
        )
    return findings.as_record()


class _LineCounter(io.TextIOBase):
    """A file that counts the lines that are written to it."""

    lines = 0

    def write(self, text: str) -> int:
        """Count the lines of a text."""
        self.lines += text.count("\n")
        return len(text)


class _Stage(Progress):
    """Progress that knows its stage."""

    def __init__(self, told: Progress) -> None:
        self.name = "the beginning"
        self._told = told

    def stage(self, name: str, total: int = 0) -> None:
        """Begin a stage."""
        self.name = name
        self._told.stage(name, total)

    def advance(self, count: int = 1) -> None:
        """Tell of it."""
        self._told.advance(count)


def _find_all(findings: Findings, options: Options, stage: Progress) -> None:
    job = findings.job
    stage.stage("tracing and compiling the model")
    static, findings.refused = try_statically(job)
    eager = eager_contestant(job)
    findings.parameters = sum(p.numel() for p in eager.model.parameters())
    contestants = [eager] if static is None else [eager, static]
    _train(findings, contestants, options, stage)
    if static is not None:
        findings.compilations["static"] = _compilations(findings, static)
    _look_inside(findings, eager, static, options, stage)
    if not options.is_quick:
        _start_afresh(findings, [c.mode for c in contestants], options.repeats, stage)
        find_why(job, eager, static, findings.why, findings.notes, stage)
    if static is not None and options.processes:
        _scale(findings, options.processes, stage)


def _train(
    findings: Findings, contestants: list[Contestant], options: Options, stage: Progress
) -> None:
    """The steps in rounds, and whether their results agree."""
    job = findings.job
    batches = job.batches(job.steps)
    static = next((c for c in contestants if c.mode == "static"), None)
    start = None if static is None else (static.snapshot(), static.chance)
    stage.stage(f"{job.steps} steps in either mode", len(contestants) * len(batches))

    def score(each: Contestant) -> None:
        findings.scores[each.mode] = find_scores(job, each.model)

    others = OtherPrograms()
    run_rounds(contestants, batches, findings.samples, stage.advance, options.is_quick, score)
    findings.notes += filter(None, [others.remark(findings.machine.threads)])
    losses = {mode: samples.losses for mode, samples in findings.samples.items()}
    if static is None or start is None:
        went = first_nan(losses["eager"])
        findings.notes += [f"went to NaN at step {went}"] if went is not None else []
        return
    static.restore(*start)
    findings.agreement, notes = agreement_of(job, static, losses, stage.stage)
    findings.notes += notes


def _look_inside(
    findings: Findings,
    eager: Contestant,
    static: Contestant | None,
    options: Options,
    stage: Progress,
) -> None:
    """The memory, the kernels and the graphs of a step."""
    job = findings.job
    stage.stage("memory, kernels and graphs of a step")
    findings.memory = memory_of_steps(eager, static, job.batches(1)[0])
    if not options.is_quick:
        findings.machine = machine()
        findings.rooflines["eager"] = _eager_roofline(findings, eager)
    if static is not None:
        step = findings.spread_of("static")
        median = None if step is None else step.median
        findings.kernels, outside = kernels_of(job, static, None if options.is_quick else median)
        memory = findings.memory.get("static")
        findings.rooflines["static"] = roofline_of(
            findings.kernels,
            static,
            median,
            findings.machine,
            None if memory is None else _footprint(static, memory),
            outside,
        )
    findings.graphs = find_graphs(job, None if static is None else static.program)


def _eager_roofline(findings: Findings, eager: Contestant) -> Roofline:
    """The operations of an eager step, at the machine's rates."""
    step, memory = findings.spread_of("eager"), findings.memory.get("eager")
    return eager_roofline(
        eager,
        findings.job.batches(1)[0],
        None if step is None else step.median,
        findings.machine,
        None if memory is None else _footprint(eager, memory),
    )


def _footprint(contestant: Contestant, memory: Memory) -> int:
    """The bytes that a step touches: its own and those that stay from step to step."""
    return memory.measured + sum(a.nbytes for a in contestant.snapshot().values())


def _start_afresh(findings: Findings, modes: Sequence[str], repeats: int, stage: Progress) -> None:
    """What both modes cost in fresh processes."""
    job, costs = findings.job, findings.fresh
    if not _can_be_named(findings, "fresh processes"):
        return
    stage.stage("fresh processes", repeats * len(modes) * len(STARTS))
    try:
        measure_fresh(job, modes, sizes_to_try(job), repeats, costs, stage.advance)
    except ProcessError as error:
        findings.notes.append(f"a fresh process failed: {error}")


def _scale(findings: Findings, processes: Sequence[int], stage: Progress) -> None:
    """The compiled step on several processes."""
    if _can_be_named(findings, "several processes"):
        stage.stage(f"{', '.join(map(str, processes))} processes", len(processes))
        findings.scaling, notes = find_scaling(findings.job, processes, stage.advance)
        findings.notes += notes


def _can_be_named(findings: Findings, what: str) -> bool:
    """Whether another process can make the job; else a note says why it is not measured there."""
    if findings.job.request is None:
        findings.notes.append(
            f"{what} are not measured: they need a model, a loss and an optimiser that a file has, "
            "as in sf.compare('my_model.py:Net', ...)"
        )
    return findings.job.request is not None


def _compilations(findings: Findings, static: Contestant) -> dict[str, int]:
    """How often the static mode has compiled, after one step with each of some sizes."""
    found: dict[str, int] = {}
    assert static.program is not None
    for name, batch in sizes_to_try(findings.job):
        try:
            static.step(*batch)
        except Exception as error:  # a model may ask for sizes of its own
            findings.notes.append(f"no step with {name}: {' '.join(str(error).split())}")
            continue
        found[name] = static.program.compile_count
    return found


def sizes_to_try(job: Job) -> list[tuple[str, Batch]]:
    """Batches of some sizes, with a name each: of the sizes of the data, and of smaller ones."""
    found: dict[str, Batch] = {}
    for batch in job.data:
        sizes: dict[str, int] = {}
        for x, array in zip(job.inputs, batch, strict=True):
            named = zip(x.shape, array.shape, strict=True)
            sizes |= {s: n for s, n in named if isinstance(s, str)}
        found.setdefault(_name_sizes(sizes), batch)
        if len(found) == 3:
            break
    if len(found) <= 1 and job.sizes:
        for less, part in ((0, 1), (1, 1), (0, 2)):
            sizes = {name: max(1, (n - less) // part) for name, n in job.sizes.items()}
            found.setdefault(_name_sizes(sizes), job.batches(1, sizes)[0])
    if not found:
        found[_name_sizes(job.sizes)] = job.batches(1)[0]
    return list(found.items())


def _name_sizes(sizes: dict[str, Any]) -> str:
    return ", ".join(f"{name}={n}" for name, n in sizes.items()) or "as given"
