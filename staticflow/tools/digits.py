"""Handwritten digits: 1,797 images of 8x8 pixels with their classes, from scikit-learn.

E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository, 1998; the part that scikit-learn has on board, so nothing is downloaded.
"""

from __future__ import annotations

import gzip
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.errors import StaticflowError
from staticflow.graph.dtypes import dtype_of

__all__ = [
    "CLASSES",
    "PIXELS",
    "Digits",
    "MissingExtraError",
    "extra",
    "load_digits",
    "shuffle_batches",
]

Array = np.ndarray[Any, Any]

PIXELS = 64
CLASSES = 10
HELD_OUT = 360  # a fifth


class MissingExtraError(StaticflowError, ImportError):
    """A package that only the examples need is not installed."""


def extra(module: str) -> ModuleType:
    """The module of that name, of the optional dependencies ``examples``.

    Raises `MissingExtraError`, which says how to install them.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{module.split('.')[0]} is not installed; install what the examples need with\n"
            '    pip install "staticflow[examples]"'
        ) from error


@dataclass(frozen=True, slots=True)
class Digits:
    """Images (N, 64) of pixels in [0, 1] and their classes (N,), int64 in [0, 10)."""

    train_images: Array
    train_labels: Array
    test_images: Array
    test_labels: Array


def load_digits(dtype: Any = "float32", seed: int = 0) -> Digits:
    """The data set, of which a permutation drawn by ``seed`` holds 360 images out for testing.

    Raises `MissingExtraError` if scikit-learn is not installed.
    """
    pixels, classes = _read_digits()
    order = np.random.default_rng(seed).permutation(len(classes))
    images = (pixels[order] / 16).astype(dtype_of(dtype).numpy)
    labels = classes[order].astype(np.int64)
    split = len(order) - HELD_OUT
    return Digits(images[:split], labels[:split], images[split:], labels[split:])


def _read_digits() -> tuple[Array, Array]:
    """Pixels (N, 64) from 0 to 16 and classes (N,), of the file in which scikit-learn has them:
    to read it takes 40 ms, to import scikit-learn a second. Without the file that is asked."""
    found = importlib.util.find_spec("sklearn")
    folder = Path(found.origin).parent if found and found.origin else Path("nowhere")
    path = folder / "datasets" / "data" / "digits.csv.gz"
    if not path.is_file():
        data = extra("sklearn.datasets").load_digits()
        return data.data, data.target
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :PIXELS], table[:, PIXELS]


def shuffle_batches(count: int, size: int, seed: int = 0) -> Iterator[Array]:
    """Indices below ``count`` in batches of ``size``, without end. Every epoch is shuffled anew;
    the last batch of each is as small as what is left.

    >>> batches = shuffle_batches(5, 2)
    >>> [len(next(batches)) for _ in range(4)]
    [2, 2, 1, 2]
    """
    random = np.random.default_rng(seed)
    while True:
        order = random.permutation(count)
        yield from (order[i : i + size] for i in range(0, count, size))
