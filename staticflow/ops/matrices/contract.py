"""Matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.articles import class_in_words
from staticflow.graph.dims import prod
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.axes import mT, permute, permute_op
from staticflow.ops.basics.expand import meet, stretches_to
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import per_arg, same_size, sum_to
from staticflow.ops.declaring.lowering import Contract
from staticflow.ops.declaring.required import require_equal

__all__ = ["bmm", "dot", "linear", "linear_op", "matmul", "matmul_op", "mm", "of_one_batch"]


def _infer(facts: Facts, x: TensorType, y: TensorType) -> TensorType:
    if x.ndim < 2 or y.ndim < 2:
        raise ShapeError(f"takes tensors of at least 2 dims, not {x} and {y}")
    if x.dtype is not y.dtype:
        raise DTypeError(f"the operands are of different dtypes, {x.dtype} and {y.dtype}")
    if x.dtype.kind == "b":
        raise DTypeError("not defined for bool; cast to a number first")
    facts.equal(x.shape[-1], y.shape[-2], f"the columns of {x} and the rows of {y}")
    batch = facts.broadcast([x.shape[:-2], y.shape[:-2]], "the leading sizes")
    return TensorType(x.dtype, (*batch, x.shape[-2], y.shape[-1]))


def _is_short(x: Any) -> bool:
    """Whether an array holds floats of 16 bits."""
    return x.dtype.itemsize == 2 and x.dtype.kind not in "iu"


def _reference(xp: Any, x: Any, y: Any) -> Any:
    if _is_short(x) and (xp is np or (x.dtype != np.float16 and max(x.ndim, y.ndim) > 2)):
        # which no BLAS does, and cupy not of batches of bfloat16
        return xp.matmul(x.astype(xp.float32), y.astype(xp.float32)).astype(x.dtype)
    return xp.matmul(x, y)


matmul_op: Op = Op(
    name="matmul",
    doc="``out[b, m, n] = sum_k x[b, m, k] * y[b, k, n]``, the leading dims broadcast.",
    infer=_infer,
    reference=_reference,
    vjp=per_arg(
        lambda ct, out, x, y: sum_to(matmul_op(ct, mT(y)), x.__sf_shape__),
        lambda ct, out, x, y: sum_to(matmul_op(mT(x), ct), y.__sf_shape__),
    ),
    lowering=Contract(),
    promote="common",
    kinds="iuf",
    numpy="small",
    grad_name="MmBackward0",
)


def _wrap(array: Any, beside: Any, name: str) -> Any:
    """An array, the argument ``name``, as a value of the mode of ``beside``."""
    if not hasattr(array, "dtype"):
        raise DTypeError(
            f"matmul: {name!r} must be a tensor, not {class_in_words(array)}; multiply by a number "
            f"with *, or wrap data with sf.tensor(...), at {format_locs(here())}"
        )
    return cast.beside(beside, array, dtype=dtype_of(array.dtype))


def _refuse_unequal(name: str, x: Any, y: Any) -> None:
    """Raise `ShapeError` where a vector does not fit what it is multiplied by, as it was given: to
    the op it is a row or a column."""
    columns, rows = x.shape[-1], y.shape[max(y.ndim - 2, 0)]
    if isinstance(columns, int) and isinstance(rows, int) and columns != rows:
        raise ShapeError(
            f"{name}: shapes {list(x.shape)} and {list(y.shape)}: {columns} and {rows} differ; the "
            f"last dim of the first and the {'first' if y.ndim < 3 else 'last but one'} of the "
            f"second must be equal, at {format_locs(here())}"
        )


@by_shape
def matmul(input: Any, other: Any) -> Any:
    """The matrix product as ``x @ y`` means it: vectors are rows on the left and columns on the
    right (and their dim goes), leading dims are batches and broadcast.

    >>> import staticflow as sf
    >>> sf.matmul(sf.ones(2, 3), sf.ones(3)).shape
    (2,)
    """
    x = input if hasattr(input, "__sf_mode__") else _wrap(input, other, "input")
    y = other if hasattr(other, "__sf_mode__") else _wrap(other, input, "other")
    if x.ndim == 2 and y.ndim == 2:
        return matmul_op(x, y)
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(f"matmul: takes no 0-d tensors; multiply with *, at {format_locs(here())}")
    if x.ndim > 2 and y.ndim == 2 and same_size(x.shape[-1], y.shape[0]):
        # one product of all rows, and so is its derivative
        rows = reshape(x, (prod(x.shape[:-1]), x.shape[-1]))
        return reshape(matmul_op(rows, y), (*x.shape[:-1], y.shape[-1]))
    left, right = x.ndim == 1, y.ndim == 1
    if left or right:
        _refuse_unequal("matmul", x, y)
    else:
        x, y = meet("matmul", x, y, kept=2)
    out = matmul_op(unsqueeze(x, 0) if left else x, unsqueeze(y, 1) if right else y)
    if not (left or right):
        return out
    shape = out.shape
    if left:
        shape = (*shape[:-2], shape[-1])
    if right:
        shape = shape[:-1]
    return reshape(out, shape)


def _of_ndim(name: str, ndim: int, x: Any, y: Any) -> Any:
    try:
        fits = x.ndim == ndim == y.ndim
    except AttributeError as error:
        wrong = error.obj
        raise DTypeError(
            f"{name}: takes tensors of {ndim} dims, not {type(wrong).__name__}; wrap data with "
            f"sf.tensor(...) or sf.from_numpy(...), at {format_locs(here())}",
            wrong,
            "a tensor",
        ) from None
    if fits:
        if ndim == 1:
            _refuse_unequal(name, x, y)
        return matmul(x, y)
    wrong = x if x.ndim != ndim else y
    raise ShapeError(
        f"{name}: takes tensors of {ndim} dims, not one of shape {list(wrong.shape)}, "
        f"at {format_locs(here())}"
    )


def of_one_batch(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Both batches of matrices, which must be of as many: `matmul` would stretch one.

    Raises `ShapeError`, which names the function ``name``, where they differ.
    """
    if getattr(x, "ndim", 0) == 3 == getattr(y, "ndim", 0):
        batches = f"{name}: the batches of shapes {list(x.shape)} and {list(y.shape)}"
        x = require_equal(x, x.shape[0], y.shape[0], batches)
    return x, y


@by_shape
def mm(input: Any, mat2: Any) -> Any:
    """The product of two matrices."""
    return _of_ndim("mm", 2, input, mat2)


@by_shape
def bmm(input: Any, mat2: Any) -> Any:
    """The products of two batches of matrices, (b, m, k) and (b, k, n)."""
    return _of_ndim("bmm", 3, *of_one_batch("bmm", input, mat2))


@by_shape
@by_autocast
def dot(input: Any, tensor: Any) -> Any:
    """The inner product of two vectors."""
    return _of_ndim("dot", 1, input, tensor)


def _linear_infer(facts: Facts, x: TensorType, weight: TensorType, bias: TensorType) -> TensorType:
    if x.ndim < 1 or weight.ndim != 2 or bias.ndim != 1:
        raise ShapeError(f"takes (..., in), (out, in) and (out,), not {x}, {weight} and {bias}")
    if x.dtype.kind == "b":
        raise DTypeError("not defined for bool; cast to a number first")
    facts.equal(x.shape[-1], weight.shape[1], f"the columns of {x} and of the weight {weight}")
    facts.equal(
        bias.shape[0],
        weight.shape[0],
        f"the elements of the bias {bias} and the rows of the weight {weight}",
    )
    return TensorType(x.dtype, (*x.shape[:-1], weight.shape[0]))


def _linear_reference(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    rows = x if x.ndim == 2 else x.reshape(prod(x.shape[:-1]), x.shape[-1])
    out = _reference(xp, rows, weight.T)
    out += bias
    return out if x.ndim == 2 else out.reshape(*x.shape[:-1], weight.shape[0])


def _linear_decompose(x: Any, weight: Any, bias: Any) -> Any:
    return matmul(x, permute(weight, 1, 0)) + bias


def _rows(x: Any) -> Any:
    return x if x.ndim == 2 else reshape(x, (prod(x.shape[:-1]), x.shape[-1]))


linear_op = Op(
    name="linear",
    doc="``x @ weight.T + bias``.",
    infer=_linear_infer,
    reference=_linear_reference,
    vjp=per_arg(
        lambda ct, out, x, weight, bias: reshape(matmul_op(_rows(ct), weight), x.shape),
        lambda ct, out, x, weight, bias: matmul_op(mT(_rows(ct)), _rows(x)),
        lambda ct, out, x, weight, bias: sum_to(ct, bias.__sf_shape__),
    ),
    decompose=_linear_decompose,
    promote="common",
    kinds="iuf",
    numpy="small",
    grad_name="AddmmBackward0",
)


@by_shape
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """``x @ weight.T + bias``: ``input`` (..., in), ``weight`` (out, in), ``bias`` (out,)."""
    x = input
    if weight.ndim != 2:
        raise ShapeError(
            f"linear: the weight is (out, in), not of shape {list(weight.shape)}, "
            f"at {format_locs(here())}"
        )
    if x.ndim and bias is not None and bias.ndim == 1 and same_size(bias.shape[0], weight.shape[0]):
        return linear_op(x, weight, bias)
    if getattr(x, "__sf_mode__", weight.__sf_mode__) is weight.__sf_mode__:  # arrays have none
        columns = permute(weight, 1, 0)
    else:  # a weight that a graph captures is transposed in that graph, not once and for all
        columns = permute_op.beside(x, weight, dims=(1, 0))
    y = matmul(x, columns)
    return y if bias is None else y + stretches_to(bias, y.shape, "linear: the bias")
