"""LLVM: LLVM text to object bytes, and what LLVM says of this machine.

Who finds all native code on disk never imports this module, and so not LLVM.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import llvmlite.binding as llvm

from staticflow.data_classes import dataclass
from staticflow.errors import CompileError
from staticflow.runtime.once import compiling, once

__all__ = ["JitCode", "ask_host", "emit_assembly", "emit_object", "link_with_llvm"]

LOADS_OF_A_LINKER = 64
"""Modules that one linker of LLVM loads. Of each, LLVM keeps 8 to 40 KB after it was unloaded, as
long as there is the linker, and a linker takes a millisecond and 100 KB."""

_serials = itertools.count()


@dataclass(frozen=True, slots=True)
class _Engine:
    """The compilers for this machine, one that optimises and a quick one that does not."""

    machine: Any
    quick: Any


@once
def _engine() -> _Engine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return _Engine(_target_machine(), _target_machine(opt=0))


def _target_machine(opt: int = 3) -> Any:
    """The text is explicit already, so of passes over the IR only that is run which inlines what is
    marked so. Measured on Zen 4, others change neither a GEMM tile of 24 accumulators (110 GFLOP/s
    of 117) nor a chain of polynomials (2.3 elements/ns) by 1 %, and -O1 takes 16 to 23 ms for each
    beside 8 to 16 ms of code generation. The default code model of the JIT is the large one, in
    which constants are kept in registers: 10 % faster than the small one where there are forty of
    them, and no slower elsewhere."""
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=opt,
        jit=True,
    )


@contextmanager
def _without_loop_reduction() -> Iterator[None]:
    """LLVM's strength reduction of loops is off, which is a setting of the process: the text adds
    to its indices already where it could multiply. Measured on products, convolutions, attention
    and others, code is as fast without it (in the mean; convolutions with unknown sizes take 0.9
    of the time, a sum with a transposed array 1.1), and made in 0.6 of the time where sizes are
    unknown."""
    llvm.set_option("staticflow", "-disable-lsr=true")
    try:
        yield
    finally:
        llvm.set_option("staticflow", "-disable-lsr=false")


def ask_host() -> tuple[str, str, str, str]:
    """LLVM's version, triple, and name and features of this processor."""
    version = ".".join(map(str, llvm.llvm_version_info))
    features = llvm.get_host_cpu_features().flatten()
    return version, llvm.get_default_triple(), llvm.get_host_cpu_name(), features


def emit_object(text: str, quick: bool) -> bytes:
    """The object file of a text; not optimised if it is to be ``quick``. Raises `CompileError` with
    LLVM's message and the lines at fault."""
    with compiling, _without_loop_reduction():
        machine = _engine().quick if quick else _engine().machine
        return bytes(machine.emit_object(_parse(text)))


def emit_assembly(text: str) -> str:
    """The optimised machine code of a text, as text."""
    with compiling, _without_loop_reduction():
        return str(_engine().machine.emit_assembly(_parse(text)))


def _parse(text: str) -> Any:
    """The module of a text, with its functions inlined that are marked so (``alwaysinline``)."""
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        where = _around(text, str(error))
        raise CompileError(f"LLVM rejects the generated code: {error}\n{where}") from error
    if "alwaysinline" in text:
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        options = llvm.create_pipeline_tuning_options(speed_level=0)
        passes.run(module, llvm.create_pass_builder(_engine().machine, options))
    return module


def _around(text: str, message: str, reach: int = 3) -> str:
    """The lines of ``text`` about the one that ``message`` points to."""
    where = re.search(r":(\d+):\d+: error", message)
    if where is None:
        return ""
    at = int(where[1])
    lines = text.splitlines()
    shown = range(max(1, at - reach), min(len(lines), at + reach) + 1)
    return "\n".join(f"{'>' if n == at else ' '} {n:5} {lines[n - 1]}" for n in shown)


# -- machines that `linker` is not for -----------------------------------------------------------


class _Linkers:
    """What loads machine code: one linker after another, each gone with the last of its modules."""

    def __init__(self) -> None:
        self._current: Any = None
        self._left = 0

    def take(self) -> Any:
        """The linker for one more module. The caller holds the lock of `compiling`."""
        if not self._left:
            _engine()
            self._current = llvm.create_lljit_compiler(_target_machine())
            self._left = LOADS_OF_A_LINKER
        self._left -= 1
        return self._current


_linkers = _Linkers()


class JitCode:
    """Machine code that LLVM has loaded, as `linker.LinkedCode`."""

    def __init__(self, tracker: Any, linker: Any) -> None:
        self._tracker, self._linker = tracker, linker

    def address(self, name: str) -> int:
        """The address of an exported function; KeyError if it was not exported."""
        return int(self._tracker[name])

    def stay(self) -> None:
        """Stay loaded until the process ends."""
        for owner in (self._linker, self._tracker):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


def link_with_llvm(data: bytes, exports: Iterable[str], symbols: Mapping[str, int]) -> JitCode:
    """Load an object file, on machines that `linker.link_object` is not for; with its arguments
    and errors."""
    builder = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
    for name, address in symbols.items():
        builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    with compiling:
        try:
            linker = _linkers.take()
            tracker = builder.link(linker, f"staticflow.{next(_serials)}")
        except RuntimeError as error:
            raise CompileError(f"native code cannot be loaded: {error}") from error
    return JitCode(tracker, linker)
