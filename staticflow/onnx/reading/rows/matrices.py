"""Products of matrices and tensors, and determinants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticflow.onnx.reading.rows.row import Row, row
from staticflow.ops.basics.arithmetic import mul
from staticflow.ops.basics.axes import transpose
from staticflow.ops.basics.casting import cast
from staticflow.ops.elementwise.variants import add
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.determinants import det
from staticflow.ops.matrices.einsum import einsum

__all__ = ["MATRICES"]


def _matmul(a: Any, b: Any) -> Any:
    return cast(matmul(a, b), a.dtype)


def _gemm(
    a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0,
) -> Any:  # fmt: skip
    a = transpose(a, 0, 1) if transA else a
    b = transpose(b, 0, 1) if transB else b
    found = matmul(a, b)
    found = found if alpha == 1 else cast(mul(found, alpha), a.dtype)
    if c is None:
        return found
    return add(found, c if beta == 1 else cast(mul(c, beta), a.dtype))


def _einsum(*xs: Any, equation: str) -> Any:
    return einsum(equation.replace(" ", ""), *xs)


MATRICES: Mapping[str, Row] = {
    "Det": row(lambda x: det(x)),
    "Einsum": row(_einsum),
    "Gemm": row(_gemm, since=7),
    "MatMul": row(_matmul),
}
"""Rows by operator."""
