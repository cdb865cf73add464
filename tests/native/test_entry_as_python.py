"""What the tape keeps of an operation, by the native functions run as Python: each reference is
dropped once, also where any call fails."""

from __future__ import annotations

from typing import Any

import pytest

from staticflow.eager.fast import calls, entry, line, objects, view
from staticflow.eager.fast.classes import leaf, memory_example, view_example
from staticflow.eager.fast.records import Call, KnownOp, Operand
from staticflow.native import cpython
from staticflow.native.cpython import NONE
from staticflow.native.language import Object, Row
from tests.native.mocks import Counted, Items, World, set_item

FLOAT = Object(type=None)


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a world in the place of what is outside."""

    def replace(world: World) -> None:
        outside = {
            "like": world.like, "new_row": world.row, "triple": world.triple,
            "PyObject_GetAttr": world.get, "PyIter_Next": world.get, "PyArray_NewCopy": world.get,
            "PyTuple_SetItem": set_item, "PyObject_GC_Track": lambda row: None,
            "PyLong_FromLongLong": world.get, "find_line": lambda at: world.get(),
            "same_shape": lambda a, b: a.shape == b.shape, "dtype_of": lambda array: 0,
            "PyObject_Vectorcall": world.get, "PyTuple_New": world.row,
            "size_of": lambda kind: 0, "offset_of": lambda kind, slot: 0,
            "dtypes": Row([Counted()]),
        }  # fmt: skip
        for module in (cpython, objects, calls, line, entry, view):
            for name, fn in outside.items():
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, fn)

    return replace


def tensor(shape: tuple[int, ...], vertex: Any) -> Any:
    array = Counted(shape=shape, descr=FLOAT)
    memory = Counted(version=Counted())
    return Counted(data=array, view=NONE, vertex=vertex, memory=memory)


def a_call(uses: list[int]) -> tuple[Any, Any]:
    """A product of a leaf and a constant of another shape, and what it gives."""
    x, w = tensor((3,), leaf), tensor((2, 3), NONE)
    operands = [Operand(object=t, array=t.data, edge=None, is_number=False, size=6) for t in (x, w)]
    op = KnownOp(
        object=Counted(),
        flags=0,
        entry=Row([Counted(), Counted()]),
        uses=Row(uses),
        results=uses[0],  # of several the first
        traced=1 << 2,
    )
    objects = Row([x, w])
    call = Call(op=op, objects=objects, count=2, operands=Row(operands), attrs=Counted())
    return call, tensor((2, 3), NONE)


def test_an_entry_keeps_what_its_vjp_uses(replaced: Any) -> None:
    world = World()
    replaced(world)
    call, out = a_call([0, 0, 1])
    x, w = (call.operands[i].object for i in (0, 1))
    assert entry.record(call, out, out.data) is True
    left = out.vertex
    assert left.edges.items == [x, NONE]
    shadow, kept = left.args.items
    assert shadow.shape.of == "an attribute" and kept.items[:2] == [w.data, w.memory]
    assert left.result is NONE and left.attrs is call.attrs
    assert call.operands[0].edge is x
    assert (x.references, w.data.references, w.memory.references) == (3, 2, 2)


def test_a_result_that_is_used_is_kept(replaced: Any) -> None:
    replaced(World())
    call, out = a_call([1, 0, 0])
    assert entry.record(call, out, out.data) is True
    array, memory, _ = out.vertex.result.items
    assert array is out.data and memory is out.memory
    assert out.vertex.args.items[1] is NONE  # which is like the result


def test_without_a_leaf_nothing_is_left(replaced: Any) -> None:
    world = World()
    replaced(world)
    call, out = a_call([1, 1, 1])
    call.operands[0].object.vertex = NONE
    assert entry.record(call, out, out.data) is True
    assert out.vertex is NONE and world.made == []


@pytest.mark.parametrize("fails", range(14))
def test_nothing_is_lost_where_a_call_fails(replaced: Any, fails: int) -> None:
    world = World(fails)
    replaced(world)
    call, out = a_call([1, 0, 1])
    call.op.traced = 1 << 1
    before = {id(o): o.references for o in reached(call, out)}
    failed = not entry.record(call, out, out.data)
    assert failed == (world.calls > fails)
    if failed:
        assert world.leaks() == []
        edges = [call.operands[i].edge for i in range(2)]
        for one in reached(call, out):
            assert one.references - edges.count(one) == before.get(id(one), 0), one.__dict__
    else:
        assert fails >= 11  # so many calls there are


def reached(call: Any, out: Any) -> list[Any]:
    """The objects that are there before a call."""
    things = [call.operands[0].object, call.operands[1].object, out]
    inside = [t.data for t in things] + [t.memory for t in things]
    return [*things, *inside, call.attrs, *call.op.entry.items, call.op.object]


def test_a_view_that_was_changed_asks_python(
    replaced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced(World())
    version = Counted()
    for example in (view_example, memory_example):
        monkeypatch.setitem(example.__dict__, "type", Object())
    tensor = Counted(
        view=Counted(type=view_example.type, seen=version), vertex=leaf, data=Counted(),
        memory=Counted(type=memory_example.type, version=version),
    )  # fmt: skip
    operand = Operand(object=tensor, is_number=False, edge=None)
    asked = []
    monkeypatch.setattr(entry, "ask_edge", lambda o: asked.append(o) is None)
    assert entry.find_edge(operand) is True
    assert (asked, operand.edge) == ([], tensor)
    tensor.memory.version = Counted()
    operand.edge = None
    assert entry.find_edge(operand) is True
    assert (asked, operand.edge) == ([operand], None)


@pytest.mark.parametrize("by_value", [False, True])
@pytest.mark.parametrize("fails", range(-1, 24))
def test_nothing_of_several_results_is_lost(
    replaced: Any, monkeypatch: pytest.MonkeyPatch, fails: int, by_value: bool
) -> None:
    world = World(fails)
    replaced(world)
    outside = {
        "PyList_New": world.row, "PyList_SetItem": set_item,
        "PyTuple_Size": lambda row: len(row.items), "is_array": lambda thing: True,
        "is_tensor": lambda thing: not hasattr(thing, "items"), "bit_of": lambda array: entry.FLOATS,
    }  # fmt: skip
    for module in (cpython, entry):
        for name, fn in outside.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, fn)
    call, _ = a_call([int(by_value), 0, 1])
    edge = Counted()
    call.operands[0].edge = edge
    several = [tensor((2,), NONE), tensor((2,), NONE)]
    row, data = Items(items=several), Items(items=[t.data for t in several])
    recorded = entry.record_several(call, row, data)
    assert recorded == (not 0 <= fails < world.calls)
    if recorded:
        first, second = (t.vertex for t in several)
        assert first.entry is second.entry and len(first.entry.result.items) == 2
        kept = first.entry.result.items[0]
        assert (kept.items[0] is several[0].data) if by_value else hasattr(kept, "shape")
        assert hasattr(first.entry.result.items[1], "shape")
        assert first.entry.edges.items == [edge, NONE]
    for one in several:
        left, one.vertex = one.vertex, NONE
    assert world.leaks() == [], left
    assert edge.references == 1 and [t.data.references for t in several] == [1, 1]
