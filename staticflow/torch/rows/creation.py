"""Tensors made of sizes and numbers, and drawn ones; sizes as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from staticflow.eager.creation import full
from staticflow.eager.ranges import arange
from staticflow.graph.dtypes import get_default_dtype
from staticflow.ops.basics.creation import full_like
from staticflow.ops.random.sampling import (
    bernoulli,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
)
from staticflow.torch.rows.row import Rows, each

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


def _randint(low: Any, high: Any, size: Sequence[Any], dtype: Any = None) -> Any:
    return randint(low, high, tuple(size), **({} if dtype is None else {"dtype": dtype}))


def _randperm(n: Any, dtype: Any = None) -> Any:
    return randperm(n) if dtype is None else randperm(n, dtype=dtype)


def _new(x: Any, size: Sequence[Any], fill_value: Any, dtype: Any = None) -> Any:
    return full(tuple(size), fill_value, dtype=dtype or x.dtype)


CREATION: Rows = {
    "aten.full.default": _full,
    "aten.zeros.default": _zeros,
    "aten.ones.default": _ones,
    "aten.empty.memory_format": _zeros,
    "aten.empty_strided.default": _empty_strided,
    "aten.full_like.default": _full_like,
    **each(("zeros_like.default", "empty_like.default"), _like(0)),
    "aten.ones_like.default": _like(1),
    "aten.new_full.default": _new,
    "aten.new_zeros.default": lambda x, size, dtype=None: _new(x, size, 0, dtype),
    "aten.new_ones.default": lambda x, size, dtype=None: _new(x, size, 1, dtype),
    "aten.scalar_tensor.default": _scalar_tensor,
    "aten.arange.start_step": _arange,
    "aten.rand.default": _rand,
    "aten.randn.default": _randn,
    "aten.rand_like.default": lambda x, dtype=None: rand_like(x, dtype=dtype),
    "aten.randn_like.default": lambda x, dtype=None: randn_like(x, dtype=dtype),
    "aten.randint.low": _randint,
    "aten.randperm.default": _randperm,
    "aten.bernoulli.default": bernoulli,
    "aten.bernoulli.p": bernoulli,
    "aten.sym_size.int": lambda x, dim: x.shape[dim],
    "aten.sym_numel.default": lambda x: prod(x.shape),
}
"""Rows of what is made of sizes and numbers."""
