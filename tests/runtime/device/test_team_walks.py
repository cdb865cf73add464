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
    "cumprod": lambda x, dim: sf.cumprod(x, dim),
    "cumprod of integers": lambda x, dim: sf.cumprod((x * 3).to(sf.int32), dim),
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


def rows_of_products() -> dict[str, Array]:
    """Rows that leave the normal numbers on the way, and those that meet 0, infinities and NaN."""
    down, up, draws = np.full(400, 0.1), np.full(400, -10.0), drawn(800).astype("f8")
    rows = {
        "underflows": [down, up, up], "overflows": [up, down, down], "below the normal": [
            np.full(312, 0.1), up[:80], down[:30]
        ],
        "a zero, then large": [draws[:200], [0.0], up, up], "large, then a zero": [up, [-0.0], up],
        "a zero and infinity": [draws[:300], [0.0], draws[:90], [np.inf], draws[:300]],
        "a zero that no number follows": [[0.0], draws[:300], [np.nan], draws[:300]],
        "zeros": [np.where(draws > 1, 0.0, draws)], "infinity": [draws[:300], [-np.inf], draws],
        "sizes that cross": [np.exp(40 * draws)], "near 1": [np.exp(draws / 20)], "large": [draws * 9],
    }  # fmt: skip
    return {name: np.concatenate(parts) for name, parts in rows.items()}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_are_those_in_order(gpu: EmulatedDevice, dtype: str) -> None:
    """As in order: no number that is not finite comes of another order, no 0 becomes one."""

    def fn(x: Any, y: Any) -> Any:
        out = sf.cumprod(x, 0)
        (grad,) = sf.grad(sf.cumprod(x, 0).sum(), [x])
        return out, sf.flip(sf.cumprod(sf.flip(x, 0), 0), 0), grad, sf.cumprod(y, 1)

    with np.errstate(over="ignore"):
        rows = {name: row.astype(dtype) for name, row in rows_of_products().items()}
    rows["short"] = np.repeat(np.array([1e-200, 1e200, 3.0]), 70).clip(1e-30, 1e30).astype(dtype)
    example = next(iter(rows.values()))
    on_cpu, on_gpu = (compiled(fn, [example, example[None]], d) for d in ("cpu", "cuda"))
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    for name, row in rows.items():
        pairs = zip(on_gpu(row, row[None]), on_cpu(row, row[None]), strict=True)
        for found, wanted in ((a.cpu().numpy(), b.numpy()) for a, b in pairs):
            least = float(np.finfo(dtype).tiny) * 1e5
            np.testing.assert_allclose(found, wanted, tolerance, least, err_msg=name)
            number = ~np.isnan(wanted)
            assert (np.signbit(found) == np.signbit(wanted))[number].all(), name
    row = rows["underflows"]
    assert (on_gpu(row, row[None])[0].cpu().numpy()[400:] == 0).all()


def test_products_of_long_rows_are_of_blocks(gpu: EmulatedDevice) -> None:
    x = sf.placeholder((4, 1000), name="x")
    program = sf.compile([x], sf.cumprod(x, 1), device="cuda")
    assert "__syncthreads" in program.source("cuda")


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
