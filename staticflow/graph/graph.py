"""Graphs: closed, immutable programs over nodes, and their closing.

Closing renames nothing and reorders nothing; it merges equal nodes (keeping the lines of all),
drops what no output needs, and settles what the ops assumed of unknown sizes: where two are assumed
equal one of them replaces the other throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from staticflow.data_classes import dataclass
from staticflow.errors import VerifyError
from staticflow.graph.dim_queries import substitute_dim, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, fresh_sym
from staticflow.graph.equalities import Equality, unify
from staticflow.graph.lazy import lazy
from staticflow.graph.locs import Locs, format_locs, merge_locs
from staticflow.graph.node import Node, param, toposort
from staticflow.graph.types import Facts, TensorType, Type, types_of

__all__ = [
    "Graph",
    "attrs_key",
    "binders_of",
    "bound_symbols",
    "close",
    "exactly",
    "free_symbols",
    "has_regions",
    "map_attrs",
    "named_symbols",
    "new_args",
    "new_param",
    "rebuild",
    "regions_of",
    "replace_nodes",
    "replace_sizes",
    "substitute_nodes",
]


_NONE = frozenset[Sym]()


@dataclass(frozen=True, eq=False)
class Graph:
    """``params`` in, ``outputs`` out, nothing captured. Compared by identity.

    ``equalities`` are checked when the sizes are known. ``declared`` are the types that the params
    had before equal sizes were replaced by one: what a caller is told about.
    """

    params: tuple[Node, ...]
    outputs: tuple[Node, ...]
    equalities: tuple[Equality, ...] = ()
    declared: tuple[TensorType, ...] = ()

    @lazy
    def nodes(self) -> tuple[Node, ...]:
        """Every node, params first, arguments before users, and what binds a size before all that
        have it."""
        return (*self.params, *_binders_first(toposort(self.outputs, self.params)))

    @lazy
    def users(self) -> Mapping[Node, tuple[Node, ...]]:
        """The nodes that take each node as an argument."""
        found: dict[Node, list[Node]] = {n: [] for n in self.nodes}
        for node in self.nodes:
            for arg in dict.fromkeys(node.args):
                found[arg].append(node)
        return {n: tuple(us) for n, us in found.items()}

    @lazy
    def symbols(self) -> frozenset[Sym]:
        """Every dim symbol that its nodes name, those of nested graphs included."""
        return frozenset[Sym]().union(*map(named_symbols, self.nodes))

    @lazy
    def bound_sizes(self) -> frozenset[Sym]:
        """The dim symbols that its own nodes bind: nothing around it can have a size of them."""
        return frozenset[Sym]().union(*map(bound_symbols, self.nodes))

    @lazy
    def has_regions(self) -> bool:
        """Whether a node of it holds a graph."""
        return any(map(has_regions, self.nodes))

    def __str__(self) -> str:
        from staticflow.graph.printer import print_graph

        return print_graph(self)

    def to_networkx(self) -> Any:
        """The graph as a ``networkx.MultiDiGraph`` to explore: vertices are the nodes with ``op``,
        ``type`` and ``lines``, edges carry ``position``, the place among the arguments."""
        import networkx as nx

        g = nx.MultiDiGraph()
        for node in self.nodes:
            g.add_node(node, op=node.op.name, type=str(node.type), lines=format_locs(node.locs))
        for node in self.nodes:
            for position, arg in enumerate(node.args):
                g.add_edge(arg, node, position=position)
        return g


def new_param(type: TensorType, name: str, source: object = None, locs: Locs = ()) -> Node:
    """A fresh param."""
    return Node(param, (), {"type": type, "name": name, "source": source}, type, locs)


# What an attribute may contain, and how to rebuild it with sizes and graphs replaced.
def map_attrs(
    attrs: Mapping[str, Any],
    size: Callable[[Dim], Any],
    graph: Callable[[Graph], Any],
) -> dict[str, Any]:
    """Attributes with every symbolic size and nested graph replaced, by whatever takes its place:
    the interpreter puts in numbers and functions."""
    return {name: _map_value(value, size, graph) for name, value in attrs.items()}


def _map_value(value: Any, size: Callable[[Dim], Any], graph: Callable[[Graph], Any]) -> Any:
    if isinstance(value, Dim):
        return size(value)
    if isinstance(value, tuple):
        return tuple(_map_value(v, size, graph) for v in value)
    if isinstance(value, TensorType):
        strides = None if value.strides is None else _map_value(value.strides, size, graph)
        return TensorType(value.dtype, _map_value(value.shape, size, graph), strides)
    if isinstance(value, Graph):
        return graph(value)
    return value


def regions_of(node: Node) -> list[Graph]:
    """The graphs that a node holds."""
    found: list[Graph] = []

    def take(graph: Graph) -> Graph:
        found.append(graph)
        return graph

    map_attrs(node.attrs, lambda size: size, take)
    return found


def has_regions(node: Node) -> bool:
    """Whether a graph is an attribute of a node."""
    return any([isinstance(v, Graph) for v in node.attrs.values()]) if node.attrs else False


def rebuild(
    graph: Graph, visit: Callable[[Node, tuple[Node, ...]], Node], outputs: Sequence[Node] = ()
) -> Graph:
    """The graph with every node but the params passed through ``visit(node, new_args)``; what
    does not change is shared, and the graph itself where nothing does. Equal nodes are merged on
    the way out."""
    params = set(graph.params)
    changed: dict[Node, Node] = {}
    for node in toposort(outputs, params) if outputs else graph.nodes:
        if node not in params:
            made = visit(node, new_args(node, changed))
            if made is not node:
                changed[node] = made
    if not outputs:
        return replace_nodes(graph, changed)
    results = tuple([changed.get(o, o) for o in outputs])
    if results == graph.outputs:
        return graph
    return close(graph.params, results, graph.equalities, graph.declared)


def new_args(node: Node, changed: Mapping[Node, Node]) -> tuple[Node, ...]:
    """The arguments of a node, with what became of those that ``changed``."""
    if not changed or changed.keys().isdisjoint(node.args):
        return node.args
    return tuple([changed.get(a, a) for a in node.args])


def replace_nodes(graph: Graph, changed: Mapping[Node, Node]) -> Graph:
    """The graph with what became of the nodes that ``changed``, each made of what became of its
    arguments. Equal nodes are merged; the graph itself where no output is another."""
    results = tuple([changed.get(o, o) for o in graph.outputs])
    if results == graph.outputs:
        return graph
    same = (new for old, new in changed.items() if _assume_the_same(old, new))
    settled = {*graph.nodes, *same}
    return close(graph.params, results, graph.equalities, graph.declared, settled)


def _assume_the_same(node: Node, other: Node) -> bool:
    """Whether two nodes assume the same of sizes, as their ops and the types of their arguments
    tell."""
    return (
        node.op is other.op
        and node.attrs is other.attrs
        and [a.type for a in node.args] == [a.type for a in other.args]
    )


def substitute_nodes(outputs: Iterable[Node], values: Mapping[Node, Node]) -> list[Node]:
    """``outputs`` with some nodes replaced by others; nodes that do not change are shared."""
    outputs = list(outputs)
    new: dict[Node, Node] = dict(values)
    for node in toposort(outputs, known=values):
        args = tuple([new[a] for a in node.args])
        same = args == node.args
        new[node] = node if same else Node(node.op, args, node.attrs, node.type, node.locs)
    return [new[o] for o in outputs]


def replace_sizes(graph: Graph, outputs: Sequence[Node], sizes: Mapping[Sym, Size]) -> Graph:
    """The graph with other ``outputs``, of which no node binds any of the ``sizes`` any more: what
    these are instead stands for them."""
    found = _with_late_sizes(toposort(outputs), dict(sizes))
    params, outputs = _with_sizes(graph.params, outputs, found)
    return close(params, outputs, _settle(graph.equalities, found), graph.declared)


def close(
    params: Sequence[Node],
    outputs: Sequence[Node],
    equalities: Sequence[Equality] = (),
    declared: Sequence[TensorType] = (),
    settled: Collection[Node] = (),
) -> Graph:
    """A graph of what ``outputs`` need of ``params``. See the module for what closing does.

    ``settled`` are nodes of a graph that had these ``equalities``: what they assume is among those.
    Raises `ShapeError` if sizes that must be equal never are, `VerifyError` if an output needs a
    param that is not among ``params``.
    """
    known = set(params)
    order = toposort(outputs, known)
    for node in order:
        if node.op is param:
            raise VerifyError(
                f"the graph needs the param {node.attrs['name']!r} ({node.type}, made at "
                f"{format_locs(node.locs)}), which is not among its params"
            )
    types = tuple(declared) or tuple(p.tensor_type for p in params)
    found = [*_assumptions(n for n in order if n not in settled)]
    if found or not settled:
        bound = frozenset[Sym]().union(*map(bound_symbols, order))
        values, equalities = unify([*equalities, *found], bound)
        if values:
            values = _with_late_sizes(order, values)
            params, outputs = _with_sizes(params, outputs, values)
            late = {s: size for s, size in values.items() if s in bound}
            equalities = _settle(equalities, late)
            order = toposort(outputs, params)
    order, outputs = _merge_equal(params, order, outputs)
    graph = Graph(tuple(params), tuple(outputs), tuple(equalities), types)
    Graph.nodes.keep(graph, (*params, *_binders_first(order)))
    return graph


def _settle(equalities: Iterable[Equality], values: Mapping[Sym, Size]) -> list[Equality]:
    """Equalities of other sizes."""
    sides = [(e, substitute_dim(e.a, values), substitute_dim(e.b, values)) for e in equalities]
    return [replace(e, a=a, b=b) for e, a, b in sides]


def _assumptions(order: Iterable[Node]) -> Iterator[Equality]:
    for node in order:
        if not node.args or not _may_assume(node):
            continue
        facts = Facts()
        node.op.infer(facts, *(a.type for a in node.args), **node.attrs)
        by = "" if "what" in node.attrs else f"{node.op.name}: "  # else the reason says by what
        for fact in facts.assumptions:
            yield Equality(fact.a, fact.b, f"{by}{fact.reason}", node.locs)


def _may_assume(node: Node) -> bool:
    """Whether a node may assume something of sizes: what takes known ones and has no attributes
    has been told all when it was made."""
    if node.attrs:
        return True
    return any(type(d) is not int for a in node.args for t in types_of(a.type) for d in t.shape)


def _with_late_sizes(order: Iterable[Node], values: dict[Sym, Size]) -> dict[Sym, Size]:
    """``values``, and for each size that a node binds and that is at most what these replace a size
    that is at most what stands for it."""
    found = dict(values)
    for node in order:
        for late in sorted(bound_symbols(node), key=Sym.sort_key):
            if late.upper is not None and late not in found:
                upper = substitute_dim(late.upper, found)
                if upper != late.upper:
                    found[late] = fresh_sym(late.name, upper, late.late)
    return found


def _with_sizes(
    params: Sequence[Node], outputs: Sequence[Node], values: dict[Sym, Size]
) -> tuple[list[Node], list[Node]]:
    """Params and outputs with symbols replaced; what does not name them is shared."""

    def size(s: Size) -> Size:
        return substitute_dim(s, values)

    def type_of(t: Type) -> Type:
        if isinstance(t, tuple):
            return tuple(x.substitute(values) for x in t)
        return t.substitute(values)

    def region(g: Graph) -> Graph:
        if g.symbols.isdisjoint(values):
            return g
        own = _with_late_sizes(g.nodes, values)
        ps, outs = map(tuple, _with_sizes(g.params, g.outputs, own))
        late = {s: size for s, size in own.items() if s.late}  # which no equality explains
        if not late:
            return Graph(ps, outs, g.equalities, g.declared)
        declared = tuple([t.substitute(late) for t in g.declared])
        return Graph(ps, outs, tuple(_settle(g.equalities, late)), declared)

    new: dict[Node, Node] = {}
    for node in (*params, *toposort(outputs)):
        if node in new:
            continue
        args = tuple(new[a] for a in node.args)
        changed = (args, map_attrs(node.attrs, size, region), type_of(node.type))
        same = changed == (node.args, node.attrs, node.type)
        new[node] = node if same else Node(node.op, *changed, node.locs)
    return [new[p] for p in params], [new[o] for o in outputs]


def attrs_key(attrs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Attributes as something that equal ones share, and only they: Python holds 0.0 == -0.0 and
    1 == 1.0 == True, which are different attributes."""
    return tuple([(name, exactly(attrs[name])) for name in sorted(attrs)]) if attrs else ()


def exactly(value: Any) -> Any:
    """A value, or a tuple of values, as something that only an equal one of the same type equals,
    and that tells -0.0 from 0.0."""
    if isinstance(value, tuple):
        return tuple(map(exactly, value))
    return type(value), repr(value) if isinstance(value, float) else value


def _merge_equal(
    params: Sequence[Node], order: list[Node], outputs: Sequence[Node]
) -> tuple[list[Node], Sequence[Node]]:
    """Hash-cons the ``outputs`` of params and of nodes in ``order``, which is as `toposort` gives
    it; such an order of what is left, and the outputs. First number every value, then build one
    node for each number with all lines. Of what commutes the first order that is met stays."""
    number: dict[Node, int] = {}
    for p in params:
        number.setdefault(p, len(number))
    first = len(number)
    table: dict[Any, int] = {}
    locs: dict[int, Locs] = {}
    for node in order:
        numbers = [number[a] for a in node.args]
        if node.op.commutes:
            numbers.sort()
        attrs = attrs_key(node.attrs) if node.attrs else ()
        key = (node.op, tuple(numbers), attrs, node.type)
        n = number[node] = table.setdefault(key, first + len(table))
        locs[n] = merge_locs(locs[n], node.locs) if n in locs else node.locs
    if len(table) == len(order):
        return order, outputs
    built = {number[p]: p for p in params}
    first_ones: list[Node] = []
    for node in order:
        n = number[node]
        if n in built:
            continue
        merged = tuple([built[number[a]] for a in node.args])
        same = node.locs == locs[n] and merged == node.args
        built[n] = node if same else Node(node.op, merged, node.attrs, node.type, locs[n])
        first_ones.append(built[n])
    return first_ones, [built[number[o]] for o in outputs]


def binders_of(order: Sequence[Node]) -> dict[Node, list[Node]]:
    """For each node that names a size which another one of ``order`` binds, those others."""
    binders: dict[Sym, Node] = {}
    for node in order:
        if "binds" in node.attrs:
            for symbol in bound_symbols(node):
                binders.setdefault(symbol, node)
    if not binders:
        return {}
    found: dict[Node, list[Node]] = {}
    for node in order:
        needed = {binders[s] for s in named_symbols(node) if s in binders} - {node}
        if needed and not bound_symbols(node):
            found[node] = sorted(needed, key=lambda n: n.serial)
    return found


def named_symbols(node: Node) -> set[Sym]:
    """The dim symbols that the type of a node and its attributes name, regions included."""
    found: set[Sym] = set()

    def collect(size: Dim) -> Dim:
        found.update(symbols_of(size))
        return size

    def look_into(region: Graph) -> Graph:
        found.update(region.symbols)
        return region

    for t in types_of(node.type):
        for d in t.sizes:
            found |= symbols_of(d)
    map_attrs(node.attrs, collect, look_into)
    return found


def _binders_first(order: list[Node]) -> list[Node]:
    """An order in which nothing stands before what binds its sizes."""
    binders = binders_of(order)
    if not binders:
        return order
    members, done = set(order), set[Node]()
    result: list[Node] = []
    stack = [(n, False) for n in reversed(order)]
    while stack:
        node, expanded = stack.pop()
        if node in done or node not in members:
            continue
        if expanded:
            done.add(node)
            result.append(node)
        else:
            stack.append((node, True))
            before = (*node.args, *binders.get(node, ()))
            stack.extend((a, False) for a in reversed(before) if a not in done)
    return result


def bound_symbols(node: Node) -> frozenset[Sym]:
    """The dim symbols whose sizes are known only when ``node`` has run. Its attribute ``binds``, a
    tuple of fresh dims that its type names, says which; most nodes have none."""
    binds = node.attrs.get("binds")
    return frozenset[Sym]().union(*map(symbols_of, binds)) if binds else _NONE


def free_symbols(graph: Graph) -> frozenset[Sym]:
    """Every dim symbol that the types of a graph's params name."""
    found: frozenset[Sym] = frozenset()
    for p in graph.params:
        for t in types_of(p.type):
            for d in t.sizes:
                found |= symbols_of(d)
    return found
