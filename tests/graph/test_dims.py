"""The exact arithmetic of sizes against Python's integers."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import plain_proofs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from staticflow.errors import ShapeError, SymbolicError
from staticflow.graph import proofs
from staticflow.graph.dim_queries import coefficient, evaluate_dim, substitute_dim, symbols_of
from staticflow.graph.dims import (
    Call,
    Dim,
    Size,
    Sym,
    ceil_div,
    dim_max,
    dim_min,
    floor_div,
    fresh_sym,
    is_provably_ge,
    prod,
)

N_SYM, M_SYM = Sym("N"), Sym("M")
N, M = Dim.of(N_SYM), Dim.of(M_SYM)
I_SYM, J_SYM = Sym("i", 1, upper=N + 1), Sym("i", 2, upper=4)  # bounded, and of one name
SYMS = (N_SYM, M_SYM, I_SYM, J_SYM)


# --- expressions as trees, so that they can be computed twice ---


@dataclass(frozen=True)
class Tree:
    """``fn`` of two trees; a leaf is a symbol or an int."""

    fn: str
    a: Tree | Sym | int
    b: Tree | Sym | int


SYMBOLIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": floor_div,
    "%": operator.mod,
    "max": dim_max,
    "min": dim_min,
}
NUMERIC = SYMBOLIC | {"//": operator.floordiv, "max": max, "min": min}


def compute(
    tree: Tree | Sym | int, leaves: Mapping[Sym, Any], fns: dict[str, Callable[[Any, Any], Any]]
) -> Any:
    if isinstance(tree, Tree):
        return fns[tree.fn](compute(tree.a, leaves, fns), compute(tree.b, leaves, fns))
    return leaves[tree] if isinstance(tree, Sym) else tree


leaves = st.sampled_from(SYMS) | st.integers(-4, 6)
divisors = st.integers(1, 5) | st.builds(
    Tree, st.just("+"), st.sampled_from(SYMS), st.integers(1, 3)
)


def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(
        Tree, st.sampled_from(["+", "-", "*", "max", "min"]), inner, inner
    ) | st.builds(Tree, st.sampled_from(["//", "%"]), inner, divisors)


trees = st.recursive(leaves, grow, max_leaves=6)


@st.composite
def values(draw: st.DrawFn) -> dict[Sym, int]:
    """Values that the symbols can take, bounds kept."""
    n, m = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    return {
        N_SYM: n,
        M_SYM: m,
        I_SYM: draw(st.integers(0, n)),
        J_SYM: draw(st.integers(0, 3)),
    }


SELVES: dict[Sym, Size] = {s: Dim.of(s) for s in SYMS}
EVERYWHERE = [
    {N_SYM: n, M_SYM: m, I_SYM: i, J_SYM: j}
    for n in (0, 1, 2, 5)
    for m in (0, 1, 3)
    for i in sorted({0, n // 2, n})
    for j in (0, 3)
]


@given(trees, values())
@settings(max_examples=400, deadline=None)
def test_arithmetic_agrees_with_integers(tree: Tree, at: dict[Sym, int]) -> None:
    size = compute(tree, SELVES, SYMBOLIC)
    assert evaluate_dim(size, at) == compute(tree, at, NUMERIC)


@given(trees, trees)
@settings(max_examples=400, deadline=None)
@example(Tree("//", Tree("-", N_SYM, 4), 2), 0)  # a quotient may be negative
@example(Tree("%", Tree("%", N_SYM, Tree("+", M_SYM, 1)), 2), N_SYM)  # one inside another
@example(Tree("*", Tree("max", Tree("-", N_SYM, 9), -1), Tree("max", Tree("-", N_SYM, 9), -1)), 1)
def test_a_proof_never_claims_a_falsehood(a: Tree, b: Tree) -> None:
    x, y = compute(a, SELVES, SYMBOLIC), compute(b, SELVES, SYMBOLIC)
    assert is_provably_ge(x, y) is plain_proofs.is_provably_ge(x, y)
    if is_provably_ge(x, y):
        for at in EVERYWHERE:
            assert evaluate_dim(x, at) >= evaluate_dim(y, at), (x, y, at)


@given(trees, trees, values())
@settings(max_examples=200, deadline=None)
def test_substituting_then_evaluating_is_evaluating(
    tree: Tree, new: Tree, at: dict[Sym, int]
) -> None:
    size = compute(tree, SELVES, SYMBOLIC)
    replacement = dim_max(compute(new, SELVES, SYMBOLIC), 0)  # a symbol is never negative
    replaced = substitute_dim(size, {M_SYM: replacement})
    there = at | {M_SYM: evaluate_dim(replacement, at)}
    assert evaluate_dim(replaced, at) == evaluate_dim(size, there)


@given(trees, trees, trees)
@settings(max_examples=200, deadline=None)
def test_equal_polynomials_are_equal_objects(a: Tree, b: Tree, c: Tree) -> None:
    x, y, z = (compute(t, SELVES, SYMBOLIC) for t in (a, b, c))
    assert x * (y + z) == z * x + y * x
    assert (x + y) - y == x
    assert hash(x * y) == hash(y * x)
    assert dim_max(x, y) == dim_max(y, x)


@given(trees, divisors, values())
@settings(max_examples=200, deadline=None)
def test_quotient_and_remainder_restore_the_dividend(
    tree: Tree, divisor: Tree, at: dict[Sym, int]
) -> None:
    e, d = compute(tree, SELVES, SYMBOLIC), compute(divisor, SELVES, SYMBOLIC)
    assert (e // d) * d + e % d == e
    assert 0 <= evaluate_dim(e % d, at) < evaluate_dim(d, at)


@given(trees)
@settings(max_examples=200, deadline=None)
def test_text_is_python_for_the_same_size(tree: Tree) -> None:
    """What is printed, read as Python with Python's precedence, is the size again."""
    apart = {I_SYM: Dim.of(Sym("j")), J_SYM: Dim.of(Sym("k"))}
    size = substitute_dim(compute(tree, SELVES, SYMBOLIC), apart)
    names = {"N": N, "M": M, "j": apart[I_SYM], "k": apart[J_SYM], "max": dim_max, "min": dim_min}
    assert eval(str(size), names) == size


@given(trees)
@settings(max_examples=100, deadline=None)
def test_pickle_and_copy_give_the_same_size(tree: Tree) -> None:
    size = compute(tree, SELVES, SYMBOLIC)
    assert pickle.loads(pickle.dumps(size)) == size == copy.deepcopy(size)


# --- what must be known ---


@pytest.mark.parametrize(
    ("size", "simple"),
    [
        ((N + 1) * 2 - N, N + 2),
        (N - N, 0),
        (N * 0, 0),
        ((2 * N) // 2, N),
        ((4 * N + 6) // 2, 2 * N + 3),
        ((N * M) // M, N),
        (N // N, 1),
        (N // 1, N),
        ((N * M) % M, 0),
        ((N // 2) // 3, N // 6),
        (Dim.of(J_SYM) // 4, 0),
        (Dim.of(J_SYM) % 4, Dim.of(J_SYM)),
        ((N * 4 + Dim.of(J_SYM)) // 4, N),
        (Dim.of(I_SYM) // (N + 1), 0),
        (ceil_div(N * 8, 8), N),
        (ceil_div(9, 4), 3),
        (dim_max(N, 0), N),
        (dim_max(N, N + 1), N + 1),
        (dim_min(N, 2 * N), N),
        (dim_max(3, 5), 5),
        (prod([]), 1),
        (prod([2, N, 3, M]), 6 * N * M),
    ],
)  # fmt: skip
def test_simplifies(size: Size, simple: Size) -> None:
    assert size == simple
    assert type(size) is type(simple)


@pytest.mark.parametrize(
    ("a", "b", "proved"),
    [
        (N, 0, True),
        (N, 1, False),
        (2 * N, N, True),
        (N * M + 3, 3, True),
        (N, M, False),
        (N, Dim.of(I_SYM), True),
        (N, Dim.of(I_SYM) + 1, False),
        (3, Dim.of(J_SYM), True),
        (dim_max(N, M), N, True),
        (N, dim_min(N, M), True),
        (dim_min(N, M), 0, True),
        (N % M, 0, True),
        (M - 1, N % M, True),
        (N // (M + 1) * (M + 1), N, False),
        (N, N // (M + 1) * (M + 1), True),
        (N // 2 * 6, 3 * N - 3, True),
        (N, N // 2, False),  # true, and beyond the prover: False only means "not proved"
    ],
)
def test_proofs(a: Size, b: Size, proved: bool) -> None:
    assert is_provably_ge(a, b) is proved


def test_order_answers_only_what_always_holds() -> None:
    assert N >= 0 and not N < 0 and N + 1 > N and N <= 2 * N and bool(N + 1)
    with pytest.raises(SymbolicError, match="whether N > 3 depends on sizes"):
        N > 3  # noqa: B015
    with pytest.raises(SymbolicError, match=r"bool\(N\)"):
        bool(N)


def test_a_dim_is_no_python_int() -> None:
    with pytest.raises(SymbolicError, match=r"the size N \+ 1 is known only"):
        range(N + 1)
    with pytest.raises(SymbolicError):
        int(N)
    with pytest.raises(SymbolicError, match="no Python float"):
        float(N)
    text: Any = "0.5"
    with pytest.raises(TypeError):
        N + text
    with pytest.raises(AttributeError, match="immutable"):
        N.terms = ()


def test_division_by_zero_is_refused() -> None:
    with pytest.raises(ShapeError, match="the size N is divided by zero"):
        N // 0
    with pytest.raises(ShapeError, match="the size 3 is divided by zero"):
        floor_div(3, 0)


def test_symbols_are_told_apart_by_serial() -> None:
    a, b = fresh_sym("k"), fresh_sym("k")
    assert a != b and str(a) == str(b) == "k"
    assert a - b != 0 and (a // 2) - (b // 2) != 0
    assert (a // 2) * (b // 2) == (b // 2) * (a // 2)
    assert Dim.of(Sym("k")) == Dim.of(Sym("k"))


def test_symbols_and_coefficients() -> None:
    inner = floor_div(N + 1, M + 2)
    assert symbols_of(inner + 1) == {N_SYM, M_SYM}
    assert symbols_of(7) == frozenset()
    assert coefficient(3 * N * M + M + 1, N_SYM) == 3 * M
    assert coefficient(M, N_SYM) == 0
    assert coefficient(N * N, N_SYM) is None
    assert coefficient(inner, N_SYM) is None


def test_evaluating_needs_every_symbol() -> None:
    with pytest.raises(KeyError):
        evaluate_dim(N + M, {N_SYM: 1})
    assert evaluate_dim(5, {}) == 5


def test_atoms_print_as_what_they_compute() -> None:
    assert str(Dim.of(Call("max", N, 3))) == "max(N, 3)"
    assert str(2 * N * M - 3) == "2*M*N - 3"
    assert str(N * floor_div(M + 1, 2)) == "N*((M + 1)//2)"
    assert str(floor_div(M, 2 * N) + 1) == "M//(2*N) + 1"
    assert str(-floor_div(M, 2)) == "-(M//2)"


def test_equal_symbols_with_other_bounds_are_proved_apart() -> None:
    tight, wide, open_ = (Dim.of(Sym("k", 7, upper)) for upper in (4, 9, None))
    within = [dim_max(k - 5, 0) for k in (tight, wide, open_)]
    for _ in range(2):
        assert [is_provably_ge(5, k) for k in (tight, wide, open_)] == [True, False, False]
    assert [is_provably_ge(0, w) for w in within] == [True, False, False]


@pytest.mark.parametrize(("late", "times"), [(False, 1), (True, 2)])
def test_what_is_asked_again_is_not_proved_again_unless_a_symbol_is_late(
    late: bool, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = fresh_sym("n", late=late)
    question = dim_max(n * 2, 7) - dim_min(n, 3)
    asked: list[Any] = []
    prove = proofs._prove
    monkeypatch.setattr(proofs, "_prove", lambda terms: asked.append(terms) or prove(terms))
    assert is_provably_ge(question, 0) and is_provably_ge(question, 0)
    assert asked.count(asked[0]) == times
