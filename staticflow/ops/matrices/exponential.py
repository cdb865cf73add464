"""The exponential of matrices."""

from __future__ import annotations

from math import factorial
from typing import Any

import numpy as np

from staticflow.graph.dtypes import float32
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.declaring.declare import per_arg, strict
from staticflow.ops.declaring.lowering import Host
from staticflow.ops.matrices.factors import matrix_sizes
from staticflow.ops.matrices.solving import square, with_our_errors

__all__ = ["matrix_exp", "matrix_exp_op"]

_DEGREE = 13
_LARGEST = 5.371920351148152
"""The 1-norm up to which the fraction of degree 13 is exact to float64 (Higham 2005, table 2.3)."""

_FRACTION = [
    factorial(2 * _DEGREE - k) // (factorial(k) * factorial(_DEGREE - k))
    for k in range(_DEGREE + 1)
]


def _infer(facts: Facts, a: TensorType) -> TensorType:
    matrix_sizes(a)
    square(facts, a)
    return a


def _exponential(xp: Any, a: Any) -> Any:
    """Padé's fraction of ``a / 2 ** s``, squared s times (Higham 2005, "The scaling and squaring
    method for the matrix exponential revisited"), in float64."""
    x = a.astype(xp.float64)
    n = x.shape[-1]
    if not x.size:
        return a.copy()
    norms = xp.abs(x).sum(-2).max(-1)
    finite = xp.isfinite(norms)
    with np.errstate(all="ignore"):
        scales = xp.ceil(xp.log2(xp.where(finite, norms, 0.0) / _LARGEST))
        scales = xp.maximum(scales, 0.0)[..., None, None]
        x = xp.where(finite[..., None, None], x, 0.0) / 2.0**scales
        x2 = x @ x
        terms = [float(c / _FRACTION[0]) for c in _FRACTION]
        odd = terms[-1] * xp.eye(n)
        even = terms[-2] * xp.eye(n)
        for k in range(_DEGREE - 2, 0, -2):
            odd = odd @ x2 + terms[k] * xp.eye(n)
            even = even @ x2 + terms[k - 1] * xp.eye(n)
        odd = x @ odd
        found = xp.linalg.solve(even - odd, even + odd)
        for i in range(int(scales.max())):
            found = xp.where(i < scales, found @ found, found)
        return xp.where(finite[..., None, None], found, xp.nan).astype(a.dtype)


def _derivative(ct: Any, out: Any, a: Any) -> Any:
    # the upper right block of exp([[X, G], [0, X]]), where X is the transpose, is the derivative of
    # exp at X in the direction of G (Higham 2008, "Functions of matrices", 3.16)
    x = mT(a)
    n = a.shape[-1]
    rows = cat([cat([x, ct], -1), cat([zeros_like(x), x], -1)], -2)
    return narrow(narrow(matrix_exp_op(rows), -2, 0, n), -1, n, n)


matrix_exp_op: Op = Op(
    name="matrix_exp",
    doc="The sum of ``a ** k / k!`` over all powers of square matrices.",
    infer=_infer,
    reference=strict(_infer, with_our_errors(_exponential)),
    vjp=per_arg(_derivative),
    lowering=Host(),
    grad_name="LinalgMatrixExpBackward0",
)


def matrix_exp(input: Any) -> Any:
    """The exponential of square matrices (..., n, n): the sum of ``input ** k / k!`` over all k, to
    the precision of their dtype. What has an element that is not finite gives NaN. It has
    derivatives of any order; a compiled program has Python compute it.

    >>> import staticflow as sf
    >>> sf.matrix_exp(sf.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 1.], [0., 1.]])
    """
    dtype = input.dtype
    if dtype.is_floating and dtype.itemsize == 2:
        return cast(matrix_exp_op(cast(input, dtype=float32)), dtype=dtype)
    return matrix_exp_op(input)
