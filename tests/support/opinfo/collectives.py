"""Collectives of one rank, which change nothing but for shapes that none of them has;
``tests/distributed`` has them on several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from opinfo.core import (
    ALL,
    FLOATS,
    INTEGERS,
    Array,
    Failure,
    OpInfo,
    Sample,
    layouts,
    special,
    values,
)
from staticflow.errors import DTypeError, ShapeError
from staticflow.graph.dtypes import DType, bool_, int64
from staticflow.ops import OPS

__all__ = ["ROWS"]

NUMBERS = (*FLOATS, *INTEGERS)


def _sums(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for reduce in ("amax", "amin") if dtype is bool_ else ("sum", "amax", "amin"):
        for x in layouts(lambda shape: values(shape, dtype)):
            yield Sample((x,), {"reduce": reduce})
        if not smooth:
            yield Sample((special(dtype),), {"reduce": reduce})


def _along(*names: str, **more: Any) -> Any:
    """Samples with a dim under each of the names."""

    def samples(dtype: DType, smooth: bool) -> Iterator[Sample]:
        for x in layouts(lambda shape: values(shape, dtype)):
            for dim in range(x.ndim):
                yield Sample((x,), dict.fromkeys(names, dim) | more)

    return samples


def _whole(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for x in layouts(lambda shape: values(shape, dtype)):
        yield Sample((x,), {"root": 0})


def _alone(name: str) -> Any:
    return lambda *xs, **attrs: OPS[name](*xs, **{"mesh": (1,), "axes": (0,)} | attrs)


def _begun(name: str) -> Any:
    return lambda *xs: _alone(name)(*xs, collective="all_reduce", along=(0, 0))


def _copy(x: Array, **attrs: Any) -> Array:
    return x.copy()


def _sized(**attrs: Any) -> Any:
    return lambda dtype, n: Sample((values((n, 3), dtype),), attrs)


def _axes(**attrs: Any) -> Failure:
    sample = Sample((np.zeros(3, "f4"),), {"mesh": (1, 1), "axes": (1, 0), **attrs})
    return Failure(sample, ShapeError, "the axes are (1, 0)")


def _dim(**attrs: Any) -> Failure:
    return Failure(Sample((np.zeros(3, "f4"),), attrs), ShapeError, "has no dim 1")


def _bools(**attrs: Any) -> Failure:
    return Failure(Sample((np.zeros(3, bool),), attrs), DTypeError, "bools are not added")


def _pairs(senders: tuple[int, ...], receivers: tuple[int, ...], says: str) -> Failure:
    sample = Sample((np.zeros(3, "f4"),), {"senders": senders, "receivers": receivers})
    return Failure(sample, ShapeError, says)


def _specs(dtype: DType, smooth: bool) -> Iterator[Sample]:
    for x in layouts(lambda shape: values(shape, dtype)):
        yield Sample((x,), {"spec": ("data", "", "model")[: x.ndim]})


ROWS = (
    OpInfo(
        OPS["shard"], OPS["shard"], lambda x, spec: x.copy(), _specs, ALL, grad=True,
        sized=_sized(spec=("data", "")), exact=True,
        failures=(
            Failure(Sample((np.zeros(3, "f4"),), {"spec": ("", "a")}), ShapeError, "1 dims, and 2"),
            Failure(
                Sample((np.zeros((3, 3), "f4"),), {"spec": ("a", "a")}), ShapeError, "each may split"
            ),
        ),
    ),
    OpInfo(
        OPS["all_reduce"], _alone("all_reduce"), _copy, _sums, ALL, grad=True,
        sized=_sized(reduce="amax"), exact=True,
        failures=(_axes(reduce="sum"), _bools(reduce="sum")),
    ),
    OpInfo(
        OPS["all_gather"], _alone("all_gather"), _copy, _along("dim"), ALL, grad=True,
        sized=_sized(dim=0), exact=True, failures=(_axes(dim=0), _dim(dim=1)),
    ),
    OpInfo(
        OPS["reduce_scatter"], _alone("reduce_scatter"), _copy, _along("dim"), NUMBERS, grad=True,
        sized=_sized(dim=0), exact=True,
        failures=(
            _axes(dim=0), _dim(dim=1), _bools(dim=0),
            Failure(
                Sample((np.zeros(3, "f4"),), {"mesh": (2,), "dim": 0}), ShapeError, "get evenly"
            ),
        ),
    ),
    OpInfo(
        OPS["all_to_all"], _alone("all_to_all"), _copy, _along("dim0", "dim1"), ALL, grad=True,
        sized=_sized(dim0=0, dim1=1), exact=True,
        failures=(_axes(dim0=0, dim1=0), _dim(dim0=0, dim1=1)),
    ),
    OpInfo(
        OPS["exchange"], _alone("exchange"), _copy,
        lambda dtype, smooth: (
            Sample((x,), {"senders": (0,), "receivers": (0,)})
            for x in layouts(lambda shape: values(shape, dtype))
        ),
        ALL, grad=True, sized=_sized(senders=(0,), receivers=(0,)), exact=True,
        failures=(
            _axes(senders=(), receivers=()),
            _pairs((0,), (), "as many of either"),
            _pairs((0, 0), (0, 1), "may send to one"),
            _pairs((1,), (0,), "below 1"),
        ),
    ),
    OpInfo(
        OPS["agree"],
        lambda n: _alone("agree")(OPS["sum"](n, dims=(0,), keepdim=True), names=("size of 'x'",)),
        lambda n: np.asarray(0, np.int64),
        lambda dtype, smooth: (Sample((np.full(n, 7),)) for n in (2, 3, 4)),
        (int64,), grad=False, exact=True, sized=lambda dtype, n: Sample((np.full(n, 7),)),
        failures=(
            Failure(Sample((np.full((2, 2), 7),)), DTypeError, "one for each of 1"),
        ),
    ),
    OpInfo(
        OPS["begin"], lambda n, x: _begun("begin")(n, x, x), lambda n, x: n,
        lambda dtype, smooth: (
            Sample((np.asarray(7), x)) for x in layouts(lambda shape: values(shape, dtype))
        ),
        NUMBERS, grad=False, exact=True,
        sized=lambda dtype, n: Sample((np.asarray(7), values((n, 3), dtype))),
        failures=(
            Failure(Sample((np.zeros(3, "f4"), np.zeros(3, "f4"))), DTypeError, "i64 of no dims"),
            Failure(Sample((np.asarray(0), np.zeros(3, bool))), DTypeError, "bools are not added"),
        ),
    ),
    OpInfo(
        OPS["end"],
        lambda n, x: _begun("end")(n, n, x, x)[1], lambda n, x: x.copy(),
        lambda dtype, smooth: (
            Sample((np.asarray(7), x)) for x in layouts(lambda shape: values(shape, dtype))
        ),
        NUMBERS, grad=False, exact=True,
        sized=lambda dtype, n: Sample((np.asarray(7), values((n, 3), dtype))),
        failures=(
            Failure(Sample((np.zeros(3, "f4"), np.zeros(3, "f4"))), DTypeError, "i64 of no dims"),
        ),
    ),
    OpInfo(
        OPS["broadcast"], _alone("broadcast"), _copy, _whole, ALL, grad=True,
        sized=_sized(root=0), exact=True,
        failures=(
            _axes(root=0),
            Failure(Sample((np.zeros(3, "f4"),), {"root": 1}), ShapeError, "the root is 1"),
        ),
    ),
)  # fmt: skip
