"""Native functions, one for each construct of the language; their LLVM text is `constructs.ll`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeGuard

from staticflow.native import cpython
from staticflow.native.cpython import NONE, Tuple
from staticflow.native.language import (
    Atomic,
    Byte,
    Fixed,
    Inside,
    Int32,
    Object,
    Owned,
    Record,
    Row,
    Type,
    address,
    bits_of,
    constant,
    copy,
    drop,
    drop_row,
    export,
    external,
    hold,
    inline,
    logical_shift,
    native,
    offset_of,
    size_of,
    space,
    take,
    trust,
    unsigned_less,
    variable,
    variables,
    variant,
    wrapping_mul,
    zero_record,
    zero_row,
)

LIMIT = 10


class Pair(Record):
    first: int
    small: Int32
    flag: bool
    byte: Byte
    items: Annotated[Row[int], Fixed(3)]
    next: Pair | None


class Holder(Record):
    thing: Owned[Object | None]


class Cell(Record, shared=True):
    thing: Owned[Object | None]


class Box(Object):
    item: Object | None


cell = constant(Cell, "cell")
box_type = constant(Type, "box_type")


@external()
def PyObject_Str(thing: Object) -> Owned[Object | None]:
    """Runs Python."""
    raise NotImplementedError


@external(runs=False)
def PyTuple_GetItem(row: Tuple, place: int) -> Object | None:
    """Lends."""
    raise NotImplementedError


# -- numbers and bools


@export
def arithmetic(a: int, b: int) -> int:
    return (a + b) * (a - b) ^ (a & 12 | b) + (a << 2) - (b >> 1) + ~a - -b


@export
def divided(a: int, b: int) -> int:
    return a // b * 1000 + a % b


@export
def unsigned(a: int, b: int) -> int:
    if unsigned_less(a, b):
        return logical_shift(a, 4)
    return wrapping_mul(a, b)


@export
def least(a: int, b: int) -> int:
    return min(a, b) * 3 + max(a, LIMIT)


@export
def compared(a: int, b: int) -> int:
    flags = a < b
    flags = flags ^ (a == b) | (a >= LIMIT) & (b != 3)
    return int(flags) + int(not flags) * 2 + int(flags == (a > b)) * 4


@export
def short_circuit(a: int, b: int, c: int) -> bool:
    return a < b and (b < c or not (a > c)) and c // max(a, 1) > 1


@export
def truth(a: int, b: int) -> int:
    if a & 3 and not b:
        return 1
    return 2 if a else 3


@export
def named(a: int) -> int:
    if (twice := a * 2) > LIMIT:
        return twice
    return a


@export
def real(number: float) -> int:
    return bits_of(number)


# -- ways


@export
def branches(a: int) -> int:
    result = 0
    if a < 0:
        result = 1
    elif a == 0:
        return 7
    else:
        result += a
    return result


@export
def euclid(a: int, b: int) -> int:
    while b != 0:
        rest = a % b
        a = b
        b = rest
    return a


@export
def loops(n: int, skip: int) -> int:
    total = 0
    for i in range(n):
        if i == skip:
            continue
        for j in range(i, 0, -2):
            if j * i > 50:
                break
            total += j
        if total > 400:
            break
    return total


@export
def endless(n: int) -> int:
    count = 0
    while True:
        if n == 1 or count == 99:
            return count
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1


# -- memory


class Counter(Record, shared=True):
    count: int
    limit: Int32
    last: Owned[Object | None]


counter = variable(Counter, "counter", limit=-3)
table = variables(Pair, "table", 4)
PLACE = 0


@export
def counted(n: int) -> int:
    counter.count += n
    return counter.count * 10 + counter.limit


@native
def at_place(n: int) -> int:
    pair = table[PLACE]
    pair.first += n
    return table[PLACE - 1 + 1].first + (2 << PLACE)


at_one = export(variant(at_place, "at_one", PLACE=1))
at_three = export(variant(at_place, "at_three", PLACE=3))


@export
def words_of(things: Row[Object | None], n: int) -> int:
    room = space(Object | None, LIMIT + 2)
    copy(room, things, n)
    room[0] = None
    missing = 0
    for i in range(n):
        missing += int(room[i] is None)
    return missing


@inline
def rest_of(pair: Pair) -> int:
    return pair.first + pair.small


@export
def fields(pair: Pair, n: int) -> int:
    pair.first += n
    pair.small = n * 2
    pair.byte = n & 63
    pair.flag = not pair.flag
    pair.items[1] = pair.items[2] + 5
    return rest_of(pair) + pair.byte + (pair.items[1] if pair.flag else 0)


@export
def chained(pair: Pair) -> int:
    total = 0
    one = trust(pair, Pair, "a parameter")
    while one.next is not None:
        total += one.first
        one = trust(one.next, Pair, "it was tested in the condition")
    return total


@export
def second(words: Row[int], n: int) -> int:
    rest = words[1:]
    rest[0] = rest[0] + n
    return words[1]


@export
def scratch(n: int) -> int:
    words = space(int, LIMIT)
    for i in range(LIMIT):
        words[i] = i * n
    pair = zero_record(Pair)
    pair.first = words[3]
    return pair.first + pair.small


@export
def bounded(words: Row[int], n: int) -> int:
    room = space(int, n, 64)
    copy(room, words, n)
    total = 0
    for i in range(n):
        total += room[i]
    return total


@export
def cleared(n: int) -> int:
    pairs = zero_row(Pair, n, 8)
    last = pairs[n - 1]
    last.first = n
    return pairs[n - 1].first + size_of(Pair)


@native
def apply(fn: Callable[[int, int], int], a: int) -> int:
    return fn(a, 2)


@export
def indirect(fn: Callable[[int, int], int], a: int) -> int:
    return apply(fn, a) + apply(fn, a + 1)


# -- threads


class Ticket(Record, alignment=64):
    number: Atomic[int]
    state: Atomic[Int32]


tickets = variables(Ticket, "tickets", 3)


@native
def draw(state: Atomic[Int32], more: int) -> int:
    return state.fetch_add(more, "acq_rel") * 100 + state.load("acquire")


@export
def atomic(ticket: Ticket, n: int) -> int:
    ticket.number.store(n)
    before = ticket.number.fetch_add(-2, "relaxed")
    entered = ticket.state.compare_exchange(n, 7, "acquire")
    ticket.state.store(3, "release")
    second = tickets[2].number
    second.store(second.load("relaxed") + n)
    return before + ticket.number.load() + draw(ticket.state, n) + int(entered) + second.load()


@external(runs=False)
def snprintf(text: Row[Byte], size: int, how: Row[Byte], *numbers: int) -> Int32:
    """Takes any number of numbers."""
    raise NotImplementedError


@export
def printed(text: Row[Byte], how: Row[Byte], n: int) -> int:
    return snprintf(text, 32, how, n, n * n) + snprintf(text, 0, how, n, n)


@native
def times(a: int, b: int) -> int:
    return a * b


@export
def by_name(a: int) -> int:
    return apply(times, a)


# -- objects


@native
def is_box(thing: Object) -> TypeGuard[Box]:
    return thing.type is box_type


@export
def exchange(box: Object, thing: Object) -> Owned[Object | None]:
    if not is_box(box):
        return None
    before = box.item
    if before is None:
        return hold(NONE)
    kept = hold(before)
    box.item = hold(thing)
    return kept


@export
def texts(things: Row[Object], n: int, out: Row[int]) -> bool:
    for i in range(n):
        text = PyObject_Str(things[i])
        if text is None:
            return True
        out[i] = address(text.type)
        drop(text)
    return False


@export
def remember(thing: Object) -> int:
    before = take(cell.thing)
    cell.thing = hold(thing)
    drop(before)
    return offset_of(Box, "item")


@native
def held_by(holder: Holder) -> Inside[Object]:
    return trust(holder.thing, Object, "it is filled in before")


@export
def exchanged(holder: Holder, thing: Object) -> int:
    inside = holder.thing
    before = take(holder.thing)
    holder.thing = hold(thing)
    place = 0 if inside is None else address(inside)
    drop(before)
    return place


@export
def briefly(thing: Object, other: Object) -> int:
    holder = zero_record(Holder)
    holder.thing = hold(thing)
    where = address(held_by(holder))
    drop(holder)
    rows = zero_row(Holder, 2)
    last = rows[1]
    last.thing = hold(other)
    drop_row(rows, 2)
    return where


@export
def either(thing: Object, other: Object, which: int) -> Owned[Object | None]:
    chosen = thing if which == 0 else other
    result: Owned[Object | None] = None
    while which < 4:
        drop(result)
        result = PyObject_Str(chosen)
        which += 2
    return result


@export
def last_of(row: Tuple, n: int) -> Owned[Object | None]:
    item = PyTuple_GetItem(row, n - 1)
    return hold(item) if item is not None else None


@export
def describe(thing: Object, depth: int) -> int:
    if depth == 0:
        return 0
    return 1 + deeper(thing, depth - 1)


@native
def deeper(thing: Object, depth: int) -> int:
    return describe(thing, depth) + 1


@export
def emptied(things: Row[Owned[Object | None]], n: int) -> None:
    for i in range(n):
        thing = take(things[i])
        drop(thing)


@export
def adopted(thing: Object) -> Owned[Object]:
    return trust(thing, Owned[Object], "the caller does not drop it")


@export
def shifted(cells: Row[Cell], n: int, newest: Object | None) -> Owned[Object | None]:
    newer: Object | None = newest
    for i in range(n):
        place = cells[i]
        before = trust(place.thing, Object, "it is filled in") if i == 0 else place.thing
        place.thing = trust(newer, Owned[Object], "it moves on")
        newer = before
    return hold(newer)


@export
def twice(thing: Object, flag: bool) -> Owned[Object | None]:
    text: Owned[Object | None] = None
    if flag:
        text = PyObject_Str(thing)
    return text


@export
def between(a: int, b: int, c: int) -> bool:
    return is_between(a, b, c) or not (a == b or b == c)


@inline
def is_between(a: int, b: int, c: int) -> bool:
    return a <= b and b < c


ALWAYS, NEVER = True, False


@export
def decided(a: int, b: int, c: int) -> int:
    found = 0
    if NEVER and a > 0:
        found = 1
    if ALWAYS or b > 0:
        found += 2
    if (NEVER and a > b) or not (ALWAYS or b > c) or c > 2:
        found += 4
    while NEVER and found < 9:
        found += 1
    return found + (8 if NEVER and c > 0 else 16)


@native
def step(pair: Pair) -> int:
    pair.first += 1
    return pair.first


@export
def once(pair: Pair, n: int) -> int:
    pair.first = 0
    pair.items[step(pair)] += 10
    pair.items[pair.first - 1] += step(pair)
    i = 0
    pair.items[i] += (i := n)
    return i


@export
def narrow(n: int) -> int:
    sum: Int32 = 0
    for i in range(n):
        sum += i
    return sum


@export
def by_module(row: Tuple, i: int) -> bool:
    return cpython.PyTuple_GetItem(row, i) is cpython.NONE
