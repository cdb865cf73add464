"""Dataclasses of which a process has hundreds, each made in a fifth of the time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
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
        before Python 3.13 each alone, some half a millisecond in all. Here ``__init__`` and what
        compares are compiled where they are first called, and the rest is the same in all classes.

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
        write = _write_frozen_init if frozen else _write_init
        methods["__init__"] = _Late(cls, "__init__", write)
    if eq:
        methods |= {n: _Late(cls, n, _write_comparison) for n in ("__eq__", "__hash__")}
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


class _Late:
    """Stands for methods of a class until one of them is asked for: then all that ``write`` gives
    are compiled, and put in its place. For many classes that is never."""

    def __init__(self, cls: type, name: str, write: Callable[[type], dict[str, Any]]) -> None:
        self._cls, self._name, self._write = cls, name, write

    def __get__(self, thing: Any, cls: type) -> Any:
        methods = self._write(self._cls)
        for name, method in methods.items():
            if isinstance(vars(self._cls).get(name), _Late):
                setattr(self._cls, name, method)
        return methods[self._name].__get__(thing, cls)


def _write_comparison(cls: type) -> dict[str, Any]:
    """The methods that compare."""
    mine = "".join(f"self.{f.name}," for f in dataclasses.fields(cls) if f.compare)
    lines = [
        "def __eq__(self, other):",
        " if other.__class__ is not self.__class__: return NotImplemented",
        f" return ({mine}) == ({mine.replace('self.', 'other.')})",
        f"def __hash__(self): return hash(({mine}))",
    ]
    return _compile(cls, lines, {})


def _compile(cls: type, lines: list[str], names: dict[str, Any]) -> dict[str, Any]:
    """The functions of a text, which refers to ``names``, as methods of a class."""
    methods: dict[str, Any] = {}
    code = compile("\n".join(lines), __file__, "exec")  # a frame of ours, as `is_inside` asks
    exec(code, {**names, "__name__": cls.__module__}, methods)
    for name, method in methods.items():
        method.__qualname__ = f"{cls.__qualname__}.{name}"
    return methods


def _write_frozen_init(cls: type) -> dict[str, Any]:
    return _write_init(cls, frozen=True)


def _write_init(cls: type, frozen: bool = False) -> dict[str, Any]:
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
    made = _compile(cls, lines, names)
    made["__init__"].__annotations__ = {**kinds, "return": None}
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
