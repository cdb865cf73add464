"""Products of vectors, matrices and tensors, written in the matrix product."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.dims import same
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.arithmetic import add, mul
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.expand import stretches_to
from staticflow.ops.basics.view import reshape, stretchable, unsqueeze
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim, strict, sum_to
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.promote import one_number
from staticflow.ops.declaring.required import require_equal, require_other
from staticflow.ops.indexing.roll_repeat import roll
from staticflow.ops.matrices.contract import matmul, matmul_op, of_one_batch
from staticflow.ops.matrices.einsum import Labelled, contract_all

__all__ = [
    "addbmm", "addmm", "addmv", "addr", "baddbmm", "bilinear", "chain_matmul", "cross", "ger",
    "inner", "kron", "multi_dot", "mv", "outer", "tensordot", "vdot",
]  # fmt: skip


def _refuse(what: str) -> ShapeError:
    return ShapeError(f"{what}, at {format_locs(here())}")


def _of_ndim(name: str, *operands: tuple[Any, int]) -> None:
    for x, ndim in operands:
        if x.ndim != ndim:
            raise _refuse(
                f"{name}: an operand has the shape {list(x.shape)}; it must have {ndim} dims"
            )


# -- a product and a sum --------------------------------------------------------------------------


def _add_infer(
    facts: Facts, c: TensorType, x: TensorType, y: TensorType, *, beta: float, alpha: float
) -> TensorType:
    out = matmul_op.infer(facts, x, y)
    assert isinstance(out, TensorType)
    shape = facts.broadcast([c.shape, out.shape], f"the sizes of {c} and of the product {out}")
    if len(shape) != out.ndim or any(a == 1 != b for a, b in zip(out.shape, shape, strict=True)):
        raise ShapeError(f"{c} does not stretch to the product, {out}")
    return out


def _add_reference(xp: Any, c: Any, x: Any, y: Any, *, beta: float, alpha: float) -> Any:
    product = matmul_op.reference(xp, x, y)
    out = product if alpha == 1 else product * product.dtype.type(alpha)
    if beta == 0:
        return out
    return out + (c if beta == 1 else c * c.dtype.type(beta))


def _scale(x: Any, factor: float) -> Any:
    return x if factor == 1 else x * factor


def _add_vjp(
    needs: Sequence[bool], ct: Any, out: Any, c: Any, x: Any, y: Any, *, beta: float, alpha: float
) -> list[Any]:
    scaled = _scale(ct, alpha)
    return [
        sum_to(_scale(ct, beta), c.__sf_shape__) if needs[0] else None,
        sum_to(matmul_op(scaled, mT(y)), x.__sf_shape__) if needs[1] else None,
        sum_to(matmul_op(mT(x), scaled), y.__sf_shape__) if needs[2] else None,
    ]


def _add_decompose(c: Any, x: Any, y: Any, *, beta: float, alpha: float) -> Any:
    product = _scale(matmul_op(x, y), alpha)
    return product if beta == 0 else product + _scale(c, beta)


def _add_op(name: str) -> Op:
    return Op(
        name=name,
        doc="``beta * c + alpha * (x @ y)``; with ``beta`` 0 whatever ``c`` holds.",
        infer=_add_infer,
        reference=strict(_add_infer, _add_reference),
        vjp=_add_vjp,
        decompose=_add_decompose,
        promote="common",
        kinds="iuf",
        numpy="small",
        grad_name=f"{name.title()}Backward0",
    )


addmm_op = _add_op("addmm")
baddbmm_op = _add_op("baddbmm")


def _product_and_sum(op: Op, input: Any, x: Any, y: Any, beta: float, alpha: float) -> Any:
    """The op; of integers by a fraction a float, which the op, whose result has the dtype of its
    arguments, cannot give."""
    beta, alpha = one_number(beta, "beta"), one_number(alpha, "alpha")
    by_fraction = (isinstance(factor, float) and factor not in (0, 1) for factor in (beta, alpha))
    if any(by_fraction) and not any(a.dtype.is_floating for a in (input, x, y)):
        return _sum_with(input, matmul(x, y), beta, alpha)
    if hasattr(input, "__sf_mode__") and input.__sf_mode__.rank and input.ndim <= x.ndim:
        input = stretchable(input, (*x.shape[:-1], y.shape[-1]))
    return op(input, x, y, beta=beta, alpha=alpha)


@by_shape
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * (mat1 @ mat2)`` of matrices (n, k) and (k, m); ``input`` broadcasts
    to (n, m) and is not read if ``beta`` is 0.

    >>> import staticflow as sf
    >>> sf.addmm(sf.ones(2), sf.ones(2, 3), sf.ones(3, 2), alpha=2)
    tensor([[7., 7.],
            [7., 7.]])
    """
    _of_ndim("addmm", (mat1, 2), (mat2, 2))
    return _product_and_sum(addmm_op, input, mat1, mat2, beta, alpha)


@by_shape
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """`addmm` of batches of matrices, (b, n, k) and (b, k, m)."""
    _of_ndim("baddbmm", (batch1, 3), (batch2, 3))
    batch1, batch2 = of_one_batch("baddbmm", batch1, batch2)
    return _product_and_sum(baddbmm_op, input, batch1, batch2, beta, alpha)


def _sum_with(input: Any, product: Any, beta: float, alpha: float) -> Any:
    beta, alpha = one_number(beta, "beta"), one_number(alpha, "alpha")
    scaled = _scale(product, alpha)
    input = stretches_to(input, product.shape, "the input")
    return scaled if beta == 0 else add(scaled, _scale(input, beta))


def _sum(x: Any, dims: Any, keepdim: bool = False) -> Any:
    """The sums over ``dims`` in the dtype of ``x``, as sums of products are."""
    return x.sum(dims, keepdim=keepdim, dtype=x.dtype)


@by_shape
@by_autocast
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * sum(batch1[i] @ batch2[i])`` of batches (b, n, k) and (b, k, m)."""
    _of_ndim("addbmm", (batch1, 3), (batch2, 3))
    batch1, batch2 = of_one_batch("addbmm", batch1, batch2)
    return _sum_with(input, _sum(matmul(batch1, batch2), 0), beta, alpha)


@by_shape
@by_autocast
def addmv(input: Any, mat: Any, vec: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * (mat @ vec)`` of a matrix (n, m) and a vector (m,)."""
    return _sum_with(input, mv(mat, vec), beta, alpha)


@by_shape
@by_autocast
def addr(input: Any, vec1: Any, vec2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """``beta * input + alpha * outer(vec1, vec2)``."""
    return _sum_with(input, outer(vec1, vec2), beta, alpha)


# -- vectors --------------------------------------------------------------------------------------


@by_shape
@by_autocast
def mv(input: Any, vec: Any) -> Any:
    """The product of a matrix (n, m) and a vector (m,)."""
    _of_ndim("mv", (input, 2), (vec, 1))
    return matmul(input, vec)


@by_shape
@by_autocast
def vdot(input: Any, other: Any) -> Any:
    """The inner product of two vectors."""
    _of_ndim("vdot", (input, 1), (other, 1))
    return matmul(input, other)


@by_shape
def outer(input: Any, vec2: Any) -> Any:
    """The products of each element of a vector (n,) with each of another (m,), as (n, m).

    >>> import staticflow as sf
    >>> sf.outer(sf.tensor([1.0, 2.0]), sf.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    _of_ndim("outer", (input, 1), (vec2, 1))
    return mul(unsqueeze(input, 1), unsqueeze(vec2, 0))


ger = outer


@by_shape
def inner(input: Any, other: Any) -> Any:
    """The sums of products over the last dims of both, the other dims of ``input`` before
    those of ``other``; of a 0-d tensor the product."""
    if input.ndim == 0 or other.ndim == 0:
        return mul(input, other)
    last = input.shape[-1], other.shape[-1]
    if all(isinstance(n, int) for n in last) and last[0] != last[1]:
        raise _refuse(f"inner: the last dims have the sizes {last[0]} and {last[1]}")
    return tensordot(input, other, ([-1], [-1]))


@by_shape
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """The vector product along ``dim``, which has size 3, without one along the first dim of
    ``input`` that has; the other dims broadcast.

    >>> import staticflow as sf
    >>> sf.cross(sf.tensor([1.0, 0.0, 0.0]), sf.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    if dim is None:
        input, dim = _first_of_three(input)
    return _cross(_of_three(input, dim), _of_three(other, dim), dim)


def _of_three(x: Any, dim: int) -> Any:
    size = x.shape[normalize_dim(dim, x.ndim, "cross")] if x.ndim else 0
    if same(size, 3):
        return x
    return require_equal(x, size, 3, f"cross: the size of dim {dim} of shape {list(x.shape)}")


def _first_of_three(x: Any) -> tuple[Any, int]:
    """``x`` and its first dim of size 3, counted from behind, where no unknown one before is; the
    last dim if there is none."""
    first = next((d for d, n in enumerate(x.shape) if same(n, 3)), None)
    for d, n in enumerate(x.shape[:first]):
        if isinstance(n, int):
            continue
        goes = f"cross: goes along the first dim of size 3; give dim=, as dim {d} of shape"
        goes = f"{goes} {list(x.shape)}"
        if first is None:
            raise _refuse(f"{goes} may be that")
        x = require_other(x, n, 3, goes)
    return x, -1 if first is None else first - x.ndim


@fused("LinalgCrossBackward0")
def _cross(x: Any, y: Any, dim: int) -> Any:
    # out[i] = x[i + 1] y[i + 2] - x[i + 2] y[i + 1]
    return roll(x, -1, dim) * roll(y, -2, dim) - roll(x, -2, dim) * roll(y, -1, dim)


# -- tensors --------------------------------------------------------------------------------------


@by_shape
def tensordot(a: Any, b: Any, dims: int | Sequence[Sequence[int]] = 2) -> Any:
    """The sums of products over dims of both: the last ``dims`` of ``a`` and the first of ``b``, or
    those that ``dims = (dims_a, dims_b)`` name. The other dims of ``a`` come first. A dim of size 1
    broadcasts with the one that it meets.

    >>> import staticflow as sf
    >>> sf.tensordot(sf.ones(2, 3, 4), sf.ones(3, 4, 5)).shape
    (2, 5)
    """
    x, y = a, b
    if not isinstance(dims, Sequence):
        dims = operator.index(dims)
        if not 0 <= dims <= min(x.ndim, y.ndim):
            raise _refuse(
                f"tensordot: {dims} dims of tensors of shapes {list(x.shape)} and {list(y.shape)}"
            )
        dims = (range(x.ndim - dims, x.ndim), range(dims))
    of_x, of_y = (
        [normalize_dim(d, v.ndim, "tensordot") for d in given]
        for v, given in zip((x, y), dims, strict=True)
    )
    if len(of_x) != len(of_y) or len(set(of_x)) != len(of_x) or len(set(of_y)) != len(of_y):
        raise _refuse(f"tensordot: the dims {of_x} and {of_y} do not pair up")
    for i, j in zip(of_x, of_y, strict=True):
        sizes = x.shape[i], y.shape[j]
        if all(isinstance(n, int) for n in sizes) and sizes[0] != sizes[1]:
            if 1 not in sizes:
                raise _refuse(
                    f"tensordot: dims {i} and {j} have the sizes {sizes[0]} and {sizes[1]}"
                )
            x = x if sizes[1] != 1 else _sum(x, i, keepdim=True)
            y = y if sizes[0] != 1 else _sum(y, j, keepdim=True)
    left = [f"x{of_x.index(d)}" if d in of_x else f"left{d}" for d in range(x.ndim)]
    right = [f"x{of_y.index(d)}" if d in of_y else f"right{d}" for d in range(y.ndim)]
    out = [name for name in (*left, *right) if not name.startswith("x")]
    return contract_all([Labelled(x, tuple(left)), Labelled(y, tuple(right))], out)


@by_shape
def kron(input: Any, other: Any) -> Any:
    """The Kronecker product: ``other`` times each element of ``input``, as blocks. The one of fewer
    dims gets more in front.

    >>> import staticflow as sf
    >>> sf.kron(sf.tensor([1.0, 2.0]), sf.tensor([3.0, 4.0]))
    tensor([3., 4., 6., 8.])
    """
    rank = max(input.ndim, other.ndim)
    a = (*[1] * (rank - input.ndim), *input.shape)
    b = (*[1] * (rank - other.ndim), *other.shape)
    spread_x = [s for size in a for s in (size, 1)]
    spread_y = [s for size in b for s in (1, size)]
    blocks = mul(reshape(input, tuple(spread_x)), reshape(other, tuple(spread_y)))
    return reshape(blocks, tuple(m * n for m, n in zip(a, b, strict=True)))


def multi_dot(tensors: Sequence[Any]) -> Any:
    """The product of matrices in a row, in the order that takes the fewest multiplications, but for
    those before the last 64, from left to right. The first may be a row vector (n,), the last a
    column.

    >>> import staticflow as sf
    >>> sf.multi_dot([sf.ones(2, 3), sf.ones(3, 4), sf.ones(4)])
    tensor([12., 12.])
    """
    count = len(tensors)
    if count < 2:
        raise _refuse(f"multi_dot: takes at least two tensors, not {count}")
    for i, x in enumerate(tensors):
        if x.ndim != 2 and not (x.ndim == 1 and i in (0, count - 1)):
            raise _refuse(
                f"multi_dot: tensor {i} has the shape {list(x.shape)}; it must be a matrix"
            )
    terms = [
        Labelled(x, (f"{i}", f"{i + 1}") if x.ndim == 2 else (f"{max(i, 1)}",))
        for i, x in enumerate(tensors)
    ]
    ends = ((tensors[0], "0"), (tensors[-1], f"{count}"))
    return contract_all(terms, [name for x, name in ends if x.ndim == 2])


def chain_matmul(*matrices: Any) -> Any:
    """`multi_dot` of the matrices."""
    return multi_dot(matrices)


@by_autocast
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """``out[..., o] = sum over i, j of x1[..., i] * weight[o, i, j] * x2[..., j]``, and ``bias``:
    ``input1`` (..., m), ``input2`` (..., n), ``weight`` (out, m, n), ``bias`` (out,)."""
    _of_ndim("bilinear", (weight, 3))
    # (..., 1, m) @ (out, m, n) = (..., out, 1, n)
    first = matmul(reshape(input1, (*input1.shape[:-1], 1, 1, input1.shape[-1])), weight)
    second = reshape(input2, (*input2.shape[:-1], 1, 1, input2.shape[-1]))
    out = _sum(first * second, (-1, -2))
    return out if bias is None else out + bias
