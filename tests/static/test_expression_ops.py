"""Every op of a parameter and constants, computed at once, then met by a symbol: the graph has what
the eager mode has, in value and gradient, or refuses it with what to write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from opinfo import ROWS
from opinfo.core import Sample
from opinfo.modes import arrays_of, call
from slices import daily

import staticflow as sf
from staticflow.errors import SymbolicError
from staticflow.graph.dtypes import dtype_of, float64
from staticflow.graph.graph import close
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.node import param, toposort

NAMES = [n for n, row in ROWS.items() if row.grad and float64 in row.dtypes]
MOST = 6
"""Samples of an op, and calls of each: one for each array that is the parameter."""


def calls_of(name: str) -> list[tuple[Sample, int]]:
    samples = list(ROWS[name].samples(float64, True))[:MOST]
    return [
        (s, i) for s in samples for i, a in enumerate(arrays_of(s)) if dtype_of(a.dtype) is float64
    ]


def loss_of(outs: Sequence[Any], x: Any) -> Any:
    return sum((o * x).sin().sum() for o in outs if o.dtype.is_floating)


def check(name: str, sample: Sample, place: int) -> str:
    """What is refused, else ""."""
    tensors = [sf.tensor(a) for a in arrays_of(sample)]
    w = tensors[place] = sf.nn.Parameter(tensors[place])
    outs = [o for o in call(ROWS[name], sample, tensors) if o.requires_grad]
    if not outs:
        return ""
    x = sf.placeholder((), "float64", name="x")
    try:
        loss = loss_of(outs, x)
    except SymbolicError as error:
        return str(error)
    (gradient,) = sf.grad(loss, [w], allow_unused=True)
    wanted = loss_of(outs, sf.tensor(1.5, dtype="float64"))
    (cotangent,) = sf.autograd.grad(wanted, [w], allow_unused=True)
    assert (gradient is None) == (cotangent is None)
    results = [loss] if gradient is None else [loss, gradient]
    nodes = [r.node for r in results]
    params = [n for n in toposort(nodes) if n.op is param and n is not x.node]
    sources = [p.attrs["source"].detach().numpy() for p in params]
    found = interpret_graph(close([x.node, *params], nodes), [np.array(1.5), *sources])
    expected = [wanted.detach().numpy(), *([] if gradient is None else [cotangent.numpy()])]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-9, err_msg=f"{name}({sample}), {place}")
    return ""


def check_op(name: str) -> None:
    for sample, place in calls_of(name):
        refusal = check(name, sample, place)
        assert not refusal or (
            "computed at once" in refusal
            and "opinfo" in refusal.split("from one that requires")[0]
            and "sf.symbol(w)" in refusal
        ), refusal


@pytest.mark.parametrize("name", daily(NAMES, 12, "expressions"))
def test_ops(name: str) -> None:
    check_op(name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_every_op(name: str) -> None:
    check_op(name)
