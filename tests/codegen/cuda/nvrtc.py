"""NVRTC, NVIDIA's compiler, as a library: no GPU and no driver, only the wheel that ``pip install
nvidia-cuda-nvrtc`` brings."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from emulator import cache_folder

from staticflow.codegen.cuda.render import NVRTC_OPTIONS

__all__ = ["ARCHITECTURES", "Nvrtc", "nvrtc"]

ARCHITECTURES = ("sm_75", "sm_80", "sm_90")
"""From the oldest that the compilers of CUDA 13 know to that of an H100."""

_KERNEL = re.compile(r'^(?=extern "C" __global__)', re.MULTILINE)
_NAME = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\(.*?\) )?(\w+)\(')
_SPILLED = re.compile(
    r"Function properties for (\w+)\n.* bytes stack frame, (\d+) bytes spill stores"
)


def _libraries(pattern: str) -> list[Path]:
    """Shared libraries in the packages of NVIDIA's wheels, whose layout differs by CUDA version."""
    package = importlib.util.find_spec("nvidia")
    folders = (package.submodule_search_locations if package else None) or []
    return [path for folder in folders for path in sorted(Path(folder).glob(f"*/lib/{pattern}"))]


class Nvrtc:
    """The few functions of ``libnvrtc`` that compile a source (see NVRTC's user guide), and a folder
    of what it made of kernels."""

    def __init__(self, library: Path, kept: Path) -> None:
        for builtins in _libraries("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
        self.library = library
        self._library = ctypes.CDLL(str(library))
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"
        self._kept = kept

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

    def spilled(self, source: str, architecture: str) -> list[int]:
        """The bytes that each kernel of a source spills, in machine code for an architecture.

        What was found of a kernel is kept in a folder, and the others are compiled together: a text of
        a hundred kernels takes 20 s, and one of them 0.2 s."""
        options = [*NVRTC_OPTIONS, f"--gpu-architecture={architecture}", "--ptxas-options=-v"]
        prelude, *kernels = _KERNEL.split(source)
        keys = ["\n".join([self.version, *options, prelude, kernel]) for kernel in kernels]
        kept = [self._kept / hashlib.sha256(key.encode()).hexdigest() for key in keys]
        unknown = {path: k for path, k in zip(kept, kernels, strict=True) if not path.exists()}
        if unknown:
            _, log = self.compile(prelude + "".join(unknown.values()), options, "CUBIN")
            found = {name: int(count) for name, count in _SPILLED.findall(log)}
            names = {path: _NAME.match(k)[1] for path, k in unknown.items()}
            shared = [n for name, n in found.items() if name not in names.values()]  # functions
            for path, name in names.items():
                path.write_text(str(max([found[name], *shared])))
        return [int(path.read_text()) for path in kept]


@pytest.fixture(scope="module")
def nvrtc() -> Nvrtc:
    """The library, where the wheel is installed."""
    libraries = _libraries("libnvrtc.so.*")
    if not libraries:
        pytest.skip("NVRTC wheel not installed")
    return Nvrtc(libraries[0], cache_folder())
