"""One native function as LLVM text."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.native.annotations import signature_of
from staticflow.native.calls import CALLS
from staticflow.native.conditions import CONDITIONS
from staticflow.native.expressions import EXPRESSIONS
from staticflow.native.language import role_of
from staticflow.native.loops import LOOPS
from staticflow.native.ownership import Value
from staticflow.native.scope import Again, Effects, Learnt, Program, Rules, Scope
from staticflow.native.source import Source, source_of
from staticflow.native.statements import STATEMENTS, block, leave
from staticflow.native.types import BOOL, VOID, IntType

__all__ = ["Translation", "translate"]

_RULES: Rules = {**EXPRESSIONS, **CONDITIONS, **CALLS, **STATEMENTS, **LOOPS}


@dataclass(frozen=True, slots=True)
class Translation:
    """A function as LLVM text; whether it may run Python, and what it does with its arguments."""

    text: str
    runs: bool
    effects: Effects


def translate(fn: Callable[..., Any], program: Program) -> Translation:
    """The LLVM text of a native function. Raises `NativeError` at the line that is at fault."""
    learnt: set[Learnt] = set()
    source = source_of(fn)
    while True:
        try:
            return _translate(fn, source, program, learnt)
        except Again:
            continue


def _translate(
    fn: Callable[..., Any], source: Source, program: Program, learnt: set[Learnt]
) -> Translation:
    try:
        signature = signature_of(fn)
    except TypeError as error:
        raise source.error(source.tree, str(error)) from error
    own = {*fn.__code__.co_varnames}  # which are variables in all of the function
    known = {name: thing for name, thing in fn.__globals__.items() if name not in own}
    scope = Scope(program, source, known, signature, _RULES, learnt)
    _begin(scope)
    if block(scope, source.tree.body):
        end = ast.Pass(lineno=source.tree.end_lineno or source.tree.lineno)
        if signature.result.type is not VOID:
            raise scope.error(end, f"{signature.result} is to be returned on every way")
        leave(scope, end)
    params = ", ".join(f"{declared.type.llvm} {_register(n)}" for n, declared in signature.params)
    return Translation(f"{_head(fn, scope, params)} {{\n{scope.text}}}\n", scope.ran, scope.effects)


def _head(fn: Callable[..., Any], scope: Scope, params: str) -> str:
    role = role_of(fn)
    assert role is not None
    result = scope.signature.result.type
    outside = role.kind == "export"
    kind = f"{'zeroext ' if outside and result is BOOL else ''}{result.llvm}"
    behind = " alwaysinline" if role.kind == "inline" else ""
    return f"define {'' if outside else 'internal '}{kind} @{fn.__name__}({params}){behind}"


def _register(param: str) -> str:
    """The register of a parameter; ``entry`` is the first block."""
    return "%entry.given" if param == "entry" else f"%{param}"


def _begin(scope: Scope) -> None:
    """The parameters: lent ones live for the whole call, those that are taken are owned."""
    line = scope.source.tree.lineno
    for name, declared in scope.signature.params:
        text = _register(name)
        type_ = IntType() if isinstance(declared.type, IntType) else declared.type
        if isinstance(declared.type, IntType):
            text = scope.widen(declared.type, text)
        origin = scope.parameters & {name}
        value = Value(text, type_, name=name, line=line, origin=origin)
        scope.kinds[name] = type_
        scope.state.names[name] = scope.state.own(value, name, line) if declared.owned else value
