"""Functions of places, histograms, matrices and draws beside PyTorch's, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

torch = pytest.importorskip("torch", reason="the judge")

RNG = np.random.default_rng(4)


def spread(*shape: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(dtype)


def factor() -> np.ndarray[Any, Any]:
    return np.tril(spread(2, 3, 3)) + 3 * np.eye(3)


MASKS = RNG.integers(0, 2, (3, 4))
LEVELS = RNG.integers(0, 6, (4, 5)) / 2.0
EDGES = np.array([-0.5, 0.5, 1.0, 2.5])

CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray[Any, Any], ...]]] = {
    "matrix_exp": (lambda lib, x: lib.matrix_exp(x), (spread(2, 4, 4),)),
    "matrix_exp of large": (lambda lib, x: lib.linalg.matrix_exp(x * 30), (spread(3, 3),)),
    "matrix_exp of float32": (lambda lib, x: x.matrix_exp(), (spread(3, 3, dtype="f4"),)),
    "cholesky_inverse": (lambda lib, x: lib.cholesky_inverse(x), (factor(),)),
    "cholesky_inverse of upper": (
        lambda lib, x: x.cholesky_inverse(upper=True), (factor().swapaxes(1, 2),),
    ),
    "householder_product": (
        lambda lib, a, tau: lib.linalg.householder_product(a, tau), (spread(2, 4, 3), spread(2, 2)),
    ),
    "vander": (lambda lib, x: lib.linalg.vander(x), (spread(2, 3),)),
    "vander of integers": (lambda lib, x: lib.linalg.vander(x, N=4), (np.arange(3) - 1,)),
    "unravel_index": (
        lambda lib, x: lib.stack(lib.unravel_index(x, (2, 3, 4))), (np.array([[0, 23], [-1, 30]]),),
    ),
    "unravel_index of a vector": (
        lambda lib, x: lib.stack(lib.unravel_index(x, 7)), (np.arange(7),),
    ),
    "nonzero_static": (lambda lib, x: lib.nonzero_static(x, size=4), (MASKS,)),
    "nonzero_static of few": (
        lambda lib, x: lib.nonzero_static(x, size=20, fill_value=9), (MASKS.astype(bool),),
    ),
    "nonzero_static of none": (lambda lib, x: x.nonzero_static(size=0), (spread(3),)),
    "nonzero_static of a number": (lambda lib, x: x.nonzero_static(size=2), (np.array(1.0),)),
    "histogram": (lambda lib, x: lib.histogram(x, 4)[0], (LEVELS,)),
    "bounds of a histogram": (lambda lib, x: lib.histogram(x, 3)[1], (LEVELS,)),
    "histogram in a range": (lambda lib, x: x.histogram(4, range=(0.5, 2.0))[0], (LEVELS,)),
    "histogram of one value": (lambda lib, x: lib.histogram(x * 0, 3)[1], (LEVELS,)),
    "histogram of nothing": (lambda lib, x: lib.histogram(x, 3)[1], (np.zeros(0),)),
    "histogram by bounds": (lambda lib, x, e: lib.histogram(x, e)[0], (LEVELS, EDGES)),
    "weighted density": (
        lambda lib, x, e, w: lib.histogram(x, e, weight=w, density=True)[0],
        (LEVELS, EDGES, abs(spread(4, 5))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_are_pytorchs_in_both_modes(name: str) -> None:
    fn, arrays = CASES[name]
    wanted = fn(torch, *map(torch.from_numpy, arrays))
    symbols = [sf.placeholder(a.shape, a.dtype) for a in arrays]
    for found in (
        fn(sf, *map(sf.from_numpy, arrays)),
        sf.compile(symbols, fn(sf, *symbols))(*arrays),
        sf.jit(lambda *given: fn(sf, *given), dynamic=False)(*arrays),
    ):
        assert str(found.dtype.numpy) == str(wanted.numpy().dtype)
        assert found.shape == tuple(wanted.shape)
        tolerance = 1e-4 if found.dtype is sf.float32 else 1e-10
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), tolerance, 1e-12)


@pytest.mark.parametrize(
    "name",
    ["matrix_exp", "cholesky_inverse", "householder_product", "vander"],
)
def test_gradients_of_first_and_second_order(name: str) -> None:
    fn, arrays = CASES[name]
    leaves = [sf.from_numpy(a[0]).requires_grad_() for a in arrays]
    assert sf.autograd.gradcheck(lambda *given: fn(sf, *given), leaves)
    assert sf.autograd.gradgradcheck(lambda *given: fn(sf, *given), leaves)


@pytest.mark.parametrize("name", ["matrix_exp", "nonzero_static", "householder_product", "vander"])
def test_rows_by_vmap(name: str) -> None:
    fn, arrays = CASES[name]
    given = [sf.from_numpy(a) for a in arrays]
    rows = sf.vmap(lambda *row: fn(sf, *row))(*given)
    for i in range(len(arrays[0])):
        sf.testing.assert_close(rows[i], fn(sf, *(g[i] for g in given)))


def test_open_sizes() -> None:
    places = sf.jit(lambda x: sf.nonzero_static(x, size=3))
    for n in (2, 5):
        mask = np.arange(n) % 2
        wanted = torch.nonzero_static(torch.from_numpy(mask), size=3)
        assert places(mask).tolist() == wanted.tolist()
    assert places.trace_count == 1
    powers = sf.jit(lambda x: sf.matrix_exp(x) + sf.linalg.vander(x[0], N=x.shape[1]).sum())
    for n in (2, 3):
        x = spread(n, n)
        wanted = np.asarray(torch.matrix_exp(torch.from_numpy(x))) + np.vander(x[0]).sum()
        np.testing.assert_allclose(powers(x).numpy(), wanted)


@pytest.mark.parametrize("length", [0, 1, 2, 7])
@pytest.mark.parametrize("periodic", [False, True])
@pytest.mark.parametrize("beta", [0.0, 3.0, 12.0])
def test_kaiser_windows(length: int, periodic: bool, beta: float) -> None:
    found = sf.kaiser_window(length, periodic, beta, dtype=sf.float64)
    wanted = torch.kaiser_window(length, periodic, beta, dtype=torch.float64)
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-6)


DRAWS: dict[str, Callable[[Any], Any]] = {
    "log_normal_": lambda x: x.log_normal_(0.5, 0.25).log(),
    "cauchy_": lambda x: x.cauchy_(1.0, 2.0).clamp(-50, 50),
    "geometric_": lambda x: x.geometric_(0.3),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_have_the_quantiles_of_pytorchs(name: str) -> None:
    """Of 40,000 numbers each, whose shares below a value differ by 0.02 in fewer than one of 10^7
    runs; the seeds are fixed."""
    sf.manual_seed(1)
    torch.manual_seed(1)
    ours = DRAWS[name](sf.zeros(40_000)).numpy()
    theirs = DRAWS[name](torch.zeros(40_000)).numpy()
    for value in np.quantile(theirs, [0.05, 0.25, 0.5, 0.75, 0.95]):
        assert abs((ours <= value).mean() - (theirs <= value).mean()) < 0.02
    sf.manual_seed(1)
    compiled = sf.jit(lambda x: DRAWS[name](x * 0))(np.zeros(40_000, "f4"))
    np.testing.assert_allclose(compiled.numpy(), ours, 1e-5, 1e-6)


def test_geometric_numbers_of_integers() -> None:
    drawn = sf.zeros(1000, dtype=sf.int64).geometric_(0.5)
    assert drawn.dtype is sf.int64 and drawn.min() == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sf.zeros(2).geometric_(1.0), "geometric_: the probability must lie between"),
        (lambda: sf.zeros(2, dtype=int).cauchy_(), "cauchy_: of int64, which holds no fractions"),
        (lambda: sf.zeros(2).log_normal_(std=0), "log_normal_: the deviation must be above 0"),
        (lambda: sf.zeros(2).cauchy_(sigma=-1), "cauchy_: the scale must be above 0, not -1"),
        (lambda: sf.unravel_index(sf.ones(2), (2, 2)), "the indices are of float32; they must be"),
        (lambda: sf.histogram(sf.ones(2), 0), "bins is 0; it must be 1 at least"),
        (lambda: sf.histogram(sf.ones(2), 2, range=(1.0, 0.0)), "two finite numbers that ascend"),
        (lambda: sf.histogram(sf.ones(2), 2, weight=sf.ones(3)), r"weight has shape \[3\]"),
        (lambda: sf.histogram(sf.ones(2, dtype=int), 2), "the input is of int64; it must be float"),
        (lambda: sf.histogram(sf.ones(2), sf.ones(2, 2)), "bounds are a vector"),
        (lambda: sf.histogram(sf.ones(2), sf.ones(1)), "there must be 2 bounds at least"),
        (lambda: sf.nonzero_static(sf.ones(2), size=3, fill_value=1.5), "must be int"),
        (lambda: sf.linalg.householder_product(sf.ones(2, 3), sf.ones(2)), "no more columns than"),
        (
            lambda: sf.linalg.householder_product(sf.placeholder((None, 2)), sf.ones(2)),
            "must be known as the graph is written",
        ),
        (lambda: sf.matrix_exp(sf.ones(2, 3)), "the rows and the columns.*differ"),
    ],
)
def test_what_is_refused(call: Any, message: str) -> None:
    with pytest.raises(sf.errors.StaticflowError, match=message):
        call()
