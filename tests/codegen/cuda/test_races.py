"""Races of threads, which the emulator finds if it is asked to: hand-written CUDA C, right and
wrong, and kernels whose threads check something while they store."""

from __future__ import annotations

import numpy as np
import pytest
from emulator import ORDERS, DeviceArray, EmulatorError, Module

from staticflow.codegen.builder import Builder
from staticflow.codegen.cuda.render import launch_geometry, render_cuda
from staticflow.codegen.kernel import Buffer, Kernel
from staticflow.graph.dtypes import int32

_HEAD = 'extern "C" __global__ void f(int* __restrict__ y) { int t = threadIdx.x; '

RIGHT = {
    "its own element": "y[t + 64 * blockIdx.x] = t; y[t + 64 * blockIdx.x] = y[t + 64 * blockIdx.x] + 1;",
    "all read one": "int a = y[0]; __syncthreads(); if (a == 9) y[t] = 1;",
    "a barrier of the block": "if (blockIdx.x) return; y[t] = 1; __syncthreads(); "
    "int a = y[t ^ 32]; __syncthreads(); y[t] = a;",
    "a barrier of the warp": "if (blockIdx.x) return; y[t] = 1; __syncwarp(); int a = y[t ^ 1]; "
    "__syncwarp(); y[t] = a;",
    "a shared array": "SF_SHARED(int, s, 64); s[t] = t; __syncthreads(); "
    "y[t + 64 * blockIdx.x] = s[63 - t];",
    "a vote of the block": "SF_SHARED(int, s, 64); s[t] = t; "
    "if (__syncthreads_or(t == 99)) return; y[t + 64 * blockIdx.x] = s[63 - t];",
}

WRONG = {
    "two blocks": ("y[t] = t;", r"a race: y\[0\] .* thread 0 of block 0 and thread 0 of block 1"),
    "all write one": ("if (blockIdx.x) return; y[0] = 1;", r"a race: y\[0\]"),
    "no barrier of a shared array": (
        "SF_SHARED(int, s, 64); s[t] = t; y[t + 64 * blockIdx.x] = s[63 - t];",
        r"a race: s\[",
    ),
    "a warp's barrier for two": (
        "if (blockIdx.x) return; y[t] = 1; __syncwarp(); y[t + 64] = y[t ^ 32];",
        r"a race: y\[\d+\]",
    ),
    "a vote of the warp": (
        "if (blockIdx.x) return; y[t] = 1; __any_sync(0xffffffffu, t); y[t + 64] = y[t ^ 1];",
        r"a race: y\[\d+\]",
    ),
    "a shuffle": (
        "if (blockIdx.x) return; y[t] = 1; __shfl_sync(0xffffffffu, t, 0); y[t + 64] = y[t ^ 1];",
        r"a race: y\[\d+\]",
    ),
    "read by all, then written": (
        "if (blockIdx.x) return; int a = y[0]; if (t == 5) y[0] = a + 1;", r"a race: y\[0\]",
    ),
    "written behind a barrier of another warp": (
        "if (blockIdx.x) return; int a = y[t ^ 32]; __syncwarp(); y[t] = a;", r"a race: y\[\d+\]",
    ),
}  # fmt: skip


def run(body: str, order: str) -> None:
    module = Module(f"{_HEAD}{body} }}", races=True)
    y = DeviceArray(np.zeros(128, np.int32))
    module.launch("f", (2, 1, 1), (64, 1, 1), [y], order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", RIGHT)
def test_no_races(name: str, order: str) -> None:
    run(RIGHT[name], order)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", WRONG)
def test_races(name: str, order: str) -> None:
    body, message = WRONG[name]
    with pytest.raises(EmulatorError, match=message if order == "forward" else "a race"):
        run(body, order)


TWO = """extern "C" __global__ void f(const int* __restrict__ x, int* __restrict__ y) {
  y[threadIdx.x] = x[threadIdx.x] + 1;
}"""


def test_one_memory_by_two_pointers() -> None:
    module = Module(TWO, races=True)
    x, y = DeviceArray(np.zeros(64, np.int32)), DeviceArray(np.zeros(64, np.int32))
    module.launch("f", (1, 1, 1), (64, 1, 1), [x, y])
    with pytest.raises(EmulatorError, match=r"two pointers: y\[0\]"):
        module.launch("f", (1, 1, 1), (64, 1, 1), [y, y])


def test_an_address_that_is_no_multiple_of_its_size() -> None:
    module = Module(TWO, races=True)
    x, y = DeviceArray(np.zeros(64, np.int32)), DeviceArray(np.zeros(65, np.int32))
    y.address += 2
    with pytest.raises(EmulatorError, match=r"a misaligned address: y\[0\]"):
        module.launch("f", (1, 1, 1), (64, 1, 1), [x, y])


def kernel_that_checks(team: str) -> Kernel:
    """Threads that look at an element each and store it, and then read their neighbour's."""
    k = Builder(
        [Buffer("x", int32, "in"), Buffer("y", int32, "inout"), Buffer("z", int32, "out")], []
    )
    with k.loop("one", 1, kind=team):
        with k.loop("i", 256, kind="threads") as i:
            x = k.load("x", i)
            k.check(k.compare("ge", x, 0), 3)
            k.store("y", i, x)
        with k.loop("j", 256, kind="threads") as j:
            k.store("z", j, k.load("y", 255 - j))
    return k.kernel("checks")


@pytest.mark.parametrize("team", ["warps", "blocks"])
def test_a_team_that_has_checked_sees_what_was_stored(team: str) -> None:
    kernel = kernel_that_checks(team)
    module = Module(render_cuda(kernel), races=True)
    values = np.arange(256, dtype=np.int32)
    x, y, z = (DeviceArray(a) for a in (values, values * 0, values * 0))
    status = DeviceArray(np.zeros(1, np.int32))
    module.launch("checks_kernel", *launch_geometry(kernel, {}), [x, y, z, status])
    assert (z.values == values[::-1]).all() and not status.values[0]
