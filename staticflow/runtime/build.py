"""From a fused graph to native code: assembled, planned, compiled."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from staticflow.codegen.llvm.subnormals import FLUSH_MODES
from staticflow.codegen.program.assemble import Wanted, assemble
from staticflow.codegen.program.donations import find_donations
from staticflow.codegen.program.routine import Routine
from staticflow.codegen.program.update_order import root_of
from staticflow.codegen.verify import verify_kernel
from staticflow.config import config
from staticflow.errors import CompileError, ShapeError
from staticflow.graph.dim_queries import as_symbol, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, fresh_sym
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import Graph, bound_symbols, free_symbols, regions_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node, constant
from staticflow.passes.cluster import cluster
from staticflow.runtime.executable import Executable, ParamSpec, Signature, unbound_sizes
from staticflow.runtime.native import host_target
from staticflow.runtime.object_layout import BoxType
from staticflow.runtime.plan import plan_memory
from staticflow.runtime.threads import most_workers

__all__ = ["build", "lay_out"]


def build(
    graph: Graph,
    names: Sequence[str],
    updated: Sequence[object],
    n_out: int,
    box: BoxType | None,
    keeps_arena: bool = True,
    donated: Collection[int] = (),
    flushes: bool = False,
) -> Executable:
    """Assemble, plan and compile a fused graph whose last outputs are the updates.

    The params that have no entry in ``names`` are variables, boxes of the class that ``box``
    describes; ``updated`` are those that the last outputs are new values of. The memory of
    intermediate values is freed after each run unless the program ``keeps_arena``. The inputs of
    the numbers ``donated`` may have results in their memory. Raises `CompileError` where subnormal
    numbers are to be flushed (``flushes``) on a machine of which it is not known how.
    """
    program, signature = lay_out(graph, names, updated, n_out, donated)
    if flushes:
        program = replace(program, flushes=_machine_that_flushes())
    if config.verify:
        for kernel in program.kernels:
            verify_kernel(kernel)
    return Executable(
        program,
        plan_memory(program, _origins(signature)),
        signature,
        [p.attrs["source"] for p in graph.params[len(names) :]],
        None if signature.donated else box,
        keeps_arena,
    )


def _machine_that_flushes() -> str:
    machine = platform.machine()
    if machine not in FLUSH_MODES:
        raise CompileError(
            f"compile: flush_subnormals: it is not known how {machine} is told so; it is for "
            f"{', '.join(FLUSH_MODES)}, at {format_locs(here())}"
        )
    return machine


def lay_out(
    graph: Graph,
    names: Sequence[str],
    updated: Sequence[object],
    n_out: int,
    donated: Collection[int] = (),
) -> tuple[Routine, Signature]:
    """The routine of a fused graph, as `build` compiles it, and what a call hands over."""
    graph, given = _with_given_sizes(graph)
    sources = [p.attrs["source"] for p in graph.params]
    changes = {id(t) for t in updated}
    variables = {id(p.attrs["source"]): p for p in reversed(graph.params)}
    news = [
        (root_of(node), variables[id(t)])
        for t, node in zip(updated, graph.outputs[n_out:], strict=True)
    ]
    over = find_donations(graph, [graph.params[i] for i in sorted(donated)], n_out, news)
    given_away = set(over.values())
    specs = []
    for i, (p, own) in enumerate(zip(graph.params, graph.declared, strict=True)):
        declared = own.substitute(given)
        name = names[i] if i < len(names) else p.attrs["name"]
        changed = id(sources[i]) in changes or p in given_away
        specs.append(ParamSpec(name, declared, changed))
    literals = list(_literals(graph))
    slots = {n: i for i, n in enumerate([*graph.params, *literals])}
    first = len(slots)
    outputs = [o for i, o in enumerate(graph.outputs[:n_out]) if i not in over]
    wanted = [Wanted(o, first + i) for i, o in enumerate(outputs)]
    for t, node in zip(updated, graph.outputs[n_out:], strict=True):
        variable = variables[id(t)]
        wanted.append(Wanted(node, slots[variable], variable))
    wanted += [Wanted(graph.outputs[i], slots[p], p) for i, p in over.items()]
    named = {symbol for s in free_symbols(graph) for symbol in symbols_of(given.get(s, Dim.of(s)))}
    sizes: tuple[Sym, ...] = tuple(sorted(named, key=lambda s: (s.name, s.serial)))
    if len({s.name for s in sizes}) != len(sizes):
        raise ShapeError(
            f"compile: two different sizes share a name among {', '.join(map(str, sizes))}; rename "
            f"one of the placeholders, at {format_locs(here())}"
        )
    signature = Signature(
        tuple(specs),
        tuple(np.ascontiguousarray(n.attrs["value"].array) for n in literals),
        tuple(o.tensor_type for o in outputs),
        graph.equalities,
        tuple((i, graph.params.index(p)) for i, p in over.items()),
    )
    missing = unbound_sizes(signature, sizes)
    if missing:
        raise ShapeError(
            f"compile: no input has {missing[0]} as a dim of its own, so a call cannot tell it; "
            f"add a placeholder that has, at {format_locs(here())}"
        )
    target = replace(host_target(), workers=most_workers())
    return assemble(graph, slots, wanted, sizes, target), signature


def _origins(signature: Signature) -> dict[Sym, str]:
    """Where the unknown sizes of a call are found."""
    found: dict[Sym, str] = {}
    for p in signature.params:
        for axis, size in enumerate(p.type.shape):
            symbol = as_symbol(size)
            if symbol is not None:
                found.setdefault(symbol, f"the size of dim {axis} of {p.name}")
    return found


def _with_given_sizes(graph: Graph) -> tuple[Graph, dict[Sym, Size]]:
    """What the caller is to give for sizes that an op binds, where params name such: sizes of their
    own, which the graph then holds to be equal to those."""
    bound = frozenset[Sym]().union(*map(bound_symbols, graph.nodes))
    given: dict[Sym, Size] = {
        s: fresh_sym(f"{s}_given") for s in sorted(free_symbols(graph) & bound, key=Sym.sort_key)
    }
    why = "the size that an array has and the one that the program finds"
    found = [Equality(size, Dim.of(s), why, here()) for s, size in given.items()]
    return (replace(graph, equalities=(*graph.equalities, *found)) if found else graph), given


def _literals(graph: Graph) -> Iterator[Node]:
    """The constants that stand in memory: those of the graph and of its loops, not of kernels."""
    for node in graph.nodes:
        if node.op is constant:
            yield node
        elif node.op is not cluster:
            for region in regions_of(node):
                yield from _literals(region)
