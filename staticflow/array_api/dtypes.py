"""Questions about dtypes, and casts, by the names of the array API."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticflow.errors import DTypeError
from staticflow.graph.dtypes import DType, dtype_of, promote, weak_dtype
from staticflow.graph.locs import format_locs, here
from staticflow.ops.declaring.promote import is_number
from staticflow.ops.tensors import queries
from staticflow.ops.tensors.queries import FloatLimits, IntegerLimits

__all__ = ["KINDS", "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "",
    "numeric": "iuf",
}
"""The kinds of the standard, each with those of our dtypes that it has."""


def _dtype(given: Any) -> DType:
    """The dtype of an array, or the one that ``given`` is."""
    return dtype_of(getattr(given, "dtype", given))


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """``x`` in another dtype; with ``copy=False`` ``x`` itself where it has it already."""
    wanted = dtype_of(dtype)
    out = x.to(wanted) if device is None else x.to(device, wanted)
    return out.clone() if copy and out is x else out


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether ``from_``, an array or a dtype, can become ``to`` without a loss by the promotion
    table: where both together are ``to``, and no kind changes but that of bools."""
    own, wanted = _dtype(from_), _dtype(to)
    return own is wanted or (promote((own, wanted)) is wanted and own.category == wanted.category)


def finfo(type: Any, /) -> FloatLimits:
    """The limits of a floating dtype, or of that of an array; ``dtype`` of them is the dtype."""
    dtype = _dtype(type)
    return replace(queries.finfo(dtype), dtype=dtype)


def iinfo(type: Any, /) -> IntegerLimits:
    """The limits of an integer dtype, or of that of an array; ``dtype`` of them is the dtype."""
    dtype = _dtype(type)
    return replace(queries.iinfo(dtype), dtype=dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether ``dtype`` is of a ``kind``: the name of one of the standard, a dtype, or a tuple of
    both.

    >>> import staticflow as sf
    >>> isdtype(sf.int8, "integral"), isdtype(sf.int8, (sf.int16, "real floating"))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            known = ", ".join(map(repr, KINDS))
            raise DTypeError(
                f"isdtype: {kind!r} is no kind of dtypes; use one of {known}, "
                f"at {format_locs(here())}"
            )
        return dtype_of(dtype).kind in KINDS[kind]
    return dtype_of(dtype) is dtype_of(kind)


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype in which arrays, dtypes and numbers meet by the promotion table, whatever the
    shapes. Raises `DTypeError` where there is neither array nor dtype.

    >>> import staticflow as sf
    >>> result_type(sf.int8, sf.tensor(1, dtype="int16"), 2)
    staticflow.int16
    """
    numbers = [x for x in arrays_and_dtypes if is_number(x)]
    others = [_dtype(x) for x in arrays_and_dtypes if not is_number(x)]
    if not others:
        raise DTypeError(
            "result_type: of numbers alone; at least one array or dtype is needed, "
            f"at {format_locs(here())}"
        )
    strong = promote(others)
    return promote((strong, *(weak_dtype(n, strong) for n in numbers)))
