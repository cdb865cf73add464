"""`vmap` of every op, against a loop over the rows: a day's share in the suite, all as a campaign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from batching import Batched, batches_of, loop_over_rows, map_over_rows, tensors_of
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

REFUSED = {"agree", "begin", "end", "measure", "print"}
"""Ops without a rule: of sizes that would differ from row to row, prints, and what only a pass
writes."""

APART = REFUSED | {"prefix", "tied", "unprefix", "while"} | {op.name for op in DRAWS}
"""Ops whose row of the table measures a size, keeps all iterations of a loop, or draws: they have
tests of their own."""

NAMES = sorted(set(ROWS) - APART)
DTYPES = [(name, dtype) for name in NAMES for dtype in ROWS[name].dtypes]
SMOOTH = [name for name in NAMES if ROWS[name].grad and float64 in ROWS[name].dtypes]


def test_every_op_has_a_rule_or_is_refused() -> None:
    without = {name for name, op in OPS.items() if op.infer and rule_of(op) is None}
    generated = {"full", "iota", "size"}  # which have no arguments
    assert without == REFUSED | generated


def agree(case: Batched, actual: Sequence[Array], wanted: Sequence[Array]) -> None:
    assert len(actual) == len(wanted), case
    for a, w in zip(actual, wanted, strict=True):
        assert (a.dtype, a.shape) == (w.dtype, w.shape), case
        if a.dtype.kind in "iub":
            np.testing.assert_array_equal(a, w, str(case))
            continue
        relative, absolute = case.info.tolerance(dtype_of(w.dtype))
        eps = float(np.finfo(np.float32 if a.dtype.itemsize < 8 else a.dtype).eps)
        eps = eps if a.dtype.itemsize > 2 else 1 / 128  # bfloat16 has 8 bits
        bound = max(relative, absolute, 64 * eps)
        np.testing.assert_allclose(
            a.astype(np.float64), w.astype(np.float64), rtol=bound, atol=bound, err_msg=str(case)
        )


def wanted_of(case: Batched) -> list[Array]:
    """What a loop over the rows gives."""
    rows = [tensors_of([a.copy() for a in row]) for row in case.rows]
    return [y.numpy() for y in loop_over_rows(case, rows)]


def check_values(case: Batched) -> None:
    """Eagerly, and in a graph."""
    actual = [y.numpy() for y in map_over_rows(case, tensors_of(case.arrays))]
    if case.size:
        agree(case, actual, wanted_of(case))
    assert all(len(y) == case.size for y in actual), case
    params = [new_param(TensorType(dtype_of(a.dtype), a.shape), "x") for a in case.arrays]
    outs = map_over_rows(case, [Symbol(p) for p in params])
    graph = close(params, [o.node for o in outs])
    agree(case, interpret_graph(graph, case.arrays), actual)


def check_programs(case: Batched) -> None:
    """As a program in which the number of rows is unknown."""
    xs = []
    for a, dim in zip(case.arrays, case.in_dims, strict=True):
        shape: list[Any] = list(a.shape)
        if dim is not None:
            shape[dim] = "rows"
        xs.append(sf.placeholder(tuple(shape), dtype_of(a.dtype)))
    program = sf.compile(xs, map_over_rows(case, xs))
    actual = [y.numpy() for y in program(*tensors_of(case.arrays))]
    assert all(len(y) == case.size for y in actual), case
    if case.size:
        agree(case, actual, wanted_of(case))


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
    if not case.size:
        return
    found = []
    for is_mapped in (True, False):
        own = tensors_of([a.copy() for a in case.arrays])
        own = [x.requires_grad_() if x.dtype.is_floating else x for x in own]
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


def some_of(name: str, dtype: Any, smooth: bool, count: int) -> list[Batched]:
    """A few cases of a row of the table, others every day."""
    return daily(list(batches_of(ROWS[name], dtype, smooth)), count, f"vmap {name} {dtype.name}")


@pytest.mark.parametrize(("name", "dtype"), daily(DTYPES, 150, "vmap"), ids=str)
def test_values(name: str, dtype: Any) -> None:
    for case in some_of(name, dtype, False, 2):
        check_values(case)


@pytest.mark.parametrize(("name", "dtype"), daily(DTYPES, 20, "vmap programs"), ids=str)
def test_programs(name: str, dtype: Any) -> None:
    for case in some_of(name, dtype, False, 1):
        check_programs(case)


@pytest.mark.parametrize("name", daily(SMOOTH, 70, "vmap gradients"))
def test_gradients(name: str) -> None:
    for case in some_of(name, float64, True, 2):
        check_gradients(case)


@pytest.mark.campaign
@pytest.mark.parametrize(("name", "dtype"), DTYPES, ids=str)
def test_all_values(name: str, dtype: Any) -> None:
    for case in batches_of(ROWS[name], dtype, False):
        check_values(case)


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_many_programs(name: str) -> None:
    for case in some_of(name, ROWS[name].dtypes[0], False, 20):
        check_programs(case)


@pytest.mark.campaign
@pytest.mark.parametrize("name", SMOOTH)
def test_all_gradients(name: str) -> None:
    for case in batches_of(ROWS[name], float64, True):
        check_gradients(case)
