"""Products of large matrices, eagerly: by the kernel that graphs run, which NumPy's library is
slower than.

A kernel serves a dtype, a number of dims, and which operands lie by columns; no size is known to
it. Small products and few rows or columns are NumPy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from staticflow.codegen.gemm.block import LEAST_ROWS
from staticflow.eager.costs import PRODUCT
from staticflow.eager.programs import UNMET, ArrayKind, Programs, compile_function
from staticflow.graph.dtypes import float32, float64
from staticflow.graph.op import Op
from staticflow.ops.matrices.contract import linear_op, matmul_op
from staticflow.runtime.executable import Executable

__all__ = ["large_linear", "large_matmul"]

Array = np.ndarray[Any, Any]

_TILED = frozenset((float32.numpy, float64.numpy))

_programs: Programs[Executable] = Programs()


def large_matmul(x: Array, y: Array) -> Array | None:
    """``x @ y``, or None where NumPy is to compute it."""
    if x.ndim != y.ndim or x.shape[:-2] != y.shape[:-2] or not _pays(x, x.shape, y.shape[-1]):
        return None
    by_columns = (_is_by_columns(x), _is_by_columns(y))
    if None in by_columns:
        return None
    return _compute(matmul_op, (x, y), by_columns)


def large_linear(x: Array, weight: Array, bias: Array) -> Array | None:
    """``x @ weight.T + bias``, with one pass over the result; None where NumPy is to compute it."""
    rows = (prod(x.shape[:-1]), x.shape[-1])
    whole = x.flags.c_contiguous and weight.flags.c_contiguous and bias.flags.c_contiguous
    if not (whole and weight.dtype is x.dtype is bias.dtype and _pays(x, rows, weight.shape[0])):
        return None
    out = _compute(linear_op, (x.reshape(rows), weight, bias), (False, False, False))
    return None if out is None else out.reshape(*x.shape[:-1], weight.shape[0])


def _pays(x: Array, shape: Sequence[int], columns: int) -> bool:
    few = min(shape[-2], columns) < LEAST_ROWS
    return x.dtype in _TILED and not few and prod(shape) * columns >= PRODUCT


def _is_by_columns(a: Array) -> bool | None:
    """Whether matrices lie by columns, and not by rows; None if one element is not behind the
    other either way."""
    if a.flags.c_contiguous:
        return False
    return True if a.swapaxes(-1, -2).flags.c_contiguous else None


def _compute(
    op: Op, operands: Sequence[Array], by_columns: tuple[bool | None, ...]
) -> Array | None:
    """What ``op`` gives; None if its kernel does not take such operands, or fails."""
    arrays = [a.swapaxes(-1, -2) if c else a for a, c in zip(operands, by_columns, strict=True)]
    call = (op, arrays[0].dtype, arrays[0].ndim, *by_columns)
    kernel = _programs.by_call.get(call, UNMET)
    if kernel is UNMET:
        kernel = _programs.remember(call, _find(op, arrays, by_columns))
    result: Array | int | None = None if kernel is None else kernel.fast(*arrays)
    return None if isinstance(result, int) else result


def _find(
    op: Op, arrays: Sequence[Array], by_columns: tuple[bool | None, ...]
) -> Executable | None:
    def product(*symbols: Any) -> Any:
        pairs = zip(symbols, by_columns, strict=True)
        return op(*(x.swapaxes(-1, -2) if c else x for x, c in pairs))

    kinds = tuple([ArrayKind(a.dtype, (0,) * a.ndim) for a in arrays])
    return _programs.find((op, by_columns), partial(compile_function, product), kinds)
