"""What native functions are written with: kinds of values, decorators, words of the language.

All of it is ordinary Python, so that a native function also runs as it stands, on records and
objects made by their classes, ``Operand(size=3)``, with its external functions replaced.
"""

from __future__ import annotations

import struct
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Generic, Literal, TypeVar, get_type_hints, overload

from staticflow.data_classes import dataclass

__all__ = [
    "Atomic", "Bits", "Byte", "Fixed", "Inside", "Int32", "Object", "Order", "Owned", "Owner",
    "Record", "Role", "Row", "Symbol", "Type", "Within", "address", "bits_of", "constant", "copy",
    "drop", "drop_row", "elsewhere", "export", "external", "hold", "inline", "logical_shift",
    "native", "offset_of", "role_of", "size_of", "space", "symbol_of", "take", "trust",
    "unsigned_less", "variable", "variables", "variant", "wrapping_mul", "zero_record", "zero_row",
]  # fmt: skip

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


# -- kinds of values -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Owner:
    """The mark of what owns a reference."""


@dataclass(frozen=True, slots=True)
class Within:
    """The mark of a result that lives as long as the first argument."""


@dataclass(frozen=True, slots=True)
class Bits:
    """The mark of an int that takes fewer than 64 bits in memory and in calls."""

    bits: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """The mark of a `Row` of so many elements that lies in a record itself:
    ``uses: Annotated[Row[int], Fixed(33)]``."""

    length: int


Owned = Annotated[T, Owner()]
"""A reference that has to be dropped or handed on exactly once: of a parameter, the function takes
it; of a result, the function gives it; of a field, the record has it."""

Inside = Annotated[T, Within()]
"""A result that is read out of the record which is the first argument, and lives as long."""

Int32 = Annotated[int, Bits(32)]
"""An ``int`` of C."""

Byte = Annotated[int, Bits(8)]
"""A byte; ``Row[Byte]`` is memory that is counted in bytes."""


class _Fields:
    """Anything with fields; as Python, its instances have those that they are made with."""

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self, name, value)


class Object(_Fields):
    """An object of Python. Derived classes are annotated with the slots that native code reads;
    where these lie is said when the code is made (`staticflow.native.layout.Layout`)."""

    type: Type


class Type(Object):
    """A class of Python."""

    alloc: Callable[[Type, int], Owned[Object | None]]


class Record(_Fields):
    """A struct in memory, of annotated fields in order as C lays them out. What a field points to
    lives as long as the record, unless the record is ``shared``: then other code writes in it
    while Python runs. It begins and ends at multiples of an ``alignment`` that it is given. Python
    fills records in by `staticflow.native.layout.structure`."""

    shared = False
    alignment = 0

    def __init_subclass__(cls, shared: bool = False, alignment: int = 0) -> None:
        cls.shared, cls.alignment = shared, alignment


class Row(Generic[T]):
    """Values side by side in memory: ``row[i]`` is one, ``row[i:]`` the row from there on. The
    elements of a row of records are the records themselves. As Python, a window on ``items``."""

    def __init__(self, items: list[T] | _Zeros[T], first: int = 0) -> None:
        self.items, self.first = items, first

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Row[T]: ...

    def __getitem__(self, index: int | slice) -> T | Row[T]:
        if isinstance(index, slice):
            return Row(self.items, self.first + (index.start or 0))
        return self.items[self.first + index]

    def __setitem__(self, index: int, value: T) -> None:
        self.items[self.first + index] = value


Order = Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst"]


class Atomic(Generic[T]):
    """An int in memory that several threads change at a time, in one step each: the field of a
    record, or an element. The ``order`` of a step says what else other threads have written that is
    seen behind it, and what of one's own they see, as in C."""

    def __init__(self, value: int = 0) -> None:
        self.value = value

    def load(self, order: Order = "seq_cst") -> int:
        """The number."""
        return self.value

    def store(self, value: int, order: Order = "seq_cst") -> None:
        """Let it be another."""
        self.value = value

    def fetch_add(self, more: int, order: Order = "seq_cst") -> int:
        """Add to the number; gives what it was before."""
        self.value += more
        return self.value - more

    def compare_exchange(self, expected: int, value: int, order: Order = "seq_cst") -> bool:
        """Let it be another if it is as expected; whether it was."""
        if self.value != expected:
            return False
        self.value = value
        return True


# -- functions and constants ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Role:
    """What a function is to native code; whether an external one may run Python or let the
    interpreter's lock go."""

    kind: Literal["internal", "inline", "export", "external"]
    runs: bool = True
    symbol: str = ""  # by which an external one goes, where that is not its name


def native(fn: F) -> F:
    """Decorate a function that native code may call."""
    fn.__dict__["__native__"] = Role("internal")
    return fn


def inline(fn: F) -> F:
    """Decorate a native function that is copied to where it is called."""
    fn.__dict__["__native__"] = Role("inline")
    return fn


def export(fn: F) -> F:
    """Decorate a native function whose address Python asks for."""
    fn.__dict__["__native__"] = Role("export")
    return fn


def external(*, runs: bool = True, symbol: str = "") -> Callable[[F], F]:
    """Decorate a function of C, or of LLVM text beside, that native functions call by its name or
    by a ``symbol``. ``runs`` says whether it may run Python or let the interpreter's lock go."""

    def decorate(fn: F) -> F:
        fn.__dict__["__native__"] = Role("external", runs, symbol)
        return fn

    return decorate


def elsewhere(fn: F) -> F:
    """An exported function as code that is compiled apart from it calls it."""
    there: Any = variant(fn, fn.__name__)
    there.__dict__["__native__"] = Role("external", symbol=fn.__name__)
    called: F = there
    return called


def role_of(thing: object) -> Role | None:
    """What a function is to native code; None if it is not for it."""
    role = getattr(thing, "__dict__", {}).get("__native__")
    return role if isinstance(role, Role) else None


def variant(fn: Callable[..., Any], name: str, **numbers: int) -> Callable[..., Any]:
    """A function like ``fn`` by another name, for which numbers of its module are others."""
    copy = types.FunctionType(fn.__code__, {**fn.__globals__, **numbers}, name)
    copy.__annotations__ = fn.__annotations__
    copy.__dict__.update(fn.__dict__)
    return copy


@dataclass(frozen=True, slots=True)
class Symbol:
    """What an object of a module is to native code: the symbol of its address, its kind, and, of
    memory that the code has itself, how many of it there are and the fields that begin at other
    than 0. ``thing`` is the object of Python that a constant stands for, if that is known."""

    name: str
    kind: Any
    count: int = 0
    values: Mapping[str, int] | None = None
    thing: Any = None


def constant(kind: type[T], symbol: str, thing: Any = None) -> T:
    """An object, a record or a ``Row`` whose address the code is given by a symbol: that of an
    object of Python, if it is known already."""
    made: Any = object.__new__(getattr(kind, "__origin__", kind))
    made.__dict__["__symbol__"] = Symbol(symbol, kind, thing=thing)
    stands: T = made
    return stands


def variable(kind: type[T], symbol: str, **values: int) -> T:
    """A record that lives as long as the code, of zeros, nulls, and the ``values`` of fields."""
    thing = zero_record(kind)
    thing.__dict__.update(values, __symbol__=Symbol(symbol, kind, 1, values))
    return thing


def variables(kind: type[T], symbol: str, count: int) -> Row[T]:
    """Records that live as long as the code, of zeros and nulls. As Python, each is made when it is
    first asked for."""
    row = Row(_Zeros(kind, count))
    row.__dict__["__symbol__"] = Symbol(symbol, types.GenericAlias(Row, (kind,)), count)
    return row


class _Zeros(dict[int, T]):
    """Records by their positions, of zeros and nulls at first."""

    def __init__(self, kind: type[T], count: int) -> None:
        self.kind, self.count = kind, count

    def __missing__(self, index: int) -> T:
        if not 0 <= index < self.count:
            raise IndexError(index)
        return self.setdefault(index, zero_record(self.kind))


def symbol_of(thing: object) -> Symbol | None:
    """What a `constant` or a `variable` is; None of anything else."""
    found: Symbol | None = getattr(thing, "__dict__", {}).get("__symbol__")
    return found


# -- ownership -----------------------------------------------------------------------------------


def hold(value: T) -> T:
    """A reference of one's own to an object, which may be null."""
    if value is not None and hasattr(value, "references"):
        value.references += 1
    return value


def drop(value: object) -> None:
    """Give up one's reference to an object, which may be null, or a record of the call with all
    references that it owns; whatever they were the last of is freed, so that Python may run."""
    if isinstance(value, Record):
        for name in _owned_fields(type(value)):
            drop(getattr(value, name))
    elif value is not None and hasattr(value, "references"):
        value.references -= 1


def drop_row(row: Row[T], count: int) -> None:
    """Give up the first ``count`` records, or owned references, of a row of the call."""
    for i in range(count):
        drop(row[i])


def take(field: T) -> T:
    """The reference that a field of a record, or an element, owns, which is null from then on."""
    return field


@overload
def trust(value: object, kind: type[T], reason: str) -> T: ...


@overload
def trust(value: object, kind: object, reason: str) -> Any: ...


def trust(value: object, kind: Any, reason: str) -> Any:
    """The one escape from what is checked: the value is of a kind, is not null, and lives for the
    rest of the call, for a reason that has to be given; of a kind ``Owned[T]`` it is owned here."""
    assert reason
    return value


# -- memory --------------------------------------------------------------------------------------


def zero_record(kind: type[T]) -> T:
    """A record of this call, of zeros and nulls. If it has owned fields it is owned."""
    return kind(**{name: _zero(hint) for name, hint in _hints(kind).items()})


_known_hints: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, Any]:
    """The annotations of a record's fields, which are text, as what they mean."""
    hints = _known_hints.get(kind)
    if hints is None:
        hints = _known_hints[kind] = get_type_hints(kind, include_extras=True)
    return hints


def zero_row(kind: type[T], count: int, most: int = 0) -> Row[T]:
    """Records of this call, of zeros and nulls: a constant number, or ``count`` of at ``most``."""
    return Row([zero_record(kind) for _ in range(count)])


@overload
def space(kind: type[T], count: int, most: int = 0) -> Row[T]: ...


@overload
def space(kind: object, count: int, most: int = 0) -> Row[Any]: ...


def space(kind: Any, count: int, most: int = 0) -> Row[Any]:
    """A row of this call that holds anything at first: a constant number of elements, or ``count``
    of at ``most``."""
    items: list[Any] = [None] * count
    return Row(items)


def copy(target: Row[T], source: Row[T], count: int) -> None:
    """Copy the first ``count`` elements; the rows do not overlap, and no reference is counted."""
    for i in range(count):
        target[i] = source[i]


def address(thing: object) -> int:
    """Where an object, a record or a row lies."""
    return id(thing)


def size_of(kind: type) -> int:
    """The bytes of a record, or of an instance of a class of Python."""
    raise NotImplementedError


def offset_of(kind: type, slot: str) -> int:
    """Where a slot lies in the instances of a class of Python, in bytes."""
    raise NotImplementedError


# -- integers ------------------------------------------------------------------------------------

_WORD = 1 << 64


def unsigned_less(a: int, b: int) -> bool:
    """Whether ``a`` is less than ``b`` where a negative number stands for itself and 2**64."""
    return a % _WORD < b % _WORD


def logical_shift(a: int, by: int) -> int:
    """``a`` shifted to the right, with zeros from the left."""
    return _as_signed((a % _WORD) >> by)


def wrapping_mul(a: int, b: int) -> int:
    """The low 64 bits of a product."""
    return _as_signed(a * b)


def bits_of(number: float) -> int:
    """The bits of a double."""
    bits: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return bits


def _as_signed(number: int) -> int:
    return (number + _WORD // 2) % _WORD - _WORD // 2


def _owned_fields(kind: type) -> list[str]:
    """The names of the owned fields of a record."""
    hints = _hints(kind)
    return [name for name, hint in hints.items() if Owner() in getattr(hint, "__metadata__", ())]


_ZEROS: Mapping[Any, Any] = {int: 0, bool: False, float: 0.0, Int32: 0, Byte: 0}


def _zero(hint: Any) -> Any:
    """What a field of a kind holds at first, as Python."""
    if getattr(hint, "__origin__", None) is Atomic:
        return Atomic()
    for mark in getattr(hint, "__metadata__", ()):
        if isinstance(mark, Fixed):
            (element,) = hint.__origin__.__args__
            return Row([_zero(element) for _ in range(mark.length)])
    return _ZEROS.get(hint)
