"""Rows for operations that PyTorch's samples do not reach, by `from_module`, in values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import staticflow as sf

torch = pytest.importorskip(
    "torch", reason='operations of PyTorch: pip install "staticflow[torch]"'
)

GEQRF = torch.geqrf(torch.linspace(-1.0, 1.0, 15).reshape(5, 3).cos())
WIDE, LONG = torch.linspace(-2.0, 2.0, 20).reshape(5, 4), torch.linspace(-1.0, 2.0, 14).sin()
LENGTHS, OFFSETS = torch.tensor([2, 0, 4, 1]), torch.tensor([0, 2, 2, 6, 7])

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{
        f"ormqr, left={left}, transpose={turned}": (
            lambda a, tau, x, left=left, turned=turned: torch.ormqr(a, tau, x, left, turned),
            (GEQRF.a, GEQRF.tau, WIDE if left else WIDE.t().contiguous()),
        )
        for left in (True, False)
        for turned in (True, False)
    },
    **{
        f"segment_reduce, {reduce} by {by}": (
            lambda x, n, reduce=reduce, by=by: torch.segment_reduce(x, reduce, **{by: n}),
            (LONG.reshape(7, 2), LENGTHS if by == "lengths" else OFFSETS),
        )
        for reduce in ("sum", "mean", "max", "min", "prod")
        for by in ("lengths", "offsets")
    },
    **{
        f"segment_reduce, {reduce} from 1.5": (
            lambda x, n, reduce=reduce: torch.segment_reduce(x, reduce, lengths=n, initial=1.5),
            (LONG[:7], LENGTHS),
        )
        for reduce in ("sum", "mean", "max", "min", "prod")
    },
    "fake_quantize_per_tensor_affine": (
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.3, 1, -4, 3),
        (WIDE,),
    ),
    "fake_quantize_per_tensor_affine by tensors": (
        lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s, z, -4, 3),
        (WIDE, torch.tensor([0.3]), torch.tensor([1], dtype=torch.int32)),
    ),
    "fake_quantize_per_channel_affine": (
        lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -4, 3),
        (WIDE, torch.linspace(0.1, 0.4, 4), torch.zeros(4, dtype=torch.int32)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_pytorchs(name: str) -> None:
    function, given = CASES[name]

    class Called(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return function(*args)

    module = sf.torch.from_module(Called(), given)
    # PyTorch has no derivative by the steps to which numbers are rounded
    real = given[:1] if "quantize" in name else [x for x in given if x.is_floating_point()]
    needed = [any(x is r for r in real) for x in given]
    theirs = [x.clone().requires_grad_(n) for x, n in zip(given, needed, strict=True)]
    wanted = function(*theirs)
    weight = torch.linspace(0.5, 1.5, wanted.numel()).reshape(wanted.shape)
    there = torch.isfinite(wanted)  # what is made of no rows is not
    (wanted * weight)[there].sum().backward()
    for call in (module, sf.jit(module)):
        ours = [sf.tensor(x).requires_grad_(n) for x, n in zip(given, needed, strict=True)]
        found = call(*ours)
        np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), 1e-5, 1e-6)
        (found * sf.tensor(weight))[sf.tensor(there)].sum().backward()
        for x, y in zip(ours, theirs, strict=True):
            if y.grad is not None:
                np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-4, 1e-5)
