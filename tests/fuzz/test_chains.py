"""Random chains of ops of the op table: what one gives goes into an operand of another one, and out
beside it, so any op is fused with any before and behind it. Programs of known and of unknown sizes
give what the ops give eagerly, and the same gradients.

``STATICFLOW_FUZZ=3000 python -m pytest tests/fuzz/test_chains.py`` runs that many others.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from opinfo import ROWS
from opinfo.core import Array, OpInfo, Sample, values
from opinfo.modes import arrays_of, call, params_for
from slices import daily

import staticflow as sf
from staticflow.graph.dtypes import float64
from staticflow.ops.declaring.lowering import Host
from staticflow.ops.symbols.symbol import Symbol

CAMPAIGN = int(os.environ.get("STATICFLOW_FUZZ", "0"))
SEEDS = range(10_000, 10_000 + CAMPAIGN) if CAMPAIGN else daily(range(10_000), 25, "chains")

DRAWN = {"random_bits", "integers", "uniform", "normal"}
OF_MEMORY = {"as_strided", "bitcast", "measure", "size"}
OF_EITHER_SIGN = {"eigh", "svd"}
NAMES = [
    n for n, row in ROWS.items()
    if n not in DRAWN | OF_MEMORY | OF_EITHER_SIGN
    and float64 in row.dtypes and not isinstance(row.op.lowering, Host)
]  # fmt: skip
MOST = 100_000
"""Elements of the operands of a step."""


@dataclass(frozen=True)
class Step:
    """A sample of an op, whose operand ``into``, one of float64, takes a value that was there before,
    the ``back``-th last one, by its mean or by its elements from its ``start`` or ``end``."""

    info: OpInfo
    sample: Sample
    into: int
    back: int
    how: str
    goes_out: bool


def draw(seed: int) -> tuple[list[Step], int | None]:
    """Two to five steps, and which size of their operands is not known, if any is not."""
    rng = random.Random(seed)
    steps: list[Step] = []
    while len(steps) < 2 or (rng.random() < 0.6 and len(steps) < 5):
        info = ROWS[rng.choice(NAMES)]
        sample = rng.choice([*info.samples(float64, True)])
        arrays = arrays_of(sample)
        floats = [i for i, a in enumerate(arrays) if a.dtype == np.float64]
        if not floats or sum(a.size for a in arrays) > MOST:
            continue
        how = rng.choice(["mean", "start", "end"])
        steps.append(
            Step(info, sample, rng.choice(floats), rng.randint(1, 3), how, rng.random() < 0.3)
        )
    sizes = sorted({d for s in steps for a in arrays_of(s.sample) for d in a.shape if d > 1})
    return steps, rng.choice(sizes) if sizes and rng.random() < 0.4 else None


def fitted(y: Any, shape: Sequence[int], how: str) -> Any:
    """What ``y`` has, in a shape; its mean where no sizes are to be asked for."""
    count, have = math.prod(shape), math.prod(y.shape) if how != "mean" else 0
    if how == "mean" or not count or not have:
        return y.mean()
    flat = y.reshape(-1)
    if have < count:
        flat = sf.cat([flat] * -(-count // have))
    return (flat[-count:] if how == "end" else flat[:count]).reshape(shape)


def run(steps: Sequence[Step], operands: Sequence[Any], is_open: bool) -> list[Any]:
    """What the chain gives of tensors or symbols: the results of its last step, and of others."""
    rest = iter(operands)
    found: list[Any] = []
    out: list[Any] = []
    outs: list[Any] = []
    for step in steps:
        given = [next(rest) for _ in arrays_of(step.sample)]
        if found:
            y = found[-min(step.back, len(found))]
            y = fitted(y, given[step.into].shape, "mean" if is_open else step.how)
            # near the values of the sample, for which the op is defined, if it is anywhere
            given[step.into] = given[step.into] + 0.1 * (y / 8).nan_to_num(0, 1, -1).tanh()
        outs = call(step.info, step.sample, given)
        if step.info.op.vjp is None:  # a graph refuses to go through it, the tape ends there
            outs = [o.detach() for o in outs]
        if step.goes_out:
            out += outs
        found += [o for o in outs if o.dtype is float64]
    return [*out, *outs]


def weighted(outs: Sequence[Any]) -> Iterator[Any]:
    """The floats among results, each times a number of its own."""
    for i, out in enumerate(outs):
        if out.dtype is float64:
            yield out.sum() * float(values((), float64, 0.5, 2, seed=i))


def assert_near(got: Array, wanted: Array, what: str) -> None:
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), what
    if got.dtype != np.float64:
        np.testing.assert_array_equal(got, wanted, what)
        return
    safe = np.abs(wanted) < 1e12  # of what is larger little is left that is not rounding
    scale = max(1.0, float(np.abs(wanted[safe]).max(initial=0)))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted), what)
    np.testing.assert_allclose(got[safe], wanted[safe], rtol=1e-8, atol=1e-8 * scale, err_msg=what)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_chain_is_the_same_in_both_modes(seed: int) -> None:
    steps, unknown = draw(seed)
    what = " -> ".join(f"{s.info.op.name}({s.sample})" for s in steps) + f", {unknown} open"
    arrays = [np.array(a) for s in steps for a in arrays_of(s.sample)]
    tensors = [sf.from_numpy(a.copy()) for a in arrays]
    real = [i for i, a in enumerate(arrays) if a.dtype == np.float64]
    for i in real:
        tensors[i].requires_grad_()
    outs = run(steps, tensors, unknown is not None)
    wanted = [o.detach().numpy() for o in outs]
    loss = sum(weighted(outs))
    symbols = [Symbol(p) for p in params_for(arrays, unknown)]
    results = run(steps, symbols, unknown is not None)
    if isinstance(loss, sf.Tensor) and loss.requires_grad:
        slopes = sf.autograd.grad(loss, [tensors[i] for i in real], allow_unused=True)
        found = sf.grad(sum(weighted(results)), [symbols[i] for i in real], allow_unused=True)
        for slope, symbol in zip(slopes, found, strict=True):
            if slope is not None and symbol is not None:
                wanted.append(slope.numpy())
                results.append(symbol)
            else:  # what one of the modes finds to be no way, the other may find to add nothing
                assert slope is None or not slope.any(), what
    program = sf.compile(symbols, results)
    for got, want in zip(program(*arrays), wanted, strict=True):
        assert_near(got.numpy(), want, what)
