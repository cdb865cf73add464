"""A stand-in for the library cuBLAS, which multiplies matrices that lie by columns on the host."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulated_device import as_tf32

__all__ = ["DTYPES", "INVALID_VALUE", "FakeCublas", "matrix_at"]

INVALID_VALUE = 7  # CUBLAS_STATUSINVALID_VALUE


class FakeCublas:
    """The functions by their names. What is called is in ``calls``; products are ``computed`` only
    where their addresses are real."""

    def __init__(self, *, computes: bool) -> None:
        self.calls: list[Any] = []
        self.computes = computes
        self.cublasGemmStridedBatchedEx = _Gemm(self)
        self.math_mode = 0  # CUBLAS_DEFAULT_MATH
        self.other: Any = None

    @classmethod
    @contextmanager
    def put_in(
        cls, monkeypatch: pytest.MonkeyPatch, *, computes: bool = False
    ) -> Iterator[FakeCublas]:
        """The library that is found under the name of cuBLAS 13, and
        beside it its ``other``, cuBLASLt 13."""
        from fake_cublaslt import FakeCublasLt

        library = cls(computes=computes)
        library.other = FakeCublasLt()
        found = {"libcublas.so.13": library, "libcublasLt.so.13": library.other}

        def load(name: str) -> Any:
            if name not in found:
                raise OSError(f"{name}: cannot open shared object file")
            return found[name]

        with monkeypatch.context() as patch:
            patch.setattr("staticflow.runtime.device.cublas.ctypes.CDLL", load)
            patch.setattr("staticflow.runtime.device.cublas.sys.platform", "linux")
            yield library

    def cublasCreate_v2(self, handle: Any) -> int:
        self.calls.append(("cublasCreate_v2",))
        handle._obj.value = 11
        return 0

    def cublasSetMathMode(self, handle: Any, mode: int) -> int:
        self.math_mode = mode
        return 0

    def cublasSetStream_v2(self, handle: Any, stream: Any) -> int:
        self.calls.append(("cublasSetStream_v2", stream.value))
        return 0

    def cublasSetWorkspace_v2(self, handle: Any, workspace: Any, size: Any) -> int:
        self.calls.append(("cublasSetWorkspace_v2", workspace.value, size.value))
        return 0


DTYPES = {
    0: (np.float32, 68, ctypes.c_float),
    1: (np.float64, 70, ctypes.c_double),
    2: (np.float16, 68, ctypes.c_float),
    14: (ml_dtypes.bfloat16, 68, ctypes.c_float),
}
"""What CUDA_R_32F, CUDA_R_64F, CUDA_R_16F and CUDA_R_16BF stand for, the type that cuBLAS documents
for sums of such (CUBLAS_COMPUTE_32F or CUBLAS_COMPUTE_64F), and for the factors."""


class _Gemm:
    """``C = alpha op(A) op(B) + beta C`` of matrices that lie by columns, as cuBLAS documents it:
    added up in 32 bits at least, and rounded once if the mode forbids sums in fewer."""

    def __init__(self, library: FakeCublas) -> None:
        self.library = library
        self.argtypes: Any = None

    def __call__(
        self, handle: Any, opa: int, opb: int, m: int, n: int, k: int, alpha: Any,
        a: int, type_a: int, lda: int, stride_a: int,
        b: int, type_b: int, ldb: int, stride_b: int, beta: Any,
        c: int, type_c: int, ldc: int, stride_c: int, count: int, sums: int, algorithm: int,
    ) -> int:  # fmt: skip
        assert handle.value == 11 and len(self.argtypes) == 23
        assert type_a == type_b == type_c and algorithm == -1
        assert self.library.math_mode == 16  # CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
        dtype, wanted, factor = DTYPES[type_a]
        assert sums == wanted or (
            sums == 77 and dtype is np.float32
        )  # CUBLAS_COMPUTE_32F_FAST_TF32
        assert type(alpha._obj) is type(beta._obj) is factor
        self.library.calls.append((np.dtype(dtype).name, a, b, c))
        if lda < max(1, k if opa else m) or ldb < max(1, n if opb else k) or ldc < max(1, m):
            return INVALID_VALUE
        if not self.library.computes:
            return 0
        assert (alpha._obj.value, beta._obj.value) == (1.0, 0.0)
        wide = np.promote_types(np.float32, dtype)
        for i in range(count):
            left = matrix_at(np.dtype(dtype), a, i * stride_a, (k, m) if opa else (m, k), lda)
            right = matrix_at(np.dtype(dtype), b, i * stride_b, (n, k) if opb else (k, n), ldb)
            left, right = (x.astype(wide) for x in (left, right))
            if sums == 77:
                left, right = (as_tf32(np.ascontiguousarray(x)) for x in (left, right))
            out = matrix_at(np.dtype(dtype), c, i * stride_c, (m, n), ldc)
            out[...] = (left.T if opa else left) @ (right.T if opb else right)
        return 0


def matrix_at(dtype: Any, address: int, start: int, shape: tuple[int, int], ld: int) -> Any:
    size = dtype.itemsize
    rows, columns = shape
    if 0 in shape:
        return np.empty(shape, dtype)
    reach = size * (ld * (columns - 1) + rows)
    memory = (ctypes.c_char * reach).from_address(address + size * start)
    return np.ndarray(shape, dtype, memory, strides=(size, size * ld))
