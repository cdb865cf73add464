"""``python -m staticflow compare``: one model trained in both modes, side by side.

The same class, seed, optimiser and batches; the two loss curves must agree. Then what a user wants
to know: how long a step takes in each mode, what compiling costs, and when it has paid for itself.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import staticflow as sf
from staticflow import nn
from staticflow.config import config
from staticflow.tools.digits import (
    CLASSES,
    PIXELS,
    Digits,
    extra,
    load_digits,
    shuffle_batches,
)

__all__ = ["Classifier", "Report", "Settings", "add_arguments", "compare", "format_report", "run"]

Array = np.ndarray[Any, Any]
Step = Callable[[Array, Array], Any]

LIMITS = {"float32": 1e-4, "float64": 1e-10}
"""How far apart the losses may be, relative to the larger one."""

CHECKED_STEPS = 100
"""Over how many steps: training amplifies differences of rounding without bound."""

ROUNDS = 10


class Classifier(nn.Module):
    """A perceptron with one hidden layer: images (N, 64) to scores (N, 10)."""

    def __init__(self, hidden: int, dtype: str) -> None:
        self.fc1 = nn.Linear(PIXELS, hidden, dtype=dtype)
        self.fc2 = nn.Linear(hidden, CLASSES, dtype=dtype)

    def forward(self, images: Any) -> Any:
        """The scores."""
        return self.fc2(nn.functional.relu(self.fc1(images)))


@dataclass(frozen=True, slots=True)
class Settings:
    """What is trained, and how."""

    steps: int = 100
    dtype: str = "float32"
    hidden: int = 64
    batch: int = 64
    lr: float = 0.1
    momentum: float = 0.9
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Mode:
    """What came of one mode; seconds, and accuracy as a fraction."""

    losses: tuple[float, ...]
    accuracy: float
    step_seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is printed.

    ``compile_seconds`` is the time from the first placeholder to a program that can be called,
    ``graph_seconds`` the part of it in which the graph was written. ``difference`` is the largest
    relative difference of the losses over the first ``checked_steps``.
    """

    settings: Settings
    eager: Mode
    static: Mode
    compile_seconds: float
    graph_seconds: float
    peak_bytes: int
    kernels: int
    compilations: int
    batch_sizes: tuple[int, ...]
    checked_steps: int
    difference: float
    limit: float

    @property
    def agree(self) -> bool:
        """Whether the loss curves agree. A NaN in one of them does not."""
        return self.difference <= self.limit

    @property
    def has_passed(self) -> bool:
        """Whether the curves agree and one compilation served every size of batch."""
        return self.agree and self.compilations == 1

    @property
    def break_even(self) -> int | None:
        """The step from which on compiling has saved time; None if never."""
        gain = self.eager.step_seconds - self.static.step_seconds
        return math.ceil(self.compile_seconds / gain) if gain > 0 else None


# -- the work -----------------------------------------------------------------------------------


def compare(settings: Settings, progress: Callable[[int], Any] = lambda steps: None) -> Report:
    """Train in both modes and compare. ``progress`` is told how many steps were taken.

    Raises `MissingExtraError` if scikit-learn is not installed.
    """
    digits = load_digits(settings.dtype, settings.seed)
    source = shuffle_batches(len(digits.train_labels), settings.batch, settings.seed)
    batches = []
    for _, rows in zip(range(settings.steps), source, strict=False):
        batches.append((digits.train_images[rows], digits.train_labels[rows]))
    eager_model, eager_step = _eager(settings)
    began = time.perf_counter()
    with config.change(cache_dir=""):  # the time is that of the compiler
        static_model, static_step = _static(settings)
    compile_seconds = time.perf_counter() - began
    losses, seconds = _train([eager_step, static_step], batches, progress)
    checked = min(settings.steps, CHECKED_STEPS)
    return Report(
        settings=settings,
        eager=Mode(losses[0], _accuracy(eager_model, digits), seconds[0]),
        static=Mode(losses[1], _accuracy_static(static_model, digits), seconds[1]),
        compile_seconds=compile_seconds,
        graph_seconds=compile_seconds - static_step.compile_seconds,
        peak_bytes=static_step.plan.peak_bytes(N=settings.batch),
        kernels=static_step.kernel_count,
        compilations=static_step.compile_count,
        batch_sizes=tuple(sorted({len(labels) for _, labels in batches})),
        checked_steps=checked,
        difference=_difference(losses[0][:checked], losses[1][:checked]),
        limit=LIMITS[settings.dtype],
    )


def _model_and_optimiser(settings: Settings) -> tuple[Classifier, sf.optim.SGD]:
    sf.manual_seed(settings.seed)
    model = Classifier(settings.hidden, settings.dtype)
    return model, sf.optim.SGD(model.parameters(), settings.lr, settings.momentum)


def _eager(settings: Settings) -> tuple[Classifier, Step]:
    model, optimiser = _model_and_optimiser(settings)

    def step(images: Array, labels: Array) -> Any:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(sf.from_numpy(images)), sf.from_numpy(labels))
        loss.backward()
        optimiser.step()
        return loss

    return model, step


def _static(settings: Settings) -> tuple[Classifier, Any]:
    model, optimiser = _model_and_optimiser(settings)
    images = sf.placeholder(("N", PIXELS), settings.dtype, name="images")
    labels = sf.placeholder(("N",), "int64", name="labels")
    loss = nn.functional.cross_entropy(model(images), labels)
    return model, sf.compile([images, labels], loss, updates=optimiser.minimize(loss))


def _train(
    steps: Sequence[Step], batches: Sequence[tuple[Array, Array]], progress: Callable[[int], Any]
) -> tuple[list[tuple[float, ...]], list[float]]:
    """The losses and the median seconds of a step for each contestant.

    They take turns in rounds, first the one and then the other, so that what else the machine does
    meets all alike. The first round warms up and is not timed, if it is not the only one.
    """
    losses: list[list[float]] = [[] for _ in steps]
    seconds: list[list[float]] = [[] for _ in steps]
    length = max(1, math.ceil(len(batches) / ROUNDS))
    for number, start in enumerate(range(0, len(batches), length)):
        order = range(len(steps)) if number % 2 == 0 else reversed(range(len(steps)))
        for which in order:
            if number == 1:
                seconds[which].clear()
            for images, labels in batches[start : start + length]:
                began = time.perf_counter()
                loss = steps[which](images, labels)
                seconds[which].append(time.perf_counter() - began)
                losses[which].append(loss.item())
                progress(1)
    return [tuple(each) for each in losses], [statistics.median(each) for each in seconds]


def _accuracy(model: Classifier, digits: Digits) -> float:
    with sf.no_grad():
        found = model(sf.from_numpy(digits.test_images)).argmax(1).numpy()
    return float(np.mean(found == digits.test_labels))


def _accuracy_static(model: Classifier, digits: Digits) -> float:
    images = sf.placeholder((None, PIXELS), digits.test_images.dtype, name="images")
    predict = sf.compile([images], model(images).argmax(1))
    return float(np.mean(predict(digits.test_images).numpy() == digits.test_labels))


def _difference(a: Sequence[float], b: Sequence[float]) -> float:
    """The largest ``|a - b| / max(|a|, |b|)``; NaN where one is."""
    x, y = np.array(a), np.array(b)
    scale = np.maximum(np.abs(x), np.abs(y))
    return float(np.max(np.abs(x - y) / np.where(scale == 0, 1, scale)))


# -- the command --------------------------------------------------------------------------------


def format_report(report: Report) -> str:
    """The report as a table."""
    s, eager, static = report.settings, report.eager, report.static
    ratio = eager.step_seconds / static.step_seconds
    paid = "never" if report.break_even is None else f"step {report.break_even:,}"
    sizes = " and ".join(map(str, report.batch_sizes))
    verdict = "they agree" if report.agree else "FAILED: they do not agree"
    once = "" if report.compilations == 1 else "FAILED: one must do"
    rows = [
        ("", "eager", "static", ""),
        ("loss, first step", f"{eager.losses[0]:.6f}", f"{static.losses[0]:.6f}", ""),
        ("loss, last step", f"{eager.losses[-1]:.6f}", f"{static.losses[-1]:.6f}", ""),
        ("held-out accuracy", f"{eager.accuracy:.1%}", f"{static.accuracy:.1%}", ""),
        ("step, median", _time(eager.step_seconds), _time(static.step_seconds), f"{ratio:.1f} x"),
        ("compile time", "-", _time(report.compile_seconds),
         f"{_time(report.graph_seconds)} of it to write the graph"),
        ("break-even", "-", paid, ""),
        ("planned memory", "-", f"{report.peak_bytes / 1024:,.1f} KiB", f"peak, {s.batch} images"),
        ("kernels", "-", f"{report.kernels}", ""),
        ("compilations", "-", f"{report.compilations}", once or f"for batches of {sizes}"),
    ]  # fmt: skip
    lines = [f"{a:<22}{b:>12}{c:>14}  {d}".rstrip() for a, b, c, d in rows]
    return "\n".join(
        [
            f"digits, perceptron {PIXELS}-{s.hidden}-{CLASSES}, {s.dtype}, {s.steps} steps of SGD "
            f"(lr {s.lr:g}, momentum {s.momentum:g}), batch {s.batch}, seed {s.seed}",
            "",
            *lines,
            "",
            f"losses over {report.checked_steps} steps: largest relative difference "
            f"{report.difference:.1e}, limit {report.limit:.0e}: {verdict}",
        ]
    )


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.2f} {name}"
    return f"{seconds * 1e6:.1f} us"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    default = Settings()
    parser.add_argument("--steps", type=_positive, default=default.steps, help="training steps")
    parser.add_argument("--dtype", choices=list(LIMITS), default=default.dtype)
    parser.add_argument("--hidden", type=_positive, default=default.hidden, help="hidden units")
    parser.add_argument("--batch", type=_positive, default=default.batch, help="images a step")
    parser.add_argument("--lr", type=float, default=default.lr, help="learning rate")
    parser.add_argument("--momentum", type=float, default=default.momentum)
    parser.add_argument(
        "--seed", type=_natural, default=default.seed, help="of split, weights, batches"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the report there too")


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is less than 1")
    return value


def _natural(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is less than 0")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Run the command; the exit status is 1 if the modes disagree."""
    options = vars(arguments)
    settings = Settings(**{name: options[name] for name in Settings.__dataclass_fields__})
    with extra("tqdm").tqdm(
        total=2 * settings.steps, unit=" steps", leave=False, disable=None
    ) as bar:  # disable=None: only on a terminal
        report = compare(settings, bar.update)
    print(format_report(report))
    if arguments.json is not None:
        derived = {"break_even": report.break_even, "passed": report.has_passed}
        arguments.json.write_text(json.dumps(asdict(report) | derived, indent=2) + "\n")
    return 0 if report.has_passed else 1
