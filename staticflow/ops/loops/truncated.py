"""Loops whose derivative goes back through the last iterations alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow import pytree
from staticflow.errors import ArgumentError
from staticflow.graph.dims import Dim, Size, same
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.slicing import as_position
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.indexing.data_dependent import where
from staticflow.ops.loops.leaves import tensor_of

__all__ = ["check_truncate", "scan_truncated"]


def check_truncate(what: str, truncate: Any, until: Any, lengths: Any) -> None:
    """Refuse a ``truncate`` that is no size, and one of a loop whose last iterations are known only
    as it runs."""
    if truncate is None:
        return
    iterations = None if isinstance(truncate, bool) else as_position(truncate)
    if not (isinstance(iterations, Dim) or (iterations is not None and iterations >= 0)):
        raise ArgumentError(
            f"{what}: truncate is a number of iterations, an int from 0 on or a size, not "
            f"{truncate!r}, at {format_locs(here())}"
        )
    other = "until" if until is not None else "lengths" if lengths is not None else None
    if other is not None:
        raise ArgumentError(
            f"{what}: truncate and {other} do not go together: which iterations are the last shows "
            f"only as the loop runs; detach the carry in fn, at {format_locs(here())}"
        )


def scan_truncated(
    run_part: Callable[[Any, Any, Size], tuple[Any, Any]],
    init: Any,
    xs: Any,
    length: Size,
    reverse: bool,
    last: Size,
) -> tuple[Any, Any]:
    """A loop of ``length`` iterations, of which the ``last`` ones have a derivative.

    ``run_part(carry, xs, length)`` runs a part of it. What the iterations before give is detached:
    their ys, and the carry from which the last ones go on.
    """
    before = length - last
    if same(before, 0):
        return run_part(init, xs, length)
    starts = (last, 0) if reverse else (0, before)

    def rows(start: Size, many: Size) -> Any:
        return pytree.map_tree(lambda x: narrow(x, 0, start, many), xs)

    def detached(tree: Any) -> Any:
        return pytree.map_tree(lambda x: x.detach(), tree)

    middle, early = run_part(init, rows(starts[0], before), before)
    middle, early = detached(middle), detached(early)
    if isinstance(before, Dim):  # where it turns out to be 0 nothing is cut
        is_cut = tensor_of(before) > 0
        middle = pytree.map_tree(lambda m, i: where(is_cut, m, i), middle, init)
    carry, late = run_part(middle, rows(starts[1], last), last)
    parts = (late, early) if reverse else (early, late)
    return carry, pytree.map_tree(lambda a, b: cat([a, b]), *parts)
