"""Programs of one op whose sizes only the run can tell, in every place: made of the table of ops.

The dims of a row's ``sized`` samples are cut down to their size by a value of the call, so that the
graph knows no size; and the op runs at the top, or in the body of a loop or a branch, where the
size is known around it or nowhere but inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from opinfo.core import Array, OpInfo, Sample
from opinfo.modes import arrays_of, call

import staticflow as sf
from staticflow.graph.dtypes import DType, dtype_of

__all__ = ["FORMS", "PLACES", "Late"]

MARK = 7
"""The size by which the dims of a sample are told that are cut."""

MORE = 2
"""Elements that arrays have beyond those that are taken."""

Dims = tuple[int, ...]
Maker = Callable[[Any, Any, Dims], Any]


def _first(x: Any, k: Any, dims: Dims) -> Any:
    """The first ``k`` along ``dims``."""
    return x[tuple(slice(k) if d in dims else slice(None) for d in range(x.ndim))]


def _narrowed(x: Any, k: Any, dims: Dims) -> Any:
    for d in dims:
        x = x.narrow(d, 0, k)
    return x


def _flagged(x: Any, flags: Any, dims: Dims) -> Any:
    """What ``flags`` choose along ``dims``, each by the same positions."""
    at = flags.nonzero()[:, 0]
    for d in dims:
        x = x.index_select(d, at)
    return x


def _expanded(x: Any, k: Any, dims: Dims) -> Any:
    """A size of 1, stretched."""
    return x.expand(tuple(k if d in dims else -1 for d in range(x.ndim)))


FORMS: dict[str, Maker] = {
    "first": _first, "narrow": _narrowed, "flags": _flagged, "expand": _expanded,
}  # fmt: skip
"""How arrays get their sizes."""


class Late:
    """The op ``info`` on samples of ``dtype`` whose sizes are made in a ``form``."""

    def __init__(self, info: OpInfo, form: str, dtype: DType) -> None:
        assert info.sized is not None
        self.info, self.form, self.dtype = info, form, dtype
        self.key = info.sized(dtype, MARK)
        arrays = arrays_of(self.key)
        self.dims = [tuple(d for d, n in enumerate(a.shape) if n == MARK) for a in arrays]
        self.inputs = [
            sf.placeholder(self._open(a, dims), dtype_of(a.dtype), name=f"x{i}")
            for i, (a, dims) in enumerate(zip(arrays, self.dims, strict=True))
        ]
        flags = form == "flags"
        kind = "bool" if flags else "int64"
        self.teller = sf.placeholder(("most",) if flags else (), kind, name="k")

    def _open(self, array: Array, dims: Dims) -> tuple[Any, ...]:
        size: Any = 1 if self.form == "expand" else "most"
        return tuple(size if d in dims else n for d, n in enumerate(array.shape))

    def sample(self, n: int) -> Sample:
        """The arguments of size ``n``, as the op gets them."""
        assert self.info.sized is not None
        found = self.info.sized(self.dtype, n)
        if self.form != "expand":
            return found
        for a, dims in zip(arrays_of(found), self.dims, strict=True):
            for d in dims:
                a[...] = np.take(a, [0], d) if n else a
        return found

    def arrays(self, n: int) -> list[Array]:
        """What a program is called with for results of size ``n``."""
        given = []
        for a, dims in zip(arrays_of(self.sample(n)), self.dims, strict=True):
            given.append(self._whole(a, dims, n))
        flags = np.zeros(n + MORE, bool)
        flags[self._places(n)] = True
        teller = flags if self.form == "flags" else np.array(n)
        return [*given, teller]

    def _places(self, n: int) -> Array:
        """Where the flags are set: not in the first place nor in the last."""
        return np.arange(1, n + 1) if self.form == "flags" else np.arange(n)

    def _whole(self, a: Array, dims: Dims, n: int) -> Array:
        for d in dims:
            if self.form == "expand":
                a = (
                    np.take(a, [0], d)
                    if n
                    else np.zeros((*a.shape[:d], 1, *a.shape[d + 1 :]), a.dtype)
                )
                continue
            whole = np.zeros((*a.shape[:d], n + MORE, *a.shape[d + 1 :]), a.dtype)
            whole[(*[slice(None)] * d, self._places(n))] = a
            a = whole
        return a

    def operands(self) -> list[Any]:
        """The inputs, cut."""
        make = FORMS[self.form]
        cut = zip(self.inputs, self.dims, strict=True)
        return [make(x, self.teller, dims) if dims else x for x, dims in cut]

    def results(self, operands: Sequence[Any]) -> list[Any]:
        return call(self.info, self.key, operands)


# -- places ----------------------------------------------------------------------------------------


def _sums(outs: Sequence[Any]) -> Any:
    """A number for each result, since a body gives back what has a size that is known outside."""
    return [o.to(sf.float64).sum() for o in outs]


def _zero() -> Any:
    return sf.constant(np.zeros(()))


def at_the_top(late: Late) -> list[Any]:
    return late.results(late.operands())


def in_a_scan(late: Late) -> list[Any]:
    """The size is known inside alone."""

    def step(c: Any, _: Any) -> Any:
        sums = _sums(late.results(late.operands()))
        return [a + s for a, s in zip(c, sums, strict=True)], sums

    start = [_zero() for _ in late.results(late.operands())]
    last, rows = sf.scan(step, start, length=3)
    return [*last, *rows]


def with_a_scan_around(late: Late) -> list[Any]:
    """The size is known around the loop, which stacks what the op gives."""
    operands = late.operands()
    _, rows = sf.scan(lambda c, _: (c + 1, late.results(operands)), _zero(), length=2)
    return list(rows)


def in_a_while_loop(late: Late) -> list[Any]:
    """The size is known inside alone, and how often that is as the loop runs."""

    def step(c: Any) -> Any:
        sums = _sums(late.results(late.operands()))
        return [c[0] + 1, *(a + s for a, s in zip(c[1:], sums, strict=True))]

    start = [_zero() for _ in late.results(late.operands())]
    most = late.teller.sum() * 0 + 2
    return list(sf.while_loop(lambda c: c[0] < most, step, [_zero(), *start]))


def in_a_branch(late: Late) -> list[Any]:
    return list(
        sf.cond(
            late.teller.sum() >= 0,
            lambda: _sums(late.results(late.operands())),
            lambda: [s * 2 for s in _sums(late.results(late.operands()))],
        )
    )


def _squares(outs: Sequence[Any]) -> Any:
    """The sum of all squares of what is floating; None where nothing is."""
    found = [(o * o).to(sf.float64).sum() for o in outs if o.dtype.is_floating]
    return sum(found[1:], found[0]) if found else None


def back(late: Late) -> list[Any]:
    """The gradients of what is made at the top."""
    return _gradients(late, _squares(at_the_top(late)))


def back_through_a_scan(late: Late) -> list[Any]:
    """The gradients of a sum that a loop makes, in which alone the size is known."""
    if _squares(at_the_top(late)) is None:
        return []

    def step(c: Any, _: Any) -> Any:
        return c + _squares(late.results(late.operands())), None

    return _gradients(late, sf.scan(step, _zero(), length=3)[0])


def _gradients(late: Late, total: Any) -> list[Any]:
    real = [x for x in late.inputs if x.dtype.is_floating]
    if total is None or not real:
        return []
    return [g for g in sf.grad(total, real, allow_unused=True) if g is not None]


PLACES: dict[str, Callable[[Late], list[Any]]] = {
    "top": at_the_top, "scan": in_a_scan, "around": with_a_scan_around,
    "while": in_a_while_loop, "cond": in_a_branch, "back": back, "back scan": back_through_a_scan,
}  # fmt: skip
"""Where an op runs."""
