"""How fast this machine computes and moves data, measured by two kernels of the package's own.

*Operations* are fused multiply-adds of float32 on full vectors, two operations for each lane, in
chains that do not depend on each other; nothing is loaded. *Bytes* are those of ``x[i] = x[i] + 1``
in place: four read and four written for each element. An array that fits into a cache moves
faster than one that lies in memory, so bytes are measured for several sizes of array.

The best of a few short runs counts, about a third of a second in all. A rate is measured once for
each processor and number of threads, and kept in the folder of the machine code.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from staticflow.codegen.builder import Builder
from staticflow.codegen.kernel import LANE, Buffer, Kernel, Operand
from staticflow.codegen.llvm.render import render_module
from staticflow.data_classes import dataclass
from staticflow.graph.dims import Dim, Sym
from staticflow.graph.dtypes import float32
from staticflow.runtime.code_cache import code_cache
from staticflow.runtime.machine import describe_host, host_target
from staticflow.runtime.native import compile_native
from staticflow.runtime.threads import get_num_threads, pool_symbols, set_num_threads

__all__ = ["FOOTPRINTS", "Rates", "machine_rates", "processor_name"]

FOOTPRINTS = tuple(1 << power for power in (18, 20, 22, 24, 27))
"""The bytes of the arrays whose elements are moved: on the processors of today from what a core's
own cache holds to what only memory does."""

_CHAINS = 16
"""Chains of multiply-adds: more than a core has in flight, and fewer than it has registers."""
_TASKS = 64
"""The parts that the threads share."""
_STRIP = 1 << 12
"""Elements of a part of the array; it is in whole vectors."""
_ROUNDS = 1 << 14
_RUNS = 6
_AT_LEAST = 0.002
"""Seconds that a run must take, so that waking threads up is a small part of it."""

_LANES = host_target().vector_bits // 32


@dataclass(frozen=True, slots=True)
class Rates:
    """What ``threads`` threads of this machine reached. ``bandwidth`` has pairs of the bytes of an
    array and the bytes a second that were read and written in it, the smallest array first."""

    threads: int
    flops_per_second: float
    bandwidth: tuple[tuple[int, float], ...]


def machine_rates(threads: int | None = None, *, anew: bool = False) -> Rates:
    """The rates of so many threads, by default as many as kernels run on now.

    They are measured when they are first asked for, in less than a second, and kept on disk for
    later processes where machine code is (``STATICFLOW_CACHE_DIR``). What a busy machine reached
    is too little for ever: ``anew`` measures once more, and keeps nothing.
    """
    count = get_num_threads() if threads is None else threads
    return _measure(count) if anew else _rates(count)


@functools.cache
def _rates(threads: int) -> Rates:
    import json

    def find() -> bytes:
        rates = _measure(threads)
        return json.dumps([rates.flops_per_second, rates.bandwidth]).encode()

    cache = code_cache()
    text = _text()
    parts = ("rates", processor_name(), str(threads), str(FOOTPRINTS), text)
    flops, bandwidth = json.loads(find() if cache is None else cache.fetch(find, *parts))
    return Rates(threads, flops, tuple((size, rate) for size, rate in bandwidth))


def _measure(threads: int) -> Rates:
    before = get_num_threads()
    set_num_threads(threads)
    try:
        return Rates(threads, _flops_per_second(), tuple(_bandwidth()))
    finally:
        set_num_threads(before)


def _flops_per_second() -> float:
    out = np.zeros(_TASKS * _LANES, np.float32)
    compute = _function("multiply_add", out)
    operations = 2 * _LANES * _CHAINS * _TASKS * _ROUNDS
    return operations / _least_seconds(lambda: compute(_TASKS, _ROUNDS))


def _bandwidth() -> list[tuple[int, float]]:
    memory = np.zeros(FOOTPRINTS[-1] // 4, np.float32)
    memory.fill(0)  # pages are had when they are first written
    move = _function("stream", memory)
    return [
        (size, 2 * size / _least_seconds(lambda size=size: move(size // 4)))  # type: ignore[misc]
        for size in FOOTPRINTS
    ]


def _least_seconds(run: Callable[[], object]) -> float:
    """The least time of a run among a few, each repeated until it is long enough to be timed."""
    count, taken = 1, 0.0
    while True:
        began = time.perf_counter()
        for _ in range(count):
            run()
        taken = time.perf_counter() - began
        if taken >= _AT_LEAST:
            break
        count *= 2
    least = taken / count
    for _ in range(_RUNS - 1):
        began = time.perf_counter()
        for _ in range(count):
            run()
        least = min(least, (time.perf_counter() - began) / count)
    return least


# -- the kernels ----------------------------------------------------------------------------------


def _multiply_add() -> Kernel:
    """Chains that all come to 2: each is halved and has 1 added."""
    tasks, rounds = Sym("tasks", 0), Sym("rounds", 0)
    k = Builder([Buffer("out", float32, "out")], [tasks, rounds])
    with k.loop("task", Dim.of(tasks), kind="parallel") as task:
        half, one = (k.splat(k.const(v, float32), _LANES) for v in (0.5, 1.0))
        chains = [k.var(k.splat(k.const(i, float32), _LANES)) for i in range(_CHAINS)]
        with k.loop("round", Dim.of(rounds)):
            for chain in chains:
                k.set(chain, k.fma(chain, half, one))
        total: Operand = chains[0]
        for chain in chains[1:]:
            total = k.add(total, chain)
        k.store("out", task * _LANES + LANE, total)
    return k.kernel("multiply_add")


def _stream() -> Kernel:
    """1 added to every element of a whole number of strips."""
    count = Sym("count", 0)
    k = Builder([Buffer("x", float32, "inout")], [count])
    one = k.splat(k.const(1.0, float32), _LANES)
    with (
        k.loop("strip", Dim.of(count), step=_STRIP, kind="parallel") as strip,
        k.loop("i", _STRIP, step=_LANES) as i,
    ):
        at = strip + i + LANE
        k.store("x", at, k.add(k.load("x", at, _LANES), one))
    return k.kernel("stream")


_KERNELS = (_multiply_add, _stream)


@functools.cache
def _text() -> str:
    """The kernels as LLVM text, each with an exported function that calls it."""
    kernels = [make() for make in _KERNELS]
    return render_module(kernels, host_target()) + "\n".join(map(_entry, kernels))


def _entry(kernel: Kernel) -> str:
    sizes = ", ".join(f"i64 %s{i}" for i in range(len(kernel.sizes)))
    return (
        f"define i32 @measure_{kernel.name}(ptr %array, {sizes}) {{\n"
        f"  %code = call i32 @{kernel.name}(ptr %array, {sizes})\n  ret i32 %code\n}}\n"
    )


@functools.cache
def _module() -> Any:
    exports = [f"measure_{kernel.__name__.lstrip('_')}" for kernel in _KERNELS]
    return compile_native(_text(), exports, pool_symbols())


def _function(name: str, array: Any) -> Callable[..., int]:
    """The kernel of that name on ``array``; it takes the sizes."""
    sizes = 2 if name == "multiply_add" else 1
    types = [ctypes.c_void_p, *[ctypes.c_int64] * sizes]
    call = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(_module().address(f"measure_{name}"))
    return functools.partial(call, array.ctypes.data)


@functools.cache
def processor_name() -> str:
    """What the processor calls itself, and else the name of its kind that LLVM has."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line for line in file if line.startswith("model name")]
    except OSError:
        lines = []
    kind = describe_host().cpu
    return f"{lines[0].partition(':')[2].strip()} ({kind})" if lines else kind
