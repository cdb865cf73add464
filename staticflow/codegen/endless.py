"""Loops of kernels that only their own state ends."""

from __future__ import annotations

from staticflow.codegen.kernel import ENDLESS, Kernel, Loop, walk

__all__ = ["find_counted_loop"]


def find_counted_loop(kernel: Kernel) -> Loop | None:
    """The loop whose variable counts the iterations of a kernel that is one endless loop: the one
    inside of its stretches. None of a kernel without such a loop, or with more than one, or with
    one in another loop, whose iterations are no single number."""
    endless = [s for s in walk(kernel.body) if isinstance(s, Loop) and s.hi == ENDLESS]
    if len(endless) != 1 or endless[0] not in kernel.body:
        return None
    inner = [s for s in endless[0].body if isinstance(s, Loop) and s.going is not None]
    return inner[0] if len(inner) == 1 else None
