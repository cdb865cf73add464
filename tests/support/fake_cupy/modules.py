"""The modules of the stand-in: the names of the table, each found when it is first asked for."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import scipy.special

from fake_cupy import functions as own
from fake_cupy.arrays import CURRENT, call, ndarray
from fake_cupy.table import NAMES, VERSION, signature
from fake_cupy.ufuncs import Ufunc

__all__ = ["fake_cupy", "install", "on_gpu"]

_LIKE: dict[str, Any] = {
    "cupy": np,
    "cupy.linalg": np.linalg,
    "cupy.lib.stride_tricks": np.lib.stride_tricks,
    "cupyx.scipy.special": scipy.special,
}
"""The modules whose functions compute on the values."""


_OF_ANYTHING = frozenset((
    "array_repr", "asanyarray", "asarray", "ascontiguousarray", "asnumpy", "ndim", "result_type",
    "shape", "size",
))  # fmt: skip
"""Functions whose first argument, ``a``, need be no array; those of others are methods of it."""


def on_gpu(function: Any) -> Any:
    """A function of NumPy arrays as one of arrays "on a GPU"."""
    return lambda *args, **options: call(function, args, options)


class Module(ModuleType):
    """A module of cupy."""

    synchronized: list[int]

    def __init__(self, path: str, **given: Any) -> None:
        super().__init__(path)
        self.__dict__.update(given)
        CURRENT.modules[path] = self

    def __getattr__(self, name: str) -> Any:
        path = self.__name__
        entry = NAMES[path].get(name)
        if entry is None:
            raise AttributeError(f"module '{path}' has no attribute '{name}'")
        like = _LIKE.get(path)
        theirs = getattr(like, name, None)
        if isinstance(entry, dict) and "ufunc" in entry:
            found: Any = Ufunc(name, entry, theirs)
        elif isinstance(entry, dict) and theirs is not None:
            found = _bound(path, name, on_gpu(theirs))
        elif theirs is not None:
            found = theirs
        else:
            raise NotImplementedError(f"the stand-in has no {path}.{name} yet")
        setattr(self, name, found)
        return found


def _bound(path: str, name: str, function: Any) -> Any:
    """A function that takes what cupy's takes."""
    takes = signature(path, name)
    first = next(iter(takes.parameters), "") if takes else ""
    of_array = first == "a" and name not in _OF_ANYTHING

    def bound(*args: Any, **named: Any) -> Any:
        if takes is not None:
            takes.bind(*args, **named)
        if of_array and args and not isinstance(args[0], ndarray):
            raise AttributeError(f"'{type(args[0]).__name__}' object is no array of cupy's: {name}")
        return function(*args, **named)

    bound.__name__ = name
    return bound


def _bound_all(path: str, given: dict[str, Any]) -> dict[str, Any]:
    return {name: _bound(path, name, function) for name, function in given.items()}


def _make() -> Any:
    runtime = Module(
        "cupy.cuda.runtime", **_bound_all("cupy.cuda.runtime", own.runtime_functions())
    )
    cuda = Module(
        "cupy.cuda",
        Device=own.Device,
        Event=own.Event,
        PinnedMemoryPointer=own.PinnedMemoryPointer,
        get_current_stream=lambda device_id=-1: own.Stream(),
        runtime=runtime,
        memory=SimpleNamespace(OutOfMemoryError=own.OutOfMemoryError),
    )
    tricks = Module("cupy.lib.stride_tricks")
    special = Module(
        "cupyx.scipy.special", **_bound_all("cupyx.scipy.special", {"polygamma": own.polygamma})
    )
    scipy_of = SimpleNamespace(special=special)
    Module(
        "cupyx", scipy=scipy_of, errstate=own.errstate,
        **_bound_all("cupyx", {"empty_pinned": own.empty_pinned}),
    )  # fmt: skip
    return Module(
        "cupy",
        __version__=VERSION,
        ndarray=ndarray,
        synchronized=[],
        get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 0),
        sorts=own.sorts,
        cuda=cuda,
        linalg=Module("cupy.linalg", **_bound_all("cupy.linalg", own.linalg())),
        lib=SimpleNamespace(stride_tricks=tricks),
        **_bound_all("cupy", own.functions()),
    )


fake_cupy: Any = _make()


def install(patch: Any) -> None:
    """Have ``import cupy`` and ``import cupyx`` find the stand-in while ``patch``, pytest's
    ``monkeypatch``, lasts."""
    cupyx = CURRENT.modules["cupyx"]
    patch.setitem(sys.modules, "cupy", fake_cupy)
    patch.setitem(sys.modules, "cupyx", cupyx)
    patch.setitem(sys.modules, "cupyx.scipy", cupyx.scipy)
    patch.setitem(sys.modules, "cupyx.scipy.special", cupyx.scipy.special)
