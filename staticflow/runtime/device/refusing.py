"""What a program for a GPU is refused for, before anything is compiled."""

from __future__ import annotations

from staticflow.codegen.cuda.render import render_cuda
from staticflow.codegen.program.routine import Ask, Launch, walk_steps
from staticflow.errors import CompileError
from staticflow.graph.dtypes import bfloat16
from staticflow.graph.locs import format_locs, here
from staticflow.ops.along.ordered_collectives import COLLECTIVES
from staticflow.runtime.device.interface import Device
from staticflow.runtime.draft import Draft

__all__ = ["refuse_what_has_no_kernel"]


def refuse_what_has_no_kernel(draft: Draft, device: Device) -> None:
    """Raise `CompileError` for a step of a ``draft`` that the host computes, for arrays of bfloat16
    that it takes or gives, and for a kernel that has no text in CUDA C, each with its line."""
    routine = draft.routine
    for step in walk_steps(routine.steps):
        if isinstance(step, Ask) and step.op not in COLLECTIVES:
            operands = ", ".join(str(t) for t in step.types[: len(step.values)])
            raise CompileError(
                f"{step.op.name}({operands}) is computed by the host, and a program for "
                f"{device.name} has no such step; compile it for the CPU, or do it eagerly on the "
                f"CPU, at {format_locs(step.locs)}"
            )
    for t in (*(p.type for p in draft.signature.params), *draft.signature.outputs):
        if t.dtype is bfloat16:
            raise CompileError(
                f"a program for {device.name} takes or gives {t}, and cupy has no arrays of "
                f"bfloat16; cast it inside the program, at {format_locs(here())}"
            )
    for kernel in routine.kernels:
        try:
            render_cuda(kernel)
        except CompileError as error:
            lines = next(
                s.locs for s in walk_steps(routine.steps)
                if isinstance(s, Launch) and s.kernel == kernel.name
            )  # fmt: skip
            raise CompileError(
                f"{device.name}: {error}; compile it for the CPU, at {format_locs(lines)}"
            ) from None
