"""A graph that captures nothing, run by the eager mode op by op, and traced by `jit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import staticflow as sf
from staticflow import pytree
from staticflow.graph.binding import Sizes, bind_arguments, check_equalities
from staticflow.graph.dim_queries import as_symbol, substitute_dim
from staticflow.graph.dims import Size, Sym, fresh_sym
from staticflow.graph.graph import Graph, _with_sizes, bound_symbols, map_attrs
from staticflow.graph.node import Node, constant, item, toposort
from staticflow.graph.types import types_of
from staticflow.ops.basics.view import of_size
from staticflow.ops.loops.cond_op import cond_op
from staticflow.ops.loops.loop import Loop, loop_ops
from staticflow.ops.symbols.symbol import Symbol, to_node

__all__ = ["jitted", "run_eagerly", "with_own_sizes"]

Derive = Callable[[Sequence[Any], Sequence[Any]], list[Any]]
"""The gradients of outputs by leaves, in the mode that these have."""


# -- eagerly -------------------------------------------------------------------------------------


def run_eagerly(graph: Graph, arrays: Sequence[Any], derive: Derive) -> list[Any]:
    """The outputs of ``graph`` and what ``derive`` makes of them."""
    leaves = [sf.from_numpy(np.asarray(a)) for a in arrays]
    for leaf in leaves:
        if leaf.dtype.is_floating:
            leaf.requires_grad_()
    sizes = Sizes()
    bind_arguments(
        [p.attrs["name"] for p in graph.params],
        [p.tensor_type for p in graph.params],
        arrays,
        sizes,
    )
    outputs = _run(graph, leaves, sizes)
    found = [*outputs, *derive(outputs, leaves)]
    return [t.detach().numpy() for t in found]


def _run(graph: Graph, given: Sequence[Any], sizes: Sizes) -> list[Any]:
    for p, t in zip(graph.params, given, strict=True):
        sizes.bind(
            p.tensor_type, t.numpy() if not t.requires_grad else t.detach().numpy(), "a value"
        )
    unchecked = check_equalities(graph.equalities, sizes)
    values: dict[Node, Any] = dict(zip(graph.params, given, strict=True))
    for node in graph.nodes[len(graph.params) :]:
        args = [values[a] for a in node.args]
        values[node] = _apply(node, args, given, sizes)
        if node.op is not item:
            results = values[node] if isinstance(node.type, tuple) else (values[node],)
            for kind, t in zip(types_of(node.type), results, strict=True):
                sizes.bind(kind, t.detach().numpy(), node.op.name)
        if unchecked:
            unchecked = check_equalities(unchecked, sizes)
    return [values[o] for o in graph.outputs]


def _apply(node: Node, args: Sequence[Any], beside: Sequence[Any], sizes: Sizes) -> Any:
    if node.op is item:
        return args[0][node.attrs["index"]]
    if node.op is constant:
        return sf.from_numpy(node.attrs["value"].array.copy())
    if node.op in loop_ops():
        return _loop(Loop.of(node), args, sizes)
    if node.op is cond_op:
        pred, *rest = args
        branch = node.attrs["true" if pred.item() else "false"]
        return tuple(_run(branch, rest, Sizes(sizes)))
    attrs = map_attrs(node.attrs, sizes.number, lambda graph: graph)
    return node.op(*args, **attrs) if args else node.op.beside(beside[0], **attrs)


def _loop(loop: Loop, args: Sequence[Any], sizes: Sizes) -> tuple[Any, ...]:
    carries, xs, captured = loop.operands(args)
    length = None if loop.length is None else sizes.number(loop.length)
    rows: list[Sequence[Any]] = []
    done = 0
    while done != length and (not loop.binds or carries[0].item()):
        at = length - 1 - done if loop.reverse and length is not None else done
        outputs = _run(loop.body, [*carries, *(x[at] for x in xs), *captured], Sizes(sizes))
        carries, ys = loop.results(outputs)
        rows.append(ys)
        done += 1
    if loop.reverse:
        rows.reverse()
    kinds = [o.tensor_type for o in loop.body.outputs[loop.carries :]]
    inner = Sizes(sizes)
    stacked = [
        sf.stack([row[i] for row in rows]) if rows
        else sf.zeros((0, *map(inner.number, kind.shape)), dtype=kind.dtype)
        for i, kind in enumerate(kinds)
    ]  # fmt: skip
    return (*carries, *stacked)


# -- by jit --------------------------------------------------------------------------------------


def jitted(graph: Graph, derive: Derive) -> Callable[[Sequence[Any]], list[Any]]:
    """What calls the graph as a jitted function, of open sizes that it assumes to be its own."""

    @sf.jit
    def traced(*args: Any) -> list[Any]:
        outputs, leaves = _retype(graph, args)
        return [*outputs, *derive(outputs, leaves)]

    return lambda arrays: [
        t.detach().numpy() for t in pytree.flatten(traced(*map(sf.from_numpy, arrays)))[0]
    ]


def _retype(graph: Graph, args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The outputs of the graph on symbols of other sizes, which are assumed to be what its params
    say; and the params, as far as it reads them."""
    values: dict[Sym, Size] = {}
    for p, x in zip(graph.params, args, strict=True):
        for own, size in zip(p.tensor_type.shape, x.__sf_shape__, strict=True):
            symbol = as_symbol(own)
            if symbol is not None:
                values.setdefault(symbol, size)
    for late in (s for n in graph.nodes for s in bound_symbols(n) if s.upper is not None):
        upper = substitute_dim(late.upper, values)
        values[late] = fresh_sym(late.name, upper, late=True)
    params, outputs = _with_sizes(graph.params, graph.outputs, values)
    leaves = []
    for p, x in zip(graph.params, args, strict=True):
        for dim, own in enumerate(p.tensor_type.shape):
            x = of_size(x, dim, substitute_dim(own, values))
        leaves.append(x)
    own = {p: to_node(x) for p, x in zip(params, leaves, strict=True)}
    for node in toposort(outputs):
        if node not in own:
            attrs = map_attrs(node.attrs, lambda d: d, partial(_redeclare, values=values))
            own[node] = Node(node.op, tuple(own[a] for a in node.args), attrs, node.type, node.locs)
    return [Symbol(own[n]) for n in outputs], leaves


def with_own_sizes(graph: Graph) -> Graph:
    """A graph that says of its params, and of those of its regions, no other types than they have:
    what is traced again from its outputs has no equality that leads to others."""
    told = zip(graph.declared, graph.params, strict=True) if graph.declared else ()
    dims = (pair for t, p in told for pair in zip(t.shape, p.tensor_type.shape, strict=True))
    return _redeclare(graph, {s: own for d, own in dims if (s := as_symbol(d)) and d != own})


def _redeclare(region: Graph, values: Mapping[Sym, Size]) -> Graph:
    """A region whose sizes were replaced, of which nothing says the old ones."""
    equalities = tuple(
        replace(e, a=substitute_dim(e.a, values), b=substitute_dim(e.b, values))
        for e in region.equalities
    )
    own: dict[Node, Node] = {p: p for p in region.params}
    for node in toposort(region.outputs, known=region.params):
        attrs = map_attrs(node.attrs, lambda d: d, partial(_redeclare, values=values))
        own[node] = Node(node.op, tuple(own[a] for a in node.args), attrs, node.type, node.locs)
    return Graph(region.params, tuple(own[o] for o in region.outputs), equalities, ())
