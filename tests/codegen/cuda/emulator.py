"""Runs CUDA C on the host, for tests: a C++ compiler takes it behind `cuda_emu.h`, and where races are
looked for behind `cuda_races.h`, too; what it makes calls the library of `cuda_emu.cpp` and
`cuda_races.cpp`.

`Module` is a compiled source and launches its kernels; `DeviceArray` is memory that ends at a guard
page.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import mmap
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["ORDERS", "DeviceArray", "EmulatorError", "Module"]

ORDERS = ("forward", "reverse", "seeded")
"""The orders in which blocks, threads and the waiters of a barrier run, as `cuda_emu.h` numbers
them."""

Dim3 = tuple[int, int, int]

_HEADER = Path(__file__).with_name("cuda_emu.h")
_RACES = Path(__file__).with_name("cuda_races.h")
_LIBRARY = tuple(Path(__file__).with_name(f"cuda_{name}.cpp") for name in ("emu", "races"))
_LIBRARY_HEADER = Path(__file__).with_name("cuda_emu_library.h")
# As NVRTC_OPTIONS: nothing is contracted, everything is rounded as written. What traps is memory
# alone: zig would add instructions that trap where C++ leaves something undefined.
_FLAGS = (
    "-std=c++17", "-O1", "-fPIC", "-ffp-contract=off", "-U_FORTIFY_SOURCE", "-fno-sanitize=all",
    "-fvisibility=hidden",
)  # fmt: skip
_OPEN = ("-shared", "-O2", "-fvisibility=default")
_KERNEL = re.compile(r'extern "C" __global__ void (\w+)\(')
_HEAD = re.compile(r'(extern "C" __global__ void \w+\()(.*?)\) \{', re.DOTALL)
_POINTER = re.compile(r"((?:const )?[\w ]+?)\* __restrict__ (\w+)")
_ALIGNED = re.compile(
    r"[\w ]+\* __restrict__ (\w+) = \([^)]*\)__builtin_assume_aligned\((\w+), \d+\);"
)
_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BLOCK = (1024, 1024, 64)
_MAX_THREADS = 1024
_MAX_PARAMETERS = 1 << 12
_ACCESS = {"c": "const {}*", "p": "{}*", "v": "{}"}


class EmulatorError(Exception):
    """What a GPU would answer with an error, or would do wrong in silence."""


# -- memory ----------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_NO_ACCESS, _READ = 0, mmap.PROT_READ


class DeviceArray:
    """An array whose last byte is followed by a page without access, less than ``align`` bytes
    behind, so that it begins at a multiple of that.

    It holds a copy of ``array``, or 0xff in every byte (NaN, -1) with ``poisoned``. In front of it
    are 0xff bytes that `check` looks at, and then another page without access. An array that is not
    ``writable`` traps a kernel that stores to it. ``values`` is the memory as a NumPy array.
    """

    def __init__(
        self,
        array: np.ndarray[Any, Any],
        *,
        poisoned: bool = False,
        writable: bool = True,
        align: int = 1,
    ) -> None:
        page = mmap.PAGESIZE
        room = -(-array.nbytes // align) * align
        inner = (room // page + 1) * page
        self._map = mmap.mmap(-1, inner + 2 * page)
        everything = np.frombuffer(self._map, np.uint8)
        self.dtype = array.dtype
        self.writable = writable
        self.address = everything.ctypes.data + page + inner - room
        memory = everything[page : page + inner]
        memory[:] = 0xFF
        self._front = memory[: inner - room]
        own = memory[inner - room : inner - room + array.nbytes]
        self.values = own.view(array.dtype).reshape(array.shape)
        if not poisoned:
            self.values[...] = array
        base = everything.ctypes.data
        _protect(base, page, _NO_ACCESS)
        _protect(base + page + inner, page, _NO_ACCESS)
        if not writable:
            _protect(base + page, inner, _READ)

    def check(self) -> None:
        """Raise `EmulatorError` if something was written in front of the array."""
        if (self._front != 0xFF).any():
            raise EmulatorError("a kernel wrote in front of an array")


def _protect(address: int, size: int, access: int) -> None:
    if _libc.mprotect(address, size, access):
        raise OSError(ctypes.get_errno(), "mprotect")


# -- compilation -----------------------------------------------------------------------------------


@functools.cache
def compiler() -> tuple[str, ...]:
    """The command of a C++ compiler: g++ where there is one, else that of the package ``ziglang``.

    Raises `EmulatorError` with what to install if there is neither: the tests that need one fail
    then, they are not skipped.
    """
    found = shutil.which("g++")
    if found is not None:
        return (found,)
    if importlib.util.find_spec("ziglang") is not None:
        return (sys.executable, "-m", "ziglang", "c++")
    raise EmulatorError(
        "the CUDA tests need a C++ compiler, and there is neither g++ nor ziglang: "
        "pip install ziglang"
    )


@functools.cache
def version(command: tuple[str, ...]) -> str:
    """What a compiler says of itself: another one compiles anew."""
    return subprocess.check_output([*command, "--version"], text=True)


@functools.cache
def cache_folder() -> Path:
    """The folder of compiled sources, of this user alone, since code is loaded from it."""
    folder = Path(tempfile.gettempdir(), f"staticflow-emulator-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or folder.is_symlink():
        raise EmulatorError(f"{folder} can be written to by others; remove it")
    return folder


@functools.cache
def _library() -> Any:
    """What runs launches. It is loaded once, so that all kernels that are loaded later find it."""
    sources = [path.read_text() for path in (*_LIBRARY, _LIBRARY_HEADER)]
    built = _built("library", [*sources, *_headers()], _LIBRARY, _OPEN)
    # PyDLL keeps the GIL: the trap handlers of a launch belong to the whole process.
    return ctypes.PyDLL(str(built), mode=ctypes.RTLD_GLOBAL)


def _compile(text: str) -> Path:
    """The shared library for ``text``, from the cache if it was compiled before. What it needs of
    others is in the process already."""
    return _built(text, _headers(), (), ["-shared", "-nostdlib"])


@functools.cache
def _headers() -> tuple[str, ...]:
    return _HEADER.read_text(), _RACES.read_text()


def _built(text: str, others: Sequence[str], files: Sequence[Path], options: Sequence[str]) -> Path:
    """What the compiler makes of C++: of ``files``, or of ``text`` if there are none, with what
    ``others`` say. It is kept in a folder for whoever asks for the same."""
    key = "\0".join((text, *others, *_FLAGS, *options, version(compiler())))
    result = cache_folder() / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.so"
    if not result.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            source, made = Path(folder, "kernels.cpp"), Path(folder, "made")
            if not files:
                source.write_text(text)
            command = [
                *compiler(), *_FLAGS, *options, f"-I{_HEADER.parent}", "-o", str(made),
                *map(str, files or [source]),
            ]  # fmt: skip
            ran = subprocess.run(command, capture_output=True, text=True)
            if ran.returncode:
                raise EmulatorError(f"the compiler refuses the source:\n{ran.stderr}")
            made.replace(result)
    return result


def _tracked(source: str) -> str:
    """A source whose arrays `cuda_races.h` tells who touches."""

    def head(found: re.Match[str]) -> str:
        pointers = _POINTER.findall(found[2])
        parameters = _POINTER.sub(r"\1* \2_given", found[2])
        tracked = "".join(
            f'\n  const emu::Tracked<{kind.strip()}> {name}({name}_given, "{name}");'
            for kind, name in pointers
        )
        return f"{found[1]}{parameters}) {{{tracked}"

    return _ALIGNED.sub(r"const auto \1 = \2;", _HEAD.sub(head, source))


# -- launching -------------------------------------------------------------------------------------


class Module:
    """The kernels of one CUDA C source, each written as ``extern "C" __global__ void NAME(``. With
    ``races``, threads that touch an element with no barrier between, one of them to write, are an
    error of the launch: elements of arrays that are given as ``T* __restrict__`` and of shared
    ones."""

    def __init__(self, source: str, *, races: bool = False) -> None:
        self.kernels = tuple(_KERNEL.findall(source))
        self.races = races
        exports = "".join(f"EMU_EXPORT({name})\n" for name in self.kernels)
        headers = f'#include "{_HEADER.name}"\n'
        if races:
            headers, source = f'{headers}#include "{_RACES.name}"\n', _tracked(source)
        text = f'{headers}#line 1 "kernels.cu"\n{source}\n{exports}'
        self._launch = _library().emu_launch
        self._kernels = ctypes.PyDLL(str(_compile(text)))

    def signature(self, name: str) -> list[str]:
        """The parameter types of a kernel: ``const float32*`` and ``int64``, for example."""
        text = ctypes.create_string_buffer(3 * _MAX_PARAMETERS)
        self._kernels[f"{name}_types"](text)
        types = re.findall(r"(.)(..)", text.value.decode())
        return [_ACCESS[access].format(np.dtype(kind).name) for access, kind in types]

    def launch(
        self,
        name: str,
        grid: Dim3,
        block: Dim3,
        arguments: Sequence[DeviceArray | np.generic],
        order: str = "forward",
        seed: int = 0,
    ) -> None:
        """Run a kernel to its end.

        Arguments are of exactly the parameters' types, as cupy needs them: a NumPy scalar for a
        number, a `DeviceArray` for a pointer. Raises `EmulatorError` for a launch or an argument
        that CUDA would refuse or misread, for an access outside of an array, for a division by zero
        and for a misused barrier, the last three with block and thread.
        """
        _check_geometry(name, grid, block)
        parameters = self.signature(name)
        if len(arguments) != len(parameters):
            raise EmulatorError(
                f"{name} takes {len(parameters)} arguments, {len(arguments)} are given"
            )
        values = [
            _argument(f"argument {i} of {name}", parameter, argument)
            for i, (parameter, argument) in enumerate(zip(parameters, arguments, strict=True))
        ]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        config = (ctypes.c_uint * 9)(*grid, *block, ORDERS.index(order), seed, self.races)
        message = ctypes.create_string_buffer(512)
        if self._launch(self._kernels[f"{name}_call"], pointers, config, message):
            raise EmulatorError(f"{name}: {message.value.decode()}")
        for argument in arguments:
            if isinstance(argument, DeviceArray):
                argument.check()


def _check_geometry(name: str, grid: Dim3, block: Dim3) -> None:
    in_range = all(
        1 <= n <= most for n, most in zip((*grid, *block), (*_MAX_GRID, *_MAX_BLOCK), strict=True)
    )
    if not in_range or block[0] * block[1] * block[2] > _MAX_THREADS:
        raise EmulatorError(f"{name}: no launch of {grid} blocks of {block} threads is possible")


def _argument(what: str, parameter: str, argument: DeviceArray | np.generic) -> ctypes.Array[Any]:
    """The bytes of one argument, if it is of the parameter's type."""
    if isinstance(argument, DeviceArray):
        element = _element(argument.dtype)
        given = [f"const {element}*"] + [f"{element}*"] * argument.writable
        data = np.uintp(argument.address).tobytes()
    elif isinstance(argument, np.generic):
        given, data = [argument.dtype.name], argument.tobytes()
    else:
        given, data = [f"a Python {type(argument).__name__}"], b""
    if parameter not in given:
        raise EmulatorError(f"{what} is {given[-1]}, the kernel takes {parameter}")
    return ctypes.create_string_buffer(data, len(data))


def _element(dtype: np.dtype[Any]) -> str:
    """How the kernels see an element: a bool, a float16 and a bfloat16 as their bits."""
    if dtype == np.bool_ or (dtype.itemsize == 2 and dtype.kind not in "iu"):
        return f"uint{8 * dtype.itemsize}"
    return dtype.name
