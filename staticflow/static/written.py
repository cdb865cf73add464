"""What a program is made of: a closed graph, and what its params and outputs are to a caller."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from staticflow import pytree
from staticflow.data_classes import dataclass
from staticflow.eager.tensor import Tensor
from staticflow.graph.doubtful_sizes import checks_divisor, compared_quotients, doubtful_sizes
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import Graph, close
from staticflow.graph.node import Node, toposort
from staticflow.ops.symbols.calls import ModuleCall, calls_of
from staticflow.ops.symbols.effect import settle
from staticflow.ops.symbols.symbol import to_node
from staticflow.static.donation import read_donate
from staticflow.static.given import (
    add_effects,
    assume_fits,
    captured_params,
    name_inputs,
    new_value,
    pair_updates,
    refuse_shared_elements,
)
from staticflow.static.inputs import refuse_strange_sizes

if TYPE_CHECKING:
    from staticflow.passes.partition.moves import Moved

__all__ = ["Written", "with_checked_sizes", "write"]


@dataclass(frozen=True, slots=True)
class Written:
    """A ``graph`` that takes inputs of these ``names`` and then ``variables``, and gives outputs in
    a ``structure`` and then the new values of what is ``updated``.

    The inputs of the numbers ``donated`` are given away at each call. ``calls`` are those of the
    modules that it was written by. A program that ``follows`` asks whether these and the variables
    are as they were; the way back of a call does not, since what was so then is so for it. It took
    ``seconds`` to close the graph. ``labels`` are what a file calls the variables. ``moved`` is
    what a program of a mesh sends since it is split otherwise than it is wanted."""

    graph: Graph
    names: tuple[str, ...]
    variables: tuple[Tensor, ...]
    updated: tuple[Tensor, ...]
    structure: pytree.TreeDef
    donated: frozenset[int] = frozenset()
    calls: Sequence[ModuleCall] = ()
    follows: bool = True
    seconds: float = 0.0
    labels: tuple[str, ...] = ()
    moved: tuple[Moved, ...] = ()


def with_checked_sizes(graph: Graph) -> Graph:
    """The graph, which holds that no size in it is negative, and that none divides by 0, where that
    is not proved: ``n - m`` or ``n // m`` of two inputs, for one. It is checked as they come; of a
    loop or branch it is checked as that runs."""
    found = [*doubtful_sizes(graph.nodes, graph.equalities)]
    found += compared_quotients(graph.equalities)
    divisors = [e for e in found if checks_divisor(e)]  # before whatever compares a quotient
    others = [e for e in found if not checks_divisor(e)]
    return replace(graph, equalities=(*divisors, *graph.equalities, *others)) if found else graph


def write(
    inputs: Any,
    outputs: Any,
    updates: Any = None,
    donate: Any = None,
    left: Sequence[Node] = (),
    follows: bool = True,
    sizes: Sequence[Equality] = (),
) -> Written:
    """What `compile` is given, as one closed graph. ``left`` are marks of effects that happen
    though nothing depends on them, ``sizes`` what holds of the sizes beside what the operations
    need. Raises `SymbolicError` and `ShapeError` for what is wrong with these."""
    began = time.perf_counter()
    names, handles = name_inputs(inputs)
    leaves, structure = pytree.flatten(outputs)
    pairs = pair_updates(updates)
    n_out = len(leaves)
    values = [*(to_node(v) for v in leaves), *(new_value(t, v) for t, v in pairs), *left]
    nodes, changed = settle(values)
    nodes = nodes[: n_out + len(pairs)]
    pairs = add_effects(pairs, changed)
    out_nodes, new_nodes = nodes[:n_out], [*nodes[n_out:], *changed.values()]
    equalities = [*sizes]
    for (t, _), node in zip(pairs, new_nodes, strict=True):
        equalities += assume_fits(t, node)
    in_nodes = [h.node for h in handles]
    donated = read_donate(donate, names, in_nodes)
    updated = tuple(t for t, _ in pairs)
    refuse_shared_elements(updated)
    variables = captured_params(in_nodes, [*out_nodes, *new_nodes], updated)
    graph = close([*in_nodes, *variables], [*out_nodes, *new_nodes], equalities)
    refuse_strange_sizes(graph)
    graph = with_checked_sizes(graph)
    return Written(
        graph,
        names,
        tuple(n.attrs["source"] for n in variables),
        updated,
        structure,
        donated,
        calls_of(toposort(values)) if follows else (),
        follows,
        time.perf_counter() - began,
    )
