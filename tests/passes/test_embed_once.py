"""The gradients of stencils: equal in both modes, and made by few kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

pad = sf.nn.functional.pad


def heat(a: Any) -> Any:
    """A step of the heat equation in three dims."""
    c = a[1:-1, 1:-1, 1:-1]
    along = (
        a[2:, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1], a[1:-1, 2:, 1:-1] + a[1:-1, :-2, 1:-1],
        a[1:-1, 1:-1, 2:] + a[1:-1, 1:-1, :-2],
    )  # fmt: skip
    return pad(0.125 * (sum(along) - 6 * c) + c, (1,) * 6)


def line(a: Any) -> Any:
    """Three neighbours, each counted for another share."""
    return pad(0.3 * a[:-2] + 0.2 * a[1:-1] - 0.4 * a[2:], (1, 1))


def upwind(a: Any) -> Any:
    """Neighbours that are multiplied, far apart along one dim."""
    return a[:, 3:] * a[:, :-3] + a[:, 1:-2]


STENCILS = [(heat, (5, 6, 7)), (heat, (3, 3, 3)), (line, (17,)), (line, (3,)), (upwind, (4, 11))]


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize(("stencil", "shape"), STENCILS)
def test_the_gradient_of_a_stencil(
    stencil: Callable[[Any], Any], shape: tuple[int, ...], known: bool
) -> None:
    x = np.random.default_rng(0).standard_normal(shape)
    wanted = sf.tensor(x, requires_grad=True)
    (stencil(wanted) ** 2).sum().backward()
    a = sf.placeholder(shape if known else (None,) * len(shape), dtype=sf.float64, name="a")
    step = sf.compile([a], sf.grad((stencil(a) ** 2).sum(), a))
    np.testing.assert_allclose(step(sf.tensor(x)).numpy(), wanted.grad.numpy(), 1e-13, 1e-13)


def test_it_is_made_by_few_kernels() -> None:
    """Without the pass each neighbour has an array of its own."""
    a, ct = (sf.placeholder((60, 60, 60), name=n) for n in ("a", "ct"))
    pulled = sf.grad((heat(a) * ct).sum(), a)
    few, many = (
        sf.compile([a, ct], pulled, passes=p).kernel_count for p in (None, ["-embed_once"])
    )
    assert (few, many) == (3, 9)
