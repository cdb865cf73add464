"""LLVM: LLVM text to object bytes, and what LLVM says of this machine.

Who finds all native code on disk never imports this module, and so not LLVM. A long text is split
into modules (`staticflow.codegen.llvm.modules`), which are compiled on as many threads as there are
for kernels.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any

import llvmlite.binding as llvm

from staticflow.codegen.llvm.modules import is_unoptimised, split_text
from staticflow.errors import CompileError
from staticflow.runtime.compiler_settings import Settings
from staticflow.runtime.linker import join_objects, links_for
from staticflow.runtime.once import compiling, once
from staticflow.runtime.threads import get_num_threads

__all__ = ["Compilation", "JitCode", "ask_host", "emit_assembly", "emit_objects", "joins_objects",
           "link_with_llvm"]  # fmt: skip

LOADS_OF_A_LINKER = 64
"""Modules that one linker of LLVM loads. Of each, LLVM keeps 8 to 40 KB after it was unloaded, as
long as there is the linker, and a linker takes a millisecond and 100 KB."""

_serials = itertools.count()

_OPTIMISED = 3
"""LLVM's level of optimisation, of code that is not quick."""


def _target_machine(opt: int = _OPTIMISED) -> Any:
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


_PATIENCE = 2.0
"""Seconds for which a thread that helps waits for a module."""


def ask_host() -> tuple[str, str, str, str]:
    """LLVM's version, triple, and name and features of this processor."""
    version = ".".join(map(str, llvm.llvm_version_info))
    features = llvm.get_host_cpu_features().flatten()
    return version, llvm.get_default_triple(), llvm.get_host_cpu_name(), features


def emit_objects(
    texts: Sequence[tuple[str, bool]],
    begun: Compilation | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> list[bytes]:
    """The object file of each text, those of a text that was split joined to one; not optimised
    where ``quick`` stands beside. What was ``begun`` belongs to the first. This thread calls
    ``meanwhile`` before it helps. Raises `CompileError` with LLVM's message and the lines at
    fault."""
    modules = [
        (i, module, quick)
        for i, (text, quick) in enumerate(texts)
        for module in (split_text(text) if joins_objects() else [text])
    ]
    if begun is None:
        begun = Compilation(helps=len(modules) > 1 or meanwhile is not None)
    with begun as compilation:
        owners = [0] * compilation.count + [i for i, *_ in modules]
        for _, module, quick in modules:
            compilation.add(module, quick)
        if meanwhile is not None:
            meanwhile()
        made = compilation.finish()
    files: list[list[bytes]] = [[] for _ in texts]
    for i, data in zip(owners, made, strict=True):
        files[i].append(data)
    return [join_objects(parts) for parts in files]


def joins_objects() -> bool:
    """Whether the object files of this machine can be several."""
    machine = os.uname().machine if hasattr(os, "uname") else ""
    return links_for(sys.platform, machine, sys.maxsize)


class Compilation:
    """Modules that are compiled as they come, on threads beside the one that writes them, together
    as many as kernels may run on. LLVM may be at several modules, each in a context of its own, and
    with a compiler that is nobody else's meanwhile. Where none ``helps``, all is left to `finish`.
    """

    def __init__(self, helps: bool = True) -> None:
        _emitter()
        self._modules: list[tuple[str, int]] = []
        self._made: dict[int, bytes | Exception] = {}
        self._waiting: SimpleQueue[int | None] = SimpleQueue()
        self._helpers: list[threading.Thread] = []
        self._most_helpers = get_num_threads() - 1 if helps else 0
        self._is_over = False
        self._settings = Settings()  # from the first module on: each change takes 40 us

    @property
    def count(self) -> int:
        """How many modules there are."""
        return len(self._modules)

    def __enter__(self) -> Compilation:
        return self

    def __exit__(self, *_: object) -> None:
        """Give up the modules that no thread has begun with, and wait for those that one has."""
        try:
            self._is_over = True
            self._join()
        finally:
            self._settings.leave()

    def add(self, text: str, quick: bool = False) -> None:
        """One more module, which is not optimised if it is to be ``quick``, or nothing of it."""
        if not self._modules:
            self._settings.enter()
        self._modules.append((text, 0 if quick or is_unoptimised(text) else _OPTIMISED))
        self._helpers = [helper for helper in self._helpers if helper.is_alive()]
        if len(self._helpers) < min(self._most_helpers, self._waiting.qsize() + 1):
            helper = threading.Thread(target=self._help, name="staticflow-compiler")
            try:
                helper.start()
                self._helpers.append(helper)
            except RuntimeError:  # the interpreter is ending
                self._most_helpers = 0
        self._waiting.put(len(self._modules) - 1)

    def finish(self) -> list[bytes]:
        """The object files of all modules; this thread makes some of them."""
        while (i := self._next()) is not None:
            self._make(i)
        self._join()
        made = [self._made[i] for i in range(len(self._modules))]
        for data in made:
            if isinstance(data, Exception):
                raise data
        return [data for data in made if isinstance(data, bytes)]

    def _join(self) -> None:
        for _helper in self._helpers:
            self._waiting.put(None)
        while self._helpers:
            self._helpers.pop().join()

    def _next(self) -> int | None:
        try:
            return self._waiting.get_nowait()
        except Empty:
            return None

    def _help(self) -> None:
        """Make modules until there is no more to come, or none came for long: a handler of a signal
        that raises may keep the other thread from saying so."""
        try:
            while (i := self._waiting.get(timeout=_PATIENCE)) is not None:
                if not self._is_over:
                    self._make(i)
        except Empty:
            pass

    def _make(self, i: int) -> None:
        text, opt = self._modules[i]
        try:
            with Settings():
                self._made[i] = _emit(text, opt)
        except Exception as error:
            self._made[i] = error


@once
def _emitter() -> Any:
    """LLVM's function that makes machine code, without the lock that llvmlite puts around it: that
    lets one thread in at a time."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    locked = llvm.ffi.lib.LLVMPY_TargetMachineEmitToMemory
    emit = ctypes.CDLL(llvm.ffi.lib._name).LLVMPY_TargetMachineEmitToMemory
    emit.argtypes, emit.restype = locked.argtypes, locked.restype
    return emit


_machines: dict[int, deque[Any]] = {0: deque(), _OPTIMISED: deque()}
"""Compilers that nobody uses, by how they optimise."""


@contextmanager
def _machine(opt: int) -> Iterator[Any]:
    """A compiler that optimises as ``opt`` says, and that is nobody else's meanwhile."""
    try:
        machine = _machines[opt].pop()
    except IndexError:
        machine = _target_machine(opt)
    try:
        yield machine
    finally:
        _machines[opt].append(machine)


def _emit(text: str, opt: int) -> bytes:
    """The object file of a module."""
    library = llvm.ffi.lib
    with (
        _machine(opt) as machine,
        _module_of(text, machine) as module,
        llvm.ffi.OutputString() as error,
    ):
        memory = _emitter()(machine, module, 1, error)
        if not memory:
            raise CompileError(f"LLVM makes no machine code of the generated code: {error}")
        try:
            start, size = (
                library.LLVMPY_GetBufferStart(memory),
                library.LLVMPY_GetBufferSize(memory),
            )
            return ctypes.string_at(start, size)
        finally:
            library.LLVMPY_DisposeMemoryBuffer(memory)


def emit_assembly(text: str) -> str:
    """The optimised machine code of a text, as text."""
    _emitter()
    with (
        Settings(),
        _machine(_OPTIMISED) as machine,
        _module_of(text, machine) as module,
    ):
        return str(machine.emit_assembly(module))


@contextmanager
def _module_of(text: str, machine: Any) -> Iterator[Any]:
    """The module of a text, with its functions inlined that are marked so (``alwaysinline``).

    It is gone before its context is. A collection of garbage, which is what a handler of a signal
    that raises leaves them to, would not keep to that: so both are marked as another's, which
    llvmlite does not dispose of, and are never given back in that case.
    """
    context = llvm.create_context()
    context._owned = True
    try:
        module = llvm.parse_assembly(text, context)
    except RuntimeError as error:
        raise _rejection(text, error) from error
    module._owned = True
    try:
        yield _inline(module, text, machine)
    finally:
        llvm.ffi.lib.LLVMPY_DisposeModule(module)
        llvm.ffi.lib.LLVMPY_ContextDispose(context)


def _inline(module: Any, text: str, machine: Any) -> Any:
    """A module, with its functions inlined that are marked so, when it is verified."""
    try:
        module.verify()
    except RuntimeError as error:
        raise _rejection(text, error) from error
    if "alwaysinline" in text:
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        options = llvm.create_pipeline_tuning_options(speed_level=0)
        passes.run(module, llvm.create_pass_builder(machine, options))
    return module


def _rejection(text: str, error: RuntimeError) -> CompileError:
    where = _around(text, str(error))
    return CompileError(f"LLVM rejects the generated code: {error}\n{where}")


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
            _emitter()
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
