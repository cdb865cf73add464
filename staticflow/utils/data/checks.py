"""Checks of what datasets, samplers and loaders are given."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError, IndexRangeError
from staticflow.graph.articles import with_article
from staticflow.graph.locs import format_locs, here

__all__ = ["check_callable", "check_count", "check_has", "has_indices", "sample_at"]


def check_has(owner: str, argument: str, value: Any, *methods: str) -> None:
    """Raise `ArgumentError` unless ``value``, an argument of ``owner``, has all of ``methods``,
    such as ``__len__``, and is no class."""
    if isinstance(value, type) or not all(hasattr(value, method) for method in methods):
        raise ArgumentError(
            f"{owner}: {argument} is {with_article(type(value))}, and must have "
            f"{' and '.join(methods)}, at {format_locs(here())}"
        )


def check_count(owner: str, argument: str, value: Any, least: int = 1) -> None:
    """Raise `ArgumentError` unless ``value`` is an integer, ``least`` or more, and one that
    a list may be long."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ArgumentError(
            f"{owner}: {argument} is {value!r}, and must be an integer of {least} or more, "
            f"at {format_locs(here())}"
        )
    if value > sys.maxsize:
        raise ArgumentError(
            f"{owner}: {argument} is {value}, and must be {sys.maxsize} at most, at "
            f"{format_locs(here())}"
        )


def check_callable(owner: str, argument: str, value: Any) -> None:
    """Raise `ArgumentError` unless ``value`` is None or can be called."""
    if value is not None and not callable(value):
        raise ArgumentError(
            f"{owner}: {argument} is {with_article(type(value))}, and must be a function, at "
            f"{format_locs(here())}"
        )


def has_indices(dataset: Any) -> bool:
    """Whether samples of ``dataset`` are read by their index. PyTorch's class of streams has a
    ``__getitem__``, which raises, and its subclasses may have a ``__len__``."""
    is_stream = any(
        c.__name__ == "IterableDataset" and c.__module__.startswith("torch.utils.data")
        for c in type(dataset).__mro__
    )
    return not is_stream and hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")


def sample_at(owner: str, dataset: Any, index: Any) -> Any:
    """``dataset[index]``. Raises `IndexRangeError` where a list, a tuple, a range, an array or a
    tensor has no such sample; what another dataset raises is its own."""
    if type(dataset) not in _KNOWN:
        return dataset[index]
    try:
        return dataset[index]
    except (IndexError, TypeError) as error:
        raise IndexRangeError(
            f"{owner}: {index!r} is no index of {with_article(type(dataset))} of {len(dataset)}; "
            f"indices are integers from {-len(dataset)} to {len(dataset) - 1}, at "
            f"{format_locs(here())}"
        ) from error


_KNOWN = (list, tuple, range, np.ndarray, Tensor)
"""Datasets that run no code of the user's as they are read."""
