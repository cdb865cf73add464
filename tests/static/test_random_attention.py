"""Attention drawn from seeds, compiled in every way against the eager one.

``STATICFLOW_ATTENTION=1000 python -m pytest -m campaign tests/static/test_random_attention.py`` runs
that many others.
"""

from __future__ import annotations

import os
import zlib
from typing import Any

import numpy as np
import pytest
from emulated_device import emulated_gpus
from random_attention import Attention
from slices import today

import staticflow as sf

COUNT = int(os.environ.get("STATICFLOW_ATTENTION", "200"))
A_DAY = 1
FIRST = zlib.crc32(today().encode())

WAYS: tuple[dict[str, Any], ...] = (
    {}, {"passes": ["-attention"]}, {"numerics": "exact"}, {"numerics": "fast"},
    {"stabilize": False},
)  # fmt: skip

ON_A_GPU: dict[str, Any] = {"device": "cuda"}


def _wanted(drawn: Attention) -> list[Any]:
    """The eager result, and the gradients by all arrays."""
    tensors = [sf.tensor(np.array(a), requires_grad=True) for a in drawn.arrays]
    out = drawn(*tensors)
    (out * out * 0.5 + out).sum().backward()
    return [out.detach(), *(None if t.grad is None else t.grad for t in tensors)]


def _found(drawn: Attention, is_open: bool, way: dict[str, Any]) -> list[Any]:
    symbols = [
        sf.placeholder([None if is_open and n != 1 else n for n in a.shape], dtype=sf.float64,
                       name=f"a{i}")
        for i, a in enumerate(drawn.arrays)
    ]  # fmt: skip
    out = drawn(*symbols)
    grads = sf.grad((out * out * 0.5 + out).sum(), symbols, allow_unused=True)
    program = sf.compile(symbols, [out, *(g for g in grads if g is not None)], **way)
    results = iter(r.cpu() for r in program(*drawn.arrays))
    return [next(results), *(None if g is None else next(results) for g in grads)]


def _check(seed: int) -> None:
    """What is a number eagerly is the same number in every program: what is NaN may be one there,
    as where a row is hidden that is then left out."""
    drawn = Attention(seed)
    wanted = _wanted(drawn)
    ways = [(False, WAYS[0]), (False, WAYS[1 + seed % 4]), (True, WAYS[0])]
    if drawn.keys > 1:  # positions of known sizes are tensors of the CPU
        ways.append((True, ON_A_GPU))
    for is_open, way in ways:
        with emulated_gpus():
            results = _found(drawn, is_open, way)
        for i, (found, want) in enumerate(zip(results, wanted, strict=True)):
            if found is None or want is None:
                continue
            number = ~np.isnan(np.asarray(want))
            scale = np.abs(np.asarray(want)[number]).max(initial=1.0)
            np.testing.assert_allclose(
                np.asarray(found)[number], np.asarray(want)[number], 1e-8, 1e-9 * scale,
                err_msg=f"seed {seed}, result {i}, {way}, {is_open=}",
            )  # fmt: skip


def test_attention_of_the_day() -> None:
    for seed in range(FIRST, FIRST + A_DAY):
        _check(seed)


@pytest.mark.campaign
def test_much_attention() -> None:
    for seed in range(FIRST, FIRST + COUNT):
        _check(seed)
