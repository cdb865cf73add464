"""Branches: one of two functions, chosen as the program runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from staticflow import pytree
from staticflow.errors import SymbolicError
from staticflow.graph.locs import format_locs, here
from staticflow.ops.loops.branches import Branches
from staticflow.ops.loops.carry import check_flag
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.loops.meets_symbol import in_graph, write_first
from staticflow.ops.loops.region import trace_at_once
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["cond"]


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any
) -> Any:
    """``true_fn(*operands)`` if ``pred``, a bool of no dims, is true, else ``false_fn(*operands)``.

    Both give the same structure, shapes and dtypes; a number is a tensor of no dims, in the dtype
    of what the other function gives in its place. On symbols this is a branch of the graph: only
    the chosen one runs, forward and backward, and either may use any outer value. On tensors the
    chosen function is called now. The other one is traced where its kinds of arguments were not
    met before, to hold it to the same result, and has no effect; a function that asks for values
    of tensors cannot be traced and is not held to it. What a function hands on is copied. For a
    Python bool the function is called, as in a Python ``if``.

    >>> import staticflow as sf
    >>> sf.cond(sf.tensor(True), lambda x: x + 1, lambda x: x - 1, sf.tensor(2.0))
    tensor(3.)
    """
    check_flag("cond: the condition", pred)
    for name, fn in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(fn):
            raise SymbolicError(
                f"cond: chooses between functions, as in cond(pred, lambda: x, lambda: -x), and "
                f"{name} is of type {type(fn).__name__}; sf.where chooses between values, at "
                f"{format_locs(here())}"
            )
    branches = Branches("cond", ("true_fn", "false_fn"), (true_fn, false_fn), operands)
    if isinstance(pred, bool):
        return branches.call_alone(0 if pred else 1)

    def write() -> Any:
        flag = Symbol(to_node(pred))
        return branches.write(
            lambda graphs, given: cond_op(flag, *given, true=graphs[0], false=graphs[1])
        )

    if in_graph(pred, *(pytree.flatten(operands)[0] if operands else ())):
        return trace_at_once(write)
    written = write_first(write, true_fn, false_fn)
    return branches.run(0 if pred else 1) if written is None else written[0]
