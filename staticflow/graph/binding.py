"""Unknown sizes get their numbers from the arrays that a graph is called with.

One place for the interpreter and for compiled programs, so that both say the same of a wrong array.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from staticflow.errors import DTypeError, ShapeError, VerifyError
from staticflow.graph.called import named_call
from staticflow.graph.dim_queries import as_symbol, divisors_of, evaluate_dim, symbols_of
from staticflow.graph.dims import Size, Sym
from staticflow.graph.equalities import Equality, describe_requirement
from staticflow.graph.locs import format_locs
from staticflow.graph.types import TensorType

__all__ = ["Sizes", "bind_arguments", "check_equalities"]


class Sizes:
    """The numbers that dim symbols stand for, and where each was found."""

    def __init__(self, around: Sizes | None = None) -> None:
        self.values: dict[Sym, int] = dict(around.values) if around else {}
        self.origins: dict[Sym, str] = dict(around.origins) if around else {}

    def bind(self, type: TensorType, array: Any, what: str) -> None:
        """Give the symbols that stand alone in the shape of ``type`` the sizes of ``array``, if
        they have none yet."""
        for where, size, actual in _sizes(type, array):
            symbol = as_symbol(size)
            if symbol is not None and symbol not in self.values:
                self.values[symbol] = actual
                self.origins[symbol] = f"{where} of {what}"

    def number(self, size: Size) -> int:
        """The number that ``size`` is."""
        try:
            if any(evaluate_dim(d, self.values) == 0 for d in divisors_of(size)):
                raise ShapeError(f"the size {size} is divided by 0: {self.describe(size)}")
            return evaluate_dim(size, self.values)
        except KeyError as error:
            raise VerifyError(f"the size {size} is used before {error.args[0]} is known") from None

    def length(self, size: Size) -> int:
        """The number that ``size`` is, which is one of a dim. Raises `ShapeError` if it is below
        0."""
        number = self.number(size)
        if number < 0:
            raise ShapeError(f"the size {size} is {number}: {self.describe(size)}")
        return number

    def knows(self, size: Size) -> bool:
        """Whether all that ``size`` is computed of is known."""
        return symbols_of(size) <= self.values.keys()

    def know(self, equality: Equality) -> bool:
        """Whether both sizes of an equality are known."""
        return self.knows(equality.a) and self.knows(equality.b)

    def describe(self, size: Size) -> str:
        """``N is 3 (dim 0 of x)``, for each symbol of ``size``."""
        symbols = sorted(symbols_of(size), key=Sym.sort_key)
        return ", ".join(f"{s} is {self.values[s]} ({self.origins[s]})" for s in symbols)


def _sizes(type: TensorType, array: Any) -> Iterator[tuple[str, Size, int]]:
    """What ``type`` says of each dim of ``array``, and what that has."""
    for axis, (size, actual) in enumerate(zip(type.shape, array.shape, strict=True)):
        yield f"dim {axis}", size, actual
    for axis, size in enumerate(type.strides or ()):
        if type.shape[axis] != 1:  # else no element lies there
            yield f"stride {axis}", size, array.strides[axis] // array.itemsize


def bind_arguments(
    names: Sequence[str], types: Sequence[TensorType], arrays: Sequence[Any], sizes: Sizes
) -> None:
    """Bind the symbols of ``types`` and check the arrays against them.

    Raises `ShapeError` or `DTypeError` naming the argument, what it is, and what is wanted.
    """
    if len(arrays) != len(types):
        raise ShapeError(f"{len(types)} arrays are needed, {len(arrays)} were given")
    for name, want, array in zip(names, types, arrays, strict=True):
        if array.dtype != want.dtype.numpy:
            raise DTypeError(
                f"{name} is {array.dtype} and must be {want.dtype.name}; convert it, as in "
                f"array.astype({want.dtype.name!r})"
            )
        if array.ndim != want.ndim:
            raise ShapeError(
                f"{name} has {array.ndim} dims, shape {list(array.shape)}, and must have "
                f"{want.ndim}: {want}"
            )
        if want.strides is not None and not (min(array.strides) >= 0 and array.flags.aligned):
            raise ShapeError(
                f"{name} has strides of {list(array.strides)} bytes, and elements of "
                f"{array.itemsize}; they must be whole elements, and forward: copy the array"
            )
        sizes.bind(want, array, name)
    for name, want, array in zip(names, types, arrays, strict=True):
        for at, size, actual in _sizes(want, array):
            if sizes.number(size) != actual:
                where = f", where {sizes.describe(size)}" if symbols_of(size) else ""
                raise ShapeError(f"{name} has {actual} in {at} where {want} wants {size}{where}")


def check_equalities(equalities: Sequence[Equality], sizes: Sizes) -> list[Equality]:
    """Check those whose sizes are known, and give back the others.

    Raises `ShapeError` naming both sizes, where each was found, and who needs them equal.
    """
    for e in filter(sizes.know, equalities):
        if sizes.number(e.a) != sizes.number(e.b):
            known = ", ".join(dict.fromkeys(filter(None, map(sizes.describe, (e.a, e.b)))))
            wanted = describe_requirement(e.a, e.b)
            reason = named_call(f"{e.reason}: ", e.locs)
            raise ShapeError(f"{reason}{wanted}, but {known}; at {format_locs(e.locs)}")
    return [e for e in equalities if not sizes.know(e)]
