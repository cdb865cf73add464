"""Random programs of views and in-place operations, against finite differences in float64."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import AutogradError

STARTS = (np.linspace(0.5, 1.5, 12).reshape(3, 4), np.linspace(1.0, 2.0, 4))
STEP = 1e-6

Draw = random.Random
Step = Callable[[Draw, list[sf.Tensor], sf.Tensor, sf.Tensor], Any]


def _put_a_row(draw: Draw, made: list[sf.Tensor], t: sf.Tensor, w: sf.Tensor) -> None:
    if t.ndim:
        t[0] = draw.choice([3.0, w.sum(), t[t.shape[0] - 1]])


def _copy(draw: Draw, made: list[sf.Tensor], t: sf.Tensor, w: sf.Tensor) -> None:
    other = draw.choice(made)
    if other.shape == t.shape:
        t.copy_(other)
    else:
        t.zero_()


def _mask(draw: Draw, made: list[sf.Tensor], t: sf.Tensor, w: sf.Tensor) -> None:
    t[t > 0.7] = draw.choice([0.0, 2.0])


STEPS: tuple[Step, ...] = (
    lambda draw, made, t, w: made.append(t[draw.randrange(t.shape[0])] if t.ndim else t * 2),
    lambda draw, made, t, w: made.append(t.t() if t.ndim == 2 else t.reshape(-1)),
    lambda draw, made, t, w: made.append(t[..., ::2] if t.ndim else t.unsqueeze(0)),
    lambda draw, made, t, w: made.append(t.sin() if draw.random() < 0.5 else t * t),
    lambda draw, made, t, w: t.mul_(draw.choice([2.0, 0.5])),
    lambda draw, made, t, w: t.add_(t.sum() * 0.1 if draw.random() < 0.5 else 1.0),
    lambda draw, made, t, w: t.mul_(t),
    lambda draw, made, t, w: t[1:].mul_(w[0]) if t.ndim else t.sub_(w[1]),
    _put_a_row,
    _copy,
    _mask,
)


def run(seed: int, *starts: Any) -> tuple[sf.Tensor, list[sf.Tensor]]:
    """A program's sum of squares, and what it began with."""
    draw = random.Random(seed)
    x, w = leaves = [sf.tensor(s, requires_grad=True) for s in starts]
    fixed = sf.tensor(np.linspace(-1, 1, 12).reshape(3, 4))
    made = [x * 1.5, (x * w).sin(), fixed, x.t() * 2]
    for _ in range(draw.randint(2, 9)):
        draw.choice(STEPS)(draw, made, draw.choice(made), w)
    total = sf.tensor(0.0, dtype="float64")
    for t in made:
        total = total + (t * t).sum() * 0.01
    return total, leaves


@pytest.mark.parametrize("seed", range(60))
def test_gradients(seed: int) -> None:
    total, leaves = run(seed, *STARTS)
    try:
        total.backward()
    except AutogradError as error:
        assert "changed in place" in str(error)
        return
    for k, (leaf, start) in enumerate(zip(leaves, STARTS, strict=True)):
        found = np.zeros(start.shape) if leaf.grad is None else leaf.grad.numpy()
        expected = np.zeros(start.size)
        for i in range(start.size):
            ends = []
            for sign in (1, -1):
                moved = [s.copy() for s in STARTS]
                moved[k].reshape(-1)[i] += sign * STEP
                ends.append(run(seed, *moved)[0].item())
            expected[i] = (ends[0] - ends[1]) / (2 * STEP)
        largest = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(found, expected.reshape(start.shape), 1e-4, 1e-4 * largest)
