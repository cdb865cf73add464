"""How attention is read in a graph, from a node back: a way that begins at one operation, and what
each operation over it makes of what was read so far; and the shapes on such a way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeAlias, TypeVar

from staticflow.data_classes import dataclass
from staticflow.graph.dims import same, same_shape
from staticflow.graph.dtypes import float64
from staticflow.graph.node import Node
from staticflow.graph.op import Op
from staticflow.graph.types import Shape
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.view import reshape_op

__all__ = [
    "At", "Part", "Reading", "is_row", "is_stretched", "keeps_matrices", "leave",
    "round_less", "splits_queries", "stretch",
]  # fmt: skip

_DEEP = 24
"""Operations between two products, at most, that are looked through."""


At: TypeAlias = Callable[[Node], Any]
"""The symbol that stands for a node by now."""


@dataclass(frozen=True, slots=True)
class Part:
    """The scores or the weights of attention, as far as a graph was read: their shape, and the
    nodes ``inside`` of what writes them, of which nobody else may want the values."""

    shape: Shape
    inside: tuple[Node, ...]


_Part = TypeVar("_Part", bound=Part)


@dataclass(frozen=True, slots=True)
class Reading(Generic[_Part]):
    """The way from a node back to where scores or weights ``begin``, and what each operation
    ``over`` them makes of them, given which of its arguments they are."""

    begin: Callable[[Node, At], _Part | None]
    over: Mapping[Op, Callable[[_Part, Node, int, At], _Part | None]]

    def read(
        self, node: Node, at: At, others: set[Node] | None = None, left: int = _DEEP
    ) -> _Part | None:
        """What a node computes, if that is the part of attention which is read here. ``others``
        are nodes that are none, as was seen before; ``left`` more operations are looked through."""
        others = set() if others is None else others
        begun = self.begin(node, at)
        if begun is not None:
            return begun
        over = self.over.get(node.op)
        if over is None or node in others or not left:
            return None
        for position, arg in enumerate(node.args):
            inner = self.read(arg, at, others, left - 1)
            if inner is not None:
                if node.op is not reshape_op and is_stretched(inner.shape, node.tensor_type.shape):
                    return None
                part = over(inner, node, position, at)
                return None if part is None else replace(part, inside=(*part.inside, node))
        others.add(node)
        return None


def is_stretched(shape: Shape, to: Shape) -> bool:
    """Whether broadcasting stretches an operand of ``shape`` to a result of shape ``to``. Sizes
    under two names, of which neither is 1, are equal there."""
    return len(shape) != len(to) or any(
        same(n, 1) and not same(m, 1) for n, m in zip(shape, to, strict=True)
    )


# -- shapes and dtypes ---------------------------------------------------------------------------


def is_row(shape: Shape) -> bool:
    """Whether what is of ``shape`` is the same for all keys."""
    return not shape or same(shape[-1], 1)


def keeps_matrices(before: Shape, after: Shape) -> bool:
    """Whether a reshape leaves the last two sizes as they are."""
    return min(len(before), len(after)) >= 2 and same_shape(before[-2:], after[-2:])


def splits_queries(before: Shape, after: Shape) -> bool:
    """Whether a reshape of scores does nothing but put the queries into groups."""
    lead = len(before) - 2
    return (
        len(after) > len(before) >= 2
        and same_shape(before[:lead], after[:lead])
        and same(before[-1], after[-1])
    )


def round_less(inner: _Part, node: Node, position: int, at: At) -> _Part | None:
    """Scores or weights in another float dtype, unless they were computed in float64 for it: of
    16 bits they are computed in float32."""
    before, after = node.args[0].tensor_type.dtype, node.tensor_type.dtype
    return inner if after.is_floating and (before is not float64 or after is float64) else None


def leave(inner: _Part, node: Node, position: int, at: At) -> _Part | None:
    """Scores or weights that an expansion leaves as they are, since no size was 1."""
    return inner


def stretch(x: Any, lead: Shape) -> Any:
    """Matrices as of the leading sizes that theirs stretch to."""
    own = x.__sf_shape__
    return expand(x, (*lead, *own[-2:])) if is_stretched(own[:-2], lead) else x
