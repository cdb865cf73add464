"""Large products, eagerly: which run as kernels, how many kernels that takes, and the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.eager import kernels
from staticflow.eager.costs import BY_VECTOR, MATRICES, NARROW, NO_LIBRARY
from staticflow.eager.programs import Programs, compile_function
from staticflow.ops.matrices.contract import linear_op, matmul_op
from staticflow.ops.matrices.products import addmm_op

M, K, N = 190, 350, 200
"""Sizes that calls come to once a test: the kernel of a call that comes again is remembered, whatever
a test has made of the table of kernels."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """The kernels that a test makes: the op, and how its operands are permuted."""
    found: list[tuple[str, Any]] = []

    def counted(apply: Any, kinds: Any) -> Any:
        op, _, orders = apply.args
        found.append((op.name, orders))
        return compile_function(apply, kinds)

    monkeypatch.setattr(kernels, "compile_function", counted)
    for op in (matmul_op, linear_op, addmm_op):
        monkeypatch.setattr(kernels.kernels_of(op), "_programs", Programs())
    return found


def matrix(shape: tuple[int, ...], dtype: Any, turned: bool = False) -> np.ndarray:
    rng = np.random.default_rng(sum(shape) + turned)
    if turned:
        return matrix((*shape[:-2], shape[-1], shape[-2]), dtype).swapaxes(-1, -2)
    return rng.standard_normal(shape).astype(dtype)


def assert_product(result: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
    """In whatever order the terms are added; see ``gemm_cases.assert_product``."""
    wide = np.longdouble if result.dtype == np.float64 else np.float64
    x, y = a.astype(wide), b.astype(wide)
    room = (a.shape[-1] + 1) * np.finfo(result.dtype).eps * (np.abs(x) @ np.abs(y))
    assert np.all(np.abs(result - x @ y) <= room)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_a_kernel_for_each_layout_serves_all_sizes(
    made: list[Any], layout: str, dtype: str
) -> None:
    for m, k, n in ((M, K, N), (16, 1024, 257), (257, 1024, 16), (2000, 130, 17)) * 2:
        a = matrix((m, k), dtype, layout[0] == "t")
        b = matrix((k, n), dtype, layout[1] == "t")
        out = sf.from_numpy(a) @ sf.from_numpy(b)
        assert_product(out.numpy(), a, b)
    assert len(made) == 1


def test_small_and_narrow_products_are_left_to_numpy(made: list[Any]) -> None:
    for m, k, n, layouts in (
        (64, 64, 63, "nn nt tn tt"),
        (300, 2000, 15, "nn nt tn tt"),
        (1, 3000, 2000, "nn nt"),
        (15, 2000, 300, "tn tt"),
        (8, 512, 128, "nt"),  # whose result is of 1024 elements
        (2000, 16, 40, "nt"),  # whose second matrix is small
    ):
        for layout in layouts.split():
            a = matrix((m, k), np.float32, layout[0] == "t")
            b = matrix((k, n), np.float32, layout[1] == "t")
            np.testing.assert_array_equal((sf.from_numpy(a) @ sf.from_numpy(b)).numpy(), a @ b)
    c, d = matrix((15, 2000), np.float64), matrix((2000, 300), np.float64)
    np.testing.assert_array_equal((sf.from_numpy(c) @ sf.from_numpy(d)).numpy(), c @ d)
    integers = sf.ones(15, 16, dtype=sf.int64) @ sf.ones(16, 17, dtype=sf.int64)
    assert integers[7, 9].item() == 16
    short = sf.ones(15, 16, dtype=sf.float16) @ sf.ones(16, 17, dtype=sf.float16)
    assert short[7, 9].item() == 16
    assert not made


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "sizes",
    [(3, 3, 3), (1, 4, 2), (5, 2, 1), (2, NARROW, NARROW), (NARROW, 1, 3), (2, 0, 3), (0, 2, 3)],
)
def test_many_small_matrices_are_multiplied_by_a_kernel_that_knows_their_sizes(
    made: list[Any], sizes: tuple[int, int, int], dtype: str
) -> None:
    """However the matrices lie, with the gradients."""
    m, k, n = sizes
    for batch, by_kernel in (((MATRICES - 1,), False), ((MATRICES,), True), ((3, MATRICES), True)):
        made.clear()
        for layout in ("nn", "nt", "tn", "tt"):
            a = matrix((*batch, m, k), dtype, layout[0] == "t")
            b = matrix((*batch, k, n), dtype, layout[1] == "t")
            x, y = (sf.from_numpy(v).requires_grad_() for v in (a, b))
            out = x @ y
            assert_product(out.detach().numpy(), a, b)
            ct = matrix(out.shape, dtype)
            out.backward(sf.from_numpy(ct))
            assert x.grad is not None and y.grad is not None
            assert_product(x.grad.numpy(), ct, b.swapaxes(-1, -2))
            assert_product(y.grad.numpy(), a.swapaxes(-1, -2), ct)
        assert any(name == "matmul" for name, _ in made) == by_kernel  # `mul` makes outer products
        part = sf.from_numpy(a)[..., :-1] if k > 1 else sf.from_numpy(a)[:0]
        assert_product((part @ part.mT).numpy(), part.numpy(), part.mT.numpy())


def test_what_is_not_small_or_not_many_is_left_to_numpy(made: list[Any]) -> None:
    for shape in ((MATRICES - 1, 3, 3), (2, NARROW + 1, 2), (MATRICES, 3, NARROW + 1)):
        a = matrix(shape, np.float32)
        x = sf.from_numpy(a)
        np.testing.assert_array_equal((x @ x.mT).numpy(), a @ a.swapaxes(-1, -2))
    assert not made


UNAIDED = ["int64", "int32", "int16", "int8", "uint8", "float16", "bfloat16"]
"""Dtypes that no library of NumPy's multiplies."""

LIES = {
    "rows": lambda a: a,
    "columns": lambda a: np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2),
    "every other": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "backwards": lambda a: np.ascontiguousarray(a[..., ::-1])[..., ::-1],
}


def whole_numbers(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Of which sums are exact in float32, and below 256, so that no dtype rounds them."""
    rng = np.random.default_rng(sum(shape))
    return (rng.random(shape) < 6 / shape[-1]).astype(dtype.numpy)


@pytest.mark.parametrize("lies", LIES)
@pytest.mark.parametrize("dtype", UNAIDED)
def test_products_of_which_there_is_no_library_are_a_kernels(
    made: list[Any], dtype: str, lies: str
) -> None:
    """From `NO_LIBRARY` multiplications on, and with a vector from `BY_VECTOR` elements on."""
    dtype = getattr(sf, dtype)
    side = round(NO_LIBRARY ** (1 / 3))
    shapes = [
        ((side, side), (side, side)), ((side, side), (side, side - 1)),
        ((3, side, side), (3, side, side)), ((BY_VECTOR // 8, 8), (8, 1)),
        ((BY_VECTOR // 8 - 1, 8), (8, 1)), ((1, BY_VECTOR), (BY_VECTOR, 1)),
        ((1, BY_VECTOR - 1), (BY_VECTOR - 1, 1)), ((1, 64), (64, 64)), ((0, 5), (5, 4)),
    ]  # fmt: skip
    for left, right in shapes:
        a, b = whole_numbers(left, dtype), whole_numbers(right, dtype)
        x, y = (sf.from_numpy(LIES[lies](m)) for m in (a, b))
        before = len(made)
        found = [x @ y for _ in range(5)]
        wanted = a.astype(np.float64) @ b.astype(np.float64)
        for out in found:
            assert out.dtype is dtype
            np.testing.assert_array_equal(out.numpy().astype(np.float64), wanted)
        work = a.size * right[-1]
        if work < (BY_VECTOR if right[-1] == 1 else NO_LIBRARY):
            assert len(made) == before
        elif before == 0:
            assert made


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int8"])
def test_linear_of_dtypes_of_which_there_is_no_library(made: list[Any], dtype: str) -> None:
    dtype = getattr(sf, dtype)
    for rows, inner, columns in ((8, 32, 16), (8, 32, 15), (300, 5, 3)):
        x, w = whole_numbers((rows, inner), dtype), whole_numbers((columns, inner), dtype)
        bias = np.ones(columns, dtype.numpy)
        wanted = x.astype(np.float64) @ w.T.astype(np.float64) + 1
        for _ in range(5):
            out = sf.nn.functional.linear(*map(sf.from_numpy, (x, w, bias)))
            np.testing.assert_array_equal(out.numpy().astype(np.float64), wanted)
    assert [name for name, _ in made] == ["linear"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_with_a_vector_are_a_kernels(made: list[Any], dtype: str) -> None:
    """Where the rows of the matrix lie in memory; a row times a matrix is left to NumPy."""
    for n in (BY_VECTOR - 1, BY_VECTOR, 5000):
        x, y = matrix((n,), dtype), matrix((n, 1), dtype)[:, 0]
        assert_product(
            np.atleast_2d((sf.from_numpy(x) @ sf.from_numpy(y)).numpy()), x[None], y[:, None]
        )
    assert made == [("matmul", ())]
    a, x, y = matrix((40, 70), dtype), matrix((70,), dtype), matrix((40,), dtype)
    found = sf.from_numpy(a) @ sf.from_numpy(x)
    assert_product(found.numpy()[:, None], a, x[:, None])
    assert made == [("matmul", ())] * 2
    for left, right in ((y, a), (a.T, y), (a[:, ::2], x[::2])):
        result = sf.from_numpy(left) @ sf.from_numpy(right)
        np.testing.assert_array_equal(result.numpy(), left @ right)
    assert len(made) == 2


def test_matrices_that_no_library_takes_are_multiplied_by_a_vector(made: list[Any]) -> None:
    """NumPy goes from element to element there: copies of them are as soon made."""
    a, x = matrix((101, 90), "float32"), matrix((45,), "float32")
    odd = [a[:, ::2], np.broadcast_to(a[:1, :45], (101, 45)), np.broadcast_to(a[:, :1], (101, 45))]
    for count, left in enumerate(
        (a[:, :45], a[::2, :45], matrix((101, 45), "float32", True), *odd)
    ):
        result = sf.from_numpy(left) @ sf.from_numpy(x)
        assert_product(result.numpy()[:, None], left, x[:, None])
        assert bool(made) == (count > 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("m", "k", "n"), [(2, 1024, 1024), (8, 256, 256), (64, 64, 64)])
def test_products_with_a_turned_matrix_are_of_a_kernel_sooner(
    made: list[Any], m: int, k: int, n: int, dtype: str
) -> None:
    a, b = matrix((m, k), dtype), matrix((k, n), dtype, turned=True)
    assert_product((sf.from_numpy(a) @ sf.from_numpy(b)).numpy(), a, b)
    assert made == [("matmul", ((0, 1), (1, 0)))]


def test_few_rows_of_float32(made: list[Any]) -> None:
    a, b = matrix((15, 2000), np.float32), matrix((2000, 300), np.float32)
    assert_product((sf.from_numpy(a) @ sf.from_numpy(b)).numpy(), a, b)
    assert made == [("matmul", ())]


def test_a_product_is_as_large_as_its_multiplications_are_many(made: list[Any]) -> None:
    """Not as its matrices are: these have 16,384 elements each."""
    a, b = matrix((128, 128), np.float32), matrix((128, 128), np.float32)
    assert_product((sf.from_numpy(a) @ sf.from_numpy(b)).numpy(), a, b)
    assert made == [("matmul", ())]


@pytest.mark.parametrize(
    ("rows", "inner", "kernels"),
    [
        (1, 30, []), (3, 30, []), (4, 30, ["linear"]), (200, 30, ["linear"]),
        (85, 20, []), (86, 20, ["addmm"]), (2000, 1, ["addmm"]),
    ],
)  # fmt: skip
def test_linear_of_some_rows_is_a_kernel(
    made: list[Any], rows: int, inner: int, kernels: list[str]
) -> None:
    """A little weight is turned before, and pays from more rows on."""
    x, w, bias = (matrix(s, np.float32) for s in ((rows, inner), (48, inner), (48,)))
    out = sf.nn.functional.linear(*map(sf.from_numpy, (x, w, bias)))
    np.testing.assert_allclose(out.numpy(), x @ w.T + bias, 1e-4, 1e-4)
    assert [name for name, _ in made] == kernels


def test_of_one_column_and_one_row_each_element_is_one_product(made: list[Any]) -> None:
    a, b = matrix((30, 1), np.float32), matrix((1, 30), np.float32)
    a[0], a[1], b[0, :2] = -0.0, np.inf, (0.0, np.nan)
    with np.errstate(invalid="ignore"):
        wanted = a * b
    for _ in range(3):
        found = (sf.from_numpy(a) @ sf.from_numpy(b)).numpy()
        np.testing.assert_array_equal(found.view(np.int32), wanted.view(np.int32))
    assert not made


@pytest.mark.parametrize("function", [sf.matmul, sf.nn.functional.linear], ids=lambda f: f.__name__)
@pytest.mark.parametrize("rows", [10, 64])
def test_calls_that_come_again_give_the_same_bits(function: Any, rows: int) -> None:
    """Of those that NumPy computes, and of those that a kernel does."""
    operands = [sf.from_numpy(matrix(s, np.float32)) for s in ((rows, 64), (64, 64), (64,))]
    if function is sf.matmul:
        operands = [operands[0], operands[1].t()]
    first = function(*operands).numpy()
    for _ in range(150):
        np.testing.assert_array_equal(function(*operands).numpy(), first)


def test_parts_of_larger_matrices_are_left_to_numpy(made: list[Any]) -> None:
    a, b = matrix((M, K + 3), np.float32), matrix((2 * K, N), np.float32)
    for x, y in ((a[:, 3:], b[::2]), (a[:, 3:], np.ascontiguousarray(b[::2]))):
        assert_product((sf.from_numpy(x) @ sf.from_numpy(y)).numpy(), x, y)
    spread = sf.ones(1, 1).expand(M, K) @ sf.from_numpy(matrix((K, N), np.float32))
    assert spread.shape == (M, N)
    assert not made


def test_batches(made: list[Any]) -> None:
    a, b = matrix((3, 4, 64, 100), np.float32), matrix((3, 4, 64, 100), np.float32)
    out = sf.from_numpy(a) @ sf.from_numpy(b).mT
    assert_product(out.numpy(), a, b.swapaxes(-1, -2))
    assert len(made) == 1
    broadcast = sf.from_numpy(a) @ sf.from_numpy(b[:1]).mT  # NumPy's
    assert_product(broadcast.numpy(), a, b[:1].swapaxes(-1, -2))
    assert len(made) == 1


@pytest.mark.parametrize("lead", [(), (2, 95)], ids=str)
def test_linear_adds_the_bias_in_the_same_pass(made: list[Any], lead: tuple[int, ...]) -> None:
    x, w = matrix((*lead, K) if lead else (M, K), np.float32), matrix((N, K), np.float32)
    bias = matrix((N,), np.float32)
    out = sf.nn.functional.linear(*map(sf.from_numpy, (x, w, bias)))
    assert out.shape == (*x.shape[:-1], N)
    rows = x.reshape(-1, K)
    assert_product(
        out.numpy().reshape(-1, N),
        np.concatenate([rows, np.ones((len(rows), 1), np.float32)], 1),
        np.concatenate([w.T, bias[None]], 0),
    )
    assert [name for name, _ in made] == ["linear"]


def test_gradients_are_products_of_the_same_kind(made: list[Any]) -> None:
    a, b, ct = (matrix(s, np.float64) for s in ((M + 1, K), (K, N), (M + 1, N)))
    x, y = (sf.tensor(v, requires_grad=True) for v in (a, b))
    (x @ y).backward(sf.from_numpy(ct))
    assert x.grad is not None and y.grad is not None
    assert_product(x.grad.numpy(), ct, b.T)
    assert_product(y.grad.numpy(), a.T, ct)
    assert {orders for _, orders in made} == {(), ((0, 1), (1, 0)), ((1, 0), (0, 1))}


def test_nan_and_infinity_stay_in_their_rows(made: list[Any]) -> None:
    a, b = matrix((M + 2, K), np.float32), np.abs(matrix((K, N), np.float32))
    a[3, 5], a[M, K - 1] = np.nan, np.inf
    out = (sf.from_numpy(a) @ sf.from_numpy(b)).numpy()
    assert np.isnan(out[3]).all() and np.isposinf(out[M]).all()
    assert np.isfinite(np.delete(out, (3, M), 0)).all()
    assert made


def test_the_same_bits_for_any_number_of_threads(made: list[Any]) -> None:
    a, b = matrix((400, 700), np.float32), matrix((700, 300), np.float32, turned=True)
    before = sf.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3, 1, 2):
            sf.set_num_threads(count)
            results.append((sf.from_numpy(a) @ sf.from_numpy(b)).numpy())
    finally:
        sf.set_num_threads(before)
    for result in results[1:]:
        np.testing.assert_array_equal(results[0], result)
    assert made


def test_wrong_shapes_are_refused_as_those_of_small_ones_are() -> None:
    with pytest.raises(
        sf.ShapeError, match=r"matmul\(f32\[300, 400\], f32\[401, 300\]\): .*: 400 and 401"
    ):
        sf.ones(300, 400) @ sf.ones(401, 300)


@pytest.mark.parametrize("columns", [0, 3])
@pytest.mark.parametrize("lead", [(), (8,), (3, 1), (2, 0)], ids=str)
def test_linear_of_no_features_is_the_bias(lead: tuple[int, ...], columns: int) -> None:
    x, weight = sf.ones(*lead, 0, requires_grad=True), sf.ones(columns, 0, requires_grad=True)
    y = sf.nn.functional.linear(x, weight, sf.arange(columns, dtype=sf.float32))
    np.testing.assert_array_equal(y.detach(), np.broadcast_to(np.arange(columns), y.shape))
    assert y.shape == (*lead, columns)
    y.sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape


SUMS: dict[str, Callable[[int, int], tuple[int, ...]]] = {
    "matrix": lambda m, n: (m, n), "row": lambda m, n: (n,), "column": lambda m, n: (m, 1),
    "number": lambda m, n: (),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int8"])
@pytest.mark.parametrize("batched", [False, True])
def test_a_product_and_a_sum_where_either_is_a_kernels(batched: bool, dtype: str) -> None:
    """Small and large, the operands by rows and by columns, on one thread and on two."""
    kind, rng = getattr(sf, dtype), np.random.default_rng(0)
    fn = sf.baddbmm if batched else sf.addmm
    exact = not kind.is_floating
    for m, k, n in ((3, 4, 5), (16, 16, 15), (16, 16, 16), (130, 70, 90)):
        batch = (2,) if batched else ()
        a, b = rng.integers(-3, 4, (*batch, m, k)), rng.integers(-3, 4, (*batch, k, n))
        for at, (name, shape) in enumerate(SUMS.items()):
            c = rng.integers(-3, 4, (*batch, *shape(m, n)) if name == "matrix" else shape(m, n))
            x, y, z = (sf.from_numpy(v.astype(np.float64)).to(kind) for v in (a, b, c))
            x = x.mT.contiguous().mT if at % 2 else x
            y = y.mT.contiguous().mT if at // 2 else y
            for alpha, beta in ((1, 1), (2, 1), (1, 3), (2, 0)):
                wanted = beta * c + alpha * (a @ b)
                for threads in (1, 2):
                    sf.set_num_threads(threads)
                    found = fn(z, x, y, alpha=alpha, beta=beta)
                    assert found.dtype is kind and found.shape == wanted.shape
                    if exact:
                        np.testing.assert_array_equal(found.numpy(), wanted.astype(kind.numpy))
                    else:
                        tolerance = 4 * 2.0 ** -(7 if dtype == "bfloat16" else 10)
                        seen = found.to(sf.float64).numpy()
                        np.testing.assert_allclose(seen, wanted, tolerance, tolerance)


def test_what_does_not_stretch_to_a_product_is_not_added_to_it() -> None:
    """However the product is computed."""
    for side in (3, 200):
        y = sf.ones(side, side)
        for shape in ((2, side, side), (side + 1, side), (1, 1, 1)):
            with pytest.raises(sf.ShapeError):
                sf.addmm(sf.ones(shape), y, y)
        with pytest.raises(sf.ShapeError):
            sf.addmm(sf.ones(side), y, sf.ones(side + 1, side))
