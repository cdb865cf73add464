"""Names, numbers, fields, elements, arithmetic and comparisons."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from staticflow.graph.articles import with_article
from staticflow.native.annotations import read_annotation, signature_of
from staticflow.native.language import role_of, symbol_of
from staticflow.native.layout import fields_of, slots_of, stride_of
from staticflow.native.ownership import OwnedField, Value
from staticflow.native.scope import UNKNOWN, Rules, Scope
from staticflow.native.source import Shown
from staticflow.native.types import (
    BOOL,
    FLOAT,
    INT,
    NULL,
    AtomicOf,
    Declared,
    ObjectOf,
    PointerType,
    RecordOf,
    RowOf,
    Type,
)

__all__ = [
    "EXPRESSIONS", "assign_element", "assign_field", "base_of", "element_of", "field_of", "lend",
    "row_field",
]  # fmt: skip


def _name(scope: Scope, node: ast.Name) -> Value:
    """A variable, or a number or constant of the module."""
    if node.id in scope.state.names:
        return scope.state.names[node.id]
    thing = scope.outside(node)
    if thing is UNKNOWN:
        known = "is not known on every way here" if node.id in scope.kinds else "is not known"
        raise scope.error(node, f"{node.id} {known}: give it a value before")
    return _of_module(scope, node, thing)


def _of_module(scope: Scope, node: ast.Name | ast.Attribute, thing: Any) -> Value:
    """A number, a function or a constant of a module."""
    name = ast.unparse(node)
    if isinstance(thing, bool | int):
        return _number(scope, node, thing)
    if role_of(thing) is not None:
        return _function(scope, name, thing)
    symbol = symbol_of(thing)
    if symbol is None:
        raise scope.error(node, f"{name} is {with_article(type(thing))} of Python: native code "
                          "has only numbers, and what `constant` makes")  # fmt: skip
    text = scope.program.symbol(symbol.name, symbol)
    type_ = read_annotation(symbol.kind).type
    return Value(text, type_, name=name, lasting=not _is_object(type_))


def _function(scope: Scope, name: str, fn: Callable[..., Any]) -> Value:
    """The address of a native function, or of one of C."""
    scope.program.runs(fn)  # notes that it has to be there
    return Value(f"@{scope.program.name(fn)}", PointerType(signature_of(fn).code), name=name)


def _constant(scope: Scope, node: ast.Constant) -> Value:
    if node.value is None:
        return Value("null", NULL)
    if isinstance(node.value, bool | int):
        return _number(scope, node, node.value)
    raise scope.error(node, f"native code has no {type(node.value).__name__} of its own")


def _number(scope: Scope, node: ast.expr, number: int) -> Value:
    if isinstance(number, bool):
        return Value(str(number).lower(), BOOL)
    if not -(1 << 63) <= number < 1 << 63:
        raise scope.error(node, f"{number} has more than 64 bits, one of which is the sign")
    return Value(str(number), INT)


def _assign_within(scope: Scope, node: ast.NamedExpr) -> Value:
    """``name := value``."""
    scope.rules[ast.Assign](scope, ast.copy_location(
        ast.Assign(targets=[node.target], value=node.value), node
    ))  # fmt: skip
    return scope.state.names[node.target.id]


# -- fields --------------------------------------------------------------------------------------


def field_of(scope: Scope, node: ast.Attribute) -> tuple[Value, Declared, str]:
    """What a field is of, what is declared of it, and where it lies."""
    base, type_ = scope.pointer(node.value)
    match type_.target:
        case RecordOf(cls):
            fields = fields_of(cls)
            if node.attr in fields:
                offset, declared = fields[node.attr]
                return base, declared, scope.at(base.text, offset)
        case ObjectOf(cls):
            slots = slots_of(cls)
            if node.attr in slots:
                where = scope.program.layout.offset(cls, node.attr)
                if where is None:
                    raise scope.error(
                        node, f"where {cls.__name__}.{node.attr} lies is not in the layout"
                    )
                return base, slots[node.attr], scope.at(base.text, where)
    raise scope.error(node, f"{type_} has no field {node.attr}")


def _attribute(scope: Scope, node: ast.Attribute) -> Value:
    """What a field holds, or something of a module that is named with it."""
    thing = scope.outside(node)
    if thing is not UNKNOWN:
        return _of_module(scope, node, thing)
    base, declared, address = field_of(scope, node)
    shown = Shown(node)
    if declared.length is not None or declared.atomic is not None:
        return replace(base.alias(), text=address, type=declared.type, name=shown)
    text = scope.load(declared, address, node.attr)
    if not isinstance(declared.type, PointerType):
        return Value(text, _register(declared.type))
    return _read(scope, base, declared, text, shown, (base_of(base), node.attr))


def base_of(base: Value) -> object:
    """The class of what has a field."""
    target = base.type.target if isinstance(base.type, PointerType) else None
    return target.cls if isinstance(target, ObjectOf | RecordOf) else target


def _read(
    scope: Scope, base: Value, declared: Declared, text: str, name: Shown, field: OwnedField
) -> Value:
    """A pointer that was read out of what ``base`` points to: it is fleeting if that is an object
    of Python or shared, and lives as long as a record of the call, or until what the
    ``field`` owns is taken."""
    type_ = declared.type
    assert isinstance(base.type, PointerType)
    assert isinstance(type_, PointerType)
    run = base.run
    match base.type.target:
        case ObjectOf():
            run = scope.state.run
        case RecordOf() as record if record.is_shared:
            run = scope.state.run
    origin = scope.parameters if base.local else base.origin  # whatever was written there
    read = base.read_from | {scope.state.reading_of(field)} if declared.owned else base.read_from
    return Value(
        text, type_, inside=base.depends, run=run, name=name, line=name.line, origin=origin,
        lasting=base.lasting, read_from=read,
    )  # fmt: skip


def _register(type_: Type) -> Type:
    return type_ if type_ in (BOOL, FLOAT) else INT


def assign_field(scope: Scope, node: ast.Attribute, value: Value, source: ast.expr) -> None:
    """Write a field. A slot of an object of Python takes a reference and drops what it had; an
    owned field of a record takes one; others hold what somebody else owns."""
    base, declared, address = field_of(scope, node)
    if declared.atomic is not None:
        raise scope.error(node, f"{ast.unparse(node)} is atomic: write it by its store")
    scope.check(source, value)
    scope.fit(source, value, declared.type)
    if declared.length is not None:
        raise scope.error(node, "a row that lies in a record is written by its elements")
    of_object = isinstance(base.type, PointerType) and isinstance(base.type.target, ObjectOf)
    counted = isinstance(declared.type, PointerType) and isinstance(declared.type.target, ObjectOf)
    if of_object and counted:
        scope.consume(source, value, Shown(node, "put into {}"))
        before = scope.text.op(f"load ptr, ptr {address}")
        scope.store(source, declared, address, value.text)
        scope.text.do(f"call void {scope.program.symbol('Py_DecRef')}(ptr {before})")
        scope.note_run(node, Shown(node, "the end of what {} held"))
        return
    if declared.owned:
        scope.consume(source, value, Shown(node, "put into {}"))
        _rebind(scope, source, base, (base_of(base), node.attr))
    elif isinstance(declared.type, PointerType):
        lend(scope, source, value, base)
    scope.store(source, declared, address, value.text)


def _rebind(scope: Scope, source: ast.expr, base: Value, field: OwnedField) -> None:
    """A variable whose reference a record took is from then on what the record holds."""
    if isinstance(source, ast.Name):
        before = scope.state.names[source.id]
        run = scope.state.run if _is_shared(base) else base.run
        read = base.read_from | {scope.state.reading_of(field)}
        scope.state.names[source.id] = replace(
            before, own=None, inside=base.depends, run=run, origin=base.origin, read_from=read
        )


def lend(scope: Scope, source: ast.expr, value: Value, base: Value, by: str = "") -> None:
    """A record may hold what it does not own only if that lives as long. If it is a function that
    writes it there, it is named."""
    by = by and f", into which {by} writes it,"
    if not value.depends <= base.depends:
        raise scope.error(
            source, f"{value.name} is owned here, or lives in what is, and the record{by} could "
            "hold it longer: let the field own it, or trust it and say why"
        )  # fmt: skip
    if value.run is not None and not _is_shared(base):
        raise scope.error(
            source, f"{value.name} is read from where Python may change it, and the record{by} "
            "would hold it longer: hold it, and write the variable into the record"
        )  # fmt: skip
    if value.local and not base.local:
        raise scope.error(
            source, f"{value.name} is memory of the call, and the record{by} may be there longer"
        )
    if value.origin and base.lasting and not _is_shared(base):
        raise scope.error(
            source, f"{value.name} is an argument, or comes from one, and {base.name}{by} stays "
            "when the call has ended: let it own the value, or let its record be shared"
        )  # fmt: skip
    scope.effects.keeps.update((a, b) for a in value.origin for b in base.origin if a != b)


def _is_object(type_: Type) -> bool:
    return isinstance(type_, PointerType) and isinstance(type_.target, ObjectOf)


def _is_shared(base: Value) -> bool:
    assert isinstance(base.type, PointerType)
    target = base.type.target
    return isinstance(target, RecordOf) and target.is_shared


# -- elements ------------------------------------------------------------------------------------


def element_of(scope: Scope, node: ast.Subscript) -> tuple[Value, Declared, str]:
    """The row, what its elements are, and the address of the one that is meant."""
    base, type_ = scope.pointer(node.value)
    if not isinstance(type_.target, RowOf):
        raise scope.error(node, f"{ast.unparse(node.value)} is {type_}, which has no elements")
    element = type_.target.element
    index = node.slice
    if isinstance(index, ast.Slice):
        if index.upper is not None or index.step is not None or index.lower is None:
            raise scope.error(node, "of a row there is only row[i] and row[i:]")
        index = index.lower
    where = scope.integer(index)
    if where == "0":
        return base, element, base.text
    step = stride_of(element)
    unit = _UNITS.get(step, f"[{step} x i8]")
    return base, element, scope.text.op(f"getelementptr {unit}, ptr {base.text}, i64 {where}")


_UNITS: Mapping[int, str] = {8: "i64", 4: "i32", 1: "i8"}


def _subscript(scope: Scope, node: ast.Subscript) -> Value:
    """``row[i]`` and ``row[i:]``."""
    base, element, address = element_of(scope, node)
    shown = Shown(node)
    if isinstance(node.slice, ast.Slice):
        return replace(base.alias(), text=address, name=shown)
    if _lies_inside(element):
        return replace(base.alias(), text=address, type=element.type, name=shown)
    text = scope.load(element, address, "element")
    if not isinstance(element.type, PointerType):
        return Value(text, _register(element.type))
    return _read(scope, base, element, text, shown, row_field(element))


def row_field(element: Declared) -> OwnedField:
    """All rows of what is owned."""
    return element.type, "[]"


def _lies_inside(element: Declared) -> bool:
    """Whether elements are records or atomic, and lie in the row themselves."""
    target = element.type.target if isinstance(element.type, PointerType) else None
    return isinstance(target, RecordOf | AtomicOf)


def assign_element(scope: Scope, node: ast.Subscript, value: Value, source: ast.expr) -> None:
    """Write an element."""
    base, element, address = element_of(scope, node)
    if isinstance(node.slice, ast.Slice) or _lies_inside(element):
        what = "by its store" if element.atomic else "by its fields"
        raise scope.error(node, f"only numbers and pointers are written: write this {what}")
    scope.check(source, value)
    scope.fit(source, value, element.type)
    if element.owned:
        scope.consume(source, value, Shown(node, "put into {}"))
        _rebind(scope, source, base, row_field(element))
    elif isinstance(element.type, PointerType):
        lend(scope, source, value, base)
    scope.store(source, element, address, value.text)


# -- arithmetic ----------------------------------------------------------------------------------

_ARITHMETIC: Mapping[type[ast.operator], tuple[str, Callable[[int, int], int]]] = {
    ast.Add: ("add", operator.add), ast.Sub: ("sub", operator.sub), ast.Mult: ("mul", operator.mul),
    ast.BitAnd: ("and", operator.and_), ast.BitOr: ("or", operator.or_),
    ast.BitXor: ("xor", operator.xor), ast.LShift: ("shl", operator.lshift),
    ast.RShift: ("ashr", operator.rshift),
}  # fmt: skip
"""The instruction, and what it does to constants."""

_LOGIC = (ast.BitAnd, ast.BitOr, ast.BitXor)
_SIGNED: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge",
}  # fmt: skip
_SAME: Mapping[type[ast.cmpop], str] = {ast.Is: "eq", ast.IsNot: "ne"}


def _arithmetic(scope: Scope, node: ast.BinOp) -> Value:
    """An operation on ints, or ``&``, ``|``, ``^`` of bools; what is larger than 64 bits wraps."""
    a, b = scope.value(node.left), scope.value(node.right)
    scope.check(node.left, a)
    if isinstance(node.op, ast.FloorDiv | ast.Mod):
        return _division(scope, node, a, b)
    if type(node.op) not in _ARITHMETIC:
        raise scope.error(node, "native code knows + - * // % & | ^ << >> of ints")
    instruction, compute = _ARITHMETIC[type(node.op)]
    if a.type is BOOL and b.type is BOOL and isinstance(node.op, _LOGIC):
        return Value(scope.text.op(f"{instruction} i1 {a.text}, {b.text}"), BOOL)
    scope.fit(node.left, a, INT)
    scope.fit(node.right, b, INT)
    is_shift = isinstance(node.op, ast.LShift | ast.RShift)
    if is_shift and _is_number(b) and not 0 <= int(b.text) < 64:
        raise scope.error(node, f"an int of 64 bits is not shifted by {b.text}")
    if _is_number(a) and _is_number(b):
        return _number(scope, node, compute(int(a.text), int(b.text)))
    return Value(scope.text.op(f"{instruction} i64 {a.text}, {b.text}"), INT)


def _is_number(value: Value) -> bool:
    return value.text.lstrip("-").isdigit()


def _division(scope: Scope, node: ast.BinOp, dividend: Value, divisor: Value) -> Value:
    """Emit ``dividend // divisor`` or ``dividend % divisor`` as Python rounds: the remainder has
    the sign of the divisor."""
    a, b = scope.fit(node.left, dividend, INT).text, scope.fit(node.right, divisor, INT).text
    text = scope.text
    rest = text.op(f"srem i64 {a}, {b}")
    signs = text.op(f"xor i64 {rest}, {b}")
    apart, uneven = text.op(f"icmp slt i64 {signs}, 0"), text.op(f"icmp ne i64 {rest}, 0")
    off = text.op(f"and i1 {apart}, {uneven}")
    if isinstance(node.op, ast.Mod):
        moved = text.op(f"add i64 {rest}, {b}")
        return Value(text.op(f"select i1 {off}, i64 {moved}, i64 {rest}"), INT)
    quotient, down = text.op(f"sdiv i64 {a}, {b}"), text.op(f"sext i1 {off} to i64")
    return Value(text.op(f"add i64 {quotient}, {down}"), INT)


def _compare(scope: Scope, node: ast.Compare) -> Value:
    """Compare ints and bools by ``==``, ``<`` and kin, and pointers by ``is``."""
    if len(node.ops) != 1:
        raise scope.error(node, "native code knows no chain of comparisons: write `and`")
    op, (other,) = type(node.ops[0]), node.comparators
    a = scope.value(node.left)
    b = scope.value(other)
    scope.check(node.left, a)
    pointers = [isinstance(v.type, PointerType) or v.type is NULL for v in (a, b)]
    if all(pointers):
        if op not in _SAME:
            raise scope.error(node, "objects are compared by `is` and `is not`")
        return Value(scope.text.op(f"icmp {_SAME[op]} ptr {a.text}, {b.text}"), BOOL)
    if a.type != b.type or op not in _SIGNED or a.type is FLOAT:
        raise scope.error(node, f"{a.type} and {b.type} are not compared so")
    if a.type is BOOL and op not in (ast.Eq, ast.NotEq):
        raise scope.error(node, "bools are compared by == and !=")
    llvm = "i1" if a.type is BOOL else "i64"
    return Value(scope.text.op(f"icmp {_SIGNED[op]} {llvm} {a.text}, {b.text}"), BOOL)


EXPRESSIONS: Rules = {
    ast.Name: _name, ast.Constant: _constant, ast.NamedExpr: _assign_within,
    ast.Attribute: _attribute, ast.Subscript: _subscript, ast.BinOp: _arithmetic,
    ast.Compare: _compare,
}  # fmt: skip
