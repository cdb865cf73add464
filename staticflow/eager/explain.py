"""What went wrong in an eager op, in words: types are inferred only once something has failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from staticflow.errors import DTypeError, IndexRangeError, ShapeError, StaticflowError
from staticflow.graph.dtypes import dtype_of_number
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.declaring.promote import is_number, operand_dtype

__all__ = ["explain", "format_call"]


def _types(op: Op, operands: Sequence[Any]) -> list[TensorType]:
    """The types of operands; a number has that of the tensors beside it."""
    weak = operand_dtype(op, operands)
    return [
        TensorType(a.dtype, a.shape)
        if not is_number(a)
        else TensorType(weak if weak and (i or op.promote != "tail") else dtype_of_number(a), ())
        for i, a in enumerate(operands)
    ]


def format_call(op: Op, operands: Sequence[Any]) -> str:
    """The op with the types of its operands: ``add(f32[2], f32[3])``."""
    return f"{op.name}({', '.join(map(str, _types(op, operands)))})"


def explain(op: Op, args: Sequence[Any], attrs: Mapping[str, Any], error: Exception) -> None:
    """Raise what ``error`` means, worded by the op's type rule, which knows what was wanted; or
    return with a note added to it."""
    at = f"at {format_locs(here())}"
    if type(error) is IndexRangeError:  # of an element, which the types do not tell
        raise IndexRangeError(f"{error}, {at}") from None
    what = format_call(op, args)
    try:
        op.infer(Facts(), *_types(op, args), **attrs)
    except (ShapeError, DTypeError) as rule:
        raise type(rule)(f"{what}: {rule}, {at}") from None
    if isinstance(error, StaticflowError):
        raise type(error)(f"{what}: {error}, {at}") from None
    if isinstance(error, OverflowError):  # a number that the dtype cannot hold
        raise DTypeError(f"{what}: {error}, {at}") from None
    if isinstance(error, TypeError | AttributeError):  # an attribute of a wrong kind
        raise DTypeError(f"{what}: {error}, {at}") from error
    error.add_note(f"in {what}, {at}")
