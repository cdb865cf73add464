"""Rewrite rules as data: a pattern and a replacement, both written with the ops' own operators.

A pattern is a function of variables: ``lambda x: x * 1``. Called with `Var` objects, the operators
build the pattern instead of a node. The replacement is a function of the same variables, called
with the symbols that matched; giving None declines. Attributes that a pattern names must be equal;
one given as `attr` is bound to its name. What has several spellings is `either` of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from staticflow.errors import SymbolicError, VerifyError
from staticflow.graph.locs import using
from staticflow.graph.node import Node, constant, param
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import maximum, minimum
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.expand import expand
from staticflow.ops.declaring.late import behind
from staticflow.ops.symbols.symbol import Symbol
from staticflow.ops.tensors.methods import Methods

__all__ = [
    "Pattern", "Rule", "attr", "either", "match", "number_of", "rewrite_node",
    "rule", "table_of",
]  # fmt: skip

_SELECTIVE = (maximum, minimum)
"""Ops whose arguments may change places but for which of two equal ones they give, as of zeros."""


class _PatternMode:
    """Builds patterns. Outranks the other modes, though patterns never meet symbols."""

    rank = 2

    def apply(self, op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> Pattern:
        return Pattern(op, tuple(args), dict(attrs))


class Pattern(Methods):
    """Matches a node of ``op`` whose arguments match ``args``; numbers match equal constants."""

    __slots__ = ("args", "attrs", "op")
    __sf_mode__ = _PatternMode()

    def __init__(self, op: Op | None, args: tuple[Any, ...], attrs: dict[str, Any]) -> None:
        self.op, self.args, self.attrs = op, args, attrs


class Var(Pattern):
    """Matches anything, the same node wherever it stands in the pattern."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__(None, (), {})
        self.name = name


class Many(Pattern):
    """In the place of all arguments of a pattern: matches any number of them, bound to ``name`` as
    a tuple."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        super().__init__(None, (), {})
        self.name = name


class Either(Pattern):
    """Matches what one of ``options`` does, the first that fits."""

    __slots__ = ("options",)

    def __init__(self, options: tuple[Pattern, ...]) -> None:
        super().__init__(None, (), {})
        self.options = options


def either(*options: Any) -> Any:
    """In a pattern: one of several spellings, none of which is the whole pattern."""
    return Either(options)


@dataclass(frozen=True, slots=True)
class attr:
    """In a pattern: any value of this attribute, bound to ``name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Rule:
    """``pattern`` becomes what ``replace`` gives. ``identity`` says why that is the same."""

    name: str
    identity: str
    pattern: Pattern
    replace: Callable[..., Any]


def rule(
    name: str, identity: str, pattern: Callable[..., Any], replace: Callable[..., Any]
) -> Rule:
    """A rule from two functions of the same variables."""
    variables = {v: Var(v) for v in inspect.signature(pattern).parameters}
    built = pattern(**variables)
    if not isinstance(built, Pattern) or built.op is None:
        raise SymbolicError(f"the pattern of rule {name} must be an operation")
    return Rule(name, identity, built, replace)


def number_of(node: Node) -> bool | int | float | None:
    """The number that a constant or filled tensor has everywhere, None if it is no such node."""
    number: bool | int | float
    if node.op is full:
        number = node.attrs["value"]
        return number
    if node.op is constant and node.attrs["value"].array.size == 1:
        number = node.attrs["value"].array.item()
        return number
    return None


def match(
    pattern: Any,
    node: Node,
    bound: dict[str, Any],
    closed: Collection[Node] = (),
    sized: bool = False,
) -> bool:
    """Whether ``node`` is of the form of ``pattern``; binds variables and attributes. What is in a
    ``closed`` node is not looked into. ``sized``: an attribute above tells of dims, as that of a
    sum does, so that a number must not stretch the node."""
    if not isinstance(pattern, Pattern):
        number = number_of(node)
        return number is not None and _same_number(number, pattern)
    if isinstance(pattern, Var):
        return _is_same(bound.setdefault(pattern.name, node), node)
    if isinstance(pattern, Either):
        return any(_match_trial(option, node, bound, closed, sized) for option in pattern.options)
    if node.op is not pattern.op or node in closed or (sized and _stretches(pattern, node)):
        return False
    if len(pattern.args) == 1 and isinstance(pattern.args[0], Many):
        bound[pattern.args[0].name] = node.args
        return _match_attrs(pattern.attrs, node.attrs, bound)
    if len(node.args) != len(pattern.args):
        return False
    if not _match_attrs(pattern.attrs, node.attrs, bound):
        return False
    sized = sized or bool(pattern.attrs)
    orders = [node.args]
    if node.op.commutes or node.op in _SELECTIVE:
        orders.append(node.args[::-1])
    for args in orders:
        trial = dict(bound)
        pairs = zip(pattern.args, args, strict=True)
        if all(match(p, a, trial, closed, sized) for p, a in pairs):
            bound.update(trial)
            return True
    return False


def _stretches(pattern: Pattern, node: Node) -> bool:
    """Whether a number of ``pattern`` is a filled tensor in ``node`` that gives it more elements
    than its other arguments have: a replacement, which is told of the number's value alone, would
    not have these."""
    if all(isinstance(p, Pattern) for p in pattern.args):
        return False
    filled = [a for a in node.args if number_of(a) is not None]
    if not any(a.tensor_type.ndim for a in filled):
        return False
    return all(a in filled or a.type != node.type for a in node.args)


def _match_trial(
    pattern: Pattern, node: Node, bound: dict[str, Any], closed: Collection[Node], sized: bool
) -> bool:
    """`match`, which binds nothing where it fails."""
    trial = dict(bound)
    if not match(pattern, node, trial, closed, sized):
        return False
    bound.update(trial)
    return True


_DEEP = 6


def _is_same(a: Node, b: Node, depth: int = _DEEP) -> bool:
    """Whether two nodes compute the same, as far as ``depth`` arguments up tell: a graph that is
    not closed yet may have what a person wrote twice."""
    if a is b:
        return True
    return (
        depth > 0 and a.op is b.op and a.op is not param and len(a.args) == len(b.args)
        and dict(a.attrs) == dict(b.attrs)
        and all(_is_same(x, y, depth - 1) for x, y in zip(a.args, b.args, strict=True))
    )  # fmt: skip


def _same_number(a: Any, b: Any) -> bool:
    """Equal, telling 0.0 from -0.0."""
    return bool(a == b) and str(float(a)) == str(float(b))


def _match_attrs(
    pattern: Mapping[str, Any], attrs: Mapping[str, Any], bound: dict[str, Any]
) -> bool:
    for name, wanted in pattern.items():
        value = attrs[name]
        if isinstance(wanted, attr):
            if wanted.name in bound and bound[wanted.name] != value:
                return False
            bound[wanted.name] = value
        elif wanted != value:
            return False
    return True


def _replacement(r: Rule, bound: Mapping[str, Any]) -> Node | None:
    """What a rule makes of what its pattern has ``bound``, None if it does not apply."""
    values = {k: _as_symbols(v) for k, v in bound.items()}
    result = r.replace(**values)
    return result.node if isinstance(result, Symbol) else None


def _as_symbols(value: Any) -> Any:
    """What a pattern bound, as a replacement is given it."""
    if isinstance(value, tuple) and value and isinstance(value[0], Node):
        return tuple(map(Symbol, value))
    return Symbol(value) if isinstance(value, Node) else value


def table_of(rules: Iterable[Rule]) -> dict[Op, list[Rule]]:
    """The rules by the op that a node has for them to apply."""
    table: dict[Op, list[Rule]] = {}
    for r in rules:
        assert r.pattern.op is not None
        table.setdefault(r.pattern.op, []).append(r)
    return table


def rewrite_node(
    node: Node, table: Mapping[Op, Sequence[Rule]], closed: Collection[Node] = ()
) -> tuple[Node, Rule] | None:
    """What the first rule of ``table`` that applies makes of ``node``, and the rule; None if none
    does. It has the node's dtype and, if need be, is stretched to its shape."""
    for r in table.get(node.op, ()):
        bound: dict[str, Any] = {}
        if match(r.pattern, node, bound, closed):
            with using(node.locs), behind(node.args):
                found = _replacement(r, bound)
                if found is not None:
                    return _as_type_of(found, node, r), r
    return None


def _as_type_of(found: Node, node: Node, r: Rule) -> Node:
    if found.type == node.type:
        return found
    if found.tensor_type.dtype is not node.tensor_type.dtype:
        raise VerifyError(f"rule {r.name} made {found.type} of {node.type}")
    stretched: Node = expand(Symbol(found), node.tensor_type.shape).node
    return stretched
