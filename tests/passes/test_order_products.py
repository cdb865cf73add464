"""The order of matrix products: fewest multiply-adds for fixed and unknown sizes, and the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_chains import RandomChain, multiply_adds

import staticflow as sf
from staticflow.graph.graph import Graph, close
from staticflow.graph.interpret import interpret_graph
from staticflow.passes import order_products
from staticflow.passes.pipeline import optimize

FOR_PRODUCTS = ("canonicalize", "order_products")
NEAR, FARTHEST = 1.2, 7
"""Times the least that a chain of unknown sizes takes at some of them, a short one and a long one, of
which a program has not all orders."""


def graph_of(inputs: Any, *results: Any) -> Graph:
    return close([x.node for x in inputs], [r.node for r in results])


def ordered(graph: Graph, numerics: str = "strict") -> Graph:
    return optimize(graph, numerics, FOR_PRODUCTS)[0]


def check_seeds(seeds: range) -> int:
    """How many of these chains take the fewest multiply-adds; those of fixed sizes all do."""
    cheapest = 0
    for seed in seeds:
        chain = RandomChain.draw(seed)
        graph = graph_of(chain.inputs, chain.result)
        after = ordered(graph)
        work = multiply_adds(after, chain.sizes(graph))
        farthest = 1 if seed % 2 == 0 else NEAR if len(chain.inputs) <= 5 else FARTHEST
        assert chain.least <= work <= chain.least * farthest, seed
        cheapest += work == chain.least
        if max(max(s) for s in chain.shapes) <= 50:
            check_values(graph, after, chain.shapes)
    return cheapest


def check_values(before: Graph, after: Graph, shapes: Any) -> None:
    """Whole numbers, whose products no order rounds."""
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-2, 3, s).astype(np.float32) for s in shapes]
    (expected,), (got,) = (interpret_graph(g, arrays) for g in (before, after))
    np.testing.assert_array_equal(got, expected)


def test_random_chains_take_the_fewest_multiply_adds() -> None:
    assert check_seeds(range(24)) >= 22


@pytest.mark.campaign
def test_many_random_chains_take_the_fewest_multiply_adds() -> None:
    assert check_seeds(range(60)) >= 56
    assert check_seeds(range(60, 600)) >= 525


def test_exact_numerics_keep_every_order() -> None:
    x, v = sf.placeholder((100, 100), name="x"), sf.placeholder((100, 1), name="v")
    graph = graph_of([x, v], x @ x @ v)
    assert multiply_adds(ordered(graph, "exact"), {}) == 100**3 + 100**2
    assert multiply_adds(ordered(graph, "strict"), {}) == 2 * 100**2


def test_a_low_rank_product_is_never_multiplied_out() -> None:
    """Nor in the gradient, where the product is shared by three others."""
    u, v, y = (sf.placeholder(s, name="x") for s in ((300, 20), (20, 300), (300,)))
    out = (u @ v) @ y
    graph = graph_of([u, v, y], out, *sf.grad((out * out).sum(), [u, v, y]))
    assert multiply_adds(ordered(graph), {}) == 6 * 300 * 20
    assert multiply_adds(ordered(graph, "exact"), {}) > 5_000_000


def test_within_a_loop_there_is_one_order() -> None:
    a, b, c = (sf.placeholder(s, name="x") for s in ((8, None), (None, 8), (None, 8)))
    graph = graph_of([a, b, c], sf.scan(lambda s, _: (s @ a @ b, None), c, length=3)[0])
    (report,) = [r for r in optimize(graph)[1] if r.name == "order_products"]
    assert [*report.counts] == ["the order that is nearest to the cheapest, over all sizes tried"]


@pytest.mark.parametrize("shapes", [[(2, 3), (3, 4), (4, 5)], [(40, 3), (3, 60), (60, 2)]])
def test_a_compiled_program_chooses_at_each_call(shapes: Any) -> None:
    program = three_matrices()
    rng = np.random.default_rng(1)
    arrays = [rng.integers(-2, 3, s).astype(np.float32) for s in shapes]
    a, b, c = arrays
    np.testing.assert_array_equal(program(*arrays).numpy(), np.maximum(a @ b @ c, 0))


_PROGRAMS: list[Any] = []


def three_matrices() -> Any:
    if not _PROGRAMS:
        a, b, c = (sf.placeholder((None, None), name=n) for n in "abc")
        _PROGRAMS.append(sf.compile([a, b, c], (a @ b @ c).relu()))
    return _PROGRAMS[0]


def test_products_of_unknown_sizes_are_one_kernel() -> None:
    """Whatever these sizes are called: four products in two orders, and what is behind them."""
    program = three_matrices()
    assert sum(k.name.startswith("contract") for k in program._executable.program.kernels) == 1


def test_products_are_compared_only_with_what_they_multiply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = 0
    multiplies = order_products._Search._multiplies

    def count(self: Any, node: Any, factor: Any) -> bool:
        nonlocal asked
        asked += 1
        return multiplies(self, node, factor)

    monkeypatch.setattr(order_products._Search, "_multiplies", count)
    x = sf.placeholder((4, 4), name="x")
    ordered(graph_of([x], *(x @ (x + i) for i in range(30)), (x @ x.sin()) @ x.cos()))
    assert asked <= 2
