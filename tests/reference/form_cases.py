"""Calls with arguments in forms that PyTorch takes; `make_forms.py` stores what it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["CASES", "REFUSED", "Case", "run"]


@dataclass(frozen=True, slots=True)
class Case:
    """``call(lib, *tensors)`` of a library; whether a ``graph`` does it, too, and with ``open``
    sizes."""

    call: Callable[..., Any]
    arrays: tuple[Any, ...]
    graph: bool = True
    open: bool = False


def run(lib: Any, case: Case, tensor: Callable[[Any], Any]) -> Any:
    return case.call(lib, *map(tensor, case.arrays))


def _pad(*counts: int) -> Callable[..., Any]:
    return lambda t, x: t.nn.functional.pad(x, counts, mode="reflect")


X = np.arange(6, dtype=np.float32).reshape(2, 3)
LINE = np.array([3, 1, 2], np.float32)
LONG = np.array([1, 4, 9, 16], np.float32)
GRID = np.arange(12, dtype=np.float32).reshape(4, 3) ** 2
ROW = np.arange(5, dtype=np.float32)[None]
NONE = np.zeros(0, np.int64)
MASK = X > 2

CASES: dict[str, Case] = {
    "searchsorted by a sorter": Case(
        lambda t, x, v, s: t.searchsorted(x, v, sorter=s),
        (LINE, np.array([1.5, 0, 9], np.float32), np.array([1, 2, 0]))),
    "searchsorted of rows by a sorter": Case(
        lambda t, x, v: t.searchsorted(x, v, sorter=t.argsort(x, -1)),
        (np.array([[3, 1, 2], [9, 8, 7]], np.float32), np.array([[2, 2.5], [8, 1]], np.float32))),
    "a correction of a half": Case(lambda t, x: t.var(x, correction=0.5), (X,), open=True),
    "a correction below 0": Case(lambda t, x: t.std(x, dim=1, correction=-1.5), (X,), open=True),
    "a correction that leaves nothing": Case(lambda t, x: t.var(x, 1, correction=3.5), (X,)),
    "var_mean with half a correction": Case(
        lambda t, x: tuple(t.var_mean(x, dim=1, correction=0.5)), (X,), open=True),
    "softmin in another dtype": Case(
        lambda t, x: t.nn.functional.softmin(x, dim=0, dtype=t.float64), (np.arange(3),)),
    "softmax of a matrix without dim": Case(lambda t, x: t.nn.functional.softmax(x), (X,)),
    "softmax of a vector without dim": Case(lambda t, x: t.nn.functional.softmax(x), (LINE,)),
    "log_softmax of a cube without dim": Case(lambda t, x: t.nn.LogSoftmax()(x), (X[None],)),
    "softmin without dim": Case(lambda t, x: t.nn.functional.softmin(x), (X,)),
    "softmax in another dtype": Case(
        lambda t, x: t.nn.functional.softmax(x, 1, _stacklevel=2, dtype=t.float64), (X,)),
    "index_put by a mask of rows": Case(
        lambda t, x, v, m: t.index_put(x, (m,), v), (X, LINE, np.array([True, False]))),
    "index_put by a mask": Case(
        lambda t, x, m: t.index_put(x, (m,), t.tensor(7.0)), (X, MASK), open=True),
    "index_put added by a mask": Case(
        lambda t, x, m, v: t.index_put(x, (m,), v, accumulate=True), (X, MASK, LINE)),
    "index_put by a mask and indices": Case(
        lambda t, x, m, i: t.index_put(x, (m, i), t.tensor([7.0, 8.0])),
        (X, np.array([True, False]), np.array([0, 2])), graph=False),
    "index_put_ by a mask": Case(
        lambda t, x, m, v: x.clone().index_put_((m,), v), (X, MASK, LINE)),
    "tensor_split by a tensor": Case(
        lambda t, x: tuple(t.tensor_split(x, t.tensor([1, 4]))), (np.arange(6),)),
    "tensor_split at indices": Case(
        lambda t, x, i: tuple(t.tensor_split(x, i)), (np.arange(6), np.array([-2, 5])), graph=False),
    "tensor_split by a number": Case(
        lambda t, x: tuple(t.tensor_split(x, t.tensor(4))), (np.arange(6),)),
    "the nuclear norm": Case(lambda t, x: t.norm(x, "nuc"), (X,), graph=False),
    "the nuclear norm of dims": Case(
        lambda t, x: x.norm("nuc", dim=(0, 2), keepdim=True), (np.ones((2, 3, 4), np.float32),),
        graph=False),
    "gather by no dims": Case(lambda t, x, i: t.gather(x, 0, i), (LINE, np.array(1))),
    "gather of no dims": Case(
        lambda t, x, i: t.gather(x, 0, i), (np.float32(5), np.array([0, 0]))),
    "gather nothing": Case(lambda t, x, i: t.gather(x, 0, i), (X, NONE)),
    "gather nothing of rows": Case(
        lambda t, x, i: t.gather(x, 0, i), (X, np.zeros((0, 5), np.int64))),
    "scatter by no dims": Case(
        lambda t, x, i, v: t.scatter(x, 0, i, v), (LINE, np.array(1), np.float32(9))),
    "scatter a number by no dims": Case(lambda t, x, i: t.scatter(x, 0, i, 9.0), (LINE, np.array(1))),
    "scatter nothing": Case(lambda t, x, i, v: t.scatter(x, 0, i, v), (X, NONE, X)),
    "scatter_add in no dims": Case(
        lambda t, x, i, v: t.scatter_add(x, 0, i, v),
        (np.float32(1), np.array([0, 0]), np.array([9, 3], np.float32))),
    "scatter_add nothing": Case(
        lambda t, x, i, v: t.scatter_add(x, 0, i, v), (X, np.zeros((5, 0), np.int64), X)),
    "take_along_dim from the end": Case(
        lambda t, x, i: t.take_along_dim(x, i, 1), (X, np.array([[-1, 0]])), open=False),
    "pad, cropped and reflected": Case(_pad(-1, 4), (ROW,)),
    "pad, reflected and cropped": Case(_pad(3, -2), (ROW,)),
    "pad of two dims": Case(_pad(3, -2, -1, 3), (np.arange(20, dtype=np.float32).reshape(1, 4, 5),)),
    "pad, cropped and wrapped": Case(
        lambda t, x: t.nn.functional.pad(x, (-1, 4), mode="circular"), (ROW,)),
    "pad, cropped and repeated": Case(
        lambda t, x: t.nn.functional.pad(x, (-2, 4), mode="replicate"), (ROW,)),
    "gradient": Case(lambda t, x: t.gradient(x)[0], (LONG,), open=True),
    "gradient of integers": Case(lambda t, x: t.gradient(x)[0], (np.array([1, 4, 9]),)),
    "gradient of both dims": Case(lambda t, x: tuple(t.gradient(x)), (GRID,), open=True),
    "gradient along one dim": Case(
        lambda t, x: t.gradient(x, spacing=2.0, dim=1)[0], (GRID,), open=True),
    "gradient at coordinates": Case(
        lambda t, x, p: t.gradient(x, spacing=(p,), edge_order=2)[0],
        (LONG, np.array([0, 1, 3, 4], np.float32))),
    "gradient of rows at coordinates": Case(
        lambda t, x, p: t.gradient(x, spacing=[p], dim=1)[0],
        (GRID, np.array([0, 1, 3], np.float32))),
    "gradient of two spacings": Case(
        lambda t, x: tuple(t.gradient(x, spacing=[2.0, 0.5], edge_order=2)), (GRID,), open=True),
    "gradient along dims": Case(lambda t, x: tuple(t.gradient(x, dim=(-1, 0), spacing=2)), (GRID,)),
    "add scaled in the wider dtype": Case(
        lambda t, x, y: t.add(x, y, alpha=0.1), (np.ones(1), np.ones(1, np.float32))),
    "sub scaled beyond the narrow dtype": Case(
        lambda t, x, y: t.sub(x, y, alpha=100), (np.ones(1), np.array([3], np.uint8))),
    "sub scaled in place": Case(
        lambda t, x, y: x.clone().sub_(y, alpha=100), (np.ones(1), np.array([3], np.uint8))),
    "add of integers by a fraction": Case(
        lambda t, x, y: t.add(x, y, alpha=1.5), (np.array([1]), np.ones(1, np.float32))),
    "add of bools": Case(
        lambda t, x, y: t.add(x, y, alpha=2), (np.array([True, False]), np.array([True, False]))),
    "rsub scaled": Case(
        lambda t, x, y: t.rsub(x, y, alpha=0.1), (np.ones(1, np.float32), np.ones(1))),
    "addbmm of bytes": Case(
        lambda t, c, x, y: t.addbmm(c, x, y, beta=2),
        (np.uint8(7), np.full((2, 1, 3), 9, np.uint8), np.full((2, 3, 2), 5, np.uint8)), open=True),
    "tensordot over dims of one": Case(
        lambda t, x, y: t.tensordot(x, y, ((0, 1), (2, 0))),
        (np.ones((1, 1, 1), np.int8), np.full((2, 1, 2), 3, np.int8))),
    "cov of weighted observations": Case(
        lambda t, x, f, w: t.cov(x, fweights=f, aweights=w, correction=0),
        (X, np.array([1, 2, 1]), np.array([0.5, 0.25, 1.0], np.float32))),
    "full of numbers in tensors": Case(
        lambda t, a, b, c, d: tuple(t.full((2,), v) for v in (a, b, c, d)),
        (np.array(3, np.uint8), np.array(0.25), np.array(0.5, np.float16), np.array(True))),
    "roll": Case(lambda t, x, k: t.roll(x, -1, 0), (GRID, np.array(-1))),
    "uint8 images are rounded": Case(
        lambda t, x: t.nn.functional.interpolate(x, size=(3, 5), mode="bilinear"),
        (np.random.default_rng(0).integers(0, 256, (1, 2, 5, 4), np.uint8),)),
    "smaller images without aliases": Case(
        lambda t, x: tuple(
            t.nn.functional.interpolate(x, mode=mode, antialias=True, **how)
            for mode in ("bilinear", "bicubic")
            for how in ({"size": (2, 5)}, {"scale_factor": 0.5}, {"size": (1, 3), "align_corners": True})),
        (np.random.default_rng(0).uniform(0, 9, (1, 2, 5, 4)),)),
    "uint8 cubics stay in range": Case(
        lambda t, x: t.nn.functional.interpolate(x, size=(8, 8), mode="bicubic"),
        (np.array([0, 255] * 8, np.uint8).reshape(1, 1, 4, 4),)),
    "arange of integers between fractions": Case(
        lambda t: (t.arange(0.1, 7.9, 2.0, dtype=t.int64), t.arange(3.7, 0.2, -1.5, dtype=t.int32)),
        ()),
    "arange of int64 to a cut end": Case(
        lambda t: t.arange(0.0, -8.000001, -4.0, dtype=t.int64), ()),
    "arange of int32 to a fraction": Case(
        lambda t: t.arange(0.0, -8.000001, -4.0, dtype=t.int32), ()),
    "linspace and logspace of integers": Case(
        lambda t: (t.linspace(4.3, -3, 5, dtype=t.int64), t.logspace(0, 1.2, 4, dtype=t.int64)), ()),
    "diff of order 0": Case(lambda t, x: t.diff(x, 0, 0, x[:1], x), (X,)),
    "gradient of no spacing": Case(
        lambda t, x: t.gradient(x, spacing=None, dim=None)[0], (LONG,), open=True),
    "no combinations": Case(lambda t, x: t.combinations(x, 2), (LINE[:1],)),
    "sums in bool": Case(
        lambda t, x: (t.sum(x, 0, dtype=t.bool), t.nansum(x, dtype=t.bool)), (X,), open=True),
    "products in bool": Case(lambda t, x: t.prod(x, 0, dtype=t.bool), (X,), open=True),
    "products of bools by an index": Case(
        lambda t, x, i: t.scatter_reduce(x, 0, i, x, "prod"), (X > 1, np.array([[0, 0, 1], [0, 1, 1]]))),
    "index_reduce of no dims": Case(
        lambda t, x, i, v: t.index_reduce(x, 0, i, v, "mean"),
        (np.float32(1), np.array([0]), np.float32(3))),
    "bincount by integer weights": Case(
        lambda t, x, w: t.bincount(x, w), (np.array([0, 2, 2]), np.array([1, 2, 3])), graph=False),
    "unfold of no dims": Case(lambda t, x: (x.unfold(0, 1, 1), x.unfold(0, 0, 1)), (np.float32(5),)),
    "tensordot of one and several": Case(
        lambda t, x, y: (t.tensordot(x[:1], y, ([0], [0])), t.tensordot(y, x[:1], ([0], [0]))), (X, X)),
    "windows without strides": Case(
        lambda t, x: (t.nn.functional.avg_pool1d(x, 2, ()), t.nn.functional.max_pool1d(x, 2, [])),
        (GRID[None],), open=True),
    "means of windows of integers": Case(
        lambda t, x: t.nn.functional.avg_pool2d(x, 2, 1, 1, count_include_pad=False),
        (np.arange(-8, 8).reshape(1, 1, 4, 4),)),
    "means of windows by a negative divisor": Case(
        lambda t, x: t.nn.functional.avg_pool2d(x, (1, 2), divisor_override=-3),
        (np.arange(-8, 8).reshape(1, 1, 4, 4),)),
    "convolution of integers": Case(
        lambda t, x, w, b: t.nn.functional.conv1d(x, w, b, 2, 1),
        (np.arange(30).reshape(2, 3, 5), np.arange(-6, 6).reshape(2, 3, 2), np.array([100, 7]))),
    "convolution of small integers that wrap": Case(
        lambda t, x, w: t.nn.functional.conv2d(x, w),
        (np.arange(0, 160, 10, np.uint8).reshape(1, 1, 4, 4), np.full((1, 1, 3, 3), 3, np.uint8))),
    "transposed convolution of integers": Case(
        lambda t, x, w: t.nn.functional.conv_transpose1d(x, w, stride=2),
        (np.arange(30).reshape(2, 3, 5), np.arange(-6, 6).reshape(3, 2, 2))),
    "transposed convolution padded within its dilation": Case(
        lambda t, x, w: t.nn.functional.conv_transpose1d(x, w, output_padding=1, dilation=2),
        (GRID[None], np.ones((4, 2, 2), np.float32))),
    "pad, cropped whole and repeated": Case(
        lambda t, x: t.nn.functional.pad(x, (-5, 6), mode="replicate"), (ROW,)),
    "pixel_shuffle of no channels": Case(
        lambda t, x: (t.nn.functional.pixel_shuffle(x, 1), t.nn.functional.pixel_unshuffle(x, 1)),
        (np.zeros((2, 0, 1, 1), np.float32),)),
    "margin losses of one score": Case(
        lambda t, x, i: (t.nn.functional.multi_margin_loss(x, i),
                         t.nn.functional.multilabel_margin_loss(x, i)),
        (np.float32(0.5), np.array(0))),
    "a margin loss of a vector": Case(
        lambda t, x, i: t.nn.functional.multi_margin_loss(x, i, p=2, reduction="none"),
        (LINE, np.array([1]))),
    "a margin below 0": Case(
        lambda t, x, i: t.nn.functional.multi_margin_loss(x, i, margin=-1.5), (X, np.array([1, 0]))),
    "a vector product along the first dim of three": Case(
        lambda t, x: (t.cross(x, x.t()), t.linalg.cross(x, x.t())),
        (np.arange(9, dtype=np.float32).reshape(3, 3) ** 2,)),
    "condition numbers by other norms": Case(
        lambda t, x: tuple(t.linalg.cond(x, p) for p in (1, float("inf"), "fro", "nuc")),
        (np.array([[4, 1], [2, 3]], np.float32),), graph=False),
    "bounds of NumPy": Case(lambda t, x: t.clamp(x, np.float32(1.5), max=np.int64(4)), (X,), open=True),
    "a product of NumPy's number": Case(
        lambda t, x: (t.special.xlog1py(x, np.float64(0.5)), t.special.xlog1py(2, x)), (X,)),
    "a slice of another dtype": Case(
        lambda t, x, v: (t.select_scatter(x, v, 0, 1), t.slice_scatter(x, v[None], 0, 0, 1)),
        (np.arange(6).reshape(2, 3), LINE + 0.5)),
    "diagonals at a tensor": Case(
        lambda t, x: tuple(
            f(x, t.tensor(1)) for f in (t.diagonal, t.tril, t.triu, t.diag_embed)), (X,)),
    "a slope in a tensor": Case(
        lambda t, x: (t.nn.functional.leaky_relu(x - 3, t.tensor(0.5)),
                      t.addcmul(x, x, x, value=t.tensor(2.0)), t.norm(x, t.tensor(1))), (X,)),
    "a power in a tensor": Case(
        lambda t, x: (lambda n: (t.linalg.matrix_power(x, n), t.ones(2) * n))(t.tensor(3)),
        (np.array([[1, 1], [0, 1]], np.float32),)),
    "powers of small integers": Case(lambda t, x: t.vander(x), (np.array([3, 2], np.int16),)),
    "products of small integers": Case(
        lambda t, x, y: (t.addbmm(x[0], x, x), t.nn.functional.bilinear(x[0], x[0], x)),
        (np.arange(8, dtype=np.int8).reshape(2, 2, 2), np.zeros(1))),
    "convolution in groups by a tensor": Case(
        lambda t, x, w: t.nn.functional.conv1d(x, w, None, t.tensor(1), t.tensor(0), 1, t.tensor(2)),
        (GRID[None], np.ones((2, 2, 1), np.float32))),
    "no windows": Case(
        lambda t, x: t.nn.functional.adaptive_max_pool1d(x, 0, return_indices=True), (GRID[None],)),
    "bincount by short floats": Case(
        lambda t, x, w: t.bincount(x, w), (np.array([0, 2, 2]), np.array([1, 2, 3], np.float16)),
        graph=False),
}  # fmt: skip

REFUSED: dict[str, tuple[Case, str]] = {
    "a sorter of another shape": (
        Case(lambda t, x, s: t.searchsorted(x, x, sorter=s), (LINE, np.array([1, 2]))),
        "the sorter has the shape"),
    "a sorter out of range": (
        Case(lambda t, x, s: t.searchsorted(x, x, sorter=s), (LINE, np.array([1, 2, 5]))),
        "the index 5"),
    "a mask of another shape": (
        Case(lambda t, x, m: t.index_put(x, (m,), t.tensor(1.0)), (X, np.array([True] * 3))),
        "a mask of shape"),
    "the nuclear norm of a vector": (
        Case(lambda t, x: t.norm(x, "nuc", dim=1), (X,)), "is of matrices"),
    "a gradient of too few points": (Case(lambda t, x: t.gradient(x), (LINE[:1],)), "takes 2 or more"),
    "a gradient of third order": (
        Case(lambda t, x: t.gradient(x, edge_order=3), (LONG,)), "it must be 1 or 2"),
    "too many spacings": (
        Case(lambda t, x: t.gradient(x, spacing=[1.0, 2.0, 3.0]), (X,)), "for each of 2 dims"),
    "integers scaled by a fraction": (
        Case(lambda t, x: t.add(x, x, alpha=1.5), (np.array([1]),)), "cannot be scaled"),
    "running sums in bool": (
        Case(lambda t, x: t.cumsum(x, 0, dtype=t.bool), (X,)), "neither added nor multiplied"),
    "a part of memory before its beginning": (
        Case(lambda t, x: t.as_strided(x, (2,), (1,), -3), (X,)), "storage_offset is -3"),
    "memory before a part that was detached": (
        Case(lambda t, x: x[1:].detach().as_strided((2,), (1,), 0), (X,)), "known from 3 on"),
    "rows without aliases": (
        Case(lambda t, x: t.nn.functional.interpolate(x[None], 2, mode="linear", antialias=True), (X,)),
        "antialias with the mode 'linear'; it is for bilinear and bicubic"),
    "an order of no norm": (
        Case(lambda t, x: t.linalg.cond(x[:, :2], "words"), (X,)), "the order is 'words'"),
    "no factor": (
        Case(lambda t, x: t.addmm(x, x, x.t(), alpha=None), (X,)), "'alpha' must be float, not NoneType"),
    "no value below a threshold": (
        Case(lambda t, x: t.nn.functional.threshold(x, 0.5, None), (X,)), "'value' must be float"),
    "no number in a tensor": (Case(lambda t, x: t.scalar_tensor(None), (X,)), "'s' must be float"),
    "a softmax of integers": (
        Case(lambda t, x: t.softmax(x, 1, dtype=t.int32), (X,)), "softmax: the dtype is int32"),
    "products of rows that differ": (
        Case(lambda t, x: t.inner(x[:, :1], x), (X,)), "inner: the last dims have the sizes 1 and 3"),
    "sizes given twice": (
        Case(lambda t, x: t.reshape(x, (6,), shape=(2, 3)), (X,)), "the sizes are given twice"),
    "sizes of ones given twice": (
        Case(lambda t, x: t.ones(3, 3, size=3), (X,)), "the sizes are given twice"),
    "no place": (Case(lambda t, x: x.select(0, None), (X,)), "must be an integer, not None"),
    "fewer indices than slices": (
        Case(lambda t, x, i: t.index_reduce(x, 0, i, x, "amax"), (X, np.array(0))),
        "index_reduce: 1 indices for 2 slices along dim 0"),
    "channels that do not make squares": (
        Case(lambda t, x: t.nn.functional.pixel_shuffle(x, 2), (np.ones((4, 5, 1, 1), np.float32),)),
        "5 channels; their number must be a multiple of 4"),
    "a logit held at several numbers": (
        Case(lambda t, x: t.logit(x, x), (X,)), "'eps' must be one number, not of shape"),
    "bounds that are several": (
        Case(lambda t, x: t.nn.functional.hardtanh(x, x), (X,)), "'min_val' must be one number"),
    "a norm kept from 0 by several numbers": (
        Case(lambda t, x: t.nn.functional.layer_norm(x, (3,), eps=x), (X,)), "'eps' must be one number"),
    "a full of several numbers": (
        Case(lambda t, x: t.full((2, 3), x), (X,)), "'fill_value' must be one number"),
    "a cov of too few weights": (
        Case(lambda t, x, w: t.cov(x, aweights=w[:1]), (X, LINE)), "one for each of 3 observations"),
    "a cov of weights for no vector": (
        Case(lambda t, x: t.cov(x, aweights=x[:, :1]), (X,)), "one for each of 3 observations"),
    "a cov of counts that are floats": (
        Case(lambda t, x, w: t.cov(x, fweights=w), (X, LINE)), "fweights are of float32"),
    "images of integers": (
        Case(lambda t, x: t.nn.functional.interpolate(x, size=(3, 3), mode="bilinear"),
             (np.ones((1, 1, 2, 2), np.int32),)),
        "takes floating dtypes and uint8"),
}  # fmt: skip
