"""Native code that takes one step back through a call of a fused function: what `FusedEntry.pull`
of `staticflow.eager.fused` gives where the program is known."""

from __future__ import annotations

from typing import TypeGuard

from staticflow.eager.fast.calls import clear_error
from staticflow.eager.fast.classes import (
    Entry,
    FusedProgram,
    State,
    fused_program_type,
    fused_type,
    name_fused,
)
from staticflow.eager.fast.compute import compute_in_order
from staticflow.eager.fast.kept import forget, is_row, open_saved
from staticflow.eager.fast.objects import is_tensor, tensors_of, tuple_of_one
from staticflow.native import cpython
from staticflow.native.cpython import (
    FALSE,
    NONE,
    TRUE,
    Dict,
    Tuple,
    is_array,
    is_dict,
    is_tuple,
)
from staticflow.native.language import (
    Object,
    Owned,
    Row,
    drop,
    drop_row,
    hold,
    inline,
    native,
    space,
)

__all__ = ["is_fused", "pull_fused"]

MOST_KEPT = 64
"""Operands, residuals and cotangents of a call whose way back is native."""


@inline
def is_fused(vertex: Object) -> TypeGuard[Entry]:
    """Whether a vertex is a `FusedEntry`."""
    return vertex.type is fused_type


@native
def pull_fused(
    entry: Entry, ct: Object, edges: Tuple, retain: bool, state: State
) -> Owned[Tuple | None]:
    """The cotangents of those operands of an entry that have an edge, of the cotangent of its one
    output, or of a dict of those of several; null if it is not usual, with nothing done, or with an
    error set."""
    if state.recording is TRUE:
        return None
    args = hold(entry.args)
    way = way_of(edges, ct)
    found: Tuple | None = None
    if way is not None and args is not None and is_row(args):
        fast = find_way(entry, way)
        if fast is not None:
            found = pull_by(fast, args, ct, edges)
            drop(fast)
        if found is not None:
            forget(entry, args, NONE, retain, state)
        else:
            clear_error()  # Python's way raises it again
    drop(way)
    drop(args)
    return found


# -- the program ---------------------------------------------------------------------------------


@native
def way_of(edges: Tuple, ct: Object) -> Owned[Tuple | None]:
    """The key by which a program back is found: whether each edge leads anywhere, and the numbers
    of the outputs whose cotangents are in a dict; null if there is none, or with an error set."""
    count = cpython.PyTuple_Size(edges)
    given = cpython.PyDict_Size(ct) if is_dict(ct) else 0
    if count + given > MOST_KEPT:
        return None
    way = cpython.PyTuple_New(count + given)
    if way is None:
        return None
    for i in range(count):
        need = FALSE if cpython.PyTuple_GetItem(edges, i) is NONE else TRUE
        cpython.PyTuple_SetItem(way, i, hold(need))
    at = count
    number = 0
    while at < count + given and number < MOST_KEPT:
        index = cpython.PyLong_FromLongLong(number)
        if index is None:
            drop(way)
            return None
        if is_dict(ct) and cpython.PyDict_GetItemWithError(ct, index) is not None:
            cpython.PyTuple_SetItem(way, at, index)
            at += 1
        else:
            drop(index)
        number += 1
    if at < count + given:
        drop(way)
        return None
    return way


@native
def find_way(entry: Entry, way: Tuple) -> Owned[Object | None]:
    """The native entry of the program back; null if there is none yet, or with an error set."""
    attrs = hold(entry.attrs)
    program = hold(item_of(attrs, name_fused))
    drop(attrs)
    ways = hold(program.ways) if program is not None and is_fused_program(program) else None
    drop(program)
    fast = hold(item_of(ways, way))
    drop(ways)
    return fast


@native
def item_of(table: Object | None, key: Object) -> Object | None:
    """What a dict has of a key; null if it has none, if the table is no dict, or with an error
    set."""
    if table is None or not is_dict(table):
        return None
    return cpython.PyDict_GetItemWithError(table, key)


@inline
def is_fused_program(thing: Object) -> TypeGuard[FusedProgram]:
    """Whether an object is a `FusedProgram`."""
    return thing.type is fused_program_type


# -- its arrays ----------------------------------------------------------------------------------


@native
def pull_by(fast: Object, args: Tuple, ct: Object, edges: Tuple) -> Owned[Tuple | None]:
    """What a program gives of what an entry has kept and of cotangents, as tensors; null if these
    are not as it takes them, or with an error set."""
    arrays = space(Owned[Object], 2 * MOST_KEPT)
    known = open_kept(arrays, args)
    found: Tuple | None = None
    if known == cpython.PyTuple_Size(args):
        before = known
        known = add_cotangents(arrays, known, ct)
        if known == before + (cpython.PyDict_Size(ct) if is_dict(ct) else 1):
            found = run_back(fast, arrays, known, edges)
    drop_row(arrays, known)
    return found


@native
def open_kept(arrays: Row[Owned[Object]], args: Tuple) -> int:
    """Write the arrays that an entry has kept. How many these are: fewer if one has to be looked at
    by Python."""
    count = cpython.PyTuple_Size(args)
    if count > MOST_KEPT:
        return -1
    for i in range(count):
        kept = cpython.PyTuple_GetItem(args, i)
        array = open_saved(kept) if is_row(kept) else None
        if array is None:
            return i
        arrays[i] = array
    return count


@native
def add_cotangents(arrays: Row[Owned[Object]], known: int, ct: Object) -> int:
    """Write the arrays of cotangents behind those that are known, those of a dict by their numbers.
    How many there are then: fewer if one has to be looked at by Python."""
    if is_tensor(ct):
        array = ct.data
        if array is None or not is_array(array):
            return known
        arrays[known] = hold(array)
        return known + 1
    return add_of_dict(arrays, known, ct) if is_dict(ct) else known


@native
def add_of_dict(arrays: Row[Owned[Object]], known: int, cts: Dict) -> int:
    """`add_cotangents`, of a dict."""
    count = cpython.PyDict_Size(cts)
    rest = arrays[known:]
    given = 0
    number = 0
    while given < count and number < MOST_KEPT:
        index = cpython.PyLong_FromLongLong(number)
        if index is None:
            return known + given
        ct = hold(cpython.PyDict_GetItemWithError(cts, index))
        drop(index)
        number += 1
        if ct is not None:
            array = ct.data if is_tensor(ct) else None
            if array is not None and is_array(array):
                rest[given] = hold(array)
                given += 1
            drop(ct)
    return known + given


@native
def run_back(
    fast: Object, arrays: Row[Owned[Object]], count: int, edges: Tuple
) -> Owned[Tuple | None]:
    """What a program gives of arrays, as tensors, one for each edge that leads anywhere; null if it
    declines, or with an error set."""
    given = space(Object, 2 * MOST_KEPT)
    for i in range(count):
        given[i] = arrays[i]
    data = compute_in_order(fast, given, count)
    if data is None:
        return None
    wanted = 0
    for i in range(cpython.PyTuple_Size(edges)):
        wanted += int(cpython.PyTuple_GetItem(edges, i) is not NONE)
    found: Tuple | None = None
    if is_tuple(data):
        if cpython.PyTuple_Size(data) == wanted:
            found = tensors_of(data, wanted)
    elif wanted == 1 and is_array(data):
        found = tuple_of_one(data)
    drop(data)
    return found
