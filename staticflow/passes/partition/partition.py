"""The graph of one rank: it follows the layouts from where the user says one, and brings operands
to the layouts that the ops take.

Every rank is given whole inputs and variables, and takes its parts, which costs no copy: a part is
a view. Where ranks have parts of a sum they add these up, and where an op has no rule for split
operands these are gathered; both are collectives in the graph, at the line of what wanted them.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.errors import ShapeError
from staticflow.graph.dims import Size, same
from staticflow.graph.graph import Graph, close, regions_of
from staticflow.graph.locs import format_locs, using
from staticflow.graph.node import Node, item, param, toposort
from staticflow.graph.types import types_of
from staticflow.ops.along.collectives import COLLECTIVES, all_gather_op, all_reduce_op, shard_op
from staticflow.ops.basics.slicing import embed_op, slice_op
from staticflow.ops.declaring.late import behind
from staticflow.ops.declaring.thread import for_itself
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.partition.layouts import Layout, Place, Split, same_layout, whole
from staticflow.passes.partition.rules import Plan, rule_of
from staticflow.passes.rewrite import with_args

__all__ = ["partition"]


def partition(
    graph: Graph, names: Sequence[str], shape: tuple[int, ...], rank: int, n_out: int
) -> Graph:
    """The graph of a rank of a mesh that has axes of these names and sizes. The first ``n_out``
    outputs are whole, as the new values of variables behind them are, unless they are said to be
    split; of these a rank gives its part.

    Raises `ShapeError` for an axis that the mesh does not have, for a split inside a loop or
    branch, and for a collective of the user's, which a graph of whole tensors has no place for.
    """
    walk = _Walk(names, Place(shape, rank))
    with for_itself():
        for node in graph.nodes:
            walk.visit(node)
        outputs = [
            walk.local[o][0]
            if i < n_out and o.op is shard_op
            else walk.take(o, whole(o.tensor_type.ndim))
            for i, o in enumerate(graph.outputs)
        ]
    return close(graph.params, outputs, graph.equalities, graph.declared)


class _Walk:
    """The node of this rank for each node of whole tensors, with the layouts of its results."""

    def __init__(self, names: Sequence[str], place: Place) -> None:
        self.names, self.place = tuple(names), place
        self.local: dict[Node, tuple[Node, tuple[Layout, ...]]] = {}
        self.parts: dict[Node, tuple[Node, ...]] = {}

    def visit(self, node: Node) -> None:
        """Find what a node is on this rank, whose arguments were visited."""
        if node.op is item:
            self._item(node)
        elif node.op is shard_op:
            layout = self._read_spec(node)
            self.local[node] = self.take(node.args[0], layout), (layout,)
        else:
            self._refuse(node)
            layouts = [self.local[a][1][0] for a in node.args] if node.op is not param else []
            if not any(map(any, layouts)):
                self._keep(node)
            else:
                self._split(node, layouts)

    def _item(self, node: Node) -> None:
        of, index = node.args[0], node.attrs["index"]
        if of in self.parts:
            self.local[node] = self.local[self.parts[of][index]]
        else:
            made, layouts = self.local[of]
            with using(node.locs):
                kind = types_of(made.type)[index]
                found = node if made is of else Node(item, (made,), node.attrs, kind, node.locs)
            self.local[node] = found, (layouts[index],)

    def _keep(self, node: Node) -> None:
        """Take over a node whose operands are whole on every rank: each rank computes it for
        itself."""
        made = with_args(node, tuple(self.local[a][0] for a in node.args))
        self.local[node] = made, tuple(whole(t.ndim) for t in types_of(node.type))

    def _split(self, node: Node, layouts: Sequence[Layout]) -> None:
        rule = rule_of(node.op)
        plan = None if rule is None else rule(node, layouts, self.place)
        if plan is not None:
            self._compute(node, plan)
        elif node.op.decompose is not None:
            self._decompose(node)
        else:
            args = tuple(self.take(a, whole(a.tensor_type.ndim), node) for a in node.args)
            made = with_args(node, args)
            self.local[node] = made, tuple(whole(t.ndim) for t in types_of(node.type))

    def _decompose(self, node: Node) -> None:
        assert node.op.decompose is not None
        with using(node.locs), behind(node.args):
            given = node.op.decompose(*map(Symbol, node.args), **node.attrs)
        results = tuple(y.node for y in (given if isinstance(given, tuple) else (given,)))
        for part in toposort(results, self.local):
            self.visit(part)
        if isinstance(node.type, tuple):
            self.parts[node] = results
        else:
            self.local[node] = self.local[results[0]]

    def _compute(self, node: Node, plan: Plan) -> None:
        """Compute this rank's part, and what is to be combined with those of others."""
        args = [
            self.take(a, layout, node) for a, layout in zip(node.args, plan.arguments, strict=True)
        ]
        attrs = dict(node.attrs)
        if plan.shape:
            attrs[plan.shape] = self.place.local(node.tensor_type.shape, plan.results[0])
        with using(node.locs), behind(args):
            made = node.op(*map(Symbol, args), **attrs)
            if plan.partial:
                made = all_reduce_op(
                    made, mesh=self.place.shape, axes=plan.partial, reduce=plan.reduce
                )
        first = made[0] if isinstance(made, tuple) else made
        found: Node = first.node.args[0] if isinstance(made, tuple) else first.node
        self.local[node] = found, plan.results

    # -- layouts ---------------------------------------------------------------------------------

    def take(self, node: Node, layout: Layout, user: Node | None = None) -> Node:
        """What a node of one result is in another layout: gathered where that has a dim whole, and
        cut where it has it split. It is at the line of its ``user``."""
        made, (now,) = self.local[node]
        if same_layout(now, layout):
            return made
        shape = node.tensor_type.shape
        value = Symbol(made)
        with using((user or node).locs), behind((made,)):
            current = list(now)
            for d, (a, b) in enumerate(zip(now, layout, strict=True)):
                if a is not None and not same_layout((a,), (b,)):
                    value = self._gather(value, d, shape[d], a)
                    current[d] = None
            start: list[Size] = [0] * len(shape)
            size = list(value.node.tensor_type.shape)
            for d, (a, b) in enumerate(zip(current, layout, strict=True)):
                if a is None and b is not None:
                    start[d], size[d] = self.place.part(shape[d], b)
            if any(a is None and b is not None for a, b in zip(current, layout, strict=True)):
                value = slice_op(
                    value, start=tuple(start), size=tuple(size), step=(1,) * len(shape)
                )
        found: Node = value.node
        return found

    def _gather(self, value: Symbol, dim: int, size: Size, split: Split) -> Symbol:
        """The parts of all ranks along a dim: each is filled up to as many elements as the first
        has, and what is too much at the end is cut off."""
        shape = value.node.tensor_type.shape
        none, one = (0,) * len(shape), (1,) * len(shape)
        chunk, axis = split.chunk, split.axis
        if not same(shape[dim], chunk):
            padded = (*shape[:dim], chunk, *shape[dim + 1 :])
            value = embed_op(value, shape=padded, start=none, step=one)
        value = all_gather_op(value, mesh=self.place.shape, axes=(axis,), dim=dim)
        if not same(chunk * self.place.shape[axis], size):
            exact = (*shape[:dim], size, *shape[dim + 1 :])
            value = slice_op(value, start=none, size=exact, step=one)
        return value

    # -- what the user says ----------------------------------------------------------------------

    def _read_spec(self, node: Node) -> Layout:
        found = []
        for size, name in zip(node.tensor_type.shape, node.attrs["spec"], strict=True):
            if name and name not in self.names:
                raise ShapeError(
                    f"shard({node.args[0].type}): the mesh has no axis {name!r}, only "
                    f"{', '.join(self.names)}, at {format_locs(node.locs)}"
                )
            found.append(self.place.split(size, self.names.index(name)) if name else None)
        return tuple(found)

    def _refuse(self, node: Node) -> None:
        if node.op in COLLECTIVES:
            raise ShapeError(
                f"{node.op.name}({node.args[0].type}): a program that is compiled for a mesh is "
                "written in whole tensors, and its collectives follow from what is split; leave "
                f"mesh= out, or the collective, at {format_locs(node.locs)}"
            )
        for region in regions_of(node):
            for inner in region.nodes:
                if inner.op is shard_op:
                    raise ShapeError(
                        f"shard({inner.args[0].type}): inside of a loop or branch nothing can be "
                        "split yet; loops take whole tensors, at "
                        f"{format_locs(inner.locs)}"
                    )
                self._refuse(inner)
