"""What every kernel of attention knows of its node: the operands, their sizes, and what is done to
scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from staticflow.codegen.kernel import Operand
from staticflow.codegen.lower.seen_keys import Range, seeing_queries, seen_keys
from staticflow.codegen.lower.tasks import bind_index
from staticflow.codegen.maths.scalars import Scalars
from staticflow.graph.dims import Size, dim_max, dim_min, is_provably_ge
from staticflow.graph.node import Node
from staticflow.ops.declaring.lowering import Index, delinear

__all__ = ["AttentionParts"]


class AttentionParts:
    """The parts of a node that lowers by `Attend`: ``matrices``, then ``rows``, a number for each
    query, then what stands ``of`` a query and a key under the name of its role."""

    def __init__(self, k: Scalars, node: Node, names: Mapping[Node, str], outs: list[str]) -> None:
        self.k, self.names, self.outs = k, names, outs
        kind, args = node.op.lowering, node.args
        self.matrices = args[: kind.matrices]
        behind = kind.matrices + kind.rows
        self.rows = args[kind.matrices : behind]
        self.of = dict(zip(node.attrs["roles"], args[behind:], strict=True))
        self.fill: float = node.attrs["fill"]
        self.scale: float = node.attrs["scale"]
        self.cap: float = node.attrs.get("cap", 0.0)
        self.with_scores: bool = node.attrs.get("with_scores", False)
        q, _, v = (a.tensor_type for a in self.matrices[:3])
        self.dtype = q.dtype
        self.lead, self.queries, self.inner = q.shape[:-2], q.shape[-2], q.shape[-1]
        self.keys, self.width = v.shape[-2], v.shape[-1]

    def batches(self, at: Size) -> Index:
        """The index of batch ``at``."""
        pairs = zip(delinear(at, self.lead), self.lead, strict=True)
        return tuple(bind_index(self.k, i, d) for i, d in pairs)

    def span_of_keys(self, first: Size, count: Size, step: int) -> tuple[Size, Size]:
        """The keys that ``count`` queries from ``first`` on may see, from a multiple of ``step``
        on; all where the cotangents of scores are wanted."""
        if self.with_scores:
            return 0, self.keys
        return self._span(seen_keys(self.of, self.fill, first, first + count), self.keys, step)

    def span_of_queries(self, first: Size, count: Size, step: int) -> tuple[Size, Size]:
        """The queries that may see ``count`` keys from ``first`` on, from a multiple of ``step``
        on."""
        found = seeing_queries(self.of, self.fill, first, first + count)
        return self._span(found, self.queries, step)

    def _span(self, found: Range, size: Size, step: int) -> tuple[Size, Size]:
        k, (low, high) = self.k, found
        start: Size = 0
        end = size
        if high is not None:
            end = bind_index(k, dim_min(size, dim_max(high, 0)), size + 1)
        if low is not None:
            least = dim_min(dim_max(low, 0), size)
            start = bind_index(k, least // step * step, size + 1)
        return start, end

    @property
    def changes_scores(self) -> bool:
        """Whether a score is more than the product of a query and a key."""
        return bool(self.cap or self.of.keys() & {"times", "bias", "keep"})

    def bound_score(self, product: Operand) -> Operand:
        """The hyperbolic tangent of a product of a query and a key where there is a cap, else the
        product."""
        return self.k.tanh(product) if self.cap else product

    def change_score(self, bounded: Operand, role: Callable[[str], Operand]) -> Operand:
        """A score of what `bound_score` gives: with the cap, the factor, the bias and the fill;
        ``role`` gives what stands under a name."""
        k, score = self.k, bounded
        if self.cap:
            score = k.mul(score, k.const(self.cap, self.dtype, score.lanes))
        if "times" in self.of:
            score = k.mul(score, role("times"))
        if "bias" in self.of:
            score = k.add(score, role("bias"))
        if "keep" in self.of:
            fill = k.const(self.fill, self.dtype, score.lanes)
            score = k.select(role("keep"), score, fill)
        return score

    def keep_seen(self, ct: Operand, role: Callable[[str], Operand]) -> Operand:
        """The cotangent of a score before it is filled."""
        if "keep" not in self.of:
            return ct
        return self.k.select(role("keep"), ct, self.k.const(0.0, self.dtype, ct.lanes))

    def pull_score(self, ct: Operand, bounded: Operand, role: Callable[[str], Operand]) -> Operand:
        """The cotangent of a product of a query and a key, from that of the score that
        `change_score` makes of it before it is filled."""
        k = self.k
        if "times" in self.of:
            ct = k.mul(ct, role("times"))
        if self.cap:  # d tanh(x) = 1 - tanh(x)^2
            one, cap = (k.const(n, self.dtype, ct.lanes) for n in (1.0, self.cap))
            ct = k.mul(ct, k.mul(cap, k.sub(one, k.mul(bounded, bounded))))
        return ct

    def divisor(self, whole: Operand, lanes: int = 1) -> Operand:
        """The divisor of weighted values: ``whole``, a query's sum of exponentials, or
        1 where there are no keys and that sum is 0: then the result is zeros, and no NaN."""
        if is_provably_ge(self.keys, 1):
            return whole
        k, one = self.k, self.k.const(1.0, self.dtype, lanes)
        return k.select(k.compare("ge", k.index_value(self.keys, lanes), 1), whole, one)
