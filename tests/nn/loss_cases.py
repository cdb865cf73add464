"""The inputs of losses, made of formulas: for PyTorch (reference/make_losses.py) and for the test."""

from __future__ import annotations

import numpy as np

__all__ = ["inputs", "soft", "wave"]


def wave(*shape: int, by: float = 1.0) -> np.ndarray:
    """Numbers between -2 and 2 without a pattern."""
    return 2 * np.sin(by * (np.arange(np.prod(shape, dtype=int)) + 1.5) ** 2).reshape(shape)


def soft(x: np.ndarray) -> np.ndarray:
    """Positive numbers that sum to 1 along axis 1."""
    return np.exp(x) / np.exp(x).sum(1, keepdims=True)


def inputs(kind: str) -> list[np.ndarray]:
    """The arguments of a case; the first is differentiated."""
    x, y = wave(5, 4), wave(5, 4, by=1.3)
    signs = np.array([1, -1, 1, 1, -1])
    return {
        "real": [x, y],
        "classes": [x, np.array([0, 3, -100, 2, 1])],
        "classes_in_range": [x, np.array([0, 3, 1, 2, 1])],
        "classes_of_pixels": [wave(2, 4, 3), np.array([[0, 3, 1], [-100, 2, 1]])],
        "one_class": [x[0], np.array(2)],
        "class_probabilities": [x, soft(y)],
        "probabilities": [(x + 2) / 4, (y + 2) / 4],
        "scores": [x, (y + 2) / 4],
        "log_probabilities": [np.log(soft(x)), np.maximum(y, 0)],
        "two_log_probabilities": [np.log(soft(x)), np.log(soft(y))],
        "counts": [x, np.round(y + 2)],
        "rates": [x + 2.5, np.round(y + 2)],
        "gaussian": [x, y, np.abs(wave(5, 4, by=0.7)) + 0.1],
        "order": [x, y, np.sign(wave(5, 4, by=0.7))],
        "signs": [x, np.sign(y)],
        "labels": [x, (y > 0).astype(float)],
        "vectors": [x, y, signs],
        "triplets": [x, y, wave(5, 4, by=0.7)],
    }[kind]
