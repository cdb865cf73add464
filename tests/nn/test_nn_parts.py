"""The parameters, buffers and modules that a module holds itself, as PyTorch's dictionaries show them."""

from __future__ import annotations

import pytest

import staticflow as sf
from staticflow import nn


def test_what_is_put_into_the_parts_is_put_into_the_module() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1, bias=False))
    assert list(net._modules) == ["0", "1", "2"] and len(net._parameters) == 0
    assert list(net[0]._parameters) == ["weight", "bias"]
    assert list(net[2]._parameters) == ["weight"]
    assert net[0]._parameters["weight"] is net[0].weight
    assert list(net[1]._buffers) == ["running_mean", "running_var", "num_batches_tracked"]

    net._modules["1"] = nn.Tanh()
    net._modules["3"] = nn.ReLU()
    assert isinstance(net[1], nn.Tanh) and isinstance(net[3], nn.ReLU)
    del net._modules["3"]
    assert len(net) == 3 and net(sf.ones(4, 2)).shape == (4, 1)

    scale = nn.Parameter(sf.ones(3))
    net[0]._parameters["scale"] = scale
    net[0]._buffers["count"] = sf.zeros(1)
    assert net[0].scale is scale and "0.scale" in dict(net.named_parameters())
    assert "0.count" in net.state_dict()
    assert repr(nn.Tanh()._modules) == "{}"


def test_what_is_no_part_is_refused() -> None:
    layer = nn.Linear(2, 3)
    with pytest.raises(sf.StaticflowError, match="weight is a parameter"):
        layer._parameters["weight"] = sf.ones(3, 2)
    with pytest.raises(sf.StaticflowError, match="which is no module"):
        layer._modules["child"] = 3
    with pytest.raises(KeyError, match="has no 'scale' among weight, bias"):
        del layer._parameters["scale"]
    with pytest.raises(KeyError, match="scale"):
        layer._parameters["scale"]
    assert layer._parameters.get("scale") is None


def test_the_weights_of_a_recurrent_layer_by_their_names() -> None:
    layer = nn.LSTM(2, 3, num_layers=2)
    assert layer._flat_weights_names == [n for n, _ in layer.named_parameters()]
    for name in layer._flat_weights_names:
        if "weight" in name:
            nn.init.xavier_uniform_(layer._parameters[name])


def test_the_data_of_a_lazy_layer_is_empty_before_its_first_call() -> None:
    layer = nn.LazyLinear(1)
    with pytest.warns(UserWarning, match="initialise the layer after a call"):
        layer.weight.data.normal_(0, 0.01)
    with pytest.raises(sf.ShapeError, match="before the first call"):
        layer.weight.data = sf.ones(1, 2)
    assert layer(sf.ones(4, 2)).shape == (4, 1) and layer.weight.data.shape == (1, 2)
