"""Sums of very many floats are as near as a few roundings, whichever way they run: along rows or
columns, whole or running, in a kernel of one op or of several."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import staticflow as sf
import staticflow.nn.functional as F
from staticflow.ops import OPS

MANY = 1 << 17
FORMS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(1),
    "mean of two": lambda x: (x + x).mean(1),
    "norm": lambda x: x.square().sum(1).sqrt(),
    "cumsum": lambda x: x.cumsum(1)[:, -1],
    "logcumsumexp": lambda x: x.logcumsumexp(1)[:, -1],
}
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": np.ascontiguousarray, "columns": np.asfortranarray,
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [1, 3])
def test_many_equal_numbers(form: str, layout: str, rows: int) -> None:
    """What rounds each addend the same way is lost as often as there are addends."""
    x = LAYOUTS[layout](np.full((rows, MANY), 1.1, np.float32))
    wanted = FORMS[form](sf.from_numpy(x.astype(np.float64))).numpy()
    for run in (FORMS[form], sf.jit(FORMS[form])):
        np.testing.assert_allclose(run(sf.from_numpy(x)).numpy(), wanted, 3e-6)


@pytest.mark.parametrize("shape", [(64, 3, 112, 112), (4096, 3, 8, 8), (100_000, 3, 2, 1)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_over_several_dims(shape: tuple[int, ...], layout: str) -> None:
    """As the statistics of a batch are."""
    x = sf.from_numpy(LAYOUTS[layout](np.full(shape, 1.1, np.float32)))
    for run in (lambda x: x.mean((0, 2, 3)), sf.jit(lambda x: x.mean((0, 2, 3)))):
        np.testing.assert_allclose(run(x).numpy(), np.float32(1.1), 2e-5)


WHOLE: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(),
    "squares": lambda x: (x * x).mean(),
    "rows": lambda x: x.reshape(-1, 3).sum(),
    "pairs": lambda x: (x[:, None] * x[:2]).sum(),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", WHOLE)
def test_sums_of_unknown_length_are_those_of_known(form: str, dtype: str) -> None:
    """What is left of the last part is one of the parts there: the bits are the same."""
    draw = np.random.default_rng(0)
    x = sf.placeholder((None,), dtype, name="x")
    opened = sf.compile([x], WHOLE[form](x))
    for n in (3, 9, 24, 27, 4095, 4098, 12_288, 16_386, 70_002):
        a = draw.standard_normal(n).astype(dtype)
        known = sf.placeholder((n,), dtype, name="x")
        step = sf.compile([known], WHOLE[form](known))
        np.testing.assert_array_equal(opened(a).numpy(), step(a).numpy())


def test_a_part_of_a_sum_of_unknown_length_is_there_once() -> None:
    """In whole vectors, and in one with lanes off."""
    x = sf.placeholder((None,), name="x")
    text = sf.compile([x], x.sum()).source("kernels")
    assert text.count("load p0[") == 2


PRODUCTS: dict[str, Callable[[Any], Any]] = {
    "dot": lambda x: x[0] @ x[0],
    "matmul": lambda x: x @ x.T,
    "conv1d, long": lambda x: F.conv1d(x[None], x[None]),
    "conv1d, deep": lambda x: F.conv1d(x.T[None], x.T[None]),
    "kernel, long": lambda x: kernel_gradient(F.conv1d, x[:, None], (2, 1, 3)),
    "kernel, of many": lambda x: kernel_gradient(F.conv1d, x.T[:, None], (2, 1, 2)),
    "kernel, of groups": lambda x: kernel_gradient(
        partial(F.conv1d, groups=3), x.reshape(-1, 3, 1), (3, 1, 1)
    ),
    "kernel, transposed": lambda x: kernel_gradient(F.conv_transpose1d, x[:, None], (1, 2, 3)),
}


def kernel_gradient(conv: Callable[..., Any], x: Any, shape: tuple[int, ...]) -> Any:
    return sf.func.grad(lambda w: conv(x, w).sum())(sf.ones(*shape, dtype=x.dtype))


@pytest.mark.parametrize("form", PRODUCTS)
def test_products(form: str) -> None:
    """As many of them as there are windows, images or channels."""
    x = np.full((3, MANY), 1.1, np.float32)
    run = PRODUCTS[form]
    wanted = run(sf.from_numpy(x.astype(np.float64))).numpy()
    for f in (run, sf.jit(run)):
        np.testing.assert_allclose(f(sf.from_numpy(x)).numpy(), wanted, 1e-4)


def test_a_kernel_of_many_small_images() -> None:
    """Which are so few elements that NumPy computes it."""
    draw = np.random.default_rng(0)
    x, y = (draw.uniform(0.5, 3, s).astype(np.float32) for s in ((1638, 2, 4, 5), (1638, 3, 3, 3)))

    run = partial(OPS["correlate_kernel"], kernel=(2, 3), stride=(1, 1), dilation=(1, 1), groups=1)
    wanted = run(*(sf.from_numpy(a.astype(np.float64)) for a in (x, y))).numpy()
    np.testing.assert_allclose(run(sf.from_numpy(x), sf.from_numpy(y)).numpy(), wanted, 1.5e-6)


def test_all_of_them() -> None:
    for n in (MANY, 1_000_003):
        np.testing.assert_allclose(
            sf.full((n,), 1.1).sum().item(), n * float(np.float32(1.1)), 3e-6
        )


def test_a_running_product_may_leave_the_range_of_its_dtype() -> None:
    x = sf.tensor([1e30, 1e30, 1e-30, 1e-30])
    for run in (lambda x: x.cumprod(0), sf.jit(lambda x: x.cumprod(0))):
        np.testing.assert_allclose(run(x).numpy(), [1e30, np.inf, 1e30, 1], 1e-6)


def test_gradients_of_running_sums_in_16_bits() -> None:
    x = sf.ones(100_000, dtype=sf.float16, requires_grad=True)
    x.logcumsumexp(0).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad[0].item(), np.sum(1 / np.arange(1, 100_001)), 2e-3)


@pytest.mark.parametrize("run", [sf.softmax, sf.log_softmax], ids=["softmax", "log_softmax"])
def test_gradients_of_long_rows_in_16_bits(run: Callable[..., sf.Tensor]) -> None:
    """The sum of their cotangents lies outside of what 16 bits hold."""
    x = sf.ones(100_000, dtype=sf.float16, requires_grad=True)
    for f in (run, sf.jit(lambda x: run(x, 0))):
        (grad,) = sf.autograd.grad(f(x, 0) if f is run else f(x), x, sf.ones_like(x))
        np.testing.assert_allclose(grad.float().numpy(), 0, atol=1e-2)
