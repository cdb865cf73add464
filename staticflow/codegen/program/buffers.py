"""The buffers of a program, and the steps that give room in those that grow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field

from staticflow.codegen.program.routine import Arena, ArenaBuffer, Ensure, Place, Step
from staticflow.data_classes import dataclass
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Size, Sym, dim_max, prod
from staticflow.graph.locs import Locs
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType
from staticflow.passes.cluster import cluster

__all__ = ["Buffers", "nbytes"]


def nbytes(t: TensorType) -> Size:
    """The bytes of an array of this type."""
    return prod(t.shape) * t.dtype.itemsize


@dataclass(slots=True)
class Buffers:
    """``all`` that were made, the sizes that are ``late`` (only the run can tell them), those that
    are ``doubted`` (they may come out negative, which the steps check, but an arena is laid out
    before), and what is ``pending`` before the next step. ``fails`` gives the number of another way
    to fail."""

    fails: Callable[[str, Locs], int]
    all: list[ArenaBuffer] = field(default_factory=list)
    late: set[Sym] = field(default_factory=set)
    doubted: set[Size] = field(default_factory=set)
    pending: list[Step] = field(default_factory=list)

    def place_for(
        self, t: TensorType, node: Node, wanted: Place | None, label: str = "", made: bool = False
    ) -> Place:
        """Where a step writes a result: where it is ``wanted``, or in a new buffer."""
        if wanted is None:
            return self.new(t, node, label, made)
        if isinstance(wanted, Arena) and self.all[wanted.buffer].grows and not made:
            self.pending.append(self.ensure(wanted.buffer, nbytes(t)))
        return wanted

    def ensure(self, buffer: int, bytes_: Size) -> Ensure:
        """Room in a buffer that grows."""
        made = self.all[buffer]
        return Ensure(buffer, bytes_, self.fails(f"{made.label} of {bytes_} bytes", made.locs))

    def new(self, t: TensorType, node: Node, prefix: str = "", made: bool = False) -> Arena:
        """A new buffer. If it grows, the step that it is made for needs room in it, unless that is
        ``made`` on the way."""
        label = prefix + (node.op.name if node.op is not cluster else node.attrs["kind"])
        bytes_ = nbytes(t)
        grows = self.is_late(bytes_)
        if not grows and not self.doubted.isdisjoint(t.shape):
            bytes_ = dim_max(bytes_, 0)
        self.all.append(ArenaBuffer(t.dtype, t.shape, bytes_, label, node.locs, grows))
        number = len(self.all) - 1
        if grows and not made:
            self.pending.append(self.ensure(number, nbytes(t)))
        return Arena(number)

    def take_pending(self) -> list[Step]:
        """What has to be done before the step for which buffers were just made."""
        steps, self.pending = self.pending, []
        return steps

    def is_late(self, size: Size) -> bool:
        """Whether only the run can tell a size."""
        return not symbols_of(size).isdisjoint(self.late)

    def late_sizes(self, nodes: Iterable[Node]) -> tuple[Sym, ...]:
        """The sizes in the types of nodes that only the run can tell."""
        found: dict[Sym, None] = {}
        for node in nodes:
            for d in node.tensor_type.shape:
                found |= dict.fromkeys(sorted(symbols_of(d) & self.late, key=Sym.sort_key))
        return tuple(found)
