"""The passes by name: their order, what each needs, and which of them run. What they do is in
`staticflow.passes.pipeline`, which whoever compiles imports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError
from staticflow.graph.locs import format_locs, here

__all__ = [
    "AS_WRITTEN", "INSTEAD", "INTO_KERNELS", "NUMERICS", "ONCE", "ON_A_GPU", "ORDER", "PASSES",
    "REORDERING", "SIMPLIFY", "STABILIZING", "WITH_ATTENTION", "Before", "arrange_passes",
    "check_numerics", "choose_passes", "is_allowed", "least_numerics", "passes_for",
    "restore_passes",
]  # fmt: skip


SIMPLIFY = (
    "stabilize",
    "attention",
    "canonicalize",
    "stabilize_more",
    "relax",
    "reorder",
    "factor_products",
    "order_products",
    "solve_inverses",
    "values_of_vectors",
    "first_of_sorted",
    "decompose",
    "count_iterations",
    "decide",
    "unroll",
    "narrow_products",
    "widen_products",
    "row_products",
    "stabilize_parts",
    "merge",
    "last_rows",
    "first_rows",
    "prune_loops",
    "hoist",
    "share_products",
    "batch_products",
    "unswitch",
    "pair_scans",
    "stack_vectors",
    "prune_more",
    "transpose_products",
    "simplify",
    "row_blocks",
    "join",
    "fold",
)
"""What is done to a graph of ops."""

INTO_KERNELS = (
    "copy_strided",
    "sink_reshapes",
    "cut_views",
    "embed_once",
    "read_padded",
    "fuse",
    "scalar_loops",
)
"""What makes clusters of them."""

PASSES = (*SIMPLIFY, *INTO_KERNELS)
"""Every pass in the order in which it runs, where `is_allowed` says so."""

STABILIZING = ("stabilize", "stabilize_more")
"""The passes whose results differ where what was written overflows."""

REORDERING = (
    "attention", "reorder", "factor_products", "order_products", "solve_inverses",
    "values_of_vectors", "narrow_products", "row_products", "stack_vectors", "row_blocks",
)  # fmt: skip
"""The passes that choose another order of products or sums than the one that was written."""

AS_WRITTEN = tuple(p for p in PASSES if p not in (*STABILIZING, *REORDERING))
"""The passes that only change how results are computed, as operations that run eagerly need it."""

WITH_ATTENTION = tuple(p for p in PASSES if p in AS_WRITTEN or p == "attention")
"""`AS_WRITTEN`, and the pass that leaves the weights of attention out of memory."""

NUMERICS = ("exact", "strict", "fast")
"""How much results may differ from what was written, each more than the one before: by nothing; by
the rounding of another order of products and sums; by signed zeros, infinities and NaN too."""

_NUMERICS_OF = {
    "relax": "fast",
    **dict.fromkeys((*REORDERING, "batch_products", "narrow_windows"), "strict"),
}
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
        SIMPLIFY,
        INTO_KERNELS,
        "it takes operations, and the other prepares or makes kernels of them",
    ),
    Before(
        ("copy_strided", "sink_reshapes", "cut_views", "embed_once", "read_padded"),
        ("fuse", "scalar_loops"),
        "it prepares what operations take, and a kernel takes what it was made for",
    ),
    Before(("fuse",), ("scalar_loops",), "a loop that is a kernel is no operation"),
)
"""The legal orders of passes, as a partial order: whatever it does not name may run in any order,
and however often, with the same results. `tests/fuzz` runs graphs through orders by chance."""

ONCE = ("fuse", "scalar_loops")
"""The passes that run at most once: what is a kernel is not made one again."""

INSTEAD = {"attention": "write_attention", "fuse": "separate"}
"""What runs in the place of a pass that is left out, where something has to."""

ON_A_GPU: dict[str, str | None] = {"scalar_loops": None, "widen_products": "narrow_windows"}
"""What runs on a GPU in the place of a pass for the CPU. A loop over a few numbers as one kernel
may want memory while it runs, of which a GPU's kernel gets none. Products of 16 bits are made of
float32 by the other, which has tiles on a CPU; a GPU has tensor cores for them, and for sums over
windows, as they are."""


def choose_passes(names: str | Iterable[str] | None, numerics: str = "strict") -> tuple[str, ...]:
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
        return _add_needed([name for name in PASSES if name not in out])
    return _add_needed(arrange_passes([name for name in given if not name.startswith("-")]))


def arrange_passes(names: Sequence[str]) -> tuple[str, ...]:
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
    return tuple(names)


def restore_passes(names: Sequence[str]) -> tuple[str, ...]:
    """The passes that a program ran, by their names: as `choose_passes` gave them, with what took
    the place of those that were left out. Raises `ArgumentError` for what it never gives."""
    arrange_passes([name for name in names if name not in INSTEAD.values()])
    for name in _NEEDED.keys() - {*names}:
        raise _wrong_passes(f"{name!r} cannot be left out: {_NEEDED[name]}")
    for name, instead in INSTEAD.items():
        if (name in names) == (instead in names):
            raise _wrong_passes(f"either {name!r} or {instead!r} runs")
    return tuple(names)


def passes_for(numerics: str, passes: Sequence[str] = PASSES) -> tuple[str, ...]:
    """Those of ``passes`` that run with these ``numerics``, and what replaces some others."""
    allowed = (name if is_allowed(name, numerics) else INSTEAD.get(name) for name in passes)
    return tuple(name for name in allowed if name is not None)


def _add_needed(chosen: Sequence[str]) -> tuple[str, ...]:
    """The passes that are ``chosen``, and those that no program can do without, each as early as
    it may run."""
    runs = list(chosen)
    missing = [name for name in PASSES if name in {*_NEEDED, *INSTEAD}.difference(runs)]
    for name in missing:
        before = {first for rule in ORDER if name in rule.then for first in rule.first}
        at = max((i + 1 for i, other in enumerate(runs) if other in before), default=0)
        runs.insert(at, INSTEAD.get(name, name))
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
    if name not in PASSES:
        import difflib  # for what is written wrong

        near = difflib.get_close_matches(name, PASSES, 1, 0.5)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise _wrong_passes(f"there is no pass {name!r}{hint} There are {', '.join(PASSES)}")


def _wrong_passes(what: str) -> ArgumentError:
    locs = here()
    return ArgumentError(f"passes: {what}" + (f", at {format_locs(locs)}" if locs else ""))
