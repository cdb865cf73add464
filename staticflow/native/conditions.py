"""Conditions: where they lead, and what is known of variables there.

``and``, ``or`` and ``not`` become branches, so that what stands on the right is looked at only
where it counts. Behind ``x is not None`` and ``x is None``, and where a guard returned true, a
variable ``x`` has a narrower type.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from staticflow.codegen.llvm.text import Type as LLVMType
from staticflow.codegen.llvm.text import phi
from staticflow.native.annotations import signature_of
from staticflow.native.language import role_of
from staticflow.native.ownership import State, Target, Value
from staticflow.native.scope import UNKNOWN, Rules, Scope
from staticflow.native.source import Shown
from staticflow.native.types import BOOL, INT, NULL, PointerType, join_types

__all__ = ["CONDITIONS", "branch"]


def branch(scope: Scope, test: ast.expr, yes: Target, no: Target) -> None:
    """Go to ``yes`` or to ``no``."""
    match test:
        case ast.BoolOp(op, values):
            *before, last = values
            for part in before:
                on = scope.target("and" if isinstance(op, ast.And) else "or")
                branch(scope, part, *((on, no) if isinstance(op, ast.And) else (yes, on)))
                if not scope.enter(part, on):  # a constant, which decides
                    return
            branch(scope, last, yes, no)
        case ast.UnaryOp(ast.Not(), operand):
            branch(scope, operand, no, yes)
        case ast.Constant(bool(always)):
            scope.jump(yes if always else no)
        case _:
            _branch_on(scope, test, yes, no)


def _branch_on(scope: Scope, test: ast.expr, yes: Target, no: Target) -> None:
    value = scope.value(test)
    condition = value.text
    if value.type == INT:
        condition = scope.text.op(f"icmp ne i64 {condition}, 0")
    elif value.type is not BOOL:
        shown = ast.unparse(test)
        raise scope.error(test, f"{shown} is {value.type}, no bool: write `{shown} is not None`")
    if condition in ("true", "false"):
        scope.jump(yes if condition == "true" else no)
        return
    states = scope.split(condition, yes, no)
    for truth, state in zip((True, False), states, strict=True):
        _narrow(scope, state, test, truth)


def _narrow(scope: Scope, state: State, test: ast.expr, truth: bool) -> None:
    """Note what is known of a variable where a test came out so."""
    match test:
        case ast.Compare(left, [ast.Is() | ast.IsNot() as op], [ast.Constant(None)]):
            name = _name_of(left)
            if name is None or name not in state.names:
                return
            value = state.names[name]
            if isinstance(op, ast.Is) == truth:
                if value.own in state.owned and value.own is not None:
                    state.end(value.own, "null", test.lineno)
                state.names[name] = Value(value.text, NULL, name=name, line=value.line)
            elif isinstance(value.type, PointerType):
                state.names[name] = replace(value, type=replace(value.type, nullable=False))
        case ast.Call(function, [argument, *_]) if truth:
            fn = scope.outside(function)
            name = _name_of(argument)
            if role_of(fn) is None or name not in state.names or name is None:
                return
            guards = signature_of(fn).guards
            if guards is not None:
                state.names[name] = replace(state.names[name], type=guards)


def _name_of(node: ast.expr) -> str | None:
    match node:
        case ast.Name(name) | ast.NamedExpr(ast.Name(name)):
            return name
    return None


# -- as values -----------------------------------------------------------------------------------


def _bool_of(scope: Scope, node: ast.BoolOp) -> Value:
    """``a and b``, ``a or b``: the last where those before do not decide."""
    is_and = isinstance(node.op, ast.And)
    if all(_is_instant(scope, value) for value in node.values):
        return _bool_at_once(scope, node)
    out = scope.target("both" if is_and else "either")
    texts: list[str] = []
    *before, last = node.values
    for part in before:
        on = scope.target("and" if is_and else "or")
        branch(scope, part, *((on, out) if is_and else (out, on)))
        texts += ["false" if is_and else "true"] * (len(out.edges) - len(texts))
        if not scope.enter(part, on):
            break
    else:
        texts.append(_truth(scope, last))
        scope.jump(out)
    scope.enter(node, out)
    return Value(_pick(scope, out, texts, "i1"), BOOL)


def _is_instant(scope: Scope, node: ast.expr) -> bool:
    """Whether a condition is a comparison of what is at hand, which may be made in vain."""
    match node:
        case ast.Compare(left, _, [right]):
            return _is_simple(scope, left) and _is_simple(scope, right)
        case ast.UnaryOp(ast.Not(), operand):
            return _is_instant(scope, operand)
    return False


def _bool_at_once(scope: Scope, node: ast.BoolOp) -> Value:
    """A condition without branches, all of whose parts are looked at: where it is a value, as what
    an inlined function returns, a branch would remain."""
    first, *rest = (_truth(scope, part) for part in node.values)
    for part in rest:
        instruction = "and" if isinstance(node.op, ast.And) else "or"
        first = scope.text.op(f"{instruction} i1 {first}, {part}")
    return Value(first, BOOL)


def _truth(scope: Scope, node: ast.expr) -> str:
    value = scope.value(node)
    if value.type is not BOOL:
        raise scope.error(node, f"{ast.unparse(node)} is {value.type}, and bool is wanted")
    return value.text


def _pick(scope: Scope, out: Target, texts: list[str], llvm: str) -> str:
    """What the ways to the current block bring."""
    if len(set(texts)) == 1:
        return texts[0]
    result = scope.text.fresh()
    incoming = [(t, block) for t, (block, _) in zip(texts, out.edges, strict=True)]
    out.block.phis.append(phi(result, LLVMType(llvm), incoming))
    return result


def _not(scope: Scope, node: ast.UnaryOp) -> Value:
    """``not x``, ``-x``, ``~x``."""
    match node:
        case ast.UnaryOp(ast.Not(), operand):
            value = scope.value(operand)
            if value.type == INT:
                return Value(scope.text.op(f"icmp eq i64 {value.text}, 0"), BOOL)
            if value.type is not BOOL:
                raise scope.error(node, f"{ast.unparse(operand)} is {value.type}, no bool")
            return Value(scope.text.op(f"xor i1 {value.text}, true"), BOOL)
        case ast.UnaryOp(ast.USub(), ast.Constant(int(number))):
            return scope.value(ast.copy_location(ast.Constant(-number), node))
        case ast.UnaryOp(ast.USub(), operand):
            return Value(scope.text.op(f"sub i64 0, {scope.integer(operand)}"), INT)
        case ast.UnaryOp(ast.Invert(), operand):
            return Value(scope.text.op(f"xor i64 {scope.integer(operand)}, -1"), INT)
    raise scope.error(node, "native code knows no unary +")


def _choice(scope: Scope, node: ast.IfExp) -> Value:
    """``a if test else b``: a select where nothing is computed, else two ways that meet."""
    if _is_simple(scope, node.body) and _is_simple(scope, node.orelse) and _is_plain(node.test):
        test = scope.value(node.test)
        if test.type is BOOL:
            return _select(scope, node, test.text)
    yes, no, out = scope.target("then"), scope.target("else"), scope.target("chosen")
    branch(scope, node.test, yes, no)
    values: list[Value] = []
    for target, side in ((yes, node.body), (no, node.orelse)):
        if scope.enter(side, target):
            value = scope.value(side)
            values.append(value.alias() if isinstance(side, ast.Name) else value)
            scope.jump(out)
    return _meet(scope, node, out, values)


def _meet(scope: Scope, node: ast.IfExp, out: Target, values: list[Value]) -> Value:
    for (_, state), value in zip(out.edges, values, strict=True):
        state.names[_CHOSEN] = value
    scope.enter(node, out)
    chosen = scope.state.names.pop(_CHOSEN, None)
    if chosen is None:
        raise scope.error(node, f"the sides are {' and '.join(str(v.type) for v in values)}")
    return chosen


_CHOSEN = "if"  # which no variable is called


def _select(scope: Scope, node: ast.IfExp, test: str) -> Value:
    """Both sides, one of which is taken; both are names or constants."""
    values: list[Value] = []
    here = scope.state
    for truth, side in ((True, node.body), (False, node.orelse)):
        scope.state = here.fork()
        _narrow(scope, scope.state, node.test, truth)
        values.append(scope.value(side))
    scope.state = here
    a, b = values
    type_ = join_types(a.type, b.type)
    if type_ is None:
        raise scope.error(node, f"the sides are {a.type} and {b.type}")
    text = scope.text.op(f"select i1 {test}, {type_.llvm} {a.text}, {type_.llvm} {b.text}")
    run = scope.state.run if a.run is not None or b.run is not None else None
    shown, local = Shown(node), a.local or b.local
    inside = a.depends | b.depends
    return Value(
        text, type_, None, inside, run, shown, node.lineno, local, a.origin | b.origin,
        a.lasting or b.lasting, a.read_from | b.read_from,
    )  # fmt: skip


def _is_simple(scope: Scope, node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Constant) or scope.outside(node) is not UNKNOWN


def _is_plain(node: ast.expr) -> bool:
    return not isinstance(node, ast.BoolOp)


CONDITIONS: Rules = {ast.BoolOp: _bool_of, ast.UnaryOp: _not, ast.IfExp: _choice}
