"""Calls of functions, and of pointers to functions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from staticflow.native.annotations import signature_of
from staticflow.native.atomics import STEPS
from staticflow.native.expressions import lend
from staticflow.native.language import role_of
from staticflow.native.ownership import Value
from staticflow.native.scope import UNKNOWN, Effects, Rules, Scope
from staticflow.native.source import Shown
from staticflow.native.types import INT, VOID, Code, IntType, PointerType, Signature, Type
from staticflow.native.words import WORDS

__all__ = ["CALLS"]


def _call(scope: Scope, node: ast.Call) -> Value:
    """A word of the language, a function of native code or of C, or what a pointer points to."""
    if node.keywords:
        raise scope.error(node, "arguments are given by position")
    named = scope.outside(node.func)
    is_name = isinstance(node.func, ast.Name) and node.func.id not in scope.state.names
    if named is not UNKNOWN or is_name:
        return _named_call(scope, node, ast.unparse(node.func), named)
    if isinstance(node.func, ast.Attribute) and node.func.attr in STEPS:
        return STEPS[node.func.attr](scope, node, node.func.value)
    value, type_ = scope.pointer(node.func)
    if not isinstance(type_.target, Code):
        raise scope.error(node, f"{ast.unparse(node.func)} is {type_}, which is not called")
    return _emit(scope, node, ast.unparse(node.func), value.text, type_.target.signature, True)


def _named_call(scope: Scope, node: ast.Call, name: str, named: Any) -> Value:
    fn: Any = _BUILTINS.get(name) if named is UNKNOWN else named
    word = WORDS.get(fn) if callable(fn) else None
    if word is not None:
        return word(scope, node)
    if role_of(fn) is None:
        raise scope.error(node, f"{name} is no function of native code: decorate it")
    function: Callable[..., Any] = fn
    try:
        signature = signature_of(function)
    except TypeError as error:
        raise scope.error(node, f"{name}: {error}") from error
    runs = scope.program.runs(function)
    callee, effects = f"@{scope.program.name(function)}", scope.program.effects(function)
    return _emit(scope, node, name, callee, signature, runs, effects)


_NO_EFFECTS = Effects()
_BUILTINS = {"int": int, "min": min, "max": max}


def _emit(
    scope: Scope,
    node: ast.Call,
    name: str,
    callee: str,
    signature: Signature,
    runs: bool,
    effects: Effects = _NO_EFFECTS,
) -> Value:
    kinds = ", ".join([*(declared.type.llvm for _, declared in signature.params), "..."])
    if signature.rest is not None:
        more = range(len(signature.params), len(node.args))
        further = tuple((f"argument {i + 1}", signature.rest) for i in more)
        signature = replace(signature, params=signature.params + further)
    values = _arguments(scope, node, name, signature, runs)
    _keep(scope, node, name, signature, values, effects)
    _take(scope, node, name, signature, values, effects)
    result = _result(signature, values)
    written = ", ".join(
        f"{declared.type.llvm} {scope.narrow(argument, declared.type, value.text)}"
        for argument, value, (_, declared) in zip(node.args, values, signature.params, strict=True)
    )
    if runs:
        scope.note_run(node, name)
    type_ = result.llvm if signature.rest is None else f"{result.llvm} ({kinds})"
    if result is VOID:
        scope.text.do(f"call {type_} {callee}({written})")
        return Value("", VOID)
    text = scope.text.op(f"call {type_} {callee}({written})", name.rpartition(".")[2])
    if isinstance(result, IntType):
        return Value(scope.widen(result, text), INT)
    shown = Shown(node)
    value = Value(text, result, name=shown, line=node.lineno)
    if signature.result.owned:
        return scope.own(node, value, shown)
    if signature.result.within:
        first = values[0]
        read = first.read_from | {scope.state.reading_of(field) for field in effects.gives}
        return replace(
            value, inside=first.depends, run=first.run, origin=first.origin, read_from=read,
            lasting=first.lasting,
        )  # fmt: skip
    if isinstance(result, PointerType):
        return replace(value, run=scope.state.run)
    return value


def _result(signature: Signature, values: Sequence[Value]) -> Type:
    """The type of what a call gives, which may follow that of the first argument."""
    result = signature.result.type
    if signature.follows and isinstance(result, PointerType):
        first = values[0].type
        return replace(result, target=first.target) if isinstance(first, PointerType) else result
    return result


def _arguments(
    scope: Scope, node: ast.Call, name: str, signature: Signature, runs: bool
) -> Sequence[Value]:
    """The arguments of a call. What the function takes is handed on; what it is lent
    has to be there all the time that it runs."""
    params = signature.params
    if len(node.args) != len(params):
        raise scope.error(node, f"{name} takes {len(params)} arguments, not {len(node.args)}")
    values = [scope.value(argument) for argument in node.args]
    for argument, value, (_, declared) in zip(node.args, values, params, strict=True):
        scope.check(argument, value)
        scope.fit(argument, value, declared.type)
        shown = Shown(argument)
        if not declared.owned and value.run is not None and runs:
            raise scope.error(
                argument, f"{shown} is read from where Python may change it, and {name}, which "
                f"may run Python, needs it all the time: hold it before, and drop it behind"
            )  # fmt: skip
        if not declared.owned and value.own is not None and not _has_name(scope, value):
            raise scope.error(
                argument, f"{shown} is owned and only lent to {name}, and lost behind: keep it in "
                "a variable, and drop it"
            )  # fmt: skip
    for argument, value, (param, declared) in zip(node.args, values, params, strict=True):
        if declared.owned:
            scope.consume(argument, value, f"given to {name} as {param}")
    return values


def _keep(
    scope: Scope,
    node: ast.Call,
    name: str,
    signature: Signature,
    values: Sequence[Value],
    effects: Effects,
) -> None:
    """What a function leaves of one argument in another has to live as long as that."""
    positions = {param: i for i, (param, _) in enumerate(signature.params)}
    for kept, keeper in sorted(effects.keeps):
        i = positions[kept]
        lend(scope, node.args[i], values[i], values[positions[keeper]], name)


def _take(
    scope: Scope,
    node: ast.Call,
    name: str,
    signature: Signature,
    values: Sequence[Value],
    effects: Effects,
) -> None:
    """What a function takes from owned fields is there no more behind it, nor in the midst of it:
    it is not lent to it."""
    for argument, value, (_, declared) in zip(node.args, values, signature.params, strict=True):
        for taken, _ in value.read_from:
            if taken in effects.takes and not declared.owned:
                raise scope.error(
                    argument, f"{Shown(argument)} is lent to {name}, which takes it from where it "
                    f"was read, {value.name}: hold it before, and drop it behind"
                )  # fmt: skip
    for taken in effects.takes:
        scope.state.note_taking(taken, None, name, node.lineno)
    scope.effects.takes.update(effects.takes)


def _has_name(scope: Scope, value: Value) -> bool:
    return any(v.own == value.own for v in scope.state.names.values())


CALLS: Rules = {ast.Call: _call}
