"""What lends arenas to programs that have no growing buffers, as machine code: it is compiled, or
found on disk, with the first such program of a process, and stays until the process ends."""

from __future__ import annotations

from staticflow.codegen.llvm.arena import LENDING, lending_text
from staticflow.runtime.host import memory_symbols
from staticflow.runtime.native import NativeModule, compile_native
from staticflow.runtime.once import once

__all__ = ["lending_symbols"]


def lending_symbols() -> dict[str, int]:
    """The addresses of the functions of `LENDING`."""
    return {name: _lending().address(name) for name in LENDING}


@once
def _lending() -> NativeModule:
    module = compile_native(lending_text(), LENDING, memory_symbols())
    module.stay()
    return module
