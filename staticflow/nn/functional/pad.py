"""Tensors made larger at their ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.dims import Size, is_provably_ge
from staticflow.graph.locs import format_locs, here
from staticflow.ops.axes import flip
from staticflow.ops.by_shape import by_shape
from staticflow.ops.creation import new_full
from staticflow.ops.expand import expand
from staticflow.ops.joining import cat
from staticflow.ops.sizes import as_sizes
from staticflow.ops.splitting import narrow

__all__ = ["pad"]


def _constant(x: Any, dim: int, count: int, front: bool, value: Any) -> Any:
    return new_full(x, (*x.shape[:dim], count, *x.shape[dim + 1 :]), value or 0)


def _reflected(x: Any, dim: int, count: int, front: bool, value: Any) -> Any:
    start: Size = 1 if front else x.shape[dim] - count - 1
    return flip(narrow(x, dim, start, count), dim)


def _repeated(x: Any, dim: int, count: int, front: bool, value: Any) -> Any:
    edge = narrow(x, dim, 0 if front else x.shape[dim] - 1, 1)
    return expand(edge, (*x.shape[:dim], count, *x.shape[dim + 1 :]))


def _wrapped(x: Any, dim: int, count: int, front: bool, value: Any) -> Any:
    return narrow(x, dim, x.shape[dim] - count if front else 0, count)


_MODES: dict[str, tuple[Callable[..., Any], int]] = {
    "constant": (_constant, -1),
    "reflect": (_reflected, 1),
    "replicate": (_repeated, 0),
    "circular": (_wrapped, 0),
}
"""What stands at an end of a dim, and how many more elements the dim must have than that (for
``replicate`` one will do)."""


@by_shape
def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Any:
    """``input`` with more elements at the ends of its last dims: ``pad`` has the number before and
    after for the last dim, then for the one before it, and so on; a negative one takes elements
    away.

    ``mode`` says which: "constant" (``value``, 0 if it is None), "reflect" (the elements beside the
    edge backwards, without it), "replicate" (the edge again) or "circular" (those of the other
    end).

    >>> import staticflow as sf
    >>> pad(sf.tensor([1, 2, 3]), (1, 2))
    tensor([0, 1, 2, 3, 0, 0])
    >>> pad(sf.tensor([1, 2, 3]), (1, 2), mode="reflect")
    tensor([2, 1, 2, 3, 2, 1])
    """
    if mode not in _MODES:
        raise ShapeError(
            f"pad: the mode is {mode!r}; it must be one of {', '.join(_MODES)}, "
            f"at {format_locs(here())}"
        )
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ShapeError(
            f"pad: takes a pair of counts for each of the last dims, not {tuple(pad)} for shape "
            f"{list(input.shape)}, at {format_locs(here())}"
        )
    counts = as_sizes(pad)
    for i in range(len(pad) // 2):
        input = _along(input, input.ndim - 1 - i, counts[2 * i], counts[2 * i + 1], mode, value)
    return input


def _along(x: Any, dim: int, before: int, after: int, mode: str, value: Any) -> Any:
    if before < 0 or after < 0:
        start, end = max(-before, 0), max(-after, 0)
        x = narrow(x, dim, start, x.shape[dim] - start - end)
    part, more = _MODES[mode]
    least = max(before, after) + more if mode != "replicate" else 1
    if (
        isinstance(x.shape[dim], int)
        and not is_provably_ge(x.shape[dim], least)
        and mode != "constant"
    ):
        raise ShapeError(
            f"pad: dim {dim} of shape {list(x.shape)} is too short for {max(before, after)} "
            f"elements in mode {mode!r}, at {format_locs(here())}"
        )
    parts = [part(x, dim, before, True, value)] if before > 0 else []
    parts.append(x)
    parts += [part(x, dim, after, False, value)] if after > 0 else []
    return cat(parts, dim) if len(parts) > 1 else x
