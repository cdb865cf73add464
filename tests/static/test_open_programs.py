"""Programs that were written for the eager mode run under ``jit``, with every size open, and have
its values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import plain_proofs
import pytest
from open_programs_layers import PROGRAMS
from slices import daily

import staticflow as sf
from staticflow import pytree
from staticflow.graph import proofs
from staticflow.graph.dims import Dim


def arguments(name: str) -> list[Any]:
    rng = np.random.default_rng(2)
    return [
        sf.tensor(rng.standard_normal(a, np.float32), requires_grad=True)
        if isinstance(a, tuple)
        else a
        for a in PROGRAMS[name][1]
    ]


def loss_of(outs: list[Any]) -> Any:
    floats = [o for o in outs if o.requires_grad]
    ramps = [sf.arange(o.numel(), dtype=sf.float32).reshape(o.shape).cos() for o in floats]
    return sum((o * r).sum() for o, r in zip(floats, ramps, strict=True))


def check(name: str) -> None:
    f, given = PROGRAMS[name][0], arguments(name)
    leaves = [a for a in given if a.requires_grad]
    wanted, found = (pytree.flatten(run(*given))[0] for run in (f, sf.jit(f)))
    gradients: list[Any] = [(), ()]
    if leaves and any(o.requires_grad for o in wanted):
        gradients = [
            sf.autograd.grad(loss_of(o), leaves, allow_unused=True) for o in (found, wanted)
        ]
    assert len(found) == len(wanted)
    for a, b in zip([*found, *gradients[0]], [*wanted, *gradients[1]], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 2e-4, 2e-5)


@pytest.mark.parametrize("name", daily(sorted(PROGRAMS), 2, "open programs"))
def test_programs(name: str) -> None:
    check(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_program(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is proved on the way is what the definition proves."""
    asked: dict[Any, bool] = {}
    prove = proofs._prove
    monkeypatch.setattr(proofs, "_prove", lambda terms: asked.setdefault(terms, prove(terms)))
    proofs._prove_once.cache_clear()
    check(name)
    wrong = [t for t, found in asked.items() if plain_proofs.is_provably_ge(Dim(t), 0) is not found]
    assert not wrong
