"""Branches: one of many functions, chosen by a number as the program runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from staticflow import pytree
from staticflow.errors import DTypeError, SymbolicError
from staticflow.graph.dims import Dim
from staticflow.graph.graph import Graph, close, new_param
from staticflow.graph.locs import format_locs, here
from staticflow.graph.types import TensorType
from staticflow.ops.basics.arithmetic import lt
from staticflow.ops.declaring.sizes import as_size
from staticflow.ops.loops.branches import Branches
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.loops.meets_symbol import in_graph, write_first
from staticflow.ops.loops.region import trace_at_once
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["switch"]


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """``branches[index](*operands)``, for an ``index`` that is an int, a size, or an integer tensor
    of no dims; one below 0 is 0 and one above the last is the last, as in ``jax.lax.switch``.

    All branches give the same structure, shapes and dtypes; a number is a tensor of no dims, in the
    dtype of what the others give in its place. On symbols only the chosen one runs, forward and
    backward, found by comparisons as many as the logarithm of their number. On tensors it is called
    now, and the others are held to the same result as those of `cond` are. For a Python int the
    function is called, and no other looked at.

    >>> import staticflow as sf
    >>> powers = [lambda x: x, lambda x: x * x, lambda x: x * x * x]
    >>> [sf.switch(sf.tensor(i), powers, sf.tensor(2.0)).item() for i in (0, 1, 2, 7, -1)]
    [2.0, 4.0, 8.0, 8.0, 2.0]
    """
    fns = _as_functions(branches)
    chosen = _as_index(index)
    last = len(fns) - 1
    found = Branches("switch", [f"branches[{i}]" for i in range(len(fns))], fns, operands)
    if isinstance(chosen, int) or not last:
        chosen = chosen if isinstance(chosen, int) else 0
        return found.call_alone(min(max(chosen, 0), last))

    def write() -> Any:
        return found.write(lambda graphs, given: _select(Symbol(to_node(chosen)), graphs, given))

    if in_graph(chosen, *pytree.flatten(operands)[0]):
        return trace_at_once(write)
    written = write_first(write, *fns)
    return found.run(min(max(int(chosen), 0), last)) if written is None else written[0]


def _select(index: Any, graphs: Sequence[Graph], operands: Sequence[Any]) -> Sequence[Any]:
    """What the graph at ``index`` gives of the ``operands``."""
    half = len(graphs) // 2
    true, false = _halve(graphs[:half], 0, index), _halve(graphs[half:], half, index)
    found: Sequence[Any] = cond_op(lt(index, half), index, *operands, true=true, false=false)
    return found


def _halve(graphs: Sequence[Graph], start: int, index: Any) -> Graph:
    """The region that takes the ``index`` and what each of the graphs takes, of which the first is
    for the index ``start``: a branch between two halves of them, down to one."""
    own = new_param(TensorType(index.dtype, ()), "index")
    if len(graphs) == 1:
        only = graphs[0]
        return close((own, *only.params), only.outputs, only.equalities)
    params = [new_param(p.tensor_type, p.attrs["name"], locs=p.locs) for p in graphs[0].params]
    half = len(graphs) // 2
    true, false = _halve(graphs[:half], start, index), _halve(graphs[half:], start + half, index)
    values = cond_op(
        lt(Symbol(own), start + half), Symbol(own), *map(Symbol, params), true=true, false=false
    )
    return close((own, *params), [v.node for v in values])


def _as_functions(branches: Any) -> list[Callable[..., Any]]:
    if not isinstance(branches, Sequence) or not branches:
        raise SymbolicError(
            "switch: branches is a list of functions, one at least, as in switch(i, [lambda x: x, "
            f"lambda x: -x], x), not {_describe(branches)}, at {format_locs(here())}"
        )
    for position, fn in enumerate(branches):
        if not callable(fn):
            raise SymbolicError(
                f"switch: chooses between functions, and branches[{position}] is of type "
                f"{type(fn).__name__}; sf.stack(values)[index] chooses between values, at "
                f"{format_locs(here())}"
            )
    return list(branches)


def _describe(branches: Any) -> str:
    is_empty = isinstance(branches, Sequence) and not branches
    return "an empty one" if is_empty else f"of type {type(branches).__name__}"


def _as_index(given: Any) -> Any:
    """An int, a size, or a tensor of one integer."""
    if not hasattr(given, "__sf_mode__"):
        if isinstance(given, bool) or not isinstance(given, int | Dim | np.integer):
            raise DTypeError(
                f"switch: the index is of type {type(given).__name__}; it must be an int, a size, "
                f"or a tensor of an integer dtype and of no dims, at {format_locs(here())}"
            )
        return as_size(given)
    if given.ndim or given.dtype.kind not in "iu":
        raise DTypeError(
            f"switch: the index is {given.dtype.name}{list(given.shape)}; it must be an integer, "
            f"or a tensor of an integer dtype and of no dims, at {format_locs(here())}"
        )
    return given
