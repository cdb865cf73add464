"""The module of LLVM text that the texts of the fast path make together, and its numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from string import Template

from staticflow.eager.fast.apply_text import APPLY
from staticflow.eager.fast.classes import layout_of
from staticflow.eager.fast.compute_text import COMPUTE
from staticflow.eager.fast.in_place import IN_PLACE
from staticflow.eager.fast.line import LINE
from staticflow.eager.fast.objects_text import DECLARATIONS, OBJECTS
from staticflow.eager.fast.operands_text import OPERANDS
from staticflow.eager.fast.recall import RECALL
from staticflow.eager.fast.record import RECORD
from staticflow.eager.fast.records import FLAGS, MOST, NO_DTYPE, OperandRecord, render_records
from staticflow.eager.fast.view import VIEW
from staticflow.native.module import render_native
from staticflow.native.types import Layout
from staticflow.runtime import object_layout as layout
from staticflow.runtime.fastcall_helpers import LIKE
from staticflow.runtime.object_layout import ARRAYS

__all__ = ["MEMO", "render_core"]

MEMO = 256
"""So many numbers are remembered as arrays, by identity."""

_LAYOUT = ("TYPE", "NDIM", "DIMS", "DESCR")

_NUMBERS = {
    **FLAGS, **{name: getattr(layout, name) for name in _LAYOUT},
    "MEMO_MASK": MEMO - 1, "MOST": MOST, "OPERAND": ctypes.sizeof(OperandRecord),
    "NO_DTYPE": NO_DTYPE, "ITEMS": tuple.__basicsize__,
}  # fmt: skip


def render_core(numbers: Mapping[str, int]) -> str:
    """The module of ``function``, ``called``, ``called_on``, ``direct``, ``recall``,
    ``recalled`` and ``change``; ``numbers`` are those that stand for slots."""
    parts = (DECLARATIONS, LIKE, OBJECTS, OPERANDS, COMPUTE, APPLY)
    text = Template("".join(parts)).substitute(numbers, **_NUMBERS)
    native = render_native((*LINE, *RECORD, *VIEW, *IN_PLACE, *RECALL), _layout(numbers), text)
    return render_records(text) + text + native


def _layout(numbers: Mapping[str, int]) -> Layout:
    """Where the slots lie that native functions read."""
    classes = layout_of(numbers)
    return Layout({**classes.offsets, **ARRAYS}, classes.sizes)
