"""Matrix products by NVIDIA's cuBLAS, called by ctypes: its calls can be captured in a graph."""

from __future__ import annotations

import ctypes
import itertools
import sys
from typing import Any

import ml_dtypes
import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import DeviceError
from staticflow.runtime.device.interface import MatricesAt

__all__ = ["KINDS", "MOST", "TF32", "Cublas", "Kind", "divide_batch", "find_layout", "open_library"]

MOST = 2**31 - 1  # of a size, which is an int of C

_AS_IT_LIES, _TRANSPOSED = 0, 1  # CUBLAS_OP_N, CUBLAS_OP_T

_GEMM = "cublasGemmStridedBatchedEx"

_SUMS_OF_32_BITS, _SUMS_OF_64_BITS = 68, 70  # CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F
TF32 = 77  # CUBLAS_COMPUTE_32F_FAST_TF32
_ANY_ALGORITHM = -1  # CUBLAS_GEMM_DEFAULT

_NO_SUMS_OF_16_BITS = 16
"""The math mode: that of cuBLAS, which multiplies float32 without TF32 where a call does not ask
for it, and
CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, lest sums of parts of the inner dimension are
added up in the 16 bits of a result."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How cuBLAS calls a dtype of matrices (``cudaDataType``), what it adds up products in
    (``cublasComputeType_t``), the C type of the factors of a product, and how it calls that."""

    name: int
    sums: int
    factor: Any
    scale: int = 0  # CUDA_R_32F


KINDS: dict[np.dtype[Any], Kind] = {
    np.dtype(np.float32): Kind(0, _SUMS_OF_32_BITS, ctypes.c_float),
    np.dtype(np.float64): Kind(1, _SUMS_OF_64_BITS, ctypes.c_double, 1),
    np.dtype(np.float16): Kind(2, _SUMS_OF_32_BITS, ctypes.c_float),
    np.dtype(ml_dtypes.bfloat16): Kind(14, _SUMS_OF_32_BITS, ctypes.c_float),
}


def open_library(stem: str, version: int) -> Any:
    """The shared library of a ``stem``, such as "cublas", and a major version. Raises `DeviceError`
    where it is not found."""
    name = f"{stem}64_{version}.dll" if sys.platform == "win32" else f"lib{stem}.so.{version}"
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise DeviceError(f"{name}, for products of matrices, is not found: {error}") from None


class Cublas:
    """A handle of cuBLAS of a major version, for the current GPU and one thread at a time. Matrices
    of 16 bits are multiplied on tensor cores, and added up in 32 bits; those of float32 are only
    where TF32 is asked for. Raises `DeviceError` where the library is not found, and for what it
    answers with an error."""

    def __init__(self, version: int) -> None:
        self._library = open_library("cublas", version)
        pointer, size, far = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
        operand = [pointer, size, size, far]
        getattr(self._library, _GEMM).argtypes = [
            pointer, *[size] * 5, pointer, *operand, *operand, pointer, *operand, *[size] * 3,
        ]  # fmt: skip
        self._handle = ctypes.c_void_p()
        self._ask("cublasCreate_v2", ctypes.byref(self._handle))
        self._ask("cublasSetMathMode", self._handle, _NO_SUMS_OF_16_BITS)

    def begin(self, stream: int, workspace: int, bytes_: int) -> None:
        """What comes is done in a stream, and may write to a workspace. (A new stream takes the
        workspace away, so it is named behind it.)"""
        self._ask("cublasSetStream_v2", self._handle, ctypes.c_void_p(stream))
        self._ask(
            "cublasSetWorkspace_v2",
            self._handle,
            ctypes.c_void_p(workspace),
            ctypes.c_size_t(bytes_),
        )

    def multiply(
        self, target: MatricesAt, left: MatricesAt, right: MatricesAt, *, tf32: bool = False
    ) -> None:
        """Write the products of matrices to a ``target`` that lies in one row, with ``tf32`` those
        of float32 by tensor cores, which round elements to 10 bits behind the point.

        To cuBLAS, whose matrices lie by columns, each of ours is its own transpose: what it is
        asked for is ``target.T = right.T @ left.T``.
        """
        kind = KINDS[target.dtype]
        sums = TF32 if tf32 and target.dtype == np.float32 else kind.sums
        (m, n), k = target.shape[-2:], left.shape[-1]
        one, zero = kind.factor(1), kind.factor(0)
        (a, lda), (b, ldb) = find_layout(left), find_layout(right)
        if max(m, n, k, lda, ldb) > MOST:
            raise DeviceError(
                f"cuBLAS counts to {MOST}, and a product of [{m}, {k}] and [{k}, {n}] has more "
                "elements in a row"
            )
        outer, (count, *steps) = divide_batch(target, left, right)
        if 0 in (m, n, count):
            return
        for at, at_left, at_right in outer:
            self._ask(
                _GEMM, self._handle, b, a, n, m, k, ctypes.byref(one),
                at_right, kind.name, ldb, steps[2], at_left, kind.name, lda, steps[1],
                ctypes.byref(zero), at, kind.name, max(n, 1), steps[0], count,
                sums, _ANY_ALGORITHM,
            )  # fmt: skip

    def _ask(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            raise DeviceError(f"{function} answers with the status {status} of cuBLAS")


def find_layout(m: MatricesAt) -> tuple[int, int]:
    """How matrices lie by rows, if they do, or transposed, and the elements from one row or column
    to the next."""
    (rows, columns), size = m.shape[-2:], m.dtype.itemsize
    down, along = (s // size for s in m.strides[-2:])
    if (along == 1 or columns <= 1) and (rows <= 1 or down >= columns):
        return _AS_IT_LIES, max(columns, 1) if rows <= 1 else max(down, 1)
    if (down == 1 or rows <= 1) and (columns <= 1 or along >= rows):
        return _TRANSPOSED, max(rows, 1) if columns <= 1 else max(along, 1)
    raise DeviceError(
        f"matrices of [{rows}, {columns}] whose elements are {down} and {along} apart are none of "
        "BLAS"
    )


def divide_batch(
    *matrices: MatricesAt,
) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """The addresses of each batch of matrices that one call takes, and of how many, and how many
    elements apart. The last dim is a call's, and dims before that go on as it does."""
    shape = list(matrices[0].shape[:-2])
    strides = [list(m.strides[:-2]) for m in matrices]
    sizes = [m.dtype.itemsize for m in matrices]
    count, steps = shape.pop() if shape else 1, [s.pop() if s else 0 for s in strides]
    while shape and all(s[-1] == step * count for s, step in zip(strides, steps, strict=True)):
        count *= shape.pop()
        for s in strides:
            s.pop()
    outer = [
        tuple(
            m.address + sum(i * s for i, s in zip(index, own, strict=True))
            for m, own in zip(matrices, strides, strict=True)
        )
        for index in itertools.product(*map(range, shape))
    ]
    return outer, (count, *(step // size for step, size in zip(steps, sizes, strict=True)))
