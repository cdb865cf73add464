"""The kernels of the compiler as what computes an op eagerly.

A kernel is compiled when an op first meets operands of a kind (`staticflow.eager.programs`) with
its attributes. A kernel of an op that is `Op.batched` knows all sizes but the batch's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from staticflow.eager.numbers import as_array, numbers_among, with_operands
from staticflow.eager.programs import ArrayKind, Programs, compile_function, run, sized
from staticflow.eager.rows import in_lines, in_order, in_rows, order_of, steps_of
from staticflow.graph.graph import attrs_key
from staticflow.graph.node import make_node
from staticflow.graph.op import Op
from staticflow.graph.rowmajor import row_major
from staticflow.ops.declaring.lowering import Elementwise
from staticflow.ops.symbols.symbol import Symbol, results_of
from staticflow.runtime.executable import Executable
from staticflow.runtime.once import once

__all__ = ["arrays_of", "kernels_of", "sizes_known"]

Array = np.ndarray[Any, Any]


class _Permuted:
    """A kernel for operands that lie in another ``order`` of dims: it is given them in that order,
    and its results, whose dims go ``back``, lie as they do."""

    __slots__ = ("_back", "_kernel", "_order")

    def __init__(self, kernel: Executable, order: tuple[int, ...], back: tuple[int, ...]) -> None:
        self._kernel, self._order, self._back = kernel, order, back

    def fast(self, *operands: Array) -> Any:
        """What the native entry of the kernel gives."""
        return self._put_back(self._kernel.fast(*self._permute(operands)))

    def run(self, operands: Sequence[Array]) -> Any:
        """What the kernel gives; None if it failed."""
        return self._put_back(run(self._kernel, self._permute(operands)))

    def _permute(self, operands: Sequence[Array]) -> list[Array]:
        return [a.transpose(self._order) if a.ndim else a for a in operands]

    def _put_back(self, result: Any) -> Any:
        return result.transpose(self._back) if type(result) is np.ndarray else result


class _Kernels:
    """What computes an op by its compiled kernels."""

    def __init__(self, op: Op) -> None:
        self._op = op
        self._programs: Programs[Any] = Programs()
        self.latest = self._programs.latest  # the last that needed no attributes

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
        call = (*given, attrs_key(attrs)) if attrs else tuple(given)
        kernel = self._programs.by_call.get(call)
        results = None if kernel is None else kernel.fast(*operands)
        if results is None or type(results) is int:
            return self._compute_any(operands, attrs, call)
        if not attrs and type(kernel) is Executable:
            self.latest.value = kernel.fast
        return results

    def _compute_any(self, operands: Sequence[Array], attrs: Mapping[str, Any], call: Any) -> Any:
        """What the op gives of operands that were not met before, or that the kernel which they
        found declines."""
        op = self._op
        order = self._order(operands, attrs)
        if order is not None:
            permuted = self._permuted(operands, attrs, order)
            self._programs.remember(call, permuted)
            results = permuted.fast(*operands)
            if results is None or type(results) is int:
                results = permuted.run(operands)
        elif all(map(in_lines if type(op.lowering) is Elementwise else in_rows, operands)):
            kernel = self.kernel(operands, attrs)
            self._programs.remember(call, kernel)
            if not attrs:
                self.latest.value = kernel.fast
            results = run(kernel, operands)
        else:
            arrays = [a if in_order(a) else row_major(a) for a in operands]
            results = run(self.kernel(arrays, attrs), arrays)
        if results is None:
            # a run that failed says at which line of the first call; the reference says it of this
            return op.reference(np, *operands, **attrs)
        return results

    def _order(self, operands: Sequence[Array], attrs: Mapping[str, Any]) -> Sequence[int] | None:
        """The one other order that the operands lie in. Work by element, and reductions over
        ``dims``, take them in that order, which needs no copies."""
        suits = _reduces(attrs) or type(self._op.lowering) is Elementwise
        return order_of(operands) if suits else None

    def _permuted(
        self, operands: Sequence[Array], attrs: Mapping[str, Any], order: Sequence[int]
    ) -> _Permuted:
        """The kernel that takes such operands in that order."""
        arrays = [a.transpose(order) if a.ndim else a for a in operands]
        back = order
        if _reduces(attrs):
            dims = attrs["dims"]
            attrs = {**attrs, "dims": tuple([i for i, d in enumerate(order) if d in dims])}
            if not attrs["keepdim"]:
                back = [d for d in order if d not in dims]
        return _Permuted(self.kernel(arrays, attrs), tuple(order), tuple(np.argsort(back).tolist()))

    def kernel(self, arrays: Sequence[Array], attrs: Mapping[str, Any]) -> Executable:
        """The kernel for arrays of these kinds, compiled if there is none yet. Raises what the op
        has against them."""
        op = self._op
        kinds = tuple(
            [
                ArrayKind(a.dtype, sizes_known(op, i, a.shape), steps_of(a))
                for i, a in enumerate(arrays)
            ]
        )
        make = partial(compile_function, partial(_apply, op, attrs))
        ways = kinds, sized(kinds, arrays)
        kernel: Executable | None = self._programs.find(attrs_key(attrs), make, *ways)
        return make(ways[-1]) if kernel is None else kernel


kernels_of = once(_Kernels)


def _apply(op: Op, attrs: Mapping[str, Any], *operands: Symbol) -> Any:
    node = make_node(op, tuple([x.node for x in operands]), attrs, ())
    return results_of(node) if isinstance(node.type, tuple) else Symbol(node)


def _reduces(attrs: Mapping[str, Any]) -> bool:
    return "dims" in attrs and "keepdim" in attrs


def sizes_known(op: Op, i: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of argument ``i`` (of a result, if it is below 0) that a program knows: those of 1,
    which broadcast, and of an argument of a batched op all but the batch. 0 stands for others."""
    if not op.batched or i < 0:
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
