"""What a comparison finds, as data: all that is printed, drawn or written as JSON is in here.

Times are in seconds, sizes in bytes, fractions between 0 and 1. What was not measured is None or
empty, and never a guess. The names of the fields are those of the JSON.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.measure.machine import Machine
from staticflow.measure.memory import Buffer, Memory
from staticflow.measure.statistics import Spread
from staticflow.measure.work import Kernel

__all__ = [
    "SCHEMA", "Ablation", "Agreement", "BreakEven", "Buffer", "Comparison", "Curve", "Difference",
    "Graphs", "Kernel", "Machine", "Memory", "ModeCosts", "Model", "Peer", "Roofline", "Scaling",
    "Spread", "Sweep", "SweepPoint", "WinModel",
]  # fmt: skip

SCHEMA = "staticflow.compare/1"
"""The form of the JSON. Its number grows where a field changes its meaning or goes."""


@dataclass(frozen=True, slots=True)
class Model:
    """The model of a comparison, and how it was trained. ``inputs`` are written as
    ``x: f32[32, 784]``."""

    name: str
    source: str
    parameters: int
    inputs: tuple[str, ...]
    loss: str
    """Its name, or ``"none"``: then the model is only run forward."""
    optimizer: str
    """Its name with what it was given, or ``"none"``: then a step ends with the gradients."""
    steps: int
    seed: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest differences of one kind of number, relative to the largest magnitude of its
    array; None where there is nothing to compare. ``where`` names the array that is furthest apart.
    ``limit`` is how far static and eager may be; ``float64`` is the eager mode run in double
    precision."""

    static_eager: float | None
    static_float64: float | None
    eager_float64: float | None
    limit: float
    where: str
    has_nan: tuple[str, ...] = ()
    """The modes, of ``"static"``, ``"eager"`` and ``"float64"``, in which a number is a NaN."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether both modes compute the same. ``deterministic`` says whether two runs, and
    ``same_on_threads`` whether one thread and all of them, gave the same bits, by mode."""

    agree: bool
    verdict: str
    values: Difference
    gradients: Difference
    state: Difference
    losses: Difference
    gradcheck: str
    deterministic: dict[str, bool]
    same_on_threads: dict[str, bool]
    on_purpose: tuple[str, ...] = ()
    """What differs on purpose: a loss that is infinite eagerly and stabilised in a graph."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """What a step does, and how near to the machine's limits: the time that its bytes and
    operations need at the machine's rates, as a fraction of the time that it takes. Of the eager
    mode ``kernels`` are the different operations, and ``launches`` all that ran."""

    kernels: int
    launches: int
    bytes: int
    flops: int
    fraction: float | None
    outside_kernels: float | None
    """The share of a step that is spent in no kernel (of the eager mode, in no operation)."""


@dataclass(frozen=True, slots=True)
class ModeCosts:
    """What one mode costs. ``cold`` and ``warm`` say how long each phase takes in a fresh process,
    without and with what earlier ones left on disk, in the order in which they happen: ``import``
    (with the start of Python), ``model`` (making it), of static ``trace``, ``optimise``,
    ``generate`` and ``load``; then of both ``first_step``, and ``warm_up``, what later steps take
    above the steady one. ``step`` is the steady one, None if it was not reached."""

    cold: dict[str, float]
    warm: dict[str, float]
    step: Spread | None
    losses: tuple[float, ...]
    roofline: Roofline | None = None
    passes: dict[str, float] | None = None
    """Of ``optimise`` in a cold start, the seconds of each pass; in a warm one none need run."""
    scores: dict[str, float] = dataclasses.field(default_factory=dict)
    """What the file's ``evaluate`` gives for the model once it was trained in this mode."""


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The step from which on the static mode has taken less time, all costs of both counted; None
    where that never comes. ``low`` and ``high`` are the ends of its 95 % interval."""

    step: int | None
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds since the start of the process after so many steps, in either mode."""

    steps: tuple[int, ...]
    eager: tuple[float, ...]
    static: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Ablation:
    """The compiled step without one pass."""

    without: str
    step: Spread
    ratio: float
    """Its time over the time with all passes."""
    peak: int
    kernels: int
    agrees: bool


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """Both modes at one setting of the swept sizes."""

    sizes: dict[str, int]
    eager: float
    static: float
    operations: int
    """Of the eager step."""
    flops: int | None
    """Of the static step; None if only a run can tell, as where a loop ends."""


@dataclass(frozen=True, slots=True)
class WinModel:
    """A fit of a step's time: ``per_step + per_operation * operations + per_flop * flops`` for each
    mode, with the median of its relative error over the points."""

    eager: dict[str, float]
    static: dict[str, float]
    error: dict[str, float]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Which mode wins where, and the model that explains it. ``compilations`` is how many programs
    the static mode needed for all the points."""

    points: tuple[SweepPoint, ...]
    fit: WinModel | None
    compilations: int | None = None


@dataclass(frozen=True, slots=True)
class Peer:
    """A contestant: the same model under another library, its results checked before it was timed.
    ``difference`` is the largest relative one to the losses of staticflow's eager mode, and to its
    parameters, in the first steps."""

    name: str
    version: str
    step: Spread
    first_step: float
    difference: float
    ratio: Spread | None = None
    """Its time over that of the static mode (of the eager one, if there is no graph) in the same
    rounds, which is surer than to divide two times of different minutes."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """The compiled step on several processes of one thread each, of which each has its part of
    every batch."""

    processes: int
    step: Spread
    speedup: float
    """The time of one process over that of this many."""
    efficiency: float
    """The speedup for each process: 1 where twice as many take half the time."""
    bytes: int
    """What each process sends in a step, besides what loops send."""
    messages: int
    difference: float | None
    """The largest relative one of the first losses from those of one process; None without a
    loss."""


@dataclass(frozen=True, slots=True)
class Graphs:
    """The two graphs side by side, each as `staticflow.drawing` writes it in JSON: the tape of one
    eager step, and the optimised graph."""

    eager: dict[str, Any] | None
    static: dict[str, Any] | None


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """Everything that `sf.compare` found. Where the model cannot be a graph, ``refused``
    says why, with the line and what to write instead, and what concerns the static mode is None."""

    model: Model
    machine: Machine
    eager: ModeCosts
    static: ModeCosts | None
    refused: str | None
    agreement: Agreement | None
    break_even: dict[str, BreakEven]
    """By ``"cold"`` and ``"warm"``."""
    curve: dict[str, Curve]
    """By ``"cold"`` and ``"warm"``."""
    memory: dict[str, Memory]
    """By ``"eager"`` and ``"static"``."""
    kernels: tuple[Kernel, ...]
    compilations: dict[str, dict[str, int]]
    """By ``"eager"`` and ``"static"``: how many compilations the mode has needed so far, after one
    step with each of some sizes, by these sizes (``"batch=16"``) in the order of the steps."""
    ablation: tuple[Ablation, ...] = ()
    no_effect: tuple[str, ...] = ()
    """The passes without which the optimised graph is the same, so that they were not timed."""
    sweep: Sweep | None = None
    peers: tuple[Peer, ...] = ()
    scaling: tuple[Scaling, ...] = ()
    """By numbers of processes, where somebody asked for them."""
    graphs: Graphs = Graphs(None, None)
    notes: tuple[str, ...] = ()
    """What a reader has to know of how this was measured."""
    unfinished: str | None = None
    """What it was interrupted in; None if it came to its end."""

    @property
    def has_passed(self) -> bool:
        """Whether there are two modes and they agree."""
        return self.agreement is not None and self.agreement.agree

    def __str__(self) -> str:
        from staticflow.comparison.text import format_comparison

        return format_comparison(self)

    def __repr__(self) -> str:
        verdict = self.refused or (self.agreement.verdict if self.agreement else "not finished")
        return f"<comparison of {self.model.name}: {verdict}>"

    def _repr_html_(self) -> str:
        """The table, for a notebook."""
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"

    def as_dict(self) -> dict[str, Any]:
        """The record in types that JSON has. A number that JSON has no word for is a string:
        ``"NaN"``, ``"Infinity"`` or ``"-Infinity"``."""
        return {"schema": SCHEMA, **_plain(dataclasses.asdict(self))}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
