"""Layers that are given in their constructor what they are to be called on."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn

LAYERS = [
    cls
    for name, cls in sorted(vars(nn).items())
    if isinstance(cls, type) and issubclass(cls, nn.Module) and cls.__name__ == name
]
NUMBERS = {"int", "float", "bool", "str", "None"}
DATA = {"floats": sf.ones(4, 3), "classes": sf.zeros(4, dtype=sf.int64), "array": np.ones((4, 3))}


def plain_arguments(cls: Any) -> tuple[dict[str, Any], list[str]]:
    """A value for each argument that must be given, and which arguments are plain numbers."""
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    must = {
        p.name: 1 for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
    }
    return must, [p.name for p in parameters if {*str(p.annotation).split(" | ")} <= NUMBERS]


def test_most_layers_have_such_arguments() -> None:
    assert sum(bool(plain_arguments(cls)[1]) for cls in LAYERS) > 80


@pytest.mark.parametrize("cls", LAYERS, ids=lambda cls: cls.__name__)
def test_data_are_no_numbers_of_a_layer(cls: Any) -> None:
    must, names = plain_arguments(cls)
    for name in names:
        for data in DATA.values():
            with pytest.raises(
                sf.DTypeError, match=rf"^{cls.__name__}: '{name}' must be .*layer\(x\)"
            ):
                cls(**{**must, name: data})


def test_a_symbol_is_no_number_of_a_layer_either() -> None:
    with pytest.raises(sf.DTypeError, match="ReLU: 'inplace' must be bool, not f32"):
        nn.ReLU(sf.placeholder((3, 4), name="x"))


def test_what_may_be_a_tensor_stays_one() -> None:
    weight = sf.tensor([1.0, 2.0, 3.0])
    assert nn.CrossEntropyLoss(weight).weight is weight
    assert nn.Dropout(sf.tensor(0.25)).p == 0.25
    assert nn.BCEWithLogitsLoss(pos_weight=weight).pos_weight is weight
