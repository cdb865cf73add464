"""Orthogonal factors of matrices that are several blocks wide: values, errors of rounding, layouts,
extremes, threads, targets, gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from along import check_derivatives

import staticflow as sf
from staticflow import linalg
from staticflow.codegen.interpret import interpret_kernel
from staticflow.codegen.lower.cluster import lower_cluster
from staticflow.codegen.schedule.cpu import schedule_cpu
from staticflow.codegen.target import Target
from staticflow.codegen.verify import verify_kernel
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.graph import close
from staticflow.ops.matrices.householder import _BLOCK
from staticflow.passes.cluster import cluster
from staticflow.passes.pipeline import optimize

ROOM = 30
"""Units in the last place of the largest number that an error may come to, for each matrix."""

SHAPES = (
    (0, 0), (0, 3), (3, 0), (1, 1), (1, 9), (9, 1), (3, 3), (5, 2), (2, 5), (_BLOCK - 1, _BLOCK - 1),
    (_BLOCK, _BLOCK), (_BLOCK + 1, _BLOCK + 1), (3 * _BLOCK + 7, 3 * _BLOCK + 7),
    (3 * _BLOCK + 7, 20), (4 * _BLOCK, _BLOCK + 5), (7, 2 * _BLOCK + 3), (_BLOCK + 5, 3 * _BLOCK),
)  # fmt: skip
KNOWN = ((1, 1), (3, 3), (2, 5), (_BLOCK, _BLOCK), (3 * _BLOCK + 7, 20), (_BLOCK + 5, 3 * _BLOCK))
TARGETS = {
    "avx512": Target(512, fma=True, masks=True),
    "avx2": Target(256, fma=True, masks=True),
    "sse": Target(128, fma=False, masks=False),
}
by_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])


def drawn(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(dtype)


def program(mode: str, shape: Any, dtype: str) -> sf.Program:
    x = sf.placeholder(shape, dtype, name="x")
    return sf.compile([x], list(linalg.qr(x, mode)))


@functools.cache
def open_program(mode: str, dtype: str, rank: int = 2) -> sf.Program:
    return program(mode, (None,) * rank, dtype)


def programs(mode: str, a: np.ndarray) -> Iterator[sf.Program]:
    """One for all sizes, and for those in `KNOWN` one for them alone."""
    yield open_program(mode, str(a.dtype))
    if a.shape in KNOWN:
        yield program(mode, a.shape, str(a.dtype))


def check_factors(a: np.ndarray, q: Any, r: Any) -> None:
    """``q`` is orthogonal and ``q @ r`` is ``a``, column by column, up to rounding."""
    q, r = (np.asarray(x) for x in (q, r))
    assert q.dtype == r.dtype == a.dtype
    room = ROOM * np.finfo(a.dtype).eps
    q, r, a = (x.astype(np.longdouble) for x in (q, r, a))
    assert not np.tril(r, -1).any()
    np.testing.assert_allclose(q.T @ q, np.eye(q.shape[1]), 0, room)
    lengths = np.abs(a).max(0, initial=0)
    assert (np.abs(q @ r - a) <= room * lengths).all()


@by_dtype
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors_are_those_of_lapack(shape: tuple[int, int], dtype: str) -> None:
    a = drawn(shape, dtype)
    for mode in ("reduced", "complete"):
        wanted = np.linalg.qr(a.astype("f8"), mode)
        for factors in programs(mode, a):
            q, r = factors(a)
            assert (q.shape, r.shape) == (wanted[0].shape, wanted[1].shape)
            check_factors(a, q, r)
            np.testing.assert_allclose(np.asarray(r), wanted[1], 0, 1e3 * np.finfo(dtype).eps)


@by_dtype
def test_matrices_of_less_rank_and_of_every_size(dtype: str) -> None:
    """Columns and rows that are graded, equal, zero, huge and tiny leave an orthogonal factor, and
    no column loses digits to another one."""
    n = 2 * _BLOCK + 3
    a = drawn((n, n), dtype)
    most = np.finfo(dtype).maxexp
    grades = np.ldexp(1.0, np.linspace(-most + 60, most - 12, n).astype(int)).astype(dtype)
    zero = a.copy()
    zero[:, [0, 1, _BLOCK, n - 1]] = 0
    equal = np.repeat(a[:, : n // 4 + 1], 4, 1)[:, :n]
    for case in (a * grades, a * grades[::-1], np.triu(a), np.tril(a), zero, equal,
                 np.zeros_like(a), np.eye(n, dtype=dtype)[::-1], a * grades[-1], a * grades[0],
                 np.outer(a[0], a[1])):  # fmt: skip
        case = np.ascontiguousarray(case, dtype)
        check_factors(case, *open_program("reduced", dtype)(case))
    rows = a * grades[::-1, None]  # whose smallest are nothing beside the others
    check_factors(rows, *open_program("reduced", dtype)(rows))


def test_signs_are_those_of_lapack() -> None:
    """A column that is 0 below the diagonal is left alone; one of tiny numbers is not."""
    for below in (0.0, 1e-30, 1e-200):
        a = np.array([[2.0, 1.0], [below, 3.0], [0.0, 0.0]])
        _, r = open_program("reduced", "float64")(a)
        np.testing.assert_allclose(np.asarray(r), np.linalg.qr(a)[1], 1e-14)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("at", [(0, 0), (_BLOCK + 3, 1), (_BLOCK + 4, _BLOCK + 4)], ids=str)
def test_what_is_no_number_stays_none(at: tuple[int, int], value: float) -> None:
    a = drawn((_BLOCK + 5, _BLOCK + 5))
    a[at] = value
    q, r = open_program("reduced", "float64")(a)
    assert not np.isfinite(np.asarray(q) @ np.asarray(r))[at]


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "turned": lambda a: a.mT,
    "flipped": lambda a: a.flip(0, 1),
    "stepped": lambda a: a[::2, 1::3],
    "expanded": lambda a: a[:, :1].expand(a.shape[0], 5),
    "batch": lambda a: a.expand(2, *a.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_views(layout: str) -> None:
    a, view = drawn((2 * _BLOCK + 7, _BLOCK + 9)), LAYOUTS[layout]
    seen = np.ascontiguousarray(view(sf.tensor(a)).numpy())
    for shape in (a.shape, (None, None)):
        x = sf.placeholder(shape, "float64", name="x")
        q, r = map(np.asarray, sf.compile([x], list(linalg.qr(view(x))))(a))
        np.testing.assert_allclose(q @ r, seen, 0, 1e-13)
    eager = linalg.qr(view(sf.tensor(a)))
    np.testing.assert_allclose((eager.Q @ eager.R).numpy(), seen, 0, 1e-13)


@pytest.mark.parametrize("shape", [(3, 2, 5, 5), (2, 40, 20), (0, 4, 4), (2, 0, 3), (2, 3, 0)])
def test_batches(shape: tuple[int, ...]) -> None:
    a = drawn(shape)
    for run in (
        open_program("reduced", "float64", len(shape)),
        program("reduced", shape, "float64"),
    ):
        for found, wanted in zip(run(a), np.linalg.qr(a), strict=True):
            np.testing.assert_allclose(np.asarray(found), wanted, 0, 1e-13)
    rows = sf.vmap(lambda a: tuple(linalg.qr(a)))(sf.tensor(a))
    for one, wanted in zip(rows, np.linalg.qr(a), strict=True):
        np.testing.assert_allclose(one.numpy(), wanted, 0, 1e-13)


def test_threads_change_no_bit_and_tensors_give_those_of_programs() -> None:
    a = drawn((7 * _BLOCK + 5, 5 * _BLOCK), "float32")
    found = []
    for threads in (1, 2, 3):
        sf.set_num_threads(threads)
        found.append([np.asarray(x) for x in open_program("reduced", "float32")(a)])
    found.append([x.numpy() for x in linalg.qr(sf.tensor(a))])
    for other in found[1:]:
        for x, y in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("shape", [(_BLOCK + 5,) * 2, (_BLOCK + 9, 4), (3, _BLOCK + 2)], ids=str)
def test_gradients(shape: tuple[int, int]) -> None:
    """Along one direction, against a difference in float64, and once more of that gradient."""
    a, da = np.random.default_rng(3).uniform(-1, 1, (2, *shape))
    a[: min(shape), : min(shape)] += 3 * np.eye(min(shape))
    weights = sf.tensor(drawn((shape[0], min(shape))))
    x = sf.placeholder((None, None), "float64", name="x")
    q, r = linalg.qr(x)
    value = (weights * q).sum() + (r**3).sum()
    slope = check_derivatives(x, value, a, da)
    leaf = sf.tensor(a, requires_grad=True)
    q, r = linalg.qr(leaf)
    ((weights * q).sum() + (r**3).sum()).backward()
    np.testing.assert_allclose((leaf.grad.numpy() * da).sum(), slope, 1e-9)


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_kernels_of_other_machines(target: Target) -> None:
    """Interpreted, at sizes around those of vectors and blocks."""
    x = sf.placeholder((None, None), name="x")
    graph, _ = optimize(close([x.node], [r.node for r in linalg.qr(x)]))
    (nest,) = (node for node in graph.nodes if node.op is cluster)
    lowered = lower_cluster(nest.attrs["body"], "nest", target)
    kernel = verify_kernel(schedule_cpu(lowered, target))
    for shape in ((1, 1), (9, 9), (_BLOCK + 3, 17), (5, 12)):
        a = drawn(shape, "float32")
        a[:, 0] = 0  # so that numbers are scaled
        sizes = dict(zip(kernel.sizes, shape, strict=True))
        arrays = {"p0": a.ravel()}
        shapes = []
        for i, o in enumerate(nest.attrs["body"].outputs):
            shapes.append([evaluate_dim(d, sizes) for d in o.tensor_type.shape])
            arrays[f"o{i}"] = np.full(int(np.prod(shapes[-1])), np.nan, "f4")
        for s in lowered.scratch:
            arrays[s.name] = np.full(evaluate_dim(s.size, sizes), np.nan, s.dtype.numpy)
        assert interpret_kernel(kernel, arrays, sizes) == 0
        check_factors(a, *(arrays[f"o{i}"].reshape(s) for i, s in enumerate(shapes)))


def test_the_triangle_alone_and_what_has_no_gradient() -> None:
    q, r = linalg.qr(sf.tensor(drawn((4, 3))), "r")
    assert q.shape == (0,) and r.shape == (3, 3)
    wide = sf.tensor(drawn((3, 5)), requires_grad=True)
    linalg.qr(wide, "complete").R.sum().backward()
    assert wide.grad is not None
    x = sf.placeholder((None, None), "float64", name="x")
    with pytest.raises(sf.AutogradError, match=r"complete.*has no gradient"):
        sf.grad(linalg.qr(x, "complete").R.sum(), [x])
