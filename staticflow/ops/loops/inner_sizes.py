"""Sizes that only the inside of a loop or branch can tell, refused on tensors as in a graph.

In a graph what leaves a region has a size that the outside knows. On tensors a selection of the
size that the other branch gives, or the iteration before, would pass by chance. So a function by
which a size followed from elements (``thread.state.sizes`` counts these) is traced, once for each
kind of arguments, and what it gives is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from staticflow import pytree
from staticflow.errors import ShapeError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import TensorType
from staticflow.ops.loops.branch_kinds import kind_of
from staticflow.ops.loops.region import types_of_result

__all__ = ["refuse_inner_sizes"]

_MOST = 512
"""Kinds of functions that are remembered."""

_known: set[Hashable] = set()


def refuse_inner_sizes(
    what: str, fn: Callable[[Any], Any], types: Sequence[TensorType], code: Any
) -> None:
    """Refuse the function of a loop or branch ``what`` that ran on tensors and gives a result of a
    size that follows from elements.

    ``fn`` takes a list of symbols of ``types``, and gives the same for all that is of the kind of
    ``code``. A function that cannot be traced is not held to it: it asks for values.
    """
    kind = kind_of(code)
    key = None if kind is None else (kind, *types)
    if key is not None and key in _known:
        return
    try:
        leaves = pytree.flatten(types_of_result(fn, types))[0]
    except Exception:  # it has run, and only a graph would have to say why it does not fit there
        leaves = []
    for leaf in leaves:
        shape = leaf.__sf_shape__ if hasattr(leaf, "__sf_mode__") else ()
        if any(s.late for d in shape for s in symbols_of(d)):
            raise ShapeError(
                f"{what}: a result is {TensorType(leaf.dtype, shape)}, of a size that only the "
                "inside can tell; reduce it, or write it into a tensor of a known size, at "
                f"{format_locs(here())}"
            )
    if key is not None:
        if len(_known) >= _MOST:
            _known.clear()
        _known.add(key)
