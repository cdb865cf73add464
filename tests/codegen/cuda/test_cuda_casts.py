"""What the Kernel IR leaves open and the CUDA renderer defines, and the narrow floats, which it
computes by hand: against exact values."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_case import Array, Case, N, emulated
from emulator import Module

from staticflow.codegen.builder import Builder
from staticflow.codegen.cuda.render import render_cuda_module
from staticflow.codegen.kernel import Buffer, Kernel
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import DTYPES, DType, bfloat16, float16, float32, float64


def _unary(name: str, source: DType, target: DType) -> Kernel:
    k = Builder([Buffer("x", source, "in"), Buffer("y", target, "out")], [N])
    with k.loop("i", Dim.of(N), kind="grid") as i:
        k.store("y", i, k.cast(k.load("x", i), target))
    return verify_kernel(k.kernel(name))


_CASTS = [
    _unary(f"cast_{source}_{target}", source, target)
    for source in (float16, bfloat16, float32, float64)
    for target in DTYPES
    if source is not target
]

# 259 = 7 * 37 and 261 = 9 * 29 are in the middle of two bfloat16, so that an addend decides.
_PRODUCTS = {(7.0, 37.0): [258, 260, 260], (9.0, 29.0): [260, 260, 262]}


def _fmas() -> Kernel:
    k = Builder([Buffer("y", bfloat16, "out")], [])
    for p, (a, b) in enumerate(_PRODUCTS):
        for i, rest in enumerate((-(2.0**-90), 0.0, 2.0**-90)):
            k.store("y", 3 * p + i, k.fma(k.const(a, bfloat16), b, rest))
    return verify_kernel(k.kernel("fmas"))


@pytest.fixture(scope="module")
def module() -> Module:
    return Module(render_cuda_module([*_CASTS, _fmas()]))


def _cast(module: Module, x: Array, source: DType, target: DType) -> Array:
    kernel = _unary(f"cast_{source}_{target}", source, target)
    arrays = {"x": x, "y": np.empty(len(x), target.numpy)}
    return emulated(module, Case("cast", kernel, arrays, {N: len(x)}))[1]["y"]


@pytest.mark.parametrize("target", [t for t in DTYPES if t.category == 1], ids=str)
@pytest.mark.parametrize("source", [float16, bfloat16, float32, float64], ids=str)
def test_float_out_of_range_becomes_the_nearest_integer(
    module: Module, source: DType, target: DType
) -> None:
    info = np.iinfo(target.numpy)
    x = np.array([np.inf, -np.inf, np.nan, 6e4, -6e4, 300.7, -300.7, -0.5, 0.99], source.numpy)
    limits = [np.nan_to_num(float(v)) for v in x]
    expected = [min(max(int(v), info.min), info.max) for v in limits]
    assert _cast(module, x, source, target).tolist() == expected
    with np.errstate(over="ignore"):  # of float16, where both are infinite then
        edge = np.array([float(info.max + 1), float(info.min)]).astype(source.numpy)
    assert _cast(module, edge, source, target).tolist() == [info.max, info.min]


@pytest.mark.parametrize("narrow", [float16, bfloat16], ids=str)
def test_every_narrow_float_widens_exactly(module: Module, narrow: DType) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(narrow.numpy)
    for wide in (float32, float64):
        with np.errstate(invalid="ignore"):  # signalling NaN
            expected = x.astype(wide.numpy)
        np.testing.assert_array_equal(_cast(module, x, narrow, wide), expected, strict=True)


@pytest.mark.parametrize("wide", [float32, float64], ids=str)
@pytest.mark.parametrize("narrow", [float16, bfloat16], ids=str)
def test_narrowing_rounds_once_to_nearest_even(module: Module, narrow: DType, wide: DType) -> None:
    """At every finite value, at the middle of it and the next one up, and next to that middle."""
    infinity = int(np.array(np.inf, narrow.numpy).view(np.uint16))
    values = np.arange(infinity, dtype=np.uint16).view(narrow.numpy).astype(np.float64)
    above = np.append(values[1:], 2 * values[-1] - values[-2])
    middle = ((values + above) / 2).astype(wide.numpy)
    below = np.nextafter(middle, -np.inf, dtype=wide.numpy)
    beyond = np.nextafter(middle, np.inf, dtype=wide.numpy)
    number = np.arange(infinity)
    even = number + number % 2
    for x, expected in ((middle, even), (below, number), (beyond, number + 1)):
        actual = _cast(module, x, wide, narrow).view(np.uint16)
        np.testing.assert_array_equal(actual, expected)
        np.testing.assert_array_equal(
            _cast(module, -x, wide, narrow).view(np.uint16), expected | 0x8000
        )


@pytest.mark.parametrize("wide", [float32, float64], ids=str)
@pytest.mark.parametrize("narrow", [float16, bfloat16], ids=str)
def test_narrowing_keeps_every_nan(module: Module, narrow: DType, wide: DType) -> None:
    """Also one whose set bits are all cut off, and one that a carry would make a zero."""
    infinity = int(np.array(np.inf, wide.numpy).view(f"u{wide.itemsize}"))
    ones, sign = (1 << (wide.bits - 1)) - 1, 1 << (wide.bits - 1)
    bits = [infinity + 1, ones, sign + infinity + 1, sign + ones]
    x = np.array(bits, f"u{wide.itemsize}").view(wide.numpy)
    assert np.isnan(_cast(module, x, wide, narrow)).all()


def test_narrow_fma_rounds_once(module: Module) -> None:
    """Also where the addend is lost in float64."""
    case = Case("fmas", _fmas(), {"y": np.empty(6, bfloat16.numpy)})
    assert emulated(module, case)[1]["y"].tolist() == [
        value for values in _PRODUCTS.values() for value in values
    ]
