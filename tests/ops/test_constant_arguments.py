"""Derivatives of ops one argument of which is a constant: those where it is an input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_derivatives import differentiable_names, own_arrays, weighted
from opinfo import ROWS
from opinfo.core import Array, OpInfo, Sample
from opinfo.modes import call, params_for

import staticflow as sf
from staticflow.graph.dtypes import dtype_of, float64
from staticflow.graph.graph import close, new_param
from staticflow.graph.interpret import interpret_graph
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType
from staticflow.ops.symbols.captured import constant_node
from staticflow.ops.symbols.symbol import Symbol


def _derivatives(info: OpInfo, sample: Sample, params: list[Node], number: Node, at: int) -> Any:
    """The first and second derivatives by the other arguments where argument ``at`` is ``number``;
    None if the op takes no number there, or if none is floating."""
    handles = [Symbol(number if i == at else p) for i, p in enumerate(params)]
    others = [h for i, h in enumerate(handles) if i != at and h.dtype.is_floating]
    try:
        outs = call(info, sample, handles)
    except Exception:  # internal ops index the sizes that they ask for
        return None
    real = [o for o in outs if o.dtype.is_floating]
    if not others or not real:
        return None
    first = sf.grad(weighted(real), others, allow_unused=True, create_graph=True)
    known = [g for g in first if g is not None]
    second = sf.grad(weighted(known), others, allow_unused=True) if known else []
    return [None if g is None else g.node for g in (*first, *second)]


def _values(inputs: list[Node], found: list[Any], arrays: list[Array]) -> list[Array]:
    outs = [n for n in found if n is not None]
    return list(interpret_graph(close(inputs, outs), arrays)) if outs else []


def _check(info: OpInfo, sample: Sample, at: int) -> None:
    """Derivatives are the same whether argument ``at``, if it may be a number, is a constant."""
    arrays = own_arrays(sample)
    array, params = arrays[at], params_for(arrays)
    given = array.reshape(-1)[0]
    open_number = new_param(TensorType(dtype_of(array.dtype), ()), "number", None)
    constant = constant_node(given.item(), dtype_of(array.dtype))
    try:
        wanted = _derivatives(info, sample, params, open_number, at)
        if wanted is None:
            return
        inputs = [*params, open_number]
        rest = [*arrays, np.asarray(given)]
        expected = _values(inputs, wanted, rest)
    except Exception:  # the number is no index of these shapes
        return
    found = _derivatives(info, sample, params, constant, at)
    # what is known of a constant may show that nothing depends
    pairs = zip(found, wanted, strict=True)
    kept = [(a, b) for a, b in pairs if a is not None and b is not None]
    values = _values(inputs, [a for a, _ in kept], rest)
    of_wanted = iter(expected)
    by_node = {n: next(of_wanted) for n in [n for n in wanted if n is not None]}
    for value, (_, want) in zip(values, kept, strict=True):
        np.testing.assert_allclose(value, by_node[want], 1e-9, 1e-12, err_msg=f"{info.op}, {at}")


@pytest.mark.parametrize("name", differentiable_names)
def test_derivatives_beside_a_constant(name: str) -> None:
    info = ROWS[name]
    for sample in info.samples(float64, True):
        for at, array in enumerate(own_arrays(sample)):
            if array.size:
                _check(info, sample, at)
