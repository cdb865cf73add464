"""The dtype in which operands meet: PyTorch's ``result_type``.

Operands count in three ranks: tensors with dims, 0-d tensors, Python numbers. A lower rank changes
the dtype only if it is of a higher category (bool < integer < floating).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import BY_PYTHON, DTYPES, DType, get_default_dtype, promote
from staticflow.graph.locs import format_locs, here
from staticflow.graph.numbers import Number, fitting, wrap
from staticflow.graph.op import Op

__all__ = [
    "as_number",
    "integer_beside",
    "is_number",
    "is_weak",
    "one_number",
    "operand_dtype",
    "result_type",
    "usual_dtypes",
]


_PYTHON_KINDS = {"b": bool, "i": int, "u": int, "f": float}


def is_number(x: Any) -> bool:
    """Whether ``x`` is a Python number or a size, which have no dtype of their own."""
    return type(x) in BY_PYTHON or isinstance(x, Dim)


def is_weak(x: Any) -> bool:
    """Whether ``x`` is a symbol that counts as a Python number beside tensors: it follows from
    sizes, or is a scalar of NumPy that a jitted function was given."""
    return getattr(x, "weak", False) is True


def as_number(x: Any) -> Any:
    """A scalar of NumPy as the Python number that it counts as beside tensors; all else as it
    is."""
    return x.item() if isinstance(x, np.generic) else x


def one_number(given: Any, argument: str) -> Any:
    """``given`` where a function takes one number: a number of Python, or as one. A symbol stays.

    Raises `DTypeError` for what is none, `ShapeError` for a tensor of several.
    """
    if type(given) in BY_PYTHON:
        return given
    mode = getattr(given, "__sf_mode__", None)
    has_values = mode is not None and mode.rank == 0
    if mode is not None and given.ndim and not (has_values and given.numel() == 1):
        raise ShapeError(
            f"{argument!r} must be one number, not of shape {list(given.shape)}, "
            f"at {format_locs(here())}"
        )
    if has_values or isinstance(given, np.generic):
        return given.item()
    if mode is not None or isinstance(given, Dim):
        return given
    raise DTypeError(
        f"{argument!r} must be a number, not {given!r}, at {format_locs(here())}", given, "a number"
    )


def _combine(higher: DType | None, lower: DType | None) -> DType | None:
    if higher is None or lower is None:
        return higher or lower
    return higher if higher.category >= lower.category else promote((higher, lower))


def result_type(operands: Sequence[Any]) -> DType:
    """The dtype that ``operands`` (tensors, symbols or numbers; at least one) combine in.

    >>> import staticflow as sf
    >>> result_type([sf.ones(2, dtype="float16"), 2.5, 3])
    staticflow.float16
    """
    ranks: list[DType | None] = [None, None, None]
    for x in operands:
        number = BY_PYTHON.get(int if isinstance(x, Dim) else type(x))
        rank = 2 if number is not None else 0 if x.ndim else 1
        if rank == 1 and is_weak(x):
            rank, number = 2, BY_PYTHON[_PYTHON_KINDS[x.dtype.kind]]
        dtype = number or x.dtype
        before = ranks[rank]
        ranks[rank] = dtype if before is None else promote((before, dtype))
    result = _combine(ranks[0], _combine(ranks[1], ranks[2]))
    assert result is not None
    return result


def operand_dtype(op: Op, args: Sequence[Any]) -> DType | None:
    """The dtype that ``op`` wants its operands brought to, None if it takes them as they are."""
    if op.promote == "none":
        return None
    dtype = result_type(args[1:] if op.promote == "tail" else args)
    if op.promote == "float" and not dtype.is_floating:
        return get_default_dtype()
    return dtype


def integer_beside(op: Op, position: int, value: int, dtype: DType) -> Number:
    """What the Python integer ``value`` is as an argument of ``op`` beside tensors of the integer
    ``dtype``, by `Op.numbers`. Raises `DTypeError` where it is refused."""
    exponent = op.numbers == "power" and position == 1
    if exponent and value < 0:
        raise DTypeError(
            f"{op.name}: an integer to the negative power {value} is no integer; use a floating "
            f"tensor, or {float(value)} as the exponent, at {format_locs(here())}"
        )
    rule = fitting if exponent or op.numbers == "fit" else wrap
    return rule(value, dtype, op.name)


@cache
def usual_dtypes(op: Op) -> frozenset[Any]:
    """The dtypes of NumPy that the op is defined for, and that need no promotion where all operands
    have the same."""
    kinds = "f" if op.promote == "float" else op.kinds
    return frozenset(d.numpy for d in DTYPES if d.kind in kinds)
