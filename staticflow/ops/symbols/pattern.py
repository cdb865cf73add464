"""Rewrite rules as data: a pattern and a replacement, both written with the ops' own operators.

A pattern is a function of variables: ``lambda x: x * 1``. Called with `Var` objects, the operators
build the pattern instead of a node. The replacement is a function of the same variables, called
with the symbols that matched; giving None declines. Attributes that a pattern names must be equal;
one given as `attr` is bound to its name. What has several spellings is `either` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.errors import SymbolicError, VerifyError
from staticflow.graph.locs import using
from staticflow.graph.node import Node, constant, param
from staticflow.graph.op import Op
from staticflow.ops.basics.arithmetic import div, maximum, minimum, mul, neg, sub
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.expand import expand
from staticflow.ops.declaring.late import behind
from staticflow.ops.symbols.symbol import Symbol
from staticflow.ops.tensors.methods import Methods

__all__ = [
    "Pattern", "Rule", "RuleTable", "attr", "either", "match", "number_of", "rewrite_node", "rule",
    "spellings",
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


@dataclass(frozen=True, slots=True, eq=False)
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
    (found,) = spellings(name, identity, replace, pattern)
    return found


def spellings(
    name: str, identity: str, replace: Callable[..., Any], *patterns: Callable[..., Any]
) -> tuple[Rule, ...]:
    """A rule for each of several patterns of the same variables, each a function of these that
    gives a pattern or several."""
    found = []
    for pattern in patterns:
        code = pattern.__code__
        built = pattern(**{v: Var(v) for v in code.co_varnames[: code.co_argcount]})
        for each in built if isinstance(built, tuple) else (built,):
            if not isinstance(each, Pattern) or each.op is None:
                raise SymbolicError(f"the pattern of rule {name} must be an operation")
            found.append(Rule(name, identity, each, replace))
    return tuple(found)


def number_of(node: Node) -> bool | int | float | None:
    """The number that a constant or filled tensor has everywhere, None if it is no such node."""
    number: bool | int | float
    if node.op is full:
        number = node.attrs["value"]
        return float(number) if node.tensor_type.dtype.is_floating else number  # 0 has no sign
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
    if pattern.op is neg and _is_minus_bound(pattern.args[0], node, bound, closed):
        return True
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
    if _changes_places(node.op):
        orders.append(node.args[::-1])
    for args in orders:
        trial = dict(bound)
        pairs = zip(pattern.args, args, strict=True)
        if all(match(p, a, trial, closed, sized) for p, a in pairs):
            bound.update(trial)
            return True
    return False


def _is_minus_bound(
    pattern: Any, node: Node, bound: Mapping[str, Any], closed: Collection[Node]
) -> bool:
    """Whether ``node`` is minus what the variable ``pattern`` is bound to, though it is no
    negation: minus ``-y`` is ``y``."""
    if not isinstance(pattern, Var):
        return False
    value = bound.get(pattern.name)
    return isinstance(value, Node) and value not in closed and _is_minus(value, node)


def _is_minus(a: Node, b: Node) -> bool:
    """Whether ``b = -a`` without a negation: ``a`` is one, or their numbers have opposite signs, or
    they are differences of the same the other way round."""
    if a.op is neg:
        return _is_same(a.args[0], b)
    if a.op is not b.op:
        return False
    if a.op is sub:
        return all(map(_is_same, a.args, reversed(b.args)))
    if a.op is div:
        orders = [b.args]
    elif a.op is mul:
        orders = [b.args, b.args[::-1]]
    else:
        return False
    return any(
        (_is_same(x, u) and _are_opposite(y, v)) or (_are_opposite(x, u) and _is_same(y, v))
        for x, y in (a.args,)
        for u, v in orders
    )


def _are_opposite(a: Node, b: Node) -> bool:
    """Whether two nodes are numbers of which one is minus the other."""
    x, y = number_of(a), number_of(b)
    return x is not None and y is not None and not isinstance(x, bool) and x == -y


def _changes_places(op: Op) -> bool:
    """Whether the arguments of ``op`` may stand in either order."""
    return op.commutes or op in _SELECTIVE


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
    not closed yet may have what a person wrote twice, in either order."""
    if a is b:
        return True
    if (
        depth == 0 or a.op is not b.op or a.op is param or len(a.args) != len(b.args)
        or dict(a.attrs) != dict(b.attrs)
    ):  # fmt: skip
        return False
    orders = [b.args]
    if a.op.commutes and a.args:
        orders.append(b.args[::-1])
    return any(
        all(_is_same(x, y, depth - 1) for x, y in zip(a.args, args, strict=True)) for args in orders
    )


def _same_number(a: Any, b: Any) -> bool:
    """Equal, telling 0.0 from -0.0."""
    return bool(a == b) and _spell(a) == _spell(b)


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


class RuleTable:
    """Rules, in their order, by the op of the node that they apply to and by what its arguments
    are, as far as one look tells: most nodes have no rule to try."""

    __slots__ = ("_by_op",)

    def __init__(self, rules: Iterable[Rule]) -> None:
        by_op: dict[Op, list[Rule]] = {}
        for r in rules:
            assert r.pattern.op is not None
            by_op.setdefault(r.pattern.op, []).append(r)
        self._by_op = {op: _RulesOfOp(op, found) for op, found in by_op.items()}

    def rules_for(self, node: Node) -> Sequence[Rule]:
        """The rules whose patterns may match ``node``: all others do not."""
        found = self._by_op.get(node.op)
        return found.rules_for(node.args) if found is not None else ()


class _RulesOfOp:
    """The rules for nodes of one op. Arguments are told apart by the ops and the numbers that the
    patterns name, so that there are few kinds of them."""

    __slots__ = ("_commutes", "_found", "_numbers", "_ops", "_rules", "_widths")

    def __init__(self, op: Op, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._commutes = _changes_places(op)
        below = [a for r in rules for p in r.pattern.args for a in _options(p)]
        self._ops = {p.op for p in below if isinstance(p, Pattern) and p.op is not None}
        self._numbers = {_spell(p) for p in below if not isinstance(p, Pattern)}
        self._widths = {len(r.pattern.args) for r in rules}
        self._found: dict[tuple[Any, ...] | None, Sequence[Rule]] = {}

    def rules_for(self, args: Sequence[Node]) -> Sequence[Rule]:
        kinds = tuple([self._kind(a) for a in args]) if len(args) in self._widths else None
        found = self._found.get(kinds)
        if found is None:
            found = self._found[kinds] = [r for r in self._rules if self._may_match(r, kinds)]
        return found

    def _kind(self, arg: Node) -> Any:
        """What the patterns tell an argument by: its op, the number that it is, or nothing."""
        op = arg.op
        named = op if op in self._ops else None
        if self._numbers and (op is full or op is constant):
            number = number_of(arg)
            written = None if number is None else _spell(number)
            return named, written if written in self._numbers else None
        return named

    def _may_match(self, r: Rule, kinds: Sequence[Any] | None) -> bool:
        patterns = r.pattern.args
        if any(isinstance(p, Many) for p in patterns):
            return True
        if kinds is None or len(patterns) != len(kinds):
            return False
        orders = (kinds, kinds[::-1]) if self._commutes else (kinds,)
        return any(all(map(_may_be, patterns, order)) for order in orders)


def _may_be(pattern: Any, kind: Any) -> bool:
    """Whether an argument of this kind may match ``pattern``."""
    if isinstance(pattern, Var):
        return True
    if isinstance(pattern, Either):
        return any(_may_be(option, kind) for option in pattern.options)
    op, number = kind if isinstance(kind, tuple) else (kind, None)
    return op is pattern.op if isinstance(pattern, Pattern) else number == _spell(pattern)


def _options(pattern: Any) -> Iterable[Any]:
    """The patterns of which one is to match where ``pattern`` is."""
    if not isinstance(pattern, Either):
        return (pattern,)
    return [inner for option in pattern.options for inner in _options(option)]


def _spell(number: float) -> str:
    """A number as what only equal ones share, and that tells 0.0 from -0.0."""
    return str(float(number))


def rewrite_node(
    node: Node, table: RuleTable, closed: Collection[Node] = ()
) -> tuple[Node, Rule] | None:
    """What the first rule of ``table`` that applies makes of ``node``, and the rule; None if none
    does. It has the node's dtype and, if need be, is stretched to its shape."""
    for r in table.rules_for(node):
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
