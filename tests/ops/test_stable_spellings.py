"""A form is right at the extremes however it is spelled: value, gradient and second derivative. And
where what was written is right as it runs eagerly, it is right compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

Values = np.ndarray[Any, np.dtype[np.float64]]

POINTS = (-1000.0, -100.0, -85.0, -60.0, -30.0, -18.0, -12.0, -5.0, -1.5, -0.5, -0.01, -1e-5,
          1e-5, 0.01, 0.5, 1.5, 5.0, 12.0, 18.0, 30.0, 60.0, 85.0, 100.0, 1000.0)  # fmt: skip


def falling(x: Values) -> Values:
    return np.exp(-np.logaddexp(0, x))


def slopes_of_sigmoid(x: Values) -> tuple[Values, Values, Values]:
    s, t = falling(-x), falling(x)
    return s, s * t, s * t * -np.tanh(x / 2)


def softplus(x: Values) -> tuple[Values, ...]:
    return np.logaddexp(0, x), *slopes_of_sigmoid(x)[:2]


def negated(truth: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: tuple(-v for v in truth(x))


def turned(truth: Callable[..., Any]) -> Callable[..., Any]:
    def fn(x: Values) -> tuple[Values, ...]:
        value, slope, second = truth(-x)
        return value, -slope, second

    return fn


def tanh(x: Values) -> tuple[Values, ...]:
    _, slope, second = slopes_of_sigmoid(2 * x)
    return np.tanh(x), 4 * slope, 8 * second


def log_cosh(x: Values) -> tuple[Values, ...]:
    half = np.sinh(np.clip(x, -1, 1) / 2)
    far = np.abs(x) + np.log1p(np.exp(-2 * np.abs(x))) - math.log(2)
    return np.where(np.abs(x) < 1, np.log1p(2 * half * half), far), *tanh(x)[:2]


def exponential(x: Values) -> tuple[Values, ...]:
    return np.expm1(x), np.exp(x), np.exp(x)


def magnitude(x: Values) -> tuple[Values, ...]:
    return np.abs(x), np.sign(x), 0 * x


def direction(x: Values) -> tuple[Values, ...]:
    return np.sign(x), 0 * x, 0 * x


def slope_of_sigmoid(x: Values) -> tuple[Values, ...]:
    _, slope, _ = slopes_of_sigmoid(x)
    turn = -np.tanh(x / 2)
    return slope, slope * turn, slope * (turn * turn - 2 * slope)


def times_sigmoid(x: Values) -> tuple[Values, ...]:
    s, slope, second = slopes_of_sigmoid(x)
    return x * s, s + x * slope, 2 * slope + x * second


e, log = sf.exp, sf.log
SPELLINGS: dict[str, tuple[Callable[..., Any], tuple[Callable[[Any], Any], ...]]] = {
    "softplus": (softplus, (
        lambda x: log(e(x) + 1), lambda x: log(sf.ones_like(x) + e(x)), lambda x: e(x).log1p(),
        lambda x: -log(1 / (1 + e(x))), lambda x: -log(1 - sf.sigmoid(x)),
        lambda x: log(e(x) + e(x * 0)), lambda x: x + log(1 + e(-x)), lambda x: log(1 + 1 / e(-x)),
        lambda x: sf.log2(1 + e(x)) * math.log(2), lambda x: sf.log10(1 + e(x)) / math.log10(math.e),
        lambda x: log(0.5 * e(x) + 0.5) + math.log(2),
    )),
    "log sigmoid": (negated(turned(softplus)), (
        lambda x: log(sf.sigmoid(x)), lambda x: log(1 / (1 + e(-x))), lambda x: log(e(x) / (1 + e(x))),
        lambda x: x - log(1 + e(x)), lambda x: log(0.5 * (1 + sf.tanh(x / 2))),
        lambda x: log((sf.tanh(x / 2) + 1) / 2), lambda x: log((1 + e(-x)) ** -1),
        lambda x: log(1 - e(-x) / (1 + e(-x))), lambda x: -log(1 + e(-x)),
        lambda x: sf.log2(sf.sigmoid(x)) * math.log(2), lambda x: log(-(sf.sigmoid(-x) - 1)),
        lambda x: -sf.log10(1 + math.e**-x) * math.log(10),
    )),
    "sigmoid": (slopes_of_sigmoid, (
        lambda x: 1 / (1 + e(-x)), lambda x: (1 + e(-x)) ** -1, lambda x: e(x) / (1 + e(x)),
        lambda x: e(x) * (1 / (1 + e(x))), lambda x: 1 - sf.sigmoid(-x), lambda x: 1 / (1 + 1 / e(x)),
        lambda x: -sf.sigmoid(-x) + 1, lambda x: 1 - 1 / (1 + e(x)),
        lambda x: sf.ones_like(x) / (1 + e(-x)), lambda x: e(x / 2) / (e(x / 2) + e(-x / 2)),
        lambda x: 1 / (1 + math.e**-x), lambda x: 1 / (1 + sf.exp2(-x / math.log(2))),
        lambda x: e(x) / (1 + 1 / e(-x)),
    )),
    "slope of sigmoid": (slope_of_sigmoid, (
        lambda x: sf.sigmoid(x) * (1 - sf.sigmoid(x)), lambda x: sf.sigmoid(x) - sf.sigmoid(x) ** 2,
        lambda x: e(-x) / (1 + e(-x)) ** 2, lambda x: e(x) * (1 / (1 + e(x)) ** 2),
        lambda x: sf.sigmoid(x) * -(sf.sigmoid(x) - 1),
    )),
    "x sigmoid": (times_sigmoid, (
        lambda x: x * (1 - sf.sigmoid(-x)), lambda x: x - x * sf.sigmoid(-x),
        lambda x: x / (1 + e(-x)), lambda x: x - x / (1 + e(x)),
    )),
    "tanh": (tanh, (
        lambda x: (e(x) - e(-x)) / (e(x) + e(-x)), lambda x: (e(2 * x) - 1) / (e(2 * x) + 1),
        lambda x: (1 - e(-2 * x)) / (1 + e(-2 * x)), lambda x: 2 * sf.sigmoid(2 * x) - 1,
        lambda x: 2 / (1 + e(-2 * x)) - 1, lambda x: 1 - 2 / (e(2 * x) + 1),
        lambda x: (e(x) - 1 / e(x)) / (e(x) + 1 / e(x)), lambda x: sf.sinh(x) / sf.cosh(x),
        lambda x: 1 - 2 * sf.sigmoid(-2 * x), lambda x: e(2 * x).sub(1) * (1 / (e(2 * x) + 1)),
        lambda x: sf.sigmoid(2 * x) - sf.sigmoid(-2 * x), lambda x: (1 - e(-2 * x)) * (1 / (1 + e(2 * -x))),
        lambda x: (math.e ** (2 * x) - 1) / (1 + math.e ** (2 * x)), lambda x: (1 - e(-2 * x)) / (1 + 1 / e(2 * x)),
    )),
    "log cosh": (log_cosh, (
        lambda x: log(sf.cosh(x)), lambda x: log((e(x) + e(-x)) / 2),
        lambda x: log(e(x) * 0.5 + e(-x) * 0.5), lambda x: -log(1 / sf.cosh(x)),
        lambda x: log(e(x) + e(-x)) - math.log(2), lambda x: sf.log2(sf.cosh(x)) * math.log(2),
        lambda x: -sf.log10(1 / sf.cosh(x)) * math.log(10),
    )),
    "exp - 1": (exponential, (
        lambda x: e(x) - 1, lambda x: -(1 - e(x)), lambda x: -1 + e(x), lambda x: e(x) - sf.ones_like(x),
    )),
    "|x|": (magnitude, (
        lambda x: sf.sqrt(x * x), lambda x: (x**2) ** 0.5, lambda x: sf.sqrt((-x) * (-x)),
    )),
    "x / |x|": (direction, (
        lambda x: x / sf.sqrt(x * x), lambda x: x * (x * x) ** -0.5, lambda x: x * sf.rsqrt(x**2),
        lambda x: x * (1 / sf.sqrt(x * x)), lambda x: x / sf.abs(x),
    )),
}  # fmt: skip
CASES = [(n, i, t, s) for n, (t, spelled) in SPELLINGS.items() for i, s in enumerate(spelled)]
each = pytest.mark.parametrize(
    ("name", "truth", "spelling"), [(n, t, s) for n, _, t, s in CASES],
    ids=[f"{n} {i}" for n, i, _, _ in CASES],
)  # fmt: skip

LEAST = 1e-36
"""What is as good as 0: not much above the smallest float32 with all its digits."""

ROUNDED = {"log cosh": 1e-3, "log sigmoid": 1e-6, "softplus": 1e-6}
"""As good as 0 of values that are a difference of what is written, as ``log(c + ...) - log c``."""


def all_three(fn: Callable[[Any], Any], x: Any) -> list[Any]:
    y = fn(x)
    slope = sf.grad(y.sum(), x, create_graph=True)
    return [y, slope, sf.grad(slope.sum(), x, create_graph=True)]


def is_right(got: Any, exact: Values, least: float) -> Any:
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = exact.astype(np.float32)
        near = np.abs(got - exact) <= 1e-3 * np.abs(exact) + least
    return near | (got == wanted)


@each
def test_each_spelling_is_right(name: str, truth: Any, spelling: Any) -> None:
    values = np.float32(POINTS)
    x = sf.placeholder((len(values),), name="x")
    with np.errstate(over="ignore"):
        exact = truth(values.astype(np.float64))
    program = sf.compile([x], all_three(spelling, x))
    for order, (got, wanted) in enumerate(zip(program(values), exact, strict=True)):
        right = is_right(got.numpy(), wanted, LEAST if order else ROUNDED.get(name, LEAST))
        far = np.abs(values) < 1e-3 if order else np.zeros(len(values), bool)
        assert (right | far).all(), (order, values[~right], got.numpy()[~right], wanted[~right])


@each
def test_what_is_right_eagerly_is_right_compiled(name: str, truth: Any, spelling: Any) -> None:
    values = np.float32([p for p in POINTS if abs(p) < 90])
    x = sf.placeholder((len(values),), name="x")
    compiled = sf.compile([x], all_three(spelling, x))(values)
    eager = all_three(spelling, sf.tensor(values, requires_grad=True))
    for got, plain, wanted in zip(compiled, eager, truth(values.astype(np.float64)), strict=True):
        lost = is_right(plain.detach().numpy(), wanted, LEAST)
        lost &= ~is_right(got.numpy(), wanted, 1e-9)
        assert not lost.any(), (values[lost], got.numpy()[lost], wanted[lost])


def test_logarithms_of_probabilities_have_second_derivatives() -> None:
    """That of a normal distribution was NaN from 18 on, and eagerly, too."""
    values = np.float32([-60, -5, -0.5, 0, 0.5, 5, 18, 60])
    x = sf.placeholder((len(values),), name="x")
    for fn in (sf.special.log_ndtr, lambda x: log(0.5 * (1 + sf.erf(x / math.sqrt(2))))):
        compiled = [t.numpy() for t in sf.compile([x], all_three(fn, x))(values)]
        assert np.isfinite(compiled).all()
        np.testing.assert_allclose(compiled[2][:1], -1, rtol=1e-2)
    eager = all_three(sf.special.log_ndtr, sf.tensor(values, requires_grad=True))
    assert all(bool(sf.isfinite(t).all()) for t in eager)


@pytest.mark.parametrize(
    ("fn", "limits"),
    [
        (lambda x: (e(x) - 1) / x, (1, 1 / 2, 1 / 3)),
        (lambda x: x / (e(x) - 1), (1, -1 / 2, 1 / 6)),
        (lambda x: -x / (1 - e(x)), (1, -1 / 2, 1 / 6)),
        (lambda x: x / (1 - e(-x)), (1, 1 / 2, 1 / 6)),
        (lambda x: log(1 + x) / x, (1, -1 / 2, 2 / 3)),
        (lambda x: (1 / x) * sf.sin(x), (1, 0, -1 / 3)),
        (lambda x: sf.sinc(x / math.pi), (1, 0, -1 / 3)),
    ],
)  # fmt: skip
def test_limits_at_0(fn: Any, limits: tuple[float, ...]) -> None:
    x = sf.placeholder((2,), name="x")
    found = sf.compile([x], all_three(fn, x))(np.float32([0, 1e-10]))
    for got, limit in zip(found, limits, strict=True):
        np.testing.assert_allclose(got.numpy(), limit, rtol=1e-5, atol=1e-7)


def test_bits_are_counted_exactly() -> None:
    """``log2(1 + n)`` of whole powers is whole: no form writes it by another logarithm."""
    x = sf.placeholder((3,), name="x")
    assert sf.compile([x], sf.log2(1 + x))(np.float32([1, 7, 1023])).tolist() == [1.0, 3.0, 10.0]
