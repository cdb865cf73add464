"""An op from operands to tensors, by the native functions run as Python: what goes which way, and
each reference dropped once, also where any call fails."""

from __future__ import annotations

from typing import Any

import pytest

from staticflow.eager.fast import apply, calls, compute, objects, op_calls, operands
from staticflow.eager.fast.classes import general, op_call, tensor_type
from staticflow.eager.fast.records import FLAGS, MEMO, Cell, KnownOp, NumberMemo, Step
from staticflow.native import cpython
from staticflow.native.cpython import TRUE, array_type, float_type, tuple_type
from staticflow.native.language import Object, Row, drop, zero_record
from tests.native.mocks import Counted, Items, World, set_item

FLOAT, INT = Object(type=None), Object(type=None)
LARGE = compute.LARGE


class Calls(World):
    """A world in which functions of Python give what they say, and an error may be set."""

    error: Any = None
    said: list[Any]

    def make(self, thing: Counted) -> Any:
        made = super().make(thing)
        if made is None:
            self.error = "an error"
        return made

    def call(self, function: Any, args: Row[Any], count: int, names: Any = None) -> Any:
        """What a function gives of arguments."""
        self.said.append(function)
        given = [args[i] for i in range(count)]
        return function.answer(self, *given) if hasattr(function, "answer") else self.get()

    def clear_error(self) -> bool:
        self.error = None
        return True


class Remembered(Object):
    """A function of Python, whose answer is made by what it holds."""


def an_array(*sizes: int, descr: Object = FLOAT) -> Counted:
    return Counted(type=array_type, descr=descr, ndim=len(sizes), dims=Row([*sizes]))


def a_tensor(*sizes: int, descr: Object = FLOAT) -> Any:
    return Counted(type=tensor_type, data=an_array(*sizes, descr=descr))


def gives(*results: Any) -> Any:
    """A function that gives a new array, or several in a tuple."""

    def answer(world: Calls, *_: Any) -> Any:
        if not results:
            return world.make(an_array(3))
        both = world.make(Items(items=[*results], type=tuple_type))
        if both is not None:
            for result in results:
                result.references += 1
        return both

    return Remembered(answer=answer)


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a world in the place of what is outside."""

    def replace(world: Calls) -> None:
        world.said = []
        state = Counted(recording=TRUE, usual=TRUE, context=Counted())

        def current() -> Any:
            state.references += 1
            return state

        def record(call: Any, out: Any, data: Any) -> bool:
            entry = world.get()
            drop(entry)
            return entry is not None

        outside: dict[str, Any] = {
            "current_state": current, "descrs": Row([FLOAT, INT]), "COUNT": 2,
            "FLOATS": 1, "PyType_IsSubtype": lambda cls, base: 0,
            "like": world.like, "size_of": lambda kind: 0, "offset_of": lambda kind, slot: 0,
            "PyObject_Vectorcall": world.call, "PyObject_VectorcallDict": world.call,
            "PyContext_Enter": lambda context: 0, "PyContext_Exit": lambda context: 0,
            "PyErr_Occurred": lambda: world.error, "clear_error": world.clear_error,
            "PyTuple_New": lambda n: world.make(Items(items=[None] * n)),
            "PyTuple_SetItem": set_item, "PyTuple_Size": lambda row: len(row.items),
            "PyObject_GC_Track": lambda row: None, "PyObject_GC_UnTrack": lambda row: None,
            "record": record, "find_edges": lambda call: 0,
            "part_of": lambda view, array: world.make(an_array(3)),
            "memos": Row([zero_record(NumberMemo) for _ in range(MEMO)]), "address": lambda thing: 0,
        }  # fmt: skip
        for module in (cpython, apply, calls, compute, objects, op_calls, operands):
            for name, fn in outside.items():
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, fn)

    return replace


def an_op(small: Any, large: Any = None, flags: str = "", dtypes: int = 1) -> Any:
    return KnownOp(
        object=Counted(), compute=Row([small, large]), dtypes=dtypes, arity=2, kernel=None,
        flags=sum(FLAGS[name] for name in flags.split()),
    )  # fmt: skip


def applied(op: Any, *args: Any, step: Any = None) -> Any:
    return apply.apply(op, Row([*args]), len(args), None, step)


# -- which way -----------------------------------------------------------------------------------


def test_small_arrays_and_large_ones_are_computed_by_their_functions(replaced: Any) -> None:
    world = Calls()
    replaced(world)
    small, large = gives(), gives()
    op = an_op(small, large)
    for sizes, function in [((3,), small), ((LARGE,), large)]:
        out = applied(op, a_tensor(*sizes), a_tensor(1))
        assert world.said.pop() is function and out.data.references == 1
    applied(op, a_tensor(LARGE // 2, 1), a_tensor(2))  # a large one together
    assert world.said.pop() is large


def test_how_large_arrays_lie_is_for_the_general_path_where_it_decides(replaced: Any) -> None:
    world = Calls()
    replaced(world)
    small, large = gives(), gives()
    for flags, function in [("EVEN", general), ("", large)]:
        op = an_op(small, large, flags=flags)
        drop(applied(op, a_tensor(LARGE), a_tensor(LARGE)))
        assert world.said[-1] is function
        drop(applied(op, a_tensor(3), a_tensor(3)))
        assert world.said[-1] is small


def test_what_is_not_the_usual_case_is_for_the_general_path(replaced: Any) -> None:
    world = Calls()
    replaced(world)
    x, number = a_tensor(3), Counted(type=float_type)
    plain, mixed = an_op(gives()), an_op(gives(), flags="NUMBERS BY_NUMBER")
    calls: list[tuple[Any, ...]] = [
        (plain, x, number), (plain, x, a_tensor(3, descr=INT)), (plain, x, Counted(type=None)),
        (an_op(gives(), dtypes=2), x, x), (mixed, number, number), (mixed, x, Counted(type=None)),
        (an_op(gives(), flags="TAIL NUMBERS"), number, x),
    ]  # fmt: skip
    for op, *args in calls:
        world.said.clear()
        drop(applied(op, *args))
        assert world.said[-1] is general, args
    assert world.leaks() == [] and x.data.references == 1


@pytest.mark.parametrize("by_number", [True, False])
def test_a_number_is_remembered_as_an_array(replaced: Any, by_number: bool) -> None:
    world = Calls()
    replaced(world)
    seen: list[Any] = []

    def answer(world: Calls, *given: Any) -> Any:
        seen.append(given[1])
        return world.make(an_array(3))

    x, number = a_tensor(3), Counted(type=float_type)
    op = an_op(Remembered(answer=answer), flags="NUMBERS" + " BY_NUMBER" * by_number)
    first, second = Counted(type=float_type), Counted(type=float_type)
    drop(applied(op, x, first))  # whose place is taken, and then that of the neighbour
    for _ in range(3):
        drop(applied(op, x, second))
        drop(applied(op, x, number))
    assert world.said.count(operands.number_beside) == 3
    assert all((value is number) == by_number for value in seen[2::2])
    assert len(set(map(id, seen))) == 3
    memo, neighbour = operands.memos[0], operands.memos[1]
    assert memo.number is number and neighbour.number is second
    assert world.leaks() == [neighbour.array, memo.array]
    counted = (x, x.data, first, second, number, memo.array, neighbour.array)
    assert [c.references for c in counted] == [1, 1, 1, 2, 2, 1, 1]


def test_a_step_is_computed_as_is_known(replaced: Any) -> None:
    world = Calls()
    replaced(world)
    x, vector = a_tensor(3), Object()
    kernel, numpy, declines = gives(), gives(), Remembered(answer=lambda *_: Counted(type=None))
    known = dict.fromkeys(("compute", "taking", "view", "vector", "by_numpy"))
    for given, said in [
        ({"compute": kernel}, [kernel]), ({"view": Object()}, []), ({}, ["op"]),
        ({"compute": declines, "by_numpy": numpy}, [declines, numpy]),
        ({"compute": kernel, "view": Object(), "vector": vector}, [kernel]),
    ]:  # fmt: skip
        world.said.clear()
        small = gives()
        out = applied(an_op(small), x, x, step=Step(**(known | given)))
        assert world.said == [small if s == "op" else s for s in said]
        assert type(out.data) is Counted and x.data.references == 1


def test_the_kernel_of_large_arrays_is_held_while_it_runs(replaced: Any) -> None:
    world = Calls()
    replaced(world)
    kernel = Counted(type=None)
    cell = Cell(object=kernel)

    def answer(world: Calls, *_: Any) -> Any:
        drop(cell.object)  # another takes its place
        cell.object = None
        assert kernel.references == 1
        return world.make(an_array(3))

    kernel.__dict__["answer"] = answer
    op = an_op(None, None)
    op.kernel = cell
    assert applied(op, a_tensor(LARGE)) is not None
    assert kernel.references == 0 and world.said == [kernel]


# -- references ----------------------------------------------------------------------------------


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("fails", range(-1, 8))
def test_nothing_is_lost_where_a_call_fails(replaced: Any, fails: int, several: bool) -> None:
    world = Calls(fails)
    replaced(world)
    x, number = a_tensor(3), Counted(type=float_type)
    parts = [an_array(3), an_array(3)] if several else []
    op = an_op(gives(*parts), flags="NUMBERS RECORDABLE")
    out = applied(op, x, number)
    assert out is not None or world.error is not None
    assert world.calls > fails or fails >= 4
    drop(out)
    memo = operands.memos[0]
    remembered = [memo.array] if memo.array is not None else []
    assert world.leaks() == remembered
    assert [c.references for c in (x, x.data, op.object, *parts)] == [1] * (3 + len(parts))
    assert number.references == 1 + len(remembered)


def test_the_array_of_a_result_is_held_while_it_is_recorded(
    replaced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    replaced(Calls())

    def record(call: Any, out: Any, data: Any) -> bool:
        out.data = an_array(5)  # as somebody may who found the tensor
        assert data.references == 1
        return True

    monkeypatch.setattr(apply, "record", record)
    out = applied(an_op(gives(), flags="RECORDABLE"), a_tensor(3), a_tensor(3))
    assert out.data.dims[0] == 5


# -- calls that are handed on --------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 40])
@pytest.mark.parametrize("first", [None, Object()])
@pytest.mark.parametrize("second", [None, Object()])
def test_objects_stand_before_the_arguments(
    replaced: Any, monkeypatch: pytest.MonkeyPatch, count: int, first: Any, second: Any
) -> None:
    replaced(Calls())
    monkeypatch.setattr(cpython, "PyMem_Malloc", lambda size: Row([None] * (size // 8)))
    monkeypatch.setattr(cpython, "PyMem_Free", lambda memory: None)
    seen: list[Any] = []
    function = Remembered(answer=lambda world, *given: seen.extend(given))
    args = [Object() for _ in range(count)]
    calls.forward(function, first, second, Row(args), count, None)
    assert seen == [thing for thing in (first, second) if thing is not None] + args


def test_a_wrong_number_of_arguments_is_for_the_op_itself(
    replaced: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, others = Calls(), []
    replaced(world)
    monkeypatch.setattr(op_calls, "recall", lambda way, *given: others.append(way))
    op, x, y = an_op(gives()), a_tensor(3), a_tensor(3)
    op_calls.call_op(op, Row([x]), 1, None)
    op_calls.call_op_on(op, x, Row([y, y]), 2, None)
    assert world.said == [op_call, op_call]
    world.said.clear()
    seen: list[Any] = []
    op.compute[0] = Remembered(answer=lambda world, *given: seen.extend(given))
    op.otherwise = "by a plan"
    op_calls.call_op_on(op, x, Row([y]), 1, None)
    op_calls.call_reflected(op, x, Row([y]), 1, None)
    assert seen == [x.data, y.data, y.data, x.data]
    assert others == ["by a plan"] * 2  # since nothing came of it
