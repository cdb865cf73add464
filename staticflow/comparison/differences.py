"""How far apart arrays are, with infinities and NaN."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.comparison.record import Difference

__all__ = [
    "LIMITS",
    "compare_arrays",
    "compare_losses",
    "first_lost",
    "first_nan",
    "largest_magnitude",
]

Array = np.ndarray[Any, Any]
Arrays = Mapping[str, Array]

LIMITS = {"float64": 1e-10, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""How far apart two modes may be in any case, relative to the largest magnitude of an array."""

ROUNDING = 10
"""So many times as far as the nearer one is from double precision they may be from each other:
what a model amplifies, it amplifies in both."""


SMALL = 1e-2
"""Arrays whose numbers are all less than this part of the largest among them are compared relative
to that: the gradient of a bias in front of a normalisation is nothing but rounding."""


def relative_difference(a: Array, b: Array, least: float = 0.0) -> float:
    """The largest ``abs(a - b)``, relative to the largest finite magnitude of both, or to the
    ``least`` magnitude that counts. Infinities and NaN differ from nothing but what is not the
    same: then it is infinite.

    >>> relative_difference(np.array([1.0, 2.0]), np.array([1.0, 2.5]))
    0.2
    >>> relative_difference(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]))
    0.0
    """
    if a.shape != b.shape:
        return float("inf")
    if a.size == 0:
        return 0.0
    x, y = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(x) & np.isfinite(y)
    if not np.array_equal(np.where(finite, 0, x), np.where(finite, 0, y), equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    x, y = x[finite], y[finite]
    scale = max(float(np.abs(x).max()), float(np.abs(y).max()), least)
    return float(np.abs(x - y).max()) / (scale or 1.0)


def largest_magnitude(arrays: Arrays) -> float:
    """The largest finite magnitude in any of the arrays, 0 if there is none."""
    finite = (np.abs(a[np.isfinite(a)]) for a in (x.astype(np.float64) for x in arrays.values()))
    return max((float(a.max()) for a in finite if a.size), default=0.0)


def largest_difference(a: Arrays, b: Arrays) -> tuple[float, str] | None:
    """The largest relative difference of the arrays that both have, and the name; None if there
    are none."""
    least = SMALL * max(largest_magnitude(a), largest_magnitude(b))
    found = [(relative_difference(a[n], b[n], least), n) for n in a if n in b]
    return max(found, key=lambda each: each[0]) if found else None


def compare_arrays(
    static: Arrays | None, eager: Arrays, double: Arrays | None, dtype: str
) -> Difference:
    """The differences of one kind of number, by its arrays. ``double`` is None where the model
    was not run in double precision, or ``dtype`` is that."""
    between = None if static is None else largest_difference(static, eager)
    of_static = None if static is None or double is None else largest_difference(static, double)
    of_eager = None if double is None else largest_difference(eager, double)
    limit = LIMITS[dtype]
    if of_static is not None and of_eager is not None:
        nearer = min(of_static[0], of_eager[0])
        limit = max(limit, ROUNDING * nearer) if np.isfinite(nearer) else limit
    modes = {"static": static, "eager": eager, "float64": double}
    return Difference(
        None if between is None else between[0],
        None if of_static is None else of_static[0],
        None if of_eager is None else of_eager[0],
        limit,
        "" if between is None else between[1],
        tuple(mode for mode, arrays in modes.items() if arrays is not None and has_nan(arrays)),
    )


def has_nan(arrays: Arrays) -> bool:
    """Whether one of the numbers is a NaN."""
    return any(np.isnan(a.astype(np.float64)).any() for a in arrays.values() if a.size)


def compare_losses(
    static: Sequence[float] | None,
    eager: Sequence[float],
    double: Sequence[float] | None,
    dtype: str,
) -> Difference:
    """The differences of losses, step by step, each relative to itself."""

    def steps(losses: Sequence[float] | None) -> dict[str, Array] | None:
        if losses is None:
            return None
        return {f"step {i}": np.array([loss]) for i, loss in enumerate(losses, 1)}

    return compare_arrays(steps(static), steps(eager) or {}, steps(double), dtype)


def first_lost(eager: Sequence[float], static: Sequence[float]) -> int | None:
    """The number of the first step, from 1, at which neither loss is finite and they are not the
    same: where sums overflow, their order decides what becomes NaN first.

    >>> first_lost([1.0, math.inf, math.nan], [1.0, math.nan, math.nan])
    2
    """

    def are_lost(a: float, b: float) -> bool:
        is_same = a == b or (math.isnan(a) and math.isnan(b))
        return not (math.isfinite(a) or math.isfinite(b) or is_same)

    pairs = zip(eager, static, strict=False)
    return next((n for n, (a, b) in enumerate(pairs, 1) if are_lost(a, b)), None)


def first_nan(losses: Sequence[float]) -> int | None:
    """The number of the first step whose loss is a NaN, from 1."""
    found = np.flatnonzero(np.isnan(np.array(losses, np.float64)))
    return int(found[0]) + 1 if found.size else None
