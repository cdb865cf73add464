"""NumPy's functions called on tensors and symbols: ``np.sin(x)`` is ``x.sin()``, on the tape or in
the graph, and ``array + x`` is a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticflow.graph.locs import format_locs, here

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

    With ``out=`` an array, as in ``array += tensor``, NumPy computes with the values. Raises
    `TypeError` for what has no counterpart among the tensor's own methods.
    """
    if out is not None and all(isinstance(o, np.ndarray) for o in out):
        values = [np.asarray(x) if hasattr(x, "__sf_mode__") else x for x in inputs]
        return getattr(ufunc, method)(*values, out=out, **options)
    name = _NAMES.get(ufunc.__name__, ufunc.__name__)
    # not the class's own, which may be a method that wants a tensor first
    (methods,) = (c for c in type(self).__mro__ if "__array_ufunc__" in vars(c))
    function = getattr(methods, name, None)
    if function is None or method != "__call__" or out is not None or options:
        called = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        raise TypeError(
            f"{called} has no counterpart for tensors with these arguments; use the tensor's own "
            "methods, or NumPy on its values (x.detach().numpy() of an eager tensor), "
            f"at {format_locs(here())}"
        )
    return function(*inputs)
