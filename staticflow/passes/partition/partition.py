"""The graph of one rank: it follows the layouts from where the user says one, and brings operands
to the layouts that the ops take.

Every rank is given whole inputs and variables, and takes its parts, which costs no copy: a part is
a view. Where ranks have parts of a sum they add these up, and where an op has no rule for split
operands these are gathered; both are collectives in the graph, at the line of what wanted them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.dims import same
from staticflow.graph.graph import Graph, close, new_param, regions_of
from staticflow.graph.locs import format_locs, using
from staticflow.graph.node import Node, item, param, toposort
from staticflow.graph.op import Op
from staticflow.graph.types import TensorType, types_of
from staticflow.ops.along.collectives import all_reduce_op, shard_op
from staticflow.ops.along.ordered_collectives import COLLECTIVES
from staticflow.ops.basics.arithmetic import keep_history
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.declaring.late import behind
from staticflow.ops.declaring.lowering import Elementwise, View
from staticflow.ops.declaring.thread import for_itself
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.loops.loop import loop_ops
from staticflow.ops.matrices.attention import (
    attend_back_op,
    attend_op,
    write_out,
    write_out_back,
)
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.partition.branches import split_branches
from staticflow.passes.partition.layouts import Layout, Place, same_layout, whole
from staticflow.passes.partition.loops import split_loop
from staticflow.passes.partition.moved_on import take_from_parts
from staticflow.passes.partition.moves import (
    Moved,
    cut_to_parts,
    move,
    note_move,
)
from staticflow.passes.partition.plans import Plan
from staticflow.passes.partition.rules import rule_of, turn_back
from staticflow.passes.partition.vocabulary import add_up_part, pick_from_parts
from staticflow.passes.rewrite import with_args

__all__ = ["Axes", "partition"]


def partition(
    graph: Graph,
    names: Sequence[str],
    shape: tuple[int, ...],
    rank: int,
    n_out: int,
    parts: Mapping[Node, Axes] = {},
    updated: Sequence[Axes | None] = (),
    kept: Collection[Node] = (),
) -> tuple[Graph, Sequence[tuple[Node, Moved]]]:
    """The graph of a rank of a mesh that has axes of these names and sizes. The first ``n_out``
    outputs are whole, unless they are said to be split; of these a rank gives its part. ``parts``
    are the params of which it has a part, with the axes that split them, of which those that are
    ``kept`` are variables; the new values of what is ``updated``, behind the outputs, are parts
    where they have such an entry. Gives what is sent, too, since it is split otherwise than it is
    wanted, with the node of whole tensors; `moves_left` has what of that is needed.

    Raises `ShapeError` for an axis that the mesh does not have, and for a collective of the user's,
    which a graph of whole tensors has no place for.
    """
    walk = Walk(names, Place(shape, rank))
    with for_itself():
        for p, part in parts.items():
            walk.begin_with_part(p, part)
        walk.kept.update(kept)
        for node in graph.nodes:
            if node not in walk.local:
                walk.visit(node)
        outputs = [
            walk.local[o][0] if o.op is shard_op else walk.take(o, whole(o.tensor_type.ndim))
            for o in graph.outputs[:n_out]
        ]
        walk.ending = "new values"
        for o, end in zip(graph.outputs[n_out:], updated, strict=True):
            sizes = o.tensor_type.shape
            outputs.append(walk.take(o, walk.place.layout(sizes, end or (None,) * len(sizes))))
    params = [walk.local[p][0] for p in graph.params]
    declared = [
        made.tensor_type if p in parts else t
        for p, made, t in zip(graph.params, params, graph.declared, strict=True)
    ]
    local = close(params, outputs, graph.equalities, declared)
    return local, walk.moved


Axes = tuple[int | None, ...]
"""The number of the axis that splits each dim, None for one that is whole."""

DEEPEST = 16
"""How far back what is computed element by element is computed of parts, where a part is needed."""


class Walk:
    """The node of this rank for each node of whole tensors, with the layouts of its results."""

    def __init__(self, names: Sequence[str], place: Place) -> None:
        self.names, self.place = tuple(names), place
        self.local: dict[Node, tuple[Node, tuple[Layout, ...]]] = {}
        self.parts: dict[Node, tuple[Node, ...]] = {}
        self.computed: dict[tuple[Node, Layout], Node] = {}
        self.depth = 0
        self.kept: set[Node] = set()
        self.moved: list[tuple[Node, Moved]] = []
        self.ending = "the results"
        """What wants a layout that no op does."""
        self.results: dict[Node, Sequence[tuple[Node, Layout]]] = {}

    def follow(self, region: Graph, layouts: Sequence[Layout]) -> Walk:
        """The walk of a region, whose params have these layouts."""
        inner = Walk(self.names, self.place)
        inner.moved = self.moved
        for p, layout in zip(region.params, layouts, strict=True):
            kind = TensorType(p.tensor_type.dtype, self.place.local(p.tensor_type.shape, layout))
            inner.local[p] = new_param(kind, p.attrs["name"], locs=p.locs), (layout,)
        for n in region.nodes:
            if n not in inner.local:
                inner.visit(n)
        return inner

    def begin_with_part(self, p: Node, part: Axes) -> None:
        """Have a param of which this rank has a part."""
        layout = self.place.layout(p.tensor_type.shape, part)
        kind = TensorType(p.tensor_type.dtype, self.place.local(p.tensor_type.shape, layout))
        made = new_param(kind, p.attrs["name"], p.attrs["source"], p.locs)
        self.local[p] = made, (layout,)

    def is_kept_in_parts(self, node: Node) -> bool:
        """Whether a node is a variable of which this rank keeps a part, or a view of one that is
        not said to be split."""
        while len(node.args) == 1 and isinstance(node.op.lowering, View):
            if node.op is shard_op:
                return False
            (node,) = node.args
        return node in self.kept

    def visit(self, node: Node) -> None:
        """Find what a node is on this rank, whose arguments were visited."""
        if node.op is item:
            self._item(node)
        elif node.op is shard_op:
            layout = self._read_spec(node)
            self.local[node] = self.take(node.args[0], layout, node), (layout,)
        elif node.op is keep_history:  # which has said where gradients go
            self.local[node] = self.local[node.args[1]]
        else:
            self._refuse(node)
            layouts = [self.local[a][1][0] for a in node.args] if node.op is not param else []
            split = _SPLIT.get(node.op)
            if split is not None and (any(map(any, layouts)) or _splits(node)):
                self.results[node] = split(node, layouts, self)
            elif not any(map(any, layouts)):
                self._keep(node)
            else:
                self._split(node, layouts)

    def _item(self, node: Node) -> None:
        of, index = node.args[0], node.attrs["index"]
        if of in self.results:
            made, layout = self.results[of][index]
            self.local[node] = made, (layout,)
        elif of in self.parts:
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
        picked = pick_from_parts(node, layouts, self) or take_from_parts(node, layouts, self)
        if picked is not None:
            self.local[node] = picked
            return
        rule = rule_of(node.op)
        plan = None if rule is None else rule(node, layouts, self.place)
        if plan is not None:
            self._compute(node, plan)
        elif (written := _WRITTEN_OUT.get(node.op, node.op.decompose)) is not None:
            self._write_out(node, written)
        else:
            args = tuple(self.take(a, whole(a.tensor_type.ndim), node) for a in node.args)
            made = with_args(node, args)
            self.local[node] = made, tuple(whole(t.ndim) for t in types_of(node.type))

    def _write_out(self, node: Node, written: Callable[..., Any]) -> None:
        """Follow what a function writes in the place of a node."""
        with using(node.locs), behind(node.args):
            given = written(*map(Symbol, node.args), **node.attrs)
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
            given = list(map(Symbol, args))
            start = None if plan.start is None else given[plan.start]
            if plan.start is not None:
                given[plan.start] = zeros_like(given[plan.start])
            made = node.op(*given, **attrs)
            if plan.partial:
                self.results[node] = self._add_up(node, made, plan, start)
                if not isinstance(made, tuple):
                    self.local[node] = self.results[node][0][0], plan.results
                return
        first = made[0] if isinstance(made, tuple) else made
        found: Node = first.node.args[0] if isinstance(made, tuple) else first.node
        self.local[node] = found, plan.results

    def _add_up(
        self, node: Node, made: Any, plan: Plan, start: Symbol | None
    ) -> list[tuple[Node, Layout]]:
        """The results of which each rank has a share, combined; of one that then is split over an
        axis of the ranks, this rank's part."""
        found: list[tuple[Node, Layout]] = []
        values = made if isinstance(made, tuple) else (made,)
        for i, (value, layout, t) in enumerate(
            zip(values, plan.results, types_of(node.type), strict=True)
        ):
            if i in plan.shares:
                value = all_reduce_op(
                    value, mesh=self.place.shape, axes=plan.partial, reduce=plan.reduce
                )
                value = value if start is None else start + value
                own = {d: s for d, s in enumerate(layout) if s and s.axis in plan.partial}
                parts = {d: (t.shape[d], s) for d, s in own.items()}
                value = cut_to_parts(value, parts, self.place)
            found.append((value.node, layout))
        return found

    # -- layouts ---------------------------------------------------------------------------------

    def take(self, node: Node, layout: Layout, user: Node | None = None) -> Node:
        """What a node of one result is in another layout: gathered where that has a dim whole, and
        cut where it has it split. It is at the line of its ``user``."""
        made, (now,) = self.local[node]
        if same_layout(now, layout):
            return made
        if not any(now) and self.depth < DEEPEST and _is_by_element(node):
            return self._compute_part(node, layout)
        if not any(now) and (part := add_up_part(node, layout, self)) is not None:
            return part
        turned = turn_back(node, layout)
        if turned is not None and any(a and not b for a, b in zip(now, layout, strict=True)):
            source = self.take(node.args[0], turned, user)  # once, whichever way it is read
            with using((user or node).locs), behind((source,)):
                again: Node = node.op(Symbol(source), **node.attrs).node
            return again
        moved = note_move(node, now, layout, user or self.ending, self.place, self.names)
        if moved is not None and not self.is_kept_in_parts(node):
            self.moved.append((node, moved))
        with using((user or node).locs), behind((made,)):
            return move(Symbol(made), node.tensor_type.shape, now, layout, self.place).node

    def _compute_part(self, node: Node, layout: Layout) -> Node:
        """This rank's part of what is computed element by element of whole tensors: of their
        parts."""
        key = node, layout
        if key not in self.computed:
            self.depth += 1
            args = [self.take(a, _layout_of_operand(a, node, layout), node) for a in node.args]
            self.depth -= 1
            with using(node.locs), behind(args):
                self.computed[key] = node.op(*map(Symbol, args), **node.attrs).node
        return self.computed[key]

    # -- what the user says ----------------------------------------------------------------------

    def _read_spec(self, node: Node) -> Layout:
        found: list[int | None] = []
        for name in node.attrs["spec"]:
            if name and name not in self.names:
                raise ShapeError(
                    f"shard({node.args[0].type}): the mesh has no axis {name!r}, only "
                    f"{', '.join(self.names)}, at {format_locs(node.locs)}"
                )
            found.append(self.names.index(name) if name else None)
        return self.place.layout(node.tensor_type.shape, found)

    def _refuse(self, node: Node) -> None:
        if node.op in COLLECTIVES:
            raise ShapeError(
                f"{node.op.name}({node.args[0].type}): a program that is compiled for a mesh is "
                "written in whole tensors, and its collectives follow from what is split; leave "
                f"mesh= out, or the collective, at {format_locs(node.locs)}"
            )
        for region in regions_of(node):
            for inner in region.nodes:
                self._refuse(inner)


_SPLIT: Mapping[Op, Callable[[Node, Sequence[Layout], Walk], list[tuple[Node, Layout]]]] = {
    **dict.fromkeys(loop_ops(), split_loop),
    cond_op: split_branches,
}
"""What ops that hold regions do with operands that are split."""

_WRITTEN_OUT: Mapping[Op, Callable[..., Any]] = {
    attend_op: write_out,
    attend_back_op: write_out_back,
}
"""Ops that are said in others where their own rule has no plan."""


def _layout_of_operand(operand: Node, node: Node, layout: Layout) -> Layout:
    """The layout of an operand of an elementwise node of which a part in this layout is computed:
    whole along the dims that it is repeated along. A dim of one element that is not repeated is
    split, too: one rank has it."""
    shape = operand.tensor_type.shape
    first = len(layout) - len(shape)
    return tuple([
        None if same(size, 1) and not same(whole_size, 1) else split
        for size, whole_size, split in zip(
            shape, node.tensor_type.shape[first:], layout[first:], strict=True
        )
    ])  # fmt: skip


def _is_by_element(node: Node) -> bool:
    return isinstance(node.op.lowering, Elementwise) and not isinstance(node.type, tuple)


def _splits(node: Node) -> bool:
    """Whether something inside of a loop or branch is said to be split."""
    return any(
        inner.op is shard_op or _splits(inner)
        for region in regions_of(node)
        for inner in region.nodes
    )
