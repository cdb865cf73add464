"""Weights of a norm that is learned apart, of orthonormal columns, or whose largest singular value
is 1."""

from __future__ import annotations

from typing import Any, ClassVar

from staticflow.errors import ArgumentError
from staticflow.graph.dims import prod
from staticflow.graph.locs import format_locs, here
from staticflow.nn.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from staticflow.nn.functional import normalize
from staticflow.nn.module import Module
from staticflow.nn.utils.orthogonal import orthogonal
from staticflow.nn.utils.parametrize import register_parametrization
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.view import reshape
from staticflow.ops.declaring.declare import normalize_dim
from staticflow.ops.declaring.foreign import refuses_foreign_in
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.random.sampling import randn
from staticflow.ops.statistics.moments import vector_norm
from staticflow.ops.symbols.effect import effect, read

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_FIRST_ITERATIONS = 15
"""Iterations by which the singular vectors are found before any is made in training."""


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """``module``, whose weight is ``g * v / norm(v)``. ``parametrizations.NAME.original0`` is g,
    the norm along all dims but ``dim`` (of all elements where that is None), ``original1`` is v.

    Source: Salimans and Kingma, "Weight Normalization: A Simple Reparameterization to Accelerate
    Training of Deep Neural Networks" (2016).

    >>> import staticflow as sf
    >>> layer = weight_norm(sf.nn.Linear(3, 2))
    >>> [(name, p.shape) for name, p in layer.parametrizations.weight.named_parameters()]
    [('original0', (2, 1)), ('original1', (2, 3))]
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _WeightNorm(Module):
    older_endings: ClassVar[dict[str, str]] = {"original0": "_g", "original1": "_v"}

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, g: Any, v: Any) -> Any:
        return v * (g / self._norm(v))

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        return self._norm(weight), weight

    def _norm(self, v: Any) -> Any:
        if self.dim is None:
            return vector_norm(v)
        own = normalize_dim(self.dim, v.ndim, "weight_norm")
        others = tuple(d for d in range(v.ndim) if d != own)
        return vector_norm(v, 2, others, keepdim=True) if others else v.abs()

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """``module``, whose weight is divided by its largest singular value, as a matrix whose rows are
    the weight's dim ``dim`` (by default 0, of transposed convolutions 1) and whose columns are all
    others. Of a vector it is divided by the norm.

    Its singular vectors are buffers, which each reading of the weight in training makes better by
    ``n_power_iterations`` of the power method, in a compiled program at each call. They begin as
    random vectors after 15 iterations.

    Source: Miyato et al., "Spectral Normalization for Generative Adversarial Networks" (2018).

    >>> import staticflow as sf
    >>> layer = sf.nn.Linear(2, 2)
    >>> with sf.no_grad():
    ...     _ = layer.weight.copy_(sf.tensor([[4.0, 0.0], [0.0, 1.0]]))
    >>> spectral_norm(layer).weight.round(decimals=4)
    tensor([[1.0000, 0.0000],
            [0.0000, 0.2500]], grad_fn=<DivBackward0>)
    """
    iterations = as_size(n_power_iterations)
    if not isinstance(iterations, int) or iterations < 1:
        raise ArgumentError(
            f"spectral_norm: n_power_iterations is {iterations}; it must be 1 at least, "
            f"at {format_locs(here())}"
        )
    if dim is None:
        dim = int(isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d))
    weight: Any = getattr(module, name, None)
    if not hasattr(weight, "__sf_mode__"):
        raise ArgumentError(
            f"spectral_norm: {type(module).__name__} has no tensor {name!r}, "
            f"at {format_locs(here())}"
        )
    made = _SpectralNorm(weight.detach(), iterations, dim, eps)
    return register_parametrization(module, name, made)


class _SpectralNorm(Module):
    older_endings: ClassVar[dict[str, str]] = {"original": "_orig", "0._u": "_u", "0._v": "_v"}

    def __init__(self, weight: Any, iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        self.iterations, self.eps = iterations, eps
        self.dim = normalize_dim(dim, weight.ndim, "spectral_norm")
        if weight.ndim > 1:
            matrix = self._matrix(weight)
            u, v = (
                normalize(randn(n, dtype=weight.dtype).to(weight.device), dim=0, eps=eps)
                for n in matrix.shape
            )
            u, v = self._better(matrix, u, v, _FIRST_ITERATIONS)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        u, v = (read(x, weight).clone() for x in (self._u, self._v))
        if not self.training:
            return weight / (u * (matrix @ v)).sum()
        u, v = self._better(matrix.detach(), u, v, self.iterations)
        out = weight / (u * (matrix @ v)).sum()
        return effect(effect(out, self._u, u), self._v, v)

    def right_inverse(self, value: Any) -> Any:
        return value

    def _matrix(self, weight: Any) -> Any:
        rows = weight.shape[self.dim]
        return reshape(movedim(weight, self.dim, 0), (rows, prod(weight.shape) // rows))

    def _better(self, matrix: Any, u: Any, v: Any, iterations: int) -> tuple[Any, Any]:
        """Vectors nearer to the first singular ones."""
        for _ in range(iterations):
            u = normalize(matrix @ v, dim=0, eps=self.eps)
            v = normalize(matrix.mT @ u, dim=0, eps=self.eps)
        return u, v

    def extra_repr(self) -> str:
        return f"n_power_iterations={self.iterations}, dim={self.dim}, eps={self.eps}"


refuses_foreign_in(globals())
