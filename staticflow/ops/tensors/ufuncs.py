"""NumPy's functions called on tensors and symbols: ``np.sin(x)`` is ``x.sin()``, on the tape or in
the graph, and ``array + x`` is a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticflow.errors import DTypeError
from staticflow.graph.locs import format_locs, here
from staticflow.graph.masked_arrays import refuse_masked

__all__ = ["array_ufunc"]

_NAMES = {
    "absolute": "abs", "fabs": "abs", "subtract": "sub", "multiply": "mul", "divide": "div",
    "negative": "neg", "power": "pow", "float_power": "pow", "rint": "round",
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "equal": "eq", "not_equal": "ne", "arcsin": "asin", "arccos": "acos", "arctan": "atan",
    "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "invert": "bitwise_not", "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
}  # fmt: skip
"""Where a ufunc is called otherwise here."""


def array_ufunc(
    self: Any, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any
) -> Any:
    """What NumPy asks when one of its functions meets a tensor.

    With ``out=`` an array, as in ``array += tensor``, NumPy computes with the values, and so it
    does where there is no counterpart among the tensor's own methods (``np.spacing(x)``,
    ``np.add.reduce(x)``): then with tensors for results. Raises `TypeError` where a tensor is to be
    written to, `AutogradError` for values with a history, `SymbolicError` for symbols.
    """
    for x in inputs:
        refuse_masked(x)
    if out is not None and all(isinstance(o, np.ndarray) for o in out):
        return getattr(ufunc, method)(*map(_value, inputs), out=out, **options)
    name = _NAMES.get(ufunc.__name__, ufunc.__name__)
    # not the class's own, which may be a method that wants a tensor first
    (methods,) = (c for c in type(self).__mro__ if "__array_ufunc__" in vars(c))
    function = getattr(methods, name, None)
    if out is not None or method == "at":
        called = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        raise DTypeError(
            f"{called} cannot write to a tensor; use an in-place method of its own, or give its "
            f"values (out=x.detach().numpy() of an eager tensor), at {format_locs(here())}"
        )
    if function is not None and method == "__call__" and not options:
        return function(*inputs)
    found = getattr(ufunc, method)(*map(_value, inputs), **options)
    return tuple(map(self._of, found)) if isinstance(found, tuple) else self._of(found)


def _value(x: Any) -> Any:
    return np.asarray(x) if hasattr(x, "__sf_mode__") else x
