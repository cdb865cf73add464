"""Which in-place methods of tensors are native code, and what that is to know of each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.eager import in_place
from staticflow.eager.fast.records import InPlaceRecord
from staticflow.eager.overwrite import programs_of
from staticflow.graph.dtypes import DTYPES
from staticflow.graph.op import Op, takes
from staticflow.ops.basics import arithmetic
from staticflow.ops.declaring.lowering import Elementwise
from staticflow.ops.declaring.promote import usual_dtypes
from staticflow.ops.elementwise import variants
from staticflow.ops.tensors.elementwise_methods import STORED_BY

__all__ = ["InPlaceMethod", "in_place_methods", "in_place_table"]


@dataclass(frozen=True, slots=True)
class InPlaceMethod:
    """A method: what does what is not usual, and the ufunc, if any, of ``count`` operands beside
    the tensor, 0 or 1, that are of one of ``dtypes``. It stores what the function ``stored`` gives,
    of any arguments; that of an op ``by_element`` is a program on large arrays. None: it copies,
    and without an operand a ``constant``. The operand may be ``scaled`` by ``alpha``, or is a
    ``number`` always."""

    general: Callable[..., Any]
    ufunc: Any
    count: int
    dtypes: Sequence[Any]
    stored: Any = None
    by_element: bool = False
    constant: Any = None
    scaled: bool = False
    number: bool = False


_PLAIN: Mapping[Any, Op] = {
    variants.add: arithmetic.add, variants.sub: arithmetic.sub, variants.div: arithmetic.div,
}  # fmt: skip
"""Ops of which there is a function with further arguments."""

_USUAL = [(count, count, frozenset[str]()) for count in (1, 2)]
"""What ops take that are such methods: one argument or two, and no attributes."""


def in_place_methods(inherited: Mapping[str, Any]) -> dict[str, InPlaceMethod]:
    """The methods by name, of those that the class of tensors inherits and of its own."""
    every = [d.numpy for d in DTYPES]
    found = {
        "zero_": InPlaceMethod(in_place.zero_, None, 0, every, constant=False),
        "fill_": InPlaceMethod(in_place.fill_, None, 1, every, number=True),
        "copy_": InPlaceMethod(in_place.copy_, None, 1, every),
    }
    for name, method in inherited.items():
        # A draw stands behind the function that words what is wrong with its arguments.
        plain = getattr(method, "__wrapped__", method)
        stored = STORED_BY.get(method) or STORED_BY.get(plain)
        if stored is None or name in found:
            continue
        op = _PLAIN.get(stored, stored)
        if isinstance(op, Op) and type(op.lowering) is Elementwise and takes(op) in _USUAL:
            ufunc = op.ufunc and getattr(np, op.ufunc)
            scaled = stored in (variants.add, variants.sub)
            dtypes = [*usual_dtypes(op)]
            count = takes(op)[0] - 1
            found[name] = InPlaceMethod(method, ufunc, count, dtypes, stored, True, scaled=scaled)
        else:
            found[name] = InPlaceMethod(method, None, 0, every, stored)
    return found


def in_place_table(
    methods: Sequence[InPlaceMethod],
    forms: Mapping[Callable[..., Any], Callable[..., Any]],
    remember: Callable[[Callable[..., Any]], int],
) -> Any:
    """What native code knows of the methods. ``forms`` are those of functions that are native, and
    ``remember`` gives the address of what it knows of one more, whose calls are remembered."""
    table = (InPlaceRecord * len(methods))()
    for row, m in zip(table, methods, strict=True):
        row.general = remember(m.general)
        row.ufunc = None if m.ufunc is None else id(m.ufunc)
        row.count, row.scaled, row.number = m.count, m.scaled, m.number
        row.constant = None if m.constant is None else id(m.constant)
        row.program = ctypes.addressof(programs_of(m.stored).latest) if m.by_element else None
        if m.ufunc is None and m.stored is not None:
            row.value = id(forms.get(m.stored, m.stored))
        row.dtypes = sum(1 << i for i, d in enumerate(DTYPES) if d.numpy in m.dtypes)
    return table
