"""Slices of slices, their gradients, and borders around borders of all small sizes, open and known:
some are empty, and begin where the whole has no element any more."""

import random
from typing import Any

import numpy as np
import pytest
from slices import today

import staticflow as sf

STARTS, ENDS, STEPS = (None, 0, 1, 2, 3, -1, -2), (None, None, 0, 1, 2, 4, -1), (None, 1, 2, 3)
KNOWN = (
    (slice(None, None, 3), slice(1, None)),
    (slice(None, None, 2), slice(3, 1), slice(1, 2, 2)),
    (slice(2, None, 3), slice(1, 2), slice(1, None)),
    (slice(1, 2, 3), slice(3, 2), slice(3, None)),
)
"""Chains of which an empty part began outside, and that failed to compile or at the call."""


def drawn(count: int) -> list[tuple[slice, ...]]:
    chance = random.Random(f"parts {today()}")

    def one() -> slice:
        return slice(*(chance.choice(of) for of in (STARTS, ENDS, STEPS)))

    return [tuple(one() for _ in range(chance.choice((2, 3)))) for _ in range(count)]


@pytest.mark.parametrize("chain", [*KNOWN, *drawn(8)], ids=str)
@pytest.mark.parametrize("dynamic", [True, False])
def test_parts_of_parts(chain: tuple[slice, ...], dynamic: bool) -> None:
    def part(t: Any) -> Any:
        for s in chain:
            t = t[s]
        return t * 2

    def both(t: Any) -> Any:
        return part(t), sf.func.grad(lambda t: part(t).square().sum())(t)

    f = sf.jit(both, dynamic=dynamic)
    for n in (5, 2, 3, 0) if dynamic else (2, 3):
        x, taken = np.arange(1.0, n + 1, dtype=np.float32), np.arange(n)
        for s in chain:
            taken = taken[s]
        slope = np.zeros(n, np.float32)
        slope[taken] = 8 * x[taken]
        got, gradient = f(sf.tensor(x))
        np.testing.assert_array_equal(got.numpy(), 2 * x[taken])
        np.testing.assert_array_equal(gradient.numpy(), slope)
