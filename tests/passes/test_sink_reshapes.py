"""Layers on more than two dims: as many kernels as on two."""

from __future__ import annotations

import numpy as np
import pytest

import staticflow as sf
from staticflow.nn import functional as F


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("shape", [(64, 32), (4, 16, 32), (2, 2, 16, 32)])
def test_a_layer_of_any_number_of_dims(shape: tuple[int, ...], known: bool) -> None:
    """It is two products, each with what is behind it."""
    sizes = shape if known else (*(None for _ in shape[:-1]), shape[-1])
    x, *weights = (
        sf.placeholder(s, name=n)
        for n, s in (("x", sizes), ("w", (48, 32)), ("b", (48,)), ("v", (32, 48)), ("c", (32,)))
    )
    w, b, v, c = weights
    y = x + F.linear(F.gelu(F.linear(x, w, b)), v, c)
    layer = sf.compile([x, w, b, v, c], y)
    assert layer.kernel_count == 2
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s) for s in (shape, (48, 32), (48,), (32, 48), (32,))]
    given = [sf.tensor(g.astype(np.float32)) for g in given]
    ex, ew, eb, ev, ec = given
    wanted = ex + F.linear(F.gelu(F.linear(ex, ew, eb)), ev, ec)
    np.testing.assert_allclose(layer(*given).numpy(), wanted.numpy(), 1e-4, 1e-4)
