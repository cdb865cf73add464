"""Sizes that only the run can tell, asked for in Python: answered by proof, or refused with the line and
what to do, so that no branch picks another program than the eager one."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import SymbolicError

X = sf.placeholder(("N", 3), name="x")
Y = sf.placeholder(("M", 3), name="y")
N, M = X.shape[0], Y.shape[0]


def matched(shape: Any) -> str:
    match shape:
        case (1, _):
            return "one"
        case _:
            return "other"


OPEN: dict[str, Callable[[], Any]] = {
    "==": lambda: N == 1,
    "!=": lambda: N != 1,
    "== on the right": lambda: 4 == N,  # noqa: SIM300
    "NumPy's integer": lambda: N in [np.int64(4)],
    "NumPy's integer on the left": lambda: np.int64(4) == N,
    "NumPy's integer as larger": lambda: np.int64(4) > N,
    "NumPy's array of no dims": lambda: np.array(4) != N,
    "a whole float": lambda: N == 4.0,
    "a product": lambda: N * 2 == 8,
    "two sizes": lambda: N == M,
    "a remainder": lambda: N % 2 == 0,
    "a quotient": lambda: N // 2 == 3,
    "a shape": lambda: X.shape == (4, 3),
    "two shapes": lambda: X.shape == Y.shape,
    "is_same_size": lambda: sf.is_same_size(X, Y),
    "the number of elements": lambda: X.numel() == 6,
    "size(0)": lambda: X.size(0) == 6,
    "in a tuple": lambda: N in (1, 2),
    "in a shape": lambda: 1 in X.shape,
    "index": lambda: X.shape.index(4),
    "count": lambda: X.shape.count(4),
    "in a set": lambda: N in {1, 2},
    "a dict": lambda: {1: "one"}.get(N),
    "a shape in a dict": lambda: {(1, 3): "one"}.get(X.shape),
    "match": lambda: matched(X.shape),
    "bool": lambda: bool(N),
    "not": lambda: not N,
    "if": lambda: 1 if N else 2,
    "<": lambda: N < 4,
    "max": lambda: max(N, 4),
    "negated": lambda: -N == -4,
    "of a result": lambda: (X @ sf.ones(3, 2)).shape[0] == 1,
    "of a late size": lambda: sf.nonzero(X).shape[0] == 1,
}
KNOWN: dict[str, tuple[Callable[[], Any], Any]] = {
    "itself": (lambda: X.shape[0] == N, True),
    "not itself": (lambda: X.shape[0] != N, False),
    "an expression": (lambda: 2 * N + 2 == 2 * (N + 1), True),
    "one more": (lambda: N + 1 == N, False),
    "NumPy's integer": (lambda: np.int64(0) == N + 1, False),
    "NumPy's fraction": (lambda: np.float32(0.5) == N, False),
    "NumPy's order": (lambda: np.int64(0) < N + 1, True),
    "a shorter shape": (lambda: X.shape == (4,), False),
    "not a longer shape": (lambda: (4, 3, 1) != X.shape, True),  # noqa: SIM300
    "a shape that differs behind": (lambda: X.shape == (4, 5), False),
    "the same shape": (lambda: X.shape == (N, 3) == X.shape, True),
    "negative": (lambda: N == -1, False),
    "a sum that is larger": (lambda: N + 5 == 4, False),
    "a fraction": (lambda: N == 2.5, False),
    "None": (lambda: N is None or N == None, False),  # noqa: E711
    "a word": (lambda: N == "N", False),
    "the known dim": (lambda: X.shape[1] == 3, True),
    "its own shape": (lambda: X.shape == (X * 2).shape, True),
    "another number of columns": (lambda: (3, 4) == (3, 4) and X.shape[1:] == (4,), False),
    "in": (lambda: N in (X.shape[0], 2), True),
    "a remainder that cancels": (lambda: (N * 2) % 2 == 0, True),
    ">=": (lambda: N >= 0, True),
}


@pytest.mark.parametrize("name", OPEN)
def test_what_depends_on_the_run_is_refused(name: str) -> None:
    with pytest.raises(SymbolicError) as caught:
        OPEN[name]()
    text = str(caught.value)
    assert "known only when the program runs" in text
    line = inspect.getsourcelines(OPEN[name])[1]
    assert re.search(rf"test_size_comparisons\.py:{line}\b", text) or name == "match"
    assert "sf.where" in text or "use a list" in text


@pytest.mark.parametrize("name", KNOWN)
def test_what_holds_for_every_size_is_answered(name: str) -> None:
    ask, wanted = KNOWN[name]
    assert ask() is wanted


def test_sizes_are_copied_and_pickled() -> None:
    for same in (copy.copy(N), copy.deepcopy(N), pickle.loads(pickle.dumps(N))):
        assert same == N and str(same) == "N"


def test_a_size_beside_a_tensor_is_one() -> None:
    program = sf.compile([X], [X.sum() / N, sf.tensor([4, 5]) == N, sf.tensor(4) * N])
    mean, same, product = program(np.ones((4, 3), np.float32))
    assert (float(mean), list(same), int(product)) == (3.0, [True, False], 16)


def test_a_branch_of_python_is_the_eager_one() -> None:
    """A function that asks is refused as it is traced, and runs where a literal 1 decides."""

    @sf.jit
    def scaled(x: Any) -> Any:
        return x if x.shape[0] == 1 else x * 2

    assert scaled(sf.ones(1, 3)).tolist() == [[1, 1, 1]]
    with pytest.raises(SymbolicError, match=r"whether .* == 1 depends on sizes"):
        scaled(sf.ones(4, 3))


def test_sizes_serve_in_shapes_and_arithmetic() -> None:
    """Everything that takes a size takes one that a user holds."""
    n, k = X.shape
    made = [
        sf.zeros(n, k) + X,
        sf.ones((n, k)).reshape(n * k),
        X.reshape(-1, n).reshape((n, k)),
        X.expand(2, n, k).sum(0),
        sf.arange(n).reshape(n, 1) + X,
        X[: n - 1].sum(0),
        X[n // 2 :].sum(0),
        X.narrow(0, n // 2, n - n // 2).sum(0),
        sf.full((n, 2), 7.0),
        X.new_zeros(n),
        sf.cat([X, sf.zeros(n, k)]).split([n, n])[0],
        sf.eye(k).repeat(n, 1).view(n, k, k).sum(1),
        sf.nn.functional.pad(X, (0, 0, n, 0)),
        sf.linspace(0, 1, 4) * n,
        X.clamp(max=n),
        X.roll(n - 1, 0),
        sf.where(X > n, X, n),  # noqa: SIM300
        sf.fori_loop(0, n, lambda i, s: s + i, sf.tensor(0)),
    ]
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert [np.asarray(out).shape for out in sf.compile([X], made)(x)] == [
        (4, 3), (12,), (4, 3), (4, 3), (4, 3), (3,), (3,), (3,), (4, 2), (4,), (4, 3), (4, 3), (8, 3),
        (4,), (4, 3), (4, 3), (4, 3), (),
    ]  # fmt: skip


def test_a_size_is_that_of_a_placeholder() -> None:
    z = sf.placeholder((X.shape[0] + 1, 3), name="z")
    program = sf.compile([X, z], X.sum() + z[1:].sum())
    assert float(program(np.ones((2, 3), "f4"), np.ones((3, 3), "f4"))) == 12


def test_a_size_is_compared_with_a_float_by_the_whole_number_beside_it() -> None:
    assert (N >= -0.5, N > -0.5, N + 3 > 2.5, N < -0.5, N + 1 <= 0.5) == (True,) * 3 + (False,) * 2
    for ask in (lambda: N < 2.5, lambda: N > 0.5, lambda: N <= 0.0):
        with pytest.raises(SymbolicError, match="known only when the program runs"):
            ask()
    with pytest.raises(SymbolicError, match="compared with nan; it must be a finite number"):
        assert np.nan > N
