"""Special functions next to the ends of their ranges, in both modes and dtypes: no value is infinite,
zero or NaN where the exact one is not, and all are within some units of the last place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

mp = pytest.importorskip("mpmath", reason="exact values: pip install mpmath")

ULPS = 16
"""How far a value may be off: compositions of a few functions, each within 5."""


def inverse_ndtr(p: Any) -> Any:
    """By Newton's method on logarithms, from the side of the nearer end."""
    q = min(p, 1 - p)
    x = -mp.sqrt(-2 * mp.log(q)) / 2
    for _ in range(100):
        tail = mp.erfc(-x / mp.sqrt(2)) / 2
        step = (mp.log(tail) - mp.log(q)) * tail * mp.sqrt(2 * mp.pi) * mp.exp(x * x / 2)
        x -= step
        if abs(step) < mp.mpf(10) ** -60:
            break
    return x if p < 0.5 else -x


def erfc(x: Any) -> Any:
    return mp.erfc(x) if abs(x) < 1e4 else mp.mpf(0 if x > 0 else 2)


def log_ndtr(x: Any) -> Any:
    return mp.log(erfc(-x / mp.sqrt(2)) / 2) if -1e4 < x < 9 else None


def near_zero(dtype: Any) -> np.ndarray[Any, Any]:
    tiny = float(np.finfo(dtype).tiny)
    return np.array([tiny / 4, tiny, *np.logspace(np.log10(tiny) + 1, -1, 12), 0.2, 0.4])


def next_to_one(dtype: Any) -> np.ndarray[Any, Any]:
    return 1 - np.logspace(np.log10(float(np.finfo(dtype).eps)), -1, 10)


def large(dtype: Any) -> np.ndarray[Any, Any]:
    ends = [1, 2, 5, 9, 13, 14, 20, 26, 37, 38, 80, 87, 88, 89, 100, 104, 700, 709, 745]
    return np.array([*ends, 1e10, float(np.finfo(dtype).max) / 2])


def of_reals(dtype: Any) -> np.ndarray[Any, Any]:
    x = np.concatenate([near_zero(dtype), large(dtype)])
    return np.concatenate([x, -x])


def of_unit(dtype: Any) -> np.ndarray[Any, Any]:
    return np.concatenate([near_zero(dtype), next_to_one(dtype)])


def of_positive(dtype: Any) -> np.ndarray[Any, Any]:
    return np.concatenate([near_zero(dtype), large(dtype)])


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], np.ndarray[Any, Any]]]] = {
    "ndtri": (inverse_ndtr, of_unit),
    "erfinv": (lambda y: inverse_ndtr((1 + y) / 2) / mp.sqrt(2), next_to_one),
    "logit": (lambda p: mp.log(p) - mp.log(1 - p), of_unit),
    "ndtr": (lambda x: erfc(-x / mp.sqrt(2)) / 2, of_reals),
    "log_ndtr": (log_ndtr, of_reals),
    "erf": (mp.erf, of_reals),
    "erfc": (erfc, of_reals),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x) if abs(x) < 1e6 else None, of_reals),
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), of_reals),
    "i0e": (lambda x: mp.exp(-abs(x)) * mp.besseli(0, x) if abs(x) < 1e4 else None, of_reals),
    "i1e": (lambda x: mp.exp(-abs(x)) * mp.besseli(1, x) if abs(x) < 1e4 else None, of_reals),
    "gammaln": (mp.loggamma, of_positive),
    "digamma": (mp.digamma, of_positive),
    "expm1": (mp.expm1, of_reals),
    "exp2": (lambda x: mp.mpf(2) ** x if abs(x) < 1e4 else None, of_reals),
    "log1p": (mp.log1p, of_positive),
    "entr": (lambda x: -x * mp.log(x), of_positive),
}
"""Functions of `sf.special`: the exact value, None where it is not told, and where they are tried."""


@pytest.mark.parametrize("is_jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_values_next_to_the_ends(name: str, dtype: Any, is_jit: bool) -> None:
    exact, points = CASES[name]
    fn = getattr(sf.special, name)
    given = np.unique(points(dtype).astype(dtype))
    found = (sf.jit(fn) if is_jit else fn)(sf.tensor(given)).numpy()
    least = float(np.finfo(dtype).smallest_subnormal)
    for x, y in zip(given.tolist(), found.tolist(), strict=True):
        with mp.workdps(80):
            wanted = exact(mp.mpf(x))
            if wanted is None:
                continue
            with np.errstate(over="ignore"):
                nearest = dtype(float(wanted))
            unit = float(np.spacing(abs(nearest))) if np.isfinite(nearest) else 1.0
            off = 0 if y == nearest else abs(mp.mpf(y) - wanted) / max(unit, least)
        assert off < ULPS, f"{name}({x!r}) is {y!r}, and should be {float(nearest)!r}"
