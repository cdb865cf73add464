"""NVRTC, NVIDIA's compiler, takes the text of every kernel and leaves its arithmetic as written.

It needs no GPU and no driver, only the library that ``pip install nvidia-cuda-nvrtc`` brings.
"""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from cuda_cases import KERNELS
from cuda_kernels import affine

from staticflow.codegen.cuda.render import (
    NVRTC_OPTIONS,
    entry_name,
    render_cuda,
    render_cuda_module,
)
from staticflow.graph.dtypes import float32


def _libraries(pattern: str) -> list[Path]:
    """Shared libraries in the packages of NVIDIA's wheels, whose layout differs by CUDA version."""
    package = importlib.util.find_spec("nvidia")
    folders = (package.submodule_search_locations if package else None) or []
    return [path for folder in folders for path in sorted(Path(folder).glob(f"*/lib/{pattern}"))]


class Nvrtc:
    """The few functions of ``libnvrtc`` that compile a source (see NVRTC's user guide)."""

    def __init__(self, library: Path) -> None:
        for builtins in _libraries("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(library))

    def compile(self, source: str, options: Sequence[str], product: str) -> tuple[bytes, str]:
        """The ``product`` (PTX or CUBIN) and the log. AssertionError with the log if it fails."""
        program = ctypes.c_void_p()
        created = self._library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None
        )
        assert created == 0, created
        try:
            values = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            result = self._library.nvrtcCompileProgram(program, len(options), values)
            log = self._get(program, "ProgramLog").rstrip(b"\0").decode()
            assert result == 0, log
            return self._get(program, product), log
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _get(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._library[f"nvrtcGet{what}Size"](program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        self._library[f"nvrtcGet{what}"](program, data)
        return data.raw


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    libraries = _libraries("libnvrtc.so.*")
    if not libraries:
        pytest.skip("NVRTC wheel not installed")
    return Nvrtc(libraries[0])


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_every_kernel_compiles_without_spills(nvrtc: Nvrtc, architecture: str) -> None:
    options = [*NVRTC_OPTIONS, f"--gpu-architecture={architecture}", "--ptxas-options=-v"]
    binary, log = nvrtc.compile(render_cuda_module(KERNELS), options, "CUBIN")
    assert all(entry_name(kernel).encode() in binary for kernel in KERNELS)
    spilled = re.findall(r"(\d+) bytes spill stores", log)
    assert len(spilled) >= len(KERNELS)
    assert set(spilled) == {"0"}


def test_arithmetic_is_left_as_written(nvrtc: Nvrtc) -> None:
    options = [*NVRTC_OPTIONS, "--gpu-architecture=compute_80"]
    everything = nvrtc.compile(render_cuda_module(KERNELS), options, "PTX")[0].decode()
    assert ".ftz" not in everything
    assert ".approx" not in everything
    assert "div.rn.f32" in everything
    assert "sqrt.rn.f32" in everything
    one = nvrtc.compile(render_cuda(affine(float32)), options, "PTX")[0].decode()
    assert "mul.rn.f32" in one
    assert "add.rn.f32" in one
    assert "fma" not in one
