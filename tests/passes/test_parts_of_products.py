"""Traces, sums, scalings, rows and inverses that multiply, and the ends of sorted rows: what they
are made of, and the same values at every size."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.errors import IndexRangeError, LinAlgError
from staticflow.ops.along.order import sort_op
from staticflow.ops.matrices.contract import matmul_op

RNG = np.random.default_rng(3)


def ops_of(program: Any) -> set[str]:
    """The ops of a program before they are made kernels."""
    (report,) = [r for r in program.passes if r.name == "fold"]
    return {n.op.name for n in report.after.nodes}


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.normal(size=shape).astype(np.float32)


def compiled(f: Callable[..., Any], arrays: Any, is_open: bool, **options: Any) -> Any:
    """A program of ``f`` for arrays such as these, of sizes that are known or not."""
    inputs = [
        sf.placeholder((None,) * a.ndim if is_open else a.shape, str(a.dtype), name=f"x{i}")
        for i, a in enumerate(arrays)
    ]
    return sf.compile(inputs, f(*inputs), **options)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(("m", "n"), [(5, 5), (3, 9), (9, 3), (1, 1), (0, 3)])
@pytest.mark.parametrize("offset", [0, 1, -2])
def test_a_diagonal_of_a_product(is_open: bool, m: int, n: int, offset: int) -> None:
    a, b = normal(m, 7), normal(7, n)
    for dims in ((0, 1), (1, 0)):

        def f(x: Any, y: Any, dims: Any = dims) -> Any:
            return (x @ y).diagonal(offset, *dims)

        program = compiled(f, (a, b), is_open)
        trace = compiled(lambda x, y, f=f: f(x, y).sum(), (a, b), is_open)
        expected = np.diagonal(a @ b, offset, *dims)
        np.testing.assert_allclose(program(a, b).numpy(), expected, rtol=1e-4, atol=1e-5)
        assert trace(a, b).item() == pytest.approx(expected.sum(), rel=1e-4, abs=1e-5)
        if offset == 0:
            assert matmul_op.name not in ops_of(program) | ops_of(trace)


def test_a_trace_needs_no_matrix() -> None:
    """A thousand numbers squared are four megabytes."""
    a, b = sf.placeholder((1000, 3), name="a"), sf.placeholder((3, 1000), name="b")
    assert sf.compile([a, b], sf.trace(a @ b)).plan.peak_bytes() < 10_000


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_sums_of_products(dim: Any, keepdim: bool) -> None:
    x, y, w, b = normal(4, 8, 16), normal(4, 16, 8), normal(16, 5), normal(5)
    cases: list[tuple[Callable[..., Any], Any]] = [
        (lambda x, y: (x @ y).sum(dim, keepdim=keepdim), (x, y)),
        (lambda x, w, b: (x @ w + b).mean(dim, keepdim=keepdim), (x, w, b)),
        (lambda x, w, b: (b - x @ w + (x * 2) @ w).sum(dim, keepdim=keepdim), (x, w, b)),
    ]
    for f, arrays in cases:
        program = compiled(f, arrays, is_open=False)
        expected = f(*map(sf.tensor, arrays)).numpy()
        np.testing.assert_allclose(program(*arrays).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_the_mean_of_a_layer_multiplies_the_mean() -> None:
    shapes = {"x": (None, 7, 64), "w": (64, 10), "b": (10,)}
    x, w, b = (sf.placeholder(shape, name=name) for name, shape in shapes.items())
    program = sf.compile([x, w, b], (x @ w + b).mean(1))
    (product,) = [
        n for r in program.passes if r.name == "fold" for n in r.after.nodes if n.op is matmul_op
    ]
    assert product.tensor_type.shape[0] == x.shape[0]


def infinite(*shape: int) -> np.ndarray[Any, Any]:
    found = normal(*shape)
    found[-1, -1] = math.inf
    return found


def test_zeros_of_a_diagonal_meet_infinity_unless_fast() -> None:
    w, x = normal(4), infinite(4, 3)
    strict, fast = (
        compiled(lambda w, x: sf.diag(w) @ x, (w, x), True, numerics=n) for n in ("strict", "fast")
    )
    np.testing.assert_array_equal(fast(w, x).numpy(), w[:, None] * x)
    assert np.isnan(strict(w, x).numpy()[0, -1])
    turned = compiled(lambda w, x: x.T @ sf.diag(w), (w, x), True, numerics="fast")
    np.testing.assert_array_equal(turned(w, x).numpy(), x.T * w)


def test_a_one_hot_product_picks_rows_and_its_gradient_adds_to_them() -> None:
    """With fast numerics, in the shape of a batch too; a class that there is not is an error."""
    i, w = np.array([[2, 0, 2], [1, 1, 3]]), normal(4, 5)

    def f(i: Any, w: Any) -> Any:
        return sf.nn.functional.one_hot(i, 4).float() @ w

    classes, weight = sf.placeholder((2, None), "int64", name="i"), sf.placeholder((4, 5), name="w")
    out = f(classes, weight)
    outs = [out, sf.grad(out.sin().sum(), weight)]
    fast = sf.compile([classes, weight], outs, numerics="fast")
    assert matmul_op.name not in ops_of(fast)
    strict = sf.compile([classes, weight], outs)
    for got, expected in zip(fast(i, w), strict(i, w), strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-6)
    only = sf.compile([classes, weight], outs[1], numerics="fast")
    for program in (fast, only):
        for wrong in (-1, 4):
            with pytest.raises(IndexRangeError, match="outside"):
                program(np.full((2, 3), wrong), w)


@pytest.mark.parametrize("is_open", [False, True])
def test_an_inverse_that_multiplies_is_solved(is_open: bool) -> None:
    a, b = normal(6, 6) + 6 * np.eye(6, dtype=np.float32), normal(6)
    program = compiled(lambda a, b: sf.linalg.inv(a) @ b, (a, b), is_open)
    assert matmul_op.name not in ops_of(program)
    np.testing.assert_allclose(program(a, b).numpy(), np.linalg.solve(a, b), rtol=1e-4)
    with pytest.raises(LinAlgError, match="singular"):
        program(0 * a, b)
    left = compiled(lambda a, b: b.reshape(1, -1) @ sf.linalg.inv(a), (a, b), is_open=False)
    np.testing.assert_allclose(left(a, b).numpy()[0], np.linalg.solve(a.T, b), rtol=1e-4)


def rows(dtype: str) -> np.ndarray[Any, Any]:
    """Many equal numbers, zeros of both signs, NaN and infinities where there are any."""
    found = RNG.integers(-3, 4, (20, 40)).astype(dtype)
    if found.dtype.kind == "f":
        found[0, 3] = found[0, 9] = found[1] = np.nan
        found[2, :2] = np.inf, -np.inf
        found[3] = np.where(RNG.random(40) < 0.5, 0.0, -0.0)
    return found


CUTS: dict[str, Callable[[Any, int], Any]] = {
    "first": lambda s, dim: s.narrow(dim, 0, 3),
    "last": lambda s, dim: s.narrow(dim, s.shape[dim] - 3, 3),
    "smallest": lambda s, dim: s.select(dim, 0),
    "largest": lambda s, dim: s.select(dim, -1),
    "third": lambda s, dim: s.select(dim, 2),
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_the_ends_of_sorted_rows_are_the_same_bits(cut: str, descending: bool, dtype: str) -> None:
    x = rows(dtype)
    for dim in (0, 1):

        def f(x: Any, dim: int = dim) -> list[Any]:
            return [CUTS[cut](y, dim) for y in x.sort(dim, descending=descending)]

        program = compiled(f, (x,), is_open=False, numerics="exact")
        assert sort_op.name not in ops_of(program)
        whole = compiled(f, (x,), is_open=False, passes="-first_of_sorted")
        assert sort_op.name in ops_of(whole)
        for got, expected in zip(program(x), whole(x), strict=True):
            assert got.numpy().tobytes() == expected.numpy().tobytes()


def test_the_largest_of_rows_of_unknown_length() -> None:
    x = sf.placeholder((None, None), name="x")
    program = sf.compile([x], [x.sort(1)[0][:, -1], x.argsort(1)[:, -1]])
    assert sort_op.name not in ops_of(program)
    for n in (1, 2, 17, 300):
        a = normal(5, n)
        values, indices = program(a)
        np.testing.assert_array_equal(values.numpy(), a.max(1))
        np.testing.assert_array_equal(indices.numpy(), a.argmax(1))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("size", [33, None], ids=["known", "open"])
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_one_row_reads_a_matrix_of_fewer_bits_in_place(
    dtype: str, size: int | None, turned: bool
) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 33), np.float32), (9 * rng.standard_normal((33, 20)))
    matrix = w.T.astype(dtype) if turned else w.astype(dtype)
    row = sf.placeholder((1, size), name="x")
    given = sf.placeholder((20, size) if turned else (size, 20), dtype, name="w")
    wide = given.float().T if turned else given.float()
    program = sf.compile([row, given], row @ wide + 1)
    assert (program.kernel_count, program.plan.peak) == (1, 0)
    wanted = x @ (matrix.T if turned else matrix).astype("f4") + 1
    np.testing.assert_allclose(program(x, matrix).numpy(), wanted, rtol=1e-5, atol=1e-5)


def test_one_row_of_a_linear_layer_in_16_bits() -> None:
    x, w, b = (
        sf.placeholder(s, "float16", name=n) for s, n in (((1, 9), "x"), ((5, 9), "w"), ((5,), "b"))
    )
    program = sf.compile([x, w, b], sf.nn.functional.linear(x, w, b))
    kinds = [n.attrs["kind"] for n in program.optimized.nodes if n.op.name == "cluster"]
    assert kinds == ["reduce"]
    arrays = [
        np.random.default_rng(i).standard_normal(t.shape).astype("f2")
        for i, t in enumerate((x, w, b))
    ]
    wanted = (arrays[0].astype("f4") @ arrays[1].astype("f4").T).astype("f2") + arrays[2]
    np.testing.assert_allclose(program(*arrays).numpy(), wanted, rtol=2e-3, atol=2e-3)
