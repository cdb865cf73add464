"""Rows of a matrix, chosen by integers."""

from __future__ import annotations

from typing import Any

from staticflow.ops import advanced

__all__ = ["embedding"]


def embedding(input: Any, weight: Any, padding_idx: int | None = None) -> Any:
    """The rows of ``weight`` (num, dim) that the integers ``input`` (...) name: (..., dim). The row
    ``padding_idx`` gets no gradient.

    Raises `IndexRangeError` for an index outside [0, num).

    >>> import staticflow as sf
    >>> embedding(sf.tensor([1, 0]), sf.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    return advanced.embedding(weight, input, padding_idx)
