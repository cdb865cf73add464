"""Which attributes the code of a module's class asks for, as whether it is training."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dis import get_instructions
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from staticflow.ops.loops.reachable import functions_reached

__all__ = ["asks", "assigns"]


_known: weakref.WeakKeyDictionary[type, dict[str, bool]] = weakref.WeakKeyDictionary()


def asks(kind: type, base: type, name: str) -> bool:
    """Whether code of ``kind``, of a class between it and ``base``, or of a function of the user's
    that this names, names the attribute ``name``; what ``__init__`` itself does counts not.

    A module whose class does not computes the same whatever it is; what others that it calls do,
    these say themselves.
    """
    known = _known.setdefault(kind, {})
    if name not in known:
        classes = kind.__mro__[: kind.__mro__.index(base)]
        own = [f for c in classes for value in vars(c).values() for f in _functions(value)]
        known[name] = any(_names(f.__code__, name) for f in functions_reached(own))
    return known[name]


def assigns(kind: type, name: str) -> bool:
    """Whether the ``forward`` of ``kind`` assigns the attribute ``name``, as one that counts."""
    forward = getattr(kind, "forward", None)
    return any(name in _assigned_names(f.__code__) for f in _functions(forward))


@lru_cache(1024)
def _assigned_names(code: CodeType) -> frozenset[str]:
    return frozenset(i.argval for i in get_instructions(code) if i.opname == "STORE_ATTR")


def _functions(value: Any) -> Iterator[FunctionType]:
    """What may stand in a class: a function, and what wraps one."""
    for name in ("__func__", "__wrapped__", "fget", "func"):
        inner = getattr(value, name, None)
        if inner is not None:
            yield from _functions(inner)
    if isinstance(value, FunctionType):
        yield value


def _names(code: CodeType, name: str) -> bool:
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    own = code.co_name != "__init__" and (name in code.co_names or name in code.co_consts)
    return own or any(_names(c, name) for c in inner)
