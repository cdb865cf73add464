"""A stand-in that plays cupy over NumPy, with two GPUs, for machines without one.

Its arrays refuse what cupy's refuse: to become NumPy arrays silently, to meet them in arithmetic,
to meet arrays of the other device.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["fake_cupy", "on_gpu"]


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array "on a GPU"."""

    __array_priority__ = 100

    def __init__(self, values: np.ndarray[Any, Any], number: int) -> None:
        self.values, self.number = values, number

    @property
    def device(self) -> Any:
        return SimpleNamespace(id=self.number)

    @property
    def base(self) -> Any:
        return None if self.values.base is None else ndarray(self.values.base, self.number)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return _call(getattr(ufunc, method), inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return _call(function, args, options)

    @property
    def flags(self) -> Any:
        found = self.values.flags
        return SimpleNamespace(c_contiguous=found.c_contiguous, f_contiguous=found.f_contiguous)

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.values.__array_interface__["data"][0])

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("the stand-in has no memory of a GPU to share")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.number

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.values, name)
        if callable(found):
            return lambda *args, **options: _call(found, args, options, self.number)
        return _wrapped(found, self.number)

    def __getitem__(self, key: Any) -> Any:
        return _call(self.values.__getitem__, (key,), {}, self.number)

    def __setitem__(self, key: Any, value: Any) -> None:
        _call(self.values.__setitem__, (key, value), {}, self.number)

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return bool(self.values)

    def __int__(self) -> int:
        return int(self.values)

    def __float__(self) -> float:
        return float(self.values)

    def __index__(self) -> int:
        return operator.index(self.values)


def _wrapped(x: Any, number: int) -> Any:
    if isinstance(x, tuple):
        return tuple(_wrapped(v, number) for v in x)
    return ndarray(np.asarray(x), number) if isinstance(x, np.ndarray | np.generic) else x


def _call(fn: Any, args: Any, options: Any, number: int | None = None) -> Any:
    """``fn`` on the values; its result is where its arguments are."""
    places = set() if number is None else {number}

    def value(x: Any) -> Any:
        if isinstance(x, ndarray):
            places.add(x.number)
            return x.values
        if isinstance(x, np.ndarray):
            raise TypeError(f"Unsupported type {type(x)}")
        if isinstance(x, list | tuple):
            return type(x)(map(value, x))
        return x

    plain = [value(a) for a in args]
    named = {k: value(v) for k, v in options.items()}
    if len(places) > 1:
        raise ValueError(f"Array device must be same: {sorted(places)}")
    with np.errstate(all="ignore"):
        found = fn(*plain, **named)
    return _wrapped(found, places.pop() if places else fake_cupy.cuda.current)


def on_gpu(function: Any) -> Any:
    """A function of NumPy arrays as one of arrays "on a GPU"."""
    return lambda *args, **options: _call(function, args, options)


def _asarray(x: Any, dtype: Any = None) -> ndarray:
    if isinstance(x, ndarray):  # copied if it is on the other device
        here = x.number == fake_cupy.cuda.current
        x = x if here else ndarray(x.values.copy(), fake_cupy.cuda.current)
        return x if dtype is None else x.astype(dtype)
    return ndarray(np.array(x, dtype), fake_cupy.cuda.current)


def _diagonal(x: ndarray, *args: Any) -> ndarray:
    found = np.diagonal(x.values, *args)
    found.flags.writeable = True  # NumPy's view only reads
    return ndarray(found, x.number)


def _asnumpy(x: Any) -> np.ndarray[Any, Any]:
    return x.values.copy() if isinstance(x, ndarray) else np.asarray(x)


class _Device:
    def __init__(self, number: int | None = None) -> None:
        self.id = fake_cupy.cuda.current if number is None else number

    def __enter__(self) -> None:
        self.before, fake_cupy.cuda.current = fake_cupy.cuda.current, self.id

    def __exit__(self, *_: object) -> None:
        fake_cupy.cuda.current = self.before

    def synchronize(self) -> None:
        fake_cupy.synchronized.append(self.id)


@contextmanager
def _errstate(**_: Any) -> Iterator[None]:
    yield


class _Ufunc:
    """A function of cupy with the methods of one of NumPy's."""

    def __init__(self, ufunc: np.ufunc) -> None:
        self._ufunc = ufunc

    def __call__(self, *args: Any, **options: Any) -> Any:
        return _call(self._ufunc, args, options)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._ufunc, name)
        return lambda *args, **options: _call(found, args, options)


class _Module(ModuleType):
    ndarray = ndarray
    synchronized: list[int]

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, np.ufunc):
            return _Ufunc(found)
        if isinstance(found, type) or not callable(found):
            return found
        return on_gpu(found)


fake_cupy: Any = _Module("cupy")
fake_cupy.__version__ = "0"
fake_cupy.synchronized = []
fake_cupy.is_available = lambda: True
fake_cupy.asarray, fake_cupy.asnumpy, fake_cupy.errstate = _asarray, _asnumpy, _errstate
fake_cupy.diagonal = _diagonal
fake_cupy.lib = SimpleNamespace(
    stride_tricks=SimpleNamespace(as_strided=on_gpu(np.lib.stride_tricks.as_strided))
)
fake_cupy.cuda = SimpleNamespace(
    current=0,
    Device=_Device,
    runtime=SimpleNamespace(
        getDeviceCount=lambda: 2, getDeviceProperties=lambda n: {"name": b"Pretender %d" % n}
    ),
)
