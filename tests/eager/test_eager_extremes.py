"""Every elementwise op of the op table at arguments of every magnitude, on small arrays against large
ones, which another kernel computes. How near either is to the truth, `test_math` says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from opinfo import ROWS
from opinfo.core import Array, OpInfo, Sample, finfo
from opinfo.modes import arrays_of, call, graph_of, with_arrays
from slices import daily

import staticflow as sf
from staticflow.eager.costs import LARGE
from staticflow.graph.dtypes import DType, float32, float64
from staticflow.ops.declaring.lowering import Elementwise, Generate, View
from staticflow.passes.decompose import decompose
from staticflow.passes.rewrite import Counts

_MANY = LARGE + 77
_FEW = 128
_ULPS = 12  # of two kernels, each within its own bound


def magnitudes(dtype: DType) -> Array:
    """Each power of two of a dtype, what lies before it and between it and the next, and zeros,
    infinities, NaN, small numbers; of either sign."""
    info = finfo(dtype)
    powers = np.ldexp(dtype.numpy.type(1), np.arange(info.minexp - info.nmant, info.maxexp))
    before = np.nextafter(powers, dtype.numpy.type(0))
    few = np.array([0, np.inf, np.nan, info.max, 1, 2, 3, 5, 7, 10.5, 100.25], dtype.numpy)
    x = np.concatenate([powers, before, powers * dtype.numpy.type(1.37), few])
    return np.concatenate([x, -x])


def is_elementwise(info: OpInfo, sample: Sample) -> bool:
    """Whether the op is one of each element alone: what it views are numbers."""
    graph = decompose(graph_of(info, sample), Counts())
    return all(
        isinstance(n.op.lowering, (Elementwise, Generate))
        or (isinstance(n.op.lowering, View) and not n.args[0].tensor_type.shape)
        for n in graph.nodes
        if n.args
    )


def samples_of(info: OpInfo, dtype: DType) -> Iterator[Sample]:
    """One sample of each kind of arguments, whose arrays are vectors of one length."""
    met: set[str] = set()
    for sample in info.samples(dtype, False):
        arrays = arrays_of(sample)
        if not arrays or any(a.dtype != dtype.numpy or a.ndim != 1 for a in arrays):
            continue
        kind = f"{with_arrays(sample, ['x'] * len(arrays))} {sample.kwargs}"
        if len({a.size for a in arrays}) == 1 and arrays[0].size > 1 and kind not in met:
            met.add(kind)
            if is_elementwise(info, sample):
                yield sample


def close_enough(got: Array, wanted: Array, ulps: float) -> Array:
    """Where both are the same, or differ by few units in the last place."""
    if got.dtype.kind in "biu":
        return np.asarray(got == wanted)
    info = ml_dtypes.finfo(got.dtype)
    with np.errstate(all="ignore"):
        wide, right = got.astype(np.longdouble), wanted.astype(np.longdouble)
        error = np.abs(wide - right) <= ulps * (
            np.abs(right) * float(info.eps) + float(info.smallest_subnormal)
        )
    return np.asarray(error | (got == wanted) | (np.isnan(wide) & np.isnan(right)))


def assert_close(
    got: Sequence[Array], wanted: Sequence[Array], ulps: float, inputs: Sequence[Array], what: str
) -> None:
    for a, b in zip(got, wanted, strict=True):
        wrong = np.flatnonzero(~close_enough(a, b, ulps))
        if wrong.size:
            i = wrong[0]
            given = ", ".join(repr(x[i]) for x in inputs)
            pytest.fail(f"{what} of {given}: {a[i]!r}, not {b[i]!r}; so are {wrong.size}")


def draw(dtype: DType, count: int) -> list[Array]:
    """``count`` operands of many elements: each magnitude, beside each other as it comes."""
    x = magnitudes(dtype)
    if count == 1:
        return [np.resize(x, _MANY)]
    rng = np.random.default_rng(count)
    return [rng.choice(x, _MANY) for _ in range(count)]


def parts_of(info: OpInfo, sample: Sample, arrays: Sequence[Array], count: int) -> list[Array]:
    """The results of the first ``count`` elements, few at a time."""
    found = []
    for begin in range(0, count, _FEW):
        tensors = [sf.from_numpy(a[begin : begin + _FEW].copy()) for a in arrays]
        found.append([out.numpy() for out in call(info, sample, tensors)])
    return [np.concatenate(parts)[:count] for parts in zip(*found, strict=True)]


def check(name: str, dtype: DType) -> None:
    info = ROWS[name]
    for sample in samples_of(info, dtype):
        arrays = draw(dtype, len(arrays_of(sample)))
        count = magnitudes(dtype).size
        large = call(info, sample, [sf.from_numpy(a.copy()) for a in arrays])
        large = [out.numpy()[:count] for out in large]
        small = parts_of(info, sample, arrays, count)
        what = f"on a large array, {name}({sample})"
        assert_close(large, small, _ULPS, [a[:count] for a in arrays], what)


CASES = [
    (name, dtype)
    for name, info in ROWS.items()
    for dtype in (float32, float64)
    if dtype in info.dtypes
    and (isinstance(info.op.lowering, Elementwise) or info.op.decompose is not None)
]


def cases(chosen: Sequence[tuple[str, DType]]) -> Callable[..., Any]:
    return pytest.mark.parametrize(("name", "dtype"), chosen)


@cases(daily(CASES, 50, "extremes"))
def test_values_do_not_depend_on_the_size_of_the_array(name: str, dtype: DType) -> None:
    check(name, dtype)


@pytest.mark.campaign
@cases(CASES)
def test_values_do_not_depend_on_the_size_of_any_array(name: str, dtype: DType) -> None:
    check(name, dtype)
