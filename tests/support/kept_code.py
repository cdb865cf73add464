"""Machine code that LLVM has made in an earlier run of tests, which most of their time would go to.

It is found by all that decides it: the text, how it is to be optimised, what staticflow asks of
LLVM, LLVM itself and the processor. Nothing else is kept from run to run: graphs, passes and texts are
made anew, and so is what `staticflow.runtime.code_cache` keeps.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from staticflow.runtime import compiler
from staticflow.runtime.code_cache import CodeCache
from staticflow.runtime.machine import machine_parts

__all__ = ["keep_code"]

MOST = 2 * 2**30
"""Bytes that are kept; a run makes about half a gigabyte."""


def keep_code() -> None:
    """Let this process find what others have compiled, in a folder of this user's."""
    folder = Path(tempfile.gettempdir(), f"staticflow-code-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022 or folder.is_symlink():
        raise PermissionError(f"{folder} can be written to by others; remove it")
    cache, emit = CodeCache(folder, MOST), compiler._emit

    def find(text: str, opt: int) -> bytes:
        return cache.fetch(lambda: emit(text, opt), *machine_parts(), str(opt), text)

    compiler._emit = find
