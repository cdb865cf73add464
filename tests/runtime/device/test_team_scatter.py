"""Elements that come to positions which repeat, on an emulated GPU: the bits of a loop in order,
by a thread for each position where there are many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from device_programs import compiled
from emulated_device import EmulatedDevice, emulated_gpus
from emulator import ORDERS
from nvrtc import ARCHITECTURES, Nvrtc, nvrtc
from slices import by_turns

import staticflow as sf
from staticflow.config import config
from staticflow.errors import IndexRangeError
from staticflow.ops.indexing import gather_ops

__all__ = ["nvrtc"]

Array = np.ndarray[Any, Any]

SCATTERED: dict[str, Callable[..., Any]] = {
    "add": lambda x, i, s, dim: sf.scatter_add(x, dim, i, s),
    "put": lambda x, i, s, dim: sf.scatter(x, dim, i, s),
    "amax": lambda x, i, s, dim: sf.scatter_reduce(x, dim, i, s, "amax"),
    "prod": lambda x, i, s, dim: sf.scatter_reduce(x, dim, i, s, "prod"),
    "add in float16": lambda x, i, s, dim: sf.scatter_add(x.half(), dim, i, s.half()).float(),
}

SHAPES = [
    ((7,), (100,), 0),
    ((3, 9), (3, 60), 1),
    ((9, 3), (60, 3), 0),
    ((2, 5, 3), (2, 40, 3), 1),
]
"""The shape of the target, of the index, and the dim."""


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 20 elements are many."""
    monkeypatch.setattr(gather_ops, "_MANY", 20)


@pytest.fixture
def gpu() -> Iterator[EmulatedDevice]:
    with emulated_gpus() as devices:
        yield devices[0]


def drawn(shape: tuple[int, ...], of: tuple[int, ...], dim: int) -> list[Array]:
    rng = np.random.default_rng(len(shape))
    x, s = (rng.standard_normal(n, dtype=np.float32) for n in (shape, of))
    return [x, rng.integers(0, shape[dim], of), s]


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("name", SCATTERED)
def test_the_bits_of_a_loop_in_order(gpu: EmulatedDevice, name: str, unknown: bool) -> None:
    for shape, of, dim in SHAPES:
        arrays = drawn(shape, of, dim)
        on_cpu, on_gpu = (
            compiled(lambda x, i, s, dim=dim: SCATTERED[name](x, i, s, dim), arrays, d, unknown)
            for d in ("cpu", "cuda")
        )
        assert (on_gpu(*arrays).cpu().numpy() == on_cpu(*arrays).numpy()).all()


def test_few_and_many_by_one_program(gpu: EmulatedDevice) -> None:
    arrays = drawn((7,), (100,), 0)
    on_cpu, on_gpu = (
        compiled(lambda x, i, s: SCATTERED["add"](x, i, s, 0), arrays, d) for d in ("cpu", "cuda")
    )
    launches = []
    for count in (0, 1, 20, 21, 3000):
        given = drawn((7,), (count,), 0)
        gpu.counts.clear()
        with config.change(capture=False):
            assert (on_gpu(*given).cpu().numpy() == on_cpu(*given).numpy()).all()
        launches.append(gpu.counts["launch"])
    assert launches == [2, 2, 2, 5, 7]  # of the last, runs of 2048 are merged, and moved back


def test_a_wrong_index_is_refused(gpu: EmulatedDevice) -> None:
    x, i, s = drawn((7,), (100,), 0)
    program = compiled(lambda x, i, s: SCATTERED["add"](x, i, s, 0), [x, i, s], "cuda")
    for wrong in (7, -1):
        i[93] = wrong
        with pytest.raises(IndexRangeError, match=r"scatter_add\("):
            program(x, i, s)


def test_the_order_of_threads_changes_no_bit() -> None:
    found = []
    for order in ORDERS:
        with emulated_gpus(order):
            arrays = drawn((2, 5, 3), (2, 40, 3), 1)
            program = compiled(lambda x, i, s: SCATTERED["add"](x, i, s, 1), arrays, "cuda")
            found.append(program(*arrays).cpu().numpy())
    assert all((f == found[0]).all() for f in found[1:])


@pytest.mark.parametrize(
    ("unknown", "architecture"), by_turns([False, True], ARCHITECTURES, "spills of scatter")
)
def test_kernels_compile_without_spills(
    gpu: EmulatedDevice, nvrtc: Nvrtc, unknown: bool, architecture: str
) -> None:
    arrays = drawn((3, 9), (3, 60), 1)
    program = compiled(lambda x, i, s: SCATTERED["add"](x, i, s, 1), arrays, "cuda", unknown)
    assert set(nvrtc.spilled(program.source("cuda"), architecture)) == {0}
