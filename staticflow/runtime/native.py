"""Native code: LLVM text to object bytes, object bytes to addresses."""

from __future__ import annotations

import ctypes
import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import llvmlite.binding as llvm

from staticflow.codegen.target import Target
from staticflow.errors import CompileError
from staticflow.graph.lazy import lazy
from staticflow.native.layout import Layout
from staticflow.native.module import render_native
from staticflow.runtime.code_cache import code_cache, key_of, own_source, package_state
from staticflow.runtime.once import compiling, once
from staticflow.runtime.sealed import Sealed

__all__ = [
    "NativeModule",
    "ObjectCode",
    "compile_native",
    "compile_object",
    "host_target",
    "load_native",
    "machine_parts",
    "native_text",
    "vector_bits",
]

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


_LOADS_OF_A_LINKER = 64
"""Modules that one linker loads. Of each, LLVM keeps 8 to 40 KB after it was unloaded, as long as
there is the linker, and a linker takes a millisecond and 100 KB."""


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
            self._left = _LOADS_OF_A_LINKER
        self._left -= 1
        return self._current


_linkers = _Linkers()


def _target_machine(opt: int = 3) -> Any:
    """The text is explicit already, so of passes over the IR only that is run which inlines what is
    marked so. Measured on Zen 4, others change neither a GEMM tile of 24 accumulators (110 GFLOP/s
    of 117) nor a chain of polynomials (2.3 elements/ns) by 1 %, and -O1 takes 16 to 23 ms for each
    beside 8 to 16 ms of code generation. The default code model of the JIT is the large one, in
    which constants are kept in registers: 10 % faster than the small one where there are forty of
    them, and no slower elsewhere."""
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=_host_features().flatten(), opt=opt, jit=True
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


@functools.lru_cache(maxsize=1)
def _host_features() -> Any:
    return llvm.get_host_cpu_features()


@functools.lru_cache(maxsize=1)
def machine_parts() -> tuple[str, ...]:
    """What decides the code of a text: LLVM, the processor, and what this module asks of them."""
    version = ".".join(map(str, llvm.llvm_version_info))
    triple, cpu = llvm.get_default_triple(), llvm.get_host_cpu_name()
    return "object", version, triple, cpu, _host_features().flatten(), own_source(__file__)


@functools.lru_cache(maxsize=1)
def host_target() -> Target:
    """The machine that runs this process."""
    features = _host_features()
    wide = bool(features.get("avx512f"))
    has_avx2 = bool(features.get("avx2"))
    return Target(
        vector_bits=512 if wide else 256 if has_avx2 else 128,
        fma=bool(features.get("fma") or features.get("neon")),
        masks=wide or has_avx2,
        avx512=wide and bool(features.get("avx512vl")),
    )


def vector_bits() -> int:
    """Bits of the widest vector register of this machine: 512, 256 or 128."""
    return host_target().vector_bits


@dataclass(frozen=True, slots=True)
class ObjectCode:
    """Machine code that is not loaded: its bytes, and the key that they have in the cache."""

    data: bytes
    key: bytes


class NativeModule(Sealed):
    """Machine code in this process; it stays loaded as long as this object is alive.

    ``object_bytes`` can be kept and loaded again by `load_native` on a machine of the same kind.
    """

    loads: ClassVar[int] = 0
    """How many were loaded in this process."""

    def __init__(
        self, object_bytes: bytes, text: str | Callable[[], str], tracker: Any, linker: Any
    ) -> None:
        self.object_bytes = object_bytes
        self._text = text
        self._tracker, self._linker = tracker, linker

    @property
    def llvm(self) -> str:
        """The text, made now where code was found without it."""
        return self._text if isinstance(self._text, str) else self._text()

    def address(self, name: str) -> int:
        """The address of an exported function; KeyError if it was not exported."""
        return int(self._tracker[name])

    def stay(self) -> None:
        """Stay loaded until the process ends, for calls that come as the interpreter ends."""
        for owner in (self._linker, self._tracker):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))

    @lazy
    def _assembly(self) -> str:
        with compiling, _without_loop_reduction():
            return str(_engine().machine.emit_assembly(_parse(self.llvm)))

    def assembly(self) -> str:
        """The machine code as text, made when it is first asked for."""
        return self._assembly


def compile_native(
    text: str,
    exports: Iterable[str],
    symbols: Mapping[str, int] | None = None,
    quick: bool = False,
) -> NativeModule:
    """Compile LLVM text, or take from the `code_cache` what it was compiled to, and load it.

    ``exports`` are the functions whose addresses are wanted, ``symbols`` the addresses of those
    that the text declares and the process does not export. ``quick`` is for code that hardly runs:
    it compiles several times faster and is not optimised. Raises `CompileError` with LLVM's message
    and the lines at fault.
    """
    return load_native(compile_object(text, quick).data, exports, symbols, text)


def compile_object(text: str, quick: bool = False) -> ObjectCode:
    """The machine code of LLVM text, as `compile_native` loads it."""

    def emit() -> bytes:
        with compiling, _without_loop_reduction():
            machine = _engine().quick if quick else _engine().machine
            return bytes(machine.emit_object(_parse(text)))

    key, cache = key_of(*machine_parts(), str(quick), text), code_cache()
    return ObjectCode(emit() if cache is None else cache.fetch_by(key, emit), key)


def load_native(
    object_bytes: bytes,
    exports: Iterable[str],
    symbols: Mapping[str, int] | None = None,
    text: str | Callable[[], str] = "",
) -> NativeModule:
    """Load object code that `compile_native` made on a machine of the same kind, of a ``text`` that
    is given or made when somebody asks for it."""
    builder = llvm.JITLibraryBuilder().add_object_img(object_bytes).add_current_process()
    for name, address in (symbols or {}).items():
        builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    with compiling:
        try:
            linker = _linkers.take()
            tracker = builder.link(linker, f"staticflow.{next(_serials)}")
        except RuntimeError as error:
            raise CompileError(f"native code cannot be loaded: {error}") from error
        NativeModule.loads += 1
    return NativeModule(object_bytes, text, tracker, linker)


def native_text(functions: Iterable[Callable[..., Any]], layout: Layout, around: str = "") -> str:
    """What `render_native` makes of functions of staticflow, from the `code_cache` if there."""
    functions = list(functions)
    cache, state = code_cache(), package_state()
    if cache is None or state is None:
        return render_native(functions, layout, around)
    names = "\n".join(f"{fn.__module__}.{fn.__name__}" for fn in functions)

    def render() -> bytes:
        return render_native(functions, layout, around).encode()

    return cache.fetch(render, "text", state, names, repr(layout), around).decode()


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
