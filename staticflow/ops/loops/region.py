"""Python functions traced into regions: closed graphs that take what they use of their
surroundings as further operands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from staticflow import pytree
from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import bool_
from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.locs import here
from staticflow.graph.node import Node, constant, item, param, toposort
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.thread import thread
from staticflow.ops.declaring.tracing import tracing, tracing_region
from staticflow.ops.loops.python_state import trace_alike
from staticflow.ops.symbols.calls import note_calls
from staticflow.ops.symbols.effect import effect_mark, leave, marks_since, read_mark, settle, states
from staticflow.ops.symbols.symbol import Symbol, to_node
from staticflow.ops.symbols.watching import watch_nodes

__all__ = [
    "Region",
    "State",
    "affect",
    "close_over",
    "trace",
    "trace_at_once",
    "types_of_result",
    "values_at_start",
]  # fmt: skip

T = TypeVar("T")


def trace(
    fn: Callable[[list[Symbol]], Any],
    types: Sequence[TensorType],
    name: str = "x",
    what: str = "",
    users: Sequence[Any] = (),
) -> tuple[list[Node], Any, int]:
    """Call ``fn`` on fresh symbols of ``types``.

    Gives their params, what ``fn`` returned, and the serial number that tells what was made before.
    ``users`` are functions of the user's that it calls, for ``what``: they may keep nothing in
    Python that a later call of theirs uses.
    """

    def write() -> tuple[list[Node], Any, int]:
        return _trace(fn, types, name)

    return trace_alike(write, _nodes_of, what, users) if users else write()


def _nodes_of(found: tuple[list[Node], Any, int]) -> list[Node]:
    return [x.node for x in pytree.flatten(found[1])[0] if isinstance(x, Symbol)]


def _trace(
    fn: Callable[[list[Symbol]], Any], types: Sequence[TensorType], name: str
) -> tuple[list[Node], Any, int]:
    began = new_param(TensorType(bool_, ()), "").serial
    own = [new_param(t, name, locs=here()) for t in types]
    with tracing_region():
        result = fn([Symbol(p) for p in own])
    return own, result, began


def types_of_result(fn: Callable[[list[Symbol]], Any], types: Sequence[TensorType]) -> Any:
    """What ``fn`` gives of symbols of ``types``, to be asked for shapes and dtypes and no more:
    nothing of it runs, and it has no effect."""
    state = thread.state
    before = state.types_only
    try:
        state.types_only = True
        _, result, began = trace(fn, types)
        marks_since(began)
    finally:
        state.types_only = before
    return result


def trace_at_once(fn: Callable[[], T], module: Any = None) -> T:
    """What ``fn``, which is a call of ``module``, gives, a tree, as a part of the graph that is
    being written; its effects count where that is computed."""
    return note_calls(lambda: _trace_apart(fn), module)


def _trace_apart(fn: Callable[[], T]) -> T:
    if thread.state.regions:
        with tracing():
            return fn()
    began = new_param(TensorType(bool_, ()), "").serial
    with tracing_region(inside=False):
        found = fn()
        marks = marks_since(began)
        if not marks:
            return found
        leaves, tree = pytree.flatten(found)
        marks = _needing(leaves, marks)
        leaves = [_behind(leaf, marks) if hasattr(leaf, "__sf_mode__") else leaf for leaf in leaves]
    result: T = pytree.unflatten(tree, leaves)
    return result


def _needing(leaves: Iterable[Any], marks: Sequence[Node]) -> list[Node]:
    """The marks of those variables of which the ``leaves`` would not take along every change."""
    known = set(toposort([leaf.node for leaf in leaves if isinstance(leaf, Symbol)]))
    lost = {mark.args[1] for mark in marks if mark not in known}
    return [mark for mark in marks if mark.args[1] in lost]


def _behind(value: Any, marks: Sequence[Node]) -> Symbol:
    """``value``, with which the ``marks`` of effects happen: each of them at its own place in the
    program, and once more here, where nothing reads between them."""
    found = Symbol(to_node(value))
    for mark in marks:
        found = effect_mark(found, Symbol(mark.args[1]), Symbol(mark))
    return found


@dataclass(frozen=True, slots=True)
class State:
    """A variable that a region reads or changes: the param for its value as the region begins, and
    its value at the end, None if that is the same. ``always``: it changes whoever needs the
    results."""

    start: Node
    last: Node | None
    always: bool

    @property
    def end(self) -> Node:
        """The value at the end, changed or not."""
        return self.start if self.last is None else self.last


@dataclass(frozen=True, slots=True)
class Region:
    """What a traced function became.

    ``captured`` are the outer values that it uses, each with the param that stands for it inside,
    and ``states`` the variables, captured too, whose state it reads or changes.
    """

    own: tuple[Node, ...]
    outputs: tuple[Node, ...]
    captured: Mapping[Node, Node]
    states: Mapping[Node, State]

    @property
    def changed_states(self) -> dict[Node, State]:
        """The states that it changes."""
        return {v: s for v, s in self.states.items() if s.last is not None}

    @property
    def read_states(self) -> dict[Node, State]:
        """The states that it only reads."""
        return {v: s for v, s in self.states.items() if s.last is None}

    def graph(self) -> Graph:
        """The region of a function without states: own params, then captured ones."""
        return close((*self.own, *self.captured.values()), self.outputs)


def close_over(own: Sequence[Node], outputs: Sequence[Node], began: int) -> Region:
    """The region that computes ``outputs`` from its ``own`` params.

    Outer are the params that are not its own and whatever was made before the serial number
    ``began``; what the function made itself stays inside, even if it depends on none of its params.
    """
    left = marks_since(began)
    roots = [*outputs, *left]
    always = {mark.args[1] for mark in left}
    captured = _capture_outer(own, roots, began)
    inside = substitute_nodes(roots, watch_nodes(roots, captured))
    variables = {captured[n]: n for n in captured}
    marked = states(inside)
    starts = {p: new_param(p.tensor_type, "state", locs=p.locs) for p in marked}
    settled, changed = settle(inside, starts)
    found = {variables[p]: State(starts[p], changed.get(p), variables[p] in always) for p in marked}
    used = set(_capture_outer(starts.values(), [*settled, *changed.values()], -1))
    captured = {n: p for n, p in captured.items() if p not in starts or p in used}
    return Region(tuple(own), tuple(settled[: len(outputs)]), captured, found)


def _capture_outer(own: Any, outputs: Sequence[Node], began: int) -> dict[Node, Node]:
    """The outer nodes that ``outputs`` reach first, each with a param for it. Of an outer node of
    several results those are outer that are used."""
    known = set(own)
    captured: dict[Node, Node] = {}
    seen: set[Node] = set()
    stack = list(reversed(outputs))
    while stack:
        node = stack.pop()
        if node in known or node in seen:
            continue
        seen.add(node)
        first = node.args[0] if node.op is item else node
        if node.op is param or (first.serial < began and node.op is not constant):
            name = node.attrs.get("name", "outer")
            captured[node] = new_param(node.tensor_type.dense, name, locs=node.locs)
        else:
            stack.extend(reversed(node.args))
    return captured


def values_at_start(variables: Iterable[Node]) -> list[Symbol]:
    """The values of variables as a region begins."""
    return [read_mark(Symbol(v)) for v in variables]


def affect(
    results: Sequence[Any], changed: Mapping[Node, Any], always: Collection[Node]
) -> list[Any]:
    """``results``, each of which takes along the new values of the variables ``changed``; inside a
    region those ``always`` change whoever needs the results."""
    found = list(results)
    if thread.state.regions:
        for variable in always:
            new = changed[variable]
            leave(effect_mark(new, Symbol(variable), new))
    for variable, new in changed.items():
        found = [effect_mark(r, Symbol(variable), new) for r in found]
    return found
