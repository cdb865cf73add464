"""A graph run in every way, and whether all agree: the interpreter, the graph after each pass, native
code of several choices of passes, `jit` and the eager mode, forward and back.

A `Case` is a graph that captures nothing, and so has a text (`print_case`, `read_case`): what
`reduce_graph` makes smaller and `tests/fuzz/found` keeps.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from eager_graph import jitted, run_eagerly, with_own_sizes
from random_programs import Drawn, Step

import staticflow as sf
from staticflow import pytree
from staticflow.config import config
from staticflow.errors import IndexRangeError, ShapeError, StaticflowError
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dims import Sym
from staticflow.graph.graph import (
    Graph,
    close,
    free_symbols,
    new_param,
    regions_of,
    substitute_nodes,
)
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.node import param, toposort
from staticflow.graph.parser import parse_graph
from staticflow.ops import OPS
from staticflow.ops.symbols.captured import capture
from staticflow.ops.symbols.effect import settle
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.choosing import FUSED
from staticflow.passes.order import ONCE, ORDER, PASSES, STABILIZING, is_allowed
from staticflow.passes.pipeline import optimize

__all__ = [
    "Case",
    "Difference",
    "case_of",
    "draw_passes",
    "find_difference",
    "print_case",
    "read_case",
]

Arrays = list[np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Case:
    """A ``graph`` and how it is run: at these ``sizes``, on arrays drawn by ``seed``, with the
    gradients of its results if ``back``. The outputs that ``updates`` names, each by its position,
    are new values of params. ``passes`` are those of one of the programs."""

    graph: Graph
    sizes: tuple[tuple[str, int], ...]
    seed: int
    back: bool
    updates: tuple[tuple[int, int], ...]
    passes: tuple[str, ...]

    @property
    def results(self) -> list[int]:
        """The positions of the outputs that are no updates."""
        changed = {out for _, out in self.updates}
        return [i for i in range(len(self.graph.outputs)) if i not in changed]


@dataclass(frozen=True)
class Difference:
    """The way that gives something else than the interpreter, and what."""

    way: str
    what: str

    @property
    def kind(self) -> str:
        """The way without its details."""
        return self.way.partition("=")[0]

    def is_like(self, other: Difference | None) -> bool:
        """Whether another one is of the same kind: in the same way another value, or the same class
        of error."""
        return other is not None and (self.kind, self._class) == (other.kind, other._class)

    @property
    def _class(self) -> str:
        word = self.what.partition(":")[0]
        return "value" if word.startswith("output") else word


# -- cases ---------------------------------------------------------------------------------------


def case_of(drawn: Drawn | Step, chance: random.Random) -> Case:
    """The case that a drawn program is."""
    pairs = drawn.updates if isinstance(drawn, Step) else []
    written = [*(o.node for o in drawn.outputs), *(new.node for _, new in pairs)]
    nodes, changed = settle(written)
    olds = [*(capture(t) for t, _ in pairs), *changed]
    outputs = [*nodes, *changed.values()]
    inputs = [x.node for x in drawn.inputs]
    captured = [n for n in toposort([*outputs, *olds]) if n.op is param and n not in inputs]
    own = {n: new_param(n.tensor_type, f"v{i}") for i, n in enumerate(captured)}
    params = [*inputs, *own.values()]
    graph = with_own_sizes(close(params, substitute_nodes(outputs, own)))
    first = len(drawn.outputs)
    updates = tuple((params.index(own[old]), first + i) for i, old in enumerate(olds))
    sizes = tuple((str(s), chance.choice((3, 5, 2, 17, 1, 0))) for s in sorted_symbols(graph))
    wide = all(t.dtype.itemsize > 2 for t in floats_of(graph))
    back = not updates and wide and chance.random() < 0.5
    return Case(graph, sizes, chance.getrandbits(31), back, updates, draw_passes(chance))


def sorted_symbols(graph: Graph) -> list[Sym]:
    return sorted(free_symbols(graph), key=Sym.sort_key)


def floats_of(graph: Graph) -> list[Any]:
    """The types of the floats in a graph and in what it nests."""
    found = [
        t for n in graph.nodes for t in (n.type if isinstance(n.type, tuple) else (n.type,))
        if t.dtype.is_floating
    ]  # fmt: skip
    for node in graph.nodes:
        for region in regions_of(node):
            found += floats_of(region)
    return found


def draw_passes(chance: random.Random) -> tuple[str, ...]:
    """Some of the passes in a legal order, by chance, some of them twice."""
    share = chance.choice((0.2, 0.6, 0.9, 1.0))
    left = [name for name in PASSES if is_allowed(name, "strict") and chance.random() < share]
    left += [name for name in left if name not in ONCE and chance.random() < 0.1]
    if chance.random() < 0.25:
        return tuple(sorted(left, key=PASSES.index))
    found = []
    while left:
        late = {name for rule in ORDER if not {*rule.first}.isdisjoint(left) for name in rule.then}
        free = [name for name in left if name not in late]
        found.append(free[chance.randrange(len(free))])
        left.remove(found[-1])
    return tuple(found)


_OPTIONS: Mapping[str, Callable[[str], Any]] = {
    "sizes": lambda text: tuple(
        (name, int(n)) for name, n in (part.split("=") for part in text.split(",") if part)
    ),
    "seed": int,
    "back": lambda text: text == "yes",
    "updates": lambda text: tuple(
        (int(a), int(b)) for a, b in (part.split("=") for part in text.split(",") if part)
    ),
    "passes": lambda text: tuple(filter(None, text.split(","))),
}


def print_case(case: Case) -> tuple[str, str]:
    """The command that runs a case, and its graph as text."""
    words = {
        "sizes": ",".join(f"{name}={n}" for name, n in case.sizes),
        "seed": str(case.seed),
        "back": "yes" if case.back else "no",
        "updates": ",".join(f"{a}={b}" for a, b in case.updates),
        "passes": ",".join(case.passes),
    }
    return " ".join(["agree", *(f"{name}:{text}" for name, text in words.items())]), str(case.graph)


def read_case(words: Sequence[str], text: str) -> Case:
    """The case that `print_case` wrote; passes that there are no longer are left out."""
    found = {name: _OPTIONS[name](value) for name, value in (w.split(":", 1) for w in words)}
    found["passes"] = tuple(name for name in found["passes"] if name in PASSES)
    return Case(parse_graph(text, {**OPS, **FUSED}), **found)


def arrays_for(case: Case) -> Arrays:
    """The arguments of a case. Those of one name and shape are the same in every graph."""
    values = {s: dict(case.sizes)[str(s)] for s in sorted_symbols(case.graph)}
    arrays = []
    for p in case.graph.params:
        t = p.tensor_type
        shape = [evaluate_dim(d, values) for d in t.shape]
        rng = np.random.default_rng([case.seed, zlib.crc32(p.attrs["name"].encode())])
        found = rng.normal(size=shape) if t.dtype.is_floating else rng.integers(0, 2, shape)
        arrays.append(np.asarray(found).astype(t.dtype.numpy))
    return arrays


# -- ways to run ---------------------------------------------------------------------------------


def derive(case: Case, outputs: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """The gradients of the outputs by the floats among the ``leaves``, in either mode."""
    real = [x for x in leaves if x.dtype.is_floating]
    loss = sum((outputs[i].tanh().sum() for i in case.results if outputs[i].dtype.is_floating), 0.0)
    if not case.back or not real or isinstance(loss, float):
        return []
    depends = isinstance(loss, Symbol) or loss.requires_grad
    found = sf.grad(loss, real, allow_unused=True) if depends else [None] * len(real)
    return [x.detach() * 0 if g is None else g for x, g in zip(real, found, strict=True)]


def whole_graph(case: Case) -> Graph:
    """The graph with its gradients."""
    graph = case.graph
    outputs = [Symbol(o) for o in graph.outputs]
    found = derive(case, outputs, [Symbol(p) for p in graph.params])
    if not found:
        return graph
    nodes = [*graph.outputs, *(g.node for g in found)]
    return close(graph.params, nodes, graph.equalities)


def compile_case(case: Case, graph: Graph, **options: Any) -> Callable[[Arrays], Arrays]:
    """A program of the graph with its gradients, and the function that calls it."""
    olds = [graph.params[i] for i, _ in case.updates]
    inputs = [p for p in graph.params if p not in olds]
    program: Any = None

    def run(arrays: Arrays) -> Arrays:
        nonlocal program
        given = dict(zip(graph.params, arrays, strict=True))
        variables = [sf.variable(given[p].copy()) for p in olds]
        if program is None or variables:
            own = {p: capture(v) for p, v in zip(olds, variables, strict=True)}
            outputs = [Symbol(n) for n in substitute_nodes(graph.outputs, own)]
            changed = dict(zip(variables, (outputs[o] for _, o in case.updates), strict=True))
            rest = [o for i, o in enumerate(outputs) if i not in {o for _, o in case.updates}]
            program = sf.compile([Symbol(p) for p in inputs], rest, changed, **options)
        found = iter(pytree.flatten(program(*(given[p] for p in inputs)))[0])
        new = {out: v for (_, out), v in zip(case.updates, variables, strict=True)}
        values = [new[i] if i in new else next(found) for i in range(len(graph.outputs))]
        return [v.detach().numpy() for v in values]

    return run


def ways_to_run(case: Case, graph: Graph) -> Iterator[tuple[str, Callable[[Arrays], Arrays], bool]]:
    """Each way with its name, and whether it may differ where there is no finite value."""
    yield "compiled", compile_case(case, graph), True
    yield (
        f"passes={','.join(case.passes)}",
        compile_case(case, graph, passes=case.passes),
        (not {*STABILIZING}.isdisjoint(case.passes)),
    )
    if case.seed % 4 == 0:
        yield "fast", compile_case(case, graph, numerics="fast"), True
    if not case.updates and case.seed % 3 == 0:
        yield "jit", jitted(case.graph, partial(derive, case)), True
    if not case.updates:
        yield "eager", lambda arrays: run_eagerly(case.graph, arrays, partial(derive, case)), False


# -- the judge -----------------------------------------------------------------------------------


def outcome(run: Callable[[Arrays], Any], arrays: Arrays) -> Arrays | StaticflowError:
    """What comes out: arrays, or an error that is worded."""
    try:
        return [np.asarray(a) for a in run([a.copy() for a in arrays])]
    except StaticflowError as error:
        return error


def find_difference(case: Case, only: str = "") -> Difference | None:
    """The first way that does not agree with the interpreter, if there is one; of the ``only`` kind
    that is asked for. Memory of compiled programs is poisoned, and what passes and schedules make
    is verified."""
    with config.change(poison=True, verify=True):
        try:
            graph = whole_graph(case)
        except StaticflowError as error:
            return Difference("gradient", describe(error))
        arrays = arrays_for(case)
        expected = outcome(partial(interpret_graph, graph), arrays)
        allowed: list[Any] = []
        for way, run, may_be_better in ways_to_run(case, graph):
            if only and not way.startswith(only):
                continue
            try:
                found = outcome(run, arrays)
            except Exception as error:
                return Difference(way, f"{type(error).__name__}: {error}")
            if _means_more(case, way, expected):
                continue
            what = compare(found, expected, may_be_better, base_tolerance(graph))
            if what and isinstance(expected, IndexRangeError):
                without = outcome(partial(interpret_graph, _prune(graph)), arrays)
                what = compare(found, without, may_be_better, base_tolerance(graph))
            if what and isinstance(expected, list) and isinstance(found, list):
                allowed = allowed or noise(graph, arrays, expected)
                what = compare(found, expected, may_be_better, base_tolerance(graph), allowed)
            if what:
                return Difference(way, what)
    return None


def _means_more(case: Case, way: str, expected: Any) -> bool:
    """Whether a way has a meaning where the graph has none: a size of 1 that is known broadcasts."""
    is_written_anew = way in ("jit", "eager")
    return is_written_anew and isinstance(expected, ShapeError) and 1 in dict(case.sizes).values()


def _prune(graph: Graph) -> Graph:
    """The graph without what loops and branches compute for nobody, which need not fail."""
    return optimize(graph, passes=("decide", "prune_loops", "prune_more"))[0]


def describe(outcome: Any) -> str:
    if isinstance(outcome, list):
        return f"{len(outcome)} arrays"
    return f"{type(outcome).__name__}: {outcome}"


def base_tolerance(graph: Graph) -> float:
    """The difference that rounding may make, of numbers around 1."""
    widths = [t.dtype.itemsize for t in floats_of(graph)]
    brief = any(t.dtype is sf.bfloat16 for t in floats_of(graph))
    return {8: 1e-9, 4: 1e-4, 2: 0.15 if brief else 0.02}[min(widths, default=8)]


def noise(graph: Graph, arrays: Arrays, expected: Arrays) -> list[Any]:
    """How far results move where arguments do by a few roundings: what is ill-conditioned, or has
    a kink here, tells nothing."""
    eps = base_tolerance(graph) / 8
    moved = [np.zeros(np.shape(e)) for e in expected]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        near = [
            (a * (1 + eps * rng.uniform(-1, 1, a.shape))).astype(a.dtype)
            if a.dtype.kind not in "iub" else a for a in arrays
        ]  # fmt: skip
        found = outcome(partial(interpret_graph, graph), near)
        if not isinstance(found, list) or any(
            f.shape != e.shape for f, e in zip(found, expected, strict=True)
        ):
            return [np.full(np.shape(e), np.inf) for e in expected]
        for m, f, e in zip(moved, found, expected, strict=True):
            np.maximum(
                m, np.nan_to_num(np.abs(f.astype(float) - e.astype(float)), nan=np.inf), out=m
            )
    return [30 * m for m in moved]


def compare(
    found: Any, expected: Any, may_be_better: bool, tolerance: float, allowed: Sequence[Any] = ()
) -> str:
    """What is different, in words; nothing if they agree."""
    if not isinstance(expected, list) or not isinstance(found, list):
        if type(expected) is type(found):
            return ""
        return f"{describe(found)} where {describe(expected)} is expected"
    for i, (f, e) in enumerate(zip(found, expected, strict=True)):
        if (f.dtype, f.shape) != (e.dtype, e.shape):
            return f"output {i} is {f.dtype}{f.shape} where {e.dtype}{e.shape} is expected"
        if e.dtype.kind in "iub":
            bad = f != e
        else:
            wide_f, wide_e = f.astype(float), e.astype(float)
            scale = np.maximum(
                np.abs(wide_e), np.max(np.abs(wide_e), initial=1, where=np.isfinite(wide_e))
            )
            room = tolerance * scale + (allowed[i] if allowed else 0)
            with np.errstate(invalid="ignore"):
                bad = ~((np.abs(wide_f - wide_e) <= room) | (wide_f == wide_e))
            bad &= ~(np.isnan(wide_f) & np.isnan(wide_e))
            if may_be_better:
                bad &= np.isfinite(wide_e)
        if bad.any():
            at = tuple(int(k) for k in np.argwhere(bad)[0])
            return f"output {i} at {at} is {f[at]!r} where {e[at]!r} is expected"
    return ""
