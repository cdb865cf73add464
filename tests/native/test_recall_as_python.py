"""What calls are remembered by, and how they are run, by the native functions run as Python."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest

from staticflow.eager.fast import calls, change, key, objects, recall
from staticflow.eager.fast.classes import tensor_type
from staticflow.eager.fast.records import MOST, Key, KnownOp, Plan, Remembered, Slot, Step
from staticflow.native import cpython
from staticflow.native.cpython import (
    ELLIPSIS,
    NONE,
    array_type,
    float_type,
    int_type,
    list_type,
    slice_type,
    tuple_type,
)
from staticflow.native.language import Object, Row, Type, drop, space, zero_record
from tests.native.mocks import Counted, Items, World, set_item

KINDS: dict[type, Type] = {
    int: int_type, float: float_type, tuple: tuple_type, list: list_type, slice: slice_type,
}  # fmt: skip


def as_object(value: Any) -> Any:
    """What stands for an object of Python."""
    if value is None or value is ...:
        return NONE if value is None else ELLIPSIS
    if isinstance(value, Object):
        return value
    thing = Counted(type=KINDS[type(value)], value=value)
    if type(value) is slice:
        thing.start, thing.stop, thing.step = map(as_object, (value.start, value.stop, value.step))
    return thing


def an_item(things: Any, place: int) -> Any:
    return as_object(things.value[place])


def read_int(number: Any, overflow: Row[int]) -> int:
    overflow[0] = int(not -(1 << 63) <= number.value < 1 << 63)
    return -1 if overflow[0] else number.value


def a_tensor(*sizes: int) -> Any:
    strides = Row([8 * (i + 1) for i in range(len(sizes))])
    array = Counted(type=array_type, ndim=len(sizes), dims=Row([*sizes]), strides=strides)
    return Counted(type=tensor_type, data=array)


@pytest.fixture
def replaced(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a world in the place of what is outside."""

    def replace(world: World) -> None:
        table = Row(defaultdict(lambda: zero_record(Slot)))  # type: ignore[arg-type]
        outside: dict[str, Any] = {
            "plan_slots": table, "dtype_of": lambda array: 3, "default_dtypes": Object(),
            "given_count": lambda count, names: count, "is_tensor": lambda thing: False,
            "address": lambda thing: CONSTANTS.index(thing) if thing in CONSTANTS else -1,
            "PyDict_GetItem": lambda table, cls: FLOAT, "PyFloat_AsDouble": lambda f: f.value,
            "PyLong_AsLongLongAndOverflow": read_int, "PyList_GetItem": an_item,
            "PyTuple_GetItem": lambda t, i: t.items[i] if isinstance(t, Items) else an_item(t, i),
            "PyTuple_Size": lambda t: len(t.items if isinstance(t, Items) else t.value),
            "PyList_Size": lambda things: len(things.value), "PyTuple_SetItem": set_item,
            "PyTuple_New": world.row, "pair": lambda x, y: world.triple(x, y),
            "PyBytes_FromStringAndSize": world.get, "PyObject_CallObject": world.get,
            "PyObject_VectorcallMethod": world.get, "forward": world.get, "current_state": world.get,
            "is_usual": lambda state: True, "is_recording": lambda state: False, "clear_error": lambda: True, "memcmp": compare,
            "apply": lambda op, *of: op.object(world),
        }  # fmt: skip
        for thing in CONSTANTS:
            monkeypatch.setitem(thing.__dict__, "type", None)
        for module in (cpython, objects, calls, change, key, recall):
            for name, fn in outside.items():
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, fn)

    return replace


FLOAT = Object(type=None)
CONSTANTS = [NONE, ELLIPSIS, float_type, FLOAT]


def compare(a: Row[int], b: Row[int], size: int) -> int:
    return int([a[i] for i in range(size // 8)] != [b[i] for i in range(size // 8)])


# -- keys ----------------------------------------------------------------------------------------


def described(*args: Any) -> list[int] | None:
    """The words that arguments are told by."""
    written: Any = zero_record(Key)
    written.words, written.tensors = space(int, key.WORDS + 1), space(Object, 32)
    function = Remembered(fuses=0)
    row = Row([as_object(a) for a in args])
    if not key.describe_call(written, function, None, row, len(args), None):
        return None
    return [written.words[i] for i in range(2, written.count)]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((5, -1), [3, 5, 3, -1]),
        (((1 << 63) - 1,), [3, (1 << 63) - 1]),
        ((None, ..., float_type), [0, 1, 2]),
        (([1, (2.0,), []],), [6, 3, 3, 1, 5, 1, 4, 1 << 62, 6, 0]),
        ((slice(None, 2, None),), [7, 0, 3, 2, 0]),
    ],
)
def test_an_argument_is_told_by_words(replaced: Any, args: Any, words: list[int]) -> None:
    replaced(World())
    assert described(*args) == words


def test_a_tensor_is_told_by_its_array_and_again_by_its_place(replaced: Any) -> None:
    replaced(World())
    x, y = a_tensor(4, 5), a_tensor(4, 5)
    told = [2 << 16 | 3 << 8 | 1, 4, 8, 5, 16]
    assert described(x, [y], x) == [*told, 6, 1, *told, 0 << 8 | 2]
    assert described(x, x, y, y) == [*told, 2, *told, 1 << 8 | 2]
    assert described([a_tensor() for _ in range(MOST)]) is not None
    assert described([a_tensor() for _ in range(MOST + 1)]) is None
    assert x.references == y.references == 1


def test_what_has_no_place_in_a_key(replaced: Any) -> None:
    replaced(World())
    endless: list[Any] = []
    endless.append(endless)
    bounds = slice(0)
    for _ in range(50):
        bounds = slice(bounds)
    bare = Counted(type=tensor_type, data=None)
    for thing in (1 << 63, -(1 << 63) - 1, endless, bounds, [0] * 50, bare, Object(type=None)):
        assert described(thing) is None
    assert described([0] * 46) is not None  # which is all that there is room for


def test_no_hash_is_that_of_an_empty_slot() -> None:
    for words in ([], [0], [1], [5, 7, -1]):
        hash = key.hash_of(Key(words=Row(words), count=len(words)))
        assert hash & 1 and -(1 << 63) <= hash < 1 << 63


# -- slots ---------------------------------------------------------------------------------------


def test_a_group_of_slots_has_the_newest_plans(replaced: Any) -> None:
    replaced(World())
    rng = random.Random(0)
    newest: dict[int, list[Any]] = {0: [], 8: []}
    owners = [Counted() for _ in range(60)]
    for word, owner in enumerate(owners):
        group = rng.choice((0, 8))
        plan = Plan(key=Row([word]), words=1, owner=owner)
        recall.install_plan(word << 32 | group << 1 | 1, plan, owner)
        newest[group] = [word, *newest[group]][: recall.SLOTS_EACH]
    there = {word for group in newest.values() for word in group}
    for word, owner in enumerate(owners):
        assert owner.references == 1 + (word in there)
        written = Key(words=Row([word]), count=1)
        places = [recall.find_plan(written, word << 32 | group << 1 | 1) for group in newest]
        found = [recall.plan_slots[place].owner for place in places if place >= 0]
        assert found == ([owner] if word in there else [])


def test_a_key_is_second_while_it_is_one_of_the_last(replaced: Any) -> None:
    replaced(World())
    last: list[int] = []
    rng = random.Random(1)
    for _ in range(200):
        hash = rng.randrange(7) << 32 | 1
        assert recall.is_second_miss(hash) == (hash in last)
        last = [hash, *(h for h in last if h != hash)][: recall.SLOTS_EACH]


# -- calls ---------------------------------------------------------------------------------------


def a_plan(words: Row[int], count: int) -> Plan:
    """A product of two tensors, what is largest in it as a pair, and both as a tuple of a class."""
    product = KnownOp(object=lambda world: world.make(Counted()))
    largest = KnownOp(object=pair_of_results)
    rest: Any = {"attrs": None, "program": None, "changes": 0}
    steps = [
        Step(op=product, count=2, operands=Row([0, 1]), results=0, **rest),
        Step(op=largest, count=2, operands=Row([3, 2]), results=2, **rest),
    ]
    return Plan(
        key=words, words=count, numbers=Row([Counted()]), number_count=1, steps=Row(steps),
        step_count=2, values=6, results=Row([4, 5]), result_count=2, made=Object(),
        runs=recall.OFTEN - 1,
    )  # fmt: skip


def pair_of_results(world: World) -> Any:
    """What an op of two results gives."""
    parts = [world.make(Counted()), world.make(Counted())]
    both = None if None in parts else world.row(2)
    if both is None:
        for part in parts:
            drop(part)
        return None
    both.items[:], both.type = parts, tuple_type
    return both


@pytest.mark.parametrize("fails", range(-1, 10))
def test_nothing_is_lost_where_a_call_fails(replaced: Any, fails: int) -> None:
    world = World()
    replaced(world)
    x, y = a_tensor(3), a_tensor(3)
    function = Remembered(itself=Object(), learner=Object(), fuses=0)

    def call() -> Any:
        return recall.recall(function, x, Row([y]), 1, None)

    for _ in range(3):
        drop(call())  # the function, and what learns of it, twice
    assert world.leaks() == [] and [x.references, x.data.references] == [1, 1]
    written: Any = zero_record(Key)
    written.words, written.tensors = space(int, key.WORDS + 1), space(Object, 32)
    assert key.describe_call(written, function, x, Row([y]), 1, None)
    plan, owner = a_plan(written.words, written.count), Counted()
    recall.install_plan(key.hash_of(written), plan, owner)
    world.calls, world.fails = 0, fails
    result = call()
    assert (plan.runs == recall.OFTEN) == (fails not in range(7))
    assert (result is None) == (fails == 0)
    assert world.calls > fails or fails >= 8  # so many calls there are
    drop(result)
    assert world.leaks() == []
    counted = (x, y, x.data, y.data, plan.numbers[0])
    assert [c.references for c in counted] == [1] * 5
    assert owner.references == 2
