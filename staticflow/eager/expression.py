"""What the tape recorded, as an expression of a graph.

A tensor that was computed eagerly from one that requires a gradient, such as ``w.t()``, may meet a
symbol. The graph then has the operations that the tape recorded, on the leaves that they began
with: it computes the tensor anew at every call, and a gradient reaches the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any, NoReturn
from weakref import WeakKeyDictionary, ref

import numpy as np

from staticflow.eager.in_place import part_op, replay, whole_op
from staticflow.eager.memory import Memory
from staticflow.eager.saved import SavedValue, check_unchanged
from staticflow.eager.saved_hooks import Packed
from staticflow.eager.straight import straight_op
from staticflow.eager.vertex import Output, TapeEntry, Vertex
from staticflow.errors import SymbolicError
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.graph import Graph, close
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.locs import format_locs, here, using
from staticflow.graph.node import param, toposort
from staticflow.graph.op import Op
from staticflow.ops.declaring.eager_side import eager
from staticflow.ops.declaring.thread import thread
from staticflow.ops.symbols.captured import capture
from staticflow.ops.symbols.effect import settle
from staticflow.ops.symbols.symbol import STATIC, Symbol
from staticflow.ops.tensors.queries import finfo

__all__ = ["copy_of", "expression_of", "is_current"]

_known: WeakKeyDictionary[Vertex, Any] = WeakKeyDictionary()
"""What vertices have given: so a tensor is the same node each time."""

_sources: dict[int, tuple[Any, Any, int]] = {}
"""What loops copied, by the address of the copy's array: a reference to that array, which takes the
entry away, one to the tensor that was copied, and the version that this had."""

_PROBE = np.empty(1)[:], Memory()
_ALONE = tuple(getrefcount(_PROBE[i]) for i in (0, 1))
"""The references to what a tuple alone has, as this Python counts them."""


def expression_of(tensor: Any) -> Symbol:
    """The symbol of what the tape recorded of ``tensor``, which has a history.

    Raises `SymbolicError` where the tape does not know how to compute it again: an operation that
    is no op of graphs, an operand without a history that no derivative needs or nobody else has,
    saved values that a backward freed, or a leaf that was changed in place since.
    """
    last = tensor._current_vertex()
    found = _known.get(last)
    if found is None:
        state = thread.state
        before = state.recording
        try:
            state.recording = True
            for vertex in _in_order(last):
                if vertex not in _known:
                    _known[vertex] = _express(vertex, tensor)
        finally:
            state.recording = before
        found = _known[last]
        if not is_current(found, tensor):
            del _known[last]
            _refuse(tensor, "what it was computed from was changed in place since")
    symbol: Symbol = found
    return symbol


def copy_of(tensor: Any) -> Any:
    """A clone of ``tensor``, a carry with which an eager loop begins. One of a tensor without a
    history is known to be its copy, so that a graph captures the tensor."""
    copy = tensor.clone()
    array = getattr(copy, "_data", None)
    if isinstance(array, np.ndarray) and not tensor.requires_grad:
        key = id(array)
        alive = ref(array, lambda _: _sources.pop(key, None))
        _sources[key] = alive, ref(tensor), tensor._version
    return copy


def _source(kept: SavedValue) -> Any:
    """The tensor of which a saved constant is a copy, if it is there and unchanged, else None."""
    _, source, version = _sources.get(id(kept[0]), (None, lambda: None, 0))
    tensor = source()
    return tensor if tensor is not None and tensor._version == version else None


def _in_order(last: Vertex) -> list[Vertex]:
    """The vertices but leaves that lead to ``last``, those that were made first at first."""
    found: dict[Vertex, None] = {}
    stack = [last]
    while stack:
        vertex = stack.pop()
        if vertex is not None and vertex.serial and vertex not in found:
            found[vertex] = None
            stack.extend(vertex.edges)
    return sorted(found, key=lambda v: int(v.serial))


def _express(vertex: Vertex, tensor: Any) -> Any:
    """The symbol, or a tuple of them, that a vertex gives."""
    if vertex.hooks:
        _refuse(tensor, f"{vertex.name()} has a hook, which a graph does not call")
    if isinstance(vertex, Output):
        return _known[vertex.entry][vertex.index]
    if not isinstance(vertex, TapeEntry):
        _refuse(tensor, f"{vertex.name()} is no operation of graphs")
    if vertex.args is None:
        _refuse(tensor, "a backward has freed what the tape had saved of it")
    op, fused = vertex.op, vertex.attrs.get("fused")
    if not (fused or op in _EXPRESSED or op.lowering or op.decompose):
        _refuse(tensor, f"{vertex.name()} is no operation of graphs")
    count = len(vertex.args) if fused is None else fused.operands
    operands = [_operand(vertex, i, tensor) for i in range(count)]
    with using(vertex.locs):
        if fused is not None:
            return fused.express(operands)
        express: Callable[..., Any] = _EXPRESSED.get(op, STATIC.apply)
        return express(op, operands, vertex.attrs)


def _operand(entry: TapeEntry, position: int, tensor: Any) -> Any:
    """Argument ``position`` of a recorded operation: a symbol or a number."""
    assert entry.args is not None
    edge, held = entry.edges[position], entry.args[position]
    if edge is not None:
        return _known[edge] if edge.serial else Symbol(capture(edge))
    if isinstance(held, tuple):
        if (source := _source(held)) is not None:
            return Symbol(capture(source))
        if not _is_held(held):
            what = f"argument {position + 1} of {entry.op.name}"
            _refuse(tensor, f"{what} was computed at once, too, and is held by nobody else")
        array = check_unchanged(held, entry, position)
        array = array.array() if type(array) is Packed else array
        return Symbol(capture(eager.tensor._on_tape(array, held[1], None)))
    if isinstance(held, bool | int | float):
        return held
    _refuse(
        tensor,
        f"the tape does not keep argument {position + 1} of {entry.op.name}, which has no history "
        "and which no derivative needs",
    )


def _is_held(kept: SavedValue) -> bool:
    """Whether anybody else has the memory of a saved constant: a tensor of the user's is captured
    by reference, what was computed on the way would be in the graph as it was now."""
    return any(getrefcount(kept[i]) > _ALONE[i] for i in (0, 1))


def is_current(symbol: Symbol, tensor: Any) -> bool:
    """Whether the expression gives what the tensor has, as its leaves are now, but for rounding."""
    outputs, _ = settle([symbol.node])
    params = [n for n in toposort(outputs) if n.op is param]
    arrays = [_on_host(p.attrs["source"]) for p in params]
    graph = close(params, outputs)
    value = np.asarray(interpret_graph(graph, arrays)[0], np.float64)
    own = np.asarray(_on_host(tensor), np.float64)
    if value.shape != own.shape:
        return False
    last_bit = finfo(tensor.dtype).eps if tensor.dtype.is_floating else 0.0
    bound = last_bit * np.max(np.abs(own), initial=0.0, where=np.isfinite(own))
    if np.allclose(value, own, 0, _BITS_OFF * bound, equal_nan=True):
        return True
    bound = _noise_of(graph, arrays, value)
    return np.allclose(value, own, 0, _BITS_OFF * bound, equal_nan=True)


_BITS_OFF = 100
"""So many times the rounding of each element on the way may an op and its reference differ."""


def _on_host(tensor: Any) -> Any:
    return tensor.detach().cpu()._data if tensor.is_cuda else tensor._data


def _noise_of(graph: Graph, arrays: Sequence[Any], value: Any) -> float:
    """How far rounding may carry what a graph gives, ``value``, in which large terms may cancel:
    what comes of it where each element on the way is off by its last bit, up or down, and at most
    the last bit of the largest of them, since a step, as in `floor`, is no rounding."""
    turns = np.random.default_rng(0)
    largest = [0.0]

    def shake(result: Any) -> Any:
        dtype = dtype_of(result.dtype)
        if not dtype.is_floating or not result.size:
            return result
        last_bit = turns.choice((-1, 1), result.shape) * finfo(dtype).eps
        off = result * np.asarray(last_bit, dtype.numpy)
        largest.append(float(np.max(np.abs(off), initial=0.0, where=np.isfinite(off))))
        return result + off

    def evaluate(op: Op, xp: Any, args: Sequence[Any], attrs: Any) -> Any:
        found = op.reference(xp, *args, **attrs)
        return tuple(map(shake, found)) if isinstance(found, tuple) else shake(np.asarray(found))

    (shaken,) = interpret_graph(graph, list(map(shake, arrays)), evaluate=evaluate)
    if np.shape(shaken) != value.shape:
        return 0.0
    moved = np.abs(np.asarray(shaken, np.float64) - value)
    return min(max(largest), float(np.max(moved, initial=0.0, where=np.isfinite(moved))))


def _refuse(tensor: Any, why: str) -> NoReturn:
    made = tensor.grad_fn
    raise SymbolicError(
        f"a tensor of shape {list(tensor.shape)} that was computed at once ({made.name()}, made "
        f"at {format_locs(made.locs)}) from one that requires a gradient meets a symbol, and the "
        f"graph cannot compute it anew: {why}. Begin with sf.symbol(w) of the tensor w that "
        "requires the gradient, as in x @ (sf.symbol(w) + c), compute it in the forward of a "
        "Module or under jit, or capture its value with .detach(), "
        f"at {format_locs(here())}"
    )


def _put_into_part(op: Op, operands: Sequence[Any], attrs: Any) -> Any:
    whole, value = operands
    changed = whole.clone()
    replay(changed, attrs["steps"])._assign(value)
    return changed


_EXPRESSED: dict[Op, Callable[..., Any]] = {
    whole_op: lambda op, operands, attrs: operands[1],
    straight_op: lambda op, operands, attrs: operands[0],
    part_op: _put_into_part,
}
