"""Tensors in parts along a dim."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

from staticflow.errors import DTypeError, ShapeError, SymbolicError
from staticflow.graph.dims import (
    Dim,
    Size,
    ceil_div,
    dim_max,
    dim_min,
    floor_div,
    is_provably_ge,
    same,
)
from staticflow.graph.dtypes import bool_
from staticflow.graph.locs import format_locs, here
from staticflow.ops.basics.arithmetic import where
from staticflow.ops.basics.slicing import as_position, bounds, select_op, slice_op
from staticflow.ops.basics.view import of_size
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.declare import normalize_dim
from staticflow.ops.declaring.late import size_of
from staticflow.ops.declaring.required import require_equal
from staticflow.ops.declaring.sizes import as_size, as_sizes, is_symbolic, refuse_many

__all__ = [
    "chunk", "dsplit", "hsplit", "narrow", "part_of", "split", "split_method", "tensor_split",
    "unbind", "vsplit",
]  # fmt: skip


def part_of(x: Any, dim: int, start: Size, size: Size) -> Any:
    """``size`` elements along ``dim`` from ``start`` on."""
    begin: list[Size] = [0] * x.ndim
    begin[dim] = start
    whole = (*x.shape[:dim], size, *x.shape[dim + 1 :])
    return slice_op(x, start=tuple(begin), size=whole, step=(1,) * x.ndim)


@by_shape
def narrow(input: Any, dim: int, start: Size, length: Size) -> Any:
    """``length`` elements along ``dim`` from ``start`` on; a negative start counts from the end."""
    at = normalize_dim(dim, input.ndim, "narrow")
    _has_dims(input, "narrow")
    if getattr(start, "dtype", None) is bool_:
        raise DTypeError(f"narrow: the start is a bool; give an integer, at {format_locs(here())}")
    first = _from_front(start, input.shape[at]) if is_symbolic(start) else as_position(start)
    if first is None:
        raise ShapeError(
            f"narrow: the start is {start!r}; it must be an int or a size, at {format_locs(here())}"
        )
    if isinstance(first, int) and first < 0:
        first = input.shape[at] + first
    return part_of(input, at, first, as_size(length))


def _from_front(start: Any, n: Size) -> Size:
    """A start that only the run can tell, which must lie in the dim."""
    size: Size = size_of(where(start < 0, start + n, start), most=n)
    return size


@by_shape
def split(
    tensor: Any, split_size_or_sections: Size | Sequence[Size], dim: int = 0
) -> tuple[Any, ...]:
    """``tensor`` in parts of one size along ``dim``, the last one perhaps smaller, or in parts of
    the sizes given.

    >>> import staticflow as sf
    >>> [p.shape for p in sf.split(sf.zeros(5, 2), 2)]
    [(2, 2), (2, 2), (1, 2)]
    """
    x, split_size = tensor, split_size_or_sections
    at = normalize_dim(dim, x.ndim, "split")
    _has_dims(x, "split")
    if not isinstance(split_size, Sequence):
        split_size, size = as_size(split_size), x.shape[at]
        if is_provably_ge(-1, split_size) or (same(split_size, 0) and not same(size, 0)):
            raise ShapeError(f"split: parts of {split_size}, at {format_locs(here())}")
        count = 1 if same(split_size, 0) else _count(x, at, size, split_size)
        refuse_many("split", count, "parts")
        if isinstance(split_size, Dim) and count > 1:  # of parts of 0 there would be one
            split_size = dim_max(split_size, 1)
            x = of_size(x, at, count * split_size)
        sizes = [dim_min(split_size, size - i * split_size) for i in range(count)]
    else:
        sizes = list(as_sizes(split_size))
        total = sum(sizes)
        if isinstance(total - x.shape[at], int) and not same(total, x.shape[at]):
            raise ShapeError(
                f"split: the sizes {sizes} do not make up dim {at} of shape {list(x.shape)}, "
                f"at {format_locs(here())}"
            )
        what = f"split: the sizes {sizes} and dim {at} of shape {list(x.shape)}"
        x = of_size(require_equal(x, total, x.shape[at], what), at, total)
    return _cut(x, at, sizes)


def _count(x: Any, dim: int, size: Size, part: Size) -> int:
    """How many parts of the size ``part`` the dim of ``size`` has, one at least."""
    whole, count = floor_div(size, part), ceil_div(size, part)
    if isinstance(whole, int) and same(whole * part, size):
        count = whole
    if isinstance(count, int):
        return max(count, 1)
    raise SymbolicError(
        f"split: how many parts of {part} there are of dim {dim}, of size {size}, is known only "
        "when the program runs; give the sizes of the parts, use chunk(parts), loop with "
        "sf.scan, or have the size known, as by sf.jit(fn, dynamic=False), "
        f"at {format_locs(here())}"
    )


@by_shape
def split_method(input: Any, split_size: Size | Sequence[Size], dim: int = 0) -> tuple[Any, ...]:
    """`split`, with its arguments as a method names them."""
    return split(input, split_size, dim)


def _cut(x: Any, dim: int, sizes: Sequence[Size]) -> tuple[Any, ...]:
    parts = []
    start: Size = 0
    for size in sizes:
        parts.append(part_of(x, dim, start, size))
        start = start + size
    return tuple(parts)


@by_shape
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """``input`` in ``chunks`` parts of equal size along ``dim``, the last one perhaps smaller;
    fewer where the size does not suffice, which a program refuses of an unknown size."""
    at = normalize_dim(dim, input.ndim, "chunk")
    _has_dims(input, "chunk")
    chunks = operator.index(chunks)
    if chunks < 1:
        raise ShapeError(f"chunk: {chunks} parts, at {format_locs(here())}")
    size = input.shape[at]
    each, is_empty = ceil_div(size, chunks), same(size, 0)
    if isinstance(0 if is_empty else ceil_div(size, each), int):
        refuse_many("chunk", chunks if is_empty else 0, "parts")
        return (input,) * chunks if is_empty else split(input, each, at)
    refuse_many("chunk", chunks, "parts")
    # of a size that does not suffice there are fewer parts: the program asks as it runs
    before = (chunks - 1) * each
    enough = of_size(input, at, dim_max(size, before + 1))
    return _cut(enough, at, [each] * (chunks - 1) + [enough.shape[at] - before])


def _has_dims(x: Any, what: str) -> None:
    if x.ndim == 0:
        raise ShapeError(f"{what}: takes one dim at least, not 0, at {format_locs(here())}")


@by_shape
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """``input`` in so many parts of nearly equal size along ``dim`` (the first ones larger), or cut
    at the given indices: a sequence of ints and sizes, or a vector of integers. How many parts
    there are must be known, so a tensor of no dims is a number of them eagerly only.

    >>> import staticflow as sf
    >>> [p.shape[0] for p in sf.tensor_split(sf.arange(8), 3)]
    [3, 3, 2]
    """
    at = normalize_dim(dim, input.ndim, "tensor_split")
    _has_dims(input, "tensor_split")
    if getattr(indices_or_sections, "ndim", 0):
        indices_or_sections = _places(indices_or_sections)
    if not isinstance(indices_or_sections, Sequence):
        count = operator.index(indices_or_sections)
        if count < 1:
            raise ShapeError(f"tensor_split: {count} parts, at {format_locs(here())}")
        refuse_many("tensor_split", count, "parts")
        n = input.shape[at]
        # the first n % count parts have one more
        ends = [i * floor_div(n, count) + dim_min(i, n % count) for i in range(count + 1)]
        return tuple(part_of(input, at, a, b - a) for a, b in itertools.pairwise(ends))
    cuts = [0, *as_sizes(indices_or_sections), input.shape[at]]
    parts = [bounds(slice(a, b), input.shape[at]) for a, b in itertools.pairwise(cuts)]
    return tuple(part_of(input, at, p.start, p.size) for p in parts)


def _places(given: Any) -> list[Any]:
    """The elements of a vector of indices."""
    if given.ndim != 1 or not isinstance(given.shape[0], int):
        raise ShapeError(
            f"tensor_split: the indices are of shape {list(given.shape)}; they must be a vector of "
            f"a known number of integers, at {format_locs(here())}"
        )
    return [given[i] for i in range(given.shape[0])]


def _sections(x: Any, given: int | Sequence[Size], dim: int, what: str, least: int) -> Any:
    if x.ndim < least:
        raise ShapeError(
            f"{what}: takes {least} dims at least, not {x.ndim}, at {format_locs(here())}"
        )
    if not isinstance(given, Sequence):
        given = operator.index(given)
        n = x.shape[dim]
        if given < 1 or (isinstance(n, int) and n % given):
            raise ShapeError(
                f"{what}: dim {dim} of size {n} has no {given} equal parts, "
                f"at {format_locs(here())}"
            )
        whole = n // given * given
        what = f"{what}: {given} equal parts and dim {dim} of shape {list(x.shape)}"
        x = of_size(require_equal(x, whole, n, what), dim, whole)
    return tensor_split(x, given, dim)


def hsplit(input: Any, indices_or_sections: int | Sequence[Size]) -> tuple[Any, ...]:
    """``input`` in equal parts, or cut at indices, along its columns (a vector along its dim)."""
    dim = 1 if input.ndim > 1 else 0
    parts: tuple[Any, ...] = _sections(input, indices_or_sections, dim, "hsplit", 1)
    return parts


def vsplit(input: Any, indices_or_sections: int | Sequence[Size]) -> tuple[Any, ...]:
    """``input`` in equal parts, or cut at indices, along its rows."""
    parts: tuple[Any, ...] = _sections(input, indices_or_sections, 0, "vsplit", 2)
    return parts


def dsplit(input: Any, indices_or_sections: int | Sequence[Size]) -> tuple[Any, ...]:
    """``input`` in equal parts, or cut at indices, along its third dim."""
    parts: tuple[Any, ...] = _sections(input, indices_or_sections, 2, "dsplit", 3)
    return parts


@by_shape
def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """Every slice of ``input`` along ``dim``, without that dim."""
    at = normalize_dim(dim, input.ndim, "unbind")
    _has_dims(input, "unbind")
    size = input.shape[at]
    if isinstance(size, Dim):
        raise SymbolicError(
            f"unbind: how many slices there are along dim {at}, of size {size}, is known only when "
            "the program runs; give the dim a number, as in x.reshape(3, -1), loop with "
            f"sf.scan, or have it known, as by sf.jit(fn, dynamic=False), at {format_locs(here())}"
        )
    refuse_many("unbind", size, "slices")
    return tuple(select_op(input, dim=at, index=i) for i in range(size))
