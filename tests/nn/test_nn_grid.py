"""Images read at the places of a grid, and norms over neighbouring channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ArgumentError, ShapeError

F = sf.nn.functional
RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4, 5))
GRID = RNG.uniform(-1.4, 1.4, (2, 3, 2, 2))
SAME = np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]] * 2)
MODES = [
    (mode, padding, align)
    for mode in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
    for align in (True, False)
]


def at(x: Any, row: float, column: float, padding: str, align: bool) -> Any:
    """The element of an image (H, W) at whole numbers, or what stands for it outside."""
    places = []
    for p, n in ((row, x.shape[0]), (column, x.shape[1])):
        if padding == "zeros" and not 0 <= p < n:
            return 0.0
        while padding == "reflection" and not 0 <= p < n:
            p = (
                (-p if p < 0 else 2 * (n - 1) - p)
                if align
                else (-1 - p if p < 0 else 2 * n - 1 - p)
            )
        places.append(int(min(max(p, 0), n - 1)))
    return x[places[0], places[1]]


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [True, False])
def test_bilinear_and_nearest_by_hand(padding: str, align: bool) -> None:
    h, w = X.shape[2:]
    for mode in ("bilinear", "nearest"):
        out = F.grid_sample(sf.tensor(X), sf.tensor(GRID), mode, padding, align).numpy()
        for n, i, j in np.ndindex(*GRID.shape[:3]):
            gx, gy = GRID[n, i, j]
            x = (gx + 1) / 2 * (w - 1) if align else ((gx + 1) * w - 1) / 2
            y = (gy + 1) / 2 * (h - 1) if align else ((gy + 1) * h - 1) / 2
            for c in range(3):
                image = X[n, c]
                if mode == "nearest":
                    wanted = at(image, np.rint(y), np.rint(x), padding, align)
                else:
                    wanted = sum(
                        (1 - abs(y - r)) * (1 - abs(x - k)) * at(image, r, k, padding, align)
                        for r in (np.floor(y), np.floor(y) + 1)
                        for k in (np.floor(x), np.floor(x) + 1)
                    )
                np.testing.assert_allclose(out[n, c, i, j], wanted, 1e-9, 1e-12)


@pytest.mark.parametrize("mode, padding, align", MODES)
def test_the_same_places_give_the_same_image_in_both_modes(
    mode: str, padding: str, align: bool
) -> None:
    def again(x: Any, theta: Any) -> Any:
        grid = F.affine_grid(theta, x.shape, align_corners=align)
        return F.grid_sample(x, grid, mode, padding, align)

    np.testing.assert_allclose(again(sf.tensor(X), sf.tensor(SAME)).numpy(), X, 1e-9, 1e-12)
    x = sf.placeholder((None, None, None, None), "float64", name="x")
    theta = sf.placeholder((None, 2, 3), "float64", name="theta")
    program = sf.compile([x, theta], again(x, theta))
    turned = SAME @ np.array([[0.8, 0.5, 0.1], [-0.5, 0.8, 0.0], [0, 0, 1.0]])
    wanted = again(sf.tensor(X), sf.tensor(turned)).numpy()
    np.testing.assert_allclose(program(X, turned).numpy(), wanted, 1e-9, 1e-12)


@pytest.mark.parametrize("mode, padding, align", [m for m in MODES if m[0] != "nearest"])
def test_gradients(mode: str, padding: str, align: bool) -> None:
    x, g = (sf.tensor(v[:1, :2], requires_grad=True) for v in (X, GRID))
    assert sf.autograd.gradcheck(lambda x, g: F.grid_sample(x, g, mode, padding, align), (x, g))
    assert sf.autograd.gradgradcheck(lambda x: F.grid_sample(x, g, mode, padding, align), (x,))


def test_three_dims() -> None:
    x = sf.tensor(RNG.standard_normal((1, 2, 2, 3, 4)))
    theta = sf.tensor(np.eye(3, 4)[None])
    for align in (True, False):
        grid = F.affine_grid(theta, (1, 2, 2, 3, 4), align)
        assert grid.shape == (1, 2, 3, 4, 3)
        np.testing.assert_allclose(F.grid_sample(x, grid, align_corners=align), x, 1e-9, 1e-12)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match="affine_grid: takes maps"):
        F.affine_grid(sf.zeros(1, 2, 3), (1, 1, 2))
    for says, options in (
        ("takes", {"grid": sf.zeros(1, 2, 2, 3)}), ("mode is", {"mode": "cubic"}),
        ("padding_mode is", {"padding_mode": "zero"}),
    ):  # fmt: skip
        given = {"input": sf.zeros(1, 1, 2, 2), "grid": sf.zeros(1, 2, 2, 2), **options}
        with pytest.raises(ArgumentError, match=f"grid_sample: {says}"):
            F.grid_sample(**given)


def test_local_response_norm() -> None:
    x = RNG.standard_normal((2, 5, 3))
    for size in (1, 2, 3, 4):
        out = sf.nn.LocalResponseNorm(size, 0.5, 0.75, 2.0)(sf.tensor(x)).numpy()
        for c in range(5):
            around = x[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1]
            scale = (2 + 0.5 * (around**2).sum(1) / size) ** 0.75
            np.testing.assert_allclose(out[:, c], x[:, c] / scale, 1e-9)
    assert repr(sf.nn.LocalResponseNorm(2)) == (
        "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)"
    )
    with pytest.raises(ShapeError, match="local_response_norm: takes"):
        F.local_response_norm(sf.zeros(2, 3), 2)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_the_gradient_by_places_of_nearest_elements_is_zero_in_both_modes(padding: str) -> None:
    x = sf.tensor(X)

    def loss(grid: Any) -> Any:
        return F.grid_sample(x, grid, "nearest", padding, align_corners=False).square().sum()

    places = GRID.copy()
    places[0, 0, 0, 0], places[0, 0, 1, 1] = np.inf, np.nan
    grid = sf.tensor(places, requires_grad=True)
    loss(grid).backward()
    symbol = sf.placeholder((None, 3, 2, 2), sf.float64)
    wanted = np.zeros_like(places)
    for found in (
        grid.grad,
        sf.compile([symbol], sf.grad(loss(symbol), [symbol])[0])(places),
        sf.autograd.grad(sf.jit(loss)(grid), [grid])[0],
    ):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_allclose(sf.jit(loss)(grid).item(), loss(grid).item(), rtol=1e-12)


def test_relu6_of_unsigned_integers() -> None:
    for call in (F.relu6, sf.jit(F.relu6)):
        out = call(sf.tensor([0, 3, 200], dtype=sf.uint8))
        assert (out.dtype, out.tolist()) == (sf.uint8, [0, 3, 6])
