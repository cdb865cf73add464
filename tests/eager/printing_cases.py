"""What the tests of printing print: NumPy arrays and options, for PyTorch and for staticflow."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["CASES"]

_NUMBERS: tuple[Any, ...] = (
    [1, 2.5], [1, 2, 3], 1.5, 3, [1e-5, 1], [1e8, 1], [123456789, 2], [0, 0], [np.nan, 1],
    [np.inf, -np.inf, 1.5], [-np.inf, 2, 3], [], np.zeros((0, 3)), np.zeros((2, 0)), [1e-3, 1],
    [1e4, 1.5], [-1, -0.0], [-0.5, 100.25], [[1, 2], [3, 4.5]], np.nan, [np.nan, np.nan], [1e-10],
    1e10, 0, [1000, 1], [1001, 1], [99999, 0.5],
)  # fmt: skip
_SMALL = ((30,), (3, 4), (2, 3, 4), (2, 2, 2, 2), (1, 1, 1), (7, 1, 3))
_LARGE = ((1001,), (10, 101), (3, 4, 100), (1001, 1), (7, 200))


def _arrays() -> list[np.ndarray[Any, Any]]:
    with np.errstate(over="ignore"):
        found = [np.asarray(n, dtype) for dtype in ("f4", "f8", "f2") for n in _NUMBERS]
    draw = np.random.default_rng(0)
    for shape in _SMALL:
        for scale in (1, 1e3, 1e-3, 1e6):
            normal = np.asarray(draw.standard_normal(shape) * scale, np.float32)
            found += [normal, normal.round()]
        found += [draw.integers(0, 120, shape).astype(d) for d in ("i8", "i1", "u1", "i4", "?")]
    for shape in _LARGE:
        count = np.arange(np.prod(shape)).reshape(shape)
        found += [count, (count / 7).astype(np.float32), count > 2]
    return [*found, np.arange(1000)]


_ARRAYS = _arrays()
_OPTIONS: tuple[dict[str, Any], ...] = (
    {"precision": 2}, {"threshold": 5}, {"edgeitems": 1, "threshold": 5}, {"linewidth": 30},
    {"profile": "short"}, {"sci_mode": True}, {"sci_mode": False}, {"edgeitems": 0, "threshold": 3},
)  # fmt: skip

CASES: list[tuple[dict[str, Any], np.ndarray[Any, Any]]] = [
    *(({}, a) for a in _ARRAYS),
    *((options, a) for options in _OPTIONS for a in _ARRAYS[:-1:4]),
]
