"""Systems, factors and determinants by blocks of threads on an emulated GPU: what the CPU gives, in
whatever order the threads run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from device_programs import assert_alike, compiled
from emulated_device import EmulatedDevice, emulated_gpus
from emulator import ORDERS
from nvrtc import ARCHITECTURES, Nvrtc, nvrtc
from slices import by_days

import staticflow as sf
from staticflow import linalg
from staticflow.errors import LinAlgError
from staticflow.ops.matrices.elimination import _FEW
from staticflow.ops.matrices.matrix_work import BLOCK
from staticflow.ops.matrices.tall_systems import least_squares_op

__all__ = ["nvrtc"]

Array = np.ndarray[Any, Any]


def both_triangles(a: Any) -> Any:
    left, right = a[..., :2], a[..., 1:]
    return (
        linalg.solve_triangular(a, left, upper=True),
        linalg.solve_triangular(a, right, upper=False, unitriangular=True),
    )


def least_squares(a: Any) -> Any:
    return tuple(least_squares_op(a, (a * a)[..., :2], rcond=None))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "solve": lambda a: linalg.solve(a, a[..., :3] * 2 + 1),
    "inv": linalg.inv,
    "slogdet": lambda a: tuple(linalg.slogdet(a)),
    "lu": lambda a: tuple(linalg.lu(a)),
    "lu_factor": lambda a: tuple(linalg.lu_factor(a)),
    "without exchanges": lambda a: linalg.lu_factor(a, pivot=False).LU,
    "cholesky": linalg.cholesky,
    "triangles": both_triangles,
    "qr": lambda a: tuple(linalg.qr(a)),
    "least squares": least_squares,
    "gradient of cholesky": lambda a: sf.grad(linalg.cholesky(a).sum(), [a])[0],
    "gradient of slogdet": lambda a: sf.grad(linalg.slogdet(a)[1].sum(), [a])[0],
}

SHAPES = [(5, 5), (3, _FEW, _FEW), (_FEW + 1,) * 2, (2, 1, BLOCK, BLOCK), (2 * BLOCK + 6,) * 2]


def matrices(name: str, *shape: int, dtype: str = "float64") -> Array:
    """Matrices that can be factored, definite ones where they must be."""
    a = np.random.default_rng(shape[-1]).uniform(-1, 1, shape)
    if "cholesky" in name:
        a = a @ np.swapaxes(a, -1, -2) + shape[-1] / 8 * np.eye(shape[-1])
    elif name in ("without exchanges", "triangles"):
        a += 4 * np.eye(shape[-1])
    return a.astype(dtype)


@pytest.fixture
def gpu() -> Iterator[EmulatedDevice]:
    with emulated_gpus() as devices:
        yield devices[0]


def on_both(fn: Callable[[Any], Any], *arrays: Array, unknown: bool, rtol: float) -> Any:
    on_cpu, on_gpu = (compiled(fn, arrays, device, unknown) for device in ("cpu", "cuda"))
    for given in (arrays[0], arrays[0] * 2):
        assert_alike(on_gpu(given), on_cpu(given), rtol=rtol)
    return on_gpu


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("name", by_days(list(FUNCTIONS), 4, "elimination"))
def test_matrices(gpu: EmulatedDevice, name: str, unknown: bool) -> None:
    for shape in SHAPES if not unknown else SHAPES[2:]:
        a = matrices(name, *shape)
        program = on_both(FUNCTIONS[name], a, unknown=unknown, rtol=1e-9)
        has_teams = "__syncthreads" in program.source("cuda")
        assert has_teams or (shape[-1] <= _FEW and not unknown)


@pytest.mark.parametrize("name", ["solve", "lu_factor", "cholesky"])
def test_matrices_of_float32(gpu: EmulatedDevice, name: str) -> None:
    a = matrices(name, 2, BLOCK + 3, BLOCK + 3, dtype="float32")
    on_both(FUNCTIONS[name], a, unknown=True, rtol=2e-3)


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize(
    "shape", [(BLOCK + 9, 4), (3, BLOCK + 2), (2, 70, 40), (40, 70), (12, 9), (9, 12)]
)
def test_matrices_that_are_not_square(
    gpu: EmulatedDevice, shape: tuple[int, ...], unknown: bool
) -> None:
    a = np.random.default_rng(0).uniform(-1, 1, shape)
    for name in ("lu", "lu_factor", "qr", "least squares"):
        on_both(FUNCTIONS[name], a, unknown=unknown, rtol=1e-9)
    on_both(lambda a: tuple(linalg.qr(a, "complete")), a, unknown=unknown, rtol=1e-9)


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_reflections_of_columns_that_are_zero_or_scaled(
    gpu: EmulatedDevice, scale: float, unknown: bool
) -> None:
    for shape in ((7, 5), (BLOCK + 5, BLOCK + 2)):
        a = np.random.default_rng(0).uniform(-1, 1, shape)
        a[:, 2] = 0
        a[1:, 4] = 0
        a[:, 1] *= scale
        q, r = compiled(FUNCTIONS["qr"], [a], "cuda", unknown)(a)
        q, r = (t.cpu().numpy() for t in (q, r))
        np.testing.assert_allclose(q.T @ q, np.eye(shape[1]), atol=1e-12)
        np.testing.assert_allclose(
            q @ r / np.abs(a).max(0).clip(1e-40), a / np.abs(a).max(0).clip(1e-40), atol=1e-12
        )
        assert (np.tril(r, -1) == 0).all()


def test_no_matrices(gpu: EmulatedDevice) -> None:
    for shape in ((0, 9, 9), (0, 0)):
        for name in ("inv", "slogdet", "lu_factor", "cholesky", "qr"):
            on_both(FUNCTIONS[name], np.zeros(shape), unknown=True, rtol=0)


@pytest.mark.parametrize("name", ["inv", "lu_factor", "cholesky", "qr", "least squares"])
def test_the_order_of_threads_changes_no_bit(name: str) -> None:
    a = matrices(name, 2, BLOCK + 5, BLOCK + 5)
    found = []
    for order in ORDERS:
        with emulated_gpus(order):
            out = compiled(FUNCTIONS[name], [a], "cuda")(a)
            first = out[0] if isinstance(out, tuple) else out
            found.append(first.cpu().numpy())
    assert all((f == found[0]).all() for f in found[1:])


def test_pivots_are_those_of_the_cpu(gpu: EmulatedDevice) -> None:
    """The first of equal ones, and the last of those that are no number."""
    n = BLOCK + 7
    equal = np.where(np.arange(n)[:, None] % 3 == 0, -1.0, 1.0) * np.ones((n, n)) + np.eye(n) / 64
    lost = matrices("lu", n, n)
    lost[[5, 9, 20], 3] = np.nan
    zeros = matrices("lu", n, n)
    zeros[:, [0, 4, n - 1]] = 0
    on_cpu, on_gpu = (compiled(FUNCTIONS["lu_factor"], [equal], d) for d in ("cpu", "cuda"))
    for a in (equal, lost, zeros):
        (of_gpu, pivots), (of_cpu, wanted) = on_gpu(a), on_cpu(a)
        assert (pivots.cpu().numpy() == wanted.numpy()).all()
        np.testing.assert_allclose(of_gpu.cpu().numpy(), of_cpu.numpy(), 1e-9, 1e-12)


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("n", [3, 2 * BLOCK + 3])
def test_what_has_no_factors_is_refused(gpu: EmulatedDevice, n: int, unknown: bool) -> None:
    for name, why in (("inv", "singular"), ("cholesky", "not positive definite")):
        program = compiled(FUNCTIONS[name], [np.eye(n)], "cuda", unknown)
        for at in (0, n - 1):
            a = np.eye(n)
            a[at, at] = 0
            with pytest.raises(LinAlgError, match=rf"{why}, at .*nothing was updated"):
                program(a)
        assert (program(np.eye(n)).cpu().numpy() == np.eye(n)).all()
    sign, logarithm = compiled(FUNCTIONS["slogdet"], [a], "cuda", unknown)(a)
    assert sign.cpu() == 0 and logarithm.cpu() == -np.inf


@pytest.mark.parametrize(
    ("name", "architecture"),
    by_days(list(product(FUNCTIONS, ARCHITECTURES)), 4, "spills of elimination"),
)
def test_kernels_compile_without_spills(
    gpu: EmulatedDevice, nvrtc: Nvrtc, name: str, architecture: str
) -> None:
    a = matrices(name, 2, 9, 9, dtype="float32")
    for given, unknown in ((a, True), (a.astype("f8"), False), (a[:, :5, :5], False)):
        text = compiled(FUNCTIONS[name], [given], "cuda", unknown).source("cuda")
        assert set(nvrtc.spilled(text, architecture)) == {0}
