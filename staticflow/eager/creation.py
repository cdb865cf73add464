"""Making eager tensors."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.eager.tensor import Tensor
from staticflow.errors import DTypeError
from staticflow.graph.dtypes import bfloat16, dtype_of, float16, float32, float64, int64

__all__ = [
    "Generator", "arange", "eye", "from_numpy", "full", "linspace", "manual_seed", "ones", "rand",
    "randn", "tensor", "zeros",
]  # fmt: skip


def tensor(data: Any, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of ``data``: numbers, nested lists, an array or another tensor.

    >>> tensor([1.0, 2.0])
    tensor([1., 2.])
    """
    return Tensor(data, dtype, requires_grad)


def from_numpy(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor on the memory of ``array``: a change of one is seen in the other."""
    if not isinstance(array, np.ndarray):
        raise DTypeError(f"from_numpy: takes a NumPy array, not {type(array).__name__}")
    dtype_of(array.dtype)
    return Tensor._wrap(np.asarray(array))


def _made(array: Any, requires_grad: bool) -> Tensor:
    out = Tensor._wrap(array)
    return out.requires_grad_() if requires_grad else out


def _shape(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes


def full(
    shape: Sequence[int], value: Any, *, dtype: Any = None, requires_grad: bool = False
) -> Tensor:
    """A tensor of ``shape`` filled with ``value``, in the dtype of the value."""
    wanted = dtype_of(dtype if dtype is not None else type(value)).numpy
    return _made(np.full(tuple(shape), value, wanted), requires_grad)


def zeros(*shape: Any, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """A tensor of zeros."""
    return _made(np.zeros(_shape(shape), dtype_of(dtype).numpy), requires_grad)


def ones(*shape: Any, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """A tensor of ones."""
    return _made(np.ones(_shape(shape), dtype_of(dtype).numpy), requires_grad)


def eye(n: int, m: int | None = None, *, dtype: Any = float32) -> Tensor:
    """The unit matrix of n rows and m (or n) columns."""
    return Tensor._wrap(np.eye(n, m, dtype=dtype_of(dtype).numpy))


def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Tensor:
    """The numbers from ``start`` (0 if one bound is given) to before ``end`` by ``step``; int64, or
    float32 where a bound is a float."""
    lo, hi = (0, start) if end is None else (start, end)
    ints = all(isinstance(v, int) for v in (lo, hi, step))
    wanted = dtype_of(dtype) if dtype is not None else (int64 if ints else float32)
    return Tensor._wrap(np.arange(lo, hi, step).astype(wanted.numpy))


def linspace(start: float, end: float, steps: int, *, dtype: Any = float32) -> Tensor:
    """``steps`` numbers evenly from ``start`` to ``end``, both included."""
    return Tensor._wrap(np.linspace(start, end, steps).astype(dtype_of(dtype).numpy))


class Generator:
    """A seeded source of random numbers. The k-th draw is a function of the seed and of k alone
    (Philox, Salmon et al. 2011), so a stream can be continued from its count."""

    def __init__(self, seed: int = 0) -> None:
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of ``seed`` anew."""
        self.seed, self.count = int(seed), 0
        return self

    def draw(self) -> np.random.Generator:
        """The source of the next draw."""
        bits = np.random.Philox(key=self.seed % 2**128, counter=self.count << 64)
        self.count += 1
        return np.random.Generator(bits)

    def __repr__(self) -> str:
        return f"Generator(seed={self.seed}, count={self.count})"


class _Default(threading.local):
    def __init__(self) -> None:
        self.generator = Generator(0)


_default = _Default()


def manual_seed(seed: int) -> Generator:
    """Seed this thread's default generator."""
    return _default.generator.manual_seed(seed)


def default_generator() -> Generator:
    """This thread's default generator."""
    return _default.generator


def randn(
    *shape: Any,
    dtype: Any = float32,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Numbers from the standard normal distribution."""
    draw = (generator or _default.generator).draw()
    array = np.asarray(draw.standard_normal(_shape(shape))).astype(dtype_of(dtype).numpy)
    return _made(array, requires_grad)


_SIGNIFICANT_BITS = {float16: 11, bfloat16: 8}


def rand(
    *shape: Any,
    dtype: Any = float32,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Numbers from the uniform distribution on [0, 1)."""
    draw = (generator or _default.generator).draw()
    wanted = dtype_of(dtype)
    wide = np.asarray(draw.random(_shape(shape), np.float64 if wanted is float64 else np.float32))
    bits = _SIGNIFICANT_BITS.get(wanted)
    if bits is not None:  # cut off, since rounding could give 1
        wide = np.floor(np.multiply(wide, np.float32(2**bits))) * np.float32(2**-bits)
    return _made(wide.astype(wanted.numpy), requires_grad)
