"""Factors of matrices that are several blocks wide: values, layouts, refusals, threads, targets."""

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
from staticflow.eager.costs import LARGE
from staticflow.errors import LinAlgError
from staticflow.graph.dim_queries import evaluate_dim
from staticflow.graph.graph import close
from staticflow.ops.matrices.matrix_work import BLOCK as _BLOCK
from staticflow.ops.matrices.substitution import _FEW, _SMALL
from staticflow.passes.cluster import cluster
from staticflow.passes.pipeline import optimize
from staticflow.runtime.threads import pool_jobs

KNOWN = (1, 3, 5, _BLOCK, 3 * _BLOCK + 7)
SIZES = (0, 1, 3, 5, 9, _BLOCK - 1, _BLOCK, _BLOCK + 1, 2 * _BLOCK, 3 * _BLOCK + 7)
COLUMNS = (1, 3, 70)
TARGETS = {
    "avx512": Target(512, fma=True, masks=True),
    "avx2": Target(256, fma=True, masks=True),
    "sse": Target(128, fma=False, masks=False),
}
by_dtype = pytest.mark.parametrize("dtype", ["float32", "float64"])
by_size = pytest.mark.parametrize("n", SIZES)
open_or_not = pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])


def regular(n: int, dtype: str, *batch: int) -> np.ndarray:
    """Matrices whose pivots are never on the diagonal, and far from singular."""
    x = np.random.default_rng(n).uniform(-1, 1, (*batch, n, n)) + (2 + n**0.5) * np.eye(n)
    return np.ascontiguousarray(x[..., ::-1, :]).astype(dtype)


def definite(n: int, dtype: str, *batch: int) -> np.ndarray:
    x = np.random.default_rng(n).uniform(-1, 1, (*batch, n, n))
    return (x @ x.swapaxes(-1, -2) + 2 * np.eye(n)).astype(dtype)


def program(f: Callable[..., Any], is_open: bool, *arrays: np.ndarray) -> sf.Program:
    shapes = [[None] * a.ndim if is_open else a.shape for a in arrays]
    xs = [
        sf.placeholder(s, str(a.dtype), name=f"x{i}")
        for i, (s, a) in enumerate(zip(shapes, arrays, strict=True))
    ]
    return sf.compile(xs, f(*xs))


def close_to(found: Any, wanted: np.ndarray) -> None:
    """Within what rounding makes of a matrix that is far from singular."""
    found = np.asarray(found)
    room = (
        200
        * np.finfo(found.dtype if found.dtype.kind == "f" else float).eps
        * max(1.0, np.abs(wanted).max(initial=0))
    )
    np.testing.assert_allclose(found, wanted, 0, room)


_SOLVE_TRIANGULAR = {
    upper: functools.partial(linalg.solve_triangular, upper=upper) for upper in (False, True)
}


def programs(f: Callable[..., Any], *arrays: np.ndarray) -> Iterator[sf.Program]:
    """One for all sizes, and where these are told in `KNOWN` one for them alone."""
    yield open_program(f, *(str(a.dtype) for a in arrays))
    if len(arrays[0]) in KNOWN:
        yield program(f, False, *arrays)


@functools.cache
def open_program(f: Callable[..., Any], *dtypes: str) -> sf.Program:
    return program(f, True, *(np.empty((1, 1), d) for d in dtypes))


@by_dtype
@by_size
def test_systems(n: int, dtype: str) -> None:
    a = regular(n, dtype)
    for columns in COLUMNS:
        b = np.random.default_rng(columns).uniform(-1, 1, (n, columns)).astype(dtype)
        for solve in programs(linalg.solve, a, b):
            x = solve(a, b)
            assert x.shape == b.shape
            close_to(x, np.linalg.solve(a.astype("f8"), b.astype("f8")))
    for inv in programs(linalg.inv, a):
        close_to(inv(a), np.linalg.inv(a.astype("f8")))


@by_dtype
@by_size
@pytest.mark.parametrize("upper", [True, False], ids=["upper", "lower"])
def test_triangular_systems(n: int, dtype: str, upper: bool) -> None:
    """The other part is not read."""
    a = np.ascontiguousarray(regular(n, dtype)[::-1])
    part, other = (np.triu, np.tril) if upper else (np.tril, np.triu)
    unread = (part(a) + other(np.full_like(a, np.nan), 1 - 2 * upper)).astype(dtype)
    b = np.random.default_rng(n).uniform(-1, 1, (n, 5)).astype(dtype)
    for solve in programs(_SOLVE_TRIANGULAR[upper], a, b):
        close_to(solve(unread, b), np.linalg.solve(part(a).astype("f8"), b.astype("f8")))


@pytest.mark.parametrize("upper", [True, False], ids=["upper", "lower"])
@pytest.mark.parametrize("layout", ["rows", "columns", "steps"])
def test_triangular_systems_of_few_right_sides(layout: str, upper: bool) -> None:
    """Around the sizes from which on the matrix is read as it lies; the other part is not read."""
    views = {"rows": lambda a: a, "columns": lambda a: a.mT, "steps": lambda a: a[..., ::2]}

    def solve(a: Any, b: Any) -> Any:
        return linalg.solve_triangular(views[layout](a), b, upper=upper)

    part, other = (np.triu, np.tril) if upper else (np.tril, np.triu)
    for columns in (1, _FEW, _FEW + 1):
        shape = (2, None, None), (2, None, columns)
        a, b = (sf.placeholder(s, name=n) for s, n in zip(shape, "ab", strict=True))
        open_solve = sf.compile([a, b], solve(a, b)) if layout != "steps" else None
        for n in (1, _SMALL, _SMALL + 1, 83):
            matrix = np.stack([regular(n, "float32")[::-1] for _ in range(2)])
            seen = part(matrix) + other(np.full_like(matrix, np.nan), 1 - 2 * upper)
            if layout == "columns":
                seen = np.ascontiguousarray(seen.swapaxes(-1, -2))
            elif layout == "steps":
                seen = np.repeat(seen, 2, -1)
            right = np.random.default_rng(n).uniform(-1, 1, (2, n, columns)).astype("f4")
            wanted = np.linalg.solve(part(matrix).astype("f8"), right.astype("f8"))
            if open_solve is not None:
                close_to(open_solve(seen, right), wanted)
            if n > 1 and columns == _FEW:
                close_to(program(solve, False, seen, right)(seen, right), wanted)


def test_a_triangular_system_of_one_right_side_copies_no_matrix() -> None:
    a, b = sf.placeholder((100, 100), name="a"), sf.placeholder((100, 1), name="b")
    program = sf.compile([a, b], linalg.solve_triangular(a, b, upper=False))
    assert program.plan.peak_bytes() < 4096
    with pytest.raises(LinAlgError, match="singular"):
        program(np.zeros((100, 100), "f4"), np.zeros((100, 1), "f4"))


@by_dtype
@by_size
def test_determinants(n: int, dtype: str) -> None:
    a = regular(n, dtype)
    wanted = np.linalg.slogdet(a.astype("f8"))
    for slogdet in programs(linalg.slogdet, a):
        sign, logarithm = slogdet(a)
        assert sign.item() == wanted[0]
        close_to(logarithm, wanted[1])


@by_dtype
@by_size
def test_factors_of_definite_matrices(n: int, dtype: str) -> None:
    a = definite(n, dtype)
    unread = np.where(np.tri(n, dtype=bool), a, np.nan).astype(dtype)
    for cholesky in programs(linalg.cholesky, a):
        lower = np.asarray(cholesky(unread))
        assert not np.triu(lower, 1).any()
        close_to(lower, np.linalg.cholesky(a.astype("f8")))


def multiplied(packed: np.ndarray, pivots: np.ndarray) -> np.ndarray:
    """The matrix of these factors, in float64, its rows brought back one by one."""
    m, n = packed.shape
    k = min(m, n)
    lower, upper = np.tril(packed[:, :k], -1) + np.eye(m, k), np.triu(packed[:k])
    out = lower.astype("f8") @ upper.astype("f8")
    for i in reversed(range(k)):
        out[[i, pivots[i] - 1]] = out[[pivots[i] - 1, i]]
    return out


@by_dtype
@by_size
def test_factors_of_matrices_of_any_shape(n: int, dtype: str) -> None:
    for columns in (n, n // 2, 2 * n + 3):
        a = np.random.default_rng(n).uniform(-1, 1, (n, columns)).astype(dtype)
        for factors in programs(linalg.lu_factor, a):
            packed, pivots = map(np.asarray, factors(a))
            close_to(multiplied(packed, pivots).astype(dtype), a)
            assert (np.abs(np.tril(packed, -1)) <= 1).all()


@open_or_not
@pytest.mark.parametrize("at", [0, _BLOCK - 1, _BLOCK, 2 * _BLOCK + 2])
def test_factors_of_what_is_singular(at: int, is_open: bool) -> None:
    """A column of zeros stays one; a NaN does not become a number."""
    a = regular(2 * _BLOCK + 3, "float64")
    a[:, at] = 0
    factors = program(linalg.lu_factor, is_open, a)
    packed, pivots = map(np.asarray, factors(a))
    assert not packed[:, at].any() and pivots[at] == at + 1
    close_to(multiplied(packed, pivots), a)
    a[at:, at] = np.nan
    assert np.isnan(np.asarray(factors(a)[0])[-1, at])


@pytest.mark.parametrize("shape", [(_BLOCK + 5,) * 2, (_BLOCK + 9, 4), (3, _BLOCK + 2)])
def test_gradients_of_factors(shape: tuple[int, int]) -> None:
    """Along one direction, against a difference in float64, and once more of that gradient."""
    a, da = np.random.default_rng(3).uniform(-1, 1, (2, *shape))
    a[: min(shape), : min(shape)] += 3 * np.eye(min(shape))[::-1]
    x = sf.placeholder((None, None), "float64", name="x")
    value = (linalg.lu_factor(x).LU ** 3).sum()
    check_derivatives(x, value, a, da)


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "turned": lambda a: a.mT,
    "flipped": lambda a: a.flip(0, 1),
    "stepped": lambda a: a[..., ::2, ::2],
    "cropped": lambda a: a[..., 3:-3, 2:-4],
    "expanded": lambda a: a.expand(2, *a.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["inv", "slogdet", "cholesky", "lu_factor"])
def test_views(name: str, layout: str) -> None:
    f, view = getattr(linalg, name), LAYOUTS[layout]
    a = (definite if name == "cholesky" else regular)(2 * _BLOCK + 11, "float64")
    if layout == "cropped":
        a = np.pad(a, ((3, 3), (2, 4)))
    elif layout == "stepped":
        a = np.repeat(np.repeat(a, 2, 0), 2, 1)
    for is_open in (False, True):
        found = program(lambda a: f(view(a)), is_open, a)(a)
        wanted = f(view(sf.tensor(a)))
        pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
        for one, other in pairs:
            close_to(one, other.numpy())


def test_batches_of_several_right_sides() -> None:
    n = 2 * _BLOCK + 3
    a, b = regular(n, "float64", 3, 1), np.random.default_rng(1).uniform(-1, 1, (3, 2, n, 5))
    m = sf.placeholder((3, 1, None, None), "float64", name="m")
    open_solve = sf.compile([m], linalg.solve(m, sf.tensor(b)))
    close_to(program(linalg.solve, False, a, b)(a, b), np.linalg.solve(a, b))
    close_to(open_solve(a), np.linalg.solve(a, b))


@open_or_not
@pytest.mark.parametrize("at", [0, _BLOCK - 1, _BLOCK, 2 * _BLOCK + 2])
def test_what_has_no_factors_is_refused(at: int, is_open: bool) -> None:
    n = 2 * _BLOCK + 3
    a = np.eye(n)
    a[at, at] = 0
    for name, why in (("inv", "singular"), ("cholesky", "not positive definite")):
        with pytest.raises(
            LinAlgError, match=rf"{why}, at .*test_elimination.*nothing was updated"
        ):
            program(getattr(linalg, name), is_open, a)(a)
    sign, logarithm = program(linalg.slogdet, is_open, a)(a)
    assert sign == 0 and logarithm == -np.inf


@pytest.mark.parametrize("at", [0, _BLOCK, 2 * _BLOCK + 2])
def test_what_is_no_number_stays_none(at: int) -> None:
    n = 2 * _BLOCK + 3
    a = np.eye(n)
    a[at, at] = np.nan
    sign, logarithm = program(linalg.slogdet, True, a)(a)
    assert np.isnan(sign.numpy()) and np.isnan(logarithm.numpy())
    assert np.isnan(np.asarray(program(linalg.inv, True, a)(a))[at, at])
    assert np.isnan(np.asarray(program(linalg.cholesky, True, a)(a))[at, at])


@pytest.mark.parametrize("name", ["inv", "slogdet", "cholesky", "lu_factor"])
def test_threads_change_no_bit(name: str) -> None:
    a = definite(7 * _BLOCK + 5, "float32")
    run, found = program(getattr(linalg, name), True, a), []
    for threads in (1, 2, 3):
        sf.set_num_threads(threads)
        out = run(a)
        found.append([np.asarray(x) for x in (out if isinstance(out, tuple) else (out,))])
    for other in found[1:]:
        for x, y in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", ["solve", "slogdet", "cholesky"])
def test_gradients(name: str) -> None:
    """Along one direction, against a difference in float64."""
    n = _BLOCK + 5
    a, da = definite(n, "float64"), np.random.default_rng(9).uniform(-1, 1, (n, n))
    da = da + da.T

    def value(a: Any) -> Any:
        if name == "slogdet":
            return linalg.slogdet(a).logabsdet
        factor = linalg.cholesky(a) if name == "cholesky" else linalg.solve(a, a[:, :3] * a[0, 0])
        return (factor * factor * factor).sum()

    x = sf.placeholder((None, None), "float64", name="x")
    run = sf.compile([x], [value(x), *sf.grad(value(x), [x])])
    step = 1e-5
    above, below = (run(a + s * step * da)[0].item() for s in (1, -1))
    slope = (run(a)[1].numpy() * da).sum()
    np.testing.assert_allclose(slope, (above - below) / (2 * step), 1e-6)


def test_in_loops_and_branches() -> None:
    n = _BLOCK + 9
    a = regular(n, "float64")

    def repeated(a: Any) -> Any:
        return sf.fori_loop(0, 3, lambda i, x: linalg.solve(a, x), a[:, :2] * 1.0)

    def chosen(a: Any) -> Any:
        return sf.cond(a.sum() > -1e9, lambda a: linalg.inv(a), lambda a: a * 0, a)

    inverse = np.linalg.inv(a)
    for is_open in (False, True):
        close_to(program(repeated, is_open, a)(a), inverse @ inverse @ inverse @ a[:, :2])
        close_to(program(chosen, is_open, a)(a), inverse)


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
@pytest.mark.parametrize("name", ["inv", "slogdet", "cholesky", "lu_factor"])
def test_kernels_of_other_machines(name: str, target: Target) -> None:
    """Interpreted, at sizes around those of vectors and blocks."""
    x = sf.placeholder((None, None), name="x")
    out = getattr(linalg, name)(x)
    results = out if isinstance(out, tuple) else (out,)
    graph, _ = optimize(close([x.node], [r.node for r in results]))
    nest = next(
        node for node in graph.nodes
        if node.op is cluster and node.attrs["kind"] == "nest"
    )  # fmt: skip
    body = nest.attrs["body"]
    lowered = lower_cluster(body, "nest", target)
    kernel = verify_kernel(schedule_cpu(lowered, target))
    for n in (1, 9, _BLOCK + 3):
        a = definite(n, "float32")
        inputs = [a, np.eye(n, dtype="f4")][: len(body.params)]
        sizes = dict.fromkeys(kernel.sizes, n)
        arrays = {f"p{i}": x.ravel() for i, x in enumerate(inputs)}
        for i, o in enumerate(body.outputs):
            shape = [evaluate_dim(d, sizes) for d in o.tensor_type.shape]
            dtype = o.tensor_type.dtype.numpy
            arrays[f"o{i}"] = np.full(int(np.prod(shape)), np.nan if dtype == "f4" else 0, dtype)
        for s in lowered.scratch:
            arrays[s.name] = np.full(evaluate_dim(s.size, sizes), np.nan, s.dtype.numpy)
        assert interpret_kernel(kernel, arrays, sizes) == 0
        if name == "lu_factor":
            close_to(multiplied(arrays["o0"].reshape(n, n), arrays["o1"]).astype("f4"), a)
            continue
        wanted = getattr(np.linalg, name)(a.astype("f8"))
        for i, w in enumerate(wanted if isinstance(wanted, tuple) else (wanted,)):
            close_to(arrays[f"o{i}"].reshape(w.shape), w)


def test_matrices_of_one_block_have_no_products() -> None:
    """Few and small ones take no tiles, and nothing that threads share."""
    for n, is_small in ((_BLOCK, True), (8 * _BLOCK, False)):
        text = program(linalg.inv, False, np.eye(n))
        assert ("@parallel(" not in text.source("llvm")) is is_small


@pytest.mark.parametrize("name", ["inv", "slogdet", "cholesky", "lu_factor"])
def test_tensors_run_the_kernel_of_large_matrices(name: str) -> None:
    """They give the bits that a program gives, from as many elements on as `LARGE` says."""
    n = int(LARGE**0.5)
    a = definite(n, "float32")
    found, wanted = (
        f(sf.tensor(a)) for f in (getattr(linalg, name), sf.jit(getattr(linalg, name)))
    )
    pairs = zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]
    for one, other in pairs:
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_tensors_of_which_there_are_no_factors_are_refused_however_large() -> None:
    for n in (3, int(LARGE**0.5)):
        with pytest.raises(LinAlgError, match=r"Singular matrix, at .*test_elimination"):
            linalg.inv(sf.zeros(n, n))
        with pytest.raises(LinAlgError, match=r"not positive definite, at .*test_elimination"):
            linalg.cholesky(sf.zeros(n, n))


@pytest.mark.parametrize("name", ["det", "inv", "cholesky", "solve"])
def test_threads_share_matrices_and_change_no_bit(name: str) -> None:
    def of(a: Any) -> Any:
        return sf.linalg.solve(a, a[..., :1]) if name == "solve" else getattr(sf.linalg, name)(a)

    x = sf.placeholder((None, 8, 8), name="x")
    step = sf.compile([x], of(x))
    given = np.random.default_rng(0).uniform(0, 0.1, (5000, 8, 8)).astype(np.float32)
    given = given + given.transpose(0, 2, 1) + 4 * np.eye(8, dtype=np.float32)
    threads = sf.get_num_threads()
    try:
        sf.set_num_threads(1)
        one = step(given).numpy()
        sf.set_num_threads(3)
        before = pool_jobs()
        three = step(given).numpy()
        assert pool_jobs() > before
    finally:
        sf.set_num_threads(threads)
    np.testing.assert_array_equal(one, three)
