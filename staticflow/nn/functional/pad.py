"""Tensors made larger at their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.dims import Dim, Size, dim_max, is_provably_ge
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.creation import new_full
from staticflow.ops.basics.slicing import embed_op, slice_scatter_op
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.sizes import as_sizes, is_symbolic
from staticflow.ops.windows.border import border_op

__all__ = ["pad"]


_MODES = {"constant": -1, "reflect": 1, "replicate": 0, "circular": 0}
"""How many more elements than stand at an end a dim must have (for ``replicate`` one will do)."""


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
    before, after = counts[-2::-2], counts[:0:-2]
    lead = input.ndim - len(before)
    x = input
    if mode in ("reflect", "replicate"):  # of what is taken away at one end, too, as in PyTorch
        return _pad_first(x, before, after, mode)
    for dim, ends in enumerate(zip(before, after, strict=True), lead):
        x = _without(x, dim, *map(_fewer, ends))
        _check(x, dim, ends, mode)
    before, after = (tuple(map(_more, given)) for given in (before, after))
    if all(n == 0 for n in (*before, *after)):
        return x.clone()
    if mode != "constant":
        return border_op(x, before=before, after=after, mode=mode)
    each = zip(x.shape[lead:], before, after, strict=True)
    shape = (*x.shape[:lead], *(n + a + b for n, a, b in each))
    where = {"start": (*(0,) * lead, *before), "step": (1,) * x.ndim}
    if isinstance(value, Dim) or is_symbolic(value) or value:
        return slice_scatter_op(new_full(x, shape, value), x, **where)
    return embed_op(x, shape=shape, **where)


@by_autocast
def _pad_first(x: Any, before: Sequence[Any], after: Sequence[Any], mode: str) -> Any:
    lead = x.ndim - len(before)
    for dim, ends in enumerate(zip(before, after, strict=True), lead):
        _check(x, dim, ends, mode)
    more = [tuple(map(_more, given)) for given in (before, after)]
    if any(n != 0 for n in (*more[0], *more[1])):
        x = border_op(x, before=more[0], after=more[1], mode=mode)
    else:
        x = x.clone()
    for dim, ends in enumerate(zip(before, after, strict=True), lead):
        x = _without(x, dim, *map(_fewer, ends))
    return x


def _more(n: Size) -> Size:
    return dim_max(n, 0)


def _fewer(n: Size) -> Size:
    return dim_max(-n, 0)


def _without(x: Any, dim: int, before: Size, after: Size) -> Any:
    """``x`` without ``before`` and ``after`` elements at the ends of ``dim``."""
    if before == 0 and after == 0:
        return x
    return narrow(x, dim, before, x.shape[dim] - before - after)


def _check(x: Any, dim: int, ends: Sequence[Any], mode: str) -> None:
    """Refuse a dim that is known to be too short for what is to stand at its ends."""
    most = dim_max(*ends)
    least = 1 if mode == "replicate" else most + _MODES[mode]
    is_known = mode != "constant" and isinstance(x.shape[dim], int)
    if is_known and not is_provably_ge(x.shape[dim], least):
        raise ShapeError(
            f"pad: dim {dim} of shape {list(x.shape)} is too short for {most} "
            f"elements in mode {mode!r}, at {format_locs(here())}"
        )
