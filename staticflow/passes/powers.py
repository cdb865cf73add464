"""Rules of numbers: factors, terms and powers that meet."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from staticflow.graph.dtypes import DType
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import add, div, floor_divide, mul, neg, sub
from staticflow.ops.basics.creation import full_like
from staticflow.ops.elementwise.bits import bitwise_and, bitwise_or, bitwise_xor
from staticflow.ops.elementwise.maths import pow, reciprocal, rsqrt, sqrt
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.pattern import Rule, number_of, rule
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["NUMBERS", "POWERS", "PRODUCTS"]


def number_in(x: Any) -> Any:
    """The number that a symbol has everywhere, None if it has no such."""
    return number_of(x.node)


def _power_of_two(number: Any, dtype: DType) -> bool:
    """Whether a number is a power of two whose reciprocal the dtype has too, as a normal one."""
    if not dtype.is_floating or not isinstance(number, float) or number <= 0:
        return False
    least = 2.0**-14 if dtype.short == "f16" else 2.0**-126
    inside = least <= number <= 1 / least
    return inside and math.frexp(number)[0] == 0.5


def _divide(x: Any, c: Any) -> Any:
    number = number_in(c)
    same = c.dtype is x.dtype and c.ndim <= x.ndim
    return x * (1 / number) if same and _power_of_two(number, x.dtype) else None


def _merge_factors(x: Any, a: Any, b: Any) -> Any:
    """Integers wrap in any order; powers of two from 1 on never round, nor overflow sooner."""
    first, second = number_in(a), number_in(b)
    if first is None or second is None or a.ndim or b.ndim or a.dtype is not x.dtype:
        return None
    if x.dtype.is_floating:
        fits = min(first, second) >= 1 and _power_of_two(first * second, x.dtype)
        fits = fits and _power_of_two(first, x.dtype)
        return x * (first * second) if fits else None
    return mul(x, _compute(mul, a, b)) if x.dtype.kind in "iu" else None


def _merge_terms(x: Any, a: Any, b: Any) -> Any:
    both = number_in(a) is not None and number_in(b) is not None and not (a.ndim or b.ndim)
    same = a.dtype is x.dtype and b.dtype is x.dtype
    return add(x, _compute(add, a, b)) if both and same and x.dtype.kind in "iu" else None


def _compute(op: Op, a: Any, b: Any) -> Any:
    """The number that an op makes of two of an integer dtype. It is computed now: of numbers alone
    a rule would take one for the tensor, and then another."""
    numbers = (np.asarray(number_in(x), x.dtype.numpy) for x in (a, b))
    return Symbol(constant_node(op.reference(np, *numbers), a.dtype))


def _of_integers(made: Callable[..., Any]) -> Callable[..., Any]:
    """A replacement for integers alone: of floats there is NaN."""
    return lambda x: made(x) if x.dtype.kind in "iu" else None


def _negate_number(x: Any, c: Any) -> Any:
    number = number_in(c)
    if number is None or c.ndim or c.dtype is not x.dtype or not x.dtype.is_signed:
        return None
    return x * -number if x.dtype.is_floating else mul(x, _compute(mul, c, full_like(c, -1)))


NUMBERS: tuple[Rule, ...] = (
    rule(
        "div_power_of_two", "x / 2**k = x 2**-k, both rounded once", lambda x, c: div(x, c),
        lambda x, c: _divide(x, c),
    ),
    rule(
        "mul_mul", "(x a) b = x (a b) for integers and powers of two",
        lambda x, a, b: mul(mul(x, a), b), lambda x, a, b: _merge_factors(x, a, b),
    ),
    rule(
        "add_add", "(x + a) + b = x + (a + b) for integers", lambda x, a, b: add(add(x, a), b),
        lambda x, a, b: _merge_terms(x, a, b),
    ),
    rule(
        "mul_negs", "(-x) (-y) = x y", lambda x, y: mul(neg(x), neg(y)), lambda x, y: mul(x, y),
    ),
    rule(
        "div_negs", "(-x) / (-y) = x / y", lambda x, y: div(neg(x), neg(y)),
        lambda x, y: div(x, y),
    ),
    rule(
        "mul_neg_number", "(-x) c = x (-c)", lambda x, c: mul(neg(x), c),
        lambda x, c: _negate_number(x, c),
    ),
    rule(
        "sub_same_integer", "x - x = 0 where there is no NaN", lambda x: sub(x, x),
        _of_integers(lambda x: full_like(x, 0)),
    ),
    rule(
        "mul_zero_integer", "x * 0 = 0 where there is no NaN", lambda x: mul(x, 0),
        _of_integers(lambda x: full_like(x, 0)),
    ),
    rule(
        "floor_divide_one", "x // 1 = x of integers", lambda x: floor_divide(x, 1),
        _of_integers(lambda x: x),
    ),
    rule("bits_and_same", "x & x = x", lambda x: bitwise_and(x, x), lambda x: x),
    rule("bits_or_same", "x | x = x", lambda x: bitwise_or(x, x), lambda x: x),
    rule(
        "bits_xor_same", "x ^ x = 0", lambda x: bitwise_xor(x, x), lambda x: full_like(x, 0),
    ),
    rule("pow_zero", "x ** 0 = 1, of NaN too", lambda x: pow(x, 0), lambda x: full_like(x, 1)),
)  # fmt: skip
"""Rules that keep every bit."""


def _few_products(x: Any, n: Any) -> Any:
    number = number_in(n)
    if not x.dtype.is_floating or x.dtype.bits < 32 or n.dtype is not x.dtype:
        return None
    return _by_products(x, int(number)) if number in range(3, _MOST_PRODUCTS + 1) else None


_MOST_PRODUCTS = 8
"""The largest power that is made of products: of x ** 8 three, whose roundings add up to 3.5 units
in the last place."""


def _scale_twice(x: Any, a: Any, b: Any) -> Any:
    """``(x a) b``, where ``a`` and ``b`` both enlarge or both make smaller, so that ``a b`` is out
    of range only where the result is."""
    if number_in(a) is None or number_in(b) is None or a.ndim or b.ndim or a.dtype is not x.dtype:
        return None
    if not x.dtype.is_floating or x.dtype.bits < 32:
        return None
    first, second = float(number_in(a)), float(number_in(b))
    with np.errstate(all="ignore"):
        both = float(x.dtype.numpy.type(first * second))
    sizes = sorted(map(math.fabs, (first, second)))
    usual = 2.0**-100 <= math.fabs(both) <= 2.0**100
    return x * both if usual and (sizes[0] >= 1 or sizes[1] <= 1) else None


def _by_products(x: Any, n: int) -> Any:
    """``x ** n`` for n from 1 on, by squares."""
    half = x if n < 2 else _by_products(x, n // 2)
    square = x if n == 1 else half * half
    return square * x if n > 1 and n % 2 else square


def _power(x: Any, n: Any) -> Any:
    number = number_in(n)
    if number is None or not x.dtype.is_floating or (number * 2) % 1 or not 0 < number**2 <= 256:
        return None
    if number == -0.5:
        return rsqrt(x)
    whole, half = divmod(math.fabs(number), 1)
    parts = [sqrt(x)] * bool(half) + [_by_products(x, int(whole))] * (whole > 0)
    power = parts[0] if len(parts) == 1 else parts[0] * parts[1]
    return power if number > 0 else reciprocal(power)


def _by_reciprocal(x: Any, c: Any) -> Any:
    number = number_in(c)
    usual = number is not None and 2.0**-100 <= math.fabs(number) <= 2.0**100
    wide = x.dtype.is_floating and x.dtype.bits >= 32 and c.dtype is x.dtype
    return x * (1 / float(number)) if usual and wide and c.ndim <= x.ndim else None


PRODUCTS: tuple[Rule, ...] = (
    rule(
        "pow_by_products", "x ** 3 = x x x, x ** 4 = (x x) (x x), and so on to 8",
        lambda x, n: pow(x, n), lambda x, n: _few_products(x, n),
    ),
    rule(
        "scale_twice", "(x a) b = x (a b) for numbers that both enlarge, or neither",
        lambda x, a, b: mul(mul(x, a), b), lambda x, a, b: _scale_twice(x, a, b),
    ),
)  # fmt: skip
"""Rules that put products into another order, and so round otherwise."""

POWERS: tuple[Rule, ...] = (
    rule(
        "pow_by_roots", "x ** (k / 2) by products and a root, k from -32 to 32",
        lambda x, n: pow(x, n), lambda x, n: _power(x, n),
    ),
    rule(
        "div_sqrt", "y / sqrt(x) = y rsqrt(x)", lambda x, y: div(y, sqrt(x)),
        lambda x, y: y * rsqrt(x),
    ),
    rule(
        "div_number", "x / c = x (1 / c)", lambda x, c: div(x, c),
        lambda x, c: _by_reciprocal(x, c),
    ),
    rule("sub_same", "x - x = 0", lambda x: sub(x, x), lambda x: full_like(x, 0)),
    rule("div_same", "x / x = 1", lambda x: div(x, x), lambda x: full_like(x, 1)),
)  # fmt: skip
"""Rules that are wrong for signed zeros, infinities and NaN, or by more roundings."""
