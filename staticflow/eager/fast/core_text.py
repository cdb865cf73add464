"""The module of LLVM text that the texts of the fast path make together, and its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

from staticflow.eager.fast.classes import layout_of
from staticflow.eager.fast.entries import ENTRIES
from staticflow.eager.fast.in_place import IN_PLACE
from staticflow.eager.fast.objects_text import DECLARATIONS, OBJECTS
from staticflow.eager.fast.recall import RECALL
from staticflow.eager.fast.records import NO_DTYPE, render_records
from staticflow.native.module import render_native
from staticflow.native.types import Layout
from staticflow.runtime import object_layout as layout
from staticflow.runtime.fastcall_helpers import LIKE
from staticflow.runtime.object_layout import ARRAYS

__all__ = ["render_core"]

_LAYOUT = ("TYPE", "NDIM", "DIMS", "DESCR")

_NUMBERS = {**{name: getattr(layout, name) for name in _LAYOUT}, "NO_DTYPE": NO_DTYPE}


def render_core(numbers: Mapping[str, int]) -> str:
    """The module of ``function``, ``call_op``, ``call_op_on``, ``direct``, ``recall``,
    ``recalled`` and ``change``; ``numbers`` are those that stand for slots."""
    text = Template("".join((DECLARATIONS, LIKE, OBJECTS))).substitute(numbers, **_NUMBERS)
    functions = (*ENTRIES, *IN_PLACE, *RECALL)
    native = render_native(functions, _layout(numbers), text)
    return render_records(text) + text + native


def _layout(numbers: Mapping[str, int]) -> Layout:
    """Where the slots lie that native functions read."""
    classes = layout_of(numbers)
    return Layout({**classes.offsets, **ARRAYS}, classes.sizes)
