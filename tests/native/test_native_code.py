"""The translator of native functions: texts, errors at their lines, and the same as Python."""

from __future__ import annotations

import ctypes
import importlib
import itertools
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from staticflow.native.annotations import read_annotation, signature_of
from staticflow.native.language import Atomic, Object, Row, constant, export, role_of
from staticflow.native.layout import Layout, fields_of, structure
from staticflow.native.module import render_native
from staticflow.native.source import NativeError
from staticflow.runtime.native import compile_native
from tests.native import constructs, faults
from tests.native.constructs import Pair

HERE = Path(__file__).parent
LAYOUT = Layout(
    {
        Object: {"type": 8},
        constructs.Box: {"item": 16},
        faults.Tensor: {"memory": 16},
        faults.Several: {"items": 16},
    },
    {constructs.Box: 24},
)


def exported(module: Any) -> list[Callable[..., Any]]:
    own = [f for f in vars(module).values() if getattr(f, "__module__", "") == module.__name__]
    return [f for f in own if (role := role_of(f)) is not None and role.kind == "export"]


# -- texts ---------------------------------------------------------------------------------------


def test_every_construct_has_its_text() -> None:
    """The file is written anew where the environment variable ``STATICFLOW_WRITE`` is set."""
    text = render_native(exported(constructs), LAYOUT)
    file = HERE / "constructs.ll"
    if os.environ.get("STATICFLOW_WRITE"):
        file.write_text(text)
    assert text == file.read_text()


def test_what_stands_beside_is_not_declared_again() -> None:
    around = "declare ptr @PyObject_Str(ptr)\n@cell = external global i8\n"
    text = render_native([constructs.texts, constructs.remember], LAYOUT, around)
    assert "declare ptr @PyObject_Str" not in text
    assert "@cell = " not in text
    assert "declare void @Py_DecRef(ptr)" in text


def test_only_what_is_reached_is_there() -> None:
    text = render_native([constructs.indirect, constructs.apply], LAYOUT)
    assert re.findall(r"define.*@(\w+)\(", text) == ["apply", "indirect"]
    assert render_native([constructs.apply], LAYOUT) == ""
    beside = render_native([constructs.apply], LAYOUT, "call i64 @apply(ptr %f, i64 1)")
    assert "define internal i64 @apply" in beside


def test_a_name_is_defined_once() -> None:
    with pytest.raises(NativeError, match="two native functions are called euclid"):
        render_native([constructs.euclid], LAYOUT, "define i64 @euclid(i64 %a, i64 %b) {\n}\n")


# -- errors --------------------------------------------------------------------------------------

_MARKED = {
    number: line.split("#! ")[1]
    for number, line in enumerate((HERE / "faults.py").read_text().splitlines(), 1)
    if "#! " in line
}


def _fault_of(fn: Callable[..., Any]) -> tuple[int, str]:
    first = fn.__code__.co_firstlineno
    line, text = next((n, text) for n, text in sorted(_MARKED.items()) if n > first)
    return line, re.sub(r"line -(\d+)", lambda m: f"line {line - int(m[1])}", text)


@pytest.mark.parametrize("fn", exported(faults), ids=lambda fn: fn.__name__)
def test_an_error_names_its_line(fn: Callable[..., Any]) -> None:
    line, message = _fault_of(fn)
    with pytest.raises(NativeError) as caught:
        render_native([fn], LAYOUT)
    where, _, shown = str(caught.value).partition("\n")
    assert message in where
    assert where.startswith(f"{faults.__file__}:{line}: ")
    assert shown.strip() == (HERE / "faults.py").read_text().splitlines()[line - 1].strip()


def test_every_fault_is_asked_for() -> None:
    assert len(exported(faults)) == len(_MARKED)


def test_a_wrong_annotation_is_named() -> None:
    with pytest.raises(TypeError, match="native code knows no type <class 'str'>"):
        read_annotation(str)
    with pytest.raises(TypeError, match="int cannot be null"):
        read_annotation(int | None)

    def bare(a, b: int) -> int:  # type: ignore[no-untyped-def]
        return a + b

    with pytest.raises(TypeError, match="bare has no annotation of a"):
        signature_of(bare)


# -- both ways -----------------------------------------------------------------------------------

NUMBERS = (-9, -1, 0, 1, 2, 3, 7, 10, 12, 300)


@pytest.fixture(scope="module")
def code() -> Callable[..., Any]:
    """The native form of a function, by its signature of ints and addresses."""
    text = render_native(exported(constructs), LAYOUT)
    cell = ctypes.c_void_p()
    symbols = {
        "cell": ctypes.addressof(cell), "box_type": id(list), "_Py_NoneStruct": id(None),
        **{n: ctypes.cast(getattr(ctypes.pythonapi, n), ctypes.c_void_p).value or 0 for n in (
            "Py_IncRef", "Py_DecRef", "PyObject_Str", "PyTuple_GetItem")},
    }  # fmt: skip
    module = compile_native(text, [f.__name__ for f in exported(constructs)], symbols)

    def native(fn: Callable[..., Any], *types: Any, result: Any = ctypes.c_int64) -> Any:
        call = ctypes.PYFUNCTYPE(result, *types)(module.address(fn.__name__))
        call.module = module
        return call

    return native


@pytest.mark.parametrize(
    ("fn", "count"),
    [
        (constructs.arithmetic, 2), (constructs.unsigned, 2), (constructs.least, 2),
        (constructs.compared, 2), (constructs.truth, 2), (constructs.named, 1),
        (constructs.branches, 1), (constructs.loops, 2), (constructs.scratch, 1),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)  # fmt: skip
def test_numbers_are_pythons(code: Any, fn: Callable[..., Any], count: int) -> None:
    native = code(fn, *[ctypes.c_int64] * count)
    for args in itertools.product(NUMBERS, repeat=count):
        assert native(*args) == fn(*args), args


@pytest.mark.parametrize("fn", [constructs.divided, constructs.euclid], ids=lambda f: f.__name__)
def test_division_rounds_as_pythons(code: Any, fn: Callable[..., Any]) -> None:
    native = code(fn, ctypes.c_int64, ctypes.c_int64)
    for a, b in itertools.product(NUMBERS, [n for n in NUMBERS if n]):
        assert native(a, b) == fn(a, b), (a, b)


@pytest.mark.parametrize("fn", [constructs.short_circuit, constructs.between])
def test_short_circuit(code: Any, fn: Any) -> None:
    native = code(fn, *[ctypes.c_int64] * 3, result=ctypes.c_bool)
    for args in itertools.product(NUMBERS[:7], repeat=3):
        assert native(*args) == fn(*args), args


def test_constants_that_decide(code: Any) -> None:
    native = code(constructs.decided, *[ctypes.c_int64] * 3)
    for args in itertools.product((-1, 1, 3), repeat=3):
        assert native(*args) == constructs.decided(*args), args


def test_other_numbers(code: Any) -> None:
    narrow = code(constructs.narrow, ctypes.c_int64)
    assert [narrow(n) for n in NUMBERS] == [constructs.narrow(n) for n in NUMBERS]
    assert code(constructs.real, ctypes.c_double)(-2.5) == constructs.real(-2.5)
    native = code(constructs.endless, ctypes.c_int64)
    assert [native(n) for n in range(1, 30)] == [constructs.endless(n) for n in range(1, 30)]


def test_a_record_is_the_same_in_memory(code: Any) -> None:
    fns = constructs.fields, constructs.once
    for fn, n, flag in itertools.product(fns, (0, 5, -7), (False, True)):
        native = code(fn, ctypes.c_void_p, ctypes.c_int64)
        memory = structure(Pair)(3, 4, flag, 1, (ctypes.c_int64 * 3)(7, 8, 9))
        record = Pair(first=3, small=4, flag=flag, byte=1, items=Row([7, 8, 9]), next=None)
        assert native(ctypes.addressof(memory), n) == fn(record, n)
        for name in ("first", "small", "flag", "byte"):
            assert getattr(memory, name) == getattr(record, name), name
        assert [*memory.items] == record.items.items


def test_rows_are_the_same(code: Any) -> None:
    words = (ctypes.c_int64 * 5)(3, 1, 4, 1, 5)
    row = Row([3, 1, 4, 1, 5])
    for fn in (constructs.second, constructs.bounded):
        native = code(fn, ctypes.c_void_p, ctypes.c_int64)
        assert native(ctypes.addressof(words), 4) == fn(row, 4)
        assert [*words] == row.items
    size = ctypes.sizeof(structure(Pair))
    assert code(constructs.cleared, ctypes.c_int64)(3) == 3 + size


def test_memory_of_the_code_stays(code: Any) -> None:
    counted = code(constructs.counted, ctypes.c_int64)
    assert [counted(4), counted(5)] == [constructs.counted(4), constructs.counted(5)] == [37, 87]
    for fn, numbers in ((constructs.at_one, [9, 10, 14]), (constructs.at_three, [21, 22, 26])):
        native = code(fn, ctypes.c_int64)
        assert [native(n) for n in (5, 1, 4)] == [fn(n) for n in (5, 1, 4)] == numbers
    things = (ctypes.c_void_p * 4)(id(code), id(code), None, id(code))
    words = code(constructs.words_of, ctypes.c_void_p, ctypes.c_int64)
    assert words(things, 4) == constructs.words_of(Row([code, code, None, code]), 4) == 2


def test_records_in_a_chain(code: Any) -> None:
    last = structure(Pair)(first=1)
    first = structure(Pair)(first=20, next=ctypes.addressof(last))
    native = code(constructs.chained, ctypes.c_void_p)
    record = Pair(first=20, next=Pair(first=1, next=None))
    assert native(ctypes.addressof(first)) == constructs.chained(record) == 20


def test_a_function_is_called_through_a_pointer(code: Any) -> None:
    @ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    def times(a: int, b: int) -> int:
        return a * b

    at = ctypes.cast(times, ctypes.c_void_p).value
    native = code(constructs.indirect, ctypes.c_void_p, ctypes.c_int64)
    assert native(at, 5) == constructs.indirect(lambda a, b: a * b, 5) == 22


def test_steps_of_atomic_numbers(code: Any) -> None:
    memory = (structure(constructs.Ticket) * 2)()
    assert ctypes.sizeof(memory) == 128
    native = code(constructs.atomic, ctypes.c_void_p, ctypes.c_int64)
    as_python = constructs.Ticket(number=Atomic(), state=Atomic())
    for n in (5, 3, -4):
        given = native(ctypes.addressof(memory) + 64, n)
        assert given == constructs.atomic(as_python, n)
        assert memory[1].number == as_python.number.load() == n - 2
        assert memory[1].state == as_python.state.load() == 3 + n


def test_a_function_of_c_takes_any_number_of_arguments(code: Any) -> None:
    native = code(constructs.printed, *[ctypes.c_char_p] * 2, ctypes.c_int64)
    text = ctypes.create_string_buffer(32)
    assert native(text, b"%ld and %ld", 12) == len("12 and 144") + len("12 and 12")
    assert text.value == b"12 and 144"


def test_a_function_stands_for_its_address(code: Any) -> None:
    native = code(constructs.by_name, ctypes.c_int64)
    assert native(5) == constructs.by_name(5) == 10


def test_the_layout_is_that_of_c() -> None:
    assert {n: offset for n, (offset, _) in fields_of(Pair).items()} == {
        "first": 0, "small": 8, "flag": 12, "byte": 13, "items": 16, "next": 40,
    }  # fmt: skip


# -- references ----------------------------------------------------------------------------------


def test_references_are_counted(code: Any) -> None:
    native = code(constructs.texts, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p,
                  result=ctypes.c_bool)  # fmt: skip
    things = [object(), [1, 2], "three"]
    before = [sys.getrefcount(t) for t in things]
    row, out = (ctypes.c_void_p * 3)(*map(id, things)), (ctypes.c_int64 * 3)()
    assert not native(row, 3, out)
    assert [*out] == [id(str)] * 3
    assert [sys.getrefcount(t) for t in things] == before


def test_a_record_gives_back_what_it_owns(code: Any) -> None:
    native = code(constructs.briefly, ctypes.py_object, ctypes.py_object)
    thing, other = object(), object()
    before = sys.getrefcount(thing), sys.getrefcount(other)
    assert native(thing, other) == id(thing)
    assert (sys.getrefcount(thing), sys.getrefcount(other)) == before


def test_a_global_record_holds_one_object(code: Any) -> None:
    native = code(constructs.remember, ctypes.py_object)
    first, second = object(), object()
    before = sys.getrefcount(first), sys.getrefcount(second)
    native(first)
    assert sys.getrefcount(first) == before[0] + 1
    assert native(second) == 16
    assert (sys.getrefcount(first), sys.getrefcount(second)) == (before[0], before[1] + 1)


def test_loops_and_ways_count_references(code: Any) -> None:
    native = code(constructs.either, ctypes.py_object, ctypes.py_object, ctypes.c_int64,
                  result=ctypes.py_object)  # fmt: skip
    assert native(1.5, "other", 0) == "1.5"
    assert native(1.5, [7], 1) == "[7]"
    last = code(constructs.last_of, ctypes.py_object, ctypes.c_int64, result=ctypes.py_object)
    item = object()
    before = sys.getrefcount(item)
    assert last((1, item), 2) is item
    assert sys.getrefcount(item) == before


def test_elements_are_taken_and_adopted(code: Any) -> None:
    things = [object(), object(), object()]
    before = [sys.getrefcount(t) for t in things]
    row = (ctypes.c_void_p * 3)(*map(id, things))
    for at in row:
        ctypes.pythonapi.Py_IncRef(ctypes.c_void_p(at))  # which the row owns
    code(constructs.emptied, ctypes.c_void_p, ctypes.c_int64, result=None)(ctypes.addressof(row), 2)
    assert [sys.getrefcount(t) for t in things] == [before[0], before[1], before[2] + 1]
    adopted = code(constructs.adopted, ctypes.c_void_p, result=ctypes.py_object)
    assert adopted(row[2]) is things[2]
    assert sys.getrefcount(things[2]) == before[2]
    text = code(constructs.twice, ctypes.py_object, ctypes.c_bool, result=ctypes.py_object)
    assert text(1.5, True) == "1.5"


def test_what_is_carried_may_be_read_anew(code: Any) -> None:
    """A pointer that each turn of a loop reads where others may write."""
    things = [object(), object(), object()]
    cells = (ctypes.c_void_p * 2)(id(things[0]), id(things[1]))
    shifted = code(constructs.shifted, ctypes.c_void_p, ctypes.c_int64, ctypes.py_object,
                   result=ctypes.py_object)  # fmt: skip
    assert shifted(ctypes.addressof(cells), 2, things[2]) is things[1]
    assert [*cells] == [id(things[2]), id(things[0])]
    rows = [constructs.Cell(thing=t) for t in things[:2]]
    assert constructs.shifted(Row(rows), 2, things[2]) is things[1]
    assert [c.thing for c in rows] == [things[2], things[0]]


class Counted(Object):
    """An object whose references are counted, as Python runs native functions."""

    def __init__(self, **fields: Any) -> None:
        self.references = 1
        super().__init__(**fields)


def test_references_are_counted_as_python(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Counted] = []

    def text_of(thing: Any) -> Counted:
        made.append(Counted(type=constructs.box_type))
        return made[-1]

    monkeypatch.setattr(constructs, "PyObject_Str", text_of)
    result = constructs.either(Counted(), Counted(), 0)
    assert [m.references for m in made] == [0, 1]
    assert result is made[1]
    thing, other = Counted(), Counted()
    assert constructs.briefly(thing, other) == id(thing)
    assert (thing.references, other.references) == (1, 1)


def test_constants_have_a_symbol() -> None:
    known = constant(Row[Pair], "pairs")
    module = sys.modules[__name__]
    module.__dict__["known"] = known
    text = render_native([_first_of_known], LAYOUT)
    assert "@pairs = external global i8" in text
    assert "load i64, ptr @pairs" in text


@export
def _first_of_known() -> int:
    return known[0].first  # type: ignore[name-defined] # noqa: F821


# -- the page ------------------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[2] / "docs" / "native-code.md"


def test_the_page_on_native_code_is_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    *_, error, _ = PAGE.read_text().split("\n```\n")
    error = error.rpartition("```\n")[2]
    unsafe = program.replace("hold(item)", "item").replace("    drop(held)\n", "")
    monkeypatch.syspath_prepend(tmp_path)
    head = "from __future__ import annotations\n"
    (tmp_path / "page_as_shown.py").write_text(head + program)
    (tmp_path / "page_unsafe.py").write_text(head + unsafe.replace("(held)", "(item)"))
    shown: Any = importlib.import_module("page_as_shown")
    wrong: Any = importlib.import_module("page_unsafe")
    text = render_native([shown.largest, shown.name_of], Layout({shown.Box: {"item": 16}}))
    module = compile_native(text, ["largest"], {"PyObject_Str": 1, "Py_IncRef": 1, "Py_DecRef": 1})
    words = (ctypes.c_int64 * 3)(4, 9, 2)
    span = structure(shown.Span)(ctypes.addressof(words), 3)
    native = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(module.address("largest"))
    as_python = shown.largest(shown.Span(words=Row([4, 9, 2]), count=3))
    assert native(ctypes.addressof(span)) == as_python == 9
    with pytest.raises(NativeError, match=re.escape(error)):
        render_native([wrong.name_of], Layout({wrong.Box: {"item": 16}}))
