"""Machines with a GPU, for tests of tensors that live there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow.pytree import flatten, map_tree

__all__ = ["TOLERANCES", "assert_agree", "gpu", "outcome", "there"]


@pytest.fixture(params=["stand-in", pytest.param("cupy", marks=pytest.mark.gpu)])
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A GPU: that of the stand-in for cupy, and with ``-m gpu`` the one of the machine, without
    which the test fails. The name of which."""
    if request.param == "stand-in":
        from fake_cupy import install

        install(monkeypatch)
    return str(request.param)


def there(tree: Any, device: str = "cuda", requires_grad: bool = False) -> Any:
    """The arrays of a tree as tensors on a device; floating ones may require gradients."""

    def one(x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        t = sf.tensor(x, device=device)
        return t.requires_grad_() if requires_grad and t.dtype.is_floating else t

    return map_tree(one, tree)


TOLERANCES = {"float64": 1e-9, "float32": 1e-4, "float16": 2e-2, "bfloat16": 5e-2}
"""By how much results of a GPU may differ: sums are added in another order, and 16 bits are kept
longer in 32."""


def assert_agree(theirs: Any, ours: Any, message: str = "") -> None:
    """Tensors on a GPU are what those on the CPU are, in a tree of the same form."""
    pairs = zip(flatten(theirs)[0], flatten(ours)[0], strict=True)
    for a, b in ((a, b) for a, b in pairs if isinstance(b, sf.Tensor)):
        assert a.device.type == "cuda", message
        assert a.dtype is b.dtype and a.shape == b.shape, f"{message}: {a.dtype}{list(a.shape)}"
        limit = TOLERANCES.get(b.dtype.name, 0)
        np.testing.assert_allclose(
            a.detach().cpu().numpy().astype("f8"), b.detach().numpy().astype("f8"),
            rtol=limit, atol=limit, err_msg=message,
        )  # fmt: skip


def outcome(run: Callable[[], Any]) -> Any:
    """What a call gives, or the class of its error."""
    try:
        return run()
    except sf.errors.StaticflowError as error:
        return type(error)
