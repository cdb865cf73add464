"""Machine code of a GPU for CUDA C text, by NVRTC as cupy finds it; kept for the next process.

cupy's own `RawModule` compiles with ``-ftz=true`` behind whatever else is asked for, so that
numbers below the smallest normal one would be 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.codegen.cuda.render import NVRTC_OPTIONS
from staticflow.errors import CompileError
from staticflow.runtime.code_cache import code_cache

__all__ = ["compile_text"]


def compile_text(nvrtc: Any, source: str, capability: int, *, for_linker: bool = False) -> bytes:
    """The machine code of a text for GPUs of a compute capability, such as 90; or, where this NVRTC
    knows no GPUs as new, PTX of the newest that it knows, which the driver translates.

    ``for_linker`` it is PTX that may ask for functions of others. ``nvrtc`` is cupy's module of
    that name. Raises `CompileError` for a text that is refused, and for a GPU older than all that
    are known.
    """
    known = [a for a in nvrtc.getSupportedArchs() if a <= capability]
    if not known:
        raise CompileError(
            f"the GPU has the compute capability {capability / 10}, for which NVRTC "
            f"{'.'.join(map(str, nvrtc.getVersion()))} compiles no longer; use an older cupy"
        )
    newest = max(known)
    kind = "sm" if newest == capability and not for_linker else "compute"
    apart = ("--relocatable-device-code=true",) if for_linker else ()
    options = (*NVRTC_OPTIONS, *apart, f"--gpu-architecture={kind}_{newest}")

    def make() -> bytes:
        return _compile(nvrtc, source, options)

    cache = code_cache()
    if cache is None:
        return make()
    return cache.fetch(make, "NVRTC", repr(nvrtc.getVersion()), *options, source)


def _compile(nvrtc: Any, source: str, options: Sequence[str]) -> bytes:
    program = nvrtc.createProgram(source, "kernels.cu", (), ())
    try:
        nvrtc.compileProgram(program, tuple(options))
        is_code = options[-1].partition("=")[2].startswith("sm")
        found: bytes = (nvrtc.getCUBIN if is_code else nvrtc.getPTX)(program)
        return found
    except nvrtc.NVRTCError:
        log = nvrtc.getProgramLog(program).strip()
        raise CompileError(f"NVRTC refuses a kernel: {log}") from None
    finally:
        nvrtc.destroyProgram(program)
