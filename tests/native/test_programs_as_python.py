"""What a call of a program leaves on the tape, and the way back through it, by the native functions
run as Python: each reference is dropped once, also where any call fails."""

from __future__ import annotations

from typing import Any

import pytest

from staticflow.eager.fast import entry, kept, objects, program_calls, pull_fused
from staticflow.eager.fast.records import Call, Operand, ProgramStep
from staticflow.native import cpython
from staticflow.native.cpython import FALSE, NONE, array_type, tuple_type
from staticflow.native.language import Object, Row
from tests.native.mocks import Counted, Items, World, set_item


class Table(Counted):
    """A dict of a few things, by identity or by the number of an int."""

    def find(self, key: Any) -> Any:
        return self.rows.get(getattr(key, "number", id(key)))

    def held(self) -> list[Any]:
        return [*self.rows.values()]


class Outside:
    """What both call, in a world."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        outside: dict[str, Any] = {
            "like": world.like, "new_row": world.row, "triple": world.triple,
            "PyIter_Next": world.get, "number_entry": lambda entry: self.put(entry, "serial"),
            "PyTuple_SetItem": set_item, "PyObject_GC_Track": lambda row: None,
            "PyObject_GC_UnTrack": lambda row: None,
            "PyTuple_New": self.tuple, "PyTuple_Size": lambda row: len(row.items),
            "PyTuple_GetItem": lambda row, i: row.items[i],
            "PyLong_FromLongLong": lambda n: world.make(Counted(number=n)),
            "PyDict_Size": lambda table: len(table.rows),
            "PyDict_GetItemWithError": lambda table, key: table.find(key),
            "size_of": lambda kind: 0, "offset_of": lambda kind, slot: 0,
            "save_value": lambda tensor, array: world.make(Items(items=[])),
            "is_array": lambda thing: getattr(thing, "type", None) is array_type,
            "is_tuple": lambda thing: isinstance(thing, Items),
            "is_row": lambda thing: isinstance(thing, Items),
            "is_dict": lambda thing: isinstance(thing, Table),
            "is_tensor": lambda thing: hasattr(thing, "data"),
            "is_floating": lambda tensor: True, "is_fused_program": lambda thing: True,
            "tensor_of": self.tensor, "open_saved": self.open_saved,
            "compute_in_order": self.compute, "clear_error": lambda: True, "name_fused": FUSED,
        }  # fmt: skip
        for module in (cpython, objects, entry, kept, program_calls, pull_fused):
            for name, fn in outside.items():
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, fn)

    def put(self, thing: Any, name: str) -> bool:
        value = self.world.get()
        if value is not None:
            setattr(thing, name, value)
        return value is not None

    def tuple(self, length: int) -> Any:
        return self.world.make(Items(type=tuple_type, items=[None] * length))

    def tensor(self, array: Any) -> Any:
        made = self.world.make(Counted(data=array, vertex=NONE))
        if made is not None:
            array.references += 1
        return made

    def open_saved(self, saved: Any) -> Any:
        array = saved.items[0]
        array.references += 1
        return array

    def compute(self, fast: Any, arrays: Row[Any], count: int) -> Any:
        found = self.tuple(2)
        for i in range(2 if found is not None else 0):
            found.items[i] = Counted(type=array_type, of=[arrays[j] for j in range(count)])
        return found


FUSED = Object()


def an_array() -> Any:
    return Counted(type=array_type)


@pytest.mark.parametrize("is_tuple", [False, True])
@pytest.mark.parametrize("fails", range(-1, 20))
def test_nothing_of_a_call_is_lost(
    monkeypatch: pytest.MonkeyPatch, fails: int, is_tuple: bool
) -> None:
    world = World(fails)
    Outside(world, monkeypatch)
    x, w = (Counted(data=an_array(), vertex=NONE) for _ in range(2))
    edge = Counted()
    operands = [
        Operand(object=x, array=x.data, edge=edge),
        Operand(object=w, array=w.data, edge=None),
    ]
    call = Call(count=2, operands=Row(operands))
    outputs = 2 if is_tuple else 1
    known = ProgramStep(outputs=outputs, is_tuple=is_tuple, example=Counted())
    data = Items(type=tuple_type, items=[an_array() for _ in range(outputs + 1)])
    out = program_calls.wrap_outputs(known, data)
    good = out is not None and program_calls.record_program(call, known, data, out)
    assert good == (not 0 <= fails < world.calls)
    if good:
        made = [t.vertex for t in out.items] if is_tuple else [out.vertex]
        left = made[0].entry if is_tuple else made[0]
        assert left.edges.items == [edge, NONE, NONE] and len(left.args.items) == 3
        assert [o.index.number for o in made] == [0, 1] if is_tuple else made == [left]
    if out is not None:
        out.references -= 1
    assert world.leaks() == []
    assert (edge.references, x.references, w.references, data.references) == (1, 1, 1, 1)
    assert [a.references for a in data.items] == [1] * (outputs + 1)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("fails", range(-1, 14))
def test_nothing_of_a_way_back_is_lost(
    monkeypatch: pytest.MonkeyPatch, fails: int, retain: bool, several: bool
) -> None:
    world = World(fails)
    Outside(world, monkeypatch)
    arrays = [an_array() for _ in range(3)]
    args = Items(items=[Items(items=[a]) for a in arrays])
    ways, fast = Table(rows={}), Counted()
    monkeypatch.setattr(ways.__class__, "find", lambda table, key: table.rows.get(
        "way" if table is ways else getattr(key, "number", id(key))))  # fmt: skip
    ways.rows["way"] = fast
    attrs = Table(rows={id(FUSED): Counted(ways=ways)})
    one = Counted(attrs=attrs, args=args, result=NONE)
    edges = Items(items=[Counted(), Counted(), NONE])
    ct: Any = Counted(data=an_array())
    given = Table(rows={1: ct}) if several else ct
    args.references += 1
    state = Object(recording=FALSE, last_backward=Counted())
    found = pull_fused.pull_fused(one, given, edges, retain, state)
    failed = 0 <= fails < world.calls
    assert (found is None) == failed
    assert (one.args is args) == (retain or failed)
    if found is not None:
        assert [len(t.data.of) for t in found.items] == [4, 4]  # what was kept, and the cotangent
        assert found.items[0].data.of == [*arrays, ct.data]
        found.references -= 1
    assert world.leaks() == []
    assert [a.references for a in (*arrays, ct.data, fast)] == [1] * 5
