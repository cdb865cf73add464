"""Which modules were called as the nodes of a graph were made, and how they were then.

A module that computes otherwise in training, or has a hook, is part of a graph as it was when it
was called. So each call inside a trace is noted, and where the outermost call ends, or a loop or
branch around it, everything that was made for the results is said to come of all these calls.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from staticflow import pytree
from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import bool_
from staticflow.graph.graph import new_param
from staticflow.graph.locs import Locs, here
from staticflow.graph.node import Node, param
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.symbol import Symbol

__all__ = ["ModuleCall", "calls_of", "hand_on", "note_calls"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class ModuleCall:
    """A call of ``module`` in a trace, at the lines ``locs``: whether it was ``training`` (None if
    it computes the same either way), and its ``hooks``."""

    module: weakref.ref[Any]
    training: bool | None
    hooks: tuple[Any, ...]
    locs: Locs

    @staticmethod
    def of(module: Any) -> ModuleCall:
        """A call that happens now."""
        training = bool(module.training) if module._asks_training() else None
        return ModuleCall(weakref.ref(module), training, module._hooks_now, here())


_calls: weakref.WeakKeyDictionary[Node, tuple[ModuleCall, ...]] = weakref.WeakKeyDictionary()


def note_calls(run: Callable[[], T], module: Any = None) -> T:
    """What ``run()`` gives, a tree, inside a trace; the nodes made for it come of the modules that
    it calls, and of ``module``, whose own call it is."""
    state = thread.state
    if state.types_only:
        return run()
    called = [] if module is None else [ModuleCall.of(module)]
    if state.calls is not None:
        state.calls += called
        return run()
    began = new_param(TensorType(bool_, ()), "").serial
    try:
        state.calls = called
        result = run()
    finally:
        state.calls = None
    if called:
        _note(result, began, called)
    return result


def _note(result: Any, began: int, called: Sequence[ModuleCall]) -> None:
    """Say that ``result``, and what was made for it since the serial number ``began``, come of the
    calls. A result that was there before (dropout gives its argument where it is off) counts."""
    roots = [x.node for x in pytree.flatten(result)[0] if isinstance(x, Symbol)]
    found, stack = set(roots), list(roots)
    while stack:
        node = stack.pop()
        if node.serial >= began:
            stack += (a for a in node.args if a not in found)
            found.add(node)
    _add(found, called)


def _add(nodes: Iterable[Node], called: Iterable[ModuleCall]) -> None:
    for node in nodes:
        if node.op is not param:  # an input or a tensor, which other programs have, too
            _calls[node] = tuple(dict.fromkeys((*_calls.get(node, ()), *called)))


def hand_on(results: Iterable[Node], nodes: Iterable[Node]) -> None:
    """Say that ``results`` come of whatever calls ``nodes`` come of: a derivative may not need what
    it is the derivative of."""
    called = calls_of(nodes)
    if called:
        _add(results, called)


def calls_of(nodes: Iterable[Node]) -> list[ModuleCall]:
    """The calls of modules that ``nodes`` come of, which are all that their graph has."""
    found = (_calls.get(node, ()) for node in nodes)
    return list(dict.fromkeys(call for calls in found for call in calls))
