"""The carries of loops that are written over: which these are, and the one place of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field

from staticflow.codegen.program.buffers import Buffers, nbytes
from staticflow.codegen.program.carries import may_be_over
from staticflow.codegen.program.routine import Place
from staticflow.codegen.program.update_order import Order, order_updates, root_of
from staticflow.data_classes import dataclass
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node
from staticflow.ops.loops.loop import Loop, loop_ops
from staticflow.passes.cluster import cluster

__all__ = ["CarryHomes"]


@dataclass(slots=True)
class CarryHomes:
    """The places of carries that are written over, by loop and number (``of``), in ``buffers``.
    ``may_fail`` tells whether the kernel of a cluster may end the program."""

    buffers: Buffers
    may_fail: Callable[[Node], bool]
    of: dict[Node, dict[int, Place]] = field(default_factory=dict)

    def choose(
        self,
        graph: Graph,
        order: Sequence[Node],
        items: Mapping[Node, Mapping[int, Node]],
        direct: Mapping[Node, Place],
    ) -> dict[Node, Place]:
        """Choose the one place of each carry that is written over; gives the starts that are made
        there, each by a kernel for that loop alone."""
        starts: dict[Node, Place] = {}
        for node in order:
            if node.op not in loop_ops():
                continue
            loop, results, homes = Loop.of(node), items.get(node, {}), {}
            for i in self._written_over(loop):
                start, t = node.args[i], loop.body.params[i].tensor_type
                wanted = direct.get(results[i]) if i in results else None
                homes[i] = wanted or self.buffers.new(t, node, "carry of ")
                if (
                    start.op is cluster
                    and graph.users[start] == (node,)
                    and node.args.count(start) == 1
                    and start not in (*direct, *graph.outputs)
                ):
                    starts[start] = homes[i]
            self.of[node] = homes
        return starts

    def _written_over(self, loop: Loop) -> list[int]:
        """The carries of a loop whose new value is written over the old one."""
        body = loop.body
        found = [
            i for i in may_be_over(loop)
            if not self.buffers.is_late(nbytes(body.params[i].tensor_type))
        ]  # fmt: skip
        _, in_place = self.order_body(body, found)
        return [i for i in found if body.params[i] in in_place]

    def order_body(self, body: Graph, over: Iterable[int]) -> tuple[Order, set[Node]]:
        """What an order of a body keeps to that writes the carries ``over``, and which it can."""
        updates = [(root_of(body.outputs[i]), body.params[i]) for i in over]
        return order_updates(body, updates, self.may_fail, self._over_in)

    def _over_in(self, loop: Node) -> list[int]:
        return self._written_over(Loop.of(loop))
