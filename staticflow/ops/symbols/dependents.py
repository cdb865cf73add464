"""Who is to hear that something has changed by which a graph was written.

A graph names tensors, and reads their elements at every call. What else was so when it was written
(that a parameter requires a gradient, which hooks it has, that a module is training, that it holds
this tensor or module under this name) may change; what was made of the graph, a *dependent*, then
looks before its next call.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

__all__ = [
    "depend", "note_change", "note_module", "note_other", "note_replaced", "note_retyped",
    "was_written",
]  # fmt: skip

_dependents: dict[int, weakref.WeakSet[Any]] = {}  # by the id of a thing, while that lives
_written: weakref.WeakSet[Any] = weakref.WeakSet()


def depend(dependent: Any, thing: Any) -> None:
    """Let ``dependent``, made of a graph that has ``thing``, a tensor or a module, hear of its
    changes: `note_change` calls its ``look_again()``, and `note_replaced`, `note_other` and
    `note_retyped` what it has by their names."""
    address = id(thing)
    if address not in _dependents:
        _dependents[address] = weakref.WeakSet()
        weakref.finalize(thing, _dependents.pop, address, None).atexit = False
    _dependents[address].add(dependent)


def note_change(thing: Any) -> None:
    """Note that a tensor requires a gradient from now on or no more, that a module is training or
    no more, or that either has other hooks."""
    for dependent in list(_dependents.get(id(thing), ())):
        dependent.look_again()


def note_retyped(tensor: Any) -> None:
    """Note that ``tensor`` has elements of another dtype from now on."""
    for dependent in list(_dependents.get(id(tensor), ())):
        dependent.note_retyped()


def note_other(module: Any, name: str, before: Any) -> None:
    """Note that ``before``, a number or what else is neither a tensor nor a module, is not what
    ``module`` has as ``name`` any more."""
    for dependent in list(_dependents.get(id(module), ())):
        dependent.note_other(module, name, before)


def note_module(module: Any) -> None:
    """Note that ``module`` was called as a graph was written."""
    _written.add(module)


def was_written(module: Any) -> bool:
    """Whether ``module`` was called as a graph was written."""
    return module in _written


def note_replaced(
    module: Any, names: Iterable[str], before: Any, parts: Iterable[Any], called: bool = False
) -> None:
    """Note that ``module``, if it was ``called`` as a graph was written, holds something else than
    ``before`` as each of ``names`` from now on; to all who depend on one of its ``parts``."""
    if called or module in _written:
        found = (d for part in parts for d in _dependents.get(id(part), ()))
        for dependent in list(dict.fromkeys(found)):
            for name in names:
                dependent.note_replaced(module, name, before)
