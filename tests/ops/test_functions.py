"""Functions that are made of others, by other means: eager, compiled, and their derivatives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.spatial.distance as distance

import staticflow as sf
from staticflow.autograd import gradcheck, gradgradcheck

F = sf.nn.functional
RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (4, 3))
Y = RNG.uniform(-2, 2, (5, 3))
NAN = np.where(X > 1.2, np.nan, X)
I = RNG.integers(0, 4, (3, 4))  # noqa: E741
IMAGE = RNG.uniform(-2, 2, (2, 3, 5, 6))


def _modes(x: Any) -> Any:
    values = [min(set(row), key=lambda v: (-list(row).count(v), v)) for row in x.tolist()]
    at = [
        max(i for i, w in enumerate(r) if w == v) for r, v in zip(x.tolist(), values, strict=True)
    ]
    return np.array(values), np.array(at)


def _columns(x: Any, kernel: tuple[int, int], step: int) -> Any:
    n, _, height, width = x.shape
    tops = range(0, height - kernel[0] + 1, step)
    lefts = range(0, width - kernel[1] + 1, step)
    parts = [x[:, :, i : i + kernel[0], j : j + kernel[1]] for i in tops for j in lefts]
    return np.stack([p.reshape(n, -1) for p in parts], -1)


def _bilinear(x: Any, size: tuple[int, int]) -> Any:
    for axis, new in zip((2, 3), size, strict=True):
        old = x.shape[axis]
        at = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
        x = np.apply_along_axis(lambda row, at=at: np.interp(at, np.arange(row.size), row), axis, x)
    return x


Case = tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]

# what is called, what is expected, on which arrays
CASES: dict[str, Case] = {
    "dist": (sf.dist, lambda x, y: np.linalg.norm(x - y), (X, Y[:4])),
    "cdist": (sf.cdist, distance.cdist, (X, Y)),
    "cdist by p": (lambda x, y: sf.cdist(x, y, 1), lambda x, y: distance.cdist(x, y, "cityblock"),
                   (X, Y)),
    "pdist": (sf.pdist, distance.pdist, (X,)),
    "pairwise_distance": (F.pairwise_distance,
                          lambda x, y: np.linalg.norm(x - y + 1e-6, axis=1), (X, Y[:4])),
    "cosine_similarity": (
        F.cosine_similarity,
        lambda x, y: 1 - np.array([distance.cosine(a, b) for a, b in zip(x, y, strict=True)]),
        (X, Y[:4])),
    "cov": (sf.cov, np.cov, (X,)),
    "cov of a vector": (sf.cov, np.cov, (X[0],)),
    "cov with weights": (lambda x, a: sf.cov(x, aweights=a, correction=0),
                         lambda x, a: np.cov(x, aweights=a, ddof=0), (X, np.abs(Y[0]))),
    "corrcoef": (sf.corrcoef, np.corrcoef, (X,)),
    "quantile": (lambda x: sf.quantile(x, 0.3, dim=1), lambda x: np.quantile(x, 0.3, axis=1), (X,)),
    "quantiles": (lambda x, q: sf.quantile(x, q), np.quantile, (X, np.array([0.1, 0.8]))),
    "quantile above": (lambda x: sf.quantile(x, 0.3, 0, interpolation="higher"),
                       lambda x: np.quantile(x, 0.3, axis=0, method="higher"), (X,)),
    "quantile of NaN": (lambda x: sf.quantile(x, 0.3, 1), lambda x: np.quantile(x, 0.3, axis=1),
                        (NAN,)),
    "nanquantile": (lambda x: sf.nanquantile(x, 0.3, 1), lambda x: np.nanquantile(x, 0.3, axis=1),
                    (NAN,)),
    "mode": (lambda x: tuple(sf.mode(x)), _modes, (I,)),
    "isin": (sf.isin, np.isin, (I, np.array([1, 3]))),
    "unique": (lambda x: sf.unique(x, return_inverse=True, return_counts=True),
               lambda x: np.unique(x, return_inverse=True, return_counts=True), (I,)),
    "unique rows": (lambda x: sf.unique(x, dim=0), lambda x: np.unique(x, axis=0), (I % 2,)),
    "unique_consecutive": (lambda x: sf.unique_consecutive(x, return_counts=True),
                           lambda x: tuple(map(np.array, zip(*((k, len([*g])) for k, g in
                                                                itertools.groupby(x)),
                                                             strict=True))), (I.ravel() // 2,)),
    "trapezoid": (sf.trapezoid, lambda y, x: np.trapezoid(y, x), (X, np.sort(Y[1]))),
    "cumulative_trapezoid": (sf.cumulative_trapezoid,
                             lambda x: np.cumsum((x[:, 1:] + x[:, :-1]) / 2, 1), (X,)),
    "block_diag": (sf.block_diag, scipy.linalg.block_diag, (X, Y)),
    "matrix_power": (lambda x: sf.matrix_power(x, 5), lambda x: np.linalg.matrix_power(x, 5),
                     (X[:3],)),
    "matrix_power of inverses": (lambda x: sf.matrix_power(x, -2),
                                 lambda x: np.linalg.matrix_power(x, -2), (X[:3],)),
    "solve": (sf.linalg.solve, np.linalg.solve, (np.stack([X[:3], X[1:]]), Y[:3])),
    "solve of vectors": (sf.linalg.solve, lambda a, b: np.linalg.solve(a, b[..., None])[..., 0],
                         (np.stack([X[:3], X[1:], X[:3] + 1]), Y[:3])),
    "tensorsolve": (sf.linalg.tensorsolve, np.linalg.tensorsolve,
                    (RNG.standard_normal((2, 3, 3, 2)), Y[:2])),
    "tensorsolve of dims": (lambda a, b: sf.linalg.tensorsolve(a, b, (0, 2)),
                            lambda a, b: np.linalg.tensorsolve(a, b, (0, 2)),
                            (RNG.standard_normal((3, 2, 2, 3)), Y[:2])),
    "tensorinv": (sf.linalg.tensorinv, np.linalg.tensorinv, (RNG.standard_normal((2, 3, 6)),)),
    "tensorinv of rows": (lambda x: sf.linalg.tensorinv(x, 1), lambda x: np.linalg.tensorinv(x, 1),
                          (RNG.standard_normal((6, 3, 2)),)),
    "vander": (sf.vander, np.vander, (X[:, 0],)),
    "cartesian_prod": (sf.cartesian_prod, lambda x, y: np.array([*itertools.product(x, y)]),
                       (X[0], Y[0])),
    "combinations": (sf.combinations, lambda x: np.array([*itertools.combinations(x, 2)]), (X[0],)),
    "renorm": (lambda x: sf.renorm(x, 2, 0, 1.0),
               lambda x: x / np.maximum(1, np.linalg.norm(x, axis=1, keepdims=True)), (X,)),
    "ldexp": (sf.ldexp, np.ldexp, (X, RNG.integers(-2, 3, (4, 3)))),
    "sum_to_size": (lambda x: x.sum_to_size(1, 3), lambda x: x.sum(0, keepdims=True), (X,)),
    "unfold": (lambda x: F.unfold(x, (2, 3), stride=2), lambda x: _columns(x, (2, 3), 2), (IMAGE,)),
    "fold": (lambda x: F.fold(F.unfold(x, 2, stride=2), (4, 6), 2, stride=2), lambda x: x,
             (IMAGE[:, :, :4],)),
    "pixel_shuffle": (lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 2), lambda x: x,
                      (IMAGE.reshape(1, 12, 3, 5),)),
    "interpolate": (lambda x: F.interpolate(x, size=(7, 4), mode="bilinear"),
                    lambda x: _bilinear(x, (7, 4)), (IMAGE,)),
    "interpolate to the nearest": (lambda x: F.interpolate(x, scale_factor=2),
                                   lambda x: x.repeat(2, 2).repeat(2, 3), (IMAGE,)),
    "inv": (sf.linalg.inv, np.linalg.inv, (X[:3],)),
    "det": (sf.det, np.linalg.det, (np.stack([X[:3], X[1:]]),)),
    "logdet": (lambda x: sf.logdet(x @ x.mT), lambda x: np.linalg.slogdet(x @ x.T)[1], (X[:3],)),
    "embedding_bag": (lambda w: F.embedding_bag(sf.tensor([0, 2, 2, 3]), w, sf.tensor([0, 3])),
                      lambda w: np.stack([w[[0, 2, 2]].mean(0), w[3]]), (X,)),
    "embedding_bag by max": (lambda w: F.embedding_bag(sf.tensor([[0, 2], [1, 3]]), w, mode="max"),
                             lambda w: np.stack([w[[0, 2]].max(0), w[[1, 3]].max(0)]), (X,)),
}  # fmt: skip
SMOOTH = [name for name, (_, _, arrays) in CASES.items() if arrays[0].dtype.kind == "f"
          and not np.isnan(arrays[0]).any()]  # fmt: skip


def _several(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


WANTS_SIZES = {"pdist", "vander", "combinations", "unique rows", "solve", "solve of vectors"}
"""Of which sizes decide how they are computed."""


def _of_known_sizes(call: Callable[..., Any], arrays: tuple[Any, ...]) -> Callable[..., Any]:
    symbols = [sf.placeholder(a.shape, a.dtype, name=f"x{i}") for i, a in enumerate(arrays)]
    program: Callable[..., Any] = sf.compile(symbols, call(*symbols))
    return program


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_values(name: str, compiled: bool) -> None:
    call, expect, arrays = CASES[name]
    run = call
    if compiled:
        run = _of_known_sizes(call, arrays) if name in WANTS_SIZES else sf.jit(call)
    results, wanted = _several(run(*map(sf.tensor, arrays))), _several(expect(*arrays))
    assert len(results) == len(wanted)
    for result, value in zip(results, wanted, strict=True):
        assert result.shape == np.shape(value)
        np.testing.assert_allclose(result.numpy(), value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    call, _, arrays = CASES[name]
    inputs = [sf.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    assert gradcheck(call, inputs)
    assert gradgradcheck(call, inputs)


def test_what_tensors_and_dtypes_are() -> None:
    x = sf.zeros(2, 3, dtype="float16")
    assert sf.is_tensor(x) and not sf.is_tensor(x.numpy()) and sf.numel(x) == 6
    assert sf.is_nonzero(sf.tensor([0.5])) and not sf.tensor(0).is_nonzero()
    assert sf.result_type(x, 2.5) is sf.float16 is sf.promote_types("int64", "float16")
    assert sf.result_type(sf.ones((), dtype="float64"), x) is sf.float16
    assert sf.can_cast(sf.int64, sf.float16) and not sf.can_cast(from_=sf.float16, to=sf.int64)
    assert sf.broadcast_shapes((2, 1), (3,), 1) == (2, 3)
    assert (sf.finfo(sf.bfloat16).eps, sf.iinfo("uint8").max) == (2**-7, 255)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: sf.is_nonzero(sf.ones(2)), "one element"),
        (lambda: sf.finfo("int8"), "use iinfo"),
        (lambda: sf.quantile(sf.ones(0), 0.5), "number of elements: 0 is too small"),
        (lambda: sf.cdist(sf.ones(2), sf.ones(2)), "takes matrices"),
        (lambda: sf.ones(2, 3).sum_to_size(2), "does not broadcast"),
        (lambda: F.interpolate(sf.ones(1, 1, 2, 2), size=3, mode="linear"), "for 1 dims of space"),
        (lambda: F.fold(sf.ones(1, 5, 4), 3, 2), "do not make up"),
        (lambda: F.embedding_bag(sf.tensor([0]), sf.ones(1, 1)), "offsets stand beside"),
        (lambda: sf.gradient(sf.ones(3, 3), dim=(1, -1)), "names a dim twice"),
        (lambda: sf.isclose(sf.ones(1), sf.ones(1), rtol=-1.0), "rtol is -1.0; it must be at"),
        (lambda: sf.allclose(sf.ones(1), sf.ones(1), atol=float("nan")), "atol is nan"),
        (lambda: F.hardtanh(sf.ones(1), 2, 1), "min_val, 2, is above max_val, 1"),
        (lambda: F.rrelu(sf.ones(1), 0.3, 0.1), "lower, 0.3, is above upper, 0.1"),
        (lambda: F.triplet_margin_loss(*[sf.ones(1, 2)] * 3, margin=0), "margin is 0; it must be"),
        (lambda: sf.cov(sf.ones(2), fweights=sf.tensor([1, -1])), "fweights are negative"),
        (lambda: sf.polygamma(sf.ones(3), 1), "must be an integer"),
        (lambda: sf.normal(sf.zeros(2), 1.0, (5, "a")), "must be an integer, not 'a'"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_refusals(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(sf.StaticflowError, match=says):
        call()


@pytest.mark.parametrize("name", ["relu", "relu6", "elu", "celu", "selu", "silu", "mish",
                                  "leaky_relu", "hardtanh", "hardswish", "hardsigmoid"])  # fmt: skip
def test_activations_in_place(name: str) -> None:
    x = sf.tensor([-2.0, -0.5, 0.25, 3.0])
    wanted = getattr(F, name)(x)
    assert getattr(F, name)(x, inplace=True) is x
    assert x.tolist() == wanted.tolist()


@pytest.mark.parametrize("batch", [(), (2,), (0,)])
def test_no_factor_of_a_matrix_is_the_one_that_changes_nothing(batch: tuple[int, ...]) -> None:
    for dtype in ("float32", "int64"):
        power = sf.matrix_power(sf.ones(*batch, 3, 3, dtype=dtype), 0)
        assert power.dtype is getattr(sf, dtype)
        assert np.array_equal(power.numpy(), np.broadcast_to(np.eye(3), (*batch, 3, 3)))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_places_of_quantiles_are_no_16_bit_floats(dtype: str) -> None:
    """The place among 70,000 elements is beyond float16, and beyond the digits of bfloat16."""
    x = sf.arange(70_000).remainder(2000).div(8).to(getattr(sf, dtype))
    for q in (0.3, 0.5):
        for fn in (sf.quantile, sf.nanquantile):
            assert fn(x, q).item() == fn(x.double(), q).to(x.dtype).item()


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 500])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_distinct_elements_of_vectors_of_all_lengths(dtype: type, rows: int) -> None:
    array = np.random.default_rng(rows).integers(0, 5, rows).astype(dtype)
    x = sf.from_numpy(array)
    begins = np.concatenate([[True], array[1:] != array[:-1]])[:rows]
    for _ in range(3):
        np.testing.assert_array_equal(sf.unique(x).numpy(), np.unique(array))
        np.testing.assert_array_equal(sf.unique_consecutive(x).numpy(), array[begins])
    values, counts = sf.unique(x, return_counts=True)
    np.testing.assert_array_equal(values.numpy(), np.unique(array))
    np.testing.assert_array_equal(counts.numpy(), np.unique(array, return_counts=True)[1])


@pytest.mark.parametrize("shape", [(5, 0, 5), (0, 3), (3, 0), (0,), (4, 2, 3)])
def test_distinct_slices_of_any_sizes(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 2, shape)
    x = sf.from_numpy(array)
    for dim in range(len(shape)):
        values, counts = np.unique(array, axis=dim, return_counts=True)
        found = sf.unique(x, dim=dim, return_counts=True)
        np.testing.assert_array_equal(found[0].numpy(), values)
        np.testing.assert_array_equal(found[1].numpy(), counts)
        runs = sf.unique_consecutive(found[0], dim=dim)
        np.testing.assert_array_equal(runs.numpy(), values)
        compiled = sf.jit(lambda x, dim=dim: sf.unique_consecutive(x, dim=dim))(found[0])
        np.testing.assert_array_equal(compiled.numpy(), values)


@pytest.mark.parametrize("factor", [0.5, 0.6, 1.7, 2.0, 1 / 3, (0.25, 1.1)])
def test_images_of_unknown_sizes_resized_by_any_factor(factor: Any) -> None:
    def resized(x: Any) -> Any:
        return F.interpolate(x, scale_factor=factor, mode="bilinear")

    compiled = sf.jit(resized)
    for sizes in ((4, 5), (10, 20), (33, 35)):
        x = sf.randn(1, 2, *sizes, dtype=sf.float64, requires_grad=True)
        y = compiled(x)
        assert y.shape == resized(x).shape
        sf.testing.assert_close(y, resized(x))
        (found,), (wanted,) = (
            sf.autograd.grad((f(x) ** 2).sum(), [x]) for f in (compiled, resized)
        )
        sf.testing.assert_close(found, wanted)


def test_linear_copies_along_a_dim_whose_size_stays() -> None:
    x = sf.randn(1, 2, 5, 12, dtype=sf.float64)  # 1.1 times 5 is 5, and 1.1 times 12 is 13
    p = sf.placeholder((1, 2, None, None), "float64", name="x")

    def resized(x: Any) -> Any:
        return F.interpolate(x, scale_factor=1.1, mode="bilinear")

    wanted = F.interpolate(x, scale_factor=(1.0, 1.1), mode="bilinear")
    for found in (resized(x), sf.compile([p], resized(p))(x)):
        sf.testing.assert_close(found, wanted)


def test_distinct_elements_have_a_gradient() -> None:
    x = sf.tensor([3.0, 1.0, 3.0, 2.0], requires_grad=True)
    (sf.unique_consecutive(x.sort().values) * sf.tensor([1.0, 2.0, 4.0])).sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), [4, 1, 0, 2])
