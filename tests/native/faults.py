"""Native functions with one fault each, on the line that ends with ``#!`` and what is said of it;
``line -2`` is two lines above."""
# ruff: noqa
# fmt: off
# mypy: ignore-errors

from __future__ import annotations

from staticflow.native import cpython
from staticflow.native.cpython import NONE, Tuple
from staticflow.native.language import *
from tests.native.constructs import (
    Box,
    Holder,
    Pair,
    PyObject_Str,
    PyTuple_GetItem,
    cell,
)

TEXT = "text"


class Memory(Object):
    version: Object | None


class Tensor(Object):
    memory: Memory | None


@external()
def into_numpy(thing: Object) -> bool:
    raise NotImplementedError


@external(runs=False)
def count_change(memory: Memory) -> bool:
    raise NotImplementedError


@export
def borrowed_across_a_call(tensor: Tensor, array: Object) -> bool:
    memory = tensor.memory
    if memory is None:
        return False
    if into_numpy(array):
        return True
    return count_change(memory)  #! memory, read in line -5, may be gone: into_numpy in line -2 may run Python; write hold(memory) where it is read, and drop it, or read it again


@export
def lent_to_what_runs(tensor: Tensor) -> bool:
    memory = tensor.memory
    if memory is None:
        return False
    return into_numpy(memory)  #! memory is read from where Python may change it, and into_numpy, which may run Python, needs it all the time: hold it before, and drop it behind


@export
def at_the_head(tensor: Tensor, n: int) -> bool:
    memory = tensor.memory
    for i in range(n):
        if memory is not None and count_change(memory):  #! memory, read in line -2, may be gone: the loop in line -1 may run Python; write hold(memory) where it is read, and drop it, or read it again
            return True
        if into_numpy(tensor):
            return True
    return False


@export
def assigned_around(tensor: Tensor, n: int) -> bool:
    known: Memory | None = None
    for i in range(n):
        if into_numpy(tensor):
            return True
        known = tensor.memory  #! known is read from where Python may change it, and carried around the loop: hold it where it is read
    return known is None


@export
def on_one_way(tensor: Tensor, flag: bool) -> bool:
    memory = tensor.memory
    if flag:
        into_numpy(tensor)
    return memory is not None and count_change(memory)  #! memory, read in line -3, may be gone: into_numpy in line -1 may run Python; write hold(memory) where it is read, and drop it, or read it again


@export
def through_an_argument(tensor: Tensor, n: int) -> int:
    return add(address_of(tensor.memory), lengthen(tensor)) + use(tensor.memory, lengthen(tensor))  #! tensor.memory, read in line -0, may be gone: lengthen in line -0 may run Python; write hold(tensor.memory) where it is read, and drop it, or read it again


@native
def lengthen(tensor: Tensor) -> int:
    return int(into_numpy(tensor))


@native
def add(a: int, b: int) -> int:
    return a + b


@native
def address_of(memory: Memory | None) -> int:
    return 0 if memory is None else address(memory)


@native
def use(memory: Memory | None, n: int) -> int:
    return n


@export
def from_a_shared_record() -> bool:
    thing = cell.thing
    return thing is not None and into_numpy(thing)  #! thing is read from where Python may change it, and into_numpy, which may run Python, needs it all the time: hold it before, and drop it behind


@export
def not_dropped(thing: Object) -> bool:
    text = PyObject_Str(thing)
    if text is None:
        return True
    return False  #! text, owned since line -3, is not dropped on this way out


@export
def dropped_twice(thing: Object) -> None:
    text = PyObject_Str(thing)
    drop(text)
    drop(text)  #! text was dropped in line -1: use it before that


@export
def used_behind(thing: Object) -> int:
    text = hold(thing)
    drop(text)
    return address(text)  #! text was dropped in line -1: use it before that


@export
def dropped_on_one_way(thing: Object, flag: bool) -> None:
    text = PyObject_Str(thing)
    if flag:
        drop(text)  #! text, owned since line -2, is still owned on one way here and not on another: drop it, or hand it on, on every way


@export
def owned_on_one_way(thing: Object, flag: bool) -> Owned[Object]:
    text = thing
    if flag:
        text = hold(thing)  #! text is owned on one way here and borrowed on another: hold it on that one


@export
def lost_in_a_statement(thing: Object) -> None:
    PyObject_Str(thing)  #! PyObject_Str(thing), owned since line -0, is lost here: drop it before, or keep it in a variable


@export
def lost_as_an_argument(thing: Object) -> bool:
    return into_numpy(hold(thing))  #! hold(thing) is owned and only lent to into_numpy, and lost behind: keep it in a variable, and drop it


@export
def overwritten(thing: Object) -> Owned[Object | None]:
    text = PyObject_Str(thing)
    text = PyObject_Str(thing)  #! text, owned since line -1, is lost here: drop it before, or hand it on
    return text


@export
def lost_in_a_loop(thing: Object, n: int) -> None:
    for i in range(n):
        text = PyObject_Str(thing)  #! text, owned since line -0, is lost when the loop begins again: drop it before


@export
def given_in_a_loop(thing: Object, n: int) -> None:
    text = PyObject_Str(thing)
    for i in range(n):
        drop(text)  #! text was dropped in line -0, and is not there when the loop begins again


@export
def returned_borrowed(thing: Object) -> Owned[Object]:
    return thing  #! thing is borrowed and would be returned: write hold(thing)


@export
def put_borrowed(box: Box, thing: Object) -> None:
    box.item = thing  #! thing is borrowed and would be put into box.item: write hold(thing)


@export
def record_not_dropped(thing: Object) -> int:
    holder = zero_record(Holder)
    holder.thing = hold(thing)
    return 0  #! holder, owned since line -2, is not dropped on this way out


@export
def out_of_a_record(thing: Object) -> int:
    holder = zero_record(Holder)
    holder.thing = hold(thing)
    inside = holder.thing
    drop(holder)
    return 0 if inside is None else address(inside)  #! what inside lives in was dropped in line -1: use it before that


@export
def kept_too_long(row: Row[Object], tensor: Tensor) -> None:
    memory = tensor.memory
    if memory is not None:
        row[0] = memory  #! memory is read from where Python may change it, and the record would hold it longer: hold it, and write the variable into the record


@export
def lent_to_a_record(row: Row[Object], thing: Object) -> None:
    text = hold(thing)
    row[0] = text  #! text is owned here, or lives in what is, and the record could hold it longer: let the field own it, or trust it and say why


@native
def note(row: Row[Object], thing: Object) -> None:
    row[0] = thing


@native
def note_in(box: Holder, row: Row[Object], thing: Object) -> None:
    held = box.thing
    note(row, thing if held is None else held)


class Rows(Record):
    things: Row[Object]
    numbers: Row[int]


@export
def kept_by_a_function(row: Row[Object], tensor: Tensor) -> None:
    memory = tensor.memory
    if memory is not None:
        note(row, memory)  #! memory is read from where Python may change it, and the record, into which note writes it, would hold it longer: hold it, and write the variable into the record


@export
def kept_by_a_function_of_a_function(row: Row[Object], box: Holder, thing: Object) -> None:
    text = hold(thing)
    note_in(box, row, text)  #! text is owned here, or lives in what is, and the record, into which note_in writes it, could hold it longer: let the field own it, or trust it and say why
    drop(text)


@export
def kept_by_way_of_a_record(row: Row[Object], thing: Object) -> None:
    text = hold(thing)
    pass_on(row, text)  #! text is owned here, or lives in what is, and the record, into which pass_on writes it, could hold it longer: let the field own it, or trust it and say why
    drop(text)


@native
def pass_on(row: Row[Object], thing: Object) -> None:
    rows = zero_record(Rows)
    rows.things = space(Object, 1)
    rows.things[0] = thing
    row[0] = rows.things[0]


@export
def memory_in_a_record(rows: Rows) -> None:
    rows.numbers = space(int, 2)  #! space(int, 2) is memory of the call, and the record may be there longer


@export
def inside_of_another(rows: Rows, thing: Object) -> Inside[Object]:
    return thing  #! thing may be there for less long than the first argument
    drop(text)


@export
def leaves_the_call() -> Pair:
    return zero_record(Pair)  #! zero_record(Pair) is memory of the call, which ends here


@export
def no_reason(thing: Object) -> None:
    trust(thing, Box, "")  #! the reason is to be written out


@export
def null_not_tested(box: Box) -> int:
    return address(box.item)  #! box.item may be null: test `box.item is not None` before


@export
def null_given(box: Box) -> bool:
    return into_numpy(box.item)  #! box.item is Object | None, and Object is wanted: test `is None` before


@export
def no_such_field(box: Box) -> int:
    return box.lid  #! Box has no field lid


@export
def not_in_the_layout(tensor: Tensor) -> bool:
    return tensor.elsewhere is None  #! Tensor has no field elsewhere


@export
def wrong_class(thing: Object) -> bool:
    return count_change(thing)  #! thing is Object, and Memory is wanted


@export
def wrong_comparison(thing: Object) -> bool:
    return thing == NONE  #! objects are compared by `is` and `is not`


@export
def pointer_as_truth(thing: Object | None) -> int:
    if thing:  #! thing is Object | None, no bool: write `thing is not None`
        return 1
    return 0


@export
def two_types(n: int, flag: bool) -> int:
    n = flag  #! n is int, and bool is assigned
    return n


@export
def not_on_every_way(flag: bool) -> int:
    if flag:
        n = 3
    return n  #! n is not known on every way here: give it a value before


@export
def unknown_name() -> int:
    return nothing  #! nothing is not known: give it a value before


@export
def text_of_python() -> int:
    return TEXT  #! TEXT is a str of Python: native code has only numbers, and what `constant` makes


@export
def no_native_function(n: int) -> int:
    return abs(n)  #! abs is no function of native code: decorate it


@export
def too_few(n: int) -> int:
    return add(n)  #! add takes 2 arguments, not 1


@export
def a_chain(n: int) -> bool:
    return 0 < n < 3  #! native code knows no chain of comparisons: write `and`


@export
def a_list(n: int) -> int:
    return [n][0]  #! native code knows no List: write it in simpler expressions


@export
def a_try(n: int) -> int:
    try:  #! native code knows no Try: write it with assignments, if, while, for over range, and return
        return n
    finally:
        pass


@export
def a_for(row: Row[int]) -> int:
    for x in row:  #! of for there is `for name in range(...)` alone, without else
        return x
    return 0


@export
def no_end(n: int) -> int:
    if n > 0:
        return n  #! int is to be returned on every way


@export
def never_reached(n: int) -> int:
    return n
    n += 1  #! this is never reached: leave it out


@export
def grows_in_a_loop(n: int) -> int:
    for i in range(n):
        space(int, n, 8)  #! memory of the call would grow with a loop: make it before
    return n


@export
def without_bound(n: int) -> int:
    space(int, n)  #! n is no constant: give a bound, too, which is one
    return n


@export
def wide_number() -> int:
    return 1 << 3 | 0x1FFFFFFFFFFFFFFFF  #! 36893488147419103231 has more than 64 bits


@export
def none_without_type() -> bool:
    thing = None  #! annotate thing: `thing: T | None = None`
    return thing is None


LIMIT = 5


@export
def of_the_function_alone(n: int) -> int:
    if n > 0:
        LIMIT = n
    return LIMIT  #! LIMIT is not known on every way here: give it a value before


@export
def shifted_out(n: int) -> int:
    return n << 64  #! an int of 64 bits is not shifted by 64


@export
def wide_negative_number() -> int:
    return -9223372036854775809  #! -9223372036854775809 has more than 64 bits


@export
def several(*n: int) -> int:  #! several: arguments are given by position, and one value each
    return n


class Several(Object):
    items: Row[Object]


@export
def copied_out(several: Several, row: Row[Object]) -> None:
    copy(row, several.items, 1)  #! several.items is read from where Python may change it, and the record would hold it longer: hold it, and write the variable into the record


class Ticket(Record):
    number: Atomic[int]
    plain: int


@export
def atomic_by_assignment(ticket: Ticket) -> None:
    ticket.number = 3  #! ticket.number is atomic: write it by its store


@export
def step_of_a_plain_number(ticket: Ticket) -> int:
    return ticket.plain.load()  #! ticket.plain is int, which is not atomic


@export
def order_that_stores_cannot_have(ticket: Ticket) -> None:
    ticket.number.store(3, "acquire")  #! store takes 1 int, and one of relaxed, release, seq_cst


@export
def step_of_too_little(ticket: Ticket) -> bool:
    return ticket.number.compare_exchange(3)  #! compare_exchange takes 2 ints, not 1


@native
def any_number(*numbers: int) -> int:
    return 0


@export
def of_any_number() -> int:
    return any_number(1, 2)  #! any_number: arguments are given by position, and one value each


@export
def of_no_sign(n: int) -> bool:
    return n < 0xFFFFFFFFFFFFFFFF  #! 18446744073709551615 has more than 64 bits, one of which is the sign


class Plain(Record):
    thing: Owned[Object | None]
    lent: Object | None


plain = variable(Plain, "plain")


@native
def empty(holder: Holder) -> None:
    before = take(holder.thing)
    drop(before)


@native
def thing_of(holder: Holder) -> Inside[Object | None]:
    return holder.thing


@native
def look_at(holder: Holder, thing: Object | None) -> bool:
    empty(holder)
    return thing is None


@export
def used_behind_what_was_taken(holder: Holder) -> int:
    inside = holder.thing
    before = take(holder.thing)
    drop(before)
    return 0 if inside is None else address(inside)  #! inside, read in line -3, may be gone: take(holder.thing) in line -2 takes what it was read from; write hold(inside) where it is read, and drop it, or read it again


@export
def used_behind_what_a_function_took(holder: Holder) -> int:
    inside = thing_of(holder)
    empty(holder)
    return 0 if inside is None else address(inside)  #! inside, read in line -2, may be gone: empty in line -1 takes what it was read from; write hold(inside) where it is read, and drop it, or read it again


@export
def lent_to_what_takes_it(holder: Holder) -> bool:
    return look_at(holder, holder.thing)  #! holder.thing is lent to look_at, which takes it from where it was read, holder.thing: hold it before, and drop it behind


@export
def taken_on_one_way(holder: Holder, flag: bool) -> int:
    inside = holder.thing
    if flag:
        before = take(holder.thing)
        drop(before)
    return 0 if inside is None else address(inside)  #! inside, read in line -4, may be gone: take(holder.thing) in line -2 takes what it was read from; write hold(inside) where it is read, and drop it, or read it again


@export
def taken_when_the_loop_begins_again(holder: Holder, n: int) -> int:
    inside = holder.thing
    total = 0
    for i in range(n):
        total += 0 if inside is None else address(inside)  #! inside, read in line -3, may be gone: the loop in line -1 takes what it was read from; write hold(inside) where it is read, and drop it, or read it again
        before = take(holder.thing)
        drop(before)
    return total


@export
def put_where_it_stays(thing: Object) -> None:
    plain.lent = thing  #! thing is an argument, or comes from one, and plain stays when the call has ended: let it own the value, or let its record be shared


@native
def keep_in(record: Plain, thing: Object) -> None:
    record.lent = thing


@export
def put_where_it_stays_by_a_function(thing: Object) -> None:
    keep_in(plain, thing)  #! thing is an argument, or comes from one, and plain, into which keep_in writes it, stays when the call has ended: let it own the value, or let its record be shared


@export
def taken_in_the_next_turn(holder: Holder, things: Row[Object], n: int) -> int:
    total = 0
    inside: Object | None = None
    for i in range(n):
        before = take(holder.thing)
        drop(before)
        total += 0 if inside is None else address(inside)  #! inside, read in line -4, may be gone: take(holder.thing) in line -2 takes what it was read from; write hold(inside) where it is read, and drop it, or read it again
        holder.thing = hold(things[i])
        inside = holder.thing
    return total


@export
def owned_from_the_second_turn_on(tensor: Tensor, n: int) -> None:
    held = hold(tensor)
    drop(held)
    for i in range(n):
        held = hold(tensor)  #! held is borrowed when the loop begins, and owned when it begins again


@export
def owned_by_another_from_the_second_turn_on(tensor: Tensor, n: int) -> None:
    old = hold(tensor)
    new = hold(tensor)
    for i in range(n):
        drop(new)
        new = old  #! old, owned since line -4, is new's when the loop begins again: write hold(old)
    drop(new)
    drop(old)


@export
def more_than_an_int_of_c_holds() -> Int32:
    return 1 << 31  #! 2147483648 has more than the 32 bits that are there for it, one of which is the sign


@export
def nothing_of_a_module(row: Tuple) -> int:
    return cpython.PyTuple_Length(row)  #! cpython is a module of Python: native code has only numbers, and what `constant` makes


@export
def no_function_of_a_module(row: Tuple) -> int:
    return cpython.annotations(row)  #! cpython.annotations is no function of native code: decorate it
