"""Elements by their rank, by warps and blocks of threads on an emulated GPU: those of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from device_programs import compiled
from emulated_device import EmulatedDevice, emulated_gpus
from slices import by_days

import staticflow as sf
from staticflow.config import config
from staticflow.ops.indexing import rank_merge

Array = np.ndarray[Any, Any]

DTYPES = ("float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool")


@pytest.fixture
def gpu() -> Iterator[EmulatedDevice]:
    with emulated_gpus() as devices:
        yield devices[0]


def drawn(dtype: str, *shape: int) -> Array:
    """Values from one end of a dtype to the other, many of them equal; NaN and zeros of both signs
    among floating ones."""
    rng = np.random.default_rng(len(shape))
    kind = np.dtype(dtype).kind
    if kind == "f":
        x = (rng.standard_normal(shape) * 3).round(1).astype(dtype)
        x[..., ::9], x[..., 1::31] = -0.0, np.inf
        x[..., 2::41], x[..., 3::53] = -np.inf, np.nan
        return x
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    x[..., ::3] = x[..., :1]
    x[..., 1], x[..., 2] = limits.min, limits.max
    return x


def check(fn: Any, x: Array, unknown: bool, more: tuple[Any, ...] = ()) -> Any:
    on_cpu, on_gpu = (
        compiled(lambda x: fn(x, *more), [x], device, unknown) for device in ("cpu", "cuda")
    )
    for given in (x, x[..., ::-1].copy()):
        for a, b in zip(on_gpu(given), on_cpu(given), strict=True):
            np.testing.assert_array_equal(a.cpu().numpy(), b.numpy())
    return on_gpu


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("dtype", by_days(DTYPES, 3, "sorted"))
def test_long_rows_are_sorted_by_all_threads(
    gpu: EmulatedDevice, monkeypatch: pytest.MonkeyPatch, dtype: str, unknown: bool
) -> None:
    """In runs, which are merged four at a time: as many launches as a row needs."""
    monkeypatch.setattr(rank_merge, "_RUN", 32)
    for shape, dim, launches in (
        ((700,), 0, 5),
        ((3, 130), 1, 3),
        ((129, 3), 0, 3),
        ((2, 128), 1, 3),
        ((3, 30), 1, 1),
    ):
        x = drawn(dtype, *shape)
        for descending in (False, True):
            program = check(lambda x, *a: tuple(sf.sort(x, *a)), x, unknown, (dim, descending))
        gpu.counts.clear()
        with config.change(capture=False):
            program(x)
        assert gpu.counts["launch"] == launches


def test_rows_of_any_length_by_one_program(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x: tuple(sf.sort(x, 0)), [drawn("float32", 300)], "cuda")
    for n in (0, 1, 2047, 2048, 2049, 8193):
        x = np.random.default_rng(n).integers(0, 99, n).astype("f4")
        values, positions = program(x)
        order = np.argsort(x, kind="stable")
        assert (positions.cpu().numpy() == order).all()
        assert (values.cpu().numpy() == x[order]).all()


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("dtype", by_days(DTYPES, 3, "the first few"))
def test_the_first_few_of_long_rows(gpu: EmulatedDevice, dtype: str, unknown: bool) -> None:
    """Of a few rows many threads keep the first, in three launches; of many rows one each."""
    for shape, dim, launches in (
        ((300,), 0, 3),
        ((2, 4300), 1, 3),
        ((300, 3), 0, 3),
        ((40, 50), 1, 1),
    ):
        x = drawn(dtype, *shape)
        for count, largest in ((10, True), (1, False)):
            program = check(lambda x, *a: tuple(sf.topk(x, *a)), x, unknown, (count, dim, largest))
            gpu.counts.clear()
            with config.change(capture=False):
                program(x)
            assert gpu.counts["launch"] == launches


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_every_dtype(gpu: EmulatedDevice, dtype: str, unknown: bool) -> None:
    x = drawn(dtype, 300)

    def fn(x: Any) -> tuple[Any, ...]:
        ranks = (1, 100, 300) if isinstance(x.shape[0], int) else (1, x.shape[0])
        found = [sf.kthvalue(x, k, 0) for k in ranks]
        return tuple(part for each in found for part in each)

    program = check(fn, x, unknown)
    assert "__syncthreads" in program.source("cuda") or "__syncwarp" in program.source("cuda")


@pytest.mark.parametrize(
    "shape, dim", [((3, 400), 1), ((300, 2), 0), ((2, 70, 3), 1), ((1500,), 0)]
)
def test_medians(gpu: EmulatedDevice, shape: tuple[int, ...], dim: int) -> None:
    x = drawn("float32", *shape)
    lost = x.copy()
    lost[..., -1:] = np.nan
    for given in (x, lost, np.zeros_like(x), np.full_like(x, np.nan)):
        check(lambda x: tuple(sf.median(x, dim)), given, unknown=False)
    check(lambda x: (sf.median(x), sf.nanmedian(x)), lost, unknown=True)


def test_largest_of_long_rows(gpu: EmulatedDevice) -> None:
    for dtype in ("float32", "int32", "uint8"):
        x = drawn(dtype, 2, 700)
        check(lambda x: sf.topk(x, 40, 1)[:1], x, unknown=False)
        check(lambda x: sf.topk(x, 40, 1, largest=False)[:1], x, unknown=False)


def test_a_row_is_not_compacted(gpu: EmulatedDevice) -> None:
    """No loop of the text goes through a row element by element, with all threads waiting."""
    x = sf.placeholder((5000,), name="x")
    text = sf.compile([x], sf.median(x, 0).values, device="cuda").source("cuda")
    loops = [line for line in text.splitlines() if "< 5000" in line and "for (" in line]
    assert loops and all("+= 256" in line for line in loops)
