"""Operations on arrays that are not in row-major order, at sizes at which kernels run."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import staticflow as sf
from staticflow.eager import kernels
from staticflow.eager.costs import LARGE, SHORT

INPUTS: dict[str, Callable[[], Any]] = {
    "channels": lambda: sf.rand(8, 5, 34, 34)[:, :3],
    "crop": lambda: sf.rand(8, 3, 40, 40)[:, :, 2:36, 3:37],
    "one image": lambda: sf.rand(1, 3, 34, 34).expand(8, 3, 34, 34),
    "one column": lambda: sf.rand(8, 3, 34, 1).expand(8, 3, 34, 34),
    "every other": lambda: sf.rand(8, 3, 34, 68)[..., ::2],
    "channels last": lambda: sf.rand(8, 34, 34, 3).permute(0, 3, 1, 2),
}


def conv(x: Any, w: Any, stride: int) -> Any:
    """In float64, by NumPy."""
    windows = sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwij,ocij->nohw", windows, w)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("name", INPUTS)
def test_convolution_of(name: str, stride: int) -> None:
    x, w = INPUTS[name](), sf.rand(4, 3, 3, 3)
    wanted = conv(x.double().numpy(), w.double().numpy(), stride)
    got = sf.nn.functional.conv2d(x, w, stride=stride)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5)


def test_gradient_of_the_mean_of_a_convolution() -> None:
    """The cotangent of a mean is one element, expanded."""
    x, layer = sf.rand(8, 3, 34, 34), sf.nn.Conv2d(3, 4, 3)
    layer(x).mean().backward()
    windows = sliding_window_view(x.double().numpy(), (3, 3), axis=(2, 3))
    wanted = windows.mean((0, 2, 3)) / 4
    for gradient in layer.weight.grad.numpy():
        np.testing.assert_allclose(gradient, wanted, rtol=1e-5)


def test_a_far_stride_is_a_stride_like_any_other() -> None:
    """Strides are larger than sizes: here 65,536, beside sizes that are at most 64."""
    x = sf.rand(4, 16, 64, 64)[..., ::2]
    dense = x.contiguous()
    for fn in (sf.relu, sf.exp, sf.sum, lambda x: x.softmax(-1), lambda x: x.amax(2)):
        np.testing.assert_allclose(fn(x).numpy(), fn(dense).numpy(), rtol=1e-5)
    pool = sf.nn.functional.max_pool2d
    np.testing.assert_array_equal(pool(x, 2).numpy(), pool(dense, 2).numpy())


def test_a_loop_within_an_operation_is_no_strip() -> None:
    """That of the remainder has as many iterations at most as a strip has elements."""
    x, y = (sf.rand(22_000, 1) * 9).expand(-1, 3), sf.rand(22_000, 1) + 0.5
    np.testing.assert_array_equal((x // y).numpy(), np.floor_divide(x.numpy(), y.numpy()))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [8, 31, 32, 40, 300])
def test_a_transposed_triangular_matrix_is_read_as_it_lies(
    n: int, upper: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one right side, where it has a row of `SHORT` at least: a copy of 512 x 512 took forty
    times as long as what it was made for."""
    copied: list[tuple[int, ...]] = []
    monkeypatch.setattr(kernels, "make_copy", lambda a: copied.append(a.shape) or a.copy())
    rng = np.random.default_rng(n)
    a = rng.standard_normal((3, n, n)) / n + 2 * np.eye(n)
    b = rng.standard_normal((3, n, 1))
    for _ in range(4):
        turned = sf.from_numpy(a.swapaxes(1, 2).copy()).mT
        x = sf.linalg.solve_triangular(turned, sf.from_numpy(b), upper=upper)
        expected = np.linalg.solve(np.triu(a) if upper else np.tril(a), b)
        np.testing.assert_allclose(x.numpy(), expected, 1e-9, 1e-12)
    assert bool(copied) == (n < SHORT)
    two = sf.linalg.solve_triangular(turned, sf.from_numpy(np.repeat(b, 2, 2)), upper=upper)
    np.testing.assert_allclose(two.numpy(), np.repeat(expected, 2, 2), 1e-9, 1e-12)


def test_large_transposed_matrices_are_copied_by_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a plan calls a kernel: NumPy copies 512 x 512 in six times the time."""
    copied: list[tuple[int, ...]] = []
    make_copy = kernels.make_copy
    monkeypatch.setattr(kernels, "make_copy", lambda a: copied.append(a.shape) or make_copy(a))
    for n, many in ((255, False), (256, True)):
        assert (n * n >= LARGE) == many
        a = np.random.default_rng(n).standard_normal((n, n)) + n * np.eye(n)
        turned = sf.from_numpy(a).t()
        copied.clear()
        for _ in range(5):
            found = sf.linalg.slogdet(turned).logabsdet
            np.testing.assert_allclose(found.numpy(), np.linalg.slogdet(a)[1], 1e-12)
        assert (len(copied) == 5) == many


LOSSES = (
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss", "kl_div", "l1_loss",
    "mse_loss", "smooth_l1_loss", "poisson_nll_loss", "hinge_embedding_loss", "soft_margin_loss",
)  # fmt: skip

MORE_KEPT = ("binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
"""Losses that keep for the way back what is as large as their operands."""

COPIED = ("binary_cross_entropy",)
"""Losses that are, as they are traced, no operations by element."""


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_columns_copy_none(name: str) -> None:
    fn = getattr(sf.nn.functional, name)
    a, b = (sf.rand(300, 250) * 0.8 + 0.1 for _ in range(2))

    def run(turned: bool, reduction: str) -> tuple[Any, Any, int]:
        x, y = a.clone().requires_grad_(), b.clone()
        given = (x.t(), y.t()) if turned else (x, y)
        fn(*given, reduction=reduction).sum()  # by which programs are compiled
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            out = fn(*given, reduction=reduction)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        out.sum().backward()
        return out.detach().numpy(), x.grad.numpy(), peak - before

    for reduction in ("mean", "sum", "none"):
        (wanted, of_wanted, _), (found, of_found, peak) = (
            run(False, reduction),
            run(True, reduction),
        )
        np.testing.assert_allclose(found.T, wanted, 1e-4)
        np.testing.assert_allclose(of_found, of_wanted, 1e-4, 1e-9)
        if reduction != "none" and name not in MORE_KEPT:
            assert peak < a.numel()  # bytes: a fourth of an array


@pytest.mark.parametrize("rows", [299, 300])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_each_of_many_columns_copy_none(name: str, rows: int) -> None:
    """Nor what they give, which lies as the columns do: of 300 rows, above `LARGE`, in the call
    that native code makes, too."""
    fn = getattr(sf.nn.functional, name)
    a, b = (sf.rand(rows, LARGE // 299) * 0.8 + 0.1 for _ in range(2))
    wanted = fn(a, b, reduction="none").numpy()
    x, y = a.t().contiguous().t(), b.t().contiguous().t()
    for threads in (1, 2):
        sf.set_num_threads(threads)
        for _ in range(4):
            tracemalloc.start()
            try:
                before, _ = tracemalloc.get_traced_memory()
                found = fn(x, y, reduction="none")
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            np.testing.assert_allclose(found.numpy(), wanted, 1e-6, 1e-7)
    if rows == 300 and name not in COPIED:
        assert found.stride() == x.stride()
        assert peak - before < 4.5 * a.numel()
