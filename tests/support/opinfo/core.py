"""The form of a row of the op tables, and what the tables are written with."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from staticflow.graph.dtypes import (
    DTYPES,
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
)
from staticflow.graph.op import Op

__all__ = [
    "ALL",
    "FLOATS",
    "INTEGERS",
    "NUMBERS",
    "Array",
    "Failure",
    "OpInfo",
    "Sample",
    "Samples",
    "accumulating",
    "layouts",
    "pointwise",
    "special",
    "values",
    "wrap",
]

Array = np.ndarray[Any, Any]

FLOATS = (float32, float64, float16, bfloat16)
INTEGERS = (int32, int64, int8, uint8)
NUMBERS = (*FLOATS, *INTEGERS)
ALL = (*NUMBERS, bool_)


@dataclass(frozen=True, slots=True)
class Sample:
    """The arguments of one call. Arrays in ``args`` (also inside tuples and lists) become tensors
    or symbols, everything else is passed as it is."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [_describe(a) for a in self.args]
        return ", ".join([*parts, *(f"{k}={v}" for k, v in self.kwargs.items())])


def _describe(arg: Any) -> str:
    if isinstance(arg, np.ndarray):
        strides = "" if arg.flags.c_contiguous else f" strides {arg.strides}"
        return f"{arg.dtype}{list(arg.shape)}{strides}"
    if isinstance(arg, list | tuple):
        return f"[{', '.join(map(_describe, arg))}]"
    return repr(arg)


@dataclass(frozen=True, slots=True)
class Failure:
    """Arguments that must be refused, with ``error``, a part of whose message is ``says``. Both modes
    refuse them, unless only ``eager`` can: a symbol has no values to look at."""

    sample: Sample
    error: type[Exception]
    says: str
    eager: bool = False


Samples = Callable[[DType, bool], Iterable[Sample]]
"""``samples(dtype, smooth)``: any values, or such as lie away from kinks and inside the domain."""


@dataclass(frozen=True, slots=True)
class OpInfo:
    """One op and what must hold of it.

    - ``call`` is the public function that leads to the op, ``expect`` the same on arrays by other
      means; both take what a `Sample` holds.
    - ``grad`` says whether it is differentiable: held against the op's own vjp.
    - ``sized(dtype, n)`` is a sample with dims of size ``n``, of which nothing is known when the
      graph is built; run for several n. None: ``unsized`` says why there is none.
    - ``exact``: results agree bit by bit, the signs of zeros included. Otherwise they may differ by
      ``ulps`` units in the last place and ``absolute`` such units of 1, and ``zeros`` says whether
      the signs of zeros agree.
    """

    op: Op
    call: Callable[..., Any]
    expect: Callable[..., Any]
    samples: Samples
    dtypes: tuple[DType, ...]
    grad: bool
    sized: Callable[[DType, int], Sample] | None = None
    unsized: str = ""
    failures: tuple[Failure, ...] = ()
    exact: bool = False
    ulps: float = 8
    absolute: float = 0
    zeros: bool = True

    def tolerance(self, dtype: DType) -> tuple[float, float]:
        """The relative and the absolute error that are allowed, as NumPy's tests take them."""
        if self.exact:
            return 0.0, 0.0
        limits = finfo(dtype)
        eps, tiny = float(limits.eps), float(limits.smallest_subnormal)
        return self.ulps * eps, self.absolute * eps + self.ulps * tiny


def accumulating(array: Array) -> Array:
    """A copy in the dtype in which elements are added up."""
    return array.astype(
        np.float32 if array.dtype.itemsize == 2 and array.dtype.kind in "fV" else array.dtype
    )


def finfo(dtype: DType) -> Any:
    """The limits of a floating dtype, also of bfloat16."""
    of: Any = ml_dtypes.finfo
    return of(dtype.numpy)


# -- values -------------------------------------------------------------------------------------


def values(
    shape: tuple[int, ...], dtype: DType, low: float = -3, high: float = 3, seed: int = 0
) -> Array:
    """Numbers between ``low`` and ``high``, always the same ones. Unsigned ones start at 0."""
    key = zlib.crc32(repr((shape, dtype.name, seed)).encode())
    rng = np.random.default_rng(key)
    if dtype is bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_floating:
        return np.asarray(rng.uniform(low, high, shape)).astype(dtype.numpy)
    low = max(low, 0) if dtype.kind == "u" else low
    first = int(np.ceil(low))
    return rng.integers(first, max(int(high), first) + 1, shape).astype(dtype.numpy)


_FLOAT_SPECIALS = (
    np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 88.0, -88.0,
)  # fmt: skip


def special(dtype: DType) -> Array:
    """Every awkward value of a dtype."""
    if dtype is bool_:
        return np.array([False, True])
    if dtype.is_floating:
        limits = finfo(dtype)
        ends = [float(v) for v in (limits.max, limits.min, limits.smallest_normal, limits.eps)]
        return np.array([*_FLOAT_SPECIALS, *ends], dtype.numpy)
    ints = np.iinfo(dtype.numpy)
    found = {0, 1, 2, 3, 7, ints.max, ints.max - 1, ints.min, ints.min + 1}
    if dtype.kind == "i":
        found |= {-1, -2, -3, -7}
    return np.array(sorted(found), dtype.numpy)


def layouts(make: Callable[[tuple[int, ...]], Array]) -> Iterator[Array]:
    """Arrays of all kinds of shape and memory order."""
    for shape in ((), (0,), (1,), (3,), (2, 3), (2, 0, 3)):
        yield make(shape)
    yield make((3, 2)).T
    yield make((2, 6))[:, ::2]
    yield make((4,))[::-1]
    yield make((2, 1, 3)).transpose(2, 1, 0)[::-1]
    yield np.broadcast_to(make((3, 1)), (3, 2))


# -- expectations -------------------------------------------------------------------------------


def wrap(value: int, dtype: DType) -> int:
    """An integer as ``dtype`` holds it: modulo 2**bits."""
    if dtype is bool_:
        return bool(value)
    value %= 1 << dtype.bits
    return value - (1 << dtype.bits) if dtype.kind == "i" and value >> (dtype.bits - 1) else value


def pointwise(
    fn: Callable[..., Any], result: DType | None = None, real: bool = False
) -> Callable[..., Array]:
    """The expectation of an elementwise op by a function of Python numbers, with NumPy's
    broadcasting. The result has the arrays' dtype; or ``result``; or, for ``real`` functions of
    integers, float32."""

    def expect(*args: Any, **kwargs: Any) -> Array:
        arrays = [a for a in args if isinstance(a, np.ndarray)]
        dtype = next(d for d in DTYPES if d.numpy == arrays[-1].dtype)
        if real and not dtype.is_floating:
            dtype = float32
        dtype = result or dtype
        if real:  # of what an integer is in float32
            args = tuple(np.asarray(a).astype(dtype.numpy) for a in args)
        plain = np.broadcast_arrays(*map(_python_numbers, args))
        out = np.empty(plain[0].shape, dtype.numpy)
        with np.errstate(all="ignore"):
            for at in np.ndindex(out.shape):
                value = fn(*(p[at] for p in plain), **kwargs)
                out[at] = value if dtype.is_floating else wrap(int(value), dtype)
        return out

    return expect


def _python_numbers(arg: Any) -> Any:
    """An array of Python numbers; floats as float64."""
    array = np.asarray(arg)
    if array.dtype.kind in "iub":
        return array.astype(object)
    wide = array.astype(np.float64)
    out = np.empty(wide.shape, object)
    for at in np.ndindex(wide.shape):
        out[at] = float(wide[at])
    return out
