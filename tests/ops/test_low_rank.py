"""The few largest singular values, by products with random matrices: against all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def of_rank(rank: int, *shape: int) -> Any:
    *batch, m, n = shape
    return numbers(*batch, m, rank) @ numbers(*batch, rank, n)


@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (2, 3, 12, 9), (6, 6)], ids=str)
@pytest.mark.parametrize("niter", [0, 2])
def test_a_matrix_of_low_rank_is_found(shape: tuple[int, ...], niter: int) -> None:
    A = of_rank(4, *shape)
    U, S, V = sf.svd_lowrank(sf.tensor(A), q=5, niter=niter)
    eye = np.broadcast_to(np.eye(5), (*shape[:-2], 5, 5))
    for columns in (U, V):
        np.testing.assert_allclose((columns.mT @ columns).numpy(), eye, atol=1e-12)
    np.testing.assert_allclose((U * S.unsqueeze(-2) @ V.mT).numpy(), A, atol=1e-11)
    np.testing.assert_allclose(S.numpy(), np.linalg.svd(A)[1][..., :5], atol=1e-12)


def test_more_iterations_come_nearer() -> None:
    A = sf.tensor(numbers(60, 40))
    largest = np.linalg.svd(A.numpy())[1][:5]
    sf.manual_seed(0)
    missing = [abs(sf.svd_lowrank(A, q=5, niter=k)[1].numpy() - largest).max() for k in (0, 4, 100)]
    assert missing[0] > missing[1] > missing[2] and missing[2] < 1e-6


def test_what_is_taken_away() -> None:
    A, M = sf.tensor(of_rank(3, 9, 7)), sf.tensor(numbers(7))
    _, S, _ = sf.svd_lowrank(A, q=6, M=M)
    np.testing.assert_allclose(S.numpy(), np.linalg.svd((A - M).numpy())[1][:6], atol=1e-12)


def test_principal_components_are_those_of_the_covariance() -> None:
    points = of_rank(3, 50, 8) + 5.0
    U, S, V = sf.pca_lowrank(sf.tensor(points), q=3)
    assert (U.shape, S.shape, V.shape) == ((50, 3), (3,), (8, 3))
    values = np.linalg.eigvalsh(np.cov(points.T))[::-1][:3]
    np.testing.assert_allclose(S.numpy() ** 2 / 49, values, rtol=1e-10)
    assert [v.shape for v in sf.pca_lowrank(sf.ones(4, 9))] == [(4, 4), (4,), (9, 4)]
    largest = sf.pca_lowrank(sf.tensor(points), q=4, center=False)[1]
    np.testing.assert_allclose(largest.numpy(), np.linalg.svd(points)[1][:4], atol=1e-10)


def test_a_program_of_open_sizes_and_its_gradient() -> None:
    """The sum of the squares of all singular values is that of the elements."""
    rows = sf.jit(lambda x: sf.svd_lowrank(x, q=5)[1].square().sum())
    leaf = sf.tensor(numbers(8, 5), requires_grad=True)
    rows(leaf).backward()
    np.testing.assert_allclose(leaf.grad.numpy(), 2 * leaf.detach().numpy(), rtol=1e-9)
    y = sf.placeholder((None, None), "float64", "y")
    shapes = [v.shape for v in sf.jit(lambda y: sf.svd_lowrank(y, q=3))(sf.ones(9, 6))]
    assert shapes == [(9, 3), (3,), (6, 3)]
    assert [v.shape[-1] for v in sf.svd_lowrank(y, q=3)] == [3, 3, 3]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: sf.svd_lowrank(sf.ones(3)), r"matrices \(\.\.\., m, n\)"),
        (lambda: sf.pca_lowrank(sf.ones(3)), r"matrices \(\.\.\., m, n\)"),
        (lambda: sf.svd_lowrank(sf.ones(9, 4), q=5), "q is 5, and dim -1 of A"),
        (lambda: sf.svd_lowrank(sf.ones(9, 7), niter=-1), "niter is -1; it must be 0 at least"),
    ],
)
def test_wrong_calls(call: Any, says: str) -> None:
    with pytest.raises(sf.StaticflowError, match=says):
        call()
