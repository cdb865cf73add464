"""What cupy means by a name where NumPy means something else, and the devices of the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from fake_cupy.arrays import CURRENT, LATER, call, catch_up, ndarray, unwrap, wrap

__all__ = [
    "RUNTIME",
    "Device",
    "OutOfMemoryError",
    "errstate",
    "functions",
    "linalg",
    "polygamma",
    "runtime_functions",
    "sorts",
]


class OutOfMemoryError(MemoryError):
    """What cupy raises where the device has no more memory."""

    def __init__(self, size: int, total: int, limit: int = 0) -> None:
        super().__init__(
            f"Out of memory allocating {size:,} bytes (allocated so far: {total:,} bytes)."
        )


# -- devices --------------------------------------------------------------------------------------

RUNTIME = SimpleNamespace(count=2, driver=13000, runtime=13000, memory=(6 << 30, 8 << 30))
"""What the driver says: the GPUs, the versions, the free and the whole memory in bytes."""


class Device:
    """A GPU; inside ``with`` the one that arrays are made on."""

    def __init__(self, device: int | None = None) -> None:
        self.id = CURRENT.device if device is None else int(device)

    def __int__(self) -> int:
        return self.id

    def __enter__(self) -> Device:
        self._before, CURRENT.device = CURRENT.device, self.id
        return self

    def __exit__(self, *_: object) -> None:
        CURRENT.device = self._before

    def synchronize(self) -> None:
        catch_up()
        CURRENT.modules["cupy"].synchronized.append(self.id)

    @property
    def mem_info(self) -> tuple[int, int]:
        free, total = RUNTIME.memory
        return free, total


class PinnedMemoryPointer(bytearray):
    """Pinned memory."""


def empty_pinned(shape: Any, dtype: Any = float, order: str = "C") -> Any:
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.ndarray(shape, dtype, PinnedMemoryPointer(b"\xff" * max(count, 1)), order=order)


class Stream:
    """The one stream that there is for copies."""

    def synchronize(self) -> None:
        catch_up()


class Event:
    """What is done once all is that was asked for before it was recorded."""

    def __init__(
        self, block: bool = False, disable_timing: bool = False, interprocess: bool = False
    ) -> None:
        self.done = False

    def record(self, stream: Any = None) -> None:
        LATER.append(lambda: setattr(self, "done", True))

    def synchronize(self) -> None:
        catch_up()


def runtime_functions() -> dict[str, Any]:
    """What is asked of the driver."""
    return {
        "getDeviceCount": lambda: RUNTIME.count,
        "getDevice": lambda: CURRENT.device,
        "getDeviceProperties": lambda device: {
            "name": b"Pretender %d" % device, "major": 9, "minor": 0,
            "totalGlobalMem": RUNTIME.memory[1],
        },
        "memGetInfo": lambda: RUNTIME.memory,
        "driverGetVersion": lambda: RUNTIME.driver,
        "runtimeGetVersion": lambda: RUNTIME.runtime,
    }  # fmt: skip


# -- functions ------------------------------------------------------------------------------------


def _asarray(
    a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False
) -> ndarray:
    here = CURRENT.device
    if isinstance(a, ndarray):  # copied if it is on the other device
        there = a if a.number == here and not copy else ndarray(a.values.copy(), here)
        return there if dtype is None or there.dtype == dtype else there.astype(dtype)
    interface = getattr(a, "__cuda_array_interface__", None)
    if interface is not None:
        held = SimpleNamespace(__array_interface__={**interface, "version": 3}, owner=a)
        found = np.asarray(held)
        return ndarray(found if dtype is None else found.astype(dtype), here)
    (plain,), _ = unwrap([a], {here}, hosted=True)
    found = np.array(plain, dtype)
    if found.dtype.kind in "OSUM":
        raise ValueError(f"Unsupported dtype {found.dtype}")
    return ndarray(found, here)


def _array(
    obj: Any, dtype: Any = None, copy: Any = True, order: str = "K", subok: bool = False,
    ndmin: int = 0, *, blocking: bool = False,
) -> ndarray:  # fmt: skip
    found = _asarray(obj, dtype)
    found = found.copy() if copy and found is obj else found
    return (
        found if found.ndim >= ndmin else found.reshape((1,) * (ndmin - found.ndim) + found.shape)
    )


def _asnumpy(
    a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True
) -> Any:
    if isinstance(a, ndarray):
        return a.get(stream, order, out)
    return np.asarray(a)


def _diagonal(a: ndarray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> ndarray:
    found = np.diagonal(a.values, offset, axis1, axis2)
    found.flags.writeable = True  # NumPy's view only reads
    return ndarray(found, a.number)


def sorts(a: ndarray, zero_d: bool = False) -> None:
    """Refuse what Thrust cannot sort."""
    if a.dtype.kind == "V" or a.dtype.name == "bfloat16":
        raise RuntimeError(f"Unsupported dtype {a.dtype}")
    if not a.ndim and not zero_d:
        raise np.exceptions.AxisError("Sorting arrays with the rank of zero is not supported")


def _sort(a: ndarray, axis: int | None = -1, kind: str | None = None) -> ndarray:
    found = a.flatten() if axis is None else a.copy()
    found.sort(-1 if axis is None else axis, kind)
    return found


def _argsort(a: ndarray, axis: int | None = -1, kind: str | None = None) -> ndarray:
    if kind not in (None, "stable"):
        raise ValueError("kind can only be None or 'stable'")
    sorts(a, zero_d=True)
    return wrap(np.argsort(np.atleast_1d(a.values), axis, kind="stable"), a.number)


def _partition(a: ndarray, kth: Any, axis: int = -1) -> ndarray:
    found = a.copy()
    found.partition(kth, axis)
    return found


def _nonzero(a: ndarray) -> Any:
    if not a.ndim:
        raise ValueError("Calling nonzero on 0d arrays is not allowed.")
    return call(np.nonzero, (a,), {})


def _take(a: ndarray, indices: Any, axis: int | None = None, out: Any = None) -> ndarray:
    (x, i), places = unwrap([a, indices], set(), hosted=True)
    return wrap(np.take(x, i, axis, mode="wrap"), places.pop())


def _take_along_axis(a: ndarray, indices: ndarray, axis: int | None) -> ndarray:
    x = a.reshape(-1) if axis is None else a
    at = (axis or 0) % x.ndim
    if x.ndim != indices.ndim:
        raise ValueError("`indices` and `a` must have the same number of dimensions")
    key = [
        indices
        if i == at
        else ndarray(np.arange(n).reshape([-1] + [1] * (x.ndim - i - 1)), a.number)
        for i, n in enumerate(x.shape)
    ]
    return x[tuple(key)]


def _searchsorted(a: ndarray, v: Any, side: str = "left", sorter: Any = None) -> ndarray:
    if not isinstance(a, ndarray) or not isinstance(v, ndarray | int | float):
        raise NotImplementedError("Only int or ndarray are supported")
    if a.ndim != 1:
        raise ValueError("object too deep for desired array")
    return call(np.searchsorted, (a, v), {"side": side})


def _matmul(x1: ndarray, x2: ndarray, out: Any = None, **named: Any) -> ndarray:
    if not isinstance(x1, ndarray) or not isinstance(x2, ndarray):
        raise TypeError(f"Unsupported type {type(x1)} or {type(x2)}")
    dtype = np.result_type(x1.dtype, x2.dtype)
    if dtype.kind == "V":  # bfloat16: of two matrices by cuBLAS, of batches by no kernel
        if max(x1.ndim, x2.ndim) > 2:
            raise TypeError(f"no kernel multiplies batches of matrices of {dtype}")
        return call(np.matmul, (x1.astype("f4"), x2.astype("f4")), named).astype(dtype)
    return call(np.matmul, (x1, x2), {"out": out, **named} if out is not None else named)


def _broadcast_to(array: ndarray, shape: Any) -> ndarray:
    found = np.broadcast_to(array.values, shape)
    strided = np.lib.stride_tricks.as_strided  # what NumPy gives is read-only
    return ndarray(strided(array.values, found.shape, found.strides), array.number)


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return _nonzero(condition)
    return call(np.where, (condition.astype("?", copy=False), x, y), {})


def _may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    return bool(np.may_share_memory(a.values, b.values))


def _copyto(dst: ndarray, src: Any, casting: str = "same_kind", where: Any = None) -> None:
    if isinstance(src, np.ndarray):
        raise TypeError(f"Unsupported type {type(src)}")
    named = {} if where is None else {"where": where}
    call(np.copyto, (dst, src), {"casting": casting, **named})


def _from_dlpack(array: Any, *, device: Any = None, copy: Any = None) -> ndarray:
    kind, number = array.__dlpack_device__()
    if kind != 2:
        raise BufferError("unsupported device requested.")
    capsule = array.__dlpack__(stream=1, max_version=(1, 0), copy=copy)
    held = SimpleNamespace(__dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0))
    return ndarray(np.from_dlpack(held), number)


def functions() -> dict[str, Any]:
    """What of the module ``cupy`` is other than NumPy's."""
    return {
        "array": _array, "asarray": _asarray, "asanyarray": _asarray, "asnumpy": _asnumpy,
        "argsort": _argsort, "broadcast_to": _broadcast_to, "copyto": _copyto, "diagonal": _diagonal, "from_dlpack": _from_dlpack,
        "is_available": lambda: RUNTIME.count > 0, "matmul": _matmul, "may_share_memory": _may_share_memory,
        "nonzero": _nonzero, "partition": _partition, "searchsorted": _searchsorted, "sort": _sort,
        "take": _take, "take_along_axis": _take_along_axis, "where": _where,
    }  # fmt: skip


def polygamma(n: ndarray, x: ndarray) -> ndarray:
    """That of ``cupyx.scipy.special``, which is made of other functions."""
    special = CURRENT.modules["cupyx.scipy.special"]
    product = (-1.0) ** (n + 1) * special.gamma(n + 1.0) * special.zeta(n + 1.0, x)
    return _where(n == 0, special.digamma(x), product)


# -- linalg ---------------------------------------------------------------------------------------


@contextmanager
def errstate(**named: Any) -> Iterator[None]:
    """``cupyx.errstate``, which knows one setting."""
    if {k for k, v in named.items() if v is not None} - {"linalg"}:
        raise NotImplementedError
    before, CURRENT.linalg = CURRENT.linalg, named.get("linalg") or CURRENT.linalg
    try:
        yield
    finally:
        CURRENT.linalg = before


def _solver(name: str) -> Any:
    """A function of ``cupy.linalg``, which says nothing of a matrix that it cannot do, unless
    ``cupyx.errstate`` wants it, and gives any numbers."""

    def solve(*args: Any, **named: Any) -> Any:
        arrays = [a for a in args if isinstance(a, ndarray)]
        if any(a.dtype == np.float16 for a in arrays):
            raise TypeError("float16 is unsupported in linalg")
        if name == "solve":
            a, b = arrays
            if b.ndim > 1 and a.shape[:-1] != b.shape[:-1]:
                raise ValueError("a must have (..., M, M) shape and b must have (..., M, K)")
        try:
            return call(getattr(np.linalg, name), args, named)
        except np.linalg.LinAlgError:
            if CURRENT.linalg == "raise":
                raise
            return wrap(np.full_like(arrays[-1].values, 7), arrays[-1].number)

    return solve


def linalg() -> dict[str, Any]:
    """What of ``cupy.linalg`` is other than NumPy's."""
    return {
        n: _solver(n)
        for n in ("cholesky", "eigh", "eigvalsh", "inv", "qr", "slogdet", "solve", "svd")
    }
