"""Sizes, dims and counts as users give them: ints, unknown sizes, NumPy's integers, tensors of one
integer."""

from __future__ import annotations

import operator
import reprlib
from typing import Any

from staticflow.errors import ArgumentError, DTypeError, ShapeError
from staticflow.graph.dims import Dim
from staticflow.graph.locs import format_locs, here
from staticflow.graph.open_size import OpenSize
from staticflow.ops.declaring.late import size_of

__all__ = [
    "MOST_TENSORS", "as_shape", "as_size", "as_sizes", "is_symbolic", "refuse_many", "several_of",
    "sizes_of",
]  # fmt: skip

MOST_TENSORS = 1 << 24
"""So many tensors one call makes at most: each takes some microseconds and hundreds of bytes."""

_SIZES = frozenset((int, Dim))


def as_size(given: Any) -> Any:
    """``given`` as an int or an unknown size; that of a symbolic integer only the run can tell.
    Raises `DTypeError` for what is no integer.

    >>> import numpy as np
    >>> as_size(np.int64(3))
    3
    """
    if type(given) in _SIZES:
        return given
    if type(given) is OpenSize:
        return given.dim
    if is_symbolic(given):
        return size_of(given)
    try:
        return operator.index(given)
    except TypeError as error:
        if isinstance(error, DTypeError) or hasattr(given, "__sf_mode__"):
            raise  # of a tensor, which says what is wrong with it
        raise DTypeError(
            f"a size, dim or count must be an integer, not {reprlib.repr(given)}, "
            f"at {format_locs(here())}",
            given,
            "an integer",
        ) from None


def is_symbolic(given: Any) -> bool:
    """Whether only the run can tell what an integer is."""
    mode = getattr(given, "__sf_mode__", None)
    return mode is not None and mode.rank > 0


def refuse_many(what: str, count: int, kind: str) -> None:
    """Raise `ArgumentError` if a call would make more than `MOST_TENSORS` tensors."""
    if count > MOST_TENSORS:
        raise ArgumentError(
            f"{what}: {count} {kind} are too many; each is a tensor of its own, of which a call "
            f"makes {MOST_TENSORS} at most, at {format_locs(here())}"
        )


def as_sizes(given: Any) -> tuple[Any, ...]:
    """One or several: ``3``, ``(3,)`` and ``[3]`` alike."""
    several = given if isinstance(given, list | tuple | range) else (given,)
    return tuple(map(as_size, several))


def as_shape(given: Any) -> tuple[Any, ...]:
    """`as_sizes` for the sizes of a new tensor.

    Raises `ShapeError`, which the function that is called completes with its name and the user's
    line, for a negative one.

    >>> as_shape([2, 3])
    (2, 3)
    """
    sizes = as_sizes(given)
    for size in sizes:
        if type(size) is int and size < 0:
            raise ShapeError(f"the size {size} in {list(sizes)} is negative; give 0 or more")
    return sizes


def sizes_of(args: tuple[Any, ...], named: Any = None) -> tuple[Any, ...]:
    """``f(2, 3)``, ``f((2, 3))`` and ``f(size=(2, 3))`` alike."""
    if args and named is not None:
        raise ShapeError(
            f"the sizes are given twice, as {several_of(args)!r} and by name as {named!r}; give "
            f"them once, at {format_locs(here())}"
        )
    return as_sizes(several_of(args) if named is None else named)


def needed_sizes_of(args: tuple[Any, ...], named: Any = None) -> tuple[Any, ...]:
    """`sizes_of` for a function that changes a tensor by them, and that must be told.

    Raises `ShapeError` where neither sizes nor dims are given; ``()`` says that there are none.
    """
    if not args and named is None:
        raise ShapeError(
            "neither sizes nor dims are given; give them as 2, 3 or (2, 3), and () for none"
        )
    return sizes_of(args, named)


def several_of(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """``f(a, b)`` and ``f((a, b))`` alike."""
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple) else args
