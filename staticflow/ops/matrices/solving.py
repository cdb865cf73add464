"""Systems of linear equations, inverses and powers, determinants, Cholesky's factor."""

from __future__ import annotations

import operator
from typing import Any

from staticflow.errors import DTypeError, LinAlgError, ShapeError, SymbolicError
from staticflow.graph.dims import Size, same
from staticflow.graph.dtypes import float32, float64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.open_size import equals
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.creation import iota, zeros_like
from staticflow.ops.basics.expand import common_shape, expand
from staticflow.ops.basics.view import squeeze, unsqueeze
from staticflow.ops.declaring.array_modules import strictly
from staticflow.ops.declaring.declare import per_arg, same_size, strict
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.lowering import LoopNest
from staticflow.ops.declaring.required import require_equal
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.elimination import (
    copy_in,
    each_matrix,
    eliminate,
    factor_definite,
    solve_upper,
)
from staticflow.ops.matrices.substitution import emit_triangular
from staticflow.ops.matrices.triangle import tril, triu

__all__ = [
    "cholesky",
    "cholesky_op",
    "columns_of",
    "identity",
    "in_batches",
    "inv",
    "is_of_vectors",
    "lower_op",
    "matrix_power",
    "solve",
    "solve_matrices",
    "solve_op",
    "square",
    "upper_op",
    "with_our_errors",
]  # fmt: skip


def square(facts: Facts, x: TensorType) -> None:
    """Refuse what are no square matrices of float32 or float64."""
    if x.dtype not in (float32, float64):
        raise DTypeError(f"of {x.dtype.name}; matrices are solved in float32 or float64")
    if x.ndim < 2:
        raise ShapeError(f"{x} is no matrix")
    facts.equal(x.shape[-2], x.shape[-1], f"the rows and the columns of the matrices of {x}")


def with_our_errors(compute: Any) -> Any:
    """A reference by NumPy's ``linalg``, whose refusals are ours."""

    def reference(xp: Any, *arrays: Any, **attrs: Any) -> Any:
        try:
            with strictly(xp):
                return compute(xp, *arrays, **attrs)
        except xp.linalg.LinAlgError as error:
            raise LinAlgError(str(error)) from None

    return reference


# -- solve ----------------------------------------------------------------------------------------


def _solve_infer(facts: Facts, a: TensorType, b: TensorType) -> TensorType:
    square(facts, a)
    if b.dtype is not a.dtype:
        raise DTypeError(f"{a} and {b} are of different dtypes")
    for x, y in zip(a.shape[:-1], b.shape[:-1], strict=True):
        facts.equal(x, y, f"the rows of {a} and of {b}")
    return b


def _solve_emit(nest: Any) -> None:
    k, columns = nest.k, nest.in_shape(1)[-1]
    with each_matrix(nest, columns) as (b, work):
        n = work.rows
        copy_in(nest, work, 1, b, columns, n, turned=False)
        eliminate(
            work,
            lambda c, row: nest.require(k.compare("ne", work.at(c, c), 0.0), "singular"),
        )
        solve_upper(work)
        for i, j in work.elements(n, columns):
            nest.store(0, (*b, i, j), work.at(i, n + j))


solve_op: Op = Op(
    name="solve",
    doc="The x with ``a @ x = b``.",
    infer=_solve_infer,
    reference=strict(_solve_infer, with_our_errors(lambda xp, a, b: xp.linalg.solve(a, b))),
    vjp=lambda needs, ct, out, a, b: _solve_vjp(needs, ct, out, a),
    lowering=LoopNest(_solve_emit),
    numpy="slower",
    grad_name="LinalgSolveExBackward0",
)


def _solve_vjp(needs: Any, ct: Any, out: Any, a: Any) -> list[Any]:
    # of a x = b: da x + a dx = db
    of_b = solve_op(mT(a), ct)
    return [-matmul(of_b, mT(out)) if needs[0] else None, of_b if needs[1] else None]


def _triangular_op(name: str, part: str, lower: bool) -> Op:
    """The op that solves systems of which one ``part``, ``tril`` or ``triu``, is read."""

    def reference(xp: Any, a: Any, b: Any) -> Any:
        return xp.linalg.solve(getattr(xp, part)(a), b)

    def vjp(needs: Any, ct: Any, out: Any, a: Any, b: Any) -> list[Any]:
        other, keep = (upper_op, tril) if lower else (lower_op, triu)
        of_b = other(mT(a), ct)
        return [-keep(matmul(of_b, mT(out))) if needs[0] else None, of_b if needs[1] else None]

    return Op(
        name=name,
        doc=f"The x with ``{part}(a) @ x = b``.",
        infer=_solve_infer,
        reference=strict(_solve_infer, with_our_errors(reference)),
        vjp=vjp,
        lowering=LoopNest(lambda nest: emit_triangular(nest, lower)),
        grad_name="LinalgSolveTriangularBackward0",
        numpy="slower",
    )


upper_op: Op = _triangular_op("solve_upper", "triu", lower=False)
lower_op: Op = _triangular_op("solve_lower", "tril", lower=True)


def solve(A: Any, B: Any) -> Any:
    """The x with ``A @ x = B`` for square matrices ``A`` (..., n, n), in float32 or float64, and
    ``B`` (..., n, k), batches broadcast; or one vector (n,), or one for each matrix, of the shape
    of ``A`` without its last dim.

    Raises `LinAlgError` for a singular matrix, also when a program runs; one that rounding alone
    keeps from being singular gives what has no meaning.

    >>> import staticflow as sf
    >>> sf.linalg.solve(sf.tensor([[2.0, 0.0], [0.0, 4.0]]), sf.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    if is_of_vectors(A, B):
        return squeeze(solve_matrices(A, columns_of(A, B, "solve")), -1)
    return solve_matrices(A, B)


def is_of_vectors(A: Any, B: Any) -> bool:
    """Whether the right sides ``B`` of systems ``A`` are vectors: one, or one for each matrix."""
    if B.ndim == 1:
        return True
    if B.ndim != A.ndim - 1 or any(map(_differ, B.shape, A.shape[:-1])):
        return False
    try:
        return all(map(equals, B.shape, A.shape[:-1]))
    except SymbolicError:
        raise SymbolicError(
            f"whether the right sides {list(B.shape)} are a vector for each of the matrices "
            f"{list(A.shape)}, or a matrix for all of them, depends on sizes known only when the "
            "program runs; give vectors as B.unsqueeze(-1) and the matrix as B.unsqueeze(0), at "
            f"{format_locs(here())}"
        ) from None


def columns_of(A: Any, B: Any, what: str) -> Any:
    """The right sides ``B``, vectors, as matrices of one column, for the function ``what``.

    Raises `ShapeError`, by the shapes that are given, where they have not as many elements as ``A``
    has rows; where only a call can tell, the program does."""
    if A.ndim > 1:  # else A is refused
        sizes = f"{what}: the rows of A {list(A.shape)} and the elements of B {list(B.shape)}"
        B = require_equal(B, A.shape[-2], B.shape[-1], sizes)
    return unsqueeze(B, -1)


def _differ(a: Size, b: Size) -> bool:
    return isinstance(a - b, int) and not same(a, b)


def solve_matrices(A: Any, B: Any) -> Any:
    """The x with ``A @ x = B`` where ``B`` (..., n, k) is of matrices, whatever its sizes: n
    matrices (n, n) have the shape that one vector for each of n matrices has, too."""
    return solve_op(*in_batches(A, B))


def in_batches(A: Any, B: Any) -> tuple[Any, Any]:
    """Matrices and right sides, either stretched to the batch of both."""
    batch = common_shape([A.shape[:-2], B.shape[:-2]], "solve")
    return expand(A, (*batch, *A.shape[-2:])), expand(B, (*batch, *B.shape[-2:]))


@by_autocast
def inv(A: Any) -> Any:
    """The inverses of square matrices (..., n, n), as `solve`.

    >>> import staticflow as sf
    >>> sf.linalg.inv(sf.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return _inverses(A)


@fused("LinalgInvExBackward0")
def _inverses(A: Any) -> Any:
    return solve_matrices(A, identity(A))


def identity(A: Any) -> Any:
    """The matrix that changes nothing, of the size and dtype of one of ``A``."""
    n = A.shape[-1]
    row, column = (iota.beside(A, shape=(n, n), dim=d, dtype=A.dtype) for d in (0, 1))
    return (row == column).to(A.dtype)


def matrix_power(input: Any, n: int) -> Any:
    """The product of ``n`` times the square matrices ``input`` (..., m, m); of a negative ``n``
    that of their inverses.

    >>> import staticflow as sf
    >>> sf.matrix_power(sf.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    if input.ndim < 2 or not same_size(*input.shape[-2:]):
        raise ShapeError(
            f"matrix_power: takes square matrices, not shape {list(input.shape)}, "
            f"at {format_locs(here())}"
        )
    n = operator.index(n)
    if n < 0:
        return matrix_power(inv(input), -n)
    if n == 0:
        return zeros_like(input) + identity(input)
    if n == 1:
        return input.clone()
    power, out = input, None
    while n:
        if n & 1:
            out = power if out is None else matmul(out, power)
        n >>= 1
        power = matmul(power, power) if n else power
    return out


# -- Cholesky -------------------------------------------------------------------------------------


def _cholesky_infer(facts: Facts, a: TensorType) -> TensorType:
    square(facts, a)
    return a


def _cholesky_emit(nest: Any) -> None:
    k = nest.k
    nest.zero()
    with each_matrix(nest, lower=True) as (b, work):

        def visit(square: Any) -> None:
            unknown = k.compare("ne", square, square)
            nest.require(k.apply("or", k.compare("gt", square, 0.0), unknown), "definite")

        factor_definite(work, visit)
        for i, j in work.elements_below(work.rows):
            nest.store(0, (*b, i, j), work.at(i, j))


def _cholesky_vjp(ct: Any, out: Any, a: Any) -> Any:
    # Murray 2016, "Differentiation of the Cholesky decomposition", arXiv:1602.07527
    inner = tril(matmul(mT(out), ct))
    inner = inner - tril(triu(inner)) * 0.5
    half = upper_op(mT(out), inner)
    whole = mT(upper_op(mT(out), mT(half)))
    return (whole + mT(whole)) * 0.5


cholesky_op = Op(
    name="cholesky",
    doc="The lower triangular L with ``L @ L.mT = a``, of the lower part of a.",
    infer=_cholesky_infer,
    reference=strict(_cholesky_infer, with_our_errors(lambda xp, a: xp.linalg.cholesky(a))),
    vjp=per_arg(_cholesky_vjp),
    lowering=LoopNest(_cholesky_emit),
    numpy="slower",
    grad_name="LinalgCholeskyExBackward0",
)


def cholesky(A: Any, *, upper: bool = False) -> Any:
    """The lower triangular L with ``L @ L.mT = A`` for positive definite matrices (..., n, n) in
    float32 or float64, or with ``upper`` its transpose; only that triangle of A is read.

    Raises `LinAlgError` for another matrix, also when a program runs.

    >>> import staticflow as sf
    >>> sf.linalg.cholesky(sf.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return mT(cholesky_op(mT(A))) if upper else cholesky_op(A)
