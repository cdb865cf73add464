"""The call of a program, by the native functions run as Python: each reference is dropped once, also
where any call fails, and nothing runs where the arguments are not as they should be."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from staticflow.codegen.statuses import INTERRUPTED
from staticflow.native import cpython
from staticflow.native.cpython import FALSE, NONE, array_type, tuple_type
from staticflow.native.language import Object, Row, drop
from staticflow.runtime import fastcall_call, fastcall_checks, fastcall_helpers
from staticflow.runtime.fastcall_call import Output, Program, call_boxed, call_program
from staticflow.runtime.fastcall_checks import Spec
from staticflow.runtime.fastcall_helpers import plain_array
from staticflow.runtime.interpreter_lock import BUSY
from tests.native.mocks import Counted, Items, World, set_item

FLOAT, OTHER = Object(), Object()


class Runs:
    """A program in a world: what it is given, and how it ends."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch, status: int = 0) -> None:
        self.world, self.status = world, status
        self.tables: list[list[Any]] = []
        self.freed: list[Any] = []
        outside = {
            "PyArray_Empty": self.array, "PyTuple_New": self.tuple, "PyTuple_SetItem": set_item,
            "PyObject_GC_Track": lambda row: None, "PyObject_GC_UnTrack": lambda row: None,
            "PyLong_FromLongLong": lambda n: world.make(Counted(number=n)), "go": self.go,
            "free": self.freed.append, "PyType_IsSubtype": lambda cls, base: 0,
            "copy": lambda target, source, size: None, "like": world.like,
            "PyObject_Vectorcall": lambda *of: world.make(Counted(of="the portable path")),
        }  # fmt: skip
        for module in (cpython, fastcall_call, fastcall_checks, fastcall_helpers):
            for name, fn in outside.items():
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, fn)
        monkeypatch.setattr(fastcall_call.check_nan, "value", FALSE, raising=False)

    def array(self, ndim: int, sizes: Row[int], descr: Any, order: int) -> Any:
        shape = [sizes[i] for i in range(ndim)]
        return self.world.make(Counted(type=array_type, data=("made", *shape)))

    def tuple(self, length: int) -> Any:
        return self.world.make(Items(type=tuple_type, items=[None] * length))

    def go(self, run: Any, table: Row[Any], numbers: Any, state: Any, *how: bool) -> int:
        self.tables.append(table.items)
        return self.status


def program(late: tuple[bool, ...], sizes_fit: bool = True) -> Any:
    """A program of an input and a variable, a constant, and outputs of 2 elements."""
    specs = [Spec(descr=FLOAT, ndim=1, flags=1, sizes=Row([-1]), item_size=4) for _ in range(2)]
    outputs = [
        Output(make=plain_array, descr=FLOAT, at=1, ndim=1, is_late=is_late) for is_late in late
    ]

    def measure(arrays: Row[Any], numbers: Row[int]) -> bool:
        numbers.items[:] = [0, 8, 2]
        return sizes_fit

    return Program(
        run=None, measure=measure, measure_late=lambda numbers: None, state=None, updated=0,
        specs=Row(specs), inputs=1, params=2, variables=Row([array("v")]), box_class=None, slot=16,
        constants=Row(["c"]), constant_count=1, outputs=Row(outputs), output_count=len(late),
        has_late=any(late), numbers=3, traffic=0, portable=None, example=None, box_size=24,
    )  # fmt: skip


def array(data: str, descr: Object = FLOAT) -> Any:
    return Counted(type=array_type, descr=descr, ndim=1, flags=3, dims=Row([2]), data=data)


EVERY = [late for n in range(4) for late in itertools.product((False, True), repeat=n)]


@pytest.mark.parametrize("late", EVERY, ids=str)
def test_outputs_are_made_and_given(late: tuple[bool, ...], monkeypatch: Any) -> None:
    world = World()
    runs, fn, x = Runs(world, monkeypatch), program(late), array("x")
    result = call_program(fn, Row([x]), 1)
    places = [None if is_late else ("made", 2) for is_late in late]
    assert runs.tables == [["x", "v", "c", *places]]
    assert len(runs.freed) == sum(late)
    made = [result] if len(late) == 1 else result.items
    assert [a.data for a in made] == [("made", 2)] * len(late)
    assert (x.references, fn.variables[0].references) == (1, 1)
    drop(result)
    assert not world.leaks()


@pytest.mark.parametrize("late", EVERY, ids=str)
def test_whichever_call_fails_nothing_is_left(late: tuple[bool, ...], monkeypatch: Any) -> None:
    fails = 0
    while True:
        world = World(fails)
        runs, fn, x = Runs(world, monkeypatch), program(late), array("x")
        result = call_program(fn, Row([x]), 1)
        assert (x.references, fn.variables[0].references) == (1, 1)
        if world.calls <= fails:
            break
        assert result is None and not world.leaks()
        assert len(runs.freed) in (0, sum(late)), (
            "all that the program gave away, or it did not run"
        )
        fails += 1
    assert fails == len(late) + (len(late) != 1)


@pytest.mark.parametrize("late", [(False,), (True,), (False, True), ()], ids=str)
@pytest.mark.parametrize("status", [5, BUSY, INTERRUPTED])
def test_a_status_is_told(late: tuple[bool, ...], status: int, monkeypatch: Any) -> None:
    world = World()
    Runs(world, monkeypatch, status)
    result: Any = call_program(program(late), Row([array("x")]), 1)
    if status == 5:
        assert result.number == 5
        drop(result)
    else:
        assert result is (NONE if status == BUSY else None)
    assert not world.leaks()


def test_what_is_not_as_it_should_be_is_declined(monkeypatch: Any) -> None:
    world = World()
    runs = Runs(world, monkeypatch)
    wrong = [array("x", OTHER), Counted(type=tuple_type)]
    for x in wrong:
        assert call_program(program((False,)), Row([x]), 1) is NONE
        assert x.references == 1
    assert call_program(program((False,)), Row(wrong), 2) is NONE
    fn, x = program((False,)), array("x")
    fn.variables[0].flags = 0
    assert call_program(fn, Row([x]), 1) is NONE
    assert call_program(program((False,), sizes_fit=False), Row([x]), 1) is NONE
    assert (x.references, world.calls, runs.tables) == (1, 0, [])


def test_the_array_comes_in_a_box(monkeypatch: Any) -> None:
    for fails in range(3):
        world = World(fails)
        Runs(world, monkeypatch)
        monkeypatch.setattr(fastcall_call, "trust", lambda thing, *of: Row([None, None, None]))
        result = call_boxed(program((False,)), Row([array("x")]), 1, None)
        assert (result is None) == (fails < 2)
        assert len(world.leaks()) == (0 if fails < 2 else 2)  # the box, and the array in it
