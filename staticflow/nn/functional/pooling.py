"""Pooling: one number for each window."""

from __future__ import annotations

from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.dims import Dim, prod, same
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import Shape
from staticflow.ops.along.extremes import max as max_of
from staticflow.ops.basics.autocast import by_autocast
from staticflow.ops.basics.reduce import mean
from staticflow.ops.basics.view import reshape, unsqueeze
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.required import require_shape
from staticflow.ops.declaring.sizes import as_shape, as_size
from staticflow.ops.elementwise.maths import pow
from staticflow.ops.indexing.data_dependent import where
from staticflow.ops.indexing.scatter_ops import scatter
from staticflow.ops.windows.average_pool import adaptive_avg_pool_op, avg_pool_op
from staticflow.ops.windows.pooling import (
    adaptive_max_index_op,
    max_pool_index_op,
    max_pool_op,
    place_gather_op,
)
from staticflow.ops.windows.spatial import PerDim, add_batch, per_dim, remove_batch

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool2d", "adaptive_max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d",
    "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def _stride(stride: Any, kernel: PerDim, name: str) -> PerDim:
    """The strides of windows, by default as wide as the windows; an empty tuple asks for that."""
    is_given = stride is not None and not (isinstance(stride, tuple | list) and not stride)
    return per_dim(stride, len(kernel), 1, f"{name}: stride") if is_given else kernel


def _max_pool(
    rank: int, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    return_indices: bool,
) -> Any:  # fmt: skip
    name = f"max_pool{rank}d"
    x, alone = add_batch(x, rank, name)
    kernel = per_dim(kernel_size, rank, 1, f"{name}: kernel_size")
    attrs = {
        "kernel": kernel,
        "stride": _stride(stride, kernel, name),
        "padding": per_dim(padding, rank, 0, f"{name}: padding"),
        "dilation": per_dim(dilation, rank, 1, f"{name}: dilation"),
        "ceil": bool(ceil_mode),
    }
    ops = (max_pool_op, max_pool_index_op) if return_indices else (max_pool_op,)
    found = [remove_batch(op(x, **attrs), alone) for op in ops]
    return tuple(found) if return_indices else found[0]


@by_shape
def max_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element in each window of ``input`` (N, C, L) or (C, L).

    Windows have ``kernel_size`` elements, ``dilation`` apart, and begin every ``stride`` elements
    (``kernel_size`` if it is None); ``padding``, half a window at most, lets them begin before the
    input and end behind it. With ``ceil_mode`` a last window may hang over the end. With
    ``return_indices`` also the place of each, int64, in its row. The gradient goes to the first of
    equal elements.

    >>> import staticflow as sf
    >>> max_pool1d(sf.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[3., 2.]])
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@by_shape
def max_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of ``input`` (N, C, H, W) or (C, H, W), with the options
    of `max_pool1d`. What is given for each dim is an int or a pair; indices are counted along the
    rows of an image."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@by_autocast
def max_pool3d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """The largest element of each window of ``input`` (N, C, D, H, W) or (C, D, H, W), with the
    options of `max_pool1d`."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


# -- means --------------------------------------------------------------------------------------


def _avg_pool(
    rank: int, x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor: int | None,
) -> Any:  # fmt: skip
    name = f"avg_pool{rank}d"
    x, alone = add_batch(x, rank, name)
    kernel = per_dim(kernel_size, rank, 1, f"{name}: kernel_size")
    if divisor == 0:
        raise ShapeError(f"{name}: divisor_override is 0, at {format_locs(here())}")
    out = avg_pool_op(
        x, kernel=kernel,
        stride=_stride(stride, kernel, name),
        padding=per_dim(padding, rank, 0, f"{name}: padding"),
        ceil=bool(ceil_mode), include_pad=bool(count_include_pad), divisor=divisor,
    )  # fmt: skip
    return remove_batch(out, alone)


@by_shape
def avg_pool1d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """The mean of each window of ``input`` (N, C, L) or (C, L), of integers rounded towards 0.

    Windows are laid as those of `max_pool1d`. What of the padding lies in a window is zero, and is
    counted unless ``count_include_pad`` is False.

    >>> import staticflow as sf
    >>> avg_pool1d(sf.tensor([[1.0, 3.0, 2.0, 0.0]]), 2)
    tensor([[2., 1.]])
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@by_shape
def avg_pool2d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """The mean of each window of ``input`` (N, C, H, W) or (C, H, W), with the options of
    `avg_pool1d`. ``divisor_override`` is what sums are divided by in place of the number of
    elements."""
    return _avg_pool(
        2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


@by_shape
@by_autocast
def avg_pool3d(
    input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Any:  # fmt: skip
    """The mean of each window of ``input`` (N, C, D, H, W) or (C, D, H, W), with the options of
    `avg_pool2d`."""
    return _avg_pool(
        3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


# -- results of a given size --------------------------------------------------------------------


def _adaptive_size(x: Any, output_size: Any, rank: int, name: str) -> Shape:
    """The sizes that are asked for; None leaves a dim as it is."""
    given = output_size if isinstance(output_size, list | tuple) else (output_size,) * rank
    sizes = tuple(n if m is None else as_size(m) for n, m in zip(x.shape[2:], given, strict=False))
    if len(given) != rank or not all(isinstance(m, Dim) or m >= 0 for m in sizes):
        raise ShapeError(
            f"{name}: output_size is {output_size}; it must be a size, or {rank} of them, "
            f"at {format_locs(here())}"
        )
    return sizes


def _adaptive_avg_pool(rank: int, x: Any, output_size: Any) -> Any:
    name = f"adaptive_avg_pool{rank}d"
    x, alone = add_batch(x, rank, name)
    size = _adaptive_size(x, output_size, rank, name)
    if all(same(m, 1) for m in size):  # as PyTorch does it
        return remove_batch(mean(x, tuple(range(2, x.ndim)), keepdim=True), alone)
    return remove_batch(adaptive_avg_pool_op(x, size=size), alone)


@by_shape
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """The means of ``output_size`` windows that cover ``input`` (N, C, L) or (C, L) evenly: window
    i goes from ``i L // output_size`` to ``(i + 1) L / output_size``, rounded up.

    >>> import staticflow as sf
    >>> adaptive_avg_pool1d(sf.tensor([[1.0, 2.0, 3.0]]), 2)
    tensor([[1.5000, 2.5000]])
    """
    return _adaptive_avg_pool(1, input, output_size)


@by_shape
def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """The means of as many windows of ``input`` (N, C, H, W) or (C, H, W) as the result is to have;
    ``output_size`` is a size
    or a pair, of which None leaves a dim as it is."""
    return _adaptive_avg_pool(2, input, output_size)


@by_shape
@by_autocast
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """The means of as many windows of ``input`` (N, C, D, H, W) or (C, D, H, W) as ``output_size``
    says, a size or a triple, of which None leaves a dim as it is."""
    return _adaptive_avg_pool(3, input, output_size)


def _adaptive_max_pool(rank: int, x: Any, output_size: Any, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{rank}d"
    x, alone = add_batch(x, rank, name)
    size = _adaptive_size(x, output_size, rank, name)
    if any(same(m, 0) for m in size):
        out = remove_batch(x.new_zeros((*x.shape[:2], *size)), alone)
        return (out, out.long()) if return_indices else out
    if not return_indices and all(same(m, 1) for m in size):  # one window needs no bounds
        most = max_of(reshape(x, (*x.shape[:2], prod(x.shape[2:]))), -1)[0]
        return remove_batch(reshape(most, (*x.shape[:2], *size)), alone)
    index = adaptive_max_index_op(x, size=size)
    out = remove_batch(place_gather_op(x, index), alone)
    return (out, remove_batch(index, alone)) if return_indices else out


def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of each window of `adaptive_avg_pool1d`, and with ``return_indices`` its
    position, int64, in its row."""
    return _adaptive_max_pool(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows of ``input`` (N, C, H, W) or (C, H, W) as
    ``output_size`` says, a size or a pair, of which None leaves a dim as it is."""
    return _adaptive_max_pool(2, input, output_size, return_indices)


@by_autocast
def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest elements of as many windows of ``input`` (N, C, D, H, W) or (C, D, H, W) as
    ``output_size`` says, a size or a triple, of which None leaves a dim as it is."""
    return _adaptive_max_pool(3, input, output_size, return_indices)


# -- norms, and the way back ----------------------------------------------------------------------


def _lp_pool(
    rank: int, x: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Any:
    count = prod(per_dim(kernel_size, rank, 1, f"lp_pool{rank}d: kernel_size"))
    means = _avg_pool(rank, pow(x, norm_type), kernel_size, stride, 0, ceil_mode, True, None)
    sums = means * count
    return pow(where(sums == 0, sums.detach(), sums), 1 / norm_type)  # a root has no slope at 0


def lp_pool1d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """``sum(x**p)**(1/p)`` with ``p = norm_type`` of each window of ``input`` (N, C, L) or (C, L);
    NaN where the sum is negative. The gradient of a sum of 0 is 0, as in PyTorch.

    >>> import staticflow as sf
    >>> lp_pool1d(sf.tensor([[3.0, 4.0]]), 2, 2)
    tensor([[5.]])
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """The ``norm_type`` norm of each window of ``input`` (N, C, H, W) or (C, H, W), with the
    options of `lp_pool1d`."""
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """The ``norm_type`` norm of each window of ``input`` (N, C, D, H, W) or (C, D, H, W), with the
    options of `lp_pool1d`."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


def _max_unpool(
    rank: int, x: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Any:
    name = f"max_unpool{rank}d"
    x, alone = add_batch(x, rank, name)
    positions = unsqueeze(indices, 0) if alone else indices
    positions = require_shape(positions, x.shape, f"{name}: indices")
    kernel = per_dim(kernel_size, rank, 1, f"{name}: kernel_size")
    step = _stride(stride, kernel, name)
    edge = per_dim(padding, rank, 0, f"{name}: padding")
    space = tuple(
        (n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[2:], step, edge, kernel, strict=True)
    )
    if output_size is not None:
        usual, space = space, as_shape(output_size)[-rank:]
        if len(space) != rank or any(
            isinstance(off := n - m, int) and abs(off) >= s
            for n, m, s in zip(space, usual, step, strict=True)
        ):
            raise ShapeError(
                f"{name}: output_size is {output_size}; its last {rank} must be nearer to "
                f"{list(usual)} than the stride {list(step)}, at {format_locs(here())}"
            )
    lead, count = x.shape[:2], prod(x.shape[2:])
    flat = x.new_zeros((*lead, prod(space)))
    rows = (reshape(v, (*lead, count)) for v in (positions, x))
    return remove_batch(reshape(scatter(flat, 2, *rows), (*lead, *space)), alone)


def max_unpool1d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """``input`` (N, C, L) or (C, L) at the positions ``indices`` that `max_pool1d` gives with
    ``return_indices``, zeros elsewhere. ``output_size`` says which of the sizes that pool to that
    of the input it is.

    >>> import staticflow as sf
    >>> x, at = max_pool1d(sf.tensor([[1.0, 3.0, 2.0, 0.0]]), 2, return_indices=True)
    >>> max_unpool1d(x, at, 2)
    tensor([[0., 3., 2., 0.]])
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@by_autocast
def max_unpool2d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """Zeros with the elements of ``input`` (N, C, H, W) or (C, H, W) where `max_pool2d` found them,
    with the options of `max_unpool1d`."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@by_autocast
def max_unpool3d(
    input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
    output_size: Any = None,
) -> Any:  # fmt: skip
    """Zeros with the elements of ``input`` (N, C, D, H, W) or (C, D, H, W) where `max_pool3d` found
    them, with the options of `max_unpool1d`."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)
