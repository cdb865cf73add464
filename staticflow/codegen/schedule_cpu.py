"""How kernels are made fast on a CPU."""

from __future__ import annotations

from staticflow.codegen.kernel import Kernel, Let, walk
from staticflow.codegen.lower import Lowered
from staticflow.codegen.rewrite import find_loop
from staticflow.codegen.schedule import is_vectorizable, vectorize
from staticflow.codegen.target import Target

__all__ = ["schedule_cpu"]

_SHORT = 16
"""Statements; a shorter body does not hide the latency of its own operations."""

_REGISTERS = 4
"""Registers side by side in a short body: enough to hide the latency of an addition."""


def schedule_cpu(lowered: Lowered, target: Target) -> Kernel:
    """The kernel with its innermost loops vectorised, where that is legal."""
    kernel = lowered.kernel
    for var in lowered.inner:
        if is_vectorizable(kernel, var):
            body = find_loop(kernel, var).body
            is_short = sum(isinstance(stmt, Let) for stmt in walk(body)) < _SHORT
            lanes = target.vector_bits // lowered.bits * (_REGISTERS if is_short else 1)
            kernel = vectorize(kernel, var, lanes)
    return kernel
