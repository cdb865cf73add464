"""Dataclasses of which a process has hundreds, each made in a fifth of the time."""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError
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
        """`dataclasses.dataclass`, by the same rules. That one compiles each method of a class,
        before Python 3.13 each alone, some half a millisecond in all. Here ``__init__`` is compiled
        at once, what compares where it is first called, and the rest is the same in all classes.

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
    methods: dict[str, Any] = {}
    if init:
        methods["__init__"] = _compile_init(cls, frozen)
    if eq:
        methods |= _compare_later(cls)
    if repr:
        methods["__repr__"] = _repr
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        if slots:
            methods |= {"__getstate__": _state, "__setstate__": _set_state}
    elif eq:
        methods["__hash__"] = None
    for name, method in methods.items():
        if written.get(name) is None:  # so is __hash__ where __eq__ is written
            setattr(cls, name, method)
    return cls


def _compare_later(cls: type) -> dict[str, Any]:
    """The methods that compare, which are compiled where one of them is first called: for most
    classes, never."""

    def compile_both() -> None:
        mine = "".join(f"self.{f.name}," for f in dataclasses.fields(cls) if f.compare)
        lines = [
            "def __eq__(self, other):",
            " if other.__class__ is not self.__class__: return NotImplemented",
            f" return ({mine}) == ({mine.replace('self.', 'other.')})",
            f"def __hash__(self): return hash(({mine}))",
        ]
        for name, method in _compile(cls, lines, {}).items():
            if vars(cls)[name] is later[name]:
                setattr(cls, name, method)

    def __eq__(self: Any, other: object) -> Any:
        compile_both()
        return vars(cls)["__eq__"](self, other)

    def __hash__(self: Any) -> Any:
        compile_both()
        return vars(cls)["__hash__"](self)

    later = {"__eq__": __eq__, "__hash__": __hash__}
    return later


def _compile(cls: type, lines: list[str], names: dict[str, Any]) -> dict[str, Any]:
    """The functions of a text, which refers to ``names``, as methods of a class."""
    methods: dict[str, Any] = {}
    exec("\n".join(lines), {**names, "__name__": cls.__module__}, methods)
    for name, method in methods.items():
        method.__qualname__ = f"{cls.__qualname__}.{name}"
    return methods


def _compile_init(cls: type, frozen: bool) -> Any:
    names: dict[str, Any] = {"_set": object.__setattr__, "_no": _FACTORY}
    params, body, kinds = ["self"], [], {}
    for f in dataclasses.fields(cls):
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
            kinds[f.name] = f.type
        body.append(f" _set(self, '{f.name}', {value})" if frozen else f" self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    lines = [f"def __init__({', '.join(params)}):", *(body or [" pass"])]
    made = _compile(cls, lines, names)["__init__"]
    made.__annotations__ = {**kinds, "return": None}
    return made


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
