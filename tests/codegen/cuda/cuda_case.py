"""A kernel with data, run by interpreter and emulator, and data that shows differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from emulator import DeviceArray, Dim3, Module

from staticflow.codegen.builder import Builder
from staticflow.codegen.cuda.render import code_of, entry_name, launch_count, launch_geometry
from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.kernel import Buffer, Kernel
from staticflow.graph.dims import Sym
from staticflow.graph.dtypes import DType, bfloat16, bool_, float16, float32, float64

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Geometry: TypeAlias = tuple[Dim3, Dim3]

N, M = Sym("n"), Sym("m")


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel, what is in its buffers before it runs, and its sizes.

    ``unsigned_zeros`` names the buffers in which 0.0 and -0.0 count as equal.
    """

    name: str
    kernel: Kernel
    arrays: Mapping[str, Array]
    sizes: Mapping[Sym, int] = field(default_factory=dict)
    unsigned_zeros: frozenset[str] = frozenset()


def interpreted(case: Case) -> tuple[int, dict[str, Array]]:
    """The code and the buffers that the interpreter gives, outputs poisoned as on a device."""
    arrays = {
        b.name: poisoned(case.arrays[b.name]) if b.access == "out" else case.arrays[b.name].copy()
        for b in case.kernel.buffers
    }
    return interpret_kernel(case.kernel, arrays, case.sizes), arrays


def poisoned(array: Array) -> Array:
    """An array alike with 0xff in every byte; True for a bool, whose other bytes mean nothing."""
    return np.full(array.nbytes, 1 if array.dtype == bool else 0xFF, np.uint8).view(array.dtype)


def assert_same(case: Case, actual: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """Every buffer is the same to the bit, with two exceptions that the Kernel IR leaves open:
    which NaN a NaN is, and which zero `max` and `min` of two zeros give."""
    for buffer in case.kernel.buffers:
        a, b = actual[buffer.name], expected[buffer.name]
        wrong = _bits(a) != _bits(b)
        if buffer.dtype.is_floating:
            wrong &= ~(np.isnan(a) & np.isnan(b))
        if buffer.name in case.unsigned_zeros:
            wrong &= ~((a == 0) & (b == 0))
        where = np.flatnonzero(wrong)
        assert not len(where), (
            f"{case.name}: {buffer.name}[{where[0]}] and {len(where) - 1} more differ: "
            f"{a[where[0]]!r} for {b[where[0]]!r}"
        )


def _bits(array: Array) -> Array:
    return array.view(f"u{array.dtype.itemsize}")


# -- running ---------------------------------------------------------------------------------------


def emulated(
    module: Module,
    case: Case,
    order: str = "forward",
    geometry: Geometry | None = None,
    seed: int = 0,
) -> tuple[int, dict[str, Array]]:
    """The code and the buffers after all launches, emulated."""
    arrays = {
        b.name: DeviceArray(
            case.arrays[b.name], poisoned=b.access == "out", writable=b.access != "in"
        )
        for b in case.kernel.buffers
    }
    sizes = [np.int64(case.sizes[size]) for size in case.kernel.sizes]
    status = DeviceArray(np.zeros(1, np.int32))
    arguments: list[DeviceArray | np.generic] = [*arrays.values(), *sizes, status]
    for launch in range(launch_count(case.kernel)):
        grid, block = geometry or launch_geometry(case.kernel, case.sizes, launch)
        module.launch(entry_name(case.kernel, launch), grid, block, arguments, order, seed)
    return code_of(int(status.values[0])), {name: array.values for name, array in arrays.items()}


def builder_of(
    inputs: Mapping[str, DType], outputs: Mapping[str, DType], sizes: Sequence[Sym] = (N,)
) -> Builder:
    buffers = [Buffer(name, dtype, "in") for name, dtype in inputs.items()]
    buffers += [Buffer(name, dtype, "out") for name, dtype in outputs.items()]
    return Builder(buffers, list(sizes))


# -- data ------------------------------------------------------------------------------------------

_FLOATS = (0.0, 0.5, 1.0, 1.5, 2.5, 3.7, 100.3, np.inf)


def specials(dtype: DType) -> Array:
    """The values at which operations of ``dtype`` are most likely to differ."""
    if dtype is bool_:
        return np.array([False, True])
    if not dtype.is_floating:
        low, high = limits_of(dtype)
        near = (low, low + 1, low // 2, -1, 0, 1, 2, 3, 7, high // 2 + 1, high - 1, high)
        return np.array(sorted({v for v in near if low <= v <= high}), dtype.numpy)
    limits = _float_limits(dtype)
    positive = np.concatenate([np.array(_FLOATS), limits]).astype(dtype.numpy)
    return np.concatenate([positive, -positive, np.array([np.nan], dtype.numpy)])


def limits_of(dtype: DType) -> tuple[int, int]:
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def _float_limits(dtype: DType) -> Array:
    """The smallest and a larger subnormal, the smallest normal, one and a bit, the largest."""
    word = np.dtype(f"u{dtype.itemsize}")
    mantissa = {float16: 10, bfloat16: 7, float32: 23, float64: 52}[dtype]
    exponent = dtype.bits - 1 - mantissa
    bits = [
        1,
        (1 << mantissa) - 3,
        1 << mantissa,
        (((1 << (exponent - 1)) - 1) << mantissa) + 1,
        (((1 << exponent) - 1) << mantissa) - 1,
    ]
    return np.array(bits, word).view(dtype.numpy).astype(np.float64)


def sample(dtype: DType, count: int, seed: int = 0) -> Array:
    """Ordinary values: normal floats, small integers, bools."""
    rng = np.random.default_rng(seed)
    if dtype.is_floating:
        return rng.normal(size=count).astype(dtype.numpy)
    low, high = (0, 2) if dtype is bool_ else (0, 100) if dtype.kind == "u" else (-100, 100)
    return rng.integers(low, high, count).astype(dtype.numpy)
