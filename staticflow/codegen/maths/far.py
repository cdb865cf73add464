"""Large angles brought to a quarter of a turn, with all their digits.

Of ``x = m 2**e`` with an integer m the quarters of a turn are ``m 2**e 2/pi``, and all but what is
left modulo 4 is dropped before it is computed: the product of m and those bits of 2/pi alone that
bear on it, a window that begins where a quarter counts 2 and ends behind the digits that the result
has, even next to a multiple of pi / 2 (Payne and Hanek, "Radian reduction for trigonometric
functions", SIGNUM Newsletter 18, 1983). Integers have 64 bits and wrap, products are of 32 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import Operand
from staticflow.codegen.maths.formats import FORMATS
from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import float32, float64, int64

__all__ = ["Angle", "reduce_far"]

# 2 / pi in 64 bits at a time, the first 8 of which are 0.
_AHEAD = 8
_BITS = (
    "00a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2"
    "e006492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339"
    "f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea"
    "2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6b"
)
_WORDS = [int(_BITS[at : at + 16], 16) for at in range(0, len(_BITS), 16)]

_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)  # as a sum of two floats

_LOW = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Angle:
    """``n * pi / 2 + r + low`` with ``|r| <= pi / 4`` and a ``low`` below its last digit; n is an
    integer of r's width, of which the last two bits count."""

    r: Operand
    low: Operand
    n: Operand


@dataclass(frozen=True, slots=True)
class _Window:
    """How many ``words`` of 2/pi a product takes, that begin at one of the first ``2**choices``
    words, and how many numbers of 32 bits of them."""

    words: int
    choices: int
    parts: int


_WINDOWS = {float32: _Window(3, 1, 3), float64: _Window(4, 4, 6)}


def reduce_far(k: Builder, x: Operand) -> Angle:
    """The angle x, for float32 and float64, where ``2**10 < |x| < inf``; any other gives some."""
    f, window = FORMATS[x.dtype], _WINDOWS[x.dtype]
    bits = k.cast(k.bitcast(k.apply("abs", x), f.integer), int64)
    m = k.apply("or", k.apply("and", bits, (1 << f.fraction) - 1), 1 << f.fraction)
    first = k.add(k.apply("shr", bits, f.fraction), _AHEAD - 2 - f.bias - f.fraction)
    parts = _product(k, m, f.fraction, _window(k, first, window))
    high = k.apply("or", k.apply("shl", parts[0], 32), parts[1])  # 2**62 is a quarter
    n = k.apply("shr", k.add(high, 1 << 61), 62)
    rest = k.sub(high, k.apply("shl", n, 62))
    r, low = _ANGLES[x.dtype](k, rest, parts)
    negative = k.compare("lt", x, 0.0)
    signs = ((k.neg(v), v) for v in (r, low, k.cast(n, f.integer)))
    return Angle(*(k.select(negative, a, b) for a, b in signs))


def _window(k: Builder, first: Operand, window: _Window) -> list[Operand]:
    """The bits of 2/pi from ``first`` on, 32 at a time: words are chosen by one bit after the other
    of where they begin, and shifted."""
    at = k.apply("shr", first, 6)
    count = window.words + (1 << window.choices) - 1
    words: list[Operand] = [k.const(_as_signed(w), int64) for w in _WORDS[:count]]
    for bit in reversed(range(window.choices)):
        step = 1 << bit
        is_set = k.compare("ne", k.apply("and", at, step), 0)
        pairs = zip(words, words[step:], strict=False)
        words = [k.select(is_set, far, near) for near, far in pairs]
    shift = k.apply("and", first, 63)
    back = k.sub(63, shift)
    parts: list[Operand] = []
    for word, following in pairwise(words):
        half = k.apply("and", k.apply("shr", following, 1), (1 << 63) - 1)
        whole = k.apply("or", k.apply("shl", word, shift), k.apply("shr", half, back))
        parts += [_high(k, whole), k.apply("and", whole, _LOW)]
    return parts[: window.parts]


def _as_signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _high(k: Builder, word: Operand) -> Operand:
    return k.apply("and", k.apply("shr", word, 32), _LOW)


def _product(k: Builder, m: Operand, fraction: int, parts: Sequence[Operand]) -> list[Operand]:
    """m, of one more bit than ``fraction``, by a number of 32 bits at a time, the highest first, of
    as many of them: what is higher is dropped."""
    low = k.apply("and", m, _LOW) if fraction > 31 else m
    high = k.apply("shr", m, 32) if fraction > 31 else None
    product: list[Operand] = []
    carry: Operand | None = None
    for i, part in reversed([*enumerate(parts)]):
        own = k.mul(low, part)
        total = k.apply("and", own, _LOW)
        if carry is not None:
            total = k.add(total, carry)
        if high is not None and i + 1 < len(parts):
            total = k.add(total, k.mul(high, parts[i + 1]))
        product.append(k.apply("and", total, _LOW))
        carry = k.add(k.apply("shr", total, 32), _high(k, own))
    return product[::-1]


def _single(k: Builder, rest: Operand, parts: Sequence[Operand]) -> tuple[Operand, Operand]:
    """The float32 and its low part, by way of float64."""
    angle = k.mul(k.cast(rest, float64), _HALF_PI[0] * 2.0**-62)
    r = k.cast(angle, float32)
    return r, k.cast(k.sub(angle, k.cast(r, float64)), float32)


def _double(k: Builder, rest: Operand, parts: Sequence[Operand]) -> tuple[Operand, Operand]:
    """The float64 and its low part: ``rest`` and the 64 bits behind it as two floats, by pi / 2,
    which is two."""
    behind = k.apply("or", k.apply("shl", parts[2], 32), parts[3])
    rest = k.add(rest, k.cast(k.compare("lt", behind, 0), int64))  # rounded, what is behind is less
    high = k.cast(rest, float64)
    left = k.cast(k.sub(rest, k.cast(high, int64)), float64)
    low = k.fma(k.cast(behind, float64), 2.0**-64, left)
    y = k.add(high, low)
    y_low = k.sub(low, k.sub(y, high))
    half_pi, further = (part * 2.0**-62 for part in _HALF_PI)
    product = k.mul(y, half_pi)
    lost = k.fma(y, half_pi, k.neg(product))
    lost = k.add(lost, k.fma(y, further, k.mul(y_low, half_pi)))
    r = k.add(product, lost)
    return r, k.sub(lost, k.sub(r, product))


_ANGLES = {float32: _single, float64: _double}
