"""Elements of a row by rank, without sorting it: every dtype, both directions, equal elements, rows
on both sides of each threshold; and rows of a few, sorted in registers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from test_sort_digits import DTYPES, order_of, row

import staticflow as sf
from staticflow.graph.graph import close
from staticflow.ops.along.order import _PART_OF_ROW, FEW, NETWORK
from staticflow.ops.along.ranks import _COUNTED
from staticflow.ops.along.selection import _LONG, _NEAR, _SAMPLE, _SAMPLE_OF_ROW
from staticflow.passes.pipeline import optimize

SIZES = (FEW + 4, FEW + 5, _COUNTED, _COUNTED + 1, 100, 1000, _LONG, _NEAR, _NEAR + 1)
"""Lengths of rows, of which the first is that of all that are asked for."""


@functools.cache
def top_program(dtype: str, k: int, largest: bool, n: int | None = None) -> sf.Program:
    x = sf.placeholder((n,), dtype, name="x")
    return sf.compile([x], list(sf.topk(x, k, largest=largest)))


def check(found: Any, x: np.ndarray, wanted: np.ndarray) -> None:
    values, positions = found
    np.testing.assert_array_equal(positions.numpy(), wanted)
    assert values.numpy().tobytes() == x[wanted].tobytes()  # with the signs of zeros and of NaN


@pytest.mark.parametrize("largest", [False, True], ids=["smallest", "largest"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_of_rows(dtype: str, largest: bool) -> None:
    k = SIZES[0]
    for n in SIZES:
        x = row(n, dtype)
        check(top_program(dtype, k, largest)(x), x, order_of(x, largest)[:k])
    for n in (_PART_OF_ROW * k, _PART_OF_ROW * k + 1):
        x = row(n, dtype)
        check(top_program(dtype, k, largest, n)(x), x, order_of(x, largest)[:k])


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_of_rows(dtype: str) -> None:
    x = sf.placeholder((None,), dtype, name="x")
    k = SIZES[0]
    program = sf.compile([x], [*x.kthvalue(1), *x.kthvalue(k), *x.median(0)])
    for n in SIZES:
        a = row(n, dtype)
        order, found = order_of(a, False), program(a)
        nan = np.isnan(a) if a.dtype.kind == "f" else np.zeros(n, bool)
        median = np.argmax(nan) if nan.any() else order[(n + 1) // 2 - 1]
        for i, at in enumerate((order[0], order[k - 1])):
            check(found[2 * i : 2 * i + 2], a, np.asarray(at))
        assert found[5].item() == median
        np.testing.assert_array_equal(found[4].numpy(), a[median])


def misleading(name: str, n: int, dtype: str) -> np.ndarray:
    """A row of which a sample tells the wrong thing, or nothing: the elements that are looked at
    are before all others, or behind them; all are equal; or in order."""
    x = np.random.default_rng(n).integers(0, 90, n)
    seen = np.arange(_SAMPLE) * n // _SAMPLE
    if name == "equal":
        x[:] = 5
    elif name == "in order":
        x = np.arange(n) * 120 // n
    else:
        x[seen] = {"before": -20, "behind": 110}[name]
    return x.astype(dtype)


@pytest.mark.parametrize("name", ["before", "behind", "equal", "in order"])
@pytest.mark.parametrize("dtype", ["int8", "int64", "float16", "float64"])
def test_what_a_sample_of_a_long_row_tells_changes_no_result(dtype: str, name: str) -> None:
    x, k = sf.placeholder((None,), dtype, name="x"), sf.placeholder((None,), name="k")
    program = sf.compile([x, k], [*sf.topk(x, k.shape[0]), *x.kthvalue(k.shape[0])])
    for n in (_LONG - 1, _NEAR + 1):
        a = misleading(name, n, dtype)
        for rank in (1, _SAMPLE, n // _SAMPLE_OF_ROW, n // 2, n):
            found = program(a, np.zeros(rank, "f4"))
            check(found[:2], a, order_of(a, True)[:rank])
            check(found[2:], a, np.asarray(order_of(a, False)[rank - 1]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_rank_of_rows_that_are_found_by_bounds(dtype: str) -> None:
    """Of elements of which few, some or all are equal, that lie near and apart."""
    x, y = (
        sf.placeholder((None, None), dtype, name="x"),
        sf.placeholder((None, None), dtype, name="y"),
    )
    k = sf.placeholder((None,), name="k")
    program = sf.compile([x, y, k], [*x.kthvalue(k.shape[0], 1), *y.kthvalue(k.shape[0], 0)])
    n = _COUNTED + 8
    rows = np.stack([np.resize(row(m, dtype), n) for m in (1, 3, n // 2, n - 1, n)])
    for rank in range(1, n + 1):
        wanted = [order_of(r, False)[rank - 1] for r in rows]
        found = program(rows, np.ascontiguousarray(rows.T), np.zeros(rank, "f4"))
        for values, at in (found[:2], found[2:]):
            np.testing.assert_array_equal(at.numpy(), wanted)
            assert values.numpy().tobytes() == rows[range(len(rows)), wanted].tobytes()


@pytest.mark.parametrize("low", [0, 7, -(1 << 40)])
@pytest.mark.parametrize("most", [0, 200, 1 << 17, 1 << 33, 1 << 63])
def test_digits_that_all_have_in_common(low: int, most: int) -> None:
    x = low + np.random.default_rng(most % 1000).integers(
        0, most, 500, np.uint64, endpoint=True
    ).astype(np.int64)
    for largest in (False, True):
        found = top_program("int64", SIZES[0], largest)(x)
        check(found, x, order_of(x, largest)[: SIZES[0]])


@pytest.mark.parametrize("descending", [False, True], ids=["up", "down"])
@pytest.mark.parametrize("dtype", ["bool", "int64", "float16", "float32"])
def test_rows_of_a_few(dtype: str, descending: bool) -> None:
    for n in (1, 2, 3, NETWORK, NETWORK + 1):
        x, y = sf.placeholder((None, n), dtype, name="x"), sf.placeholder((n, 19), dtype, name="y")
        results = [*x.sort(1, descending), *y.sort(0, descending), x.kthvalue((n + 1) // 2)[1]]
        a = row(19 * n, dtype).reshape(19, n)
        found = [r.numpy() for r in sf.compile([x, y], results)(a, np.ascontiguousarray(a.T))]
        wanted = np.stack([order_of(r, descending) for r in a])
        np.testing.assert_array_equal(found[1], wanted)
        np.testing.assert_array_equal(found[3], wanted.T)
        values = np.take_along_axis(a, wanted, 1)
        assert found[0].tobytes() == values.tobytes()
        assert found[2].tobytes() == np.ascontiguousarray(values.T).tobytes()
        middle = [order_of(r, False)[(n + 1) // 2 - 1] for r in a]
        np.testing.assert_array_equal(found[4], middle)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_every_dim_of_views_and_threads(dim: int) -> None:
    a = row(40 * 30 * 50, "float32").reshape(40, 30, 50)
    x = sf.placeholder((40, 30, 50) if dim else (None, None, None), name="x")
    view = x.flip(1).permute(2, 0, 1)[::2]
    program = sf.compile([x], [*view.kthvalue(4, dim), *sf.topk(view, 5 + FEW, dim)])
    b = np.flip(a, 1).transpose(2, 0, 1)[::2]
    order = np.apply_along_axis(lambda r: order_of(r, True), dim, b)
    for threads in (1, 3):
        sf.set_num_threads(threads)
        found = [r.numpy() for r in program(a)]
        np.testing.assert_array_equal(found[1], np.argsort(b, dim, kind="stable").take(3, dim))
        np.testing.assert_array_equal(found[3], order.take(range(5 + FEW), dim))
        np.testing.assert_array_equal(found[2], np.take_along_axis(b, found[3], dim))


def test_empty_rows_and_none_of_them() -> None:
    x, k = sf.placeholder((None, None), name="x"), sf.placeholder((None,), name="k")
    program = sf.compile([x, k], list(sf.topk(x, k.shape[0], 1)))
    for shape, count in (((0, 40), 20), ((3, 0), 0), ((3, 40), 0), ((3, 40), 20)):
        a = np.arange(np.prod(shape), dtype="f4").reshape(shape)
        values, positions = program(a, np.zeros(count, "f4"))
        assert values.shape == positions.shape == (shape[0], count)
        np.testing.assert_array_equal(values.numpy(), np.sort(a, 1)[:, ::-1][:, :count])


def test_the_median_of_many_sorts_nothing() -> None:
    x = sf.placeholder((1000, 1000), name="x")
    for out, op in ((x.median(), "of_rank"), (x.kthvalue(3)[0], "of_rank"), (x[:9].sort()[0], "")):
        text = str(optimize(close([x.node], [out.node]))[0])
        assert (" of_rank(" in text) is (op == "of_rank")
        assert (" sort(" in text) is (op == "")
