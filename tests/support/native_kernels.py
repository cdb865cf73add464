"""Kernels run as native code, for the tests of the LLVM renderer."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from staticflow.codegen.builder import Builder
from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.kernel import LANE, Buffer, Kernel
from staticflow.codegen.llvm.render import render_module
from staticflow.codegen.target import Target
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dims import Dim, Sym
from staticflow.graph.dtypes import DType, bool_
from staticflow.runtime.machine import host_target
from staticflow.runtime.native import compile_native
from staticflow.runtime.threads import pool_symbols

N, M = Dim.of(Sym("n")), Dim.of(Sym("m"))
by_lanes = pytest.mark.parametrize("lanes", [1, 16])


def entry_text(kernel: Kernel) -> str:
    """An exported function that calls the kernel."""
    parameters = [f"ptr %b{i}" for i in range(len(kernel.buffers))]
    parameters += [f"i64 %s{i}" for i in range(len(kernel.sizes))]
    given = ", ".join(parameters)
    return (
        f"define i32 @call_{kernel.name}({given}) {{\n"
        f"  %code = call i32 @{kernel.name}({given})\n  ret i32 %code\n}}\n"
    )


def run(
    kernel: Kernel,
    arrays: Mapping[str, np.ndarray],
    *,
    target: Target | None = None,
    **sizes: int,
) -> int:
    """Compile the kernel, for this machine or a ``target``, and call it; gives its code."""
    text = render_module([kernel], target or host_target()) + entry_text(kernel)
    module = compile_native(text, [f"call_{kernel.name}"], pool_symbols())
    types = [ctypes.c_void_p] * len(kernel.buffers) + [ctypes.c_int64] * len(kernel.sizes)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(module.address(f"call_{kernel.name}"))
    pointers = [arrays[b.name].ctypes.data for b in kernel.buffers]
    return function(*pointers, *(sizes[s.name] for s in kernel.sizes))


def run_both(kernel: Kernel, arrays: Mapping[str, np.ndarray], **sizes: int) -> int:
    """`run`, and the interpreter of Kernel IR must come to the same."""
    verify_kernel(kernel)
    copies = {name: array.flatten() for name, array in arrays.items()}
    expected = interpret_kernel(kernel, copies, {s: sizes[s.name] for s in kernel.sizes})
    code = run(kernel, arrays, **sizes)
    assert code == expected
    if code == 0:
        for name, array in arrays.items():
            assert_same(array.ravel(), copies[name])
    return code


def assert_same(got: np.ndarray, expected: np.ndarray, signed_zero: bool = True) -> None:
    """Equal in every element, NaN to NaN and zeros by sign."""
    assert got.dtype == expected.dtype
    if got.dtype.kind not in "biu":
        got, expected = got.astype(np.float64), expected.astype(np.float64)
        if signed_zero:
            np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(expected[got == 0]))
    np.testing.assert_array_equal(got, expected)


def ranged(numpy: np.dtype[Any], values: list[float]) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.array(values).astype(numpy)


def samples(dtype: DType) -> np.ndarray:
    """Zeros, units, extremes, and for floats infinities, NaN, subnormals and ties."""
    if dtype is bool_:
        return np.array([False, True])
    if not dtype.is_floating:
        info = np.iinfo(dtype.numpy)
        return np.array(
            [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1, info.max // 3]
            + ([-1, -2, -7] if info.min < 0 else []),
            dtype.numpy,
        )
    info = ml_dtypes.finfo(dtype.numpy)
    finite = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 3.0, 0.1, -7.3, 1000.0]
    edges = [info.max, info.smallest_subnormal, info.tiny, 1 + float(info.eps)]
    return ranged(dtype.numpy, [*finite, *map(float, edges), math.inf, -math.inf, math.nan])


def padded(array: np.ndarray, lanes: int) -> np.ndarray:
    return np.concatenate([array, np.ones(-len(array) % lanes, array.dtype)])


def elementwise(
    make: Callable[..., Any],
    inputs: list[np.ndarray],
    dtypes: list[DType],
    out: DType,
    lanes: int,
    target: Target | None = None,
) -> np.ndarray:
    """The kernel that stores ``make(k, *loads)``, run on flat inputs of one length."""
    names = [f"x{i}" for i in range(len(inputs))]
    buffers = [Buffer(name, dtype, "in") for name, dtype in zip(names, dtypes, strict=True)]
    k = Builder([*buffers, Buffer("y", out, "out")], [Sym("n")])
    with k.loop("i", N, step=lanes) as i:
        at = i + LANE if lanes > 1 else i
        k.store("y", at, make(k, *(k.load(name, at, lanes) for name in names)))
    arrays = {name: padded(x, lanes) for name, x in zip(names, inputs, strict=True)}
    n = len(arrays["x0"])
    arrays["y"] = np.zeros(n, out.numpy)
    assert run(k.kernel("elementwise"), arrays, target=target, n=n) == 0
    return arrays["y"][: len(inputs[0])]
