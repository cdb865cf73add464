"""Numbers rounded to few, whose gradient is that of numbers that are not rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf

X = np.linspace(-30, 30, 121).reshape(11, 11).astype(np.float32)


def by_numpy(x: Any, scale: Any, zero: Any, low: int, high: int) -> tuple[Any, Any]:
    steps = np.rint(x * (np.float32(1) / scale)) + zero
    value = (np.clip(steps, low, high) - zero) * scale
    return value.astype(np.float32), ((low <= steps) & (steps <= high)).astype(np.float32)


@pytest.mark.parametrize("as_tensors", [False, True])
@pytest.mark.parametrize(("scale", "zero"), [(0.25, 0), (0.1, 7), (3.0, -2)])
def test_values_and_gradients(scale: float, zero: int, as_tensors: bool) -> None:
    given: Any = (sf.tensor(scale), sf.tensor([zero])) if as_tensors else (scale, zero)
    wanted, slope = by_numpy(X, np.float32(scale), zero, -8, 40)
    x = sf.tensor(X, requires_grad=True)
    out = sf.fake_quantize_per_tensor_affine(x, *given, -8, 40)
    np.testing.assert_allclose(out.detach().numpy(), wanted, rtol=1e-6)
    out.sum().backward()
    assert x.grad.tolist() == slope.tolist() and 0 < slope.mean() < 1
    p = sf.placeholder((None, 11), name="p")
    own = sf.fake_quantize_per_tensor_affine(p, *given, -8, 40)
    value, gradient = sf.compile([p], [own, sf.grad(own.sum(), p)])(X)
    np.testing.assert_allclose(value.numpy(), wanted, rtol=1e-6)
    assert gradient.tolist() == slope.tolist()


@pytest.mark.parametrize("axis", [0, -1])
def test_each_channel_has_its_own(axis: int) -> None:
    scale, zero = np.linspace(0.1, 1, 11, dtype=np.float32), np.arange(11)
    along = (-1, 1) if axis == 0 else (1, -1)
    wanted, slope = by_numpy(X, scale.reshape(along), zero.reshape(along), 0, 30)
    x = sf.tensor(X, requires_grad=True)
    args = sf.tensor(scale), sf.tensor(zero), axis, 0, 30
    out = sf.fake_quantize_per_channel_affine(x, *args)
    np.testing.assert_allclose(out.detach().numpy(), wanted, rtol=1e-5, atol=1e-6)
    out.sum().backward()
    assert x.grad.tolist() == slope.tolist()


def test_infinities_are_bounds_and_have_no_gradient() -> None:
    x = sf.tensor([-np.inf, np.inf, 1.0], dtype=sf.float32, requires_grad=True)
    out = sf.fake_quantize_per_tensor_affine(x, 0.5, 0, -4, 4)
    out.sum().backward()
    assert out.tolist() == [-2.0, 2.0, 1.0] and x.grad.tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda q: q(sf.ones(3), 0.1, 0, 5, 4), "quant_min is 5, above quant_max, 4"),
        (lambda q: q(sf.ones(3).long(), 0.1, 0, 0, 4), "takes floating numbers, not int64"),
        (lambda q: q(sf.ones(3), sf.ones(2), 0, 0, 4), "scale has shape"),
    ],
)
def test_wrong_calls(call: Any, says: str) -> None:
    with pytest.raises(sf.StaticflowError, match=says):
        call(sf.fake_quantize_per_tensor_affine)
