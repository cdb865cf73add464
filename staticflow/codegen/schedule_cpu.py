"""How kernels are made fast on a CPU."""

from __future__ import annotations

from staticflow.codegen.kernel import Kernel
from staticflow.codegen.lower import Lowered
from staticflow.codegen.schedule import is_vectorizable, vectorize
from staticflow.codegen.target import Target

__all__ = ["schedule_cpu"]

_REGISTERS = 4
"""Registers side by side where an iteration is cheap: enough to hide the latency of an addition."""


def schedule_cpu(lowered: Lowered, target: Target) -> Kernel:
    """The kernel with its innermost loops vectorised, where that is legal."""
    kernel = lowered.kernel
    lanes = target.vector_bits // lowered.bits * (_REGISTERS if lowered.cheap else 1)
    for var in lowered.inner:
        if is_vectorizable(kernel, var):
            kernel = vectorize(kernel, var, lanes)
    return kernel
