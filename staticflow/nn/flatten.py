"""Several dims made one."""

from __future__ import annotations

from typing import Any

from staticflow.nn.module import Module
from staticflow.ops.basics.view import flatten

__all__ = ["Flatten"]


class Flatten(Module):
    """Dims ``start_dim`` to ``end_dim`` (inclusive) as one; by default all but the batch.

    >>> import staticflow as sf
    >>> Flatten()(sf.ones(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Any) -> Any:
        """``input`` with those dims as one."""
        return flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The dims."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
