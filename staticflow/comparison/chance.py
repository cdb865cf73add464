"""The sources of random numbers that a model may draw from: staticflow's, NumPy's and Python's."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.eager.random import get_rng_state, manual_seed, set_rng_state

__all__ = ["Chance", "has_drawn", "seed_all"]


@dataclass(frozen=True, slots=True)
class Chance:
    """Where all three sources stand."""

    ours: Any
    numpys: Any
    pythons: Any

    @staticmethod
    def now() -> Chance:
        """Where they stand now."""
        return Chance(get_rng_state(), np.random.get_state(), random.getstate())

    def restore(self) -> None:
        """Let them go on from here."""
        set_rng_state(self.ours)
        np.random.set_state(self.numpys)
        random.setstate(self.pythons)


def seed_all(seed: int) -> None:
    """Begin all three sources anew."""
    manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def has_drawn(before: Chance) -> bool:
    """Whether staticflow has drawn since ``before``."""
    return bool((get_rng_state().numpy() != before.ours.numpy()).any())
