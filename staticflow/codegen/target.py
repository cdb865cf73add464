"""What lowering and schedules need to know of the machine that a kernel is made for."""

from __future__ import annotations

from staticflow.data_classes import dataclass

__all__ = ["PORTABLE", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """A CPU as schedules see it.

    ``vector_bits`` is the widest vector register, ``fma`` whether ``a * b + c`` is one instruction,
    ``masks`` whether a load or store can leave out lanes without a branch for each, ``avx512``
    whether the text of a kernel may name instructions of AVX-512 that LLVM has no word for.
    ``workers`` is how many threads may have memory of their own to work in, in one kernel.
    """

    vector_bits: int
    fma: bool
    masks: bool
    avx512: bool = False
    workers: int = 16


PORTABLE = Target(vector_bits=128, fma=False, masks=False)
"""A machine that has what all have."""
