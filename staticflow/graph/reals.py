"""Sizes in arithmetic with floats: numbers that only the run can tell.

A size is an exact polynomial; half of one, or its root, is none. It is a number of the graph, which
the layer above makes, since it is a symbol: `Real.number` and `Real.ufunc` are set there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np

from staticflow.errors import SymbolicError
from staticflow.graph.locs import format_locs, here

__all__ = ["Real"]


def _refuse(size: Any, what: str) -> NoReturn:
    raise SymbolicError(
        f"the size {size} is known only when the program runs, so it is no Python {what}; compute "
        "with it as it is (n // 2, n / 2 and n ** 0.5 are numbers of the graph), loop with sf.scan "
        "or sf.fori_loop, or have it known, by a number in the placeholder or sf.jit(fn, "
        f"dynamic=False), at {format_locs(here())}"
    )


class Real:
    """What a size does as a real number: gives a symbol of no dims, which counts as a Python float
    beside tensors."""

    __slots__ = ()

    number: ClassVar[Callable[[Any], Any]]
    """A size as such a symbol."""
    ufunc: ClassVar[Callable[..., Any]]
    """What a ufunc of NumPy gives of a size."""

    def __truediv__(self, other: Any) -> Any:
        return NotImplemented if _is_tensor(other) else Real.number(self) / _plain(other)

    def __rtruediv__(self, other: Any) -> Any:
        return NotImplemented if _is_tensor(other) else _plain(other) / Real.number(self)

    def __pow__(self, other: Any) -> Any:
        other = _plain(other)
        if isinstance(other, int) and other >= 0:
            power: Any = 1
            for _ in range(other):
                power = power * self
            return power
        return Real.number(self) ** other if isinstance(other, int | float) else NotImplemented

    def __rpow__(self, other: Any) -> Any:
        if not isinstance(_plain(other), float):
            return NotImplemented
        return other ** Real.number(self)

    def __abs__(self) -> Any:
        mine: Any = self
        return np.maximum(mine, -mine)

    def __divmod__(self, other: Any) -> Any:
        mine: Any = self
        return mine // other, mine % other

    def __float__(self) -> float:
        _refuse(self, "float")

    def __index__(self) -> int:
        _refuse(self, "int")

    def __int__(self) -> int:
        _refuse(self, "int")

    def __format__(self, spec: str) -> str:
        if isinstance(spec, str) and not spec:
            return str(self)
        raise SymbolicError(
            f"the size {self} is known only when the program runs, so it has no digits to format "
            f"by {spec!r}; print it with sf.print as the program runs, at {format_locs(here())}"
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return Real.ufunc(ufunc, method, *inputs, **options)


def _is_tensor(x: Any) -> bool:
    return hasattr(x, "__sf_mode__")


def _plain(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic) else x
