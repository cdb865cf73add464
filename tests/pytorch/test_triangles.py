"""Functions that read one triangle of a matrix read that one alone, as PyTorch does: with other
numbers in the other triangle, eagerly, by jit, and as modules of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

torch = pytest.importorskip("torch")

READERS: dict[str, Callable[[Any, Any, bool], Any]] = {
    "cholesky": lambda lib, a, upper: lib.linalg.cholesky(a, upper=upper),
    "cholesky_inverse": lambda lib, a, upper: lib.cholesky_inverse(a, upper=upper),
    "cholesky_solve": lambda lib, a, upper: lib.cholesky_solve(a[:, :2], a, upper=upper),
    "eigvalsh": lambda lib, a, upper: lib.linalg.eigvalsh(a, UPLO="U" if upper else "L"),
    "solve_triangular": lambda lib, a, upper: lib.linalg.solve_triangular(a, a[:, :2], upper=upper),
    "unit": lambda lib, a, upper: lib.linalg.solve_triangular(
        a, a[:, :2], upper=upper, unitriangular=True
    ),
    "from the right": lambda lib, a, upper: lib.linalg.solve_triangular(
        a, a[:2], upper=upper, left=False
    ),
}


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("name", READERS)
def test_one_triangle_is_read(name: str, upper: bool) -> None:
    rng = np.random.default_rng(0)
    half = rng.random((5, 5)) + np.eye(5)
    a = half @ half.T + 5 * np.eye(5) + np.triu(rng.random((5, 5)), 1)

    class Module(torch.nn.Module):
        def forward(self, a: Any) -> Any:
            return READERS[name](torch, a, upper)

    given = torch.tensor(a)
    wanted = Module()(given).numpy()
    ways = {
        "eager": lambda x: READERS[name](sf, x, upper),
        "jit": sf.jit(lambda x: READERS[name](sf, x, upper)),
        "module": sf.torch.from_module(Module(), (given,)),
    }
    for way, fn in ways.items():
        np.testing.assert_allclose(fn(sf.tensor(a)).numpy(), wanted, 1e-9, 1e-12, err_msg=way)
