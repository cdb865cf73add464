"""Operations on large arrays that were met before: no frame of Python runs but the caller's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from calling import ESTABLISHED, frames

import staticflow as sf
import staticflow.nn.functional as F
from staticflow.eager.costs import LARGE, ROW, SMALL, SPREAD
from staticflow.ops.matrices.contract import linear_op
from staticflow.runtime.threads import pool_jobs

ROWS, COLUMNS = 8, SPREAD // 8


def drawn(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "mul by a number": lambda x, y: x * 2.5,
    "row": lambda x, y: x + y[0],
    "exp": lambda x, y: x.exp(),
    "relu": lambda x, y: x.relu(),
    "sum": lambda x, y: x.sum(),
    "amax of rows": lambda x, y: x.amax(1),
}
CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda x, y: x.add_(y),
    "add_ of a row": lambda x, y: x.add_(y[0]),
    "mul_ by a number": lambda x, y: x.mul_(-1.0),
    "sub_ of an int": lambda x, y: x.sub_(3),
    "sub_ scaled": lambda x, y: x.sub_(y, alpha=0.1),
    "add_ of a row scaled": lambda x, y: x.add_(y[0], alpha=3),
    "relu_": lambda x, y: x.relu_(),
    "neg_": lambda x, y: x.neg_(),
    "div_": lambda x, y: x.div_(y),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_no_frame_runs(name: str) -> None:
    operation = OPERATIONS[name]
    x, y = (sf.from_numpy(drawn(ROWS, COLUMNS) + i) for i in (0, 1))
    expected, *_ = [operation(x, y) for _ in range(3)]
    assert frames(lambda: operation(x, y)) == []
    np.testing.assert_array_equal(operation(x, y).numpy(), expected.numpy())


@pytest.mark.parametrize("name", CHANGES)
def test_no_frame_runs_in_place(name: str) -> None:
    change = CHANGES[name]
    sf.ones(1).neg()  # by which the methods have become native
    y = sf.from_numpy(drawn(ROWS, COLUMNS) + 1)
    base = drawn(ROWS, COLUMNS)
    expected = change(sf.from_numpy(base.copy()), y).numpy()
    for _ in range(2):
        change(sf.from_numpy(base.copy()), y)
    x = sf.from_numpy(base.copy())
    version = x._version
    assert frames(lambda: change(x, y)) == []
    assert x._version == version + 1
    np.testing.assert_array_equal(x.numpy(), expected)


def test_other_kinds_in_turn() -> None:
    """What was computed last says nothing of operands of another kind."""
    wide = {d: sf.from_numpy(drawn(ROWS, COLUMNS, dtype=d)) for d in (np.float32, np.float64)}
    for _ in range(3):
        for dtype, x in wide.items():
            a = x.numpy()
            column, row = x[:, :1].clone(), x[:1].clone()
            for y in (x, column, row, x.t().clone().t()):
                got = (x + y).numpy()
                assert got.dtype == dtype
                np.testing.assert_array_equal(got, a + y.numpy())
                x_ = x.clone()
                np.testing.assert_array_equal(x_.add_(y).numpy(), a + y.numpy())


def test_operands_that_broadcast_are_sooner_a_kernel() -> None:
    x = sf.from_numpy(drawn(64, LARGE // 64 - 8))
    for y, kernel in ((x[:, :1].clone(), True), (x[0].clone(), True), (x, False), (x[0, 0], False)):
        found = frames(lambda y=y: x - y)
        assert ("_Kernels.__call__" in found) == kernel
        np.testing.assert_array_equal((x - y).numpy(), x.numpy() - y.numpy())


EVEN: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub of a number": lambda x, y: x - y.reshape(-1)[0],
    "neg": lambda x, y: -x,
    "maximum": sf.maximum,
    "lt": lambda x, y: x < y,
    "eq": lambda x, y: x == y,
    "row": lambda x, y: x * y[3],
    "column": lambda x, y: x * y[:, 3:4],
    "row and column": lambda x, y: x[2] + y[:, 3:4],
    "parts": lambda x, y: x[:, 1:] - y[:, :-1],
}
"""Operations that NumPy is as fast at on one thread."""

ORDERS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x, "columns": lambda x: x.t(), "every other": lambda x: x[::2, ::2],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "bool"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", EVEN)
def test_kernels_take_large_arrays_as_they_lie_or_numpy_does(
    name: str, order: str, dtype: str
) -> None:
    """Without a change of the bits or of the strides, and at the end without Python."""
    if dtype == "bool" and ("sub" in name or "parts" in name or name == "neg"):
        return  # which is refused
    for rows in (1, 4):  # below `LARGE` and above
        a, b = np.round(drawn(2, 512 * rows, 160) * 4).astype(dtype)
        x, y = (ORDERS[order](sf.from_numpy(m)) for m in (a, b))
        wanted = EVEN[name](*(sf.from_numpy(m.numpy().copy(order="C")) for m in (x, y)))
        found, numbers = [EVEN[name](x, y) for _ in range(ESTABLISHED)], wanted.numpy()
        for out in found:
            assert out.dtype is wanted.dtype and out.shape == wanted.shape
            assert (out.numpy() == numbers).all()
        assert len({out.stride() for out in found}) == 1
        if order != "every other" and name in ("add", "neg", "lt", "column", "parts"):
            assert not [f for f in frames(lambda x=x, y=y: EVEN[name](x, y)) if f != "<lambda>"]


@pytest.mark.parametrize("size", [LARGE - 1, LARGE, SPREAD])
def test_scaled_or_not_in_turn(size: int) -> None:
    a, b = drawn(size), drawn(size) + 1
    y = sf.from_numpy(b)
    for _ in range(3):
        for alpha in (1, 2, -0.5):
            for call in (
                lambda x, alpha: x.sub_(y, alpha=alpha),
                lambda x, alpha: x.sub_(alpha=alpha, other=y),
                lambda x, alpha: x.sub_(y * alpha),
            ):
                x = sf.from_numpy(a.copy())
                assert call(x, alpha) is x
                np.testing.assert_array_equal(x.numpy(), a - b * np.float32(alpha))


def test_an_array_that_overlaps_is_left_to_numpy() -> None:
    base = drawn(SPREAD + 8)
    x, y = sf.from_numpy(base.copy()), sf.from_numpy(drawn(SPREAD) + 1)
    for _ in range(3):
        x[:-8].add_(y)
    x = sf.from_numpy(base.copy())
    x[:-8].add_(x[8:])
    np.testing.assert_array_equal(x[:-8].numpy(), base[:-8] + base[8:])
    z = sf.from_numpy(base.copy())
    z.add_(z)
    np.testing.assert_array_equal(z.numpy(), base + base)


def test_a_change_that_is_recorded_has_its_history() -> None:
    x = sf.from_numpy(drawn(ROWS, COLUMNS)).requires_grad_()
    other = sf.from_numpy(drawn(ROWS, COLUMNS))
    for _ in range(3):
        other.clone().mul_(other)
    y = x * 1.0
    y.mul_(other)
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), other.numpy())
    with pytest.raises(sf.AutogradError, match="leaf"):
        x.mul_(other)


@pytest.mark.parametrize("shape", [(5000,), (0, 7), (64, 100), (7, 1, 1000), (3, 40, 50)])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.97, 1.0])
def test_places_of_masks_are_those_of_numpy(shape: tuple[int, ...], share: float) -> None:
    mask = np.random.default_rng(0).random(shape) < share
    values = np.where(mask, drawn(*shape) + 9, 0).astype(np.float32)
    m, x = sf.from_numpy(mask), sf.from_numpy(values)
    np.testing.assert_array_equal(m.nonzero().numpy(), np.argwhere(mask))
    np.testing.assert_array_equal(x.nonzero().numpy(), np.argwhere(mask))
    np.testing.assert_array_equal(x[m].numpy(), values[mask])
    np.testing.assert_array_equal(x.masked_select(m).numpy(), values[mask])
    turned = m.permute(*range(m.ndim)[::-1])
    np.testing.assert_array_equal(turned.nonzero().numpy(), np.argwhere(mask.T))
    with_gradient = x.clone().requires_grad_()
    with_gradient[m].sum().backward()
    assert with_gradient.grad is not None
    np.testing.assert_array_equal(with_gradient.grad.numpy(), mask.astype(np.float32))


@pytest.mark.parametrize("shape", [(), (7,), (10, 100), (3, 0), (0, 3), (2, 1, 3), (4, 5, 6, 2)])
def test_where_elements_of_any_shape_are(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 2, shape)
    for x in (array, array.astype(bool), array.T.astype(np.float32)):
        for _ in range(3):
            np.testing.assert_array_equal(sf.from_numpy(x).nonzero().numpy(), np.argwhere(x))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_parts_of_a_large_array_change_in_place(dtype: str) -> None:
    def fresh() -> Any:
        return sf.arange(2 * SPREAD).reshape(1024, -1).to(dtype)

    for part in ((slice(None), slice(1, None)), (slice(None, None, 2),), (slice(None), 3)):
        x, expected = fresh(), fresh().numpy().copy()
        other = sf.from_numpy(np.full(expected[part].shape, 3, expected.dtype))
        x[part].add_(other)
        x[part].mul_(2)
        expected[part] = (expected[part] + other.numpy()) * np.asarray(2, expected.dtype)
        np.testing.assert_array_equal(x.numpy(), expected)
        assert x._version == 2
    x = fresh()
    x.fill_(2.0)
    assert (x == 2).all()
    x.copy_(other[:1, :1] if other.ndim > 1 else other[:1])
    assert (x == 3).all()
    assert not x.zero_().any() and sf.ones_like(x).all()


def test_equality_of_large_arrays() -> None:
    x = sf.from_numpy(drawn(64, 1000))
    other = x.clone()
    assert sf.equal(x, other)
    other[63, 999] += 1
    assert not sf.equal(x, other) and not sf.equal(x, x + 1)
    assert sf.equal(sf.ones(0, 3), sf.ones(0, 3)) and sf.equal(sf.ones(3, 0), sf.ones(3, 0))


def test_copies_of_what_repeats_are_spread() -> None:
    row = sf.from_numpy(drawn(1, 1024))
    whole = row.expand(1024, 1024)
    before, threads = pool_jobs(), sf.get_num_threads()
    sf.set_num_threads(2)
    try:
        copy = whole.contiguous()
    finally:
        sf.set_num_threads(threads)
    assert pool_jobs() == before + 1
    np.testing.assert_array_equal(copy.numpy(), whole.numpy())
    assert copy.is_contiguous() and copy.data_ptr() != row.data_ptr()


def test_bools_are_counted() -> None:
    mask = np.random.default_rng(0).random((64, 1000, 2)) < 0.3
    m = sf.from_numpy(mask)
    for dim in (None, 0, 1, -1, (0, 2), (0, 1, 2)):
        for got in (m.sum(dim), sf.count_nonzero(m, dim)):
            assert got.dtype is sf.int64
            np.testing.assert_array_equal(got.numpy(), mask.sum(dim))
    np.testing.assert_array_equal(m.sum((0, 1, 2), keepdim=True).numpy(), [[[mask.sum()]]])
    assert m.sum(dtype=sf.float32).dtype is sf.float32 and sf.ones(0, 2).bool().sum().item() == 0


@pytest.mark.parametrize("count", [0, 1, 2, 7, 1 << 14, (1 << 14) + 1, 50_000])
def test_numbers_in_a_row_are_those_of_numpy(count: int) -> None:
    for start, step in ((0.0, 1.0), (-3.5, 0.3), (1e6, -0.7)):
        got = sf.arange(start, start + step * (count - 0.5), step).numpy() if count else []
        expected = (np.arange(count) * step + start).astype(np.float32)
        np.testing.assert_array_equal(got, expected)
    for lo, hi in ((0, 1), (2.5, -7.25), (3, 3)):
        expected = np.linspace(lo, hi, count).astype(np.float32)
        np.testing.assert_array_equal(sf.linspace(lo, hi, count).numpy(), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, np.bool_])
@pytest.mark.parametrize("count", [0, 3, 17, 400])
def test_membership_among_few_and_many(dtype: Any, count: int) -> None:
    rng = np.random.default_rng(0)
    tests = rng.integers(-20, 60, count).astype(dtype)
    for shape in ((0,), (), (5, 7), (300,)):
        elements = np.asarray(rng.integers(-20, 60, shape)).astype(dtype)
        if dtype is np.float32 and elements.size and count:
            elements.reshape(-1)[0] = tests[0] = np.nan  # which is among none
        got = sf.isin(sf.from_numpy(elements), sf.from_numpy(tests))
        np.testing.assert_array_equal(got.numpy(), np.isin(elements, tests))


@pytest.mark.parametrize("columns", [ROW - 1, ROW, ROW + 1])
@pytest.mark.parametrize("inner", [1, 2, 3, 20])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_linear_of_short_rows(dtype: str, inner: int, columns: int) -> None:
    """Of many rows it is one kernel's, of few NumPy's; rows in more dims have the same bits."""
    for rows in (SMALL // columns, SMALL // columns + 1, 10 * SMALL // columns):
        x, weight, bias = (
            sf.from_numpy(drawn(*shape)).to(dtype)
            for shape in ((rows, inner), (columns, inner), (2 * columns,))
        )
        every_other = bias[::2]
        for _ in range(3):  # a kind of call is remembered
            found = F.linear(x, weight, every_other)
        wanted = linear_op.reference(np, x.numpy(), weight.numpy(), every_other.numpy())
        got, near = found.float().numpy(), 4 * np.finfo(np.float32).eps
        largest = max(1, np.abs(wanted.astype(np.float32)).max())  # which a sum may have been
        np.testing.assert_allclose(got, wanted.astype(np.float32), near, near * largest)
        several = F.linear(x[None], weight, every_other)
        np.testing.assert_array_equal(several[0].float().numpy(), got)
