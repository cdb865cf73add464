"""Elements of gradients that are rounding alone, of which a rule such as Adam's makes a whole step.

The gradient of a bias in front of a normalisation is 0, and what is computed is 1e-9 or so of the
others, with either sign. Adam divides a gradient by its own magnitude: two computations that agree
to the last bit but one then move such an element by the learning rate, each its own way. So these
elements are not compared after an update, and whoever leaves them out says how many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.comparison.differences import SMALL, largest_magnitude
from staticflow.ops.tensors.queries import finfo

__all__ = ["NOISE", "clear_elements", "find_noise"]

Array = np.ndarray[Any, Any]

NOISE = 100
"""A gradient is rounding alone below so many times what rounding changes in the largest."""


def find_noise(gradients: Sequence[Mapping[str, Array]], rounding: float = 0.0) -> dict[str, Array]:
    """Where gradients are rounding alone, by their names: masks.

    ``gradients`` are those of one step, computed in one way or several; ``rounding`` is how far
    these are apart, relative to the largest, and at least an ulp of the dtype. Zeros stand for
    nothing but 0, unless all of their array is rounding.
    """
    found = {}
    least = SMALL * max((largest_magnitude(each) for each in gradients), default=0.0)
    for name in set.intersection(*(set(each) for each in gradients)):
        sizes = [np.abs(np.asarray(each[name], np.float64)) for each in gradients]
        largest = max(size.max(initial=0.0) for size in sizes)
        unit = max(rounding, float(finfo(gradients[0][name].dtype).eps))
        noise = min(NOISE * unit, SMALL) * max(largest, least)
        is_some = np.logical_or.reduce([size != 0 for size in sizes])
        if 0 < largest <= noise:
            is_some = np.ones_like(is_some)
        found[name] = is_some & (np.minimum.reduce(sizes) <= noise)
    return found


def clear_elements(masks: Mapping[str, Array], states: Sequence[Mapping[str, Array] | None]) -> int:
    """Put zeros for the masked elements of every state; the number of these elements."""
    for name, mask in masks.items():
        for state in states:
            if state is not None and name in state:
                state[name][mask] = 0
    return sum(int(mask.sum()) for mask in masks.values())
