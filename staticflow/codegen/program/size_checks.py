"""What a program checks of its sizes as it runs: those that must be equal, and those that may come
out negative or be divisors of 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace

from staticflow.codegen.program.buffers import Buffers
from staticflow.codegen.program.routine import Measure, Repeat, Require, Step
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import substitute_dim, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, fresh_sym
from staticflow.graph.doubtful_sizes import doubtful_sizes
from staticflow.graph.equalities import Equality, describe_requirement, unify
from staticflow.graph.graph import Graph, bound_symbols
from staticflow.graph.locs import Locs
from staticflow.graph.node import Node
from staticflow.passes.cluster import inner_nodes

__all__ = ["SizeChecks"]


@dataclass(slots=True)
class SizeChecks:
    """The sizes that are ``bound`` by now among those of ``buffers`` that only the run can tell,
    what is ``assumed`` of sizes since it is checked, the ``checks`` of the graph whose steps are
    made, and by which sizes others are ``replaced``. ``fails`` gives the number of another way to
    fail."""

    buffers: Buffers
    fails: Callable[[str, Locs], int]
    bound: frozenset[Sym] = frozenset()
    assumed: tuple[Equality, ...] = ()
    checks: tuple[Equality, ...] = ()
    replaced: dict[Sym, Size] = field(default_factory=dict)

    def settle(self, graph: Graph) -> None:
        """Learn which sizes a graph binds, and by which others it has replaced some."""
        own = graph.bound_sizes
        self.buffers.late |= own
        self.replaced |= unify(graph.equalities, own)[0]

    @contextmanager
    def inside(self, graph: Graph) -> Iterator[Iterator[Require]]:
        """While the steps of a graph are made; gives the checks that stand before them."""
        self.settle(graph)
        outside = self.bound, self.assumed, self.checks
        self.bound -= graph.bound_sizes  # of a region that is there twice, as in a derivative
        self.assumed += graph.equalities
        doubts = [*doubtful_sizes(inner_nodes(graph), self.assumed)]
        self.assumed += tuple(doubts)
        self.checks = (*graph.equalities, *doubts)
        self.buffers.doubted |= {e.b for e in doubts}
        yield self._require(doubts, None)
        self.bound, self.assumed, self.checks = outside

    def bind_again(self, node: Node, steps: Sequence[Step]) -> list[Step]:
        """The steps of ``node``, which fail where it binds a size that a node before it has bound
        and finds another number: as a loop and the one that stacks for its derivative both do,
        or the nodes of a file, which may say anything."""
        twice = bound_symbols(node) & self.bound
        found: list[Step] = []
        for step in steps:
            if isinstance(step, Measure | Repeat) and step.binds in twice:
                size = Dim.of(step.binds)
                again = fresh_sym(step.binds.name, step.binds.upper, late=True)
                (own,) = symbols_of(again)
                self.buffers.late.add(own)
                what = f"{node.op.name}: {size} is bound twice, and both must be equal"
                found += [
                    replace(step, binds=own),
                    Require(again, size, self.fails(what, node.locs)),
                ]
            else:
                found.append(step)
        return found

    def behind(self, node: Node) -> Iterator[Require]:
        """The checks that can be made once ``node`` has bound its sizes."""
        fresh = bound_symbols(node) - self.bound
        self.bound |= fresh
        return self._require(self.checks if fresh else (), fresh)

    def _require(
        self, found: Iterable[Equality], fresh: frozenset[Sym] | None
    ) -> Iterator[Require]:
        """Checks of what must hold of sizes, as soon as all are known, with those that are
        ``fresh`` (None: from the beginning)."""
        for e in found:
            names = symbols_of(e.a) | symbols_of(e.b)
            if (fresh is None or fresh & names) and not names & self.buffers.late - self.bound:
                a, b = (substitute_dim(size, self.replaced) for size in (e.a, e.b))
                wanted = describe_requirement(e.a, e.b)
                site = self.fails(f"{e.reason}: {wanted}", e.locs)
                yield Require(a, b, site)
