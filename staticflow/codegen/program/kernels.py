"""Kernels of a program: equal clusters are lowered and scheduled once, equal kernels are one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

from staticflow.codegen.kernel import Check, Kernel
from staticflow.codegen.lower.cluster import Lowered, lower_cluster
from staticflow.codegen.lower.nest import Scratch
from staticflow.codegen.parts import walk
from staticflow.codegen.program.same_kernel import Structure, structure_of
from staticflow.codegen.schedule.cpu import schedule_cpu
from staticflow.codegen.schedule.gpu import schedule_gpu
from staticflow.codegen.target import Target
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import substitute_dim
from staticflow.graph.dims import Dim, Size, total
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node, maker_of
from staticflow.graph.types import TensorType

__all__ = ["Kernels", "Launched"]


@dataclass(frozen=True, slots=True)
class Launched:
    """What one launch needs: the kernel, the scratch memory that it works in, and the sizes that it
    is given."""

    kernel: Kernel
    scratch: tuple[Scratch, ...]
    sizes: tuple[Size, ...]


@dataclass(slots=True)
class Kernels:
    """The kernels for a ``target`` by what they compute, named in the order in which they are first
    wanted, when each is ``told``. A *draft* is one that was lowered to learn something of it, and
    has no name yet.

    ``shared`` says which results of a cluster lie over which of its arguments, ``lies`` the types
    of those results that do not lie in one row.
    """

    target: Target
    told: Callable[[Kernel], None] | None = None
    named: dict[Kernel, Kernel] = field(default_factory=dict)
    made: dict[Any, tuple[Kernel, tuple[Scratch, ...], Structure]] = field(default_factory=dict)
    drafts: dict[Any, tuple[Lowered, Structure]] = field(default_factory=dict)
    structures: dict[Any, Structure] = field(default_factory=dict)
    checking: dict[str, bool] = field(default_factory=dict)

    def make(
        self, body: Graph, kind: str, shared: Mapping[int, int], lies: Mapping[int, TensorType]
    ) -> Launched:
        """What a launch of this cluster needs."""
        own = self._structure(body, kind, shared, lies)
        if own.key not in self.made:
            lowered, first = self._draft(body, kind, shared, lies)
            del self.drafts[own.key]
            lowered = self._schedule(lowered)
            kernel = lowered.kernel
            new = kernel.with_name(f"{kernel.name}{len(self.named)}")
            named = self.named.setdefault(kernel, new)
            if named is new and self.told is not None:
                self.told(named)
            self.made[own.key] = named, lowered.scratch, first
        kernel, scratch, first = self.made[own.key]
        names = own.names_of(first)
        return Launched(
            kernel,
            tuple(replace(s, size=substitute_dim(s.size, names)) for s in scratch),
            tuple(substitute_dim(Dim.of(s), names) for s in kernel.sizes),
        )

    def _schedule(self, lowered: Lowered) -> Lowered:
        if self.target.teams:
            return schedule_gpu(lowered)
        return replace(lowered, kernel=schedule_cpu(lowered, self.target))

    def scratch_bytes(
        self, body: Graph, kind: str, shared: Mapping[int, int], lies: Mapping[int, TensorType]
    ) -> Size:
        """The bytes of scratch memory that the kernel of a cluster works in."""
        own = self._structure(body, kind, shared, lies)
        if own.key in self.made:
            _, found, first = self.made[own.key]
        else:
            draft, first = self._draft(body, kind, shared, lies)
            found = draft.scratch
        bytes_ = total(s.size * s.dtype.itemsize for s in found)
        return substitute_dim(bytes_, own.names_of(first))

    def may_fail(self, node: Node) -> bool:
        """Whether the kernel of a cluster with a loop nest looks at anything that may be wrong."""
        body, kind = node.attrs["body"], node.attrs["kind"]
        if maker_of(body.outputs[0]).op.lowering.checks is not None:
            return True
        lowered, _ = self._draft(body, kind, {}, {})
        return any(isinstance(s, Check) for s in walk(lowered.kernel.body))

    def checks(self, kernel: Kernel) -> bool:
        """Whether a kernel, which may have thousands of launches, looks at anything that may be
        wrong."""
        found = self.checking.get(kernel.name)
        if found is None:
            found = any(isinstance(s, Check) for s in walk(kernel.body))
            self.checking[kernel.name] = found
        return found

    def _draft(
        self, body: Graph, kind: str, shared: Mapping[int, int], lies: Mapping[int, TensorType]
    ) -> tuple[Lowered, Structure]:
        own = self._structure(body, kind, shared, lies)
        if own.key not in self.drafts:
            self.drafts[own.key] = lower_cluster(body, kind, self.target, shared, lies), own
        return self.drafts[own.key]

    def _structure(
        self, body: Graph, kind: str, shared: Mapping[int, int], lies: Mapping[int, TensorType]
    ) -> Structure:
        """`structure_of`, asked once of clusters that have one body."""
        asked = (body, kind, tuple(shared.items()), tuple(lies.items()))
        found = self.structures.get(asked)
        if found is None:
            found = self.structures[asked] = structure_of(kind, body, shared, lies)
        return found
