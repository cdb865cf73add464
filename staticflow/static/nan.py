"""Where the first NaN comes from: a graph run op by op, by the references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.errors import NanError
from staticflow.graph.graph import Graph
from staticflow.graph.locs import format_locs
from staticflow.graph.node import Node
from staticflow.graph.types import types_of
from staticflow.ops.loops.printing import quiet
from staticflow.static.interpretation import interpreter

__all__ = ["find_nan"]


def find_nan(graph: Graph, arrays: Sequence[Any], flushes: bool = False) -> None:
    """Run ``graph`` on ``arrays``, one for each param, with NumPy, as a program does that
    ``flushes`` subnormal numbers or not.

    Raises `NanError` at a param that has a NaN, or at the first operation that gives one: the op,
    the element and the operands there, the iterations of the loops that it was in, and the user's
    lines.
    """
    for p, array in zip(graph.params, arrays, strict=True):
        at = _first_nan(array)
        if at is not None:
            raise NanError(f"{p.attrs['name']} ({p.type}) has a NaN{_position(at)} to begin with")
    with quiet():
        interpreter(flushes)(graph, arrays, watch=_stop_at_nan)


def _stop_at_nan(
    node: Node, operands: Sequence[Any], results: Sequence[Any], within: Sequence[tuple[Node, int]]
) -> None:
    for result in results:
        at = _first_nan(result)
        if at is not None:
            types = ", ".join(str(t) for a in node.args for t in types_of(a.type))
            there = [v for o in operands if (v := _value(o, at, result.shape)) is not None]
            of = f" of {', '.join(there)}" if there and len(there) == len(operands) else ""
            loops = "".join(
                f", in iteration {iteration} of the {loop.op.name} at {format_locs(loop.locs)}"
                for loop, iteration in reversed(within)
            )
            raise NanError(
                f"{node.op.name}({types}) makes the first NaN{_position(at)}{of}, at "
                f"{format_locs(node.locs)}{loops}"
            )


def _first_nan(array: Any) -> tuple[int, ...] | None:
    """The index of the first NaN."""
    array = np.asarray(array)
    if array.dtype.kind in "iub":
        return None
    found = np.argwhere(np.isnan(array))
    return tuple(map(int, found[0])) if len(found) else None


def _position(at: tuple[int, ...]) -> str:
    return f" at {list(at)}" if at else ""


def _value(operand: Any, at: tuple[int, ...], shape: tuple[int, ...]) -> str | None:
    """The element of an operand that broadcasts to the result, None if it does not."""
    operand = np.asarray(operand)
    try:
        return str(np.broadcast_to(operand, shape)[at])
    except ValueError:
        return None
