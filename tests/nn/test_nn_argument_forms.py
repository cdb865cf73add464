"""Arguments by the names, and in the forms, that layers of PyTorch take them in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.nn import utils
from staticflow.testing import assert_close


def test_containers_take_what_they_hold_by_name() -> None:
    assert len(nn.ModuleList(modules=[nn.ReLU()])) == 1 and len(nn.ModuleList(None)) == 0
    assert list(nn.ModuleDict(modules={"a": nn.ReLU()})) == ["a"] and not len(nn.ModuleDict(None))
    assert len(nn.ParameterList(values=[sf.ones(2)])) == 1 and len(nn.ParameterList(None)) == 0
    found = nn.ParameterDict(parameters={"a": sf.ones(2)})
    assert found.get("a") is found["a"] and found.get("b") is None and found.get("b", 3) == 3
    assert found.setdefault("a", sf.ones(1)) is found["a"]
    added = found.setdefault("c", sf.ones(3))
    assert isinstance(added, nn.Parameter) and list(found) == ["a", "c"]
    assert not len(nn.ParameterDict(None))


@pytest.mark.parametrize("size", [(7, 9), (8, 10), (2, 3, 8, 9)])
def test_a_transposed_convolution_gives_the_size_that_is_asked_for(size: tuple[int, ...]) -> None:
    layer = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1)
    x = sf.randn(2, 2, 4, 5)
    found = layer(x, output_size=size)
    assert found.shape[-2:] == size[-2:]
    more = tuple(a - b for a, b in zip(size[-2:], (7, 9), strict=True))
    same = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=more)
    same.load_state_dict(layer.state_dict())
    assert_close(found, same(x))
    assert_close(sf.jit(lambda x: layer(x, size), dynamic=False)(x), found)
    conv = nn.Conv2d(3, 2, 3, stride=2, padding=1)
    assert conv(found).shape[-2:] == x.shape[-2:]


@pytest.mark.parametrize("size", [(6, 9), (7, 11), (7,), (3, 7, 9)])
def test_a_size_that_the_stride_cannot_give_is_refused(size: tuple[int, ...]) -> None:
    layer = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1)
    says = r"ConvTranspose2d: output_size=.* between \[7, 9\] and \[8, 10\], at .*test_nn_arg"
    with pytest.raises(sf.ShapeError, match=says):
        layer(sf.ones(1, 2, 4, 5), output_size=size)


def test_sequences_are_padded_on_either_side() -> None:
    rows = [sf.tensor([1.0, 2.0]), sf.tensor([3.0])]
    left = utils.rnn.pad_sequence(rows, batch_first=True, padding_value=9.0, padding_side="left")
    assert left.tolist() == [[1, 2], [9, 3]]
    assert utils.rnn.pad_sequence(rows, padding_side="right").tolist() == [[1, 3], [2, 0]]
    with pytest.raises(sf.ArgumentError, match=r"padding_side must be 'left' or 'right', not 'up'"):
        utils.rnn.pad_sequence(rows, padding_side="up")
    for none in ([], [sf.tensor(1.0)]):
        with pytest.raises(sf.ShapeError, match="pad_sequence: takes one sequence or more"):
            utils.rnn.pad_sequence(none)


def test_a_norm_that_is_none_is_an_error_where_that_is_asked_for() -> None:
    given: list[Any] = [sf.tensor([3.0]), sf.tensor([4.0])]
    assert utils.get_total_norm(given, error_if_nonfinite=True).item() == 5
    given.append(sf.tensor([float("inf")]))
    assert np.isinf(utils.get_total_norm(given).item())
    with pytest.raises(sf.AutogradError, match=r"the norm of the gradients is inf.*test_nn_arg"):
        utils.get_total_norm(given, error_if_nonfinite=True)


def test_the_switch_of_gradients_by_name() -> None:
    with sf.set_grad_enabled(mode=False):
        assert not sf.is_grad_enabled()
