"""Loops of kernels that only their own state ends."""

from __future__ import annotations

from staticflow.codegen.kernel import ENDLESS, Kernel, Loop, Stmt
from staticflow.codegen.parts import walk

__all__ = ["find_counted_loop"]


def find_counted_loop(kernel: Kernel) -> Loop | None:
    """The loop whose variable counts the iterations of a kernel that is one endless loop: the one
    inside of its stretches. None of a kernel without such a loop, or with more than one, or with
    one in another loop, whose iterations are no single number."""
    endless = [s for s in kernel.body if _is_endless(s)]
    if len(endless) != 1 or sum(map(_is_endless, walk(kernel.body))) > 1:
        return None
    (loop,) = endless
    assert isinstance(loop, Loop)
    inner = [s for s in loop.body if isinstance(s, Loop) and s.going is not None]
    return inner[0] if len(inner) == 1 else None


def _is_endless(stmt: Stmt) -> bool:
    return isinstance(stmt, Loop) and stmt.hi == ENDLESS
