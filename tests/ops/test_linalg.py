"""What follows from the factors of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ArgumentError, AutogradError, ShapeError

RNG = np.random.default_rng(0)
A = RNG.standard_normal((4, 3))
B = RNG.standard_normal((4, 2))
SQUARE = RNG.standard_normal((2, 3, 3))


def close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found.numpy(), wanted, 1e-9, 1e-12)


def test_qr_of_every_shape_and_mode() -> None:
    for shape in ((4, 3), (3, 4), (2, 3, 2), (3, 0), (0, 3)):
        x = sf.tensor(RNG.standard_normal(shape))
        for mode in ("reduced", "complete"):
            q, r = sf.linalg.qr(x, mode)
            wanted = np.linalg.qr(x.numpy(), mode)
            assert (q.shape, r.shape) == (wanted[0].shape, wanted[1].shape)
            close(q @ r, x.numpy())
    q, r = sf.linalg.qr(sf.tensor(A), "r")
    assert q.shape == (0,) and r.shape == (3, 3)
    assert sf.qr(sf.tensor(A), some=False).Q.shape == (4, 4)
    wide = sf.tensor(A.T.copy(), requires_grad=True)
    assert sf.autograd.gradcheck(lambda x: tuple(v * v for v in sf.linalg.qr(x)), wide)


def test_singular_values() -> None:
    x = sf.tensor(A)
    close(sf.linalg.svdvals(x), np.linalg.svd(A)[1])
    u, s, vh = sf.linalg.svd(x)
    assert u.shape == (4, 4) and vh.shape == (3, 3)
    close((u[:, :3] * s) @ vh, A)
    u, s, v = x.svd()
    close((u * s) @ v.mT, A)
    assert u.shape == (4, 3)
    close(sf.linalg.pinv(x), np.linalg.pinv(A))
    close(x.pinverse(), np.linalg.pinv(A))
    close(sf.linalg.cond(x), np.linalg.cond(A))
    close(sf.linalg.lstsq(x, sf.tensor(B)).solution, np.linalg.lstsq(A, B)[0])
    close(sf.linalg.lstsq(x, sf.tensor(B)).residuals, np.linalg.lstsq(A, B)[1])
    for ord in (2, -2, "nuc"):
        close(sf.linalg.matrix_norm(x, ord), np.linalg.norm(A, ord))
        close(sf.linalg.norm(x, ord), np.linalg.norm(A, ord))
    turned = sf.tensor(SQUARE).permute(1, 0, 2)
    close(sf.linalg.matrix_norm(turned, 2, (0, 2), keepdim=True)[0, :, 0],
          np.linalg.norm(SQUARE, 2, (1, 2)))  # fmt: skip


def test_ranks() -> None:
    x = sf.tensor([[1.0, 2.0], [2.0, 4.0]])
    assert sf.linalg.matrix_rank(x).item() == 1 and sf.linalg.matrix_rank(x * 0).item() == 0
    assert sf.linalg.matrix_rank(x, hermitian=True).item() == 1
    assert sf.linalg.matrix_rank(sf.tensor(SQUARE)).tolist() == [3, 3]
    assert sf.linalg.matrix_rank(sf.tensor(A), atol=100.0).item() == 0


def test_the_inverse_of_a_hermitian_matrix_reads_its_lower_part() -> None:
    x = np.array([[2.0, 9.0], [1.0, 3.0]])
    wanted = np.linalg.pinv(np.array([[2.0, 1.0], [1.0, 3.0]]))
    np.testing.assert_allclose(sf.linalg.pinv(sf.tensor(x), hermitian=True).numpy(), wanted, 1e-12)


def test_symmetric_matrices() -> None:
    s = SQUARE @ SQUARE.swapaxes(-1, -2)
    values, vectors = sf.linalg.eigh(sf.tensor(s))
    close(vectors @ sf.diag_embed(values) @ vectors.mT, s)
    lower, upper = np.tril(s), np.triu(s)
    close(sf.linalg.eigvalsh(sf.tensor(lower)), values.numpy())
    close(sf.linalg.eigvalsh(sf.tensor(upper), UPLO="U"), values.numpy())


@pytest.mark.parametrize("upper", [True, False], ids=["upper", "lower"])
def test_triangular_systems_in_both_modes(upper: bool) -> None:
    a, b = sf.tensor(SQUARE), sf.tensor(RNG.standard_normal((2, 3, 2)))
    part = (np.triu if upper else np.tril)(SQUARE)
    x = sf.linalg.solve_triangular(a, b, upper=upper)
    close(sf.tensor(part) @ x, b.numpy())
    y = sf.linalg.solve_triangular(a, b.mT, upper=upper, left=False)
    close(y @ sf.tensor(part), b.mT.numpy())
    s = sf.placeholder((None, 3, 3), "float64", name="a")
    program = sf.compile([s], sf.linalg.solve_triangular(s, b, upper=upper, unitriangular=True))
    wanted = sf.linalg.solve_triangular(a, b, upper=upper, unitriangular=True)
    close(program(SQUARE), wanted.numpy())


@pytest.mark.parametrize("upper", [True, False], ids=["upper", "lower"])
def test_systems_of_a_factor(upper: bool) -> None:
    s = sf.tensor(SQUARE @ SQUARE.swapaxes(-1, -2), requires_grad=True)
    b = sf.tensor(RNG.standard_normal((2, 3, 2)))

    def solved(s: sf.Tensor) -> Any:
        return sf.cholesky_solve(b, sf.cholesky(s, upper=upper), upper=upper)

    close(s.detach() @ solved(s).detach(), b.numpy())
    close(sf.autograd.grad(solved(s).sum(), s)[0], _symmetric_gradient(s, b))


def _symmetric_gradient(s: sf.Tensor, b: sf.Tensor) -> Any:
    """That of ``linalg.solve``, of which the factor reads but one triangle, shared by both."""
    (g,) = sf.autograd.grad(sf.linalg.solve(s, b).sum(), s)
    return ((g + g.mT) / 2).numpy()


def test_gradients_of_compositions() -> None:
    x = sf.tensor(A, requires_grad=True)
    for fn in (sf.linalg.pinv, sf.linalg.svdvals, lambda x: sf.linalg.matrix_norm(x, "nuc")):
        assert sf.autograd.gradcheck(fn, x) and sf.autograd.gradgradcheck(fn, x)


def test_vectors_that_are_any_have_no_gradient() -> None:
    x = sf.tensor(A, requires_grad=True)
    with pytest.raises(AutogradError, match='take mode="reduced"'):
        sf.linalg.qr(x, "complete").Q.sum().backward()
    with pytest.raises(AutogradError, match="take full_matrices=False"):
        sf.linalg.svd(x).U.sum().backward()


def test_words_are_checked() -> None:
    x = sf.tensor(SQUARE)
    with pytest.raises(ArgumentError, match="mode is"):
        sf.linalg.qr(x, "both")
    with pytest.raises(ArgumentError, match="UPLO is"):
        sf.linalg.eigh(x, "X")
    with pytest.raises(ShapeError, match="the order is 'words'"):
        sf.linalg.cond(x, "words")
