"""Calls of what an `Atomic` does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from staticflow.native.ownership import Value
from staticflow.native.scope import Scope
from staticflow.native.types import BOOL, INT, VOID, AtomicOf, IntType, PointerType

__all__ = ["STEPS"]

_ORDERS: Mapping[str, str] = {
    "relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel",
    "seq_cst": "seq_cst",
}  # fmt: skip
_LOADING = ("relaxed", "acquire", "seq_cst")
_STORING = ("relaxed", "release", "seq_cst")
_FAILING: Mapping[str, str] = {"acquire": "acquire", "acq_rel": "acquire", "seq_cst": "seq_cst"}
"""The order of a `compare_exchange` that stores nothing, where it is not relaxed."""


def _find_atomic(scope: Scope, node: ast.expr) -> tuple[str, IntType]:
    """Where an atomic number lies, and its type."""
    value = scope.value(node)
    atomic = value.type.target if isinstance(value.type, PointerType) else None
    if not isinstance(atomic, AtomicOf):
        raise scope.error(node, f"{ast.unparse(node)} is {value.type}, which is not atomic")
    return value.text, atomic.number


def _arguments(
    scope: Scope, node: ast.Call, count: int, orders: tuple[str, ...] = (*_ORDERS,)
) -> tuple[list[str], str]:
    """The numbers that a step is given, and its order."""
    *_, name = ast.unparse(node.func).split(".")
    numbers, rest = node.args[:count], node.args[count:]
    takes = f"{name} takes {count} int{'' if count == 1 else 's'}"
    match rest:
        case []:
            order = "seq_cst"
        case [ast.Constant(str(order))] if order in orders:
            pass
        case _:
            raise scope.error(node, f"{takes}, and one of {', '.join(orders)}")
    if len(numbers) < count:
        raise scope.error(node, f"{takes}, not {len(numbers)}")
    return [scope.integer(number) for number in numbers], order


def _load(scope: Scope, node: ast.Call, atomic: ast.expr) -> Value:
    at, type_ = _find_atomic(scope, atomic)
    _, order = _arguments(scope, node, 0, _LOADING)
    kind, end = type_.llvm, f"{_ORDERS[order]}, align {type_.bits // 8}"
    return Value(scope.widen(type_, scope.text.op(f"load atomic {kind}, ptr {at} {end}")), INT)


def _store(scope: Scope, node: ast.Call, atomic: ast.expr) -> Value:
    at, type_ = _find_atomic(scope, atomic)
    (value,), order = _arguments(scope, node, 1, _STORING)
    number, end = scope.narrow(node, type_, value), f"{_ORDERS[order]}, align {type_.bits // 8}"
    scope.text.do(f"store atomic {type_.llvm} {number}, ptr {at} {end}")
    return Value("", VOID)


def _fetch_add(scope: Scope, node: ast.Call, atomic: ast.expr) -> Value:
    at, type_ = _find_atomic(scope, atomic)
    (more,), order = _arguments(scope, node, 1)
    number = f"{type_.llvm} {scope.narrow(node, type_, more)}"
    before = scope.text.op(f"atomicrmw add ptr {at}, {number} {_ORDERS[order]}")
    return Value(scope.widen(type_, before), INT)


def _compare_exchange(scope: Scope, node: ast.Call, atomic: ast.expr) -> Value:
    at, type_ = _find_atomic(scope, atomic)
    numbers, order = _arguments(scope, node, 2)
    kind, orders = type_.llvm, f"{_ORDERS[order]} {_ORDERS[_FAILING.get(order, 'relaxed')]}"
    before, after = (f"{kind} {scope.narrow(node, type_, number)}" for number in numbers)
    pair = scope.text.op(f"cmpxchg ptr {at}, {before}, {after} {orders}")
    return Value(scope.text.op(f"extractvalue {{ {kind}, i1 }} {pair}, 1"), BOOL)


STEPS: Mapping[str, Callable[[Scope, ast.Call, ast.expr], Value]] = {
    "load": _load, "store": _store, "fetch_add": _fetch_add, "compare_exchange": _compare_exchange,
}  # fmt: skip
"""The methods of an atomic number: by the name of each, the function that translates its call."""
