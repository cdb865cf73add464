"""Sizes as real numbers: halves of them, their roots, and NumPy's functions of them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from staticflow.graph.dims import Dim, dim_max, dim_min
from staticflow.graph.dtypes import float64
from staticflow.ops.symbols.symbol import Symbol, to_node
from staticflow.ops.tensors.ufuncs import array_ufunc

__all__ = ["number_of_size", "ufunc_of_sizes"]

_EXACT: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod,
    "power": operator.pow, "negative": operator.neg, "positive": lambda n: n,
    "maximum": dim_max, "minimum": dim_min, "equal": operator.eq, "not_equal": operator.ne,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
    "greater_equal": operator.ge,
}  # fmt: skip
"""The functions of NumPy that are operators of sizes."""


def number_of_size(size: Any) -> Symbol:
    """An unknown size as a symbol of no dims, which counts as a Python float beside tensors."""
    symbol = Symbol(to_node(size, float64))
    symbol.weak = True
    return symbol


def ufunc_of_sizes(ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """What NumPy asks when one of its functions meets a size: a size where it is an operator of
    sizes and numbers, an array of objects beside one, else a symbol."""
    given = [_number(x) for x in inputs]
    if any(isinstance(x, np.ndarray) and x.dtype == object for x in given):
        boxed = [np.array(x, object) if isinstance(x, Dim) else x for x in given]
        return getattr(ufunc, method)(*boxed, **options)
    exact = _EXACT.get(ufunc.__name__)
    if exact and method == "__call__" and all(isinstance(x, int | float | Dim) for x in given):
        return exact(*given)
    numbers = [number_of_size(x) if isinstance(x, Dim) else x for x in given]
    first = next(x for x in numbers if isinstance(x, Symbol))
    return array_ufunc(first, ufunc, method, *numbers, **options)


def _number(x: Any) -> Any:
    """A scalar of NumPy, which hands itself over as an array of no dims, as a number of Python."""
    is_scalar = isinstance(x, np.generic | np.ndarray) and x.ndim == 0 and x.dtype.kind in "biuf"
    return x.item() if is_scalar else x
