"""What machine this is, what it can do, and how near to that a program comes.

The *roofline* (S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance
model for multicore architectures", 2009): a program cannot be faster than its operations at the
machine's rate of operations, nor than its bytes at the machine's rate of bytes.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable

from staticflow.data_classes import dataclass
from staticflow.measure.rates import machine_rates, processor_name
from staticflow.runtime.threads import get_num_threads

__all__ = ["Machine", "find_versions", "least_seconds", "machine", "roofline_fraction"]

_PACKAGES = (
    "numpy",
    "llvmlite",
    "torch",
    "jax",
    "numba",
    "scipy",
    "scikit-learn",
    "cupy-cuda12x",
    "cupy-cuda13x",
)


@dataclass(frozen=True, slots=True)
class Machine:
    """Where it was measured. The rates are the largest that this machine reached in a test of its
    own, on the threads that were used: of fused multiply-adds of float32, two operations each, and
    of the bytes that ``x[i] = x[i] + 1`` reads and writes in an array far larger than a cache."""

    processor: str
    threads: int
    system: str
    versions: dict[str, str]
    flops_per_second: float | None = None
    bytes_per_second: float | None = None
    bandwidth: tuple[tuple[int, float], ...] = ()
    """Bytes of an array, and bytes a second in it, the smallest array first."""


def machine(threads: int | None = None, *, measure: bool = True, anew: bool = False) -> Machine:
    """This machine, with its rates on so many ``threads``, by default as many as kernels run on.

    They are measured once, in less than a second, and kept where machine code is kept, or measured
    ``anew``. Without ``measure`` they are None.
    """
    count = get_num_threads() if threads is None else threads
    named = Machine(processor_name(), count, platform.platform(), find_versions())
    if not measure:
        return named
    rates = machine_rates(count, anew=anew)
    return Machine(
        named.processor,
        named.threads,
        named.system,
        named.versions,
        rates.flops_per_second,
        rates.bandwidth[-1][1],
        rates.bandwidth,
    )


def roofline_fraction(
    bytes: int, flops: int, seconds: float, machine: Machine, footprint: int | None = None
) -> float | None:
    """The least time that ``bytes`` and ``flops`` need on this machine over the ``seconds`` that
    they took; None where the machine's rates are not known.

    Near 1 nothing is left to gain but by doing less. ``footprint`` is how much memory is touched in
    all, by default ``bytes``: what fits into a cache may stay there from step to step, and is held
    to the rate of an array in ``machine.bandwidth`` that is no larger. It may come out above 1
    where all stays in the first cache, which is not measured.

    >>> here = Machine("a processor", 1, "a system", {}, 1e9, 1e9, ((1024, 4e9), (1 << 28, 1e9)))
    >>> roofline_fraction(500_000_000, 250_000_000, 1.0, here)      # of memory, the bytes decide
    0.5
    >>> roofline_fraction(500_000_000, 250_000_000, 1.0, here, footprint=2048)
    0.25
    """
    least = least_seconds(bytes, flops, machine, footprint)
    return None if least is None else least / seconds


def least_seconds(
    bytes: int, flops: int, machine: Machine, footprint: int | None = None
) -> float | None:
    """The least time that ``bytes`` and ``flops`` need on this machine: the longer of both, since
    it does both at once; None where the machine's rates are not known."""
    if machine.flops_per_second is None or machine.bytes_per_second is None:
        return None
    touched = bytes if footprint is None else footprint
    rates = [rate for size, rate in machine.bandwidth if size <= touched]
    rates = rates or [rate for _, rate in machine.bandwidth[:1]]
    rate = min(rates, default=machine.bytes_per_second)
    return max(bytes / rate, flops / machine.flops_per_second)


def find_versions(packages: Iterable[str] = _PACKAGES) -> dict[str, str]:
    """The versions of Python, of staticflow, and of those of the packages that are installed."""
    from importlib.metadata import PackageNotFoundError, version

    package = sys.modules[__name__.partition(".")[0]]
    found = {"python": platform.python_version(), "staticflow": package.__version__}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
