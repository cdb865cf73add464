"""How many threads native code runs on, and the one pool of the process.

The pool is compiled when the first program that could use it is, and its workers are made when a
kernel is first large enough. A fork ends the workers before, so that the child is no copy of a
process with threads; parent and child make new ones when they need them.
"""

from __future__ import annotations

import atexit
import ctypes
import math
import os
import sys
from pathlib import Path

from staticflow.config import config
from staticflow.errors import ThreadsError
from staticflow.graph.locs import format_locs, here
from staticflow.graph.numbers import unwrap_integer
from staticflow.native.layout import Layout
from staticflow.runtime.blas import limit_blas_threads
from staticflow.runtime.host import host
from staticflow.runtime.native import NativeModule, compile_native, native_text
from staticflow.runtime.once import once
from staticflow.runtime.pool import EXPORTS, POOL

__all__ = [
    "MOST_WORKERS", "get_num_threads", "most_workers", "pool_jobs", "pool_symbols",
    "set_num_threads", "wanted_address",
]  # fmt: skip


def get_num_threads() -> int:
    """How many threads a compiled kernel may run on, the caller's among them.

    To begin with, as many as the process may use processors: those of its affinity, no more than
    its container's share, or what ``STATICFLOW_NUM_THREADS`` says.
    """
    return _wanted.value


def set_num_threads(n: int) -> None:
    """Let compiled kernels run on ``n`` threads. Small ones run on one whatever ``n`` is. LLVM
    compiles long programs on as many, and NumPy, which computes some of what eager code does, has
    as many for products and factors of matrices, if its library for these is OpenBLAS, as in its
    wheels; but no more than it had when staticflow was imported.

    What kernels compute does not depend on it. What is compiled has memory for the threads of
    products, attention, convolutions and the sorting of long rows to work in: for as many as there
    are processors, or ``n`` if that is more, and 16 at most. Where ``n`` grows beyond that
    afterwards, these kernels keep to the threads that they have memory for; compile again to use
    more. Raises `ThreadsError` unless ``n`` is a positive int.

    >>> import staticflow as sf
    >>> n = sf.get_num_threads()
    >>> sf.set_num_threads(1)
    >>> sf.get_num_threads()
    1
    >>> sf.set_num_threads(n)
    """
    n = unwrap_integer(n)
    if type(n) is not int:
        fault = f"an int, but got {type(n).__name__}"
    elif n < 1:
        fault = f"a positive integer, but got {n}"
    else:
        _wanted.value = n
        limit_blas_threads(n)
        return
    raise ThreadsError(f"set_num_threads expects {fault}, at {format_locs(here())}")


def usable_processors() -> int:
    """The processors that this process may run on, or as many as its container has time of."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(count or 1, container_processors() or sys.maxsize)


def container_processors(groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """The processors' time that a container may take, rounded up, or None if that is not limited:
    the files ``cpu.max`` of control groups, version 2, and ``cpu.cfs_*`` of version 1."""
    for parts in (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        try:
            quota, period = " ".join((groups / part).read_text() for part in parts).split()
        except OSError:
            continue
        return None if quota in ("max", "-1") else math.ceil(int(quota) / int(period))
    return None


_processors = usable_processors()
_wanted = ctypes.c_int64(config.num_threads or _processors)
limit_blas_threads(_wanted.value)


MOST_WORKERS = 16
"""The threads that have memory of their own to work in, in one kernel, at most."""


def most_workers() -> int:
    """How many threads programs that are compiled now have memory for to work in: as many as there
    are processors, or as `set_num_threads` wants if that is more, and `MOST_WORKERS` at most. The
    kernels that work in such memory run on no more, whatever is wanted later; their text names the
    number, and code that is kept on disk is found by its text."""
    return min(max(_processors, _wanted.value), MOST_WORKERS)


def wanted_address() -> int:
    """Where native code reads what `get_num_threads` gives, an i64."""
    return ctypes.addressof(_wanted)


def pool_symbols() -> dict[str, int]:
    """The addresses of `pool.parallel`, of the number of threads, and of what says whether the user
    wants to stop, for programs that declare them."""
    stopping = host().address("stopping")
    return {
        "parallel": _pool().address("parallel"), "wanted": wanted_address(), "stopping": stopping
    }  # fmt: skip


def pool_jobs() -> int:
    """How many kernels, or loops of kernels, have run on several threads so far."""
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(_pool().address("jobs"))())


@once
def _pool() -> NativeModule:
    text = native_text(POOL, Layout())
    symbols = {"wanted": wanted_address(), "stopping": host().address("stopping")}
    module = compile_native(text, EXPORTS, symbols, quick=True)
    addresses = module.address("stop"), module.address("resume")
    stop, resume = map(ctypes.CFUNCTYPE(None), addresses)

    def leave() -> None:
        """Whatever still runs as the interpreter ends runs alone.

        These calls keep the interpreter's lock. In CPython 3.11 an interpreter beside the first is
        ended while the first one ends: a thread that let the lock go there, to take it again, would
        end at once, and the process, whose main thread it is, would wait for its other threads for
        ever. Whoever runs on the pool needs no lock to come to an end.
        """
        stop, resume = map(ctypes.PYFUNCTYPE(None), addresses)
        stop()
        _wanted.value = 1
        resume()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=stop, after_in_parent=resume, after_in_child=resume)
    atexit.register(leave)
    return module
