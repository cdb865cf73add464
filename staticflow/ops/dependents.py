"""Who is to hear that something about a tensor has changed which a graph was written by.

A graph names tensors, and reads their elements at every call. What else was so when it was written
(that a parameter requires a gradient, which hooks it has, that a module holds this tensor under
this name) may change; what was made of the graph, a *dependent*, then looks before its next call.
"""

from __future__ import annotations

import weakref
from typing import Any

__all__ = ["depend", "note_change", "note_module", "note_replaced"]

_dependents: dict[int, weakref.WeakSet[Any]] = {}  # by the id of a tensor, while that lives
_written: weakref.WeakSet[Any] = weakref.WeakSet()


def depend(dependent: Any, tensor: Any) -> None:
    """Let ``dependent``, which holds ``tensor``, hear of its changes: `note_change` calls its
    ``look_again()``, and `note_replaced` its ``note_replaced(module, name, tensor)``."""
    place = id(tensor)
    if place not in _dependents:
        _dependents[place] = weakref.WeakSet()
        weakref.finalize(tensor, _dependents.pop, place, None).atexit = False
    _dependents[place].add(dependent)


def note_change(tensor: Any) -> None:
    """Note that ``tensor`` requires a gradient from now on or no more, or has other hooks."""
    for dependent in list(_dependents.get(id(tensor), ())):
        dependent.look_again()


def note_module(module: Any) -> None:
    """Note that ``module`` was called as a graph was written."""
    _written.add(module)


def note_replaced(module: Any, name: str, tensor: Any) -> None:
    """Note that ``module`` holds another tensor than ``tensor`` as ``name`` from now on."""
    if module in _written:
        for dependent in list(_dependents.get(id(tensor), ())):
            dependent.note_replaced(module, name, tensor)
