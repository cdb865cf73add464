"""What every distribution has: shapes, samples, and the words for what it does not define."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from staticflow.eager.creation import scalar_tensor
from staticflow.eager.grad_mode import no_grad
from staticflow.errors import ArgumentError, UndefinedError
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import get_default_dtype
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import Shape
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.creation import new_full
from staticflow.ops.basics.expand import broadcast_tensors, expand
from staticflow.ops.declaring.required import require_true
from staticflow.ops.declaring.sizes import as_sizes
from staticflow.ops.elementwise.maths import exp
from staticflow.ops.random.sampling import Source

__all__ = ["Distribution", "LocationScale", "Symmetric", "as_tensors", "one_of"]


def as_tensors(what: str, *values: Any) -> tuple[Any, ...]:
    """Parameters as floating tensors of one shape; numbers alone as tensors of no dims, in the
    default dtype. Raises `ArgumentError` for what is neither a number nor a tensor of floats."""
    tensors = [v for v in values if hasattr(v, "__sf_mode__")]
    for v in values:
        if isinstance(v, int | float) and not isinstance(v, bool):
            continue
        if not hasattr(v, "__sf_mode__") or not v.dtype.is_floating:
            kind = v.dtype.name if hasattr(v, "__sf_mode__") else type(v).__name__
            raise ArgumentError(
                f"{what}: a parameter is {kind}, and must be a number or a floating tensor; "
                f"give sf.tensor(..., dtype=sf.float32), at {format_locs(here())}"
            )
    if not tensors:
        return tuple(scalar_tensor(v, dtype=get_default_dtype()) for v in values)
    made = [
        v if hasattr(v, "__sf_mode__") else new_full(tensors[0], (), v, dtype=tensors[0].dtype)
        for v in values
    ]
    return tuple(broadcast_tensors(*made))


def one_of(what: str, **given: Any) -> str:
    """The name of the one argument that is not None. Raises `ArgumentError` for none or several."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise ArgumentError(
            f"{what}: {' and '.join(names) or 'neither'} of {', '.join(given)} were given; give "
            f"exactly one, at {format_locs(here())}"
        )
    return names[0]


class Distribution:
    """A batch of distributions of tensors, the base of all others.

    ``batch_shape`` is the shape of the parameters, ``event_shape`` that of one draw of one
    distribution: samples have the shape ``sample_shape + batch_shape + event_shape``, and log
    probabilities lack the last part. ``validate_args`` (on unless given) has parameters and values
    checked: at once where they are known, and by the program that is called in a graph.
    """

    has_rsample = False
    """Whether samples have gradients by the parameters."""
    has_enumerate_support = False
    """Whether `enumerate_support` lists all values."""
    own_dims: ClassVar[Mapping[str, int]] = {}
    """How many dims of a parameter belong to the event, where these are any."""
    _validates = True

    def __init__(
        self,
        batch_shape: Shape = (),
        event_shape: Shape = (),
        params: dict[str, Any] | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape, self._event_shape = tuple(batch_shape), tuple(event_shape)
        self._params = params or {}
        if validate_args is not None:
            self._validates = bool(validate_args)

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Have parameters and values of all distributions checked, or not, from now on."""
        Distribution._validates = bool(value)

    # -- shapes -----------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Shape:
        """The shape of the parameters, without the dims of one event."""
        return self._batch_shape

    @property
    def event_shape(self) -> Shape:
        """The shape of one draw of one distribution of the batch."""
        return self._event_shape

    def expand(self, batch_shape: Sequence[Size]) -> Any:
        """Repeats the distributions to a larger batch, without a copy of the parameters."""
        shape = as_sizes(batch_shape)
        params = {
            name: expand(p, (*shape, *self._own_shape(name, p))) for name, p in self._params.items()
        }
        return type(self)(**params, validate_args=False)._validating(self._validates)

    def _own_shape(self, name: str, p: Any) -> Shape:
        return tuple(p.shape[p.ndim - self.own_dims.get(name, 0) :])

    def _validating(self, validates: bool) -> Any:
        self._validates = validates
        return self

    def _extended_shape(self, sample_shape: Sequence[Size] = ()) -> Shape:
        return (*as_sizes(sample_shape), *self._batch_shape, *self._event_shape)

    # -- what a distribution may define -----------------------------------------------------------

    @property
    def mean(self) -> Any:
        """The expected value."""
        self._refuse("mean")

    @property
    def mode(self) -> Any:
        """The value of the highest probability or density."""
        self._refuse("mode")

    @property
    def variance(self) -> Any:
        """The expected square of the distance from the mean."""
        self._refuse("variance")

    @property
    def stddev(self) -> Any:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Draws of the shape ``sample_shape + batch_shape + event_shape``, without a gradient; of
        the default generator unless one is given."""
        with no_grad():
            return self.rsample(sample_shape, generator=generator)

    def rsample(self, sample_shape: Sequence[Size] = (), *, generator: Source | None = None) -> Any:
        """Draws with gradients by the parameters, as functions of draws that have none."""
        self._refuse("rsample", "its samples have no gradient: use sample() and log_prob()")

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, of ``value``."""
        self._refuse("log_prob")

    def cdf(self, value: Any) -> Any:
        """The probability of no more than ``value``."""
        self._refuse("cdf")

    def icdf(self, value: Any) -> Any:
        """The value that is exceeded with the probability ``1 - value``: the inverse of `cdf`."""
        self._refuse("icdf")

    def entropy(self) -> Any:
        """The expected negative logarithm of the density, or of the probability, in nats."""
        self._refuse("entropy")

    def perplexity(self) -> Any:
        """``exp(entropy())``."""
        return exp(self.entropy())

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values along a new first dim; without ``expand`` the batch has sizes of 1."""
        self._refuse("enumerate_support")

    # -- checks -----------------------------------------------------------------------------------

    def _refuse(self, what: str, why: str = "it has no formula here") -> NoReturn:
        raise UndefinedError(
            f"{type(self).__name__}.{what} is not defined: {why}, at {format_locs(here())}"
        )

    def _check(self, x: Any, holds: Any, name: str, must: str) -> Any:
        """``x``, a parameter or a value, of which all elements must be as ``holds`` says."""
        if not self._validates:
            return x
        what = f"{type(self).__name__}: the {name} must be {must} everywhere"
        return require_true(x, holds.all(), what)

    def _value(self, value: Any) -> Any:
        """A value beside the parameters: numbers become tensors, integers and bools floats."""
        beside = next(iter(self._params.values()))
        if not hasattr(value, "__sf_mode__"):
            return new_full(beside, (), float(value), dtype=beside.dtype)
        return value if value.dtype.is_floating else cast(value, dtype=beside.dtype)

    def __repr__(self) -> str:
        inside = [
            f"{name}: {p if p.ndim == 0 else f'tensor of shape {list(p.shape)}'}"
            for name, p in self._params.items()
        ]
        return f"{type(self).__name__}({', '.join(inside)})"


class Symmetric(Distribution):
    """Distributions whose mean and mode are both their parameter ``loc``."""

    loc: Any

    @property
    def mean(self) -> Any:
        """``loc``."""
        return self.loc

    @property
    def mode(self) -> Any:
        """``loc``."""
        return self.loc


class LocationScale(Symmetric):
    """Distributions that are one around 0, stretched by ``scale``, which is above 0, and moved to
    ``loc``."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        loc, scale = as_tensors(type(self).__name__, loc, scale)
        super().__init__(loc.shape, (), {"loc": loc, "scale": scale}, validate_args)
        self.loc = self._check(loc, loc == loc, "loc", "a number")
        self.scale = self._check(scale, scale > 0, "scale", "above 0")
