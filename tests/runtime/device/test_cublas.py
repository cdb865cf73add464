"""Products by cuBLAS, against NumPy: what the library is asked for is checked by a stand-in that
does as its documentation says."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulated_device import ACTIVATIONS
from fake_cublas import FakeCublas
from fake_cublaslt import FakeCublasLt

from staticflow.errors import DeviceError
from staticflow.runtime.device.cublas import Cublas
from staticflow.runtime.device.cublaslt import CublasLt
from staticflow.runtime.device.interface import EpilogueAt, MatricesAt

Array = np.ndarray[Any, Any]


def at(a: Array) -> MatricesAt:
    return MatricesAt(a.ctypes.data, a.dtype, a.shape, a.strides)


def values(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


def broadcast(a: Array, *batch: int) -> Array:
    return np.broadcast_to(a, (*batch, *a.shape[-2:]))


x, w, many = values(5, 3), values(3, 4), values(2, 5, 3)
PAIRS = {
    "rows": (x, w),
    "transposed": (w.T, x.T),
    "float64": (values(5, 3, dtype=np.float64), values(3, 4, dtype=np.float64)),
    "float16": (values(5, 3, dtype=np.float16), values(3, 4, dtype=np.float16)),
    "bfloat16": (values(5, 3, dtype=ml_dtypes.bfloat16), values(3, 4, dtype=ml_dtypes.bfloat16)),
    "float16, transposed": (values(3, 5, dtype=np.float16).T, values(4, 3, dtype=np.float16).T),
    "slices": (x[::2], w[:, 1:3]),
    "slices, transposed": (w[:, 1:3].T, x[1::2].T),
    "one row": (x[:1], w),
    "one column": (x, w[:, 2:3]),
    "one of the inner": (x[:, 1:2], w[:1]),
    "none of the inner": (x[:, :0], w[:0]),
    "no rows": (x[:0], w),
    "a batch": (many, values(2, 3, 4)),
    "one matrix by many": (many, broadcast(w, 2)),
    "two dims of a batch": (values(2, 3, 5, 3), values(2, 3, 3, 4)),
    "two dims that differ": (values(2, 3, 5, 3), broadcast(values(3, 3, 4), 2, 3)),
    "turned dims": (values(3, 2, 5, 3).swapaxes(0, 1), values(2, 3, 3, 4)),
    "an empty batch": (many[:0], values(2, 3, 4)[:0]),
}


@pytest.mark.parametrize("which", PAIRS)
def test_what_it_is_asked_for(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = PAIRS[which]
    with FakeCublas.put_in(monkeypatch, computes=True):
        out = np.full(np.matmul(a, b).shape, np.nan, a.dtype)
        Cublas(13).multiply(at(out), at(a), at(b))
    if a.dtype.itemsize == 2:  # added up in 32 bits, and rounded once
        a, b = (x.astype(np.float32) for x in (a, b))
        assert (out == (a @ b).astype(out.dtype)).all()
        return
    np.testing.assert_allclose(out, a @ b, rtol=1e-5, atol=1e-6)


def test_dims_of_a_batch_that_go_on_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = {}
    for which in ("two dims of a batch", "two dims that differ", "turned dims"):
        a, b = PAIRS[which]
        with FakeCublas.put_in(monkeypatch) as library:
            Cublas(13).multiply(at(a @ b), at(a), at(b))
        calls[which] = len(library.calls) - 1
    assert calls == {"two dims of a batch": 1, "two dims that differ": 2, "turned dims": 2}


def test_what_it_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeCublas.put_in(monkeypatch):
        with pytest.raises(DeviceError, match=r"libcublas.so.12, for products .*, is not found"):
            Cublas(12)
        library = Cublas(13)
        flipped = MatricesAt(4096, np.dtype(np.float32), (2, 2), (-8, 4))
        with pytest.raises(DeviceError, match=r"\[2, 2\] whose elements are -2 and 1 apart"):
            library.multiply(at(values(2, 2)), flipped, at(values(2, 2)))
        long = MatricesAt(4096, np.dtype(np.float32), (2, 2**31), (2**33, 4))
        with pytest.raises(DeviceError, match="cuBLAS counts to 2147483647"):
            library.multiply(at(values(2, 2)), long, long)
        monkeypatch.setattr(FakeCublas, "cublasSetStream_v2", lambda *_: 1)
        with pytest.raises(DeviceError, match="cublasSetStream_v2 answers with the status 1"):
            library.begin(7, 4096, 64)


# -- epilogues -------------------------------------------------------------------------------------

EPILOGUES = [("", True), ("relu", True), ("gelu", True), ("relu", False), ("gelu", False)]
"""An activation, and whether there is a bias."""

WORKSPACE = (4096, 64)


@pytest.mark.parametrize("which", PAIRS)
def test_epilogues(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = PAIRS[which]
    if not a.shape[-1]:
        return  # of an inner dimension of nothing nobody asks a library
    bias = values(b.shape[-1], dtype=a.dtype)
    with FakeCublas.put_in(monkeypatch, computes=True) as library:
        lt = CublasLt(13)
        for activation, has_bias in EPILOGUES:
            out = np.full(np.matmul(a, b).shape, np.nan, a.dtype)
            epilogue = EpilogueAt(bias.ctypes.data if has_bias else 0, activation)
            assert lt.multiply((at(out), at(a), at(b)), epilogue, 7, WORKSPACE, tf32=False)
            wide = np.promote_types(np.float32, a.dtype)
            total = np.matmul(a.astype(wide), b.astype(wide)) + has_bias * bias.astype(wide)
            wanted = ACTIVATIONS[activation](total).astype(a.dtype)
            # (of 16 bits it is rounded once, so that a bit may differ where a sum has another order)
            rtol = {2: 1e-2, 4: 1e-5, 8: 1e-12}[a.dtype.itemsize]
            np.testing.assert_allclose(out.astype(wide), wanted.astype(wide), rtol=rtol, atol=1e-6)
        assert not library.other.objects  # all that was made is freed


def test_an_algorithm_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    out, bias = values(5, 4), values(4)
    three, epilogue = (at(out), at(x), at(w)), EpilogueAt(bias.ctypes.data, "")
    with FakeCublas.put_in(monkeypatch, computes=True) as library:
        lt = CublasLt(13)
        for _ in range(3):
            assert lt.multiply(three, epilogue, 7, WORKSPACE, tf32=False)
        (limits,) = library.other.asked
        assert library.other.products == 3
        # a workspace of so many bytes, sums of parts in 32 bits, and memory that lies as it lies
        assert limits[1] == 64 and limits[3] == 2
        places = (w, x, out, out)
        wanted = [min(m.ctypes.data & -m.ctypes.data, 256) for m in places]
        assert [limits[i] for i in (5, 6, 7, 8)] == wanted
        assert lt.multiply(three, epilogue, 7, WORKSPACE, tf32=True)
        assert lt.multiply(three, EpilogueAt(epilogue.bias, "relu"), 7, WORKSPACE, tf32=False)
        assert len(library.other.asked) == 3


def test_epilogues_that_the_library_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    out, epilogue = np.full((5, 4), np.nan, np.float32), EpilogueAt(0, "relu")
    with FakeCublas.put_in(monkeypatch, computes=True) as library:
        library.other.has_algorithms = False
        lt = CublasLt(13)
        assert not lt.multiply((at(out), at(x), at(w)), epilogue, 7, WORKSPACE, tf32=False)
        long = MatricesAt(4096, np.dtype(np.float32), (2, 2**31), (2**33, 4))
        assert not lt.multiply((at(out), long, long), epilogue, 7, WORKSPACE, tf32=False)
        assert np.isnan(out).all() and not library.other.objects
        monkeypatch.setattr(FakeCublasLt, "cublasLtMatmulAlgoGetHeuristic", lambda *_: 13)
        with pytest.raises(DeviceError, match="AlgoGetHeuristic answers with the status 13"):
            lt.multiply((at(out), at(x), at(w)), epilogue, 7, WORKSPACE, tf32=True)
        with pytest.raises(DeviceError, match=r"libcublasLt.so.12, for products .*, is not found"):
            CublasLt(12)
