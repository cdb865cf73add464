"""Layers of one input, convolutions to activations, against what PyTorch's gave, in both modes.

``reference/make_spatial.py`` wrote the numbers.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn

HERE = Path(__file__).parents[1] / "reference"


def _load_cases() -> Any:
    spec = importlib.util.spec_from_file_location("spatial_cases", HERE / "spatial_cases.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cases = _load_cases()
STORED = json.loads((HERE / "spatial.json").read_text())
by_case = pytest.mark.parametrize("name", cases.CASES)


def make(name: str) -> tuple[nn.Module, Any]:
    """The layer of a case in float64, with the parameters of the reference, and its input."""
    kind, args, kwargs, shape = cases.CASES[name]
    layer = getattr(nn, kind)(*args, **kwargs).to("float64")
    with sf.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter[...] = cases.numbers(parameter.shape, i + 1)
    return layer, sf.from_numpy(cases.numbers(shape, 0))


def agree(actual: Any, wanted: list[float], what: str) -> None:
    flat = actual.detach().numpy().reshape(-1)
    np.testing.assert_allclose(flat, np.array(wanted), rtol=1e-9, atol=1e-9, err_msg=what)


def weights_of(shape: tuple[int, ...]) -> Any:
    return sf.from_numpy(np.cos(np.arange(int(np.prod(shape)))).reshape(shape))


@by_case
def test_a_layer_looks_and_is_stored_as_in_pytorch(name: str) -> None:
    layer, _ = make(name)
    assert repr(layer) == STORED[name]["repr"]
    state = {key: list(value.shape) for key, value in layer.state_dict().items()}
    assert state == STORED[name]["state"]


@by_case
def test_eager_numbers_are_those_of_pytorch(name: str) -> None:
    layer, x = make(name)
    stored = STORED[name]
    x.requires_grad_()
    out = layer(x)
    assert list(out.shape) == stored["shape"]
    (out * weights_of(out.shape)).sum().backward()
    second = layer(x * 0.5 + 1)
    layer.eval()
    for actual, wanted in zip((out, second, layer(x)), stored["outputs"], strict=True):
        agree(actual, wanted, f"{name}, output")
    leaves = (x, *layer.parameters())
    for leaf, wanted in zip(leaves, stored["gradients"], strict=True):
        agree(leaf.grad, wanted, f"{name}, gradient")
    for key, buffer in layer.named_buffers():
        agree(buffer, stored["buffers"][key], f"{name}, {key}")


@by_case
@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_compiled_numbers_are_those_of_pytorch(name: str, unknown: bool) -> None:
    """With unknown sizes everything but the channels is."""
    layer, data = make(name)
    stored = STORED[name]
    kind, _, _, shape = cases.CASES[name]
    channels = len(shape) - 1 if "Layer" in kind or "RMS" in kind else -len(shape) + 1
    fixed = {channels % len(shape), *((1,) if "two" in name or "precision" in name else ())}
    sizes = tuple(None if unknown and i not in fixed else n for i, n in enumerate(shape))
    if "alone" in name:
        sizes = (shape[0], *sizes[1:])
    x = sf.placeholder(sizes, "float64", name="x")
    out = layer(x)
    params = list(layer.parameters())
    weights = weights_of(tuple(stored["shape"]))
    given = [weights] if unknown else []
    of_loss = [sf.placeholder((None,) * weights.ndim, "float64", name="w") for _ in given]
    loss = (out * (of_loss[0] if unknown else sf.symbol(weights))).sum()
    step = sf.compile([x, *of_loss], [out, *sf.grad(loss, [x, *params])])
    found = step(data, *given)
    agree(found[0], stored["outputs"][0], f"{name}, output")
    for actual, wanted in zip(found[1:], stored["gradients"], strict=True):
        agree(actual, wanted, f"{name}, gradient")
    agree(step(data * 0.5 + 1, *given)[0], stored["outputs"][1], f"{name}, second output")
    for key, buffer in layer.named_buffers():
        agree(buffer, stored["buffers"][key], f"{name}, {key}")
    layer.eval()
    agree(sf.compile([x], layer(x))(data), stored["outputs"][2], f"{name}, evaluation")
