"""Statements: assignments, branches, and the ways out of a function."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from staticflow.native.annotations import read_annotation
from staticflow.native.conditions import branch
from staticflow.native.expressions import assign_element, assign_field
from staticflow.native.ownership import Value
from staticflow.native.scope import Rules, Scope
from staticflow.native.types import INT, NULL, VOID, IntType, suits

__all__ = ["STATEMENTS", "behind", "block", "leave"]


def block(scope: Scope, body: Sequence[ast.stmt]) -> bool:
    """Translate statements one after another; False if control does not come behind them."""
    for i, statement in enumerate(body):
        rule = scope.rules.get(type(statement))
        if rule is None:
            what = type(statement).__name__
            raise scope.error(statement, f"native code knows no {what}: write it with assignments, "
                              "if, while, for over range, and return")  # fmt: skip
        goes_on: bool = rule(scope, statement)
        if not goes_on:
            if body[i + 1 :]:
                raise scope.error(body[i + 1], "this is never reached: leave it out")
            return False
        scope.check_debts(statement, "here")
    return True


def _expression(scope: Scope, node: ast.Expr) -> bool:
    if not isinstance(node.value, ast.Constant):
        scope.value(node.value)
    return True


def _pass(scope: Scope, node: ast.Pass) -> bool:
    return True


# -- assignments ---------------------------------------------------------------------------------


def _assign(scope: Scope, node: ast.Assign) -> bool:
    if len(node.targets) != 1:
        raise scope.error(node, "one thing is assigned at a time")
    _assign_to(scope, node, node.targets[0], node.value)
    return True


def _assign_to(scope: Scope, node: ast.AST, target: ast.expr, source: ast.expr) -> None:
    value = scope.value(source)
    match target:
        case ast.Name(name):
            if value.type is VOID:
                raise scope.error(node, f"{ast.unparse(source)} gives nothing")
            _bind(scope, node, name, value)
            _lend_old_name(scope, source, name)
        case ast.Attribute():
            assign_field(scope, target, value, source)
        case ast.Subscript():
            assign_element(scope, target, value, source)
        case _:
            raise scope.error(node, "only a variable, a field or an element is assigned")


def _bind(scope: Scope, node: ast.AST, name: str, value: Value) -> None:
    wanted = scope.kinds.get(name)
    if wanted is None:
        if value.type is NULL:
            raise scope.error(node, f"annotate {name}: `{name}: T | None = None`")
        scope.kinds[name] = value.type
    elif not suits(value.type, wanted):
        raise scope.error(node, f"{name} is {wanted}, and {value.type} is assigned")
    _refuse_loss(scope, node, name)
    scope.state.names[name] = replace(value, name=name, line=getattr(node, "lineno", 0))
    if value.own is not None and value.own in scope.state.owned:
        scope.state.owned[value.own] = replace(scope.state.owned[value.own], name=name)


def _lend_old_name(scope: Scope, source: ast.expr, name: str) -> None:
    """Behind ``new = old``, the new variable owns what the old one did."""
    if isinstance(source, ast.Name) and source.id != name and source.id in scope.state.names:
        scope.state.names[source.id] = scope.state.names[source.id].alias()


def _refuse_loss(scope: Scope, node: ast.AST, name: str) -> None:
    """A variable that owns a reference is not given another value before that is consumed."""
    before = scope.state.names.get(name)
    if before is not None and scope.state.owns(before) and before.own is not None:
        if before.text == "null":
            scope.state.end(before.own, "null", 0)
            return
        line = scope.state.owned[before.own].line
        raise scope.error(
            node, f"{name}, owned since line {line}, is lost here: drop it before, or hand it on"
        )  # fmt: skip


def _assign_annotated(scope: Scope, node: ast.AnnAssign) -> bool:
    """``name: T = value``."""
    if not isinstance(node.target, ast.Name) or node.value is None:
        raise scope.error(node, "an annotation stands at a variable that is given a value")
    if node.target.id in scope.kinds:
        raise scope.error(node, f"{node.target.id} has a type already")
    try:
        hint: Any = eval(
            compile(ast.Expression(node.annotation), scope.source.file, "eval"),
            dict(scope.globals),
        )
        declared = read_annotation(hint)
    except (TypeError, NameError) as error:
        raise scope.error(node, f"{ast.unparse(node.annotation)}: {error}") from error
    type_ = INT if isinstance(declared.type, IntType) else declared.type
    scope.kinds[node.target.id] = type_
    value = scope.value(node.value)
    _bind(scope, node, node.target.id, value)
    _lend_old_name(scope, node.value, node.target.id)
    if declared.owned and value.type is NULL:
        named = scope.state.names[node.target.id]
        typed = replace(named, type=type_)
        scope.state.names[node.target.id] = scope.state.own(typed, node.target.id, node.lineno)
    return True


def _assign_in_place(scope: Scope, node: ast.AugAssign) -> bool:
    """``name += value``. Which field or element is meant is worked out once, before the value."""
    target, settled = node.target, list[str]()

    def settle(part: ast.expr) -> ast.expr:
        if isinstance(part, ast.Constant | ast.Slice) or _stays(part, node.value):
            return part
        name = f"({ast.unparse(part)})"
        scope.state.names[name] = scope.value(part).alias()
        settled.append(name)
        return ast.copy_location(ast.Name(name), part)

    match target:
        case ast.Attribute(base, name):
            target = ast.copy_location(ast.Attribute(settle(base), name), target)
        case ast.Subscript(base, index):
            target = ast.copy_location(ast.Subscript(settle(base), settle(index)), target)
    source = ast.copy_location(ast.BinOp(target, node.op, node.value), node)
    _assign_to(scope, node, target, source)
    for name in settled:
        scope.state.names.pop(name, None)
    return True


def _stays(part: ast.expr, value: ast.expr) -> bool:
    """Whether ``part`` is a variable that ``value`` gives no other value."""
    inside = [n.target for n in ast.walk(value) if isinstance(n, ast.NamedExpr)]
    return isinstance(part, ast.Name) and part.id not in {target.id for target in inside}


# -- ways ----------------------------------------------------------------------------------------


def _if(scope: Scope, node: ast.If) -> bool:
    yes, no, out = scope.target("then"), scope.target("else"), scope.target("on")
    branch(scope, node.test, yes, no if node.orelse else out)
    for target, body in ((yes, node.body), (no, node.orelse)):
        if scope.enter(node, target) and block(scope, body):
            scope.jump(out)
    return scope.enter(behind(node), out)


def behind(node: ast.stmt) -> ast.AST:
    """The last line of a statement, at which errors of what meets behind it are shown."""
    return ast.Pass(lineno=node.end_lineno or node.lineno)


def _return(scope: Scope, node: ast.Return) -> bool:
    result = scope.signature.result
    if node.value is None:
        if result.type is not VOID:
            raise scope.error(node, f"{result} is to be returned")
        leave(scope, node)
        return False
    value = scope.value(node.value)
    scope.fit(node.value, value, result.type)
    scope.check(node.value, value)
    if result.owned:
        scope.consume(node.value, value, "returned")
    elif result.within and value.run is not None:
        raise scope.error(
            node, f"{ast.unparse(node.value)} is read from where Python may change it"
        )
    elif result.within and not value.origin <= {scope.signature.params[0][0]}:
        raise scope.error(
            node, f"{ast.unparse(node.value)} may be there for less long than the first argument"
        )
    elif value.local:
        raise scope.error(node, f"{ast.unparse(node.value)} is memory of the call, which ends here")
    if result.within:
        scope.effects.gives.update(field for field, _ in value.read_from)
    leave(scope, node, value)
    return False


def leave(scope: Scope, node: ast.AST, value: Value | None = None) -> None:
    """Return, with nothing left that is owned."""
    for debt in scope.state.owned.values():
        raise scope.error(
            node, f"{debt.name}, owned since line {debt.line}, is not dropped on this way out"
        )
    if value is None:
        scope.text.block.end = "ret void"
        return
    result = scope.signature.result.type
    scope.text.block.end = f"ret {result.llvm} {scope.narrow(node, result, value.text)}"


STATEMENTS: Rules = {
    ast.Expr: _expression, ast.Pass: _pass, ast.Assign: _assign, ast.AnnAssign: _assign_annotated,
    ast.AugAssign: _assign_in_place, ast.If: _if, ast.Return: _return,
}  # fmt: skip
