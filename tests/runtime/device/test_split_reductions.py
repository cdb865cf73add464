"""Reductions of few long rows or columns on an emulated GPU: by as many threads as there is work
for, in no more launches than they need, and what the CPU gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from device_programs import SIZES, assert_alike, check_shapes, compiled, normal
from emulated_device import EmulatedDevice, emulated_gpus
from emulator import ORDERS
from nvrtc import ARCHITECTURES, Nvrtc, nvrtc
from slices import by_turns

import staticflow as sf
from staticflow.nn import functional as F

__all__ = ["nvrtc"]

REDUCTIONS: dict[str, Callable[[Any, int], Any]] = {
    "sum": lambda x, dim: (x * 2).sum(dim).tanh(),
    "sum of float16": lambda x, dim: (x.half() / 64).sum(dim).float(),
    "sum of integers": lambda x, dim: (x * 9).to(sf.int32).sum(dim),
    "prod": lambda x, dim: (x * 0.01 + 1).prod(dim),
    "amax": lambda x, dim: sf.amax(x, dim),
    "any": lambda x, dim: (x > 3.4).any(dim),
    "some at once": lambda x, dim: (x.sum(dim), sf.amin(x, dim), (x > 0).sum(dim)),
}

PASSES: dict[str, Callable[[Any, int], Any]] = {
    "softmax": sf.softmax,
    "softmax of float16": lambda x, dim: sf.softmax(x.half(), dim).float(),
    "softmax with its gradient": lambda x, dim: sf.grad((sf.softmax(x, dim) * x).sum(), [x])[0],
    "logsumexp": sf.logsumexp,
    "std": lambda x, dim: x.std(dim),
    "max": lambda x, dim: (x * 2).round().max(dim),
    "elements and values of rows": lambda x, dim: (
        sf.log_softmax(x, dim), sf.logsumexp(x, dim), x.mean(dim)
    ),
    "a norm": lambda x, dim: (x - x.mean(dim, keepdim=True)) / x.var(dim, keepdim=True).sqrt(),
}  # fmt: skip
"""What goes over each row several times, of which each time is cut."""

FEW_COLUMNS, FEW_ROWS = (300, 3), (3, 9000)
MANY_COLUMNS, MANY_ROWS = (100, 1 << 12), (1 << 11, 20)


@pytest.fixture
def gpu() -> Iterator[EmulatedDevice]:
    """A GPU that refuses races between threads."""
    with emulated_gpus(races=True) as devices:
        yield devices[0]


@pytest.mark.parametrize(("name", "sizes"), by_turns([*REDUCTIONS], SIZES, "reductions in parts"))
def test_reductions(gpu: EmulatedDevice, name: str, sizes: str) -> None:
    cases: list[Any] = [(FEW_COLUMNS, 0), (FEW_ROWS, 1), ((2, 70, 3), 0)]
    if name != "prod":
        cases.append(((2, 90, 130), (1, 2)))
    check_shapes(REDUCTIONS[name], cases, sizes, 1e-4)


@pytest.mark.parametrize(("name", "sizes"), by_turns([*PASSES], SIZES, "passes in parts"))
def test_several_passes(gpu: EmulatedDevice, name: str, sizes: str) -> None:
    cases = [(FEW_COLUMNS, 0), (FEW_ROWS, 1), ((1, 9001), 1), ((2, 140, 3), 1)]
    check_shapes(PASSES[name], cases, sizes, 1e-3 if "16" in name else 2e-4)


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_passes_are_cut_where_rows_are_few_and_long(
    gpu: EmulatedDevice, monkeypatch: pytest.MonkeyPatch, unknown: bool
) -> None:
    """Five launches, of the extreme, the sum and the quotients, on one side of each threshold, and
    one on the other; a launch of as many blocks as there are parts."""
    blocks = []
    monkeypatch.setattr(gpu, "launch", lambda kernel, grid, block, given: blocks.append(grid[0]))
    for rows, length, launches in ((128, 8192, 5), (129, 8192, 1), (4, 8191, 1), (1, 10**6, 5)):
        x = sf.placeholder((None, None) if unknown else (rows, length), name="x")
        program = sf.compile([x], sf.softmax(x, 1), device="cuda")
        blocks.clear()
        program(np.zeros((rows, length), np.float32))
        assert len(blocks) == launches
        assert max(blocks) == (rows if launches == 1 else rows * min(length // 4096, 1024 // rows))


def test_sizes_that_kernels_work_out_are_known_to_launches(
    gpu: EmulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one row of unknown length no launch has more blocks than parts."""
    blocks = []
    monkeypatch.setattr(gpu, "launch", lambda kernel, grid, block, given: blocks.append(grid[0]))
    x = sf.placeholder((None,), name="x")
    sf.compile([x], x.var(), device="cuda")(np.zeros(3 * 4096, np.float32))
    assert blocks == [3, 1, 3, 1]


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_a_launch_without_iterations_is_none(gpu: EmulatedDevice, unknown: bool) -> None:
    """Few are cut, by a launch more; many are not, though the program of unknown sizes could."""
    for dim, few, many in ((0, FEW_COLUMNS, MANY_COLUMNS), (1, FEW_ROWS, MANY_ROWS)):
        for shape, launches in ((few, 2), (many, 1)):
            x = normal(*shape)
            program = compiled(lambda x, dim=dim: x.sum(dim), [x], "cuda", unknown)
            gpu.counts.clear()
            out = program(x)
            assert gpu.counts["launch"] == launches
            np.testing.assert_allclose(out.cpu().numpy(), x.sum(dim, dtype="f8"), 1e-4, 1e-4)
            program(x)
            assert gpu.counts["captured"] == launches


def test_one_program_for_all_sizes(gpu: EmulatedDevice) -> None:
    program = compiled(lambda x: (x.sum(0), x.mean(1)), [normal(2, 3)], "cuda")
    for shape in ((1, 9000), (9000, 2), (64, 1), (65, 2), (128, 1), (0, 5), (5, 0), (4097, 1)):
        x = normal(*shape)
        down, along = program(x)
        np.testing.assert_allclose(down.cpu().numpy(), x.sum(0, dtype="f8"), 1e-4, 1e-4)
        if x.size:
            np.testing.assert_allclose(along.cpu().numpy(), x.mean(1, dtype="f8"), 1e-4, 1e-4)
    assert program.compile_count == 1


@pytest.mark.parametrize("shape", [FEW_COLUMNS, FEW_ROWS])
@pytest.mark.parametrize("fn", [lambda x, dim: x.sum(dim), sf.softmax], ids=["sum", "softmax"])
def test_the_order_of_threads_changes_no_bit(shape: tuple[int, ...], fn: Any) -> None:
    x, dim = normal(*shape), int(shape == FEW_ROWS)
    found = []
    for order in ORDERS:
        with emulated_gpus(order):
            found.append(compiled(lambda x: fn(x, dim), [x], "cuda")(x).cpu().numpy())
    assert all((f == found[0]).all() for f in found[1:])


def test_as_many_threads_as_there_is_work_for(
    gpu: EmulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gradient of a bias: 1024 columns of 8192 rows."""
    x = sf.placeholder((None, 1024), name="x")
    program = sf.compile([x], x.sum(0), device="cuda")
    threads = []

    def launch(kernel: Any, grid: Any, block: Any, arguments: Any) -> None:
        threads.append(grid[0] * block[0])

    monkeypatch.setattr(gpu, "launch", launch)
    program(np.zeros((8192, 1024), np.float32))
    assert threads == [1 << 17, 1024]


def gradient_by_weight(x: Any, w: Any) -> Any:
    return sf.grad(F.conv2d(x, w).pow(2).sum(), [w])[0]


def test_parts_of_a_long_inner_dimension(gpu: EmulatedDevice) -> None:
    """The gradient of a convolution by its weight: a tile of results, and a sum over all
    positions."""
    w = normal(2, 3, 3, 3)
    program = compiled(gradient_by_weight, [normal(2, 3, 9, 9), w], "cuda")
    on_cpu = compiled(gradient_by_weight, [normal(2, 3, 9, 9), w], "cpu")
    launches = {}
    for images in (2, 12):
        x = normal(images, 3, 16, 18, seed=images)
        gpu.counts.clear()
        assert_alike(program(x, w), on_cpu(x, w), rtol=1e-3)
        launches[images] = gpu.counts["launch"]
    assert launches[12] == launches[2] + 1


@pytest.mark.parametrize(
    ("unknown", "architecture"),
    by_turns([False, True], ARCHITECTURES, "spills of products in parts"),
)
def test_products_in_parts_compile_without_spills(
    gpu: EmulatedDevice, nvrtc: Nvrtc, unknown: bool, architecture: str
) -> None:
    arrays = [normal(2, 3, 9, 9), normal(2, 3, 3, 3)]
    text = compiled(gradient_by_weight, arrays, "cuda", unknown).source("cuda")
    assert set(nvrtc.spilled(text, architecture)) == {0}


@pytest.mark.parametrize(
    ("name", "architecture"),
    by_turns([*REDUCTIONS, *PASSES], ARCHITECTURES, "spills of split reductions"),
)
def test_kernels_compile_without_spills(
    gpu: EmulatedDevice, nvrtc: Nvrtc, name: str, architecture: str
) -> None:
    fn = (REDUCTIONS | PASSES)[name]
    for dim in (0, 1):
        program = compiled(lambda x, dim=dim: fn(x, dim), [normal(2, 3)], "cuda")
        assert set(nvrtc.spilled(program.source("cuda"), architecture)) == {0}
