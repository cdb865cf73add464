"""Functions of lists of tensors, which PyTorch's optimisers call with ``foreach=True``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow.ops.elementwise.maths import pow
from staticflow.ops.elementwise.pairs import addcdiv, addcmul, lerp
from staticflow.ops.statistics.moments import vector_norm
from staticflow.torch.rows.elementwise import ELEMENTWISE
from staticflow.torch.rows.row import Rows

__all__ = ["LISTS"]

_UNARY = ("abs", "ceil", "exp", "floor", "log", "neg", "reciprocal", "rsqrt", "sign", "sqrt")
_BINARY = {
    "add": "add.Tensor", "sub": "sub.Tensor", "mul": "mul.Tensor", "div": "div.Tensor",
    "maximum": "maximum.default", "minimum": "minimum.default", "clamp_max": "clamp_max.default",
    "clamp_min": "clamp_min.default", "pow": "pow.Tensor_Tensor",
}  # fmt: skip
_KINDS = ("List", "Scalar", "ScalarList")


def _for_each(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` of the first elements of all lists among the arguments, of the second, and so on."""

    def row(first: Any, *args: Any, **kwargs: Any) -> list[Any]:
        def at(value: Any, i: int) -> Any:
            return value[i] if isinstance(value, list | tuple) else value

        return [fn(x, *(at(a, i) for a in args), **kwargs) for i, x in enumerate(first)]

    return row


def _addcmul(x: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    return addcmul(x, tensor1, tensor2, value=value)


def _addcdiv(x: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
    return addcdiv(x, tensor1, tensor2, value=value)


def _norm(x: Any, ord: Any = 2, dtype: Any = None) -> Any:
    return vector_norm(x, ord, dtype=dtype)


_CALLED: Rows = {
    **{f"{n}.default": ELEMENTWISE[f"aten.{n}.default"] for n in _UNARY},
    **{f"{n}.{kind}": ELEMENTWISE[f"aten.{one}"] for n, one in _BINARY.items() for kind in _KINDS},
    **{f"{n}.Tensor": ELEMENTWISE[f"aten.{n}.Tensor"] for n in ("add", "div", "mul")},
    "copy.default": ELEMENTWISE["aten.copy.default"],
    "addcmul.Scalar": _addcmul,
    "addcmul.ScalarList": _addcmul,
    "addcdiv.Scalar": _addcdiv,
    "addcdiv.ScalarList": _addcdiv,
    "lerp.Scalar": lerp,
    "lerp.List": lerp,
    "norm.Scalar": _norm,
}


def _powers_of(base: Any, exponents: Any) -> list[Any]:
    return [pow(base, exponent) for exponent in exponents]


LISTS: Rows = {
    **{f"aten._foreach_{name}": _for_each(fn) for name, fn in _CALLED.items()},
    "aten._foreach_pow.ScalarAndTensor": _powers_of,
}
"""Rows of lists of tensors."""
