"""Native code of the walk back, vertex after vertex, as `staticflow.eager.tape` has it in Python.

Both work on the same dicts, list and set, so that either goes on where the other stops. Python
pulls the vertices that are not usual (`pull`), that have hooks or that are asked for, and one in
`MOST_VERTICES`, so that other threads get the interpreter.
"""

from __future__ import annotations

from staticflow.eager.fast.classes import (
    Entry,
    Output,
    State,
    heappop,
    heappush,
    name_serial,
    whole_of,
)
from staticflow.eager.fast.followed import edges_of, is_output, is_passed
from staticflow.eager.fast.kept import is_row
from staticflow.eager.fast.objects import is_tensor, two
from staticflow.eager.fast.operands import current_state
from staticflow.eager.fast.pull import is_entry, pull_entry
from staticflow.eager.fast.records import Walk
from staticflow.eager.fast.sums import add_any, forget_sum
from staticflow.native import cpython
from staticflow.native.cpython import (
    NONE,
    TRUE,
    Dict,
    List,
    OverflowError_,
    Tuple,
    int_type,
    is_dict,
)
from staticflow.native.language import (
    Int32,
    Object,
    Owned,
    Row,
    drop,
    export,
    hold,
    inline,
    native,
    space,
    take,
    trust,
    zero_record,
)

__all__ = ["MOST_VERTICES", "WALK", "walk_on"]

MOST_VERTICES = 64
"""Vertices that are pulled before Python comes again: some 200 microseconds where they are
small."""

GO_ON, PULL, ABSENT, FAILED = 1, 2, 3, -1
"""What a step comes to: there may be another; Python is to pull the vertex; what was looked for is
not there; an error is set."""


@export
def walk_on(
    self: Object, given: Row[Object], count: int, names: Tuple | None
) -> Owned[Tuple | None]:
    """Walk on from the edges of a vertex and what was pulled of it, where values may be retained,
    with the leaves, the waiting, their order, the sums, the wanted and the followed.

    Gives the next vertex that Python is to pull, and its cotangent; None and None at the end. Null
    with an error set.
    """
    state = current_state()
    if state is None:
        return None
    walk = zero_record(Walk)
    walk.state = trust(state, State, "the call holds it until the walk is over")
    walk.retain = given[2] is TRUE
    walk.leaves = trust(given[3], Dict, "the walk in Python makes it")
    walk.waiting = trust(given[4], Dict, "the walk in Python makes it")
    walk.order = trust(given[5], List, "the walk in Python makes it")
    walk.sums = given[6]
    walk.wanted = given[7]
    walk.followed = given[8]
    found = where(walk) if walk_from(walk, given[0], given[1]) else None
    drop(walk)
    drop(state)
    return found


@native
def where(walk: Walk) -> Owned[Tuple | None]:
    """The vertex that a walk is at and its cotangent, as a tuple; null with an error set."""
    return two(something(walk.vertex), something(walk.ct))


@inline
def something(thing: Object | None) -> Owned[Object]:
    """An object, None for null."""
    return hold(thing if thing is not None else NONE)


# -- step by step --------------------------------------------------------------------------------


@native
def walk_from(walk: Walk, edges: Object, pulled: Object) -> bool:
    """Walk until Python is to pull a vertex, or to the end; false with an error set."""
    if not put_down_any(walk, edges, pulled) or not choose(walk):
        return False
    step = GO_ON
    left = MOST_VERTICES
    while step == GO_ON and left > 0:
        left -= 1
        vertex = hold(walk.vertex)
        ct = hold(walk.ct)
        step = PULL
        if vertex is not None and ct is not None:
            step = take_step(walk, vertex, ct)
        drop(vertex)
        drop(ct)
    return step != FAILED


@native
def take_step(walk: Walk, vertex: Object, ct: Object) -> int:
    """Pull a vertex, put down what comes of it, and choose the next."""
    if cpython.PyErr_CheckSignals() < 0:
        return FAILED
    if is_output(vertex):
        return pass_output(walk, vertex, ct)
    edges = edges_of(walk, vertex) if is_entry(vertex) else None
    if edges is None:
        return PULL if cpython.PyErr_Occurred() is None else FAILED
    entry = trust(vertex, Entry, "others have no edges here")
    found = pull_entry(entry, ct, edges, walk.retain, walk.state)
    if found is None:
        drop(edges)
        return PULL if cpython.PyErr_Occurred() is None else FAILED
    good = put_down(walk, edges, found) and choose(walk)
    drop(found)
    drop(edges)
    return GO_ON if good else FAILED


@native
def pass_output(walk: Walk, output: Output, ct: Object) -> int:
    """Put the cotangent of a result down at its entry, with its number, and choose the next."""
    entry = hold(output.entry)
    index = hold(output.index)
    step = PULL
    if entry is not None and index is not None and is_passed(walk, output):
        step = pass_on(walk, entry, index, ct)
    elif cpython.PyErr_Occurred() is not None:
        step = FAILED
    drop(entry)
    drop(index)
    return step


@native
def pass_on(walk: Walk, entry: Object, index: Object, ct: Object) -> int:
    """Put a cotangent down at an entry of several results, and choose the next."""
    cts = cpython.PyDict_New()
    if cts is None:
        return FAILED
    good = cpython.PyDict_SetItem(cts, index, ct) == 0
    if good:
        move_to(walk, 0, None, None)
        good = put_at(walk, entry, cts) and choose(walk)
    drop(cts)
    return GO_ON if good else FAILED


# -- what was pulled -----------------------------------------------------------------------------


@native
def put_down_any(walk: Walk, edges: Object, pulled: Object) -> bool:
    """`put_down`, of what Python gives in any sequences; false with an error set."""
    ways = hold(edges) if is_row(edges) else cpython.PySequence_Tuple(edges)
    if ways is None:
        return False
    found = cpython.PySequence_Tuple(pulled)
    if found is None:
        drop(ways)
        return False
    good = put_down(walk, trust(ways, Tuple, "a row is one"), found)
    drop(found)
    drop(ways)
    return good


@native
def put_down(walk: Walk, edges: Tuple, found: Tuple) -> bool:
    """Put down cotangents where edges lead: those of all edges, or of those alone that lead
    anywhere; false with an error set."""
    move_to(walk, 0, None, None)
    count = cpython.PyTuple_Size(edges)
    given = cpython.PyTuple_Size(found)
    at = 0
    for i in range(count):
        edge = hold(cpython.PyTuple_GetItem(edges, i))
        good = True
        if edge is not NONE or given == count:
            ct = hold(cpython.PyTuple_GetItem(found, at)) if at < given else None
            at += 1
            if ct is not None and ct is not NONE and edge is not NONE:
                good = put_at(walk, edge, ct)
            drop(ct)
        drop(edge)
        if not good:
            return False
    return True


@native
def put_at(walk: Walk, vertex: Object, ct: Object) -> bool:
    """Put a cotangent down at a vertex; false with an error set."""
    serial = serial_of(vertex)
    if serial == 0:
        return add_under(walk, walk.leaves, vertex, ct)
    if serial < 0:
        return False
    if serial == walk.serial:
        before = hold(walk.ct)
        total = add_any(walk, before, ct) if before is not None else None
        drop(before)
        if total is None:
            return False
        move_to(walk, serial, vertex, total)
        drop(total)
        return True
    if cpython.PyDict_Size(walk.waiting) != 0:
        found = add_to_waiting(walk, serial, vertex, ct)
        if found != ABSENT:
            return found == GO_ON
    if serial < walk.serial:
        return let_wait(walk, serial, vertex, ct)
    good = push_next(walk)
    move_to(walk, serial, vertex, ct)
    return good


@native
def push_next(walk: Walk) -> bool:
    """Let the vertex that a walk is at wait, if it is at one; false with an error set."""
    vertex = hold(walk.vertex)
    ct = hold(walk.ct)
    good = True
    if walk.serial != 0 and vertex is not None and ct is not None:
        good = let_wait(walk, walk.serial, vertex, ct)
    drop(vertex)
    drop(ct)
    return good


@native
def move_to(walk: Walk, serial: int, vertex: Object | None, ct: Object | None) -> None:
    """Let a walk be at a vertex, or, for null, nowhere."""
    before = take(walk.vertex)
    ct_before = take(walk.ct)
    walk.serial = serial
    walk.vertex = hold(vertex)
    walk.ct = hold(ct)
    drop(before)
    drop(ct_before)


@native
def serial_of(vertex: Object) -> int:
    """The serial number of a vertex, 0 of a leaf; -1 with an error set."""
    if is_entry(vertex):
        serial = vertex.serial
        if serial is not None and serial.type is int_type:
            return number_of(serial)
    if is_output(vertex):
        number = vertex.serial
        if number is not None and number.type is int_type:
            return number_of(number)
    if is_tensor(vertex):
        return 0
    asked = cpython.PyObject_GetAttr(vertex, name_serial)
    if asked is None:
        return -1
    found = number_of(asked)
    drop(asked)
    return found


@native
def number_of(thing: Object) -> int:
    """The value of an int; -1 with an error set if it has more than 64 bits, or is none."""
    overflow = space(Int32, 1)
    number = cpython.PyLong_AsLongLongAndOverflow(thing, overflow)
    if overflow[0] != 0:
        cpython.PyErr_SetObject(OverflowError_, thing)
        return -1
    return number


# -- the vertices that wait ----------------------------------------------------------------------


@native
def let_wait(walk: Walk, serial: int, vertex: Object, ct: Object) -> bool:
    """Let a vertex wait with its cotangent; false with an error set."""
    number = cpython.PyLong_FromLongLong(serial)
    if number is None:
        return False
    both = two(hold(vertex), hold(ct))
    good = False
    if both is not None:
        good = cpython.PyDict_SetItem(walk.waiting, number, both) == 0
        drop(both)
    drop(number)
    return good and push(walk, -serial)


@native
def push(walk: Walk, number: int) -> bool:
    """Put a number into the heap; false with an error set."""
    item = cpython.PyLong_FromLongLong(number)
    if item is None:
        return False
    good = call_with(heappush, walk.order, item)
    drop(item)
    return good


@native
def call_with(function: Object, things: Object, thing: Object) -> bool:
    """Call a function with two objects for what it does; false with an error set."""
    given = space(Object, 2)
    given[0] = things
    given[1] = thing
    nothing = cpython.PyObject_Vectorcall(function, given, 2, None)
    good = nothing is not None
    drop(nothing)
    return good


@native
def add_to_waiting(walk: Walk, serial: int, vertex: Object, ct: Object) -> int:
    """Add a cotangent to that of a vertex that waits; `ABSENT`, with nothing done, if it does
    not."""
    number = cpython.PyLong_FromLongLong(serial)
    if number is None:
        return FAILED
    both = hold(cpython.PyDict_GetItemWithError(walk.waiting, number))
    if both is None:
        drop(number)
        return ABSENT if cpython.PyErr_Occurred() is None else FAILED
    found = trust(both, Tuple, "what waits is written so, and nobody else has it")
    before = hold(cpython.PyTuple_GetItem(found, 1))
    drop(both)
    total = add_any(walk, before, ct)
    drop(before)
    good = False
    if total is not None:
        now = two(hold(vertex), total)
        if now is not None:
            good = cpython.PyDict_SetItem(walk.waiting, number, now) == 0
            drop(now)
    drop(number)
    return GO_ON if good else FAILED


@native
def choose(walk: Walk) -> bool:
    """Let a walk be at the vertex with the largest serial of all; false with an error set."""
    if cpython.PyList_Size(walk.order) != 0:
        first = hold(cpython.PyList_GetItem(walk.order, 0))
        serial = -number_of(first)
        drop(first)
        if serial > walk.serial and not pop_to(walk, serial):
            return False
    ct = hold(walk.ct)
    good = True
    if ct is not None:
        usual = is_tensor(ct) or is_dict(ct)  # not of parts, nor of several results
        good = forget_sum(walk, ct) if usual else join_parts(walk, ct)
    drop(ct)
    return good


@native
def join_parts(walk: Walk, parts: Object) -> bool:
    """Let the cotangent that a walk is at be that of the whole tensor of which these are parts;
    false with an error set."""
    given = space(Object, 1)
    given[0] = parts
    whole = cpython.PyObject_Vectorcall(whole_of, given, 1, None)
    if whole is None:
        return False
    before = take(walk.ct)
    walk.ct = whole
    drop(before)
    return True


@native
def pop_to(walk: Walk, serial: int) -> bool:
    """Move a walk to the vertex that comes first of those that wait, and let the one wait that it
    was at; false with an error set."""
    given = space(Object, 1)
    given[0] = walk.order
    popped = cpython.PyObject_Vectorcall(heappop, given, 1, None)
    if popped is None:
        return False
    drop(popped)
    number = cpython.PyLong_FromLongLong(serial)
    if number is None:
        return False
    both = hold(cpython.PyDict_GetItemWithError(walk.waiting, number))
    good = both is not None and cpython.PyDict_DelItem(walk.waiting, number) == 0
    drop(number)
    if both is None:
        return False
    good = good and push_next(walk)
    found = trust(both, Tuple, "what waits is written so, and nobody else has it")
    vertex = hold(cpython.PyTuple_GetItem(found, 0))
    ct = hold(cpython.PyTuple_GetItem(found, 1))
    move_to(walk, serial, vertex, ct)
    drop(vertex)
    drop(ct)
    drop(both)
    return good


# -- leaves --------------------------------------------------------------------------------------


@native
def add_under(walk: Walk, table: Dict, leaf: Object, ct: Object) -> bool:
    """Add a cotangent to that of a leaf; false with an error set."""
    before = hold(cpython.PyDict_GetItemWithError(table, leaf))
    if before is None:
        if cpython.PyErr_Occurred() is not None:
            return False
        return cpython.PyDict_SetItem(table, leaf, ct) == 0
    total = add_any(walk, before, ct)
    good = total is not None
    if total is not None:
        if total is not before:
            good = cpython.PyDict_SetItem(table, leaf, total) == 0
        drop(total)
    drop(before)
    return good


WALK = (walk_on,)
