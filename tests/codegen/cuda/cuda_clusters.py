"""Programs and the kernels that they compile to, scheduled for a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import staticflow as sf
import staticflow.nn.functional as F
from staticflow.codegen.lower.cluster import Lowered, lower_cluster
from staticflow.codegen.schedule import gpu
from staticflow.codegen.schedule.gpu import schedule_gpu
from staticflow.codegen.target import GPU
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.graph import Graph, close
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType
from staticflow.ops.declaring.lowering import Contract
from staticflow.passes.cluster import cluster
from staticflow.passes.pipeline import optimize

__all__ = ["CLUSTERS", "PROGRAMS", "Cluster"]


def row_softmax(x: Any, b: Any) -> Any:
    return sf.softmax(x + b, dim=1)


def column_sums(x: Any, b: Any) -> Any:
    return (x * b).sum(dim=0)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "chain": lambda x, b: (1.7 * x + b).tanh() * x.sigmoid() + (-x * x).exp(),
    "neighbours": lambda x, b: (x * 2 - 1).abs(),
    "row_softmax": row_softmax,
    "row_logsumexp": lambda x, b: sf.logsumexp(x - b, 1),
    "column_sums": column_sums,
    "row_max": lambda x, b: sf.amax(x, dim=1),
    "all_mean": lambda x, b: (x - b).pow(2).mean(),
    "transposed": lambda x, b: (x + b).t(),
    "stretched": lambda x, b: b.expand(4, 5, 6),
    "sliced": lambda x, b: x[1:, ::2] * 2,
    "compared": lambda x, b: sf.where(x > b, x, -b),
    "sorted": lambda x, b: sf.sort(x, 0),
    "running": lambda x, b: (sf.cumsum(x, 1), *sf.cummax(x, 0)),
    "highest": lambda x, b: sf.max(x, 1),
    "divisors": lambda x, b: sf.gcd((x * 9).to(sf.int32), (b * 9).to(sf.int32)),
    "parts": lambda x, b: (*sf.frexp(x), sf.nextafter(x, b), sf.nextafter(x.half(), b.half())),
    "bessel": lambda x, b: sf.i0(x * 9) + sf.special.i1e(b),
    "long_softmax": lambda x, b: sf.softmax(x.t(), dim=1),
    "scaled_by_all": lambda x, b: x / (1 + x.abs().sum()),
    "some": lambda x, b: ((x > 2).any(), (x > b).all(dim=0), x.prod()),
    "where_highest": lambda x, b: (sf.argmax(b + x.sum(), 0), sf.argmin(x, 1)),
    "joined": lambda x, b: sf.cat([x, x * 2, b.reshape(1, 6)], 0),
    "running_all": lambda x, b: (sf.cumsum(x.ravel(), 0), sf.cumprod(x.t() * 0.1 + 1, 1)),
    "scattered": lambda x, b: sf.scatter_add(b, 0, _places(x), x.ravel()),
    "placed": lambda x, b: sf.scatter(b, 0, _places(x), x.ravel()),
    "chosen": lambda x, b: sf.gather(b, 0, _places(x)),
    "norms": lambda x, b: F.layer_norm(x, (6,), b, b),
    "loss": lambda x, b: F.cross_entropy(x, (b.abs().long() % 6).expand(x.shape[0], 6)[:, 0]),
    "pooled": lambda x, b: F.max_pool1d(x.t().unsqueeze(0), 2),
    "gram": lambda x, b: sf.relu(x @ x.t() + 1),
    "whole_numbers": lambda x, b: (x * 5).to(sf.int32) @ (x * 5).to(sf.int32).t(),
    "convolved": lambda x, b: F.conv1d(x.t().unsqueeze(0), b.expand(4, 6).unsqueeze(2) * 0.5),
    "empty": lambda x, b: x.expand(0, *x.shape) + 1,
}


def _places(x: Any) -> Any:
    """A position below 6 for each element."""
    return (x.ravel() * 3).floor().long() % 6


@dataclass(frozen=True)
class Cluster:
    """A kernel of a program: which nodes of the program's graph it is given, and which are its
    outputs, by their numbers."""

    name: str
    program: str
    graph: Graph
    args: tuple[Node, ...]
    results: dict[int, Node]
    body: Graph
    lowered: Lowered

    @property
    def is_product(self) -> bool:
        """Whether it multiplies matrices, or the like."""
        return any(isinstance(n.op.lowering, Contract) for n in self.body.nodes)


def clusters_of(program: str) -> list[Cluster]:
    """The kernels that a program compiles to."""
    x = sf.placeholder((None, 6), name="x")
    b = sf.placeholder((6,), name="b")
    out = PROGRAMS[program](x, b)
    outs = out if isinstance(out, tuple) else (out,)
    graph, _ = optimize(close([x.node, b.node], [o.node for o in outs]))
    found = []
    for i, node in enumerate(n for n in graph.nodes if n.op is cluster):
        name = f"{program}_{i}"
        lowered = schedule_gpu(lower_cluster(node.attrs["body"], node.attrs["kind"], GPU))
        kernel = verify_kernel(lowered.kernel.with_name(name))
        one = isinstance(node.type, TensorType)
        results = {0: node} if one else {u.attrs["index"]: u for u in graph.users[node]}
        lowered = replace(lowered, kernel=kernel)
        body = node.attrs["body"]
        found.append(Cluster(name, program, graph, node.args, results, body, lowered))
    return found


with patch.object(gpu, "OWNERS", 16), patch.object(gpu, "ROW_OWNERS", 4):
    # the interpreter takes its time for each
    CLUSTERS = [c for program in PROGRAMS for c in clusters_of(program)]
