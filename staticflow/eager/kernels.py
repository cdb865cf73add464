"""The kernels of the compiler as what computes an op eagerly.

A kernel is compiled when an op first meets operands of a kind (`staticflow.eager.programs`) with
its attributes. A kernel of an op that is `Op.batched` knows all sizes but the batch's, one of a
product of matrices knows which of these are rows or columns, and one that goes along rows knows how
long short ones are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from staticflow.data_classes import dataclass
from staticflow.eager.costs import LARGE, NEAR
from staticflow.eager.numbers import as_array, numbers_among, with_operands
from staticflow.eager.overwrite import make_copy
from staticflow.eager.products import is_dense, is_of_small
from staticflow.eager.programs import (
    ArrayKind,
    Programs,
    compile_function,
    run,
    sizes_along_rows,
    with_sizes,
)
from staticflow.eager.rows import (
    in_dims,
    in_known_rows,
    in_lines,
    in_order,
    in_rows,
    order_of,
    steps_of,
)
from staticflow.graph.graph import attrs_key
from staticflow.graph.node import make_node
from staticflow.graph.op import Op
from staticflow.ops.along.extremes import argmax_op, argmin_op, max_dim_op, min_dim_op
from staticflow.ops.along.order import NETWORK, sort_op, topk_op
from staticflow.ops.along.ranks import kthvalue_op, median_dim_op
from staticflow.ops.basics.axes import flip_op, permute_op
from staticflow.ops.basics.joining import cat_op, stack_op
from staticflow.ops.declaring.lowering import Elementwise
from staticflow.ops.indexing.gather_ops import gather_op
from staticflow.ops.matrices.contract import linear_op, matmul_op
from staticflow.ops.matrices.solving import lower_op, upper_op
from staticflow.ops.symbols.symbol import Symbol, results_of
from staticflow.runtime.executable import Executable
from staticflow.runtime.once import once

__all__ = [
    "NETWORKS",
    "KernelCall",
    "Order",
    "kernels_of",
    "permute_arrays",
    "prepare",
    "sizes_known",
]

Array = np.ndarray[Any, Any]
Order = tuple[int, ...]

NETWORKS = frozenset((kthvalue_op, median_dim_op, sort_op, topk_op))
"""Ops that sort rows of up to `NETWORK` elements in registers, if they know that length."""

_IN_REGISTERS = NETWORKS | {argmax_op, argmin_op, max_dim_op, min_dim_op}
"""Those, and others that take such rows several at a time: the largest of each of 20,000 rows of 5
is found in 23 microseconds, and in 241 where the length is not known."""

_PICKS = _IN_REGISTERS - {sort_op}
"""Ops that pick few elements of each row: of an array that lies otherwise a copy would take longer
than they do."""

_PRODUCTS = frozenset((matmul_op, linear_op))

_TRIANGULAR = frozenset((lower_op, upper_op))

_NO_NAMES: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelCall:
    """How a kernel is called with operands of a kind, which native code of plans does without
    Python: the ``entry`` takes each array with its dims in one of ``orders`` (None: all as they
    are), ``copies`` says that those which are not row-major are copied before, and ``back`` is the
    order that the dims of its result are put into (None: none). An array stands ``instead`` of some
    operands, numbers, by their index; ``further`` ones come behind them. The entry ``takes`` so
    many operands, the first ones (None: all). A ``flat`` result is a row, which is seen in the
    shape of the op's."""

    entry: Callable[..., Any]
    orders: Sequence[Order] | None = None
    back: Order | None = None
    copies: bool = False
    instead: Mapping[int, Array] | None = None
    further: Sequence[Array] = ()
    takes: int | None = None
    flat: bool = False

    @property
    def is_bare(self) -> bool:
        """Whether the entry takes the operands, and gives the result, as they are."""
        otherwise = self.orders or self.copies or self.instead or self.further
        return not otherwise and self.takes is None and not self.flat


class _Permuted:
    """A kernel that is given each operand with its dims in another order, in which it lies in
    rows, and whose result has its dims put ``back``."""

    __slots__ = ("_back", "_kernel", "_orders")

    def __init__(self, kernel: Executable, orders: Sequence[Order], back: Order | None) -> None:
        self._kernel, self._orders, self._back = kernel, orders, back

    def fast(self, *operands: Array) -> Any:
        """What the native entry of the kernel gives."""
        return self._put_back(self._kernel.fast(*permute_arrays(operands, self._orders)))

    def run(self, operands: Sequence[Array]) -> Any:
        """What the kernel gives; None if it failed."""
        return self._put_back(run(self._kernel, permute_arrays(operands, self._orders)))

    @property
    def call(self) -> KernelCall:
        """How native code calls it."""
        return KernelCall(self._kernel.fast, self._orders, self._back)

    def gives(self, results: Sequence[Array]) -> bool:
        """Whether its results lie in memory as these do."""
        back = None if self._back is None else np.argsort(self._back)
        return all([in_order(r if back is None else r.transpose(back)) for r in results])

    def _put_back(self, result: Any) -> Any:
        if self._back is None or type(result) is not np.ndarray:
            return result
        return result.transpose(self._back)


class _Copied:
    """A kernel that is given row-major copies of operands that lie otherwise."""

    __slots__ = ("_kernel",)

    def __init__(self, kernel: Executable) -> None:
        self._kernel = kernel

    def fast(self, *operands: Array) -> Any:
        """What the native entry of the kernel gives."""
        return self._kernel.fast(*_in_order(operands))

    def run(self, operands: Sequence[Array]) -> Any:
        """What the kernel gives; None if it failed."""
        return run(self._kernel, _in_order(operands))

    @property
    def call(self) -> KernelCall:
        """How native code calls it."""
        return KernelCall(self._kernel.fast, copies=True)


def _in_order(operands: Sequence[Array]) -> list[Array]:
    return [a if a.flags.c_contiguous else make_copy(a) for a in operands]


def _is_copied_faster(a: Array) -> bool:
    """Whether an array is so large, and no copy, that programs copy it faster than NumPy."""
    return a.size >= LARGE and not in_order(a)


class _Kernels:
    """What computes an op by its compiled kernels."""

    def __init__(self, op: Op) -> None:
        self._op = op
        self._by_element = _by_element(op)
        self._programs: Programs[Any] = Programs()
        self.latest = self._programs.latest  # the last that needed no attributes

    def __call__(self, xp: Any, *operands: Any, **attrs: Any) -> Any:
        """The op, as its reference is called."""
        op = self._op
        arrays: Sequence[Any]
        rest: Mapping[str, Any]
        if xp is not np:
            return op.reference(xp, *operands, **attrs)
        arrays, names, rest = operands, _NO_NAMES, attrs
        if (attrs and self._by_element) or not all([type(a) is np.ndarray for a in operands]):
            arrays, names, rest = prepare(op, operands, attrs)
        given = [(a.dtype, a.shape, a.strides) for a in arrays]
        call = (*given, names, attrs_key(rest)) if attrs else tuple(given)
        kernel = self._programs.by_call.get(call)
        results = None if kernel is None else kernel.fast(*arrays)
        if results is None or type(results) is int:
            kernel, results = self._compute_any(arrays, names, rest, call)
            if results is None:
                return op.reference(np, *operands, **attrs)
        if not attrs and type(kernel) is Executable:
            self.latest.value = kernel.fast
        return results

    def _compute_any(
        self, arrays: Sequence[Array], names: tuple[str, ...], attrs: Mapping[str, Any], call: Any
    ) -> tuple[Any, Any]:
        """A kernel for a call that was not met before, or whose kernel declines, and what it gives
        of the arrays; None if it fails."""
        kernel = self._as_they_lie(arrays, names, attrs) or self._of_copies(arrays, names, attrs)
        self._programs.remember(call, kernel)
        return kernel, run(kernel, arrays) if isinstance(kernel, Executable) else kernel.run(arrays)

    def entry(
        self,
        arrays: Sequence[Array],
        names: tuple[str, ...],
        attrs: Mapping[str, Any],
        results: Sequence[Array],
        may_copy: bool,
    ) -> KernelCall | None:
        """How a kernel computes arrays that lie like these, which are not read, if its results lie
        as ``results`` do; None if not, or if it takes row-major copies of some arrays, unless it
        ``may_copy``."""
        found = self._as_they_lie(arrays, names, attrs)
        # (native code copies as NumPy does)
        may_copy = may_copy and not any(map(_is_copied_faster, arrays))
        kernel = self._of_copies(arrays, names, attrs) if found is None and may_copy else found
        if isinstance(kernel, _Permuted):
            return kernel.call if kernel.gives(results) else None
        if kernel is None or not all(map(in_order, results)):
            return None
        return kernel.call if isinstance(kernel, _Copied) else KernelCall(kernel.fast)

    def _of_copies(
        self, arrays: Sequence[Array], names: tuple[str, ...], attrs: Mapping[str, Any]
    ) -> _Copied:
        """The kernel of row-major copies. The arrays are not read."""
        copies = [a if in_order(a) else np.empty(a.shape, a.dtype) for a in arrays]
        return _Copied(self.kernel(copies, attrs, names))

    def _as_they_lie(
        self, arrays: Sequence[Array], names: tuple[str, ...], attrs: Mapping[str, Any]
    ) -> Executable | _Permuted | None:
        """The kernel that takes arrays without a copy; None if none does."""
        op = self._op
        if op in _PRODUCTS:  # each operand by rows or by columns
            if all(map(in_order, arrays)):
                return self.kernel(arrays, attrs, names)
            if not all(map(is_dense, arrays)):
                return None
            orders = tuple([_in_memory(a) for a in arrays])
            kernel = self.kernel(permute_arrays(arrays, orders), attrs, names, orders)
            return _Permuted(kernel, orders, None)
        by_element = self._by_element
        # (what PyTorch gives in the order of the operands; other results are row-major)
        keeps_order = by_element or op is flip_op or ("dims" in attrs and "keepdim" in attrs)
        order = order_of(arrays) if keeps_order else None
        if order is not None:  # all of them in one
            attrs, back = (attrs, order) if by_element else _turn_dims(attrs, order)
            orders = tuple([order if a.ndim else () for a in arrays])
            kernel = self.kernel(permute_arrays(arrays, orders), attrs, names)
            return _Permuted(kernel, orders, tuple(np.argsort(back).tolist()))
        order = order_of(arrays) if op in _PICKS else None
        if order is not None:
            kernel = self.kernel(
                permute_arrays(arrays, [order]), attrs, names, (tuple(np.argsort(order).tolist()),)
            )
            return _Permuted(kernel, [order], None)
        by_lines = (
            _picks_few(op, arrays) or _solves_one(op, arrays) or _joins_rows(op, arrays, attrs)
        )
        lies = in_known_rows if by_element else in_lines if by_lines else in_rows
        return self.kernel(arrays, attrs, names) if all(map(lies, arrays)) else None

    def kernel(
        self,
        arrays: Sequence[Array],
        attrs: Mapping[str, Any],
        names: tuple[str, ...] = (),
        orders: tuple[Order, ...] = (),
    ) -> Executable:
        """The kernel for arrays of these kinds, compiled if there is none yet. The last arrays are
        the numbers ``names`` of the attributes. With ``orders`` it is the op of the arrays permuted
        so. Raises what the op has against them."""
        op = self._op
        if self._by_element and not _as_one(arrays):
            known = [sizes_along_rows(a.shape) for a in arrays]
        else:
            known = [sizes_known(op, i, a.shape) for i, a in enumerate(arrays)]
        if op in _IN_REGISTERS:
            at = orders[0][attrs["dim"]] if orders else attrs["dim"]
            if (n := arrays[0].shape[at]) <= NETWORK:
                known[0] = (*known[0][:at], n, *known[0][at + 1 :])
        pairs = zip(arrays, known, strict=True)
        kinds = tuple([ArrayKind(a.dtype, sizes, steps_of(a)) for a, sizes in pairs])
        ways = kinds, with_sizes(kinds, arrays)
        traced = with_operands(op, names) if names else op
        make = partial(compile_function, partial(_apply, traced, attrs, orders))
        kernel: Executable | None = self._programs.find(
            (names, attrs_key(attrs), orders), make, *ways
        )
        return make(ways[-1]) if kernel is None else kernel


kernels_of = once(_Kernels)


def _apply(op: Op, attrs: Mapping[str, Any], orders: Sequence[Order], *operands: Symbol) -> Any:
    """The results of an op, without a line of their own."""
    nodes = [x.node for x in operands]
    if orders:
        pairs = zip(nodes, orders, strict=True)
        nodes = [make_node(permute_op, (n,), {"dims": o}, ()) for n, o in pairs]
    node = make_node(op, tuple(nodes), attrs, ())
    return results_of(node) if isinstance(node.type, tuple) else Symbol(node)


def permute_arrays(arrays: Sequence[Array], orders: Sequence[Order]) -> list[Array]:
    """Each array with its dims in the order that stands for it."""
    return [*map(in_dims, arrays, orders)]


def _turn_dims(attrs: Mapping[str, Any], order: Order) -> tuple[Mapping[str, Any], Order]:
    """The attributes of an op of arrays whose dims are in an ``order``, and the order that the dims
    of its result then have."""
    dims = attrs["dims"]
    gone = () if attrs.get("keepdim", True) else dims
    attrs = {**attrs, "dims": tuple([i for i, d in enumerate(order) if d in dims])}
    return attrs, tuple([d for d in order if d not in gone])


def _picks_few(op: Op, arrays: Sequence[Array]) -> bool:
    """Whether so little of an array is read, a line of the cache for each element at most, that a
    copy of all of it would take longer."""
    return op is gather_op and NEAR * arrays[1].size <= arrays[0].size


def _solves_one(op: Op, arrays: Sequence[Array]) -> bool:
    """Whether triangular matrices, each read once by rows or by columns, have one right side: to
    copy a transposed one of 512 x 512 takes 80 microseconds, and to solve its system 16."""
    return op in _TRIANGULAR and arrays[1].shape[-1] == 1


def _joins_rows(op: Op, arrays: Sequence[Array], attrs: Mapping[str, Any]) -> bool:
    """Whether arrays are joined so that rows of the result are rows of theirs, which a kernel reads
    in strips where they are transposed: it joins two of 1000 x 100 in 43 microseconds, and their
    copies in 70. Stacked along a new last dim they are not, which takes 111, and 90."""
    return op is cat_op or (op is stack_op and attrs["dim"] < arrays[0].ndim)


def _as_one(arrays: Sequence[Array]) -> bool:
    """Whether what is done by element is done along one row: of arrays of one shape, and numbers,
    all of them row-major."""
    shapes = {a.shape for a in arrays if a.ndim}
    return len(shapes) <= 1 and all(map(in_order, arrays))


def _in_memory(a: Array) -> Order:
    """The dims of matrices as they lie, by rows or by columns; its own inverse."""
    dims = range(a.ndim)
    return tuple(dims) if in_order(a) else (*dims[:-2], dims[-1], dims[-2])


def sizes_known(op: Op, i: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of argument ``i`` (of a result, if it is below 0) that a program knows: those of 1,
    which broadcast; how long short rows are, unless the op is done element by element, as if along
    one row; of an argument of a batched op all but the batch; of a product that a matrix is a row
    or a column, and small matrices' if there are many. 0 stands for the others."""
    if op is matmul_op and is_of_small(shape):
        return (*(0 for _ in shape[:-2]), *shape[-2:])
    if op in _PRODUCTS:
        known = op is matmul_op
        return tuple([int(known and n == 1 and d > len(shape) - 3) for d, n in enumerate(shape)])
    if not op.batched or i < 0:
        return tuple([int(n == 1) for n in shape]) if _by_element(op) else sizes_along_rows(shape)
    return (int(shape[0] == 1), *shape[1:]) if i in op.batched else shape


def _by_element(op: Op) -> bool:
    return type(op.lowering) is Elementwise


def prepare(
    op: Op, operands: Sequence[Any], attrs: Mapping[str, Any]
) -> tuple[Sequence[Array], tuple[str, ...], Mapping[str, Any]]:
    """What the kernel of an op is given: arrays, with numbers beside the others as arrays of no
    dims, and behind them those among the attributes; the names of the latter; and the attributes
    that are left."""
    first = 1 if op.promote == "tail" else 0  # of those that are of one dtype
    if not all([type(a) is np.ndarray for a in operands]):
        dtype = next((a.dtype for a in operands[first:] if isinstance(a, np.ndarray)), None)
        pairs = [(a, dtype if i >= first else None) for i, a in enumerate(operands)]
        operands = [a if isinstance(a, np.ndarray) else np.asarray(a, d) for a, d in pairs]
    names = numbers_among(op, attrs, operands[-1].dtype)
    if not names:
        return operands, names, attrs
    numbers = [as_array(attrs[name], operands[-1].dtype) for name in names]
    rest = {name: value for name, value in attrs.items() if name not in names}
    return (*operands, *numbers), names, rest
