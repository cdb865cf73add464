"""An error of a function that is composed of ops names the function, whichever op failed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import staticflow as sf
from staticflow import linalg
from staticflow.nn import functional as F

A, B = (2, 3), (2, 4)


def _assign(x: Any, y: Any) -> None:
    x[0] = y[0]


PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "allclose: sub(": sf.allclose,
    "cdist: the columns": sf.cdist,
    "cosine_similarity: broadcast_tensors:": F.cosine_similarity,
    "indexing: expand(": _assign,
    "kl_div: mul(": F.kl_div,
    "KLDivLoss: mul(": sf.nn.KLDivLoss(),
    "Normal: broadcast_tensors:": sf.distributions.Normal,
    "Sequential: linear(": lambda x, _: sf.nn.Sequential(sf.nn.Linear(4, 2))(x),
    "soft_margin_loss: mul(": F.soft_margin_loss,
    "triplet_margin_loss: sub(": lambda x, y: F.triplet_margin_loss(x, y, x),
    "vecdot: mul(": linalg.vecdot,
    "vstack: cat(": lambda x, y: sf.vstack([x, y]),
}
"""Calls of tensors of shapes ``A`` and ``B``, by how their errors begin."""

ONE: dict[str, Callable[[Any], Any]] = {
    "det: slogdet(": linalg.det,
    "gumbel_softmax: softmax:": lambda x: F.gumbel_softmax(x, dim=4),
    "inv: solve(": linalg.inv,
    "normalize: vector_norm:": lambda x: F.normalize(x, dim=4),
    "quantile: q is 2": lambda x: sf.quantile(x, 2.0),
    "var: dim 7": lambda x: sf.var_mean(x, 7),
    "split: the sizes": lambda x: x.split([1, 2, 3]),
    "add(": lambda x: x.add(sf.ones(2)),
    "softmax: dim 4": lambda x: F.softmax(x, 4),
}


@pytest.mark.parametrize("begin", PAIRS)
def test_both_modes_name_the_function(begin: str) -> None:
    symbols = [sf.placeholder(s, name=n) for s, n in ((A, "x"), (B, "y"))]
    for operands in (map(sf.ones, (A, B)), symbols):
        with pytest.raises(sf.ShapeError) as caught:
            PAIRS[begin](*operands)
        assert str(caught.value).startswith(begin) and __file__ in str(caught.value)


@pytest.mark.parametrize("begin", ONE)
def test_of_one_tensor(begin: str) -> None:
    for x in (sf.ones(2, 3), sf.placeholder(A, name="x")):
        with pytest.raises(sf.StaticflowError) as caught:
            ONE[begin](x)
        assert str(caught.value).startswith(begin)


def test_copies_and_values_of_tensors() -> None:
    with pytest.raises(sf.ShapeError, match=r"^copy: expand\("):
        sf.ones(2).copy_(sf.ones(3))
    log_probs = sf.zeros(3, 1, 4).log_softmax(-1)
    with pytest.raises(sf.IndexRangeError, match=r"^ctc_loss: gather: "):
        F.ctc_loss(log_probs, sf.tensor([[9]]), sf.tensor([3]), sf.tensor([1]))


def test_what_a_users_function_calls_is_named_as_they_called_it() -> None:
    def step(carry: Any, x: Any) -> Any:
        return carry + sf.ones(5), x

    with pytest.raises(sf.ShapeError, match=r"^add\("):
        sf.scan(step, sf.ones(2), sf.ones(3))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: sf.split(x, [1, 2]), r"^split: the sizes \[1, 2\] and dim 0"),
        (lambda x: sf.vsplit(x, 3), "^vsplit: 3 equal parts and dim 0"),
        (lambda x: x.unflatten(0, (2, 3)), r"^unflatten: \[2, 3\] and dim 0"),
    ],
)
def test_a_size_that_the_call_tells(call: Callable[[Any], Any], words: str) -> None:
    x = sf.placeholder((None, 4), name="x")
    found = call(x)
    program = sf.compile([x], list(found) if isinstance(found, tuple) else found)
    with pytest.raises(sf.ShapeError, match=words):
        program(sf.ones(5, 4))


# an op itself, the size of a weight, a truth, and what is no tensor
TOLD_BY_A_TRACE = "indexing", "Sequential", "allclose", "Normal"


@pytest.mark.parametrize("begin", [b for b in PAIRS if not b.startswith(TOLD_BY_A_TRACE)])
def test_sizes_of_a_call_name_the_function(begin: str) -> None:
    x, y = (sf.placeholder((2, None), name=n) for n in "xy")
    found = PAIRS[begin](x, y)
    program = sf.compile([x, y], found)
    with pytest.raises(sf.ShapeError) as caught:
        program(sf.ones(A), sf.ones(B))
    assert str(caught.value).startswith(begin.partition(" ")[0]) and __file__ in str(caught.value)


RUNS: dict[str, tuple[Callable[[Any, Any], Any], Any, Any]] = {
    "take_along_dim: gather(": (
        lambda x, k: sf.take_along_dim(x, k.reshape(1, -1), 1), sf.ones(2, 3), [0, 7],
    ),
    "take_along_dim: gather(f": (
        lambda x, k: x.take_along_dim(k.reshape(1, -1), 1), sf.ones(2, 3), [0, 7],
    ),
    "one_hot: scatter(": (lambda x, k: F.one_hot(k, 3), sf.ones(2, 3), [0, 7]),
    "inv: solve(": (lambda x, k: linalg.inv(x), sf.zeros(2, 2), [0]),
    "inv: solve: the rows": (lambda x, k: linalg.inv(x), sf.zeros(2, 3), [0]),
    "Embedding: embedding(": (lambda x, k: sf.nn.Embedding(3, 2)(k), sf.ones(2, 3), [0, 7]),
    "embedding(": (lambda x, k: F.embedding(k, x), sf.ones(2, 3), [0, 7]),
    "gather(": (lambda x, k: x.gather(1, k.reshape(1, -1)), sf.ones(2, 3), [0, 7]),
    "view: reshape: ": (lambda x, k: x.view(2, 2), sf.ones(2, 3), [0]),
    "MultivariateNormal: cholesky(": (
        lambda x, k: sf.distributions.MultivariateNormal(x[0], x).scale_tril,
        sf.zeros(2, 2), [0],
    ),
    "cov: the aweights": (lambda x, k: sf.cov(x[0], aweights=x[:, 0]), sf.ones(2, 3), [0]),
}  # fmt: skip
"""Functions that fail as a program runs, with operands, by how their errors begin."""


@pytest.mark.parametrize("begin", RUNS)
def test_a_run_names_the_function(begin: str) -> None:
    function, x, k = RUNS[begin]
    symbols = sf.placeholder((None, None), name="x"), sf.placeholder((None,), "int64", name="k")
    program = sf.compile(symbols, function(*symbols))
    with pytest.raises(sf.StaticflowError) as caught:
        program(x, sf.tensor(k))
    assert str(caught.value).startswith(begin) and __file__ in str(caught.value)
