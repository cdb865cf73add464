"""Modules that hold modules or parameters by number or by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, ClassVar, Self, overload

from staticflow.errors import DTypeError, IndexRangeError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.module import Module, bracket, indent
from staticflow.nn.parameter import Parameter
from staticflow.ops.symbols.dependents import note_replaced

__all__ = [
    "Identity", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential",
]  # fmt: skip


class Identity(Module):
    """Gives its input back; takes and ignores any arguments when it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """``input`` itself."""
        return input


class _Holder(Module):
    """Entries of one kind, or a few, as attributes."""

    kinds: ClassVar[tuple[type, ...]] = (Module,)
    _is_list = True

    def _entries(self) -> dict[str, Any]:
        return {n: v for n, v in vars(self).items() if isinstance(v, self.kinds)}

    def _accept(self, value: Any, where: str) -> Any:
        """``value`` as an entry."""
        if not isinstance(value, self.kinds):
            raise DTypeError(
                f"{type(self).__name__} takes modules, not {type(value).__name__} ({where}); "
                "wrap a function in a Module, or call it in a forward of your own"
                f", at {format_locs(here())}"
            )
        return value

    def _hold(self, named: Mapping[str, Any]) -> None:
        """Hold entries, and note together that who goes through them finds more."""
        new = [name for name in named if name not in vars(self)]
        try:
            for name, value in named.items():
                is_parameter = isinstance(value, Parameter)
                (self.register_parameter if is_parameter else self.add_module)(name, value)
        finally:
            if new:
                note_replaced(self, new, None, self._parts(), called=True)

    def _note_replaced(self, name: str, before: Any) -> None:
        note_replaced(self, [name], before, self._parts(before), called=True)

    def _parts(self, *more: Any) -> Iterator[Any]:
        """The list, its entries and all in them: nobody calls a list that others go through."""
        yield self
        for v in (*more, *self._entries().values()):
            if v is not None:
                yield from v.modules() if isinstance(v, Module) else (v,)

    def __len__(self) -> int:
        return len(self._entries())


class _Numbered(_Holder):
    """Entries named "0", "1" and so on: a list of them."""

    def __init__(self, entries: Iterable[Any] = ()) -> None:
        super().__init__()
        self.extend(entries)

    def _renumber(self, entries: Iterable[Any]) -> None:
        kept = list(entries)
        for name in self._entries():
            delattr(self, name)
        self._hold({str(position): value for position, value in enumerate(kept)})

    def _list(self) -> list[Any]:
        return list(self._entries().values())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._list())

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        found = self._at(self._list(), index)
        return type(self)(found) if isinstance(index, slice) else found

    def __setitem__(self, index: int, value: Any) -> None:
        name = self._at(list(self._entries()), index)
        if isinstance(index, slice):
            raise DTypeError(
                f"{type(self).__name__}: one entry is assigned at a time, by an integer, not "
                f"{index}; assign each, or make another of a list, at {format_locs(here())}"
            )
        before = vars(self)[name]
        setattr(self, name, self._accept(value, f"index {index}"))
        if before is None:  # in the place of which an attribute is a new one
            self._note_replaced(name, None)

    def __delitem__(self, index: int | slice) -> None:
        entries = self._list()
        self._at(entries, index)
        del entries[index]
        self._renumber(entries)

    def _at(self, entries: list[Any], index: Any) -> Any:
        """What a list of as many has at ``index``."""
        try:
            return entries[index]
        except TypeError:
            raise DTypeError(
                f"{type(self).__name__}: an entry is chosen by an integer or a slice, not by "
                f"{type(index).__name__}, at {format_locs(here())}"
            ) from None
        except IndexError:
            n = len(entries)
            wanted = f"{n} entries; it must be from {-n} to {n - 1}" if n else "no entries"
            raise IndexRangeError(
                f"{type(self).__name__}: the index {index} lies outside of {wanted}, "
                f"at {format_locs(here())}"
            ) from None

    def append(self, module: Any) -> Self:
        """Add one entry at the end; returns the container."""
        self._hold({str(len(self)): self._accept(module, f"index {len(self)}")})
        return self

    def extend(self, modules: Iterable[Any]) -> Self:
        """Add entries at the end; returns the container."""
        entries = list(modules)
        first = len(self)
        accepted = [self._accept(v, f"index {first + i}") for i, v in enumerate(entries)]
        self._hold({str(first + i): value for i, value in enumerate(accepted)})
        return self

    def insert(self, index: int, module: Any) -> Self:
        """Add one entry before position ``index``; returns the container."""
        entries = self._list()
        accepted = self._accept(module, f"index {index}")
        try:
            entries.insert(index, accepted)
        except (TypeError, OverflowError):
            raise DTypeError(
                f"{type(self).__name__}.insert: the index is an integer that a list can have, not "
                f"{index!r}, at {format_locs(here())}"
            ) from None
        self._renumber(entries)
        return self

    def pop(self, key: int = -1) -> Any:
        """Take the entry at the position ``key`` out, and return it."""
        entries = self._list()
        found = self._at(entries, key)
        del entries[key]
        self._renumber(entries)
        return found

    def __iadd__(self, other: Iterable[Any]) -> Self:
        return self.extend(other)

    def __add__(self, other: Iterable[Any]) -> Self:
        return self[:].extend(other)


class Sequential(_Numbered):
    """Modules called one after the other, each on what the one before it returned. They are named
    ``"0"``, ``"1"`` and so on, or as the keys of a dict say.

    >>> from staticflow import nn
    >>> nn.Sequential(nn.Linear(4, 2, bias=False), nn.ReLU())
    Sequential(
      (0): Linear(in_features=4, out_features=2, bias=False)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0] if len(args) == 1 and isinstance(args[0], Mapping) else None
        pairs = enumerate(args) if named is None else named.items()
        self._hold({str(name): self._accept(m, f"argument {name}") for name, m in pairs})

    def forward(self, input: Any) -> Any:
        """``input`` through every module in order."""
        for module in self:
            input = module(input)
        return input

    def extend(self, sequential: Iterable[Any]) -> Self:
        """Add modules at the end; returns the container."""
        return super().extend(sequential)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):  # the names stay
            return type(self)(dict(list(self._entries().items())[index]))
        return self._at(self._list(), index)


class ModuleList(_Numbered):
    """A list of modules, which the module that holds it counts among its own; None may stand where
    there is none. It has no forward.

    >>> from staticflow import nn
    >>> nn.ModuleList([nn.ReLU(), nn.ReLU()])
    ModuleList(
      (0-1): 2 x ReLU()
    )
    """

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__(() if modules is None else modules)

    def _entries(self) -> dict[str, Any]:
        own = {n: v for n, v in vars(self).items() if n.isdigit()}
        return {n: v for n, v in own.items() if v is None or isinstance(v, Module)}

    def _accept(self, value: Any, where: str) -> Any:
        return None if value is None else super()._accept(value, where)

    def __repr__(self) -> str:
        lines, position = [], 0
        for text, run in groupby(map(repr, self)):
            count = len(list(run))
            last = position + count - 1
            which = f"({position})" if count == 1 else f"({position}-{last})"
            times = "" if count == 1 else f"{count} x "
            lines.append(f"{which}: {times}{indent(text)}")
            position = last + 1
        return bracket(type(self).__name__, [], lines)


class ParameterList(_Numbered):
    """A list of parameters, which the module that holds it counts among its own; tensors are made
    parameters. Modules, as further such lists, may stand between them."""

    kinds = (Parameter, Module)

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__(() if values is None else values)

    def append(self, value: Any) -> Self:
        """Add one parameter at the end; returns the container."""
        return super().append(value)

    def extend(self, values: Iterable[Any]) -> Self:
        """Add parameters at the end; returns the container."""
        return super().extend(values)

    def _accept(self, value: Any, where: str) -> Any:
        return value if isinstance(value, self.kinds) else Parameter(value)

    def extra_repr(self) -> str:
        """A line for each."""
        return _describe(self)


Entries = Mapping[str, Any] | Iterable[tuple[str, Any]]


class _Named(_Holder):
    """Entries by name: a dict of them."""

    def __init__(self, values: Entries) -> None:
        super().__init__()
        self.update(values)

    def __getitem__(self, key: str) -> Any:
        return self._entries()[self._key(key)]

    def __setitem__(self, key: str, value: Any) -> None:
        self._hold({self._name(key): self._accept(value, f"key {key!r}")})

    def __delitem__(self, key: str) -> None:
        delattr(self, self._key(key))

    def _name(self, key: Any) -> str:
        if not isinstance(key, str):
            raise DTypeError(
                f"{type(self).__name__}: a key is a str, not {type(key).__name__}, "
                f"at {format_locs(here())}"
            )
        return key

    def _key(self, key: str) -> str:
        if self._name(key) not in self:
            known = ", ".join(self) or "none"
            raise KeyError(
                f"{type(self).__name__} has no {key!r}; its keys are {known}, "
                f"at {format_locs(here())}"
            )
        return key

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key in self._entries()

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._entries().keys()

    def values(self) -> Iterable[Any]:
        """The entries."""
        return self._entries().values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The names and entries."""
        return self._entries().items()

    def update(self, values: Entries) -> None:
        """Add entries, in the place of those of the same name."""
        named = {self._name(k): self._accept(v, f"key {k!r}") for k, v in dict(values).items()}
        self._hold(named)

    def pop(self, key: str) -> Any:
        """Take the entry out, and return it."""
        found = self[key]
        del self[key]
        return found

    def clear(self) -> None:
        """Take all entries out."""
        for key in list(self):
            del self[key]


class ModuleDict(_Named):
    """A dict of modules, which the module that holds it counts among its own. It has no forward."""

    def __init__(self, modules: Entries | None = None) -> None:
        super().__init__(() if modules is None else modules)

    def update(self, modules: Entries) -> None:
        """Add modules, in the place of those of the same name."""
        super().update(modules)


class ParameterDict(_Named):
    """A dict of parameters, which the module that holds it counts among its own; tensors are made
    parameters."""

    kinds = (Parameter,)

    def __init__(self, parameters: Entries | None = None) -> None:
        super().__init__(() if parameters is None else parameters)

    def update(self, parameters: Entries) -> None:
        """Add parameters, in the place of those of the same name."""
        super().update(parameters)

    def _accept(self, value: Any, where: str) -> Any:
        return value if isinstance(value, Parameter) else Parameter(value)

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter of that name; the ``default`` where there is none."""
        return self._entries().get(key, default)

    def setdefault(self, key: str, default: Any) -> Any:
        """The parameter of that name, which the ``default`` becomes where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def extra_repr(self) -> str:
        """A line for each."""
        return _describe(self)


def _describe(holder: _Holder) -> str:
    return "\n".join(
        f"({name}): Parameter containing: "
        f"[{p.dtype.name} of size {'x'.join(map(str, p.shape)) or '()'}]"
        for name, p in holder._entries().items()
        if isinstance(p, Parameter)
    )
