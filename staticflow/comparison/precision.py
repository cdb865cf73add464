"""The default dtype of a block, in which a job makes its tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from staticflow.graph.dtypes import dtype_of, get_default_dtype, set_default_dtype

__all__ = ["default_dtype"]


@contextmanager
def default_dtype(dtype: str) -> Iterator[None]:
    """``dtype`` is what floating tensors are made in, inside."""
    before = get_default_dtype()
    set_default_dtype(dtype_of(dtype))
    try:
        yield
    finally:
        set_default_dtype(before)
