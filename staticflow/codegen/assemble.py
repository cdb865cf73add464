"""From a fused graph to a program: which kernel runs when, on which arrays.

What the caller wants (outputs, new values of variables) is written where it is wanted by the kernel
that makes it; only what no kernel makes (an input given back, a view of an output) is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from staticflow.codegen.kernel import Check, Kernel, walk
from staticflow.codegen.lower import Scratch, lower_cluster
from staticflow.codegen.routine import (
    Arena,
    ArenaBuffer,
    Carry,
    Copy,
    Failure,
    Launch,
    Place,
    Repeat,
    Routine,
    Row,
    Step,
    Table,
)
from staticflow.codegen.schedule_cpu import schedule_cpu
from staticflow.codegen.sharing import maker_of, order_updates, root_of
from staticflow.codegen.target import Target
from staticflow.errors import CompileError
from staticflow.graph.dims import Dim, Size, Sym, prod
from staticflow.graph.graph import Graph, attrs_key, new_param
from staticflow.graph.locs import format_locs
from staticflow.graph.node import Node, constant, item, param
from staticflow.graph.types import TensorType, types_of
from staticflow.ops.scan import scan_op
from staticflow.ops.view import reshape_op
from staticflow.passes.cluster import cluster

__all__ = ["Wanted", "assemble"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A value that the caller wants in a slot. ``over`` is the param whose memory that is, for the
    new value of a variable."""

    node: Node
    slot: int
    over: Node | None = None


def nbytes(t: TensorType) -> Size:
    """The bytes of an array of this type."""
    return prod(t.shape) * t.dtype.itemsize


def assemble(
    graph: Graph,
    slots: Mapping[Node, int],
    wanted: Sequence[Wanted],
    sizes: tuple[Sym, ...],
    target: Target,
) -> Routine:
    """The program of a fused graph. ``slots`` are the table slots of params and of constants that
    are arrays."""
    work = _Assembler(target, {n: Table(s) for n, s in slots.items()})
    steps = work.top(graph, dict(work.tables), wanted)
    count = 1 + max([-1, *slots.values(), *(w.slot for w in wanted)])
    return Routine(
        tuple(work.kernels.values()), tuple(steps), tuple(work.buffers), sizes, count,
        tuple(work.failures),
    )  # fmt: skip


@dataclass(slots=True)
class _Assembler:
    target: Target
    tables: Mapping[Node, Place]
    kernels: dict[Kernel, Kernel] = field(default_factory=dict)
    lowered: dict[Any, tuple[Kernel, Scratch | None]] = field(default_factory=dict)
    buffers: list[ArenaBuffer] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    loops: int = 0

    # -- the whole program -------------------------------------------------------------------

    def top(self, graph: Graph, places: dict[Node, Place], wanted: Sequence[Wanted]) -> list[Step]:
        """The steps of the outermost graph."""
        order, in_place = order_updates(
            graph, [(root_of(w.node), w.over) for w in wanted if w.over is not None]
        )
        plain = [w for w in wanted if w.over is None or w.over in in_place]
        direct, late = _settle([(w.node, Table(w.slot)) for w in plain])
        late += [(w.node, Table(w.slot)) for w in wanted if w not in plain]
        updated = {w.over for w in wanted if w.over is not None}
        # an old value that is wanted is taken before anything overwrites it
        before: list[Step] = []
        for i, (node, place) in enumerate(late):
            old = root_of(node)
            if old in updated and places[old] != place:
                kept = self._buffer(node.tensor_type, node)
                before.append(Copy(kept, places[old], nbytes(node.tensor_type)))
                late[i] = (_moved(node, kept, places), place)
        middle = self._run(order, places, direct)
        return [*before, *middle, *_copies(late, places)]

    def _run(
        self, order: Sequence[Node], places: dict[Node, Place], direct: Mapping[Node, Place]
    ) -> list[Step]:
        steps: list[Step] = []
        items: dict[Node, dict[int, Node]] = {}
        for node in order:
            if node.op is item:
                items.setdefault(node.args[0], {})[node.attrs["index"]] = node
        for node in order:
            results = items.get(node, {}) if isinstance(node.type, tuple) else {0: node}
            if node.op is reshape_op:
                places[node] = places[node.args[0]]
            elif node.op is cluster:
                steps.append(self._launch(node, results, places, direct))
            elif node.op is scan_op:
                steps.append(self._repeat(node, results, places, direct))
            elif node.op not in (item, param, constant):
                raise CompileError(
                    f"{node.op.name} ({node.type}, at {format_locs(node.locs)}) has no lowering to "
                    "native code"
                )
        return steps

    # -- steps -------------------------------------------------------------------------------

    def _launch(
        self,
        node: Node,
        results: Mapping[int, Node],
        places: dict[Node, Place],
        direct: Mapping[Node, Place],
    ) -> Launch:
        body: Graph = node.attrs["body"]
        shared: dict[int, int] = {}
        arrays: dict[str, Place] = {f"p{i}": places[a] for i, a in enumerate(node.args)}
        for i, t in enumerate(types_of(node.type)):
            result = results.get(i)
            place = direct.get(result) if result is not None else None
            if place is None:
                place = self._buffer(t, node)
            else:
                same = [j for j, a in enumerate(node.args) if places[a] == place]
                if same:
                    shared[i] = same[0]
            arrays[f"o{i}"] = place
            if result is not None:
                places[result] = place
        kernel, scratch = self._kernel(body, node.attrs["kind"], shared)
        if scratch is not None:
            t = TensorType(scratch.dtype, (scratch.size,))
            arrays["scratch"] = self._buffer(t, node, "scratch of ")
        return Launch(
            kernel.name,
            tuple(arrays[b.name] for b in kernel.buffers),
            tuple(map(Dim.of, kernel.sizes)),
            self._site(kernel, body, node),
        )

    def _kernel(
        self, body: Graph, kind: str, shared: Mapping[int, int]
    ) -> tuple[Kernel, Scratch | None]:
        """The kernel of a cluster, under a name of its own, and the scratch memory that it wants.
        Equal clusters are lowered once, equal kernels are one."""
        key = (kind, _structure(body), tuple(shared.items()))
        if key not in self.lowered:
            lowered = lower_cluster(body, kind, self.target, shared)
            kernel = schedule_cpu(lowered, self.target)
            if kernel not in self.kernels:
                self.kernels[kernel] = kernel.renamed(f"{kernel.name}{len(self.kernels)}")
            self.lowered[key] = self.kernels[kernel], lowered.scratch
        return self.lowered[key]

    def _site(self, kernel: Kernel, body: Graph, node: Node) -> int:
        """The number under which a failure of this launch is explained; 0 if it cannot fail."""
        if not any(isinstance(s, Check) for s in walk(kernel.body)):
            return 0
        (made,) = body.outputs
        operands = ", ".join(str(a.type) for a in made.args)
        self.failures.append(Failure(f"{made.op.name}({operands})", node.locs))
        return len(self.failures)

    def _repeat(
        self,
        node: Node,
        results: Mapping[int, Node],
        places: dict[Node, Place],
        direct: Mapping[Node, Place],
    ) -> Repeat:
        body: Graph = node.attrs["body"]
        carries, xs = node.attrs["carries"], node.attrs["xs"]
        loop = self.loops
        self.loops += 1
        inner: dict[Node, Place] = {n: self.tables[n] for n in body.nodes if n.op is constant}
        starts: list[tuple[Place, Place, Place]] = []
        for i, (p, a) in enumerate(zip(body.params, node.args, strict=True)):
            if i < carries:
                inner[p] = Carry(loop, i)
                pair = (self._buffer(p.tensor_type, node), self._buffer(p.tensor_type, node))
                starts.append((places[a], *pair))
            elif i < carries + xs:
                inner[p] = Row(places[a], nbytes(p.tensor_type), loop)
            else:
                inner[p] = places[a]
        ends: list[tuple[Node, Place]] = []
        for i, o in enumerate(body.outputs):
            result = results.get(i)
            if i < carries:
                ends.append((o, Carry(loop, i, next=True)))
                if result is not None:
                    places[result] = Carry(loop, i)
            elif result is not None:
                place = direct.get(result) or self._buffer(result.tensor_type, result)
                places[result] = place
                ends.append((o, Row(place, nbytes(o.tensor_type), loop)))
        inner_direct, late = _settle(ends)
        steps = [*self._run(body.nodes, inner, inner_direct), *_copies(late, inner)]
        return Repeat(
            loop, node.attrs["length"], node.attrs["reverse"], tuple(starts), tuple(steps)
        )

    def _buffer(self, t: TensorType, node: Node, prefix: str = "") -> Arena:
        label = prefix + (node.op.name if node.op is not cluster else node.attrs["kind"])
        self.buffers.append(ArenaBuffer(t.dtype, t.shape, nbytes(t), label, node.locs))
        return Arena(len(self.buffers) - 1)


def _structure(body: Graph) -> tuple[Any, ...]:
    """What equal clusters share: ops, attributes and types, but neither names nor lines."""
    number = {n: i for i, n in enumerate(body.nodes)}
    nodes = (
        (n.op, tuple(number[a] for a in n.args), attrs_key(n.attrs), n.type)
        for n in body.nodes[len(body.params) :]
    )
    params = tuple(p.type for p in body.params)
    return (params, *nodes, tuple(number[o] for o in body.outputs))


def _settle(
    wanted: Sequence[tuple[Node, Place]],
) -> tuple[dict[Node, Place], list[tuple[Node, Place]]]:
    """Which wanted values are written in place by the kernel that makes them, and which are copied
    at the end."""
    direct: dict[Node, Place] = {}
    late: list[tuple[Node, Place]] = []
    for node, place in wanted:
        root = root_of(node)
        if _writes_where_told(root) and root not in direct:
            direct[root] = place
        else:
            late.append((node, place))
    return direct, late


def _writes_where_told(node: Node) -> bool:
    """Whether what makes a value can write it anywhere: a kernel, or a loop that stacks it. The
    last carries of a loop lie in the loop's own buffers."""
    maker = maker_of(node)
    if maker.op is scan_op:
        return bool(node.attrs["index"] >= maker.attrs["carries"])
    return maker.op is cluster


def _copies(late: Sequence[tuple[Node, Place]], places: Mapping[Node, Place]) -> list[Step]:
    return [
        Copy(place, places[node if node in places else root_of(node)], nbytes(node.tensor_type))
        for node, place in late
    ]


def _moved(node: Node, kept: Place, places: dict[Node, Place]) -> Node:
    """A stand-in for ``node`` whose value lies in ``kept``."""
    other = new_param(node.tensor_type, "kept", locs=node.locs)
    places[other] = kept
    return other
