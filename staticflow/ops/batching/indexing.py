"""Rules of selections by tensors of indices and by masks, and of what is put where these say."""

from __future__ import annotations

from typing import Any

from staticflow.graph.dims import Size, prod
from staticflow.graph.dtypes import int64
from staticflow.ops.along.cumulative import cumsum_op
from staticflow.ops.along.sorted_search import search_op
from staticflow.ops.basics.arithmetic import cast, clamp, stop_gradient, where
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.creation import iota, zeros_like
from staticflow.ops.basics.expand import expand
from staticflow.ops.basics.reduce import all_op, sum_op
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.batching.row import Row
from staticflow.ops.declaring.required import asserted_op
from staticflow.ops.indexing.gather_ops import gather_op
from staticflow.ops.indexing.index_ops import index_op
from staticflow.ops.indexing.memory_views import view_positions
from staticflow.ops.indexing.scatter_ops import scatter_op

__all__ = [
    "asserted_rule", "embedding_rule", "masked_scatter_rule", "masked_take_rule", "pick_rule",
    "prefix_rule", "put_rule", "repeated_index_rule", "search_rule", "strided_rule",
]  # fmt: skip


# -- slices that indices name ---------------------------------------------------------------------


def _adjoin(dims: tuple[int, ...]) -> bool:
    return dims == tuple(range(dims[0], dims[0] + len(dims)))


def _indices(row: Row, first: int) -> tuple[list[Any], int]:
    """The indices, arguments from ``first`` on, such that they broadcast; and the dims in which
    they meet in one row."""
    positions = range(first, len(row.values))
    rank = max(map(row.ndim, positions))
    return [row.align(i, rank) for i in positions], rank


def _row_numbers(row: Row, beside: Any, rank: int) -> Any:
    """The number of each row, which broadcasts with batched indices of ``rank`` dims."""
    return iota.beside(beside, shape=(row.size, *(1,) * rank), dim=0, dtype=int64)


def pick_rule(row: Row) -> Any:
    """Slices of a batch: by the same indices in all rows, by others of what is the same in all, or
    by others of the row's own, where the row is indexed, too."""
    dims: tuple[int, ...] = row.attrs["dims"]
    indices, rank = _indices(row, 1)
    behind = tuple(d + 1 for d in dims)
    head = dims[0] if _adjoin(dims) else 0
    x = row.args[0]
    if row.only(0):
        out = row.op(x, *indices, **row.attrs | {"dims": behind})
        return out if _adjoin(dims) else movedim(out, rank, 0)
    if not row.flags[0]:
        return movedim(row.op(x, *indices, **row.attrs), head, 0)
    rows = _row_numbers(row, x, rank)
    out = row.op(x, rows, *indices, **row.attrs | {"dims": (0, *behind)})
    return _behind_head(out, rank, head, dims)


def _behind_head(out: Any, rank: int, head: int, dims: tuple[int, ...]) -> Any:
    """What is indexed with the row, whose indices stand in front if dims lie between: behind the
    ``head`` sizes that they stand behind in one row."""
    if not head or not rank or _adjoin((0, *(d + 1 for d in dims))):
        return out
    return movedim(out, tuple(range(1, 1 + rank)), tuple(range(1 + head, 1 + head + rank)))


def embedding_rule(row: Row) -> Any:
    """Rows of a matrix; of a batch of matrices, where the op knows of one index, row
    ``padding_idx`` is cut off."""
    if row.only(1):
        return row.op(*row.args, **row.attrs)
    padding = row.attrs["padding_idx"]
    rank = row.ndim(1)
    x, index = row.wholes
    found = index_op(x, _row_numbers(row, x, rank), index, dims=(0, 1))
    if padding is None:
        return found
    return where(unsqueeze(index == padding, -1), stop_gradient(found), found)


def put_rule(row: Row) -> Any:
    """Values put into a batch, by the same indices in all rows or by others."""
    dims: tuple[int, ...] = row.attrs["dims"]
    indices, rank = _indices(row, 2)
    x, values = row.whole(0), row.whole(1)
    behind = tuple(d + 1 for d in dims)
    if row.only(0, 1):
        if not _adjoin(dims):
            values = movedim(values, 0, rank)
        return row.op(x, values, *indices, **row.attrs | {"dims": behind})
    head = dims[0] if _adjoin(dims) else 0
    if head and rank:
        values = movedim(values, tuple(range(1 + head, 1 + head + rank)), tuple(range(1, 1 + rank)))
    rows = _row_numbers(row, x, rank)
    return row.op(x, values, rows, *indices, **row.attrs | {"dims": (0, *behind)})


# -- masks ----------------------------------------------------------------------------------------


def _flat(x: Any, size: Size) -> Any:
    return reshape(x, (size, prod(x.__sf_shape__[1:])))


def _ranks(mask: Any) -> Any:
    """For each element how many are true up to it, itself included."""
    return cumsum_op(cast(mask, dtype=int64), dim=1, reverse=False)


def masked_scatter_rule(row: Row) -> Any:
    """The source by the number of true elements before each."""
    x, mask, source = row.wholes
    shape, size = x.__sf_shape__, row.size
    flat, ranks = _flat(mask, size), _ranks(_flat(mask, size))
    many = source.__sf_shape__[1]
    if prod(shape[1:]) == 0 or many == 0:
        return x
    count = sum_op(cast(flat, dtype=int64), dims=(1,), keepdim=False)
    enough = all_op(count <= many, dims=(0,), keepdim=False)
    source = asserted_op(
        source, enough, what="masked_scatter: the mask of a row is true more often than the source "
        f"has elements, {many}",
    )  # fmt: skip
    chosen = gather_op(source, clamp(ranks - 1, 0, many - 1), dim=1)
    return where(mask, reshape(chosen, shape), x)


def masked_take_rule(row: Row) -> Any:
    """Elements put where the number of true ones before them says; what is not chosen goes to a
    place behind the end, which is cut off."""
    x, mask = row.wholes
    size, rows = row.attrs["size"], row.size
    flat = _flat(mask, rows)
    ranks = _ranks(flat)
    place = where(flat & (ranks <= size), ranks - 1, size)
    room = zeros_like(expand(narrow(unsqueeze(ranks, 2), 1, 0, 0).sum(1), (rows, size + 1)))
    found = scatter_op(cast(room, dtype=x.dtype), place, _flat(x, rows), dim=1)
    return narrow(found, 1, 0, size)


def asserted_rule(row: Row) -> Any:
    """What is asserted of each row is asserted of all."""
    ok = row.args[1]
    if row.flags[1]:
        ok = all_op(ok, dims=(0,), keepdim=False)
    return asserted_op(row.whole(0), ok, **row.attrs)


def prefix_rule(row: Row) -> Any:
    """The first elements along the first dim of a row, in each row as many: the size that is bound
    is the same for all, since no rule gives another."""
    x, counted = movedim(row.whole(0), 0, 1), row.args[1]
    counted = movedim(counted, 0, 1) if row.flags[1] else counted
    return movedim(row.op(x, counted, **row.attrs), 1, 0)


# -- positions ------------------------------------------------------------------------------------


def repeated_index_rule(row: Row) -> Any:
    """The index that is repeated at a position is the number of indices whose repeats all end
    before that."""
    repeats = cast(row.whole(0), dtype=int64)
    size, rows = row.attrs["size"], row.size
    ends = cumsum_op(repeats, dim=1, reverse=False)
    right = sum_op(repeats, dims=(1,), keepdim=False) == size
    fits = all_op(right, dims=(0,), keepdim=False) & (repeats >= 0).all()
    what = f"repeat_interleave: the repeats of a row are negative, or not {size} in all"
    ends = asserted_op(ends, fits, what=what)
    positions = iota.beside(ends, shape=(rows, size), dim=1, dtype=int64)
    return search_op(ends, positions, right=True)


def search_rule(row: Row) -> Any:
    """Values are searched in the row's own sorted elements, or in those of all rows."""
    if row.only(1) and row.ndim(0) == 1:
        return search_op(*row.args, **row.attrs)
    edges, x = row.wholes
    if row.ndim(0) > 1:
        return search_op(edges, x, **row.attrs)
    return reshape(search_op(edges, _flat(x, row.size), **row.attrs), x.__sf_shape__)


def strided_rule(row: Row) -> Any:
    """The elements of each row by their positions in it."""
    x = row.args[0]
    positions = view_positions(x, **row.attrs)
    return reshape(index_op(x, positions, dims=(1,)), (row.size, *row.attrs["shape"]))
