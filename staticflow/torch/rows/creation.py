"""Tensors made of sizes and numbers, and drawn ones; sizes as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import log1p as log1p_of
from math import pi, prod
from typing import Any

from staticflow.eager.creation import full
from staticflow.eager.ranges import arange, tril_indices, triu_indices
from staticflow.graph.dtypes import get_default_dtype
from staticflow.ops.basics.arithmetic import clamp
from staticflow.ops.basics.creation import full_like
from staticflow.ops.elementwise.maths import ceil, exp, log1p
from staticflow.ops.elementwise.trig import tan
from staticflow.ops.random.fills import exponential_like, normal_like, uniform_like
from staticflow.ops.random.sampling import (
    bernoulli,
    multinomial,
    normal,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
)
from staticflow.torch.rows.row import Rows, cast_to, each

__all__ = ["CREATION"]


def _full(size: Sequence[Any], fill_value: Any, dtype: Any = None) -> Any:
    if dtype is None and isinstance(fill_value, float):
        dtype = get_default_dtype()
    return full(tuple(size), fill_value, dtype=dtype)


def _zeros(size: Sequence[Any], dtype: Any = None) -> Any:
    return full(tuple(size), 0, dtype=dtype or get_default_dtype())


def _ones(size: Sequence[Any], dtype: Any = None) -> Any:
    return full(tuple(size), 1, dtype=dtype or get_default_dtype())


def _empty_strided(size: Sequence[Any], stride: Sequence[Any], dtype: Any = None) -> Any:
    return _zeros(size, dtype)


def _full_like(x: Any, fill_value: Any, dtype: Any = None) -> Any:
    return full_like(x, fill_value, dtype=dtype)


def _like(value: float) -> Any:
    def row(x: Any, dtype: Any = None) -> Any:
        return full_like(x, value, dtype=dtype)

    return row


def _scalar_tensor(s: Any, dtype: Any = None) -> Any:
    return full((), s, dtype=dtype or get_default_dtype())


def _arange(start: Any, end: Any, step: Any = 1, dtype: Any = None) -> Any:
    return arange(start, end, step, dtype=dtype)


def _rand(size: Sequence[Any], dtype: Any = None) -> Any:
    return rand(tuple(size), dtype=dtype)


def _randn(size: Sequence[Any], dtype: Any = None) -> Any:
    return randn(tuple(size), dtype=dtype)


def _randint_below(high: Any, size: Sequence[Any], dtype: Any = None) -> Any:
    return _randint(0, high, size, dtype)


def _normal(mean: Any, std: Any = 1.0, size: Any = None, dtype: Any = None) -> Any:
    return normal(mean, std, None if size is None else tuple(size), dtype=dtype)


def _uniform(x: Any, low: float = 0.0, high: float = 1.0) -> Any:
    return uniform_like(x, low, high)


def _cauchy(x: Any, median: float = 0.0, sigma: float = 1.0) -> Any:
    """Draws of Cauchy's distribution, by its inverse: median + sigma tan(pi (u - 1/2))."""
    return tan((rand_like(x) - 0.5) * pi) * sigma + median


def _geometric(x: Any, p: float) -> Any:
    """How many trials the first success takes, by the inverse: ceil(log(u) / log(1 - p))."""
    uniform = rand_like(x, dtype=None if x.dtype.is_floating else "float32")
    tries = ceil(log1p(-uniform) / log1p_of(-p))
    return cast_to(clamp(tries, min=1), x.dtype)


def _log_normal(x: Any, mean: float = 1.0, std: float = 2.0) -> Any:
    return exp(normal_like(x, mean, std))


def _randint(low: Any, high: Any, size: Sequence[Any], dtype: Any = None) -> Any:
    return randint(low, high, tuple(size), **({} if dtype is None else {"dtype": dtype}))


def _randperm(n: Any, dtype: Any = None) -> Any:
    return randperm(n) if dtype is None else randperm(n, dtype=dtype)


def _empty_permuted(size: Sequence[Any], physical_layout: Any, dtype: Any = None) -> Any:
    return _zeros(size, dtype)


def _new_empty_strided(x: Any, size: Sequence[Any], stride: Any, dtype: Any = None) -> Any:
    return _new(x, size, 0, dtype)


def _new(x: Any, size: Sequence[Any], fill_value: Any, dtype: Any = None) -> Any:
    return full(tuple(size), fill_value, dtype=dtype or x.dtype)


def _corner(fn: Any) -> Any:
    def row(height: Any, width: Any, offset: int = 0, dtype: Any = None) -> Any:
        return fn(height, width, offset, dtype=dtype or "int64")

    return row


_KINDS = ("Tensor", "float")

CREATION: Rows = {
    "aten.full.default": _full,
    "aten.zeros.default": _zeros,
    "aten.ones.default": _ones,
    "aten.empty.memory_format": _zeros,
    "aten.empty_strided.default": _empty_strided,
    "aten.empty_permuted.default": _empty_permuted,
    "aten.new_empty_strided.default": _new_empty_strided,
    "aten._efficientzerotensor.default": _zeros,
    "aten.full_like.default": _full_like,
    **each(("zeros_like.default", "empty_like.default"), _like(0)),
    "aten.ones_like.default": _like(1),
    "aten.new_full.default": _new,
    "aten.new_zeros.default": lambda x, size, dtype=None: _new(x, size, 0, dtype),
    "aten.new_ones.default": lambda x, size, dtype=None: _new(x, size, 1, dtype),
    "aten.scalar_tensor.default": _scalar_tensor,
    "aten.arange.start_step": _arange,
    "aten.tril_indices.default": _corner(tril_indices),
    "aten.triu_indices.default": _corner(triu_indices),
    "aten.rand.default": _rand,
    "aten.randn.default": _randn,
    "aten.rand_like.default": lambda x, dtype=None: rand_like(x, dtype=dtype),
    "aten.randn_like.default": lambda x, dtype=None: randn_like(x, dtype=dtype),
    "aten.randint.low": _randint,
    "aten.randint.default": _randint_below,
    "aten.randint_like.default": lambda x, high, dtype=None: randint_like(x, high, dtype=dtype),
    "aten.randint_like.low_dtype": (
        lambda x, low, high, dtype=None: randint_like(x, low, high, dtype=dtype)
    ),
    **each((f"normal.{a}_{b}" for a in _KINDS for b in _KINDS), _normal),
    "aten.normal_functional.default": lambda x, mean=0.0, std=1.0: normal_like(x, mean, std),
    "aten.uniform.default": _uniform,
    "aten.exponential.default": lambda x, lambd=1.0: exponential_like(x, lambd),
    "aten.cauchy.default": _cauchy,
    "aten.geometric.default": _geometric,
    "aten.log_normal.default": _log_normal,
    "aten.multinomial.default": multinomial,
    "aten.randperm.default": _randperm,
    "aten.bernoulli.default": bernoulli,
    "aten.bernoulli.p": bernoulli,
    "aten.sym_size.int": lambda x, dim: x.shape[dim],
    "aten.sym_numel.default": lambda x: prod(x.shape),
}
"""Rows of what is made of sizes and numbers."""
