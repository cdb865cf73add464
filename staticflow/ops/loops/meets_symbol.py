"""Whether a function that is about to run on tensors would meet a symbol.

A loop over tensors whose body uses a symbol is part of a graph, and what is part of a graph must
not run: a draw, a print or running statistics would change something before any call. So the symbol
is looked for before the first iteration, among what the function can name: closures, defaults,
globals, attributes. What is so found may not be used after all, which the graph then tells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from staticflow import pytree
from staticflow.errors import SymbolicError
from staticflow.graph.dim_queries import symbols_of
from staticflow.graph.dims import Dim
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node, param, toposort
from staticflow.graph.types import types_of
from staticflow.ops.loops.reachable import names_symbol
from staticflow.ops.loops.region import trace_at_once
from staticflow.ops.symbols.symbol import Symbol, symbolic, tracing_state

__all__ = ["in_graph", "refuse_late", "run_or_write", "write_first"]

T = TypeVar("T")


def write_first(write: Callable[[], T], *fns: Any) -> tuple[T] | None:
    """What ``write`` gives, a tree, if one of the functions ``fns`` makes it part of a graph: a
    tuple of that; None, with nothing done, where they run on tensors alone.

    ``write`` traces the functions. An error of theirs names the symbol that asks for the trace.
    """
    named = names_symbol(*fns)
    if named is None:
        return None
    try:
        found = trace_at_once(write)
    except Exception as error:
        error.add_note(f"traced, as part of a graph, because it can reach {named!r}")
        raise
    return (found,) if _uses_symbols(found) else None


def run_or_write(run: Callable[[], T], args: Any, *fns: Any) -> T:
    """``run()``, which calls the functions ``fns`` on the tree ``args``: inside a trace, where it
    does not run but becomes part of a graph, if a symbol is among the arguments or one of the
    functions meets one."""
    if in_graph(*pytree.flatten(args)[0]):
        return trace_at_once(run)
    written = write_first(run, *fns)
    return run() if written is None else written[0]


def in_graph(*values: Any) -> bool:
    """Whether a function called on ``values`` becomes part of a graph: inside a trace, and where
    one of them is a symbol or an unknown size."""
    return tracing_state.active or symbolic(*values)


def refuse_late(what: str, fn: str) -> NoReturn:
    """Refuse a function that met a symbol as it ran on tensors."""
    raise SymbolicError(
        f"{what}: {fn} met a symbol as it ran on tensors; what is part of a graph is traced and "
        "does not run, so a symbol must be known before the first iteration: give it to the loop "
        f"(in the carry, the xs or the operands), or name it in {fn} itself, "
        f"at {format_locs(here())}"
    )


def _uses_symbols(tree: Any) -> bool:
    """Whether a result depends on an input or an unknown size, and not on tensors alone."""
    roots = [x.node for x in pytree.flatten(tree)[0] if isinstance(x, Symbol)]
    return any(map(_is_open, toposort(roots)))


def _is_open(node: Node) -> bool:
    if node.op is param and node.attrs["source"] is None:
        return True
    if isinstance(node.attrs.get("size"), Dim):
        return True
    return any(symbols_of(d) for t in types_of(node.type) for d in t.shape)
