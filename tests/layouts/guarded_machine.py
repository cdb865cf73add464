"""The slow machine with the machine code of the kernels, each of whose buffers lies between pages that
may not be touched: a temporary in the arena has neighbours otherwise, and no fault shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from guard_pages import guarded_bytes
from native_kernels import run
from routine_machine import Array, Machine, run_slowly

from staticflow.codegen.kernel import Buffer
from staticflow.codegen.program.routine import Launch

__all__ = ["run_guarded"]


class GuardedMachine(Machine):
    """Each kernel runs twice, on buffers that end at such a page and on buffers that begin at one,
    and must come to the same."""

    def launch(self, step: Launch) -> int:
        kernel = self.kernels[step.kernel]
        if any(b.access == "grows" for b in kernel.buffers):
            return super().launch(step)  # which asks for memory itself
        regions = [self.place(p) for p in step.places]
        sizes = {s.name: self.number(n) for s, n in zip(kernel.sizes, step.sizes, strict=True)}
        found: list[tuple[int, dict[str, Array]]] = []
        for at_end in (True, False):
            arrays: dict[str, Array] = {}
            for buffer, region in zip(kernel.buffers, regions, strict=True):
                memory, _ = guarded_bytes(region.stop - region.start, at_end)
                if buffer.name.startswith("p"):
                    memory[:] = self.read(region)
                arrays[buffer.name] = memory.view(buffer.dtype.numpy)
            found.append((run(kernel, arrays, **sizes), arrays))
        (code, first), (other, second) = found
        assert code == other
        for buffer, region in zip(kernel.buffers, regions, strict=True):
            if code or buffer.access == "in":
                continue
            there = self.write(region)
            if not _is_workspace(buffer):
                one, two = (a[buffer.name].view(np.uint8) for a in (first, second))
                np.testing.assert_array_equal(one, two, f"{kernel.name}: {buffer.name}")
                there[:] = one
        return code


def _is_workspace(buffer: Buffer) -> bool:
    """Whether a buffer is what a kernel works in, and nobody reads behind it: what is left there
    depends on which thread took which rows."""
    return not buffer.name.startswith(("p", "o"))  # a param, or an output


def run_guarded(program: Any, arrays: Sequence[Array]) -> tuple[int, list[Array]]:
    """The code and the outputs of a compiled program, run by a `GuardedMachine`."""
    return run_slowly(program, arrays, GuardedMachine)
