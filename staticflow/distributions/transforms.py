"""Changes of variables, under the names of `torch.distributions.transforms`.

Each knows its inverse and the logarithm of how much it stretches, by which the density of what it
makes of a random number is known, which `TransformedDistribution` gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log as log_of
from typing import Any

from staticflow.errors import ArgumentError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional.activations import sigmoid
from staticflow.ops.basics.arithmetic import clamp
from staticflow.ops.elementwise.activation import logsigmoid, softplus
from staticflow.ops.elementwise.maths import abs, exp, expm1, log, log1p, sign
from staticflow.ops.elementwise.trig import atanh, tanh
from staticflow.ops.tensors.queries import finfo

__all__ = [
    "AffineTransform", "ComposeTransform", "ExpTransform", "PowerTransform", "SigmoidTransform",
    "SoftplusTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip


def _no_rule(transform: object, name: str) -> str:
    return f"{type(transform).__name__} does not define {name}; write it in the class"


class Transform:
    """A change of variables that has an inverse, the base of all others. A class of one's own
    defines ``_call(x)``, ``_inverse(y)`` and ``log_abs_det_jacobian(x, y)``, and ``event_dim``, the
    number of dims that belong together, where it is not elementwise.

    ``cache_size=1`` keeps the last pair of a value and its image: the inverse of that image is the
    value itself, and not computed. Where ``tanh`` rounds to 1 there is no other way back.

    >>> import staticflow as sf
    >>> f = sf.distributions.ExpTransform()
    >>> f(sf.tensor(0.0)), f.inv(sf.tensor(1.0)), f.log_abs_det_jacobian(sf.tensor(3.0), None)
    (tensor(1.), tensor(0.), tensor(3.))
    """

    event_dim = 0
    """How many dims of a value belong to one event."""
    sign: Any = 1
    """1 for what grows with its argument, -1 for what falls."""

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ArgumentError(
                f"{type(self).__name__}: cache_size is {cache_size!r}, and must be 0 or 1, at "
                f"{format_locs(here())}"
            )
        self._keeps = bool(cache_size)
        self._kept: tuple[Any, Any] | None = None

    def __call__(self, x: Any) -> Any:
        """The image of ``x``."""
        if self._kept is not None and self._kept[0] is x:
            return self._kept[1]
        y = self._call(x)
        if self._keeps:
            self._kept = x, y
        return y

    @property
    def inv(self) -> Transform:
        """The inverse, a transform too."""
        return _Inverse(self)

    def _back(self, y: Any) -> Any:
        if self._kept is not None and self._kept[1] is y:
            return self._kept[0]
        x = self._inverse(y)
        if self._keeps:
            self._kept = x, y
        return x

    def _call(self, x: Any) -> Any:
        raise NotImplementedError(_no_rule(self, "_call"))

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError(_no_rule(self, "_inverse"))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The logarithm of the absolute determinant of the derivative at ``x``, whose image is
        ``y``."""
        raise NotImplementedError(_no_rule(self, "log_abs_det_jacobian"))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, of: Transform) -> None:
        super().__init__()
        self._of, self.event_dim, self.sign = of, of.event_dim, of.sign

    def __call__(self, x: Any) -> Any:
        return self._of._back(x)

    @property
    def inv(self) -> Transform:
        return self._of

    def _back(self, y: Any) -> Any:
        return self._of(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._of.log_abs_det_jacobian(y, x)

    def __repr__(self) -> str:
        return f"{self._of!r}.inv"


class ComposeTransform(Transform):
    """The transforms ``parts``, the first one first."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        for part in parts:
            if not isinstance(part, Transform):
                raise ArgumentError(
                    f"ComposeTransform: a part is {with_article(type(part))}, and must be a "
                    f"Transform of sf.distributions, at {format_locs(here())}"
                )
        self.parts = list(parts)
        self.event_dim = max((part.event_dim for part in self.parts), default=0)
        self.sign = 1
        for part in self.parts:
            self.sign = self.sign * part.sign

    def _call(self, x: Any) -> Any:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for part in reversed(self.parts):
            y = part._back(y)
        return y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """The sum of those of the parts."""
        total: Any = None
        for part in self.parts:
            image = part(x)
            each = part.log_abs_det_jacobian(x, image)
            dims = self.event_dim - part.event_dim
            each = each.sum(tuple(range(-dims, 0))) if dims else each
            total = each if total is None else total + each
            x = image
        return x * 0 if total is None else total

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts!r})"


identity_transform = ComposeTransform([])
"""What changes nothing."""


class AffineTransform(Transform):
    """``loc + scale * x``; the last ``event_dim`` dims belong together."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim
        is_number = isinstance(scale, int | float)
        self.sign = ((scale > 0) - (scale < 0)) if is_number else sign(scale)

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """``log(abs(scale))`` for each element, added up along the dims of the event."""
        s = self.scale
        each = x * 0 + (log_of(s if s > 0 else -s) if isinstance(s, int | float) else log(abs(s)))
        return each.sum(tuple(range(-self.event_dim, 0))) if self.event_dim else each


class ExpTransform(Transform):
    """``exp(x)``."""

    def _call(self, x: Any) -> Any:
        return exp(x)

    def _inverse(self, y: Any) -> Any:
        return log(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """``x``."""
        return x


class PowerTransform(Transform):
    """``x**exponent`` of numbers above 0."""

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent
        is_number = isinstance(exponent, int | float)
        self.sign = ((exponent > 0) - (exponent < 0)) if is_number else sign(exponent)

    def _call(self, x: Any) -> Any:
        return x**self.exponent

    def _inverse(self, y: Any) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """``log(abs(exponent * y / x))``."""
        return log(abs(self.exponent * y / x))


class SigmoidTransform(Transform):
    """``1 / (1 + exp(-x))``; never 0 or 1."""

    def _call(self, x: Any) -> Any:
        limits = finfo(x.dtype)
        return clamp(sigmoid(x), limits.tiny, 1 - limits.eps / 2)

    def _inverse(self, y: Any) -> Any:
        limits = finfo(y.dtype)
        y = clamp(y, limits.tiny, 1 - limits.eps / 2)
        return log(y) - log1p(-y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """``log(y (1 - y))``, of ``x``."""
        return logsigmoid(x) + logsigmoid(-x)


class SoftplusTransform(Transform):
    """``log(1 + exp(x))``."""

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return y + log(-expm1(-y))

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """``log(sigmoid(x))``."""
        return logsigmoid(x)


class TanhTransform(Transform):
    """``tanh(x)``. Actions that are drawn so want ``cache_size=1``: where it rounds to 1, the
    inverse is infinite."""

    def _call(self, x: Any) -> Any:
        return tanh(x)

    def _inverse(self, y: Any) -> Any:
        return atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """``log(1 - tanh(x)**2)``, of ``x``, without its cancellation."""
        return (log_of(2) - x - softplus(x * -2)) * 2
