"""Products of large matrices, eagerly: by the kernel that graphs run, which NumPy's library is
slower than.

A kernel is compiled, once, for a dtype, a number of dims, and which operands lie by columns; sizes
stay unknown. Small products and few rows or columns are NumPy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from staticflow.codegen.gemm.block import LEAST_ROWS
from staticflow.eager.costs import PRODUCT
from staticflow.eager.programs import Programs, compiled
from staticflow.graph.dims import Size, fresh_sym
from staticflow.graph.dtypes import BY_NUMPY, float32, float64
from staticflow.graph.graph import close, new_param
from staticflow.graph.node import make_node
from staticflow.graph.op import Op
from staticflow.graph.types import TensorType
from staticflow.ops.basics.axes import permute_op
from staticflow.ops.matrices.contract import linear_op, matmul_op
from staticflow.runtime.executable import Executable

__all__ = ["large_linear", "large_matmul"]

Array = np.ndarray[Any, Any]

_TILED = frozenset((float32.numpy, float64.numpy))

_kernels: Programs[Executable] = Programs()


def large_matmul(x: Array, y: Array) -> Array | None:
    """``x @ y``, or None where NumPy is to compute it."""
    if x.ndim != y.ndim or x.shape[:-2] != y.shape[:-2] or not _pays(x, x.shape, y.shape[-1]):
        return None
    turned = (_is_turned(x), _is_turned(y))
    if None in turned:
        return None
    return _run(matmul_op, (x, y), turned)


def large_linear(x: Array, weight: Array, bias: Array) -> Array | None:
    """``x @ weight.T + bias``, with one pass over the result; or None, likewise."""
    rows = (prod(x.shape[:-1]), x.shape[-1])
    whole = x.flags.c_contiguous and weight.flags.c_contiguous and bias.flags.c_contiguous
    if not (whole and weight.dtype is x.dtype is bias.dtype and _pays(x, rows, weight.shape[0])):
        return None
    out = _run(linear_op, (x.reshape(rows), weight, bias), (False, False, False))
    return None if out is None else out.reshape(*x.shape[:-1], weight.shape[0])


def _pays(x: Array, shape: Sequence[int], columns: int) -> bool:
    few = min(shape[-2], columns) < LEAST_ROWS
    return x.dtype in _TILED and not few and prod(shape) * columns >= PRODUCT


def _is_turned(a: Array) -> bool | None:
    """Whether matrices lie by columns, and not by rows; None if one element is not behind the
    other either way."""
    if a.flags.c_contiguous:
        return False
    return True if a.swapaxes(-1, -2).flags.c_contiguous else None


def _run(op: Op, operands: Sequence[Array], turned: Sequence[bool | None]) -> Array | None:
    key = (op, operands[0].dtype, operands[0].ndim, *turned)
    kernel = _kernels.find((key, lambda: _compiled(op, operands, turned)))
    assert kernel is not None
    arrays = (a.swapaxes(-1, -2) if t else a for a, t in zip(operands, turned, strict=True))
    result: Array | int | None = kernel.fast(*arrays)
    return None if isinstance(result, int) else result


def _compiled(op: Op, operands: Sequence[Array], turned: Sequence[bool | None]) -> Executable:
    params, args = [], []
    for number, (a, shape) in enumerate(zip(operands, _shapes(op, operands[0].ndim), strict=True)):
        order = list(range(len(shape)))
        if turned[number]:
            order[-2:] = order[:-3:-1]
        lies = tuple(shape[d] for d in order)
        param = new_param(TensorType(BY_NUMPY[a.dtype], lies), f"x{number}")
        params.append(param)
        args.append(make_node(permute_op, (param,), {"dims": tuple(order)}, ()))
    return compiled(close(tuple(params), [make_node(op, tuple(args), {}, ())]))


def _shapes(op: Op, ndim: int) -> list[tuple[Size, ...]]:
    m, k, n = (fresh_sym(name) for name in "mkn")
    if op is linear_op:
        return [(m, k), (n, k), (n,)]
    batch = tuple(fresh_sym(f"b{d}") for d in range(ndim - 2))
    return [(*batch, m, k), (*batch, k, n)]
