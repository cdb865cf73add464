"""The module of native code that the functions of the fast path make together."""

from __future__ import annotations

from collections.abc import Mapping

from staticflow.eager.fast.classes import layout_of
from staticflow.eager.fast.entries import ENTRIES
from staticflow.eager.fast.in_place import IN_PLACE
from staticflow.eager.fast.recall import RECALL
from staticflow.native.module import render_native
from staticflow.native.types import Layout
from staticflow.runtime.fastcall_helpers import LIKE
from staticflow.runtime.object_layout import ARRAYS

__all__ = ["FUNCTIONS", "render_core"]

FUNCTIONS = (*ENTRIES, *IN_PLACE, *RECALL)
"""The functions whose addresses Python asks for."""


def render_core(numbers: Mapping[str, int]) -> str:
    """The LLVM text of `FUNCTIONS`; ``numbers`` say where slots lie, and how large objects are."""
    classes = layout_of(numbers)
    layout = Layout({**classes.offsets, **ARRAYS}, classes.sizes)
    return LIKE + render_native(FUNCTIONS, layout, LIKE)
