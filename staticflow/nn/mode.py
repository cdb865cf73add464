"""Whether the class of a module asks if it is training."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from staticflow.ops.reached import functions_reached

__all__ = ["names_training"]


_known: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def names_training(kind: type, base: type) -> bool:
    """Whether code of ``kind``, of a class between it and ``base``, or of a function of the user's
    that this names, names ``training``.

    A module whose class does not computes the same in training and in evaluation; what others that
    it calls do, these say themselves.
    """
    known = _known.get(kind)
    if known is None:
        classes = kind.__mro__[: kind.__mro__.index(base)]
        own = [f for c in classes for value in vars(c).values() for f in _functions(value)]
        known = _known[kind] = any(_names(f.__code__) for f in functions_reached(own))
    return known


def _functions(value: Any) -> Iterator[FunctionType]:
    """What may stand in a class: a function, and what wraps one."""
    for name in ("__func__", "__wrapped__", "fget", "func"):
        inner = getattr(value, name, None)
        if inner is not None:
            yield from _functions(inner)
    if isinstance(value, FunctionType):
        yield value


def _names(code: CodeType) -> bool:
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return "training" in code.co_names or "training" in code.co_consts or any(map(_names, inner))
