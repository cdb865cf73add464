"""From a graph to native code: optimised, assembled, planned, compiled, or found on disk."""

from __future__ import annotations

import functools
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from staticflow.codegen.llvm.probes import Probes
from staticflow.codegen.llvm.subnormals import FLUSH_MODES
from staticflow.codegen.program.assemble import Wanted, assemble
from staticflow.codegen.program.donations import find_donations
from staticflow.codegen.program.routine import Routine
from staticflow.codegen.program.update_order import root_of
from staticflow.codegen.verify import verify_kernel
from staticflow.config import config
from staticflow.errors import CompileError, ShapeError, VerifyError
from staticflow.graph.dim_queries import as_symbol, symbols_of
from staticflow.graph.dims import Dim, Size, Sym, fresh_sym
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import Graph, bound_symbols, free_symbols, regions_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node, constant
from staticflow.passes.cluster import cluster
from staticflow.passes.pipeline import optimize
from staticflow.runtime.code_cache import code_cache
from staticflow.runtime.draft import Draft, ParamSpec, Signature
from staticflow.runtime.executable import Executable, unbound_sizes
from staticflow.runtime.object_layout import BoxType
from staticflow.runtime.plan import plan_memory
from staticflow.runtime.program_cache import find_program, store_program
from staticflow.runtime.program_code import ProgramCode, generate, render_draft
from staticflow.runtime.recipe import Recipe, identify

__all__ = ["build", "compile_draft", "draft_program", "lay_out"]


def build(recipe: Recipe, box: BoxType | None) -> Executable:
    """Compile a program, or find what another process has compiled: then no pass runs and no text
    is made before somebody asks for them. ``box`` describes the class of its variables.

    Raises `CompileError` where subnormal numbers are to be flushed on a machine of which it is not
    known how. With ``STATICFLOW_VERIFY`` what would be found is compiled, too, and it is a
    `VerifyError` if it differs.
    """
    began = time.perf_counter()
    draft = functools.cache(functools.partial(draft_program, recipe))
    text = functools.cache(lambda: render_draft(draft(), recipe.keeps_arena))
    cache = code_cache()
    key = identify(recipe) if cache is not None and box is not None and _may_keep(recipe) else None
    found = None if cache is None or key is None else find_program(cache, key)
    variables = [p.attrs["source"] for p in recipe.graph.params[len(recipe.names) :]]
    if found is not None and not config.verify:
        return Executable(found, draft, text, variables, box, (began, began))
    has_entry = box is not None and config.fast_call and not draft().signature.donated
    text()
    generated = time.perf_counter()
    code = generate(draft(), text(), has_entry)
    if found is not None:
        _verify_found(found, code)
    elif cache is not None and key is not None:
        store_program(cache, key, code)
    return Executable(code, draft, text, variables, box, (draft().optimised, generated))


def _may_keep(recipe: Recipe) -> bool:
    """Whether nothing but the machine code of a program is asked for."""
    wants_stages = config.poison or config.debug or config.dump
    return config.fast_call and not wants_stages and not recipe.donated


def _verify_found(found: ProgramCode, code: ProgramCode) -> None:
    if replace(found, entry=None) != replace(code, entry=None) or (
        found.entry and code.entry and found.entry.object.key != code.entry.object.key
    ):
        raise VerifyError(
            "the cache of machine code has another program for this graph than is compiled of it "
            f"now, at {format_locs(here())}; report this as a fault, please"
        )


def compile_draft(
    draft: Draft,
    variables: Sequence[object] = (),
    box: BoxType | None = None,
    probes: Probes | None = None,
) -> Executable:
    """A program of a draft that another one was made of, for its own ``variables``; with ``probes``
    its code reads a clock around each step."""
    text = render_draft(draft, probes=probes)
    has_entry = box is not None and config.fast_call
    code = generate(draft, text, has_entry, probes is not None)
    return Executable(code, lambda: draft, lambda: text, variables, box)


def draft_program(recipe: Recipe) -> Draft:
    """Optimise the graph, make its routine, and plan its memory."""
    graph, passes = optimize(recipe.graph, recipe.numerics, recipe.passes)
    optimised = time.perf_counter()
    program, signature = lay_out(recipe, graph)
    if recipe.flushes:
        program = replace(program, flushes=_machine_that_flushes())
    if config.verify:
        for kernel in program.kernels:
            verify_kernel(kernel)
    plan = plan_memory(program, _origins(signature))
    return Draft(graph, passes, program, plan, signature, optimised)


def _machine_that_flushes() -> str:
    machine = platform.machine()
    if machine not in FLUSH_MODES:
        raise CompileError(
            f"compile: flush_subnormals: it is not known how {machine} is told so; it is for "
            f"{', '.join(FLUSH_MODES)}, at {format_locs(here())}"
        )
    return machine


def lay_out(recipe: Recipe, graph: Graph) -> tuple[Routine, Signature]:
    """The routine of ``graph``, that of a recipe behind all passes, and what a call hands over."""
    names, updated, n_out = recipe.names, recipe.updated, recipe.n_out
    graph, given = _with_given_sizes(graph)
    sources = [p.attrs["source"] for p in graph.params]
    changes = {id(t) for t in updated}
    variables = {id(p.attrs["source"]): p for p in reversed(graph.params)}
    news = [
        (root_of(node), variables[id(t)])
        for t, node in zip(updated, graph.outputs[n_out:], strict=True)
    ]
    over = find_donations(graph, [graph.params[i] for i in sorted(recipe.donated)], n_out, news)
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
    return assemble(graph, slots, wanted, sizes, recipe.target), signature


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
