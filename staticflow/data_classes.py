"""Dataclasses of which a process has hundreds, each made in a third of the time."""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        init: bool = True,
        repr: bool = True,
        eq: bool = True,
        frozen: bool = False,
        slots: bool = False,
    ) -> Any:
        """`dataclasses.dataclass`, by the same rules. Before Python 3.13 that one compiles each
        method of a class alone, some half a millisecond in all. Here ``__init__``, ``__eq__`` and
        ``__hash__`` are compiled together, and the rest is the same functions in all classes.

        >>> @dataclass(frozen=True, slots=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> Point(1)
        Point(x=1, y=0)
        """

        def make(cls: type) -> type:
            return _make(cls, init=init, repr=repr, eq=eq, frozen=frozen, slots=slots)

        return make if cls is None else make(cls)


def _make(cls: type, *, init: bool, repr: bool, eq: bool, frozen: bool, slots: bool) -> type:
    written = dict(vars(cls))
    cls.__doc__ = cls.__doc__ or cls.__name__  # of one without, a signature would be taken
    cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=slots)
    fields = dataclasses.fields(cls)
    methods = _compile_methods(cls, fields, init, eq, frozen)
    if repr:
        methods["__repr__"] = _repr
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if slots:
            methods |= {"__getstate__": _state, "__setstate__": _set_state}
    if eq and not frozen:
        methods["__hash__"] = None
    for name, method in methods.items():
        if written.get(name) is None:  # so is __hash__ where __eq__ is written
            setattr(cls, name, method)
    return cls


def _compile_methods(
    cls: type, fields: tuple[Field[Any], ...], init: bool, eq: bool, frozen: bool
) -> dict[str, Any]:
    """The methods of a class that name its fields."""
    names: dict[str, Any] = {
        "__name__": cls.__module__,
        "_set": object.__setattr__,
        "_no": _FACTORY,
    }
    lines: list[str] = []
    if init:
        lines += _init_lines(cls, fields, frozen, names)
    if eq:
        mine = "".join(f"self.{f.name}," for f in fields if f.compare)
        lines += [
            "def __eq__(self, other):",
            " if other.__class__ is not self.__class__: return NotImplemented",
            f" return ({mine}) == ({mine.replace('self.', 'other.')})",
            f"def __hash__(self): return hash(({mine}))",
        ]
    methods: dict[str, Any] = {}
    exec("\n".join(lines), names, methods)
    for name, method in methods.items():
        method.__qualname__ = f"{cls.__qualname__}.{name}"
    if init:
        kinds = {f.name: f.type for f in fields if f.init}
        methods["__init__"].__annotations__ = {**kinds, "return": None}
    return methods


def _init_lines(
    cls: type, fields: tuple[Field[Any], ...], frozen: bool, names: dict[str, Any]
) -> list[str]:
    """The text of ``__init__``; what it refers to is put among the ``names``."""
    params, body = ["self"], []
    for f in fields:
        default = f"_{f.name}_default"
        value = f.name if f.init else default
        if f.default_factory is not MISSING:
            names[default] = f.default_factory
            value = f"{default}() if {f.name} is _no else {f.name}" if f.init else f"{default}()"
            default = "_no"
        elif f.default is not MISSING:
            names[default] = f.default
        elif f.init:
            default = ""
        else:  # __post_init__ gives it one
            continue
        if f.init:
            params.append(f"{f.name}={default}" if default else f.name)
        body.append(f" _set(self, '{f.name}', {value})" if frozen else f" self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    return [f"def __init__({', '.join(params)}):", *(body or [" pass"])]


class _Factory:
    """What help shows as the default of a field that is made anew for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


@recursive_repr()
def _repr(self: Any) -> str:
    shown = [f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for f, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
