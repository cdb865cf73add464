"""Normal distributions of vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import e, log, pi
from typing import Any, ClassVar

from staticflow.distributions.distribution import Symmetric, as_tensors, one_of
from staticflow.errors import ShapeError
from staticflow.graph.dims import Size
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.expand import expand
from staticflow.ops.elementwise.maths import abs
from staticflow.ops.elementwise.maths import log as log_of
from staticflow.ops.matrices.contract import matmul
from staticflow.ops.matrices.solving import cholesky, inv
from staticflow.ops.matrices.triangle import diagonal, tril
from staticflow.ops.matrices.triangular import solve_triangular
from staticflow.ops.random.sampling import Source, gives_back, randn_like

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Symmetric):
    """Normal distributions of vectors of the mean ``loc``, with one of ``covariance_matrix``, its
    inverse ``precision_matrix``, and ``scale_tril``, its Cholesky factor: lower triangular with a
    diagonal above 0.

    >>> import staticflow as sf
    >>> d = sf.distributions.MultivariateNormal(sf.zeros(2), sf.eye(2))
    >>> d.log_prob(sf.zeros(2))
    tensor(-1.8379)
    """

    has_rsample = True
    own_dims: ClassVar[Mapping[str, int]] = {"loc": 1, "scale_tril": 2}

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        what = "MultivariateNormal"
        name = one_of(
            what,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        (loc,) = as_tensors(what, loc)
        given = covariance_matrix if covariance_matrix is not None else precision_matrix
        (given,) = as_tensors(what, given if scale_tril is None else scale_tril)
        if loc.ndim < 1 or given.ndim < 2:
            raise ShapeError(
                f"{what}: loc is of shape {list(loc.shape)} and {name} of shape "
                f"{list(given.shape)}; they must be a vector and a matrix, or a batch of them, at "
                f"{format_locs(here())}"
            )
        # what both broadcast to
        loc = loc + given[..., 0] * 0
        given = expand(given, (*loc.shape, loc.shape[-1]))
        super().__init__(loc.shape[:-1], loc.shape[-1:], {}, validate_args)
        if name == "scale_tril":
            lower, above = tril(given) == given, diagonal(given, dim1=-2, dim2=-1) > 0
            given = self._check(given, above, name, "above 0 on the diagonal")
            factor = self._check(given, lower, name, "0 above the diagonal")
        else:
            # a product of float32 is symmetric up to its last bits; NaN is not
            apart, size = abs(given - given.mT), abs(given).amax((-2, -1), keepdim=True)
            given = self._check(given, apart <= size * 1e-5, name, "symmetric")
            factor = cholesky(given if name == "covariance_matrix" else inv(given))
        self.loc, self.scale_tril = loc, factor
        self._params = {"loc": loc, "scale_tril": factor}

    @property
    def covariance_matrix(self) -> Any:
        """``L @ L.mT`` of the factor ``L``."""
        return matmul(self.scale_tril, self.scale_tril.mT)

    @property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return inv(self.covariance_matrix)

    @property
    def variance(self) -> Any:
        """The diagonal of the covariance."""
        return self.scale_tril.square().sum(-1)

    @gives_back
    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """``loc + L @ z`` of standard normal draws ``z``, with that gradient."""
        loc = expand(self.loc, self._extended_shape(sample_shape))
        z = randn_like(loc, generator=generator)
        return loc + matmul(self.scale_tril, z.unsqueeze(-1)).squeeze(-1)

    def _log_scale(self) -> Any:
        """The logarithm of the determinant of the factor."""
        return log_of(diagonal(self.scale_tril, dim1=-2, dim2=-1)).sum(-1)

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density."""
        x = self._value(value)
        apart = self._check(x, x == x, "value", "numbers") - self.loc
        factor = expand(self.scale_tril, (*apart.shape, apart.shape[-1]))
        z = solve_triangular(factor, apart.unsqueeze(-1), upper=False).squeeze(-1)
        return (z * z + log(2 * pi)).sum(-1) * -0.5 - self._log_scale()

    def entropy(self) -> Any:
        """``log det(2 pi e covariance) / 2``."""
        return (self.loc * 0 + log(2 * pi * e) / 2).sum(-1) + self._log_scale()
