"""Programs that large arrays are computed by: from when on, how many, and how they are made."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from staticflow.graph.graph import Graph
from staticflow.passes.pipeline import PASSES, optimize
from staticflow.runtime.build import build
from staticflow.runtime.executable import Executable
from staticflow.runtime.object_layout import BoxType, box_type

__all__ = ["BEYOND", "LARGE", "MOST_KINDS", "SPREAD", "compiled"]

LARGE = 1 << 16
"""Elements from which on an array is large: a pass over it takes so long that native code, which
takes some 20 ms to make, is worth it."""

SPREAD = 1 << 19
"""Elements from which on several threads take less time for what NumPy does on one, and a program
that writes in place less than an array more."""

BEYOND = 1 << 22
"""Elements from which on an array is more than the caches hold, and whole vectors fill it sooner
than NumPy does."""

MOST_KINDS = 256
"""So many kernels of an op are kept, or derivatives of all; then it begins anew. A number that is
an attribute and changes at every step would otherwise fill the memory with code."""


def compiled(
    graph: Graph, updated: Sequence[object] = (), passes: Sequence[Any] = PASSES
) -> Executable:
    """The program of a graph without variables. Its last outputs are the new values of the params
    whose sources are ``updated``."""
    names = [p.attrs["name"] for p in graph.params]
    optimized, _ = optimize(graph, passes=passes)
    given = len(graph.outputs) - len(updated)
    return build(optimized, names, updated, given, _box(), keeps_arena=False)


class _Box:
    """What the native entry takes beside arrays; nobody makes one."""

    __slots__ = ("array",)


@functools.cache
def _box() -> BoxType | None:
    return box_type(_Box, "array")
