"""Every op on arrays all of whose sizes are equal, where one dim can pass for another: what decides by
comparing sizes what a shape means, or takes a wrong dim, shows here and nowhere else.

The samples are those of the op table with every size made the same. Functions of matrices that are
made of several ops have a table of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from op_derivatives import (
    check_gradient,
    check_second_derivative,
    differentiable_names,
)
from opinfo import ROWS, factors, solving
from opinfo.core import Array, OpInfo, Sample
from opinfo.modes import arrays_of, assert_agree, expected_of, graph_of, run_eagerly, with_arrays
from slices import daily

import staticflow as sf
from staticflow.errors import StaticflowError
from staticflow.graph.dtypes import float64
from staticflow.graph.interpret import interpret_graph
from staticflow.ops import OPS

OF_MATRICES = {row.op.name for row in (*solving.ROWS, *factors.ROWS)}
UNFIT = {"interleave", "unborder"}
"""Ops that take no equal sizes: those of their parts, or of their result, differ."""
FIT = [name for name in OPS if name not in UNFIT]
SMOOTH = [name for name in FIT if name in differentiable_names]


def squared(array: Array, n: int) -> Array:
    """An array of as many dims, all of size ``n``, its elements by turns, and those that come again
    a little changed; what may be indices stays below ``n``."""
    resized = np.resize(array, (n,) * array.ndim)
    if array.dtype.kind in "iu":
        return resized % n if array.ndim else resized
    if array.dtype.kind != "f":
        return resized
    again = np.arange(resized.size) // array.size
    return np.asarray(resized * (1 + 1e-3 * again.reshape(resized.shape)), array.dtype)


def fit_samples(info: OpInfo, n: int, smooth: bool) -> Iterator[Sample]:
    """The samples of an op with all sizes ``n``, without empty ones and those that it refuses."""
    seen = set()
    for sample in info.samples(float64 if float64 in info.dtypes else info.dtypes[0], smooth):
        arrays = [squared(a, n) for a in arrays_of(sample) if a.size]
        if len(arrays) < len(arrays_of(sample)):
            continue
        if info.op.name in OF_MATRICES and arrays[0].dtype.kind == "f":
            arrays[0] = arrays[0] + np.diag(4 * np.arange(n) + 9.0)  # regular, and symmetric
            arrays[0] = arrays[0] + np.swapaxes(arrays[0], -1, -2)
        if info.op.name == "searchsorted":
            arrays[0] = np.sort(arrays[0])
        new = Sample(with_arrays(sample, arrays), sample.kwargs)
        if str(new) not in seen and not is_refused(info, new):
            yield new
        seen.add(str(new))


def is_refused(info: OpInfo, sample: Sample) -> bool:
    """Whether the op refuses a sample, or its row expects nothing, or nothing finite, of it."""
    try:
        run_eagerly(info, sample)
        return not all(np.isfinite(a).all() for a in expected_of(info, sample))
    except (StaticflowError, IndexError):
        return True


def check_values(name: str) -> None:
    info = ROWS[name]
    samples = [s for n in (1, 2, 3) for s in fit_samples(info, n, smooth=info.op.vjp is not None)]
    assert samples, "no sample of this op takes equal sizes; name it in UNFIT"
    for sample in samples:
        eager, what = run_eagerly(info, sample), f"{name}({sample})"
        assert_agree(info, eager, expected_of(info, sample), what)
        assert_agree(info, interpret_graph(graph_of(info, sample), arrays_of(sample)), eager, what)


def check_gradients(name: str, most: int | None = None) -> None:
    info = ROWS[name]
    for n in (1, 2, 3):
        for sample in islice(fit_samples(info, n, smooth=True), most):
            check_gradient(info, sample, f"{name}({sample})")
            check_second_derivative(info, sample, f"{name}({sample})")


@pytest.mark.parametrize("name", daily(FIT, 15, "equal sizes"))
def test_values_today(name: str) -> None:
    check_values(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", FIT)
def test_values(name: str) -> None:
    check_values(name)


@pytest.mark.parametrize("name", daily(SMOOTH, 6, "gradients of equal sizes"))
def test_gradients_today(name: str) -> None:
    check_gradients(name, 4)


@pytest.mark.campaign
@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name: str) -> None:
    check_gradients(name)


# -- functions of matrices ------------------------------------------------------------------------

L = sf.linalg


def _each(fn: Callable[..., Any]) -> Callable[..., Array]:
    """A function of one matrix of each argument, applied to every one of a batch by a Python loop:
    an expectation that cannot take a batch for rows."""

    def apply(*arrays: Array) -> Array:
        batch = np.broadcast_shapes(*(a.shape[:-2] for a in arrays))
        whole = [np.broadcast_to(a, (*batch, *a.shape[-2:])) for a in arrays]
        out = [fn(*(a[at] for a in whole)) for at in np.ndindex(batch)]
        return np.reshape(out, (*batch, *np.shape(out[0])))

    return apply


Matrices = tuple[Callable[..., Any], Callable[..., Array], tuple[int, ...]]
"""The function, what it must give, and how many dims its arguments have."""

FUNCTIONS: dict[str, Matrices] = {
    "inv": (L.inv, _each(np.linalg.inv), (3,)),
    "inv of 4 dims": (L.inv, _each(np.linalg.inv), (4,)),
    "det": (L.det, _each(np.linalg.det), (3,)),
    "logdet": (lambda a: sf.logdet(a @ a.mT), _each(lambda a: np.log(np.linalg.det(a @ a.T))), (3,)),
    "slogdet": (lambda a: L.slogdet(a)[1], _each(lambda a: np.linalg.slogdet(a)[1]), (3,)),
    "cholesky": (lambda a: L.cholesky(a @ a.mT), _each(lambda a: np.linalg.cholesky(a @ a.T)), (3,)),
    "matrix_power": (lambda a: L.matrix_power(a, 3), _each(lambda a: a @ a @ a), (3,)),
    "matrix_power inverse": (
        lambda a: L.matrix_power(a, -2), _each(lambda a: np.linalg.inv(a @ a)), (3,)),
    "matrix_power 0": (lambda a: L.matrix_power(a, 0), _each(lambda a: np.eye(len(a))), (3,)),
    "pinv": (L.pinv, _each(np.linalg.pinv), (3,)),
    "svdvals": (L.svdvals, _each(lambda a: np.linalg.svd(a)[1]), (3,)),
    "eigvalsh": (lambda a: L.eigvalsh(a + a.mT), _each(lambda a: np.linalg.eigvalsh(a + a.T)), (3,)),
    "qr": (lambda a: L.qr(a).R, _each(lambda a: np.linalg.qr(a)[1]), (3,)),
    "solve": (L.solve, _each(np.linalg.solve), (3, 3)),
    "solve vectors": (L.solve, lambda a, b: np.linalg.solve(a, b[..., None])[..., 0], (3, 2)),
    "solve broadcast": (L.solve, _each(np.linalg.solve), (2, 3)),
    "lstsq": (lambda a, b: L.lstsq(a, b).solution, _each(np.linalg.solve), (3, 3)),
    "lstsq of vectors": (
        lambda a, b: L.lstsq(a, b).solution,
        lambda a, b: np.linalg.solve(a, b[..., None])[..., 0], (3, 2)),
    "solve_triangular": (
        lambda a, b: L.solve_triangular(a, b, upper=True),
        _each(lambda a, b: np.linalg.solve(np.triu(a), b)), (3, 2)),
    "solve_triangular right": (
        lambda a, b: L.solve_triangular(a, b, upper=False, left=False),
        _each(lambda a, b: b @ np.linalg.inv(np.tril(a))), (3, 2)),
    "cholesky_solve": (
        lambda a, b: sf.cholesky_solve(b, L.cholesky(a @ a.mT)),
        _each(lambda a, b: np.linalg.solve(a @ a.T, b)), (3, 2)),
    "matmul": (L.matmul, _each(np.matmul), (3, 3)),
    "matmul broadcast": (L.matmul, _each(np.matmul), (2, 3)),
    "matmul vector": (L.matmul, lambda a, b: np.einsum("bij,j->bi", a, b), (3, 1)),
    "vector matmul": (L.matmul, lambda a, b: np.einsum("i,bij->bj", a, b), (1, 3)),
    "bmm": (sf.bmm, _each(np.matmul), (3, 3)),
    "baddbmm": (sf.baddbmm, lambda c, a, b: c + np.einsum("bij,bjk->bik", a, b), (3, 3, 3)),
    "baddbmm of a row": (sf.baddbmm, lambda c, a, b: c + np.einsum("bij,bjk->bik", a, b), (1, 3, 3)),
    "addbmm": (sf.addbmm, lambda c, a, b: c + np.einsum("bij,bjk->ik", a, b), (2, 3, 3)),
    "addmv": (sf.addmv, lambda c, a, b: c + np.einsum("ij,j->i", a, b), (1, 2, 1)),
    "addr": (sf.addr, lambda c, a, b: c + np.einsum("i,j->ij", a, b), (2, 1, 1)),
    "linear": (
        sf.nn.functional.linear, lambda x, w, b: np.einsum("bij,kj->bik", x, w) + b, (3, 2, 1)),
    "bilinear": (
        sf.nn.functional.bilinear, lambda x, y, w: np.einsum("bi,kij,bj->bk", x, w, y), (2, 2, 3)),
    "tensordot": (
        lambda a, b: sf.tensordot(a, b, ([0, 2], [1, 0])),
        lambda a, b: np.einsum("aib,baj->ij", a, b), (3, 3)),
    "einsum": (
        lambda a, b: sf.einsum("ijk,kjl->lij", a, b),
        lambda a, b: np.moveaxis((a[..., None] * np.swapaxes(b, 0, 1)[None]).sum(2), -1, 0), (3, 3)),
    "kron": (sf.kron, np.kron, (2, 2)),
    "outer": (sf.outer, np.multiply.outer, (1, 1)),
    "vecdot": (L.vecdot, lambda a, b: np.einsum("bij,bij->bi", a, b), (3, 3)),
    "cdist": (
        sf.cdist, _each(lambda a, b: np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1))), (3, 3)),
    "multi_dot": (lambda a, b, c: L.multi_dot([a, b, c]), lambda a, b, c: a @ b @ c, (2, 2, 2)),
    "matrix_norm 1": (lambda a: L.matrix_norm(a, 1), _each(lambda a: np.linalg.norm(a, 1)), (3,)),
    "matrix_norm inf": (
        lambda a: L.matrix_norm(a, np.inf), _each(lambda a: np.linalg.norm(a, np.inf)), (3,)),
    "matrix_norm nuc": (
        lambda a: L.matrix_norm(a, "nuc"), _each(lambda a: np.linalg.norm(a, "nuc")), (3,)),
    "matrix_norm of dims": (
        lambda a: L.matrix_norm(a, 1, dim=(2, 0)),
        lambda a: np.abs(a).sum(2).max(0), (3,)),
    "attention": (
        sf.nn.functional.scaled_dot_product_attention,
        _each(lambda q, k, v: _softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v), (3, 3, 3)),
}  # fmt: skip


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _arrays(ranks: tuple[int, ...], n: int) -> list[Array]:
    """Regular matrices of singular values that lie apart, and vectors."""
    rng = np.random.default_rng(n)
    return [
        rng.uniform(-1, 1, (n,) * rank) + (np.diag(np.arange(n) + 3.0) if rank > 1 else 0)
        for rank in ranks
    ]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_matrices(name: str, n: int) -> None:
    """Values; both modes; at two sizes, first and second derivatives."""
    call, expect, ranks = FUNCTIONS[name]
    arrays = _arrays(ranks, n)
    wanted = expect(*arrays)
    found = call(*map(sf.tensor, arrays)).numpy()
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, 1e-9, 1e-9)
    leaves = [sf.tensor(a, requires_grad=True) for a in arrays]
    if n < 3:
        assert sf.autograd.gradcheck(call, leaves)
    if n == 2:
        assert sf.autograd.gradgradcheck(call, leaves)


def test_a_tolerance_is_of_its_matrix() -> None:
    a = sf.diag_embed(sf.tensor([4.0, 2.0, 1.0], dtype=sf.float64)).expand(3, 3, 3)
    bounds = sf.tensor([3.0, 1.5, 0.5], dtype=sf.float64)
    assert L.matrix_rank(a, atol=bounds).tolist() == [1, 2, 3]
    assert L.matrix_rank(a, rtol=bounds / 4).tolist() == [1, 2, 3]
    assert L.matrix_rank(a[0], atol=bounds).tolist() == [1, 2, 3]
    assert L.matrix_rank(a, rtol=sf.tensor(0.3), atol=bounds).tolist() == [1, 2, 2]
    assert L.matrix_rank(a, rtol=0.3).tolist() == [2, 2, 2]
    for kwargs in ({"atol": bounds}, {"rtol": bounds / 4}):
        inverse = L.pinv(a, **kwargs).diagonal(dim1=-2, dim2=-1)
        assert inverse.tolist() == [[0.25, 0, 0], [0.25, 0.5, 0], [0.25, 0.5, 1]]
