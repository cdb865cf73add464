"""Running sums of few long rows and columns, running extremes of such rows, and extremes with their
positions of such columns, on an emulated GPU: in parts, by as many threads as there is work for, and what the CPU gives."""

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

__all__ = ["nvrtc"]

Array = np.ndarray[Any, Any]

SUMS: dict[str, Callable[[Any, int], Any]] = {
    "cumsum": lambda x, dim: x.cumsum(dim),
    "cumsum of float16": lambda x, dim: x.half().cumsum(dim).float(),
    "cumsum of integers": lambda x, dim: (x * 1e8).to(sf.int32).cumsum(dim, dtype=sf.int32),
    "gradient of cumsum": lambda x, dim: sf.grad((x.cumsum(dim) * x).sum(), [x])[0],
    "cumsum of what is turned": lambda x, dim: sf.flip(x, dim).cumsum(dim),
}

WALKS: dict[str, Callable[[Any, int], Any]] = {
    "cummax": lambda x, dim: tuple(x.cummax(dim)),
    "cummax of few values": lambda x, dim: tuple((x * 2).round().cummax(dim)),
    "cummin of integers": lambda x, dim: tuple((x * 2).to(sf.int32).cummin(dim)),
    "logcumsumexp": lambda x, dim: sf.logcumsumexp(x * 5, dim),
}

EXTREMES: dict[str, Callable[[Any, int], Any]] = {
    "argmax": lambda x, dim: x.argmax(dim),
    "argmin of few values": lambda x, dim: (x * 2).round().argmin(dim, keepdim=True),
    "max with its index": lambda x, dim: tuple((x * 2).round().max(dim)),
    "min of integers": lambda x, dim: tuple((x * 2).to(sf.int32).min(dim)),
    "argmax of bools": lambda x, dim: (x > 2.9).argmax(dim),
}

ALL = SUMS | WALKS | EXTREMES

SHAPES = [((300, 3), 0), ((2, 140, 3), 1), ((127, 2), 0), ((128, 2), 0), ((65 * 3, 1), 0)]
ROWS = [((3, 9001), 1), ((9001,), 0), ((2, 8191), 1), ((1, 8192), 1)]


@pytest.fixture
def gpu() -> Iterator[EmulatedDevice]:
    """A GPU that refuses races between threads."""
    with emulated_gpus(races=True) as devices:
        yield devices[0]


@pytest.mark.parametrize(("name", "sizes"), by_turns([*SUMS], SIZES, "running sums"))
def test_running_sums(gpu: EmulatedDevice, name: str, sizes: str) -> None:
    check_shapes(SUMS[name], [*SHAPES, *ROWS], sizes, 2e-4)


@pytest.mark.parametrize(("name", "sizes"), by_turns([*WALKS], SIZES, "walks in parts"))
def test_walks(gpu: EmulatedDevice, name: str, sizes: str) -> None:
    check_shapes(WALKS[name], ROWS, sizes, 2e-4)


@pytest.mark.parametrize("name", ["cummax", "logcumsumexp"])
def test_walks_meet_infinities_and_nan(gpu: EmulatedDevice, name: str) -> None:
    x = normal(9001)
    x[[100, 101, 4000, 8998]] = [-np.inf, np.inf, 3.0, np.nan]
    on_cpu, on_gpu = (compiled(lambda x: WALKS[name](x, 0), [x], d) for d in ("cpu", "cuda"))
    for row in (x, x[::-1].copy(), np.full_like(x, -np.inf), np.zeros_like(x)):
        assert_alike(on_gpu(row), on_cpu(row), rtol=2e-4)


@pytest.mark.parametrize(("name", "sizes"), by_turns([*EXTREMES], SIZES, "extremes in parts"))
def test_extremes_and_where_they_are(gpu: EmulatedDevice, name: str, sizes: str) -> None:
    check_shapes(EXTREMES[name], SHAPES, sizes, 2e-4)


def test_extremes_meet_infinities_nan_and_zeros(gpu: EmulatedDevice) -> None:
    def fn(x: Any) -> Any:
        return x.argmax(0), x.argmin(0), x.max(0), x.min(0)

    x = normal(300, 5)
    x[[7, 200, 299], 0] = np.nan
    x[:, 1], x[:, 2] = -np.inf, np.where(np.arange(300) % 2, 0.0, -0.0)
    x[250, 3] = np.inf
    on_cpu, on_gpu = (compiled(fn, [x], device) for device in ("cpu", "cuda"))
    found, wanted = on_gpu(x), on_cpu(x)
    assert_alike(found, wanted)
    assert (np.signbit(found[2].values.cpu().numpy()) == np.signbit(wanted[2].values.numpy())).all()


def test_one_program_for_all_sizes(gpu: EmulatedDevice) -> None:
    def fn(x: Any) -> Any:
        return x.cumsum(0), x.cumsum(1)

    on_cpu, on_gpu = (compiled(fn, [normal(2, 3)], device) for device in ("cpu", "cuda"))
    for shape in ((1, 8192), (8192, 1), (130, 2), (127, 3), (0, 5), (5, 0), (1, 1)):
        assert_alike(on_gpu(normal(*shape)), on_cpu(normal(*shape)), rtol=2e-4)
    assert on_gpu.compile_count == 1


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_as_many_threads_as_there_is_work_for(
    gpu: EmulatedDevice, monkeypatch: pytest.MonkeyPatch, unknown: bool
) -> None:
    """On both sides of each threshold: the blocks of each launch."""
    blocks = []
    monkeypatch.setattr(gpu, "launch", lambda kernel, grid, block, given: blocks.append(grid[0]))
    wanted = {
        ("cumsum", (4, 10**6), 1): [4 * 244] * 2, ("cumsum", (4, 8191), 1): [4],
        ("cumsum", (128, 8192), 1): [256] * 2, ("cumsum", (129, 8192), 1): [129],
        ("cumsum", (8192, 1024), 0): [512] * 2, ("argmax", (8192, 1024), 0): [512, 128],
        ("cummax", (4, 10**6), 1): [4 * 244] * 2, ("cummax", (4, 8191), 1): [4],
        ("argmax", (127, 1024), 0): [4], ("argmax", (10**5, 3), 0): [19, 1],
    }  # fmt: skip
    for (name, shape, dim), launches in wanted.items():
        x = sf.placeholder((None, None) if unknown else shape, name="x")
        program = sf.compile([x], ALL[name](x, dim), device="cuda")
        blocks.clear()
        program(np.zeros(shape, np.float32))
        assert blocks == launches, (name, shape)


@pytest.mark.parametrize("name", ["cumsum", "argmax", "logcumsumexp"])
def test_the_order_of_threads_changes_no_bit(name: str) -> None:
    found = []
    for order in ORDERS:
        with emulated_gpus(order):
            program = compiled(lambda x: ALL[name](x, 0), [normal(300, 3)], "cuda")
            found.append(program(normal(300, 3)).cpu().numpy())
    assert all((f == found[0]).all() for f in found[1:])


@pytest.mark.parametrize(
    ("name", "architecture"), by_turns(list(ALL), ARCHITECTURES, "spills of rows in parts")
)
def test_kernels_compile_without_spills(
    gpu: EmulatedDevice, nvrtc: Nvrtc, name: str, architecture: str
) -> None:
    for dim in (0, 1):
        program = compiled(lambda x, dim=dim: ALL[name](x, dim), [normal(2, 3)], "cuda")
        assert set(nvrtc.spilled(program.source("cuda"), architecture)) == {0}
