"""Random numbers as functions of a state, against a plain Threefry in Python's integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any

import numpy as np

from opinfo.arithmetic import pairwise
from opinfo.core import FLOATS, Array, Failure, OpInfo, Sample, values, wrap
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType, bfloat16, float16, float32, float64, int64
from staticflow.ops import OPS

__all__ = ["ROWS", "threefry"]

_WORD = 2**32


def threefry(key: int, counter: int) -> int:
    """Salmon et al. 2011, figure 5: 20 rounds on two words of 32 bits."""
    keys = [key % _WORD, key // _WORD % _WORD]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)
    x, y = (counter + keys[0]) % _WORD, (counter // _WORD + keys[1]) % _WORD
    for i in range(20):
        n = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
        x = (x + y) % _WORD
        y = ((y << n | y >> (32 - n)) % _WORD) ^ x
        if i % 4 == 3:
            n = i // 4 + 1
            x, y = (x + keys[n % 3]) % _WORD, (y + keys[(n + 1) % 3] + n) % _WORD
    return wrap(y * _WORD + x, int64)


_THREEFRY = pairwise(
    OPS["threefry"], lambda key, counter: OPS["threefry"](key, counter), threefry, dtypes=(int64,),
    samples=lambda dtype, smooth: (
        Sample((values(a, int64, -(2**62), 2**62), values(b, int64, -(2**62), 2**62, seed=1)))
        for a, b in (((3,), ()), ((), (3,)), ((), ()), ((2, 1), (1, 3)), ((0,), ()), ((3, 2), (2,)))
    ),
    failures=(
        Failure(Sample((np.zeros(3, "i4"), np.zeros(3, "i4"))), DTypeError, "int64"),
    ),
    exact=True,
)  # fmt: skip

_STATE = np.array([5, 3])


def _bits(state: Array, like: Array) -> list[int]:
    key = threefry(*map(int, state))
    return [threefry(key, i) for i in range(like.size)]


def _of_bits(fn: Callable[[int, Any], float], result: DType | None = None) -> Callable[..., Array]:
    def expect(state: Array, like: Array, dtype: Any = None) -> Array:
        out = [fn(b, dtype) for b in _bits(state, like)]
        return np.array(out, (result or dtype).numpy).reshape(like.shape)

    return expect


_DIGITS = {float32: 24, float64: 53, float16: 11, bfloat16: 8}


def _uniform(bits: int, dtype: DType) -> float:
    return bits % 2 ** _DIGITS[dtype] / 2 ** _DIGITS[dtype]


def _normal(bits: int, dtype: DType) -> float:
    # the middle of one of 2**n parts of the interval from 0 to 1, by the nearer end of it
    n = 53 if dtype is float64 else 24
    part = bits % 2**n
    half = min(part, 2**n - 1 - part)
    z = NormalDist().inv_cdf((2 * half + 1) / 2 ** (n + 1))
    return math.copysign(z, part - half - 0.5)


def _samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape in ((), (0,), (1,), (70,), (3, 4), (2, 0, 3)):
        yield Sample((_STATE, np.zeros(shape, np.float32)), _attrs(dtype))
    yield Sample((np.array([-(2**63), 2**63 - 1]), np.ones((2, 5), "?")), _attrs(dtype))


def _attrs(dtype: DType) -> dict[str, Any]:
    return {} if dtype is int64 else {"dtype": dtype}


def _row(name: str, expect: Callable[..., Array], dtypes: tuple[DType, ...], **row: Any) -> OpInfo:
    like = np.zeros(3, np.float32)
    return OpInfo(
        OPS[name], lambda *args, **attrs: OPS[name](*args, **attrs), expect, _samples, dtypes,
        grad=False,
        sized=lambda dtype, n: Sample((_STATE, np.zeros((n, 3), np.float32)), _attrs(dtype)),
        failures=(
            Failure(Sample((np.zeros(2), like), _attrs(dtypes[0])), DTypeError, "i64[2]"),
            Failure(Sample((np.zeros(3, "i8"), like), _attrs(dtypes[0])), ShapeError, "a count"),
        ),
        **row,
    )  # fmt: skip


def _integer_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for low, count in ((0, 10), (-7, 1), (2**40, 2**31 - 1), (0, 2**31)):
        yield Sample((_STATE, np.zeros((3, 40), np.float32), low, count))
    yield Sample((_STATE, np.zeros((), "?"), np.array(3), np.array(5)))


def _integers(state: Array, like: Array, low: Any, count: Any) -> Array:
    out = [(b % 2**64 * int(count) >> 64) + int(low) for b in _bits(state, like)]
    return np.array(out, np.int64).reshape(like.shape)


_INTEGERS = OpInfo(
    OPS["integers"], lambda *args: OPS["integers"](*args), _integers, _integer_samples, (int64,),
    grad=False, exact=True,
    sized=lambda dtype, n: Sample((_STATE, np.zeros((n, 3), np.float32), 5, 6)),
    failures=(
        Failure(
            Sample((_STATE, np.zeros(3), np.array(1.0), np.array(2))), DTypeError, "bounds are int64"
        ),
    ),
)  # fmt: skip

ROWS = (
    _INTEGERS,
    _THREEFRY,
    _row("random_bits", _of_bits(lambda bits, _: bits, int64), (int64,), exact=True),
    _row("uniform", _of_bits(_uniform), FLOATS, exact=True),
    _row("normal", _of_bits(_normal), FLOATS),
)
