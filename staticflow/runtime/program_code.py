"""The machine code of a program, and the few facts beside it that a call has to know: all that a
process needs of a program that another one has compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.graph.dtypes import DType
from staticflow.runtime.native import ObjectCode

__all__ = ["EntryCode", "OutputFacts", "ParamFacts", "ProgramCode"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ParamFacts:
    """What an array of a call has to be: its ``sizes``, with `UNKNOWN` for one that the call tells,
    whether it lies in one row, and whether the program overwrites it."""

    dtype: DType
    sizes: tuple[int, ...]
    is_row_major: bool
    is_updated: bool


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """An output: where its bytes are among the numbers of a call, and its ``ndim`` sizes behind;
    whether only the run can tell these, and whether they may come to `ALIGNED_FROM` bytes."""

    dtype: DType
    at: int
    ndim: int
    is_late: bool
    may_be_large: bool


@dataclass(frozen=True, slots=True)
class EntryCode:
    """The code of a native entry; what it is given and gives. A call computes ``numbers`` many
    numbers, one of which, that at ``traffic``, are the bytes that it moves."""

    object: ObjectCode
    params: tuple[ParamFacts, ...]
    outputs: tuple[OutputFacts, ...]
    constants: tuple[Array, ...]
    numbers: int
    traffic: int


@dataclass(frozen=True, slots=True)
class ProgramCode:
    """The code of a program, and the names that it ``exports``. It has so many ``kernels``, buffers
    that are ``growing``, and ``asks`` of references, and ``has_arena`` if it borrows one. The
    ``entry`` is None of a program that is called from Python alone."""

    object: ObjectCode
    exports: tuple[str, ...]
    is_shared: bool
    """Whether it may run on several threads."""
    called: tuple[str, ...]
    """The kernels that programs share and that it calls."""
    kernels: int
    has_arena: bool
    growing: int
    asks: int
    entry: EntryCode | None
