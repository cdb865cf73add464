"""What an operation of the eager mode computes and touches, counted as that of programs is.

A call is written down as a function in ops with descriptions of its arguments: of arrays the dtype
and the shape. Later the function is traced on symbols of these types, and of the program that it
comes to, which is never made machine code, the Kernel IR is counted (`work_of_routine`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from staticflow.codegen.program.routine import Routine
from staticflow.data_classes import dataclass
from staticflow.eager.fused import FusedEntry
from staticflow.eager.programs import trace
from staticflow.eager.saved import Unsaved
from staticflow.errors import VerifyError
from staticflow.graph.dim_queries import as_symbol
from staticflow.graph.dtypes import BY_NUMPY
from staticflow.graph.graph import Graph, close, new_param
from staticflow.graph.node import Node, constant, item, make_node, param, toposort
from staticflow.graph.op import Op
from staticflow.graph.types import TensorType
from staticflow.measure.work import Kernel, work_of_program, work_of_routine
from staticflow.ops.along.counts import bincount
from staticflow.ops.along.sets import unique
from staticflow.ops.declaring.lowering import View
from staticflow.ops.indexing.data_dependent import (
    bincount_op,
    masked_select,
    masked_select_op,
    nonzero,
    nonzero_op,
    unique_op,
)
from staticflow.ops.symbols.effect import settle
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.order import AS_WRITTEN
from staticflow.passes.pipeline import optimize
from staticflow.runtime.drafting import lay_out
from staticflow.runtime.executable import Executable
from staticflow.runtime.plan import name_bound_sizes
from staticflow.runtime.recipe import Recipe

__all__ = [
    "IN_GRAPHS", "Applied", "Attribute", "Call", "Counted", "Described", "Method", "OperationWork",
    "describe_array", "describe_call", "describe_pull", "work_of_call", "work_of_executable",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class OperationWork:
    """The bytes that an operation reads and writes at least, and its floating-point operations, as
    `Program.work` counts them; a tensor that is given twice is read twice. A view moves nothing. Of
    a program these are by ``kernels``, too."""

    bytes: int
    flops: int
    kernels: tuple[Kernel, ...] = ()


# -- functions in ops ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Method:
    """A method by its name, as a function of the object."""

    name: str

    def __call__(self, thing: Any, *args: Any, **kwargs: Any) -> Any:
        """What the method gives, or of one that gives nothing the object that it has changed."""
        found = getattr(thing, self.name)(*args, **kwargs)
        return thing if found is None else found


@dataclass(frozen=True, slots=True)
class Attribute:
    """A property by its name, as a function of the object."""

    name: str

    def __call__(self, thing: Any) -> Any:
        """What the property gives."""
        return getattr(thing, self.name)


def _unique(x: Any, *, inverse: bool, counts: bool) -> Any:
    return unique(x, return_inverse=inverse, return_counts=counts)


IN_GRAPHS: dict[Op, Callable[..., Any]] = {
    nonzero_op: nonzero, masked_select_op: masked_select, bincount_op: bincount,
    unique_op: _unique,
}  # fmt: skip
"""What says in ops what an op does that only runs eagerly."""


@dataclass(frozen=True, slots=True)
class Applied:
    """An op, as a function of its operands and attributes."""

    op: Op

    def __call__(self, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """What the op gives."""
        if self.op in IN_GRAPHS:
            return IN_GRAPHS[self.op](*operands, **attrs)
        if operands:
            return self.op(*operands, **attrs)
        return Symbol(make_node(self.op, (), attrs))


@dataclass(frozen=True, slots=True)
class _Pull:
    """The vjp of an op for the arguments that are ``needed``; its own first arguments are the
    cotangents and the results, ``results`` of each."""

    op: Op
    needed: tuple[bool, ...]
    results: int
    is_several: bool

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """The cotangents of those arguments."""
        cts, outs = args[: self.results], args[self.results : 2 * self.results]
        assert self.op.vjp is not None
        ct, out = (cts, outs) if self.is_several else (cts[0], outs[0])
        pulled = self.op.vjp(self.needed, ct, out, *args[2 * self.results :], **attrs)
        return tuple(p for p in pulled if p is not None)


class Described:
    """What says itself what its calls are counted by."""

    __slots__ = ()

    def describe(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call | None:
        """What is to be known of a call, before it runs."""
        raise NotImplementedError


class Counted:
    """A function of descriptions of arrays that tells the work itself."""

    __slots__ = ()

    def count(self, *arrays: Any) -> OperationWork | None:
        """The work on such arrays."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Compiled(Counted):
    """A program that the eager mode has compiled already."""

    executable: Executable

    def count(self, *arrays: Any) -> OperationWork | None:
        """The work on such arrays."""
        return work_of_executable(self.executable, arrays)


# -- descriptions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Array:
    """An array or a tensor."""

    dtype: Any
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Constant:
    """What stands as it is; 1 is not 1.0."""

    kind: type
    value: Hashable


@dataclass(frozen=True, slots=True)
class _Several:
    """A container with what is in it."""

    kind: type
    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function in ops, and descriptions of what it was called with. ``shape`` is that of its
    result, where that is to be known since values decide it."""

    fn: Any
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()
    shape: tuple[int, ...] | None = None


def describe_call(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call | None:
    """What is to be known of ``fn(*args, **kwargs)``; no array of it is kept."""
    if isinstance(fn, Described):
        return fn.describe(args, kwargs)
    return Call(fn, _all(args), tuple([(name, _describe(v)) for name, v in kwargs.items()]))


def describe_pull(entry: Any, ct: Any, edges: Sequence[Any], *_: Any) -> Call | None:
    """What is to be known of a step of backward before it frees what ``entry`` keeps; None for what
    is no operation of its own."""
    op = getattr(entry, "op", None)
    if op is None or op.vjp is None or entry.args is None:
        return None
    if isinstance(entry, FusedEntry):
        return _describe_fused(entry, ct, edges)
    is_several = type(entry.result) is list
    like = None if is_several else _describe(ct)
    results = [
        like if r is None else _saved_value(r)
        for r in (entry.result if is_several else [entry.result])
    ]
    cts = [_describe(ct.get(i)) for i in range(len(results))] if is_several else [like]
    args = [like if a is None else _saved_value(a) for a in entry.args]
    needed = tuple(e is not None for e in edges)
    pull = _Pull(op, needed, len(results), is_several)
    attrs = tuple((name, _describe(value)) for name, value in entry.attrs.items())
    return Call(pull, (*cts, *results, *args), attrs)


def _describe_fused(entry: Any, ct: Any, edges: Sequence[Any]) -> Call | None:
    fused = entry.attrs["fused"]
    cts = fused.cotangents(ct)
    needed = tuple(e is not None for e in edges[: fused.operands])
    program = fused.backward(needed, tuple(c is not None for c in cts))
    if program is None:
        return None
    arrays = [*map(_saved_value, entry.args), *(_describe(c) for c in cts if c is not None)]
    return Call(_Compiled(program), tuple(arrays))


def _saved_value(value: Any) -> Any:
    """What an entry of the tape keeps: an array with its memory and version, a type, a number."""
    if isinstance(value, tuple):
        array = value[0].array() if hasattr(value[0], "array") else value[0]
        return _Array(array.dtype, array.shape)
    return _describe(value)


def describe_array(array: Any) -> Any:
    """The description of an array or a tensor, as `Call` has it."""
    return _describe(array)


def _all(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple([_describe(v) for v in values])


def _describe(value: Any) -> Any:
    data = getattr(value, "_data", value)
    if isinstance(data, np.ndarray):
        return _Array(data.dtype, data.shape)
    kind = type(value)
    if isinstance(value, Unsaved):
        return _Array(value.dtype.numpy, tuple(map(int, value.shape)))
    if kind is slice:
        return _Several(kind, _all((value.start, value.stop, value.step)))
    if kind in (tuple, list):
        return _Several(kind, _all(value))
    if kind is dict:
        return _Several(kind, tuple([(name, _describe(v)) for name, v in value.items()]))
    return _Constant(kind, value)


def _stand_in(described: Any, params: list[Node]) -> Any:
    """A symbol of a new param for an array, and else what was described."""
    if type(described) is _Array:
        type_ = TensorType(BY_NUMPY[described.dtype], described.shape)
        params.append(new_param(type_, f"x{len(params)}"))
        return Symbol(params[-1])
    if type(described) is _Several and described.kind is dict:
        return {name: _stand_in(v, params) for name, v in described.items}
    if type(described) is _Several:
        items = [_stand_in(i, params) for i in described.items]
        return slice(*items) if described.kind is slice else described.kind(items)
    return described.value


# -- counting --------------------------------------------------------------------------------------


def work_of_call(call: Call, known: dict[Call, OperationWork | None]) -> OperationWork | None:
    """What the operation does; None where only the run can tell, and of what no graph can say.
    ``known`` remembers the calls that were counted before."""
    try:
        if call not in known:
            known[call] = _count(call)
        return known[call]
    except TypeError:  # an argument that has no hash
        return _count(call)


def _count(call: Call) -> OperationWork | None:
    try:
        if isinstance(call.fn, Counted):
            return call.fn.count(*call.args)
        return _count_traced(call)
    except VerifyError:  # a fault of the package's own, which is not to be hidden
        raise
    except Exception:  # whatever a function raises that has no symbols in mind
        return None


def _count_traced(call: Call) -> OperationWork | None:
    params: list[Node] = []
    args = [_stand_in(a, params) for a in call.args]
    kwargs = {name: _stand_in(a, params) for name, a in call.kwargs}
    results, changed = settle(trace(lambda *_: call.fn(*args, **kwargs), params)[0])
    outputs = [*results, *changed.values()]  # such as the state of a generator
    nodes = toposort(outputs)
    if all(n.op in (param, constant, item) or type(n.op.lowering) is View for n in nodes):
        return OperationWork(0, 0)
    captured = [n for n in nodes if n.op is param and n not in params]
    graph, _ = optimize(close([*params, *captured], outputs), passes=AS_WRITTEN)
    routine, signature = lay_out(Recipe(graph, (), ()), graph)
    return _sum(work_of_routine(routine, signature, _sizes_told(routine, graph, call.shape)))


def _sizes_told(
    routine: Routine, graph: Graph, shape: tuple[int, ...] | None
) -> dict[str, int | Sequence[int]]:
    """The sizes that values decide, by name, as the ``shape`` of the first result tells them."""
    names = name_bound_sizes(routine)
    if not names or shape is None:
        return {}
    pairs = zip(graph.outputs[0].tensor_type.shape, shape, strict=True)
    found = ((as_symbol(size), n) for size, n in pairs)
    return {str(names[sym]): n for sym, n in found if sym is not None and sym in names}


def work_of_executable(
    executable: Executable,
    arrays: Sequence[Any],
    told: Mapping[str, int | Sequence[int]] | None = None,
) -> OperationWork | None:
    """The work of a compiled program on arrays, or such as descriptions say, with the sizes that
    its run has ``told``."""
    given = [np.empty(a.shape, a.dtype) for a in arrays]  # whose pages are never touched
    values = executable.bind(given)
    sizes = {s.name: values[s] for s in executable.program.sizes}
    return _sum(work_of_program(executable, {**sizes, **(told or {})}))


def _sum(kernels: tuple[Kernel, ...]) -> OperationWork | None:
    if any(row.uncounted for row in kernels):
        return None
    return OperationWork(sum(r.bytes for r in kernels), sum(r.flops for r in kernels), kernels)
