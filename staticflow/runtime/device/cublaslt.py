"""Matrix products with a bias and an activation by NVIDIA's cuBLASLt, called by ctypes.

For each kind of product the library is asked once for an algorithm, which needs no GPU, and so may
be in a capture. It has none for some kinds; nothing is multiplied then.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, NoReturn

import numpy as np

from staticflow.errors import DeviceError
from staticflow.runtime.device.cublas import (
    KINDS,
    MOST,
    TF32,
    Kind,
    divide_batch,
    find_layout,
    open_library,
)
from staticflow.runtime.device.interface import EpilogueAt, MatricesAt

__all__ = ["CublasLt"]

_NOT_SUPPORTED = 15  # CUBLAS_STATUS_NOT_SUPPORTED

_EPILOGUES = {"": 1, "relu": 2, "gelu": 32}  # CUBLASLT_EPILOGUE_DEFAULT, _RELU, _GELU
_BIAS = 4  # CUBLASLT_EPILOGUE_BIAS, a bit beside those of activations

# cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t and
# cublasLtMatmulPreferenceAttributes_t
_TRANSA, _TRANSB, _EPILOGUE, _BIAS_POINTER = 3, 4, 7, 8
_BATCH_COUNT, _BATCH_STEP = 5, 6
_WORKSPACE, _REDUCTIONS, _ALIGNMENT = 1, 3, 5  # the last of A; those of B, C and D follow

_IN_SUMS = 2
"""CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE: parts of the inner dimension are added up in the 32 bits
of sums, not in the 16 of a result."""

_WELL_ALIGNED = 256
"""Bytes at multiples of which an algorithm asks memory to lie at most."""


class _Algorithm(ctypes.Structure):
    """``cublasLtMatmulHeuristicResult_t``: an algorithm, and what is told of it."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class CublasLt:
    """A handle of cuBLASLt of a major version, for the current GPU. Raises `DeviceError` where the
    library is not found, and for what it answers with an error."""

    def __init__(self, version: int) -> None:
        self._library = open_library("cublasLt", version)
        self._handle = ctypes.c_void_p()
        self._ask("cublasLtCreate", ctypes.byref(self._handle))
        self._algorithms: dict[Any, _Algorithm | None] = {}

    def multiply(
        self,
        matrices: tuple[MatricesAt, MatricesAt, MatricesAt],
        epilogue: EpilogueAt,
        stream: int,
        workspace: tuple[int, int],
        *,
        tf32: bool,
    ) -> bool:
        """Write the products of the second and the third of some ``matrices`` to the first, which
        lies in one row, and do an epilogue; false if the library does not. It is all done in a
        stream, with a workspace at an address, of so many bytes.

        As in `Cublas.multiply` the library is asked for the transpose of each product: to it a bias
        is a column, as it wants it.
        """
        target, left, right = matrices
        (m, n), k = target.shape[-2:], left.shape[-1]
        (a, lda), (b, ldb) = find_layout(left), find_layout(right)
        outer, (count, *steps) = divide_batch(target, left, right)
        if max(m, n, k, lda, ldb) > MOST:
            return False
        if 0 in (m, n, count):
            return True
        kind = KINDS[target.dtype]
        wanted = _EPILOGUES[epilogue.activation] & (~1 if epilogue.bias else ~0)
        asked = (
            kind, tf32 and target.dtype == np.float32,
            a, b, wanted | (_BIAS if epilogue.bias else 0),
            (((k, n) if b else (n, k), ldb, steps[2]), ((m, k) if a else (k, m), lda, steps[1]),
             ((n, m), n, steps[0])),
            count, workspace[1],
        )  # fmt: skip
        with ExitStack() as stack:
            described = self._describe(stack, *asked[:7], epilogue.bias)
            one, zero = kind.factor(1), kind.factor(0)
            for at, at_left, at_right in outer:
                places = (at_right, at_left, at)
                found = self._algorithm(asked, described, (*places, at, epilogue.bias))
                if found is None:
                    return False
                x, y, out = zip(map(ctypes.c_void_p, places), described[1:], strict=False)
                self._ask(
                    "cublasLtMatmul", self._handle, described[0], ctypes.byref(one), *x, *y,
                    ctypes.byref(zero), *out, *out, ctypes.byref(found.algorithm),
                    ctypes.c_void_p(workspace[0]), ctypes.c_size_t(workspace[1]),
                    ctypes.c_void_p(stream),
                )  # fmt: skip
        return True

    def _describe(
        self, stack: ExitStack, kind: Kind, tf32: bool, a: int, b: int, epilogue: int,
        layouts: Sequence[tuple[tuple[int, int], int, int]], count: int, bias: int,
    ) -> list[Any]:  # fmt: skip
        """The descriptions of a product and of its matrices, which lie by columns: of each its rows
        and columns, the elements from one column to the next, and from one of ``count`` matrices to
        the next."""
        sums = TF32 if tf32 else kind.sums
        product = self._make(stack, "MatmulDesc", sums, kind.scale)
        self._set("MatmulDesc", product, _TRANSA, ctypes.c_int32(b))
        self._set("MatmulDesc", product, _TRANSB, ctypes.c_int32(a))
        self._set("MatmulDesc", product, _EPILOGUE, ctypes.c_uint32(epilogue))
        if bias:
            self._set("MatmulDesc", product, _BIAS_POINTER, ctypes.c_void_p(bias))
        described = [product]
        for shape, apart, step in layouts:
            sizes = (*map(ctypes.c_uint64, shape), ctypes.c_int64(apart))
            layout = self._make(stack, "MatrixLayout", kind.name, *sizes)
            self._set("MatrixLayout", layout, _BATCH_COUNT, ctypes.c_int32(count))
            self._set("MatrixLayout", layout, _BATCH_STEP, ctypes.c_int64(step))
            described.append(layout)
        return [*described, described[-1]]  # of what the library would add, and of the result

    def _algorithm(
        self, asked: tuple[Any, ...], described: Sequence[Any], places: tuple[int, ...]
    ) -> _Algorithm | None:
        """The algorithm for products that are ``described`` so, whose matrices, and the bias, are
        at these addresses; None if there is none."""
        alignments = tuple(min(at & -at, _WELL_ALIGNED) for at in places)
        key = (*asked, alignments)
        if key not in self._algorithms:
            found, count = _Algorithm(), ctypes.c_int()
            with ExitStack() as stack:
                limits = self._make(stack, "MatmulPreference")
                self._set("MatmulPreference", limits, _WORKSPACE, ctypes.c_uint64(asked[-1]))
                self._set("MatmulPreference", limits, _REDUCTIONS, ctypes.c_uint32(_IN_SUMS))
                for i, bytes_ in enumerate(alignments[:4]):
                    self._set("MatmulPreference", limits, _ALIGNMENT + i, ctypes.c_uint32(bytes_))
                status = self._library.cublasLtMatmulAlgoGetHeuristic(
                    self._handle, *described, limits, 1, ctypes.byref(found), ctypes.byref(count)
                )
            if status not in (0, _NOT_SUPPORTED):
                _refuse("cublasLtMatmulAlgoGetHeuristic", status)
            exists = status == 0 and count.value > 0 and found.state == 0
            self._algorithms[key] = found if exists else None
        return self._algorithms[key]

    def _make(self, stack: ExitStack, what: str, *arguments: Any) -> Any:
        """An object of the library, until the stack is left."""
        made = ctypes.c_void_p()
        self._ask(f"cublasLt{what}Create", ctypes.byref(made), *arguments)
        stack.callback(getattr(self._library, f"cublasLt{what}Destroy"), made)
        return made

    def _set(self, what: str, of: Any, attribute: int, value: Any) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self._ask(f"cublasLt{what}SetAttribute", of, attribute, ctypes.byref(value), size)

    def _ask(self, function: str, *arguments: Any) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            _refuse(function, status)


def _refuse(function: str, status: int) -> NoReturn:
    raise DeviceError(f"{function} answers with the status {status} of cuBLASLt")
