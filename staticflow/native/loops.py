"""Loops, and what is known where they begin again.

At the head of a loop it is not known yet what its body does: what is learnt there, such as that it
may run Python, is noted, and the function is translated once more.
"""

from __future__ import annotations

import ast
import functools
from dataclasses import replace

from staticflow.codegen.llvm.text import BasicBlock, phi
from staticflow.codegen.llvm.text import Type as LLVMType
from staticflow.native.conditions import branch
from staticflow.native.language import drop, drop_row, role_of
from staticflow.native.ownership import State, Target, Value
from staticflow.native.scope import Again, Loop, Rules, Scope
from staticflow.native.statements import behind, block
from staticflow.native.types import INT, NULL, PointerType

__all__ = ["LOOPS"]


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
    return scope.enter(behind(node), done)


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
    return scope.enter(behind(node), done)


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
    for field in {field for value in state.names.values() for field, _ in value.read_from}:
        if (node.lineno, field) in scope.learnt:
            state.note_taking(field, None, "the loop", node.lineno)
    carried = {}
    for name in sorted(_assigned_names(node) & state.names.keys()):
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
        state.reading_of(field) for at, variable, field in keys if (at, variable) == (line, name)
    }
    return replace(value, run=run, origin=origin, read_from=before.read_from | read)


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
    read = {field for value in first.names.values() for field, _ in value.read_from}
    for field in read & state.takings.keys():
        key = line, field
        if state.takings[field] is not first.takings.get(field) and key not in scope.learnt:
            scope.learnt.add(key)
            raise Again


def _compare_debts(
    scope: Scope, node: ast.stmt, state: State, carried: dict[str, Value], first: State
) -> None:
    own = {state.names[n].own for n in carried if n in state.names}
    kept = first.owned.keys() - {first.names[n].own for n in carried}
    for number in state.owned.keys() - own - kept:
        debt = state.owned[number]
        raise scope.error(behind(node), f"{debt.name}, owned since line {debt.line}, is lost when "
                          "the loop begins again: drop it before")  # fmt: skip
    for number in kept & own & state.owned.keys():
        debt = first.owned[number]
        raise scope.error(
            behind(node),
            f"{debt.name}, owned since line {debt.line}, is {state.owned[number].name}'s when the "
            f"loop begins again: write hold({debt.name})",
        )
    for number in kept - state.owned.keys():
        debt = first.owned[number]
        raise scope.error(
            behind(node),
            f"{debt.name} was {state.end_of(number)}, and is not there when the loop begins again",
        )


def _compare(
    scope: Scope, node: ast.stmt, name: str, value: Value, state: State, was_owned: bool
) -> None:
    end = behind(node)
    if name not in state.names:
        raise scope.error(end, f"{name} is not known on every way to the loop's next turn")
    now = state.names[name]
    owned = state.owns(now)
    if was_owned != owned and now.type is not NULL:
        what = ("owned", "borrowed") if was_owned else ("borrowed", "owned")
        raise scope.error(
            end, f"{name} is {what[0]} when the loop begins, and {what[1]} when it begins again"
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
            end,
            f"{name} is read from where Python may change it, and carried around the loop: "
            "hold it where it is read",
        )
    if not now.inside <= value.inside:
        raise scope.error(end, f"{name} may be gone when the loop begins again")
    fields = {field for field, _ in now.read_from} - {field for field, _ in value.read_from}
    if fields:
        scope.learnt.update((getattr(node, "lineno", 0), name, field) for field in fields)
        raise Again


@functools.lru_cache
def _assigned_names(node: ast.While | ast.For) -> set[str]:
    """The variables that the body of a loop assigns, found once: loops in loops are translated
    again and again, until nothing is learnt of those around them."""
    inside = [inner for part in (*node.body, *_tests(node)) for inner in ast.walk(part)]
    return {n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _tests(node: ast.While | ast.For) -> list[ast.AST]:
    return [node.test] if isinstance(node, ast.While) else []


def _may_run(scope: Scope, node: ast.stmt) -> bool:
    """Whether the functions that a loop calls may run Python."""
    for called in _called_in(node):
        fn = scope.outside(called)
        if fn in (drop, drop_row) or (role_of(fn) is not None and scope.program.runs(fn)):
            return True
    return False


@functools.lru_cache
def _called_in(node: ast.stmt) -> list[ast.expr]:
    """The expressions that are called anywhere inside of a loop; a loop is walked once, and what
    was found is remembered."""
    return [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]


def _break(scope: Scope, node: ast.Break) -> bool:
    scope.jump(scope.loops[-1].done)
    return False


def _continue(scope: Scope, node: ast.Continue) -> bool:
    scope.jump(scope.loops[-1].again)
    return False


LOOPS: Rules = {
    ast.While: _while, ast.For: _for, ast.Break: _break, ast.Continue: _continue,
}  # fmt: skip
