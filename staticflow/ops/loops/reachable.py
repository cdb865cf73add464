"""What a function can reach by what it names: closures, defaults, globals, attributes."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import DType
from staticflow.graph.node import Node, param, toposort
from staticflow.ops.symbols.symbol import SYMBOLIC, Symbol

__all__ = ["can_reach", "functions_reached", "modules_asked", "names_symbol", "nodes_since"]

_MOST = 10_000
"""Objects that are looked at; what lies behind so many is found as the function runs."""

_LIBRARY = frozenset((*sys.stdlib_module_names, "numpy", "staticflow"))
"""Packages whose functions use no symbol but those that they are given."""

_LEAVES = frozenset((str, bytes, int, float, bool, complex, type(None), DType, CodeType))


def names_symbol(*fns: Any) -> Symbol | Dim | None:
    """A symbol or unknown size that one of ``fns`` can reach by what it names; None if there is
    none.

    It walks by itself, and not by `_reach`: each eager ``cond`` asks, and a generator would cost
    it a seventh of its time.
    """
    stack: list[tuple[Any, frozenset[str]]] = [(fn, _NO_NAMES) for fn in fns]
    seen: set[int] = set()
    while stack and len(seen) < _MOST:
        value, names = stack.pop()
        parts, names = _PARTS.get(type(value), _parts_of_any)(value, names)
        for part in parts:
            kind = type(part)
            if kind in _LEAVES:
                continue
            if kind in SYMBOLIC:
                found: Symbol | Dim = part
                return found
            if (kind in _PARTS or not hasattr(kind, "__sf_mode__")) and id(part) not in seen:
                seen.add(id(part))
                stack.append((part, names))
    return None


def modules_asked(fn: Any) -> list[Any]:
    """The modules that ``fn`` can reach by what it names, if a function of the user's among all
    that names ``training``."""
    found = list(_reach(fn))
    codes = [part.__code__ for part in found if type(part) is FunctionType]
    if not any("training" in _names_in(code) for code in codes):
        return []
    return [part for part in found if hasattr(type(part), "named_parameters")]


def can_reach(fn: Any, tensors: Iterable[Any]) -> list[Any]:
    """Those of ``tensors`` that ``fn`` can reach by what it names, and so were there before."""
    wanted = {id(t): t for t in tensors}
    found = {id(part) for part in _reach(fn) if id(part) in wanted} if wanted else ()
    return [wanted[position] for position in found]


def functions_reached(fns: Iterable[FunctionType]) -> list[FunctionType]:
    """``fns``, the functions of the user's that they name, and those that these name."""
    found: dict[FunctionType, None] = {}
    stack = list(fns)
    while stack:
        fn = stack.pop()
        if fn not in found:
            found[fn] = None
            parts, _ = _parts_of_function(fn, _NO_NAMES)
            stack += (p for p in parts if type(p) is FunctionType and not _is_library(p.__module__))
    return list(found)


def nodes_since(began: int, *things: Any) -> set[Node]:
    """The nodes of symbols that ``things``, functions and objects of the user's, can reach by what
    they name: those with the serial number ``began`` or a later one, so made since a trace began,
    that depend on an input. What follows from sizes alone is the same at every trace."""
    symbols = [part for part in _reach(things) if type(part) is Symbol]
    nodes = {s._node for s in symbols if s._node.serial >= began}
    return {n for n in nodes if any(a.op is param for a in toposort([n]))}


def _reach(fn: Any) -> Iterator[Any]:
    """Whatever ``fn`` can reach by what it names, and itself; nothing behind a tensor."""
    stack: list[tuple[Any, frozenset[str]]] = [((fn,), _NO_NAMES)]
    seen: set[int] = set()
    while stack and len(seen) < _MOST:
        value, names = stack.pop()
        parts, names = _PARTS.get(type(value), _parts_of_any)(value, names)
        for part in parts:
            kind = type(part)
            if kind in _LEAVES or id(part) in seen:
                continue
            seen.add(id(part))
            if not hasattr(kind, "__sf_mode__"):
                stack.append((part, names))
            yield part


_NO_NAMES: frozenset[str] = frozenset()

_Found = tuple[Iterable[Any], frozenset[str]]
"""What code that uses some names can reach of a value, and the names used there."""


def _parts_of_any(value: Any, names: frozenset[str]) -> _Found:
    if isinstance(value, dict):
        return list(dict.values(value)), names
    if isinstance(value, list | tuple | set | frozenset | deque):
        return list(value), names
    if isinstance(value, type):
        return _parts_of_space(value, value.__module__, names)
    return _parts_of_instance(value, names), names


def _parts_of_space(space: Any, package: str, names: frozenset[str]) -> _Found:
    held = vars(space)
    return () if _is_library(package) else [held[n] for n in names if n in held], names


def _parts_of_module(module: ModuleType, names: frozenset[str]) -> _Found:
    return _parts_of_space(module, module.__name__, names)


def _parts_of_method(method: MethodType, names: frozenset[str]) -> _Found:
    used = _names_in(getattr(method.__func__, "__code__", None))
    return (method.__func__, method.__self__), names | used


def _parts_of_partial(call: partial[Any], names: frozenset[str]) -> _Found:
    return (call.func, *call.args, *call.keywords.values()), names


def _parts_of_function(fn: FunctionType, _: frozenset[str]) -> _Found:
    names = _names_in(fn.__code__)
    found: list[Any] = []
    for cell in fn.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # it has no value yet
            continue
    if fn.__defaults__ or fn.__kwdefaults__:
        found += [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
    space = fn.__globals__
    if names and not _is_library(space.get("__name__", "")):
        found += [space[n] for n in names if n in space]
    return found, names


def _parts_of_container(container: Iterable[Any], names: frozenset[str]) -> _Found:
    return container, names


def _parts_of_instance(value: Any, names: frozenset[str]) -> list[Any]:
    """The parts of an object with attributes: these, and what the class has by the names that are
    used."""
    mine = getattr(value, "__dict__", None)
    if not isinstance(mine, dict):  # of slots only; a ``__getattr__`` may answer anything
        mine = {}
    if "__wrapped__" in mine:  # such as a jitted function, which keeps its traces
        return [mine["__wrapped__"]]
    classes = type(value).__mro__[:-1]
    is_module = hasattr(type(value), "named_parameters")
    own = list(mine.values()) if is_module or not _is_library(type(value).__module__) else []
    used = names | {"__call__", "forward"}
    for c in classes:
        if not _is_library(c.__module__):
            own += [vars(c)[n] for n in used if n in vars(c)]
            own += [getattr(value, n, None) for n in _slots_of(c)]
    return own


def _slots_of(c: type) -> tuple[str, ...]:
    slots = vars(c).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


_PARTS: dict[type, Callable[[Any, frozenset[str]], _Found]] = {
    FunctionType: _parts_of_function, MethodType: _parts_of_method, partial: _parts_of_partial,
    ModuleType: _parts_of_module, list: _parts_of_container, tuple: _parts_of_container,
    set: _parts_of_container, frozenset: _parts_of_container,
}  # fmt: skip


@lru_cache(4096)
def _names_in(code: CodeType | None) -> frozenset[str]:
    """The globals and attributes that code names, the functions inside of it too."""
    if code is None:
        return frozenset()
    inner = (c for c in code.co_consts if isinstance(c, CodeType))
    return frozenset(code.co_names).union(*map(_names_in, inner))


@lru_cache(4096)
def _is_library(module: str) -> bool:
    return module.partition(".")[0] in _LIBRARY
