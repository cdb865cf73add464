"""The machine's rates: what the kernels compute, what is kept, and the roofline. No times."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import staticflow as sf
from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.verify import verify_kernel
from staticflow.config import config
from staticflow.measure import rates
from staticflow.measure.machine import Machine, least_seconds, machine, roofline_fraction

HERE = Machine("a processor", 1, "a system", {}, 8e9, 1e9, ((1000, 4e9), (10**8, 1e9)))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements of next to nothing."""
    monkeypatch.setattr(rates, "FOOTPRINTS", (1 << 14, 1 << 16))
    monkeypatch.setattr(rates, "_ROUNDS", 4)
    monkeypatch.setattr(rates, "_AT_LEAST", 0.0)
    rates._rates.cache_clear()
    yield
    rates._rates.cache_clear()


def test_the_kernels_do_the_operations_that_are_counted() -> None:
    for kernel in (rates._multiply_add(), rates._stream()):
        verify_kernel(kernel)
    out = np.zeros(3 * rates._LANES, np.float32)
    native = np.zeros_like(out)
    kernel = rates._multiply_add()
    sizes = dict(zip(kernel.sizes, (3, 5), strict=True))
    assert interpret_kernel(kernel, {"out": out}, sizes) == 0
    assert rates._function("multiply_add", native)(3, 5) == 0
    expected = sum(2 + (i - 2) / 2**5 for i in range(rates._CHAINS))
    assert np.all(out == np.float32(expected)) and np.array_equal(out, native)
    moved = np.arange(2 * rates._STRIP, dtype=np.float32)
    assert rates._function("stream", moved)(len(moved)) == 0
    assert np.array_equal(moved, np.arange(len(moved)) + 1)


def test_a_multiply_add_is_one_instruction_of_a_full_vector() -> None:
    assert f"call <{rates._LANES} x float> @llvm.fma" in rates._text()


def test_rates_are_measured_once_and_kept(
    short: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured: list[int] = []
    measure = rates._measure
    monkeypatch.setattr(rates, "_measure", lambda n: (measured.append(n), measure(n))[1])
    threads = sf.get_num_threads()
    with config.change(cache_dir=str(tmp_path)):
        found = rates.machine_rates(1)
        assert rates.machine_rates(1) == found and measured == [1]
        rates._rates.cache_clear()  # as in another process
        assert rates.machine_rates(1) == found and measured == [1]
        assert rates.machine_rates(2).threads == 2 and measured == [1, 2]
        assert found.flops_per_second > 0 and all(rate > 0 for _, rate in found.bandwidth)
    rates._rates.cache_clear()
    with config.change(cache_dir=""):
        rates.machine_rates(1)
        rates.machine_rates(1, anew=True)
    assert measured == [1, 2, 1, 1] and sf.get_num_threads() == threads


def test_a_machine_says_what_it_is(short: None) -> None:
    with config.change(cache_dir=""):
        found = machine(1)
    assert found.threads == 1 and found.processor and found.bytes_per_second
    assert found.versions["staticflow"] == sf.__version__ and "numpy" in found.versions
    bare = machine(1, measure=False)
    assert bare == dataclasses.replace(
        found, flops_per_second=None, bytes_per_second=None, bandwidth=()
    )
    assert roofline_fraction(1, 1, 1.0, bare) is None


def test_the_longer_of_bytes_and_operations_is_the_limit() -> None:
    assert least_seconds(10**9, 8 * 10**8, HERE) == 1.0
    assert least_seconds(10**9, 32 * 10**9, HERE) == 4.0
    assert roofline_fraction(10**9, 32 * 10**9, 8.0, HERE) == 0.5
    # memory that stays in a cache is held to the rate of what is no larger
    assert least_seconds(10**9, 0, HERE, footprint=5000) == 0.25
    assert least_seconds(10**9, 0, HERE, footprint=10) == 0.25
