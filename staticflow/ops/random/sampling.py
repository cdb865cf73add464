"""Numbers drawn from a generator, alike in both modes, and what is made of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, Protocol, TypeVar
from typing import cast as cast_type

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.dims import Size
from staticflow.graph.dtypes import DType, bool_, dtype_of, get_default_dtype, int64
from staticflow.graph.locs import format_locs, here
from staticflow.graph.memory_formats import require_rows
from staticflow.graph.op import Op
from staticflow.graph.types import Shape
from staticflow.ops.along.cumulative import cumsum
from staticflow.ops.along.order import argsort, topk
from staticflow.ops.basics.arithmetic import cast, logical_and, lt
from staticflow.ops.basics.creation import full
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.fused import fused
from staticflow.ops.declaring.required import require_true
from staticflow.ops.declaring.sizes import as_shape, as_size, as_sizes, sizes_of
from staticflow.ops.declaring.switch import as_bool
from staticflow.ops.elementwise.bits import bitwise_and
from staticflow.ops.elementwise.maths import abs, isfinite, log
from staticflow.ops.random.draws import (
    centre,
    integers_op,
    normal_op,
    random_bits,
    real_dtype,
    uniform_op,
)

__all__ = [
    "Source", "are_probabilities", "bernoulli", "check_probability", "default_source",
    "draw_exponential", "draw_like", "draw_state", "gives_back", "multinomial", "normal", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "require",
]  # fmt: skip


F = TypeVar("F", bound=Callable[..., Any])


class Source(Protocol):
    """What numbers are drawn from: `staticflow.eager.random.Generator`."""

    def draw(self, *beside: Any) -> Any:
        """The state (int64[2]) for one draw: a symbol inside a trace, or where one of ``beside`` is
        a symbol or an unknown size; else a tensor."""

    def position(self) -> Any:
        """Where the stream stands, for `go_back`."""

    def go_back(self, position: Any) -> None:
        """Stand there again, unless another thread has drawn meanwhile."""


default_source: list[Source] = []
"""The generator of draws that name none. Its state is an eager tensor, of which this layer knows
nothing: the eager mode puts it here."""


def draw_state(generator: Source | None, *beside: Any) -> Any:
    """The state for one draw of a generator, the default one unless given."""
    if generator is None:
        generator = default_source[0]
    elif not hasattr(generator, "draw"):
        raise ArgumentError(
            f"generator= takes a generator, not {generator!r}; give "
            f"sf.Generator().manual_seed(...), at {format_locs(here())}"
        )
    return generator.draw(*beside)


def gives_back(fn: F) -> F:
    """``fn``, which draws, such that a call that fails has drawn nothing."""

    @wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        source: Any = kwargs.get("generator")
        if not hasattr(source, "position"):
            source = default_source[0]
        before = source.position()
        try:
            return fn(*args, **kwargs)
        except BaseException:
            source.go_back(before)
            raise

    # which is a function as `fn` is, so that its errors are worded as such a one's are
    call.__signature__ = inspect.signature(fn)  # type: ignore[attr-defined]
    del call.__wrapped__
    return cast_type("F", call)


def _draw_op(generator: Source | None, shape: Shape, op: Op, *args: Any, **attrs: Any) -> Any:
    shape = as_shape(shape)
    state = draw_state(generator, *shape, *args)
    like = full.beside(state, shape=shape, value=False, dtype=bool_)
    return op(state, like, *_bounds(state, args), **attrs)


def draw_like(generator: Source | None, x: Any, op: Op, *args: Any, **attrs: Any) -> Any:
    """What an op draws in the shape of ``x``, on its device: a draw has no history, of whatever
    ``x`` is made. Normal numbers are drawn on the CPU, since another library's inverse of erf
    differs in the last bits."""
    gpu = getattr(x, "__sf_gpu__", None)
    if gpu is not None and op is normal_op:
        return _draw_op(generator, x.shape, op, *args, **attrs).to(gpu)
    state = draw_state(generator, x, *args).to(gpu)
    if state.__sf_mode__.rank:  # a gradient of a graph would look for one
        x = x.detach()
    return op(state, x, *_bounds(state, args), **attrs)


def _bounds(state: Any, given: Sequence[Any]) -> list[Any]:
    """Integers among the operands as tensors of ops, so that calls with them are remembered."""
    return [
        full.beside(state, shape=(), value=v, dtype=int64) if type(v) is int else v for v in given
    ]


def _finish(x: Any, device: Any, requires_grad: bool) -> Any:
    if device is not None:
        x = x.to(device=device)
    return x.requires_grad_() if requires_grad else x


def check_probability(what: str, p: float) -> None:
    """Raise `ArgumentError` unless ``p`` is a probability."""
    require(0 <= p <= 1, f"{what}: the probability p must be from 0 to 1, not {p}")


def require(holds: Any, what: str) -> None:
    """Raise `ArgumentError` unless ``holds``; what depends on a tensor is taken on trust."""
    if holds is False:
        raise ArgumentError(f"{what}, at {format_locs(here())}")


def _dtype_or_default(dtype: Any) -> DType:
    return get_default_dtype() if dtype is None else dtype_of(dtype)


@by_shape
@gives_back
def rand(
    *sizes: Any,
    size: Sequence[Size] | None = None,
    generator: Source | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """Numbers from the uniform distribution on [0, 1), in the default or a given floating dtype.

    ``sizes`` are numbers or one tuple; sizes that are known only as the program runs make it a
    symbol, whose values are drawn anew in each call.

    >>> import staticflow as sf
    >>> sf.rand(2, 3, generator=sf.Generator().manual_seed(0)).shape
    (2, 3)
    """
    shape = sizes_of(sizes, size)
    drawn = _draw_op(generator, shape, uniform_op, dtype=_dtype_or_default(dtype))
    return _finish(drawn, device, requires_grad)


@by_shape
@gives_back
def randn(
    *sizes: Any,
    size: Sequence[Size] | None = None,
    generator: Source | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """Numbers from the standard normal distribution; the arguments are those of `rand`."""
    shape = sizes_of(sizes, size)
    drawn = _draw_op(generator, shape, normal_op, dtype=_dtype_or_default(dtype))
    return _finish(drawn, device, requires_grad)


@by_shape
@gives_back
def rand_like(
    input: Any, *, generator: Source | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """`rand` in the shape of ``input`` and, unless given, its dtype and on its device."""
    require_rows("rand_like", memory_format)
    wanted = input.dtype if dtype is None else dtype_of(dtype)
    return _finish(draw_like(generator, input, uniform_op, dtype=wanted), device, requires_grad)


@by_shape
@gives_back
def randn_like(
    input: Any, *, generator: Source | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """`randn` in the shape of ``input`` and, unless given, its dtype and on its device."""
    require_rows("randn_like", memory_format)
    wanted = input.dtype if dtype is None else dtype_of(dtype)
    return _finish(draw_like(generator, input, normal_op, dtype=wanted), device, requires_grad)


@by_shape
@gives_back
def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Source | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Any:
    """Numbers from normal distributions: of ``size`` where mean and std are numbers, else in the
    shape that they broadcast to, in their dtype and on their device."""
    if isinstance(std, int | float):
        require(std >= 0, f"normal: the deviation must not be negative, not {std}")
    if size is not None:
        drawn = randn(size=size, generator=generator, dtype=dtype, device=device) * std + mean
        return _finish(drawn, None, requires_grad)
    like = mean + 0 * std
    if not hasattr(like, "shape"):
        numbers = f"the mean {mean} and the deviation {std} are numbers"
        require(False, f"normal: {numbers}, so that size= is needed")
    return randn_like(like, generator=generator) * std + mean


def _integers(low: Any, high: Any, dtype: DType, draw: Callable[..., Any]) -> Any:
    """Integers from ``low`` to before ``high``, by ops that ``draw`` gives the state of a draw."""
    low, high = (v if hasattr(v, "__sf_mode__") else as_size(v) for v in (low, high))
    count = high - low
    if isinstance(count, int):
        require(count > 0, f"random integers from {low} to before {high}: there are none")
    if isinstance(count, int) and count > 2**31:
        return (bitwise_and(draw(random_bits), 2**63 - 1) % count + low).to(dtype)
    return draw(integers_op, low, count).to(dtype)


@by_shape
@gives_back
def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Source | None = None,
    dtype: Any = int64,
    device: Any = None,
) -> Any:
    """Integers from ``low`` to before ``high``, in the shape ``size``; ``randint(high, size)``
    begins at 0.

    Raises `ArgumentError` where there are none.
    """
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    elif low is None:
        low = 0
    if size is None:
        raise ArgumentError(
            "randint: there is no size; give randint(high, size) or randint(low, high, size), "
            f"at {format_locs(here())}"
        )
    shape = as_sizes(size)
    drawn = _integers(low, high, dtype_of(dtype), partial(_draw_op, generator, shape))
    return _finish(drawn, device, False)


@by_shape
@gives_back
def randint_like(
    input: Any, low: Any, high: Any = None, *, generator: Source | None = None, dtype: Any = None,
    device: Any = None, requires_grad: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    """`randint` in the shape of ``input`` and, unless given, its dtype and on its device."""
    require_rows("randint_like", memory_format)
    low, high = (0, low) if high is None else (low, high)
    wanted = input.dtype if dtype is None else dtype_of(dtype)
    drawn = _integers(low, high, wanted, partial(draw_like, generator, input))
    return _finish(drawn, device, requires_grad)


def bernoulli(input: Any, p: Any = None, *, generator: Source | None = None) -> Any:
    """1 with the probability that ``input`` (floating) or else ``p``, a number or a tensor, says; 0
    otherwise; in the shape and dtype of ``input``. No gradient flows through it.

    Raises `ArgumentError` for a number outside [0, 1].
    """
    if isinstance(p, int | float):
        check_probability("bernoulli", p)
    else:
        what = "bernoulli: the probabilities hold numbers outside of [0, 1]"
        of = input if p is None else p
        of = require_true(of, are_probabilities(of), what)
        input, p = (of, None) if p is None else (input, of)
    return _bernoulli(input, p, generator=generator)


@fused("")
def are_probabilities(x: Any) -> Any:
    """Whether all elements are from 0 to 1, as a bool of 0 dims."""
    return ((x >= 0) & (x <= 1)).all()


@by_shape
@gives_back
def _bernoulli(input: Any, p: Any, *, generator: Source | None) -> Any:
    wide = real_dtype(input.dtype)
    drawn = draw_like(generator, input, uniform_op, dtype=wide)
    return cast(lt(drawn, input if p is None else p), dtype=input.dtype)


@by_shape
@gives_back
def randperm(
    n: Any, *, generator: Source | None = None, dtype: Any = int64, device: Any = None
) -> Any:
    """The numbers from 0 to before ``n`` in random order."""
    order = argsort(_draw_op(generator, (as_size(n),), random_bits))
    return _finish(order.to(dtype_of(dtype)), device, False)


@gives_back
def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Source | None = None
) -> Any:
    """``num_samples`` indices (int64) for each row of the weights ``input``, a vector or a matrix
    of numbers not below 0; each with a chance proportional to its weight, and only once unless
    ``replacement``.

    Raises `ArgumentError` for more samples than weights where none may come twice, and for weights
    of no distribution.
    """
    if input.ndim not in (1, 2) or not input.dtype.is_floating:
        raise ShapeError(
            f"multinomial: takes a vector or a matrix of floats, not {input.dtype.name} of shape "
            f"{list(input.shape)}, at {format_locs(here())}"
        )
    replacement = as_bool("multinomial: 'replacement'", replacement)
    num_samples, classes = as_size(num_samples), input.shape[-1]
    if isinstance(num_samples, int):
        require(num_samples >= 0, f"multinomial: {num_samples} samples")
        if not replacement and isinstance(classes, int):
            what = f"multinomial: {num_samples} samples without replacement of {classes} weights"
            require(num_samples <= classes, what)
    what = "multinomial: the weights of a row must not be negative, infinite, NaN or all 0"
    input = require_true(input, _are_weights(input), what)
    if not replacement:
        # the first of independent exponential waiting times, whose rates are the weights
        waiting = draw_exponential(input, generator)
        return topk(input / waiting, num_samples)[1]
    below = cumsum(input, -1)
    shape = (*input.shape[:-1], num_samples)
    drawn = _draw_op(generator, shape, uniform_op, dtype=input.dtype).to(input.__sf_gpu__)
    chosen = drawn * below[..., -1:]
    return (below.unsqueeze(-2) <= chosen.unsqueeze(-1)).sum(-1)


def draw_exponential(x: Any, generator: Source | None) -> Any:
    """Numbers above 0 from the exponential distribution of rate 1, in the shape of ``x``."""
    wide = real_dtype(x.dtype)
    # |u| is never 0 or 1
    u = abs(centre(draw_like(generator, x, uniform_op, dtype=wide), wide))
    return (-log(u)).to(x.dtype)


def _are_weights(input: Any) -> Any:
    fair = logical_and(input >= 0, isfinite(input)).all(-1)
    return logical_and(fair, input.sum(-1) > 0).all()
