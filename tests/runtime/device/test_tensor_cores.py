"""Products by tensor cores on an emulated GPU: of 16 bits as they are, with sums in 32; of float32
only where that is asked for, and what a call to cuBLAS says then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from device_programs import compiled, normal
from emulated_device import EmulatedDevice, as_tf32, emulated_gpus
from fake_cublas import FakeCublas

import staticflow as sf
from staticflow.config import config
from staticflow.nn import functional as F
from staticflow.runtime.device.cublas import Cublas
from staticflow.runtime.device.interface import MatricesAt

Array = np.ndarray[Any, Any]

x, w = normal(6, 40), normal(40, 5, seed=1)


@pytest.fixture
def gpu() -> Iterator[EmulatedDevice]:
    with emulated_gpus() as devices, config.change(tf32=False):
        yield devices[0]


def product(x: Any, w: Any) -> Any:
    return x @ w


def test_it_is_off_until_it_is_asked_for(gpu: EmulatedDevice) -> None:
    exact = compiled(product, [x, w], "cuda")
    assert "in tf32" not in exact.explain("routine")
    with config.change(tf32=True):
        rounded = compiled(product, [x, w], "cuda")
        assert "in tf32" in rounded.explain("routine")
        np.testing.assert_allclose(exact(x, w).cpu().numpy(), x @ w, 1e-5, 1e-5)
    found = rounded(x, w).cpu().numpy()
    assert (found == as_tf32(x) @ as_tf32(w)).all() and (found != x @ w).any()
    assert (rounded(x, w).cpu().numpy() == found).all()  # by a captured graph


@pytest.fixture
def asked(gpu: EmulatedDevice, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The dtypes of each product that the library is asked for, and whether by TF32."""
    found: list[tuple[Any, ...]] = []
    multiply = gpu.multiply

    def note(
        target: MatricesAt,
        left: MatricesAt,
        right: MatricesAt,
        *place: Any,
        tf32: bool,
        **more: Any,
    ) -> bool:
        found.append((*(m.dtype.name for m in (target, left, right)), tf32))
        return multiply(target, left, right, *place, tf32=tf32, **more)

    monkeypatch.setattr(gpu, "multiply", note)
    return found


PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "rows": lambda x, w: x @ w,
    "by itself": lambda x, w: x @ x.T,
    "a layer": lambda x, w: F.gelu(F.linear(x, w.T, w[0])),
    "a batch": lambda x, w: x[None] @ w[None],
    "what is worked out before": lambda x, w: (x * 2) @ (w + 1),
    "gradients": lambda x, w: sf.grad((x @ w).tanh().sum(), [x, w]),
}


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("dtype", [sf.float16, sf.bfloat16, sf.float64])
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_asked_for_in_their_dtype(
    asked: list[tuple[Any, ...]], name: str, dtype: Any, unknown: bool
) -> None:
    def fn(x: Any, w: Any) -> Any:
        found = PRODUCTS[name](x.to(dtype), w.to(dtype))
        return [y.float() for y in (found if isinstance(found, list) else [found])]

    with config.change(tf32=True):  # which is for float32 alone
        on_cpu, on_gpu = (compiled(fn, [x, w], d, unknown) for d in ("cpu", "cuda"))
    rtol = {sf.float16: 4e-3, sf.bfloat16: 3e-2}.get(dtype, 1e-5)
    for found, wanted in zip(on_gpu(x, w), on_cpu(x, w), strict=True):
        np.testing.assert_allclose(found.cpu().numpy(), wanted.numpy(), rtol, rtol)
    assert set(asked) == {(dtype.name,) * 3 + (False,)}


def test_autocast_asks_for_16_bits(asked: list[tuple[Any, ...]]) -> None:
    def fn(x: Any, w: Any) -> Any:
        with sf.autocast("cuda"):
            return F.linear(x, w.T).float()

    program = compiled(fn, [x, w], "cuda")
    np.testing.assert_allclose(program(x, w).cpu().numpy(), x @ w, 1e-2, 5e-2)
    assert asked == [("float16",) * 3 + (False,)]


def test_what_cublas_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def at(a: Array) -> MatricesAt:
        return MatricesAt(a.ctypes.data, a.dtype, a.shape, a.strides)

    with FakeCublas.put_in(monkeypatch, computes=True):
        library = Cublas(13)
        out, wide = np.empty((6, 5), np.float32), np.empty((6, 5))
        library.multiply(at(out), at(x), at(w), tf32=True)
        wide_x, wide_w = x.astype("f8"), w.astype("f8")
        library.multiply(at(wide), at(wide_x), at(wide_w), tf32=True)
    np.testing.assert_allclose(out, as_tf32(x) @ as_tf32(w), 1e-6, 1e-6)
    np.testing.assert_allclose(wide, wide_x @ wide_w, 1e-12, 1e-12)
