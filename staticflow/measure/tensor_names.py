"""What a person calls the tensors of a program: as modules name them, or variables hold them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any

from staticflow.eager.tensor import Tensor
from staticflow.graph.locs import is_inside

__all__ = ["name_tensors"]

_MOST = 1000
"""Elements of a list or dict that are looked at."""


def name_tensors(tensors: Sequence[Tensor], modules: Iterable[Any]) -> dict[Tensor, str]:
    """The names of those ``tensors`` that have one.

    A tensor of one of the ``modules``, those that were called, has its name in the outermost one,
    as ``fc1.weight``; where several modules were called, the name of the variable that holds the
    module comes before it. Others have the name that an optimiser, for one, gave them
    (``Tensor.name``), or that of the variable that holds them, alone or in a list or dict or as
    an attribute of ``self``, in a function that is running now.
    """
    wanted = set(tensors)
    scopes = list(_scopes(sys._getframe(1)))
    outermost = _find_outermost(modules)
    names = {t: name for m in outermost for t, name in _of_module(m) if t in wanted}
    if len(outermost) > 1:
        held = ((t, name) for t, name in _by_held_modules(scopes, outermost) if t in wanted)
        names.update(held)
    for t, name in (*_by_themselves(tensors), *_by_variables(scopes)):
        if t in wanted:
            names.setdefault(t, name)
    return names


def _scopes(frame: FrameType | None) -> Iterator[Mapping[str, Any]]:
    """The variables of the user's functions that are running, the innermost first."""
    while frame is not None:
        if not is_inside(frame.f_code.co_filename):
            yield frame.f_locals
            if frame.f_globals is not frame.f_locals:
                yield frame.f_globals
        frame = frame.f_back


def _find_outermost(modules: Iterable[Any]) -> list[Any]:
    """Those of ``modules`` that are in no other one of them."""
    found = list(dict.fromkeys(modules))
    inner = {id(part) for m in found for part in m.modules() if part is not m}
    return [m for m in found if id(m) not in inner]


def _of_module(module: Any) -> Iterator[tuple[Tensor, str]]:
    for name, t in (*module.named_parameters(), *module.named_buffers()):
        yield t, name


def _by_held_modules(
    scopes: Sequence[Mapping[str, Any]], modules: Sequence[Any]
) -> Iterator[tuple[Tensor, str]]:
    """The names behind those of the variables that hold ``modules``, those that count last."""
    wanted = {id(m) for m in modules}
    for scope in reversed(scopes):
        for variable, value in [*scope.items()]:
            if id(value) in wanted:
                for t, name in _of_module(value):
                    yield t, f"{variable}.{name}"


def _by_themselves(tensors: Iterable[Tensor]) -> Iterator[tuple[Tensor, str]]:
    for t in tensors:
        if t.name:
            yield t, str(t.name)


def _by_variables(scopes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Tensor, str]]:
    for scope in scopes:
        for variable, value in [*scope.items()]:
            if variable.startswith("_"):  # what a console has shown last, for one
                continue
            parts: Iterable[tuple[str, Any]] = ()
            if isinstance(value, Tensor):
                yield value, variable
            elif type(value) in (list, tuple):
                parts = ((f"[{i}]", one) for i, one in enumerate(value[:_MOST]))
            elif type(value) is dict:
                parts = ((f"[{key!r}]", value[key]) for key in itertools.islice(value, _MOST))
            elif variable == "self" and hasattr(value, "__dict__"):
                parts = ((f".{name}", one) for name, one in vars(value).items())
            yield from ((one, variable + name) for name, one in parts if isinstance(one, Tensor))
