"""A stand-in for the library cuBLAS, which multiplies matrices that lie by columns on the host."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

__all__ = ["FakeCublas"]

_INVALID_VALUE = 7  # CUBLAS_STATUS_INVALID_VALUE


class FakeCublas:
    """The functions by their names. What is called is in ``calls``; products are ``computed`` only
    where their addresses are real."""

    def __init__(self, *, computes: bool) -> None:
        self.calls: list[Any] = []
        self.computes = computes
        self.cublasSgemmStridedBatched = _Gemm(self, "cublasSgemmStridedBatched", np.float32)
        self.cublasDgemmStridedBatched = _Gemm(self, "cublasDgemmStridedBatched", np.float64)

    @classmethod
    @contextmanager
    def put_in(
        cls, monkeypatch: pytest.MonkeyPatch, *, computes: bool = False
    ) -> Iterator[FakeCublas]:
        """The library that is found under the name of cuBLAS 13."""
        library = cls(computes=computes)

        def load(name: str) -> Any:
            if name != "libcublas.so.13":
                raise OSError(f"{name}: cannot open shared object file")
            return library

        with monkeypatch.context() as patch:
            patch.setattr("staticflow.runtime.device.cublas.ctypes.CDLL", load)
            patch.setattr("staticflow.runtime.device.cublas.sys.platform", "linux")
            yield library

    def cublasCreate_v2(self, handle: Any) -> int:
        self.calls.append(("cublasCreate_v2",))
        handle._obj.value = 11
        return 0

    def cublasSetStream_v2(self, handle: Any, stream: Any) -> int:
        self.calls.append(("cublasSetStream_v2", stream.value))
        return 0

    def cublasSetWorkspace_v2(self, handle: Any, workspace: Any, size: Any) -> int:
        self.calls.append(("cublasSetWorkspace_v2", workspace.value, size.value))
        return 0


class _Gemm:
    """``C = alpha op(A) op(B) + beta C`` of matrices that lie by columns, as cuBLAS documents it."""

    def __init__(self, library: FakeCublas, name: str, dtype: Any) -> None:
        self.library, self.name, self.dtype = library, name, np.dtype(dtype)
        self.argtypes: Any = None

    def __call__(
        self, handle: Any, opa: int, opb: int, m: int, n: int, k: int, alpha: Any,
        a: int, lda: int, stride_a: int, b: int, ldb: int, stride_b: int, beta: Any,
        c: int, ldc: int, stride_c: int, count: int,
    ) -> int:  # fmt: skip
        assert handle.value == 11 and len(self.argtypes) == 18
        self.library.calls.append((self.name, a, b, c))
        if lda < max(1, k if opa else m) or ldb < max(1, n if opb else k) or ldc < max(1, m):
            return _INVALID_VALUE
        if not self.library.computes:
            return 0
        scale, keep = alpha._obj.value, beta._obj.value
        assert (scale, keep) == (1.0, 0.0)
        for i in range(count):
            left = self._matrix(a, i * stride_a, (k, m) if opa else (m, k), lda)
            right = self._matrix(b, i * stride_b, (n, k) if opb else (k, n), ldb)
            out = self._matrix(c, i * stride_c, (m, n), ldc)
            out[...] = (left.T if opa else left) @ (right.T if opb else right)
        return 0

    def _matrix(self, address: int, start: int, shape: tuple[int, int], ld: int) -> Any:
        size = self.dtype.itemsize
        rows, columns = shape
        if 0 in shape:
            return np.empty(shape, self.dtype)
        reach = size * (ld * (columns - 1) + rows)
        memory = (ctypes.c_char * reach).from_address(address + size * start)
        return np.ndarray(shape, self.dtype, memory, strides=(size, size * ld))
