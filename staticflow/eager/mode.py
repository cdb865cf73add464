"""The general path of eager operations: any op, any operands, and words for what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.eager.choose import are_halves, broadcasts, compute_of, reduces, takes_halves
from staticflow.eager.costs import FIRST, LARGE, STARTED
from staticflow.eager.device import run_on_gpu
from staticflow.eager.inference import unrecordable
from staticflow.eager.no_values import refuse_no_values
from staticflow.eager.vertex import record
from staticflow.eager.views import is_view, wrap_view
from staticflow.eager.work import joint_work, work_by_rows
from staticflow.errors import (
    DTypeError,
    IndexRangeError,
    ShapeError,
    StaticflowError,
    SymbolicError,
)
from staticflow.graph.attr_kinds import fit_attrs
from staticflow.graph.dims import Dim
from staticflow.graph.dtypes import BY_NUMPY, BY_PYTHON, DType, bfloat16, dtype_of_number
from staticflow.graph.locs import format_locs, here
from staticflow.graph.op import Op
from staticflow.graph.open_size import OpenSize
from staticflow.graph.printer import ATTR_CLASSES
from staticflow.graph.types import Facts, TensorType
from staticflow.ops.basics.arithmetic import cast
from staticflow.ops.basics.autocast import apply_cast, autocasts_now
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.lowering import View
from staticflow.ops.declaring.promote import (
    as_number,
    integer_beside,
    is_number,
    operand_dtype,
    usual_dtypes,
)
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.symbol import STATIC, Symbol

__all__ = ["EAGER", "EagerMode", "PartArray"]

_NO_ATTRS: Mapping[str, Any] = {}


def _are_open(attrs: Mapping[str, Any]) -> bool:
    """Whether a size among the attributes of an op is known only when a program runs."""
    return any(map(_is_open, attrs.values()))


def _is_open(value: Any) -> bool:
    """Whether an attribute is a size known only when a program runs, or holds one."""
    return any(map(_is_open, value)) if isinstance(value, tuple) else isinstance(value, Dim)


_STATIC_TYPES = frozenset((Symbol, Dim, OpenSize))
_USUAL = frozenset((*ATTR_CLASSES, np.dtype, type))
"""Classes of attributes that ops take as they are."""

_WEAK: frozenset[type] = frozenset((int, float))
_HOST = frozenset((np.ndarray, *BY_PYTHON))


class PartArray(np.ndarray[Any, Any]):
    """The memory of a parameter of which each of several processes has a part. An operation on the
    whole is one of a graph, in either mode."""


class EagerMode:
    """Runs an op now, and records it if an argument requires a gradient."""

    rank = 0

    def __init__(self) -> None:
        self.forms: Mapping[Op, Any] | None = None
        self.ran = 0
        """How many operations have run without the fast path."""

    def prepare(self) -> Mapping[Op, Any]:
        """Have the functions of `staticflow.eager.fast` compiled, once in a process; gives them by
        their ops. That gives the class `Tensor` its native methods, too: from then on these are
        called, and not ops."""
        if self.forms is None:
            self.forms = eager.prepare()
        return self.forms

    def apply(self, op: Op, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The result of ``op`` as a tensor, or several; inside a trace as symbols."""
        if attrs and not _USUAL.issuperset(map(type, attrs.values())):
            attrs = fit_attrs(op, attrs)
        forms = self.forms
        if forms is None:
            self.ran += 1
            if self.ran <= FIRST:
                return self.general(op, args, attrs)
            forms = self.prepare()
        fast = forms.get(op)
        return self.general(op, args, attrs) if fast is None else fast(args, attrs)

    def general(self, op: Op, args: Sequence[Any], attrs: Mapping[str, Any] = _NO_ATTRS) -> Any:
        """The result of ``op`` by the general path, which takes any operands and words errors."""
        if autocasts_now():
            return apply_cast(self.apply, op, args, attrs)
        state = thread.state
        tensor = eager.tensor
        operands = args
        arrays = [a._data for a in args if isinstance(a, tensor)]
        if state.tracing or len(arrays) < len(args) or not _agree(op, arrays):
            if state.tracing or not _STATIC_TYPES.isdisjoint(map(type, args)):
                return STATIC.apply(op, args, attrs)
            operands, dtype = self._operands(op, args)
            if dtype is not None and dtype.kind in "iu":
                operands = [
                    integer_beside(op, i, a, dtype) if type(a) is int else a
                    for i, a in enumerate(operands)
                ]
            arrays = [a if type(a) in BY_PYTHON else a._data for a in operands]
            if dtype is bfloat16:  # beside which NumPy does not take numbers as weak
                arrays = [np.asarray(a, dtype.numpy) if type(a) in _WEAK else a for a in arrays]
        is_usual = _HOST.issuperset(map(type, arrays))
        if not is_usual:
            refuse_no_values(op.name, arrays)
        if not is_usual and PartArray in map(type, arrays):
            return STATIC.apply(op, args, attrs)
        try:
            if is_usual:
                compute = op.reference if op.numpy == "faster" else _compute(op, arrays)
                try:
                    data = state.run(compute, np, *arrays, **attrs)
                except RuntimeError:  # perhaps one inside the other
                    data = state.safely(compute, np, *arrays, **attrs)
            else:
                data = run_on_gpu(op, arrays, attrs)
        except Exception as error:
            is_worded = isinstance(error, StaticflowError) and not isinstance(error, SymbolicError)
            if _are_open(attrs) and not is_worded:  # which no array has: it is part of a graph
                return STATIC.apply(op, args, attrs)
            _word_error(op, operands, attrs, error)
            raise
        out = self.finish(op, operands, attrs, data)
        if state.inference:
            unrecordable(out)
        if state.noted is not None:
            state.noted.append((op, operands, arrays, attrs, out))
        return out

    def finish(self, op: Op, operands: Sequence[Any], attrs: Mapping[str, Any], data: Any) -> Any:
        """What ``op`` computed, an array or several, as tensors, recorded."""
        if type(op.lowering) is View and is_view(data, operands[0]._data):
            return wrap_view(operands[0], data, op, attrs)
        wrap = eager.tensor._wrap
        out = tuple(map(wrap, data)) if type(data) is tuple else wrap(data)
        if op.vjp is not None and thread.state.recording:
            record(op, operands, attrs, out)
        return out

    def beside(self, op: Op, other: Any, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The result of ``op`` on the device of ``other``."""
        out = self.apply(op, args, attrs)
        gpu = other.__sf_gpu__
        return out if gpu is None or isinstance(out, Symbol) else out.to(gpu)

    def _operands(self, op: Op, args: Sequence[Any]) -> tuple[list[Any], DType | None]:
        """The arguments in one dtype, and that dtype; numbers stay numbers where NumPy treats them
        as we do."""
        as_tensor = eager.tensor._of
        if op.promote == "none":
            return [as_tensor(a, None, op, i) for i, a in enumerate(args)], None
        args = [as_number(a) for a in args]
        first = 1 if op.promote == "tail" else 0
        common = self._common_dtype(args[first:])
        if (
            common is not None
            and common.kind in op.kinds
            and (op.promote != "float" or common.is_floating)
            and (not first or isinstance(args[0], eager.tensor))
        ):
            return list(args), common
        operands = [a if is_number(a) else as_tensor(a, None, op, i) for i, a in enumerate(args)]
        dtype = operand_dtype(op, operands)
        if dtype is not None and dtype.kind not in op.kinds:
            raise DTypeError(
                f"{_format_call(op, operands)}: not defined for {dtype.name}, "
                f"at {format_locs(here())}"
            )
        own = not all(map(is_number, operands[first:]))  # a number beside tensors that are cast
        for i in range(first, len(operands)):
            a = operands[i]
            if is_number(a):
                operands[i] = a if own else as_tensor(a, dtype)
            elif a.dtype is not dtype:
                operands[i] = cast(a, dtype=dtype)
        return operands, dtype

    def _common_dtype(self, args: Sequence[Any]) -> DType | None:
        """The dtype of tensors that all have one, beside numbers that do not raise its category:
        the usual case; None if it is another."""
        own = None
        needed = 0
        for a in args:
            number = BY_PYTHON.get(type(a))
            if number is not None:
                needed = max(needed, number.category)
            elif not isinstance(a, eager.tensor) or (own is not None and a._data.dtype is not own):
                return None
            else:
                own = a._data.dtype
        dtype = None if own is None else BY_NUMPY[own]
        return dtype if dtype is not None and dtype.category >= needed else None


def _compute(op: Op, arrays: Sequence[Any]) -> Any:
    hosted = [a for a in arrays if type(a) is np.ndarray]
    large = max([a.size for a in hosted], default=0) >= LARGE or _is_wide(op, hosted)
    large = large or (reduces(op) and work_by_rows(hosted[0].shape, hosted[0].ndim) >= LARGE)
    large = large or (takes_halves(op) and are_halves(hosted))
    return compute_of(op, large or not arrays)  # which looks at the size of what is filled


def _is_wide(op: Op, arrays: Sequence[Any]) -> bool:
    """Whether an array and another of another shape make a large one."""
    if len(arrays) != 2:
        return False
    a, b = arrays
    if a.size < 2 or b.size < 2 or a.size * b.size * (STARTED + 1) < LARGE:
        return False
    return joint_work(a.shape, a.ndim, b.shape, b.ndim, broadcasts(op)) >= LARGE


def _agree(op: Op, arrays: Sequence[Any]) -> bool:
    """Whether the operands need no promotion, as is usual."""
    if op.promote == "none":
        return True
    dtype = arrays[-1].dtype
    for a in arrays[1:] if op.promote == "tail" else arrays:
        if a.dtype is not dtype:
            return False
    return dtype in usual_dtypes(op)


# -- what went wrong -----------------------------------------------------------------------------


def _types(op: Op, operands: Sequence[Any]) -> list[TensorType]:
    """The types of operands; a number has that of the tensors beside it."""
    weak = operand_dtype(op, operands)
    return [
        TensorType(a.dtype, a.shape)
        if not is_number(a)
        else TensorType(weak if weak and (i or op.promote != "tail") else dtype_of_number(a), ())
        for i, a in enumerate(operands)
    ]


def _format_call(op: Op, operands: Sequence[Any]) -> str:
    """The op with the types of its operands: ``add(f32[2], f32[3])``."""
    return f"{op.name}({', '.join(map(str, _types(op, operands)))})"


def _word_error(op: Op, args: Sequence[Any], attrs: Mapping[str, Any], error: Exception) -> None:
    """Raise what ``error`` means, worded by the op's type rule, which knows what was wanted; or
    return with a note added to it."""
    at = f"at {format_locs(here())}"
    if type(error) is IndexRangeError:  # of an element, which the types do not tell
        raise IndexRangeError(f"{error}, {at}") from None
    what = _format_call(op, args)
    try:
        op.infer(Facts(), *_types(op, args), **attrs)
    except (ShapeError, DTypeError) as rule:
        raise type(rule)(f"{what}: {rule}, {at}") from None
    except SymbolicError:  # of an op whose result has no type before it has run
        pass
    if isinstance(error, StaticflowError):
        said = str(error) == attrs.get("what")  # by the function that asked for it
        raise type(error)(f"{error}, {at}" if said else f"{what}: {error}, {at}") from None
    if isinstance(error, OverflowError):  # a number that the dtype cannot hold
        raise DTypeError(f"{what}: {error}, {at}") from None
    if isinstance(error, TypeError | AttributeError):  # an attribute of a wrong kind
        raise DTypeError(f"{what}: {error}, {at}") from error
    error.add_note(f"in {what}, {at}")


EAGER = EagerMode()
