"""What a row of the table is, and what rows share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from staticflow.ops.basics.arithmetic import cast

__all__ = ["Row", "Rows", "cast_to", "each", "for_each_dim", "later", "scalar_for"]

Row = Callable[..., Any]
"""A function of tensors or symbols, sizes and numbers, by the names of ATen's schema. A result that
is a `partial` is computed only where it is used."""

Rows = dict[str, Row]
"""Rows by the names of overloads, such as ``aten.add.Tensor``."""

later = partial
"""A result that is computed where it is used."""


def each(names: Iterable[str], row: Row) -> Rows:
    """One row for several overloads of ATen, given without ``aten.``."""
    return {f"aten.{name}": row for name in names}


def cast_to(x: Any, dtype: Any) -> Any:
    """``x`` in ``dtype``, if one is given."""
    return x if dtype is None or x.dtype is dtype else cast(x, dtype=dtype)


def scalar_for(x: Any, value: Any) -> Any:
    """A number of Python in the kind of ``x``: beside integers ATen takes whole numbers."""
    return value if x.dtype.is_floating or type(value) is not float else int(value)


def for_each_dim(values: Sequence[Any] | int, count: int) -> tuple[Any, ...]:
    """A list of numbers for each of ``count`` dims, of which ATen may give only one."""
    values = tuple(values) if isinstance(values, list | tuple) else (values,)
    return values * count if len(values) == 1 else values
