"""What lowering and schedules need to know of the machine that a kernel is made for."""

from __future__ import annotations

from staticflow.data_classes import dataclass

__all__ = ["GPU", "PORTABLE", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """A machine as schedules see it.

    ``vector_bits`` is the widest vector register, ``fma`` whether ``a * b + c`` is one instruction,
    ``masks`` whether a load or store can leave out lanes without a branch for each, ``avx512``
    whether the text of a kernel may name instructions of AVX-512 that LLVM has no word for.
    ``workers`` is how many threads may have memory of their own to work in, in one kernel.
    ``teams`` says that it is no CPU but a GPU, whose threads work in teams. From
    ``streamed_bytes`` on that a kernel moves, what it writes goes past the caches. Its kernels call
    such that programs ``share`` for what sizes that are unknown make long.
    """

    vector_bits: int
    fma: bool
    masks: bool
    avx512: bool = False
    workers: int = 16
    teams: bool = False
    streamed_bytes: int = 3 << 24
    shares: bool = False


PORTABLE = Target(vector_bits=128, fma=False, masks=False)
"""A machine that has what all have."""

GPU = Target(vector_bits=32, fma=True, masks=False, teams=True)
"""A GPU of any make: a thread has no vectors."""
