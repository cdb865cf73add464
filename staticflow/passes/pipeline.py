"""The passes in their order, which of them run, and the report of what each did."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from staticflow.config import config
from staticflow.errors import ArgumentError
from staticflow.graph.graph import Graph
from staticflow.graph.locs import format_locs, here
from staticflow.graph.verify import verify_graph
from staticflow.ops.declaring.thread import recording
from staticflow.ops.symbols.stable_forms import STABLE_FORMS
from staticflow.passes.attention import attention, write_attention
from staticflow.passes.copy_strided import copy_strided
from staticflow.passes.cut_views import cut_views
from staticflow.passes.decompose import decompose
from staticflow.passes.factor_products import factor_products
from staticflow.passes.first_of_sorted import first_of_sorted
from staticflow.passes.fold import fold_constants
from staticflow.passes.fuse import fuse, separate
from staticflow.passes.join import join
from staticflow.passes.loops.batch_products import batch_products
from staticflow.passes.loops.count_iterations import count_iterations
from staticflow.passes.loops.decide import decide
from staticflow.passes.loops.first_rows import first_rows
from staticflow.passes.loops.hoist import hoist
from staticflow.passes.loops.last_rows import last_rows
from staticflow.passes.loops.merge import merge
from staticflow.passes.loops.pair_scans import pair_scans
from staticflow.passes.loops.prune import prune_loops
from staticflow.passes.loops.scalar import scalar_loops
from staticflow.passes.loops.share_products import share_products
from staticflow.passes.loops.unroll import unroll
from staticflow.passes.loops.unswitch import unswitch
from staticflow.passes.narrow_products import narrow_products
from staticflow.passes.order_products import order_products
from staticflow.passes.rewrite import Counts, Pass, each_region, rewrite
from staticflow.passes.row_blocks import row_blocks
from staticflow.passes.rules import CANONICAL, FAST, PARTS, REORDER
from staticflow.passes.solve_inverses import solve_inverses
from staticflow.passes.transpose import transpose_products

if TYPE_CHECKING:
    from staticflow.passes.dump import Dump

__all__ = [
    "AS_WRITTEN", "INTO_KERNELS", "NUMERICS", "ONCE", "ORDER", "PASSES", "REORDERING", "SIMPLIFY",
    "STABILIZING", "WITH_ATTENTION", "Before", "PassReport", "are_known_passes", "arrange_passes",
    "check_numerics", "choose_passes", "is_allowed", "least_numerics", "optimize", "passes_for",
]  # fmt: skip


def stabilize(graph: Graph, counts: Counts) -> Graph:
    """Rewrite what overflows or rounds badly into what does not."""
    return rewrite(graph, STABLE_FORMS, counts)


def stabilize_parts(graph: Graph, counts: Counts) -> Graph:
    """Rewrite what rounds badly among the parts that ops are made of."""
    return rewrite(graph, PARTS, counts)


def canonicalize(graph: Graph, counts: Counts) -> Graph:
    """Rewrite to simpler forms, results unchanged to the last bit or better."""
    return rewrite(graph, CANONICAL, counts)


def reorder(graph: Graph, counts: Counts) -> Graph:
    """Rewrite sums and products in an order that takes less."""
    return rewrite(graph, REORDER, counts)


def relax(graph: Graph, counts: Counts) -> Graph:
    """Rewrite as ``numerics="fast"`` allows: signed zeros, infinities and NaN may differ."""
    return rewrite(graph, FAST, counts)


SIMPLIFY: tuple[tuple[str, Pass], ...] = (
    ("stabilize", stabilize),
    ("attention", attention),
    ("canonicalize", canonicalize),
    ("stabilize_more", stabilize),
    ("relax", relax),
    ("reorder", reorder),
    ("factor_products", factor_products),
    ("order_products", order_products),
    ("solve_inverses", solve_inverses),
    ("first_of_sorted", first_of_sorted),
    ("decompose", decompose),
    ("count_iterations", count_iterations),
    ("decide", decide),
    ("unroll", unroll),
    ("narrow_products", narrow_products),
    ("stabilize_parts", stabilize_parts),
    ("merge", merge),
    ("last_rows", last_rows),
    ("first_rows", first_rows),
    ("prune_loops", prune_loops),
    ("hoist", hoist),
    ("share_products", share_products),
    ("batch_products", batch_products),
    ("unswitch", unswitch),
    ("pair_scans", pair_scans),
    ("prune_more", prune_loops),
    ("transpose_products", transpose_products),
    ("simplify", canonicalize),
    ("row_blocks", row_blocks),
    ("join", join),
    ("fold", fold_constants),
)
"""What is done to a graph of ops."""

INTO_KERNELS: tuple[tuple[str, Pass], ...] = (
    ("copy_strided", copy_strided),
    ("cut_views", cut_views),
    ("fuse", fuse),
    ("scalar_loops", scalar_loops),
)
"""What makes clusters of them."""

PASSES = (*SIMPLIFY, *INTO_KERNELS)
"""Every pass in the order in which it runs, where `is_allowed` says so."""

STABILIZING = ("stabilize", "stabilize_more")
"""The passes whose results differ where what was written overflows."""

REORDERING = (
    "attention", "reorder", "factor_products", "order_products", "solve_inverses",
    "narrow_products", "row_blocks",
)  # fmt: skip
"""The passes that choose another order of products or sums than the one that was written."""

AS_WRITTEN = tuple(p for p in PASSES if p[0] not in (*STABILIZING, *REORDERING))
"""The passes that only change how results are computed, as operations that run eagerly need it."""

WITH_ATTENTION = tuple(p for p in PASSES if p in AS_WRITTEN or p[0] == "attention")
"""`AS_WRITTEN`, and the pass that leaves the weights of attention out of memory."""

NUMERICS = ("exact", "strict", "fast")
"""How much results may differ from what was written, each more than the one before: by nothing; by
the rounding of another order of products and sums; by signed zeros, infinities and NaN too."""

_NUMERICS_OF = {"relax": "fast", **dict.fromkeys((*REORDERING, "batch_products"), "strict")}
"""The least numerics that a pass needs, where it needs more than the first."""


def least_numerics(name: str) -> str:
    """The first of `NUMERICS` with which the pass ``name`` runs."""
    return _NUMERICS_OF.get(name, NUMERICS[0])


def is_allowed(name: str, numerics: str) -> bool:
    """Whether the pass ``name`` runs where ``numerics`` are asked for."""
    return NUMERICS.index(least_numerics(name)) <= NUMERICS.index(numerics)


def check_numerics(numerics: str) -> None:
    """Raise `ArgumentError` for what is none of `NUMERICS`."""
    if numerics not in NUMERICS:
        raise ArgumentError(
            f'numerics is "exact", "strict" or "fast", not {numerics!r}, at {format_locs(here())}'
        )


_NEEDED = {
    "decompose": "many operations have no kernel but what it makes of them",
    "copy_strided": "loops, branches and the caller take memory that lies in one row",
}
"""What the passes that always run are needed for."""


@dataclass(frozen=True, slots=True)
class Before:
    """A rule of order: each of the passes ``first`` runs before any of ``then``, where both run.
    ``why`` says what would go wrong."""

    first: tuple[str, ...]
    then: tuple[str, ...]
    why: str


_MAKES_OPERATIONS = (
    "stabilize", "attention", "stabilize_more", "relax", "reorder", "order_products",
    "first_of_sorted",
)  # fmt: skip

ORDER = (
    Before(
        _MAKES_OPERATIONS,
        ("decompose",),
        "what it writes may be an operation that has no kernel of its own",
    ),
    Before(
        tuple(name for name, _ in SIMPLIFY),
        tuple(name for name, _ in INTO_KERNELS),
        "it takes operations, and the other prepares or makes kernels of them",
    ),
    Before(
        ("copy_strided", "cut_views"),
        ("fuse", "scalar_loops"),
        "it copies what operations take, and a kernel takes what it was made for",
    ),
    Before(("fuse",), ("scalar_loops",), "a loop that is a kernel is no operation"),
)
"""The legal orders of passes, as a partial order: whatever it does not name may run in any order,
and however often, with the same results. `tests/fuzz` runs graphs through orders by chance."""

ONCE = ("fuse", "scalar_loops")
"""The passes that run at most once: what is a kernel is not made one again."""

_INSTEAD: dict[str, tuple[str, Pass]] = {
    "attention": ("write_attention", write_attention),
    "fuse": ("separate", separate),
}
"""What runs in the place of a pass that is left out, where something has to."""


def choose_passes(
    names: str | Iterable[str] | None, numerics: str = "strict"
) -> tuple[tuple[str, Pass], ...]:
    """The passes that run for ``passes=names``.

    ``names`` are those that are to run, in this order, or, each with a ``-`` before it, those that
    are not; commas separate them in a string. None are all of them. The few that no program can do
    without run whether they are named or not, and it is an `ArgumentError` to leave one out.
    Without ``fuse`` every operation is a kernel of its own. Raises `ArgumentError` for an order
    that `ORDER` does not allow.
    """
    if names is None:
        return PASSES
    given = _read_names(names)
    out = {name.removeprefix("-") for name in given if name.startswith("-")}
    wanted = {name for name in given if not name.startswith("-")}
    if out and wanted:
        raise _wrong_passes(
            f"{min(wanted)!r} is one to run and '-{min(out)}' one to leave out; name either those "
            "that run or, with a '-' before each, those that do not"
        )
    for name in sorted(out | wanted):
        _check_name(name)
    for name in sorted(out & _NEEDED.keys()):
        raise _wrong_passes(f"{name!r} cannot be left out: {_NEEDED[name]}")
    check_numerics(numerics)
    for name in sorted(n for n in wanted if not is_allowed(n, numerics)):
        raise _wrong_passes(f'{name!r} runs with numerics="{least_numerics(name)}" only')
    if out:
        return _add_needed([(name, run) for name, run in PASSES if name not in out])
    return _add_needed(arrange_passes([name for name in given if not name.startswith("-")]))


def arrange_passes(names: Sequence[str]) -> tuple[tuple[str, Pass], ...]:
    """The passes of these names, in their order. Raises `ArgumentError` where there is no such pass
    or where `ORDER` wants another order."""
    for name in names:
        _check_name(name)
    for name in ONCE:
        if names.count(name) > 1:
            raise _wrong_passes(
                f"{name!r} runs once at most: what is a kernel is not made one again"
            )
    for position, name in enumerate(names):
        for late in names[position + 1 :]:
            for rule in ORDER:
                if late in rule.first and name in rule.then:
                    raise _wrong_passes(f"{late!r} runs before {name!r}: {rule.why}")
    known = dict(PASSES)
    return tuple((name, known[name]) for name in names)


def restore_passes(names: Sequence[str]) -> tuple[tuple[str, Pass], ...]:
    """The passes that a program ran, by their names: as `choose_passes` gave them, with what took
    the place of those that were left out. Raises `ArgumentError` for what it never gives."""
    known = {**dict(PASSES), **dict(_INSTEAD.values())}
    arrange_passes([name for name in names if name not in dict(_INSTEAD.values())])
    for name in _NEEDED.keys() - {*names}:
        raise _wrong_passes(f"{name!r} cannot be left out: {_NEEDED[name]}")
    for name, (instead, _) in _INSTEAD.items():
        if (name in names) == (instead in names):
            raise _wrong_passes(f"either {name!r} or {instead!r} runs")
    return tuple((name, known[name]) for name in names)


def are_known_passes(passes: Iterable[tuple[str, Pass]]) -> bool:
    """Whether each of ``passes`` is the one that staticflow has by its name."""
    known = {**dict(PASSES), **dict(_INSTEAD.values())}
    return all(known.get(name) is run for name, run in passes)


def _add_needed(chosen: Sequence[tuple[str, Pass]]) -> tuple[tuple[str, Pass], ...]:
    """The passes that are ``chosen``, and those that no program can do without, each as early as
    it may run."""
    runs = list(chosen)
    missing = [p for p in PASSES if p[0] in {*_NEEDED, *_INSTEAD} - {name for name, _ in runs}]
    for name, run in missing:
        before = {first for rule in ORDER if name in rule.then for first in rule.first}
        at = max((i + 1 for i, (other, _) in enumerate(runs) if other in before), default=0)
        runs.insert(at, _INSTEAD.get(name, (name, run)))
    return tuple(runs)


def _read_names(names: str | Iterable[str]) -> list[str]:
    if isinstance(names, str):
        return [name.strip() for name in names.split(",") if name.strip()]
    given = list(names) if isinstance(names, Iterable) else [names]
    for name in given:
        if not isinstance(name, str):
            raise _wrong_passes(
                f'{name!r} is no name of a pass; give names, as in passes=["-fuse"]'
            )
    return given


def _check_name(name: str) -> None:
    known = [known for known, _ in PASSES]
    if name not in known:
        near = difflib.get_close_matches(name, known, 1, 0.5)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise _wrong_passes(f"there is no pass {name!r}{hint} There are {', '.join(known)}")


def _wrong_passes(what: str) -> ArgumentError:
    locs = here()
    return ArgumentError(f"passes: {what}" + (f", at {format_locs(locs)}" if locs else ""))


@dataclass(frozen=True, slots=True)
class PassReport:
    """What one pass did: the graphs before and after, how often each of its rules fired, and how
    many seconds it took."""

    name: str
    before: Graph
    after: Graph
    counts: Counts
    seconds: float


def passes_for(
    numerics: str, passes: Sequence[tuple[str, Pass]] = PASSES
) -> tuple[tuple[str, Pass], ...]:
    """Those of ``passes`` that run with these ``numerics``, and what replaces some others."""
    allowed = (p if is_allowed(p[0], numerics) else _INSTEAD.get(p[0]) for p in passes)
    return tuple(p for p in allowed if p is not None)


def _begin_dump(folder: str, graph: Graph) -> Dump:
    from staticflow.passes.dump import Dump

    return Dump(folder, graph)


def optimize(
    graph: Graph, numerics: str = "strict", passes: Sequence[tuple[str, Pass]] = PASSES
) -> tuple[Graph, list[PassReport]]:
    """The graph through all ``passes``, each also on every nested graph, and their reports.

    ``numerics`` is ``"exact"`` (every order as it was written), ``"strict"`` (IEEE results kept,
    products and sums may be reordered) or ``"fast"``.
    """
    check_numerics(numerics)
    reports: list[PassReport] = []
    dump = _begin_dump(config.dump, graph) if config.dump else None
    for name, run in passes_for(numerics, passes):
        counts = Counts()
        began = time.perf_counter()
        with recording(True):  # whoever compiles, a rule means what it says
            after = each_region(graph, run, counts)
        seconds = time.perf_counter() - began
        if config.verify and (after is not graph or not reports):
            verify_graph(after)
        if config.debug:
            print(f"-- after {name} {dict(counts)}\n{after}")
        if dump is not None:
            dump.note(name, graph, after)
        reports.append(PassReport(name, graph, after, counts, seconds))
        graph = after
    return graph, reports
