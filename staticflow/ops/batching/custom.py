"""Rules of values with a derivative of the user's own, and of hooks: what they do to the gradient
of a row is done to those of all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from staticflow.graph.graph import Graph, close, new_param
from staticflow.graph.types import TensorType
from staticflow.ops.basics.arithmetic import stop_gradient
from staticflow.ops.basics.creation import zeros_like
from staticflow.ops.batching.row import Row, Value, stretch
from staticflow.ops.declaring.tracing import tracing
from staticflow.ops.symbols.symbol import Symbol, to_node
from staticflow.ops.symbols.watching import watch_op

__all__ = ["custom_rule", "watch_rule"]


def custom_rule(row: Row) -> Any:
    """A graph has a backward of all rows; the tape runs that of a row on all of them."""
    args, attrs = row.wholes, row.attrs
    if not row.walk.is_eager:
        return row.op(*args, **attrs | {"backward": _for_all(row, attrs["backward"])})
    backward, count = attrs["backward"], attrs["results"]
    last = count + len(backward.outputs)
    ys, xs, captured = args[:count], args[count:last], args[last:]
    results: list[Any] = []  # of which the backward may take some

    def pull(cts: Sequence[Any]) -> list[Any]:
        seeds = [zeros_like(y) if ct is None else ct for ct, y in zip(cts, ys, strict=False)]
        given = (*seeds, *(results[j] for j in attrs["own"]), *captured)
        found = row.walk.run(backward, [Value(v, True) for v in given])
        return [*(None for _ in ys), *(stretch(v, row.size) for v in found)]

    results += watch_op(*map(stop_gradient, ys), *xs, watcher=pull)[:count]
    return tuple(results)


def _for_all(row: Row, graph: Graph) -> Graph:
    """The region of a row as one of all rows."""
    params = [
        new_param(TensorType(t.dtype, (row.size, *t.shape)), p.attrs["name"], locs=p.locs)
        for p in graph.params
        for t in (p.tensor_type,)
    ]
    with tracing():
        found = row.walk.run(graph, [Value(Symbol(p), True) for p in params])
        outputs = [to_node(stretch(v, row.size)) for v in found]
    return close(params, outputs)


def watch_rule(row: Row) -> Any:
    """A hook is called on the gradient of a row, a symbol."""
    watcher: Callable[..., Any] = row.attrs["watcher"]
    types = [a.tensor_type for a in row.node.args]

    def watch(cts: Sequence[Any]) -> list[Any]:
        own = [None if ct is None else new_param(t, "ct") for ct, t in zip(cts, types, strict=True)]
        with tracing():
            made = watcher([None if p is None else Symbol(p) for p in own])
        values = {p: Value(ct, True) for p, ct in zip(own, cts, strict=True) if p is not None}
        nodes = [to_node(m) for m in made if m is not None]
        found = iter(row.walk.outputs(nodes, values))
        return [None if m is None else stretch(next(found), row.size) for m in made]

    return watch_op(*row.wholes, watcher=watch)
