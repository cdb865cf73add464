"""The ufuncs of the stand-in: cupy's loops, found as cupy finds them, and the methods that it has."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from fake_cupy.arrays import CURRENT, inside, ndarray, unwrap, wrap

__all__ = ["Ufunc"]

_SCALARS = (int, float, bool, complex, np.generic)
_ATOMIC = {
    "cupy_add": ("i4", "i8", "u4", "u8", "f2", "f4", "f8"),
    "cupy_subtract": ("i4", "u4"),
    "cupy_maximum": ("i4", "i8", "u4", "u8", "f4", "f8"),
    "cupy_minimum": ("i4", "i8", "u4", "u8", "f4", "f8"),
    "cupy_bitwise_and": ("i4", "i8", "u4", "u8"),
    "cupy_bitwise_or": ("i4", "i8", "u4", "u8"),
    "cupy_bitwise_xor": ("i4", "i8", "u4", "u8"),
}
"""The dtypes of which ``ufunc.at`` adds up in memory that all threads write."""

_PASSES_NAN = {"cupy_maximum": np.fmax, "cupy_minimum": np.fmin}
"""What ``ufunc.at`` computes with instead."""


def _dtype(char: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if char == "E" else char)


class Ufunc:
    """A ufunc of cupy, which computes by a function of NumPy or SciPy."""

    def __init__(self, name: str, entry: dict[str, Any], function: Any) -> None:
        self.__name__, self.name, self.types = name, entry["ufunc"], entry["types"]
        self._function, self._methods = function, entry["methods"]
        self._loops = [tuple([*map(_dtype, side)] for side in t.split("->")) for t in self.types]
        self.nin, self.nout = (len(side) for side in self._loops[0])

    def __call__(
        self,
        *args: Any,
        out: Any = None,
        dtype: Any = None,
        casting: str = "same_kind",
        **named: Any,
    ) -> Any:
        if named:
            raise TypeError(f"Wrong arguments {named}")
        given, outs = args[: self.nin], args[self.nin :]
        if out is not None:
            outs = out if isinstance(out, tuple) else (out,)
        for a in args:
            if not isinstance(a, (ndarray, *_SCALARS)) and a is not None:
                raise TypeError(f"Unsupported type {type(a)}")
        plain, places = unwrap([*given, *[o for o in outs if o is not None]], set())
        plain = plain[: self.nin]
        ins, results = self._loop(plain, None if dtype is None else np.dtype(dtype))
        cast = [np.asarray(a).astype(t) for a, t in zip(plain, ins, strict=True)]
        for a, t in zip(plain, ins, strict=True):
            if type(a) is int and t.kind in "iu":
                np.array(a, t)  # OverflowError for one that the dtype cannot hold
        with np.errstate(all="ignore"):
            found = self._function(*cast)
        found = found if isinstance(found, tuple) else (found,)
        number = places.pop() if places else CURRENT.device
        done = []
        for i, (x, t) in enumerate(zip(found, results, strict=True)):
            values = np.asarray(x).astype(t)
            target = outs[i] if i < len(outs) else None
            if target is None:
                done.append(wrap(values, number))
            elif not np.can_cast(t, target.dtype, casting):
                raise TypeError(f"output (typecode '{t.char}') could not be coerced to {target}")
            else:
                target.values[...] = values.astype(target.dtype)
                done.append(target)
        return done[0] if self.nout == 1 else tuple(done)

    def _loop(self, args: Any, dtype: Any) -> Any:
        """The first loop that takes operands of these dtypes, or gives ``dtype``."""
        if dtype is not None:
            for loop in self._loops:
                if all(t == dtype for t in loop[1]):
                    return loop
            raise TypeError(f"Wrong type ({dtype}) of arguments for {self.name}")
        weak = [type(a) if type(a) in (bool, int, float, complex) else None for a in args]
        types = [
            np.dtype(w) if w else a.dtype if hasattr(a, "dtype") else np.asarray(a).dtype
            for a, w in zip(args, weak, strict=True)
        ]
        score = {bool: 0, int: 1, float: 2, complex: 2}
        kinds = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 3, "c": 2}
        arrays = [kinds[t.kind] for t, w in zip(types, weak, strict=True) if not w]
        scalars = [score[w] for w in weak if w]
        usable = bool(arrays and scalars) and max(arrays) >= max(scalars)
        for loop in self._loops:
            for t, o, w in zip(types, loop[0], weak, strict=True):
                if np.can_cast(t, o):
                    continue
                if not (w and usable):
                    break
                try:
                    if np.result_type(w(0), o) != o:
                        break
                except TypeError:
                    break
            else:
                return loop
        raise TypeError(f"Wrong type ({types}) of arguments for {self.name}")

    def _refuse(self, method: str) -> None:
        if method not in self._methods:
            raise NotImplementedError(f"`{self.name}.{method}` is not supported yet")

    def at(self, a: ndarray, indices: Any, b: Any = None) -> None:
        self._refuse("at")
        if a.dtype not in map(np.dtype, _ATOMIC[self.name]):
            raise TypeError(
                f"{self.name.replace('_', '.', 1)}.at only supports {_ATOMIC[self.name]}"
            )
        places = {a.number}
        (key, value), _ = unwrap([inside(a, indices), b], places)
        with np.errstate(all="ignore"):
            value = value.astype(a.dtype) if isinstance(value, np.ndarray) else value
            _PASSES_NAN.get(self.name, self._function).at(a.values, key, value)

    def reduce(
        self,
        array: ndarray,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
    ) -> Any:
        self._refuse("reduce")
        return (array.sum if self.name == "cupy_add" else array.prod)(axis, dtype, out, keepdims)

    def accumulate(self, array: ndarray, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
        self._refuse("accumulate")
        return (array.cumsum if self.name == "cupy_add" else array.cumprod)(axis, dtype, out)
