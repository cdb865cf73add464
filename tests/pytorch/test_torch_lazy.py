"""Lazy layers beside PyTorch's: what they print, hold and become, and what their states load into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import staticflow as sf

torch = pytest.importorskip("torch", reason="its lazy layers")

NAMES = sorted(n for n in dir(torch.nn) if n.startswith("Lazy"))
pytestmark = pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")


def make(library: Any, name: str) -> Any:
    args = [3] if name == "LazyLinear" else [6, 2] if "Conv" in name else []
    return getattr(library.nn, name)(*args)


def image(name: str) -> np.ndarray[Any, Any]:
    spatial = () if name == "LazyLinear" else (5,) * int(name[-2])
    return np.random.default_rng(0).standard_normal((2, 4, *spatial)).astype(np.float32)


def kinds(module: Any) -> list[tuple[str, str]]:
    """What a module holds, by name."""
    held = (*module.named_parameters(), *module.named_buffers())
    return [(name, type(value).__name__) for name, value in held]


@pytest.mark.parametrize("name", NAMES)
def test_a_lazy_layer_is_pytorchs_before_and_after_its_first_call(name: str) -> None:
    ours, theirs = make(sf, name), make(torch, name)
    assert repr(ours) == repr(theirs)
    assert kinds(ours) == kinds(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours(sf.from_numpy(image(name)))
    theirs(torch.from_numpy(image(name)))
    assert repr(ours) == repr(theirs)
    assert kinds(ours) == kinds(theirs)
    fresh = make(sf, name)
    for layer in (ours, fresh):
        layer.load_state_dict(theirs.state_dict())
        found, wanted = layer(sf.from_numpy(image(name))), theirs(torch.from_numpy(image(name)))
        np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), 2e-5, 2e-5)
