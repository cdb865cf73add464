"""Kernels that reduce rows and add up over all of them: values, layouts, threads, how many there
are, and how near the totals come."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import staticflow as sf
import staticflow.nn.functional as F
from staticflow.codegen.lower.rows import _BLOCK, _LEAST_ROWS, _MOST_ROWS, _ROWS
from staticflow.passes.row_totals import _SHORT

Array = np.ndarray[Any, Any]

TWICE = 2 * _MOST_ROWS + 3
SHAPES = [
    (0, 20), (1, 20), (3, 0), (_LEAST_ROWS, _BLOCK // 2), (_LEAST_ROWS + 1, _BLOCK // 2),
    (_ROWS, 1000), (_ROWS + 1, 1000), (_MOST_ROWS, _SHORT), (_MOST_ROWS + 1, _SHORT),
    (TWICE, _SHORT - 1), (TWICE, 33), (5, 7, 33), (3, 1, 40),
]  # fmt: skip
every_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
either_size = pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = sf.get_num_threads()
    yield
    sf.set_num_threads(before)


def compiled(
    fn: Callable[..., Any], arrays: Sequence[Array], known: bool = True, **options: Any
) -> Any:
    """The program of a function of tensors of these dtypes, with as many dims of these or unknown
    sizes."""
    xs = [
        sf.placeholder(a.shape if known else (None,) * a.ndim, str(a.dtype), name=f"x{i}")
        for i, a in enumerate(arrays)
    ]
    return sf.compile(xs, fn(*xs), **options)


def kinds(program: Any) -> list[str]:
    return [n.attrs["kind"] for n in program.optimized.nodes if n.op.name == "cluster"]


def numbers(*shape: int, dtype: str = "float64") -> Array:
    rng = np.random.default_rng(sum(shape))
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def layer_norm(x: Any, w: Any, b: Any, ct: Any) -> Any:
    y = F.layer_norm(x, w.shape, w, b, 1e-5)
    return [y, *sf.grad(y, [x, w, b], cotangents=ct)]


def layer_norm_reference(x: Array, w: Array, b: Array, ct: Array) -> list[Array]:
    rows = tuple(range(x.ndim - 1))
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    normal, g = centred * scale, ct * w
    inner = (g * normal).mean(-1, keepdims=True)
    to_x = (g - g.mean(-1, keepdims=True) - normal * inner) * scale
    return [normal * w + b, to_x, (ct * normal).sum(rows), ct.sum(rows)]


def operands(shape: tuple[int, ...], dtype: str = "float64") -> list[Array]:
    sizes = (shape, shape[-1:], shape[-1:], shape)
    return [numbers(*s, dtype=dtype) + (i == 1) for i, s in enumerate(sizes)]


@every_shape
@either_size
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:Mean of empty")
def test_layer_norm_with_gradient(shape: tuple[int, ...], known: bool) -> None:
    arrays = operands(shape)
    program = compiled(layer_norm, arrays, known)
    short = known and shape[-1] < _SHORT
    if 0 not in shape and not (known and shape[0] == 1):
        assert kinds(program) == (["reduce"] * 2 if short else ["rows"])
    for found, wanted in zip(program(*arrays), layer_norm_reference(*arrays), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted, 1e-9, 1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_layer_norm_of_fewer_bits(dtype: str) -> None:
    arrays = operands((TWICE, 33))
    xs = [sf.tensor(a, dtype=getattr(sf, dtype)) for a in arrays]
    near = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    found = sf.jit(layer_norm)(*xs)
    wanted = layer_norm_reference(*(x.to(sf.float64).numpy() for x in xs))
    for f, w in zip(found, wanted, strict=True):
        assert f.dtype is getattr(sf, dtype)
        np.testing.assert_allclose(f.to(sf.float64).numpy(), w, near, near * 20)


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "flipped": lambda a: a[::-1, ::-1],
    "stepped": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "columns": np.asfortranarray,
    "stretched": lambda a: np.broadcast_to(a[:1], a.shape),
    "cropped": lambda a: np.pad(a, 3)[3:-3, 3:-3],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    x, w, b, ct = operands((70, 33))
    arrays = [LAYOUTS[layout](x), w, b, LAYOUTS[layout](ct)]
    found = sf.jit(layer_norm)(*map(sf.from_numpy, arrays))
    for f, wanted in zip(found, layer_norm_reference(*arrays), strict=True):
        np.testing.assert_allclose(f.numpy(), wanted, 1e-9, 1e-10)


def transposed(x: Any) -> Any:
    """Rows of a transposed tensor, whose elements lie apart."""
    t = x.t().exp()
    return [t.sum(1), t.sum(0), (t / t.sum(1, keepdim=True)).amax(0)]


def test_rows_that_lie_across() -> None:
    x = numbers(40, 70)
    t = np.exp(x.T)
    wanted = [t.sum(1), t.sum(0), (t / t.sum(1, keepdims=True)).max(0)]
    for found, w in zip(compiled(transposed, [x])(x), wanted, strict=True):
        np.testing.assert_allclose(found.numpy(), w, 1e-12)


def both_ways(x: Any) -> Any:
    """All kinds of totals: of elements and rows, largest and sums, and what follows from them."""
    rows = x.sum(-1, keepdim=True)
    most = (x - rows).amax(tuple(range(x.ndim - 1)))
    all_rows = rows.sum()
    return [rows, most, most * 2 - all_rows, all_rows + 1, rows.amax()]


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "float32", "float64"])
@pytest.mark.parametrize("shape", [(TWICE, 33), (1, 16), (6, 5, 70)], ids=str)
@either_size
def test_totals_of_elements_and_of_rows(dtype: str, shape: tuple[int, ...], known: bool) -> None:
    x = numbers(*shape, dtype=dtype)
    program = compiled(both_ways, [x], known)
    apart = compiled(both_ways, [x], known, passes=["-fuse"])
    for found, wanted in zip(program(x), apart(x), strict=True):
        assert found.dtype is wanted.dtype
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), 1e-5, 1e-5)


def test_both_ways_is_one_kernel() -> None:
    assert kinds(compiled(both_ways, [numbers(TWICE, 33)])) == ["rows"]


@pytest.mark.parametrize("shape", [(1000, 300), (9, 20_000)], ids=str)
def test_threads_change_no_bit(shape: tuple[int, int]) -> None:
    arrays = operands(shape, "float32")
    program = compiled(layer_norm, arrays)
    results = []
    for count in (1, 2, 3):
        sf.set_num_threads(count)
        results.append([r.numpy().copy() for r in program(*arrays)])
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_totals_of_many_rows_are_near() -> None:
    """Many equal floats, which a naive sum rounds the same way each time."""
    x = np.full((200_000, 16), 1.1, np.float32)
    rows, columns, whole = compiled(
        lambda x: [x.sum(1), (x * x.sum(1, keepdim=True)).sum(0), x.sum(1).sum()], [x]
    )(x)
    row = 16 * float(np.float32(1.1))
    np.testing.assert_allclose(rows.numpy(), row, 1e-6)
    np.testing.assert_allclose(columns.numpy(), 200_000 * row * float(np.float32(1.1)), 3e-6)
    np.testing.assert_allclose(whole.numpy(), 200_000 * row, 3e-6)


def test_a_weight_that_is_updated_behind_its_gradient() -> None:
    """The new weight is written behind the last row, which reads the old one."""
    x, w, b, ct = operands((TWICE, 33), "float32")
    weight = sf.tensor(w)
    given = [sf.placeholder(a.shape, name=n) for a, n in ((x, "x"), (b, "b"), (ct, "ct"))]
    y = F.layer_norm(given[0], (33,), weight, given[1], 1e-5)
    new = weight - 0.1 * sf.grad(y, [weight], cotangents=given[2])[0]
    step = sf.compile(given, y, updates={weight: new})
    for _ in range(2):
        wanted = layer_norm_reference(x, w, b, ct)
        np.testing.assert_allclose(step(x, b, ct).numpy(), wanted[0], 1e-4, 1e-5)
        w = w - np.float32(0.1) * wanted[2]
        np.testing.assert_allclose(weight.numpy(), w, 1e-4, 1e-4)


def test_in_a_loop_and_in_a_branch() -> None:
    x = numbers(3, 40, 33)

    def of_rows(a: Any) -> Any:
        rows = a.exp().sum(1, keepdim=True)
        return (a.exp() / rows).sum(0), rows.log().sum()

    def scanned(x: Any) -> Any:
        return sf.scan(lambda c, a: (c + of_rows(a)[1], of_rows(a)[0]), x.sum() * 0, x)

    last, stacked = compiled(scanned, [x])(x)
    e = np.exp(x)
    rows = e.sum(2, keepdims=True)
    np.testing.assert_allclose(stacked.numpy(), (e / rows).sum(1), 1e-12)
    np.testing.assert_allclose(last.numpy(), np.log(rows).sum(), 1e-12)
    chosen = compiled(lambda a: sf.cond(a.sum() > 0, of_rows, of_rows, a), [x[0]])(x[0])
    np.testing.assert_allclose(chosen[0].numpy(), (e / rows).sum(1)[0], 1e-12)


def test_second_order() -> None:
    x = numbers(20, 17)

    def penalty(x: Any) -> Any:
        loss = (F.log_softmax(x, 1) * x).sum()
        (g,) = sf.grad(loss, [x])
        return sf.grad((g * g).sum() + (g.sum(0) ** 2).sum(), [x])

    apart = compiled(penalty, [x], passes=["-fuse"])(x)
    np.testing.assert_allclose(compiled(penalty, [x])(x)[0].numpy(), apart[0].numpy(), 1e-9, 1e-9)


# -- how many kernels -----------------------------------------------------------------------------


def cross_entropy(x: Any, t: Any) -> Any:
    return F.cross_entropy(x, t)


def with_gradient(fn: Callable[..., Any], wanted: Sequence[int]) -> Callable[..., Any]:
    """A function and its gradient by some of its arguments, the last of which is the cotangent."""

    def both(*xs: Any) -> Any:
        y = fn(*xs[:-1])
        return [y, *sf.grad(y, [xs[i] for i in wanted], cotangents=xs[-1])]

    return both


def batch_norm(x: Any, w: Any, b: Any) -> Any:
    return F.batch_norm(x, None, None, w, b, training=True)


def rms_norm(x: Any, w: Any) -> Any:
    return F.rms_norm(x, w.shape, w)


X, W, IMAGES = numbers(64, 100), numbers(100), numbers(8, 6, 5, 4)
MIDDLE = numbers(3, 40, 75)
COUNTS: dict[str, tuple[Callable[..., Any], list[Array], int]] = {
    "cross entropy": (cross_entropy, [X, np.arange(64)], 1),
    "cross entropy, gradient": (
        lambda x, t: [y := cross_entropy(x, t), *sf.grad(y, [x])], [X, np.arange(64)], 2,
    ),
    "sum of cross entropies, gradient": (
        lambda x, t: [y := F.cross_entropy(x, t, reduction="sum"), *sf.grad(y, [x])],
        [X, np.arange(64)], 1,
    ),
    "cross entropy of few classes": (cross_entropy, [X[:, :10], np.arange(64) % 10], 1),
    "cross entropy of images": (cross_entropy, [IMAGES, np.arange(160).reshape(8, 5, 4) % 6], 1),
    "softmax, mean square, gradient": (
        lambda x, y: [z := F.mse_loss(F.softmax(x, 1), y), *sf.grad(z, [x])], [X, X], 1,
    ),
    "layer norm, sum, gradient": (
        lambda x, w, b, y: [
            z := (F.layer_norm(x, (100,), w, b) * y).sum(), *sf.grad(z, [x, w, b])
        ], [X, W, W, X], 1,
    ),
    "RMS norm, sum, gradient": (
        lambda x, w, y: [z := (rms_norm(x, w) * y).sum(), *sf.grad(z, [x, w])], [X, W, X], 1,
    ),
    "softmax, gradient": (with_gradient(lambda x: F.softmax(x, 1), [0]), [X, X], 1),
    "softmax of a middle dim": (lambda x: F.softmax(x, 1), [MIDDLE], 1),
    "softmax of a middle dim, gradient": (
        with_gradient(lambda x: F.softmax(x, 1), [0]), [MIDDLE, MIDDLE], 1,
    ),
    "log softmax of a middle dim, gradient": (
        with_gradient(lambda x: F.log_softmax(x, 1), [0]), [MIDDLE, MIDDLE], 1,
    ),
    "softmax of a middle dim whose rows share places of a cache": (
        lambda x: F.softmax(x, 1), [numbers(1, 64, 512)], 4,
    ),
    "RMS norm": (rms_norm, [X, W], 1),
    "RMS norm, gradient": (with_gradient(rms_norm, [0, 1]), [X, W, X], 1),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (100,), w, b), [X, W, W], 1),
    "layer norm, gradient": (layer_norm, [X, W, W, X], 1),
    "batch norm": (batch_norm, [X, W, W], 1),
    "batch norm, gradient": (with_gradient(batch_norm, [0, 1, 2]), [X, W, W, X], 1),
    "batch norm of images": (batch_norm, [IMAGES, W[:6], W[:6]], 1),
    "batch norm of images, gradient": (
        with_gradient(batch_norm, [0, 1, 2]), [IMAGES, W[:6], W[:6], IMAGES], 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_kernels_of_norms_and_losses(name: str) -> None:
    fn, arrays, count = COUNTS[name]
    program = compiled(fn, arrays)
    assert program.kernel_count == count
    results, wanted = (p(*arrays) for p in (program, compiled(fn, arrays, passes=["-fuse"])))
    for r, w in zip(*(x if isinstance(x, list) else [x] for x in (results, wanted)), strict=True):
        np.testing.assert_allclose(r.numpy(), w.numpy(), 1e-9, 1e-10)
