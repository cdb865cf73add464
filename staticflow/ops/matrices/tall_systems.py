"""Systems of more equations than unknowns, by reflections: what comes nearest to the right sides.

Of columns that depend on each other nothing is solved. Whether they do is told by a bound: the
largest singular value is at most the Frobenius norm of the triangular factor r, and the smallest at
least the inverse of that of its inverse. Where these do not tell, the roots of the norms of rT r
and of the same of the inverse may, which are at most as large, and take a product each.

Golub and Van Loan 2013, "Matrix Computations", 5.3.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.dims import Size, ceil_div, dim_max, dim_min
from staticflow.graph.dtypes import bool_, float32, float64
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.declaring.declare import strict
from staticflow.ops.declaring.lowering import LoopNest
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.elimination import copy_in, each_matrix, solve_upper
from staticflow.ops.matrices.factors import matrix_sizes
from staticflow.ops.matrices.householder import reflections_of
from staticflow.ops.matrices.matrix_work import TeamWork, Work
from staticflow.ops.matrices.solving import lower_op, upper_op
from staticflow.ops.matrices.triangle import tril

__all__ = ["PRECISION", "least_squares_op"]

PRECISION = {float32: 2.0**-23, float64: 2.0**-52}
"""The distance of 1 to the next number."""

_MARGIN = 0.5
"""The bound is less than that, as what it is computed from is rounded."""

_STRIP = 4
"""Vectors, and rows, of a product that are added up at a time, in registers."""


def _infer(facts: Facts, a: TensorType, b: TensorType, *, rcond: float | None) -> Any:
    batch, _, n = matrix_sizes(a)
    if b.dtype is not a.dtype:
        raise DTypeError(f"{a} and {b} are of different dtypes")
    *_, columns = matrix_sizes(b)
    for x, y in zip(a.shape[:-1], b.shape[:-1], strict=True):
        facts.equal(x, y, f"the rows of {a} and of {b}")
    shapes = (*batch, n, columns), (*batch, columns), (*batch, n, n)
    return (*(TensorType(a.dtype, shape) for shape in shapes), TensorType(bool_, batch))


def _reference(xp: Any, a: Any, b: Any, *, rcond: float | None) -> Any:
    m, n = a.shape[-2:]
    one = xp.broadcast_to(xp.eye(n, dtype=a.dtype), (*a.shape[:-2], n, n))
    if m < n:
        nothing = xp.zeros((*a.shape[:-2], n, b.shape[-1]), a.dtype)
        return nothing, nothing[..., 0, :] * 0, one, xp.zeros(a.shape[:-2], bool)
    q, r = xp.linalg.qr(a, "complete")
    r, right = r[..., :n, :], xp.swapaxes(q, -1, -2) @ b
    regular = (xp.diagonal(r, axis1=-2, axis2=-1) != 0).all(-1)
    inverse = xp.linalg.inv(xp.where(regular[..., None, None], r, one))
    norms, sharper = zip(*(_norms(xp, x) for x in (r, inverse)), strict=True)
    bound = xp.fmin(norms[0] * norms[1], sharper[0] * sharper[1])
    least = xp.finfo(a.dtype).eps * max(m, n) if rcond is None else rcond
    full = regular & (bound * least < _MARGIN) & xp.isfinite(bound)
    x = xp.where(full[..., None, None], inverse @ right[..., :n, :], 0)
    left = xp.where(full[..., None], (right[..., n:, :] ** 2).sum(-2), 0)
    return x.astype(a.dtype), left.astype(a.dtype), xp.where(full[..., None, None], r, one), full


def _norms(xp: Any, r: Any) -> tuple[Any, Any]:
    """The Frobenius norms of matrices, and the roots of those of ``rT @ r``."""
    norm = xp.sqrt((r * r).sum((-2, -1)))
    unit = r / xp.where(norm == 0, 1, norm)[..., None, None]
    product = xp.swapaxes(unit, -1, -2) @ unit
    return norm, norm * xp.sqrt(xp.sqrt((product * product).sum((-2, -1))))


def _emit(nest: Any) -> None:
    k, dtype = nest.k, nest.in_type(0).dtype
    (*_, rows, n), columns = nest.in_shape(0), nest.in_shape(1)[-1]
    count, width = dim_min(rows, n), n + columns
    with each_matrix(nest, columns) as (b, work):
        system = work.beside(n, width + n)
        squares = work.room(2, width + n)
        copy_in(nest, work, 1, b, columns, n, turned=False)
        reflections_of(work, count, width).restore()
        regular = _put_system(work, system, count, width)
        solve_upper(system)
        least: Any = nest.attrs["rcond"]
        if least is None:
            larger = k.cast(k.index_value(dim_max(rows, n)), dtype)
            least = k.mul(larger, PRECISION[dtype])
        regular = k.apply("and", regular, k.compare("ge", k.index_value(rows), k.index_value(n)))
        full = k.var(k.const(False, bool_))
        for norm in _norm, _sharper_norm:
            with k.when(k.apply("and", regular, k.apply("not", full))):
                bound = k.mul(*(norm(system, squares, lo) for lo in (0, width)))  # r, its inverse
                is_finite = k.compare("lt", bound, float("inf"))
                is_below = k.compare("lt", k.mul(bound, least), _MARGIN)
                k.set(full, k.apply("and", is_finite, is_below))
        nest.store(3, b, full)
        for i, j in work.elements_along(n, 0, columns):
            nest.store(0, (*b, i, j), k.select(full, system.at(i, n + j), 0.0))
        for i, j in work.elements_along(n, 0, n):
            is_one = k.compare("eq", k.index_value(j), k.index_value(i))
            one = k.select(is_one, k.const(1.0, dtype), 0.0)
            nest.store(2, (*b, i, j), k.select(full, system.at(i, j), one))
        _put_squares(work, squares, (n, width), (count, rows))
        for _, j in work.elements_along(1, 0, columns):
            square = k.load(squares.buffer, squares.at(0, n + j))
            nest.store(1, (*b, j), k.select(full, square, 0.0))


def _put_system(work: Work, system: Work, count: Size, width: Size) -> Any:
    """Put the triangular factor, what the right sides have become, and the identity behind both;
    gives whether the diagonal is without zeros. Where a zero is there is 1 instead, and so in rows
    that the matrix has not."""
    nest, k, n = work.nest, work.k, system.rows
    regular = k.var(k.const(True, bool_))
    if isinstance(system, TeamWork):
        for i, j in system.elements(n, width + n):
            row, column = k.index_value(i), k.index_value(j)
            there = k.compare("lt", row, k.index_value(count))
            above = k.apply("and", there, k.compare("lt", column, k.index_value(width)))
            above = k.apply("and", above, k.compare("ge", column, row))
            behind = k.compare("eq", column, k.index_value(width + i))
            is_one = k.apply(
                "or", behind, k.apply("and", k.compare("eq", column, row), k.apply("not", there))
            )
            value = k.var(k.select(is_one, k.const(1.0, work.dtype), 0.0))
            with k.when(above):
                k.set(value, work.at(i, j))
            system.put(i, j, value)
        for i in system.each_of(0, count):
            is_some = k.compare("ne", system.at(i, i), 0.0)
            k.accumulate(regular, "and", is_some)
            system.put(i, i, k.select(is_some, system.at(i, i), 1.0))
        return k.freeze(regular)
    for i in nest.each("i", 0, n):
        for left, right, behind in ((0, width, 0), (width, width + n, width)):
            for strip in system.strips(left, right):
                for j, lanes, bound in strip:
                    is_one = k.compare("eq", k.index_value(j, lanes), k.index_value(behind + i))
                    one = k.const(1.0, work.dtype, lanes)
                    system.put(i, j, k.select(is_one, one, 0.0), bound)
    for i in nest.each("i", 0, count):
        for strip in system.strips(0, width):
            for j, lanes, bound in strip:
                is_above = k.compare("ge", k.index_value(j, lanes), k.index_value(i))
                system.put(i, j, k.select(is_above, work.at(i, j, lanes, bound), 0.0), bound)
        diagonal = system.at(i, i)
        is_some = k.compare("ne", diagonal, 0.0)
        k.accumulate(regular, "and", is_some)
        system.put(i, i, k.select(is_some, diagonal, 1.0))
    return k.freeze(regular)


def _norm(system: Work, squares: Any, lo: Size) -> Any:
    """The Frobenius norm of the square matrix that begins at a column."""
    n = system.rows
    _put_squares(system, squares, (lo, lo + n), (0, n))
    return system.k.sqrt(_sum_of(system, squares, 0, lo))


def _sharper_norm(system: Work, squares: Any, lo: Size) -> Any:
    """The root of the Frobenius norm of rT r, where r is the triangular matrix that begins at a
    column. What is above the diagonal of the product counts twice, and what is below not at all. It
    is computed of r by its norm: the fourth powers of its elements would soon be infinite."""
    k, n = system.k, system.rows
    norm = _norm(system, squares, lo)
    scale = k.div(1.0, norm)
    for strip in system.strips(lo, lo + n, _STRIP):
        first = system.nest.first_of(strip[0][0]) - lo
        behind = dim_min(first + sum(lanes for _, lanes, _ in strip), n)
        totals = [k.var(k.const(0.0, system.dtype, lanes)) for _, lanes, _ in strip]
        for block in system.nest.each("block", 0, ceil_div(behind, _STRIP)):
            rows = [dim_min(_STRIP * block + i, n - 1) for i in range(_STRIP)]
            products = [
                [k.var(k.const(0.0, system.dtype, lanes)) for _, lanes, _ in strip] for _ in rows
            ]
            for q in system.nest.each("q", 0, dim_min(_STRIP * (block + 1), n)):
                factors = [system.at(q, lo + i) for i in rows]
                for at, (j, lanes, bound) in enumerate(strip):
                    more = system.at(q, j, lanes, bound)
                    for factor, sums in zip(factors, products, strict=True):
                        k.set(sums[at], k.fma(factor, more, sums[at]))
            for i, sums in enumerate(products):
                row = k.index_value(_STRIP * block + i)
                is_within = k.compare("lt", row, k.index_value(behind))
                once = k.select(is_within, k.const(1.0, system.dtype), 0.0)
                weight = k.select(k.compare("lt", row, k.index_value(first)), 2.0, once)
                for total, product in zip(totals, sums, strict=True):
                    x = k.mul(k.mul(k.freeze(product), scale), scale)
                    k.set(total, k.fma(k.mul(x, x), weight, total))
        for total, (j, _, bound) in zip(totals, strip, strict=True):
            k.store(squares.buffer, squares.at(1, j), k.freeze(total), bound)
    return k.mul(norm, k.sqrt(k.sqrt(_sum_of(system, squares, 1, lo))))


def _sum_of(system: Work, squares: Any, row: int, lo: Size) -> Any:
    """The sum of the numbers that a ``row`` of ``squares`` holds, one for each column of the square
    matrix that begins at column ``lo``."""
    k = system.k
    total = k.var(k.const(0.0, system.dtype))
    for j in system.nest.each("j", 0, system.rows):
        k.set(total, k.add(total, k.load(squares.buffer, squares.at(row, lo + j))))
    return k.freeze(total)


def _put_squares(work: Work, to: Any, columns: tuple[Size, Size], rows: tuple[Size, Size]) -> None:
    """Store for each of some columns the sum of the squares of its elements in some rows."""
    k = work.k
    for strip in work.strips(*columns, 4):
        totals = [k.var(k.const(0.0, work.dtype, lanes)) for _, lanes, _ in strip]
        for i in work.nest.each("i", *rows):
            for total, (j, lanes, bound) in zip(totals, strip, strict=True):
                x = work.at(i, j, lanes, bound)
                k.set(total, k.fma(x, x, total))
        for total, (j, _, bound) in zip(totals, strip, strict=True):
            k.store(to.buffer, to.at(0, j), k.freeze(total), bound)


def _vjp(needs: Any, cts: Any, out: Any, a: Any, b: Any, *, rcond: float | None) -> list[Any]:
    # With aT a = rT r, rT r x = aT b gives rT r dx = daT (b - a x) - aT da x + aT db. The gradient
    # by r is that of `qr` without one by the orthogonal factor.
    x, _, r, _ = out
    of_x, of_squares, of_r, _ = cts
    of_a, of_b = [], []
    left = b - matmul(a, x)
    if of_x is not None:
        z = upper_op(r, lower_op(mT(r), of_x))
        of_b.append(matmul(a, z))
        of_a.append(matmul(left, mT(z)) - matmul(of_b[0], mT(x)))
    if of_squares is not None:
        of_b.append(left * unsqueeze(of_squares * 2, -2))
        of_a.append(-matmul(of_b[-1], mT(x)))
    if of_r is not None:
        inner = matmul(r, mT(of_r))
        q = mT(lower_op(mT(r), mT(a)))
        both = matmul(q, tril(inner) + mT(tril(inner, -1)))
        of_a.append(mT(upper_op(r, mT(both))))
    return [functools.reduce(operator.add, of) if of else None for of in (of_a, of_b)]


least_squares_op = Op(
    name="least_squares",
    doc="The x for which ``a @ x`` is nearest to b, the sums of squares that are left in columns "
    "of b, an upper triangular r with ``rT @ r = aT @ a``, and whether each a surely has as many "
    "singular values above ``rcond`` times the largest as columns. Where not, x and the sums are 0 "
    "and r is the identity.",
    infer=_infer,
    reference=strict(_infer, _reference),
    vjp=_vjp,
    lowering=LoopNest(_emit),
    numpy="slower",
    grad_name="LinalgLstsqBackward0",
)
