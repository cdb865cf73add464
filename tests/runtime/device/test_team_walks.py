"""Walks along long rows, and elements in the order of a mask, by blocks of threads on an emulated
GPU: what the CPU gives, whatever is in the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from device_programs import assert_alike, compiled
from emulated_device import EmulatedDevice, emulated_gpus

import staticflow as sf
from staticflow.errors import IndexRangeError
from staticflow.ops.along.recurrence import recurrence_op

Array = np.ndarray[Any, Any]

SHAPES = [((1000,), 0), ((3, 700), 1), ((300, 5), 0), ((2, 257, 3), 1), ((0,), 0), ((2, 300, 0), 1)]
"""Shapes, and the dim of the walk."""

WALKS: dict[str, Callable[[Any, int], Any]] = {
    "cummax": lambda x, dim: tuple(sf.cummax(x, dim)),
    "cummin": lambda x, dim: tuple(sf.cummin(x, dim)),
    "cummax of integers": lambda x, dim: tuple(sf.cummax((x * 3).clamp(-9, 9).to(sf.int32), dim)),
    "logcumsumexp": lambda x, dim: sf.logcumsumexp(x * 5, dim),
    "gradient of logcumsumexp": lambda x, dim: sf.grad(sf.logcumsumexp(x, dim).sin().sum(), [x])[0],
    "gradient of cumprod": lambda x, dim: sf.grad(sf.cumprod(x, dim).tanh().sum(), [x])[0],
}


@pytest.fixture
def gpu() -> Iterator[EmulatedDevice]:
    with emulated_gpus() as devices:
        yield devices[0]


def check(
    gpu: EmulatedDevice, fn: Callable[..., Any], *arrays: Array, unknown: bool = True
) -> None:
    on_cpu, on_gpu = (compiled(fn, arrays, device, unknown) for device in ("cpu", "cuda"))
    assert_alike(on_gpu(*arrays), on_cpu(*arrays))


def drawn(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("name", WALKS)
def test_walks(gpu: EmulatedDevice, name: str, unknown: bool) -> None:
    for shape, dim in SHAPES:
        x = drawn(*shape)
        check(gpu, lambda x, dim=dim: WALKS[name](x, dim), x, unknown=unknown)


@pytest.mark.parametrize("name", ["cummax", "cummin", "logcumsumexp"])
def test_walks_meet_infinities_and_nan(gpu: EmulatedDevice, name: str) -> None:
    x = drawn(900)
    x[[100, 101, 500, 800]] = [np.inf, -np.inf, np.nan, np.nan]
    for row in (x, x[:400], x[101:], np.full_like(x, -np.inf), np.zeros_like(x)):
        check(gpu, lambda x: WALKS[name](x, 0), row)


def test_equal_extremes_are_the_last(gpu: EmulatedDevice) -> None:
    zeros = np.where(np.arange(700) % 3 == 0, -0.0, 0.0).astype("f4")
    check(gpu, lambda x: (*sf.cummax(x, 0), 1 / sf.cummax(x, 0)[0]), zeros)


def test_factors_of_a_chunk_that_overflow(gpu: EmulatedDevice) -> None:
    """Their product is infinite, and what they are multiplied with is 0: in order that is 0."""
    a = np.full((2, 600), 1e200)
    b = np.zeros((2, 600))
    b[1, 400:], a[1, 500:] = 3.0, 0.5
    b[0, 597] = np.inf

    def fn(b: Any, a: Any) -> Any:
        return [recurrence_op(b, a, dim=1, reverse=r) for r in (False, True)]

    check(gpu, fn, b, a)
    (forward, _) = compiled(fn, [b, a], "cuda")(b, a)
    assert (forward[0, :597] == 0).all()


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("shape", [(10000,), (40, 37), (5,), (4096,), (0,), (3, 0)], ids=str)
def test_masks(gpu: EmulatedDevice, shape: tuple[int, ...], unknown: bool) -> None:
    x = drawn(*shape)
    source = drawn(x.size + 1)
    for fn in (
        lambda x, s: (x[x > 0.3].exp(), sf.nonzero(x > 0.3), x[x == x], x[x != x], s.sum()),
        lambda x, s: sf.masked_scatter(x, x > 0.1, s),
        lambda x, s: sf.grad((sf.masked_scatter(x, x > 0.1, s) ** 2).sum(), [x, s]),
    ):
        check(gpu, fn, x, source, unknown=unknown)


def test_a_source_that_is_too_short(gpu: EmulatedDevice) -> None:
    ones = np.ones(5000, np.float32)
    program = compiled(lambda x, s: sf.masked_scatter(x, x > 0, s), [ones, ones], "cuda")
    assert program(ones, ones * 2).sum() == 10000
    with pytest.raises(IndexRangeError, match="the mask is true in 5000 positions, the source has"):
        program(ones, ones[1:])


def test_repeats(gpu: EmulatedDevice) -> None:
    def fn(r: Any) -> Any:
        return sf.repeat_interleave(r), sf.repeat_interleave(r * 2.5, r)

    for n in (700, 1, 0):
        check(gpu, fn, np.random.default_rng(n).integers(0, 5, n))
    check(gpu, fn, np.zeros(4, np.int64))
    with pytest.raises(IndexRangeError):
        compiled(fn, [np.zeros(3, np.int64)], "cuda")(np.array([3, -1, 2]))


def test_a_block_takes_each_long_row_and_a_thread_each_of_many(gpu: EmulatedDevice) -> None:
    def threads(shape: tuple[int, ...], dim: int) -> bool:
        x = [sf.placeholder(shape, name="x")]
        program = sf.compile(x, sf.logcumsumexp(x[0], dim), device="cuda")
        return "__syncthreads" in program.source("cuda")

    assert threads((4, 1000), 1) and threads((1000, 4), 0) and threads((1000, 1000), 1)
    assert not threads((4, 100), 1) and not threads((1000, 1000), 0)
