"""Expressions as people write them, at numbers where what is written over- or underflows, cancels,
or has a limit: ``make_stable.py`` says what is right, and how libraries do, ``test_stable_forms.py``
holds staticflow to it.

``compute(m, x)`` is the expression in a library ``m`` (`Library` says of which functions), of rows ``x``;
``exact(row, k)`` the same of numbers of mpmath, of which ``k`` is the module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["CASES", "PICKED", "WEIGHTS", "Case"]

WEIGHTS = (1.0, 0.5, 2.0)
"""What gives one number of the elements of a row, whose derivative is taken."""

PICKED = (1, 1, 2)
"""The class of each row that a loss looks at."""


@dataclass(frozen=True)
class Case:
    name: str
    compute: Callable[[Any, Any], Any]
    exact: Callable[[Any, Any], Any]
    rows: tuple[tuple[float, ...], ...]
    orders: int = 3
    """Of value, gradient and second derivative those that are looked at."""


def _single(
    name: str, compute: Callable[..., Any], exact: Callable[..., Any], *points: float
) -> Case:
    """A function of single elements."""
    return Case(name, compute, lambda row, k, i: [exact(row[0], k)], tuple((p,) for p in points))


def _sigmoid(x: Any, k: Any) -> Any:
    return 1 / (1 + k.exp(-x))


def _log_softmax(row: Any, k: Any) -> Any:
    peak = max(row)
    total = peak + k.log(sum(k.exp(a - peak) for a in row))
    return [a - total for a in row]


def _at_zero(limit: float, fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, k: k.mpf(limit) if x == 0 else fn(x, k)


SINGLE = (
    _single("log(1 + exp(x))", lambda m, x: m.log(1 + m.exp(x)),
            lambda x, k: k.log(1 + k.exp(x)), -100, -20, 0, 5, 100, 1000),
    _single("log1p(exp(x))", lambda m, x: m.log1p(m.exp(x)),
            lambda x, k: k.log(1 + k.exp(x)), -100, -20, 0, 5, 100, 1000),
    _single("log1p(exp(-x))", lambda m, x: m.log1p(m.exp(-x)),
            lambda x, k: k.log(1 + k.exp(-x)), -1000, -100, 0, 5, 20, 80),
    _single("log1p(-exp(x))", lambda m, x: m.log1p(-m.exp(x)),
            lambda x, k: k.log(1 - k.exp(x)), -80, -20, -1, -0.01, -1e-6, -1e-10),
    _single("log(1 - exp(x))", lambda m, x: m.log(1 - m.exp(x)),
            lambda x, k: k.log(1 - k.exp(x)), -80, -20, -1, -0.01, -1e-6, -1e-10),
    _single("log(exp(x) - 1)", lambda m, x: m.log(m.exp(x) - 1),
            lambda x, k: k.log(k.exp(x) - 1), 1e-10, 1e-5, 0.5, 5, 100, 1000),
    _single("log(exp(x) + exp(y))", lambda m, x: m.log(m.exp(x) + m.exp(x * 0 + 2.0)),
            lambda x, k: k.log(k.exp(x) + k.exp(2)), -100, 0, 5, 100, 1000),
    _single("logaddexp(x, y)", lambda m, x: m.logaddexp(x, x * 0 + 1.0),
            lambda x, k: k.log(k.exp(x) + k.exp(1)), -100, 0, 5, 100, 1000),
    _single("log(1 - sigmoid(x))", lambda m, x: m.log(1 - m.sigmoid(x)),
            lambda x, k: k.log(1 - _sigmoid(x, k)), -50, -8, 0, 8, 100, 1000),
    _single("log(sigmoid(x))", lambda m, x: m.log(m.sigmoid(x)),
            lambda x, k: k.log(_sigmoid(x, k)), -1000, -100, -8, 0, 8, 50),
    _single("log(1 / (1 + exp(-x)))", lambda m, x: m.log(1 / (1 + m.exp(-x))),
            lambda x, k: k.log(_sigmoid(x, k)), -1000, -100, -8, 0, 8, 50),
    _single("1 / (1 + exp(-x))", lambda m, x: 1 / (1 + m.exp(-x)), _sigmoid, -80, -30, 0, 5, 8),
    _single("1 - sigmoid(x)", lambda m, x: 1 - m.sigmoid(x),
            lambda x, k: 1 - _sigmoid(x, k), -5, 0, 5, 30, 80),
    _single("exp(x) / (1 + exp(x))", lambda m, x: m.exp(x) / (1 + m.exp(x)), _sigmoid,
            -80, -30, 0, 5, 100, 1000),
    _single("log(1 - x)", lambda m, x: m.log(1 - x), lambda x, k: k.log(1 - x),
            1e-10, 1e-5, -1e-8, 0.5),
    _single("log(1 + x)", lambda m, x: m.log(1 + x), lambda x, k: k.log(1 + x),
            1e-10, 1e-5, -1e-8, 0.5),
    _single("exp(x) - 1", lambda m, x: m.exp(x) - 1, lambda x, k: k.exp(x) - 1, 1e-10, -1e-5, 0.5),
    _single("log(a / x)", lambda m, x: m.log((x * 0 + 2.0**-100) / x),
            lambda x, k: k.log(k.mpf(2) ** -100 / x), 1e-20, 1, 1e12, 1e20, 1e37),
    _single("log(x / a)", lambda m, x: m.log(x / (x * 0 + 2.0**-100)),
            lambda x, k: k.log(x / k.mpf(2) ** -100), 1e-35, 1e-20, 1, 1e12, 1e35),
    _single("log(erfc(x))", lambda m, x: m.log(m.erfc(x)), lambda x, k: k.log(k.erfc(x)),
            -2, 0, 5, 20, 60),
    _single("sqrt(x * x)", lambda m, x: m.sqrt(x * x), lambda x, k: k.sqrt(x * x),
            -1e30, -1e-30, 1e-25, 2, 1e30),
    _single("x / sqrt(x * x)", lambda m, x: x / m.sqrt(x * x), lambda x, k: x / k.sqrt(x * x),
            -1e30, -1e-30, 1e-25, 2, 1e30),
    _single("x * log(x)", lambda m, x: x * m.log(x), lambda x, k: x * k.log(x), 1e-30, 0.5, 10),
    _single("x / (exp(x) - 1)", lambda m, x: x / (m.exp(x) - 1),
            _at_zero(1, lambda x, k: x / (k.exp(x) - 1)),
            0, 1e-10, -1e-5, 0.3, 0.99, 1.01, 5, 80, 100, -100, 1000),
    _single("sin(x) / x", lambda m, x: m.sin(x) / x, _at_zero(1, lambda x, k: k.sin(x) / x),
            0, 1e-10, 1e-3, 0.01, 0.1, 2),
    _single("(e^x - e^-x) / (e^x + e^-x)",
            lambda m, x: (m.exp(x) - m.exp(-x)) / (m.exp(x) + m.exp(-x)),
            lambda x, k: k.tanh(x), -100, -3, 1e-8, 0.5, 3, 100),
    _single("(e^2x - 1) / (e^2x + 1)",
            lambda m, x: (m.exp(2 * x) - 1) / (m.exp(2 * x) + 1),
            lambda x, k: k.tanh(x), -100, -3, 1e-8, 0.5, 3, 100),
    _single("log((1 + x) / (1 - x)) / 2", lambda m, x: 0.5 * m.log((1 + x) / (1 - x)),
            lambda x, k: k.atanh(x), 1e-10, -1e-6, 0.5, 0.999),
    _single("log(x + sqrt(x * x - 1))", lambda m, x: m.log(x + m.sqrt(x * x - 1)),
            lambda x, k: k.acosh(x), 1.5, 10, 1e10, 1e25),
    _single("log(x + sqrt(x * x + 1))", lambda m, x: m.log(x + m.sqrt(x * x + 1)),
            lambda x, k: k.asinh(x), -1e10, -100, 1e-10, 1, 1e10),
    _single("sqrt(x * x + y * y)",
            lambda m, x: m.sqrt(x * x + (x * 0 + 2.0**61) * (x * 0 + 2.0**61)),
            lambda x, k: k.sqrt(x * x + k.mpf(2) ** 122), 1e18, 4e18, 1e19, 3e25),
    _single("log(cosh(x))", lambda m, x: m.log(m.cosh(x)), lambda x, k: k.log(k.cosh(x)),
            -1000, -100, -3, 1, 100, 1000),
)  # fmt: skip

_BIG = ((1000.0, 0.0, -1000.0), (88.0, -90.0, 3.0), (1e4, 1e4, -5.0))
_FAR = ((1e30, 2e30, 0.0), (1e-30, 1e-30, 2e-30), (0.0, 0.0, 0.0), (3.0, 4.0, 0.0))
_NEAR = ((1000.0, 1000.01, 1000.02), (1e4, 1e4 + 1, 1e4 + 2))


def _norm(row: Any, k: Any, i: int) -> Any:
    return [k.sqrt(sum(a * a for a in row))]


ROWS = (
    Case("log(softmax(x))", lambda m, x: m.log(m.softmax(x)),
         lambda row, k, i: _log_softmax(row, k), _BIG),
    Case("-log(softmax(x)).gather(1, t)", lambda m, x: -m.gather(m.log(m.softmax(x))),
         lambda row, k, i: [-_log_softmax(row, k)[PICKED[i]]], _BIG),
    Case("-log(softmax(x).gather(1, t))", lambda m, x: -m.log(m.gather(m.softmax(x))),
         lambda row, k, i: [-_log_softmax(row, k)[PICKED[i]]], _BIG),
    Case("exp(x) / sum(exp(x))", lambda m, x: m.exp(x) / m.sum(m.exp(x), True),
         lambda row, k, i: [k.exp(a) for a in _log_softmax(row, k)], _BIG),
    Case("log(exp(x) / sum(exp(x)))", lambda m, x: m.log(m.exp(x) / m.sum(m.exp(x), True)),
         lambda row, k, i: _log_softmax(row, k), _BIG),
    Case("-sum(y * log(exp(x) / sum(exp(x))))",
         lambda m, x: -m.sum(m.one_hot() * m.log(m.exp(x) / m.sum(m.exp(x), True)), False),
         lambda row, k, i: [-_log_softmax(row, k)[PICKED[i]]], _BIG),
    Case("log(sum(exp(x)))", lambda m, x: m.log(m.sum(m.exp(x), False)),
         lambda row, k, i: [row[0] - _log_softmax(row, k)[0]], _BIG),
    Case("log(mean(exp(x)))", lambda m, x: m.log(m.mean(m.exp(x))),
         lambda row, k, i: [row[0] - _log_softmax(row, k)[0] - k.log(3)], _BIG),
    Case("sqrt(sum(x * x))", lambda m, x: m.sqrt(m.sum(x * x, False)), _norm, _FAR, 2),
    Case("sqrt(sum((a - b) ** 2))", lambda m, x: m.sqrt(m.sum((x - x * 0) ** 2, False)), _norm,
         _FAR, 2),
    Case("mean(x * x) - mean(x) ** 2", lambda m, x: m.mean(x * x) - m.mean(x) ** 2,
         lambda row, k, i: [sum(a * a for a in row) / 3 - (sum(row) / 3) ** 2], _NEAR),
)  # fmt: skip

CASES = (*SINGLE, *ROWS)
