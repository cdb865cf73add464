"""What PyTorch copies has memory of its own also where there is nothing to do, and views have not:
a change in place of the result is one of the argument in the one case and not in the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.nn import functional as F

X = np.arange(1.0, 13.0).reshape(1, 4, 3, 1)

COPIES: dict[str, Any] = {
    "cat": lambda x: sf.cat([x]),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 1),
    "clamp": lambda x: x.clamp(-1e9, 1e9),
    "clone": lambda x: x.clone(),
    "cumsum": lambda x: x.cumsum(0),
    "diff": lambda x: x.diff(n=0),
    "flip": lambda x: x.flip(0),
    "index_select": lambda x: x.index_select(0, sf.tensor([0])),
    "indices": lambda x: x[[0]],
    "interpolate": lambda x: F.interpolate(x, scale_factor=1.0),
    "matrix_power": lambda x: sf.matrix_power(x[:, :3, :, 0], 1),
    "narrow_copy": lambda x: x.narrow_copy(0, 0, 1),
    "pad": lambda x: F.pad(x, (0, 0)),
    "pad_circular": lambda x: F.pad(x, (0, 0), mode="circular"),
    "pad_less": lambda x: F.pad(x, (0, 0, -1, 0)),
    "pad_reflect": lambda x: F.pad(x, (0, 0, 0, 0), mode="reflect"),
    "pad_replicate": lambda x: F.pad(x, (0, 0, -1, 0), mode="replicate"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 1),
    "pixel_shuffle_columns": lambda x: F.pixel_shuffle(x.reshape(3, 4, 1, 1), 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 1),
    "repeat": lambda x: x.repeat(1, 1, 1, 1),
    "repeat_interleave": lambda x: x.repeat_interleave(1, dim=1),
    "repeat_interleave_all": lambda x: x.repeat_interleave(3, dim=3),
    "roll": lambda x: x.roll(0, 0),
    "sort": lambda x: x.sort(0).values,
    "stack": lambda x: sf.stack([x]),
    "sum": lambda x: x.sum(0),
    "take_along_dim": lambda x: x.take_along_dim(sf.zeros(1, 4, 3, 1, dtype=sf.int64), 3),
    "tile": lambda x: x.tile(1),
    "tril": lambda x: x.tril(9),
    "where": lambda x: sf.where(sf.tensor(True), x, x),
}
VIEWS: dict[str, Any] = {
    "chunk": lambda x: x.chunk(1)[0],
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "einsum": lambda x: sf.einsum("abcd->abcd", x),
    "expand": lambda x: x.expand(x.shape),
    "permute": lambda x: x.permute(0, 1, 2, 3),
    "slice": lambda x: x[:],
    "squeeze": lambda x: x.squeeze(),
    "sum_to_size": lambda x: x.sum_to_size(x.shape),
    "to": lambda x: x.to(sf.float64),
    "view_as": lambda x: x.view_as(x),
}


def changed(fn: Any) -> Any:
    """A function that changes what ``fn`` gives in place, and gives all that there is then."""

    def run(x: Any) -> Any:
        x = x * 2
        y = fn(x)
        y.mul_(10.0)
        return x, y

    return run


def compiled(fn: Any) -> Any:
    x = sf.placeholder(X.shape, dtype="float64", name="x")
    return sf.compile([x], list(changed(fn)(x)))(X)


WAYS: dict[str, Any] = {
    "eager": lambda fn: changed(fn)(sf.tensor(X)),
    "jit": lambda fn: sf.jit(changed(fn))(sf.tensor(X)),
    "compile": compiled,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", COPIES)
def test_a_change_of_a_copy_leaves_the_argument(name: str, way: str) -> None:
    x, y = WAYS[way](COPIES[name])
    assert x.tolist() == (2 * X).tolist()
    np.testing.assert_array_equal(y, 10 * COPIES[name](sf.tensor(2 * X)).numpy())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", VIEWS)
def test_a_change_of_a_view_is_one_of_the_argument(name: str, way: str) -> None:
    x, y = WAYS[way](VIEWS[name])
    assert x.tolist() == (20 * X).tolist()
    assert y.numpy().ravel().tolist() == (20 * X).ravel().tolist()


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_has_memory_of_its_own(name: str) -> None:
    x = sf.tensor(X)
    assert not np.shares_memory(COPIES[name](x).numpy(), x.numpy())
