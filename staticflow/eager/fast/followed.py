"""Native code that tells which edges of a vertex a walk back follows by itself, as
`staticflow.eager.tape` has it in Python."""

from __future__ import annotations

from typing import TypeGuard

from staticflow.eager.fast.classes import Entry, Output, output_example
from staticflow.eager.fast.kept import is_row
from staticflow.eager.fast.records import Walk
from staticflow.native import cpython
from staticflow.native.cpython import NONE, Dict, Tuple
from staticflow.native.language import Object, Owned, hold, inline, native, trust

__all__ = ["edges_of", "is_output", "is_passed"]


@inline
def is_output(vertex: Object) -> TypeGuard[Output]:
    """Whether a vertex is one of several results of an entry."""
    return vertex.type is output_example.type


@native
def edges_of(walk: Walk, entry: Entry) -> Owned[Tuple | None]:
    """The edges of an entry that are followed; null if it has hooks, if it is asked for, if nothing
    leads on, or with an error set."""
    if entry.hooks is not NONE or not is_unasked(walk, entry):
        return None
    followed = walk.followed
    edges = entry.edges
    if followed is not NONE:
        ways = trust(followed, Dict, "the walk in Python makes it")
        edges = cpython.PyDict_GetItemWithError(ways, entry)
    if not is_row(edges) or cpython.PyTuple_Size(edges) == 0:
        return None
    return hold(edges)


@native
def is_passed(walk: Walk, output: Output) -> bool:
    """Whether a result has no hooks, is not asked for, and is on a way that is followed. An error
    may be set if not."""
    if output.hooks is not NONE or not is_unasked(walk, output):
        return False
    followed = walk.followed
    if followed is NONE:
        return True
    ways = trust(followed, Dict, "the walk in Python makes it")
    edges = cpython.PyDict_GetItemWithError(ways, output)
    return is_row(edges) and cpython.PyTuple_Size(edges) != 0


@native
def is_unasked(walk: Walk, vertex: Object) -> bool:
    """Whether nobody asks for the cotangent of a vertex. An error may be set if not."""
    wanted = walk.wanted
    if wanted is NONE:
        return True
    table = trust(wanted, Dict, "the walk in Python makes it")
    if cpython.PyDict_GetItemWithError(table, vertex) is not None:
        return False
    return cpython.PyErr_Occurred() is None
