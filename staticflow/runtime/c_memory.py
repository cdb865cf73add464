"""Memory of the C library, for native functions."""

from __future__ import annotations

from staticflow.native.language import Byte, Owned, Row, external

__all__ = ["Memory", "free", "realloc"]

Memory = Owned[Row[Byte] | None]


@external(runs=False)
def realloc(memory: Memory, size: int) -> Memory:
    """Memory of another size with what was in it; null, with nothing done, if there is not so
    much."""
    raise NotImplementedError


@external(runs=False)
def free(memory: Memory) -> None:
    """Give memory back."""
    raise NotImplementedError
