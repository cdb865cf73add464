"""From a recipe to machine code: optimised, assembled, planned, written as text, compiled. Nothing
of it is imported before something is compiled: programs that are found on disk need none of it."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow.codegen.kernel import Kernel
from staticflow.codegen.llvm.parallel import DECLARATIONS
from staticflow.codegen.llvm.probes import PROBED, Probes
from staticflow.codegen.llvm.render import called_in
from staticflow.codegen.llvm.routine import render_routine
from staticflow.codegen.llvm.subnormals import FLUSH_MODES
from staticflow.codegen.program.assemble import Wanted, assemble
from staticflow.codegen.program.donations import find_donations
from staticflow.codegen.program.joined_launches import join_launches
from staticflow.codegen.program.routine import Ask, Routine, walk_steps
from staticflow.codegen.program.update_order import root_of
from staticflow.codegen.verify import verify_kernel
from staticflow.config import config
from staticflow.errors import CompileError, ShapeError
from staticflow.graph.collector import take_for_old
from staticflow.graph.dim_queries import as_symbol, symbols_of
from staticflow.graph.dims import Size, Sym, fresh_sym, is_provably_ge
from staticflow.graph.equalities import Equality
from staticflow.graph.graph import Graph, bound_symbols, regions_of
from staticflow.graph.locs import format_locs, here
from staticflow.graph.node import Node, constant
from staticflow.graph.types import Shape, TensorType
from staticflow.ops.loops.budget import budgets_in
from staticflow.passes.cluster import cluster
from staticflow.passes.pipeline import optimize
from staticflow.runtime.aligned import ALIGNED_FROM, aligned_array_address
from staticflow.runtime.draft import Draft, ParamSpec, Signature
from staticflow.runtime.executable import Executable
from staticflow.runtime.fastcall import shared_code
from staticflow.runtime.fastcall_checks import UNKNOWN
from staticflow.runtime.fastcall_text import Entry, fits, numbers_of, render_entry
from staticflow.runtime.host import host_symbols
from staticflow.runtime.lending import lending_symbols
from staticflow.runtime.machine import host_target
from staticflow.runtime.native import ObjectCode, compile_objects
from staticflow.runtime.object_layout import BoxType
from staticflow.runtime.plan import plan_memory
from staticflow.runtime.poison import plan_poison
from staticflow.runtime.program_code import EntryCode, OutputFacts, ParamFacts, ProgramCode
from staticflow.runtime.recipe import Recipe
from staticflow.runtime.threads import pool_symbols

__all__ = [
    "compile_draft",
    "compiling_ahead",
    "draft_program",
    "generate",
    "lay_out",
    "render_draft",
    "unbound_sizes",
]

if TYPE_CHECKING:
    from staticflow.runtime.ahead import Ahead

Array = np.ndarray[Any, Any]


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


@contextmanager
def compiling_ahead(recipe: Recipe, is_new: bool) -> Iterator[list[Ahead]]:
    """What compiles kernels of a program while it is drafted; none of a program that is not new,
    where all kernels are to be looked at before, or changed together, and where they have to lie in
    one object file."""
    if not is_new or config.verify or recipe.flushes:
        yield []
        return
    from staticflow.runtime.ahead import Ahead  # and LLVM with it
    from staticflow.runtime.compiler import joins_objects

    if not joins_objects():
        yield []
        return
    ahead = Ahead(host_target())
    with ahead.compilation:
        yield [ahead]


def draft_program(recipe: Recipe, ahead: Ahead | None = None) -> Draft:
    """Optimise the graph, make its routine, and plan its memory. Kernels are compiled ``ahead`` if
    there is such."""
    graph, passes = optimize(recipe.graph, recipe.numerics, recipe.passes)
    optimised = time.perf_counter()
    program, signature = lay_out(recipe, graph, None if ahead is None else ahead.take)
    if recipe.flushes:
        program = replace(program, flushes=_machine_that_flushes())
    if recipe.target.teams and not any(budgets_in(recipe.graph)):  # which bounds what may wait
        program = join_launches(program)
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


def lay_out(
    recipe: Recipe, graph: Graph, told: Callable[[Kernel], None] | None = None
) -> tuple[Routine, Signature]:
    """The routine of ``graph``, that of a recipe behind all passes, and what a call hands over. Of
    each kernel is ``told`` when it is made."""
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
        declared = _with_sizes(own, p.tensor_type, given)
        name = names[i] if i < len(names) else p.attrs["name"]
        changed = id(sources[i]) in changes or p in given_away
        specs.append(ParamSpec(name, declared, changed))
    literals = list(dict.fromkeys(_literals(graph)))  # regions may share one
    slots = {n: i for i, n in enumerate([*graph.params, *literals])}
    first = len(slots)
    outputs = [o for i, o in enumerate(graph.outputs[:n_out]) if i not in over]
    wanted = [Wanted(o, first + i) for i, o in enumerate(outputs)]
    for t, node in zip(updated, graph.outputs[n_out:], strict=True):
        variable = variables[id(t)]
        wanted.append(Wanted(node, slots[variable], variable))
    wanted += [Wanted(graph.outputs[i], slots[p], p) for i, p in over.items()]
    every = (given.get(d, d) for p in graph.params for d in p.tensor_type.sizes)
    named = {symbol for size in every for symbol in symbols_of(size)}
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
    target = replace(recipe.target, shares=recipe.target.shares and not recipe.flushes)
    fast = recipe.numerics == "fast"
    return assemble(graph, slots, wanted, sizes, target, told, fast=fast), signature


def _origins(signature: Signature) -> dict[Sym, str]:
    """Where the unknown sizes of a call are found."""
    found: dict[Sym, str] = {}
    for p in signature.params:
        for axis, size in enumerate(p.type.shape):
            symbol = as_symbol(size)
            if symbol is not None:
                found.setdefault(symbol, f"the size of dim {axis} of {p.name}")
    return found


def _with_given_sizes(graph: Graph) -> tuple[Graph, dict[Size, Size]]:
    """What the caller is to give for sizes of params that follow from sizes that an op binds: sizes
    of their own, which the graph then holds to be equal to those. Sizes of one name, as those that
    values turn out to be, are told apart by numbers."""
    bound = frozenset[Sym]().union(*map(bound_symbols, graph.nodes))
    given: dict[Size, Size] = {}
    for size in (d for p in graph.params for d in p.tensor_type.sizes):
        late = sorted(symbols_of(size) & bound, key=Sym.sort_key)
        if late and size not in given:
            given[size] = fresh_sym(f"{late[0]}_given_{len(given)}")
    why = "the size that an array has and the one that the program finds"
    found = [Equality(own, size, why, here()) for size, own in given.items()]
    return (replace(graph, equalities=(*graph.equalities, *found)) if found else graph), given


def _with_sizes(declared: TensorType, type: TensorType, given: Mapping[Size, Size]) -> TensorType:
    """The ``declared`` type of a param with the sizes of an array that are ``given`` in place of
    its own: of those that it has in the graph, where one stands for all that are equal."""

    def put_in(sizes: Shape, own: Shape) -> Shape:
        return tuple(given.get(d, given.get(n, n)) for d, n in zip(own, sizes, strict=True))

    strides = declared.strides
    if strides is not None and type.strides is not None:
        strides = put_in(strides, type.strides)
    return TensorType(declared.dtype, put_in(declared.shape, type.shape), strides)


def _literals(graph: Graph) -> Iterator[Node]:
    """The constants that stand in memory: those of the graph and of its loops, not of kernels."""
    for node in graph.nodes:
        if node.op is constant:
            yield node
        elif node.op is not cluster:
            for region in regions_of(node):
                yield from _literals(region)


# -- text and code -------------------------------------------------------------------------------


def render_draft(
    draft: Draft,
    keeps_arena: bool = True,
    probes: Probes | None = None,
    ahead: Ahead | None = None,
) -> str:
    """The LLVM text of a program, of which kernels may be written ``ahead``."""
    params, constants = draft.signature.params, draft.signature.constants
    types = [p.type for p in params]
    table = [*map(_bytes, types), *map(_bytes, constants), *map(_bytes, draft.signature.outputs)]
    updated = [i for i, p in enumerate(params) if p.updated]
    poison = plan_poison(draft.plan, draft.signature.outputs) if config.poison else None
    return render_routine(
        draft.routine, draft.plan.layout, table, updated, keeps_arena, host_target(), probes,
        poison, None if ahead is None else ahead.texts,
    )  # fmt: skip


def generate(
    draft: Draft,
    text: str,
    has_entry: bool,
    has_probes: bool = False,
    ahead: Ahead | None = None,
) -> ProgramCode:
    """The code of a program whose LLVM text is ``text``, with a native entry if that is wanted and
    the program small enough for one. Both are compiled at the same time, but for what is compiled
    ``ahead``; meanwhile this thread makes what all programs are linked with, if that is not
    there."""
    routine = draft.routine
    exports = ["run"]
    exports += ["release"] if routine.growing else []
    exports += ["iterations"] if routine.loops else []
    exports += ["room"] if routine.growing else []
    exports += PROBED if has_probes else []
    entry = _entry_of(draft) if has_entry else None

    def prepare() -> None:
        host_symbols()
        if routine.buffers and not routine.growing:
            lending_symbols()
        if DECLARATIONS in text:
            pool_symbols()
        if called:
            from staticflow.runtime.shared_kernels import shared_symbols

            shared_symbols(called)
        if entry is not None:
            shared_code()
            if any(map(_may_be_large, entry.outputs)):
                aligned_array_address()

    called = called_in(text)
    texts = [(text, False)]
    texts += [] if entry is None else [(render_entry(entry), True)]
    code, *of_entry = compile_objects(texts, ahead, prepare)
    return ProgramCode(
        code,
        tuple(exports),
        DECLARATIONS in text,
        called,
        len(routine.kernels),
        bool(routine.buffers),
        len(routine.growing),
        sum(isinstance(s, Ask) for s in walk_steps(routine.steps)),
        None if entry is None else _entry_code(entry, draft.signature, *of_entry),
    )


def _entry_of(draft: Draft) -> Entry | None:
    """The native entry of a program; None of one that is too large."""
    signature = draft.signature
    entry = Entry(
        draft.routine,
        tuple(p.type for p in signature.params),
        tuple(c.nbytes for c in signature.constants),
        signature.outputs,
        tuple(e for e in signature.equalities if _is_known(e, signature)),
        (draft.plan.layout.most,),
    )
    return entry if fits(entry) else None


def _entry_code(entry: Entry, signature: Signature, code: ObjectCode) -> EntryCode:
    numbers = numbers_of(entry)
    params = tuple(
        ParamFacts(
            p.type.dtype,
            tuple(s if isinstance(s, int) else UNKNOWN for s in p.type.shape),
            p.type.strides is None,
            p.updated,
        )
        for p in signature.params
    )
    outputs = tuple(
        OutputFacts(t.dtype, at, t.ndim, entry.is_late(t), _may_be_large(t))
        for t, at in zip(signature.outputs, numbers.outputs, strict=True)
    )
    return EntryCode(code, params, outputs, signature.constants, numbers.count, numbers.traffic)


def _is_known(equality: Equality, signature: Signature) -> bool:
    """Whether a call can tell the sizes of an equality; the others are checked on the way."""
    given = {s for p in signature.params for d in p.type.sizes for s in symbols_of(d)}
    return symbols_of(equality.a) | symbols_of(equality.b) <= given


def _may_be_large(t: TensorType) -> bool:
    return not is_provably_ge(ALIGNED_FROM - 1, _bytes(t))


def _bytes(array: TensorType | Array) -> Size:
    return array.nbytes if isinstance(array, np.ndarray) else array.size * array.dtype.itemsize


def unbound_sizes(signature: Signature, sizes: Mapping[Sym, object] | Sequence[Sym]) -> list[Sym]:
    """The sizes that no param has as a dim of its own, so that a call cannot tell them."""
    bound = {s for p in signature.params for d in p.type.sizes if (s := as_symbol(d)) is not None}
    return [s for s in sizes if s not in bound]


take_for_old()  # what was imported, which nobody looks through then as the first program is made
