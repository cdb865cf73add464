"""Numbers as arrays of no dims: those beside tensors, and those among the attributes of ops.

The bounds of `clamp` or a slope may change at every step. So the numbers that elementwise ops have
as attributes are operands of their kernels, which one kernel serves, and take the dtype of the
operand beside them there, as numbers do.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from staticflow.errors import SymbolicError
from staticflow.graph.dtypes import BY_NUMPY, BY_PYTHON, DType, float32, float64
from staticflow.graph.node import Node, make_node, toposort
from staticflow.graph.op import Op
from staticflow.ops.declaring.lowering import Elementwise
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.symbol import Symbol

__all__ = [
    "NumberSymbol", "as_array", "is_apart", "number_beside", "number_dtype", "numbers_among",
    "rewrite_numbers", "with_operands",
]  # fmt: skip


def _number(value: Any, dtype: Any) -> Any:
    """A number as a 0-d array, which NumPy takes up faster. Raises `TypeError` if it would change
    the dtype."""
    if BY_PYTHON[type(value)].category > BY_NUMPY[dtype].category:
        raise TypeError("the number is of a higher category than the tensor")
    return thread.state.run(np.asarray, value, dtype)


_known_number = functools.lru_cache(4096, typed=True)(_number)
_NUMBERS = frozenset(BY_PYTHON)


def number_beside(value: Any, dtype: Any) -> Any:
    """The number ``value`` as an array of NumPy's ``dtype``. Raises `TypeError` for what is none,
    or of a higher category."""
    if type(value) not in _NUMBERS:
        raise TypeError("no number")
    return _known_number(value, dtype) if value else _number(value, dtype)  # 0.0 is not -0.0


def numbers_among(op: Op, attrs: Mapping[str, Any], dtype: Any) -> tuple[str, ...]:
    """The attributes that are such numbers, where the operands are of NumPy's ``dtype``."""
    if type(op.lowering) is not Elementwise or not BY_NUMPY[dtype].is_floating:
        return ()
    return tuple([name for name, value in attrs.items() if type(value) is float])


def number_dtype(dtype: Any) -> DType:
    """In what dtype numbers reach a program whose operands are of NumPy's ``dtype``."""
    return float64 if BY_NUMPY[dtype] is float64 else float32


_APART = frozenset((0.0, 1.0, 2.0, 3.0))


def is_apart(number: float) -> bool:
    """Whether a function may treat the number apart from others, as in ``x ** 2``. Then it is a
    constant of the program; others are operands, so that one program serves all."""
    return number in _APART and math.copysign(1, number) > 0  # not -0.0


def as_array(number: float, dtype: Any) -> np.ndarray[Any, Any]:
    """A number beside operands of NumPy's ``dtype``."""
    return np.asarray(number, number_dtype(dtype).numpy)


@functools.cache
def with_operands(op: Op, names: tuple[str, ...]) -> Op:
    """``op`` with the attributes ``names`` as its last operands, each 0-d."""
    count = len(names)

    def infer(facts: Any, *types: Any, **attrs: Any) -> Any:
        return op.infer(facts, *types[:-count], **attrs, **dict.fromkeys(names, 1.0))

    def reference(xp: Any, *arrays: Any, **attrs: Any) -> Any:
        numbers = zip(names, [a.item() for a in arrays[-count:]], strict=True)
        return op.reference(xp, *arrays[:-count], **attrs, **dict(numbers))

    def emit(k: Any, *operands: Any, **attrs: Any) -> Any:
        from staticflow.codegen.builder import Loose  # which whoever emits has

        numbers = zip(names, map(Loose, operands[-count:]), strict=True)
        return op.lowering.emit(k, *operands[:-count], **attrs, **dict(numbers))

    return replace(op, infer=infer, reference=reference, vjp=None, lowering=Elementwise(emit))


class NumberSymbol(Symbol):
    """A number that is an operand of a program. It may stand among the attributes of elementwise
    ops, which refuse other symbols, until `rewrite_numbers` has them as operands."""

    __slots__ = ()


def rewrite_numbers(outputs: Sequence[Node]) -> list[Node]:
    """``outputs`` of a trace with the numbers among attributes as operands (`with_operands`).
    Raises `SymbolicError` for an op that is not elementwise."""
    new: dict[Node, Node] = {}
    for node in toposort(outputs):
        args = tuple(new[a] for a in node.args)
        names = tuple(name for name, value in node.attrs.items() if type(value) is NumberSymbol)
        if names:
            if type(node.op.lowering) is not Elementwise:
                raise SymbolicError(f"{node.op.name}: {names[0]} must be a Python number")
            attrs = {n: v for n, v in node.attrs.items() if n not in names}
            numbers = [node.attrs[name].node for name in names]
            new[node] = make_node(
                with_operands(node.op, names), (*args, *numbers), attrs, node.locs
            )
        elif args == node.args:
            new[node] = node
        else:
            new[node] = Node(node.op, args, node.attrs, node.type, node.locs)
    return [new[o] for o in outputs]
