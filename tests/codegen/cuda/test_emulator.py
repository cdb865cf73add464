"""The emulator itself: hand-written CUDA C, right and wrong."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import tempfile
from pathlib import Path
from typing import Any

import emulator
import numpy as np
import pytest
from emulator import ORDERS, DeviceArray, EmulatorError, Module

SOURCE = """
extern "C" __global__ void where_am_i(int* y) {
  int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  int thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  y[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = 1000 * block + thread;
}

extern "C" __global__ void block_sum(const int* x, int* y) {
  SF_SHARED(int, part, 64);
  int t = threadIdx.x;
  part[t] = x[64 * blockIdx.x + t];
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = part[0];
}

extern "C" __global__ void block_sum_without_barrier(const int* x, int* y) {
  SF_SHARED(int, part, 64);
  int t = threadIdx.x;
  part[t] = x[64 * blockIdx.x + t];
  for (int half = 32; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) y[blockIdx.x] = part[0];
}

extern "C" __global__ void count(int* y) { atomicAdd(y, 1); }

extern "C" __global__ void order_of_threads(int* y) {
  y[atomicAdd(y + blockDim.x * gridDim.x, 1)] = blockIdx.x * blockDim.x + threadIdx.x;
}

extern "C" __global__ void first_of_shared(int* y) {
  SF_SHARED(int, part, 1);
  y[blockIdx.x] = part[0];
  part[0] = 5;
}

extern "C" __global__ void past_shared(int* y) {
  SF_SHARED(int, part, 32);
  part[threadIdx.x] = 1;
  y[0] = part[0];
}

extern "C" __global__ void divergent(int* y) {
  if (threadIdx.x < 3) __syncthreads();
  else
    __syncthreads();
  y[threadIdx.x] = 1;
}

extern "C" __global__ void early_return(int* y) {
  if (threadIdx.x == 3) return;
  __syncthreads();
  y[threadIdx.x] = 1;
}

extern "C" __global__ void shuffles(const int* x, int* y) {
  int t = threadIdx.x, lane = t % 32, v = x[t], sum = v, before = v;
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
  for (int d = 1; d < 32; d *= 2) {
    int other = __shfl_up_sync(0xffffffffu, before, d);
    if (lane >= d) before += other;
  }
  y[t] = __shfl_sync(0xffffffffu, sum, 0);
  y[blockDim.x + t] = before;
  y[2 * blockDim.x + t] = __any_sync(0xffffffffu, v > 90);
  y[3 * blockDim.x + t] = __syncthreads_or(v > 200);
}

extern "C" __global__ void through_shared(const int* x, int* y) {
  SF_SHARED(int, part, 32);
  part[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  y[threadIdx.x] = part[31 - threadIdx.x];
}

extern "C" __global__ void some_lanes(int* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
}

extern "C" __global__ void two_shuffles(int* y) {
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
  else
    y[threadIdx.x] = __shfl_sync(0xffffffffu, 2, 0);
}

extern "C" __global__ void shuffle_and_barrier(int* y) {
  if (threadIdx.x < 16) __syncwarp();
  else
    __syncthreads();
  y[threadIdx.x] = 1;
}

extern "C" __global__ void half_a_mask(int* y) { y[0] = __shfl_sync(0xffffu, 1, 0); }

extern "C" __global__ void divide(const int* x, int* y) {
  y[threadIdx.x] = 100 / x[threadIdx.x];
}

extern "C" __global__ void store_to_input(const int* x) { *(int*)x = 1; }

extern "C" __global__ void store_in_front(int* y) { y[-3] = 1; }

extern "C" __global__ void large_frame(int* y) {
  volatile char much[1 << 20];
  much[y[0]] = 1;  // at an index that no compiler knows, or it keeps that one byte
  y[0] = much[y[1]];
}

extern "C" __global__ void numbers(const float* a, double* b, short c, unsigned char d, bool e) {
  b[0] = a[0] + c + d + e;
}
"""


@pytest.fixture(scope="module")
def module() -> Module:
    return Module(SOURCE)


def ints(*values: int) -> DeviceArray:
    return DeviceArray(np.array(values, np.int32))


@pytest.mark.parametrize("order", ORDERS)
def test_every_thread_of_every_block_runs_once(module: Module, order: str) -> None:
    y = DeviceArray(np.empty(4 * 30, np.int32), poisoned=True)
    module.launch("where_am_i", (2, 1, 2), (5, 3, 2), [y], order)
    expected = [1000 * block + thread for block in range(4) for thread in range(30)]
    assert y.values.tolist() == expected


def test_orders_differ_and_a_seed_repeats(module: Module) -> None:
    def order_of(order: str, seed: int = 0) -> list[int]:
        y = ints(*[0] * 13)
        module.launch("order_of_threads", (3, 1, 1), (4, 1, 1), [y], order, seed)
        values: list[int] = y.values.tolist()[:12]
        assert sorted(values) == list(range(12))
        return values

    assert order_of("forward") == list(range(12))
    assert order_of("reverse") == list(range(12))[::-1]
    assert order_of("seeded", 1) == order_of("seeded", 1)
    assert order_of("seeded", 1) != order_of("seeded", 2)


@pytest.mark.parametrize("order", ORDERS)
def test_barriers_and_shared_memory(module: Module, order: str) -> None:
    x = np.random.default_rng(0).integers(0, 1000, 192).astype(np.int32)
    y = DeviceArray(np.empty(3, np.int32), poisoned=True)
    module.launch("block_sum", (3, 1, 1), (64, 1, 1), [DeviceArray(x, writable=False), y], order)
    assert y.values.tolist() == x.reshape(3, 64).sum(1).tolist()


@pytest.mark.parametrize("order", ORDERS)
def test_warps_exchange_values(module: Module, order: str) -> None:
    x = np.random.default_rng(0).integers(0, 100, 64).astype(np.int32)
    y = DeviceArray(np.empty((4, 64), np.int32), poisoned=True)
    module.launch("shuffles", (1, 1, 1), (64, 1, 1), [DeviceArray(x, writable=False), y], order)
    warps = x.reshape(2, 32)
    assert (y.values[0].reshape(2, 32) == warps.sum(1, keepdims=True)).all()
    assert (y.values[1].reshape(2, 32) == warps.cumsum(1)).all()
    assert (y.values[2].reshape(2, 32) == (warps > 90).any(1, keepdims=True)).all()
    assert (y.values[3] == 0).all()
    z = DeviceArray(np.empty(32, np.int32), poisoned=True)
    module.launch("through_shared", (1, 1, 1), (32, 1, 1), [DeviceArray(x), z], order)
    assert z.values.tolist() == x[31::-1].tolist()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("some_lanes", "a thread returned while others wait at the warp operation|after threads"),
        ("two_shuffles", "wait at the warp operations of lines"),
        ("shuffle_and_barrier", "at the barrier of line .* and at the warp operation of line"),
        ("half_a_mask", "not of all lanes"),
    ],
)
def test_warp_operations_of_some_lanes_are_refused(
    module: Module, kernel: str, message: str
) -> None:
    for order in ORDERS:
        y = DeviceArray(np.empty(32, np.int32))
        with pytest.raises(EmulatorError, match=message):
            module.launch(kernel, (1, 1, 1), (32, 1, 1), [y], order)
    with pytest.raises(EmulatorError, match="a warp of fewer than 32 threads"):
        module.launch("two_shuffles", (1, 1, 1), (20, 1, 1), [ints(*[0] * 20)])


def test_a_missing_barrier_shows_in_some_order(module: Module) -> None:
    x, wrong = DeviceArray(np.ones(64, np.int32)), 0
    for order in ORDERS:
        y = ints(0)
        module.launch("block_sum_without_barrier", (1, 1, 1), (64, 1, 1), [x, y], order)
        wrong += y.values[0] != 64
    assert wrong


def test_atomics(module: Module) -> None:
    y = ints(0)
    module.launch("count", (7, 1, 1), (33, 1, 1), [y])
    assert y.values[0] == 7 * 33


def test_shared_memory_is_poisoned_for_each_block(module: Module) -> None:
    y = ints(0, 0)
    module.launch("first_of_shared", (2, 1, 1), (1, 1, 1), [y])
    assert y.values.tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("kernel", "threads", "message"),
    [
        ("past_shared", 33, r"out of bounds at 0x\w+ in block \(0, 0, 0\), thread \(32, 0, 0\)"),
        (
            "divergent",
            8,
            r"threads wait at the barriers of lines \d+ and \d+ .* thread \(3, 0, 0\)",
        ),
        ("early_return", 8, r"a thread returned while others wait at the barrier .* \(3, 0, 0\)"),
        ("large_frame", 1, r"out of bounds .* thread \(0, 0, 0\)"),
    ],
)
def test_traps_name_block_and_thread(
    module: Module, kernel: str, threads: int, message: str
) -> None:
    with pytest.raises(EmulatorError, match=f"{kernel}: .*{message}"):
        module.launch(kernel, (1, 1, 1), (threads, 1, 1), [ints(*[0] * 64)])
    test_atomics(module)  # what comes after a failure is not affected


def test_barrier_after_a_return(module: Module) -> None:
    with pytest.raises(EmulatorError, match="comes after threads of the block returned"):
        module.launch("early_return", (1, 1, 1), (4, 1, 1), [ints(*[0] * 4)], "reverse")


def test_accesses_outside_of_arrays(module: Module) -> None:
    y = ints(*[0] * 32)
    with pytest.raises(EmulatorError, match=r"out of bounds .* thread \(32, 0, 0\)"):
        module.launch("where_am_i", (1, 1, 1), (64, 1, 1), [y])
    with pytest.raises(EmulatorError, match=r"out of bounds .* thread \(0, 0, 0\)"):
        module.launch("where_am_i", (1, 1, 1), (1, 1, 1), [ints()])
    with pytest.raises(EmulatorError, match=r"out of bounds .* thread \(7, 0, 0\)"):
        module.launch("divide", (1, 1, 1), (8, 1, 1), [ints(*range(1, 8)), ints(*[0] * 8)])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 traps a division by zero")
def test_division_by_zero(module: Module) -> None:
    with pytest.raises(EmulatorError, match=r"integer division by zero .* thread \(2, 0, 0\)"):
        module.launch("divide", (1, 1, 1), (4, 1, 1), [ints(1, 2, 0, 3), ints(0, 0, 0, 0)])


def test_a_store_to_an_input_traps(module: Module) -> None:
    x = DeviceArray(np.zeros(4, np.int32), writable=False)
    with pytest.raises(EmulatorError, match="out of bounds"):
        module.launch("store_to_input", (1, 1, 1), (1, 1, 1), [x])
    assert x.values.tolist() == [0, 0, 0, 0]


def test_writes_in_front_of_an_array_are_found(module: Module) -> None:
    with pytest.raises(EmulatorError, match="wrote in front of an array"):
        module.launch("store_in_front", (1, 1, 1), (1, 1, 1), [ints(0)])


def test_number_of_arguments(module: Module) -> None:
    with pytest.raises(EmulatorError, match="numbers takes 5 arguments, 1 are given"):
        module.launch("numbers", (1, 1, 1), (1, 1, 1), [ints(1)])


def test_arguments_are_exactly_typed(module: Module) -> None:
    assert module.signature("numbers") == ["const float32*", "float64*", "int16", "uint8", "bool"]
    a, b = DeviceArray(np.ones(1, np.float32), writable=False), DeviceArray(np.zeros(1))
    good: list[Any] = [a, b, np.int16(-300), np.uint8(200), np.True_]
    module.launch("numbers", (1, 1, 1), (1, 1, 1), good)
    assert b.values[0] == 1 - 300 + 200 + 1
    for place, wrong in [
        (0, b),
        (1, a),
        (2, np.int32(1)),
        (3, np.int8(1)),
        (4, np.uint8(1)),
        (2, 3),
    ]:
        arguments = [*good[:place], wrong, *good[place + 1 :]]
        with pytest.raises(EmulatorError, match=f"argument {place} of numbers is"):
            module.launch("numbers", (1, 1, 1), (1, 1, 1), arguments)


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((0, 1, 1), (1, 1, 1)),
        ((1, 1, 1), (0, 1, 1)),
        ((1, 1, 1), (1025, 1, 1)),
        ((1, 1, 1), (32, 32, 2)),
        ((1, 65536, 1), (1, 1, 1)),
        ((2**31, 1, 1), (1, 1, 1)),
    ],
)
def test_impossible_launches(
    module: Module, grid: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    with pytest.raises(EmulatorError, match="no launch"):
        module.launch("count", grid, block, [ints(0)])


def test_source_that_does_not_compile() -> None:
    with pytest.raises(EmulatorError, match=r"kernels\.cu:1:\d+: error"):
        Module('extern "C" __global__ void f(int* x) { x[0] = nothing; }')


def test_a_missing_compiler_is_an_error_that_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    emulator.compiler.cache_clear()
    try:
        with pytest.raises(EmulatorError, match="pip install ziglang"):
            Module(SOURCE)
    finally:
        emulator.compiler.cache_clear()


def test_a_folder_that_others_can_write_to_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    emulator.cache_folder.cache_clear()
    try:
        emulator.cache_folder().chmod(0o777)
        emulator.cache_folder.cache_clear()
        with pytest.raises(EmulatorError, match="can be written to by others"):
            emulator.cache_folder()
    finally:
        emulator.cache_folder.cache_clear()
