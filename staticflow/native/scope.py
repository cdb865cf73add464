"""What the translation of a function knows as it goes on, and the steps that all rules share."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from types import ModuleType
from typing import Any, Protocol

from staticflow.codegen.llvm.text import BasicBlock, FunctionText
from staticflow.data_classes import dataclass
from staticflow.native.language import Symbol
from staticflow.native.layout import Layout
from staticflow.native.ownership import OwnedField, State, Target, Value
from staticflow.native.source import NativeError, Shown, Source
from staticflow.native.types import (
    BOOL,
    INT,
    NULL,
    Declared,
    IntType,
    PointerType,
    Signature,
    Type,
    suits,
)

__all__ = ["UNKNOWN", "Again", "Effects", "Learnt", "Loop", "Program", "Rules", "Scope"]


class Program(Protocol):
    """The functions that are translated together."""

    layout: Layout

    def runs(self, fn: Callable[..., Any]) -> bool:
        """Whether a native or external function may run Python; notes that it is called."""

    def effects(self, fn: Callable[..., Any]) -> Effects:
        """What a function does with what its arguments lead to."""

    def name(self, fn: Callable[..., Any]) -> str:
        """The symbol by which a function goes."""

    def symbol(self, name: str, thing: Symbol | None = None) -> str:
        """The text of a symbol, of what is outside or of memory that the code has."""


UNKNOWN: Any = object()
"""What stands for a name that means nothing."""


class Again(Exception):
    """The function has to be translated once more, with what was learnt."""


Keeping = tuple[str, str]
"""A parameter of which something is written, as it is, into a record that another one leads to."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What a function does with what its arguments lead to: what it ``keeps`` of one in another,
    the owned fields of which it ``takes`` what they have, and those that its result is read from,
    which it ``gives``."""

    keeps: set[Keeping] = field(default_factory=set)
    takes: set[OwnedField] = field(default_factory=set)
    gives: set[OwnedField] = field(default_factory=set)


@dataclass(slots=True)
class Loop:
    """A loop: where ``continue`` and ``break`` go."""

    again: Target
    done: Target


Learnt = int | tuple[int, str] | tuple[int, OwnedField] | tuple[int, str, OwnedField]

Rules = Mapping[type[ast.AST], Callable[["Scope", Any], Any]]
"""How each kind of expression gives a `Value`, and whether control comes behind a statement."""


@dataclass
class Scope:
    """A function under translation."""

    program: Program
    source: Source
    globals: Mapping[str, Any]
    signature: Signature
    rules: Rules
    learnt: set[Learnt]
    """Facts about loops that show only at their ends, for which the function is translated again. A
    loop goes by its line. The line alone: Python may run in it. With the name of a variable: that
    is fleeting at its head, or, with an owned field too, was read from that field. With an owned
    field: the loop takes what the field has."""
    text: FunctionText = field(default_factory=FunctionText)
    state: State = field(default_factory=State)
    kinds: dict[str, Type] = field(default_factory=dict)
    """What each variable may hold, as its annotation or its first value says."""
    loops: list[Loop] = field(default_factory=list)
    ran: bool = False
    effects: Effects = field(default_factory=Effects)

    # -- errors ------------------------------------------------------------------------------

    def error(self, node: ast.AST | int, message: str) -> NativeError:
        """The error at a node or line."""
        return self.source.error(node, message)

    def refuse(self, node: ast.AST) -> Callable[[str], NativeError]:
        """What makes errors at a node."""
        return lambda message: self.error(node, message)

    # -- values ------------------------------------------------------------------------------

    def outside(self, node: ast.AST) -> Any:
        """What ``name``, which is no variable, or ``module.name`` stands for; `UNKNOWN` if there is
        no such thing."""
        match node:
            case ast.Name(name) if name not in self.state.names:
                return self.globals.get(name, UNKNOWN)
            case ast.Attribute(ast.Name(name), attribute):
                module = self.globals.get(name)
                if isinstance(module, ModuleType):
                    return getattr(module, attribute, UNKNOWN)
        return UNKNOWN

    def value(self, node: ast.expr) -> Value:
        """The value of an expression, which is there."""
        rule = self.rules.get(type(node))
        if rule is None:
            what = type(node).__name__
            raise self.error(node, f"native code knows no {what}: write it in simpler expressions")
        value: Value = rule(self, node)
        self.check(node, value)
        return value

    def check(self, node: ast.AST, value: Value) -> None:
        """Refuse a value that may be gone."""
        fault = self.state.fault(value)
        if fault is not None:
            raise self.error(node, fault)

    def integer(self, node: ast.expr) -> str:
        """The text of an expression that must be an int."""
        return self.of_type(node, INT)

    def boolean(self, node: ast.expr) -> str:
        """The text of an expression that must be a bool."""
        return self.of_type(node, BOOL)

    def of_type(self, node: ast.expr, wanted: Type) -> str:
        """The text of an expression that must be of a type."""
        return self.fit(node, self.value(node), wanted).text

    def fit(self, node: ast.AST, value: Value, wanted: Type) -> Value:
        """The value, which must be of a type."""
        if not suits(value.type, wanted):
            hint = ""
            if isinstance(value.type, PointerType) and value.type.nullable:
                hint = ": test `is None` before"
            raise self.error(
                node, f"{ast.unparse(node)} is {value.type}, and {wanted} is wanted{hint}"
            )
        return value

    def pointer(self, node: ast.expr) -> tuple[Value, PointerType]:
        """The value of an expression that must be a pointer and not null."""
        value = self.value(node)
        shown = Shown(node)
        if not isinstance(value.type, PointerType):
            raise self.error(node, f"{shown} is {value.type}, which has no fields and no elements")
        if value.type.nullable:
            raise self.error(node, f"{shown} may be null: test `{shown} is not None` before")
        return value, value.type

    # -- ownership ---------------------------------------------------------------------------

    @property
    def parameters(self) -> frozenset[str]:
        """The parameters that are pointers."""
        params = self.signature.params
        return frozenset(n for n, declared in params if isinstance(declared.type, PointerType))

    def own(self, node: ast.AST, value: Value, name: str | Shown) -> Value:
        """The value as an owned reference."""
        return self.state.own(value, name, getattr(node, "lineno", 0))

    def consume(self, node: ast.AST, value: Value, how: str | Shown) -> None:
        """Give up, or hand on, an owned reference."""
        if value.type is NULL:
            return
        self.check(node, value)
        if value.own is None:
            shown = ast.unparse(node)
            raise self.error(node, f"{shown} is borrowed and would be {how}: write hold({shown})")
        self.state.end(value.own, how, getattr(node, "lineno", 0))

    def note_run(self, node: ast.AST, name: str | Shown) -> None:
        """Python may have run here."""
        self.ran = True
        self.state.note_run(getattr(node, "lineno", 0), name)

    def check_debts(self, node: ast.AST, where: str) -> None:
        """Refuse owned references that no variable names, behind a statement."""
        named = {v.own for v in self.state.names.values()}
        for number, debt in self.state.owned.items():
            if number not in named:
                raise self.error(
                    node, f"{debt.name}, owned since line {debt.line}, is lost {where}: "
                    "drop it before, or keep it in a variable"
                )  # fmt: skip

    # -- instructions ------------------------------------------------------------------------

    def at(self, base: str, offset: int) -> str:
        """The address so many bytes behind another."""
        return base if offset == 0 else self.text.op(f"getelementptr i8, ptr {base}, i64 {offset}")

    def load(self, declared: Declared, address: str, hint: str) -> str:
        """What memory holds, as a register has it."""
        type_ = declared.type
        if type_ is BOOL:
            byte = self.text.op(f"load i8, ptr {address}")
            return self.text.op(f"icmp ne i8 {byte}, 0", hint)
        loaded = self.text.op(f"load {type_.llvm}, ptr {address}", hint)
        return self.widen(type_, loaded)

    def store(self, node: ast.AST, declared: Declared, address: str, value: str) -> None:
        """Write what a register has to memory."""
        if declared.type is BOOL:
            byte = self.text.op(f"zext i1 {value} to i8")
            self.text.do(f"store i8 {byte}, ptr {address}")
        else:
            narrow = self.narrow(node, declared.type, value)
            self.text.do(f"store {declared.type.llvm} {narrow}, ptr {address}")

    def widen(self, type_: Type, value: str) -> str:
        """An int of C as one of 64 bits."""
        if isinstance(type_, IntType) and type_.bits < 64:
            return self.text.op(f"sext {type_.llvm} {value} to i64")
        return value

    def narrow(self, node: ast.AST, type_: Type, value: str) -> str:
        """An int of 64 bits as one of C. A constant has to fit; of others the higher bits are lost,
        as in C."""
        if isinstance(type_, IntType) and type_.bits < 64:
            if value.lstrip("-").isdigit():
                most = 1 << type_.bits - 1
                if not -most <= int(value) < most:
                    raise self.error(node, f"{value} has more than the {type_.bits} bits that are "
                                     "there for it, one of which is the sign")  # fmt: skip
                return value
            return self.text.op(f"trunc i64 {value} to {type_.llvm}")
        return value

    # -- blocks ------------------------------------------------------------------------------

    def target(self, hint: str) -> Target:
        """A point that ways may lead to."""
        return Target(self.text.new_block(hint))

    def jump(self, target: Target) -> None:
        """Go to a point."""
        self.text.jump(target.block)
        target.edges.append((self.text.block, self.state))

    def split(self, condition: str, yes: Target, no: Target) -> tuple[State, State]:
        """Go to one of two points, and give what is known on each way, to be narrowed."""
        here: BasicBlock = self.text.block
        states = self.state, self.state.fork()
        self.text.branch(condition, yes.block, no.block)
        for target, state in zip((yes, no), states, strict=True):
            target.edges.append((here, state))
        return states

    def enter(self, node: ast.AST, target: Target) -> bool:
        """Go on at a point; False if no way leads there."""
        if not target.edges:
            return False
        self.state = target.enter(self.text, self.refuse(node))
        return True

    def rename(self, name: str, value: Value, line: int) -> None:
        """Let a variable name a value."""
        self.state.names[name] = replace(value, name=name, line=value.line or line)
