"""What a symbolic expression starts from."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from staticflow.eager.tensor import Tensor
from staticflow.errors import ArgumentError, ShapeError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim, Size, Sym, closed_size, fresh_sym
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.graph import Graph, free_symbols, named_symbols, new_param, regions_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.numbers import unwrap_integer
from staticflow.graph.types import TensorType
from staticflow.ops.random.frozen import note_draws
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["constant", "placeholder", "refuse_crowd", "refuse_strange_sizes", "symbol", "variable"]

MOST_INPUTS = 10_000
"""So many arrays a program takes at most; to compile one takes time with the square of them."""

_unnamed = itertools.count()


def refuse_crowd(count: int, what: str) -> None:
    """Raises `ArgumentError` if a program would take more than `MOST_INPUTS` arrays."""
    if count > MOST_INPUTS:
        raise ArgumentError(
            f"{what}: a program takes {MOST_INPUTS} arrays at most, not {count}; stack those of "
            f"one shape (sf.stack) and give that, at {format_locs(here())}"
        )


def refuse_strange_sizes(graph: Graph) -> None:
    """Raises `ShapeError` if a node names a size that is of no input and that no node tells."""
    known = free_symbols(graph).union(*(symbols_of(d) for t in graph.declared for d in t.sizes))
    if not graph.symbols <= known:
        _refuse_strange(graph, known)


def _refuse_strange(graph: Graph, known: frozenset[Sym]) -> None:
    known |= free_symbols(graph) | graph.bound_sizes
    for node in graph.nodes:
        if not named_symbols(node) <= known:
            for region in regions_of(node):
                _refuse_strange(region, known)
            inside = frozenset[Sym]().union(*(region.symbols for region in regions_of(node)))
            for size in named_symbols(node) - known - inside:
                raise ShapeError(
                    f"{node.op.name} at {format_locs(node.locs)} takes the size {size}, which is "
                    "of none of the inputs; give the placeholder that has it as an input, too, at "
                    f"{format_locs(here())}"
                )


def placeholder(
    shape: Sequence[int | str | None], dtype: Any = "float32", name: str | None = None
) -> Symbol:
    """An input of a graph, given when the compiled program is called.

    A size is an int; a name (``"T"``), one unknown size wherever the name is written; or None, an
    unknown size of its own. Unknown sizes may be 0 or 1 like any other.

    >>> placeholder((None, "T", 3), name="x").shape
    (x_0, T, 3)
    """
    name = name or f"input{next(_unnamed)}"
    if not name.isidentifier():
        raise ShapeError(
            f"the name of a placeholder is an identifier, not {name!r}, at {format_locs(here())}"
        )
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise ShapeError(
            f"placeholder {name}: the shape is a tuple of sizes, as in (None, 3), not {shape!r}, "
            f"at {format_locs(here())}"
        )
    sizes: list[Size] = []
    for axis, size in enumerate(shape):
        size = unwrap_integer(size)
        if size is None:
            sizes.append(fresh_sym(f"{name}_{axis}"))
        elif isinstance(size, str):
            if not size.isidentifier():
                raise ShapeError(
                    f"the name of a size is an identifier, not {size!r}, at {format_locs(here())}"
                )
            sizes.append(Dim.of(Sym(size)))
        elif isinstance(size, int | Dim) and (isinstance(size, Dim) or size >= 0):
            sizes.append(closed_size(size))
        else:
            raise ShapeError(
                f"placeholder {name}: a size is an int, a name or None, not {size!r}, "
                f"at {format_locs(here())}"
            )
    note_draws()  # what was drawn before the graph was begun is data
    return Symbol(new_param(TensorType(dtype_of(dtype), tuple(sizes)), name, None, here()))


def variable(init: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """A tensor that compiled programs read and update in place: a copy of ``init``."""
    made = Tensor._copy_of(init, dtype)
    made.name = name
    return made


def symbol(tensor: Tensor) -> Symbol:
    """The symbol that stands for an eager tensor in a graph: what is computed from it becomes
    nodes, which read the tensor's memory at every call.

    >>> count = variable(0.0)
    >>> import staticflow as sf
    >>> tick = sf.compile([], symbol(count), updates={count: symbol(count) + 1})
    >>> tick().item(), tick().item()
    (0.0, 1.0)
    """
    return Symbol(to_node(tensor))


def constant(value: Any, dtype: Any = None) -> Symbol:
    """A symbol for a value known now; ``value`` is copied."""
    array = np.array(value.numpy() if isinstance(value, Tensor) else value)
    if (
        dtype is None
        and array.dtype == np.float64
        and not isinstance(value, np.ndarray | np.generic)
    ):
        dtype = "float32"
    return Symbol(constant_node(array, dtype_of(dtype if dtype is not None else array.dtype)))
