"""Derivatives of compiled programs along one direction, against differences in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

import staticflow as sf

__all__ = ["check_derivatives"]


def check_derivatives(x: Any, value: Any, at: np.ndarray, along: np.ndarray) -> float:
    """Hold the first and the second derivative of a ``value`` by the placeholder ``x`` of float64,
    where that is ``at`` and along a direction of its shape, to central differences; gives the
    first."""
    direction = sf.tensor(along)
    slope = (sf.grad(value, [x])[0] * direction).sum()
    run = sf.compile([x], [value, slope, (sf.grad(slope, [x])[0] * direction).sum()])
    step = 1e-5
    above, below = (run(at + s * step * along) for s in (1, -1))
    _, *found = run(at)
    for derivative, of in zip(found, (0, 1), strict=True):
        difference = (above[of].item() - below[of].item()) / (2 * step)
        np.testing.assert_allclose(derivative.item(), difference, 1e-5)
    return float(found[0].item())
