"""`vmap` of every op, against a loop over the rows: a day's share in the suite, all as a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from batching import Batched, batches_of, loop_over_rows, map_over_rows
from opinfo import ROWS
from opinfo.core import Array
from opinfo.modes import weights
from slices import daily

import staticflow as sf
from staticflow.graph.dtypes import dtype_of, float64
from staticflow.graph.graph import close, new_param
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.types import TensorType
from staticflow.ops import OPS
from staticflow.ops.batching.loops import DRAWS
from staticflow.ops.batching.table import rule_of
from staticflow.ops.symbols.symbol import Symbol

REFUSED = {"measure", "prefix", "unprefix", "print"}
"""Ops without a rule: of sizes that would differ from row to row, and prints."""

APART = REFUSED | {"tied", "while"} | {op.name for op in DRAWS}
"""Ops whose row of the table measures a size, keeps all iterations of a loop, or draws."""


def cases(smooth: bool) -> list[Batched]:
    """Every case of the table: of all dtypes, or with ``smooth`` of those that gradients are held to."""
    found = []
    for name, info in ROWS.items():
        if name in APART or (smooth and not info.grad):
            continue
        dtypes = [d for d in info.dtypes if d is float64] if smooth else info.dtypes
        for dtype in dtypes:
            found += batches_of(info, dtype, smooth, (1, 3) if smooth else (0, 1, 3))
    return found


def test_every_op_has_a_rule() -> None:
    without = {name for name, op in OPS.items() if op.infer and rule_of(op) is None}
    generated = {"full", "iota", "size"}  # which have no arguments
    assert without == REFUSED | generated


def tensors_of(arrays: Sequence[Array]) -> list[sf.Tensor]:
    return [sf.from_numpy(a) for a in arrays]


def agree(case: Batched, actual: Sequence[Array], wanted: Sequence[Array]) -> None:
    assert len(actual) == len(wanted), case
    for a, w in zip(actual, wanted, strict=True):
        assert (a.dtype, a.shape) == (w.dtype, w.shape), case
        if not case.dtype.is_floating or a.dtype.kind in "iub":
            np.testing.assert_array_equal(a, w, str(case))
            continue
        relative, absolute = case.info.tolerance(dtype_of(w.dtype))
        eps = float(np.finfo(np.float32 if a.dtype.itemsize < 8 else a.dtype).eps)
        eps = eps if a.dtype.itemsize > 2 else 1 / 128  # bfloat16 has 8 bits
        bound = max(relative, absolute, 64 * eps)
        np.testing.assert_allclose(
            a.astype(np.float64), w.astype(np.float64), rtol=bound, atol=bound, err_msg=str(case)
        )


def check_values(case: Batched) -> None:
    """Eagerly, and in a graph."""
    actual = [y.numpy() for y in map_over_rows(case, tensors_of(case.arrays))]
    if case.size:
        rows = [tensors_of([a.copy() for a in row]) for row in case.rows]
        agree(case, actual, [y.numpy() for y in loop_over_rows(case, rows)])
    assert all(len(y) == case.size for y in actual), case
    params = [new_param(TensorType(dtype_of(a.dtype), a.shape), "x") for a in case.arrays]
    outs = map_over_rows(case, [Symbol(p) for p in params])
    graph = close(params, [o.node for o in outs])
    agree(case, interpret_graph(graph, case.arrays), actual)


def pulled(outs: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
    """The gradients of weighted outputs; zeros where none comes."""
    real = [y for y in outs if y.dtype.is_floating and y.requires_grad]
    if not real:
        return [sf.zeros_like(x) for x in leaves]
    cts = [sf.from_numpy(w).to(y.dtype) for w, y in zip(weights(real, 3), real, strict=True)]
    found = sf.autograd.grad(real, leaves, cts, allow_unused=True)
    return [sf.zeros_like(x) if g is None else g for g, x in zip(found, leaves, strict=True)]


def check_gradients(case: Batched) -> None:
    """Of the rows, and of what is the same for all rows."""
    found = []
    for is_mapped in (True, False):
        own = [x.requires_grad_() if x.dtype.is_floating else x for x in tensors_of(case.arrays)]
        if is_mapped:
            outs = map_over_rows(case, own)
        else:
            places = list(zip(own, case.in_dims, strict=True))
            outs = loop_over_rows(case, [
                [x if d is None else x.select(d, r).clone() for x, d in places]
                for r in range(case.size)
            ])  # fmt: skip
        found.append([g.numpy() for g in pulled(outs, [x for x in own if x.requires_grad])])
    agree(case, *found)


@pytest.mark.parametrize("case", daily(cases(False), 150, "vmap"), ids=str)
def test_values(case: Batched) -> None:
    check_values(case)


@pytest.mark.parametrize("case", daily(cases(True), 100, "vmap gradients"), ids=str)
def test_gradients(case: Batched) -> None:
    check_gradients(case)


@pytest.mark.campaign
@pytest.mark.parametrize("name", sorted(set(ROWS) - APART))
def test_all_values(name: str) -> None:
    for case in cases(False):
        if case.info.op.name == name:
            check_values(case)


@pytest.mark.campaign
@pytest.mark.parametrize("name", sorted(n for n in set(ROWS) - APART if ROWS[n].grad))
def test_all_gradients(name: str) -> None:
    for case in cases(True):
        if case.info.op.name == name:
            check_gradients(case)
