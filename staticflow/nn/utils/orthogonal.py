"""Matrices with orthonormal columns as functions of any matrices."""

from __future__ import annotations

import math
from typing import Any

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.dtypes import float64, int64
from staticflow.graph.locs import format_locs, here
from staticflow.nn.module import Module
from staticflow.nn.utils.parametrize import register_parametrization
from staticflow.ops.along.extremes import amax
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.axes import mT
from staticflow.ops.basics.creation import full_like, zeros_like
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.view import unsqueeze
from staticflow.ops.declaring.foreign import refuses_foreign_in
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.elementwise.maths import abs, ceil, exp2, isfinite, log2
from staticflow.ops.loops.while_loop import fori_loop
from staticflow.ops.matrices.factors import qr
from staticflow.ops.matrices.solving import identity, solve
from staticflow.ops.matrices.triangle import diag_embed, diagonal, tril, triu
from staticflow.ops.matrices.triangular import solve_triangular
from staticflow.ops.random.sampling import randn

__all__ = ["orthogonal"]

_MAPS = ("matrix_exp", "cayley", "householder")


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """``module``, whose weight (..., n, k) has orthonormal columns, or rows where n is less than k,
    whatever is trained.

    ``orthogonal_map`` is how: "matrix_exp", the exponential of a skew-symmetric matrix, which is
    the default of square ones; "cayley", ``(I + A / 2) (I - A / 2)^-1`` of such an A; or
    "householder", a product of reflections. With ``use_trivialization`` what is made is multiplied
    by a buffer ``base``, so that the weight begins as it was, made orthogonal, and may be assigned;
    without it only "householder" can be.

    Sources: Lezcano-Casado, "Trivializations for Gradient-Based Optimization on Manifolds" (2019);
    Joffrain et al., "Accumulating Householder Transformations, Revisited" (2006).

    >>> import staticflow as sf
    >>> layer = orthogonal(sf.nn.Linear(3, 3))
    >>> sf.allclose(layer.weight @ layer.weight.mT, sf.eye(3), atol=1e-6)
    True
    """
    use_trivialization = as_bool("use_trivialization", use_trivialization)
    weight: Any = getattr(module, name, None)
    at = f"at {format_locs(here())}"
    if not hasattr(weight, "__sf_mode__"):
        raise ArgumentError(f"orthogonal: {type(module).__name__} has no tensor {name!r}, {at}")
    if weight.ndim < 2:
        raise ShapeError(
            f"orthogonal: {name} is of shape {list(weight.shape)}; it must be a matrix, or "
            f"several, {at}"
        )
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in _MAPS:
        raise ArgumentError(
            f"orthogonal: orthogonal_map is {orthogonal_map!r}; it must be one of "
            f"{', '.join(map(repr, _MAPS))}, {at}"
        )
    made = _Orthogonal(weight.shape, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


class _Orthogonal(Module):
    def __init__(self, shape: tuple[int, ...], orthogonal_map: str, trivialized: bool) -> None:
        super().__init__()
        self.shape, self.orthogonal_map, self.trivialized = shape, orthogonal_map, trivialized
        if trivialized:
            self.register_buffer("base", None)

    def forward(self, x: Any) -> Any:
        is_wide = x.shape[-2] < x.shape[-1]
        x = mT(x) if is_wide else x
        found = _reflect(x) if self.orthogonal_map == "householder" else self._turn(x)
        if self.trivialized:
            found = self.base @ found
        return mT(found) if is_wide else found

    def _turn(self, x: Any) -> Any:
        """The first columns of a rotation, of which the lower triangle of ``x`` says the most."""
        n, k = x.shape[-2:]
        x = tril(x)
        if n != k:
            x = cat([x, zeros_like(x[..., :1]).expand(*x.shape[:-1], n - k)], -1)
        a = x - mT(x)
        if self.orthogonal_map == "matrix_exp":
            found = _exponential(a)
        else:
            found = solve(identity(a) - a / 2, identity(a) + a / 2)
        return found[..., :k]

    def right_inverse(self, weight: Any) -> Any:
        if tuple(weight.shape) != tuple(self.shape):
            raise ShapeError(
                f"orthogonal: a value of shape {list(weight.shape)} for a weight of shape "
                f"{list(self.shape)}, at {format_locs(here())}"
            )
        is_wide = weight.shape[-2] < weight.shape[-1]
        q = mT(weight) if is_wide else weight
        if not self.trivialized:
            if self.orthogonal_map != "householder":
                raise ArgumentError(
                    f"orthogonal: of what {self.orthogonal_map!r} makes a value is not known "
                    "without use_trivialization; leave that on, or take 'householder', "
                    f"at {format_locs(here())}"
                )
            found = _reflections_of(q)
            return mT(found) if is_wide else found
        n, k = q.shape[-2:]
        whole = q if n == k else cat([q, randn(*q.shape[:-1], n - k, dtype=q.dtype)], -1)
        if n != k or not _is_orthogonal(whole):
            whole = _orthonormal(whole)
        self.base = whole.detach().clone()
        # with these on the diagonal the reflections make the unit matrix, and so do the rotations
        return -_unit(weight)

    def extra_repr(self) -> str:
        return f"orthogonal_map={self.orthogonal_map}, use_trivialization={self.trivialized}"


def _unit(x: Any) -> Any:
    """Ones on the diagonal of zeros, of the shape of ``x``."""
    return triu(tril(full_like(x.detach(), 1)))


def _is_orthogonal(q: Any) -> bool:
    eps = 2.0**-52 if q.dtype is float64 else 2.0**-23
    apart = abs(mT(q) @ q - identity(q))
    return bool((apart <= 10 * q.shape[-2] * eps).all().item())


def _orthonormal(x: Any) -> Any:
    """The orthonormal matrix of a QR factorisation whose R has no negative diagonal."""
    q, r = qr(x)
    return q * unsqueeze(where(diagonal(r, 0, -2, -1) < 0, -1.0, 1.0), -2)


# -- the maps -------------------------------------------------------------------------------------

_ORDER = 7
"""The degree of the polynomials whose quotient is the exponential."""

_RADIUS = {False: 3.9257, True: 0.9504}
"""Up to which 1-norm that quotient is exact to the last digit in float32, and in float64: Higham,
"The Scaling and Squaring Method for the Matrix Exponential Revisited" (2005), table 2.3."""


def _exponential(a: Any) -> Any:
    """The exponential of matrices (..., n, n): of ``a / 2^s``, which is squared s times."""
    norm = amax(abs(a.detach()).sum(-2)) if 0 not in a.shape else full_like(a.detach().sum(), 0)
    times = ceil(log2(norm / _RADIUS[a.dtype is float64])).clamp(min=0)
    times = where(isfinite(times), times, 0.0)
    a = a * exp2(-times)
    square, unit = a @ a, identity(a)
    odd, even = (
        _polynomial(square, unit, [_coefficient(j) for j in range(first, _ORDER + 1, 2)])
        for first in (1, 0)
    )
    odd = a @ odd
    found = solve(even - odd, even + odd)
    return fori_loop(0, times.to(int64), lambda i, x: x @ x, found)


def _coefficient(j: int) -> float:
    """The coefficient of the power j in the numerator of the Padé approximation of exp."""
    return math.factorial(2 * _ORDER - j) / (math.factorial(_ORDER - j) * math.factorial(j))


def _polynomial(x: Any, unit: Any, coefficients: list[float]) -> Any:
    total = unit * coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total @ x + unit * c
    return total


def _reflect(x: Any) -> Any:
    """The first columns of the product of reflections ``I - tau v v^T``, one for each column of
    ``x``, whose part below the diagonal is v behind its 1; times the diagonal, 1 or -1.

    The product is ``I - V T V^T`` with ``T^-1 = diag(1 / tau) + triu(V^T V, 1)``.
    """
    k = x.shape[-1]
    below = tril(x, -1)
    v = below + _unit(x)
    tau = 2.0 / (1.0 + (below * below).sum(-2))
    inner = unsqueeze(tau, -1) * triu(mT(v) @ v, 1)
    t = solve_triangular(inner, diag_embed(tau), upper=True, unitriangular=True)
    signs = diagonal(x.detach(), 0, -2, -1).trunc()
    return (_unit(x) - v @ (t @ mT(v[..., :k, :]))) * unsqueeze(signs, -2)


def _reflections_of(q: Any) -> Any:
    """What `_reflect` makes ``q`` from, if that has orthonormal columns; else what is next to it in
    its QR factorisation."""
    rest = q.detach()
    n, k = rest.shape[-2:]
    columns, signs = [], []
    for j in range(k):
        own = rest[..., j:, j]
        first, below = own[..., :1], own[..., 1:]
        is_done = (below == 0).all(-1, keepdim=True) if n > j + 1 else first == first
        norm = (own * own).sum(-1, keepdim=True).sqrt()
        beta = where(first < 0, norm, -norm)
        v = where(is_done, 0.0, below / where(is_done, 1.0, first - beta))
        v = cat([full_like(first, 1), v], -1)
        tau = where(is_done, 0.0, 2.0 / (v * v).sum(-1, keepdim=True))
        part = rest[..., j:, :]
        part = part - unsqueeze(tau * v, -1) @ (unsqueeze(v, -2) @ part)
        rest = cat([rest[..., :j, :], part], -2)
        # no reflection is one that `_reflect` makes all the same, and that its sign undoes
        signs.append(where(is_done, where(first < 0, 1.0, -1.0), where(beta < 0, -1.0, 1.0)))
        zeros = zeros_like(own[..., :1]).expand(*own.shape[:-1], j + 1)
        columns.append(cat([zeros, v[..., 1:]], -1))
    below = cat([unsqueeze(c, -1) for c in columns], -1)
    return below + _unit(q) * unsqueeze(cat(signs, -1), -2)


refuses_foreign_in(globals())
