"""The walk back by the native functions run as Python: each reference is dropped once, also where
any call fails, and nothing is put down twice."""

from __future__ import annotations

import heapq
from typing import Any

import pytest

from staticflow.eager.fast import followed, pull, sums, walk
from staticflow.eager.fast import kept as held
from staticflow.eager.fast.classes import entry_type, row_type
from staticflow.eager.fast.records import KnownOp
from staticflow.native import cpython
from staticflow.native.cpython import FALSE, NONE, array_type, int_type, tuple_type
from staticflow.native.language import Object, Row
from tests.native.mocks import Counted, Items, World, set_item

FLOAT = Object(type=None)


class Number(Counted):
    """An int."""

    def held(self) -> list[Any]:
        return []


class Table(Counted):
    """A dict, whose keys are compared by their numbers, or by identity."""

    def __init__(self, world: World) -> None:
        super().__init__(rows={})
        self.__dict__["world"] = world

    def key(self, thing: Any) -> Any:
        return getattr(thing, "number", id(thing))

    def get(self, thing: Any) -> Any:
        return self.rows.get(self.key(thing), (None, None))[1]

    def put(self, thing: Any, value: Any) -> int:
        if self.world.make(Counted()) is None:
            return -1
        drop_later(self.world)
        for one in (thing, value):
            one.references += 1
        self.delete(thing)
        self.rows[self.key(thing)] = thing, value
        return 0

    def delete(self, thing: Any) -> int:
        for one in self.rows.pop(self.key(thing), ()):
            one.references -= 1
        return 0

    def held(self) -> list[Any]:
        return [one for row in self.rows.values() for one in row]

    @property
    def value(self) -> Any:
        """The values of cotangents by the numbers of results."""
        return {number: one.value for number, (_, one) in self.rows.items()}


def read(number: Any, overflow: Row[int]) -> int:
    """``PyLong_AsLongLongAndOverflow``."""
    overflow[0] = int(abs(number.number) >= 1 << 63)
    return -1 if overflow[0] else number.number


def drop_later(world: World) -> None:
    """What stood for the call is no object."""
    world.made.pop().references -= 1


class Outside:
    """What the walk calls, in a world."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.error = world, False
        self.heap: list[int] = []
        self.sums: set[int] = set()
        outside: dict[str, Any] = {
            "PyTuple_New": self.tuple, "PyTuple_SetItem": set_item,
            "PyTuple_GetItem": lambda row, i: row.items[i],
            "PyTuple_Size": lambda row: len(row.items),
            "PyLong_FromLongLong": self.number, "PyErr_Occurred": self.occurred,
            "PyLong_AsLongLongAndOverflow": read,
            "PyDict_GetItemWithError": lambda table, key: table.get(key),
            "PyDict_SetItem": lambda table, key, value: table.put(key, value),
            "PyDict_DelItem": lambda table, key: table.delete(key),
            "PyDict_Size": lambda table: len(table.rows),
            "PyList_Size": lambda things: len(self.heap),
            "PyList_GetItem": lambda things, i: Number(number=self.heap[i]),
            "PySet_Contains": lambda things, number: int(number.number in self.sums),
            "PySet_Add": lambda things, number: int(self.sums.add(number.number) is not None),
            "PySet_Discard": lambda things, number: int(self.sums.discard(number.number) is None),
            "PySet_Size": lambda things: len(self.sums), "PyErr_CheckSignals": lambda: 0,
            "PySequence_Tuple": self.as_tuple, "PyObject_Vectorcall": self.call,
            "address": lambda thing: id(thing), "apply": self.add, "number_of": lambda n: n.number,
            "call_ufunc_into": self.add_into, "is_recording": lambda state: False,
            "is_tensor": lambda thing: hasattr(thing, "data"), "count_elements": lambda array: 4,
            "is_entry": lambda vertex: hasattr(vertex, "edges"), "pull_entry": self.pull,
            "is_output": lambda vertex: hasattr(vertex, "entry"),
            "is_dict": lambda thing: isinstance(thing, Table),
            "PyDict_New": lambda: world.make(Table(world)),
        }  # fmt: skip
        for module in (cpython, followed, sums, walk):
            for name, fn in outside.items():
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, fn)
        self.pulls: list[Any] = []

    def occurred(self) -> Any:
        return self.world.calls > self.world.fails >= 0 or None

    def tuple(self, length: int) -> Any:
        return self.world.make(Items(type=tuple_type, items=[None] * length))

    def number(self, value: int) -> Any:
        return self.world.make(Number(number=value, type=int_type))

    def as_tuple(self, row: Any) -> Any:
        made = self.tuple(len(row.items))
        if made is not None:
            for i, item in enumerate(row.items):
                item.references += 1
                made.items[i] = item
        return made

    def call(self, function: Any, given: Row[Any], count: int, names: Any) -> Any:
        made = self.world.make(Counted())
        if made is not None and function is walk.heappush:
            heapq.heappush(self.heap, given[1].number)
        elif made is not None and function is walk.heappop:
            heapq.heappop(self.heap)
        elif made is not None and function in (sums.sum_cotangents, walk.whole_of):
            drop_later(self.world)
            return self.together(function, given)
        return made

    def together(self, function: Any, given: Row[Any]) -> Any:
        """The parts of two rows as one row, or the whole of one."""
        if function is walk.whole_of:
            return self.world.make(ct(sum(one.value for one in given[0].items[1::2])))
        both = [p for i in (0, 1) for p in getattr(given[i], "items", [given[i]])]
        return self.row_of(*both)

    def row_of(self, *things: Any) -> Any:
        """A new tuple of things."""
        made = self.world.make(Items(type=tuple_type, items=[*things]))
        for one in things if made is not None else ():
            one.references += 1
        return made

    def add(self, op: Any, both: Row[Any], *_: Any) -> Any:
        return self.world.make(ct(both[0].value + both[1].value))

    def add_into(self, ufunc: Any, arrays: Row[Any], count: int, state: Any) -> bool:
        if self.world.make(Counted()) is None:
            return False
        drop_later(self.world)
        arrays[0].value += arrays[1].value
        return True

    def pull(self, entry: Any, of: Any, edges: Any, retain: bool, state: Any) -> Any:
        """Each edge gets the cotangent itself, if Python is not to pull the vertex."""
        self.pulls.append((entry.serial.number, of.value))
        if entry.by_python:
            return None
        if entry.takes_part:
            return self.part(entry, of)
        found = self.tuple(len(edges.items))
        for i in range(len(edges.items) if found is not None else 0):
            of.references += 1
            found.items[i] = of
        return found

    def part(self, entry: Any, of: Any) -> Any:
        """What `pull.one_part` gives."""
        pair = self.row_of(entry, of)
        row = None if pair is None else self.row_of(pair)
        if pair is not None:
            pair.references -= 1
        return row


class Cotangent(Counted):
    @property
    def value(self) -> Any:
        return self.data.value


def ct(value: float) -> Any:
    return Cotangent(data=Counted(type=array_type, descr=FLOAT, value=value))


def vertex(serial: int, *edges: Any, by_python: bool = False, takes_part: bool = False) -> Any:
    row = Items(type=row_type, items=[*edges])
    number = Number(number=serial, type=int_type)
    made = Counted(type=entry_type, serial=number, edges=row, hooks=NONE, by_python=by_python)
    made.takes_part = takes_part
    return made


def a_leaf() -> Any:
    return Counted(data=Counted(), type=None)


def a_walk(world: World) -> Any:
    return walk.Walk(
        state=Object(), retain=False, leaves=Table(world), waiting=Table(world), order=Object(),
        sums=Object(), wanted=NONE, followed=NONE, serial=0, vertex=None, ct=None,
    )  # fmt: skip


def a_graph(by_python: int = 0) -> tuple[Any, Any]:
    """A vertex of which two branches lead to one vertex, and all to a leaf; and the leaf."""
    x = a_leaf()
    first = vertex(1, x, NONE, by_python=by_python == 1)
    left = vertex(2, first, x, by_python=by_python == 2)
    right = vertex(3, first, first, by_python=by_python == 3)
    return vertex(4, left, right, left, x, by_python=by_python == 4), x


def start(world: World, top: Any) -> tuple[Any, bool]:
    """A walk from a vertex, and whether it went well."""
    given = a_walk(world)
    edges, pulled = Items(type=tuple_type, items=[top]), Items(type=tuple_type, items=[ct(1.0)])
    return given, walk.walk_from(given, edges, pulled)


def test_vertices_come_in_the_order_of_their_serials(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    outside = Outside(world, monkeypatch)
    top, x = a_graph()
    given, good = start(world, top)
    assert good and given.vertex is None and given.waiting.rows == {}
    # 4 gives 1 to right and 2 to left, right 2 and left 2 to first; x: 1 + 2 + 4
    assert outside.pulls == [(4, 1), (3, 1), (2, 2), (1, 4)]
    assert given.leaves.get(x).value == 7


@pytest.mark.parametrize("serial", [1, 2, 3, 4])
def test_what_python_is_to_pull_is_given_to_it(
    monkeypatch: pytest.MonkeyPatch, serial: int
) -> None:
    world = World()
    outside = Outside(world, monkeypatch)
    top, x = a_graph(serial)
    given, good = start(world, top)
    assert good and given.vertex.serial.number == serial
    assert given.ct.value == {4: 1, 3: 1, 2: 2, 1: 4}[serial]
    edges = given.vertex.edges
    pulled = Items(type=tuple_type, items=[given.ct] * len(edges.items))
    assert walk.walk_from(given, edges, pulled) and given.vertex is None
    assert [s for s, _ in outside.pulls] == [4, 3, 2, 1]
    assert given.leaves.get(x).value == 7


@pytest.mark.parametrize("why", ["hooks", "wanted", "nothing followed"])
def test_what_somebody_asks_for_is_given_to_python(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    world = World()
    Outside(world, monkeypatch)
    top, _ = a_graph()
    given = a_walk(world)
    if why == "hooks":
        top.hooks = Object()
    elif why == "wanted":
        given.wanted = Table(world)
        given.wanted.put(top, Counted())
    else:
        given.followed = Table(world)
        given.followed.put(top, Items(type=tuple_type, items=[]))
    edges, pulled = Items(type=tuple_type, items=[top]), Items(type=tuple_type, items=[ct(1.0)])
    assert walk.walk_from(given, edges, pulled)
    assert given.vertex is top and given.ct.value == 1


def test_a_signal_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    outside = Outside(world, monkeypatch)
    monkeypatch.setattr(cpython, "PyErr_CheckSignals", lambda: -1)
    assert not start(world, a_graph()[0])[1] and outside.pulls == []


def test_python_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    outside = Outside(world, monkeypatch)
    top = a_leaf()
    for serial in range(1, 3 * walk.MOST_VERTICES):
        top = vertex(serial, top)
    given, good = start(world, top)
    assert good and len(outside.pulls) == walk.MOST_VERTICES
    assert given.vertex.serial.number == 2 * walk.MOST_VERTICES - 1


def an_output(serial: int, entry: Any, index: int) -> Any:
    number, position = (Number(number=n, type=int_type) for n in (serial, index))
    return Counted(type=None, serial=number, entry=entry, index=position, hooks=NONE)


@pytest.mark.parametrize("why", ["", "hooks", "wanted", "nothing followed"])
def test_results_are_passed_with_their_numbers(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    world = World()
    outside = Outside(world, monkeypatch)
    entry = vertex(1, a_leaf(), by_python=True)
    result = an_output(2, entry, 3)
    given = a_walk(world)
    if why == "hooks":
        result.hooks = Object()
    elif why == "wanted":
        given.wanted = Table(world)
        given.wanted.put(result, Counted())
    elif why:
        given.followed = Table(world)
        given.followed.put(result, Items(type=tuple_type, items=[]))
    edges, pulled = Items(type=tuple_type, items=[result]), Items(type=tuple_type, items=[ct(5.0)])
    assert walk.walk_from(given, edges, pulled)
    assert given.vertex is (result if why else entry)
    assert given.ct.value == (5.0 if why else {3: 5.0})
    assert outside.pulls == ([] if why else [(1, {3: 5.0})])


def reached(thing: Any, found: dict[int, Any]) -> dict[int, Any]:
    """All objects that are reached from one."""
    if id(thing) not in found and isinstance(thing, Counted):
        found[id(thing)] = thing
        for one in thing.held():
            reached(one, found)
    return found


def a_graph_of_parts() -> tuple[Any, Any]:
    """A vertex to which three parts of another lead, two of a leaf to the leaf."""
    x = a_leaf()
    whole = vertex(1, x)
    parts = [vertex(serial, whole, takes_part=True) for serial in (2, 3, 4)]
    own = [vertex(serial, x, takes_part=True) for serial in (5, 6)]
    return vertex(7, *parts, *own), x


def test_parts_wait_until_the_walk_is_at_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    outside = Outside(world, monkeypatch)
    top, x = a_graph_of_parts()
    given, good = start(world, top)
    assert good and given.vertex is None
    assert outside.pulls == [(7, 1), (6, 1), (5, 1), (4, 1), (3, 1), (2, 1), (1, 3)]
    of_x = given.leaves.get(x)  # in the order in which they came: two parts, and then the whole
    assert [one.value for one in of_x.items[1:4:2]] == [1, 1]


@pytest.mark.parametrize("graph", [a_graph, a_graph_of_parts])
@pytest.mark.parametrize("fails", range(-1, 45))
def test_nothing_is_lost_where_a_call_fails(
    monkeypatch: pytest.MonkeyPatch, fails: int, graph: Any
) -> None:
    world = World(fails)
    Outside(world, monkeypatch)
    top, _ = graph()
    before = {k: t.references for k, t in reached(top, {}).items()}
    given, good = start(world, top)
    assert good == (not 0 <= fails < world.calls)
    for table in (given.leaves, given.waiting):
        for row in [*table.rows.values()]:
            table.delete(row[0])
    walk.move_to(given, 0, None, None)
    assert world.leaks() == []
    assert {k: t.references for k, t in reached(top, {}).items()} == before


# -- a step --------------------------------------------------------------------------------------


def a_step(world: World, monkeypatch: pytest.MonkeyPatch, **kept: Any) -> Any:
    """The step back of a vertex of two arguments, of which it keeps one, and its result."""
    outside = Outside(world, monkeypatch)
    version = Number(number=300, type=int_type)
    memory_type, overflow = Object(), []
    data = Counted(type=array_type, descr=FLOAT, value=2.0)
    memory = Counted(type=memory_type, version=Number(number=300, type=int_type))
    saved = Items(type=row_type, items=[data, memory, version])
    sizes = Items(type=tuple_type, items=[])
    shape = Counted(type=None, shape=sizes, dtype=Counted(), sf_gpu=NONE)
    args = Items(type=row_type, items=[kept.get("first", saved), kept.get("second", shape)])
    attrs = Table(world)
    attrs.put(Counted(name="dim"), Counted(value=1))
    one = Counted(
        type=entry_type, args=args, result=kept.get("result", NONE), attrs=attrs,
        edges=Items(type=row_type, items=[a_leaf(), NONE]), op=Object(),
    )  # fmt: skip
    op = KnownOp(object=one.op, name=Counted(), flags=pull.PLANNED, partials=Row([None, None]))
    inside: dict[str, Any] = {
        "is_row": lambda thing: isinstance(thing, Items),
        "is_tuple": lambda thing: isinstance(thing, Items),
        "is_array": lambda thing: getattr(thing, "type", None) is array_type,
        "is_saved_type": lambda thing: thing is shape, "find_op": lambda named: op, "is_memory": lambda m: m.type is memory_type,
        "is_dict": lambda thing: isinstance(thing, Table), "recall": kept["recall"],
        "clear_error": lambda: overflow.append(1) is None, "count_elements": lambda a: 4,
        "is_tensor": lambda thing: hasattr(thing, "data"),
        "tensor_of": lambda array: on(array, world.make(Counted())),
        "PySequence_Tuple": lambda table: keys_of(world, table),
        "PyDict_Size": lambda table: len(table.rows),
        "PyTuple_New": outside.tuple,
    }  # fmt: skip
    for module in (cpython, held, pull):
        for name, fn in inside.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, fn)
    return one


def on(array: Any, tensor: Any) -> Any:
    """A new tensor, if there is one, on an array."""
    if tensor is not None:
        array.references += 1
        tensor.data = array
    return tensor


def keys_of(world: World, table: Any) -> Any:
    made = world.make(Items(type=tuple_type, items=[]))
    for thing, _ in table.rows.values() if made is not None else ():
        thing.references += 1
        made.items.append(thing)
    return made


def go_back(one: Any, retain: bool = False) -> Any:
    state = Object(recording=FALSE, last_backward=Counted())
    return pull.pull_entry(one, ct(1.0), one.edges, retain, state)


@pytest.mark.parametrize("retain", [True, False])
@pytest.mark.parametrize("fails", range(-1, 8))
def test_a_step_loses_nothing(monkeypatch: pytest.MonkeyPatch, fails: int, retain: bool) -> None:
    world = World()

    def recall(function: Any, first: Any, given: Row[Any], count: int, names: Any) -> Any:
        made = world.make(Items(type=tuple_type, items=[]))
        if made is not None:
            made.items.append(ct(given[2].value * 3))
        return made

    one = a_step(world, monkeypatch, recall=recall)
    args = one.args
    args.references += 1
    before = {k: t.references for k, t in reached(args, {}).items()}
    world.calls, world.fails, world.made = 0, fails, []
    found = go_back(one, retain)
    failed = 0 <= fails < world.calls
    assert (found is None) == failed
    assert (one.args is args) == (retain or failed)
    if found is not None:
        assert [c.value for c in found.items] == [3.0]
        found.references -= 1
    before[id(args)] -= int(one.args is not args)
    assert {k: t.references for k, t in reached(args, {}).items()} == before
    assert [thing for thing in world.leaks() if thing is not found] == []


@pytest.mark.parametrize("fails", range(-1, 3))
@pytest.mark.parametrize("size", [pull.SMALL, pull.SMALL - 1])
def test_the_cotangent_of_a_part_waits(
    monkeypatch: pytest.MonkeyPatch, size: int, fails: int
) -> None:
    world = World()
    one = a_step(world, monkeypatch, recall=lambda *_: None)
    pull.find_op(one.op).flags = pull.PART
    one.args.items.reverse()  # now the shape is what is kept of the first
    one.args.items[0].shape.items.append(Number(number=size, type=int_type))
    before = {k: t.references for k, t in reached(one, {}).items()}
    world.calls, world.fails, world.made = 0, fails, []
    found = go_back(one)
    failed = 0 <= fails < world.calls
    assert (found is None) == (failed or size < pull.SMALL)
    if found is not None:
        ((vertex, of),) = [pair.items for pair in found.items]
        assert vertex is one and of.value == 1.0
        found.references -= 1
    assert {k: t.references for k, t in reached(one, {}).items()} == before
    assert [thing for thing in world.leaks() if thing is not found] == []


def test_what_is_not_usual_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def recall(*_: Any) -> Any:
        raise AssertionError

    for first in (Items(type=row_type, items=[Counted(type=None)] * 3), None):
        kept = {} if first is None else {"first": first}
        one = a_step(World(), monkeypatch, recall=recall, **kept)
        if first is None:
            one.args.items[0].items[1].version = Number(number=301, type=int_type)
        args = one.args
        assert go_back(one) is None and one.args is args


def test_versions_are_compared_by_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpython, "PyLong_AsLongLongAndOverflow", read)

    def an_int(number: int) -> Any:
        return Number(number=number, type=int_type)

    assert held.is_same_number(an_int(5), an_int(5))
    assert not held.is_same_number(an_int(5), an_int(6))
    assert not held.is_same_number(an_int(1 << 70), an_int(-1))
    assert not held.is_same_number(an_int(5), Number(number=5, type=None))
