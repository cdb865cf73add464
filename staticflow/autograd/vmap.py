"""A function of one row as a function of a batch of rows, by the name and rules of
``torch.func.vmap``.

The function is called once, on symbols of the shapes of a row. What it computes of them is then
computed of all rows at once, op by op, by the rules of `staticflow.ops.batching`; what it uses
beside them stays as it is, so that gradients reach it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from staticflow import pytree
from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError, DimRangeError, DTypeError, ShapeError, SymbolicError
from staticflow.graph.dims import Dim, Size, same
from staticflow.graph.graph import substitute_nodes
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node, param, toposort
from staticflow.graph.numbers import unwrap_integer
from staticflow.graph.types import TensorType
from staticflow.ops.basics.axes import movedim
from staticflow.ops.basics.joining import cat
from staticflow.ops.basics.splitting import narrow
from staticflow.ops.basics.view import of_size
from staticflow.ops.batching.row import Value, stretch
from staticflow.ops.batching.walk import Batching, outer_value
from staticflow.ops.declaring.foreign import refuses_foreign
from staticflow.ops.declaring.thread import for_itself, thread
from staticflow.ops.declaring.tracing import collect_guards
from staticflow.ops.loops.meets_symbol import run_or_write
from staticflow.ops.loops.region import close_over, trace
from staticflow.ops.symbols.effect import effect
from staticflow.ops.symbols.symbol import Symbol, to_node
from staticflow.ops.symbols.watching import watch_nodes

__all__ = ["vmap"]

Function = Callable[..., Any]

_RANDOMNESS = ("error", "different", "same")


@refuses_foreign
def vmap(
    func: Function,
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Function:
    """A function that does for each row of its arguments what ``func`` does for one, all at once.

    ``in_dims`` says along which dim the rows of an argument lie: an int for all arguments, or a
    tuple with an entry for each, an int, None for what is the same for all rows, or the same nested
    in the structure of the argument; negative dims count from the end. ``func`` sees the arguments
    without that dim; keyword arguments are handed on as they are. ``out_dims`` says so of what
    ``func`` gives, a tree of tensors; what is the same for all rows is repeated, or with None given
    once. Rows that draw random numbers need a ``randomness``: "different" or "same". With
    ``chunk_size`` as many rows are computed at a time, which takes less memory.

    ``func`` is called once, on symbols of the shapes of a row, so it may not ask for their values;
    loops and branches are `scan`, `while_loop`, `cond` and their kin. It works on tensors and on
    symbols, its results are differentiated as any, and derivatives may be taken in it.

    Raises `ArgumentError` where ``in_dims`` or ``out_dims`` do not fit, `DimRangeError` for a dim
    that an argument lacks, `ShapeError` where the numbers of rows differ, and `SymbolicError` for
    what has no rule, such as a selection whose size differs from row to row.

    >>> import staticflow as sf
    >>> weight, xs = sf.tensor([1.0, 2.0]), sf.tensor([[1.0, 1.0], [2.0, 0.0], [0.0, 3.0]])
    >>> loss = lambda w, x: (w * x).sum() ** 2
    >>> vmap(sf.func.grad(loss), in_dims=(None, 0))(weight, xs)
    tensor([[ 6.,  6.],
            [ 8.,  0.],
            [ 0., 36.]])
    """
    if randomness not in _RANDOMNESS:
        raise ArgumentError(
            f'vmap: randomness is {randomness!r}; it must be "error", "different" or "same", '
            f"at {format_locs(here())}"
        )
    if isinstance(chunk_size, float) or (chunk_size is not None and chunk_size < 1):
        raise ArgumentError(
            f"vmap: chunk_size is {chunk_size}; it must be an integer of 1 or more, or None, "
            f"at {format_locs(here())}"
        )
    if not callable(func):
        raise DTypeError(
            f"vmap: takes a function, not {type(func).__name__}, at {format_locs(here())}"
        )
    in_dims, out_dims = unwrap_integer(in_dims), unwrap_integer(out_dims)
    mapped = _Mapped(func, in_dims, out_dims, randomness, chunk_size)

    def call(*args: Any, **kwargs: Any) -> Any:
        return run_or_write(lambda: mapped(args, kwargs), (args, kwargs), func)

    functools.update_wrapper(call, func, updated=())
    vars(call).pop("__wrapped__")  # which takes the arguments of a row
    return call


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A function, and how it is mapped over rows."""

    func: Function
    in_dims: Any
    out_dims: Any
    randomness: str
    chunk_size: int | None

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What all rows give."""
        leaves, structure = pytree.flatten(args)
        at = {i: d for i, d in enumerate(self._dims(args)) if d is not None}
        rows = {i: _in_front(leaves[i], d) for i, d in at.items()}
        size = _common_size([x.__sf_shape__[0] for x in rows.values()])
        rows = {i: x if same(x.shape[0], size) else of_size(x, 0, size) for i, x in rows.items()}

        def call(symbols: Sequence[Symbol]) -> Any:
            own = list(leaves)
            for i, symbol in zip(rows, symbols, strict=True):
                own[i] = symbol
            return self.func(*pytree.unflatten(structure, own), **kwargs)

        found, tree = self._in_chunks(call, list(rows.values()), size)
        dims = _spread(self.out_dims, pytree.unflatten(tree, found), "out_dims", "outputs")
        results = [self._result(v, d, size) for v, d in zip(found, dims, strict=True)]
        return pytree.unflatten(tree, results)

    def _dims(self, args: tuple[Any, ...]) -> list[int | None]:
        """Along which dim, counted from the front, the rows of each leaf of the arguments lie."""
        if not isinstance(self.in_dims, int | tuple):
            raise ArgumentError(
                "vmap: in_dims must be an int, or a tuple with an entry for each argument, not "
                f"{self.in_dims!r}, at {format_locs(here())}"
            )
        if not args:
            raise ArgumentError(
                "vmap: the function is called without arguments, so there are no rows; give one "
                f"that has rows, at {format_locs(here())}"
            )
        given = _spread(self.in_dims, args, "in_dims", "arguments")
        leaves = pytree.flatten(args)[0]
        found = [None if d is None else _dim_of(x, d) for x, d in zip(leaves, given, strict=True)]
        if all(d is None for d in found):
            raise ArgumentError(
                f"vmap: in_dims={self.in_dims!r} names no rows; an entry at least must be an int, "
                f"at {format_locs(here())}"
            )
        return found

    def _in_chunks(
        self, call: Function, rows: Sequence[Any], size: Size
    ) -> tuple[list[Any], pytree.TreeDef]:
        chunk = self.chunk_size
        if chunk is None or (isinstance(size, int) and size <= chunk):
            return self._all(call, rows, size)
        if isinstance(size, Dim):
            raise SymbolicError(
                f"vmap: chunk_size={chunk} of {size} rows, a number that only a call can tell; "
                "leave it out, or use sf.map, which computes one row at a time, "
                f"at {format_locs(here())}"
            )
        parts, tree = [], pytree.LEAF
        for first in range(0, size, chunk):
            count = min(chunk, size - first)
            found, tree = self._all(call, [narrow(x, 0, first, count) for x in rows], count)
            parts.append(found)
        return [_join(values) for values in zip(*parts, strict=True)], tree

    def _all(
        self, call: Function, rows: Sequence[Any], size: Size
    ) -> tuple[list[Any], pytree.TreeDef]:
        """The leaves of what rows give, as values where they are tensors, and the structure."""
        walk = Batching(size, self.randomness, rows[0])
        is_graph = any(isinstance(x, Symbol) for x in rows) or thread.state.tracing
        if is_graph:
            rows = [Symbol(to_node(x)) for x in rows]
            return _in_graph(Batching(size, self.randomness, rows[0]), call, rows)
        return _on_tensors(walk, call, rows)

    def _result(self, value: Any, dim: int | None, size: Size) -> Any:
        if not isinstance(value, Value):
            if dim is None:
                return value
            raise DTypeError(
                f"vmap: the function gives {type(value).__name__}; it must give tensors, or "
                f"out_dims None for what is no tensor, at {format_locs(here())}"
            )
        if dim is None:
            if value.is_batched:
                raise ArgumentError(
                    "vmap: out_dims is None for an output that differs from row to row; give the "
                    f"dim along which rows are to lie, at {format_locs(here())}"
                )
            return value.data
        out = stretch(value, size)
        if not -out.ndim <= dim < out.ndim:
            raise DimRangeError(
                f"vmap: out_dims is {dim} for a result of {out.ndim} dims with that of the rows; "
                f"it must be from {-out.ndim} to {out.ndim - 1}, at {format_locs(here())}"
            )
        return movedim(out, 0, dim) if dim else out


# -- the trace ------------------------------------------------------------------------------------


def _trace(call: Function, rows: Sequence[Any]) -> tuple[list[Node], list[Any], Any, int]:
    """The params of the function of one row, the leaves of what it gives, their structure, and the
    serial number from which on its nodes were made."""
    given: list[Symbol] = []

    def keep(symbols: list[Symbol]) -> Any:
        given[:] = symbols
        return call(symbols)

    types = [TensorType(x.dtype, x.__sf_shape__[1:]) for x in rows]
    own, out, began = trace(keep, types, "row")
    if any(s.node is not p for s, p in zip(given, own, strict=True)):
        raise SymbolicError(
            "vmap: the function changes an argument in place; compute out of place, or change a "
            f"clone and return it, at {format_locs(here())}"
        )
    leaves, tree = pytree.flatten(out)
    return own, leaves, tree, began


def _in_graph(
    walk: Batching, call: Function, rows: Sequence[Symbol]
) -> tuple[list[Any], pytree.TreeDef]:
    own, leaves, tree, began = _trace(call, rows)
    values = {p: Value(x, True) for p, x in zip(own, rows, strict=True)}
    left = [n for n in thread.state.left if n.serial >= began]
    if not set(own).isdisjoint(toposort(left)):
        raise SymbolicError(f"{_CHANGES}, at {format_locs(here())}")
    is_tensor = [hasattr(y, "__sf_mode__") for y in leaves]
    nodes = [to_node(y) for y, is_one in zip(leaves, is_tensor, strict=True) if is_one]
    older = [n for n in toposort(nodes) if n.serial < began]
    with for_itself():
        inside = substitute_nodes(nodes, watch_nodes(nodes, dict(zip(older, older, strict=True))))
        found = iter(walk.outputs(inside, values | {n: outer_value(n) for n in older}))
    return [next(found) if t else y for y, t in zip(leaves, is_tensor, strict=True)], tree


_CHANGES = (
    "vmap: the function gives a tensor outside of it, such as running statistics, a value that "
    "differs from row to row; it must be the same for all rows: compute it outside of vmap, or put "
    "the module in eval()"
)


def _on_tensors(
    walk: Batching, call: Function, rows: Sequence[Any]
) -> tuple[list[Any], pytree.TreeDef]:
    with collect_guards():  # which lets tensors with a history stand for themselves
        own, leaves, tree, began = _trace(call, rows)
        nodes = [y.node for y in leaves if isinstance(y, Symbol)]
        region = close_over(own, nodes, began)
    values = {p: Value(x, True) for p, x in zip(own, rows, strict=True)}
    values |= {p: Value(_source(outer), False) for outer, p in region.captured.items()}
    for variable, state in region.states.items():
        values[state.start] = Value(_source(variable).detach().clone(), False)
    changed = region.changed_states
    ends = [state.end for state in changed.values()]
    found = iter(walk.outputs([*region.outputs, *ends], values))
    results = [next(found) if isinstance(y, Symbol) else _outer(y) for y in leaves]
    for variable in changed:
        new = next(found)
        if new.is_batched:
            raise SymbolicError(f"{_CHANGES}, at {format_locs(here())}")
        effect(new.data, _source(variable), new.data)
    return results, tree


def _outer(leaf: Any) -> Any:
    """An output that is no part of the trace: a tensor of outside, or what is none."""
    return Value(leaf, False) if hasattr(leaf, "__sf_mode__") else leaf


def _source(node: Node) -> Any:
    """The tensor that a param of a trace stands for."""
    source = node.attrs["source"] if node.op is param else None
    if source is None:
        raise SymbolicError(
            f"vmap: the function met a symbol ({node.type}, made at {format_locs(node.locs)}) as "
            "its arguments were tensors; hand it the symbol as an argument, with None in in_dims, "
            f"at {format_locs(here())}"
        )
    return source


# -- where rows lie -------------------------------------------------------------------------------


def _spread(dims: Any, tree: Any, name: str, what: str) -> list[int | None]:
    """An entry of ``dims`` for each leaf of ``tree``: one stands for all below it."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(pytree.flatten(tree)[0])
    parts = _parts(dims, tree)
    if parts is None:
        raise ArgumentError(
            f"vmap: {name} {dims!r} does not fit the structure of the {what}, "
            f"{pytree.flatten(tree)[1]}; it must be an int, None, or nested alike, "
            f"at {format_locs(here())}"
        )
    return [d for own, part in parts for d in _spread(own, part, name, what)]


def _parts(dims: Any, tree: Any) -> list[tuple[Any, Any]] | None:
    """The entries of ``dims`` with what they are for; None where the structures differ."""
    if isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        return [(dims[key], tree[key]) for key in sorted(tree)]
    is_pair = isinstance(dims, list | tuple) and isinstance(tree, list | tuple)
    if is_pair and len(dims) == len(tree):
        return list(zip(dims, tree, strict=True))
    if isinstance(dims, tuple) and len(dims) == 1 and pytree.flatten(tree)[1] == pytree.LEAF:
        return [(dims[0], tree)]
    return None


def _dim_of(x: Any, dim: int) -> int:
    if not hasattr(x, "__sf_mode__"):
        raise ArgumentError(
            f"vmap: in_dims is {dim} for {x!r}, which is no tensor and has no rows; give None for "
            f"it, or wrap it with sf.tensor(...), at {format_locs(here())}"
        )
    if x.ndim == 0:
        raise DimRangeError(
            f"vmap: in_dims is {dim} for a tensor of no dims, which has no rows; give None for it, "
            f"at {format_locs(here())}"
        )
    if not -x.ndim <= dim < x.ndim:
        raise DimRangeError(
            f"vmap: in_dims is {dim} for a tensor of {x.ndim} dims; it must be from {-x.ndim} to "
            f"{x.ndim - 1}, at {format_locs(here())}"
        )
    ndim: int = x.ndim
    return dim % ndim


def _in_front(x: Any, dim: int) -> Any:
    return movedim(x, dim, 0) if dim else x


def _common_size(sizes: Sequence[Size]) -> Size:
    known = sorted({n for n in sizes if isinstance(n, int)})
    if len(known) > 1:
        raise ShapeError(
            f"vmap: the arguments have {' and '.join(map(str, sizes))} rows along their in_dims; "
            "these numbers must be equal; name the dim of rows of each by in_dims, at "
            f"{format_locs(here())}"
        )
    return known[0] if known else sizes[0]


def _join(values: Sequence[Any]) -> Any:
    """One leaf of what chunks of rows give, for all rows."""
    first = values[0]
    if not isinstance(first, Value) or not first.is_batched:
        return first
    return Value(cat([v.data for v in values]), True)
