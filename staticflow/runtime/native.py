"""Native code: LLVM text to object bytes, object bytes to addresses, both from disk where they are
there. LLVM is imported for what is not."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from staticflow.data_classes import dataclass
from staticflow.graph.lazy import lazy
from staticflow.native.layout import Layout
from staticflow.runtime.code_cache import code_cache, key_of, package_state
from staticflow.runtime.linker import LinkedCode, link_object, links_for
from staticflow.runtime.machine import machine_parts
from staticflow.runtime.once import compiling
from staticflow.runtime.sealed import Sealed

if TYPE_CHECKING:
    from staticflow.runtime.ahead import Ahead
    from staticflow.runtime.compiler import JitCode

__all__ = ["NativeModule", "ObjectCode", "compile_native", "compile_objects", "load_native",
           "native_text"]  # fmt: skip


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
        self, object_bytes: bytes, text: str | Callable[[], str], linked: LinkedCode | JitCode
    ) -> None:
        self.object_bytes = object_bytes
        self._text = text
        self._linked = linked

    @property
    def llvm(self) -> str:
        """The text, made now where code was found without it."""
        return self._text if isinstance(self._text, str) else self._text()

    def address(self, name: str) -> int:
        """The address of an exported function; KeyError if it was not exported."""
        return self._linked.address(name)

    def stay(self) -> None:
        """Stay loaded until the process ends, for calls that come as the interpreter ends."""
        self._linked.stay()

    @lazy
    def _assembly(self) -> str:
        from staticflow.runtime.compiler import emit_assembly

        return emit_assembly(self.llvm)

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
    (code,) = compile_objects([(text, quick)])
    return load_native(code.data, exports, symbols, text)


def compile_objects(
    texts: Sequence[tuple[str, bool]],
    ahead: Ahead | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> list[ObjectCode]:
    """The machine code of LLVM texts, each ``quick`` or not, as `compile_native` loads it: what is
    not in the `code_cache` is compiled at the same time, but for what is compiled ``ahead`` of the
    first; this thread calls ``meanwhile``, where anything is."""
    cache = code_cache()
    keys = [key_of(*machine_parts(), str(quick), text) for text, quick in texts]
    found = {key: None if cache is None else cache.find(key) for key in keys}
    missing = {key: t for key, t in zip(keys, texts, strict=True) if found[key] is None}
    if missing:
        from staticflow.runtime.compiler import emit_objects

        own = ahead if ahead is not None and keys[0] in missing else None
        wanted = [*missing.values()]
        if own is not None:
            wanted[0] = own.rest_of(wanted[0][0]), wanted[0][1]
        made = emit_objects(wanted, None if own is None else own.compilation, meanwhile)
        for key, new in zip(missing, made, strict=True):
            found[key] = new
            if cache is not None:
                cache.store(key, new)
    return [ObjectCode(data, key) for key in keys if (data := found[key]) is not None]


def load_native(
    object_bytes: bytes,
    exports: Iterable[str],
    symbols: Mapping[str, int] | None = None,
    text: str | Callable[[], str] = "",
) -> NativeModule:
    """Load object code that `compile_native` made on a machine of the same kind, of a ``text`` that
    is given or made when somebody asks for it."""
    exports = list(exports)
    with compiling:
        linked = _link(object_bytes, exports, symbols or {})
        NativeModule.loads += 1
    return NativeModule(object_bytes, text, linked)


def _link(data: bytes, exports: list[str], symbols: Mapping[str, int]) -> LinkedCode | JitCode:
    machine = os.uname().machine if hasattr(os, "uname") else ""
    if links_for(sys.platform, machine, sys.maxsize):
        return link_object(data, exports, symbols)
    from staticflow.runtime.compiler import link_with_llvm

    return link_with_llvm(data, exports, symbols)


def native_text(functions: Iterable[Callable[..., Any]], layout: Layout, around: str = "") -> str:
    """What `render_native` makes of functions of staticflow, from the `code_cache` if there."""
    functions = list(functions)
    cache, state = code_cache(), package_state()
    if cache is None or state is None:
        return _render(functions, layout, around).decode()
    names = "\n".join(f"{fn.__module__}.{fn.__name__}" for fn in functions)
    parts = ("text", state, names, repr(layout), around)
    return cache.fetch(lambda: _render(functions, layout, around), *parts).decode()


def _render(functions: list[Callable[..., Any]], layout: Layout, around: str) -> bytes:
    from staticflow.native.module import render_native

    return render_native(functions, layout, around).encode()
