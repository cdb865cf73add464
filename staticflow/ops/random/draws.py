"""Random numbers as functions of the state of a generator.

That state is an int64 pair (seed, count). Each draw takes the next count; its key is
``threefry(seed, count)``, and the 64 bits of its element i (in row-major order) are
``threefry(key, i)``, by the Threefry-2x32-20 of Salmon, Moraes, Dror and Shaw, "Parallel random
numbers: as easy as 1, 2, 3" (SC11). So a stream depends neither on the mode nor on threads, and a
program that draws carries one pair from call to call.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.dims import prod
from staticflow.graph.dtypes import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int32,
    int64,
)
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.creation import iota
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.declare import elementwise, strict
from staticflow.ops.elementwise.bits import bitwise_and
from staticflow.ops.elementwise.special import erfinv

__all__ = [
    "SIGNIFICANT", "centre", "integers_op", "normal_op", "random_bits", "real_dtype", "threefry",
    "uniform_op",
]  # fmt: skip

# -- bits -----------------------------------------------------------------------------------------

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA
_WORD = 0xFFFFFFFF


def _halves(xp: Any, x: Any) -> tuple[Any, Any]:
    return x.astype(xp.uint32), (x >> 32).astype(xp.uint32)


def _threefry_reference(xp: Any, key: Any, counter: Any) -> Any:
    first, second = _halves(xp, key)
    keys = (first, second, first ^ second ^ _PARITY)
    x, y = _halves(xp, counter)
    x, y = x + first, y + second
    for i in range(20):
        n = _ROTATIONS[i % 8]
        x = x + y
        y = (y << n | y >> 32 - n) ^ x
        if i % 4 == 3:
            n = i // 4 + 1
            x, y = x + keys[n % 3], y + keys[(n + 1) % 3] + xp.uint32(n)
    return y.astype(xp.int64) << 32 | x


def _threefry_infer(facts: Facts, key: TensorType, counter: TensorType) -> TensorType:
    for t in (key, counter):
        if t.dtype is not int64:
            raise DTypeError(f"the key and the counter are int64, not {t.dtype}")
    return TensorType(int64, facts.broadcast([key.shape, counter.shape]))


threefry = elementwise(
    "threefry", "64 random bits, as an int64, of a key and a counter.",
    strict(_threefry_infer, _threefry_reference),
    lambda k, key, counter: k.threefry(key, counter),
    promote="none", kinds="i", infer=_threefry_infer, numpy="slower",
)  # fmt: skip


def _check_state(facts: Facts, state: TensorType) -> None:
    if state.dtype is not int64 or state.ndim != 1:
        raise DTypeError(f"the state of a generator is i64[2], not {state}")
    facts.equal(state.shape[0], 2, "the elements of a generator's state and of a seed with a count")


def _bits_infer(facts: Facts, state: TensorType, like: TensorType) -> TensorType:
    _check_state(facts, state)
    return TensorType(int64, like.shape)


def _bits_reference(xp: Any, state: Any, like: Any) -> Any:
    key = _threefry_reference(xp, state[0], state[1])
    return _threefry_reference(xp, key, xp.arange(like.size)).reshape(like.shape)


def _bits_decompose(state: Any, like: Any) -> Any:
    key = threefry(state[0], state[1])
    counter = iota.beside(state, shape=(prod(like.shape),), dim=0, dtype=int64)
    return reshape(threefry(key, counter), like.shape)


random_bits = Op(
    name="random_bits",
    doc="64 random bits, as an int64, for each element of ``like``, whose values do not matter.",
    infer=_bits_infer,
    reference=strict(_bits_infer, _bits_reference),
    vjp=None,
    decompose=_bits_decompose,
    numpy="slower",
    shapeless=True,
)

# -- floats ---------------------------------------------------------------------------------------

SIGNIFICANT: dict[DType, int] = {float32: 24, float64: 53, float16: 11, bfloat16: 8}
"""The bits of a significand: as many are drawn, so that every result is a float and none is 1."""


def real_dtype(dtype: DType) -> DType:
    """The dtype to draw in for a result of ``dtype``: 16 bits have too few digits."""
    return dtype if dtype is float64 else float32


def _floating_infer(
    facts: Facts, state: TensorType, like: TensorType, *, dtype: DType
) -> TensorType:
    _check_state(facts, state)
    if not dtype.is_floating:
        raise DTypeError(f"not defined for {dtype.name}; random integers are made by randint")
    return TensorType(dtype, like.shape)


def _uniform_reference(xp: Any, state: Any, like: Any, *, dtype: DType) -> Any:
    n = SIGNIFICANT[dtype]
    whole = _bits_reference(xp, state, like) & (1 << n) - 1
    return whole.astype(dtype.numpy) * dtype.numpy.type(2.0**-n)


def _uniform_decompose(state: Any, like: Any, *, dtype: DType) -> Any:
    n = SIGNIFICANT[dtype]
    bits = random_bits(state, like)
    if n < 32:  # of which vectors hold twice as many
        bits = cast(bits, dtype=int32)
    return cast(bitwise_and(bits, (1 << n) - 1), dtype=dtype) * 2.0**-n


uniform_op = Op(
    name="uniform",
    doc="Numbers from the uniform distribution on [0, 1), multiples of the last place below 1, in "
    "the shape of ``like``.",
    infer=_floating_infer,
    reference=strict(_floating_infer, _uniform_reference),
    vjp=None,
    decompose=_uniform_decompose,
    numpy="slower",
    shapeless=True,
)


def centre(uniform: Any, dtype: DType) -> Any:
    """Numbers from [0, 1) as odd multiples of the last place below 1, between -1 and 1: all of
    them are floats."""
    return (uniform * 2 - 1) + 2.0 ** -SIGNIFICANT[dtype]


def _normal_reference(xp: Any, state: Any, like: Any, *, dtype: DType) -> Any:
    wide = real_dtype(dtype)
    u = centre(_uniform_reference(xp, state, like, dtype=wide), wide)
    return (erfinv.reference(xp, u) * wide.numpy.type(sqrt(2))).astype(dtype.numpy)


def _normal_decompose(state: Any, like: Any, *, dtype: DType) -> Any:
    wide = real_dtype(dtype)
    u = centre(uniform_op(state, like, dtype=wide), wide)
    return cast(erfinv(u) * sqrt(2), dtype=dtype)


normal_op = Op(
    name="normal",
    doc="Numbers from the standard normal distribution, ``sqrt(2) erfinv(u)`` of u from the "
    "uniform one on (-1, 1), in the shape of ``like``.",
    infer=_floating_infer,
    reference=strict(_floating_infer, _normal_reference),
    vjp=None,
    decompose=_normal_decompose,
    numpy="slower",
    shapeless=True,
)

# -- integers -------------------------------------------------------------------------------------


def _integers_infer(
    facts: Facts, state: TensorType, like: TensorType, low: TensorType, count: TensorType
) -> TensorType:
    for t in (low, count):
        if t != TensorType(int64, ()):
            raise DTypeError(f"the bounds are int64 numbers, not {t}")
    return _bits_infer(facts, state, like)


def _scale(bits: Any, count: Any) -> Any:
    """The upper half of the product of 64 bits and a number of 31, by halves of 32 bits."""
    low, high = bits & _WORD, bits >> 32 & _WORD
    return (low * count >> 32) + high * count >> 32


def _integers_reference(xp: Any, state: Any, like: Any, low: Any, count: Any) -> Any:
    return _scale(_bits_reference(xp, state, like), count) + low


def _integers_decompose(state: Any, like: Any, low: Any, count: Any) -> Any:
    return _scale(random_bits(state, like), count) + low


integers_op = Op(
    name="integers",
    doc="Integers from ``low`` on, as many as ``count``, at most 2**31, says, in the shape of "
    "``like``.",
    infer=_integers_infer,
    reference=strict(_integers_infer, _integers_reference),
    vjp=None,
    decompose=_integers_decompose,
    numpy="slower",
    shapeless=True,
)
