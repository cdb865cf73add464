"""Whether a graph keeps the rules of the graph IR. A graph that does not is a bug in what made it.

The rules are the functions of `_GRAPH_RULES` and `_NODE_RULES`; each gives what is wrong, or None.
That arguments are made before they are used needs no rule: nodes are immutable, so they cannot form
a cycle.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.errors import ShapeError, VerifyError
from staticflow.graph.articles import with_article
from staticflow.graph.attr_kinds import kind_of_attr
from staticflow.graph.dim_queries import as_symbol, substitute_dim, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, is_provably_ge
from staticflow.graph.equalities import Equality, unify
from staticflow.graph.graph import (
    Graph,
    bound_symbols,
    free_symbols,
    map_attrs,
    named_symbols,
    regions_of,
)
from staticflow.graph.locs import format_locs
from staticflow.graph.node import Literal, Node, constant, item, param
from staticflow.graph.op import Op, takes
from staticflow.graph.printer import ATTR_CLASSES, excerpt
from staticflow.graph.types import Facts, TensorType, Type, types_of

__all__ = ["verify_graph"]


def verify_graph(graph: Graph) -> Graph:
    """The graph itself, if it keeps the rules, as do the regions in it.

    Raises `VerifyError`, which says what is wrong and shows the place in the graph's text.
    """
    _verify(graph, graph, None, frozenset())
    return graph


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the rules need to know of the graph around a node."""

    graph: Graph
    symbols: frozenset[Sym]
    equalities: tuple[Equality, ...]
    around: frozenset[Sym]  # what is known around it and is not its own to bind
    values: dict[Sym, Size]  # what the equalities replace symbols by
    others: dict[Size, Size]  # what they say of sizes that are no symbols, as of n m and k l

    def one_form(self, type: Type) -> Type:
        """The type in the one form that all equal ones share."""
        if not self.equalities:
            return type
        if isinstance(type, tuple):
            return tuple(map(self._one_form, type))
        return self._one_form(type)

    def _one_form(self, type: TensorType) -> TensorType:
        strides = None if type.strides is None else tuple(map(self._settle, type.strides))
        return TensorType(type.dtype, tuple(map(self._settle, type.shape)), strides)

    def _settle(self, size: Size) -> Size:
        size = substitute_dim(size, self.values)
        return self.others.get(size, size)

    def equal(self, a: Size, b: Size) -> bool:
        """Whether two sizes are equal by the equalities."""
        return self._settle(a) == self._settle(b)


def _verify(root: Graph, graph: Graph, around: _Scope | None, shared: frozenset[Sym]) -> None:
    scope = _scope(root, graph, around, shared)
    for graph_rule in _GRAPH_RULES:
        problem = graph_rule(scope)
        if problem is not None:
            raise _error(root, graph, problem)
    for node in graph.nodes:
        for region in regions_of(node):  # first: a fault in a region makes its op look wrong
            _verify(root, region, scope, _handed_on(node, region))
        for node_rule in _NODE_RULES:
            problem = node_rule(scope, node)
            if problem is not None:
                made = f"; made at {format_locs(node.locs)}" if node.locs else ""
                raise _error(root, node, problem + made)


def _scope(root: Graph, graph: Graph, around: _Scope | None, shared: frozenset[Sym]) -> _Scope:
    symbols = free_symbols(graph).union(*map(_symbols_in, graph.declared))
    symbols = symbols.union(*map(bound_symbols, graph.nodes))
    equalities = graph.equalities
    if around is not None:
        symbols |= around.symbols
        equalities += around.equalities
    try:
        values, _ = unify(equalities)
    except ShapeError as error:
        raise _error(root, graph, f"the equalities contradict each other: {error}") from error
    outside = frozenset[Sym]() if around is None else around.symbols - shared
    return _Scope(graph, symbols, equalities, outside, values, _join_equal(equalities, values))


def _handed_on(node: Node, region: Graph) -> frozenset[Sym]:
    """The sizes that a node binds because its region does, as the kernel of a loop that counts its
    iterations: the region's results are the node's own, and name them; its operands do not."""
    results = types_of(node.type)
    if not bound_symbols(node) or tuple(o.type for o in region.outputs) != results:
        return frozenset()
    named = frozenset[Sym]().union(*map(_symbols_in, results))
    given = frozenset[Sym]().union(*(_symbols_in(t) for a in node.args for t in types_of(a.type)))
    return bound_symbols(node) & named - given


def _join_equal(equalities: Sequence[Equality], values: dict[Sym, Size]) -> dict[Size, Size]:
    """For sizes that equalities name, with ``values`` put in, the first that each is equal to."""
    found: dict[Size, Size] = {}
    for e in equalities:
        a, b = (substitute_dim(size, values) for size in (e.a, e.b))
        first, second = found.get(a, a), found.get(b, b)
        if first != second:
            found = {s: first if one == second else one for s, one in found.items()}
            found |= {second: first, b: first}
    return found


def _error(root: Graph, at: Node | Graph, problem: str) -> VerifyError:
    return VerifyError(f"{problem}\n{excerpt(root, at)}")


# -- rules of a graph ------------------------------------------------------------------------------


def _params_are_distinct_params(scope: _Scope) -> str | None:
    for p, count in Counter(scope.graph.params).items():
        if p.op is not param:
            return f"the {p.op.name} of type {p.type} is no param, and is among the params"
        if count > 1:
            return f"the param {p.attrs['name']!r} is there {count} times"
    return None


def _params_are_as_declared(scope: _Scope) -> str | None:
    params, declared = scope.graph.params, scope.graph.declared
    if declared and len(declared) != len(params):
        return f"{len(declared)} types are declared for {len(params)} params"
    for p, d in zip(params, declared, strict=False):
        if scope.one_form(p.type) != scope.one_form(d):
            return (
                f"the param {p.attrs['name']!r} is {p.type}, which the equalities do not give "
                f"for the declared {d}"
            )
    return None


def _outputs_are_tensors(scope: _Scope) -> str | None:
    for output in scope.graph.outputs:
        if not isinstance(output.type, TensorType):
            return f"the output of type ({', '.join(map(str, output.type))}) is not one tensor"
    return None


def _equalities_are_of_known_sizes(scope: _Scope) -> str | None:
    for e in scope.graph.equalities:
        unknown = (symbols_of(e.a) | symbols_of(e.b)) - scope.symbols
        if unknown:
            return f"the equality {e.a} == {e.b} names {_names(unknown)}"
    return None


def _sizes_are_bound_before(scope: _Scope) -> str | None:
    bound = scope.graph.bound_sizes
    behind: dict[Node, frozenset[Sym]] = {}
    for node in scope.graph.nodes if bound else ():
        known = bound_symbols(node).union(*(behind[a] for a in node.args))
        if node.op is param:
            known |= _symbols_in(node.tensor_type)
        missing = (named_symbols(node) & bound) - known
        if missing:
            return (
                f"{node.op.name} names {', '.join(sorted(s.name for s in missing))}, and does not "
                "depend on what binds it"
            )
        behind[node] = known
    return None


def _regions_bind_sizes_of_their_own(scope: _Scope) -> str | None:
    known = scope.graph.bound_sizes & scope.around
    if not known:
        return None
    return f"the region binds {', '.join(sorted(s.name for s in known))}, which is known around it"


_GRAPH_RULES: tuple[Callable[[_Scope], str | None], ...] = (
    _params_are_distinct_params,
    _params_are_as_declared,
    _outputs_are_tensors,
    _equalities_are_of_known_sizes,
    _sizes_are_bound_before,
    _regions_bind_sizes_of_their_own,
)

_LARGE = 1 << 62
"""A number that native code, which computes with 64 bits, would not hold the double of."""

_ELEMENTS = ("value", "min", "max")
"""Attributes that are elements of the result, which any number of its dtype may be."""

_SIZES = ("shape", "size", "length")
"""Attributes that are sizes."""

_DIMS = ("dim", "dim1", "dim2", "dims")
"""Attributes that are dims of the first argument or of the result, each once."""

# -- rules of a node -------------------------------------------------------------------------------


def _params_are_the_graphs_own(scope: _Scope, node: Node) -> str | None:
    if node.op is not param or node in scope.graph.params:
        return None
    return f"the param {node.attrs['name']!r} is not among the params of the graph that uses it"


def _attrs_have_text(scope: _Scope, node: Node) -> str | None:
    for name, value in node.attrs.items():
        if name == "source" and node.op is param:
            continue
        stranger = next((v for v in _flat(value) if type(v) not in ATTR_CLASSES), None)
        if stranger is not None:
            return f"the attribute {name} of {node.op.name} holds {with_article(type(stranger))}"
    return None


def _attrs_are_of_their_kinds(scope: _Scope, node: Node) -> str | None:
    if node.op in (param, constant):
        return None
    names, given = _attr_names(node.op), node.attrs.keys()
    if names is not None and not names[0] <= given <= names[1]:
        wrong = ", ".join(sorted((names[0] - given) | (given - names[1])))
        known = ", ".join(sorted(names[1])) or "none"
        return f"{node.op.name} has the attributes {known}; {wrong} is left out or unknown"
    for name, value in node.attrs.items():
        kind = kind_of_attr(node.op, name)
        if kind is not None and not kind.is_one(value):
            shown = "a graph" if isinstance(value, Graph) else repr(value)
            return f"the attribute {name} of {node.op.name} is {shown}, and must be {kind.words}"
    return None


@cache
def _attr_names(op: Op) -> tuple[frozenset[str], frozenset[str]] | None:
    """The names of the attributes that an op must have and of those that it may have, as its type
    rule tells, or else its reference; None if neither does."""
    parameters = inspect.signature(op.infer).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        _, _, names = takes(op)
        return None if names is None else (names, names)
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    must = frozenset(p.name for p in named if p.default is p.empty)
    return must, frozenset(p.name for p in named)


def _arguments_are_as_many_as_taken(scope: _Scope, node: Node) -> str | None:
    if node.op is param:
        return None
    least, most, _ = takes(node.op)
    if least <= len(node.args) <= most:
        return None
    few = f"{least} argument{'' if least == 1 else 's'}"
    many = few if most == least else f"{least} or more arguments"
    return f"{node.op.name} takes {many}, and has {len(node.args)}"


def _items_are_there(scope: _Scope, node: Node) -> str | None:
    if node.op is not item:
        return None
    of = node.args[0].type if len(node.args) == 1 else None
    index = node.attrs.get("index")
    if isinstance(of, tuple) and type(index) is int and 0 <= index < len(of):
        return None
    return f"the item {index} is none of the {len(of) if isinstance(of, tuple) else 0} results"


def _bound_sizes_are_kept(scope: _Scope, node: Node) -> str | None:
    """The bound of a size that a node binds is one that it keeps."""
    if "binds" not in node.attrs or not node.attrs.keys() & {"most", "length"}:
        return None
    most = node.attrs.get("most", node.attrs.get("length"))
    for size in node.attrs["binds"]:
        symbol = as_symbol(size)
        if symbol is None:
            return f"{node.op.name} binds {size}, which is no name of a size"
        if symbol.upper is None:
            continue
        if most is None or not is_provably_ge(symbol.upper, most + 1):
            return f"{node.op.name} binds {size} below {symbol.upper}, and it may be {most}"
    return None


def _numbers_are_usual(scope: _Scope, node: Node) -> str | None:
    for name, value in node.attrs.items():
        for number in _flat(value) if name not in _ELEMENTS else ():
            if type(number) is int and abs(number) >= _LARGE:
                return f"the attribute {name} of {node.op.name} is {number}, beyond {_LARGE}"
    return None


def _sizes_are_not_negative(scope: _Scope, node: Node) -> str | None:
    for t in types_of(node.type):
        if any(type(d) is int and d < 0 for d in t.shape):
            return f"{node.op.name} is {t}, of which a size is negative"
    for name in _SIZES:
        if any(type(n) is int and n < 0 for n in _flat(node.attrs.get(name))):
            return f"the attribute {name} of {node.op.name} is {node.attrs[name]}, and no size"
    return None


def _dims_are_dims(scope: _Scope, node: Node) -> str | None:
    named = [name for name in _DIMS if name in node.attrs]
    if not named:
        return None
    ndim = max(t.ndim for n in (*node.args[:1], node) for t in types_of(n.type))
    for name in named:
        dims = _flat(node.attrs[name])
        if any(type(d) is not int or not 0 <= d < ndim for d in dims) or len({*dims}) < len(dims):
            return (
                f"the attribute {name} of {node.op.name} is {node.attrs[name]}, of {ndim} dims; "
                f"they are numbered from 0 to {ndim - 1}, each once"
            )
    if "dim2" in named and node.attrs["dim1"] == node.attrs["dim2"]:
        return f"the attributes dim1 and dim2 of {node.op.name} are one dim"
    return None


def _constants_are_of_their_type(scope: _Scope, node: Node) -> str | None:
    if node.op is not constant:
        return None
    literal = node.attrs.get("value")
    if not isinstance(literal, Literal):
        return "the constant has no value"
    if literal.type == node.type:
        return None
    return f"the constant is {_type_text(node.type)} and its value {literal.type}"


def _type_is_what_the_op_gives(scope: _Scope, node: Node) -> str | None:
    facts = Facts()
    try:
        inferred = node.op.type_of(facts, [a.type for a in node.args], node.attrs)
    except Exception as error:  # a rule may fail in any way on arguments that it does not expect
        return f"{node.op.name} refuses its arguments: {type(error).__name__}: {error}"
    if scope.one_form(inferred) != scope.one_form(node.type):
        return f"{node.op.name} gives {_type_text(inferred)}, not {_type_text(node.type)}"
    for fact in facts.assumptions:
        if not scope.equal(fact.a, fact.b):
            return (
                f"{node.op.name} assumes {fact.a} == {fact.b} ({fact.reason}), "
                "which is no equality of the graph"
            )
    return None


def _sizes_are_known(scope: _Scope, node: Node) -> str | None:
    found: set[Sym] = set()
    for t in types_of(node.type):
        found |= _symbols_in(t)

    def collect(size: Dim) -> Dim:
        found.update(symbols_of(size))
        return size

    map_attrs(node.attrs, collect, lambda region: region)
    unknown = found - scope.symbols
    return f"{node.op.name} names {_names(unknown)}" if unknown else None


_NODE_RULES: tuple[Callable[[_Scope, Node], str | None], ...] = (
    _params_are_the_graphs_own,
    _attrs_have_text,
    _attrs_are_of_their_kinds,
    _arguments_are_as_many_as_taken,
    _items_are_there,
    _bound_sizes_are_kept,
    _numbers_are_usual,
    _sizes_are_not_negative,
    _dims_are_dims,
    _constants_are_of_their_type,
    _type_is_what_the_op_gives,
    _sizes_are_known,
)

# -- helpers ---------------------------------------------------------------------------------------


def _symbols_in(type: TensorType) -> frozenset[Sym]:
    return frozenset[Sym]().union(*map(symbols_of, type.sizes))


def _flat(value: Any) -> list[Any]:
    """A value, or what a tuple holds at any depth."""
    return [f for v in value for f in _flat(v)] if type(value) is tuple else [value]


def _type_text(type: Type) -> str:
    return f"({', '.join(map(str, type))})" if isinstance(type, tuple) else str(type)


def _names(unknown: set[Sym] | frozenset[Sym]) -> str:
    names = ", ".join(sorted(s.name for s in unknown))
    return f"{names}, which neither a param's shape nor the attribute `binds` of an op gives"
