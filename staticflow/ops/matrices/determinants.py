"""Determinants of square matrices, and their logarithms."""

from __future__ import annotations

from typing import Any, NamedTuple

from staticflow.graph.dims import Size
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.along.extremes import amax
from staticflow.ops.basics.arithmetic import stop_gradient, where
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.creation import new_full
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.view import flatten, unsqueeze
from staticflow.ops.declaring.declare import strict
from staticflow.ops.declaring.lowering import LoopNest
from staticflow.ops.declaring.tracing import is_traced, may_be_differentiated
from staticflow.ops.elementwise.maths import abs, exp, log
from staticflow.ops.matrices.elimination import each_matrix, eliminate
from staticflow.ops.matrices.solving import identity, inv, square
from staticflow.ops.matrices.tall_systems import PRECISION

__all__ = ["LogDeterminant", "det", "logdet", "slogdet", "slogdet_op"]


def _slogdet_infer(facts: Facts, a: TensorType) -> Any:
    square(facts, a)
    one = TensorType(a.dtype, a.shape[:-2])
    return one, one


def _slogdet_reference(xp: Any, a: Any) -> Any:
    sign, logarithm = xp.linalg.slogdet(a)
    return xp.where(xp.isnan(logarithm), logarithm, sign), logarithm


def _slogdet_emit(nest: Any) -> None:
    k, dtype = nest.k, nest.in_type(0).dtype
    with each_matrix(nest) as (b, work):
        sign, total = k.var(k.const(1.0, dtype)), k.var(k.const(0.0, dtype))

        def visit(c: Size, row: Any) -> None:
            stays = k.compare("eq", row, k.index_value(c))
            k.set(sign, k.select(stays, sign, k.neg(sign)))
            value = work.at(c, c)
            k.set(sign, k.mul(sign, k.select(k.compare("eq", value, value), k.sign(value), 1.0)))
            k.set(total, k.add(total, k.log(k.abs(value))))

        eliminate(work, visit)
        zero = k.compare("eq", sign, 0.0)
        logarithm = k.select(zero, float("-inf"), total)
        nest.store(0, b, k.select(k.compare("eq", logarithm, logarithm), sign, logarithm))
        nest.store(1, b, logarithm)


def _slogdet_vjp(needs: Any, cts: Any, out: Any, a: Any) -> list[Any]:
    if cts[1] is None or not needs[0]:
        return [None]
    return [mT(inv(a)) * unsqueeze(unsqueeze(cts[1], -1), -1)]


slogdet_op = Op(
    name="slogdet",
    doc="The sign and the logarithm of the absolute value of determinants.",
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
    -inf of a singular matrix, which has no gradient."""
    return LogDeterminant(*slogdet_op(A))


def det(A: Any) -> Any:
    """The determinants of square matrices (..., n, n). A singular matrix has the gradient of one
    that is moved from it by a little, which is near its cofactors.

    >>> import staticflow as sf
    >>> sf.linalg.det(sf.tensor([[1.0, 2.0], [3.0, 5.0]]))
    tensor(-1.0000)
    """
    sign, size = slogdet_op(A)
    singular = sign == 0
    if not may_be_differentiated(A) or not (is_traced(A) or singular.any()):
        return sign * exp(size)
    moved = slogdet_op(_away_from_singular(A, singular))
    value = moved[0] * exp(moved[1])
    return value - stop_gradient(where(singular, value, 0.0))


def _away_from_singular(A: Any, singular: Any) -> Any:
    """``A``, where matrices that are ``singular`` are none: by a multiple of the identity so small
    that cofactors stay, and so large that second derivatives, in which inverses cancel, do."""
    elements = abs(stop_gradient(flatten(A, -2)))
    none = new_full(elements, (*elements.shape[:-1], 1), 0)  # there may be no element
    largest = amax(cat([elements, none], -1), -1)
    step = where(largest > 0, largest, 1.0) * PRECISION[A.dtype] ** (2 / 3)
    return A + unsqueeze(unsqueeze(where(singular, step, 0.0), -1), -1) * identity(A)


def logdet(input: Any) -> Any:
    """The logarithm of the determinants of (..., n, n); NaN of negative ones."""
    sign, size = slogdet_op(input)
    return log(sign) + size
