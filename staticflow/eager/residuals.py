"""A derivative in two programs: the first keeps for the second what is costly to compute again.

The *residuals* are those results of reductions, products and loops that the cotangents need. What
elementwise operations and views make of these and of the operands is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticflow.data_classes import dataclass
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import Graph, close, new_param, substitute_nodes
from staticflow.graph.node import Node, constant, param, toposort
from staticflow.graph.types import TensorType
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.declaring.lowering import Elementwise, Generate, View
from staticflow.ops.declaring.thread import for_itself, stabilizing
from staticflow.ops.symbols.gradient import pullback
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.order import AS_WRITTEN, SIMPLIFY

__all__ = ["Derivative", "differentiate"]

_CHEAP = (Elementwise, Generate, View)


@dataclass(frozen=True, slots=True)
class Derivative:
    """A function of ``params`` that gives ``outputs``; the ``residuals`` of its derivative; and the
    ``cotangents`` of the params (None: not wanted), made of params, what was ``kept`` in place of
    the residuals, and ``seeds``, the cotangents of the outputs. ``declared`` are the types of the
    params and the seeds before the ``equalities`` gave equal sizes one name."""

    params: Sequence[Node]
    outputs: Sequence[Node]
    residuals: Sequence[Node]
    kept: Sequence[Node]
    seeds: Sequence[Node]
    cotangents: Sequence[Node | None]
    equalities: Sequence[Equality]
    declared: Sequence[TensorType]

    def forward(self) -> Graph:
        """The graph from the params to the outputs and the residuals."""
        declared = self.declared[: len(self.params)]
        return close(self.params, [*self.outputs, *self.residuals], self.equalities, declared)

    def backward(self, needs: Sequence[bool], given: Sequence[bool]) -> Graph:
        """The graph from the params, what was kept and the seeds of those outputs whose cotangents
        are ``given`` to the cotangents of those params that are needed."""
        count = len(self.params)
        missing = {}
        params, declared = [*self.params, *self.kept], [*self.declared[:count]]
        declared += [k.tensor_type for k in self.kept]
        for seed, t, is_given in zip(self.seeds, self.declared[count:], given, strict=True):
            if is_given:
                params.append(seed)
                declared.append(t)
            else:
                missing[seed] = zeros_like(Symbol(seed)).node
        wanted = [c for c, need in zip(self.cotangents, needs, strict=True) if c and need]
        return close(params, substitute_nodes(wanted, missing), self.equalities, declared)

    def unread(self) -> frozenset[int]:
        """The params of which the backward uses the shapes only: they may change before it."""
        read = set(toposort(c for c in self.cotangents if c))
        return frozenset(i for i, p in enumerate(self.params) if p not in read)


@for_itself()
def differentiate(
    params: Sequence[Node],
    outputs: Sequence[Node],
    needs: Sequence[bool],
    passes: Sequence[str] = AS_WRITTEN,
) -> Derivative:
    """The derivative of ``outputs`` by those of ``params`` that are needed, after those of
    ``passes`` that simplify."""
    seeds = [new_param(o.tensor_type, f"ct{i}") for i, o in enumerate(outputs)]
    wanted = [Symbol(p) for p, need in zip(params, needs, strict=True) if need]
    cts = [Symbol(s) if s.tensor_type.dtype.is_floating else None for s in seeds]
    with stabilizing(False):  # as it is run op by op
        found = pullback(list(map(Symbol, outputs)), cts, wanted)
    pulled = [zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]
    graph = close([*params, *seeds], [*outputs, *(g.node for g in pulled)])
    from staticflow.passes.pipeline import optimize  # imported where something is compiled

    graph, _ = optimize(graph, passes=[p for p in SIMPLIFY if p in passes])
    own, ends = graph.params[: len(params)], graph.params[len(params) :]
    outs, roots = graph.outputs[: len(outputs)], graph.outputs[len(outputs) :]
    residuals = _residuals(own, ends, roots)
    kept = [new_param(r.tensor_type, f"kept{i}") for i, r in enumerate(residuals)]
    back = iter(substitute_nodes(roots, dict(zip(residuals, kept, strict=True))))
    cotangents = [next(back) if need else None for need in needs]
    return Derivative(
        own, outs, residuals, kept, ends, cotangents, graph.equalities, graph.declared
    )  # fmt: skip


def _residuals(own: Sequence[Node], seeds: Sequence[Node], roots: Sequence[Node]) -> list[Node]:
    """The costly nodes of which ``roots`` are made and which no seed leads to."""
    late = set(seeds)
    order = toposort(roots)
    for node in order:
        if any(a in late for a in node.args):
            late.add(node)
    found: dict[Node, None] = {}
    seen = set(own)

    def visit(node: Node) -> None:
        stack = [node]
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            if _is_cheap(at):
                stack.extend(reversed(at.args))
            else:
                found[at] = None

    for node in (*order, *roots):
        for a in node.args if node in late else (node,) if node in roots else ():
            if a not in late:
                visit(a)
    return list(found)


def _is_cheap(node: Node) -> bool:
    return node.op in (constant, param) or type(node.op.lowering) in _CHEAP
