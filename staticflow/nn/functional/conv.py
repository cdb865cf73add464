"""Convolutions and their transposes."""

from __future__ import annotations

import operator
from typing import Any

from staticflow.errors import ShapeError
from staticflow.graph.locs import format_locs, here
from staticflow.nn.functional.pad import pad
from staticflow.ops.declaring.by_shape import by_shape
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.windows.convolution import convolution_op, convolution_transpose_op
from staticflow.ops.windows.correlate import span
from staticflow.ops.windows.spatial import PerDim, add_batch, per_dim, remove_batch, space_out

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
]  # fmt: skip


def _check_groups(groups: int, name: str) -> int:
    groups = operator.index(groups)
    if groups < 1:
        raise ShapeError(
            f"{name}: groups is {groups}; it must be 1 at least, at {format_locs(here())}"
        )
    return groups


def _same_padding(
    x: Any, w: Any, stride: PerDim, dilation: PerDim, name: str
) -> tuple[Any, PerDim]:
    """The padding that keeps sizes, and ``x`` with a zero more at the end where that is uneven, or
    with all zeros where the kernel has an unknown size."""
    if any(s != 1 for s in stride):
        raise ShapeError(f"{name}: padding='same' needs a stride of 1, at {format_locs(here())}")
    _check_kernel(w, len(stride), name)
    reach: PerDim = tuple(d * (k - 1) for k, d in zip(w.shape[2:], dilation, strict=True))
    half: PerDim = tuple(r // 2 for r in reach)
    nothing, once = (0,) * len(reach), (1,) * len(reach)
    if not all(isinstance(r, int) for r in reach):
        shape = tuple(n + r for n, r in zip(x.shape[2:], reach, strict=True))
        return space_out(x, shape, half, once), nothing
    shape = tuple(n + r % 2 for n, r in zip(x.shape[2:], reach, strict=True))
    return space_out(x, shape, nothing, once), half


def checked_padding(padding: Any, rank: int, name: str) -> Any:
    """The ``padding`` of a convolution, or of a layer, called ``name``: "valid", "same", or a
    number for each dim.

    Raises `ShapeError` for another word, and for numbers that are none from 0 on.
    """
    if not isinstance(padding, str):
        return per_dim(padding, rank, 0, f"{name}: padding")
    if padding not in ("valid", "same"):
        raise ShapeError(
            f'{name}: padding is {padding!r}; it must be "valid", "same", an int from 0 on, or '
            f"{rank} of them, at {format_locs(here())}"
        )
    return padding


def _conv(
    rank: int, x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    name = f"conv{rank}d"
    x, alone = add_batch(x, rank, name)
    stride = per_dim(stride, rank, 1, f"{name}: stride")
    dilation = per_dim(dilation, rank, 1, f"{name}: dilation")
    padding = as_size(padding) if hasattr(padding, "__sf_mode__") else padding
    padding = checked_padding(padding, rank, name)
    if padding == "same":
        x, padding = _same_padding(x, w, stride, dilation, name)
    padding = (0,) * rank if padding == "valid" else padding
    given = (x, w) if bias is None else (x, w, bias)
    out = convolution_op(
        *given, stride=stride, padding=padding, dilation=dilation,
        groups=_check_groups(groups, name),
    )  # fmt: skip
    return remove_batch(out, alone)


@by_shape
def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """The convolution of ``input`` (N, C, L) or (C, L) with ``weight`` (O, C / groups, K), plus
    ``bias`` (O,): (N, O, (L + 2 padding - dilation (K - 1) - 1) // stride + 1).

    ``padding`` is a number of zeros at both ends, or "valid" (none), or "same" (the result is as
    long as the input; with a stride of 1). All of one dtype of numbers.

    >>> import staticflow as sf
    >>> conv1d(sf.tensor([[1.0, 2.0, 4.0]]), sf.tensor([[[1.0, -1.0]]]))
    tensor([[-1., -2.]])
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


@by_shape
def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """The convolution of ``input`` (N, C, H, W) or (C, H, W) with ``weight`` (O, C / groups, KH,
    KW), with the options of `conv1d`. What is given for each dim is an int or a pair."""
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """The convolution of ``input`` (N, C, D, H, W) or (C, D, H, W) with ``weight`` (O, C / groups,
    KD, KH, KW), with the options of `conv1d`. What is given for each dim is an int or a triple."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(
    rank: int, x: Any, w: Any, bias: Any, stride: Any, padding: Any, output_padding: Any,
    groups: int, dilation: Any,
) -> Any:  # fmt: skip
    name = f"conv_transpose{rank}d"
    x, alone = add_batch(x, rank, name)
    stride = per_dim(stride, rank, 1, f"{name}: stride")
    padding = per_dim(padding, rank, 0, f"{name}: padding")
    more = per_dim(output_padding, rank, 0, f"{name}: output_padding")
    dilation = per_dim(dilation, rank, 1, f"{name}: dilation")
    if any(e >= max(s, d) for e, s, d in zip(more, stride, dilation, strict=True)):
        raise ShapeError(
            f"{name}: the output_padding is {list(more)}; it must be smaller than the stride "
            f"{list(stride)} or the dilation {list(dilation)}, at {format_locs(here())}"
        )
    _check_kernel(w, rank, name)
    size = tuple(
        (n - 1) * s - 2 * p + span(k, d) + e
        for n, s, p, k, d, e in zip(
            x.shape[2:], stride, padding, w.shape[2:], dilation, more, strict=True
        )
    )
    further = tuple(e // s for e, s in zip(more, stride, strict=True))
    if any(further):  # windows that begin in what is added: they have no element of x
        x = pad(x, tuple(count for n in reversed(further) for count in (0, n)))
    given = (x, w) if bias is None else (x, w, bias)
    out = convolution_transpose_op(
        *given, size=size, stride=stride, padding=padding, dilation=dilation,
        groups=_check_groups(groups, name),
    )  # fmt: skip
    return remove_batch(out, alone)


def _check_kernel(w: Any, rank: int, name: str) -> None:
    if w.ndim != rank + 2:
        raise ShapeError(
            f"{name}: takes a weight of {rank + 2} dims, not of shape {list(w.shape)}, "
            f"at {format_locs(here())}"
        )


def conv_transpose1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    """The transpose of `conv1d`: ``input`` (N, C, L) or (C, L) with ``weight`` (C, O / groups, K),
    plus ``bias`` (O,), gives (N, O, (L - 1) stride - 2 padding + dilation (K - 1) + 1 +
    output_padding). ``output_padding`` is smaller than the stride or the dilation.

    >>> import staticflow as sf
    >>> conv_transpose1d(sf.tensor([[1.0, 2.0]]), sf.tensor([[[1.0, 1.0]]]))
    tensor([[1., 3., 2.]])
    """
    return _conv_transpose(
        1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    """The transpose of a convolution, of ``input`` (N, C, H, W) or (C, H, W) with ``weight`` (C, O
    / groups, KH, KW) and the options of `conv_transpose1d`. What is given for each dim is an int or
    a pair."""
    return _conv_transpose(
        2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    """The transpose of a convolution, of ``input`` (N, C, D, H, W) or (C, D, H, W) with ``weight``
    (C, O / groups, KD, KH, KW) and the options of `conv_transpose1d`. What is given for each dim is
    an int or a triple."""
    return _conv_transpose(
        3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )
