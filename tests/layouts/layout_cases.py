"""Arrays in every layout, in memory beside pages that may not be touched; and the same layouts as views
within a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np
from guard_pages import guarded_bytes
from opinfo.core import Array

__all__ = ["ALIASING", "LAYOUTS", "VIEWS", "in_layout"]

Shape = tuple[int, ...]
Steps = tuple[int, ...]
"""How many elements neighbours along each dim lie apart."""


def in_rows(shape: Shape) -> Steps:
    """Row-major order."""
    return tuple(accumulate((1, *shape[:0:-1]), mul))[::-1] if shape else ()


def in_order(shape: Shape, order: Sequence[int]) -> Steps:
    """The row-major order of the dims as ``order`` has them."""
    steps = dict(zip(order, in_rows(tuple(shape[d] for d in order)), strict=True))
    return tuple(steps[d] for d in range(len(shape)))


def within(shape: Shape, around: Sequence[int]) -> Steps:
    """As part of an array that is ``around`` many elements larger along each dim."""
    return in_rows(tuple(n + m for n, m in zip(shape, around, strict=True)))


def _windows(shape: Shape) -> Steps:
    return (*in_rows(shape[:-1]), 1) if len(shape) > 1 else in_rows(shape)


def _with(steps: Steps, dim: int, step: int) -> Steps:
    listed = list(steps)
    listed[dim] = step
    return tuple(listed)


LAYOUTS: dict[str, Callable[[Shape], Steps]] = {
    "row-major": in_rows,
    "transposed": lambda s: in_order(s, range(len(s))[::-1]),
    "last dim first": lambda s: in_order(s, [len(s) - 1, *range(len(s) - 1)]),
    "every other": lambda s: tuple(2 * step for step in in_rows(s)),
    "every third": lambda s: tuple(3 * step for step in in_rows(s)),
    "every ninth": lambda s: tuple(9 * step for step in in_rows(s)),
    "every other row": lambda s: _with(in_rows(s), 0, 2 * in_rows(s)[0]),
    "cropped columns": lambda s: within(s, (*([0] * (len(s) - 1)), 3)),
    "cropped": lambda s: within(s, [2] * len(s)),
    "cropped and transposed": lambda s: within(s[::-1], [2] * len(s))[::-1],
    "one row": lambda s: _with(in_rows(s), 0, 0),
    "one column": lambda s: _with(in_rows((*s[:-1], 1)), -1, 0),
    "one element": lambda s: (0,) * len(s),
    "windows": _windows,
    "backwards": lambda s: tuple(-step for step in in_rows(s)),
    "rows backwards": lambda s: _with(in_rows(s), 0, -in_rows(s)[0]),
    "offset": in_rows,
    "unaligned": in_rows,
    "read-only": in_rows,
}
"""The steps of an array of a shape, of one dim or more. Empty arrays are among the samples of the op
table; arrays in the byte order of another machine are refused, see `test_layouts`."""

ALIASING = ("one row", "one column", "one element", "windows")
"""Layouts in which elements lie in the same place, so that they are equal."""


def in_layout(values: Array, layout: str, at_end: bool = True) -> Array:
    """An array of ``values``, or of some of them again and again, in memory beside a page that may
    not be touched. What lies between its elements is NaN, or another odd number."""
    if not values.ndim or not values.size:
        return values.copy()
    steps, size = LAYOUTS[layout](values.shape), values.itemsize
    reach = [step * (n - 1) for n, step in zip(values.shape, steps, strict=True)]
    ahead, behind = -sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    lead = {"offset": size, "unaligned": 1}.get(layout, 0)
    memory, _ = guarded_bytes((ahead + behind + 1) * size + lead, at_end and not lead)
    if values.dtype == np.bool_:
        memory[:] = 1
    out = np.ndarray(
        values.shape, values.dtype, memory, lead + ahead * size, tuple(size * s for s in steps)
    )
    out[...] = values
    if layout == "read-only":
        out.flags.writeable = False
    return out


# -- views --------------------------------------------------------------------------------------


def _odd(a: Array) -> Any:
    """What stands where no element of the view is: NaN, or the largest number."""
    kind = a.dtype.kind
    value = True if kind == "b" else np.iinfo(a.dtype).max if kind in "iu" else np.nan
    return np.asarray(value).astype(a.dtype)


def _part(around: Callable[[int], int], chosen: slice) -> tuple[Base, View]:
    """Of each dim the part that a slice chooses, of ``around(n)`` elements."""

    def base(a: Array) -> Array:
        out = np.full([around(n) for n in a.shape], _odd(a))
        out[(chosen,) * a.ndim] = a
        return out

    return base, lambda x, shape: x[(chosen,) * len(shape)]


Base = Callable[[Array], Array]
View = Callable[[Any, Shape], Any]

VIEWS: dict[str, tuple[Base, View]] = {
    "row-major": (lambda a: a, lambda x, shape: x),
    "transposed": (np.transpose, lambda x, shape: x.permute(*range(x.ndim)[::-1])),
    "last dim first": (lambda a: np.moveaxis(a, -1, 0), lambda x, shape: x.movedim(0, -1)),
    "every other": _part(lambda n: 2 * n, slice(None, None, 2)),
    "every third": _part(lambda n: 3 * n, slice(None, None, 3)),
    "cropped": _part(lambda n: n + 3, slice(1, -2)),
    "backwards": (np.flip, lambda x, shape: x.flip(tuple(range(x.ndim)))),
    "one row": (lambda a: a[:1], lambda x, shape: x.expand(shape)),
    "one column": (lambda a: a[..., :1], lambda x, shape: x.expand(shape)),
    "reshaped": (np.ravel, lambda x, shape: x.reshape(shape)),
}
"""Of a layout within a program, the array that it is given, and the view of it that is the operand."""
