"""What a step of either mode does inside: its memory, its kernels, and how near to the
machine's limits it comes."""

from __future__ import annotations

from dataclasses import replace

from staticflow.comparison.amount import sizes_of_call
from staticflow.comparison.contest import Contestant
from staticflow.comparison.inputs import Batch
from staticflow.comparison.job import Job
from staticflow.comparison.record import Kernel, Memory, Roofline
from staticflow.measure.machine import Machine, roofline_fraction

__all__ = ["eager_roofline", "kernels_of", "memory_of_steps", "roofline_of"]


def memory_of_steps(
    eager: Contestant, static: Contestant | None, batch: Batch
) -> dict[str, Memory]:
    """The memory of one step of either mode, by mode. The eager contestant makes a step."""
    from staticflow.measure.memory import measure_eager
    from staticflow.static.twin import measure_memory

    eager.step(*batch)
    found = {"eager": measure_eager(lambda: eager.step(*batch))}
    if static is not None and static.program is not None:
        found["static"] = measure_memory(static.program, *batch)
    return found


def kernels_of(
    job: Job, static: Contestant, seconds: float | None
) -> tuple[tuple[Kernel, ...], float | None]:
    """The kernels of the compiled step, at the sizes of the job's first batch and with as many
    iterations of loops as that has, and the share of the step's ``seconds`` that is spent in none.
    What a kernel takes is the share that a profile gives it; without ``seconds`` none is made."""
    from staticflow.static.twin import late_sizes_finder

    assert static.program is not None
    batch = job.batches(1)[0]
    late = late_sizes_finder(static.program)(*batch)
    kernels = static.program.work(**sizes_of_call(static.program, batch), **late)
    if seconds is None:
        return kernels, None
    profile = static.program.profile(*batch)
    shares: dict[str, float] = {}
    for row in profile.rows:
        shares[row.name] = shares.get(row.name, 0.0) + row.share
    timed = tuple(
        replace(k, seconds=shares[k.name] * seconds if k.name in shares else None) for k in kernels
    )
    return timed, sum(profile.outside.values()) / profile.seconds


def roofline_of(
    kernels: tuple[Kernel, ...],
    static: Contestant,
    seconds: float | None,
    here: Machine,
    footprint: int | None,
    outside: float | None,
) -> Roofline | None:
    """What the compiled step does in all, and how near to the machine's limits; None where its
    kernels are not known."""
    if not kernels or static.program is None:
        return None
    moved, flops = (sum(getattr(k, what) for k in kernels) for what in ("bytes", "flops"))
    fraction = None
    if seconds and not any(k.uncounted for k in kernels):
        fraction = roofline_fraction(moved, flops, seconds, here, footprint)
    launches = sum(k.launches for k in kernels)
    return Roofline(static.program.kernel_count, launches, moved, flops, fraction, outside)


def eager_roofline(
    eager: Contestant, batch: Batch, seconds: float | None, here: Machine, footprint: int | None
) -> Roofline:
    """What the operations of an eager step do in all, and how near to the machine's limits; the
    contestant makes a step. Without the work of some operation there is no fraction."""
    from staticflow.profiling import profile

    with profile(work=True) as block:
        eager.step(*batch)
    found = block.result
    moved, flops = found.traffic or 0, found.flops or 0
    fraction = None
    if seconds and not found.uncounted:
        fraction = roofline_fraction(moved, flops, seconds, here, footprint)
    writing = found.outside["writing the operations down"]
    outside = sum(found.outside.values()) - writing
    return Roofline(
        len(found.operations),
        sum(row.count for row in found.operations),
        moved,
        flops,
        fraction,
        outside / (found.seconds - writing),
    )
