"""Calls of an op in every mode, and what their results are held to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import staticflow as sf
from opinfo.core import Array, OpInfo, Sample, values
from staticflow import pytree
from staticflow.graph.dims import Dim, Size, Sym
from staticflow.graph.dtypes import dtype_of, float64
from staticflow.graph.graph import Graph, close, new_param
from staticflow.graph.node import Node
from staticflow.graph.types import TensorType
from staticflow.ops.symbols.gradient import pullback
from staticflow.ops.symbols.symbol import Symbol

__all__ = [
    "STOPS", "arrays_of", "assert_agree", "call", "expected_of", "gradient_graph", "graph_of", "params_for",
    "run_eagerly", "weights",
]  # fmt: skip


STOPS = {"stop_gradient"}
"""Ops whose cotangents are not what differences give, on purpose."""


def arrays_of(sample: Sample) -> list[Array]:
    return [a for a in pytree.flatten(sample.args)[0] if isinstance(a, np.ndarray)]


def with_arrays(sample: Sample, replacements: Sequence[Any]) -> Any:
    """The arguments of a sample with something else in place of each array."""
    rest = iter(replacements)
    return pytree.map_tree(lambda a: next(rest) if isinstance(a, np.ndarray) else a, sample.args)


def call(info: OpInfo, sample: Sample, arguments: Sequence[Any]) -> list[Any]:
    return pytree.flatten(info.call(*with_arrays(sample, arguments), **sample.kwargs))[0]


def run_eagerly(info: OpInfo, sample: Sample) -> list[Array]:
    tensors = [sf.from_numpy(a) for a in arrays_of(sample)]
    return [out.numpy() for out in call(info, sample, tensors)]


def expected_of(info: OpInfo, sample: Sample) -> list[Array]:
    out = info.expect(*sample.args, **sample.kwargs)
    return [np.asarray(a) for a in pytree.flatten(out)[0]]


def params_for(arrays: Sequence[Array], unknown: int | None = None) -> list[Node]:
    """A param for each array; dims of size ``unknown`` are one size that is not known."""
    n = Dim.of(Sym("n"))
    made = []
    for i, a in enumerate(arrays):
        shape: tuple[Size, ...] = tuple(n if d == unknown else d for d in a.shape)
        made.append(new_param(TensorType(dtype_of(a.dtype), shape), f"x{i}"))
    return made


def graph_of(info: OpInfo, sample: Sample, unknown: int | None = None) -> Graph:
    params = params_for(arrays_of(sample), unknown)
    outs = call(info, sample, [Symbol(p) for p in params])
    return close(params, [o.node for o in outs])


def assert_agree(info: OpInfo, actual: Sequence[Any], wanted: Sequence[Any], what: str) -> None:
    assert len(actual) == len(wanted), what
    for a, w in zip(actual, wanted, strict=True):
        assert (a.dtype, a.shape) == (w.dtype, w.shape), what
        dtype = dtype_of(w.dtype)
        if not dtype.is_floating:
            np.testing.assert_array_equal(a, w, what)
            continue
        wide_a, wide_w = a.astype(np.float64), w.astype(np.float64)
        np.testing.assert_allclose(wide_a, wide_w, *info.tolerance(dtype), err_msg=what)
        if info.zeros or info.exact:
            zeros = (wide_w == 0) & (wide_a == 0)
            np.testing.assert_array_equal(
                np.signbit(wide_a[zeros]), np.signbit(wide_w[zeros]), f"signs of zeros: {what}"
            )


def weights(outs: Sequence[Any], seed: int) -> list[Array]:
    """A cotangent for each output."""
    return [values(tuple(o.shape), float64, 0.5, 2, seed=seed + i) for i, o in enumerate(outs)]


def gradient_graph(info: OpInfo, sample: Sample, unknown: int | None = None) -> Graph | None:
    """The gradients of the weighted outputs, with cotangents as further params."""
    params = params_for(arrays_of(sample), unknown)
    outs = [o for o in call(info, sample, [Symbol(p) for p in params]) if o.dtype.is_floating]
    cts = [new_param(o.node.tensor_type, "ct") for o in outs]
    real = [Symbol(p) for p in params if p.tensor_type.dtype.is_floating]
    found = pullback(outs, [Symbol(c) for c in cts], real)
    for p, g in zip(real, found, strict=True):
        assert g is None or g.node.tensor_type == p.node.tensor_type, f"{g} for {p}"
    kept = [g.node for g in found if g is not None]
    return close((*params, *cts), kept) if kept else None
