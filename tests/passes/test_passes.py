"""The passes: that their text cases cover every rule, and that no rule changes what a graph means."""

from __future__ import annotations

import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from filetests import parse_case, run_passes, split_cases
from native_kernels import assert_same, samples

from staticflow.errors import ArgumentError, ShapeError, VerifyError
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.dims import Sym
from staticflow.graph.dtypes import dtype_of
from staticflow.graph.graph import Graph, close, free_symbols, new_param, regions_of
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.node import Node, item, param
from staticflow.graph.parser import parse_graph
from staticflow.graph.types import TensorType
from staticflow.graph.verify import verify_graph
from staticflow.ops import OPS
from staticflow.ops.basics.arithmetic import add, cast, neg
from staticflow.ops.basics.creation import size_value
from staticflow.ops.elementwise.trig import sin
from staticflow.ops.loops.loop import while_op
from staticflow.ops.symbols.pattern import Rule, rule
from staticflow.ops.symbols.stable_forms import STABLE_FORMS
from staticflow.ops.symbols.symbol import Symbol
from staticflow.passes.access import is_inline
from staticflow.passes.arrays import MOST_MEMBERS
from staticflow.passes.choosing import FUSED
from staticflow.passes.cluster import cluster
from staticflow.passes.contraction import Contraction
from staticflow.passes.fuse import fuse
from staticflow.passes.order import PASSES
from staticflow.passes.pipeline import RUNS, optimize
from staticflow.passes.rewrite import Counts, rewrite
from staticflow.passes.rules import CANONICAL, FAST, PARTS, REORDER

FILES = sorted(Path(__file__).parent.glob("*.sf"))
CASES = [
    (file.stem, position, case)
    for file in FILES
    for position, case in enumerate(map(parse_case, split_cases(file.read_text())))
]
NAMES = [f"{name} {position}" for name, position, _ in CASES]
every_case = pytest.mark.parametrize(("name", "position", "case"), CASES, ids=NAMES)
SETS = {
    "canonicalize": CANONICAL, "stabilize": STABLE_FORMS, "stabilize_parts": PARTS, "relax": FAST,
    "reorder": REORDER,
}  # fmt: skip
RULES = [(name, r) for name, rules in SETS.items() for r in rules]
every_rule = pytest.mark.parametrize(("name", "r"), RULES, ids=[r.name for _, r in RULES])

N = Sym("N")
F32 = dtype_of(np.float32)


def parsed(text: str) -> Graph:
    return parse_graph(text, {**OPS, **FUSED})


def counts_of(case: Any) -> Counter[str]:
    counts = Counts()
    run_passes(case.input, case.commands, counts)
    return counts


def all_nodes(graph: Graph) -> list[Node]:
    found = list(graph.nodes)
    for node in graph.nodes:
        for region in regions_of(node):
            found += all_nodes(region)
    return found


COUNTS = [counts_of(case) for _, _, case in CASES]
ALWAYS = {
    "stop_gradient", "keep_history", "squeeze_reshape", "unsqueeze_reshape", "transpose_permute",
    "t_permute", "shard", "sinc_near_0",
}  # fmt: skip
"""Rules for ops that are said in others wherever they stand."""

# -- the text cases are complete -----------------------------------------------------------------


@every_rule
def test_a_case_shows_each_rule(name: str, r: Rule) -> None:
    shown = zip(CASES, COUNTS, strict=True)
    found = any(counts[r.name] for (file, _, _), counts in shown if file == name)
    assert found, f"add a case in which {r.name} fires to tests/passes/{name}.sf"


@every_rule
def test_a_case_shows_where_each_rule_does_not_apply(name: str, r: Rule) -> None:
    """Some graph has the op that the rule starts from, and the rule leaves it alone."""
    found = r.name in ALWAYS or any(
        counts[r.name] == 0 and any(n.op is r.pattern.op for n in all_nodes(parsed(case.input)))
        for (file, _, case), counts in zip(CASES, COUNTS, strict=True)
        if file == name
    )
    what = f"a case of {r.pattern.op.name} in which {r.name} does not fire at all"
    assert found, f"add {what} to tests/passes/{name}.sf"


def test_every_pass_has_a_file() -> None:
    first = {RUNS[name]: name for name in reversed(PASSES)}  # one that runs again has one file
    assert {file.stem for file in FILES} == {*first.values()}


WITHOUT_TEXT = {"custom", "once_differentiable"}
"""Ops whose attributes are Python functions."""


@pytest.mark.parametrize(
    "name", [n for n, op in OPS.items() if op.decompose is not None and n not in WITHOUT_TEXT]
)
def test_a_case_shows_each_decomposition(name: str) -> None:
    found = any(counts[f"decompose {name}"] for counts in COUNTS)
    assert found, f"add a case of {name} to tests/passes/decompose.sf"


def test_rules_have_names_of_their_own() -> None:
    said = {
        (r.name, r.identity) for _, r in RULES
    }  # a form of several spellings has a rule for each
    assert len(said) == len({name for name, _ in said})
    assert all(r.identity for _, r in RULES)


# -- what the passes may change ------------------------------------------------------------------

ROUNDS = {
    "stabilize",
    "stabilize_parts",
    "attention",
    "solve_inverses",
    "values_of_vectors",
    "decompose",
    "relax",
    "reorder",
    "order_products",
    "narrow_products",
    "factor_products",
    "batch_products",
    "stack_vectors",
}
"""Passes after which results differ in their last bits."""
FINITE = {*(r.name for r in STABLE_FORMS), "decompose convolution_transpose"}
"""Rules for tame numbers: what is stable has a value where what was written has none, and a transposed
convolution multiplies the weight with zeros between the elements."""
TAME = {
    "relax",
    "reorder",
    "order_products",
    "narrow_products",
    "factor_products",
    "solve_inverses",
    "values_of_vectors",
    "stack_vectors",
}
"""Passes for tame numbers: another order of products meets inf - inf elsewhere, and no vectors are found
where there are infinities."""
BETTER = {"pow_minus_one", "sum_of_one"}
"""Rules that give the exact reciprocal, and keep the sign of a zero that a sum loses."""


SMALL, MANY = 3, 40


def arrays_for(graph: Graph, size: int, tame: bool) -> list[np.ndarray]:
    """Arguments with every symbol ``size``: awkward values, of `SMALL` integers near 0, of `MANY` each
    awkward one; with ``tame`` positive ones; indices, and numbers of rows, that are inside of what they
    select from."""
    sizes = dict.fromkeys(free_symbols(graph), size)
    selects = any(
        n.op.name in ("gather", "scatter_add", "nll", "cross_entropy", "class_index", "measure")
        for n in all_nodes(graph)
    )
    arrays = []
    for position, p in enumerate(graph.params):
        t = p.tensor_type
        shape = [evaluate_dim(d, sizes) for d in t.shape]
        rng = np.random.default_rng(zlib.crc32(repr((position, shape)).encode()))
        if tame and t.dtype.is_floating:
            values = rng.uniform(0.1, 2, shape)
        elif selects and not t.dtype.is_floating:
            values = rng.integers(0, max(size, 1), shape)
        elif size == SMALL:  # products of these are numbers, and have zeros of both signs
            values = rng.integers(-2, 3, shape)
        elif size == MANY:
            values = np.resize(rng.permutation(samples(t.dtype)), shape)
        else:
            values = rng.choice(samples(t.dtype), shape)
        arrays.append(np.asarray(values).astype(t.dtype.numpy))
    return arrays


def assert_close(got: Any, expected: Any, slack: int = 1) -> None:
    assert got.dtype == expected.dtype
    wide = [np.asarray(a, np.float64) for a in (got, expected)]
    eps = 2.0**-7 if got.dtype.itemsize == 2 else 2.0**-20 if got.dtype.itemsize == 4 else 2.0**-48
    np.testing.assert_allclose(*wide, rtol=slack * eps, atol=slack * eps, equal_nan=True)


@pytest.mark.parametrize("size", [1, 2, SMALL, 5, MANY])
@every_case
def test_a_pass_keeps_what_a_graph_means(name: str, position: int, case: Any, size: int) -> None:
    before = parsed(case.input)
    if any(n.op is while_op and n.attrs["length"] is None for n in all_nodes(before)):
        pytest.skip("a loop that any arguments may keep going")
    after = verify_graph(parsed(run_passes(case.input, case.commands)))
    fired = set(COUNTS[CASES.index((name, position, case))])
    arrays = arrays_for(before, size, tame=name in TAME or bool(fired & FINITE))
    try:
        expected = interpret_graph(before, arrays)
    except ShapeError:  # an equality of the case that this size does not keep
        with pytest.raises(ShapeError):
            interpret_graph(after, arrays)
        return
    except IndexError:
        with pytest.raises(IndexError):
            interpret_graph(after, arrays)
        return
    except ValueError as error:
        assert "Integers to negative integer powers" in str(error)
        return
    for got, wanted in zip(interpret_graph(after, arrays), expected, strict=True):
        if name in ROUNDS or fired & BETTER:
            assert_close(got, wanted, slack=4 if size == MANY else 1)  # sums of as many
        else:
            assert_same(got, wanted)


@every_case
def test_a_pass_has_nothing_left_to_do(name: str, position: int, case: Any) -> None:
    once = run_passes(case.input, case.commands)
    if name == "scalar_loops":  # what was a loop is a cluster (two cases stay ones)
        assert position in (1, 5) or all(n.op in (param, cluster, item) for n in parsed(once).nodes)
    elif name == "fuse":  # clusters are no longer what fusion starts from
        assert all(
            n.op.name in ("param", "constant", "cluster", "item", "reshape", "scan")
            for n in parsed(once).nodes
        )
    elif name != "order_products" or "cond(" not in once:  # within a branch there is one order
        assert run_passes(once, case.commands) == once


# -- the engine ----------------------------------------------------------------------------------


def graph_of_one(make: Any) -> Graph:
    x = new_param(TensorType(F32, (3,)), "x")
    return close([x], [make(Symbol(x)).node])


def test_a_rule_that_changes_the_dtype_is_caught() -> None:
    wrong = rule("wrong", "no identity", lambda x: sin(x), lambda x: cast(x, dtype=dtype_of(int)))
    with pytest.raises(VerifyError, match=r"rule wrong made i64\[3\] of f32\[3\]"):
        rewrite(graph_of_one(sin), [wrong], Counts())


def test_rules_that_never_end_are_caught() -> None:
    grows = rule("grows", "no identity", lambda x: neg(x), lambda x: -(x * 1.5))
    with pytest.raises(VerifyError, match=r"\['grows'\] keep firing"):
        rewrite(graph_of_one(neg), [grows], Counts())


def test_unknown_numerics_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r'"strict" or "fast", not \'quick\''):
        optimize(graph_of_one(neg), "quick")


def test_relaxing_is_asked_for() -> None:
    graph = graph_of_one(lambda x: x + 0.0)
    strict, _ = optimize(graph)
    fast, records = optimize(graph, "fast")
    assert len(strict.nodes) > len(fast.nodes) == 1
    assert next(r for r in records if r.name == "relax").counts == {"add_zero": 1}


# -- fusion --------------------------------------------------------------------------------------


def test_a_long_chain_becomes_kernels_of_bounded_length() -> None:
    def chain(x: Any) -> Any:
        for _ in range(3 * MOST_MEMBERS):
            x = sin(x)
        return x

    fused = fuse(graph_of_one(chain), Counts())
    lengths = [len(n.attrs["body"].nodes) - 1 for n in fused.nodes if n.op is cluster]
    assert lengths == [MOST_MEMBERS] * 3


def test_arithmetic_on_sizes_is_repeated_only_if_it_is_short() -> None:
    size = Symbol(graph_of_one(lambda x: size_value.beside(x, size=3, dtype=F32)).outputs[0])
    assert is_inline((size + 1).node)
    deep = size
    for _ in range(5000):  # as a tree this has 2**5000 leaves
        deep = deep * deep
    assert not is_inline(deep.node)
    x = Symbol(new_param(TensorType(F32, ()), "x"))
    assert not is_inline(add(x, size).node)


# -- contraction ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_contraction_says_whether_there_is_a_second_path(seed: int) -> None:
    """Against a search of the whole graph; what is contracted stays acyclic."""
    rng = np.random.default_rng(seed)
    count, most = (int(rng.integers(3, 14)), 0.5) if seed % 4 else (60, 0.05)
    before = {
        v: [int(s) for s in np.flatnonzero(rng.random(v) < rng.uniform(0.02, most))]
        for v in range(count)
    }
    work = Contraction(before)
    whole = nx.DiGraph((s, v) for v, sources in before.items() for s in sources)
    whole.add_nodes_from(before)
    for into in range(count, 3 * count):
        edges = sorted(whole.edges)
        if not edges:
            break
        a, b = edges[rng.integers(len(edges))]
        apart = whole.copy()
        apart.remove_edge(a, b)
        expected = not nx.has_path(apart, a, b)
        assert work.contract(a, b, into) == expected
        if expected:
            whole = nx.relabel_nodes(apart, {a: into, b: into})
            assert nx.is_directed_acyclic_graph(whole)


def test_contraction_is_decided_by_the_end_that_has_less_beside_it() -> None:
    long = {v: [v - 1] if v else [] for v in range(2000)}
    assert Contraction(long | {2000: [0]}).contract(0, 2000, -1)  # nothing else leads to its end
    from_nowhere = {v: [] if v == 1000 else [v - 1] for v in range(1, 2000)}
    assert Contraction({0: [], **from_nowhere, 2000: [0, 1999]}).contract(0, 2000, -1) is False
    leads = {0: [], **from_nowhere, 2000: [0]}
    assert Contraction(leads).contract(0, 2000, -1)


def test_contraction_gives_up_on_a_search_that_is_too_long() -> None:
    """Much follows the one end, and much leads to the other."""
    before = {v: [v - 1] if v not in (0, 1000) else [] for v in range(1999)}
    work = Contraction(before | {1999: [0, 1998]})
    assert not work.contract(0, 1999, -1)
    assert work.contract(0, 1, -1)
