"""The types of native code: read from annotations."""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import replace
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
from staticflow.native.types import (
    BOOL,
    FLOAT,
    INT,
    VOID,
    Anything,
    AtomicOf,
    Declared,
    IntType,
    ObjectOf,
    PointerType,
    RecordOf,
    RowOf,
    Signature,
    Type,
)

__all__ = ["class_hints", "read_annotation", "signature_of"]


_PLAIN: Mapping[Any, Type] = {
    int: INT, bool: BOOL, float: FLOAT, None: VOID, types.NoneType: VOID,
    object: PointerType(Anything(), nullable=True),
}  # fmt: skip


@functools.cache
def read_annotation(hint: Any) -> Declared:
    """What an annotation means; TypeError for what native code does not know."""
    if hint in _PLAIN:
        return Declared(_PLAIN[hint])
    if isinstance(hint, typing.TypeVar):
        return read_annotation(hint.__bound__)
    origin = typing.get_origin(hint)
    if origin in _GENERIC:
        return _GENERIC[origin](hint)
    for base, target in ((Object, ObjectOf), (Record, RecordOf)):
        if isinstance(hint, type) and issubclass(hint, base):
            return Declared(PointerType(target(hint)))
    raise TypeError(f"native code knows no type {hint}")


def _read_marked(hint: Any) -> Declared:
    inner, *marks = typing.get_args(hint)
    result = read_annotation(inner)
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
    inner = read_annotation(arms[0])
    if not isinstance(inner.type, PointerType):
        raise TypeError(f"{inner.type} cannot be null")
    return replace(inner, type=replace(inner.type, nullable=True))


def _row(hint: Any) -> Declared:
    (element,) = typing.get_args(hint)
    inner = read_annotation(element)
    return Declared(PointerType(RowOf(inner)), owned=inner.owned)


def _atomic(hint: Any) -> Declared:
    (number,) = typing.get_args(hint)
    kind = read_annotation(number).type
    if not isinstance(kind, IntType) or kind.bits < 32:
        raise TypeError(f"native code knows no {hint}: only int and Int32 are atomic")
    return Declared(PointerType(AtomicOf(kind)))


def _code(hint: Any) -> Declared:
    params, result = typing.get_args(hint)
    takes = tuple(("", read_annotation(param)) for param in params)
    return Declared(PointerType(Signature(takes, read_annotation(result)).code))


_GENERIC: Mapping[Any, Callable[[Any], Declared]] = {
    typing.Annotated: _read_marked, typing.Union: _perhaps, types.UnionType: _perhaps, Row: _row,
    Atomic: _atomic,
    Callable: _code, typing.TypeGuard: lambda _: Declared(BOOL),
}  # fmt: skip


@functools.cache
def signature_of(fn: Callable[..., Any]) -> Signature:
    """The signature of a function; TypeError for what native code does not know."""
    hints = _hints(fn.__annotations__, fn.__globals__)
    role = role_of(fn)
    code = fn.__code__
    of_any_number = bool(code.co_flags & inspect.CO_VARARGS)
    count = code.co_argcount + code.co_kwonlyargcount + of_any_number
    count += bool(code.co_flags & inspect.CO_VARKEYWORDS)
    names = code.co_varnames[:count]
    more = names[-1] if of_any_number and role is not None and role.kind == "external" else None
    if count - (more is not None) > code.co_argcount:
        raise TypeError(f"{fn.__name__}: arguments are given by position, and one value each")
    missing = [name for name in (*names, "return") if name not in hints]
    if missing:
        raise TypeError(f"{fn.__name__} has no annotation of {', '.join(missing)}")
    params = {name: _as_lent(read_annotation(hints[name]), hints[name]) for name in names}
    rest = params.pop(more) if more else None
    result, guards = hints["return"], None
    if typing.get_origin(result) is typing.TypeGuard:
        kind = read_annotation(typing.get_args(result)[0]).type
        assert isinstance(kind, PointerType)
        guards = kind
    follows = bool(_variables(result)) and _variables(result) == _variables(hints[names[0]])
    runs = role is None or role.runs
    return Signature(tuple(params.items()), read_annotation(result), runs, guards, follows, rest)


def _hints(annotations: Mapping[str, Any], module: dict[str, Any]) -> dict[str, Any]:
    """Annotations evaluated; a module keeps what each text came to, since the same few stand
    everywhere."""
    known = module.setdefault("__native_hints__", {})
    for text in annotations.values():
        if isinstance(text, str) and text not in known:
            known[text] = eval(text, module)
    return {n: known[a] if isinstance(a, str) else a for n, a in annotations.items()}


def class_hints(cls: type) -> dict[str, Any]:
    """The annotations of a class and of its bases, evaluated."""
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base is not object:
            module = vars(sys.modules[base.__module__])
            hints |= _hints(inspect.get_annotations(base), module)
    return hints


def _variables(hint: Any) -> tuple[Any, ...]:
    return (hint,) if isinstance(hint, typing.TypeVar) else getattr(hint, "__parameters__", ())


def _as_lent(param: Declared, hint: Any) -> Declared:
    """A parameter that is a row of owned references is taken only if it says so itself."""
    if param.owned and typing.get_origin(hint) is not typing.Annotated:
        return replace(param, owned=False)
    return param
