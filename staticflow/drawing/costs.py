"""What nodes cost: bytes as formulas of unknown sizes, FLOPs where the sizes are known."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from staticflow.codegen.lower.cluster import lower_cluster
from staticflow.graph.dim_queries import evaluate_dim, symbols_of
from staticflow.graph.dims import Size
from staticflow.graph.node import Node, constant, item, param
from staticflow.graph.types import types_of
from staticflow.measure.kernel_work import work_of_kernel
from staticflow.ops.declaring.lowering import View
from staticflow.passes.cluster import cluster
from staticflow.runtime.machine import host_target

__all__ = ["Costs"]

_FREE = (param, constant, item)


class Costs:
    """Tells costs where the unknown sizes have the values ``sizes``, by name; those that are not
    among them stay unknown. Equal kernels are looked into once."""

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        self._sizes = dict(sizes or {})
        self._known: dict[tuple[str, str], int | None] = {}
        self.met: set[str] = set()
        """The names of the unknown sizes of all that was asked for."""

    def unmet(self) -> list[str]:
        """The names among the given sizes that nothing has."""
        return [name for name in self._sizes if name not in self.met]

    def bytes_of(self, node: Node) -> str | None:
        """The bytes of the operands and results of a node, each counted once: what it moves where
        it runs alone. None for what moves nothing: views, constants and params."""
        if node.op in _FREE or isinstance(node.op.lowering, View):
            return None
        total: Size = 0
        for value in (*dict.fromkeys(node.args), node):
            for type in types_of(value.type):
                total = total + prod(type.shape) * type.dtype.itemsize
        symbols = symbols_of(total)
        self.met.update(s.name for s in symbols)
        if not all(s.name in self._sizes for s in symbols):
            return str(total)
        return str(evaluate_dim(total, {s: self._sizes[s.name] for s in symbols}))

    def flops_of(self, node: Node) -> str | None:
        """The floating-point operations of one run of a kernel, as `work_of_kernel` counts them in
        its Kernel IR; None for what is no kernel, and where a size of it is not known."""
        if node.op is not cluster:
            return None
        body, kind = node.attrs["body"], node.attrs["kind"]
        key = (kind, str(body))
        if key not in self._known:
            self._known[key] = None
            if all(s.name in self._sizes for s in body.symbols):
                kernel = lower_cluster(body, kind, host_target()).kernel
                work = work_of_kernel(kernel, {s: self._sizes[s.name] for s in kernel.sizes})
                self._known[key] = None if work.endless else work.flops
        flops = self._known[key]
        return None if flops is None else str(flops)
