"""How many threads NumPy's BLAS library runs on, where that is the OpenBLAS of NumPy's wheels.

Eager code has NumPy compute small and narrow products, and factors of matrices. OpenBLAS has
threads of its own, which wait by looking for work: beside another process that computes, a product
of 128 x 128 matrices takes up to five times as long on two threads as on one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from numpy.linalg import _umath_linalg

from staticflow.data_classes import dataclass
from staticflow.runtime.once import once

__all__ = ["blas_threads", "limit_blas_threads"]

_NAMES = [
    prefix + "openblas_{}_num_threads" + suffix
    for prefix in ("scipy_", "")
    for suffix in ("64_", "_64", "")
]
"""What OpenBLAS calls its functions, by how it was built: those of wheels have a prefix, those
whose integers have 64 bits a suffix."""


@dataclass(frozen=True, slots=True)
class _OpenBLAS:
    """The functions of the library, and how many threads it had when they were first looked for."""

    get: Callable[[], int]
    set: Callable[[int], None]
    most: int


def blas_threads() -> int | None:
    """How many threads NumPy's OpenBLAS may run on; None where NumPy has another library."""
    library = _openblas()
    return None if library is None else library.get()


def limit_blas_threads(n: int) -> None:
    """Let NumPy's OpenBLAS run on ``n`` threads, but on no more than it had when the first limit
    was set, by the processors or by ``OPENBLAS_NUM_THREADS``. Another library is left as it is."""
    library = _openblas()
    if library is not None:
        library.set(min(n, library.most))


@once
def _openblas() -> _OpenBLAS | None:
    """The OpenBLAS that NumPy is linked to; None if it is linked to none."""
    try:
        library = ctypes.CDLL(_umath_linalg.__file__)  # finds what that is linked to, too
    except (AttributeError, OSError):  # NumPy is part of the interpreter
        return None
    for name in _NAMES:
        try:
            get, set_threads = (getattr(library, name.format(verb)) for verb in ("get", "set"))
        except AttributeError:
            continue
        get.argtypes, get.restype = (), ctypes.c_int
        set_threads.argtypes, set_threads.restype = (ctypes.c_int,), None
        return _OpenBLAS(get, set_threads, get())
    return None
