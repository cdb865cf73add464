"""In which order elements lie in memory, as PyTorch's programs ask for it. New tensors are in
row-major order, so that what asks for this or for no order in particular is taken, and nothing
else."""

from __future__ import annotations

from typing import Any

from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here

__all__ = ["MemoryFormat", "contiguous_format", "preserve_format", "require_rows"]


@dataclass(frozen=True, slots=True)
class MemoryFormat:
    """An order of elements in memory."""

    name: str

    def __repr__(self) -> str:
        return f"sf.{self.name}"


preserve_format = MemoryFormat("preserve_format")
contiguous_format = MemoryFormat("contiguous_format")


def require_rows(what: str, memory_format: Any) -> None:
    """Raise `ArgumentError` unless ``memory_format`` is None or one of the two that there are."""
    if memory_format is not None and memory_format not in (preserve_format, contiguous_format):
        raise ArgumentError(
            f"{what}: memory_format must be sf.preserve_format or sf.contiguous_format, not "
            f"{memory_format!r}: new tensors are in row-major order; leave it out, at "
            f"{format_locs(here())}"
        )
