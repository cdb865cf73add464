"""Every rule on graphs drawn from its own pattern, and every pass on its text cases in all dtypes, at
NaN, infinities, zeros of both signs, subnormals and the extremes of integers.

Rules that keep every bit are held to that. Of the others the result may differ in its last bits, and
where they are for tame numbers alone it is held to tame ones.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from filetests import run_passes
from native_kernels import assert_same, samples
from rule_graphs import OPEN, draw_firing
from test_passes import BETTER, ROUNDS, RULES, assert_close, every_case, parsed
from test_passes import arrays_for as awkward_for

from staticflow.errors import StaticflowError
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.graph import Graph
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.verify import verify_graph
from staticflow.ops.symbols.pattern import Rule
from staticflow.passes.rewrite import Counts, rewrite

TRIALS = 12
REFUSED = (StaticflowError, ValueError, IndexError, OverflowError, TypeError)
Arrays = list[np.ndarray[Any, Any]]
HARD_TO_DRAW = {
    "put_rows", "scatter_rows", "log_of_indexed", "log_of_indexed_twice", "diagonal_times",
    "times_diagonal", "one_hot_times", "turned_one_hot_times",
    "power_of_e", "power_of_2", "power_of_2_of_ratio", "log_scaled", "log_divided", "other_base", "root_of_squares", "one_of_each_row",
    "into_each_row", "one_in_each_row",
}  # fmt: skip
"""Rules of indices, of diagonals and of variables that stand for some ops or one number only, which a
draw hardly finds: their text cases show them."""
LOST = {"log1p_of_minus_erf"}
"""Rules for what is lost at usual numbers, too: in float64, where nothing wider can tell."""
ROUNDED = {"pow_two", "pow_half", "pow_minus_one"}
"""Rules that round once where NumPy's power of two arrays is in its last bit off."""
every_rule = pytest.mark.parametrize(("name", "r"), RULES, ids=[r.name for _, r in RULES])


def arrays_for(graph: Graph, size: int, way: str, seed: int) -> Arrays:
    """Arguments with the open size ``size`` for one of `WAYS`: of awkward values or of usual ones."""
    tame, finite = way == "last bits", way == "no number is lost"
    rng = np.random.default_rng(seed)
    arrays = []
    for p in graph.params:
        t = p.tensor_type
        shape = [evaluate_dim(d, {OPEN: size}) for d in t.shape]
        if tame and t.dtype.is_floating:
            values = rng.uniform(0.1, 2, shape)
        elif tame:
            values = rng.integers(0, 2, shape)
        else:
            values = rng.choice(samples(t.dtype), shape)
            if finite:
                values = np.nan_to_num(values.astype(np.float64), posinf=1, neginf=-1)
        arrays.append(np.asarray(values).astype(t.dtype.numpy))
    return arrays


def outcome(graph: Graph, arrays: Arrays) -> Any:
    """What a graph gives, or the kind of its error."""
    try:
        return interpret_graph(graph, arrays)[0]
    except (ValueError, IndexError) as error:
        return type(error)


def doubled(graph: Graph, arrays: Arrays) -> tuple[Graph, Arrays]:
    """A graph and its arguments with all floats in float64."""
    wide = [a if a.dtype.kind in "biu" else a.astype(np.float64) for a in arrays]
    return parsed(re.sub(r"\b(bf16|f16|f32)\b", "f64", str(graph))), wide


def assert_close_or_nearer(got: Any, wanted: Any, exact: Callable[[], Any]) -> None:
    """Each element is that of the graph but for its last bits, or nearer to what float64 gives: in
    16 bits log(1 - tanh(4)) is infinite as it is written, and what a rule writes is not."""
    try:
        assert_close(got, wanted, 8)
    except AssertionError:
        if wanted.dtype.kind in "biu":
            raise
        true, new, old = (np.asarray(v).astype(np.float64) for v in (exact(), got, wanted))
        nearer = np.abs(new - true) < np.nan_to_num(np.abs(old - true), nan=np.inf)
        assert_close(np.where(nearer, wanted, got), wanted, 8)


def check(graph: Graph, after: Graph, arrays: Arrays, way: str) -> None:
    """Hold what a rule made of a graph to the graph, in one of the ways of `WAYS`."""
    wanted, got = outcome(graph, arrays), outcome(after, arrays)
    try:
        if isinstance(wanted, type) or isinstance(got, type):
            assert wanted is got
        elif way == "the same bits":
            assert_same(got, wanted)
        elif way == "rounded":
            assert_same(*(np.copysign(np.where(v == 0, v, np.sign(v)), v) for v in (got, wanted)))
            assert_close(got, wanted, 2)
        elif way == "last bits":
            assert_close_or_nearer(got, wanted, lambda: outcome(*doubled(graph, arrays)))
        elif wanted.dtype.kind not in "biu":
            exact = outcome(*doubled(graph, arrays))
            lost = np.isnan(got.astype(np.float64)) & ~np.isnan(wanted.astype(np.float64))
            assert not np.any(lost & np.isfinite(exact))
    except AssertionError as error:
        raise AssertionError(f"{graph}\nbecomes\n{after}\nof {arrays}: {error}") from None


WAYS = {
    "canonicalize": ["the same bits"],
    "stabilize": ["last bits", "no number is lost"],
    "stabilize_parts": ["last bits", "no number is lost"],
    "reorder": ["last bits"],
    "relax": ["last bits"],
}
"""What the rules of a pass keep, but for those that are listed above: every bit of all numbers; all
but the last bits of usual numbers; that finite numbers have a value where they have one in float64."""


@every_rule
def test_a_rule_keeps_its_meaning_at_the_extremes(name: str, r: Rule) -> None:
    assert draws_of(name, r, 0) or r.name in HARD_TO_DRAW, (
        "the pattern is never met: draw what it needs"
    )


@pytest.mark.campaign
@every_rule
def test_a_rule_keeps_its_meaning_in_many_draws(name: str, r: Rule) -> None:
    for seed in range(1, 20):
        draws_of(name, r, seed)


def draws_of(name: str, r: Rule, seed: int) -> int:
    """Hold a rule to what it keeps, on graphs drawn by its name and a seed; how many fired least."""
    rng = random.Random(f"{r.name} {seed}")
    fired = []
    ways = ["last bits"] if r.name in BETTER else WAYS[name]
    ways = ["rounded"] if r.name in ROUNDED else ways[1:] if r.name in LOST else ways
    for way in ways:
        tame, found = way == "last bits", 0
        for trial in range(TRIALS):
            graph = draw_firing(r, rng, 1000, way in ("last bits", "no number is lost"))
            if graph is None:
                break
            found += 1
            after = verify_graph(rewrite(graph, [r], Counts()))
            for size in (0, 1, 3):
                for k in range(2 if tame else 6):
                    check(graph, after, arrays_for(graph, size, way, 100 * trial + k), way)
        fired.append(found)
    return min(fired)


@pytest.mark.parametrize("short", ["f16", "bf16", "f64", "i8", "u8", "f32"])
@every_case
def test_a_pass_keeps_what_a_graph_means_in_other_dtypes(
    name: str, position: int, case: Any, short: str
) -> None:
    if name == "decompose" and short in ("i8", "u8"):
        pytest.skip("the functions before these ops make floats of integers")
    if "while(" in case.input:
        pytest.skip("a loop that any arguments may keep going")
    text = re.sub(r"\bf32\b", short, case.input)
    try:
        before = verify_graph(parsed(text))
        arrays = awkward_for(before, 0 if short == "f32" else 3, tame=name in ROUNDS)
        wanted = interpret_graph(before, arrays)
    except REFUSED:
        pytest.skip(f"not of {short}, or not of no rows")
    after = verify_graph(parsed(run_passes(text, case.commands, counts := Counts())))
    for got, value in zip(interpret_graph(after, arrays), wanted, strict=True):
        if name in ROUNDS or BETTER.intersection(counts):
            assert_close(got, value, 8)
        else:
            assert_same(got, value)
