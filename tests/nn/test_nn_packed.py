"""Batches of sequences of several lengths: padded, packed, and through the recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.errors import ArgumentError, ShapeError
from staticflow.nn.utils.rnn import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)

LENGTHS = [2, 4, 1]
SEQUENCES = [sf.arange(n * 3.0).view(n, 3) * 0.1 + k for k, n in enumerate(LENGTHS)]


def test_packing_keeps_what_is_there_step_by_step() -> None:
    a, b, c = (sf.tensor(row) for row in ([1.0, 2.0, 3.0], [4.0, 5.0], [6.0]))
    packed = pack_sequence([a, b, c])
    assert packed.data.tolist() == [1, 4, 6, 2, 5, 3]
    assert packed.batch_sizes.tolist() == [3, 2, 1] and packed.sorted_indices is None
    mixed = pack_sequence([b, c, a], enforce_sorted=False)
    assert mixed.data.tolist() == packed.data.tolist()
    assert mixed.sorted_indices.tolist() == [2, 0, 1]
    assert mixed.unsorted_indices.tolist() == [1, 2, 0]


@pytest.mark.parametrize("batch_first", [False, True])
def test_there_and_back(batch_first: bool) -> None:
    padded = pad_sequence(SEQUENCES, batch_first)
    packed = pack_padded_sequence(padded, sf.tensor(LENGTHS), batch_first, enforce_sorted=False)
    again, lengths = pad_packed_sequence(packed, batch_first)
    assert sf.equal(again, padded) and lengths.tolist() == LENGTHS
    for rows in (unpad_sequence(padded, lengths, batch_first), unpack_sequence(packed)):
        assert all(sf.equal(x, y) for x, y in zip(rows, SEQUENCES, strict=True))
    wide, _ = pad_packed_sequence(packed, padding_value=-1.0, total_length=6)
    assert wide.shape == (6, 3, 3) and (wide[4:] == -1).all()


def test_gradients_go_through() -> None:
    x = sf.ones(4, 3, 2, requires_grad=True)
    packed = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
    (packed.data * sf.arange(7.0).unsqueeze(1)).sum().backward()
    assert x.grad is not None
    assert x.grad[:, :, 0].tolist() == [[1, 0, 2], [4, 3, 0], [0, 5, 0], [0, 6, 0]]


@pytest.mark.parametrize("name", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_layers_take_and_give_packed_batches(name: str, enforce_sorted: bool) -> None:
    """As each sequence alone, in both directions and with a first state."""
    order = [1, 0, 2] if enforce_sorted else [0, 1, 2]
    rows = [SEQUENCES[i] for i in order]
    layer: Any = getattr(nn, name)(3, 4, num_layers=2, bidirectional=True)
    states = 2 if name == "LSTM" else 1
    first = [sf.randn(4, 3, 4) for _ in range(states)]
    begin: Any = tuple(first) if states > 1 else first[0]
    packed, last = layer(pack_sequence(rows, enforce_sorted), begin)
    for i, (x, y) in enumerate(zip(rows, unpack_sequence(packed), strict=True)):
        own: Any = tuple(h[:, i] for h in first)
        wanted, end = layer(x, own if states > 1 else own[0])
        np.testing.assert_allclose(y.detach(), wanted.detach(), atol=1e-6)
        ends = zip(last, end, strict=True) if states > 1 else [(last, end)]
        for all_of_them, one in ends:
            np.testing.assert_allclose(all_of_them[:, i].detach(), one.detach(), atol=1e-6)


def test_refusals() -> None:
    x = sf.ones(4, 3, 2)
    with pytest.raises(ArgumentError, match=r"lengths \[2, 4, 1\] are not sorted downwards"):
        pack_padded_sequence(x, LENGTHS)
    with pytest.raises(ArgumentError, match=r"lengths are from 1 to 4, and \[5, 1, 1\] are not"):
        pack_padded_sequence(x, [5, 1, 1])
    with pytest.raises(ArgumentError, match="lengths are from 1 to 4"):
        pack_padded_sequence(x, [1, 1, 0])
    with pytest.raises(ShapeError, match="2 lengths for 3 sequences"):
        pack_padded_sequence(x, [2, 1])
    with pytest.raises(ArgumentError, match="a total_length of 2 is less than the longest, 4"):
        pad_packed_sequence(pack_padded_sequence(x, [4, 2, 1]), total_length=2)
