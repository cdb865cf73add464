"""Native code that takes one step back: what `TapeEntry.pull` and `PerElementEntry.pull` of
`staticflow.eager.vertex` give of a usual vertex.

A vertex that is not usual is declined, and Python's method pulls it. The usual one is recorded by
an op of the table, nothing of the step is to be recorded, and its arrays are on the host and as
they were when they were saved.
"""

from __future__ import annotations

from typing import TypeGuard

from staticflow.eager.costs import LARGE, SMALL
from staticflow.eager.fast.calls import clear_error
from staticflow.eager.fast.classes import (
    Entry,
    State,
    Tensor,
    bfloat16,
    entry_type,
    fused_type,
    per_element_type,
)
from staticflow.eager.fast.compute import array_of, call_in_context
from staticflow.eager.fast.kept import describe_value, forget, is_of_many, is_row, open_saved
from staticflow.eager.fast.objects import (
    count_elements,
    has_flag,
    is_tensor,
    tensor_of,
    two,
)
from staticflow.eager.fast.pull_fused import is_fused, pull_fused
from staticflow.eager.fast.recall import recall
from staticflow.eager.fast.records import FLAGS, MOST, OPS_ROOM, KnownOp, OpPlace, Remembered
from staticflow.native import cpython
from staticflow.native.cpython import (
    FALSE,
    NONE,
    TRUE,
    Array,
    Dict,
    Tuple,
    is_array,
    is_dict,
    is_tuple,
)
from staticflow.native.language import (
    Inside,
    Object,
    Owned,
    Record,
    Row,
    address,
    constant,
    drop,
    drop_row,
    hold,
    inline,
    logical_shift,
    native,
    space,
    trust,
    wrapping_mul,
    zero_record,
)

__all__ = ["Back", "is_entry", "place_of", "pull_entry"]

PART, PARTIALS = FLAGS["PART"], FLAGS["PARTIALS"]
PLANNED, ROWS = FLAGS["PLANNED"], FLAGS["ROWS"]

BEFORE = 4
"""What `staticflow.eager.vjp_plans.vjp_of` takes before the arguments of the op."""

_GOLDEN = 11400714819323198485 - (1 << 64)  # 2**64 over the golden ratio, as a signed int


class Back(Record):
    """A step back: the cotangent of a vertex, which is to be pulled to where its edges lead."""

    op: KnownOp
    entry: Entry
    ct: Tensor
    array: Owned[Array | None]  # of the cotangent
    edges: Tuple
    retain: bool
    state: State


@inline
def array_of_ct(back: Back) -> Inside[Array]:
    """The array of the cotangent."""
    return trust(back.array, Array, "a step back holds it")


# -- the vertex ----------------------------------------------------------------------------------

op_places = constant(Row[OpPlace], "op_places")
vjp_remembered = constant(Remembered, "vjp_remembered")


@native
def place_of(at: int) -> int:
    """Where the table of ops is looked through first for one at an address."""
    return logical_shift(wrapping_mul(at, _GOLDEN), 32) & OPS_ROOM - 1


@inline
def is_entry(vertex: Object) -> TypeGuard[Entry]:
    """Whether a vertex is an entry of the classes that are pulled here."""
    kind = vertex.type
    return kind is entry_type or kind is per_element_type or kind is fused_type


@native
def find_op(op: Object) -> KnownOp | None:
    """What native code knows of an op; null if it knows nothing."""
    place = place_of(address(op))
    known = op_places[place].op
    while known is not None:
        if known.object is op:
            return known
        place = place + 1 & OPS_ROOM - 1
        known = op_places[place].op
    return None


@native
def pull_entry(
    entry: Entry, ct: Object, edges: Tuple, retain: bool, state: State
) -> Owned[Tuple | None]:
    """The cotangents of the arguments of an entry, of all or of those alone that have an edge; null
    if it is not usual, with nothing done, or with an error set."""
    if is_fused(entry):
        return pull_fused(entry, ct, edges, retain, state)
    named = entry.op
    if named is None or not is_tensor(ct) or state.recording is TRUE:
        return None
    op = find_op(named)
    data = ct.data
    if op is None or data is None or not is_array(data):
        return None
    back = zero_record(Back)
    back.op = trust(op, KnownOp, "what is known of ops lives as long as the code")
    back.entry = entry
    back.ct = ct
    back.array = hold(data)
    back.edges = edges
    back.retain = retain
    back.state = state
    found = pull_back(back)
    drop(back)
    return found


@native
def pull_back(back: Back) -> Owned[Tuple | None]:
    """`pull_entry`, of what is usual so far."""
    entry = back.entry
    args = hold(entry.args)
    result = hold(entry.result)
    found: Tuple | None = None
    if args is not None and has_flag(back.op, PART) and is_part_of_many(args):
        found = one_part(back)
    elif args is not None and has_flag(back.op, ROWS) and is_of_large(args):
        found = None  # as `staticflow.eager.row_gradient` looks at it
    elif args is not None and result is not None and is_row(args):
        if goes_by_partials(back):
            found = pull_by_partials(back, args, result)
        elif has_flag(back.op, PLANNED):
            found = pull_by_plan(back, args, result)
    drop(args)
    drop(result)
    return found


@inline
def is_part_of_many(args: Object) -> bool:
    """Whether this is all that is kept of a tensor of so many elements that parts of it wait."""
    return is_row(args) and is_of_many(cpython.PyTuple_GetItem(args, 0), SMALL)


@inline
def is_of_large(args: Object) -> bool:
    """Whether the first that is kept is the shape of a large tensor."""
    return is_row(args) and is_of_many(cpython.PyTuple_GetItem(args, 0), LARGE)


@native
def one_part(back: Back) -> Owned[Tuple | None]:
    """What waits of a vertex that took a part: the vertex and the cotangent, as the one item of a
    tuple; null with an error set."""
    waits = two(hold(back.entry), hold(back.ct))
    if waits is None:
        return None
    row = cpython.PyTuple_New(1)
    if row is None:
        drop(waits)
        return None
    cpython.PyTuple_SetItem(row, 0, waits)
    return row


# -- by partials ---------------------------------------------------------------------------------


@inline
def goes_by_partials(back: Back) -> bool:
    """Whether the partials of an elementwise op run on the arrays, which are small."""
    if back.entry.type is not per_element_type or not has_flag(back.op, PARTIALS):
        return False
    array = array_of_ct(back)
    return array.descr is not bfloat16 and count_elements(array) < LARGE


@native
def pull_by_partials(back: Back, args: Tuple, result: Object) -> Owned[Tuple | None]:
    """What the partials of an elementwise op give of small arrays; null if they are changed, or
    with an error set."""
    values = space(Owned[Object], MOST + 2)
    known = open_values(values, back, args, result)
    found: Tuple | None = None
    if known == cpython.PyTuple_Size(args) + 2:
        found = run_partials(back, values, known)
        if found is not None:
            forget(back.entry, args, result, back.retain, back.state)
        else:
            clear_error()  # Python's way raises it again
    drop_row(values, known)
    return found


@native
def open_values(values: Row[Owned[Object]], back: Back, args: Tuple, result: Object) -> int:
    """Write the cotangent, the result and the arguments as partials take them: arrays, numbers, and
    None for what is not kept. How many these are: fewer if one has to be looked at by Python."""
    count = cpython.PyTuple_Size(args)
    if count > 4 or count != cpython.PyTuple_Size(back.edges):
        return 0
    values[0] = hold(array_of_ct(back))
    if is_row(result):
        out = open_saved(result)
        if out is None:
            return 1
        values[1] = out
    elif result is NONE:
        values[1] = hold(NONE)
    else:
        return 1
    rest = values[2:]
    for i in range(count):
        kept = cpython.PyTuple_GetItem(args, i)
        if is_row(kept):
            array = open_saved(kept)
            if array is None:
                return i + 2
            rest[i] = array
        else:
            rest[i] = hold(kept)
    return count + 2


@native
def run_partials(back: Back, values: Row[Owned[Object]], known: int) -> Owned[Tuple | None]:
    """The cotangents that partials give of values; null with an error set."""
    count = known - 2
    found = cpython.PyTuple_New(count)
    if found is None:
        return None
    arrays = space(Object, MOST + 2)
    for i in range(known):
        arrays[i] = values[i]
    for i in range(count):
        partial = back.op.partials[i]
        if partial is None or cpython.PyTuple_GetItem(back.edges, i) is NONE:
            cpython.PyTuple_SetItem(found, i, hold(NONE))
            continue
        ct = run_partial(partial, arrays, known, back)
        if ct is None:
            drop(found)
            return None
        cpython.PyTuple_SetItem(found, i, ct)
    return found


@native
def run_partial(
    partial: Object, arrays: Row[Object], count: int, back: Back
) -> Owned[Object | None]:
    """The cotangent that a partial gives of arrays; null with an error set."""
    data = call_in_context(partial, arrays, count, None, back.state)
    if data is None:
        return None
    if data is array_of_ct(back):
        drop(data)
        return hold(back.ct)
    if is_array(data):
        out = tensor_of(data)
        drop(data)
        return out
    array = array_of(data)
    drop(data)
    if array is None:
        return None
    of_scalar = tensor_of(array) if is_array(array) else None
    drop(array)
    return of_scalar


# -- by a plan -----------------------------------------------------------------------------------


@native
def pull_by_plan(back: Back, args: Tuple, result: Object) -> Owned[Tuple | None]:
    """What the vjp gives, whose calls are remembered; null if the entry is not usual, with nothing
    done, or with an error set."""
    named = hold(back.entry.attrs)
    found: Tuple | None = None
    if named is not None and is_dict(named):
        names: Tuple | None = None
        if cpython.PyDict_Size(named) != 0:
            names = cpython.PySequence_Tuple(named)
            if names is None:
                drop(named)
                return None
        found = pull_named(back, args, result, named, names)
        drop(names)
    drop(named)
    return found


@native
def pull_named(
    back: Back, args: Tuple, result: Object, attrs: Dict, names: Tuple | None
) -> Owned[Tuple | None]:
    """`pull_by_plan`, by the names of attributes."""
    count = cpython.PyTuple_Size(args)
    more = cpython.PyTuple_Size(names) if names is not None else 0
    if count > MOST or more > MOST or count != cpython.PyTuple_Size(back.edges):
        return None
    values = space(Owned[Object], 2 * MOST + BEFORE)
    known = describe_values(values, back, args, result)
    if known == BEFORE + count:
        known = add_attrs(values, known, attrs, names, more)
    found: Tuple | None = None
    if known == BEFORE + count + more:
        found = run_vjp(back, args, result, values, count, names)
    drop_row(values, known)
    return found


@native
def run_vjp(
    back: Back,
    args: Tuple,
    result: Object,
    values: Row[Owned[Object]],
    count: int,
    names: Tuple | None,
) -> Owned[Tuple | None]:
    """What `vjp_of` gives of values and attributes, when the entry has forgotten what it kept; if
    it gives nothing, it keeps that again."""
    forgotten = forget(back.entry, args, result, back.retain, back.state)
    given = space(Object, 2 * MOST + BEFORE)
    for i in range(
        BEFORE + count if names is None else BEFORE + count + cpython.PyTuple_Size(names)
    ):
        given[i] = values[i]
    found = recall(vjp_remembered, None, given, BEFORE + count, names)
    if found is not None and is_tuple(found) and is_full(found, back.edges):
        return found
    drop(found)
    if clear_error() and forgotten:
        keep_again(back.entry, args, result)
    return None


@native
def is_full(found: Tuple, edges: Tuple) -> bool:
    """Whether these are cotangents for all edges, or for those alone that lead anywhere."""
    count = cpython.PyTuple_Size(found)
    every = cpython.PyTuple_Size(edges)
    if count == every:
        return True
    wanted = 0
    for i in range(every):
        wanted += int(cpython.PyTuple_GetItem(edges, i) is not NONE)
    return count == wanted


@native
def keep_again(entry: Entry, args: Tuple, result: Object) -> None:
    """Let an entry keep what it had forgotten."""
    entry.args = hold(args)
    entry.result = hold(result)


@native
def describe_values(values: Row[Owned[Object]], back: Back, args: Tuple, result: Object) -> int:
    """Write what `vjp_of` is called with, but attributes. How many these are: fewer if one has to
    be looked at by Python."""
    values[0] = hold(back.op.name)
    needs = describe_needs(back.edges)
    if needs is None:
        return 1
    values[1] = needs
    values[2] = hold(back.ct)
    out = describe_value(result, back.entry)
    if out is None:
        return 3
    values[3] = out
    rest = values[BEFORE:]
    for i in range(cpython.PyTuple_Size(args)):
        kept = hold(cpython.PyTuple_GetItem(args, i))
        edge = hold(cpython.PyTuple_GetItem(back.edges, i))
        value = describe_value(kept, edge)
        drop(kept)
        drop(edge)
        if value is None:
            return BEFORE + i
        rest[i] = value
    return BEFORE + cpython.PyTuple_Size(args)


@native
def describe_needs(edges: Tuple) -> Owned[Tuple | None]:
    """Which edges lead anywhere, as a tuple of bools; null with an error set."""
    count = cpython.PyTuple_Size(edges)
    needs = cpython.PyTuple_New(count)
    if needs is None:
        return None
    for i in range(count):
        need = FALSE if cpython.PyTuple_GetItem(edges, i) is NONE else TRUE
        cpython.PyTuple_SetItem(needs, i, hold(need))
    return needs


@native
def add_attrs(
    values: Row[Owned[Object]], known: int, attrs: Dict, names: Tuple | None, count: int
) -> int:
    """Write the values of attributes in the order of their names, behind those that are known. How
    many there are then: fewer if one is gone, or with an error set."""
    if names is None:
        return known
    rest = values[known:]
    for i in range(count):
        name = hold(cpython.PyTuple_GetItem(names, i))
        value = hold(cpython.PyDict_GetItemWithError(attrs, name))
        drop(name)
        if value is None:
            return known + i
        rest[i] = value
    return known + count
