"""Integers of NumPy serve where sizes, dims and counts are asked for, alone and in lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

F = sf.nn.functional

CALLS: dict[str, Callable[[Any], Any]] = {
    "set_num_threads": lambda i: sf.set_num_threads(i(sf.get_num_threads())),
    "placeholder": lambda i: sf.placeholder((i(2), None)).shape[0],
    "LayerNorm": lambda i: sf.nn.LayerNorm(i(4))(sf.ones(2, 4)).shape,
    "RMSNorm": lambda i: sf.nn.RMSNorm(i(4))(sf.ones(2, 4)).shape,
    "layer_norm": lambda i: F.layer_norm(sf.ones(2, 4), i(4)).shape,
    "layer_norm of a list": lambda i: F.layer_norm(sf.ones(2, 4), [i(2), i(4)]).shape,
    "TransformerEncoderLayer": lambda i: sf.nn.TransformerEncoderLayer(i(4), i(2), i(8)).norm1.eps,
    "DataLoader": lambda i: len(
        sf.utils.data.DataLoader(sf.utils.data.TensorDataset(sf.ones(5)), batch_size=i(2))
    ),
    "vmap": lambda i: sf.vmap(lambda a: a * 2, in_dims=i(1), out_dims=i(1))(sf.ones(2, 3)).shape,
    "sum": lambda i: sf.ones(2, 3, 4).sum([i(0), i(-1)]).shape,
    "reshape": lambda i: sf.ones(2, 3).reshape(i(3), i(-1)).shape,
    "split": lambda i: len(sf.ones(2, 3).split([i(1), i(2)], i(1))),
    "Conv2d": lambda i: sf.nn.Conv2d(i(1), i(2), (i(3), i(2)), padding=i(1)).padding,
    "pad": lambda i: F.pad(sf.ones(2, 3), (i(1), i(2))).shape,
    "scan": lambda i: sf.scan(lambda c, _: (c + 1, c), sf.tensor(0.0), length=i(3))[1].shape,
    "one_hot": lambda i: F.one_hot(sf.tensor([0, 1]), i(3)).shape,
    "StepLR": lambda i: (
        sf.optim.lr_scheduler.StepLR(
            sf.optim.SGD([sf.nn.Parameter(sf.ones(2))], lr=0.1), i(3)
        ).step_size
    ),
}


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8], ids=lambda k: k.__name__)
@pytest.mark.parametrize("name", CALLS)
def test_an_integer_of_numpy_is_one(name: str, kind: Callable[[int], Any]) -> None:
    def of_kind(n: int) -> Any:
        return kind(n) if n >= 0 else np.int64(n)

    assert CALLS[name](of_kind) == CALLS[name](int)
