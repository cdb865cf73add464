"""The module of LLVM text that the texts of the fast path make together, and its numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from string import Template

from staticflow.eager.fast.apply_text import APPLY
from staticflow.eager.fast.change import CHANGE
from staticflow.eager.fast.classes import layout_of
from staticflow.eager.fast.compute_text import COMPUTE
from staticflow.eager.fast.in_place import IN_PLACE
from staticflow.eager.fast.key_text import KEYS
from staticflow.eager.fast.line import LINE
from staticflow.eager.fast.objects_text import DECLARATIONS, OBJECTS
from staticflow.eager.fast.operands_text import OPERANDS
from staticflow.eager.fast.recall_text import OFTEN, PLACES, RECALL, SLOTS
from staticflow.eager.fast.record import RECORD
from staticflow.eager.fast.records import CODES, FLAGS, MOST, OperandRecord, render_records
from staticflow.eager.fast.view import VIEW
from staticflow.graph.dtypes import DTYPES, int64
from staticflow.native.module import render_native
from staticflow.native.types import Layout
from staticflow.runtime import object_layout as layout
from staticflow.runtime.fastcall_helpers import EACH, LIKE
from staticflow.runtime.object_layout import ARRAYS

__all__ = ["MEMO", "NO_DTYPE", "render_core"]

MEMO = 256
"""So many numbers are remembered as arrays, by identity."""

WORDS = 96
"""So long is the key of a call that is remembered at most."""

NO_DTYPE = 63
"""The place of a dtype that is none of ours; in the table of dtypes None is there."""

_MARKS = ("A_TENSOR", "THE_SAME", "AN_INT", "A_FLOAT", "A_TUPLE", "A_LIST", "A_SLICE")
"""What words of a key begin with; no object has so low an address."""

_LAYOUT = (
    "TYPE", "HEAD", "DATA", "NDIM", "DIMS", "STRIDES", "BASE", "DESCR", "FLAGS", "WRITEABLE",
    "CONTIGUOUS",
)  # fmt: skip

_NUMBERS = {
    **FLAGS, **{name: getattr(layout, name) for name in _LAYOUT},
    **{name: i for i, name in enumerate(_MARKS, 1)},
    "MEMO_MASK": MEMO - 1, "CODES_MASK": CODES - 1, "SLOTS_MASK": SLOTS - PLACES,
    "MOST": MOST, "OPERAND": ctypes.sizeof(OperandRecord), "NO_DTYPE": NO_DTYPE, "WORDS": WORDS,
    "ROOM": WORDS + 1, "OFTEN": OFTEN,
    "PLACES": PLACES, "ITEMS": tuple.__basicsize__, "INT64": DTYPES.index(int64),
}  # fmt: skip

_EACH = "".join(
    EACH.substitute(name=f"{do}_all", call=call)
    for do, call in (("hold", "Py_IncRef"), ("drop", "Py_DecRef"))
)


def render_core(numbers: Mapping[str, int]) -> str:
    """The module of ``function``, ``called``, ``called_on``, ``direct``, ``recall``,
    ``recalled`` and ``change``; ``numbers`` are those that stand for slots."""
    parts = (
        DECLARATIONS, LIKE, OBJECTS, OPERANDS, COMPUTE, APPLY, KEYS,
        RECALL, _EACH,
    )  # fmt: skip
    text = Template("".join(parts)).substitute(numbers, **_NUMBERS)
    native = render_native((*LINE, *RECORD, *VIEW, *CHANGE, *IN_PLACE), _layout(numbers), text)
    return render_records(text) + text + native


def _layout(numbers: Mapping[str, int]) -> Layout:
    """Where the slots lie that native functions read."""
    classes = layout_of(numbers)
    return Layout({**classes.offsets, **ARRAYS}, classes.sizes)
