"""Dataclasses made sooner are what the standard library makes, class by class."""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from pathlib import Path
from typing import Any

import pytest

import staticflow
from staticflow.data_classes import dataclass

PACKAGE = Path(staticflow.__file__).parent
Maker = Callable[..., Any]


class Point:
    """With every kind of field."""

    x: int
    y: float = 0.5
    names: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False)
    hidden: int = field(default=3, repr=False)
    total: float = field(init=False, compare=False)
    made: dict[str, int] = field(init=False, default_factory=dict)
    seen: int = field(init=False, default=7)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.x + self.y)


class Empty:
    """Without fields."""


class Own:
    """With methods of its own."""

    x: int
    y: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.x == other.x

    def __repr__(self) -> str:
        return "own"


class Hashed:
    """With a hash of its own."""

    x: int

    def __hash__(self) -> int:
        return 5


OPTIONS = [
    {"frozen": True, "slots": True},
    {"slots": True},
    {},
    {"frozen": True},
    {"frozen": True, "slots": True, "eq": False},
    {"eq": False, "slots": True},
    {"frozen": True, "repr": False},
    {"frozen": True, "slots": True, "init": False},
]


def written_again(cls: type) -> type:
    """The class as it was written: making a dataclass changes it."""
    body = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")}
    fields = {k: copy.copy(v) for k, v in body.items() if isinstance(v, dataclasses.Field)}
    return type(cls.__name__, (), {**body, **fields, "__annotations__": cls.__annotations__})


def both(cls: type, **options: bool) -> tuple[Any, Any]:
    standard = dataclasses.dataclass(**options)
    return dataclass(**options)(written_again(cls)), standard(written_again(cls))


def outcome(run: Callable[[], Any]) -> Any:
    """What a call gives, or the error that it raises."""
    try:
        return run()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("cls", [Point, Empty, Own, Hashed])
def test_a_class_is_what_the_standard_library_makes(cls: type, options: dict[str, bool]) -> None:
    mine, theirs = both(cls, **options)
    assert mine.__doc__ == theirs.__doc__
    assert mine.__match_args__ == theirs.__match_args__
    assert getattr(mine, "__slots__", None) == getattr(theirs, "__slots__", None)
    assert str(inspect.signature(mine)) == str(inspect.signature(theirs))
    assert (mine.__hash__ is None) == (theirs.__hash__ is None)
    facts = [
        [(f.name, f.type, f.default, f.init, f.repr, f.compare) for f in dataclasses.fields(c)]
        for c in (mine, theirs)
    ]
    assert facts[0] == facts[1]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("cls", [Point, Own, Hashed])
def test_objects_behave_alike(cls: type, options: dict[str, bool]) -> None:
    classes = both(cls, **options)
    calls = [lambda c: c(), lambda c: c(1), lambda c: c(1, y=2), lambda c: c(1, 2, z=3)]
    for call in calls:
        mine, theirs = (outcome(lambda c=c, call=call: repr(call(c))) for c in classes)
        if "object at 0x" not in str(theirs):
            assert mine == theirs
    if not options.get("init", True):
        return
    for one, other in [(1, 1), (1, 2)]:
        assert len({c(one) == c(other) for c in classes}) == 1
    a, b = (c(1) for c in classes)
    assert a != b
    if "eq" not in options and cls is not Point:
        assert outcome(lambda: hash(a)) == outcome(lambda: hash(b)) or cls is Own
    changed = [outcome(lambda o=o: setattr(o, "x", 3)) for o in (a, b)]
    assert changed[0] == changed[1]
    gone = [outcome(lambda o=o: delattr(o, "x")) for o in (a, b)]
    assert gone[0] == gone[1]
    if options.get("frozen"):
        assert changed[0] == (FrozenInstanceError, "cannot assign to field 'x'")


def test_defaults_are_made_for_each_object() -> None:
    cls, _ = both(Point, frozen=True, slots=True)
    a, b = cls(1), cls(1)
    assert a.names == [] and a.names is not b.names
    assert a.made == {} and a.made is not b.made
    assert (a.total, a.seen) == (1.5, 7)
    assert dataclasses.replace(a, x=2).total == 2.5


@dataclass(frozen=True, slots=True)
class Kept:
    """What is pickled is found by its name."""

    x: int
    inner: Kept | None = None


def test_frozen_objects_are_copied_pickled_and_matched() -> None:
    kept = Kept(1, Kept(2))
    assert pickle.loads(pickle.dumps(kept)) == kept == copy.deepcopy(kept)
    assert hash(kept) == hash(copy.copy(kept)) and kept != Kept(1)
    assert dataclasses.asdict(kept) == {"x": 1, "inner": {"x": 2, "inner": None}}
    match kept:
        case Kept(x, inner):
            assert (x, inner) == (1, Kept(2))
    assert repr(kept) == "Kept(x=1, inner=Kept(x=2, inner=None))"


def test_methods_are_compiled_where_they_are_first_called() -> None:
    def compiled(cls: type) -> set[str]:
        return {n for n in ("__init__", "__eq__", "__hash__") if inspect.isfunction(vars(cls)[n])}

    cls, _ = both(Point, frozen=True)
    assert compiled(cls) == set()
    one = cls(1)
    assert compiled(cls) == {"__init__"}
    assert one != cls(2)
    assert compiled(cls) == {"__init__", "__eq__", "__hash__"}

    base, _ = both(Point, frozen=True)
    derived = type("Derived", (base,), {})
    assert derived(2).total == 2.5
    assert compiled(base) == {"__init__"} and "__init__" not in vars(derived)


def test_fields_are_inherited_in_order() -> None:
    @dataclass(frozen=True, slots=True)
    class Further(Kept):
        z: int = 5

    assert repr(Further(1, z=2)).endswith("Further(x=1, inner=None, z=2)")
    assert Further(1) != Kept(1)
    with pytest.raises(FrozenInstanceError):
        Further(1).z = 3  # type: ignore[misc]


def test_the_package_makes_all_its_dataclasses_so() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in PACKAGE.rglob("*.py")
        if path.name != "data_classes.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(alias.name == "dataclass" for alias in node.names)
    ]
    assert not found, "import dataclass from staticflow.data_classes:\n" + "\n".join(found)
