"""Whether the class of a module asks if it is training."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import CodeType
from typing import Any

__all__ = ["names_training"]


_known: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def names_training(kind: type, base: type) -> bool:
    """Whether code of ``kind``, or of a class between it and ``base``, names ``training``.

    A module whose class does not computes the same in training and in evaluation; what others that
    it calls do, these say themselves.
    """
    known = _known.get(kind)
    if known is None:
        classes = kind.__mro__[: kind.__mro__.index(base)]
        codes = (code for c in classes for value in vars(c).values() for code in _codes(value))
        known = _known[kind] = any(map(_names, codes))
    return known


def _codes(value: Any) -> Iterator[CodeType]:
    """The code of what may stand in a class: a function, and what wraps one."""
    for name in ("__func__", "__wrapped__", "fget", "func"):
        inner = getattr(value, name, None)
        if inner is not None:
            yield from _codes(inner)
    code = getattr(value, "__code__", None)
    if isinstance(code, CodeType):
        yield code


def _names(code: CodeType) -> bool:
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return "training" in code.co_names or "training" in code.co_consts or any(map(_names, inner))
