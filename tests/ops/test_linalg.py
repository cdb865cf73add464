"""What follows from the factors of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import ArgumentError, AutogradError, ShapeError
from staticflow.ops.matrices import factors

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


@pytest.mark.parametrize("shape", [(4, 4), (2, 3, 4), (4, 2), (2, 1, 3, 3), (0, 0), (2, 0, 3)])
def test_lu_of_every_shape(shape: tuple[int, ...]) -> None:
    scipy_linalg = pytest.importorskip("scipy.linalg", reason="SciPy is the judge")
    x = RNG.standard_normal(shape)
    symbol = sf.placeholder((*[None] * (len(shape) - 2), *shape[-2:]), "float64", name="x")
    program = sf.compile([symbol], [*sf.linalg.lu(symbol), *sf.linalg.lu_factor(symbol)])
    now = [*sf.linalg.lu(sf.tensor(x)), *sf.linalg.lu_factor(sf.tensor(x))]
    for P, L, U, packed, pivots in (now, program(sf.tensor(x))):
        close(P @ L @ U, x)
        assert pivots.dtype is sf.int32 and (L.abs() <= 1).all()
        close(packed.tril(-1)[..., : L.shape[-1]] + sf.eye(*L.shape[-2:]).double(), L.numpy())
        close(packed.triu()[..., : U.shape[-2], :], U.numpy())
        for i in np.ndindex(*shape[:-2]) if min(shape) else ():
            wanted = scipy_linalg.lu(x[i])
            for found, w in zip((P, L, U), wanted, strict=True):
                close(found[i], w)
            if shape[-1] == shape[-2]:
                assert (pivots[i] - 1).tolist() == scipy_linalg.lu_factor(x[i])[1].tolist()


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_systems_by_factors(left: bool, adjoint: bool) -> None:
    A, B = sf.tensor(SQUARE), sf.tensor(RNG.standard_normal((3, 2) if left else (2, 3)))

    def solved(A: Any, B: Any) -> Any:
        return sf.linalg.lu_solve(*sf.linalg.lu_factor(A), B, left=left, adjoint=adjoint)

    used = A.mT if adjoint else A
    a = sf.placeholder((None, "n", "n"), "float64", name="a")
    b = sf.placeholder(("n", None) if left else (None, "n"), "float64", name="b")
    for X in (solved(A, B), sf.compile([a, b], solved(a, b))(A, B)):
        close(used @ X if left else X @ used, np.broadcast_to(B.numpy(), X.shape))
    assert sf.autograd.gradcheck(solved, (A.requires_grad_(), B.requires_grad_()))


def test_gradients_of_lu() -> None:
    for shape in ((3, 3), (2, 4), (4, 2), (2, 2, 2)):
        x = sf.tensor(RNG.standard_normal(shape), requires_grad=True)
        assert sf.autograd.gradcheck(lambda x: sf.linalg.lu(x)[1:], x)
        assert sf.autograd.gradcheck(lambda x: sf.linalg.lu_factor(x).LU, x)
    rows = sf.tensor(SQUARE)
    each = sf.vmap(lambda a: sf.linalg.lu(a).U)(rows)
    close(each, sf.linalg.lu(rows).U.numpy())


def test_lu_without_exchanges() -> None:
    x = sf.tensor(SQUARE + 3 * np.eye(3), requires_grad=True)
    P, L, U = sf.linalg.lu(x, pivot=False)
    packed, pivots = sf.linalg.lu_factor(x, pivot=False)
    assert P.shape == (0,) and pivots.tolist() == [[1, 2, 3]] * 2
    close((L @ U).detach(), x.detach().numpy())
    close(sf.linalg.lu_solve(packed, pivots, x.detach()).detach(), [np.eye(3)] * 2)
    assert sf.autograd.gradcheck(lambda x: sf.linalg.lu(x, pivot=False)[1:], x)
    zero = sf.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert sf.linalg.lu_factor(zero, pivot=False).LU.tolist()[1][0] == np.inf


def test_what_is_unpacked() -> None:
    packed, pivots = sf.linalg.lu_factor(sf.tensor(A))
    wanted = sf.linalg.lu(sf.tensor(A))
    for data in (True, False):
        for rows in (True, False):
            found = sf.lu_unpack(packed, pivots, data, rows)
            for f, w, there in zip(found, wanted, (rows, data, data), strict=True):
                assert f.dtype is sf.float64 and (f.equal(w) if there else f.shape == (0,))


def test_what_lu_refuses() -> None:
    L, square = sf.linalg, sf.tensor(SQUARE)
    packed, pivots = L.lu_factor(square)
    b = sf.ones(3, 2, dtype=sf.float64)
    wrong: list[tuple[Any, type[Exception], str]] = [
        (lambda: sf.lu_unpack(packed, pivots.long()), ShapeError, "lu_unpack: takes the pivots"),
        (lambda: sf.lu_unpack(pivots, pivots), sf.DTypeError, "lu_unpack: takes matrices"),
        (lambda: L.lu_factor(square.long()), sf.DTypeError, "lu_factor: takes matrices"),
        (lambda: L.lu(sf.ones(3)), ShapeError, "lu: takes matrices"),
        (lambda: L.lu_solve(packed, pivots.long(), b), ShapeError, "lu_solve: takes the pivots"),
        (lambda: L.lu_solve(packed, pivots, b.float()), sf.DTypeError, "lu_solve: LU is of"),
        (lambda: L.lu_solve(packed, pivots, b[:2]), ShapeError, "lu_solve: the rows of B"),
        (lambda: L.lu_solve(packed[:, :2], pivots, b), ShapeError, "factors of square matrices"),
        (lambda: L.lu_solve(packed, pivots[:, :2], b), ShapeError, "lu_solve: the pivots"),
        (lambda: L.lu_solve(packed, pivots + 9, b), IndexError, "is outside dim"),
        (lambda: L.lu_solve(*L.lu_factor(square * 0), b), L.LinAlgError, "Singular"),
    ]
    for call, kind, words in wrong:
        with pytest.raises(kind, match=words):
            call()


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


def test_values_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What asks for no vectors makes none; what is recorded makes them at once, and a gradient in a
    graph makes them for itself, with the values beside them."""
    called: list[str] = []

    class Lapack:
        def __getattr__(self, name: str) -> Any:
            called.append(name)
            return getattr(library, name)

    library = factors._umath_linalg
    monkeypatch.setattr(factors, "_umath_linalg", Lapack())
    s = sf.placeholder(SQUARE.shape, "float64", name="s")
    x = sf.tensor(SQUARE, requires_grad=True)
    for fn, alone, both in (
        (sf.linalg.svdvals, "svd", "svd_s"),
        (sf.linalg.eigvalsh, "eigvalsh_lo", "eigh_lo"),
    ):
        values = fn(x.detach())
        recorded = fn(x)
        with sf.no_grad():
            fn(x)
        assert called == [alone, both, alone]
        close(recorded.detach(), values.numpy())
        called.clear()
        (recorded * recorded).sum().backward()
        assert not called
        out = fn(s)
        close(sf.compile([s], out)(x.detach()), values.numpy())
        assert called == [alone]
        (of_s,) = sf.grad((out * out).sum(), [s])
        close(sf.compile([s], of_s)(x.detach()), x.grad.numpy())
        assert called[1:] == [both]
        called.clear()
        x.grad = None


def test_float32_is_computed_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """By functions of NumPy's that are none of its public ones: without them to more digits."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((2, 20, 20)).astype(np.float32)
    exact = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    single = sf.linalg.svdvals(sf.tensor(a)).numpy()
    double = sf.linalg.svdvals(sf.tensor(a.astype(np.float64))).numpy()
    monkeypatch.setattr(factors, "_umath_linalg", object())
    rounded = sf.linalg.svdvals(sf.tensor(a)).numpy()
    np.testing.assert_array_equal(rounded, exact.astype(np.float32))
    np.testing.assert_allclose(single, exact, 0, 2e-6 * exact.max())
    assert (single != rounded).any()
    np.testing.assert_allclose(double, exact, 1e-13)
    for fn in (sf.linalg.svd, sf.linalg.eigh, sf.linalg.eigvalsh):
        fn(sf.tensor(a))


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


SINGULAR = {
    "equal": np.eye(3),
    "of ones": np.ones((3, 3)),
    "of rank two": np.diag([1.0, 2.0, 0.0]),
    "of zeros": np.zeros((3, 3)),
    "several": np.stack([np.eye(3), np.ones((3, 3)), np.diag([0.0, 2.0, 3.0])]),
    "alone": np.zeros((1, 1)),
}


_WITHOUT_DIGITS = {
    "rows that rounding tells apart": [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
    "singular": [[1, 2, 3], [2, 4, 6], [1, 1, 5]],
    "one singular value of 1e-11": [[1, 0, 2], [0, 1, 3], [1, 1, 5 + 1e-11]],
    "rank 1": [[1, 2, 3], [2, 4, 6], [3, 6, 9]],
    "powers that are 0": [[1, -1, 0], [1, -1, 0], [0, 0, 1]],
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", _WITHOUT_DIGITS)
def test_second_derivatives_of_nearly_singular_determinants(name: str, dtype: str) -> None:
    array = np.array(_WITHOUT_DIGITS[name], dtype)
    a, levi = array.astype(float), np.zeros((3, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        levi[i, j, k], levi[i, k, j] = 1, -1
    second = np.einsum("ika,jlb,ab->ijkl", levi, levi, a)  # det is a third of second : a : a / 2
    first = np.einsum("ijkl,kl->ij", second, a) / 2
    eps = np.finfo(dtype).eps
    x = sf.tensor(array)
    for det in (sf.linalg.det, sf.jit(sf.linalg.det)):
        found = sf.func.grad(det)(x).numpy()
        np.testing.assert_allclose(found, first, rtol=0, atol=40 * eps * abs(a).max() ** 2)
        found = sf.func.hessian(det)(x).numpy()
        np.testing.assert_allclose(found, second, rtol=0, atol=4 * eps**0.5 * abs(a).max())


@pytest.mark.parametrize("more", [0, 1, 3])
@pytest.mark.parametrize("name", SINGULAR)
def test_determinants_of_singular_matrices_have_cofactors_for_gradients(
    name: str, more: int
) -> None:
    """Of a few rows, which are sums of products in a graph, and of more."""
    small = SINGULAR[name]
    n = small.shape[-1]
    array = np.broadcast_to(np.eye(n + more), (*small.shape[:-2], n + more, n + more)).copy()
    array[..., :n, :n] = small
    cofactors = np.zeros_like(array)
    for *batch, i, j in np.ndindex(*array.shape):
        minor = np.delete(np.delete(array[tuple(batch)], i, 0), j, 1)
        cofactors[(*batch, i, j)] = (-1) ** (i + j) * np.linalg.det(minor)
    for det in (sf.linalg.det, sf.jit(sf.linalg.det)):
        x = sf.tensor(array, requires_grad=True)
        value = det(x)
        assert value.tolist() == np.linalg.det(array).tolist()
        (found,) = sf.autograd.grad(value.sum(), [x])
        np.testing.assert_allclose(found.numpy(), cofactors, atol=1e-9)
        assert sf.autograd.gradcheck(det, (x,)) and sf.autograd.gradgradcheck(det, (x,))


@pytest.mark.parametrize("name", ["equal", "alone", "several"])
@pytest.mark.parametrize("jitted", [False, True])
def test_inverses_have_derivatives_where_singular_values_are_equal(name: str, jitted: bool) -> None:
    array = SINGULAR[name] if name != "several" else np.stack([np.eye(3), 2 * np.eye(3)[::-1]])
    pinv = sf.jit(sf.linalg.pinv) if jitted else sf.linalg.pinv
    if name == "alone":
        array = array + 2
    for shape in (array.shape, (*array.shape[:-2], array.shape[-2], 1)):
        x = sf.tensor(array[..., : shape[-1]].copy(), requires_grad=True)
        assert sf.autograd.gradcheck(pinv, (x,)) and sf.autograd.gradgradcheck(pinv, (x,))


def test_inverses_have_derivatives_among_matrices_of_one_rank() -> None:
    def inverse(a: Any, b: Any) -> Any:
        return sf.linalg.pinv(a @ b)

    rng = np.random.default_rng(0)
    a, b = (sf.tensor(rng.standard_normal(s), requires_grad=True) for s in ((4, 2), (2, 3)))
    for function in (inverse, sf.jit(inverse)):
        assert sf.autograd.gradcheck(function, (a, b)) and sf.autograd.gradgradcheck(
            function, (a, b)
        )
    np.testing.assert_allclose(
        inverse(a, b).detach().numpy(), np.linalg.pinv((a @ b).detach().numpy()), rtol=1e-9
    )


def test_the_inverse_of_a_hermitian_matrix_has_a_symmetric_gradient() -> None:
    def inverse(a: Any) -> Any:
        return sf.linalg.pinv(a + a.mT, hermitian=True)

    for array in (np.eye(3), np.diag([1.0, -2.0, 3.0]) + np.ones((3, 3))):
        x = sf.tensor(array, requires_grad=True)
        assert sf.autograd.gradcheck(inverse, (x,)) and sf.autograd.gradgradcheck(inverse, (x,))
        weights = sf.arange(9.0, dtype=sf.float64).reshape(3, 3)
        (found,) = sf.autograd.grad((sf.linalg.pinv(x, hermitian=True) * weights).sum(), [x])
        sf.testing.assert_close(found, found.mT)


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


@pytest.mark.parametrize("fn", [sf.linalg.svd, sf.linalg.svdvals, sf.linalg.pinv, sf.linalg.eigh])
def test_infinite_elements_are_refused_where_an_iteration_would_not_end(fn: Any) -> None:
    x = sf.tensor([[np.inf, -0.13, 0.64], [0.1, -0.53, 0.36], [1.3, 0.94, -0.7]], dtype="float64")
    for call in (fn, sf.jit(fn)):
        with pytest.raises(sf.linalg.LinAlgError, match="did not converge: an element is infinite"):
            call(x)


def test_an_infinite_element_that_is_not_read_does_no_harm() -> None:
    x = sf.tensor([[2.0, np.inf], [0.0, 1.0]])
    assert sf.linalg.eigvalsh(x).tolist() == sf.linalg.eigh(x)[0].tolist() == [1.0, 2.0]


def test_reflections_inside_autocast_keep_their_digits() -> None:
    a, tau = sf.randn(4, 3), sf.rand(3)
    wanted = sf.linalg.householder_product(a, tau)
    with sf.autocast("cpu", dtype=sf.bfloat16):
        found = sf.linalg.householder_product(a, tau)
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_determinants_have_the_digits_of_products(n: int, scale: float) -> None:
    """Not those of the exponential of a sum of logarithms, whose errors grow with the exponent."""
    a = (np.random.default_rng(n).standard_normal((500, n, n)) * scale).astype("f4")
    wanted = np.linalg.det(a.astype("f8"))
    usual = (abs(wanted) > 1e-34) & (abs(wanted) < 1e34)
    for found in (sf.linalg.det(sf.tensor(a)), sf.jit(sf.linalg.det)(sf.tensor(a))):
        errors = abs(found.numpy() / wanted - 1)[usual]
        assert len(errors) > 300 and np.quantile(errors, 0.9) < 6e-8 * (3 * n if n < 10 else 40)


@pytest.mark.parametrize(
    "fn", [lambda a: sf.linalg.slogdet(a)[1], sf.logdet], ids=["slogdet", "logdet"]
)
def test_a_singular_matrix_among_others_spoils_its_own_gradient_alone(fn: Any) -> None:
    """It was an error for all of them."""
    values = np.stack([2 * np.eye(2), np.ones((2, 2)), np.diag([1.0, 4.0])])
    wanted = np.stack([np.eye(2) / 2, np.full((2, 2), np.nan), np.diag([1.0, 0.25])])
    x = sf.tensor(values, requires_grad=True)
    (eager,) = sf.autograd.grad(fn(x).sum(), [x])
    a = sf.placeholder((3, 2, 2), dtype=sf.float64, name="a")
    compiled = sf.compile([a], sf.grad(fn(a).sum(), a))(values)
    for found in (eager, compiled):
        np.testing.assert_allclose(found.numpy(), wanted, 1e-12)


def test_which_way_rows_were_exchanged_has_no_gradient() -> None:
    x = sf.tensor(SQUARE, requires_grad=True)
    p, lower, upper = sf.linalg.lu(x)
    assert (p.requires_grad, lower.requires_grad, upper.requires_grad) == (False, True, True)
    (slope,) = sf.autograd.grad((p @ lower @ upper * x.detach()).sum(), [x])
    close(slope, SQUARE)
