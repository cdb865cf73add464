"""Which rewrite it is that changes a result: the pass, its rule, and the user's line.

Every stage of a graph is run by the interpreter on the same arrays, with zeros for subnormal
numbers where the program has these. Of the first pass behind which a result is another, the graph
is made smaller: from the result on, towards what it is computed of, as long as the pass still
changes it. Of the rules that fired there, as few are let fire as change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from staticflow import pytree
from staticflow.data_classes import dataclass
from staticflow.errors import ArgumentError
from staticflow.graph.graph import Graph, close
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.locs import Locs, format_locs, here
from staticflow.graph.node import Node, constant, maker_of, param
from staticflow.graph.types import types_of
from staticflow.ops.declaring.thread import for_itself
from staticflow.passes.pipeline import RUNS
from staticflow.passes.rewrite import Counts, Pass, each_region
from staticflow.static.interpretation import Interpret, interpreter

if TYPE_CHECKING:
    from staticflow.static.compiled import Compiled

__all__ = ["NATIVE", "Culprit", "bisect_passes", "bisect_program"]

NATIVE = "native code"
"""What a `Culprit` names where no pass is to blame."""

Arrays = Sequence[Any]

_TOLERANCES = {8: 1e-7, 4: 1e-4, 2: 2e-2}
"""By the bytes of an element: sums in another order differ by less."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """The first rewrite that changes a result.

    ``name`` is the pass, or `NATIVE` where all graphs give the same and the machine code does not;
    ``rules`` are those of its rules that change it, mostly one; ``what`` is the operation whose
    value is another, ``locs`` its lines, ``difference`` its first element that differs.
    """

    name: str
    rules: tuple[str, ...]
    what: str
    locs: Locs
    difference: str

    def __str__(self) -> str:
        by = f" by {', '.join(self.rules)}" if self.rules else ""
        where = f", at {format_locs(self.locs)}" if self.locs else ""
        return f"{self.name}{by} changes {self.what}{where}: {self.difference}"


def bisect_program(
    program: Compiled, args: Sequence[Any], rtol: float | None, atol: float
) -> Culprit | None:
    """What `Program.bisect` gives."""
    from staticflow.static.twin import twin_of

    twin = twin_of(program)
    arrays = [np.array(a) for a in twin.arrays(*args)]
    graph = program.graph
    differ = partial(find_difference, rtol=rtol, atol=atol)
    interpret = interpreter(program.options.flush_subnormals)
    passes = [(name, RUNS[name]) for name in program.options.passes_that_run]
    found = bisect_passes(graph, passes, arrays, differ, interpret)
    if found is not None:
        return found
    wanted = _run_as_written(graph, arrays, interpret)
    given = pytree.flatten(twin(*args))[0]
    values = [t.detach().numpy() for t in (*given, *twin.updated)]
    for output, value, expected in zip(graph.outputs, values, wanted, strict=True):
        if difference := differ(value, expected):
            return Culprit(NATIVE, (), _describe(output), output.locs, difference)
    return None


def bisect_passes(
    graph: Graph,
    passes: Sequence[tuple[str, Pass]],
    arrays: Arrays,
    differ: Callable[[Any, Any], str],
    interpret: Interpret = interpret_graph,
) -> Culprit | None:
    """The first of the passes behind which the graph gives another result on ``arrays``, where in
    it, and by which rule; None if there is none. ``differ(value, expected)`` says in words how a
    value differs, or nothing.

    Raises `ArgumentError` where the graph as it was written fails on the arrays.
    """
    wanted = _run_as_written(graph, arrays, interpret)
    for name, run in passes:
        after = _run(graph, run, Counts())
        try:
            values = wanted if after is graph else interpret(after, arrays)
        except Exception as error:
            return Culprit(name, (), "the graph", (), f"it fails: {error}")
        for output, value, expected in zip(graph.outputs, values, wanted, strict=True):
            if differ(value, expected):
                return _narrow(graph, name, run, output, arrays, differ, interpret)
        graph = after
    return None


def _run_as_written(graph: Graph, arrays: Arrays, interpret: Interpret) -> list[Any]:
    """What the graph as it was written gives."""
    try:
        return interpret(graph, arrays)
    except Exception as error:
        locs = here()
        raise ArgumentError(
            f"bisect: the graph as it was written fails on these arrays ({error}); give such as it "
            "takes" + (f", at {format_locs(locs)}" if locs else "")
        ) from error


def _run(graph: Graph, run: Pass, counts: Counts) -> Graph:
    with for_itself():
        return each_region(graph, run, counts)


def _narrow(
    graph: Graph,
    name: str,
    run: Pass,
    node: Node,
    arrays: Arrays,
    differ: Callable[[Any, Any], str],
    interpret: Interpret,
) -> Culprit:
    """The culprit of a pass that changes the value of ``node``."""

    def change(node: Node, counts: Counts) -> str:
        alone = close(graph.params, [node], graph.equalities, graph.declared)
        (expected,) = interpret(alone, arrays)
        try:
            (value,) = interpret(_run(alone, run, counts), arrays)
        except Exception as error:
            return f"it fails: {error}"
        return differ(value, expected)

    if not change(node, Counts()):  # the pass sees other users of what it depends on
        return Culprit(name, (), _describe(node), node.locs, "only together with other results")
    seen: set[Node] = set()
    going = True
    while going:
        going = False
        for arg in _operands(node):
            if arg not in seen:
                seen.add(arg)
                if change(arg, Counts()):
                    node, going = arg, True
                    break
    counts = Counts()
    difference = change(node, counts)
    return Culprit(
        name, _find_rules(counts, partial(change, node)), _describe(node), node.locs, difference
    )


def _operands(node: Node) -> Iterator[Node]:
    """The values that a node is computed of, those behind what gives several among them."""
    for arg in node.args:
        if isinstance(arg.type, tuple):
            yield from _operands(arg)
        elif arg.op not in (param, constant):
            yield arg


def _find_rules(counts: Counts, change: Callable[[Counts], str]) -> tuple[str, ...]:
    """The rule that changes the result as it fires, if the pass lets rules fire one by one; else
    all that fired."""
    fired = tuple(counts)
    limited = Counts(limit=0)
    if len(fired) == 1 or change(limited) or limited.total():
        return fired
    for limit in range(1, counts.total() + 1):
        limited = Counts(limit=limit)
        if change(limited):
            return (limited.last,)
    return fired


def _describe(node: Node) -> str:
    maker = maker_of(node)
    operands = ", ".join(str(t) for a in maker.args for t in types_of(a.type))
    return f"{maker.op.name}({operands})"


def find_difference(value: Any, expected: Any, rtol: float | None, atol: float) -> str:
    """How a value differs from what is expected, in words; nothing if it does not. ``rtol`` is the
    difference that is allowed, in parts of the largest element; None: what rounding makes of a
    dtype. Integers and bools are equal or not."""
    value, expected = np.asarray(value), np.asarray(expected)
    if value.shape != expected.shape or value.dtype != expected.dtype:
        return f"{value.dtype}{list(value.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind in "iub":
        bad = value != expected
    else:
        share = _TOLERANCES[expected.dtype.itemsize] if rtol is None else rtol
        f, e = value.astype(np.float64), expected.astype(np.float64)
        largest = np.max(np.abs(e), initial=0, where=np.isfinite(e))
        with np.errstate(invalid="ignore"):
            close_by = np.abs(f - e) <= atol + share * largest
        bad = ~(close_by | (f == e) | (np.isnan(f) & np.isnan(e)))
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{value[at]} instead of {expected[at]} at {list(at)}"
