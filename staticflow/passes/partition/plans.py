"""What the rules of ops say, and how they find the layouts of operands that meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from staticflow.data_classes import dataclass
from staticflow.graph.dims import same
from staticflow.graph.node import Node
from staticflow.graph.types import Shape
from staticflow.passes.partition.layouts import Layout, Place, Split

__all__ = ["Plan", "Rule", "meet", "once_each", "shapes_of", "stretch"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The layouts that the arguments are brought to, and those of the results. Each rank has a
    share of the results ``shares``, to be combined over the ``partial`` axes, as ``reduce`` says;
    one that is split over such an axis is split when it is combined. ``shape`` names
    the attribute that is the shape of the result, if there is one. The argument ``start`` is what
    a sum begins with, and counts once."""

    arguments: tuple[Layout, ...]
    results: tuple[Layout, ...]
    partial: tuple[int, ...] = ()
    reduce: str = "sum"
    shape: str = ""
    start: int | None = None
    shares: tuple[int, ...] = (0,)


Rule = Callable[[Node, Sequence[Layout], Place], Plan | None]


def shapes_of(node: Node) -> list[Shape]:
    """The shapes of the arguments of a node, all whole."""
    return [a.tensor_type.shape for a in node.args]


def once_each(layout: Sequence[Split | None]) -> Layout:
    """A layout in which each axis splits one dim: the first that has it."""
    used: set[int] = set()
    found: list[Split | None] = []
    for split in layout:
        kept = split if split is not None and split.axis not in used else None
        found.append(kept)
        used |= {kept.axis} if kept else set()
    return tuple(found)


def meet(ndim: int, shapes: Sequence[Shape], layouts: Sequence[Layout]) -> list[Split | None]:
    """How the dims of a result are split to which operands are broadcast: as in the first operand
    that has them split. Of a dim of one element one rank has that and all others nothing: it is
    left whole, since what it is repeated along has other parts."""
    out: list[Split | None] = [None] * ndim
    for shape, layout in zip(shapes, layouts, strict=True):
        for d, (size, split) in enumerate(zip(shape, layout, strict=True), ndim - len(shape)):
            out[d] = out[d] or (None if same(size, 1) else split)
    return out


def stretch(out: Sequence[Split | None], shape: Shape) -> Layout:
    """The layout of an operand of this shape that is broadcast to one of the layout ``out``."""
    return tuple([
        None if same(size, 1) else split
        for size, split in zip(shape, out[len(out) - len(shape) :], strict=True)
    ])  # fmt: skip
