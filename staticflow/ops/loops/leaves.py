"""The leaves of what loops and branches take and give: tensors, and what becomes one.

A Python number, a scalar or an array of NumPy among them is a tensor of no dims, or of the array's,
in both modes: in the default dtype of its kind, or beside a tensor (what an iteration gives back
beside the carry, one branch beside the other) in the dtype of that, unless it is of a lower
category.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from staticflow import pytree
from staticflow.errors import DTypeError
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import BY_PYTHON, DType, dtype_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.masked_arrays import refuse_masked
from staticflow.graph.numbers import fitting
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.symbol import Symbol, to_node, tracing_state

__all__ = ["dtype_beside", "is_like", "is_tensor", "refuse_leaf", "tensor_of", "tensors_of"]


_NUMBERS = (bool, int, float, np.ndarray, np.generic, Dim)


def is_tensor(x: Any) -> bool:
    """Whether ``x`` is a tensor or a symbol."""
    return hasattr(x, "__sf_mode__")


def is_like(x: Any, like: Any) -> bool:
    """Whether ``x`` is a tensor or a symbol of the dtype and the shape of the tensor ``like``."""
    return (
        hasattr(x, "__sf_mode__") and x.dtype is like.dtype and x.__sf_shape__ == like.__sf_shape__
    )


def dtype_beside(value: Any, dtype: DType | None) -> DType | None:
    """The dtype that a Python number takes beside a tensor of ``dtype``: that one, unless the
    number is of a higher category; None (its own) for all else.

    >>> from staticflow.graph.dtypes import float64, int8
    >>> dtype_beside(1, float64), dtype_beside(1.5, int8)
    (staticflow.float64, None)
    """
    own = BY_PYTHON.get(type(value))
    fits = own is not None and dtype is not None and own.category <= dtype.category
    return dtype if fits else None


def tensor_of(x: Any, dtype: DType | None = None, beside: Any = None) -> Any:
    """The tensor that the leaf ``x`` is, on the device of ``beside``: a number in ``dtype`` unless
    it is of a higher category. It is a symbol inside a trace."""
    if hasattr(x, "__sf_mode__"):
        return x
    wanted = dtype_beside(x, dtype)
    if tracing_state.active or isinstance(x, Dim) or isinstance(beside, Symbol):
        return Symbol(to_node(x, wanted))
    if type(x) in BY_PYTHON:
        own = wanted or BY_PYTHON[type(x)]
        number = fitting(x, own, "a number in a loop")
        made = eager.wrap(thread.state.run(np.asarray, number, own.numpy))
    else:
        dtype_of(x.dtype)
        made = eager.wrap(np.asarray(x))
    gpu = getattr(beside, "__sf_gpu__", None)
    return made if gpu is None else made.to(gpu)


def tensors_of(
    what: str,
    name: str,
    tree: pytree.TreeDef,
    leaves: Sequence[Any],
    like: Sequence[Any] | None = None,
) -> list[Any]:
    """The leaves as tensors, or as symbols inside a trace; numbers beside the tensors ``like``
    that they follow. Raises `DTypeError` for one that is neither a tensor nor a number or an array;
    ``name`` is what the user calls the tree."""
    if all(map(is_tensor, leaves)):
        return list(leaves)
    for path, x in zip(pytree.paths(tree, name), leaves, strict=True):
        if not (is_tensor(x) or isinstance(x, _NUMBERS)):
            refuse_leaf(what, path, x)
        refuse_masked(x)
    if like is not None:
        return [tensor_of(x, t.dtype, t) for x, t in zip(leaves, like, strict=True)]
    beside = next((x for x in leaves if is_tensor(x)), None)
    return [tensor_of(x, None, beside) for x in leaves]


def refuse_leaf(what: str, path: str, x: Any) -> NoReturn:
    """Refuse what is not, and does not become, a tensor."""
    is_data = dataclasses.is_dataclass(x) and not isinstance(x, type)
    register = "register_dataclass" if is_data else "register_pytree_node"
    raise DTypeError(
        f"{what}: {path} is of type {type(x).__name__}; it must be a tensor, an array or a number "
        "(or a tuple, list or dict of these, or None for nothing); let the function close over "
        f"anything else, or make it a tree by sf.{register}, at {format_locs(here())}"
    )
