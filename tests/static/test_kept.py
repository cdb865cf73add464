"""What a traced function keeps in Python for its next call or iteration: refused, or not used."""

from __future__ import annotations

from typing import Any

import pytest

import staticflow as sf


class Cell(sf.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.state: Any = None

    def forward(self, x: Any) -> Any:
        self.state = x if self.state is None else self.state + x
        return self.state * 1


def by_module() -> Any:
    return Cell()


def by_nonlocal() -> Any:
    total = sf.zeros(3)

    def add(x: Any) -> Any:
        nonlocal total
        total = total + x
        return total * 1

    return add


def by_dict() -> Any:
    kept = {"total": sf.zeros(3)}

    def add(x: Any) -> Any:
        kept["total"] = kept["total"] + x
        return kept["total"] * 1

    return add


def by_list() -> Any:
    rows: list[Any] = []

    def add(x: Any) -> Any:
        rows.append(x * 1)
        return sum(rows) * 1

    return add


def by_object() -> Any:
    class Counter:
        total = sf.zeros(3)

        def __call__(self, x: Any) -> Any:
            self.total = self.total + x
            return self.total * 1

    return Counter()


MAKERS = (by_module, by_nonlocal, by_dict, by_list, by_object)

WAYS = {
    "scan": lambda f, xs: sf.scan(lambda c, x: (c, f(x)), (), xs)[1],
    "map": lambda f, xs: sf.map(f, xs),
    "while_loop": lambda f, xs: sf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, f(y)), (0, xs[0]))[1],
    "cond": lambda f, xs: sf.cond(xs.sum() > 0, lambda: f(xs[0]), lambda: xs[0]),
}  # fmt: skip


@pytest.mark.parametrize("make", MAKERS)
def test_jit_refuses_a_function_that_goes_on_with_what_it_kept(make: Any) -> None:
    f, x = make(), sf.ones(3)
    assert (f(x), f(x))[1].tolist() == [2, 2, 2]
    with pytest.raises(sf.SymbolicError, match=r"jit: .* uses what it kept .*test_kept\.py"):
        sf.jit(make())(x)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", MAKERS)
def test_loops_and_branches_refuse_it(make: Any, way: str) -> None:
    f = make()  # made before the trace, so that jit alone would see it, too
    xs = sf.placeholder((None, 3), name="xs")
    with pytest.raises(sf.SymbolicError, match=rf"({way}|scan): .* uses what it kept"):
        WAYS[way](f, xs)


def test_a_branch_whose_symbol_is_used_outside_is_refused() -> None:
    def f(x: Any) -> Any:
        n = x.sum() * 0

        def branch() -> Any:
            nonlocal n
            n = n + 1
            return x * 2

        return sf.cond(x.sum() > 0, branch, lambda: x) + n

    with pytest.raises(sf.SymbolicError, match=r"cond: a branch uses what it kept"):
        sf.jit(f)(sf.ones(2))


def test_what_is_only_written_or_follows_from_sizes_may_be_kept() -> None:
    class Attention(sf.nn.Module):
        mask: Any = None

        def __init__(self) -> None:
            super().__init__()
            self.rows: list[Any] = []

        def forward(self, x: Any) -> Any:
            if self.mask is None:
                self.mask = sf.eye(x.shape[0])
            self.weights = (x @ x.t() * self.mask).softmax(-1)
            self.rows.append(self.weights.sum())
            return self.weights @ x

    eager, traced, x = Attention(), Attention(), sf.arange(6.0).reshape(2, 3)
    f = sf.jit(traced)
    for _ in range(2):
        assert f(x).tolist() == eager(x).tolist()
    assert f.compile_count == 1


def test_jit_refuses_changes_of_the_containers_that_it_is_given() -> None:
    def put(state: Any) -> Any:
        state["n"] = state["n"] + 1
        return state["n"]

    def append(rows: Any) -> Any:
        rows.append(rows[0])
        return rows[0]

    for f, given in ((put, {"n": sf.zeros(2)}), (append, [sf.zeros(2)])):
        with pytest.raises(sf.SymbolicError, match=r"return it instead, at .*test_kept\.py"):
            sf.jit(f)(given)
    assert sf.jit(lambda d: d["n"].add_(1))({"n": (n := sf.zeros(2))}) is n
