"""The array of the stand-in, and how functions of NumPy are called on the values of such arrays.

As cupy's it refuses to become an array of NumPy silently, to meet one in arithmetic, and to meet an
array of the other device. Indices outside of a dim wrap around, and of values that are put in one
place the first stays, where NumPy takes the last and cupy any.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from fake_cupy.table import NAMES, signature

__all__ = [
    "CURRENT",
    "LATER",
    "Function",
    "call",
    "catch_up",
    "inside",
    "ndarray",
    "unwrap",
    "wrap",
]

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


class _Current(threading.local):
    """The device that arrays are made on, each thread's own, and the modules of the stand-in by
    their names."""

    device = 0
    linalg = "ignore"
    stream: Any = None
    modules: ClassVar[dict[str, Any]] = {}


CURRENT = _Current()

LATER: list[Any] = []
"""What copies are to do once somebody waits for them."""


def catch_up() -> None:
    """Do what copies are to do."""
    while LATER:
        LATER.pop(0)()


_METHODS = NAMES["cupy.ndarray"]
_OVER_VALUES = frozenset((
    "T", "mT", "dtype", "imag", "itemsize", "nbytes", "ndim", "real", "shape", "size", "strides",
))  # fmt: skip
_AS_NUMPY = frozenset((
    "all", "any", "argmax", "argmin", "astype", "clip", "compress", "copy", "cumprod", "cumsum",
    "dot", "flatten", "item", "max", "mean", "min", "prod", "put", "ravel", "repeat", "reshape",
    "round", "squeeze", "std", "sum", "swapaxes", "tobytes", "tolist", "trace", "transpose", "var",
))  # fmt: skip
"""Methods that give what NumPy's give."""
_AS_FUNCTIONS = frozenset((
    "argpartition", "argsort", "choose", "diagonal", "nonzero", "searchsorted", "take",
))  # fmt: skip
"""Methods that are functions of the module."""


class ndarray(np.lib.mixins.NDArrayOperatorsMixin):
    """An array "on a GPU"."""

    __array_priority__ = 100

    def __init__(self, values: Array, number: int) -> None:
        self.values, self.number = values, number

    # -- what there is of it ----------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS or name.startswith("__"):
            raise AttributeError(f"'cupy.ndarray' object has no attribute '{name}'")
        if name in _OVER_VALUES:
            return wrap(getattr(self.values, name), self.number)
        bound = signature("cupy.ndarray", name)
        if name in _AS_FUNCTIONS:
            method = getattr(CURRENT.modules["cupy"], name)
            return _checked(lambda *args, **named: method(self, *args, **named), bound)
        if name in _AS_NUMPY:
            return _checked(
                lambda *args, **named: call(getattr(self.values, name), args, named, self.number),
                bound,
            )
        raise NotImplementedError(f"the stand-in for cupy.ndarray has no {name} yet")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("values", "number"):
            object.__setattr__(self, name, value)
        elif name in ("shape", "strides"):
            setattr(self.values, name, value)
        else:
            raise AttributeError(f"attribute '{name}' of 'cupy.ndarray' objects is not writable")

    @property
    def device(self) -> Any:
        return SimpleNamespace(id=self.number)

    @property
    def base(self) -> Any:
        return None if self.values.base is None else ndarray(self.values.base, self.number)

    @property
    def flags(self) -> Any:
        found = self.values.flags
        return SimpleNamespace(
            c_contiguous=found.c_contiguous, f_contiguous=found.f_contiguous, owndata=found.owndata
        )

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.values.__array_interface__["data"][0], device=self.device)

    @property
    def flat(self) -> Any:
        return iter(self.reshape(-1))

    # -- to the CPU, and to other libraries ---------------------------------------------------------

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct "
            "a NumPy array explicitly."
        )

    def get(
        self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True
    ) -> Array:
        if out is None:
            return self.values.copy(order="C" if order == "A" else order)
        if out.dtype != self.values.dtype or out.shape != self.values.shape:
            raise ValueError("Shape mismatch")
        if not blocking:
            values, at = self.values.copy(), np.asarray(out)
            at.reshape(-1).view(np.uint8)[...] = 0xFF  # until it is there
            LATER.append(lambda: np.copyto(at, values))
            return out
        out[...] = self.values
        return out

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        own = self.values.__array_interface__
        return {
            "shape": self.shape, "typestr": own["typestr"], "descr": own["descr"], "version": 3,
            "strides": None if self.values.flags.c_contiguous else self.strides,
            "data": (own["data"][0], False), "stream": 1,
        }  # fmt: skip

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None,
        copy: Any = None,
    ) -> Any:  # fmt: skip
        if stream is None:  # as NumPy asks, which finds a device that it does not know
            raise RuntimeError("Unsupported device in DLTensor.")
        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("unsupported device requested.")
        if copy is True:
            raise BufferError("copy=True only supported for copy to CPU.")
        return self.values.__dlpack__(max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.number

    # -- operators --------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.get("out")
        if out is not None:
            if len(out) != 1:
                raise ValueError("The 'out' parameter must have exactly one array value")
            options["out"] = out[0]
        for module in ("cupy", "cupyx.scipy.special"):
            if ufunc.__name__ in NAMES[module]:
                function = getattr(CURRENT.modules[module], ufunc.__name__)
                break
        else:
            return NotImplemented
        return (function if method == "__call__" else getattr(function, method))(*inputs, **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        module = "cupy" + function.__module__.removeprefix("numpy")
        if function.__name__ not in NAMES.get(module, ()):
            return NotImplemented
        return getattr(CURRENT.modules[module], function.__name__)(*args, **options)

    # -- elements ---------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        return call(self.values.__getitem__, (inside(self, key),), {}, self.number)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        (key, value), _ = unwrap([inside(self, key), value], {self.number})
        fancy = [
            k for k in (key if isinstance(key, tuple) else (key,)) if isinstance(k, np.ndarray)
        ]
        with np.errstate(all="ignore"):
            if any(k.dtype.kind in "iu" for k in fancy):
                number = np.arange(self.values.size).reshape(self.values.shape)[key]
                given = np.broadcast_to(value, number.shape).reshape(-1)[::-1]
                at = np.unravel_index(number.reshape(-1)[::-1], self.values.shape)
                self.values[at] = given
            else:
                self.values[key] = value

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return len(self.values)

    def __bool__(self) -> bool:
        return bool(self.values)

    def __int__(self) -> int:
        return int(self.values)

    def __float__(self) -> float:
        return float(self.values)

    def __repr__(self) -> str:
        return repr(self.values)

    __copy__ = __deepcopy__ = lambda self, *_: self.copy()

    def __reduce__(self) -> Any:
        return CURRENT.modules["cupy"].array, (self.values,)

    # -- methods that are others than NumPy's -------------------------------------------------------

    def view(self, dtype: Any = None, type: Any = None) -> ndarray:
        return ndarray(
            self.values.view() if dtype is None else self.values.view(dtype), self.number
        )

    def fill(self, value: Any) -> None:
        (plain,), _ = unwrap([value], {self.number})
        if np.shape(plain):
            raise ValueError("non-scalar cupy.ndarray cannot be used for fill")
        self.values.fill(plain)

    def set(self, arr: Array, stream: Any = None) -> None:
        catch_up()  # which comes before it in the stream
        self.values[...] = arr

    def sort(self, axis: int = -1, kind: str | None = None) -> None:
        CURRENT.modules["cupy"].sorts(self)
        if kind not in (None, "stable"):
            raise ValueError("kind can only be None or 'stable'")
        if not self.values.flags.c_contiguous:
            raise NotImplementedError("Sorting non-contiguous array is not supported.")
        self.values.sort(axis=axis, kind="stable")

    def partition(self, kth: Any, axis: int = -1) -> None:
        CURRENT.modules["cupy"].sorts(self)
        self.values.partition(kth, axis=axis)


def _checked(function: Function, bound: Any) -> Function:
    def checked(*args: Any, **named: Any) -> Any:
        if bound is not None:
            bound.bind(*args, **named)
        return function(*args, **named)

    return checked


def inside(x: ndarray, key: Any) -> Any:
    """A key of ``x`` whose indices are all inside."""
    parts = list(key) if isinstance(key, tuple) else [key]
    for i, k in enumerate(parts):
        if isinstance(k, list | tuple | np.ndarray) and not isinstance(k, ndarray):
            found = np.asarray([] if k is None else k)
            parts[i] = ndarray(found.astype(np.int32) if not found.size else found, x.number)
    used = sum(_dims(k) for k in parts if k is not None and k is not Ellipsis)
    at = 0
    for i, k in enumerate(parts):
        if k is Ellipsis:
            at += x.ndim - used
            continue
        if isinstance(k, ndarray) and k.dtype.kind in "iu" and at < x.ndim and x.shape[at]:
            parts[i] = ndarray(k.values % x.shape[at], k.number)
        at += 0 if k is None else _dims(k)
    return tuple(parts)


def _dims(k: Any) -> int:
    """How many dims a part of a key takes."""
    if isinstance(k, ndarray) and k.dtype.kind == "b":
        return int(k.ndim)
    return 0 if isinstance(k, bool | np.bool_) else 1


# -- calls ----------------------------------------------------------------------------------------


def wrap(x: Any, number: int) -> Any:
    """What a function of NumPy gave, as cupy gives it: also no dims are an array."""
    if isinstance(x, list) or (type(x) is tuple and any(isinstance(v, np.ndarray) for v in x)):
        return type(x)(wrap(v, number) for v in x)
    if isinstance(x, tuple) and not all(isinstance(v, int) for v in x):
        return tuple(wrap(v, number) for v in x)
    return ndarray(np.asarray(x), number) if isinstance(x, np.ndarray | np.generic) else x


def unwrap(given: Any, places: set[int], hosted: bool = False) -> tuple[Any, set[int]]:
    """The values of arguments, and where they are. Arrays of NumPy are refused unless ``hosted``."""

    def value(x: Any) -> Any:
        if isinstance(x, ndarray):
            places.add(x.number)
            return x.values
        if isinstance(x, np.ndarray) and not hosted:
            raise TypeError(f"Unsupported type {type(x)}")
        if isinstance(x, list | tuple):
            return type(x)(map(value, x))
        return x

    plain = (
        {k: value(v) for k, v in given.items()}
        if isinstance(given, dict)
        else list(map(value, given))
    )
    if len(places) > 1:
        raise ValueError(f"Array device must be same as the current device: {sorted(places)}")
    return plain, places


def call(fn: Function, args: Any, options: Any, number: int | None = None) -> Any:
    """``fn`` on the values; its result is where its arguments are."""
    places = set() if number is None else {number}
    plain, _ = unwrap(args, places)
    named, _ = unwrap(options, places)
    with np.errstate(all="ignore"):
        found = fn(*plain, **named)
    return wrap(found, places.pop() if places else CURRENT.device)
