"""The words of the language that are written as calls: ownership, memory, integers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from staticflow.codegen.llvm.text import Type as LLVMType
from staticflow.codegen.llvm.text import phi
from staticflow.graph.articles import with_article
from staticflow.native import language
from staticflow.native.annotations import read_annotation
from staticflow.native.expressions import base_of, element_of, field_of, lend, row_field
from staticflow.native.layout import alignment_of, fields_of, stride_of
from staticflow.native.ownership import OwnedField, Value
from staticflow.native.scope import Scope
from staticflow.native.source import Shown
from staticflow.native.types import (
    BOOL,
    FLOAT,
    INT,
    NULL,
    VOID,
    Declared,
    ObjectOf,
    PointerType,
    RecordOf,
    RowOf,
)

__all__ = ["WORDS"]

Word = Callable[[Scope, ast.Call], Value]


def _one(scope: Scope, node: ast.Call) -> ast.expr:
    return _several(scope, node, 1)[0]


def _several(scope: Scope, node: ast.Call, least: int, most: int | None = None) -> list[ast.expr]:
    if not least <= len(node.args) <= (most or least):
        raise scope.error(node, f"{ast.unparse(node.func)} takes {most or least} arguments")
    return node.args


# -- ownership -----------------------------------------------------------------------------------


def _object(scope: Scope, node: ast.expr) -> Value:
    value = scope.value(node)
    counted = isinstance(value.type, PointerType) and isinstance(value.type.target, ObjectOf)
    if not counted and value.type is not NULL:
        raise scope.error(node, f"{ast.unparse(node)} is {value.type}: only objects are counted")
    return value


def _hold(scope: Scope, node: ast.Call) -> Value:
    argument = _one(scope, node)
    value = _object(scope, argument)
    if value.own is not None and not isinstance(argument, ast.Name):
        raise scope.error(node, f"{ast.unparse(argument)} is owned already")
    scope.text.do(f"call void {scope.program.symbol('Py_IncRef')}(ptr {value.text})")
    return scope.own(node, value, value.name or Shown(node))


def _drop(scope: Scope, node: ast.Call) -> Value:
    argument = _one(scope, node)
    value = scope.value(argument)
    if isinstance(value.type, PointerType) and isinstance(value.type.target, RecordOf):
        scope.consume(argument, value, "dropped")
        _drop_element(scope, Declared(value.type), value.text)
    else:
        value = _object(scope, argument)
        scope.consume(argument, value, "dropped")
        scope.text.do(f"call void {scope.program.symbol('Py_DecRef')}(ptr {value.text})")
    scope.note_run(node, Shown(node))
    return Value("", VOID)


def _drop_row(scope: Scope, node: ast.Call) -> Value:
    row, number = _several(scope, node, 2)
    value, type_ = scope.pointer(row)
    count = scope.integer(number)
    if not isinstance(type_.target, RowOf):
        raise scope.error(node, f"{ast.unparse(row)} is {type_}, no row")
    scope.consume(row, value, "dropped")
    element, text = type_.target.element, scope.text
    before, head, one, done = text.block, *map(text.new_block, ("more", "one", "dropped"))
    text.jump(head)
    text.start(head)
    i, following = text.fresh("i"), text.fresh("next")
    text.branch(text.op(f"icmp slt i64 {i}, {count}"), one, done)
    text.start(one)
    at = text.op(f"getelementptr [{stride_of(element)} x i8], ptr {value.text}, i64 {i}")
    _drop_element(scope, element, at)
    text.do(f"{following} = add i64 {i}, 1")
    head.phis.append(phi(i, LLVMType("i64"), [("0", before), (following, text.block)]))
    text.jump(head)
    text.start(done)
    scope.note_run(node, Shown(node))
    return Value("", VOID)


def _drop_element(scope: Scope, element: Declared, at: str) -> None:
    """Drop the references that a record owns, or one that lies at an address."""
    offsets = [0]
    if _is_record(element):
        assert isinstance(element.type, PointerType)
        assert isinstance(element.type.target, RecordOf)
        fields = fields_of(element.type.target.cls).values()
        offsets = [offset for offset, declared in fields if declared.owned]
    for offset in offsets:
        thing = scope.text.op(f"load ptr, ptr {scope.at(at, offset)}")
        scope.text.do(f"call void {scope.program.symbol('Py_DecRef')}(ptr {thing})")


def _take(scope: Scope, node: ast.Call) -> Value:
    argument = _one(scope, node)
    if isinstance(argument, ast.Attribute):
        base, declared, address = field_of(scope, argument)
        field: OwnedField = (base_of(base), argument.attr)
    elif isinstance(argument, ast.Subscript):
        base, declared, address = element_of(scope, argument)
        field = row_field(declared)
    else:
        raise scope.error(node, "only the field of a record, or an element, is taken")
    scope.check(argument, base)
    if not declared.owned or not isinstance(declared.type, PointerType):
        raise scope.error(node, f"{ast.unparse(argument)} is not owned where it lies")
    text = scope.load(declared, address, "taken")
    scope.text.do(f"store ptr null, ptr {address}")
    taken = scope.own(node, Value(text, declared.type), Shown(argument))
    scope.state.note_taking(field, taken.own, Shown(node), node.lineno)
    if not base.local:
        scope.effects.takes.add(field)
    return taken


def _trust(scope: Scope, node: ast.Call) -> Value:
    argument, kind, reason = _several(scope, node, 3)
    if not (isinstance(reason, ast.Constant) and isinstance(reason.value, str) and reason.value):
        raise scope.error(node, "the reason is to be written out")
    value = scope.rules[type(argument)](scope, argument)  # which may be gone, as far as is known
    assert isinstance(value, Value)
    if value.own is not None and not isinstance(argument, ast.Name):
        raise scope.error(node, f"{ast.unparse(argument)} is owned: trust a variable that it is")
    if not isinstance(value.type, PointerType):
        raise scope.error(node, f"{ast.unparse(argument)} is {value.type}, no pointer")
    declared = _kind(scope, kind)
    shown, line, origin = Shown(argument), node.lineno, value.origin
    known = Value(
        value.text, declared.type, name=shown, line=line, origin=origin, lasting=value.lasting,
        read_from=value.read_from,
    )  # fmt: skip
    is_row = isinstance(declared.type, PointerType) and isinstance(declared.type.target, RowOf)
    if is_row or not declared.owned:
        return known
    if scope.state.owns(value):
        scope.consume(argument, value, "trusted as another kind")
    return scope.own(node, known, shown)


def _kind(scope: Scope, node: ast.expr) -> Declared:
    """What an expression that is an annotation means."""
    try:
        hint = eval(compile(ast.Expression(node), scope.source.file, "eval"), dict(scope.globals))
        return read_annotation(hint)
    except (TypeError, NameError, AttributeError) as error:
        raise scope.error(node, f"{ast.unparse(node)} is no kind of value: {error}") from error


# -- memory --------------------------------------------------------------------------------------


def _zero_record(scope: Scope, node: ast.Call) -> Value:
    element = _kind(scope, _one(scope, node))
    if not _is_record(element):
        raise scope.error(node, f"{element} is no record")
    at = _alloca(scope, f"[{stride_of(element)} x i8]", element)
    _clear(scope, at, str(stride_of(element)))
    value = Value(at, element.type, local=True, name=Shown(node), line=node.lineno)
    return scope.own(node, value, value.name) if _owns(element) else value


def _zero_row(scope: Scope, node: ast.Call) -> Value:
    value, element, count = _row(scope, node)
    if not _is_record(element):
        raise scope.error(node, f"{element} is no record")
    size = stride_of(element)
    bytes_ = (
        str(int(count) * size) if count.isdigit() else scope.text.op(f"mul i64 {count}, {size}")
    )
    _clear(scope, value.text, bytes_)
    return scope.own(node, value, value.name) if _owns(element) else value


def _space(scope: Scope, node: ast.Call) -> Value:
    value, element, _ = _row(scope, node)
    return scope.own(node, value, value.name) if element.owned else value


def _row(scope: Scope, node: ast.Call) -> tuple[Value, Declared, str]:
    """Memory of the call for a constant number of elements, or for one that is not above a bound,
    which is looked at."""
    kind, number, *bound = _several(scope, node, 2, 3)
    element = _kind(scope, kind)
    count = scope.integer(number)
    unit = f"[{stride_of(element)} x i8]"
    if count.isdigit():
        at = _alloca(scope, f"[{count} x {unit}]", element)
    else:
        most = scope.integer(bound[0]) if bound else ""
        if not most.isdigit():
            raise scope.error(node, f"{ast.unparse(number)} is no constant: give a bound, too, "
                              "which is one")  # fmt: skip
        if scope.loops:
            raise scope.error(node, "memory of the call would grow with a loop: make it before")
        _require(scope, count, most)
        at = scope.text.op(f"alloca {unit}, i64 {count}, align {alignment_of(element)}")
    type_ = PointerType(RowOf(element))
    shown = Shown(node)
    return Value(at, type_, local=True, name=shown, line=node.lineno), element, count


def _require(scope: Scope, count: str, most: str) -> None:
    """Stop the process where there would be more elements than a bound says."""
    many, few = scope.text.new_block("many"), scope.text.new_block("few")
    over = scope.text.op(f"icmp ugt i64 {count}, {most}")
    scope.text.branch(over, many, few)
    scope.text.start(many)
    scope.text.do("call void @llvm.trap()")
    scope.text.start(few)


def _alloca(scope: Scope, unit: str, element: Declared) -> str:
    with scope.text.at(scope.text.entry):
        return scope.text.op(f"alloca {unit}, align {alignment_of(element)}")


def _clear(scope: Scope, at: str, bytes_: str) -> None:
    scope.text.do(f"call void @llvm.memset.p0.i64(ptr align 8 {at}, i8 0, i64 {bytes_}, i1 false)")


def _is_record(element: Declared) -> bool:
    return isinstance(element.type, PointerType) and isinstance(element.type.target, RecordOf)


def _owns(element: Declared) -> bool:
    """Whether records have to be given back, since they own something."""
    assert isinstance(element.type, PointerType)
    assert isinstance(element.type.target, RecordOf)
    return any(declared.owned for _, declared in fields_of(element.type.target.cls).values())


def _copy(scope: Scope, node: ast.Call) -> Value:
    first, second, number = _several(scope, node, 3)
    target, target_type = scope.pointer(first)
    source, source_type = scope.pointer(second)
    if target_type != source_type or not isinstance(target_type.target, RowOf):
        raise scope.error(node, f"{target_type} and {source_type} are no rows of one kind")
    element = target_type.target.element
    if isinstance(element.type, PointerType) and not _is_record(element):
        lend(scope, second, replace(source, local=False), target)  # as each of its elements
    count = scope.integer(number)
    bytes_ = scope.text.op(f"mul i64 {count}, {stride_of(element)}")
    scope.text.do(
        f"call void @llvm.memcpy.p0.p0.i64(ptr {target.text}, ptr {source.text}, i64 {bytes_}, "
        "i1 false)"
    )
    return Value("", VOID)


def _address(scope: Scope, node: ast.Call) -> Value:
    value, _ = scope.pointer(_one(scope, node))
    return Value(scope.text.op(f"ptrtoint ptr {value.text} to i64"), INT)


def _size_of(scope: Scope, node: ast.Call) -> Value:
    kind = _kind(scope, _one(scope, node))
    if _is_record(kind):
        return Value(str(stride_of(kind)), INT)
    sizes = scope.program.layout.sizes
    cls = _class(scope, node.args[0])
    if cls not in sizes:
        raise scope.error(node, f"how large {with_article(cls)} is is not in the layout")
    return Value(str(sizes[cls]), INT)


def _offset_of(scope: Scope, node: ast.Call) -> Value:
    kind, slot = _several(scope, node, 2)
    cls = _class(scope, kind)
    name = str(slot.value) if isinstance(slot, ast.Constant) else ""
    where = scope.program.layout.offset(cls, name)
    if where is None:
        raise scope.error(node, f"where {cls.__name__}.{name} lies is not in the layout")
    return Value(str(where), INT)


def _class(scope: Scope, node: ast.expr) -> type:
    kind = _kind(scope, node).type
    if not isinstance(kind, PointerType) or not isinstance(kind.target, ObjectOf):
        raise scope.error(node, f"{ast.unparse(node)} is no class of Python")
    return kind.target.cls


# -- integers ------------------------------------------------------------------------------------


def _of_two(instruction: str, result: Any = INT) -> Word:
    """A word that is one instruction on two ints."""

    def word(scope: Scope, node: ast.Call) -> Value:
        first, second = _several(scope, node, 2)
        a, b = scope.integer(first), scope.integer(second)
        return Value(scope.text.op(f"{instruction} i64 {a}, {b}"), result)

    return word


def _least(intrinsic: str) -> Word:
    def word(scope: Scope, node: ast.Call) -> Value:
        first, second = _several(scope, node, 2)
        a, b = scope.integer(first), scope.integer(second)
        return Value(scope.text.op(f"call i64 @llvm.{intrinsic}.i64(i64 {a}, i64 {b})"), INT)

    return word


def _int(scope: Scope, node: ast.Call) -> Value:
    argument = _one(scope, node)
    return Value(scope.text.op(f"zext i1 {scope.boolean(argument)} to i64"), INT)


def _bits_of(scope: Scope, node: ast.Call) -> Value:
    number = scope.of_type(_one(scope, node), FLOAT)
    return Value(scope.text.op(f"bitcast double {number} to i64"), INT)


WORDS: Mapping[Any, Word] = {
    language.hold: _hold, language.drop: _drop, language.drop_row: _drop_row, language.take: _take,
    language.trust: _trust, language.zero_record: _zero_record, language.zero_row: _zero_row,
    language.space: _space, language.copy: _copy, language.address: _address,
    language.size_of: _size_of, language.offset_of: _offset_of,
    language.unsigned_less: _of_two("icmp ult", BOOL),
    language.logical_shift: _of_two("lshr"), language.wrapping_mul: _of_two("mul"),
    language.bits_of: _bits_of, int: _int, min: _least("smin"), max: _least("smax"),
}  # fmt: skip
