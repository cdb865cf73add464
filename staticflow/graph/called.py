"""The function that a user called, in what errors of its operations say."""

from __future__ import annotations

import functools
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

from staticflow.errors import StaticflowError
from staticflow.graph.locs import Locs

__all__ = ["function_at", "name_the_function", "named_call"]

_OPERATION = re.compile(r"([a-z]\w*)(\(|: )")
"""How a message begins that names an op or function: ``mul(f32[2], f32[3]): ...``, ``var: ...``."""

_ROOMS = (
    "staticflow", "staticflow.nn", "staticflow.nn.functional", "staticflow.linalg",
    "staticflow.special", "staticflow.distributions", "staticflow.array_api",
)  # fmt: skip
"""Modules whose names users call."""

_CLASS_SPEAKS = ("__init__", "forward")
"""Methods that are called by a call of the class, or of what it made."""


def _operation_in(message: str) -> str | None:
    """The op or function that a message names at its beginning; None if it names none."""
    found = _OPERATION.match(message)
    # nobody calls a function "indexing"
    return None if found is None or found[1] == "indexing" else found[1]


def _beginning(function: str, message: str) -> str:
    """What stands before a ``message`` that names an op, where ``function`` was called: nothing if
    it is that op, or a part of its name.

    >>> _beginning("kl_div", "mul(f32[2], f32[3]): the sizes differ")
    'kl_div: '
    >>> _beginning("var_mean", "var: dim 7")
    ''
    """
    failed = _operation_in(message)
    called = function.rstrip("_")
    if failed is None or f"{called.rpartition('.')[2]}_".startswith(f"{failed.rstrip('_')}_"):
        return ""
    return f"{called}: "


def name_the_function(error: StaticflowError, name: str, fn: Any = None) -> None:
    """Say in ``error`` that ``name``, the function ``fn``, was called, where it names what that is
    composed of and no argument of it: the outermost function that has it stands first, and what was
    said innermost stays.

    >>> from staticflow.errors import ShapeError
    >>> error = ShapeError("mul(f32[2], f32[3]): the sizes differ")
    >>> name_the_function(error, "mse")
    >>> name_the_function(error, "loss")
    >>> str(error)
    'loss: mul(f32[2], f32[3]): the sizes differ'
    """
    innermost = str(error).removeprefix(error._named)
    failed = _operation_in(innermost)
    if failed is None or name.startswith("_") or failed in _arguments_of(fn):
        return
    called = error._named = _beginning(name, innermost)
    error.args = (called + innermost, *error.args[1:])


def _arguments_of(fn: Any) -> tuple[str, ...]:
    """The names of the arguments of a function that is written in Python."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def named_call(message: str, locs: Locs) -> str:
    """A ``message`` of an operation behind the name of the function that the user called at
    ``locs``, as `_beginning` says; as it is, where that is not one function."""
    name = function_at(locs)
    return message if name is None else _beginning(name, message) + message


def function_at(locs: Locs) -> str | None:
    """The name of the public function that the user called at ``locs``; None of an op that was
    called itself, and of several functions."""
    names = {_function_of(loc.within) for loc in locs}
    (name,) = names if len(names) == 1 else (None,)
    return name


def _function_of(within: tuple[CodeType, ...]) -> str | None:
    """The name of the outermost public function among code that ran inside one another, the
    innermost first; None of an op that was called itself."""
    known = _names()
    for code in reversed(within):
        if code.co_qualname == "Op.__call__":
            return None
        name = known.get(code)
        if name is not None:
            return name
    return None


@functools.lru_cache(1)
def _names() -> Mapping[CodeType, str | None]:
    """The code of every public function, layer and method, and what users call it: of several names
    its own; None of what several classes have of one that is not public."""
    found: dict[CodeType, str | None] = {}
    public = [
        (name, thing)
        for room in filter(None, map(sys.modules.get, _ROOMS))
        for name, thing in vars(room).items()
        if callable(thing) and not name.startswith("_")
    ]
    for name, thing in public:
        code = None if isinstance(thing, type) else _code(thing)
        if code is not None and (code not in found or name == code.co_name):
            found[code] = name
    kinds = {thing: name for name, thing in public if isinstance(thing, type)}
    methods: dict[CodeType, set[str]] = {}
    for kind, name in kinds.items():
        for called, fn in _methods(kind, name, kinds):
            methods.setdefault(_code(fn), set()).add(called)
    return {c: n.pop() if len(n) == 1 else None for c, n in methods.items() if c} | found


def _code(fn: Any) -> Any:
    return getattr(inspect.unwrap(fn), "__code__", None)


def _methods(
    kind: type, name: str, public: Mapping[type, str]
) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The methods that a public class, called ``name``, does not have of another, and how they are
    called: those of tensors by their own names."""
    own = [b for b in kind.__mro__[:-1] if b is kind or b not in public]
    is_tensor = any(b.__name__ in ("Tensor", "Symbol") for b in kind.__mro__)
    for method, fn in itertools.chain(*(vars(base).items() for base in own)):
        if callable(fn) and method in _CLASS_SPEAKS:
            yield name, fn
        elif callable(fn) and not method.startswith("_"):
            yield method if is_tensor else f"{name}.{method}", fn
