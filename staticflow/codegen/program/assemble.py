"""From a fused graph to a program: which kernel runs when, on which arrays.

What the caller wants (outputs, new values of variables) is written where it is wanted by the kernel
that makes it; only what no kernel makes (an input given back, a view of an output) is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from staticflow.codegen.endless import find_counted_loop
from staticflow.codegen.kernel import Kernel
from staticflow.codegen.program.buffers import Buffers, nbytes
from staticflow.codegen.program.carries import lay_out
from staticflow.codegen.program.carry_homes import CarryHomes
from staticflow.codegen.program.direct import does_nothing, split_direct
from staticflow.codegen.program.kernels import Kernels
from staticflow.codegen.program.library_products import LibraryProduct, find_product, rows_of
from staticflow.codegen.program.node_order import Scratches, order_nodes
from staticflow.codegen.program.routine import (
    Arena,
    Ask,
    Choose,
    Copy,
    Epilogue,
    Failure,
    Give,
    Launch,
    Measure,
    Multiply,
    Part,
    Place,
    Repeat,
    Routine,
    Row,
    Step,
    Table,
)
from staticflow.codegen.program.size_checks import SizeChecks
from staticflow.codegen.program.update_order import order_updates, put_into, root_of
from staticflow.codegen.target import Target
from staticflow.config import config
from staticflow.data_classes import dataclass
from staticflow.errors import CompileError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size, Sym
from staticflow.graph.dtypes import float32
from staticflow.graph.graph import Graph, bound_symbols, new_param
from staticflow.graph.locs import Locs, format_locs
from staticflow.graph.node import Node, constant, item, maker_of, param
from staticflow.graph.op import Op
from staticflow.graph.types import TensorType, types_of
from staticflow.ops.declaring.late import measure_op, prefix_op
from staticflow.ops.declaring.lowering import Host
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.loops.loop import Loop, scan_op, while_op
from staticflow.passes.access import rows_start, shows_memory
from staticflow.passes.cluster import checked_members, cluster

__all__ = ["Wanted", "assemble"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """A value that the caller wants in a slot. ``over`` is the param whose memory that is, for the
    new value of a variable."""

    node: Node
    slot: int
    over: Node | None = None


def assemble(
    graph: Graph,
    slots: Mapping[Node, int],
    wanted: Sequence[Wanted],
    sizes: tuple[Sym, ...],
    target: Target,
    told: Callable[[Kernel], None] | None = None,
    *,
    fast: bool = False,
) -> Routine:
    """The program of a fused graph, whose numerics are ``fast`` or not. ``slots`` are the table
    slots of params and of constants that are arrays. Of each kernel is ``told`` when it is made."""
    work = _Assembler(Kernels(target, told), {n: Table(s) for n, s in slots.items()}, fast)
    steps = work.top(graph, dict(work.tables), wanted)
    count = 1 + max([-1, *slots.values(), *(w.slot for w in wanted)])
    return Routine(
        tuple(work.kernels.named.values()), tuple(steps), tuple(work.buffers.all), sizes, count,
        tuple(work.failures), work.buffers.late_sizes([w.node for w in wanted]),
    )  # fmt: skip


@dataclass(slots=True)
class _Assembler:
    kernels: Kernels
    tables: Mapping[Node, Place]
    fast: bool
    failures: list[Failure] = field(default_factory=list)
    loops: int = 0
    open: list[tuple[int, str, Locs]] = field(default_factory=list)
    updated: set[Place] = field(default_factory=set)
    strided: dict[Place, TensorType] = field(default_factory=dict)
    buffers: Buffers = field(init=False)
    sizes: SizeChecks = field(init=False)
    homes: CarryHomes = field(init=False)

    def __post_init__(self) -> None:
        self.buffers = Buffers(self._fails)
        self.sizes = SizeChecks(self.buffers, self._fails)
        self.homes = CarryHomes(self.buffers, self.kernels.may_fail)

    # -- the whole program -------------------------------------------------------------------

    def top(self, graph: Graph, places: dict[Node, Place], wanted: Sequence[Wanted]) -> list[Step]:
        """The steps of the outermost graph."""
        updates = [(root_of(w.node), w.over) for w in wanted if w.over is not None]
        order, in_place = order_updates(graph, updates, self.kernels.may_fail)
        overs = [w.over for w in wanted if w.over is not None]
        self.updated = {places[p] for p in overs}
        self.strided = {places[p]: p.tensor_type for p in overs if p.tensor_type.strides}
        first = [w for w in wanted if w.over is None or w.over in in_place]
        later = [w for w in wanted if w.over is not None and w.over not in in_place]
        given: list[Step] = []
        self.sizes.settle(graph)
        targets = {w.slot: self._target(w, given) for w in wanted}
        direct, copied = split_direct([(w.node, targets[w.slot]) for w in first])
        copied += [(w.node, targets[w.slot]) for w in later]
        for node, place in copied:
            if place in self.strided:
                raise CompileError(
                    f"an array that does not lie in one row is overwritten with {node.op.name} "
                    f"({node.type}), which takes a copy, at {format_locs(node.locs)}"
                )
        updated = {w.over for w in wanted if w.over is not None}
        # an old value that is wanted is taken before anything overwrites it
        before: list[Step] = []
        for i, (node, place) in enumerate(copied):
            old = root_of(node)
            if old in updated and places[old] != place:
                kept = self.buffers.new(node.tensor_type, node)
                before.append(Copy(kept, places[old], nbytes(node.tensor_type)))
                copied[i] = (_stand_in(node, kept, places), place)
        last = [root_of(n) for n, _ in copied]
        nodes = order_nodes(graph, order.edges(), direct, last, self._scratch_in(places, direct))
        middle = self._run(graph, nodes, places, direct)
        return [*before, *middle, *self._copies(copied, places), *given]

    def _target(self, wanted: Wanted, given: list[Step]) -> Place:
        """Where a wanted value goes: the caller's array, or a buffer that the caller is given if
        only the run can tell its size."""
        t = wanted.node.tensor_type
        if wanted.over is not None or not self.buffers.is_late(nbytes(t)):
            return Table(wanted.slot)
        place = self.buffers.new(t, wanted.node, made=True)
        given.append(Give(wanted.slot, place.buffer))
        return place

    def _run(
        self,
        graph: Graph,
        order: Sequence[Node],
        places: dict[Node, Place],
        direct: Mapping[Node, Place],
    ) -> list[Step]:
        """The steps of a graph, with ``order`` an order of its nodes."""
        items: dict[Node, dict[int, Node]] = {}
        for node in order:
            if node.op is item:
                items.setdefault(node.args[0], {})[node.attrs["index"]] = node
        with self.sizes.inside(graph) as checks:
            steps: list[Step] = [*checks]
            direct = {**direct, **self.homes.choose(graph, order, items, direct)}
            self._join_puts(graph, order, direct)
            for node in order:
                results = items.get(node, {}) if isinstance(node.type, tuple) else {0: node}
                if node.op is prefix_op or shows_memory(node):
                    places[node] = places[node.args[0]]
                elif (start := self._start_in_memory(node, places, direct)) is not None:
                    places[node] = Part(places[node.args[0]], start)
                elif (make := _maker(node.op)) is not None:
                    old = put_into(graph, node)
                    if old is not None and isinstance(places[old], Arena):
                        direct.setdefault(node, places[old])
                    made = make(self, node, results, places, direct)
                    steps += self.buffers.take_pending()
                    steps += self.sizes.bind_again(node, () if does_nothing(node) else made)
                    steps += self.sizes.behind(node)
                elif node.op not in (item, param, constant):
                    raise CompileError(
                        f"{node.op.name} ({node.type}, at {format_locs(node.locs)}) has no "
                        "lowering to native code"
                    )
        return steps

    def _join_puts(self, graph: Graph, order: Sequence[Node], direct: dict[Node, Place]) -> None:
        """Let arrays that kernels only put elements into be made where these are wanted."""
        for node in reversed(order):
            old = put_into(graph, node) if node in direct else None
            if old is not None and direct[node] not in self.updated:
                direct.setdefault(old, direct[node])

    def _start_in_memory(
        self, node: Node, places: Mapping[Node, Place], direct: Mapping[Node, Place]
    ) -> Size | None:
        """The byte from which on ``node``, rows of an array one after the other, lies in the memory
        of that; None if it is to have memory of its own."""
        if self.open or node in direct or node.op is not cluster or len(node.args) != 1:
            return None
        source = places[node.args[0]]
        if not isinstance(source, Table | Arena) or source in self.updated:
            return None
        return rows_start(node.attrs["body"])

    # -- steps -------------------------------------------------------------------------------

    def _launch(
        self,
        node: Node,
        results: Mapping[int, Node],
        places: dict[Node, Place],
        direct: Mapping[Node, Place],
    ) -> tuple[Step, ...]:
        body: Graph = node.attrs["body"]
        bound = bound_symbols(node)
        arrays: dict[str, Place] = {f"p{i}": places[a] for i, a in enumerate(node.args)}
        for i, t in enumerate(types_of(node.type)):
            result = results.get(i)
            wanted = direct.get(result) if result is not None else None
            made = not symbols_of(t.size).isdisjoint(bound)
            place = self.buffers.place_for(t, node, wanted, made=made)
            arrays[f"o{i}"] = place
            if result is not None:
                places[result] = place
        shared, lies = self._over_args(node, results, places, direct)
        kind: str = node.attrs["kind"]
        multiply = product = None
        if kind == "contract" and self.kernels.target.teams:
            product = find_product(body, [places[a] for a in node.args], self.fast)
        if product is not None:
            # what is overwritten is so by kernels, which can be guarded
            is_own = not shared and not lies and arrays["o0"] not in self.updated
            multiply = self._multiply(node, product, arrays, is_own and product.has_epilogue)
            if product.rest is None:
                return (multiply,)
            body, kind = product.rest, "map"
            if multiply.target.place == arrays["o0"]:
                shared = {0: len(node.args)}
        launched = self.kernels.make(body, kind, shared, lies)
        kernel, sizes = launched.kernel, launched.sizes
        told = frozenset[Sym]().union(*map(symbols_of, sizes))
        for s in launched.scratch:
            own = symbols_of(s.size) - told  # which only the kernel can tell
            self.buffers.late |= own
            t = TensorType(s.dtype, (s.size,))
            arrays[s.name] = self.buffers.new(t, node, "scratch of ", made=bool(own))
        placed = tuple(arrays[b.name] for b in kernel.buffers)
        site = self._site(kernel, body, node)
        counted = None if bound else _counted_size(kernel, body)
        launch = Launch(kernel.name, placed, sizes, site, node.locs, counted)
        if product is not None and multiply is not None:
            if multiply.target.place != arrays["o0"]:
                return multiply, launch
            epilogue = Epilogue(product.bias, product.activation, launch)
            return (replace(multiply, epilogue=epilogue),)
        counts = (Measure(size, place, locs=node.locs) for size in bound)  # the last result
        return launch, *counts

    def _multiply(
        self, node: Node, product: LibraryProduct, arrays: dict[str, Place], in_place: bool
    ) -> Multiply:
        """The step that makes the product of a cluster. The rest of the cluster, if there is one,
        reads it as one param more, ``in_place`` from where its own result goes."""
        target = arrays["o0"]
        if product.rest is not None:
            if not in_place:
                target = self.buffers.new(product.type, node)
            arrays[f"p{len(node.args)}"] = target
        tf32 = config.tf32 and product.type.dtype is float32
        to = rows_of(target, product.type)
        return Multiply(to, product.left, product.right, tf32, node.locs)

    def _over_args(
        self,
        node: Node,
        results: Mapping[int, Node],
        places: Mapping[Node, Place],
        direct: Mapping[Node, Place],
    ) -> tuple[dict[int, int], dict[int, TensorType]]:
        """Which results of a cluster lie over which of its arguments, and the types of those whose
        wanted place does not lie in one row."""
        shared: dict[int, int] = {}
        lies: dict[int, TensorType] = {}
        for i, result in results.items():
            place = direct.get(result)
            if place is None:
                continue
            if place in self.strided:
                lies[i] = self.strided[place]
            same = [j for j, a in enumerate(node.args) if places.get(a) == place]
            if same:
                shared[i] = same[0]
        return shared, lies

    def _scratch_in(self, places: Mapping[Node, Place], direct: Mapping[Node, Place]) -> Scratches:
        """What tells the bytes that the kernel of a cluster works in, before any has run."""

        def scratch(node: Node, results: Mapping[int, Node]) -> Size:
            body, kind = node.attrs["body"], node.attrs["kind"]
            if kind not in _WORKS_IN_MEMORY:
                return 0
            shared, lies = self._over_args(node, results, places, direct)
            return self.kernels.scratch_bytes(body, kind, shared, lies)

        return scratch

    def _fails(self, what: str, locs: Locs) -> int:
        """Another way to fail, in the loops that are open; gives its number."""
        self.failures.append(Failure(what, locs, tuple(self.open)))
        return len(self.failures)

    def _site(self, kernel: Kernel, body: Graph, node: Node) -> int:
        """The number under which a failure of this launch is explained, that of the first member
        that is checked, behind which come those of the others; 0 if it cannot fail."""
        if not self.kernels.checks(kernel):
            return 0
        checked = checked_members(body)
        sites = [self._fail_in(n, n.locs) for n in checked]
        return sites[0] if sites else self._fail_in(maker_of(body.outputs[0]), node.locs)

    def _fail_in(self, made: Node, locs: Locs) -> int:
        """A way to fail that is explained by the node that refuses a value."""
        operands = ", ".join(str(a.type) for a in made.args)
        asks = made.attrs.get("of", made.op.name)
        return self._fails(made.attrs.get("what", f"{asks}({operands})"), locs)

    def _repeat(
        self,
        node: Node,
        results: Mapping[int, Node],
        places: dict[Node, Place],
        direct: Mapping[Node, Place],
    ) -> tuple[Step, ...]:
        loop = Loop.of(node)
        body, number = loop.body, self.loops
        self.loops += 1
        inner: dict[Node, Place] = {n: self.tables[n] for n in body.nodes if n.op is constant}
        inner |= {p: places[a] for p, a in zip(body.params, node.args, strict=True)}
        carries, xs, _ = loop.operands(body.params)
        starts = [inner.pop(p) for p in carries]
        saved: list[Step] = []
        for i, p in enumerate(carries):
            if i in results and starts[i] in self.updated:  # its last value may be its first
                own = self.buffers.new(p.tensor_type, node, "start of ")
                saved.append(Copy(own, starts[i], nbytes(p.tensor_type)))
                starts[i] = own
        given = {n for n, place in inner.items() if place not in self.updated}
        inner |= {p: Row(inner[p], nbytes(p.tensor_type), number) for p in xs}
        wanted = {i: direct.get(r) for i, r in results.items()}
        homes = self.homes.of.get(node, {})
        layout = lay_out(
            loop, number, starts, {n: inner[n] for n in given}, wanted,
            lambda t, place, label, made: self.buffers.place_for(t, node, place, label, made),
            homes,
        )  # fmt: skip
        inner |= {p: layout.carries[i] for i, p in enumerate(carries)}
        before = [*self.buffers.take_pending(), *saved, *layout.before]
        self.open.append((number, node.op.name, node.locs))
        steps = (*layout.room, *self._region(body, inner, layout.ends, homes))
        self.open.pop()
        flag = layout.carries[0] if loop.binds else None
        binds = next(iter(bound_symbols(node)), None)
        repeat = Repeat(number, loop.length, loop.reverse, steps, flag, binds, node.locs)
        after: list[Step] = []
        for i, result in results.items():
            places[result] = wanted[i] or layout.results[i]
            if places[result] != layout.results[i]:
                after += self._copy(result, places[result], layout.results[i])
        return *before, repeat, *after

    def _choose(
        self,
        node: Node,
        results: Mapping[int, Node],
        places: dict[Node, Place],
        direct: Mapping[Node, Place],
    ) -> tuple[Step, ...]:
        branches: tuple[Graph, Graph] = node.attrs["true"], node.attrs["false"]
        made = {
            i: self.buffers.place_for(r.tensor_type, node, direct.get(r))
            for i, r in results.items()
        }
        room = self.buffers.take_pending()
        both = []
        for branch in branches:
            inner: dict[Node, Place] = {n: self.tables[n] for n in branch.nodes if n.op is constant}
            inner |= {p: places[a] for p, a in zip(branch.params, node.args[1:], strict=True)}
            ends = [(branch.outputs[i], place) for i, place in made.items()]
            both.append(tuple(self._region(branch, inner, ends)))
        places |= {results[i]: place for i, place in made.items()}
        return *room, Choose(places[node.args[0]], *both)

    def _measure(
        self,
        node: Node,
        results: Mapping[int, Node],
        places: dict[Node, Place],
        direct: Mapping[Node, Place],
    ) -> tuple[Measure]:
        (count,) = node.args
        most: Size = node.attrs["most"]
        places[node] = self.buffers.new(node.tensor_type, node)
        site = self._fails(f"{node.attrs['what']} lies outside of 0..{most}", node.locs)
        (size,) = bound_symbols(node)
        return (Measure(size, places[count], most, site, node.locs),)

    def _ask(
        self,
        node: Node,
        results: Mapping[int, Node],
        places: dict[Node, Place],
        direct: Mapping[Node, Place],
    ) -> tuple[Ask]:
        made = {
            i: self.buffers.place_for(r.tensor_type, node, direct.get(r))
            for i, r in results.items()
        }
        types = (*(a.tensor_type for a in node.args), *(r.tensor_type for r in results.values()))
        values = tuple(places[a] for a in node.args)
        places |= {results[i]: place for i, place in made.items()}
        return (Ask(node.op, node.attrs, values, tuple(made.items()), types, node.locs),)

    def _region(
        self,
        body: Graph,
        places: dict[Node, Place],
        ends: Sequence[tuple[Node, Place]],
        over: Iterable[int] = (),
    ) -> list[Step]:
        """The steps of a region, with its results where ``ends`` says, those of the carries
        ``over`` written over the old ones."""
        direct, copied = split_direct(ends)
        order, _ = self.homes.order_body(body, over)
        last = [root_of(n) for n, _ in copied]
        nodes = order_nodes(body, order.edges(), direct, last, self._scratch_in(places, direct))
        return [*self._run(body, nodes, places, direct), *self._copies(copied, places)]

    def _copies(
        self, copied: Sequence[tuple[Node, Place]], places: Mapping[Node, Place]
    ) -> Iterator[Step]:
        for node, place in copied:
            yield from self._copy(node, place, places[node if node in places else root_of(node)])

    def _copy(self, node: Node, target: Place, source: Place) -> Iterator[Step]:
        """Copy the value of a node."""
        bytes_ = nbytes(node.tensor_type)
        if isinstance(target, Arena) and self.buffers.all[target.buffer].grows:
            yield self.buffers.ensure(target.buffer, bytes_)
        yield Copy(target, source, bytes_)


_WORKS_IN_MEMORY = "contract", "attend", "nest", "rows"
"""Kinds of clusters whose kernels may work in much memory."""


def _stand_in(node: Node, kept: Place, places: dict[Node, Place]) -> Node:
    """A stand-in for ``node`` whose value lies in ``kept``."""
    other = new_param(node.tensor_type, "kept", locs=node.locs)
    places[other] = kept
    return other


_MAKE_STEPS: dict[Op, Callable[..., tuple[Step, ...]]] = {
    cluster: _Assembler._launch,
    scan_op: _Assembler._repeat,
    while_op: _Assembler._repeat,
    cond_op: _Assembler._choose,
    measure_op: _Assembler._measure,
}


def _maker(op: Op) -> Callable[..., tuple[Step, ...]] | None:
    """What makes the steps of a node; None of one that is no step."""
    return _Assembler._ask if isinstance(op.lowering, Host) else _MAKE_STEPS.get(op)


def _counted_size(kernel: Kernel, body: Graph) -> Sym | None:
    """The number of iterations of a kernel that is an endless loop, of which nobody asks for it."""
    if find_counted_loop(kernel) is None:
        return None
    (found,) = bound_symbols(body.outputs[0].args[0])
    return found
