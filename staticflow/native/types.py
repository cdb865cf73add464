"""The types of native code: what there is, and which may stand for which."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticflow.data_classes import dataclass

__all__ = [
    "BOOL", "FLOAT", "INT", "NULL", "VOID", "Anything", "AtomicOf", "Code", "Declared", "IntType",
    "ObjectOf", "PlainType", "PointerType", "RecordOf", "RowOf", "Signature", "Type", "join_types",
    "suits",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlainType:
    """A type with one name: bool, float, nothing, or null alone."""

    name: str
    llvm: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class IntType:
    """An int, of so many bits in memory and in calls, of 64 in between."""

    bits: int = 64

    @property
    def llvm(self) -> str:
        """Its type in memory and in calls."""
        return f"i{self.bits}"

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True, slots=True)
class ObjectOf:
    """An object of Python of a class."""

    cls: type

    def __str__(self) -> str:
        return self.cls.__name__


@dataclass(frozen=True, slots=True)
class RecordOf:
    """A record."""

    cls: type

    def __str__(self) -> str:
        return self.cls.__name__

    @property
    def is_shared(self) -> bool:
        """Whether other code writes in such records while Python runs."""
        shared: bool = self.cls.__dict__["shared"]
        return shared

    @property
    def alignment(self) -> int:
        """What its address and its size are multiples of; 0 if its fields say."""
        alignment: int = self.cls.__dict__["alignment"]
        return alignment


@dataclass(frozen=True, slots=True)
class RowOf:
    """Elements side by side."""

    element: Declared

    def __str__(self) -> str:
        return f"Row[{self.element}]"


@dataclass(frozen=True, slots=True)
class AtomicOf:
    """An int that several threads change at a time."""

    number: IntType

    def __str__(self) -> str:
        return f"Atomic[{self.number}]"


@dataclass(frozen=True, slots=True)
class Code:
    """A function."""

    signature: Signature

    def __str__(self) -> str:
        return "Callable"


@dataclass(frozen=True, slots=True)
class Anything:
    """Whatever a pointer may point to."""

    def __str__(self) -> str:
        return "object"


@dataclass(frozen=True, slots=True)
class PointerType:
    """A pointer, which may be null or not."""

    target: ObjectOf | RecordOf | RowOf | AtomicOf | Code | Anything
    nullable: bool = False

    @property
    def llvm(self) -> str:
        """Its type in memory and in calls."""
        return "ptr"

    def __str__(self) -> str:
        return f"{self.target} | None" if self.nullable else str(self.target)


Type = PlainType | IntType | PointerType

BOOL, FLOAT = PlainType("bool", "i1"), PlainType("float", "double")
VOID, NULL = PlainType("nothing", "void"), PlainType("None", "ptr")
INT = IntType()


@dataclass(frozen=True, slots=True)
class Declared:
    """What an annotation says: a type, whether a reference is owned, of a row that lies in a record
    itself its length, and of a result whether it lives as long as the first argument."""

    type: Type
    owned: bool = False
    length: int | None = None
    within: bool = False

    @property
    def atomic(self) -> AtomicOf | None:
        """The number that lies there itself, if several threads change it."""
        target = self.type.target if isinstance(self.type, PointerType) else None
        return target if isinstance(target, AtomicOf) else None

    def __str__(self) -> str:
        return f"Owned[{self.type}]" if self.owned else str(self.type)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and gives; whether it may run Python, where that is declared; the type
    of its first argument where it returns true, if it is a guard; whether its result is of the
    class of the first argument, as its annotation says by a type variable; and what further
    arguments of a function of C are, if it takes any number of them."""

    params: tuple[tuple[str, Declared], ...]
    result: Declared
    runs: bool = True
    guards: PointerType | None = None
    follows: bool = False
    rest: Declared | None = None

    @property
    def code(self) -> Code:
        """The function behind a pointer, which has no names of parameters."""
        params = tuple(
            (f"argument {i}", declared) for i, (_, declared) in enumerate(self.params, 1)
        )
        return Code(Signature(params, self.result))


# -- which is which ------------------------------------------------------------------------------


def suits(value: Type, wanted: Type) -> bool:
    """Whether a value of one type may stand where another is wanted."""
    if value == wanted or (isinstance(value, IntType) and isinstance(wanted, IntType)):
        return True
    if not isinstance(wanted, PointerType):
        return False
    if value is NULL:
        return wanted.nullable
    if not isinstance(value, PointerType) or (value.nullable and not wanted.nullable):
        return False
    return _target_suits(value.target, wanted.target)


def _target_suits(value: Any, wanted: Any) -> bool:
    if value == wanted or isinstance(wanted, Anything):
        return True
    if isinstance(value, ObjectOf) and isinstance(wanted, ObjectOf):
        return issubclass(value.cls, wanted.cls)
    if isinstance(value, RowOf) and isinstance(wanted, RowOf):  # who owns them does not matter
        return value.element.type == wanted.element.type
    return False


def join_types(a: Type, b: Type) -> Type | None:
    """The type of what is of one type or of another; None if there is none."""
    if suits(a, b):
        return b
    if suits(b, a):
        return a
    if a is NULL or b is NULL:
        pointer = b if a is NULL else a
        return replace(pointer, nullable=True) if isinstance(pointer, PointerType) else None
    if not (isinstance(a, PointerType) and isinstance(b, PointerType)):
        return None
    nullable = a.nullable or b.nullable
    if a.target == b.target:
        return PointerType(a.target, nullable)
    if isinstance(a.target, ObjectOf) and isinstance(b.target, ObjectOf):
        other = b.target.cls
        base = next(c for c in a.target.cls.__mro__ if issubclass(other, c))
        return PointerType(ObjectOf(base), nullable)
    return None
