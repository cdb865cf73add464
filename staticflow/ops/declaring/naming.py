"""The function that a user called, in errors of the ops that it is composed of."""

from __future__ import annotations

import inspect
import re
from typing import Any

from staticflow.errors import StaticflowError

__all__ = ["name_the_function"]

_OP = re.compile(r"([a-z]\w*)(\(|: )")
"""How a message begins that names an op or function: ``mul(f32[2], f32[3]): ...``, ``var: ...``."""


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
    found = _OP.match(innermost)
    if found is None or found[1] == "indexing":  # which is no function that anyone calls
        return
    if name.startswith("_") or found[1] in _arguments_of(fn):
        return
    called, failed = f"{name.rstrip('_')}: ", found[1].rstrip("_")
    if f"{name.rpartition('.')[2].rstrip('_')}_".startswith(f"{failed}_"):  # var_mean says var
        called = ""
    error._named = called
    error.args = (called + innermost, *error.args[1:])


def _arguments_of(fn: Any) -> tuple[str, ...]:
    """The names of the arguments of a function that is written in Python."""
    code = getattr(inspect.unwrap(fn), "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
