"""A call of an op in a function of one row, and what its arguments are for a batch of rows.

A value that differs from row to row is *batched*: it has the dim of the batch in front. The others
are as the function of one row has them. A *rule* takes a `Row` and gives the result for all rows,
batched, written in ordinary ops: so it holds in both modes and is differentiated as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from staticflow.data_classes import dataclass
from staticflow.graph.dims import Size
from staticflow.graph.graph import Graph
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.graph.types import Shape
from staticflow.ops.basics.expand import expand_op
from staticflow.ops.basics.view import reshape_op, unsqueeze_op

__all__ = ["Row", "Rule", "Value", "Walk", "add_ones", "merge", "split", "stretch"]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor or symbol, and whether it is batched."""

    data: Any
    is_batched: bool


class Walk(Protocol):
    """What walks over the nodes of a function of one row: `staticflow.ops.batching.walk`."""

    @property
    def size(self) -> Size:
        """The number of rows."""

    @property
    def randomness(self) -> str:
        """Whether rows draw numbers of their own: "different", "same", or "error"."""

    @property
    def is_eager(self) -> bool:
        """Whether the rows are tensors."""

    def run(self, graph: Graph, values: Sequence[Value]) -> list[Value]:
        """The outputs of a region for ``values``, one for each of its params."""

    def outputs(self, outputs: Sequence[Node], values: Mapping[Node, Any]) -> list[Value]:
        """The values of nodes where some have ``values``."""


@dataclass(frozen=True, slots=True)
class Row:
    """The call that ``node`` is of its op, and its arguments for a batch."""

    walk: Walk
    node: Node
    values: tuple[Value, ...]

    @property
    def op(self) -> Op:
        """The op."""
        return self.node.op

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of the op in the function of one row."""
        return dict(self.node.attrs)

    @property
    def size(self) -> Size:
        """The number of rows."""
        return self.walk.size

    @property
    def args(self) -> list[Any]:
        """The arguments, batched or not."""
        return [v.data for v in self.values]

    @property
    def flags(self) -> list[bool]:
        """Which of the arguments are batched."""
        return [v.is_batched for v in self.values]

    def ndim(self, position: int) -> int:
        """The dims that an argument has in one row."""
        return self.node.args[position].tensor_type.ndim

    def only(self, *positions: int) -> bool:
        """Whether no arguments are batched but those at ``positions``."""
        return not any(b for i, b in enumerate(self.flags) if i not in positions)

    def whole(self, position: int) -> Any:
        """An argument with the batch in front, repeated if it is the same in all rows."""
        return stretch(self.values[position], self.size)

    @property
    def wholes(self) -> list[Any]:
        """All arguments so."""
        return [self.whole(i) for i in range(len(self.values))]

    def align(self, position: int, rank: int) -> Any:
        """An argument that broadcasts with others of ``rank`` dims in one row."""
        value = self.values[position]
        return add_ones(value.data, rank - self.ndim(position)) if value.is_batched else value.data


Rule = Callable[[Row], Any]
"""The result of a call for all rows, batched, or a tuple of them where the op gives several; a list
of `Value` where some may be the same in all rows."""


def stretch(value: Value, size: Size) -> Any:
    """A value with a dim of ``size`` rows in front."""
    if value.is_batched:
        return value.data
    return expand_op(value.data, shape=(size, *value.data.__sf_shape__))


def add_ones(x: Any, count: int) -> Any:
    """A batched value with ``count`` dims of 1 behind the batch."""
    return unsqueeze_op(x, dims=tuple(range(1, 1 + count))) if count > 0 else x


def merge(x: Any, dim: int = 0) -> Any:
    """``x`` with ``dim`` and the next one as one."""
    shape: Shape = x.__sf_shape__
    one = shape[dim] * shape[dim + 1]
    return reshape_op(x, shape=(*shape[:dim], one, *shape[dim + 2 :]))


def split(x: Any, size: Size, rows: Size, dim: int = 0) -> Any:
    """``x`` with ``dim`` as two, of ``size`` and ``rows``."""
    shape: Shape = x.__sf_shape__
    return reshape_op(x, shape=(*shape[:dim], size, rows, *shape[dim + 1 :]))
