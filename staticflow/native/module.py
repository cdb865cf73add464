"""Native functions together as one LLVM module, alone or beside text that is written by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.graph.collector import without_collection
from staticflow.native.annotations import read_annotation, signature_of
from staticflow.native.language import Symbol, role_of
from staticflow.native.layout import Layout, alignment_of, stride_of, structure
from staticflow.native.scope import Effects
from staticflow.native.source import NativeError
from staticflow.native.translate import Translation, translate
from staticflow.native.types import PointerType, RecordOf, RowOf

__all__ = ["declarations", "render_native"]

Function = Callable[..., Any]


def render_native(functions: Iterable[Function], layout: Layout, around: str = "") -> str:
    """The LLVM text of ``functions``, of all that they call, and the declarations of what is
    outside. What the text ``around`` defines or declares is left out. Raises `NativeError`.

    Of ``functions`` those are taken that are exported, or that ``around`` calls.
    """
    roots = [f for f in functions if _is_exported(f) or f"@{f.__name__}(" in around]
    known: dict[Function, bool] = {}
    with without_collection():
        while True:
            program = _Program(layout, known)
            for root in roots:
                program.runs(root)
            known = {fn: t.runs for fn, t in program.done.items()}
            if not program.assumed.items() - known.items():
                return program.text(around)


def declarations(functions: Iterable[Function]) -> str:
    """The LLVM declarations of functions, for text that calls them and is compiled apart."""
    return "".join(_declare(fn.__name__, fn) for fn in functions)


def _is_exported(fn: Function) -> bool:
    role = role_of(fn)
    return role is not None and role.kind == "export"


@dataclass
class _Program:
    """The functions that are translated so far. Whether those that call themselves may run Python
    was ``assumed`` before it was known."""

    layout: Layout
    known: dict[Function, bool]
    done: dict[Function, Translation] = field(default_factory=dict)
    assumed: dict[Function, bool] = field(default_factory=dict)
    begun: list[Function] = field(default_factory=list)
    outside: dict[str, Function] = field(default_factory=dict)
    symbols: dict[str, Symbol | None] = field(default_factory=dict)

    def runs(self, fn: Function) -> bool:
        """Whether a function may run Python; it is translated if need be."""
        role = role_of(fn)
        assert role is not None
        if role.kind == "external":
            self.outside[self.name(fn)] = fn
            return role.runs
        if fn in self.done:
            return self.done[fn].runs
        if fn in self.begun:
            return self.assumed.setdefault(fn, self.known.get(fn, False))
        self.begun.append(fn)
        self.done[fn] = translate(fn, self)
        return self.done[fn].runs

    def effects(self, fn: Function) -> Effects:
        """What a function does with its arguments. Of one that calls itself it is not known yet:
        it may keep anything, and of what it takes it says itself, where it does."""
        if fn in self.done:
            return self.done[fn].effects
        role = role_of(fn)
        if role is not None and role.kind == "external":
            return Effects()
        kinds = {n: p.type for n, p in signature_of(fn).params if isinstance(p.type, PointerType)}
        return Effects({(a, b) for a in kinds for b in kinds if a != b and _is_written(kinds[b])})

    def name(self, fn: Function) -> str:
        """The symbol by which a function goes."""
        role = role_of(fn)
        return (role and role.symbol) or fn.__name__

    def symbol(self, name: str, thing: Symbol | None = None) -> str:
        """The text of a symbol."""
        self.symbols[name] = thing
        return f"@{name}"

    def text(self, around: str) -> str:
        """All of it."""
        there = set(_DEFINED.findall(around))
        names = [fn.__name__ for fn in self.done]
        for name in names:
            if name in there or names.count(name) > 1:
                raise NativeError(f"two native functions are called {name}: rename one")
        lines = [_declare(n, fn) for n, fn in sorted(self.outside.items()) if n not in there]
        rest = sorted(self.symbols.keys() - there - self.outside.keys())
        lines += [_symbol(name, self.symbols[name]) for name in rest]
        return "".join((*lines, *(f"\n{t.text}" for t in self.done.values())))


def _is_written(kind: PointerType) -> bool:
    """Whether pointers are written into what is of a kind."""
    return isinstance(kind.target, RecordOf | RowOf)


def _symbol(name: str, thing: Symbol | None) -> str:
    if thing is None:
        return f"declare void @{name}(ptr)\n"
    if thing.count == 0:
        return f"@{name} = external global i8\n"
    kind = read_annotation(thing.kind)
    if isinstance(kind.type, PointerType) and isinstance(kind.type.target, RowOf):
        element = kind.type.target.element
        unit = f"[{thing.count * stride_of(element)} x i8]"
        return f"@{name} = internal global {unit} zeroinitializer, align {alignment_of(element)}\n"
    memory = bytes(structure(thing.kind)(**(thing.values or {})))
    text = "".join(f"\\{byte:02X}" for byte in memory)
    first = f'c"{text}"' if any(memory) else "zeroinitializer"
    unit, aligned = f"[{len(memory)} x i8]", alignment_of(kind)
    return f"@{name} = internal global {unit} {first}, align {aligned}\n"


_DEFINED = re.compile(r"^(?:(?:define|declare)[^@\n]*)?@([\w.$]+)", re.MULTILINE)


def _declare(name: str, fn: Function) -> str:
    signature = signature_of(fn)
    kinds = [declared.type.llvm for _, declared in signature.params]
    params = ", ".join([*kinds, "..."] if signature.rest else kinds)
    return f"declare {signature.result.type.llvm} @{name}({params})\n"
