"""The types of native code: read from annotations, laid out in memory."""

from __future__ import annotations

import ctypes
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from staticflow.native.language import (
    Atomic,
    Bits,
    Fixed,
    Object,
    Owner,
    Record,
    Row,
    Within,
    role_of,
)

__all__ = [
    "BOOL", "FLOAT", "INT", "NULL", "VOID", "Anything", "AtomicOf", "Code", "Declared", "IntType",
    "Layout", "ObjectOf", "PlainType", "PointerType", "RecordOf", "RowOf", "Signature", "Type",
    "alignment_of", "declared", "fields_of", "join_types", "signature_of", "slots_of", "stride_of",
    "structure", "suits",
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
    def shared(self) -> bool:
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
        params = tuple((f"argument {i}", place) for i, (_, place) in enumerate(self.params, 1))
        return Code(Signature(params, self.result))


# -- annotations ---------------------------------------------------------------------------------

_PLAIN: Mapping[Any, Type] = {
    int: INT, bool: BOOL, float: FLOAT, None: VOID, types.NoneType: VOID,
    object: PointerType(Anything(), nullable=True),
}  # fmt: skip


@functools.cache
def declared(hint: Any) -> Declared:
    """What an annotation means; TypeError for what native code does not know."""
    if hint in _PLAIN:
        return Declared(_PLAIN[hint])
    if isinstance(hint, typing.TypeVar):
        return declared(hint.__bound__)
    origin = typing.get_origin(hint)
    if origin in _GENERIC:
        return _GENERIC[origin](hint)
    for base, target in ((Object, ObjectOf), (Record, RecordOf)):
        if isinstance(hint, type) and issubclass(hint, base):
            return Declared(PointerType(target(hint)))
    raise TypeError(f"native code knows no type {hint}")


def _marked(hint: Any) -> Declared:
    inner, *marks = typing.get_args(hint)
    result = declared(inner)
    for mark in marks:
        match mark:
            case Owner():
                result = replace(result, owned=True)
            case Within():
                result = replace(result, within=True, owned=False)
            case Bits(bits):
                result = replace(result, type=IntType(bits))
            case Fixed(length):
                result = replace(result, length=length)
    return result


def _perhaps(hint: Any) -> Declared:
    arms = [a for a in typing.get_args(hint) if a is not types.NoneType]
    if len(arms) != 1 or len(typing.get_args(hint)) != 2:
        raise TypeError(f"native code knows of unions only `T | None`, not {hint}")
    inner = declared(arms[0])
    if not isinstance(inner.type, PointerType):
        raise TypeError(f"{inner.type} cannot be null")
    return replace(inner, type=replace(inner.type, nullable=True))


def _row(hint: Any) -> Declared:
    (element,) = typing.get_args(hint)
    inner = declared(element)
    return Declared(PointerType(RowOf(inner)), owned=_has_owned(inner))


def _atomic(hint: Any) -> Declared:
    (number,) = typing.get_args(hint)
    kind = declared(number).type
    if not isinstance(kind, IntType) or kind.bits < 32:
        raise TypeError(f"native code knows no {hint}: only int and Int32 are atomic")
    return Declared(PointerType(AtomicOf(kind)))


def _code(hint: Any) -> Declared:
    params, result = typing.get_args(hint)
    takes = tuple(("", declared(param)) for param in params)
    return Declared(PointerType(Signature(takes, declared(result)).code))


_GENERIC: Mapping[Any, Callable[[Any], Declared]] = {
    typing.Annotated: _marked, typing.Union: _perhaps, types.UnionType: _perhaps, Row: _row,
    Atomic: _atomic,
    Callable: _code, typing.TypeGuard: lambda _: Declared(BOOL),
}  # fmt: skip


def _has_owned(element: Declared) -> bool:
    return element.owned


@functools.cache
def signature_of(fn: Callable[..., Any]) -> Signature:
    """The signature of a function; TypeError for what native code does not know."""
    hints = _hints(fn.__annotations__, fn.__globals__)
    role = role_of(fn)
    names = [*inspect.signature(fn).parameters]
    of_any_number = fn.__code__.co_flags & inspect.CO_VARARGS
    more = names[-1] if of_any_number and role is not None and role.kind == "external" else None
    if len(names) - (more is not None) > fn.__code__.co_argcount:
        raise TypeError(f"{fn.__name__}: arguments are given by position, and one value each")
    missing = [name for name in (*names, "return") if name not in hints]
    if missing:
        raise TypeError(f"{fn.__name__} has no annotation of {', '.join(missing)}")
    places = {name: _as_lent(declared(hints[name]), hints[name]) for name in names}
    rest = places.pop(more) if more else None
    params = tuple(places.items())
    result, guards = hints["return"], None
    if typing.get_origin(result) is typing.TypeGuard:
        kind = declared(typing.get_args(result)[0]).type
        assert isinstance(kind, PointerType)
        guards = kind
    follows = bool(_variables(result)) and _variables(result) == _variables(hints[names[0]])
    runs = role is None or role.runs
    return Signature(params, declared(result), runs, guards, follows, rest)


def _hints(annotations: Mapping[str, Any], module: dict[str, Any]) -> dict[str, Any]:
    """Annotations evaluated; a module keeps what each text came to, since the same few stand
    everywhere."""
    known = module.setdefault("__native_hints__", {})
    for text in annotations.values():
        if isinstance(text, str) and text not in known:
            known[text] = eval(text, module)
    return {n: known[a] if isinstance(a, str) else a for n, a in annotations.items()}


def _hints_of_class(cls: type) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base is not object:
            hints |= _hints(
                vars(base).get("__annotations__", {}), vars(sys.modules[base.__module__])
            )
    return hints


def _variables(hint: Any) -> tuple[Any, ...]:
    return (hint,) if isinstance(hint, typing.TypeVar) else getattr(hint, "__parameters__", ())


def _as_lent(param: Declared, hint: Any) -> Declared:
    """A parameter that is a row of owned references is taken only if it says so itself."""
    if param.owned and typing.get_origin(hint) is not typing.Annotated:
        return replace(param, owned=False)
    return param


# -- memory --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the slots of Python's objects lie, by class, in bytes, and how large instances are."""

    offsets: Mapping[type, Mapping[str, int]] = field(default_factory=dict)
    sizes: Mapping[type, int] = field(default_factory=dict)

    def offset(self, cls: type, slot: str) -> int | None:
        """Where a slot lies that a class has, or one that it is derived from."""
        for base in cls.__mro__:
            if slot in self.offsets.get(base, {}):
                return self.offsets[base][slot]
        return None


@functools.cache
def slots_of(cls: type) -> dict[str, Declared]:
    """The slots of a class of Python by their names."""
    return {name: declared(hint) for name, hint in _hints_of_class(cls).items()}


@functools.cache
def fields_of(cls: type) -> dict[str, tuple[int, Declared]]:
    """The fields of a record by their names, with where they lie."""
    hints = _hints_of_class(cls)
    memory = structure(cls)
    return {name: (getattr(memory, name).offset, declared(hint)) for name, hint in hints.items()}


@functools.cache
def structure(cls: type) -> Any:
    """A record as Python fills it in: a class derived from `ctypes.Structure`, in whose fields the
    addresses are of what they point to."""
    hints = _hints_of_class(cls)
    fields = [(name, _in_memory(declared(hint))) for name, hint in hints.items()]
    plain = type(f"{cls.__name__}Record", (ctypes.Structure,), {"_fields_": fields})
    alignment = RecordOf(cls).alignment
    rest = -ctypes.sizeof(plain) % alignment if alignment else 0
    if rest == 0:
        return plain
    fields.append(("", ctypes.c_int8 * rest))
    return type(plain.__name__, (ctypes.Structure,), {"_fields_": fields})


_C: Mapping[str, Any] = {
    "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i8": ctypes.c_int8, "i1": ctypes.c_bool,
    "double": ctypes.c_double, "ptr": ctypes.c_void_p,
}  # fmt: skip


def _in_memory(place: Declared) -> Any:
    if place.atomic is not None:
        return _C[place.atomic.number.llvm]
    if place.length is None:
        return _C[place.type.llvm]
    assert isinstance(place.type, PointerType)
    assert isinstance(place.type.target, RowOf)
    return _in_memory(place.type.target.element) * place.length


def stride_of(element: Declared) -> int:
    """The bytes from one element of a row to the next."""
    kind = element.type
    if isinstance(kind, PointerType) and isinstance(kind.target, RecordOf):
        return ctypes.sizeof(structure(kind.target.cls))
    return ctypes.sizeof(_in_memory(element))


def alignment_of(element: Declared) -> int:
    """What memory for elements begins at a multiple of."""
    kind = element.type
    if isinstance(kind, PointerType) and isinstance(kind.target, RecordOf):
        return max(8, kind.target.alignment)
    return 8


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
