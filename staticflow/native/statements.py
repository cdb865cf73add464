"""Statements: assignments, branches, loops, and the ways out of a function."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from staticflow.codegen.llvm.text import BasicBlock, phi
from staticflow.codegen.llvm.text import Type as LLVMType
from staticflow.native.conditions import branch
from staticflow.native.expressions import assign_element, assign_field
from staticflow.native.language import drop, drop_row, role_of
from staticflow.native.ownership import State, Target, Value
from staticflow.native.scope import Again, Loop, Rules, Scope
from staticflow.native.types import INT, NULL, VOID, IntType, PointerType, declared, suits

__all__ = ["STATEMENTS", "block"]


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
        scope.state.names[source.id] = scope.state.names[source.id].lent()


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


def _annotated(scope: Scope, node: ast.AnnAssign) -> bool:
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
        place = declared(hint)
    except (TypeError, NameError) as error:
        raise scope.error(node, f"{ast.unparse(node.annotation)}: {error}") from error
    type_ = INT if isinstance(place.type, IntType) else place.type
    scope.kinds[node.target.id] = type_
    value = scope.value(node.value)
    _bind(scope, node, node.target.id, value)
    _lend_old_name(scope, node.value, node.target.id)
    if place.owned and value.type is NULL:
        named = scope.state.names[node.target.id]
        typed = replace(named, type=type_)
        scope.state.names[node.target.id] = scope.state.own(typed, node.target.id, node.lineno)
    return True


def _augmented(scope: Scope, node: ast.AugAssign) -> bool:
    """``name += value``. Which field or element is meant is worked out once, before the value."""
    target, settled = node.target, list[str]()

    def settle(part: ast.expr) -> ast.expr:
        if isinstance(part, ast.Constant | ast.Slice) or _stays(part, node.value):
            return part
        name = f"({ast.unparse(part)})"
        scope.state.names[name] = scope.value(part).lent()
        settled.append(name)
        return ast.copy_location(ast.Name(name), part)

    match target:
        case ast.Attribute(base, name):
            target = ast.copy_location(ast.Attribute(settle(base), name), target)
        case ast.Subscript(base, place):
            target = ast.copy_location(ast.Subscript(settle(base), settle(place)), target)
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
    return scope.enter(_behind(node), out)


def _behind(node: ast.stmt) -> ast.AST:
    """The last line of a statement, at which errors of what meets behind it are shown."""
    return ast.Pass(lineno=node.end_lineno or node.lineno)


def _while(scope: Scope, node: ast.While) -> bool:
    if node.orelse:
        raise scope.error(node, "native code knows no else of a loop")
    head, body, done = scope.target("more"), scope.target("body"), scope.target("done")
    carried = _begin(scope, node, head)
    branch(scope, node.test, body, done)
    scope.loops.append(Loop(head, done))
    if scope.enter(node, body) and block(scope, node.body):
        scope.jump(head)
    scope.loops.pop()
    _close(scope, node, head, carried)
    return scope.enter(_behind(node), done)


def _for(scope: Scope, node: ast.For) -> bool:
    """``for i in range(...)``: the number of turns is fixed before the first."""
    first, last, step = _range(scope, node)
    assert isinstance(node.target, ast.Name)
    name = node.target.id
    if scope.kinds.setdefault(name, INT) != INT:
        raise scope.error(node, f"{name} is {scope.kinds[name]}, and counts here")
    scope.state.names.pop(name, None)
    head, body = scope.target("more"), scope.target("body")
    again, done = scope.target("next"), scope.target("done")
    before = scope.text.block
    carried = _begin(scope, node, head)
    counter, following = scope.text.fresh(name), scope.text.fresh(f"{name}.next")
    left = scope.text.op(f"icmp {'slt' if step > 0 else 'sgt'} i64 {counter}, {last}")
    scope.split(left, body, done)
    scope.loops.append(Loop(again, done))
    scope.enter(node, body)
    scope.rename(name, Value(counter, INT), node.lineno)
    if block(scope, node.body):
        scope.jump(again)
    scope.loops.pop()
    incoming: list[tuple[str, BasicBlock]] = [(first, before)]
    if scope.enter(node, again):
        scope.text.do(f"{following} = add i64 {counter}, {step}")
        incoming.append((following, scope.text.block))
        scope.jump(head)
    head.block.phis.append(phi(counter, LLVMType("i64"), incoming))
    _close(scope, node, head, carried)
    for _, state in done.edges:
        state.names.pop(name, None)
    return scope.enter(_behind(node), done)


def _range(scope: Scope, node: ast.For) -> tuple[str, str, int]:
    """The first number of a loop, the one that it stops before, and the step."""
    arguments: list[ast.expr] = []
    match node:
        case ast.For(ast.Name(), ast.Call(ast.Name("range"), [_, *_] as arguments, []), _, []):
            pass
        case _:
            raise scope.error(node, "of for there is `for name in range(...)` alone, without else")
    begin = scope.integer(arguments[0]) if len(arguments) > 1 else "0"
    end = scope.integer(arguments[1] if len(arguments) > 1 else arguments[0])
    step = scope.integer(arguments[2]) if len(arguments) > 2 else "1"
    if not step.lstrip("-").isdigit() or step == "0":
        raise scope.error(node, "the step of a range is a constant, and not 0")
    return begin, end, int(step)


def _begin(scope: Scope, node: ast.While | ast.For, head: Target) -> dict[str, Value]:
    """Go to the head of a loop; gives what the variables that its body assigns are there."""
    scope.jump(head)
    _, before = head.edges[0]
    scope.text.start(head.block)
    state = scope.state = before.fork()
    if node.lineno in scope.learnt or _may_run(scope, node):
        scope.note_run(node, "the loop")
    for place in {place for value in state.names.values() for place, _ in value.places}:
        if (node.lineno, place) in scope.learnt:
            state.note_taking(place, None, "the loop", node.lineno)
    carried = {}
    for name in sorted(_assigned(node) & state.names.keys()):
        carried[name] = value = _carry(scope, state, name, node.lineno)
        state.names[name] = value
    return carried


def _carry(scope: Scope, state: State, name: str, line: int) -> Value:
    """What a variable is at the head of a loop that assigns it: fleeting if the loop does, and read
    from the owned fields that the loop reads it from."""
    before, fleeting = state.names[name], (line, name) in scope.learnt
    value = replace(before, text=scope.text.fresh(name), type=scope.kinds[name])
    if before.own is not None and before.own in state.owned:
        debt = state.owned.pop(before.own)
        return state.own(value, debt.name, debt.line)
    origin = scope.parameters if isinstance(value.type, PointerType) else frozenset[str]()
    run = state.run if fleeting and before.run is None else before.run
    keys = [key for key in scope.learnt if isinstance(key, tuple) and len(key) == 3]
    read = {
        state.reading_of(place) for at, variable, place in keys if (at, variable) == (line, name)
    }
    return replace(value, run=run, origin=origin, places=before.places | read)


def _close(scope: Scope, node: ast.stmt, head: Target, carried: dict[str, Value]) -> None:
    """Write the phis of a loop, now that all ways to its head are known, and see that what is so
    at the head the first time is so every time."""
    (_, first), *back = head.edges
    for block_, state in back:
        if state.run != first.run and not _ran_at_head(scope, node):
            scope.learnt.add(getattr(node, "lineno", 0))
            raise Again
        _compare_takings(scope, node, state, first)
        _compare_debts(scope, node, state, carried, first)
        for name, value in carried.items():
            _compare(scope, node, name, value, state, first.owns(first.names[name]))
        del block_
    for name, value in carried.items():
        incoming = [(state.names[name].text, block_) for block_, state in head.edges]
        head.block.phis.append(phi(value.text, LLVMType(value.type.llvm), incoming))


def _ran_at_head(scope: Scope, node: ast.stmt) -> bool:
    return getattr(node, "lineno", 0) in scope.learnt or _may_run(scope, node)


def _compare_takings(scope: Scope, node: ast.stmt, state: State, first: State) -> None:
    """What a loop takes of owned fields is gone when it begins again."""
    line = getattr(node, "lineno", 0)
    read = {place for value in first.names.values() for place, _ in value.places}
    for place in read & state.takings.keys():
        key = line, place
        if state.takings[place] is not first.takings.get(place) and key not in scope.learnt:
            scope.learnt.add(key)
            raise Again


def _compare_debts(
    scope: Scope, node: ast.stmt, state: State, carried: dict[str, Value], first: State
) -> None:
    own = {state.names[n].own for n in carried if n in state.names}
    kept = first.owned.keys() - {first.names[n].own for n in carried}
    for number in state.owned.keys() - own - kept:
        debt = state.owned[number]
        raise scope.error(_behind(node), f"{debt.name}, owned since line {debt.line}, is lost when "
                          "the loop begins again: drop it before")  # fmt: skip
    for number in kept - state.owned.keys():
        debt = first.owned[number]
        raise scope.error(
            _behind(node),
            f"{debt.name} was {state.end_of(number)}, and is not there when the loop begins again",
        )


def _compare(
    scope: Scope, node: ast.stmt, name: str, value: Value, state: State, was_owned: bool
) -> None:
    behind = _behind(node)
    if name not in state.names:
        raise scope.error(behind, f"{name} is not known on every way to the loop's next turn")
    now = state.names[name]
    owned = state.owns(now)
    if was_owned != owned and now.type is not NULL:
        what = ("owned", "borrowed") if was_owned else ("borrowed", "owned")
        raise scope.error(
            behind, f"{name} is {what[0]} when the loop begins, and {what[1]} when it begins again"
        )
    if owned or not isinstance(now.type, PointerType):
        return
    fault = state.fault(now)
    if fault is None and now.run is not None and value.run is None:
        line = getattr(node, "lineno", 0)
        if not _ran_at_head(scope, node):
            scope.learnt.add((line, name))
            raise Again
    if fault is not None or (now.run is not None and value.run is None):
        raise scope.error(
            behind,
            f"{name} is read from where Python may change it, and carried around the loop: "
            "hold it where it is read",
        )
    if not now.inside <= value.inside:
        raise scope.error(behind, f"{name} may be gone when the loop begins again")
    places = {place for place, _ in now.places} - {place for place, _ in value.places}
    if places:
        scope.learnt.update((getattr(node, "lineno", 0), name, place) for place in places)
        raise Again


def _assigned(node: ast.While | ast.For) -> set[str]:
    inside = [inner for part in (*node.body, *_tests(node)) for inner in ast.walk(part)]
    return {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _tests(node: ast.While | ast.For) -> list[ast.AST]:
    return [node.test] if isinstance(node, ast.While) else []


def _may_run(scope: Scope, node: ast.stmt) -> bool:
    """Whether the functions that a loop calls may run Python."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name):
            fn = scope.globals.get(inner.func.id)
            if fn in (drop, drop_row) or (
                role_of(fn) is not None and fn and scope.program.runs(fn)
            ):
                return True
    return False


def _break(scope: Scope, node: ast.Break) -> bool:
    scope.jump(scope.loops[-1].done)
    return False


def _continue(scope: Scope, node: ast.Continue) -> bool:
    scope.jump(scope.loops[-1].again)
    return False


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
        scope.effects.gives.update(place for place, _ in value.places)
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
    scope.text.block.end = f"ret {result.llvm} {scope.narrowed(result, value.text)}"


STATEMENTS: Rules = {
    ast.Expr: _expression, ast.Pass: _pass, ast.Assign: _assign, ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented, ast.If: _if, ast.While: _while, ast.For: _for,
    ast.Break: _break, ast.Continue: _continue, ast.Return: _return,
}  # fmt: skip
