"""Numbers of a distribution in the shape and dtype of a tensor: what in-place forms put into it."""

from __future__ import annotations

from math import log1p, pi
from typing import Any

from staticflow.errors import DTypeError, SymbolicError
from staticflow.graph.dtypes import DType, float64
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.sizes import is_symbolic
from staticflow.ops.elementwise.maths import ceil, exp
from staticflow.ops.elementwise.trig import tan
from staticflow.ops.random.draws import SIGNIFICANT, real_dtype
from staticflow.ops.random.sampling import (
    Source,
    bernoulli,
    draw_exponential,
    gives_back,
    rand_like,
    randint_like,
    randn_like,
    require,
)

__all__ = [
    "bernoulli_like", "cauchy_like", "exponential_like", "geometric_like", "log_normal_like",
    "normal_like", "random_like", "uniform_like",
]  # fmt: skip


@by_shape
@gives_back
def uniform_like(
    input: Any, from_: float = 0.0, to: float = 1.0, *, generator: Source | None = None
) -> Any:
    """Numbers from the uniform distribution on [from_, to), in the shape and dtype of ``input``."""
    require(from_ <= to, f"uniform_: the bounds {from_} and {to} are in the wrong order")
    drawn = rand_like(input, generator=generator)
    return drawn if (from_, to) == (0, 1) else drawn * (to - from_) + from_


@by_shape
@gives_back
def normal_like(
    input: Any, mean: float = 0.0, std: float = 1.0, *, generator: Source | None = None
) -> Any:
    """Numbers from a normal distribution, in the shape and dtype of ``input``."""
    require(std >= 0, f"normal_: the deviation must not be negative, not {std}")
    drawn = randn_like(input, generator=generator)
    return drawn if (mean, std) == (0, 1) else drawn * std + mean


@by_shape
@gives_back
def bernoulli_like(input: Any, p: Any = 0.5, *, generator: Source | None = None) -> Any:
    """Ones, with the probability ``p`` (a number or a tensor), and zeros, in the shape and dtype of
    ``input``."""
    if is_symbolic(p) and not is_symbolic(input):  # refused before anything is drawn
        raise SymbolicError(
            "bernoulli_: p is a symbol, and what is drawn by it cannot be stored in a tensor while "
            f"a graph is written; take sf.bernoulli(p), at {format_locs(here())}"
        )
    return bernoulli(input, p, generator=generator)


@by_shape
@gives_back
def exponential_like(input: Any, lambd: float = 1.0, *, generator: Source | None = None) -> Any:
    """Numbers above 0 from the exponential distribution of rate ``lambd``, in the shape and dtype
    of ``input``."""
    if is_symbolic(lambd) and not is_symbolic(input):
        lambd = float(lambd)  # which is refused before anything is drawn
    if not input.dtype.is_floating:
        raise DTypeError(
            f"exponential_: of {input.dtype.name}, which holds no fractions; cast it to a floating "
            f"dtype, at {format_locs(here())}"
        )
    require(lambd > 0, f"exponential_: the rate must be above 0, not {lambd}")
    return draw_exponential(input, generator) * (1 / lambd)


def _refuse_fractions(name: str, dtype: DType) -> None:
    if not dtype.is_floating:
        raise DTypeError(
            f"{name}: of {dtype.name}, which holds no fractions; cast it to a floating dtype, "
            f"at {format_locs(here())}"
        )


@by_shape
def log_normal_like(
    input: Any, mean: float = 1.0, std: float = 2.0, *, generator: Source | None = None
) -> Any:
    """Exponentials of numbers from the normal distribution of that ``mean`` and ``std``, in the
    shape and dtype of ``input``."""
    _refuse_fractions("log_normal_", input.dtype)
    require(std > 0, f"log_normal_: the deviation must be above 0, not {std}")
    return exp(randn_like(input, generator=generator) * std + mean)


@by_shape
def cauchy_like(
    input: Any, median: float = 0.0, sigma: float = 1.0, *, generator: Source | None = None
) -> Any:
    """Numbers from the Cauchy distribution, ``median + sigma * tan(pi * (u - 1 / 2))`` of uniform
    u, in the shape and dtype of ``input``."""
    _refuse_fractions("cauchy_", input.dtype)
    require(sigma > 0, f"cauchy_: the scale must be above 0, not {sigma}")
    turned = (rand_like(input, dtype=real_dtype(input.dtype), generator=generator) - 0.5) * pi
    return (tan(turned) * sigma + median).to(input.dtype)


@by_shape
def geometric_like(input: Any, p: float, *, generator: Source | None = None) -> Any:
    """How many trials it takes up to the first success, of which each has the probability ``p``:
    integers from 1 on, in the shape and dtype of ``input``."""
    require(0 < p < 1, f"geometric_: the probability must lie between 0 and 1, not be {p}")
    dtype = real_dtype(input.dtype) if input.dtype.is_floating else float64
    waiting = draw_exponential(cast(input, dtype=dtype), generator)
    return ceil(waiting / -log1p(-p)).to(input.dtype)


@by_shape
@gives_back
def random_like(
    input: Any, from_: Any = None, to: Any = None, *, generator: Source | None = None
) -> Any:
    """Integers from ``from_`` to before ``to``, in the shape and dtype of ``input``;
    ``random_(to)`` begins at 0, and without bounds all integers that the dtype holds, from 0 on,
    may come."""
    if from_ is None:
        from_ = _range(input.dtype)
    return randint_like(input, from_, to, generator=generator)


def _range(dtype: DType) -> int:
    """How many integers, from 0 on, a dtype holds without gaps."""
    if dtype.is_floating:
        return 1 << SIGNIFICANT[dtype]
    # all of int64's but the last, whose successor is no int64
    digits = {"b": 1, "u": dtype.bits, "i": dtype.bits - 1}[dtype.kind]
    return min(1 << digits, 2**63 - 1)
