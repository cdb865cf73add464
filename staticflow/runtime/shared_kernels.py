"""The kernels that programs share, as machine code: each is compiled, or found on disk, when the
first program of a process calls it, and stays until the process ends."""

from __future__ import annotations

from collections.abc import Iterable

from staticflow.runtime.code_cache import code_cache, package_state
from staticflow.runtime.machine import host_target
from staticflow.runtime.native import NativeModule, compile_native
from staticflow.runtime.once import once
from staticflow.runtime.threads import pool_symbols

__all__ = ["shared_symbols"]


def shared_symbols(names: Iterable[str]) -> dict[str, int]:
    """The addresses of the kernels of these names."""
    return {name: _compile(name).address(name) for name in names}


@once
def _compile(name: str) -> NativeModule:
    module = compile_native(_text(name), [name], pool_symbols())
    module.stay()
    return module


def _text(name: str) -> str:
    """The text of a kernel, from the `code_cache` if it is there."""
    cache, state = code_cache(), package_state()
    if cache is None or state is None:
        return _render(name).decode()
    parts = ("shared", state, repr(host_target()), name)
    return cache.fetch(lambda: _render(name), *parts).decode()


def _render(name: str) -> bytes:
    from staticflow.codegen.gemm.calls import Part
    from staticflow.codegen.gemm.shared import shared_kernel
    from staticflow.codegen.llvm.render import render_module
    from staticflow.codegen.lower.cluster import Lowered
    from staticflow.codegen.lower.row_work import emit_row_work, is_row_work
    from staticflow.codegen.schedule.cpu import schedule_cpu
    from staticflow.codegen.schedule.runs import is_run
    from staticflow.codegen.schedule.shared_runs import schedule_run

    target = host_target()
    if is_run(name):
        kernel, runs_inside = schedule_run(name, target), False
    elif is_row_work(name):
        row = emit_row_work(name)
        lowered = Lowered(row.kernel, inner=row.inner, bits=row.bits)
        kernel, runs_inside = schedule_cpu(lowered, target), not row.looks
    else:
        kernel, runs_inside = shared_kernel(name, target), Part.of_name(name).runs_inside
    text = render_module([kernel], target, runs_inside)
    return text.replace(f"define internal i32 @{name}(", f"define i32 @{name}(").encode()
