"""Which mode wins where: both modes over a grid of sizes, and the model that explains it.

A step takes so long for being a step, so long for each of its operations, and so long for each
floating-point operation in them. The eager mode pays for every operation; the static mode pays for
few. How large both prices are is fitted to the points of the grid.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from staticflow.comparison.record import Sweep, SweepPoint, WinModel
from staticflow.errors import ArgumentError
from staticflow.measure.statistics import time_in_turns

__all__ = ["Pair", "fit_model", "grid", "parse_axes", "split_axes", "sweep"]

Array = np.ndarray[Any, Any]
Axes = Mapping[str, Sequence[int]]

MOST_POINTS = 256
_AXIS = re.compile(r"([A-Za-z_]\w*)=(\d+(?:,\d+)*)")
TERMS = ("per_step", "per_operation", "per_flop")


@dataclass(frozen=True, slots=True)
class Pair:
    """Both modes at one setting. ``eager(n)`` and ``static(n)`` make n steps; a step is
    ``operations`` of the eager mode and ``flops`` floating-point operations."""

    eager: Callable[[int], object]
    static: Callable[[int], object]
    operations: int
    flops: int


def parse_axes(text: str) -> dict[str, tuple[int, ...]]:
    """The values of each size in words such as ``batch=1,8,64 width=16,256``, in ascending order.

    Raises `ArgumentError` for anything else, for a value below 1, and for more than 256 settings.

    >>> parse_axes("batch=1,64,8 width=16")
    {'batch': (1, 8, 64), 'width': (16,)}
    """
    axes: dict[str, tuple[int, ...]] = {}
    for word in text.split():
        match = _AXIS.fullmatch(word)
        if match is None:
            raise ArgumentError(
                f"the sweep has {word!r}; write a name and numbers, such as batch=1,8,64"
            )
        name, values = match[1], {int(value) for value in match[2].split(",")}
        if name in axes:
            raise ArgumentError(f"the sweep has {name} twice; write all its numbers in one place")
        if min(values) < 1:
            raise ArgumentError(f"the sweep has {name}=0; sizes are 1 or more")
        axes[name] = tuple(sorted(values))
    if not axes:
        raise ArgumentError("the sweep is empty; write a name and numbers, such as batch=1,8,64")
    if len(grid(axes)) > MOST_POINTS:
        raise ArgumentError(
            f"the sweep has {len(grid(axes))} settings; {MOST_POINTS} are the most that are timed"
        )
    return axes


def split_axes(
    axes: Axes, open_sizes: Mapping[str, int], make: Callable[..., Any]
) -> tuple[dict[str, Sequence[int]], dict[str, Sequence[int]]]:
    """The axes that are open sizes of the inputs, and those that are arguments of ``make``.

    Raises `ArgumentError`, which says what there is, for an axis that is neither.
    """
    named = _arguments_of(make)
    opened = {name: values for name, values in axes.items() if name in open_sizes}
    given = {name: values for name, values in axes.items() if name not in open_sizes}
    for name in given:
        if name not in named:
            raise ArgumentError(
                f"nothing is called {name}; the sweep takes open sizes of the inputs "
                f"({', '.join(open_sizes) or 'there are none'}) and arguments of the model "
                f"({', '.join(named) or 'it has none'})"
            )
    return opened, given


def _arguments_of(make: Callable[..., Any]) -> list[str]:
    """The arguments that a function or class takes by name."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # a built-in
        return []
    return [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]


def grid(axes: Axes) -> list[dict[str, int]]:
    """Every setting of the axes, the last one changing fastest.

    >>> grid({"batch": (1, 8), "width": (16, 32)})[:3]
    [{'batch': 1, 'width': 16}, {'batch': 1, 'width': 32}, {'batch': 8, 'width': 16}]
    """
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def sweep(
    pair_at: Callable[[dict[str, int]], Pair],
    axes: Axes,
    *,
    rounds: int = 5,
    seconds: float = 0.01,
    progress: Callable[[], object] = lambda: None,
) -> Sweep:
    """Time both modes in turns at every setting of the axes, and fit the model to the medians.

    ``pair_at(sizes)`` makes the contestants; ``progress`` is called after each setting.
    """
    points = []
    for sizes in grid(axes):
        pair = pair_at(sizes)
        samples = time_in_turns({"eager": pair.eager, "static": pair.static}, rounds, seconds)
        eager, static = (float(np.median(samples[mode])) for mode in ("eager", "static"))
        points.append(SweepPoint(sizes, eager, static, pair.operations, pair.flops))
        progress()
    return Sweep(tuple(points), fit_model(points))


# -- the model ------------------------------------------------------------------------------------


def fit_model(points: Sequence[SweepPoint]) -> WinModel | None:
    """The prices of a step, of an operation and of a floating-point operation in either mode, none
    below 0, that give the least sum of squared relative errors. What does not vary over the points
    cannot be told from the price of a step and has none. None of fewer points than prices.

    >>> points = [SweepPoint({"n": n}, 3e-6 + 1e-9 * n, 1e-6 + 1e-9 * n, 1, n)
    ...           for n in (10, 1000, 100_000)]
    >>> fit = fit_model(points)
    >>> [f"{price:.1e}" for price in fit.eager.values()]
    ['3.0e-06', '0.0e+00', '1.0e-09']
    """
    features = np.array([[1.0, p.operations, p.flops] for p in points]).reshape(-1, len(TERMS))
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
