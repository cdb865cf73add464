"""Loops, and what Python is asked to do on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import Array, Failure, OpInfo, Sample, values
from staticflow.errors import ArgumentError, DTypeError, ShapeError
from staticflow.graph.dims import fresh_sym
from staticflow.graph.dtypes import DTYPES, DType, float32, float64, int64
from staticflow.ops import OPS
from staticflow.ops.declaring.late import measure_op, prefix_op, tied_op, unprefix_op

__all__ = ["ROWS"]


def _call(init: Any, xs: Any, w: Any, reverse: bool = False) -> Any:
    """A carry of two parts, rows of xs, a captured w, and ys of two parts."""

    def step(carry: Any, x: Any) -> Any:
        h, total = carry
        h = h * w + x
        return (h, total + h.sum()), {"h": h, "x": x * w}

    return sf.scan(step, (init, init.sum()), xs, reverse=reverse)


def _expect(init: Array, xs: Array, w: Array, reverse: bool = False) -> Any:
    h, total = init, init.sum(dtype=init.dtype)
    hs = np.zeros((len(xs), *init.shape), init.dtype)
    for t in reversed(range(len(xs))) if reverse else range(len(xs)):
        h = hs[t] = h * w + xs[t]
        total = total + h.sum(dtype=init.dtype)
    return ((h, np.asarray(total)), {"h": hs, "x": xs * w})


def _samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for steps in (1, 2, 5):
        for shape in ((), (3,), (0,)):
            for reverse in (False, True):
                args = (
                    values(shape, dtype),
                    values((steps, *shape), dtype),
                    values(shape, dtype, 0.5, 1),
                )
                yield Sample(args, {"reverse": reverse})
    yield Sample((values((3,), dtype), values((3, 4), dtype).T[::-1], values((), dtype)))


# -- guarded loops and branches -----------------------------------------------------------------


def _until(init: Any, xs: Any, w: Any) -> Any:
    """A scan that ends early: a carry, rows, a captured w and two ys, summed, since nobody knows
    how many there are."""

    def step(h: Any, x: Any) -> Any:
        h = h * w + x
        return h, {"h": h, "x": x * w}

    last, ys = sf.scan(step, init, xs, until=lambda h, y: (y["x"] * 0 + h).sum() > 4)
    return last, ys["h"].sum(0), (ys["x"] * ys["h"]).sum(0)


def _expect_until(init: Array, xs: Array, w: Array) -> Any:
    h, hs = init, np.zeros((0, *init.shape), init.dtype)
    for x in xs:
        h = h * w + x
        hs = np.concatenate([hs, h[None]])
        if (x * w * 0 + h).sum(dtype=init.dtype) > 4:
            break
    sums = (a.sum(0, dtype=init.dtype) for a in (hs, xs[: len(hs)] * w * hs))
    return h, *map(np.asarray, sums)


def _until_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for steps in (1, 2, 5):
        for shape in ((), (3,), (0,)):
            yield Sample(
                (
                    values(shape, dtype),
                    values((steps, *shape), dtype, 0, 3),
                    values(shape, dtype, 0.5, 1),
                )
            )


def _branch(pred: Any, x: Any, w: Any) -> Any:
    return sf.cond(pred, lambda a: (a * w, {"s": a.sum()}), lambda a: (a + a, {"s": w.sum()}), x)


def _branch_expect(pred: Array, x: Array, w: Array) -> Any:
    total = (x if pred else w).sum(dtype=x.dtype)
    return (x * w if pred else x + x), {"s": np.asarray(total)}


def _branch_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape in ((), (3,), (2, 0)):
        for pred in (False, True):
            yield Sample((np.asarray(pred), values(shape, dtype), values(shape, dtype, 0.5, 1)))


def _prefix(x: Any, count: Any) -> Any:
    """The first rows, summed, since nobody knows how many there are."""
    rows = measure_op(
        count, most=x.shape[0], what="a size", binds=(fresh_sym("k", x.shape[0] + 1),)
    )
    return prefix_op(x, rows).sum(0)


def _there_and_back(x: Any, count: Any) -> Any:
    """The other rows zero."""
    rows = measure_op(
        count, most=x.shape[0], what="a size", binds=(fresh_sym("k", x.shape[0] + 1),)
    )
    return unprefix_op(prefix_op(x, rows), rows, size=x.shape[0])


def _tied(x: Any, count: Any) -> Any:
    """As it is."""
    return tied_op(
        x,
        measure_op(count, most=x.shape[0], what="a size", binds=(fresh_sym("k", x.shape[0] + 1),)),
    )


def _there_and_back_expect(x: Array, count: Array) -> Array:
    out = np.zeros_like(x)
    out[:count] = x[:count]
    return out


def _prefix_samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for shape in ((5,), (4, 3), (1, 2), (3, 0)):
        for count in (0, 1, shape[0]):
            yield Sample((values(shape, dtype), np.asarray(count)))


def _wrong(*args: Any, error: type[Exception], says: str) -> Failure:
    return Failure(Sample(args), error, says)


def _sized(dtype: DType, n: int) -> Sample:
    return Sample((values((3,), dtype), values((n, 3), dtype), values((3,), dtype, 0.5, 1)))


ROWS = (
    OpInfo(
        OPS["scan"], _call, _expect, _samples, (float32, float64, int64), grad=True, sized=_sized,
        ulps=16, zeros=False,
        failures=(
            _wrong(np.ones(2, "f4"), np.ones((4, 3), "f4"), np.ones(2, "f4"), error=ShapeError, says="differ"),
            _wrong(np.ones(3, "f4"), np.float32(1) * np.ones(()), np.ones(3, "f4"), error=ShapeError, says="0-d"),
            _wrong(np.ones(3, "f4"), np.ones((4, 3), "f8"), np.ones(3, "f4"), error=DTypeError, says="carry[0]"),
            _wrong(np.ones(1, "f4"), np.ones((4, 3), "f4"), np.ones(1, "f4"), error=ShapeError, says="carry[0]"),
        ),
    ),
    OpInfo(
        OPS["while"], _until, _expect_until, _until_samples, (float32, float64, int64), grad=True,
        sized=lambda dtype, n: Sample((values((3,), dtype), values((n, 3), dtype, 0, 3), values((3,), dtype, 0.5, 1))),
        ulps=16, zeros=False,
        failures=(
            _wrong(np.ones(2, "f4"), np.ones((4, 3), "f4"), np.ones(2, "f4"), error=ShapeError, says="differ"),
        ),
    ),
    OpInfo(
        OPS["budget"], lambda x: OPS["budget"](x, bytes=1 << 40, what="scan"), lambda x: x,
        lambda dtype, smooth: (Sample((values(s, dtype),)) for s in ((), (0,), (3,))),
        (float32, float64, int64), grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype),)),
    ),
    OpInfo(
        OPS["cond"], _branch, _branch_expect, _branch_samples, (float32, float64, int64), grad=True,
        sized=lambda dtype, n: Sample((np.asarray(n > 1), values((n, 3), dtype), values((n, 3), dtype))),
        ulps=16, zeros=False,
        failures=(
            _wrong(np.ones(2, "?"), np.ones(2, "f4"), np.ones(2, "f4"), error=DTypeError, says="one bool"),
            _wrong(np.float32(1) * np.ones(()), np.ones(2, "f4"), np.ones(2, "f4"), error=DTypeError, says="one bool"),
        ),
    ),
    *(
        OpInfo(
            OPS[name], call, expect, _prefix_samples, (float32, float64, int64), grad=name != "measure",
            ulps=16, zeros=False,
            sized=lambda dtype, n: Sample((values((n, 3), dtype), np.asarray(n // 2))),
            failures=(
                Failure(Sample((np.ones((2, 3), "f4"), np.asarray(3))), ShapeError, "0..2", eager=True),
            ),
        )
        for name, call, expect in (
            ("measure", _prefix, lambda x, n: np.asarray(x[:n].sum(0, dtype=x.dtype))),
            ("prefix", _prefix, lambda x, n: np.asarray(x[:n].sum(0, dtype=x.dtype))),
            ("unprefix", _there_and_back, _there_and_back_expect),
            ("tied", _tied, lambda x, n: x),
        )
    ),
    OpInfo(
        OPS["required"],
        lambda x: OPS["required"](x, pairs=tuple((n, n) for n in x.shape), what="the sizes"),
        lambda x: x,
        lambda dtype, smooth: (Sample((values(s, dtype),)) for s in ((), (2, 3), (0,))),
        DTYPES, grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype),)),
    ),
    OpInfo(
        OPS["asserted"],
        lambda x, ok: OPS["asserted"](x, ok, what="no: it is not so"),
        lambda x, ok: x,
        lambda dtype, smooth: (Sample((values(s, dtype), np.asarray(True))) for s in ((), (2, 3), (0,))),
        DTYPES, grad=True, exact=True,
        sized=lambda dtype, n: Sample((values((n, 3), dtype), np.asarray(True))),
        failures=(
            Failure(Sample((np.ones(3, "f4"), np.asarray(False))), ArgumentError, "no: it is not so",
                    eager=True),
        ),
    ),
    OpInfo(
        OPS["print"],
        lambda count, x: OPS["print"](count, x, x, template="{} {x}", names=("x",)),
        lambda count, x: count + 1,
        lambda dtype, smooth: (Sample((np.asarray(7), values(s, dtype))) for s in ((), (2, 3), (0,))),
        DTYPES, grad=False, exact=True,
        sized=lambda dtype, n: Sample((np.asarray(7), values((n, 3), dtype))),
    ),
)  # fmt: skip
