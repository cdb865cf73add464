"""Sequences of several lengths under PyTorch's names: padded to one length, or packed.

A packed batch holds no padding: the first elements of all its sequences, then the second ones of
those that have one, and so on, longest sequence first. `RNN`, `LSTM` and `GRU` take and give it.
Lengths are numbers here; in a graph give them as ``lengths=`` to these layers or to ``sf.scan``,
which is also what is behind a packed batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.dims import same_shape
from staticflow.graph.locs import format_locs, here
from staticflow.nn.parameter import tensor
from staticflow.ops.basics.creation import full
from staticflow.ops.basics.joining import cat, stack
from staticflow.ops.declaring.foreign import refuses_foreign_in

__all__ = [
    "PackedSequence", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip

Places = np.ndarray[Any, Any]


class PackedSequence(NamedTuple):
    """What `pack_padded_sequence` gives.

    ``data`` (elements, ...) has the elements, ``batch_sizes`` (longest,) how many sequences are so
    long, and the last two, (N,) each, which sequence is the k-th longest and the other way round;
    they are None where the sequences came in that order.
    """

    data: Any
    batch_sizes: Any
    sorted_indices: Any = None
    unsorted_indices: Any = None


def pad_sequence(
    sequences: Sequence[Any],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:
    """The sequences (length, ...) as one tensor (longest, N, ...), or (N, longest, ...) with
    ``batch_first``, the shorter ones filled up: behind them, or on the ``padding_side`` "left"."""
    if padding_side not in ("left", "right"):
        raise ArgumentError(
            f"pad_sequence: padding_side must be 'left' or 'right', not {padding_side!r}, "
            f"at {format_locs(here())}"
        )
    if not len(sequences) or any(x.ndim < 1 for x in sequences):
        raise ShapeError(
            "pad_sequence: takes one sequence or more, of one dim or more each, "
            f"at {format_locs(here())}"
        )
    longest = max(x.shape[0] for x in sequences)
    rows = []
    for x in sequences:
        parts = [x, x.new_full((longest - x.shape[0], *x.shape[1:]), padding_value)]
        rows.append(cat(parts if padding_side == "right" else parts[::-1]))
    return stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences of a padded batch, each of its length."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [rows[i, :length] for i, length in enumerate(_numbers(lengths))]


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """The batch ``input`` (T, N, ...), or (N, T, ...) with ``batch_first``, without what lies
    beyond the ``lengths``, N numbers from 1 to T.

    Raises `ArgumentError` for other lengths, and with ``enforce_sorted`` for such as grow.

    >>> import staticflow as sf
    >>> pack = pack_padded_sequence(sf.tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True)
    >>> pack.data, pack.batch_sizes
    (tensor([1, 3, 2]), tensor([2, 1]))
    """
    steps = input.transpose(0, 1) if batch_first else input
    counts = np.asarray(_numbers(lengths), np.int64)
    if not same_shape(counts.shape, steps.shape[1:2]):
        raise ShapeError(
            f"pack_padded_sequence: {len(counts)} lengths for {steps.shape[1]} sequences"
            f", at {format_locs(here())}"
        )
    if not ((counts >= 1) & (counts <= steps.shape[0])).all():
        raise ArgumentError(
            f"pack_padded_sequence: lengths are from 1 to {steps.shape[0]}, and {counts.tolist()} "
            f"are not, at {format_locs(here())}"
        )
    if enforce_sorted and (counts[1:] > counts[:-1]).any():
        raise ArgumentError(
            f"pack_padded_sequence: the lengths {counts.tolist()} are not sorted downwards; sort "
            f"the batch or give enforce_sorted=False, at {format_locs(here())}"
        )
    return pack(steps, counts, None if enforce_sorted else np.argsort(-counts, kind="stable"))


def pack(steps: Any, counts: Places, order: Places | None) -> PackedSequence:
    """The batch ``steps`` (T, N, ...) packed by its lengths; ``order`` has the sequences, longest
    first."""
    ranked = counts if order is None else counts[order]
    sizes = (np.arange(ranked.max(initial=0))[:, None] < ranked).sum(1)
    positions = [
        t * len(counts) + (np.arange(n) if order is None else order[:n])
        for t, n in enumerate(sizes)
    ]
    flat = steps.reshape(steps.shape[0] * steps.shape[1], *steps.shape[2:])
    data = flat[tensor(np.concatenate(positions))]
    if order is None:
        return PackedSequence(data, tensor(sizes))
    return PackedSequence(data, tensor(sizes), tensor(order), tensor(np.argsort(order)))


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Any, Any]:
    """The batch (T, N, ...), or (N, T, ...) with ``batch_first``, filled up with ``padding_value``,
    in the order that it had before it was packed, and the lengths (N,). T is the longest length, or
    ``total_length``."""
    sizes = np.asarray(_numbers(sequence.batch_sizes))
    length = len(sizes) if total_length is None else total_length
    if length < len(sizes):
        raise ArgumentError(
            f"pad_packed_sequence: a total_length of {length} is less than the longest, "
            f"{len(sizes)}, at {format_locs(here())}"
        )
    data = sequence.data
    positions = np.full((length, sizes[0]), data.shape[0])  # where there is none: behind the last
    begins = np.cumsum(sizes) - sizes
    for t, n in enumerate(sizes):
        positions[t, :n] = begins[t] + np.arange(n)
    lengths = (sizes[:, None] > np.arange(sizes[0])).sum(0)
    if sequence.unsorted_indices is not None:
        back = _numbers(sequence.unsorted_indices)
        positions, lengths = positions[:, back], lengths[back]
    blank = full.beside(data, shape=(1, *data.shape[1:]), value=padding_value, dtype=data.dtype)
    rows = cat([data, blank])[tensor(positions.T if batch_first else positions)]
    return rows, tensor(lengths)


def pack_sequence(sequences: Sequence[Any], enforce_sorted: bool = True) -> PackedSequence:
    """The sequences (length, ...) as a `PackedSequence`, one behind the other step by step."""
    lengths = [x.shape[0] for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """The sequences again, in the order that they had before they were packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


def _numbers(lengths: Any) -> list[int]:
    """Lengths or positions as Python numbers."""
    return list(lengths.tolist() if hasattr(lengths, "tolist") else lengths)


refuses_foreign_in(globals())
