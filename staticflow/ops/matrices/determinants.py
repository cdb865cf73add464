"""Determinants of square matrices, and their logarithms."""

from __future__ import annotations

import functools
import itertools
import operator
from math import inf, nan
from typing import Any, NamedTuple

from staticflow.graph.dims import Size, closed_size
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.along.extremes import amax, amin
from staticflow.ops.basics.arithmetic import keep_history, logical_and, stop_gradient, where
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.creation import new_full
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.view import flatten, unsqueeze
from staticflow.ops.declaring.declare import strict
from staticflow.ops.declaring.lowering import LoopNest
from staticflow.ops.declaring.tracing import is_traced, may_be_differentiated
from staticflow.ops.elementwise.maths import abs, log
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.elimination import each_matrix, eliminate
from staticflow.ops.matrices.factors import svd
from staticflow.ops.matrices.lu import lu_op
from staticflow.ops.matrices.solving import identity, inv, square
from staticflow.ops.matrices.tall_systems import PRECISION
from staticflow.ops.matrices.triangle import diag_embed, diagonal

__all__ = ["LogDeterminant", "det", "logdet", "slogdet", "slogdet_op"]


def _slogdet_infer(facts: Facts, a: TensorType) -> Any:
    square(facts, a)
    one = TensorType(a.dtype, a.shape[:-2])
    return one, one, one


def _slogdet_reference(xp: Any, a: Any) -> Any:
    sign, logarithm = xp.linalg.slogdet(a)
    product = xp.linalg.det(a.astype(xp.float64)).astype(a.dtype)
    return xp.where(xp.isnan(logarithm), logarithm, sign), logarithm, product


def _slogdet_emit(nest: Any) -> None:
    k, dtype = nest.k, nest.in_type(0).dtype
    with each_matrix(nest) as (b, work):
        sign, total = k.var(k.const(1.0, dtype)), k.var(k.const(0.0, dtype))
        product = k.var(k.const(1.0, dtype))

        def visit(c: Size, row: Any) -> None:
            stays = k.compare("eq", row, k.index_value(c))
            k.set(sign, k.select(stays, sign, k.neg(sign)))
            value = work.at(c, c)
            k.set(product, k.mul(product, k.select(stays, value, k.neg(value))))
            k.set(sign, k.mul(sign, k.select(k.compare("eq", value, value), k.sign(value), 1.0)))
            k.set(total, k.add(total, k.log(k.abs(value))))

        eliminate(work, visit)
        zero = k.compare("eq", sign, 0.0)
        logarithm = k.select(zero, float("-inf"), total)
        nest.store(0, b, k.select(k.compare("eq", logarithm, logarithm), sign, logarithm))
        nest.store(1, b, logarithm)
        nest.store(2, b, k.select(zero, k.const(0.0, dtype), product))


def _slogdet_vjp(needs: Any, cts: Any, out: Any, a: Any) -> list[Any]:
    parts = [ct for ct in (cts[1], None if cts[2] is None else cts[2] * out[2]) if ct is not None]
    if not parts or not needs[0]:
        return [None]
    total = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    is_singular = out[1] == -inf
    others = where(unsqueeze(unsqueeze(is_singular, -1), -1), identity(a), a)
    total = where(is_singular, nan, total)
    return [mT(inv(others)) * unsqueeze(unsqueeze(total, -1), -1)]


slogdet_op = Op(
    name="slogdet",
    doc="The sign and the logarithm of the absolute value of determinants, and these: the products "
    "of the pivots, which have more digits than the exponential of their logarithm.",
    infer=_slogdet_infer,
    reference=strict(_slogdet_infer, _slogdet_reference),
    vjp=_slogdet_vjp,
    lowering=LoopNest(_slogdet_emit),
    numpy="slower",
    grad_name="LinalgSlogdetBackward0",
)


class LogDeterminant(NamedTuple):
    """The sign of determinants, and the logarithm of the absolute value."""

    sign: Any
    logabsdet: Any


def slogdet(A: Any) -> LogDeterminant:
    """The sign and the logarithm of the absolute value of the determinants of (..., n, n); 0 and
    -inf of a singular matrix, whose gradient is NaN."""
    return LogDeterminant(*slogdet_op(A)[:2])


@by_autocast
def det(A: Any) -> Any:
    """The determinants of square matrices (..., n, n). The gradient of a singular one are its
    cofactors; the second derivatives of one that is singular, or nearly so, have half the digits of
    the dtype, but of up to four rows in a graph, where it is a sum of products.

    >>> import staticflow as sf
    >>> sf.linalg.det(sf.tensor([[1.0, 2.0], [3.0, 5.0]]))
    tensor(-1.0000)
    """
    value = slogdet_op(A)[2]
    if not may_be_differentiated(A):
        return value
    n = closed_size(A.shape[-1])
    if is_traced(A) and isinstance(n, int) and 0 < n <= _SMALL:
        return keep_history(_expansion(A, n), stop_gradient(value))
    near = _near_singular(A)
    if is_traced(A):
        return _value_of_both(A, near, value)
    return _value_of_both(A, near, value) if near.any() else value


_SMALL = 4
"""Rows of a matrix whose determinant has as few products as its elimination, or fewer."""


def _expansion(A: Any, n: int) -> Any:
    """The determinants of ``A`` as sums of products, by Laplace's expansion from the last row up:
    polynomials, of which all derivatives are right, of singular matrices too."""
    minors: dict[tuple[int, ...], Any] = {(c,): A[..., n - 1, c] for c in range(n)}
    for row in reversed(range(n - 1)):
        elements = [A[..., row, c] for c in range(n)]
        minors = {
            columns: functools.reduce(
                operator.add,
                (
                    elements[c] * minors[columns[:i] + columns[i + 1 :]] * (-1) ** i
                    for i, c in enumerate(columns)
                ),
            )
            for columns in itertools.combinations(range(n), n - row)
        }
    return minors[(*range(n),)]


def _near_singular(A: Any) -> Any:
    """Which matrices have a pivot so much smaller than an element that second derivatives, in which
    inverses cancel, have no digits left."""
    factors = lu_op(stop_gradient(A), exchanges=True)[0]
    pivots, elements = abs(diagonal(factors, 0, -2, -1)), flatten(abs(stop_gradient(A)), -2)
    none = new_full(elements, (*elements.shape[:-1], 1), 0)  # there may be no element
    largest = amax(cat([elements, none], -1), -1)
    least = amin(cat([pivots, none + inf], -1), -1)
    return logical_and(least <= largest * PRECISION[A.dtype] ** (1 / 3), largest < inf)


def _value_of_both(A: Any, near: Any, value: Any) -> Any:
    """The determinants ``value`` with derivatives by elimination, or by singular values where
    matrices are ``near`` singular."""
    is_near = unsqueeze(unsqueeze(near, -1), -1)
    usual = slogdet_op(where(is_near, identity(A), A))[2]
    other = _by_singular_values(where(is_near, A, identity(A)))
    return keep_history(where(near, other, usual), stop_gradient(value))


def _by_singular_values(A: Any) -> Any:
    """The determinants of ``A``: of the nearly diagonal ``U^T A V``, whose inverse has small errors
    in every element. Singular values that are nearly 0 are moved up and down by ``step``, and the
    mean of both taken, in which the first power of it cancels; the second is a rounding error."""
    u, s, vh = map(stop_gradient, svd(stop_gradient(A), False))
    none = new_full(s, (*s.shape[:-1], 1), 0)
    largest = amax(cat([s, none], -1), -1, keepdim=True)
    step = where(largest > 0, largest, 1.0) * PRECISION[A.dtype] ** 0.5
    middle = matmul(matmul(mT(u), A), mT(vh))
    moves = diag_embed(where(s < step / 2, step, 0.0))
    up, down = slogdet_op(middle + moves)[2], slogdet_op(middle - moves)[2]
    return slogdet_op(matmul(u, vh))[0] * (up + down) * 0.5


def logdet(input: Any) -> Any:
    """The logarithm of the determinants of (..., n, n); NaN of negative ones."""
    sign, size, _ = slogdet_op(input)
    return log(sign) + size
