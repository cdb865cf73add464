"""Machine code by the NVRTC that cupy finds: with nothing behind our options, and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_nvrtc import FakeNvrtc

from staticflow.config import config
from staticflow.errors import CompileError
from staticflow.runtime.device.device_code import compile_text

PRODUCT = 'extern "C" __global__ void f(float* a) { a[0] = a[0] * a[1]; }'


def test_code_is_for_the_gpu_and_else_for_the_newest_that_is_known() -> None:
    assert compile_text(FakeNvrtc(), "one", 80).startswith(b"code")
    newer = compile_text(FakeNvrtc(), "one", 120)
    assert newer.startswith(b"PTX") and newer.endswith(b" --gpu-architecture=compute_90 one")
    between = compile_text(FakeNvrtc(), "one", 86)
    assert between.startswith(b"PTX") and b"compute_80" in between
    with pytest.raises(
        CompileError, match=r"the compute capability 7\.0, for which NVRTC 13\.5 compiles no longer"
    ):
        compile_text(FakeNvrtc(), "one", 70)


def test_code_is_kept(tmp_path: Path) -> None:
    with config.change(cache_dir=str(tmp_path)):
        first, second, third = FakeNvrtc(), FakeNvrtc(), FakeNvrtc()
        code = compile_text(first, "a text", 90)
        assert compile_text(second, "a text", 90) == code and not second.programs
        compile_text(third, "a text", 80)
    assert [len(n.programs) for n in (first, third)] == [1, 1]
    assert set(first.programs.values()) == {""}  # destroyed


def test_programs_are_destroyed_where_they_are_wrong() -> None:
    nvrtc = FakeNvrtc()
    with pytest.raises(CompileError, match=r"^NVRTC refuses a kernel: line 1: wrong"):
        compile_text(nvrtc, "wrong", 90)
    assert nvrtc.programs == {1: ""}


@pytest.fixture
def real(tmp_path: Path) -> Any:
    """cupy's NVRTC, which needs no driver."""
    nvrtc = pytest.importorskip("cupy").cuda.nvrtc
    try:
        nvrtc.getVersion()
    except RuntimeError as error:
        pytest.skip(f"cupy finds no NVRTC: {error}")
    with config.change(cache_dir=str(tmp_path)):
        yield nvrtc


def test_subnormal_numbers_are_kept(real: Any) -> None:
    text = compile_text(real, PRODUCT, 999)
    assert b"mul.rn.f32" in text and b".ftz" not in text
    newest = max(real.getSupportedArchs())
    assert compile_text(real, PRODUCT, newest).startswith(b"\x7fELF")
    with pytest.raises(CompileError, match=r"refuses a kernel: .*kernels\.cu\(1\)"):
        compile_text(real, "not C", newest)
