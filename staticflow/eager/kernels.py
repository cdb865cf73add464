"""The kernels of the compiler as what computes an op eagerly.

A kernel is compiled when an op first meets operands of a kind: dtypes, ranks, which sizes are 1 (of
an op that is `Op.batched`: all sizes but the batch), and the op's attributes. Other sizes stay
unknown, so that the next batch does not compile anew.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from staticflow.eager.numbers import as_array, numbers_among, with_operands
from staticflow.eager.programs import ArrayKind, Programs, compiled
from staticflow.eager.rows import in_lines, in_order, in_rows, order_of, steps_of
from staticflow.errors import DTypeError, IndexRangeError, ShapeError
from staticflow.graph.graph import attrs_key, close
from staticflow.graph.node import item, make_node
from staticflow.graph.op import Op
from staticflow.graph.rowmajor import row_major
from staticflow.ops.declaring.lowering import Elementwise
from staticflow.runtime.executable import Executable
from staticflow.runtime.once import once

__all__ = ["arrays_of", "kernels_of", "pattern", "run"]

Array = np.ndarray[Any, Any]


class _Turned:
    """A kernel of operands in another order of dims, which gives its results as they lie."""

    __slots__ = ("_back", "_kernel", "_order")

    def __init__(self, kernel: Executable, order: tuple[int, ...], back: tuple[int, ...]) -> None:
        self._kernel, self._order, self._back = kernel, order, back

    def fast(self, *operands: Array) -> Any:
        """As the native entry of the kernel."""
        return self._returned(self._kernel.fast(*self._given(operands)))

    def run(self, operands: Sequence[Array]) -> Any:
        """As `run`."""
        return self._returned(run(self._kernel, self._given(operands)))

    def _given(self, operands: Sequence[Array]) -> list[Array]:
        return [a.transpose(self._order) if a.ndim else a for a in operands]

    def _returned(self, result: Any) -> Any:
        return result.transpose(self._back) if type(result) is np.ndarray else result


class _Kernels:
    """The compiled kernels of an op, by the kind of the operands."""

    def __init__(self, op: Op) -> None:
        self._op = op
        self._kernels: Programs[Any] = Programs()  # found by shapes and strides
        self.latest = ctypes.py_object()  # the native entry of the last that needed no attributes

    def __call__(self, xp: Any, *operands: Any, **attrs: Any) -> Any:
        """The op, as its reference is called."""
        op = self._op
        if xp is not np:
            return op.reference(xp, *operands, **attrs)
        if attrs:
            names = numbers_among(op, attrs, operands[-1].dtype)
            if names:
                rest = {name: value for name, value in attrs.items() if name not in names}
                numbers = (as_array(attrs[name], operands[-1].dtype) for name in names)
                return kernels_of(with_operands(op, names))(np, *operands, *numbers, **rest)
        if not all([type(a) is np.ndarray for a in operands]):
            operands = arrays_of(operands, 1 if op.promote == "tail" else 0)
        given = [(a.dtype, a.shape, a.strides) for a in operands]
        key = (*given, attrs_key(attrs)) if attrs else tuple(given)
        kernel = self._kernels.by_call.get(key)
        results = None if kernel is None else kernel.fast(*operands)
        if results is None or type(results) is int:
            return self._of_any(operands, attrs, key)
        self._note(kernel, attrs)
        return results

    def _of_any(self, operands: Sequence[Array], attrs: Mapping[str, Any], key: Any) -> Any:
        op = self._op
        order = self._order(operands, attrs)
        if order is not None:
            turned = self._turned(operands, attrs, order)
            self._kernels.remember(key, turned)
            results = turned.fast(*operands)
            if results is None or type(results) is int:
                results = turned.run(operands)
        elif all(map(in_lines if type(op.lowering) is Elementwise else in_rows, operands)):
            kernel = self.kernel(operands, attrs)
            self._kernels.remember(key, kernel)
            self._note(kernel, attrs)
            results = run(kernel, operands)
        else:
            arrays = [a if in_order(a) else row_major(a) for a in operands]
            results = run(self.kernel(arrays, attrs), arrays)
        if results is None:
            # a run that failed says at which line of the first call; the reference says it of this
            return op.reference(np, *operands, **attrs)
        return results

    def _note(self, kernel: Executable | _Turned | None, attrs: Mapping[str, Any]) -> None:
        if type(kernel) is Executable and not attrs:
            self.latest.value = kernel.fast

    def _order(self, operands: Sequence[Array], attrs: Mapping[str, Any]) -> Sequence[int] | None:
        """The one other order that the operands lie in. Work by element, and reductions over
        ``dims``, take them in that order, which needs no copies."""
        suits = _reduces(attrs) or type(self._op.lowering) is Elementwise
        return order_of(operands) if suits else None

    def _turned(
        self, operands: Sequence[Array], attrs: Mapping[str, Any], order: Sequence[int]
    ) -> _Turned:
        """What takes such operands in that order."""
        arrays = [a.transpose(order) if a.ndim else a for a in operands]
        back = order
        if _reduces(attrs):
            dims = attrs["dims"]
            attrs = {**attrs, "dims": tuple([i for i, d in enumerate(order) if d in dims])}
            if not attrs["keepdim"]:
                back = [d for d in order if d not in dims]
        return _Turned(self.kernel(arrays, attrs), tuple(order), tuple(np.argsort(back).tolist()))

    def kernel(self, arrays: Sequence[Array], attrs: Mapping[str, Any]) -> Executable:
        """The kernel for arrays of these kinds, compiled if there is none yet."""
        op = self._op
        known = attrs_key(attrs)
        open_kinds = tuple(
            [ArrayKind(a.dtype, pattern(op, i, a.shape), steps_of(a)) for i, a in enumerate(arrays)]
        )
        kinds = tuple([replace(k, sizes=a.shape) for k, a in zip(open_kinds, arrays, strict=True)])
        found: Executable | None = self._kernels.find(
            ((open_kinds, known), lambda: _compiled_open(op, open_kinds, attrs)),
            ((kinds, known, "sized"), lambda: _compiled(op, kinds, attrs)),
        )
        assert found is not None  # the second way raises what is wrong
        return found


kernels_of = once(_Kernels)


def _reduces(attrs: Mapping[str, Any]) -> bool:
    return "dims" in attrs and "keepdim" in attrs


def run(program: Executable, arrays: Sequence[Array]) -> Any:
    """What the program gives of ``arrays``, one array or a tuple of them; None if it failed."""
    result = program.fast(*arrays)
    if result is None and not all(a.flags.c_contiguous for a in arrays):
        params = zip(program.signature.params, arrays, strict=True)
        arrays = [a if p.type.strides or a.flags.c_contiguous else row_major(a) for p, a in params]
        result = program.fast(*arrays)
    if result is None:  # not as the native entry takes them
        try:
            results = program(arrays)
        except IndexRangeError:
            return None
        return results[0] if len(results) == 1 else tuple(results)
    return None if type(result) is int else result


def pattern(op: Op, i: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of argument ``i`` that the kernel knows: those of 1, which broadcast, and of a
    batched op all but the batch. 0 stands for the others."""
    if not op.batched:
        return tuple([int(n == 1) for n in shape])
    return (int(shape[0] == 1), *shape[1:]) if i in op.batched else shape


def arrays_of(operands: Sequence[Any], first: int) -> tuple[Array, ...]:
    """The operands with numbers as 0-d arrays; those from ``first`` on are all of one dtype."""
    arrays = (a for a in operands[first:] if isinstance(a, np.ndarray))
    dtype = next((a.dtype for a in arrays), None)
    return tuple(
        a if isinstance(a, np.ndarray) else np.asarray(a, dtype if i >= first else None)
        for i, a in enumerate(operands)
    )


def _compiled_open(op: Op, kinds: Sequence[ArrayKind], attrs: Any) -> Executable | None:
    """The kernel of unknown sizes; None if the type rule of the op wants to know them."""
    try:
        return _compiled(op, kinds, attrs)
    except (ShapeError, DTypeError):
        return None


def _compiled(op: Op, kinds: Sequence[ArrayKind], attrs: Any) -> Executable:
    params = tuple([kind.param(f"x{i}") for i, kind in enumerate(kinds)])
    node = make_node(op, params, attrs, ())
    outputs = [node]
    if isinstance(node.type, tuple):
        outputs = [make_node(item, (node,), {"index": i}, ()) for i in range(len(node.type))]
    return compiled(close(params, outputs))
