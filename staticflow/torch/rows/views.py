"""What moves elements and computes nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from staticflow.nn.functional.pad import pad
from staticflow.ops.basics.axes import flip, permute, transpose
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.joining import cat, stack, tile
from staticflow.ops.basics.slicing import select_scatter, slice_scatter
from staticflow.ops.basics.splitting import narrow, split, unbind
from staticflow.ops.basics.view import reshape, squeeze, unsqueeze
from staticflow.ops.indexing.roll_repeat import roll
from staticflow.ops.matrices.triangle import diagonal, diagonal_scatter, tril, triu, unfold
from staticflow.ops.tensors.subscript import select
from staticflow.torch.rows.row import Rows, each

__all__ = ["VIEWS"]

_TO_THE_END = sys.maxsize


def _view(x: Any, size: Sequence[Any]) -> Any:
    return reshape(x, tuple(size))


def _expand(x: Any, size: Sequence[Any]) -> Any:
    return expand(x, tuple(size))


def _permute(x: Any, dims: Sequence[int]) -> Any:
    return permute(x, tuple(dims))


def _squeeze(x: Any, dim: Any = None) -> Any:
    dims = range(x.ndim) if dim is None else dim if isinstance(dim, list | tuple) else (dim,)
    ones = tuple(d for d in dims if x.ndim and isinstance(x.shape[d], int) and x.shape[d] == 1)
    return squeeze(x, ones) if ones else x


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    end = None if isinstance(end, int) and end == _TO_THE_END else end
    whole = slice(None)
    return x[(*[whole] * (dim % x.ndim), slice(start, end, step))]


def _slice_scatter(
    x: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    end = None if isinstance(end, int) and end == _TO_THE_END else end
    return slice_scatter(x, src, dim, start, end, step)


def _constant_pad(x: Any, pad_: Sequence[Any], value: Any = 0) -> Any:
    return pad(x, tuple(pad_), "constant", value)


def _pad_by(mode: str) -> Any:
    def row(x: Any, padding: Sequence[Any]) -> Any:
        return pad(x, tuple(padding), mode)

    return row


def _repeat(x: Any, repeats: Sequence[Any]) -> Any:
    return tile(x, tuple(repeats))


def _split_with_sizes(x: Any, split_sizes: Sequence[Any], dim: int = 0) -> tuple[Any, ...]:
    return split(x, tuple(split_sizes), dim)


def _split(x: Any, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
    return split(x, split_size, dim)


def _cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    return cat([t for t in tensors if not _is_nothing(t)] or list(tensors), dim)


def _is_nothing(x: Any) -> bool:
    """Whether ATen joins ``x`` to tensors of any shape."""
    return x.ndim == 1 and isinstance(x.shape[0], int) and x.shape[0] == 0


VIEWS: Rows = {
    **each(("view.default", "reshape.default", "_unsafe_view.default", "view_copy.default"), _view),
    **each(("expand.default", "expand_copy.default"), _expand),
    **each(("permute.default", "permute_copy.default"), _permute),
    "aten.transpose.int": transpose,
    "aten.t.default": lambda x: transpose(x, 0, 1) if x.ndim == 2 else x,
    **each(("squeeze.default", "squeeze.dim", "squeeze.dims"), _squeeze),
    "aten.unsqueeze.default": unsqueeze,
    "aten.slice.Tensor": _slice,
    "aten.slice_scatter.default": _slice_scatter,
    "aten.select.int": select,
    "aten.select_scatter.default": select_scatter,
    "aten.split_with_sizes.default": _split_with_sizes,
    "aten.split.Tensor": _split,
    **each(("unbind.int", "unbind_copy.int"), unbind),
    "aten.cat.default": _cat,
    "aten.stack.default": stack,
    "aten.flip.default": lambda x, dims: flip(x, tuple(dims)),
    "aten.roll.default": lambda x, shifts, dims=(): roll(x, tuple(shifts), tuple(dims) or None),
    "aten.repeat.default": _repeat,
    "aten.diagonal.default": diagonal,
    "aten.diagonal_scatter.default": diagonal_scatter,
    "aten.narrow_copy.default": narrow,
    "aten.unfold.default": unfold,
    "aten.tril.default": tril,
    "aten.triu.default": triu,
    "aten.constant_pad_nd.default": _constant_pad,
    **each((f"reflection_pad{n}d.default" for n in (1, 2, 3)), _pad_by("reflect")),
    **each((f"replication_pad{n}d.default" for n in (1, 2, 3)), _pad_by("replicate")),
}
"""Rows of what moves elements."""
