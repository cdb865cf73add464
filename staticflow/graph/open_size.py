"""Unknown sizes as a user holds them, compared by proof.

The framework compares two sizes as expressions: ``N`` and ``1`` are two, and a literal 1 is what
broadcasts. A user who asks whether ``x.shape[0] == 1`` asks for the number, which picks a branch of
Python. So ``shape`` of a symbol gives each unknown size as an `OpenSize`, which answers what holds
for every value of its symbols and refuses the rest. What the framework makes of it, types and
attributes, has the closed `Dim` again (`closed_size`), and the framework's own lines ask by `same`,
which never refuses.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from staticflow.errors import ShapeError, SymbolicError
from staticflow.graph.dims import Dim, Size, closed_size, is_provably_ge, same
from staticflow.graph.locs import format_locs, here

__all__ = ["OpenSize", "equals", "open_shape"]


class OpenSize(Dim):
    """A size that is known only when the program runs. Arithmetic gives further ones.

    ``==``, ``!=``, ``in`` and ``match`` are answered where they hold, or fail, for every value of
    the symbols. Otherwise, and as a key of a dict or set, it raises `SymbolicError`.

    >>> from staticflow.graph.dims import Sym
    >>> (n,) = open_shape((Dim.of(Sym("N")),))
    >>> n + 1 == 1 + n, n + 1 == n, n == -1
    (True, False, False)
    """

    __slots__ = ("_dim",)
    _dim: Dim

    def __init__(self, dim: Dim) -> None:
        object.__setattr__(self, "terms", dim.terms)
        object.__setattr__(self, "_dim", dim)

    def __reduce__(self) -> tuple[Any, ...]:
        return OpenSize, (self._dim,)

    @property
    def dim(self) -> Dim:
        """The size that compares as an expression."""
        return self._dim

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dim):
            if not isinstance(other, numbers.Real):
                return NotImplemented
            if not float(other).is_integer():
                return False
        size: Size = other if isinstance(other, Dim) else int(float(other))
        return equals(self, size)

    def __hash__(self) -> int:
        raise SymbolicError(
            f"the size {self} is known only when the program runs, so it is no key of a dict, set "
            "or cache, where it could be equal to a number; use a list, or key by something else, "
            f"at {format_locs(here())}"
        )


def equals(a: Size, b: Size) -> bool:
    """Whether two sizes are equal for every value of their symbols, or for none.

    Raises `SymbolicError` where that depends on the run.
    """
    if same(a, b):
        return True
    if is_provably_ge(a, b + 1) or is_provably_ge(b, a + 1):
        return False
    raise SymbolicError(
        f"whether {a} == {b} depends on sizes known only when the program runs, so Python cannot "
        "branch on it; select with sf.where, give sizes that are the same one name in their "
        "placeholders, or have them known, by a number there or sf.jit(fn, dynamic=False), "
        f"at {format_locs(here())}"
    )


def _open_operator(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """An operator of `Dim` whose result is open."""

    def method(self: OpenSize, other: Any) -> Any:
        try:
            result = compute(self.dim, closed_size(other))
        except ShapeError as error:  # a division by zero
            raise ShapeError(f"{error}; give 1 or more, at {format_locs(here())}") from None
        return OpenSize(result) if type(result) is Dim else result

    return method


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    for _operator in (f"__{_name}__", f"__r{_name}__"):
        setattr(OpenSize, _operator, _open_operator(getattr(Dim, _operator)))
OpenSize.__neg__ = lambda self: OpenSize(-self.dim)  # type: ignore[method-assign, arg-type]


class OpenShape(tuple[Size, ...]):
    """A shape with unknown sizes: another one that is longer, or in which a size differs for sure,
    is not equal to it, whatever the others are."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple):
            return NotImplemented
        if len(self) != len(other):
            return False
        pairs = [(a, b) for a, b in zip(self, other, strict=True) if not _are_same(a, b)]
        if any(_surely_differ(a, b) for a, b in pairs):
            return False
        return all(a == b for a, b in pairs)  # or the first says that it depends on the run

    def __ne__(self, other: object) -> bool:
        return NotImplemented if not isinstance(other, tuple) else not self == other

    __hash__ = tuple.__hash__


def _are_same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, Dim) and isinstance(b, Dim) and same(a, b))


def _surely_differ(a: Any, b: Any) -> bool:
    if isinstance(a, int | Dim) and isinstance(b, int | Dim):
        return is_provably_ge(a, b + 1) or is_provably_ge(b, a + 1)
    return not isinstance(a, Dim) and not isinstance(b, Dim) and bool(a != b)


def open_shape(shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """A shape as a user gets it.

    >>> open_shape((2, 3))
    (2, 3)
    """
    for size in shape:
        if type(size) is not int:
            return OpenShape([OpenSize(n) if type(n) is Dim else n for n in shape])
    return shape
