"""Reductions that are functions of other ops, against NumPy, in both modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import pytree
from staticflow.errors import DTypeError, ShapeError

X = np.array([[0.5, -2.0, 3.0, 1.0], [4.0, 1.5, -1.0, 0.0], [2.0, 2.5, -3.0, 7.0]])
GAPS = np.where(X < 0, np.nan, X)

FUNCTIONS: tuple[tuple[str, Callable[[Any], Any], Any], ...] = (
    ("diff", lambda x: sf.diff(x), np.diff(X)),
    ("diff twice", lambda x: sf.diff(x, 2, 0), np.diff(X, 2, 0)),
    ("diff too often", lambda x: sf.diff(x, 9, 1), np.diff(X, 4, 1)),
    ("diff prepend", lambda x: sf.diff(x, prepend=x[:, :1]), np.diff(X, prepend=X[:, :1])),
    ("count_nonzero", lambda x: sf.count_nonzero(x, 1), np.count_nonzero(X, 1)),
    ("aminmax", lambda x: sf.aminmax(x, dim=0), (X.min(0), X.max(0))),
    ("max of two", lambda x: sf.max(x, -x), np.maximum(X, -X)),
    ("min of two", lambda x: x.min(x * 2), np.minimum(X, X * 2)),
    ("var_mean", lambda x: sf.var_mean(x, 1), (X.var(1, ddof=1), X.mean(1))),
    ("std_mean", lambda x: sf.std_mean(x, False), (X.std(), X.mean())),
    ("no dims are all", lambda x: (x.sum(()), x.mean(()), x.var(())), (X.sum(), X.mean(), X.var(ddof=1))),
    ("argsort", lambda x: x.argsort(1, descending=True), np.argsort(-X, 1, kind="stable")),
    ("bucketize", lambda x: sf.bucketize(x, sf.tensor([0.0, 2.0], dtype="float64")), np.searchsorted([0, 2], X)),
    ("histc", lambda x: sf.histc(x, 4, -3, 5), np.histogram(X, 4, (-3, 5))[0].astype(float)),
    ("histc own range", lambda x: sf.histc(x, 3), np.histogram(X, 3)[0].astype(float)),
    ("norm", lambda x: sf.norm(x, 1, 0), np.abs(X).sum(0)),
    ("linalg.norm", lambda x: sf.linalg.norm(x), np.linalg.norm(X)),
    ("linalg.norm of a matrix", lambda x: sf.linalg.norm(x, -np.inf), np.linalg.norm(X, -np.inf)),
    ("matrix_norm", lambda x: sf.linalg.matrix_norm(x, 1, keepdim=True), np.linalg.norm(X, 1, keepdims=True)),
    ("vecdot", lambda x: sf.linalg.vecdot(x, x, dim=0), (X * X).sum(0)),
    ("softmax in float32", lambda x: x.softmax(1, "float32").sum(1), np.ones(3, np.float32)),
)  # fmt: skip

WITH_GAPS: tuple[tuple[str, Callable[[Any], Any], Any], ...] = (
    ("nansum", lambda x: sf.nansum(x, 0), np.nansum(GAPS, 0)),
    ("nanmean", lambda x: sf.nanmean(x, 1, keepdim=True), np.nanmean(GAPS, 1, keepdims=True)),
    ("nanmedian", lambda x: sf.nanmedian(x), 2.0),
    ("nanmedian of rows", lambda x: sf.nanmedian(x, 1), (np.array([1.0, 1.5, 2.5]), np.array([3, 1, 1]))),
    ("median", lambda x: sf.median(x, 1, True), (np.full((3, 1), np.nan), np.array([[1], [2], [2]]))),
)  # fmt: skip


@pytest.mark.parametrize(
    ("fn", "wanted", "array"),
    [(fn, wanted, X) for _, fn, wanted in FUNCTIONS]
    + [(fn, wanted, GAPS) for _, fn, wanted in WITH_GAPS],
    ids=[row[0] for row in (*FUNCTIONS, *WITH_GAPS)],
)
def test_functions(fn: Callable[[Any], Any], wanted: Any, array: Any) -> None:
    x = sf.placeholder((None, None), "float64", name="x")
    outs = pytree.flatten(fn(x))[0]
    compiled = sf.compile([x], outs)(array)
    eager = pytree.flatten(fn(sf.tensor(array)))[0]
    expected = pytree.flatten(wanted)[0]
    for a, b, e in zip(eager, compiled, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), e, 1e-6 if a.dtype is sf.float32 else 1e-12)
        np.testing.assert_allclose(b.numpy(), e, 1e-6 if a.dtype is sf.float32 else 1e-12)


@pytest.mark.parametrize("fn", [sf.mean, sf.nanmean], ids=["mean", "nanmean"])
def test_means_of_integers_want_a_floating_dtype(fn: Callable[..., Any]) -> None:
    x = sf.tensor([1, 2])
    with pytest.raises(DTypeError, match="mean: of int64; give a floating dtype"):
        fn(x)
    assert fn(x, dtype="float64").item() == 1.5


REDUCERS = ("sum", "mean", "amax", "all", "std", "logsumexp", "squeeze")


@pytest.mark.parametrize("name", REDUCERS)
def test_dims_may_be_integers_of_numpy(name: str) -> None:
    x, zero = sf.tensor(X), np.int64(0)
    fn = getattr(sf, name)
    assert fn(x, zero).tolist() == fn(x, 0).tolist()
    assert fn(x, (zero,)).tolist() == fn(x, 0).tolist()


def test_no_dims_are_all() -> None:
    x = sf.tensor(X)
    assert sf.sum(x, []).item() == sf.sum(x, ()).item() == sf.sum(x).item()


@pytest.mark.parametrize("keepdim", [False, True])
def test_products_over_several_dims(keepdim: bool) -> None:
    x = np.array([[[1.0, 2.0], [0.0, 3.0]], [[4.0, 0.5], [2.0, 1.0]]])
    t = sf.tensor(x, requires_grad=True)
    for dims in ((0, 2), (-1, 1), (0, 1, 2)):
        wanted = x.prod(dims, keepdims=keepdim)
        assert np.array_equal(sf.prod(t, dims, keepdim).detach().numpy(), wanted)
        assert sf.autograd.gradcheck(lambda t: sf.prod(t, dims, keepdim), (t,))  # noqa: B023
    assert sf.prod(t, ()).item() == 0


def test_bincount() -> None:
    x, w = np.array([3, 1, 3, 0]), np.array([0.5, 1.0, 2.0, 4.0])
    assert sf.bincount(sf.tensor(x)).tolist() == [1, 1, 0, 2]
    assert sf.bincount(sf.tensor(x), sf.tensor(w), 6).tolist() == [4, 1, 0, 2.5, 0, 0]
    assert sf.bincount(sf.tensor(x[:0])).tolist() == []
    s = sf.placeholder((None,), "int64", name="x")
    counted = sf.compile([s], sf.bincount(s))
    assert counted(x).tolist() == [1, 1, 0, 2] and counted(x[:0]).tolist() == []
    assert sf.bincount(sf.tensor(x[::-1].copy()).flip(0)[::2]).tolist() == [*np.bincount(x[::2])]
    assert sf.bincount(sf.tensor([0, 255, 255], dtype=sf.uint8)).tolist() == [1, *[0] * 254, 2]
    assert sf.bincount(sf.tensor(x[:0]), minlength=2).tolist() == [0, 0]
    with pytest.raises(ShapeError, match="below 0"):
        sf.bincount(sf.tensor([-1]))
    with pytest.raises(DTypeError, match="vector of integers"):
        sf.bincount(sf.tensor([1.0]))
    weighted = sf.jit(lambda x, w: sf.bincount(x, w))
    for count in (sf.bincount, weighted):
        assert count(sf.tensor([1, 1]), sf.ones(2)).tolist() == [0, 2]
        for wrong in (sf.ones(3), sf.ones(1), sf.tensor(1.0)):
            with pytest.raises(sf.ShapeError, match=r"bincount: the tensor of weights has shape"):
                count(sf.tensor([1, 1]), wrong)
    with pytest.raises(sf.ArgumentError, match="minlength is -1; it must be 0 or more"):
        sf.bincount(sf.tensor([1]), minlength=-1)


def test_named_results() -> None:
    x = sf.tensor([[1.0, 3.0, 2.0]])
    for found in (
        x.max(1),
        x.min(1),
        x.sort(1),
        x.topk(2, 1),
        x.kthvalue(1),
        x.median(1),
        x.cummax(1),
    ):
        assert found._fields == ("values", "indices")
        assert found.indices.dtype is sf.int64
    assert x.aminmax()._fields == ("min", "max")


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (lambda x: x.max(), "MaxBackward1"), (lambda x: x.max(0).values, "MaxBackward0"),
        (lambda x: x.amax(), "AmaxBackward0"), (lambda x: x.sort().values, "SortBackward0"),
        (lambda x: x.topk(1).values, "TopkBackward0"), (lambda x: x.median(), "MedianBackward0"),
        (lambda x: x.cumsum(0), "CumsumBackward0"), (lambda x: x.prod(), "ProdBackward0"),
        (lambda x: x.var(), "VarBackward0"), (lambda x: x.std(), "StdBackward0"),
        (lambda x: x.norm(), "LinalgVectorNormBackward0"), (lambda x: x.kthvalue(1).values, "KthvalueBackward0"),
        (lambda x: sf.addmm(x, x[:, None], x[None]), "AddmmBackward0"),
    ],
)  # fmt: skip
def test_names_of_derivatives(fn: Callable[[Any], Any], name: str) -> None:
    out = fn(sf.tensor([1.0, 2.0], requires_grad=True))
    assert repr(out.grad_fn) == f"<{name}>"


def test_only_what_the_derivative_needs_is_kept() -> None:
    """A sort keeps the indices, not its input, which may change afterwards."""
    x = sf.tensor([3.0, 1.0, 2.0], requires_grad=True)
    y = x * 2
    values = y.sort().values
    with sf.no_grad():
        y.zero_()
    (values * sf.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [6.0, 2.0, 4.0]


def test_sums_of_long_16_bit_rows() -> None:
    x = sf.full((70000,), 1.0, dtype="float16")
    assert x.mean().item() == 1 and x.var().item() == 0
    assert x.norm().item() == 264.5


def test_a_pass_over_rows_is_vectorised_along_them_however_much_each_row_gives() -> None:
    x = sf.placeholder(("N", "C", "S"), name="x")
    weight, bias = sf.placeholder(("C",), name="weight"), sf.placeholder(("C",), name="bias")
    mean = x.mean((0, 2))
    gap = x - mean[:, None]
    size = (gap * gap).mean((0, 2))
    out = gap / sf.sqrt(size + 1)[:, None] * weight[:, None] + bias[:, None]
    program = sf.compile([x, weight, bias], (out, mean, size, mean * 2, size * 3))
    assert program.kernel_count == 1
    assert "*lane" not in program.source("kernels")


def test_differences_of_differences_without_end() -> None:
    x = sf.tensor([[1.0, 4.0, 9.0]], requires_grad=True)
    out = x.diff(2**62)
    assert out.shape == (1, 0) and sf.tensor([True, False]).diff(2**62).shape == (0,)
    out.sum().backward()
    assert x.grad.tolist() == [[0.0] * 3]
    assert sf.placeholder((2, 3), name="x").diff(2**62).shape == (2, 0)
    with pytest.raises(ShapeError, match="give the size of dim 0"):
        sf.placeholder((None,), name="x").diff(2**62)
