"""Classes that a loss looks at in the kernel that reads them: values at every shape and dtype, what
is wrong, in loops, on threads, and what such a kernel moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import staticflow as sf
import staticflow.nn.functional as F
from staticflow.errors import IndexRangeError
from staticflow.ops.along.class_losses import class_op

Array = np.ndarray[Any, Any]

SHAPES = [(0, 5), (1, 1), (5, 3), (16, 10), (63, 7), (64, 16), (67, 33), (300, 40)]
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
either_size = pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = sf.get_num_threads()
    yield
    sf.set_num_threads(before)


def operands(shape: tuple[int, ...], dtype: str = "float64") -> tuple[Array, Array]:
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape).astype(dtype)
    t = rng.integers(0, shape[1], (shape[0], *shape[2:]))
    t[::5] = -100
    return x, t


def program(x: Array, t: Array, reduction: str, known: bool = True, **options: Any) -> Any:
    """The loss and its gradient by the scores."""
    shapes = [a.shape if known else (None,) * a.ndim for a in (x, t)]
    scores = sf.placeholder(shapes[0], str(x.dtype), name="scores")
    classes = sf.placeholder(shapes[1], str(t.dtype), name="classes")
    loss = F.cross_entropy(scores, classes, reduction=reduction)
    return sf.compile([scores, classes], [loss, *sf.grad(loss.sum(), [scores])], **options)


def reference(x: Array, t: Array, reduction: str) -> tuple[Array, Array]:
    shifted = x - x.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    kept = t >= 0
    hit = np.expand_dims(t, 1) == np.arange(x.shape[1]).reshape(1, -1, *[1] * (x.ndim - 2))
    each = -(logs * hit).sum(1)
    weight = np.expand_dims(kept, 1) / (kept.sum() if reduction == "mean" else 1)
    loss = {"mean": each.sum() / max(kept.sum(), 1), "sum": each.sum(), "none": each}[reduction]
    return np.asarray(loss), (np.exp(logs) - hit) * weight


@every_shape
@either_size
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_values(shape: tuple[int, int], known: bool, reduction: str) -> None:
    x, t = operands(shape)
    if reduction == "mean" and not (t >= 0).any():
        t[:] = 0
    if reduction == "mean" and not t.size:
        return
    for result, wanted in zip(
        program(x, t, reduction, known)(x, t), reference(x, t, reduction), strict=True
    ):
        np.testing.assert_allclose(result.numpy(), wanted, 1e-12, 1e-14)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@either_size
def test_positions_of_images(reduction: str, known: bool) -> None:
    x, t = operands((3, 5, 4, 17))
    for result, wanted in zip(
        program(x, t, reduction, known)(x, t), reference(x, t, reduction), strict=True
    ):
        np.testing.assert_allclose(result.numpy(), wanted, 1e-12, 1e-14)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("classes", ["int64", "int32", "uint8"])
@pytest.mark.parametrize("shape", [(67, 7), (67, 33)], ids=str)
def test_as_without_fusion(dtype: str, classes: str, shape: tuple[int, int]) -> None:
    x, t = operands(shape, "float32")
    given = sf.tensor(x).to(getattr(sf, dtype)).numpy()
    t = np.where(t < 0, 1, t).astype(classes)
    fused = program(given, t, "sum")(given, t)
    apart = program(given, t, "sum", passes=["-fuse"])(given, t)
    tolerance = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
    for a, b in zip(fused, apart, strict=True):
        np.testing.assert_allclose(
            a.numpy().astype("f8"), b.numpy().astype("f8"), tolerance, tolerance
        )


@pytest.mark.parametrize("columns", [10, 40])
def test_extremes(columns: int) -> None:
    """Infinite scores, rows that are all minus infinity, and ignored rows of any of these."""
    x, _ = operands((12, columns), "float32")
    x[1, 3], x[2, 3], x[3], x[4], x[5, 0] = np.inf, -np.inf, -np.inf, np.inf, np.nan
    x[6:9] = x[1], x[3], x[5]
    t = np.full(12, 3)
    t[6:9] = -100
    for reduction in ("none", "sum", "mean"):
        fused = program(x, t, reduction)(x, t)
        apart = program(x, t, reduction, passes=["-fuse"])(x, t)
        for a, b in zip(fused, apart, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-5, 1e-6)
    losses = program(x, t, "none")(x, t)
    np.testing.assert_array_equal(losses[0].numpy()[6:9], 0)
    np.testing.assert_array_equal(np.isnan(losses[1].numpy()[6:9]).any(1), [True, True, True])


def test_no_rows_and_no_classes() -> None:
    empty = np.zeros((0, 5)), np.zeros(0, "i8")
    assert program(*empty, "sum")(*empty)[0].item() == 0
    assert np.isnan(program(*empty, "mean")(*empty)[0].item())
    nothing = np.zeros((3, 0)), np.full(3, -100)
    with pytest.raises(IndexRangeError, match="cross_entropy"):
        program(*nothing, "sum")(*nothing)


# -- what is wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [-1, 33, 1 << 40])
@pytest.mark.parametrize("at", [0, 63, 64, 66])
@either_size
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_wrong_class(wrong: int, at: int, known: bool, reduction: str) -> None:
    x, t = operands((67, 33))
    step = program(x, t, reduction, known)
    step(x, t)
    t[at] = wrong
    with pytest.raises(IndexRangeError, match=r"cross_entropy.*test_checked_classes.py"):
        step(x, t)


def test_nothing_is_updated_by_a_wrong_class() -> None:
    w, kept = sf.ones(4, 20), sf.zeros(4)
    x, t = sf.placeholder((5, 4), name="x"), sf.placeholder((5,), "int64", name="t")
    loss = F.cross_entropy(x @ w, t, reduction="sum")
    (slope,) = sf.grad(loss, [w])
    step = sf.compile([x, t], loss, updates={w: w - 0.1 * slope, kept: kept + x.sum(0)})
    scores = np.random.default_rng(0).standard_normal((5, 4)).astype("f4")
    classes = np.array([0, 1, 2, 3, 19])
    step(scores, classes)
    before = w.numpy().copy(), kept.numpy().copy()
    assert (before[0] != 1).any() and before[1].any()
    classes[3] = 20
    with pytest.raises(IndexRangeError):
        step(scores, classes)
    np.testing.assert_array_equal(w.numpy(), before[0])
    np.testing.assert_array_equal(kept.numpy(), before[1])


def test_the_line_of_the_loss_that_was_wrong() -> None:
    x = sf.placeholder((6, 20), name="x")
    t, u = (sf.placeholder((6,), "int64", name=n) for n in "tu")
    first = F.cross_entropy(x, t)
    second = F.cross_entropy(x, u)
    step = sf.compile([x, t, u], [first, second, *sf.grad(first + second, [x])])
    scores, right = np.zeros((6, 20), "f4"), np.arange(6)
    words = set()
    for classes in ((right + 20, right), (right, right + 20)):
        with pytest.raises(IndexRangeError) as caught:
            step(scores, *classes)
        words.add(str(caught.value))
    assert len(words) == 2


# -- in loops -------------------------------------------------------------------------------------


def test_in_a_loop() -> None:
    x, t = operands((4 * 20, 17))
    scores, classes = x.reshape(4, 20, 17), t.reshape(4, 20)
    a = sf.placeholder(scores.shape, "float64", name="a")
    b = sf.placeholder(classes.shape, "int64", name="b")
    total, each = sf.scan(
        lambda c, rows: (c + (y := F.cross_entropy(*rows, reduction="sum")), y),
        sf.zeros((), dtype=sf.float64), (a, b),
    )  # fmt: skip
    step = sf.compile([a, b], [total, each, *sf.grad(total, [a])])
    results = step(scores, classes)
    wanted = reference(x, t, "sum")
    np.testing.assert_allclose(results[0].numpy(), wanted[0], 1e-12)
    np.testing.assert_allclose(results[2].numpy().reshape(x.shape), wanted[1], 1e-12, 1e-14)
    classes[2, 7] = 17
    with pytest.raises(IndexRangeError, match=r"cross_entropy.*in iteration 2 of the scan"):
        step(scores, classes)


def test_a_loop_without_iterations_looks_at_nothing() -> None:
    n = sf.placeholder((), "int64", name="n")
    x = sf.placeholder((3, 20), name="x")
    t = sf.placeholder((3,), "int64", name="t")
    total = sf.fori_loop(0, n, lambda i, c: c + F.cross_entropy(x, t), sf.zeros(()))
    step = sf.compile([n, x, t], total)
    scores, wrong = np.zeros((3, 20), "f4"), np.array([0, 20, 1])
    assert step(np.int64(0), scores, wrong).item() == 0
    with pytest.raises(IndexRangeError):
        step(np.int64(2), scores, wrong)


# -- threads and memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(40_000, 3), (3000, 40)], ids=str)
def test_any_number_of_threads(shape: tuple[int, int]) -> None:
    x, t = operands(shape, "float32")
    bits = set()
    for count in (1, 2, 3):
        sf.set_num_threads(count)
        loss, gradient = program(x, t, "sum")(x, t)
        bits.add((loss.numpy().tobytes(), gradient.numpy().tobytes()))
    assert len(bits) == 1


def test_bytes() -> None:
    """A loss and its gradient read the scores and classes and write the gradient, once each."""
    x, t = operands((64, 1000), "float32")
    launches = program(x, t, "sum").work()
    assert len(launches) == 1
    small = 64 * 4 * 4  # a number or two for each row
    moved = sum(launch.bytes for launch in launches)
    assert x.nbytes * 2 + t.nbytes <= moved <= x.nbytes * 2 + t.nbytes + small


def test_alone_it_is_looked_at_by_whole_vectors() -> None:
    t = sf.placeholder((64,), "int64", name="t")
    classes = class_op(t, classes=7, ignore_index=-100, dtype=sf.int32, of="a mask")
    assert "fold and" in sf.compile([t], classes).source("kernels")


def test_classes_of_columns_are_not_read_by_rows() -> None:
    """They stand behind the totals of the columns, of which there may be fewer than rows."""
    x, t = sf.placeholder((None, None), name="x"), sf.placeholder((None,), "int64", name="t")
    shares = x / x.sum(1, keepdim=True)
    classes = class_op(t, classes=7, ignore_index=-100, dtype=sf.int32, of="columns")
    step = sf.compile([x, t], [shares, shares.sum(0) * classes.to(sf.float32)])
    for rows, columns in ((5000, 20), (6, 20), (6, 0), (0, 6), (1, 1)):
        of_columns = np.arange(columns) % 7
        found = step(np.ones((rows, columns), np.float32), of_columns)[1].numpy()
        wanted = of_columns * rows / max(columns, 1)
        np.testing.assert_allclose(found, wanted, rtol=1e-4)
    with pytest.raises(IndexRangeError, match=r"the index 9, at \[19\]"):
        step(np.ones((6, 20), np.float32), np.where(np.arange(20) == 19, 9, 0))


def test_classes_in_a_mask_of_attention_are_checked() -> None:
    q = sf.placeholder((2, 64, 16), name="q")
    t = sf.placeholder((2, 64, 64), "int64", name="t")
    mask = class_op(t, classes=7, ignore_index=-100, dtype=sf.int32, of="a mask") >= 0
    step = sf.compile([q, t], F.scaled_dot_product_attention(q, q, q, attn_mask=mask))
    values, classes = np.ones((2, 64, 16), np.float32), np.zeros((2, 64, 64), np.int64)
    np.testing.assert_allclose(step(values, classes).numpy(), values, rtol=1e-6)
    classes[1, 3, 5] = 9
    with pytest.raises(IndexRangeError, match=r"the index 9, at \[1, 3, 5\]"):
        step(values, classes)
